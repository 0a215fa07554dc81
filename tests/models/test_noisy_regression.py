"""Regression on noisy statistics: against dense linear algebra, exact Bayes, and its own derivation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.noisy_regression import WeightPosterior, posterior_from_block_statistics

pytestmark = pytest.mark.numerics

PRIOR, REWARD = 0.2, 0.25


def noise_covariance(K: int) -> np.ndarray:
    """(R^T R)^-1 for the square-root Toeplitz R, whose columns are scaled to norm one."""
    c = np.cumprod([1.0, *((2 * k - 1) / (2 * k) for k in range(1, K))])
    R = np.array([[c[i - j] if i >= j else 0.0 for j in range(K)] for i in range(K)])
    R /= np.linalg.norm(R, axis=0)
    return np.linalg.inv(R.T @ R)


def symmetric_noise(rng: np.random.Generator, m: int) -> np.ndarray:
    Z = rng.normal(size=(m, m)) / np.sqrt(2.0)
    return (Z + Z.T) / np.sqrt(2.0)


def problem(
    m: int = 6, K: int = 4, gram_sd: float = 1.5, vector_sd: float = 0.7, seed: int = 0, n: int = 30
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    N = noise_covariance(K)
    mix = np.linalg.cholesky(N)
    phi = rng.normal(size=(K, n, m)) * np.arange(1, m + 1) ** -1.0
    phi /= np.maximum(1.0, np.linalg.norm(phi, axis=2, keepdims=True))
    weights = rng.normal(size=m) * np.sqrt(PRIOR)
    z = phi @ weights + np.sqrt(REWARD) * rng.normal(size=(K, n))
    grams, vectors = np.swapaxes(phi, 1, 2) @ phi, np.einsum("knm,kn->km", phi, z)
    E = np.tensordot(mix, np.stack([symmetric_noise(rng, m) for _ in range(K)]), axes=1)
    e = mix @ rng.normal(size=(K, m))
    return {
        "phi": phi.reshape(K * n, m),
        "z": z.reshape(K * n),
        "true_grams": grams,
        "true_vectors": vectors,
        "grams": grams + gram_sd * E,
        "vectors": vectors + vector_sd * e,
        "N": N,
        "prior_grams": np.stack([n * np.diag(np.mean(phi**2, axis=(0, 1)))] * K),
        "prior_gram_sd": 0.03 * n * np.linspace(0.5, 8.0, K),  # uneven, so that W is not symmetric
    }


def clip(G: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(G)
    return vectors * np.maximum(values, 0.0) @ vectors.T


def dense_block_posterior(
    grams: np.ndarray,
    vectors: np.ndarray,
    N: np.ndarray,
    gram_sd: float,
    vector_sd: float,
    prior_grams: np.ndarray | None = None,
    prior_gram_sd: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Steps (3) and (4) as printed in the notes, with every matrix written out."""
    K, m = vectors.shape
    if prior_grams is None or prior_gram_sd is None:
        shrunk, Q = grams, gram_sd**2 * N
    else:
        V = np.diag(prior_gram_sd**2)
        W = V @ np.linalg.inv(V + gram_sd**2 * N)
        shrunk = prior_grams + np.einsum("kl,lij->kij", W, grams - prior_grams)
        Q = V - W @ V
    clipped = np.stack([clip(G) for G in shrunk])
    Cov = np.kron(vector_sd**2 * N + (1 + 1 / m) * Q / 2, np.eye(m))
    for k in range(K):
        Cov[k * m : (k + 1) * m, k * m : (k + 1) * m] += REWARD * clipped[k]
    H = clipped.reshape(K * m, m)
    precision = H.T @ np.linalg.solve(Cov, H) + np.eye(m) / PRIOR
    covariance = np.linalg.inv(precision)
    return covariance @ H.T @ np.linalg.solve(Cov, vectors.reshape(-1)), covariance


def block(data: dict[str, np.ndarray], gram_sd: float, vector_sd: float, **more: object) -> WeightPosterior:
    return posterior_from_block_statistics(
        data["grams"],
        data["vectors"],
        noise_covariance=data["N"],
        gram_noise_sd=gram_sd,
        vector_noise_sd=vector_sd,
        prior_variance=PRIOR,
        reward_variance=REWARD,
        **more,  # type: ignore[arg-type]
    )


def simple(
    gram: np.ndarray, vector: np.ndarray, gram_sd: float, vector_sd: float, **more: object
) -> WeightPosterior:
    """The posterior of one noisy pair."""
    return posterior_from_block_statistics(
        gram[None],
        vector[None],
        noise_covariance=np.eye(1),
        gram_noise_sd=gram_sd,
        vector_noise_sd=vector_sd,
        prior_variance=PRIOR,
        reward_variance=REWARD,
        **more,  # type: ignore[arg-type]
    )


@given(
    m=st.integers(1, 9),
    K=st.integers(1, 6),
    gram_sd=st.sampled_from([0.0, 0.01, 1.0, 30.0]),
    vector_sd=st.sampled_from([0.01, 1.0, 30.0]),
    shrink=st.booleans(),
    seed=st.integers(0, 1_000),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_block_form_equals_the_dense_formulas(
    m: int, K: int, gram_sd: float, vector_sd: float, shrink: bool, seed: int
) -> None:
    data = problem(m=m, K=K, gram_sd=gram_sd, vector_sd=vector_sd, seed=seed)
    prior = {"prior_grams": data["prior_grams"], "prior_gram_sd": data["prior_gram_sd"]} if shrink else {}
    ours = block(data, gram_sd, vector_sd, **prior)
    mean, covariance = dense_block_posterior(
        data["grams"], data["vectors"], data["N"], gram_sd, vector_sd, **prior
    )
    np.testing.assert_allclose(ours.covariance, covariance, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(ours.mean, mean, rtol=1e-6, atol=1e-8)


def test_many_features_are_regressed_on_by_the_same_formulas() -> None:
    """Past a panel of the triangular solver, where other calls do the work."""
    data = problem(m=140, K=3, gram_sd=0.5, vector_sd=0.3, n=200)
    prior = {"prior_grams": data["prior_grams"], "prior_gram_sd": data["prior_gram_sd"]}
    ours = block(data, 0.5, 0.3, **prior)
    mean, covariance = dense_block_posterior(data["grams"], data["vectors"], data["N"], 0.5, 0.3, **prior)
    np.testing.assert_allclose(ours.covariance, covariance, atol=1e-9)
    np.testing.assert_allclose(ours.mean, mean, atol=1e-9)


def test_with_exact_grams_it_is_gaussian_conditioning() -> None:
    """Conditioning the joint law of (weights, vectors), which never mentions a precision."""
    data = problem(gram_sd=0.0, vector_sd=0.7)
    K, m = data["vectors"].shape
    H = data["grams"].reshape(K * m, m)
    of_vectors = PRIOR * H @ H.T + 0.7**2 * np.kron(data["N"], np.eye(m))
    for k in range(K):
        of_vectors[k * m : (k + 1) * m, k * m : (k + 1) * m] += REWARD * data["grams"][k]
    gain = PRIOR * np.linalg.solve(of_vectors, H).T
    ours = block(data, 0.0, 0.7)
    np.testing.assert_allclose(ours.mean, gain @ data["vectors"].reshape(-1), atol=1e-10)
    np.testing.assert_allclose(ours.covariance, PRIOR * (np.eye(m) - gain @ H), atol=1e-10)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-6])
@pytest.mark.parametrize("n", [3, 30], ids=["rank deficient", "full rank"])
def test_without_noise_it_is_bayesian_linear_regression(noise: float, n: int) -> None:
    data = problem(m=8, gram_sd=0.0, vector_sd=0.0, n=n)
    precision = data["phi"].T @ data["phi"] / REWARD + np.eye(8) / PRIOR
    mean = np.linalg.solve(precision, data["phi"].T @ data["z"] / REWARD)
    prior = {"prior_grams": data["prior_grams"], "prior_gram_sd": data["prior_gram_sd"]}
    for ours in (
        simple(data["grams"].sum(axis=0), data["vectors"].sum(axis=0), noise, noise),
        block(data, noise, noise),
        block(data, noise, noise, **prior),
    ):
        np.testing.assert_allclose(ours.mean, mean, atol=1e-5 if noise else 1e-10)
        np.testing.assert_allclose(ours.covariance, np.linalg.inv(precision), atol=1e-5 if noise else 1e-10)


@pytest.mark.parametrize("m", [1, 2, 7])
def test_noise_of_the_gram_reaches_the_vector_as_derived(m: int) -> None:
    """Sum over an orthonormal basis B of the symmetric matrices: (B w)(B w)^T = (|w|^2 I + w w^T) / 2."""
    w = np.random.default_rng(0).normal(size=m)
    w /= np.linalg.norm(w)
    total = np.zeros((m, m))
    for i in range(m):
        for j in range(i, m):
            B = np.zeros((m, m))
            B[i, j] = B[j, i] = 1.0 if i == j else np.sqrt(0.5)
            total += np.outer(B @ w, B @ w)
    np.testing.assert_allclose(total, (np.eye(m) + np.outer(w, w)) / 2, atol=1e-14)
    np.testing.assert_allclose(np.trace(total) / m, (1 + 1 / m) / 2, atol=1e-14)
    # ... and the code uses that number: noise of the Gram alone acts like this noise of the vector.
    data = problem(m=m)
    gram, vector = data["grams"][0], data["vectors"][0]
    np.testing.assert_allclose(
        simple(gram, vector, 2.0, 0.0).covariance,
        simple(gram, vector, 0.0, 2.0 * np.sqrt((1 + 1 / m) / 2)).covariance,
        atol=1e-12,
    )


def test_shrinking_is_the_conditional_mean_of_every_coordinate() -> None:
    """Trust nothing: the released Gram. Trust everything: the prior. Between: the prior pulls."""
    data = problem(gram_sd=2.0)
    K = len(data["grams"])

    def with_trust(sd: float) -> WeightPosterior:
        return block(data, 2.0, 0.7, prior_grams=data["prior_grams"], prior_gram_sd=np.full(K, sd))

    np.testing.assert_allclose(with_trust(1e7).mean, block(data, 2.0, 0.7).mean, atol=1e-6)
    trusted = {**data, "grams": data["prior_grams"]}
    np.testing.assert_allclose(with_trust(0.0).mean, block(trusted, 0.0, 0.7).mean, atol=1e-10)
    np.testing.assert_allclose(with_trust(0.0).covariance, block(trusted, 0.0, 0.7).covariance, atol=1e-10)


@pytest.mark.parametrize("form", ["simple", "block", "shrunk"])
def test_supports_are_separate_problems(form: str) -> None:
    parts = [problem(m=3, seed=1), problem(m=4, seed=2)]
    supports = ((0, 3), (3, 7))
    joined = dict(parts[0])
    for name in ("grams", "prior_grams"):
        joined[name] = np.zeros((4, 7, 7))
        for (low, high), part in zip(supports, parts, strict=True):
            joined[name][:, low:high, low:high] = part[name]
    joined["vectors"] = np.concatenate([part["vectors"] for part in parts], axis=1)

    def solve(data: dict[str, np.ndarray], **more: object) -> WeightPosterior:
        if form == "simple":
            return simple(data["grams"].sum(axis=0), data["vectors"].sum(axis=0), 1.5, 0.7, **more)
        if form == "shrunk":
            more = {**more, "prior_grams": data["prior_grams"], "prior_gram_sd": data["prior_gram_sd"]}
        return block(data, 1.5, 0.7, **more)

    ours = solve(joined, supports=supports)
    Phi = np.random.default_rng(3).normal(size=(5, 7))
    mean, sd = ours.predict(Phi)
    expected_mean, expected_variance = 0.0, 0.0
    for (low, high), part in zip(supports, parts, strict=True):
        alone = solve(part)
        np.testing.assert_allclose(ours.mean[low:high], alone.mean, atol=1e-12)
        m_, s_ = alone.predict(Phi[:, low:high])
        expected_mean, expected_variance = expected_mean + m_, expected_variance + s_**2
    np.testing.assert_allclose(mean, expected_mean, atol=1e-12)
    np.testing.assert_allclose(sd**2, expected_variance, atol=1e-12)
    assert np.all(ours.factor[:3, 3:] == 0.0)
    assert np.all(ours.factor[3:, :3] == 0.0)


def test_prediction_and_draws_follow_the_factor() -> None:
    posterior = block(problem(), 1.5, 0.7)
    Phi = np.random.default_rng(0).normal(size=(2, 5, 6))
    mean, sd = posterior.predict(Phi)
    np.testing.assert_allclose(mean, Phi @ posterior.mean, atol=1e-14)
    np.testing.assert_allclose(sd**2, np.einsum("abi,ij,abj->ab", Phi, posterior.covariance, Phi), atol=1e-12)
    normals = np.random.default_rng(1).normal(size=(4, 6))
    draws = posterior.sample_weights(normals)
    np.testing.assert_allclose(draws, posterior.mean + normals @ posterior.factor.T, atol=1e-14)
    np.testing.assert_allclose(
        posterior.sample_weights(normals, scale=0.25) - posterior.mean,
        0.25 * (draws - posterior.mean),
        atol=1e-14,
    )
    np.testing.assert_array_equal(posterior.sample_weights(normals, scale=0.0), [posterior.mean] * 4)


def test_statistics_that_are_all_noise_return_the_prior() -> None:
    negative = -np.eye(3)[None]
    for ours in (
        block({"grams": negative, "vectors": np.ones((1, 3)), "N": np.eye(1)}, 1.0, 1.0),
        simple(negative[0], np.ones(3), 1.0, 1.0),
        block({"grams": negative, "vectors": np.ones((1, 3)), "N": np.eye(1)}, 0.0, 0.0),
    ):
        np.testing.assert_allclose(ours.mean, 0.0, atol=1e-15)
        np.testing.assert_allclose(ours.covariance, PRIOR * np.eye(3), atol=1e-15)


@pytest.mark.parametrize("n", [2, 30], ids=["undetermined", "determined"])
def test_exact_statistics_update_any_law_by_bayes(n: int) -> None:
    data = problem(m=6, gram_sd=0.0, vector_sd=0.0, n=n)
    supports = ((0, 6),)
    prior = WeightPosterior.prior(PRIOR, supports)
    ours = prior
    for gram, vector in zip(data["grams"], data["vectors"], strict=True):
        ours = ours.given([gram], vector, reward_variance=REWARD)
    exact = simple(data["grams"].sum(axis=0), data["vectors"].sum(axis=0), 0.0, 0.0)
    np.testing.assert_allclose(ours.mean, exact.mean, atol=1e-10)
    np.testing.assert_allclose(ours.covariance, exact.covariance, atol=1e-10)
    np.testing.assert_array_equal(prior.mean, np.zeros(6))


def test_exact_updates_keep_supports_apart() -> None:
    data = problem(m=7, K=1, gram_sd=0.0, vector_sd=0.0)
    supports = ((0, 3), (3, 7))
    gram, vector = data["grams"][0].copy(), data["vectors"][0]
    gram[:3, 3:] = gram[3:, :3] = 0.0
    ours = WeightPosterior.prior(PRIOR, supports).given(
        [gram[:3, :3], gram[3:, 3:]], vector, reward_variance=REWARD
    )
    exact = simple(gram, vector, 0.0, 0.0, supports=supports)
    np.testing.assert_allclose(ours.mean, exact.mean, atol=1e-12)
    np.testing.assert_allclose(ours.covariance, exact.covariance, atol=1e-12)
    assert ours.supports == supports


def test_standard_deviations_can_be_trusted() -> None:
    """Exact Grams, noisy vectors: standardised errors are chi-square. False alarms below 1e-7."""
    total, m, runs = 0.0, 6, 300
    for seed in range(runs):
        rng = np.random.default_rng([seed, 77])
        data = problem(m=m, gram_sd=0.0, vector_sd=0.7, seed=seed)
        weights = rng.normal(size=m) * np.sqrt(PRIOR)
        mix = np.linalg.cholesky(data["N"])
        for k in range(4):
            root = np.linalg.cholesky(data["grams"][k] + 1e-12 * np.eye(m))
            data["vectors"][k] = data["grams"][k] @ weights + np.sqrt(REWARD) * root @ rng.normal(size=m)
        data["vectors"] += 0.7 * mix @ rng.normal(size=(4, m))
        ours = block(data, 0.0, 0.7)
        total += np.sum(np.linalg.solve(ours.factor, weights - ours.mean) ** 2)
    # Mean 1800 and deviation 60 for a chi-square with 1800 degrees of freedom; 5.5 deviations.
    assert abs(total - runs * m) < 5.5 * np.sqrt(2 * runs * m)


@pytest.mark.parametrize(
    "change",
    [
        {"gram_noise_sd": -1.0},
        {"vector_noise_sd": np.nan},
        {"prior_variance": 0.0},
        {"reward_variance": 0.0},
        {"noise_covariance": -np.eye(4)},
        {"prior_gram_sd": np.ones(4)},
        {"prior_gram_sd": -np.ones(4), "prior_grams": np.zeros((4, 6, 6))},
        {"prior_gram_sd": np.full(4, 1e200), "prior_grams": np.zeros((4, 6, 6))},
        {"supports": ((0, 3), (4, 6))},
        {"supports": ((0, 3), (3, 3), (3, 6))},
        {"supports": ((0, 3),)},
        {"supports": ()},
    ],
)
def test_impossible_parameters_are_refused(change: dict[str, object]) -> None:
    data = problem()
    good = {
        "noise_covariance": data["N"],
        "gram_noise_sd": 1.0,
        "vector_noise_sd": 1.0,
        "prior_variance": PRIOR,
        "reward_variance": REWARD,
    }
    with pytest.raises(InvalidParameter):
        posterior_from_block_statistics(data["grams"], data["vectors"], **{**good, **change})  # type: ignore[arg-type]


def test_wrong_shapes_are_refused() -> None:
    data = problem()
    posterior = block(data, 1.0, 1.0)
    nan = np.full((4, 6), np.nan)
    for build in (
        lambda: block({**data, "vectors": data["vectors"][:, :5]}, 1.0, 1.0),
        lambda: block({**data, "vectors": data["vectors"][0]}, 1.0, 1.0),
        lambda: block({**data, "N": np.eye(3)}, 1.0, 1.0),
        lambda: block({**data, "vectors": nan}, 1.0, 1.0),
        lambda: block(data, 1.0, 1.0, prior_grams=np.zeros((4, 5, 5)), prior_gram_sd=np.ones(4)),
        lambda: block({**data, "N": np.triu(data["N"])}, 1.0, 1.0),
        lambda: block({**data, "grams": np.tril(data["grams"])}, 1.0, 1.0),
        lambda: block(data, 1.0, 1.0, prior_grams=np.tril(data["grams"]), prior_gram_sd=np.ones(4)),
        lambda: simple(np.eye(3), np.ones(4), 1.0, 1.0),
        lambda: simple(np.tril(np.ones((4, 4))), np.ones(4), 1.0, 1.0),
        lambda: posterior.given([np.eye(5)], np.ones(5), reward_variance=REWARD),
        lambda: posterior.given([np.eye(6)], np.ones(5), reward_variance=REWARD),
        lambda: posterior.predict(np.ones((2, 5))),
        lambda: posterior.sample_weights(np.ones(6)),
    ):
        with pytest.raises(InvalidData):
            build()

"""Gaussian processes: against scikit-learn, against each other, over long runs, and through storage."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models import gaussian_process as module
from dpbandits.models.gaussian_process import ExactGP, FeatureGP, PoolGP
from dpbandits.models.kernels import Indicator, Kernel, Matern, SquaredExponential
from dpbandits.models.kernels.base import RowEvaluator

pytestmark = pytest.mark.numerics

KERNEL = Matern(nu=2.5, lengthscale=(0.3, 0.6))


def world(n: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=n)


def dense(kernel: Kernel, noise_sd: float, X: np.ndarray, y: np.ndarray, X_new: np.ndarray) -> tuple:
    K = kernel(X) + noise_sd**2 * np.eye(len(X))
    cross = kernel(X_new, X)
    mean = cross @ np.linalg.solve(K, y)
    covariance = kernel(X_new) - cross @ np.linalg.solve(K, cross.T)
    return mean, np.sqrt(np.diag(covariance))


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, None])
@pytest.mark.parametrize("how", ["one by one", "at once", "in two parts"])
def test_agrees_with_scikit_learn(nu: float | None, how: str) -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process import kernels as reference

    X, y = world()
    X_new = np.random.default_rng(5).random((60, 2))
    lengthscale = (0.3, 0.6)
    ours: Kernel = SquaredExponential(lengthscale=lengthscale)
    theirs = reference.RBF(lengthscale)
    if nu is not None:
        ours, theirs = Matern(nu=nu, lengthscale=lengthscale), reference.Matern(lengthscale, nu=nu)
    gp = ExactGP(kernel=ours, noise_sd=0.1, capacity=7)
    if how == "one by one":
        for x, value in zip(X, y, strict=True):
            gp.add(x, value)
    elif how == "at once":
        gp.add_batch(X, y)
    else:
        gp.add_batch(X[:25], y[:25])
        gp.add_batch(X[25:], y[25:])
    other = GaussianProcessRegressor(kernel=theirs, alpha=0.1**2, optimizer=None).fit(X, y)
    mean, sd = gp.predict(X_new)
    expected_mean, expected_sd = other.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-8)
    np.testing.assert_allclose(sd, expected_sd, atol=1e-8)
    assert gp.n_observations == 40


@given(seed=st.integers(0, 10_000), n=st.integers(1, 25), noise_sd=st.sampled_from([0.01, 0.3, 2.0]))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_a_pool_is_the_exact_process_on_its_points(seed: int, n: int, noise_sd: float) -> None:
    rng = np.random.default_rng(seed)
    pool = rng.random((12, 2))
    indices, y = rng.integers(0, 12, size=n), rng.normal(size=n)  # repeated queries included
    gp = PoolGP(kernel=KERNEL, pool=pool, noise_sd=noise_sd, capacity=3)
    for index, value in zip(indices, y, strict=True):
        gp.add(int(index), value)
    mean, sd = dense(KERNEL, noise_sd, pool[indices], y, pool)
    np.testing.assert_allclose(gp.mean, mean, atol=1e-7)
    np.testing.assert_allclose(np.sqrt(gp.variance), sd, atol=1e-6)


def test_a_pool_point_is_itself_under_a_kernel_that_expects_noisy_inputs() -> None:
    """k(x, x) = 1, but k(x, y) -> 0.6 for y -> x: only the point itself is learned about fully."""

    class Smoothed(SquaredExponential):
        def _evaluator(self, Y: np.ndarray) -> RowEvaluator:
            inner = super()._evaluator(Y)

            def fill(X: np.ndarray, out: np.ndarray) -> None:
                inner(X, out)
                out *= 0.6

            return fill

    gp = PoolGP(kernel=Smoothed(lengthscale=0.3), pool=[[0.0], [0.0], [9.0]], noise_sd=0.001)
    gp.add(0, 1.0)
    np.testing.assert_allclose(gp.mean, [1.0, 0.6, 0.0], atol=1e-5)
    np.testing.assert_allclose(gp.variance, [0.0, 1 - 0.36, 1.0], atol=1e-5)


def test_what_a_pool_imagines_is_forgotten() -> None:
    """The state is equal bit for bit, also after its arrays grew, and after an error inside the context."""
    rng = np.random.default_rng(3)
    pool = rng.random((30, 2))
    gp, other = (PoolGP(kernel=KERNEL, pool=pool, noise_sd=0.1, capacity=4) for _ in range(2))
    for index in range(3):
        gp.add(index, float(index))
        other.add(index, float(index))
    with gp.imagining():
        for index in (7, 8, 9, 10):
            gp.add(index, gp.mean_at(index))
        np.testing.assert_allclose(gp.mean, other.mean, atol=1e-12)
        assert (gp.variance <= other.variance).all()
        assert (gp.variance[[7, 8, 9, 10]] < 0.02).all()

    def fails() -> None:
        with gp.imagining():
            gp.add(11, 5.0)
            gp.add(30, 5.0)

    with pytest.raises(InvalidData):
        fails()
    for index in (20, 21):
        gp.add(index, 1.0)
        other.add(index, 1.0)
    np.testing.assert_array_equal(gp.mean, other.mean)
    np.testing.assert_array_equal(gp.variance, other.variance)
    np.testing.assert_array_equal(gp.to_arrays()["indices"], other.to_arrays()["indices"])
    assert gp.n_observations == other.n_observations == 5


def test_a_pool_prepares_its_kernel_once_and_evaluates_one_row_an_observation() -> None:
    prepared, evaluated = [], []

    class Counting(SquaredExponential):
        def _evaluator(self, Y: np.ndarray) -> RowEvaluator:
            inner = super()._evaluator(Y)
            prepared.append(len(Y))

            def fill(X: np.ndarray, out: np.ndarray) -> None:
                evaluated.append(len(X))
                inner(X, out)

            return fill

    gp = PoolGP(kernel=Counting(lengthscale=0.3), pool=np.random.default_rng(1).random((40, 2)), noise_sd=0.1)
    for index in range(12):
        gp.add(index, 0.5)
    assert (prepared, evaluated) == ([40], [1] * 12)


def test_before_any_observation_the_prior_speaks() -> None:
    kernel = 2.0 * KERNEL
    X = world()[0]
    pool = PoolGP(kernel=kernel, pool=X, noise_sd=0.1)
    for mean, sd in (
        ExactGP(kernel=kernel, noise_sd=0.1).predict(X),
        (pool.mean, np.sqrt(pool.variance)),
        FeatureGP(2, prior_variance=2.0, noise_variance=1.0).predict_from_features(
            X / np.linalg.norm(X, axis=1, keepdims=True)
        ),
    ):
        np.testing.assert_allclose(mean, 0.0)
        np.testing.assert_allclose(sd, np.sqrt(2.0))


@given(
    seed=st.integers(0, 10_000),
    m=st.integers(1, 8),
    sizes=st.lists(st.integers(0, 7), min_size=1, max_size=5),
    noise=st.sampled_from([1e-4, 0.25, 9.0]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_feature_regression_is_bayes_however_the_data_arrive(
    seed: int, m: int, sizes: list[int], noise: float
) -> None:
    rng = np.random.default_rng(seed)
    model = FeatureGP(m, prior_variance=0.7, noise_variance=noise)
    Phi, y = rng.normal(size=(sum(sizes), m)), rng.normal(size=sum(sizes))
    start = 0
    for position, size in enumerate(sizes):
        rows, values = Phi[start : start + size], y[start : start + size]
        if position % 2:
            for phi, value in zip(rows, values, strict=True):
                model.add(phi, value)
        else:
            model.add_batch(rows, values)
        start += size
    covariance = np.linalg.inv(Phi.T @ Phi / noise + np.eye(m) / 0.7)
    np.testing.assert_allclose(model.mean_weights, covariance @ Phi.T @ y / noise, atol=1e-7)
    new = rng.normal(size=(3, 2, m))
    mean, sd = model.predict_from_features(new)
    np.testing.assert_allclose(mean, new @ model.mean_weights, atol=1e-12)
    np.testing.assert_allclose(sd**2, np.einsum("abi,ij,abj->ab", new, covariance, new), atol=1e-8)
    np.testing.assert_allclose(model.posterior.covariance, covariance, atol=1e-8)


def test_what_was_looked_at_is_learned_as_its_features_are_and_stays_as_it_was() -> None:
    rng = np.random.default_rng(5)
    looking, plain = (FeatureGP(4, prior_variance=0.7, noise_variance=0.2) for _ in range(2))
    for _ in range(50):
        Phi, value = rng.normal(size=(3, 4)), rng.normal()
        looked = looking.look(Phi)
        before = looked.copy()
        for own, known in zip(looking.moments(looked), plain.predict_from_features(Phi), strict=True):
            np.testing.assert_allclose(own, known, rtol=1e-10)
        looking.add_looked(looked[1], value)
        plain.add(Phi[1], value)
        np.testing.assert_array_equal(looked, before)
    np.testing.assert_allclose(looking.mean_weights, plain.mean_weights, rtol=1e-10)
    np.testing.assert_allclose(
        looking.posterior.covariance, plain.posterior.covariance, rtol=1e-9, atol=1e-12
    )
    assert looking.n_observations == 50
    for bad, value in ((before[1], np.nan), (before[1] * np.inf, 0.1), (before[1, :4], 0.1)):
        kept = looking.to_arrays()
        with pytest.raises(InvalidData):
            looking.add_looked(bad, value)
        for name, array in looking.to_arrays().items():
            np.testing.assert_array_equal(array, kept[name])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["features", "value"])
def test_feature_regression_refuses_what_is_not_finite_and_stays_as_it_was(where: str, bad: float) -> None:
    model = FeatureGP(3, prior_variance=1.0, noise_variance=0.1)
    model.add([0.5, 0.1, 0.2], 0.3)
    before = {name: array.copy() for name, array in model.to_arrays().items()}
    phi, value = ([0.1, bad, 0.2], 0.3) if where == "features" else ([0.1, 0.2, 0.2], bad)
    with pytest.raises(InvalidData, match="NaN or infinite"):
        model.add(phi, value)
    with pytest.raises(InvalidData, match="expected"):
        model.add([0.1, 0.2], 0.3)
    with pytest.raises(InvalidData, match="or their squares are"):
        model.add([0.1, 0.2, 0.2], 1e200)
    for name, array in model.to_arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_feature_regression_stays_accurate_over_a_long_run() -> None:
    """100,000 rank-one updates, ill-conditioned features, against one factorisation of everything."""
    rng = np.random.default_rng(0)
    T, m = 100_000, 20
    Phi = rng.normal(size=(T, m)) * 10.0 ** -np.linspace(0, 6, m)
    y = Phi @ rng.normal(size=m) + 0.1 * rng.normal(size=T)
    slow, fast = (FeatureGP(m, prior_variance=1.0, noise_variance=0.01) for _ in range(2))
    for phi, value in zip(Phi, y, strict=True):
        slow.add(phi, value)
    fast.add_batch(Phi, y)
    np.testing.assert_allclose(slow.mean_weights, fast.mean_weights, atol=1e-8)
    np.testing.assert_allclose(slow.posterior.covariance, fast.posterior.covariance, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("noise_sd", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("how", ["one by one", "at once"])
def test_a_point_observed_hundreds_of_times_does_not_break_the_factor(how: str, noise_sd: float) -> None:
    """k(x, x) repeated is singular; the noise that keeps the factor alive is below rounding for 1e-9."""
    kernel = SquaredExponential(lengthscale=10.0)
    gp = ExactGP(kernel=kernel, noise_sd=noise_sd)
    if how == "one by one":
        pool = PoolGP(kernel=kernel, pool=[[0.5], [0.6]], noise_sd=noise_sd)
        for _ in range(300):
            gp.add([0.5], 1.0)
            pool.add(0, 1.0)
        np.testing.assert_allclose(pool.mean, 1.0, atol=1e-3)
        assert np.all(pool.variance < 1e-3)
    else:
        gp.add_batch(np.full((300, 1), 0.5), np.ones(300))
    mean, sd = gp.predict([[0.5]])
    np.testing.assert_allclose(mean, 1.0, atol=1e-3)
    assert sd[0] < 1e-2


def test_large_predictions_are_made_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    gp = ExactGP(kernel=KERNEL, noise_sd=0.1)
    gp.add_batch(*world())
    X = np.random.default_rng(3).random((101, 2))
    whole = gp.predict(X)
    monkeypatch.setattr(module, "PREDICTION_ELEMENTS", 40 * 7)
    for a, b in zip(whole, gp.predict(X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_what_was_looked_at_before_is_learned_the_same() -> None:
    """Past a panel of the solver, with candidates repeated, and looked at before another observation."""
    rng = np.random.default_rng(4)
    X, y = rng.random((300, 2)), rng.normal(size=300)
    looking, plain = (ExactGP(kernel=KERNEL, noise_sd=0.1, capacity=2) for _ in range(2))
    for t, (x, value) in enumerate(zip(X, y, strict=True)):
        if t % 3:
            looking.predict(np.stack([X[t - 1], x, x]))
        if t % 5 == 0:
            looking.predict(X[: t + 1])
            looking.add(X[0], value)
            plain.add(X[0], value)
        looking.add(x, value)
        plain.add(x, value)
    at = rng.random((50, 2))
    whole = np.concatenate(
        [np.insert(X[t : t + 1], 0, X[0], axis=0) if t % 5 == 0 else X[t : t + 1] for t in range(300)]
    )
    values = np.repeat(y, [2 if t % 5 == 0 else 1 for t in range(300)])
    joint = KERNEL(whole) + 0.01 * np.eye(len(whole))
    mean = KERNEL(at, whole) @ np.linalg.solve(joint, values)
    for gp in (looking, plain):
        np.testing.assert_allclose(gp.predict(at)[0], mean, atol=1e-9)
    np.testing.assert_allclose(looking.predict(at)[1], plain.predict(at)[1], atol=1e-9)


def carry_on(one: Any, two: Any, inputs: Iterable[Any], y: np.ndarray) -> None:
    """The second takes over the first one's arrays after 25 of the observations, and sees the rest."""
    for t, where in enumerate(inputs):
        one.add(where, y[t])
        if t == 24:
            two.load_arrays(one.to_arrays())
        elif t > 24:
            two.add(where, y[t])


def test_stored_arrays_continue_bit_for_bit() -> None:
    X, y = world()
    one, two = (ExactGP(kernel=KERNEL, noise_sd=0.1, capacity=3) for _ in range(2))
    carry_on(one, two, X, y)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))

    pool_one, pool_two = (PoolGP(kernel=KERNEL, pool=X, noise_sd=0.1) for _ in range(2))
    carry_on(pool_one, pool_two, [t % 7 for t in range(40)], y)
    np.testing.assert_array_equal(pool_one.mean, pool_two.mean)
    np.testing.assert_array_equal(pool_one.variance, pool_two.variance)
    with pytest.raises(InvalidData, match="without observations"):
        pool_two.load_arrays(pool_one.to_arrays())

    model_one, model_two = (FeatureGP(5, prior_variance=1.0, noise_variance=0.1) for _ in range(2))
    carry_on(model_one, model_two, np.random.default_rng(2).normal(size=(40, 5)), y)
    np.testing.assert_array_equal(model_one.mean_weights, model_two.mean_weights)
    np.testing.assert_array_equal(model_one.posterior.factor, model_two.posterior.factor)
    assert model_two.n_observations == 40


def test_a_fresh_object_stores_and_loads_nothing() -> None:
    exact = ExactGP(kernel=KERNEL, noise_sd=0.1)
    exact.load_arrays(ExactGP(kernel=KERNEL, noise_sd=0.1).to_arrays())
    pool = PoolGP(kernel=KERNEL, pool=world()[0], noise_sd=0.1)
    pool.load_arrays(pool.to_arrays())
    exact.add(*[part[0] for part in world()])
    assert (exact.n_observations, pool.n_observations) == (1, 0)


def test_what_is_returned_cannot_change_what_is_known() -> None:
    pool = PoolGP(kernel=KERNEL, pool=world()[0], noise_sd=0.1)
    model = FeatureGP(2, prior_variance=1.0, noise_variance=1.0)
    model.add([1.0, 1.0], 1.0)
    before = model.mean_weights
    pool.mean[:] = 7.0
    pool.variance[:] = 7.0
    model.mean_weights[:] = 7.0
    model.posterior.factor[:] = 7.0
    model.posterior.mean[:] = 7.0
    assert np.all(pool.mean == 0.0)
    assert np.all(pool.variance == 1.0)
    np.testing.assert_array_equal(model.mean_weights, before)
    assert model.posterior.factor.max() <= 1.0


def test_bad_observations_are_refused_and_change_nothing() -> None:
    exact = ExactGP(kernel=KERNEL, noise_sd=0.1)
    exact.add_batch(*world())
    pool = PoolGP(kernel=Indicator(columns=(0,)), pool=[[0.0], [1.0]], noise_sd=0.1)
    model = FeatureGP(2, prior_variance=1.0, noise_variance=1.0)
    cases = [
        lambda: exact.add([0.123456, np.nan], 1.0),
        lambda: exact.add([0.123456, 0.2], np.inf),
        lambda: exact.add([0.123456], 1.0),
        lambda: exact.add_batch([[0.1, 0.2]], [0.123456, 0.2]),
        lambda: pool.add(2, 0.123456),
        lambda: pool.add(-1, 0.123456),
        lambda: pool.add(0, np.nan),
        lambda: model.add([0.123456], 1.0),
        lambda: model.add([0.123456, np.nan], 1.0),
        lambda: model.add_batch([[1.0, 2.0, 3.0]], [0.123456]),
        lambda: model.predict_from_features([0.123456]),
        lambda: exact.load_arrays({}),
        lambda: exact.load_arrays({"inputs": np.ones((2, 2)), "factor": np.eye(3), "whitened": np.ones(3)}),
        lambda: model.load_arrays({"mean": np.ones(2), "factor": np.eye(3), "count": np.ones(2)}),
    ]
    for case in cases:
        with pytest.raises(InvalidData) as error:
            case()
        assert "123456" not in str(error.value)
    assert (exact.n_observations, pool.n_observations, model.n_observations) == (40, 0, 0)
    assert np.all(model.mean_weights == 0.0)


@pytest.mark.parametrize(
    "build",
    [
        lambda: ExactGP(kernel=KERNEL, noise_sd=0.0),
        lambda: ExactGP(kernel=KERNEL, noise_sd=0.1, capacity=0),
        lambda: PoolGP(kernel=KERNEL, pool=[[0.0, 0.0]], noise_sd=-1.0),
        lambda: PoolGP(kernel=KERNEL, pool=[[0.0, 0.0]], noise_sd=1.0, capacity=0),
        lambda: FeatureGP(0, prior_variance=1.0, noise_variance=1.0),
        lambda: FeatureGP(1, prior_variance=0.0, noise_variance=1.0),
        lambda: FeatureGP(1, prior_variance=1.0, noise_variance=float("nan")),
    ],
)
def test_impossible_parameters_are_refused(build: object) -> None:
    with pytest.raises(InvalidParameter):
        build()  # type: ignore[operator]

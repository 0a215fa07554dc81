"""Features: they approximate their kernel, keep the norm, project consistently and come back identical."""

import json
import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits import domains
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.features import (
    ArmFeatures,
    Features,
    LittleVariance,
    MercerFeatures,
    SectionFeatures,
    from_config,
    in_fixed_shapes,
    left_out,
)
from dpbandits.models.features import mercer as module
from dpbandits.models.features.additive import AdditiveFeatures
from dpbandits.models.kernels import Indicator, Matern, SquaredExponential
from dpbandits.models.kernels import base as kernel_module

pytestmark = pytest.mark.numerics

SQUARE = domains.Box(low=[0.0, -1.0], high=[1.0, 1.0])
GRID = domains.Finite(points=SQUARE.grid(7))
TEN = domains.Box(low=[0.0] * 10, high=[1.0] * 10)
MIXED = domains.Product(domains.Box(low=[0.0], high=[2.0]), domains.Arms(4))


def mercer(**changes: object) -> MercerFeatures:
    settings_ = {"kernel": Matern(nu=2.5, lengthscale=0.4), "domain": SQUARE, "n_features": 30, "seed": 3}
    return MercerFeatures(**{**settings_, **changes})  # type: ignore[arg-type]


CASES: dict[str, tuple[Features, domains.Domain]] = {
    "box": (mercer(), SQUARE),
    "finite": (mercer(domain=GRID, n_features=49), GRID),
    "finite subset": (mercer(domain=GRID, n_features=14), GRID),
    "few landmarks": (mercer(n_landmarks=30), SQUARE),
    "variance above one": (mercer(kernel=4.0 * Matern(nu=1.5, lengthscale=0.3)), SQUARE),
    "mixed": (
        mercer(
            kernel=Matern(nu=1.5, lengthscale=0.5, columns=(0,)) * Indicator(correlation=0.3, columns=(1,)),
            domain=MIXED,
        ),
        MIXED,
    ),
    "high dimension": (
        mercer(
            kernel=SquaredExponential(lengthscale=2.0), domain=domains.Box(low=[0.0] * 12, high=[1.0] * 12)
        ),
        domains.Box(low=[0.0] * 12, high=[1.0] * 12),
    ),
    "short ones": (
        mercer(kernel=SquaredExponential(lengthscale=0.5), domain=TEN, n_features=20, scale=0.75),
        TEN,
    ),
    "arms": (
        ArmFeatures(base=mercer(domain=domains.Box(low=[0.0], high=[2.0])), arm_column=1, n_arms=4),
        MIXED,
    ),
}
every_case = pytest.mark.parametrize(("features", "domain"), CASES.values(), ids=list(CASES))


def sample(domain: domains.Domain, *shape: int, seed: int = 0) -> np.ndarray:
    return domain.sample(int(np.prod(shape)), np.random.default_rng(seed)).reshape(*shape, domain.dim)


@every_case
def test_norms_never_exceed_one(features: Features, domain: domains.Domain) -> None:
    phi = features(sample(domain, 2_000))
    assert phi.shape == (2_000, features.n_features)
    assert np.all((phi * phi).sum(axis=1) <= 1.0)
    assert np.all(np.linalg.norm(phi, axis=1) > 0.1)


def test_a_row_is_cut_to_the_bound_where_it_is_longer_and_nowhere_else() -> None:
    """Codes for points: the features of one are its row of the projection."""
    bound = 1.0 - 2.0**-40
    lengths = [
        0.0,
        0.5,
        1.0 - 2.0**-34,
        1.0 - 2.0**-39,
        bound,
        1.0 - 2.0**-41,
        1.0,
        1.0 + 2.0**-52,
        1.1,
        1e30,
    ]
    directions = np.random.default_rng(9).normal(size=(len(lengths), 50))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    rows = directions * np.minimum(lengths, 1e29)[:, None]
    landmarks = np.arange(float(len(lengths)))[:, None]
    features = SectionFeatures(kernel=Indicator(columns=(0,)), landmarks=landmarks, projection=rows)
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    expected = np.where(norms > bound, bound / np.maximum(norms, 0.1), 1.0)[:, None] * rows
    np.testing.assert_array_equal(features(landmarks), expected)
    for number, point in enumerate(landmarks):
        np.testing.assert_array_equal(features([point])[0], expected[number])
        pair = landmarks[[0, number]]
        np.testing.assert_array_equal(features(pair), expected[[0, number]])
    scores = features.project_each(landmarks[None], np.ones((1, 50)))[0]
    np.testing.assert_allclose(scores, expected.sum(axis=1), rtol=1e-12, atol=1e-12)
    assert np.linalg.norm(features(landmarks), axis=1).max() < 1.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_points_are_refused_where_one_entry_is_not_finite_and_only_there(bad: float) -> None:
    codes = Indicator(columns=(0, 1))
    features = SectionFeatures(kernel=codes, landmarks=np.zeros((1, 2)), projection=np.ones((1, 1)))
    large = np.full((3, 2, 2), 1e200)
    assert not features(large).any()  # squares overflow, entries do not
    for place in range(large.size):
        points = large.copy()
        points.flat[place] = bad
        with pytest.raises(InvalidData, match="NaN or infinite"):
            features(points)
        points[points == 1e200] = 0.25
        with pytest.raises(InvalidData, match="NaN or infinite"):
            features(points[:, ::-1])


@every_case
def test_projecting_is_multiplying(features: Features, domain: domains.Domain) -> None:
    X = sample(domain, 3, 40, 5)
    weights = np.random.default_rng(1).normal(size=(features.n_features, 3))
    phi = features(X)
    assert phi.shape == (3, 40, 5, features.n_features)
    np.testing.assert_allclose(features.project(X, weights), phi @ weights, atol=1e-8)
    own = np.random.default_rng(2).normal(size=(40, features.n_features))
    expected = np.einsum("bnm,bm->bn", phi[0], own)
    np.testing.assert_allclose(features.project_each(X[0], own), expected, atol=1e-8)


@every_case
def test_rebuilt_from_json_bit_for_bit(features: Features, domain: domains.Domain) -> None:
    again = from_config(json.loads(json.dumps(features.to_config())))
    X = sample(domain, 100)
    np.testing.assert_array_equal(again(X), features(X))
    assert (again.n_features, again.supports) == (features.n_features, features.supports)
    assert isinstance(again, Features)


@every_case
def test_every_vector_lives_in_one_support(features: Features, domain: domains.Domain) -> None:
    assert [low for low, _ in features.supports] == [0, *[high for _, high in features.supports[:-1]]]
    assert features.supports[-1][1] == features.n_features
    phi = features(sample(domain, 200))
    used = np.stack([np.any(phi[:, low:high] != 0.0, axis=1) for low, high in features.supports])
    assert np.all(used.sum(axis=0) == 1)


@every_case
def test_no_points_no_features(features: Features, domain: domains.Domain) -> None:
    nothing = np.empty((0, domain.dim))
    assert features(nothing).shape == (0, features.n_features)
    assert features.project(nothing, np.zeros((features.n_features, 2))).shape == (0, 2)
    assert features.project_each(nothing[None], np.zeros((1, features.n_features))).shape == (1, 0)


@pytest.mark.parametrize(
    ("kernel", "n_features", "worst"),
    [
        # The worst of 4 million pairs, near the rim; the mean error is 2.5e-4, 5e-7 and 4e-4.
        (SquaredExponential(lengthscale=0.5), 28, 0.012),
        (SquaredExponential(lengthscale=0.5), 60, 3e-4),
        (Matern(nu=2.5, lengthscale=0.5), 60, 0.07),
    ],
)
def test_inner_products_approximate_the_kernel(
    kernel: SquaredExponential | Matern, n_features: int, worst: float
) -> None:
    disc = domains.Box(low=[-1.0, -1.0], high=[1.0, 1.0])
    X = sample(disc, 2_000)
    X = X[np.linalg.norm(X, axis=1) <= 1.0]
    phi = MercerFeatures(kernel=kernel, domain=disc, n_features=n_features)(X)
    assert np.max(np.abs(phi @ phi.T - kernel(X))) < worst


def test_all_points_of_a_finite_domain_give_the_exact_kernel() -> None:
    phi = mercer(domain=GRID, n_features=49)(GRID.points)
    np.testing.assert_allclose(phi @ phi.T, Matern(nu=2.5, lengthscale=0.4)(GRID.points), atol=1e-10)


def test_features_of_a_scaled_kernel_are_divided_by_its_deviation() -> None:
    """Above one by its square root, below it by what their norm comes to at public points."""
    plain, scaled = mercer(), mercer(kernel=4.0 * Matern(nu=2.5, lengthscale=0.4))
    X = sample(SQUARE, 50)
    np.testing.assert_allclose(scaled(X), plain(X), atol=1e-9)
    weak = mercer(kernel=0.25 * Matern(nu=2.5, lengthscale=0.4))
    np.testing.assert_allclose(weak(X), plain(X), atol=1e-9)
    assert (plain.scale, scaled.scale, weak.scale) == (1.0, 1.0, 0.5)


def test_a_regular_grid_has_no_coinciding_eigenvalues() -> None:
    """Else its eigenvectors, and any state kept in their coordinates, depend on the library's mood."""
    square = domains.Finite(points=domains.Box(low=[0.0, 0.0], high=[1.0, 1.0]).grid(7))

    def smallest_gap() -> float:
        values = mercer(domain=square, n_features=30).eigenvalues
        return float(np.min(-np.diff(values) / values[:-1]))

    assert smallest_gap() > 1e-6
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SYMMETRY_BREAK", 0.0)
        assert smallest_gap() < 1e-12  # what is avoided


def test_noise_eigenpairs_of_a_smooth_kernel_are_dropped() -> None:
    smooth = mercer(kernel=SquaredExponential(lengthscale=2.0), n_features=200)
    assert smooth.n_features < 80
    X = sample(SQUARE, 300)
    np.testing.assert_allclose(smooth(X) @ smooth(X).T, SquaredExponential(lengthscale=2.0)(X), atol=1e-6)


def test_seeds_change_landmarks_and_nothing_else() -> None:
    one, two = mercer(seed=1), mercer(seed=2)
    assert not np.array_equal(one.landmarks, two.landmarks)
    assert np.all(SQUARE.contains(one.landmarks))
    X = sample(SQUARE, 50)
    np.testing.assert_allclose(one(X) @ one(X).T, two(X) @ two(X).T, atol=0.15)


def test_landmarks_of_a_product_cover_every_arm() -> None:
    landmarks = mercer(
        kernel=Matern(nu=1.5, lengthscale=0.5, columns=(0,)) * Indicator(columns=(1,)), domain=MIXED
    ).landmarks
    counts = np.bincount(landmarks[:, 1].astype(int), minlength=4)
    assert counts.min() >= 13  # of 60
    assert np.all(MIXED.contains(landmarks))


def test_arm_features_are_the_base_in_the_arms_range() -> None:
    features, _ = CASES["arms"]
    assert isinstance(features, ArmFeatures)
    phi = features([[0.3, 2.0]])[0]
    m = features.base.n_features
    np.testing.assert_array_equal(phi[2 * m : 3 * m], features.base([[0.3]])[0])
    assert features.supports == tuple((arm * m, (arm + 1) * m) for arm in range(4))


@given(rows=st.integers(1, 60), block=st.integers(1, 500), seed=st.integers(0, 100))
@settings(max_examples=25, deadline=None, derandomize=True)
def test_block_sizes_do_not_show(rows: int, block: int, seed: int) -> None:
    features = mercer()
    X = sample(SQUARE, rows, 4, seed=seed)
    weights = np.random.default_rng(seed).normal(size=(rows, features.n_features))
    expected = (features(X), features.project(X, weights.T), features.project_each(X, weights))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_ELEMENTS", block)
        patch.setattr(kernel_module, "BLOCK_ELEMENTS", block)
        patch.setattr(module, "PRODUCT_ELEMENTS", 3 * block)
        again = (features(X), features.project(X, weights.T), features.project_each(X, weights))
    for a, b in zip(expected, again, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


def test_bad_input_is_refused_without_showing_it() -> None:
    features, arms = mercer(), CASES["arms"][0]
    secret = 0.123456
    cases = [
        lambda: features([[secret]]),
        lambda: features(secret),
        lambda: features([[secret, np.nan]]),
        lambda: features([[secret, np.inf]]),
        lambda: features.project([[secret, secret]], np.zeros((3, 1))),
        lambda: features.project([[secret, secret]], np.zeros(features.n_features)),
        lambda: features.project_each([[secret, secret]], np.zeros((1, features.n_features))),
        lambda: arms([[secret, 1.123456]]),
        lambda: arms([[secret, 4.0]]),
        lambda: arms([[secret]]),
    ]
    for case in cases:
        with pytest.raises(InvalidData) as error:
            case()
        assert "123456" not in str(error.value)


def test_impossible_parameters_are_refused() -> None:
    base = mercer()
    for build in (
        lambda: mercer(n_features=0),
        lambda: mercer(n_landmarks=29),
        lambda: ArmFeatures(base=base, arm_column=-1, n_arms=2),
        lambda: ArmFeatures(base=base, arm_column=0, n_arms=0),
        lambda: from_config({"type": "Fourier"}),
        lambda: from_config({"type": "MercerFeatures"}),
    ):
        with pytest.raises(InvalidParameter):
            build()


@every_case
def test_scores_of_a_set_do_not_depend_on_the_rest_of_its_batch(features, domain):
    """To the last bit: a tie that breaks would tell one user about another's decision set."""
    rng = np.random.default_rng(8)
    n = 5
    for _ in range(100):
        weights = rng.standard_normal((4, features.n_features))
        sets, others = (domain.sample(4 * n, rng).reshape(4, n, domain.dim) for _ in range(2))
        others[2] = sets[2]
        alike = features.project_each(others, weights)[2] == features.project_each(sets, weights)[2]
        assert alike.all()
        ready = features.to_score(weights)
        alike = features.scores_of_known(others, ready)[2] == features.scores_of_known(sets, ready)[2]
        assert alike.all()


@every_case
def test_what_is_held_and_what_is_left_out_make_the_kernels_variance(features, domain):
    X = sample(domain, 3, 50)
    phi = features(X)
    squares, variance = (phi**2).sum(axis=-1), features.variance(X)
    assert variance.shape == (3, 50)
    assert (squares <= variance + 1e-9).all()
    np.testing.assert_allclose(left_out(features, X, phi), variance - squares, atol=1e-9)
    kernel = features.base.kernel if isinstance(features, ArmFeatures) else features.kernel
    most = max(1.0, kernel.max_variance)
    np.testing.assert_allclose(features.scale**2 * variance, kernel.max_variance / most, rtol=1e-12)


def test_features_that_never_reach_length_one_are_divided_by_the_length_they_have():
    """At the landmarks they are longer, and cut."""
    arguments = {"kernel": SquaredExponential(lengthscale=0.5), "domain": TEN, "n_features": 20}
    with pytest.warns(LittleVariance):
        short = mercer(**arguments)
    plain, X = mercer(**arguments, scale=1.0), sample(TEN, 4_000)
    assert short.scale == 0.75
    lengths = np.linalg.norm(plain(X), axis=1)
    assert 0.6 < np.quantile(lengths, 0.99) <= 0.75
    kept = lengths <= 0.75
    np.testing.assert_allclose(0.75 * short(X)[kept], plain(X)[kept], atol=1e-12)
    at_landmarks = short(short.landmarks)
    assert (np.linalg.norm(plain(plain.landmarks), axis=1) > 0.75).sum() > 5
    assert np.linalg.norm(at_landmarks, axis=1).max() <= 1.0
    weights = np.eye(20)
    np.testing.assert_allclose(short.project(short.landmarks, weights), at_landmarks, atol=1e-12)
    each = short.project_each(short.landmarks[:, None], np.ones((len(short.landmarks), 20)))
    np.testing.assert_allclose(each[:, 0], at_landmarks.sum(axis=1), atol=1e-12)


def test_the_scale_is_part_of_the_configuration_and_old_ones_have_none():
    plain = mercer()
    assert plain.scale == 1.0
    assert "scale" not in plain.to_config()  # digests of specs that were written before stay
    short, domain = CASES["short ones"]
    config = short.to_config()
    assert config["scale"] == 0.75
    old = {name: value for name, value in config.items() if name != "scale"}
    X = sample(domain, 100)
    undivided = from_config(old)
    assert undivided.scale == 1.0
    np.testing.assert_array_equal(undivided(X), mercer(**_arguments(short), scale=1.0)(X))


def _arguments(features):
    return {name: getattr(features, name) for name in ("kernel", "domain", "n_features", "seed")}


def test_arms_and_columns_side_by_side_keep_what_their_parts_stand_for():
    short, domain = CASES["short ones"]
    arms = ArmFeatures(base=short, arm_column=10, n_arms=2)
    assert arms.scale == 0.75
    X = sample(domain, 50)
    whole = AdditiveFeatures(parts=[(range(10), short), ((0, 1), mercer(domain=SQUARE))])
    phi = whole(X)
    assert whole.scale**2 == pytest.approx((0.75**2 + 1.0) / 2.0)
    assert np.linalg.norm(phi, axis=1).max() <= 1.0
    parts = [(0.75, short(X)), (1.0, mercer(domain=SQUARE)(X[:, :2]))]
    mean = sum(scale**2 * one @ one.T for scale, one in parts) / 2.0
    np.testing.assert_allclose(whole.scale**2 * phi @ phi.T, mean, atol=1e-12)
    np.testing.assert_allclose(whole.scale**2 * whole.variance(X), np.ones(50), atol=1e-12)


@pytest.mark.parametrize(("n_features", "warned"), [(3, True), (40, False)])
def test_a_map_that_holds_little_of_its_kernel_says_so(n_features, warned):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mercer(n_features=n_features)
    texts = [str(one.message) for one in caught if issubclass(one.category, LittleVariance)]
    assert len(texts) == warned
    if warned:
        held = (mercer(n_features=n_features, scale=1.0)(sample(SQUARE, 4_000)) ** 2).sum(axis=1).mean()
        share = float(re.search(r"hold (\d+)%", texts[0]).group(1)) / 100.0
        assert abs(share - held) < 0.03
        assert "n_features" in texts[0]
        assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel": "matern"},
        {"kernel": SquaredExponential},
        {"domain": [0, 1]},
        {"scale": 0.0},
        {"scale": 1.5},
        {"scale": "auto"},
    ],
)
def test_natural_mistakes_are_answered_by_what_to_pass(wrong):
    with pytest.raises(InvalidParameter, match=next(iter(wrong))):
        mercer(**wrong)


@pytest.mark.filterwarnings("ignore::dpbandits.models.features.LittleVariance")
@pytest.mark.parametrize("n_features", [6, 20, 60])
def test_in_fixed_shapes_a_point_is_the_same_alone_in_any_company_and_in_any_order(n_features):
    features, rng = mercer(n_features=n_features), np.random.default_rng(1)
    points = SQUARE.sample(300, rng)
    whole, order = in_fixed_shapes(features, points), rng.permutation(300)
    np.testing.assert_allclose(whole, features(points), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(in_fixed_shapes(features, points[order]), whole[order])
    for part in (slice(0, 1), slice(7, 8), slice(1, 300), slice(40, 99)):
        np.testing.assert_array_equal(in_fixed_shapes(features, points[part]), whole[part])
    assert in_fixed_shapes(features, points[:0]).shape == (0, features.n_features)


class ForScores(MercerFeatures):
    """Whose features for scores are of no use for anything else."""

    def of_known(self, points):
        return np.full((*points.shape[:-1], self.n_features), np.nan)


def test_what_is_released_is_not_made_of_features_for_scores():
    features = ForScores(kernel=SquaredExponential(lengthscale=0.5), domain=SQUARE, n_features=20)
    points = SQUARE.sample(9, np.random.default_rng(1))
    np.testing.assert_allclose(in_fixed_shapes(features, points), features(points), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_points_that_are_known_have_the_same_features_and_scores_to_rounding(name):
    features, domain = CASES[name]
    rng = np.random.default_rng(5)
    sets = domain.sample(12, rng).reshape(3, 4, -1)
    phi = features(sets)
    assert np.allclose(features.of_known(sets), phi, rtol=0.0, atol=1e-9)
    assert np.allclose(features.of_known(sets[0]), phi[0], rtol=0.0, atol=1e-9)
    weights = rng.standard_normal((3, features.n_features))
    scores = np.einsum("bnm,bm->bn", phi, weights)
    ready = features.to_score(weights)
    together = features.scores_of_known(sets, ready)
    assert np.allclose(together, scores, rtol=0.0, atol=1e-7)
    for one in range(3):
        alone = features.scores_of_known(sets[one : one + 1], ready[one : one + 1])
        assert np.allclose(alone[0], together[one], rtol=0.0, atol=1e-9)


def test_vectors_that_have_to_be_cut_are_cut_for_scores_too():
    features = mercer(kernel=SquaredExponential(lengthscale=0.3), scale=0.6)
    X, weights = SQUARE.sample(8, np.random.default_rng(2)), np.ones((1, features.n_features))
    assert np.linalg.norm(features(X), axis=1).max() > 1.0 - 1e-9
    assert np.array_equal(features.of_known(X), features(X))
    scores = features.scores_of_known(X[None], features.to_score(weights))
    assert np.array_equal(scores, features.project_each(X[None], weights))


def test_scores_of_many_sets_are_those_of_few(monkeypatch):
    features, rng = mercer(), np.random.default_rng(4)
    sets, weights = SQUARE.sample(60, rng).reshape(12, 5, 2), rng.standard_normal((12, 30))
    ready = features.to_score(weights)
    whole = features.scores_of_known(sets, ready)
    monkeypatch.setattr(module, "BLOCK_ELEMENTS", 3 * 5 * len(features.landmarks))
    assert np.allclose(features.scores_of_known(sets, ready), whole, rtol=0.0, atol=1e-10)


class Narrow(SquaredExponential):
    """Another rule, in a class of one's own."""

    def _evaluator(self, Y):
        fill = super()._evaluator(Y)

        def narrow(X, out):
            fill(X, out)
            np.square(out, out=out)

        return narrow


class Turned(MercerFeatures):
    def __call__(self, X):
        return -super().__call__(X)


@pytest.mark.parametrize(("own", "kernel"), [(MercerFeatures, Narrow), (Turned, SquaredExponential)])
def test_scores_are_of_a_kernel_and_of_features_of_ones_own(own, kernel):
    line = domains.Box(low=[0.0], high=[1.0])
    phi = own(kernel=kernel(lengthscale=0.3), domain=line, n_features=8)
    points = np.linspace(0.0, 1.0, 9)[:, None]
    np.testing.assert_allclose(phi.of_known(points), phi(points), atol=1e-7)


@pytest.mark.filterwarnings("ignore::dpbandits.models.features.LittleVariance")
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("lengthscale", [0.005, 0.1, 0.5])
def test_no_point_of_a_box_has_larger_features_than_is_said(dim, lengthscale):
    """But for what lies between the points of a grid."""
    box = domains.Box(low=[-1.0] * dim, high=[2.0] * dim)
    features = MercerFeatures(
        kernel=SquaredExponential(lengthscale=3.0 * lengthscale), domain=box, n_features=40
    )
    largest, rng = features.largest_squares(box), np.random.default_rng(0)
    points = np.concatenate([box.sample(20_000, rng), features.landmarks, box.grid(2)])
    seen = (features(points) ** 2).max(axis=0)
    assert np.all(seen <= 1.25 * largest)
    assert np.all(largest <= 1.5 * seen)
    turned = SectionFeatures(
        kernel=features.kernel, landmarks=features.landmarks, projection=-features.projection
    )
    assert np.allclose(turned.largest_squares(box), largest)

"""Maxima over a whole domain: as high as many careful searches find, and always points of the domain."""

import numpy as np
import pytest
from scipy.optimize import minimize

from dpbandits.domains import Arms, Ball, Box, Finite, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import ArmFeatures, Features, MercerFeatures
from dpbandits.models.features.additive import AdditiveFeatures, additive_features
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.features.maximise import Maximiser, WholeDomain
from dpbandits.models.kernels import Indicator, Kernel, Matern, SquaredExponential

pytestmark = pytest.mark.numerics

CUBE = Box([0.0, -1.0, 0.0], [1.0, 1.0, 3.0])
KERNELS = (
    SquaredExponential(lengthscale=0.6),
    SquaredExponential(lengthscale=(0.3, 0.7, 0.9)),
    Matern(nu=0.5, lengthscale=0.6),
    Matern(nu=1.5, lengthscale=0.6),
    Matern(nu=2.5, lengthscale=0.6),
    SquaredExponential(lengthscale=0.5, columns=(0,)) * Matern(nu=2.5, lengthscale=0.7, columns=(2, 1)),
    SquaredExponential(lengthscale=0.5) + 2.0 * Matern(nu=1.5, lengthscale=0.7),
)


def points_of(domain, n=20):
    return domain.sample(n, np.random.default_rng(4))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_of_kernels_are_those_of_differences(kernel):
    X, Y, W = points_of(CUBE), CUBE.sample(30, np.random.default_rng(5)), np.random.default_rng(6)
    weights = W.standard_normal((len(X), len(Y)))
    exact = kernel.gradients_against(Y)(X, weights)
    np.testing.assert_allclose(
        exact, differences(lambda points: (weights * kernel(points, Y)).sum(axis=1), X), atol=1e-6
    )


def differences(function, X, step=1e-5):
    """Gradients (n, d) of a function of rows, by steps in every column."""
    steps = step * np.eye(X.shape[1])
    columns = [(function(X + one) - function(X - one)) / (2.0 * step) for one in steps]
    return np.stack(columns, axis=1)


class Own(Kernel):
    """A kernel that gives no gradient."""

    def _evaluator(self, Y):
        return SquaredExponential(lengthscale=0.6).rows_against(Y)


def test_a_kernel_of_ones_own_has_gradients_by_differences():
    X, Y = points_of(CUBE), CUBE.sample(30, np.random.default_rng(5))
    weights = np.random.default_rng(6).standard_normal((len(X), len(Y)))
    own, exact = (one.gradients_against(Y)(X, weights) for one in (Own(), KERNELS[0]))
    np.testing.assert_allclose(own, exact, atol=1e-6)


def test_the_gradient_of_an_exponential_kernel_is_finite_where_it_has_a_corner():
    at = np.array([[0.5, 0.0, 1.0]])
    assert Matern(nu=0.5, lengthscale=1.0).gradients_against(at)(at, np.ones((1, 1))).tolist() == [[0.0] * 3]


@pytest.mark.parametrize(
    "features",
    [
        MercerFeatures(kernel=KERNELS[0], domain=CUBE, n_features=25),
        MercerFeatures(
            kernel=KERNELS[0], domain=CUBE, n_features=25, scale=0.5
        ),  # many are cut to length one
        QuadratureFourierFeatures(kernel=KERNELS[0], dim=3, nodes=4),
        additive_features(CUBE, lengthscale=0.3, per_column=5),
    ],
    ids=lambda features: type(features).__name__,
)
def test_gradients_of_features_are_those_of_differences(features):
    X = points_of(CUBE)
    V = np.random.default_rng(6).standard_normal((len(X), features.n_features))
    np.testing.assert_allclose(features.gradient(X, V), Features.gradient(features, X, V), atol=1e-6)


def test_features_of_shared_columns_and_of_arms_have_gradients_too():
    part = MercerFeatures(kernel=KERNELS[0], domain=Box([0, -1], [1, 1]), n_features=6)
    both = AdditiveFeatures(parts=[((0, 1), part), ((1, 0), part)])
    X, rng = points_of(Box([0, 0], [1, 1])), np.random.default_rng(6)
    V = rng.standard_normal((len(X), both.n_features))
    np.testing.assert_allclose(both.gradient(X, V), Features.gradient(both, X, V), atol=1e-6)
    arms = ArmFeatures(base=part, arm_column=1, n_arms=3)
    codes = np.insert(X, 1, rng.integers(0, 3, len(X)), axis=1)
    V = rng.standard_normal((len(X), arms.n_features))
    own = V.reshape(len(X), 3, -1)[np.arange(len(X)), codes[:, 1].astype(int)]
    np.testing.assert_array_equal(arms.gradient(codes, V)[:, [0, 2]], part.gradient(X, own))
    assert not arms.gradient(codes, V)[:, 1].any()


@pytest.mark.parametrize(("dim", "lengthscale", "size"), [(1, 0.1, 20), (2, 0.25, 40), (6, 0.8, 60)])
def test_it_finds_what_many_careful_searches_find(dim, lengthscale, size):
    box = Box(np.full(dim, -1.0), np.full(dim, 2.0))
    kernel = SquaredExponential(lengthscale=3.0 * lengthscale)
    features = MercerFeatures(kernel=kernel, domain=box, n_features=size, n_landmarks=2 * size)
    weights = np.random.default_rng(7).standard_normal((4, features.n_features))
    found = Maximiser(box, features).of_weights(weights)
    assert box.contains(found).all()
    reached = np.einsum("ij,ij->i", features(found), weights)
    bounds = list(zip(box.low, box.high, strict=True))
    for own, value in zip(weights, reached, strict=True):
        searches = [
            minimize(lambda x: -float(features(x) @ own), start, bounds=bounds, method="L-BFGS-B").fun  # noqa: B023
            for start in box.sample(12, np.random.default_rng(8))
        ]
        assert value >= -min(searches) - 1e-4 * abs(min(searches))


def test_together_and_one_by_one_it_finds_the_same():
    features = MercerFeatures(kernel=KERNELS[0], domain=CUBE, n_features=25)
    weights = np.random.default_rng(7).standard_normal((5, features.n_features))
    maximiser = Maximiser(CUBE, features)
    alone = np.vstack([maximiser.of_weights(own[None]) for own in weights])
    np.testing.assert_allclose(maximiser.of_weights(weights), alone, atol=1e-3)


def test_arms_and_listed_points_stay_themselves_and_all_of_them_are_tried():
    pool, arms, box = Finite([[0.0, 5.0], [1.0, 7.0], [2.0, 4.0]]), Arms(4), Box([0.0], [1.0])
    domain = Product(box, pool, arms)
    whole = WholeDomain(domain)
    assert len(np.unique(whole.points[:, 1:], axis=0)) == 12
    goal = np.array([0.37, 1.0, 7.0, 2.0])
    found = whole.highest_of(lambda points: -((points - goal) ** 2).sum(axis=1))
    np.testing.assert_allclose(found, goal, atol=1e-3)
    assert found[1:].tolist() == goal[1:].tolist()
    assert whole.drawn(np.array([0.0, 0.5, 1.0 - 1e-16])).shape == (3, 4)


def test_a_ball_and_its_edge():
    ball = Ball([0.0, 0.0], 2.0)
    found = WholeDomain(ball).highest_of(lambda points: points @ [3.0, 4.0])
    np.testing.assert_allclose(found, [1.2, 1.6], atol=1e-3)
    assert ball.contains(found[None])[0]


def test_a_pool_alone_is_searched_exactly():
    pool = Finite(np.random.default_rng(3).random((5_000, 2)))
    best = WholeDomain(pool).highest_of(lambda points: points[:, 0] - points[:, 1])
    assert best.tolist() == pool.points[np.argmax(pool.points[:, 0] - pool.points[:, 1])].tolist()


def test_too_many_combinations_are_refused_and_say_what_to_do():
    with pytest.raises(InvalidParameter, match=r"40000 combinations .* bring candidates"):
        WholeDomain(Product(Arms(200), Arms(200)))


def test_kernels_of_codes_have_no_slope():
    codes = np.array([[0.0], [1.0]])
    assert not Indicator(columns=(0,)).gradients_against(codes)(codes, np.ones((2, 2))).any()

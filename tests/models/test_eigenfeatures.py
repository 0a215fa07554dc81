import numpy as np
import pytest

from dpbandits._memory import DoesNotFit
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import LittleVariance
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.kernels import Indicator, Matern, SquaredExponential
from dpbandits.models.measures import CellMeasure

pytestmark = pytest.mark.numerics

UNIT = CellMeasure.uniform(low=0, high=1, cells=14)
BETA = CellMeasure.beta(2, 5, low=0, high=1, cells=11)
ARMS = CellMeasure.finite([0.0, 1.0, 2.0])

CASES = {
    "squared exponential, one kernel over both": (SquaredExponential(lengthscale=0.3), (UNIT, BETA)),
    "one lengthscale a column": (SquaredExponential(lengthscale=(0.2, 0.6)), (UNIT, BETA)),
    "product of Materns": (
        2.0 * Matern(nu=1.5, lengthscale=0.4, columns=0) * Matern(nu=2.5, lengthscale=0.3, columns=1),
        (UNIT, BETA),
    ),
    "isotropic Matern": (Matern(nu=2.5, lengthscale=0.3), (UNIT, BETA)),
    "sum": (
        SquaredExponential(lengthscale=0.3, columns=0) + Matern(nu=0.5, lengthscale=1.0, columns=1),
        (UNIT, BETA),
    ),
    "arms": (
        Indicator(correlation=0.3, columns=0) * SquaredExponential(lengthscale=0.3, columns=(1, 2)),
        (ARMS, CellMeasure.product(UNIT, BETA)),
    ),
    "isotropic over two of three": (
        SquaredExponential(lengthscale=0.3, columns=0) * Matern(nu=1.5, lengthscale=0.5, columns=(1, 2)),
        (ARMS, UNIT, BETA),
    ),
    "a column the kernel does not see": (SquaredExponential(lengthscale=0.3, columns=1), (ARMS, UNIT)),
}


@pytest.mark.parametrize("name", CASES)
def test_features_are_orthonormal_and_rebuild_the_kernel(name):
    kernel, measures = CASES[name]
    features = EigenFeatures(kernel=kernel, measures=measures, tolerance=1e-9)
    product = CellMeasure.product(*measures)
    gram = features.psi.T @ (product.weights[:, None] * features.psi)
    np.testing.assert_allclose(gram, np.eye(features.n_features), atol=1e-7)
    phi = features.feature_map()
    missing = kernel.diagonal(product.points) - (phi**2).sum(axis=1)
    assert np.abs(kernel(product.points) - phi @ phi.T).max() <= missing.max() + 1e-6  # Cauchy-Schwarz
    assert missing.max() < 1e-3
    assert (np.diff(features.eigenvalues) <= 0).all()


@pytest.mark.parametrize("name", ["isotropic Matern", "arms", "product of Materns"])
def test_missing_variance_is_what_truncation_leaves_out(name):
    kernel, measures = CASES[name]
    features = EigenFeatures(kernel=kernel, measures=measures, tolerance=1e-3)
    product = CellMeasure.product(*measures)
    phi = features.feature_map()
    missing = product.weights @ (kernel.diagonal(product.points) - (phi**2).sum(axis=1))
    total = product.weights @ kernel.diagonal(product.points)
    assert features.missing_variance == pytest.approx(missing / total, abs=1e-9)
    assert features.missing_variance > 1e-4


def test_many_cells_go_through_landmarks_and_stay_accurate():
    fine = CellMeasure.uniform(low=0, high=1, cells=30)
    kernel = Matern(nu=2.5, lengthscale=0.4)
    features = EigenFeatures(kernel=kernel, measures=(fine, fine), tolerance=1e-4)
    points = CellMeasure.product(fine, fine).points
    root = np.full(len(points), 1 / 30)
    exact = np.linalg.eigvalsh(root[:, None] * kernel(points) * root)[::-1]
    kept = features.n_features
    np.testing.assert_allclose(features.eigenvalues, exact[:kept], rtol=0.05)
    np.testing.assert_allclose(features.eigenvalues[: kept // 3], exact[: kept // 3], rtol=1e-3)
    phi = features.feature_map()
    worst = np.sqrt(np.max(1.0 - (phi**2).sum(axis=1)) ** 2)
    assert np.abs(kernel(points[::7], points) - phi[::7] @ phi.T).max() <= worst + 1e-9


def test_eigenvalues_of_the_brownian_like_kernel_are_known():
    # exp(-|x - y|) on [0, 1]: lambda = 2/(1 + w^2), with tan w = 2 w/(w^2 - 1)
    from scipy.optimize import brentq

    fine = CellMeasure.uniform(low=0, high=1, cells=600)
    features = EigenFeatures(kernel=Matern(nu=0.5, lengthscale=1.0), measures=(fine,), largest=3)
    first = brentq(lambda w: w * np.tan(w / 2) - 1, 0.1, 3.0)
    assert features.eigenvalues[0] == pytest.approx(2 / (1 + first**2), rel=1e-4)
    second = brentq(lambda w: w / np.tan(w / 2) + 1, 3.2, 6.0)
    assert features.eigenvalues[1] == pytest.approx(2 / (1 + second**2), rel=1e-3)


def test_information_gain_is_half_a_log_determinant():
    features = EigenFeatures(kernel=SquaredExponential(lengthscale=0.3), measures=(UNIT,), tolerance=1e-12)
    gram = UNIT.weights[:, None] * SquaredExponential(lengthscale=0.3)(UNIT.points)
    expected = 0.5 * np.linalg.slogdet(np.eye(14) + 50 / 0.1 * gram)[1]
    assert features.information_gain(50, 0.1) == pytest.approx(expected, rel=1e-6)
    trace = np.trace(np.linalg.solve(np.eye(14) + 500 * gram, 500 * gram))
    assert features.effective_dimension(50, 0.1) == pytest.approx(trace, rel=1e-6)
    assert features.effective_dimension(0.0, 1.0) == 0.0


def test_features_come_back_from_their_configuration():
    kernel, measures = CASES["arms"]
    features = EigenFeatures(kernel=kernel, measures=measures, tolerance=1e-4, largest=9)
    again = EigenFeatures.from_config(features.to_config())
    assert again.psi.tobytes() == features.psi.tobytes()
    assert again.n_features == 9


@pytest.mark.parametrize(
    "change",
    [
        {"measures": ()},
        {"tolerance": 0.0},
        {"tolerance": 1.0},
        {"largest": 0},
        {"kernel": SquaredExponential(lengthscale=0.3, columns=2)},
        {"kernel": SquaredExponential(lengthscale=(0.3, 0.2, 0.1))},
    ],
)
def test_bad_parameters_are_refused(change):
    arguments = {"kernel": SquaredExponential(lengthscale=0.3), "measures": (UNIT, BETA)} | change
    with pytest.raises(InvalidParameter):
        EigenFeatures(**arguments)


def test_blocks_of_landmarks_leave_out_hardly_more_than_the_best_features_could():
    fine = CellMeasure.product(*[CellMeasure.uniform(low=0, high=1, cells=30)] * 2)
    kernel = Matern(nu=2.5, lengthscale=0.4)
    root = np.sqrt(fine.weights)
    exact = np.linalg.eigvalsh(root[:, None] * kernel(fine.points) * root)[::-1]
    for tolerance in (1e-3, 1e-4, 1e-6):
        features = EigenFeatures(kernel=kernel, measures=(fine,), tolerance=tolerance)
        best = 1.0 - exact[: features.n_features].sum()
        assert best - 1e-12 <= features.missing_variance <= 1.1 * best


def test_singular_kernels_and_cells_without_weight_need_few_landmarks():
    weights = np.where(np.arange(900) % 2, 1.0, 0.0)
    cells = CellMeasure.product(*[CellMeasure.uniform(low=0, high=1, cells=30)] * 2).with_weights(weights)
    for kernel in (Indicator(correlation=1.0, columns=(0,)), Matern(nu=2.5, lengthscale=500.0)):
        features = EigenFeatures(kernel=kernel, measures=(cells,))
        assert features.n_features <= 4
        assert np.isfinite(features.psi).all()
        np.testing.assert_allclose((features.feature_map() ** 2).sum(axis=1), 1.0, atol=1e-4)


def test_what_the_features_leave_out_is_known_cell_by_cell():
    kernel, measures = Matern(nu=0.5, lengthscale=0.3), (UNIT, BETA)
    features = EigenFeatures(kernel=kernel, measures=measures, largest=40)
    held = (features.feature_map() ** 2).sum(axis=1)
    np.testing.assert_allclose(features.left_out, features.variance - held, atol=1e-12)
    assert features.weights @ features.left_out == pytest.approx(features.missing_variance, rel=1e-9)
    assert features.left_out.max() > 0.05
    again = features.in_basis(features.eigenvalues[:20], features.psi[:, :20])
    assert again.left_out.mean() > features.left_out.mean()


def test_few_eigenfunctions_of_a_rough_kernel_say_what_they_hold():
    with pytest.warns(LittleVariance, match="eigenfunctions hold"):
        EigenFeatures(kernel=Matern(nu=0.5, lengthscale=0.1), measures=(UNIT, BETA), largest=10)


def test_eigenfunctions_that_do_not_fit_into_memory_are_refused_before_they_are_computed():
    """A hundred unlike arms and 512 cells of contexts give 51,200 x 16,645 eigenfunctions."""
    contexts = CellMeasure.product(*[CellMeasure.uniform(low=0, high=1, cells=8)] * 3)
    kernel = Indicator(correlation=0.05, columns=(0,)) * SquaredExponential(
        lengthscale=0.3, columns=(1, 2, 3)
    )
    with pytest.raises(DoesNotFit, match="needs about 61"):
        EigenFeatures(kernel=kernel, measures=(CellMeasure.finite(np.arange(100.0)), contexts))

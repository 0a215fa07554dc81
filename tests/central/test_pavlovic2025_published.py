import numpy as np
import pytest

from dpbandits.central.explore_then_commit.estimator import PopulationEstimator
from dpbandits.central.published.pavlovic2025 import USCA, ApproximatingSet, CovarianceEstimator
from dpbandits.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise

ACTIONS = CellMeasure.uniform(low=0, high=1, cells=8)
CONTEXTS = CellMeasure.beta(2, 3, low=0, high=1, cells=7)
CELLS = CellMeasure.product(ACTIONS, CONTEXTS)


@pytest.mark.parametrize(
    "kernel",
    [SquaredExponential(lengthscale=0.5), Matern(nu=2.5, lengthscale=0.3), Matern(nu=0.5, lengthscale=1)],
)
@pytest.mark.parametrize("ridge", [0.5, 30.0])
def test_kernel_trick_equals_the_feature_form(kernel, ridge):
    rounds = 120
    estimator = CovarianceEstimator(kernel, ApproximatingSet.drawn(CELLS, 900, seed=1), rounds, ridge)
    features = EigenFeatures(kernel=kernel, measures=(ACTIONS, CONTEXTS), tolerance=1e-15)
    phi, approximating = features.feature_map(), estimator.approximating
    drawn = phi[CELLS.locate(approximating.points)]
    scale = rounds / approximating.size * approximating.counts
    inverse = np.linalg.inv(drawn.T @ (scale[:, None] * drawn) + ridge * np.eye(phi.shape[1]))
    rng = np.random.default_rng(0)
    data, rewards = rng.integers(CELLS.size, size=rounds), rng.uniform(-1, 1, rounds)
    in_features = phi @ inverse @ (phi[data].T @ rewards)
    by_kernel = estimator.estimate(CELLS.points, CELLS.points[data], rewards)
    np.testing.assert_allclose(by_kernel, in_features, atol=1e-8)
    deviation = np.sqrt(np.einsum("ij,jk,ik->i", phi, inverse, phi))
    np.testing.assert_allclose(estimator.deviation(CELLS.points), deviation, atol=1e-8)


def test_the_population_form_is_its_limit():
    """With the approximating set in the law's own proportions, eqs. (4), (5) are the population form."""
    kernel, rounds, ridge = SquaredExponential(lengthscale=0.5), 200, 10.0
    exact = ApproximatingSet(CELLS.points, CELLS.weights * 1_000_000)
    estimator = CovarianceEstimator(kernel, exact, rounds, ridge)
    features = EigenFeatures(kernel=kernel, measures=(ACTIONS, CONTEXTS), tolerance=1e-13)
    population = PopulationEstimator(features, rounds, ridge)
    sums = np.random.default_rng(1).normal(size=CELLS.size)
    by_kernel = estimator.covariance(CELLS.points, CELLS.points) @ sums
    np.testing.assert_allclose(by_kernel, population.estimate(sums).ravel(), atol=1e-6)
    np.testing.assert_allclose(estimator.deviation(CELLS.points), population.deviation, atol=1e-6)


def build(**changes):
    arguments = {
        "kernel": SquaredExponential(lengthscale=0.4),
        "actions": ACTIONS,
        "contexts": CONTEXTS,
        "reward_range": (-1.0, 1.0),
        "horizon": 150,
        "privacy": JointDP(epsilon=1.0),
        "noise": SimulatedNoise(4),
    }
    return USCA(**(arguments | changes))


def test_no_single_row_moves_a_score_by_more_than_the_sensitivity():
    usca = build()
    influence = usca.estimator.covariance(CELLS.points, CELLS.points)
    assert 2.0 * np.abs(influence).max() <= usca.sensitivity * (1 + 1e-9)
    assert 2.0 * np.abs(influence).max() >= 0.999 * usca.sensitivity


def test_learns_and_answers_once():
    usca = build(privacy=JointDP(epsilon=50.0), ridge=0.1)
    rng = np.random.default_rng(0)
    contexts, actions = rng.beta(2, 3, 150), usca.explore(0, 150)
    usca.learn(contexts, actions, 1.0 - 2.0 * np.abs(ACTIONS.points[actions, 0] - contexts))
    law = usca.unsafe_law(int(CONTEXTS.locate([0.3])[0]))
    assert abs(ACTIONS.points[law.argmax(), 0] - 0.3) < 0.2
    assert 0 <= usca.answer([0.3]) < 8
    with pytest.raises(BudgetExceeded):
        usca.answer([0.3])
    with pytest.raises(InvalidData):
        usca.learn([0.1], np.array([1]), [0.5])
    assert usca.guarantee.status == "simulated"
    assert usca.estimator.approximating.size == 150 * int(np.ceil(150 / usca.information_gain))


@pytest.mark.parametrize(
    "change",
    [
        {"privacy": JointDP(epsilon=1.0, delta=1e-6)},
        {"privacy": JointDP(epsilon=1.0, rounds_per_user=2)},
        {"kernel": 2.0 * SquaredExponential(lengthscale=0.4)},
        {"horizon": 0},
        {"ridge": 0.0},
    ],
)
def test_what_the_paper_does_not_cover_is_refused(change):
    with pytest.raises(InvalidParameter):
        build(**change)

import os
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

from dpbandits.central.logged.estimator import PopulationEstimator
from dpbandits.central.published.pavlovic2025 import USCA, ApproximatingSet, CovarianceEstimator
from dpbandits.errors import BudgetExceeded, ForkedState, InvalidData, InvalidParameter
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from internals.pavlovic2025 import exact_scores, usca_answer
from tuning import placed

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
    return USCA(**placed(arguments | changes))


def test_a_lengthscale_is_a_share_of_each_range_of_the_cells():
    """Powers of two, so that points and lengthscales scale exactly."""
    wide = {
        "actions": CellMeasure.uniform(low=0, high=16, cells=8),
        "contexts": CellMeasure.beta(2, 3, low=-64, high=192, cells=7),
    }
    usca, other = build(), build(**wide)
    np.testing.assert_allclose(usca.sensitivity, other.sensitivity, rtol=1e-9)


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
    first = usca.answer([0.3])
    assert 0 <= first < 8
    with pytest.raises(BudgetExceeded):
        usca.answer([0.9])
    assert {usca.answer([0.3]) for _ in range(5)} == {first}
    before = usca.unsafe_scores(2)
    usca.learn([0.1], np.array([1]), [0.5])  # beyond the horizon
    assert np.array_equal(usca.unsafe_scores(2), before)
    assert usca.guarantee.status == "simulated"
    assumed = " ".join(one.text for one in usca.guarantee.assumptions if not one.enforced)
    assert "An action reaches the user whose context it is for" in assumed
    assert "whoever asks next learns whether the context is another" in assumed
    assert "This time depends on the scores, which are private" in assumed
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


def learned(**changes):
    usca = build(**changes)
    rng = np.random.default_rng(0)
    contexts, actions = rng.beta(2, 3, 150), usca.explore(0, 150)
    usca.learn(contexts, actions, 1.0 - 2.0 * np.abs(ACTIONS.points[actions, 0] - contexts))
    return usca


def test_scores_are_the_papers_and_so_is_the_law():
    """Rounding moves no score by more than a millionth of the sensitivity."""
    usca = build(reward_range=(-3.0, 5.0), horizon=60, ridge=2.0)
    rng = np.random.default_rng(1)
    contexts, actions, rewards = rng.beta(2, 3, 60), usca.explore(0, 60), rng.uniform(-3, 5, 60)
    usca.learn(contexts, actions, rewards)
    data = np.column_stack([ACTIONS.points[actions], CONTEXTS.points[CONTEXTS.locate(contexts)]])
    cell = 3
    here = CELLS.points[cell::7]
    expected = usca.estimator.estimate(here, data, rewards - 1.0)
    np.testing.assert_allclose(usca.unsafe_scores(cell), expected, atol=1e-4 * usca.sensitivity)
    printed = np.exp(expected / (2.0 * usca.sensitivity))
    np.testing.assert_allclose(usca.unsafe_law(cell), printed / printed.sum(), rtol=1e-4)


def test_the_answer_has_the_law_that_is_stated():
    """Answers of 2,000 objects of a seed each; chi-square beyond its 1 - 1e-7 quantile fails."""
    usca = learned(privacy=JointDP(epsilon=40.0), ridge=0.3)
    law = usca.unsafe_law(2)
    assert law.max() < 0.9
    counts = np.zeros(8)
    for seed in range(2_000):
        counts[usca_answer(usca, seed, CONTEXTS.points[2])] += 1
    expected = 2_000 * law
    shown = expected > 5.0
    statistic = ((counts - expected)[shown] ** 2 / expected[shown]).sum()
    assert statistic < chi2.ppf(1.0 - 1e-7, shown.sum())


@pytest.mark.parametrize("bad", [[np.nan], [7.0]], ids=["missing", "off the public range"])
def test_a_bad_context_takes_the_one_answer(bad):
    """Were it left, whoever is answered next would learn that the context before could not be."""
    usca = learned(noise=SecureNoise())
    with pytest.raises(InvalidData, match="expected one, of shape"):
        usca.answer([[0.1], [0.2]])  # judged by its shape alone: nothing is taken
    with pytest.raises(InvalidData, match="the answer is taken"):
        usca.answer(bad)
    for context in ([0.3], bad):
        with pytest.raises(BudgetExceeded):
            usca.answer(context)


def test_a_bad_context_after_the_answer_is_one_of_the_others():
    usca = learned()
    first = usca.answer([0.3])
    with pytest.raises(BudgetExceeded):
        usca.answer([np.nan])
    assert usca.answer([0.3]) == first


def test_several_threads_get_one_answer():
    usca = learned(privacy=JointDP(epsilon=0.01), noise=SecureNoise())
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(lambda _: usca.answer([0.3]), range(64)))
    assert len(answers) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_gets_none():
    usca = learned(privacy=JointDP(epsilon=0.01), noise=SecureNoise())
    child = os.fork()
    if not child:
        try:
            usca.answer([0.3])
        except ForkedState:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert 0 <= usca.answer([0.3]) < 8


def test_a_replaced_row_moves_exact_scores_by_no_more_than_is_stated():
    usca, others = build(reward_range=(0.0, 1.0), horizon=20, ridge=0.2), []
    for action, context, reward in product(range(8), range(7), (0.0, 1.0)):
        others.append(build(reward_range=(0.0, 1.0), horizon=20, ridge=0.2))
        others[-1].learn(CONTEXTS.points[context], np.array([action]), [reward])
    for cell in range(7):
        start, spread = exact_scores(usca, cell)
        moves = np.array([exact_scores(one, cell)[0] - start for one in others])
        ranges = moves[:, None, :] - moves[None, :, :]
        assert (ranges.max(axis=2) - ranges.min(axis=2)).max() <= spread


def test_rewards_beyond_the_range_are_clipped_or_count_zero():
    """The paper's reward clip: two outliers count as the nearer bound, and without it not at all."""
    contexts = build().contexts.points[[0, 0, 0]]
    actions, scores = np.array([0, 1, 2]), {}
    bounds = build().reward_range
    low, high = bounds.low, bounds.high
    for clip, rewards in (
        (True, [high + 5.0, low - 5.0, high]),
        (True, [high, low, high]),
        (False, [high + 5.0] * 3),
    ):
        usca = build(clip=clip)
        usca.learn(contexts, actions, rewards)
        scores[clip, rewards[0] > high] = usca.unsafe_scores(0)
    assert np.array_equal(scores[True, True], scores[True, False])
    assert np.abs(scores[True, True]).max() > 0
    assert (scores[False, True] == 0).all()
    infinite = build(clip=True)
    infinite.learn(contexts, actions, [np.inf, np.nan, -np.inf])
    assert (infinite.unsafe_scores(0) == 0).all()
    assert infinite.sensitivity == build().sensitivity

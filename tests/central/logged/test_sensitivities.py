"""What one user can change: computed exactly, bounded by what the noise is calibrated to, and reached."""

import itertools

import numpy as np
import pytest

from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.policy import ExploreThenCommit
from dpbandits.central.logged.sums import (
    RewardSums,
    exact_products,
    integer_caps,
    integer_weights,
)
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.selection import largest_log_ratio, permute_and_flip_law
from internals.logged import integer_features
from tuning import built

KERNELS = {
    "squared exponential": SquaredExponential(lengthscale=0.2),
    "matern 5/2": Matern(nu=2.5, lengthscale=0.3),
    "matern 3/2": Matern(nu=1.5, lengthscale=0.3),
    "matern 1/2": Matern(nu=0.5, lengthscale=0.5),
}
EPSILONS = (0.1, 1.0, 5.0)
T = 1000


def build(kernel, *, epsilon=1.0, delta=0.0, rounds=1, horizon=T, **changes):
    arguments = {
        "kernel": kernel,
        "actions": CellMeasure.uniform(low=0, high=1, cells=9),
        "contexts": CellMeasure.uniform(low=0, high=1, cells=8),
        "reward_range": (-1.2, 1.2),
        "horizon": horizon,
        "privacy": JointDP(epsilon=epsilon, delta=delta, rounds_per_user=rounds),
        "user_ids": False,
        "noise": SimulatedNoise(3),
    }
    return built(ExploreThenCommit, arguments | changes)


def integer_influence(usca, context):
    """The public integers that scores are made of, recomputed here."""
    influence = usca.calibration.answers.estimator.influence(context)
    centred = influence - 0.5 * (influence.max(axis=0) + influence.min(axis=0))
    return integer_weights(centred)[0]


def law(scores, span, epsilon):
    return permute_and_flip_law(scores.astype(float), sensitivity=float(span), epsilon=epsilon)


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_exact_log_ratio_over_adversarial_neighbours_is_below_epsilon_and_close_to_it(name, epsilon):
    """T = 1000 rows that push one action far ahead, then the rows that move gaps most are replaced."""
    usca = build(KERNELS[name], epsilon=epsilon)
    caps, worst = usca.calibration.caps[0], 0.0
    for context in (0, 3, 7):
        weights = integer_influence(usca, context)
        spread = caps * (weights.max(axis=0) - weights.min(axis=0))
        for cell in np.argsort(-spread)[:3]:
            high, low = int(weights[:, cell].argmax()), int(weights[:, cell].argmin())
            # base data: every other row lies where it puts one action ahead of all others
            gains = np.array([weights[high] - weights[low], weights[high] - weights.mean(axis=0)])
            for gain, pushed in itertools.product(gains, (0.0, 0.3, 1.0)):
                base = np.zeros(len(caps), dtype=np.int64)
                helpful = np.argsort(-caps * np.abs(gain))[:9]
                each = int(pushed * (T - 1)) // len(helpful)
                base[helpful] = each * np.sign(gain[helpful]).astype(np.int64) * caps[helpful]
                one, other = base.copy(), base.copy()
                one[cell] -= caps[cell]
                other[cell] += caps[cell]
                laws = []
                for sums in (one, other):
                    scores, span = usca.calibration.scores(usca.calibration.answers, context, sums)
                    laws.append(law(scores, span, epsilon))
                ratio = largest_log_ratio(*laws)
                assert ratio <= epsilon * (1.0 + 1e-9)
                worst = max(worst, ratio)
    assert worst >= 0.9 * epsilon


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
@pytest.mark.parametrize("rounds", [1, 3])
def test_no_pair_of_rows_moves_scores_by_more_than_the_range(rounds):
    usca = build(KERNELS["squared exponential"], rounds=rounds)
    caps = usca.calibration.caps[0]
    for context in range(8):
        weights = integer_influence(usca, context)
        _, span = usca.calibration.scores(usca.calibration.answers, context, np.zeros_like(caps))
        extremes = np.concatenate([weights * caps, -weights * caps], axis=1)  # (A, 2 n) one row's moves
        change = extremes[:, :, None] - extremes[:, None, :]
        widest = (change.max(axis=0) - change.min(axis=0)).max()
        assert rounds * widest <= span
        assert rounds * widest >= 0.999 * span


def test_release_moves_by_at_most_its_sensitivity_and_reaches_it():
    usca = build(KERNELS["squared exponential"], delta=1e-6, rounds=2)
    mechanism = usca.calibration.release
    vectors = integer_features(mechanism)
    moves = usca.calibration.caps[0][:, None] * vectors  # a row at its cap
    norms = np.linalg.norm(moves, axis=1)
    assert 2 * 2 * norms.max() <= mechanism.sensitivity
    assert 2 * 2 * norms.max() >= 0.999999 * mechanism.sensitivity
    sums = np.zeros(len(norms), dtype=np.int64)
    worst = int(norms.argmax())
    sums[worst] = 2 * 2 * usca.calibration.caps[0][worst]
    exact = exact_products(vectors.T, sums).astype(float)
    assert np.linalg.norm(exact) <= mechanism.sensitivity


def test_release_noise_is_calibrated_to_the_sensitivity_and_is_added():
    usca = build(KERNELS["squared exponential"], delta=1e-6)
    mechanism = usca.calibration.release
    sigma, certificate = mechanism.calibration
    assert certificate.delta_at(1.0) <= 1e-6
    assert sigma == pytest.approx(mechanism.sensitivity * 4.2247, rel=1e-3)
    zeros = np.zeros(len(usca.features.weights), dtype=np.int64)
    draws = np.array([mechanism.release(zeros) for _ in range(60)]) / sigma
    assert abs(draws.std() - 1.0) < 5.0 / np.sqrt(2 * draws.size)  # false alarm below 1e-6


def test_rewards_are_clipped_to_their_cells_caps_whatever_their_weights():
    caps = np.array([[100, 50]], dtype=np.int64)
    sums = RewardSums(caps).with_rows(
        np.array([0, 0, 1, 1]), np.array([1.0, 0.5 * 100 * 2.0**-20, -1e30, 1e-9])
    )
    assert sums.sums.tolist() == [[150, -50]]


def test_integer_products_are_exact_where_floats_are_not():
    rng = np.random.default_rng(1)
    weights = rng.integers(-(2**18), 2**18 + 1, (5, 3000)).astype(float)
    sums = rng.integers(-(2**38), 2**38, 3000)
    expected = [sum(int(w) * int(s) for w, s in zip(row, sums, strict=True)) for row in weights]
    assert exact_products(weights, sums).tolist() == expected
    assert (weights @ sums.astype(float)).astype(np.int64).tolist() != expected
    ends = np.array([-(2**63), 2**63 - 1, -1, -(2**47), 2**47])
    signs = 2.0**18 * np.array([[1, -1, 1, 1, 1], [-1, 1, 1, -1, 1]])
    expected = [sum(int(w) * int(s) for w, s in zip(row, ends, strict=True)) for row in signs]
    assert exact_products(signs, ends).tolist() == expected
    assert min(map(abs, expected)) > 2**81


def test_caps_are_rounded_down():
    assert integer_caps(np.array([1.0, 0.9999999, 2.0**-21])).tolist() == [2**20, 2**20 - 1, 0]


def test_private_histogram_has_its_law_and_is_counted():
    cells = CellMeasure.uniform(low=0, high=1, cells=200)
    contexts = np.full(10_000, 0.001)
    law_ = ContextLaw.from_private_histogram(contexts, cells=cells, epsilon=0.5, noise=SimulatedNoise(2))
    counts = law_.measure.weights * 1.0
    assert counts[0] > 0.9
    usca = build(
        SquaredExponential(lengthscale=0.3),
        epsilon=1.5,
        contexts=ContextLaw.from_private_histogram(
            contexts, cells=CellMeasure.uniform(low=0, high=1, cells=8), epsilon=0.5, noise=SimulatedNoise(2)
        ),
    )
    assert usca.calibration.budget.answer_epsilon == 1.0
    text = usca.guarantee.annex()
    assert "private histogram" not in usca.contexts.describe()
    assert "counted on the protected people, with noise" in text.replace("\n", " ")


def test_private_histogram_noise_has_the_rate_that_its_sensitivity_needs():
    cells = CellMeasure.uniform(low=0, high=1, cells=20_000)
    contexts = np.repeat(cells.points[:, 0], 50)  # far above zero everywhere, so that nothing is cut
    law_ = ContextLaw.from_private_histogram(
        contexts, cells=cells, epsilon=1.0, rounds_per_user=2, noise=SimulatedNoise(4)
    )
    scaled = law_.measure.weights / law_.measure.weights.mean() * 50.5
    # discrete Laplace of rate 1/4: variance 2 p/(1-p)^2 = 31.83, kurtosis about 6
    rate = np.exp(-0.25)
    variance = 2 * rate / (1 - rate) ** 2
    assert abs(scaled.var() / variance - 1.0) < 0.1


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_an_answer_is_drawn_from_the_law_that_its_epsilon_pays_for(monkeypatch):
    """The laws that `answer` draws from, for all rows that one user can bring: exact, and nearly reached."""
    laws = []

    def exact_law(scores, *, sensitivity, epsilon, words):
        laws.append(law(np.array(scores), sensitivity, epsilon))
        return 0

    monkeypatch.setattr("dpbandits.central.logged.policy.permute_and_flip", exact_law)
    actions, contexts = CellMeasure.finite([0.0, 1.0]), CellMeasure.uniform(low=0, high=1, cells=3)
    places = contexts.points[:, 0]
    for place, action, reward in itertools.product(places, (0, 1), (-1.2, 1.2)):
        usca = build(
            SquaredExponential(lengthscale=0.3),
            epsilon=2.0,
            answer_epsilon=0.5,
            actions=actions,
            contexts=contexts,
            horizon=200,
        )
        # everybody else puts action 0 far ahead
        usca.learn([*[places[0]] * 199, place], [*[0] * 199, action], [*[1.2] * 199, reward])
        usca.answer([places[0]])
    assert usca.calibration.budget.answers == 4
    ratios = [largest_log_ratio(one, other) for one, other in itertools.combinations(laws, 2)]
    assert 0.9 * 0.5 <= max(ratios) <= 0.5 * (1.0 + 1e-9)


def test_a_users_surplus_rows_do_not_move_a_private_histogram():
    cells = CellMeasure.uniform(low=0, high=1, cells=4)
    users = ["ann"] * 5 + [f"u{i}" for i in range(400)]

    def weights(*anns):
        contexts = np.r_[list(anns), np.repeat(cells.points[:, 0], 100)]  # no count is cut at zero
        return ContextLaw.from_private_histogram(
            contexts, cells=cells, epsilon=1.0, rounds_per_user=2, users=users, noise=SimulatedNoise(4)
        ).measure.weights.tolist()

    assert weights(0.1, 0.1, 0.9, 0.9, 0.9) == weights(0.1, 0.1, 0.4, np.nan, 7.0)
    assert weights(0.1, 0.1, 0.9, 0.9, 0.9) != weights(0.1, 0.9, 0.9, 0.9, 0.9)

"""Sensitivities of a readout's sums by enumeration, and the division of the promise."""

import itertools
import math

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central.readout.budget import BothNoises, for_learning
from dpbandits.central.readout.declared import ToldMetric
from dpbandits.central.readout.lattice import ANSWERED, Lattice
from dpbandits.privacy import JointDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.certificates import (
    GaussianDP,
    NearGaussianDP,
    PureBeside,
    PureDP,
    ZeroConcentratedDP,
    either,
    from_config,
)

BOUNDS = dpb.RewardRange(0, 1)
PROMISE = JointDP(epsilon=1, delta=1e-6)
READOUT = dpb.Readout(control=dpb.Control(arm="nothing"), looks=4)


def metric(name, *, yes_no=False, weight=1.0, bounds=BOUNDS):
    return ToldMetric(name=name, bounds=bounds, yes_no=yes_no, weight=weight)


def integers(lattice, values, answered, people, *, gaussian):
    read = lattice.read(np.asarray(values, dtype=float).reshape(len(people), -1))
    return lattice.sums(read, np.asarray(answered), np.asarray(people), gaussian=gaussian)


YES = metric("complaint", yes_no=True)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("visits", [1, 2, 3])
@pytest.mark.parametrize("low", [0.0, -1.0, -0.5])
def test_replacing_one_user_moves_the_integers_by_at_most_the_sensitivity(gaussian, visits, low):
    """Every pair of contributions on a grid of values, answered or not, beside one other user."""
    lattice = Lattice((metric("reward", bounds=dpb.RewardRange(low, low + 1.0)),), visits > 1)
    own = low + np.linspace(0.0, 1.0, 33)[:, None] * np.ones(visits)  # equal visits reach every total
    found = [
        integers(
            lattice,
            [*row, low + 0.3],
            [*(visit < told for visit in range(visits)), True],
            [0] * visits + [1],
            gaussian=gaussian,
        )
        for row in own
        for told in range(visits + 1)
    ]
    moved = np.array(found)[:, None] - np.array(found)[None]
    size = np.sqrt((moved**2.0).sum(axis=2)) if gaussian else np.abs(moved).sum(axis=2)
    most = visits * lattice.sensitivity(gaussian=gaussian)
    assert size.max() <= most
    # the bound is reached if the default is an end of the range
    assert size.max() > (0.8 if low == -0.5 else 0.999) * most


def test_sensitivities_add_up_over_metrics_and_weights():
    lattice = Lattice((metric("reward", yes_no=True), metric("complaint", yes_no=True, weight=0.5)), False)
    corners = [
        integers(lattice, values, [told], [0], gaussian=False)
        for *values, told in itertools.product((0.0, 1.0), (0.0, 1.0), (False, True))
    ]
    moved = max(np.abs(one - other).sum() for one in corners for other in corners)
    assert moved == lattice.sensitivity(gaussian=False) - 1  # the last one is for rounding
    assert lattice.size == 3
    assert lattice.sensitivity(gaussian=False) == pytest.approx((1.5 + 9 / 32) * 2 * 65536, rel=1e-4)


def test_squares_and_answers_in_l2_stay_within_the_bound():
    s = np.linspace(0.0, 2.0, 200_001)
    alone = (2.0 - s) ** 2 * (1.0 + (25.0 * s / 16.0) ** 2)
    assert alone.max() <= 4.0
    assert (alone + ANSWERED**2 * (2.0 + s) ** 2 / 4.0).max() <= 4.0 + ANSWERED**2


def test_unreadable_values_count_as_the_default_each_by_itself():
    lattice = Lattice((metric("reward"), metric("change", bounds=dpb.RewardRange(-5, 5))), False)
    good, bad = np.array([[0.5, 5.0]]), np.array([[np.inf, np.nan], [2.0, -6.0]])
    read = lattice.read(np.vstack([good, bad]))
    np.testing.assert_array_equal(read[0], lattice.read(good)[0])
    np.testing.assert_array_equal(read[1:], np.tile(lattice.defaults, (2, 1)))
    assert lattice.defaults.tolist() == [-65536, 0]
    yes = Lattice((metric("reward", yes_no=True),), False)
    assert yes.read(np.array([[0.5], [1.0]])).tolist() == [[-65536], [65536]]


def test_one_round_is_read_as_many_are():
    clipped = dpb.RewardRange(-3.1, 7.7, clip=True)
    metrics = (
        metric("reward", bounds=clipped),
        metric("paid", weight=0.7, bounds=dpb.RewardRange(0.1, 500)),
        YES,
    )
    lattice, rng = Lattice(metrics, False), np.random.default_rng(0)
    values = rng.choice([0, 1, 0.1, -3.1, 7.7, 500, 501, 1e308, -1e308, np.nan, np.inf, -np.inf], (400, 3))
    values = np.vstack([values, rng.uniform(-4, 9, (2000, 3))])
    assert [lattice.read_one(row) for row in values.tolist()] == lattice.read(values).tolist()


def test_sums_and_squares_have_the_values_that_readings_expect():
    lattice = Lattice((metric("reward"),), True)
    values, people = np.array([0.0, 0.25, 1.0, 1.0]), np.array([0, 1, 1, 2])
    for gaussian in (False, True):
        found = integers(lattice, values, [True] * 4, people, gaussian=gaussian)
        of_sums, of_squares = lattice.scales(gaussian=gaussian)
        assert found[0] * of_sums[0] == pytest.approx((values - 0.5).sum())
        totals = np.bincount(people, weights=2 * values - 1)
        assert found[1] * of_squares[0] == pytest.approx((totals**2 / np.bincount(people)).sum(), abs=1e-3)
        assert lattice.answers(found, 4) == pytest.approx(4, abs=1e-4)


@pytest.mark.parametrize("bounds", [(0, 1), (-1, 0), (-1, 3), (2, 5)])
def test_answered_rounds_are_counted_whatever_their_values(bounds):
    lattice = Lattice((metric("reward", bounds=dpb.RewardRange(*bounds)), metric("other")), False)
    values = np.column_stack([np.linspace(*bounds, 40), np.linspace(0, 1, 40)])
    answered = np.arange(40) % 3 > 0
    found = integers(lattice, values, answered, range(40), gaussian=False)
    assert lattice.answers(found, 40) == pytest.approx(26, abs=1e-3)
    # the values of rounds without an answer are the public defaults, whatever is recorded of them
    junk = np.where(answered[:, None], values, -7.0)
    np.testing.assert_array_equal(found, integers(lattice, junk, answered, range(40), gaussian=False))


LEARNED = {
    "pure": lambda own: PureDP(own.epsilon),
    "gaussian": lambda own: SimulatedNoise(0).gaussian_scale(1e6, own.epsilon, own.delta)[1],
    "near": lambda own: SecureNoise().gaussian_scale(1e6, own.epsilon, own.delta, draws=100)[1],
    "zcdp": lambda own: SecureNoise().gaussian_scale(1e6, own.epsilon, own.delta)[1],
    "mixed": lambda own: PureBeside(
        0.85 * own.epsilon, SecureNoise().gaussian_scale(1e6, 0.15 * own.epsilon, own.delta)[1]
    ),
}


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("rounds", [1, 5])
@pytest.mark.parametrize("charged", [False, True])
def test_learning_and_sums_together_keep_the_promise(kind, epsilon, rounds, charged):
    privacy = JointDP(epsilon=epsilon, delta=1e-6, rounds_per_user=rounds)
    lattice = Lattice((metric("reward"), metric("complaint", yes_no=True)), rounds > 1)
    own = for_learning(privacy, 0.05, gaussian=kind in ("gaussian", "near", "zcdp"))
    assert 0.8 * epsilon < own.epsilon < epsilon
    learned, noise = LEARNED[kind](own), SimulatedNoise(0) if kind == "gaussian" else SecureNoise()
    both = BothNoises.planned(learned, privacy, noise, lattice, READOUT, segments=None, charged=charged)
    delta = 0.0 if kind == "pure" else privacy.delta
    assert both.certificate.delta_at(epsilon) <= delta
    assert both.control.certificate.delta_at(epsilon) <= delta
    assert both.control.scale < both.policy.scale
    # Nothing is left over: the policy's sums could not have a tenth less noise.
    if kind == "pure":
        assert own.epsilon + both.policy.certificate.epsilon == pytest.approx(epsilon)
    elif kind == "mixed":
        assert own.epsilon + both.policy.certificate.epsilon == pytest.approx(epsilon, rel=1e-6)
    else:
        mu = both.policy.sensitivity / both.policy.scale
        whole = math.hypot(mu, math.sqrt(2.0 * learned.to_zcdp().rho))
        assert learned.at_shift(1.01 * whole).delta_at(epsilon) > delta
    assert both.control.gaussian == (charged and kind != "pure") or epsilon >= 1.0


def test_the_noise_of_laplace_sums_is_the_stated_one():
    lattice = Lattice((metric("reward"),), False)
    both = BothNoises.planned(
        PureDP(0.95), PROMISE, SimulatedNoise(1), lattice, READOUT, segments=None, charged=False
    )
    drawn = np.concatenate([both.policy.draw(SimulatedNoise(seed)) for seed in range(3000)])
    assert both.policy.sd == pytest.approx(
        math.sqrt(2.0) * lattice.sensitivity(gaussian=False) / 0.05, rel=1e-6
    )
    # standard error of the variance of Laplace noise: sqrt(5/n) of it; six of them
    assert drawn.var() == pytest.approx(both.policy.sd**2, rel=6.0 * math.sqrt(5.0 / len(drawn)))


def test_certificates_of_one_kind_stay_of_that_kind():
    pairs = [
        (PureDP(1.0), PureDP(0.5), PureDP(1.0)),
        (GaussianDP(0.1), GaussianDP(0.3), GaussianDP(0.3)),
        (ZeroConcentratedDP(0.1), ZeroConcentratedDP(0.3), ZeroConcentratedDP(0.3)),
        (NearGaussianDP(0.1, 1e-12), NearGaussianDP(0.2, 1e-9), NearGaussianDP(0.2, 1e-9)),
    ]
    for first, second, both in pairs:
        assert either(first, second) == both
    mixed = either(PureDP(1.0), GaussianDP(0.2))
    assert from_config(mixed.to_config()) == mixed
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert mixed.delta_at(epsilon) == max(
            PureDP(1.0).delta_at(epsilon), GaussianDP(0.2).delta_at(epsilon)
        )
    assert mixed.to_zcdp().rho == 0.5
    assert mixed.beside(PureDP(0.5)).delta_at(1.5) >= GaussianDP(0.2).delta_at(1.5)

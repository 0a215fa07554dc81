"""Lower bounds are below the truth as often as they say, and close to it."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpbandits.audit.bounds import (
    MOST_OUTPUTS,
    chosen_thresholds,
    clopper_pearson,
    event_bound,
    fewest_outputs,
    gaussian_bound,
    law_bound,
    mu_bound,
)
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.calibration import gaussian_mu
from dpbandits.privacy.certificates import GaussianDP

SURE = 1.0 - 1e-9
"""Confidence of bounds that a test relies on: a false alarm is a matter of 1e-9."""


@pytest.mark.parametrize("trials", [1, 7, 40])
@pytest.mark.parametrize("error", [0.05, 1e-3])
def test_clopper_pearson_misses_no_more_often_than_it_says_and_is_no_wider_than_the_definition(trials, error):
    """Summed over all counts, for every probability: exact, not simulated."""
    counts = np.arange(trials + 1)
    low, high = clopper_pearson(counts, trials, error=error)
    for p in np.linspace(0.001, 0.999, 199):
        chances = stats.binom.pmf(counts, trials, p)
        assert chances[low > p].sum() <= error * (1 + 1e-9)
        assert chances[high < p].sum() <= error * (1 + 1e-9)
    # by definition: at the lower bound, a count as large has probability `error`
    inside = counts[1:]
    np.testing.assert_allclose(stats.binom.sf(inside - 1, trials, low[1:]), error, rtol=1e-6)
    np.testing.assert_allclose(stats.binom.cdf(counts[:-1], trials, high[:-1]), error, rtol=1e-6)
    assert (low[0], high[-1]) == (0.0, 1.0)


def test_impossible_counts_are_refused():
    with pytest.raises(InvalidData):
        clopper_pearson(np.array([11]), 10, error=0.1)
    with pytest.raises(InvalidParameter):
        clopper_pearson(np.array([1]), 10, error=0.0)


def laplace_worlds(epsilon, n, seed=1):
    rng = np.random.default_rng(seed)
    return rng.laplace(0.0, 1.0 / epsilon, n), rng.laplace(1.0, 1.0 / epsilon, n)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_the_bound_is_below_a_tight_claim_and_near_it(epsilon):
    null, other = laplace_worlds(epsilon, 200_000)
    found = event_bound(null, other, above=[1.0], below=[0.0], delta=0.0, confidence=SURE)
    assert 0.85 * epsilon < found <= epsilon


@pytest.mark.parametrize("trials", [10, 1000])
def test_an_event_always_seen_in_one_world_and_never_in_the_other_proves_what_its_intervals_say(trials):
    """Both intervals have a closed form there, each with half of the error."""
    error = 0.5 * (1.0 - 0.99)
    low = error ** (1.0 / trials)
    found = event_bound(np.zeros(trials), np.ones(trials), above=[1.0], below=[], delta=0.0, confidence=0.99)
    assert found == pytest.approx(math.log(low) - math.log(1.0 - low), rel=1e-9)


def test_the_two_worlds_may_be_exchanged():
    null, other = laplace_worlds(1.0, 50_000)
    one = event_bound(null, other, above=[1.0], below=[0.0], delta=0.0, confidence=0.999)
    two = event_bound(-other, -null, above=[0.0], below=[-1.0], delta=0.0, confidence=0.999)
    assert one == pytest.approx(two, rel=1e-12)


def test_events_that_are_never_seen_prove_nothing():
    null, other = np.zeros(1000), np.zeros(1000)
    assert event_bound(null, other, above=[1.0], below=[-1.0], delta=0.0, confidence=0.999) == 0.0


def test_delta_is_taken_off():
    """Published with chance .01: refuted at delta 0, allowed at delta .02."""
    rng = np.random.default_rng(2)
    null, other = np.zeros(100_000), (rng.random(100_000) < 0.01).astype(float)
    bound = lambda delta: event_bound(null, other, above=[0.5], below=[0.0], delta=delta, confidence=SURE)  # noqa: E731
    assert bound(0.0) > 3.0
    assert bound(0.02) == 0.0


def test_more_thresholds_share_the_error():
    null, other = laplace_worlds(1.0, 20_000)
    one = event_bound(null, other, above=[1.0], below=[], delta=0.0, confidence=0.999)
    many = event_bound(null, other, above=[1.0, 50.0, 60.0, 70.0], below=[80.0], delta=0.0, confidence=0.999)
    assert many < one
    equal = event_bound(null, other, above=[1.0], below=[], delta=0.0, confidence=1.0 - 0.001 / 5)
    assert many == pytest.approx(equal, rel=1e-12)


def test_thresholds_are_those_of_the_training_samples():
    null, other = laplace_worlds(1.0, 50_000)
    above, below = chosen_thresholds(null, other, delta=0.0, error=1e-4)
    assert 0.8 < above < 2.5
    assert -1.5 < below < 0.2
    # few values: each of them is a candidate
    null, other = np.repeat([0.0, 0.0, 1.0], 100), np.repeat([1.0, 1.0, 0.0], 100)
    assert chosen_thresholds(null, other, delta=0.0, error=0.1) == (1.0, 0.0)


def test_an_event_that_holds_every_output_is_never_chosen():
    """With few samples all other events have bounds that are further below zero."""
    null, other = np.repeat([0.0, 1.0], [59, 41]), np.repeat([0.0, 1.0], [41, 59])
    assert chosen_thresholds(null, other, delta=0.0, error=2.5e-4) == (1.0, 0.0)
    assert chosen_thresholds(np.zeros(9), np.zeros(9), delta=0.0, error=0.1) == (0.0, 0.0)


def test_a_request_without_events_is_refused():
    with pytest.raises(InvalidParameter):
        event_bound(np.zeros(2), np.zeros(2), above=[], below=[], delta=0.0, confidence=0.9)


@pytest.mark.parametrize("mu", [0.0, 0.2, 1.0, 3.0])
def test_mu_is_bounded_from_below_whatever_its_sign(mu):
    """200 repetitions at confidence 1 - 1e-9 each: a false alarm below 2e-7."""
    rng = np.random.default_rng(3)
    found = [
        mu_bound(rng.normal(0.0, 7.0, 2000), rng.normal(sign * 7.0 * mu, 7.0, 2000), confidence=SURE)
        for sign in (1.0, -1.0)
        for _ in range(100)
    ]
    assert max(found) <= mu
    assert np.mean(found) > mu - 0.25 * (1.0 + mu / 2)


def test_the_confidence_of_mu_is_what_it_says_and_not_much_more():
    """At confidence .8 the bound is above the truth in at most 20% of runs; not in nearly none."""
    rng = np.random.default_rng(4)
    missed = sum(
        mu_bound(rng.normal(0.0, 1.0, 50), rng.normal(0.5, 1.0, 50), confidence=0.8) > 0.5
        for _ in range(2000)
    )
    assert 2 <= missed <= 500  # 400 expected at most; five standard deviations above


def test_a_gaussian_bound_is_the_epsilon_of_the_mu_that_was_proved():
    rng = np.random.default_rng(5)
    mu = gaussian_mu(1.0, 1e-6)
    null, other = rng.normal(0.0, 1.0, 200_000), rng.normal(mu, 1.0, 200_000)
    found = gaussian_bound(null, other, delta=1e-6, confidence=SURE)
    assert 0.85 < found < 1.0
    proved = mu_bound(null, other, confidence=SURE)
    assert found == GaussianDP(proved).epsilon_at(1e-6)
    assert gaussian_bound(null, null, delta=1e-6, confidence=SURE) == 0.0


def test_constant_outputs_that_differ_are_told_apart_for_good():
    assert mu_bound(np.zeros(10), np.ones(10), confidence=0.9) == math.inf


def test_exact_laws_are_compared_exactly_and_rounded_down():
    one = [Fraction(2, 3), Fraction(1, 3), Fraction(0)]
    two = [Fraction(1, 3), Fraction(2, 3), Fraction(0)]
    assert math.log(2) * (1 - 1e-14) < law_bound(one, two) < math.log(2)
    assert law_bound(one, one) == 0.0
    assert law_bound([Fraction(1), Fraction(0)], two[:2]) == math.inf
    tiny = law_bound([Fraction(10**40 + 1, 10**41)], [Fraction(1, 10)])
    assert 0.0 <= tiny <= 1e-39
    with pytest.raises(InvalidData):
        law_bound(one, two[:2])


def test_a_ratio_near_1_or_beyond_floats_is_rounded_down():
    """log(1 + x) lies between x - x^2/2 and x, and log(10) between two fractions."""
    rng = np.random.default_rng(0)
    for gap in rng.integers(1, 1 << 24, 400).tolist():
        low = int(rng.integers(1 << 50, 1 << 52))
        x = Fraction(gap, low)
        found = Fraction(law_bound([Fraction(low + gap, 1 << 60)], [Fraction(low, 1 << 60)]))
        assert (x - x**2 / 2) * (1 - Fraction(1, 10**14)) < found < x
    ten = Fraction("2.302585092994045684017991454684364207")
    for power in (1, 400, 100_000):
        found = Fraction(law_bound([Fraction(1)], [Fraction(1, 10**power)]))
        assert power * ten * (1 - Fraction(1, 10**14)) < found < power * ten


def test_bounds_keep_a_small_error_to_the_last_digits():
    """No success among n: by definition, the upper bound is 1 - error^(1/n)."""
    for error in (1e-3, 1e-12, 1e-30, 1e-200):
        _, high = clopper_pearson(np.array([0]), 1000, error=error)
        np.testing.assert_allclose(high, -math.expm1(math.log(error) / 1000), rtol=1e-10)
    three = np.array([0.0, 1.0, 2.0])
    error = 0.5 * (1.0 - (1.0 - 1e-13))
    spread = math.sqrt(4.0 / stats.chi2.ppf(error, 4))
    mean = 5e8 + stats.t.ppf(0.5 * error, 4) * math.sqrt(2.0 / 3.0)
    found = mu_bound(three, three + 5e8, confidence=1.0 - 1e-13)
    assert found == pytest.approx(mean / spread, rel=1e-9)


def test_float_laws_are_granted_their_rounding():
    assert law_bound(np.array([0.5, 0.5]), np.array([0.5 * (1 + 1e-12), 0.5])) == 0.0
    assert law_bound(np.array([0.3]), np.array([0.1])) == pytest.approx(math.log(3), rel=1e-8)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 0.1])
@pytest.mark.parametrize("epsilon", [0.02, 1.0, 6.0])
@pytest.mark.parametrize("confidence", [0.5, 0.999, SURE])
def test_the_fewest_outputs_can_exceed_a_claim_and_one_fewer_cannot(epsilon, delta, confidence):
    """All outputs of one world show the event, and none of the other: no counts prove more."""

    def best(n):
        counted = {"above": [1.0], "below": [0.0], "delta": delta, "confidence": confidence}
        return event_bound(np.zeros(n), np.ones(n), **counted)

    n = fewest_outputs(epsilon, delta, confidence=confidence)
    assert n is not None
    assert best(n) > epsilon
    assert n == 1 or best(n - 1) <= epsilon


@pytest.mark.parametrize("epsilon", [50.0, 720.0, 1e6])
def test_no_number_of_outputs_decides_a_claim_of_a_large_epsilon(epsilon):
    assert fewest_outputs(25.0, 0.0, confidence=0.999) < MOST_OUTPUTS
    assert fewest_outputs(epsilon, 1e-6, confidence=0.999) is None

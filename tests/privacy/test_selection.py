import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.selection import (
    exponential,
    exponential_law,
    largest_log_ratio,
    permute_and_flip,
    permute_and_flip_law,
)
from dpbandits.privacy.words import SimulatedWords


def enumerated_law(scores, rate):
    """Permute-and-flip by summing over all orders."""
    from itertools import permutations
    from math import factorial

    chances = np.exp(-rate * (max(scores) - np.asarray(scores, float)))
    law = np.zeros(len(scores))
    for order in permutations(range(len(scores))):
        alive = 1.0
        for x in order:
            law[x] += alive * chances[x]
            alive *= 1.0 - chances[x]
    return law / factorial(len(scores))


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=6), st.floats(0.05, 4.0))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_law_equals_the_sum_over_all_orders(scores, epsilon):
    law = permute_and_flip_law(np.array(scores, float), sensitivity=2.0, epsilon=epsilon)
    np.testing.assert_allclose(law, enumerated_law(scores, epsilon / 2.0), atol=1e-12)
    assert law.sum() == pytest.approx(1.0, abs=1e-12)


def test_law_sums_to_one_with_many_candidates():
    rng = np.random.default_rng(0)
    law = permute_and_flip_law(rng.standard_normal((7, 400)), sensitivity=1.0, epsilon=3.0)
    np.testing.assert_allclose(law.sum(axis=1), 1.0, atol=1e-10)


def test_sampler_has_its_law():
    scores, draws = [0, 3, 5, 5, 1], 20_000
    words = SimulatedWords(5)
    counts = np.bincount(
        [permute_and_flip(scores, sensitivity=4, epsilon=1.3, words=words) for _ in range(draws)], minlength=5
    )
    law = permute_and_flip_law(np.array(scores, float), sensitivity=4.0, epsilon=1.3)
    statistic = float((((counts - draws * law) ** 2) / (draws * law)).sum())
    assert statistic < 34.0  # chi-squared, 4 degrees of freedom: false alarm below 1e-6; the seed is fixed


@given(
    st.lists(st.integers(-20, 20), min_size=2, max_size=9),
    st.lists(st.integers(0, 5), min_size=9, max_size=9),
    st.integers(-30, 30),
    st.sampled_from([0.1, 1.0, 3.0]),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_range_sensitivity_alone_bounds_the_log_ratio(scores, moves, shift, epsilon):
    before = np.array(scores, float)
    after = before + np.array(moves[: len(scores)]) + shift
    for law in (permute_and_flip_law, exponential_law):
        pair = [law(s, sensitivity=5.0, epsilon=epsilon) for s in (before, after)]
        assert largest_log_ratio(*pair) <= epsilon * (1.0 + 1e-9)


def test_bound_is_reached():
    before, after = np.array([100.0, 0.0]), np.array([102.5, -2.5])
    pair = [permute_and_flip_law(s, sensitivity=5.0, epsilon=1.0) for s in (before, after)]
    assert largest_log_ratio(*pair) > 0.999


def test_permute_and_flip_is_never_worse_than_the_exponential_mechanism():
    rng = np.random.default_rng(3)
    for scores in rng.standard_normal((50, 12)) * 3.0:
        flip = permute_and_flip_law(scores, sensitivity=1.0, epsilon=1.0)
        exponential = exponential_law(scores, sensitivity=1.0, epsilon=1.0)
        assert flip @ scores >= exponential @ scores - 1e-12


def test_equal_scores_are_equally_likely_and_huge_integers_are_exact():
    words = SimulatedWords(1)
    big = 10**40
    counts = np.bincount(
        [permute_and_flip([big, big, 0], sensitivity=10, epsilon=1.0, words=words) for _ in range(4000)],
        minlength=3,
    )
    assert counts[2] == 0
    assert abs(counts[0] - 2000) < 170  # 5.4 standard deviations


def test_bad_input_is_refused():
    with pytest.raises(InvalidData):
        permute_and_flip([], sensitivity=1, epsilon=1.0)
    with pytest.raises(InvalidParameter):
        permute_and_flip([1, 2], sensitivity=0, epsilon=1.0)
    with pytest.raises(InvalidParameter):
        permute_and_flip([1, 2], sensitivity=1, epsilon=0.0)
    with pytest.raises(InvalidData):
        permute_and_flip_law(np.array([np.nan]), sensitivity=1.0, epsilon=1.0)


def test_ratio_of_disjoint_laws_is_infinite():
    assert largest_log_ratio(np.array([1.0, 0.0]), np.array([0.5, 0.5])) == np.inf


def test_exact_draws_follow_the_exponential_law():
    """Chi-squared of 20,000 draws under a fixed seed; false alarm below 1e-6."""
    scores, words, draws = [0, 3, 4, 4, -7], SimulatedWords(6), 20_000
    found = np.bincount(
        [exponential(scores, sensitivity=4, epsilon=1.3, words=words) for _ in range(draws)], minlength=5
    )
    expected = draws * exponential_law(np.array(scores, dtype=float), sensitivity=4.0, epsilon=1.3)
    assert ((found - expected) ** 2 / expected).sum() < 34.0  # as above
    for wrong in ({"sensitivity": 0}, {"sensitivity": 1.5}, {"epsilon": 0.0}):
        with pytest.raises(InvalidParameter):
            exponential(scores, **({"sensitivity": 4, "epsilon": 1.0} | wrong))
    with pytest.raises(InvalidData):
        exponential([], sensitivity=1, epsilon=1.0)

import numpy as np
import pytest

from dpbandits.models.ties import TIE, first_best
from dpbandits.policy import best_choice, best_row, uniform_choice

pytestmark = pytest.mark.numerics


def test_uniform_choice_covers_exactly_the_available_rows():
    coins = (np.arange(6000) + 0.5) / 6000
    available = np.tile([True, False, True, True], (6000, 1))
    indices, propensities = uniform_choice(coins, 4, available)
    assert np.bincount(indices, minlength=4).tolist() == [2000, 0, 2000, 2000]
    assert np.all(propensities == 1 / 3)


def test_uniform_choice_without_a_mask_uses_every_row():
    indices, propensities = uniform_choice(np.array([0.01, 0.26, 0.51, 0.99]), 4, None)
    assert indices.tolist() == [0, 1, 2, 3]
    assert np.all(propensities == 0.25)


def test_best_choice_breaks_ties_by_the_coin_and_ignores_what_is_not_available():
    scores = np.array([[1.0, 3.0, 3.0], [1.0, 3.0, 3.0], [5.0, 3.0, 3.0]])
    assert best_choice(scores, np.array([0.2, 0.8, 0.5]), None).tolist() == [1, 2, 0]
    available = np.array([[True, True, False]] * 2 + [[False, True, True]])
    assert best_choice(scores, np.array([0.9, 0.9, 0.9]), available).tolist() == [1, 1, 2]


def test_a_tie_in_one_set_leaves_the_others_as_they_are():
    scores = np.array([[1.0, 2.0, 0.0], [2.0, 2.0, 2.0], [np.nan, 1.0, 2.0], [0.0, 1.0, 1.0]])
    coins = np.array([0.9, 0.5, 0.9, 0.9])
    together = best_choice(scores, coins, None)
    assert together.tolist() == [1, 1, 0, 2]
    assert together.tolist() == [
        int(best_choice(scores[i : i + 1], coins[i : i + 1], None)[0]) for i in range(4)
    ]


def test_a_score_that_is_no_number_never_chooses_what_is_not_available():
    nan, scores = np.nan, np.array([[1.0, np.nan, 2.0], [1.0, np.nan, np.nan], [3.0, 1.0, np.nan]])
    available = np.array([[False, True, True], [False, True, True], [False, True, False]])
    for coin, expected in ((0.2, [2, 1, 1]), (0.8, [2, 2, 1])):
        assert best_choice(scores, np.full(3, coin), available).tolist() == expected
    assert best_choice(np.full((1, 3), nan), np.array([0.9]), available[:1]).tolist() == [2]


def test_the_first_that_ties_is_taken_in_any_unit():
    rng = np.random.default_rng(0)
    for unit in (1.0, 2.0**-43, 2.0**40):
        for top in (0.0, 0.3 * unit, -0.3 * unit):
            rounded = top + unit * (1e-14 * rng.standard_normal((30, 3)) - [2.0 * TIE, 0.0, 0.0])
            assert first_best(rounded, unit=unit).tolist() == [1] * 30
            assert int(first_best(rounded[0], unit=unit)) == 1


def test_one_row_is_chosen_as_by_best_choice_and_its_coin_is_drawn_for_a_tie_alone():
    nan = np.nan
    for scores, coin in (
        ([1.0, 3.0, 2.0], None),
        ([-np.inf, 3.0, np.inf], None),
        ([3.0, 1.0, 3.0], 0.2),
        ([3.0, 1.0, 3.0], 0.8),
        ([0.0, -0.0], 0.8),
        ([1.0, nan, 2.0], 0.4),
        ([nan, nan], 0.9),
        ([7.0], None),
        ([1.0, 1.0 + 1e-15, 0.5], 0.2),
        ([-4e6, -4e6 * (1.0 + 1e-15)], 0.8),
    ):
        drawn = []

        def toss(coin=coin, drawn=drawn) -> float:
            drawn.append(coin)
            return coin

        row = np.array(scores)
        expected = best_choice(row[None], np.array([0.5 if coin is None else coin]), None)
        assert best_row(row, toss) == expected[0]
        assert drawn == ([] if coin is None else [coin])


def test_scores_that_differ_by_rounding_tie_and_others_do_not():
    """Scores that are equal in exact arithmetic differ in their last bits from processor to processor."""
    rng, coins = np.random.default_rng(0), (np.arange(30) + 0.5) / 30
    for top in (0.0, 1e-30, 0.3, -0.3, 5.0, -5.0, 1e9, -1e9):
        size = max(1.0, abs(top))
        rounded = top + 1e-14 * size * rng.standard_normal((30, 3)) - [0.0, 0.0, 2.0 * TIE * size]
        assert np.bincount(best_choice(rounded, coins, None), minlength=3).tolist() == [15, 15, 0]
        assert [best_row(row, lambda: 0.9) for row in rounded] == [1] * 30
        assert best_choice(rounded, coins, np.tile([False, True, True], (30, 1))).tolist() == [1] * 30

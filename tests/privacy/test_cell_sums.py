"""Sums of rewards in cells: what one round moves, and the noise that hides it."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy import PureDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.cell_sums import CENTRED, CellSums

MOVE = 2**21
SUMS = CellSums(epsilon=1.0, noise=SimulatedNoise(0))
REWARDS = st.floats(min_value=-0.5, max_value=1.5)


def test_a_round_adds_one_integer_to_one_cell():
    sums = SUMS.encode(np.array([2]), np.array([0.75]), n_cells=4)
    np.testing.assert_array_equal(sums, [0, 0, 2**19, 0])
    assert sums.dtype == np.int64
    np.testing.assert_array_equal(SUMS.encode(np.zeros(0, dtype=int), np.zeros(0), n_cells=3), [0, 0, 0])


def test_sums_are_of_rewards_less_the_middle_and_exact_in_any_order():
    rng = np.random.default_rng(0)
    cells, rewards = rng.integers(0, 7, 5000), rng.random(5000)
    sums = SUMS.encode(cells, rewards, n_cells=7)
    expected = np.bincount(cells, weights=rewards - 0.5, minlength=7)
    np.testing.assert_allclose(sums * CENTRED, expected, atol=5000 * 2.0**-21)
    order = rng.permutation(5000)
    np.testing.assert_array_equal(sums, SUMS.encode(cells[order], rewards[order], n_cells=7))


@settings(derandomize=True, max_examples=200)
@given(st.integers(0, 4), REWARDS, st.integers(0, 4), REWARDS)
def test_one_round_moves_the_sums_by_at_most_the_sensitivity(cell, reward, other_cell, other_reward):
    one, other = (
        SUMS.encode(np.array([c]), np.array([y]), n_cells=5)
        for c, y in ((cell, reward), (other_cell, other_reward))
    )
    assert np.abs(one - other).sum() <= MOVE == SUMS.sensitivity
    assert np.abs(one).sum() <= MOVE / 2  # a reward that never comes


def test_the_sensitivity_is_reached_in_one_cell_and_in_two():
    def added(cell, reward):
        return SUMS.encode(np.array([cell]), np.array([reward]), n_cells=2)

    for other in (0, 1):
        ends = [np.abs(added(0, a) - added(other, b)).sum() for a, b in product((0.0, 1.0), repeat=2)]
        assert max(ends) == MOVE


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0, 50.0])
@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_the_rate_keeps_the_promise_in_exact_arithmetic(epsilon, rounds):
    sums = CellSums(epsilon=epsilon, rounds_per_user=rounds, noise=SecureNoise())
    loss = Fraction(sums.rate) * rounds * MOVE
    assert Fraction(epsilon) * (1 - Fraction(1, 2**50)) < loss < Fraction(epsilon)
    record = sums.record(releases=9)
    assert record.certificate == PureDP(epsilon)
    assert (record.sensitivity, record.releases, record.law) == (rounds * MOVE, 9, "discrete Laplace")
    assert record.scale == pytest.approx(rounds * MOVE / epsilon, rel=1e-12)


def test_every_cell_gets_noise_of_its_own_of_this_rate(monkeypatch):
    """Chances of a false alarm below 1e-6: six deviations of a mean and of a mean square."""
    sums = CellSums(epsilon=2.0, rounds_per_user=2, noise=SimulatedNoise(5))
    noise = np.array([sums.release(np.full(50, 7)) - 7 for _ in range(400)]) * CENTRED
    count = noise.size
    assert sums.noise_sd == pytest.approx(np.sqrt(2.0))
    assert abs(noise.mean()) < 6 * sums.noise_sd / np.sqrt(count)
    # of a Laplace law the fourth moment is 6 sd^4
    assert abs(np.mean(noise**2) - 2.0) < 6 * 2.0 * np.sqrt(5.0 / count)
    assert len(np.unique(noise)) > 0.99 * count
    asked = []
    monkeypatch.setattr(
        SimulatedNoise,
        "integer_laplace",
        lambda _, rate, size: asked.append((rate, size)) or np.ones(size, int),
    )
    np.testing.assert_array_equal(sums.release(np.arange(3)), [1, 2, 3])
    assert asked == [(sums.rate, 3)]


def test_simulated_noise_is_repeatable_and_never_the_same_twice():
    noise = SimulatedNoise(7)
    first, second = noise.integer_laplace(1e-6, 40), noise.integer_laplace(1e-6, 40)
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(noise.at(1).integer_laplace(1e-6, 40), second)
    assert not np.array_equal(SimulatedNoise(8).integer_laplace(1e-6, 40), first)


def test_secure_noise_follows_the_same_law():
    """Counts of 0, +-1, +-2 and the rest at rate 1, each within six deviations."""
    drawn, n = SecureNoise().integer_laplace(1.0, 40_000), 40_000
    zero = np.tanh(0.5)
    for value in range(-2, 3):
        chance = zero * np.exp(-abs(value))
        assert abs((drawn == value).sum() - n * chance) < 6 * np.sqrt(n * chance)


@pytest.mark.parametrize(
    ("cells", "rewards"),
    [
        (np.array([0, 1]), np.array([0.5])),
        (np.array([5]), np.array([0.5])),
        (np.array([-1]), np.array([0.5])),
        (np.array([0.0]), np.array([0.5])),
        (np.array([0]), np.array([np.nan])),
    ],
)
def test_what_is_no_cell_or_no_reward_is_refused(cells, rewards):
    with pytest.raises(InvalidData):
        SUMS.encode(cells, rewards, n_cells=5)


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"epsilon": 1e-7}, {"rounds_per_user": 0}, {"noise": 3}])
def test_a_promise_that_cannot_be_kept_is_refused_at_once(wrong):
    with pytest.raises(InvalidParameter):
        CellSums(**({"epsilon": 1.0, "noise": SecureNoise()} | wrong))

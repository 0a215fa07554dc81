import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.internals import policy as inside

from dpbandits.errors import InvalidParameter
from dpbandits.policy import PublicCoins


@given(
    seed=st.integers(0, 2**128 - 1),
    start=st.integers(0, 10_000),
    length=st.integers(1, 40),
    draws=st.integers(1, 9),
)
def test_a_round_does_not_depend_on_how_rounds_are_batched(seed, start, length, draws):
    together = PublicCoins(seed).uniform("explore", start, start + length, draws)
    alone = np.concatenate(
        [PublicCoins(seed).uniform("explore", t, t + 1, draws) for t in range(start, start + length)]
    )
    np.testing.assert_array_equal(together, alone)


def test_purposes_seeds_and_rounds_are_different_streams():
    coins = PublicCoins(3)
    columns = [
        coins.uniform("explore", 0, 2000, 1)[:, 0],
        coins.uniform("ties", 0, 2000, 1)[:, 0],
        PublicCoins(4).uniform("explore", 0, 2000, 1)[:, 0],
        coins.uniform("explore", 1, 2001, 1)[:, 0],
    ]
    for i, first in enumerate(columns):
        for second in columns[:i]:
            # correlation of 2000 independent pairs: |r| > 0.12 has probability below 1e-7
            assert abs(np.corrcoef(first, second)[0, 1]) < 0.12


def test_laws_are_uniform_and_normal():
    uniform = PublicCoins(11).uniform("law", 0, 25_000, 4).ravel()
    normal = PublicCoins(11).normal("law", 0, 25_000, 4).ravel()
    assert 0.0 < uniform.min()
    assert uniform.max() < 1.0
    # fixed seed; a correct generator fails with probability below 1e-6
    assert stats.kstest(uniform, "uniform").pvalue > 1e-6
    assert stats.kstest(normal, "norm").pvalue > 1e-6


@pytest.mark.parametrize("seed", [-1, 2**128, 1.5, True, "7"])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InvalidParameter):
        PublicCoins(seed)


def test_the_repr_shows_the_public_seed():
    assert repr(PublicCoins(5)) == "PublicCoins(seed=5)"


def test_no_rounds_and_numpy_rounds_are_fine():
    coins = PublicCoins(5)
    assert coins.uniform("explore", 3, 3, 2).shape == (0, 2)
    rounds = np.arange(7, 9)
    np.testing.assert_array_equal(
        coins.uniform("explore", rounds[0], rounds[1], 2), coins.uniform("explore", 7, 8, 2)
    )


def test_the_order_of_calls_does_not_matter():
    coins = PublicCoins(9)
    expected = {t: PublicCoins(9).uniform("explore", t, t + 1, 5)[0] for t in range(12)}
    for start, stop in ((3, 5), (5, 6), (9, 12), (0, 2), (1, 4), (4, 4), (11, 12), (0, 12)):
        drawn = coins.uniform("explore", start, stop, 5)
        coins.uniform("ties", 3, 7, 5)
        for t in range(start, stop):
            np.testing.assert_array_equal(drawn[t - start], expected[t])


def test_coins_of_many_purposes_hold_few_generators_and_draw_the_same():
    """A local server's versions each have a purpose of their own."""
    coins = PublicCoins(2)
    for turn in range(3):
        for purpose in [*map(str, range(50)), "rare"]:
            drawn = coins.uniform(purpose, 7 * turn, 7 * turn + 2, 3)
            alone = PublicCoins(2).uniform(purpose, 7 * turn, 7 * turn + 2, 3)
            np.testing.assert_array_equal(drawn, alone)
    assert inside.streams_kept(coins) <= 16

"""RewardRange: the centred reward never leaves [-1/2, 1/2], or a sensitivity would be wrong."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.domains import RewardRange
from dpbandits.errors import InvalidData, InvalidParameter


@st.composite
def ranges(draw):
    low = draw(st.floats(-1e12, 1e12))
    return RewardRange(low, low + draw(st.floats(1e-3, 1e12)))


@given(ranges(), st.lists(st.floats(-1e13, 1e13), min_size=1))
def test_clipped_rewards_are_centred_within_a_half(rewards, values):
    inside = rewards.validate(values, clip=True)
    assert ((inside >= rewards.low) & (inside <= rewards.high)).all()
    centred = rewards.to_centred(inside)
    assert (np.abs(centred) <= 0.5).all()
    np.testing.assert_allclose(
        rewards.from_centred(centred), inside, rtol=1e-9, atol=1e-9 * (rewards.width + abs(rewards.low))
    )


def test_ends_and_middle():
    rewards = RewardRange(2, 6)
    assert (rewards.low, rewards.high, rewards.width, rewards.middle) == (2.0, 6.0, 4.0, 4.0)
    np.testing.assert_array_equal(rewards.to_centred([2, 4, 6]), [-0.5, 0, 0.5])
    np.testing.assert_array_equal(rewards.from_centred([-0.5, 0, 0.75]), [2, 4, 7])


def test_shape_is_kept_from_scalar_to_batch():
    rewards = RewardRange(0, 1)
    assert rewards.validate(0.5, clip=False).shape == ()
    assert rewards.to_centred(0.5).shape == ()
    assert rewards.validate(1.5, clip=True).shape == ()
    assert rewards.to_centred(np.full((3, 2), 0.5)).shape == (3, 2)


@pytest.mark.parametrize(
    "bad", [777.25, [0.5, 777.25], np.nan, [np.inf], "777.25", [None], [True], [[0.1], [1, 2]]]
)
def test_bad_rewards_are_refused_without_showing_them(bad):
    for call in (RewardRange(0, 1).to_centred, lambda values: RewardRange(0, 1).validate(values, clip=False)):
        with pytest.raises(InvalidData) as caught:
            call(bad)
        assert "777" not in str(caught.value)


def test_clip_still_refuses_what_is_no_number():
    for bad in (np.nan, [np.inf], [-np.inf, 0.5]):
        with pytest.raises(InvalidData):
            RewardRange(0, 1).validate(bad, clip=True)


@pytest.mark.parametrize(
    ("low", "high"),
    [(1, 1), (1, 0), (0, np.inf), (np.nan, 1), ("0", "1"), (None, 1), (True, 2), (-1.7e308, 1.7e308)],
)
def test_bad_ranges_are_refused(low, high):
    with pytest.raises(InvalidParameter):
        RewardRange(low, high)


def test_of_takes_pairs_and_ranges():
    assert RewardRange.of((0, 1)) == RewardRange(0.0, 1.0)
    assert RewardRange.of([0, 1]) == RewardRange(0.0, 1.0)
    same = RewardRange(0, 1)
    assert RewardRange.of(same) is same
    for bad in (1.0, (1,), (0, 1, 2), "01", None):
        with pytest.raises(InvalidParameter):
            RewardRange.of(bad)


def test_config_rebuilds_an_equal_range():
    rewards = RewardRange(-0.0, 0.1)
    assert RewardRange.from_config(rewards.to_config()) == rewards
    assert repr(RewardRange.from_config(rewards.to_config())) == repr(RewardRange(0.0, 0.1))


@pytest.mark.parametrize("clip", [True, False])
def test_one_reward_is_held_as_it_is_in_an_array(clip):
    range_ = RewardRange(-1.5, 4.0, clip=clip)
    rewards = [-1.5, -1.6, 4.0, 4.1, 0.3, -0.0, np.inf, -np.inf, np.nan, 1e308]
    values, counts = range_.within(rewards)
    assert [range_.holds(one) for one in rewards] == list(zip(values, counts, strict=True))

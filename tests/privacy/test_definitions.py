"""Definitions: their numbers, their words, their warnings."""

import math
import warnings

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.privacy import definitions
from dpbandits.privacy.definitions import (
    DPBanditsWarning,
    JointDP,
    LargeDelta,
    LocalDP,
    NoPrivacy,
    RowDP,
    warn_if_delta_large,
)

ALL = [
    JointDP(epsilon=1, delta=1e-6, rounds_per_user=3),
    LocalDP(epsilon=2.0),
    RowDP(epsilon=1, distance=0.5),
    RowDP(epsilon=1, delta=1e-9, distance=0.5),
    NoPrivacy(),
]


def test_the_numbers_of_a_promise_may_stand_in_their_order():
    assert JointDP(1, 1e-6) == JointDP(epsilon=1, delta=1e-6)
    assert LocalDP(2) == LocalDP(epsilon=2)
    assert RowDP(1, 1e-9, distance=0.5) == RowDP(epsilon=1, delta=1e-9, distance=0.5)
    with pytest.raises(TypeError):  # rounds of a user are no number that one guesses
        JointDP(1, 1e-6, 3)


def test_a_row_promise_without_its_distance_says_what_to_pass():
    with pytest.raises(InvalidParameter, match=r"distance: pass RowDP\(epsilon=1, distance=0.1\)"):
        RowDP(epsilon=1)


@pytest.mark.parametrize("definition", ALL)
def test_survives_its_config(definition):
    assert definitions.from_config(definition.to_config()) == definition


@pytest.mark.parametrize("definition", ALL)
def test_has_words(definition):
    assert definition.unit
    assert definition.neighbours
    assert isinstance(definition.left_out, tuple)


def test_unit_counts_rounds():
    assert JointDP(epsilon=1, rounds_per_user=1).unit.endswith("at most 1 round")
    assert JointDP(epsilon=1, rounds_per_user=4).unit.endswith("at most 4 rounds")


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan, True, "1", None])
def test_epsilon_is_a_finite_positive_number(epsilon):
    for build in (JointDP, LocalDP):
        with pytest.raises(InvalidParameter, match="epsilon"):
            build(epsilon=epsilon)
    with pytest.raises(InvalidParameter, match="epsilon"):
        RowDP(epsilon=epsilon, distance=1.0)


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2, math.nan])
def test_delta_is_a_probability(delta):
    with pytest.raises(InvalidParameter, match="delta"):
        JointDP(epsilon=1, delta=delta)


@pytest.mark.parametrize("rounds", [0, -1, 1.5, True])
def test_rounds_per_user_is_a_count(rounds):
    with pytest.raises(InvalidParameter, match="rounds_per_user"):
        JointDP(epsilon=1, rounds_per_user=rounds)


def test_distance_is_positive():
    with pytest.raises(InvalidParameter, match="distance"):
        RowDP(epsilon=1, distance=0.0)


def test_a_large_delta_warns_where_it_is_written():
    with pytest.warns(LargeDelta, match="raw data") as caught:
        JointDP(epsilon=1, delta=0.1)
    assert caught[0].filename == __file__
    with pytest.warns(DPBanditsWarning):
        RowDP(epsilon=1, delta=0.1, distance=1.0)


def test_a_small_delta_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        JointDP(epsilon=1, delta=1e-3)
        warn_if_delta_large(1e-6, 999_999)
        warn_if_delta_large(0.0, 10**9)


def test_delta_is_compared_with_the_number_of_users():
    with pytest.warns(LargeDelta, match="1/1024"):
        warn_if_delta_large(1e-3, 1024)


def test_from_config_refuses_others():
    with pytest.raises(InvalidParameter):
        definitions.from_config({"kind": "HopeDP"})
    with pytest.raises(InvalidParameter):
        definitions.from_config({"kind": "LocalDP", "epsilon": 1.0, "delta": 0.1})

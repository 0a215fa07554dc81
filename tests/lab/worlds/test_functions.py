import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dpbandits.domains import Box
from dpbandits.errors import HorizonExceeded, InvalidData, InvalidParameter
from dpbandits.lab.worlds import (
    Environment,
    FunctionBandit,
    UniformCandidates,
    camelback,
    functions,
)
from internals.function_bandit import kept_chunks
from reproduction.dubey2021.gap_world import three_hills
from reproduction.dubey2021.table_functions import michalewicz_10, styblinski_tang_20

WORLDS = [camelback, styblinski_tang_20, michalewicz_10, three_hills]


def lowest(term, low, high):
    """Global minimum of a one-dimensional function: every cell of a fine grid is searched."""
    grid = np.linspace(low, high, 2001)
    best = grid[np.argmin([term(x) for x in grid])]
    width = grid[1] - grid[0]
    return float(
        minimize_scalar(
            term, bounds=(best - width, best + width), method="bounded", options={"xatol": 1e-12}
        ).fun
    )


def test_camelback_has_its_published_values():
    mean = camelback(seed=0).mean
    assert mean(np.array([0.08984201368301331, -0.7126564032704135])) == pytest.approx(1.0, abs=1e-12)
    assert mean(np.array([-0.08984201368301331, 0.7126564032704135])) == pytest.approx(1.0, abs=1e-12)
    assert mean(np.array([2.0, 1.0])) == pytest.approx(0.0, abs=1e-12)
    assert mean(np.array([0.0, 0.0])) == pytest.approx((86 / 15) / (86 / 15 + 1.031628453489877))


def test_styblinski_tang_is_scaled_by_its_extremes():
    mean = styblinski_tang_20(seed=0).mean
    assert mean(np.full(20, -2.903534027771177)) == pytest.approx(1.0, abs=1e-12)
    assert mean(np.full(20, 5.0)) == pytest.approx(0.0, abs=1e-12)
    assert mean(np.zeros(20)) == pytest.approx(125 / 164.16616570377142)


def test_michalewicz_is_scaled_by_its_lowest_value():
    terms = [
        lowest(lambda x, i=i: -math.sin(x) * math.sin(i * x * x / math.pi) ** 20, 0.0, math.pi)
        for i in range(1, 11)
    ]
    assert sum(terms) == pytest.approx(-9.660151715641349, abs=1e-6)
    point = np.full(10, 1.5)
    expected = (
        sum(math.sin(1.5) * math.sin(i * 2.25 / math.pi) ** 20 for i in range(1, 11)) / 9.660151715641349
    )
    assert michalewicz_10(seed=0).mean(point) == pytest.approx(expected)


@pytest.mark.parametrize("make", WORLDS)
def test_every_world_keeps_the_protocol_and_its_ranges(make):
    world = make(seed=11, horizon=700)
    assert isinstance(world, Environment)
    sets = world.decision_sets(0, 700)
    means = world.mean_rewards(0, 700)
    assert sets.shape == (700, 25, world.domain.dim)
    assert world.domain.contains(sets).all()
    assert means.shape == (700, 25)
    assert ((means >= 0) & (means <= 1)).all()
    assert np.allclose(world.mean(sets), means)
    rewards = world.rewards(0, 700, np.zeros(700, dtype=int))
    assert set(np.unique(rewards)) == {0.0, 1.0}
    assert world.decision_sets(3, 3).shape == (0, 25, world.domain.dim)
    assert world.rewards(3, 3, []).shape == (0,)


@lru_cache
def whole_run(make, horizon):
    world = make(seed=4, horizon=horizon)
    indices = np.arange(horizon) % 25
    return world.decision_sets(0, horizon), world.mean_rewards(0, horizon), world.rewards(0, horizon, indices)


@pytest.mark.parametrize("make", [camelback, three_hills])
@settings(max_examples=25)
@given(start=st.integers(0, 1290), length=st.integers(0, 700))
def test_a_round_is_a_function_of_seed_and_round(make, start, length):
    horizon = 1300  # not a multiple of the internal chunk
    stop = min(horizon, start + length)
    sets, means, rewards = whole_run(make, horizon)
    world = make(seed=4, horizon=horizon)
    indices = np.arange(start, stop) % 25
    assert np.array_equal(world.rewards(start, stop, indices), rewards[start:stop])
    assert np.array_equal(world.mean_rewards(start, stop), means[start:stop])
    assert np.array_equal(world.decision_sets(start, stop), sets[start:stop])


def test_a_longer_horizon_does_not_change_earlier_rounds():
    assert np.array_equal(
        camelback(seed=4, horizon=100).decision_sets(0, 100),
        camelback(seed=4, horizon=5000).decision_sets(0, 100),
    )


def test_rounds_come_back_the_same_after_they_were_forgotten(monkeypatch):
    monkeypatch.setattr(functions, "MOST_CACHED_NUMBERS", 1)
    world = camelback(seed=4)
    early = world.decision_sets(0, 5)
    world.decision_sets(3000, 3001)
    assert kept_chunks(world) == 1
    assert np.array_equal(world.decision_sets(0, 5), early)


def test_what_is_handed_out_cannot_change_the_world():
    world = camelback(seed=1)
    before = world.decision_sets(0, 5)
    world.decision_sets(0, 5)[:] = 0.0
    world.mean_rewards(0, 5)[:] = 0.0
    assert np.array_equal(world.decision_sets(0, 5), before)
    assert (world.mean_rewards(0, 5) > 0).any()


@pytest.mark.parametrize("make", WORLDS)
def test_seeds_differ(make):
    assert not np.array_equal(make(seed=1).decision_sets(0, 3), make(seed=2).decision_sets(0, 3))
    again = replace(make(seed=1), seed=2)
    assert again.seed == 2
    assert again.mean is not None
    assert not np.array_equal(again.decision_sets(0, 3), make(seed=1).decision_sets(0, 3))


def test_bernoulli_rewards_have_the_expected_mean():
    # |z| < 5 for a sum of 10,000 independent terms: false alarm below 6e-7.
    world = camelback(seed=9)
    choice = np.arange(10_000) % 25
    means = world.mean_rewards(0, 10_000)[np.arange(10_000), choice]
    rewards = world.rewards(0, 10_000, choice)
    z = (rewards - means).sum() / np.sqrt((means * (1 - means)).sum())
    assert abs(z) < 5


def test_one_luck_decides_all_candidates_of_a_round():
    """Whatever pays at one candidate pays at every better one."""
    world = camelback(seed=2)
    means = world.mean_rewards(0, 500)
    paid = [world.rewards(0, 500, order) for order in means.argsort(axis=1).T]
    assert (np.diff(paid, axis=0) >= 0).all()
    assert 0 < np.mean(paid) < 1


def test_uniform_candidates_are_uniform():
    # 10 column means of 50,000 uniforms each, |z| < 5.5: false alarm below 4e-7.
    world = michalewicz_10(seed=3, horizon=2000)
    unit = world.domain.to_unit(world.decision_sets(0, 2000)).reshape(-1, 10)
    assert (np.abs((unit.mean(axis=0) - 0.5) * np.sqrt(12 * len(unit))) < 5.5).all()


def test_rounds_past_the_horizon_do_not_exist():
    world = camelback(seed=0, horizon=10)
    with pytest.raises(HorizonExceeded, match="10 rounds"):
        world.decision_sets(5, 11)
    with pytest.raises(InvalidParameter, match="start <= stop"):
        world.decision_sets(5, 4)
    with pytest.raises(InvalidParameter, match="start <= stop"):
        world.mean_rewards(-1, 4)


@pytest.mark.parametrize(
    ("indices", "match"),
    [
        ([0, 1], "expected 3 integers"),
        ([0.0, 1.0, 2.0], "expected 3 integers"),
        ([0, 1, 25], "expected row numbers of a decision set"),
        ([0, -1, 3], "expected row numbers of a decision set"),
    ],
)
def test_bad_indices_are_refused(indices, match):
    with pytest.raises(InvalidData, match=match):
        camelback(seed=0).rewards(0, 3, indices)


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": -1},
        {"seed": 1.5},
        {"horizon": 0},
        {"horizon": True},
        {"n_candidates": 1},
    ],
)
def test_bad_parameters_are_refused(changed):
    with pytest.raises(InvalidParameter):
        camelback(**{"seed": 0, **changed})


def test_own_functions_are_worlds_too():
    box = Box(low=[0.0], high=[1.0])
    world = FunctionBandit(
        name="line",
        domain=box,
        mean=lambda points: points[..., 0],
        candidates=UniformCandidates(domain=box, n_candidates=4),
        n_candidates=4,
        horizon=20,
        seed=0,
    )
    assert np.array_equal(world.mean_rewards(0, 20), world.decision_sets(0, 20)[..., 0])

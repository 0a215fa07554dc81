"""Worlds that are hard on us are what their table says."""

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import simulate
from dpbandits.lab.worlds import HARD, TableBandit, from_log, hard
from dpbandits.local import Spec
from dpbandits.privacy.definitions import LocalDP
from dpbandits.tables import Range, Schema


@pytest.mark.parametrize("name", HARD)
def test_a_world_is_its_seeds(name):
    first, again, other = (hard(name, seed=seed, horizon=500) for seed in (3, 3, 4))
    assert np.array_equal(first.reward_table, again.reward_table)
    assert not np.array_equal(first.contexts, other.contexts)
    assert first.mean_rewards(0, 10).shape == (10, first.n_arms)


def test_they_differ_as_their_table_says():
    worlds = {name: hard(name, seed=1, horizon=4_000) for name in HARD}
    assert worlds["irrelevant-10"].schema.dim - worlds["smooth"].schema.dim == 10
    assert worlds["arms-100"].n_arms == 100
    assert hard("few-people", seed=1).horizon == 400
    assert np.ptp(worlds["flat"].expected) == 0.0
    assert (worlds["competing"].reward_table.sum(axis=1) == 1.0).all()
    assert worlds["competing"].expected.sum(axis=1) == pytest.approx(1.0)
    assert np.abs(worlds["heavy-tails"].reward_table).max() > 3.0
    assert (np.diff(worlds["ordered"].contexts[:, 0]) >= 0).all()
    abrupt, slow = worlds["drift-abrupt"], worlds["drift-slow"]
    for world, least in ((abrupt, 0.9), (slow, 0.0)):
        means = world.mean_rewards(0, 4_000)
        first, last = (part.mean(axis=0) for part in (means[:1_900], means[2_100:]))
        assert np.abs(first - last[::-1]).max() < np.abs(first - last).max() or least == 0.0
    smooth, nugget = worlds["smooth"].expected, worlds["nugget"].expected
    assert np.abs(nugget - smooth).std() > 0.1


def test_people_keep_their_order_on_devices():
    world = hard("ordered", seed=2, horizon=400)
    spec = Spec(contexts=world.schema, arms=world.arms.labels, privacy=LocalDP(epsilon=1))
    assert simulate(spec, world, n_users=400, seed=0).users.sum() == 400
    assert np.array_equal(world.decision_sets(0, 400)[:, 0, :-1], world.contexts)


def test_an_unknown_world_is_refused():
    with pytest.raises(InvalidParameter, match="name"):
        hard("easy", seed=1)


def test_a_log_keeps_what_it_says_and_the_means_of_arms():
    rng = np.random.default_rng(0)
    x, arm = rng.random(6_000), rng.integers(2, size=6_000)
    chance = np.where(arm == 1, x, 0.4)
    paid = (rng.random(6_000) < chance).astype(float)
    world = from_log(
        {"x": x}, schema=Schema(x=Range(0, 1)), actions=arm, rewards=paid, arms=["no", "yes"],
        reward_range=(0, 1), seed=1,
    )  # fmt: skip
    assert isinstance(world, TableBandit)
    assert np.array_equal(world.reward_table[np.arange(6_000), arm], paid)
    high = x > 0.5
    # means of about 3,000, two people sharing one reward at times: deviation .015, five of them
    assert world.reward_table[high].mean(axis=0) == pytest.approx([0.4, 0.75], abs=0.08)
    assert world.reward_table[~high].mean(axis=0) == pytest.approx([0.4, 0.25], abs=0.08)

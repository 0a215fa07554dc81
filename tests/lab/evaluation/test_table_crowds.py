"""Crowds of a table's people: the same contexts, arms and rewards as in every other room."""

from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import SimulatedSource, simulate, simulate_transfer
from dpbandits.lab.evaluation.crowds import people_of
from dpbandits.lab.worlds import TableBandit
from dpbandits.lab.worlds.transfer import SourceWorld
from dpbandits.privacy import LocalDP
from flat import spec_with
from reproduction.ma2025.crowds import BinUCB, play

PEOPLE = dpb.Schema(
    region=dpb.Categories(["north", "south", "west"]),
    age=dpb.Range(18, 90),
    member=dpb.Categories([False, True]),
)
ARMS = ("mail", "call", "nothing")
COUNT = 4000


def frame(count=COUNT):
    rng = np.random.default_rng(0)
    return {
        "region": np.array(["north", "south", "west"])[rng.integers(3, size=count)],
        "age": rng.integers(18, 91, count),
        "member": rng.integers(2, size=count).astype(bool),
    }


def table(**changes):
    """Mail pays 30 in the west, calling elsewhere; nothing costs nothing, and the others 10."""
    people = frame()
    west = people["region"] == "west"
    paid = np.stack([np.where(west, 20.0, -10.0), np.where(west, -10.0, 20.0), np.zeros(COUNT)], axis=1)
    own = {"schema": PEOPLE, "rewards": paid, "arms": ARMS, "reward_range": (-10, 20), "seed": 0}
    return TableBandit.from_rewards(people, **(own | changes))


def spec_of(world, **changes):
    own = {"contexts": world.schema, "arms": world.arms.labels, "reward_range": world.reward_range}
    return spec_with(**(own | {"privacy": LocalDP(epsilon=4.0)} | changes))


def test_people_lie_where_their_devices_put_them():
    world = table()
    crowd = people_of(world)
    np.testing.assert_array_equal(crowd.columns, spec_of(world).protocol.points(frame()))
    np.testing.assert_allclose(crowd.rewards, (world.reward_table + 10.0) / 30.0)


def test_a_person_with_several_rows_comes_once():
    persons = np.repeat(np.arange(COUNT // 4), 4)
    crowd = people_of(table(persons=persons, rounds_per_user=4))
    assert len(crowd.columns) == COUNT // 4
    np.testing.assert_array_equal(crowd.columns, people_of(table()).columns[::4])


def test_a_table_is_simulated_in_its_own_rewards():
    world = table()
    result = simulate(spec_of(world), world, n_users=COUNT, seed=0)
    # 20 is the best that everybody can be paid, and random arms pay 3.3; six seeds gave 17.3 to 18.7
    assert 12.0 < result.average_reward < 20.0
    assert result.average_regret == pytest.approx(20.0 - result.average_reward)
    again = simulate_transfer(spec_of(world), world, sources=(), n_users=COUNT, seed=0)
    np.testing.assert_array_equal(again.reward, result.reward)


def test_baselines_play_a_table():
    world = table()
    totals = play(world, lambda: BinUCB(dim=3, n_arms=3, n_users=COUNT), n_users=COUNT, seed=0)
    assert totals[-10:, 1].sum() > 0.8 * 1000  # of 1,000 people, each paid 1 at best and .44 at random


def test_sources_of_a_table_need_its_columns():
    world = table()
    target = spec_of(world, learner="tree")
    source = SourceWorld(world=replace(people_of(world), name="past"), gamma=None)
    done = simulate_transfer(
        target,
        world,
        sources=[SimulatedSource(people=source, n_users=500, epsilon=4.0)],
        n_users=500,
        seed=0,
    )
    assert done.users.sum() == 500


@pytest.mark.parametrize(
    "changes",
    [
        {"arms": ARMS[::-1]},
        {"contexts": dpb.Schema(age=dpb.Range(18, 90))},
        {"reward_range": (0, 1)},
        {"contexts": dpb.Box(low=[0] * 3, high=[1] * 3)},
    ],
    ids=str,
)
def test_a_spec_of_other_people_is_refused(changes):
    world = table()
    with pytest.raises(InvalidParameter, match=r"contexts=table\.schema"):
        simulate(spec_of(world, **changes), world, n_users=10, seed=0)

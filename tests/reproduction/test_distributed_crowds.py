"""A simulated crowd of two aggregators: exact counts, and the noise of both."""

import dataclasses

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.distributed import DistributedSpec
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds import contextual
from reproduction.studies.distributed_crowds import simulate_distributed


def spec_of(world, epsilon=4.0, horizon=3000):
    return DistributedSpec(
        contexts=dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(world.dim)}),
        arms=range(world.n_arms),
        privacy=dpb.DistributedDP(epsilon=epsilon),
        horizon=horizon,
    )


def test_it_learns_and_counts_every_user_once():
    world = contextual.world("clustered")
    spec = spec_of(world)
    found = simulate_distributed(spec, world, n_users=4000, seed=0)
    assert found.users.tolist() == [*spec.reports_per_version, 1000]
    each = found.regret / found.users
    assert each[-1] < 0.5 * each[0]
    assert found.average_regret == found.regret.sum() / 4000
    short = simulate_distributed(spec, world, n_users=100, seed=0)
    assert short.users.sum() == 100
    again = simulate_distributed(spec, world, n_users=4000, seed=0)
    assert np.array_equal(again.regret, found.regret)


def test_a_world_that_does_not_match_the_spec_is_refused():
    world = contextual.world("clustered")
    with pytest.raises(InvalidParameter, match="columns and arms"):
        simulate_distributed(spec_of(contextual.world("radial-3d")), world, n_users=10, seed=0)
    table = dpb.lab.worlds.TableBandit.from_labels(
        {"age": [16, 40]}, schema=dpb.Schema(age=dpb.Range(0, 99)), labels=[0, 1], arms=["a", "b"], seed=0
    )
    with pytest.raises(InvalidParameter, match="differ"):
        simulate_distributed(spec_of(world), table, n_users=2, seed=0)


def test_a_missing_context_has_nothing_to_say_and_is_not_counted():
    table = dpb.lab.worlds.TableBandit.from_labels(
        {"age": [16, 20, 40, 60] * 50},
        schema=dpb.Schema(age=dpb.Range(0, 99)),
        labels=[0, 1, 1, 0] * 50,
        arms=["a", "b"],
        seed=0,
    )
    known = (np.arange(200) % 4 != 1)[:, None]
    table = dataclasses.replace(
        table,
        contexts=np.where(known, table.contexts, np.nan),
        reward_table=np.where(known, table.reward_table, np.nan),
        horizon=150,
    )
    spec = DistributedSpec(
        contexts=table.schema,
        arms=table.arms.labels,
        privacy=dpb.DistributedDP(epsilon=1),
        horizon=200,
        reward_range=table.reward_range,
    )
    assert simulate_distributed(spec, table, n_users=200, seed=0).users.sum() == 150


def test_compare_knows_the_distributed_trust_model():
    def make(seed, people):
        rng = np.random.default_rng(seed)
        ages = rng.random(400)
        return dpb.lab.worlds.TableBandit.from_labels(
            {"age": ages},
            schema=dpb.Schema(age=dpb.Range(0, 1)),
            labels=(ages > 0.5).astype(int).tolist(),
            arms=[0, 1],
            seed=seed,
        )

    policies = ["GPBandit", "DistributedSpec", "Spec", "uniform"]
    rows = dpb.lab.compare({"halves": make}, policies, promises=(8.0,), reps=1).means()
    assert [row["trust"] for row in rows] == ["central", "distributed", "local", "none"]
    earned = {row["policy"]: row["reward"] for row in rows}
    assert earned["DistributedSpec"] > earned["uniform"] + 0.1

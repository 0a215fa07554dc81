"""Simulated crowds and the learning rules: equal in law to real reports, and they learn."""

import numpy as np
import pytest
from scipy import stats

from dpbandits.domains import Box
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import simulate
from dpbandits.local import Client, Server
from dpbandits.local.learners import EliminationConstants, EliminationRule, SmoothTreeRule, TreeRule
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.published import Ma2025VariantConstants, Ma2025VariantRule
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.privacy import LocalDP
from dpbandits.privacy.reports import Moments
from flat import spec_with
from reproduction.local_worlds import world

QUIET = Moments(signed_own=1.0, signed_other=0.5, count_own=0.5, count_other=0.5)


def spec_for(one, *, epsilon=2.0, learner="tree", **changes):
    base = {
        "contexts": Box(low=[0] * one.dim, high=[1] * one.dim),
        "arms": range(one.n_arms),
        "privacy": LocalDP(epsilon=epsilon),
        "learner": learner,
    }
    return spec_with(**(base | changes))


def teach(rule, means, *, n=1000, rounds=30, rng=None):
    """Exact expected sums of a world in which arm k pays means[k] everywhere."""
    for version in range(rounds):
        partition = rule.partition
        leaves = partition.leaves
        volume = (partition.high - partition.low)[leaves].prod(axis=1)
        normals = np.random.default_rng(version).normal(size=(len(leaves), rule.n_arms))
        arms = rule.assign(normals)
        rule.learn(
            VersionSums(
                leaves=leaves,
                arms=arms,
                weights=None,
                signed=n * volume * (2 * np.asarray(means)[arms] - 1),
                count=n * volume,
                n=n,
                moments=QUIET,
            )
        )
        rule.refine()


def rules(n_arms):
    make = {
        "smooth": lambda p: SmoothTreeRule(partition=p, n_arms=n_arms),
        "tree": lambda p: TreeRule(partition=p, n_arms=n_arms),
        "eliminate": lambda p: EliminationRule(partition=p, n_arms=n_arms),
        "ma2025": lambda p: Ma2025VariantRule(
            partition=p, n_arms=n_arms, constants=Ma2025VariantConstants(n_users=10**6, epsilon=8.0, bias=0.1)
        ),
    }
    return {name: build(DyadicPartition(dim=2)) for name, build in make.items()}


@pytest.mark.parametrize("name", ["smooth", "tree", "eliminate", "ma2025"])
def test_every_rule_finds_the_best_arm_of_a_flat_world(name):
    rule = rules(3)[name]
    teach(rule, [0.2, 0.9, 0.3], rounds=60)
    weights = rule.weights()
    assert weights.shape == (len(rule.partition.leaves), 3)
    assert np.allclose(weights.sum(axis=1), 1)
    assert (weights.argmax(axis=1) == 1).all()
    assert (weights[:, 1] > 0.9).all()


@pytest.mark.parametrize(("name", "times"), [("smooth", 1.2), ("tree", 2.0)])
def test_trees_split_more_where_rivals_are_close(name, times):
    clear, close = rules(3)[name], rules(3)[name]
    teach(clear, [0.02, 0.02, 0.98], rounds=300, n=4000)
    teach(close, [0.5, 0.5, 0.5], rounds=300, n=4000)
    assert len(close.partition.leaves) > times * len(clear.partition.leaves)


@pytest.mark.parametrize("kind", [SmoothTreeRule, TreeRule])
def test_max_leaves_is_never_passed(kind):
    rule = kind(partition=DyadicPartition(dim=2), n_arms=2, max_leaves=5)
    teach(rule, [0.5, 0.5], rounds=80)
    assert len(rule.partition.leaves) <= 5


@pytest.mark.parametrize("name", ["smooth", "tree"])
def test_assigned_arms_of_a_simulated_tree_follow_its_weights(name):
    rule = rules(3)[name]
    teach(rule, [0.4, 0.5, 0.5], rounds=2, n=60)
    rng = np.random.default_rng(0)
    weights = rule.weights()[0]
    drawn = np.bincount(
        [rule.assign(rng.normal(size=(len(rule.partition.leaves), 3)))[0] for _ in range(20_000)], minlength=3
    )
    assert stats.chisquare(drawn, 20_000 * weights).pvalue > 1e-7


def test_elimination_keeps_arms_that_cannot_be_told_apart():
    rule = EliminationRule(
        partition=DyadicPartition(dim=1), n_arms=2, constants=EliminationConstants(z=2.0, scale=0.01)
    )
    teach(rule, [0.5, 0.51], rounds=10, n=50)
    assert rule.active().all()


def test_ma2025_at_realistic_numbers_drops_nothing():
    """Under honest noise the printed rule is as good as random: regret .414 on its own world."""
    one = world("ma")
    spec = spec_for(
        one,
        epsilon=4.0,
        learner="ma2025",
        chooser="client",
        mechanism="paper-laplace",
        n_users=10_000,
        reports_per_version=500,
    )
    result = simulate(spec, one, n_users=10_000, seed=3, floating=True)
    assert result.rule.active().all()
    assert abs(result.average_regret - 0.414) < 0.02


def test_private_learning_beats_random_by_far_and_epsilon_helps():
    one = world("tune-waves")  # random .311
    weak, strong = (
        np.mean(
            [simulate(spec_for(one, epsilon=e), one, n_users=8000, seed=s).average_regret for s in range(4)]
        )
        for e in (0.5, 8.0)
    )
    assert strong < 0.08
    assert strong < weak < 0.311


@pytest.mark.parametrize(
    "changes",
    [{}, {"learner": "smooth"}, {"chooser": "client"}, {"learner": "eliminate"}, {"mechanism": "oue"}],
    ids=str,
)
def test_crowds_repeat_with_their_seed(changes):
    one = world("tune-waves")
    spec = spec_for(one, **changes)
    first, second, third = (simulate(spec, one, n_users=2000, seed=s) for s in (5, 5, 6))
    assert np.array_equal(first.regret, second.regret)
    assert not np.array_equal(first.regret, third.regret)
    assert first.users.sum() == 2000
    assert np.isclose(first.average_regret, first.regret.sum() / 2000)


def test_snapshots_show_the_partition_over_time():
    one = world("tune-waves")
    result = simulate(spec_for(one, epsilon=8.0), one, n_users=4000, seed=1, snapshots=(0, 3900))
    (start, none, arms), (later, some, more) = result.snapshots
    assert (start, none, len(arms)) == (0, (), 1)
    assert later == 3900
    assert len(more) == len(some) + 1 > 1


def test_worlds_that_do_not_fit_are_refused():
    with pytest.raises(InvalidParameter):
        simulate(spec_for(world("radial-3d")), world("ma"), n_users=10, seed=0)
    with pytest.raises(InvalidParameter):
        simulate(spec_for(world("ma"), constants={"temprature": 1.0}), world("ma"), n_users=10, seed=0)


@pytest.mark.parametrize("mechanism", ["signed", "hadamard"])
def test_a_real_crowd_of_devices_and_a_simulated_one_reach_the_same_regret(mechanism):
    """600 users with real clients, bytes and server, against `simulate`: mean regrets by z test."""
    one, n, runs = world("tune-stripes"), 600, 8
    spec = spec_for(one, epsilon=8.0, mechanism=mechanism, reports_per_version=60)
    real = []
    for seed in range(runs):
        rng, server = (
            np.random.default_rng(seed),
            Server(spec_for(one, epsilon=8.0, mechanism=mechanism, reports_per_version=60, seed=seed)),
        )
        client, lost = Client(server.spec, budget=1e6), 0.0
        contexts, means = one.draw(n, rng)
        for start in range(0, n, 60):
            policy, batch = server.publish(), []
            for context, mean in zip(contexts[start : start + 60], means[start : start + 60], strict=True):
                arm = client.choose(policy, context)
                lost += mean.max() - mean[arm]
                batch.append(client.report(float(rng.random() < mean[arm])))
            server.absorb(batch)
        real.append(lost / n)
    simulated = [simulate(spec, one, n_users=n, seed=100 + s).average_regret for s in range(100)]
    error = np.sqrt(np.var(simulated, ddof=1) * (1 / runs + 1 / 100))
    assert abs(np.mean(real) - np.mean(simulated)) < 5.3 * error


@pytest.mark.parametrize("name", ["smooth", "tree"])
def test_what_a_rule_believes_is_never_older_than_what_it_was_taught(name):
    """Asked at every turn, restored over an earlier belief or asked for the first time: one answer."""
    asked, used = rules(2)[name], rules(2)[name]
    rng = np.random.default_rng(5)
    for turn in range(40):
        teach(asked, rng.random(2), n=40 * (turn + 1), rounds=1)
        fresh = rules(2)[name]
        used.posterior()
        for other in (fresh, used):
            other.restore(asked.to_arrays())
            for mine, theirs in zip(asked.posterior(), other.posterior(), strict=True):
                np.testing.assert_array_equal(mine, theirs)
            np.testing.assert_array_equal(asked.split_ready(), other.split_ready())
    assert len(asked.partition.leaves) > 1

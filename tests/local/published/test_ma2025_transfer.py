"""Ma2025, Algorithm 3: its weights and radius by hand, its limits, and what it does at realistic numbers."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.cli import app
from dpbandits.domains import Box
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import SimulatedSource, simulate, simulate_transfer
from dpbandits.lab.worlds.transfer import SourceWorld
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.published import (
    Ma2025TransferConstants,
    Ma2025TransferRule,
    Ma2025VariantConstants,
    Ma2025VariantRule,
)
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.privacy import LocalDP
from dpbandits.privacy.reports import Moments
from flat import spec_with
from reproduction.local_worlds import world

QUIET = Moments(signed_own=1.0, signed_other=0.5, count_own=0.5, count_other=0.5)


def sums_of(rule, count, reward, n):
    """U and V as `VersionSums`: signed = 2 V - U."""
    count, reward = np.asarray(count, float), np.asarray(reward, float)
    return VersionSums(
        leaves=rule.partition.leaves,
        arms=None,
        weights=rule.weights(),
        signed=2 * reward - count,
        count=count,
        n=n,
        moments=QUIET,
    )


def rule_of(sources=((4000, 0.5), (1000, 8.0)), n=2000, epsilon=1.0, **constants):
    return Ma2025TransferRule(
        partition=DyadicPartition(dim=2),
        n_arms=2,
        constants=Ma2025TransferConstants(
            n_users=n,
            epsilon=epsilon,
            source_users=tuple(m for m, _ in sources),
            source_epsilons=tuple(e for _, e in sources),
            **constants,
        ),
    )


def test_weights_and_radius_by_hand():
    """n_e = max(2000, 4000/4, 1000) = 2000, so crowds count from floor(log2 2000)^2 = 100 users on."""
    rule = rule_of()
    rule.learn(sums_of(rule, [[300.0, 60.0]], [[240.0, 20.0]], 400), crowd=1)
    rule.learn(sums_of(rule, [[90.0, 110.0]], [[45.0, 11.0]], 200), crowd=2)
    rule.learn(sums_of(rule, [[30.0, 40.0]], [[30.0, 40.0]], 99), crowd=0)  # too few yet
    mean, radius, tau = rule.intervals()
    first = [0.25 * 300 / 400, 0.25 * 60 / 400]
    second = [1.0, 1.0]  # 64 * 90/200 is above 1
    for arm, (u, v) in enumerate([((300, 90), (240, 45)), ((60, 110), (20, 11))]):
        weights = (first[arm], second[arm])
        total = sum(w * x for w, x in zip(weights, u, strict=True))
        assert np.isclose(mean[0, arm], sum(w * x for w, x in zip(weights, v, strict=True)) / total)
        spread = weights[0] ** 2 * max(u[0], 400 / 0.25) + weights[1] ** 2 * max(u[1], 200 / 64)
        assert np.isclose(radius[0, arm], math.sqrt(2 * math.log2(2000) * spread) / total)
    assert np.isclose(tau[0, 0], 2 * math.sqrt(2))
    rule.learn(sums_of(rule, [[1.0, 1.0]], [[0.0, 0.0]], 1), crowd=0)
    assert not np.allclose(rule.intervals()[0], mean)  # now the target counts


def test_the_weights_give_the_least_radius():
    """No other weights of the crowds give a smaller sqrt(sum w^2 max(U, n/e^2)) / sum w U."""
    rng = np.random.default_rng(0)
    count, users, epsilon = np.array([300.0, 90.0, 500.0]), np.array([400.0, 200.0, 2000.0]), [0.5, 8.0, 1.0]
    variance = np.maximum(count, users / np.square(epsilon))
    best = np.minimum(1.0, np.square(epsilon) * count / users)

    def radius(weight):
        return np.sqrt((weight**2 * variance).sum(axis=-1)) / (weight * count).sum(axis=-1)

    others = best * rng.gamma(2.0, 0.5, (5000, 3))
    assert (radius(others) >= radius(best) * (1 - 1e-12)).all()


def test_without_sources_it_is_algorithm_two():
    plain = Ma2025VariantRule(
        partition=DyadicPartition(dim=2),
        n_arms=2,
        constants=Ma2025VariantConstants(n_users=2000, epsilon=1.0, bias=0.3),
    )
    none = rule_of(sources=(), bias=0.3)
    rng = np.random.default_rng(0)
    for _ in range(40):
        leaves = len(plain.partition.leaves)
        count = rng.gamma(200.0, 10.0, (leaves, 2))
        reward = count * [0.2, 0.8]
        for rule in (plain, none):
            rule.learn(sums_of(rule, count, reward, 3000))
            rule.refine()
        assert all(np.allclose(*pair) for pair in zip(plain.intervals(), none.intervals(), strict=True))
        assert np.array_equal(plain.active(), none.active())
        assert plain.partition.splits == none.partition.splits
    assert len(plain.partition.leaves) > 1 or not plain.active().all()


def test_the_order_of_sources_does_not_change_their_sums():
    rng = np.random.default_rng(1)
    told = {crowd: rng.gamma(50.0, 4.0, (2, 1, 2)) for crowd in (1, 2)}
    rules = [rule_of(), rule_of()]
    for rule, order in zip(rules, ((1, 2), (2, 1)), strict=True):
        for crowd in order:
            count = told[crowd][0]
            rule.learn(sums_of(rule, count, count * 0.5, 500), crowd=crowd)
    assert all(np.allclose(*pair) for pair in zip(*(rule.intervals() for rule in rules), strict=True))


def test_depth_grows_with_the_strongest_source():
    assert rule_of(sources=((10**6, 8.0),)).max_depth > rule_of(sources=()).max_depth
    assert rule_of(sources=((0, 8.0),)).max_depth == rule_of(sources=((1, 0.001),)).max_depth


def test_odd_lists_are_refused():
    with pytest.raises(InvalidParameter):
        Ma2025TransferRule(
            partition=DyadicPartition(dim=2),
            n_arms=2,
            constants=Ma2025TransferConstants(n_users=10, epsilon=1.0, source_users=(3,)),
        )
    rule = rule_of()
    with pytest.raises(InvalidParameter):
        rule.learn(VersionSums(**(vars(sums_of(rule, [[1, 1]], [[1, 1]], 1)) | {"arms": np.array([0])})))


def spec_of(one, n, **constants):
    return spec_with(
        contexts=Box(low=[0] * one.dim, high=[1] * one.dim),
        arms=range(one.n_arms),
        privacy=LocalDP(epsilon=4.0),
        learner="ma2025",
        chooser="client",
        mechanism="paper-laplace",
        n_users=n,
        reports_per_version=500,
        constants=constants,
    )


def test_at_realistic_numbers_the_printed_rule_drops_nothing_with_a_source_either():
    one = world("ma")
    source = SimulatedSource(people=SourceWorld(world=one), n_users=5000, epsilon=8.0)
    result = simulate_transfer(spec_of(one, 6000), one, sources=[source], n_users=6000, seed=3, floating=True)
    assert result.rule.active().all()
    assert abs(result.average_regret - 0.414) < 0.02
    assert result.users.sum() == 6000


def test_a_huge_source_helps_at_the_widths_of_the_public_code():
    one, widths = world("ma"), {"radius": 1.0, "bias": 1.0}
    source = SimulatedSource(people=SourceWorld(world=one), n_users=400_000, epsilon=8.0)
    spec = spec_of(one, 4000, **widths)
    helped = simulate_transfer(spec, one, sources=[source], n_users=4000, seed=0, floating=True)
    alone = simulate(spec, one, n_users=4000, seed=0, floating=True)
    assert helped.average_regret < 0.75 * alone.average_regret
    assert len(helped.rule.partition.leaves) > 1


@pytest.mark.parametrize("learner", ["tree", "ma2025", "ma2025-printed"])
def test_sources_on_the_command_line(learner):
    arguments = ["local", "simulate", "--users", "1500", "--epsilon", "1", "--world", "ma", "--json"]
    arguments += ["--learner", learner, "--source", "1000,8,0,1", "--source", "500,1,2,0.5,avoid-best"]
    first, second = (CliRunner().invoke(app, arguments) for _ in range(2))
    assert first.exit_code == 0, first.output
    assert json.loads(first.output) == json.loads(second.output)
    assert json.loads(first.output)["sources"] == ["1000,8,0,1", "500,1,2,0.5,avoid-best"]


@pytest.mark.parametrize(
    "source",
    ["", "1000", "1000,8,0", "x,8,0,1", "0,8,0,1", "10,8,0,1,odd", "10,8,-1,1", "10,8,0,-1", "10,99,0,1"],
)
def test_bad_sources_are_refused_in_words(source):
    arguments = [
        "local",
        "simulate",
        "--users",
        "200",
        "--epsilon",
        "1",
        "--world",
        "tune-waves",
        "--learner",
        "tree",
    ]
    result = CliRunner().invoke(app, [*arguments, "--source", source])
    assert result.exit_code != 0
    assert isinstance(result.exception, InvalidParameter | SystemExit)


def test_tables_and_elimination_take_no_sources():
    arguments = ["local", "simulate", "--users", "200", "--epsilon", "1", "--source", "100,8,0,1"]
    for more in (["--learner", "eliminate"], ["--world", "synthetic-income"]):
        assert CliRunner().invoke(app, [*arguments, *more]).exit_code != 0


@pytest.mark.parametrize("crowd", [-1, 3])
def test_a_crowd_that_is_none_is_refused(crowd):
    rule = rule_of()
    sums = sums_of(rule, [[10.0, 10.0]], [[5.0, 5.0]], 20)
    with pytest.raises(InvalidParameter):
        rule.learn(sums, crowd=crowd)

"""Ma2025's Algorithms 2 and 3 as printed, on numbers worked out by hand."""

import math

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.evaluation.transfer_crowds import SimulatedSource, simulate_transfer
from dpbandits.lab.worlds.transfer import SourceWorld
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.published import Ma2025Constants, Ma2025Rule
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.privacy.reports import Moments
from reproduction.local_worlds import world
from reproduction.ma2025.local import unit_spec
from reproduction.ma2025.theory import bias, radius, warm_start

N = 1000
SILENT = Moments(signed_own=1.0, signed_other=0.5, count_own=0.5, count_other=0.5)


def rule_of(*, constant=2.0, epsilon=1.0, arms=2, **sources):
    constants = Ma2025Constants(n_users=N, epsilon=epsilon, constant=constant, **sources)
    return Ma2025Rule(partition=DyadicPartition(dim=2), n_arms=arms, constants=constants)


def told(rule, count, reward, n, crowd=0):
    """U and V of every leaf and arm."""
    count, reward = np.asarray(count, dtype=float), np.asarray(reward, dtype=float)
    leaves = rule.partition.leaves
    sums = VersionSums(
        leaves=leaves,
        arms=None,
        weights=rule.weights(),
        signed=2.0 * reward - count,
        count=count,
        n=n,
        moments=SILENT,
    )
    rule.learn(sums, crowd=crowd)


def test_estimate_and_radius_are_13_and_14():
    rule = rule_of(constant=2.0, epsilon=0.5)
    told(rule, [[30.0, -10.0]], [[24.0, 4.0]], 80)
    mean, r, tau = rule.intervals()
    assert mean[0].tolist() == pytest.approx([0.8, -0.4])  # nothing is clipped
    spread = 2.0 * math.log(N)
    expected = [radius(count=u, users=80, epsilon=0.5, constant=spread) for u in (30.0, -10.0)]
    assert r[0].tolist() == pytest.approx(expected)
    assert tau[0, 0] == pytest.approx(bias(depth=0, dim=2))


def test_nothing_is_known_before_the_square_of_the_natural_logarithm():
    assert warm_start(N) == pytest.approx(47.7, abs=0.05)
    rule = rule_of()
    told(rule, [[30.0, 10.0]], [[24.0, 4.0]], 47)
    mean, r, _ = rule.intervals()
    assert (mean == 0.0).all()
    assert np.isinf(r).all()
    rule.refine()
    assert rule.active().all()
    assert len(rule.partition.leaves) == 1
    told(rule, [[0.0, 0.0]], [[0.0, 0.0]], 1)
    assert np.isfinite(rule.intervals()[1]).all()


def test_an_arm_is_dropped_where_intervals_of_two_radii_are_apart():
    for gap, dropped in ((1.01, True), (0.99, False)):
        rule = rule_of(constant=0.01)
        r = radius(count=500.0, users=1000, epsilon=1.0, constant=0.01 * math.log(N))
        told(rule, [[500.0, 500.0]], [[250.0 + 4 * r * 500.0 * gap, 250.0]], 1000)
        rule.refine()
        assert rule.active()[:, 0].all()
        assert (~rule.active()[:, 1]).all() == dropped


def test_a_bin_is_halved_when_some_arm_left_is_narrow_and_its_halves_begin_anew():
    # arm 0 is narrow, arm 1 unknown but for noise: the paper asks for some arm
    rule = rule_of(constant=20.0)
    told(rule, [[600.0, 2.0]], [[300.0, 1.0]], 1000)
    _, r, tau = rule.intervals()
    assert r[0, 0] < tau[0, 0] < r[0, 1]
    rule.refine()
    assert len(rule.partition.leaves) == 2
    assert np.isinf(rule.intervals()[1]).all()
    assert rule.active().all()


def test_a_dropped_arm_that_is_narrow_halves_nothing():
    rule = rule_of(constant=20.0)
    told(rule, [[600.0, 2.0]], [[300.0, 1.0]], 1000)
    narrow = np.array([[True, False]])
    assert rule.ready(np.array([[True, True]]), narrow).tolist() == [True]
    assert rule.ready(np.array([[False, True]]), narrow).tolist() == [False]


def test_sources_are_weighed_as_26_to_28_print_it():
    rule = rule_of(constant=3.0, epsilon=1.0, source_users=(400,), source_epsilons=(0.5,))
    told(rule, [[200.0, 80.0]], [[100.0, 60.0]], 400, crowd=1)
    told(rule, [[90.0, -30.0]], [[80.0, 6.0]], 100)
    mean, r, _ = rule.intervals()
    for arm, ((u1, v1), (u0, v0)) in enumerate([((200, 100), (90, 80)), ((80, 60), (-30, 6))]):
        w1, w0 = min(1.0, abs(0.25 * u1 / 400)), min(1.0, abs(u0 / 100))
        total = w1 * u1 + w0 * u0
        assert mean[0, arm] == pytest.approx((w1 * v1 + w0 * v0) / total)
        spread = w1**2 * max(400 / 0.25, u1) + w0**2 * max(100, u0)
        assert r[0, arm] == pytest.approx(math.sqrt(3.0 * math.log(N) * spread) / abs(total))


def test_odd_constants_are_refused():
    with pytest.raises(InvalidParameter, match="source_epsilons"):
        rule_of(source_users=(3,))
    with pytest.raises(InvalidParameter, match="constant"):
        rule_of(constant=0.0)
    with pytest.raises(InvalidParameter, match="crowd"):
        told(rule_of(), [[1.0, 1.0]], [[1.0, 1.0]], 3, crowd=1)


def spec_of(one, n, constant):
    return unit_spec(
        one,
        epsilon=1.0,
        learner="ma2025-printed",
        chooser="client",
        mechanism="paper-laplace",
        n_users=n,
        reports_per_version=max(100, n // 100),
        constants={"constant": constant},
    )


def test_at_a_large_constant_nothing_is_dropped_and_at_a_small_one_noise_drops_arms():
    """The paper's own world: random loses .437, the best constant arm .359."""
    one = world("ma-edge")
    large = simulate(spec_of(one, 10_000, 64.0), one, n_users=10_000, seed=1, floating=True)
    assert large.rule.active().all()
    assert abs(large.average_regret - 0.437) < 0.01
    small = simulate(spec_of(one, 10_000, 2.0 / math.log(2.0)), one, n_users=10_000, seed=1, floating=True)
    assert (~small.rule.active()).sum() > 5
    assert len(small.rule.partition.leaves) > 10


def test_what_is_watched_at_a_point_is_the_law_of_its_bin():
    one = world("ma-edge")
    source = SimulatedSource(people=SourceWorld(world=one, kappa=0.0), n_users=500, epsilon=8.0)
    for sources in ([], [source]):
        found = simulate_transfer(
            spec_of(one, 1000, 1.0),
            one,
            sources=sources,
            n_users=1000,
            seed=2,
            floating=True,
            watched=np.array([[1 / 3, 1 / 3]]),
        )
        assert found.shares.shape == (10, 1, 3)
        assert np.allclose(found.shares.sum(axis=2), 1.0)
    alone = simulate(spec_of(one, 1000, 64.0), one, n_users=1000, seed=2, floating=True)
    assert alone.shares is None


def test_a_source_of_no_exploration_never_plays_its_first_arm():
    people = SourceWorld(world=world("ma-edge"), kappa=0.0)
    assert people.propensities().tolist() == pytest.approx([0.0, 1 / 3, 2 / 3])
    _, _, arms = people.draw(3000, np.random.default_rng(0))
    counts = np.bincount(arms, minlength=3)
    assert counts[0] == 0
    assert abs(counts[1] - 1000) < 6 * math.sqrt(3000 * 2 / 9)  # false alarm below 2e-9

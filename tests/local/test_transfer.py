"""Sources: honest evidence from privatised sums, a jump start that helps, and doubt that protects."""

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from dpbandits.domains import Box
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.lab.evaluation import SimulatedSource, simulate, simulate_transfer
from dpbandits.lab.evaluation.crowds import Crowd
from dpbandits.lab.evaluation.transfer_crowds import SourceFeed
from dpbandits.lab.worlds.contextual import World
from dpbandits.lab.worlds.transfer import SourceWorld
from dpbandits.local import Client, Server, SourceClient, SourceSpec
from dpbandits.local.learners import TransferTree, TreeRule
from dpbandits.local.learners.evidence import source_evidence
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.privacy import LocalDP
from flat import changed, spec_with
from internals.client import remembered
from internals.server import counts, learner
from reproduction.local_worlds import world
from reproduction.ma2025.sharing import simulate_tasks

MEANS = np.array([0.2, 0.9, 0.55])


def flat(dim=2):
    """Mean rewards that are the same in every bin: nothing inside a bin bends an estimate."""
    return World(
        name="flat",
        dim=dim,
        n_arms=3,
        mean_rewards=lambda x: np.broadcast_to(MEANS, (len(x), 3)),
        contexts=lambda n, rng: rng.random((n, dim)),
    )


class Liar:
    """A source whose rewards are those of other arms."""

    def __init__(self, one):
        self.one, self.dim, self.n_arms = one, one.dim, one.n_arms

    def propensities(self):
        return np.full(self.n_arms, 1 / self.n_arms)

    def draw(self, n, rng):
        contexts, means = self.one.draw(n, rng)
        return contexts, np.roll(means, 1, axis=1), rng.integers(self.n_arms, size=n)


def spec_for(one, *, epsilon=1.0, **changes):
    base = {
        "contexts": Box(low=[0] * one.dim, high=[1] * one.dim),
        "arms": range(one.n_arms),
        "privacy": LocalDP(epsilon=epsilon),
        "learner": "tree",
    }
    return spec_with(**(base | changes))


def source_of(one, n=5000, epsilon=8.0, *, gamma=0.0, kappa=1.0, behaviour="even", **rest):
    people = SourceWorld(world=one, gamma=gamma, kappa=kappa, behaviour=behaviour)
    return SimulatedSource(people=people, n_users=n, epsilon=epsilon, **rest)


TARGET = spec_for(flat())


def source_spec(*, epsilon=2.0, **changes):
    return SourceSpec(
        **({"target": TARGET, "name": "a", "n_users": 1000, "privacy": LocalDP(epsilon=epsilon)} | changes)
    )


# -- the contract -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"chooser": "server"},
        {"propensities": (0.2, 0.3, 0.5), "looks": False},
        {"propensities": ((0.2, 0.3, 0.5), (0.5, 0.3, 0.2)), "depth": 1},
        {"depth": 0, "mechanism": "krr"},
    ],
)
def test_specs_travel_as_json(changes):
    source = source_spec(**changes)
    again = SourceSpec.from_json(source.to_json())
    assert again == source
    assert again.reports.digest == source.reports.digest != TARGET.digest
    assert SourceSpec.from_json(source.to_json()).reports.digest != replace(source, name="b").reports.digest


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"n_users": 0},
        {"epsilon": 0.0},
        {"epsilon": 40.0},
        {"arms": "both"},
        {"propensities": (0.5, 0.5)},
        {"propensities": (0.5, 0.4, 0.2)},
        {"propensities": ((0.2, 0.3, 0.5),)},
        {"depth": 30},
        {"depth": 10**9},
        {"depth": -1},
        {"depth": 1.5},
        {"name": "x" * 1000},
        {"name": 7},
        {"name": "\ud800"},
        {"looks": 7},
        {"propensities": (math.nan, 0.5, 0.5)},
        {"propensities": "abc"},
        {"target": replace(TARGET, learner="eliminate")},
    ],
)
def test_impossible_sources_are_refused(changes):
    with pytest.raises(InvalidParameter):
        source_spec(**changes)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kind": "SourceSpec", "format": 9}', TARGET.to_json()])
def test_other_json_is_refused(text):
    with pytest.raises(IncompatibleState):
        SourceSpec.from_json(text)


def test_depth_grows_with_what_reports_can_carry():
    def depth(n, epsilon, arms="behaviour"):
        return SourceSpec(
            target=TARGET, name="a", n_users=n, privacy=LocalDP(epsilon=epsilon), chooser=arms
        ).bins_depth

    for arms in ("behaviour", "server"):
        by_n = [depth(n, 2.0, arms) for n in (100, 1000, 10_000, 100_000)]
        by_epsilon = [depth(5000, e, arms) for e in (0.25, 1.0, 4.0, 8.0)]
        assert by_n == sorted(by_n)
        assert by_epsilon == sorted(by_epsilon)
        assert by_n[0] < by_n[-1]
    assert depth(5000, 8.0) >= 4
    assert depth(10**6, 16.0) <= 10  # max_leaves = 1024


# -- evidence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 8.0},
        {"epsilon": 1.0},
        {"epsilon": 4.0, "chooser": "server"},
        {"epsilon": 4.0, "gamma": 2.0, "kappa": 0.5},
        {"epsilon": 6.0, "kappa": 0.3, "behaviour": "avoid-best"},  # propensities unknown
    ],
    ids=str,
)
def test_evidence_is_centred_and_as_precise_as_it_says(changes):
    """Squared standardised errors over bins and arms average about 1; seeds are fixed."""
    scores = []
    for seed in range(12):
        feed = SourceFeed(
            source_of(flat(), **({"n": 8000, "depth": 3} | changes)), TARGET, index=0, seed=seed
        )
        tree = TransferTree(partition=DyadicPartition(dim=2), n_arms=3)
        feed.give(tree, seen=0)
        local = source_evidence(feed.rule.sums(), feed.spec.chances).local
        leaves = feed.rule.partition.leaves
        precision, moment = local.precision[leaves], local.moment[leaves]
        scores.append((moment / precision - MEANS) * np.sqrt(precision))
    scores = np.array(scores)
    assert 0.5 < (scores**2).mean() < 1.35
    assert abs(scores.mean()) < 0.25


def test_real_devices_and_simulated_crowds_give_the_same_sums():
    """Per-cell sums of 1,500 real reports, against their exact mean and variance. False alarms below 1e-6."""
    source = SourceSpec(target=TARGET, name="past", n_users=1500, privacy=LocalDP(epsilon=3.0), depth=2)
    server, device = Server(source.reports), SourceClient(source.reports, budget=1e9)
    rng = np.random.default_rng(0)
    contexts, arms = rng.random((1500, 2)), rng.integers(3, size=1500)
    rewards = rng.random(1500) < MEANS[arms]
    policy, batch = server.publish(), []
    for context, arm, reward in zip(contexts, arms.tolist(), rewards.tolist(), strict=True):
        device.observe(policy, context, arm)
        batch.append(device.report(float(reward)))
    assert server.absorb(batch).accepted == 1500
    sums = server.source_sums()
    assert sums.arm_hidden
    cells = sums.partition.rank[sums.partition.locate(contexts)] * 3 + arms
    inside = np.bincount(cells, minlength=12).reshape(4, 3)
    signed = np.bincount(cells, weights=2.0 * rewards - 1, minlength=12).reshape(4, 3)
    m = sums.moments
    spread = inside * m.signed_own + (1500 - inside) * m.signed_other
    assert (np.abs(sums.signed - signed) < 5.6 * np.sqrt(spread)).all()
    spread = inside * m.count_own + (1500 - inside) * m.count_other
    assert (np.abs(sums.count - inside) < 5.6 * np.sqrt(spread)).all()
    assert (sums.reach == 1500).all()


def test_arms_that_a_source_server_assigns_stay_public():
    source = SourceSpec(
        target=TARGET, name="s", n_users=600, privacy=LocalDP(epsilon=4.0), chooser="server", depth=2
    )
    server, device = Server(source.reports), SourceClient(source.reports, budget=1e9)
    rng = np.random.default_rng(0)
    for _ in range(6):
        policy, batch = server.publish(), []
        for context in rng.random((100, 2)):
            arm = device.choose(policy, context)
            batch.append(device.report(float(rng.random() < MEANS[arm])))
        server.absorb(batch)
    sums = server.source_sums()
    assert not sums.arm_hidden
    assert (sums.reach.sum(axis=1) == 600).all()
    assert len(np.unique(sums.reach)) > 1
    with pytest.raises(InvalidParameter):
        device.observe(server.publish(), [0.5, 0.5], 0)


# -- servers ----------------------------------------------------------------------------------------


def fed_source(target, n=1500, epsilon=8.0, name="past", seed=0):
    source = SourceSpec(target=target, name=name, n_users=n, privacy=LocalDP(epsilon=epsilon), looks=False)
    server, device = Server(source.reports), SourceClient(source.reports, budget=1e9)
    one, rng = world("tune-stripes"), np.random.default_rng(seed)
    contexts, means = one.draw(n, rng)
    arms, policy, batch = rng.integers(3, size=n), server.publish(), []
    for context, mean, arm in zip(contexts, means, arms.tolist(), strict=True):
        device.observe(policy, context, arm)
        batch.append(device.report(float(rng.random() < mean[arm])))
    server.absorb(batch)
    return source, server, batch


def test_a_source_starts_its_target_and_no_other():
    target = spec_for(world("tune-stripes"))
    source, server, batch = fed_source(target)
    mine = Server(target)
    first = mine.publish()
    started = mine.attach(source, server)
    assert started.version == first.version + 1
    assert len(started.splits) > len(first.splits)
    x = np.random.default_rng(9).random((2000, 2))
    means = world("tune-stripes").mean_rewards(x)
    partition = target.protocol.bins.partition(started.splits)
    got = means[np.arange(2000), started.arms[partition.rank[partition.locate(x)]]].mean()
    assert got > means.mean(axis=0).max() + 0.6 * (means.max(axis=1).mean() - means.mean(axis=0).max())
    # bytes alone rebuild it
    again, bytes_again = Server(target), Server(source.reports)
    bytes_again.absorb(batch)
    assert again.attach(source, bytes_again).to_json(target) == started.to_json(target)

    other = replace(target, seed=3)
    with pytest.raises(IncompatibleState, match="another target"):
        Server(other).attach(source, server)
    with pytest.raises(IncompatibleState):
        mine.attach(replace(source, name="another"), server)
    with pytest.raises(ProtocolError):
        mine.attach(source, Server(source.reports))
    with pytest.raises(ProtocolError):
        Server(target).source_sums()


def test_a_source_closes_no_version_before_its_time():
    """People are answering the version that stands when a source is attached."""
    target = spec_for(world("tune-stripes"), window=0)
    source, crowd, _ = fed_source(target)
    now = [0.0]
    mine = Server(target, least_open=60.0, clock=lambda: now[0])
    mine.publish()
    mine.attach(source, crowd)
    assert [published.version for published in mine.open_versions] == [0, 1]
    now[0] = 60.0
    mine.attach(source, crowd)
    assert [published.version for published in mine.open_versions] == [2]


def test_targets_teach_each_other_what_they_heard_themselves():
    target = spec_for(world("tune-stripes"), epsilon=8.0)
    source, server, _ = fed_source(target)
    one, other = Server(target), Server(replace(target, seed=4))
    one.attach(source, server)
    # It has heard nothing of its own yet, and what the source told it is not passed on.
    assert not one.evidence().local.precision.any()
    assert len(other.attach_target("one", one).splits) <= 1
    with pytest.raises(IncompatibleState):
        other.attach_target("one", Server(replace(target, arms=range(2))))
    with pytest.raises(ProtocolError):
        other.attach_target("one", Server(replace(target, learner="eliminate")))


@pytest.mark.parametrize("window", [0, 2])
def test_attaching_loses_no_report_that_was_accepted(window):
    """Every attachment is a version; the window closes, and what was absorbed before is learned first."""
    target = spec_for(world("tune-stripes"), window=window)
    source, server, _ = fed_source(target, n=300)
    mine, device = Server(target), Client(target, budget=1e9)

    def reported(x):
        device.choose(policy, x)
        return device.report(1.0)

    contexts, policy = np.random.default_rng(2).random((60, 2)), mine.publish()
    batch = [reported(x) for x in contexts]
    assert mine.absorb(batch).accepted == 60
    for _ in range(3):
        mine.attach(source, server)
    assert counts(mine).accepted + learner(mine).reports == 60
    assert mine.evidence().local.precision.any()


def test_no_target_counts_twice():
    target = spec_for(world("tune-stripes"))
    mine, other, third = (Server(replace(target, seed=seed)) for seed in range(3))
    with pytest.raises(IncompatibleState, match="both would count"):
        mine.attach_target("me", mine)
    with pytest.raises(IncompatibleState, match="both would count"):
        mine.attach_target("a copy", Server(mine.spec))
    mine.attach_target("other", other)
    mine.attach_target("other", other)
    with pytest.raises(ProtocolError, match="another name"):
        mine.attach_target("again", other)
    with pytest.raises(ProtocolError, match="another target"):
        mine.attach_target("other", third)
    source, server, _ = fed_source(mine.spec, n=300)
    mine.attach(source, server)
    with pytest.raises(ProtocolError, match="taken"):
        mine.attach_target("past", third)
    with pytest.raises(IncompatibleState, match="taken"):
        mine.attach(replace(source, name="other"), fed_source(mine.spec, n=300, name="other")[1])


@pytest.mark.parametrize("least", [0.0, 5e-324, 1e-310, 1e-160, 1e-12])
def test_tiny_propensities_say_nothing_and_break_nothing(least):
    target = spec_for(world("tune-stripes"))
    source, server, _ = fed_source(target, n=500)
    source = replace(source, propensities=(least, 0.5, 0.5))
    mine = Server(target)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        started = mine.attach(source, server)
    mean, variance = learner(mine).posterior()
    assert np.isfinite(mean).all()
    assert (variance > 0.0).all()
    assert len(np.unique(started.arms)) > 1


def test_evidence_of_another_shape_is_refused():
    tree = TransferTree(partition=DyadicPartition(dim=2), n_arms=3)
    good = TransferTree(partition=DyadicPartition(dim=2), n_arms=3).evidence()
    for other in (
        TransferTree(partition=DyadicPartition(dim=1), n_arms=3).evidence(),
        TransferTree(partition=DyadicPartition(dim=2), n_arms=2).evidence(),
        TransferTree(partition=DyadicPartition(dim=2, tie="keyed"), n_arms=3).evidence(),
        replace(good, local=good.local._replace(moment=good.local.moment + np.nan)),
    ):
        with pytest.raises(InvalidParameter):
            tree.attach("a", other)
    tree.attach("a", good)


@pytest.mark.parametrize("arm", [1.5, 3, -1, "a", None, 10**400])
def test_a_decision_that_is_no_arm_is_missing_and_refused_nowhere(arm):
    source = SourceSpec(target=TARGET, name="past", n_users=100, privacy=LocalDP(epsilon=3.0))
    device, server = SourceClient(source.reports), Server(source.reports)
    device.observe(server.publish(), [0.5, 0.5], arm)
    assert remembered(device).choice.missing
    assert server.absorb([device.report(1.0)]).accepted == 1
    device = SourceClient(source.reports)
    device.observe(server.publish(), [0.5, 0.5], np.int64(2))
    assert (remembered(device).choice.missing, remembered(device).choice.arm) == (False, 2)


def test_propensities_of_any_kind_become_numbers_that_travel():
    common = {"depth": 1}
    for shape in ([0.2, 0.3, 0.5], [[0.2, 0.3, 0.5], [0.5, 0.3, 0.2]]):
        specs = [source_spec(propensities=one, **common) for one in (shape, np.array(shape))]
        assert specs[0] == specs[1] == SourceSpec.from_json(specs[0].to_json())
        assert hash(specs[0]) == hash(specs[1])


def test_a_huge_source_stops_at_the_most_cells_a_report_can_have():
    wide = changed(TARGET, arms=range(256), max_leaves=2**16)
    source = SourceSpec(target=wide, name="a", n_users=2**53, privacy=LocalDP(epsilon=16.0))
    assert 2**source.bins_depth * 256 <= 2**20


# -- the tree ---------------------------------------------------------------------------------------


def test_without_sources_the_tree_is_the_tree():
    one = world("tune-waves")
    spec = spec_for(one)
    plain = Crowd(
        spec,
        one,
        n_users=3000,
        seed=1,
        rule=TreeRule(partition=spec.protocol.bins.partition(), n_arms=3, max_leaves=1024),
    )
    while plain.running:
        plain.step()
    with_none = simulate_transfer(spec, one, sources=[], n_users=3000, seed=1)
    assert np.array_equal(with_none.regret, plain.result().regret)
    assert np.array_equal(with_none.regret, simulate(spec, one, n_users=3000, seed=1).regret)


@pytest.mark.parametrize("arms", ["behaviour", "server"])
def test_a_good_source_halves_the_regret(arms):
    one = world("tune-waves")
    spec = spec_for(one, reports_per_version=200)
    alone = np.mean([simulate(spec, one, n_users=4000, seed=s).average_regret for s in range(3)])
    sources = [source_of(one, 5000, 8.0, chooser=arms)]
    helped = [simulate_transfer(spec, one, sources=sources, n_users=4000, seed=s) for s in range(3)]
    assert np.mean([run.average_regret for run in helped]) < 0.5 * alone
    assert all(run.rule.doubts["source 0"] <= 0.125 for run in helped)


def test_a_source_that_tells_nothing_true_is_dropped():
    """The target's own reports, privatised under epsilon = 8, contradict it."""
    one = world("tune-stripes")
    spec = spec_for(one, epsilon=8.0, reports_per_version=200)
    liar = SimulatedSource(people=Liar(one), n_users=5000, epsilon=8.0)
    trusted = simulate_transfer(spec, one, sources=[liar], n_users=8000, seed=0, skip=False)
    doubted = simulate_transfer(spec, one, sources=[liar], n_users=8000, seed=0)
    assert doubted.rule.doubts["source 0"] >= 1.0
    assert trusted.rule.doubts["source 0"] == 0.0
    assert doubted.average_regret < 0.6 * trusted.average_regret


def test_doubt_sees_nothing_but_estimates():
    """Doubt is a function of the published sums: two crowds with the same sums are doubted alike."""
    one = world("tune-waves")
    sources = [source_of(one, 2000, 4.0)]
    spec = spec_for(one, epsilon=4.0, reports_per_version=500)
    first, second = (simulate_transfer(spec, one, sources=sources, n_users=3000, seed=7) for _ in range(2))
    assert first.rule.doubts == second.rule.doubts
    own = first.rule.evidence().local
    assert own.precision.shape == (first.rule.partition.n_nodes, 3)
    assert np.isfinite(own.moment).all()


def test_sources_that_look_are_never_believed_exactly():
    target = spec_for(world("tune-waves"))
    looks = SourceSpec(target=target, name="a", n_users=1000, privacy=LocalDP(epsilon=4.0))
    blind = replace(looks, looks=False)
    assert (looks.least_doubt, blind.least_doubt, replace(looks, chooser="server").least_doubt) == (
        1.0,
        0.0,
        0.0,
    )
    feed = SourceFeed(source_of(world("tune-waves"), 3000, 8.0), target, index=0, seed=0)
    trusting, wary = (TransferTree(partition=DyadicPartition(dim=2), n_arms=3) for _ in range(2))
    feed.report(3000)
    evidence = source_evidence(feed.rule.sums(), feed.spec.chances)
    trusting.attach("a", evidence)
    wary.attach("a", evidence, least_doubt=1.0)
    for tree in (trusting, wary):
        tree.jump_start()
    assert wary.posterior()[1].mean() > trusting.posterior()[1].mean()
    assert len(wary.partition.leaves) <= len(trusting.partition.leaves)


def test_streamed_reports_end_where_reports_at_once_do():
    one, spec = world("tune-waves"), spec_for(world("tune-waves"))
    feeds = [
        SourceFeed(source_of(one, 3000, 4.0, start=500, span=span), spec, index=0, seed=3)
        for span in (0, 1000)
    ]
    trees = [TransferTree(partition=DyadicPartition(dim=2), n_arms=3) for _ in feeds]
    for seen in range(0, 2000, 100):
        for feed, tree in zip(feeds, trees, strict=True):
            feed.give(tree, seen=seen)
            if seen < 500:
                assert not tree.doubts
    at_once, streamed = (feed.rule.sums() for feed in feeds)
    assert (at_once.reach == streamed.reach).all()
    # the same people; only the mechanism's noise differs
    spread = np.sqrt(2 * 3000 * max(at_once.moments.count_own, at_once.moments.count_other))
    assert (np.abs(at_once.count - streamed.count) < 6 * spread).all()


def test_two_targets_learn_faster_together():
    one = world("tune-stripes")
    specs = [spec_for(one, epsilon=2.0, reports_per_version=200)] * 2
    together, alone = (
        np.mean(
            [
                [
                    run.average_regret
                    for run in simulate_tasks(specs, [one, one], n_users=[4000, 4000], seed=s, share=share)
                ]
                for s in range(3)
            ]
        )
        for share in (True, False)
    )
    assert together < 0.9 * alone


def test_what_cannot_learn_from_sources_says_so():
    one = world("tune-waves")
    with pytest.raises(InvalidParameter):
        simulate_transfer(
            spec_for(one, learner="eliminate"), one, sources=[source_of(one)], n_users=100, seed=0
        )
    with pytest.raises(InvalidParameter):
        simulate_transfer(spec_for(one), one, sources=[source_of(world("tune-ridges"))], n_users=100, seed=0)
    with pytest.raises(InvalidParameter):
        simulate_tasks([spec_for(one)], [one, one], n_users=[10], seed=0)
    assert math.isinf(
        max(TransferTree(partition=DyadicPartition(dim=1), n_arms=2).doubts.values(), default=math.inf)
    )


@pytest.mark.slow
def test_the_measured_gain_and_the_measured_harm():
    """World ma, 20 crowds: far below half with a good source, at most 10% more with a harmful one."""
    one, spec = world("ma"), spec_for(world("ma"))

    def regret(*sources):
        return np.mean(
            [
                simulate_transfer(spec, one, sources=sources, n_users=10_000, seed=s).average_regret
                for s in range(1_000_000, 1_000_020)
            ]
        )

    alone = regret()
    assert regret(source_of(one)) < min(0.5 * alone, 0.055)
    harmful = source_of(one, 5000, 0.5, gamma=5.0, kappa=0.1, behaviour="avoid-best")
    assert regret(harmful) < 1.1 * alone


def test_a_source_device_needs_numpy_alone():
    source = SourceSpec(target=TARGET, name="past", n_users=500, privacy=LocalDP(epsilon=3.0))
    server = Server(source.reports)
    code = """
import sys

class OnlyNumPy:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "dpbandits"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, OnlyNumPy())
from dpbandits.local import PublishedArms, SourceClient, SourceSpec

source = SourceSpec.from_json(sys.argv[1])
device = SourceClient(source.reports)
device.observe(PublishedArms.from_json(sys.argv[2], source.reports), [0.2, 0.7], 2)
sys.stdout.write(device.report(1.0).hex())
"""
    policy = server.publish().to_json(source.reports)
    done = subprocess.run(
        [sys.executable, "-c", code, source.to_json(), policy],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert server.absorb([bytes.fromhex(done.stdout)]).accepted == 1

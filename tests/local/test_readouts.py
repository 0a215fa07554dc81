"""Readouts under local privacy: the law of a report, its group, what the server computes, and one report."""

import itertools
import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger
from dpbandits.errors import BudgetExceeded, IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.lab.planning import plan_local_readout
from dpbandits.local import (
    Client,
    DurableServer,
    MemoryOutbox,
    PublishedArms,
    ReadoutSpec,
    ReportCounts,
    Robust,
    Server,
    Spec,
    SpecTuning,
)
from dpbandits.local.contract import readout as contract
from dpbandits.local.contract.readout import CONTROL, POLICY, read_spec
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.local.server.aggregation import read_contract
from dpbandits.local.server.readout import outcome_intervals, read_outcomes
from dpbandits.privacy import LocalDP
from dpbandits.tables import Categories, Range, Schema

PEOPLE = Schema(age=Range(18, 90), region=Categories(["north", "south"]))
TARGET = Spec(contexts=PEOPLE, arms=["none", "mail", "call"], privacy=LocalDP(epsilon=1), learner="tree")
VERSION = PublishedArms(version=3, splits=(0,), arms=np.array([1, 2]))  # young: mail, old: call
YOUNG, OLD = {"age": 20, "region": "north"}, {"age": 80, "region": "south"}
JUNK = [None, float("nan"), "7", b"", [], {}, object(), 1j]


def readout(**changes):
    own = {"target": TARGET, "policy": VERSION, "control": "none", "n_users": 1000}
    return ReadoutSpec(**(own | {"privacy": LocalDP(epsilon=1)} | changes))


def words(*values):
    """The device's coins outside of randomised response, in the order in which they are drawn."""
    drawn = iter(values)
    return patch.object(contract, "secure_words", lambda n: np.array([next(drawn) for _ in range(n)], "u8"))


def bit_of(spec, outcome, coin):
    """The bit of a device of the policy group before randomised response."""
    seen = []

    def encode(cell, *, positive):
        seen.append((cell, positive))
        return b"\0"

    with words(2**64 - 1, coin), patch.object(spec.protocol.bit, "encode", encode):
        client = Client(spec)
        client.choose(spec.policy, YOUNG)
        client.report(outcome)
    ((cell, positive),) = seen
    assert cell == 0
    return positive


def threshold(of):
    """The number of words, of 2^64, for which `of` is True: it is True below it and False from it on."""
    low, high = 0, 2**64
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if of(middle) else (low, middle)
    return low


def test_every_report_has_the_same_law_within_epsilon_whatever_the_outcome():
    spec = readout(privacy=LocalDP(epsilon=0.7), reward_range=(-1, 3), missing=1)
    one = spec.protocol.bit
    laws = []
    for outcome in (-1, 0, 1, 3, None, float("nan"), "text", -1e300, math.inf):
        share = Fraction(threshold(lambda coin, outcome=outcome: bit_of(spec, outcome, coin)), 2**64)
        laws.append(
            [
                share * one.likelihood(payload, 0, positive=True)
                + (1 - share) * one.likelihood(payload, 0, positive=False)
                for payload in (b"\0", b"\1")
            ]
        )
    assert all(sum(law) == 1 for law in laws)
    most = Fraction(math.exp(0.7))
    assert (
        max(a / b for pair in zip(*laws, strict=True) for a, b in itertools.product(pair, repeat=2)) <= most
    )
    assert laws[0] == laws[-2]  # clipped
    assert laws[3] == laws[-1]
    assert laws[2] == laws[4] == laws[5] == laws[6]  # missing outcomes count as 1, before the noise
    p, q = one.rates
    assert [law[0] for law in laws[:4]] == [q + (p - q) * Fraction(k, 4) for k in (0, 1, 2, 4)]


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_group_is_a_coin_and_depends_on_nothing_else(share):
    spec = readout(share=share)

    def group(coin, context, outcome, available=None):
        with words(coin, 0):
            client = Client(spec)
            client.choose(spec.policy, context, available=available)
            return client.report(outcome)[HEADER_BYTES]

    edge = threshold(lambda coin: group(coin, YOUNG, 1.0) == CONTROL)
    assert edge == round(share * 2**64)
    for coin in (edge - 1, edge):
        found = {
            group(coin, context, outcome, available)
            for context, outcome in itertools.product([YOUNG, OLD, *JUNK], [0.0, 1.0, None])
            for available in (None, ["call"], "junk", [])
        }
        assert found == {CONTROL if coin < edge else POLICY}


def test_each_group_gets_its_arm_and_an_arm_that_is_not_available_changes_no_report():
    spec = readout()
    for coin, context, available, arms in [
        (0, YOUNG, None, {"none"}),
        (0, OLD, ["mail", "call"], {"mail", "call"}),
        (2**64 - 1, YOUNG, None, {"mail"}),
        (2**64 - 1, OLD, None, {"call"}),
        (2**64 - 1, OLD, ["none"], {"none"}),
        (2**64 - 1, "unreadable", None, {"mail", "call"}),
    ]:
        with words(coin, 0):
            client = Client(spec)
            assert client.choose(spec.policy, context, available=available) in arms
            assert client.report(1.0)[HEADER_BYTES] == (POLICY if coin else CONTROL)


def test_a_device_sends_one_report_and_decides_by_the_policy_without_one():
    spec = readout()
    client = Client(spec)
    assert client.decide(spec.policy, OLD) == "call"  # in no group, whatever the coin
    client.choose(spec.policy, OLD)
    with pytest.raises(BudgetExceeded):
        client.choose(spec.policy, OLD)
    first = client.report(1.0)
    assert client.report(0.0) == first
    with pytest.raises(BudgetExceeded):
        client.choose(spec.policy, OLD)
    assert {client.decide(spec.policy, OLD) for _ in range(20)} == {"call"}
    with pytest.raises(InvalidParameter, match="takes 1 report of each device"):
        Client(spec, budget=2)
    account, outbox = MemoryLedger().account("own"), MemoryOutbox()
    Client(spec, account=account, outbox=outbox).choose(spec.policy, YOUNG)
    with pytest.raises(IncompatibleState):
        Client(readout(seed=1), account=account, outbox=outbox)


def test_the_contract_is_read_back_and_fixes_the_policy():
    spec = readout(share=0.2, missing=0.5, seed=3, deadline=60.0)
    assert read_spec(spec.to_json()) == spec == ReadoutSpec.from_json(spec.to_json())
    assert read_contract(spec.to_json(), [spec.policy.to_json(spec)])[0] == spec
    assert read_spec(TARGET.to_json()) == TARGET
    assert spec != readout(seed=4)
    other = PublishedArms(version=0, splits=(0,), arms=np.array([2, 1]))
    for wrong in (other, PublishedArms(version=1, splits=(0,), arms=np.array([1, 2]))):
        with pytest.raises(IncompatibleState, match="not the one that the readout compares"):
            Client(spec).choose(wrong, YOUNG)
    server = Server(spec)
    assert server.publish().to_json(spec) == server.publish().to_json(spec)
    assert spec.policy.recommend(spec, OLD) == "call"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"control": "post"}, "control"),
        ({"share": 0.0}, "share"),
        ({"share": 1.0}, "share"),
        ({"missing": 2}, "missing"),
        ({"n_users": 0}, "n_users"),
        ({"policy": PublishedArms(version=0, splits=(), arms=np.array([7]))}, "do not fit"),
        ({"privacy": LocalDP(epsilon=17)}, "epsilon"),
        ({"target": "spec"}, "target"),
    ],
)
def test_wrong_contracts_are_refused(changes, said):
    with pytest.raises((InvalidParameter, IncompatibleState), match=said):
        readout(**changes)


def reports_of(spec, count, outcome):
    made = []
    for number in range(count):
        client = Client(spec)
        client.choose(spec.policy, (YOUNG, OLD)[number % 2])
        made.append(client.report(outcome))
    return made


def test_the_server_counts_bits_by_group_in_memory_on_disk_and_in_parts(tmp_path):
    spec = readout()
    made = reports_of(spec, 60, 1.0)
    server = Server(spec)
    with pytest.raises(ProtocolError, match="no answer yet"):
        server.readout()
    assert server.absorb([*made, made[0], b"", made[0][:-2] + b"\2\0"]).accepted == 60
    groups = np.array([report[HEADER_BYTES] for report in made])
    bits = np.array([report[HEADER_BYTES + 1] == 0 for report in made])
    found = server.readout()
    assert found.reports == tuple(int((groups == group).sum()) for group in (CONTROL, POLICY))
    p, q = map(float, spec.protocol.bit.rates)
    means = [(bits[groups == group].mean() - q) / (p - q) for group in (CONTROL, POLICY)]
    assert np.allclose([found.reward.control, found.reward.policy], means)
    assert np.isclose(found.reward.difference, means[1] - means[0])
    with DurableServer.open(spec, tmp_path) as durable:
        durable.publish()
        assert durable.absorb(made[:30]).accepted == 30
    with DurableServer.open(spec, tmp_path) as durable:
        shard = ReportCounts(spec, [spec.policy])
        shard.absorb(made[30:])
        durable.merge(shard)
        assert durable.server.readout() == found
    assert Server.restore(spec, server.to_arrays()).readout() == found
    assert not server.is_due
    assert server.publish().version == 0
    with pytest.raises(InvalidParameter, match="robust"):
        Server(spec, robust=Robust(secret=bytes(32)))
    with pytest.raises(ProtocolError, match="ReadoutSpec"):
        Server(TARGET).readout()
    with pytest.raises(ProtocolError):
        server.estimate()


def drawn(spec, n, means, rng, runs):
    """Counts (runs, 2) of crowds, equal in law to adding up reports: reports and ones by group."""
    p, q = map(float, spec.protocol.bit.rates)
    control = rng.binomial(n, spec.share, runs)
    reports = np.stack([control, n - control], axis=-1)
    return reports, rng.binomial(reports, q + (p - q) * np.array(means))


@pytest.mark.parametrize(("epsilon", "means"), [(1.0, (0.01, 0.02)), (8.0, (0.001, 0.003))])
def test_intervals_cover_the_difference_also_of_rare_outcomes(epsilon, means):
    """At most 270 of 4,000 runs miss. With a chance of .05 more do with a probability of 1e-7."""
    spec, rng = readout(privacy=LocalDP(epsilon=epsilon)), np.random.default_rng(1)
    p, q = map(float, spec.protocol.bit.rates)
    _, (low, high), _ = outcome_intervals(spec, *drawn(spec, 5_000, means, rng, 4_000))
    truth = (p - q) * (means[1] - means[0])
    assert ((truth < low) | (high < truth)).sum() <= 270


def test_the_interval_for_all_times_holds_at_all_times_together():
    """Of 1,000 runs read at 40 times at most 90 ever miss, at a chance of at most .05: else below 1e-7."""
    spec, rng = readout(n_users=4_000), np.random.default_rng(2)
    parts = [drawn(spec, 200, (0.3, 0.3), rng, 1_000) for _ in range(40)]
    reports, ones = (np.cumsum([part[k] for part in parts], axis=0) for k in (0, 1))
    _, once, always = outcome_intervals(spec, reports, ones)
    ever = [((low > 0.0) | (high < 0.0)).any(axis=0).sum() for low, high in (once, always)]
    assert ever[1] <= 90
    assert ever[0] > 200  # an interval that is read once does not hold at all times


def test_unequal_groups_are_said():
    spec = readout()
    fine = read_outcomes(spec, (5_030, 4_970), (2_000, 2_000))
    assert fine.comparable
    assert "do not fit" not in fine.sentence
    unequal = read_outcomes(spec, (5_400, 4_600), (2_000, 2_000))
    assert not unequal.comparable
    assert unequal.sample_ratio < 1e-12
    assert "do not fit the control's share of 50.0%" in unequal.explain()
    assert unequal.to_json()["reports"] == [5_400, 4_600]
    few = read_outcomes(readout(reward_range=(1, 3)), (1, 1), (1, 0)).reward
    assert (few.always, few.control_interval[1], few.ratio) == ((-2.0, 2.0), 3.0, 0.0)
    many = read_outcomes(readout(reward_range=(1, 3)), (10**8, 10**8), (4 * 10**7, 5 * 10**7)).reward
    assert np.isclose(many.ratio, many.policy / many.control)
    assert many.ratio_interval[0] < many.ratio < many.ratio_interval[1] < many.ratio * 1.01
    assert math.isnan(read_outcomes(readout(reward_range=(-1, 3)), (9, 9), (5, 5)).reward.ratio)


def test_the_statement_says_what_a_report_hides():
    said = readout(share=0.25, missing=0.5).statement()
    assert said.status == "enforced"
    assert said.epsilon == 1.0
    text = " ".join((said.explain() + said.annex()).split())
    for part in (
        "counts as 0.5 before the noise",
        "in the control group with probability 0.25",
        "names the group in the open",
        "lose their own epsilon in addition",
        "as far as 2.2 honest people of its group",
    ):
        assert part in text, part


def test_the_plan_of_a_readout_is_its_half_width():
    spec, rng = readout(n_users=20_000), np.random.default_rng(3)
    found = plan_local_readout(users=20_000, epsilon=1.0, rate=0.1)
    _, once, always = outcome_intervals(spec, *drawn(spec, 20_000, (0.1, 0.1), rng, 100))
    p, q = map(float, spec.protocol.bit.rates)
    for (low, high), planned in ((once, found.half_width), (always, found.always)):
        assert np.isclose((high - low).mean() / (2 * (p - q)), planned, rtol=0.01)
    more = plan_local_readout(users=found.needed(0.02), epsilon=1.0, rate=0.1)
    assert np.isclose(more.half_width, 0.02, rtol=1e-3)
    assert found.without_privacy < found.half_width
    with pytest.raises(InvalidParameter, match="share"):
        plan_local_readout(users=10, epsilon=1.0, rate=0.1, share=0.0)


@pytest.mark.parametrize("tuning", [SpecTuning(), SpecTuning(mechanism="signed")])
def test_a_readout_of_questions_uses_the_arms_of_its_version(tuning):
    target = Spec(contexts=PEOPLE, arms=["none", "mail"], privacy=LocalDP(epsilon=1), tuning=tuning)
    version = Server(target).publish()
    spec = ReadoutSpec(target=target, policy=version, control="none", privacy=LocalDP(epsilon=2), n_users=9)
    assert Client(spec).decide(spec.policy, OLD) == version.recommend(target, OLD)
    assert len(reports_of(spec, 1, None)[0]) == HEADER_BYTES + 2

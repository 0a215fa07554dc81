"""The device: refuses bad input before anything is drawn, spends once, stores before it returns."""

import json
import math

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger
from dpbandits.domains import Box
from dpbandits.errors import (
    BudgetExceeded,
    CorruptState,
    IncompatibleState,
    ProtocolError,
    StateError,
)
from dpbandits.local import Client, FileOutbox, MemoryOutbox, PublishedArms, Server, SourceSpec, Spec
from dpbandits.local.contract.bins import BinLayout
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.privacy import LocalDP
from flat import spec_with
from internals.client import remembered

BOX = Box(low=[0.0, -5.0], high=[1.0, 5.0])


def spec_of(*, epsilon=1.0, **changes):
    return spec_with(
        **(
            {"contexts": BOX, "arms": range(3), "privacy": LocalDP(epsilon=epsilon), "learner": "smooth"}
            | changes
        )
    )


@pytest.fixture
def spec():
    return spec_of()


@pytest.fixture
def policy(spec):
    return PublishedArms(version=4, splits=(0, 2), arms=np.array([2, 0, 1]))


def test_the_arm_is_the_bins_and_the_report_names_version_and_spec(spec, policy):
    client = Client(spec, budget=10.0)
    assert [client.choose(policy, [x, y]) for x, y in ([0.1, 0.0], [0.9, -1.0], [0.9, 1.0])] == [2, 0, 1]
    report = client.report(1.0)
    assert report[1:5] == spec.digest
    assert int.from_bytes(report[5:9], "little") == 4
    assert len(report) == HEADER_BYTES + spec.protocol.mechanism_for(3).report_bytes


def test_order_of_calls_is_enforced(spec, policy):
    client = Client(spec)
    with pytest.raises(ProtocolError, match="choose an arm first"):
        client.report(1.0)
    client.decide(policy, [0.5, 0.0])
    with pytest.raises(ProtocolError, match="choose an arm first"):
        client.report(1.0)


def test_retries_are_the_same_bytes_and_another_report_needs_budget(spec, policy):
    ledger = MemoryLedger()
    client = Client(spec, account=ledger.account("local-reports"))
    client.choose(policy, [0.1, 0.0])
    report = client.report(1.0)
    assert client.report(0.0) == report
    assert client.unsent() == [report]
    with pytest.raises(BudgetExceeded):
        client.choose(policy, [0.9, 0.0])
    assert client.report(0.0) == report  # what was refused changed nothing
    assert client.decide(policy, [0.9, 4.0]) == 1  # who has no budget left can still decide
    assert client.unsent() == [report]
    client.sent(report)
    assert client.unsent() == []
    assert ledger.balance("local-reports").remaining_epsilon == 0


def test_the_report_is_stored_before_it_is_returned(spec, policy):
    class FullDisk(MemoryOutbox):
        def put(self, key, report):
            raise OSError("no space")

    ledger = MemoryLedger()
    client = Client(spec, account=ledger.account("local-reports"), outbox=FullDisk())
    client.choose(policy, [0.1, 0.0])
    with pytest.raises(OSError, match="no space"):
        client.report(1.0)
    # the budget is gone and nothing left the device: never the other way round
    assert ledger.balance("local-reports").remaining_epsilon == 0


def test_a_report_that_could_not_be_stored_is_stored_by_the_next_call(spec, policy):
    class FullOnce(MemoryOutbox):
        offered = ()

        def put(self, key, report):
            self.offered = (*self.offered, (key, report))
            if len(self.offered) == 1:
                raise OSError("no space")
            super().put(key, report)

    ledger, outbox = MemoryLedger(), FullOnce()
    client = Client(spec, account=ledger.account("local-reports"), outbox=outbox, budget=3.0)
    client.choose(policy, [0.1, 0.0])
    with pytest.raises(OSError, match="no space"):
        client.report(1.0)
    report = client.report(0.0)
    first, second = outbox.offered
    assert first == second == (report[9:HEADER_BYTES].hex(), report)
    assert ledger.balance("local-reports").spent_epsilon == 1


def test_a_ledger_that_fails_after_writing_is_asked_for_the_same_charge(spec, policy):
    class Interrupted(MemoryLedger):
        interrupted = False

        def charge(self, *arguments, **amounts):
            balance = super().charge(*arguments, **amounts)
            if not self.interrupted:
                self.interrupted = True
                raise StateError("the ledger could not be used")
            return balance

    ledger = Interrupted()
    client = Client(spec, account=ledger.account("local-reports"), budget=3.0)
    client.choose(policy, [0.1, 0.0])
    with pytest.raises(StateError):
        client.report(1.0)
    client.report(1.0)
    assert ledger.balance("local-reports").spent_epsilon == 1


def test_stored_reports_that_were_changed_are_refused(tmp_path):
    outbox = FileOutbox(tmp_path)
    outbox.put("ab12", b"a report of some bytes")
    path = tmp_path / "ab12.report"
    whole = path.read_bytes()
    for damaged in [
        b"",
        *(whole[:cut] for cut in range(len(whole))),
        *(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))),
    ]:
        path.write_bytes(damaged)
        for read in (outbox.pending, lambda: outbox.get("ab12")):
            with pytest.raises(CorruptState):
                read()
    outbox.remove("ab12")
    assert outbox.pending() == {}


def test_what_a_crash_left_unfinished_is_removed(tmp_path):
    FileOutbox(tmp_path).put("ab12", b"whole")
    (tmp_path / "cd34.unfinished").write_bytes(b"torn")
    outbox = FileOutbox(tmp_path)
    assert outbox.pending() == {"ab12": b"whole"}
    assert {path.name for path in tmp_path.iterdir()} == {"ab12.report", ".lock"}


def test_a_sent_report_is_not_drawn_again(spec, policy):
    client = Client(spec, budget=5.0)
    client.choose(policy, [0.1, 0.0])
    client.sent(client.report(1.0))
    with pytest.raises(ProtocolError, match="choose again"):
        client.report(1.0)


def test_file_outbox_survives_the_process(tmp_path):
    first = FileOutbox(tmp_path / "box")
    first.put("ab12", b"bytes")
    again = FileOutbox(tmp_path / "box")
    assert again.pending() == {"ab12": b"bytes"}
    assert again.get("ab12") == b"bytes"
    assert (tmp_path / "box").stat().st_mode & 0o777 == 0o700
    again.remove("ab12")
    again.remove("ab12")
    assert first.pending() == {}
    assert first.get("ab12") is None
    with pytest.raises(StateError):
        first.put("../escape", b"x")


def test_rewards_are_clipped_and_coined_without_bias(policy):
    spec = spec_of(reward_range=(0.0, 4.0))
    choice = spec.protocol.choose(policy, [0.5, 0.0], spec.privacy)

    def coin(reward):
        return spec.protocol.exact(choice, reward)[1]

    coins = [coin(1.0) for _ in range(20_000)]
    assert abs(np.mean(coins) - 0.25) < 5.4 * math.sqrt(0.25 * 0.75 / 20_000)
    assert all(coin(99.0) for _ in range(50))
    assert not any(coin(-99.0) for _ in range(50))


def test_user_chosen_arms_follow_the_published_weights():
    spec = spec_of(chooser="client")
    policy = PublishedArms(version=0, splits=(), weights=np.array([[0.2, 0.0, 0.8]]))
    client = Client(spec)
    arms = np.bincount([client.decide(policy, [0.5, 0.0]) for _ in range(20_000)], minlength=3)
    assert arms[1] == 0
    assert abs(arms[0] / 20_000 - 0.2) < 5.4 * math.sqrt(0.16 / 20_000)


def test_nothing_of_the_user_is_in_a_repr(spec, policy):
    client = Client(spec)
    client.choose(policy, [0.123456, 3.654321])
    client.report(1.0)
    shown = repr(client) + repr(remembered(client)) + repr(policy)
    assert "123456" not in shown
    assert "654321" not in shown
    assert "leaf=" not in repr(remembered(client))


def test_nothing_of_the_user_is_kept_after_the_report(spec, policy):
    client = Client(spec)
    client.choose(policy, [0.1, 3.6])
    report = client.report(1.0)
    assert remembered(client).choice is None
    assert client.report(0.0) == report
    assert "counts of clipped, missing and unavailable inputs, and nothing else of them" in " ".join(
        client.guarantee.explain().split()
    )


@pytest.mark.parametrize(
    "change",
    [
        {"arms": np.array([0, 1, 3])},
        {"arms": np.array([0, 1])},
        {"arms": None},
        {"arms": None, "weights": np.full((3, 3), 1 / 3)},
        {"version": -1},
    ],
)
def test_policies_that_do_not_fit_are_refused(spec, policy, change):
    fields = {"version": 4, "splits": (0, 2), "arms": policy.arms, "weights": None} | change
    with pytest.raises(IncompatibleState):
        Client(spec).choose(PublishedArms(**fields), [0.5, 0.0])


def test_json_round_trips_and_refuses_strangers(spec, policy):
    assert Spec.from_json(spec.to_json()) == spec
    again = PublishedArms.from_json(policy.to_json(spec), spec)
    assert (again.version, again.splits, again.arms.tolist()) == (4, (0, 2), [2, 0, 1])
    other = spec_of(epsilon=2.0)
    assert other.digest != spec.digest
    for text in (
        policy.to_json(other),
        "{}",
        "[1]",
        "nonsense",
        policy.to_json(spec).replace("[2, 0, 1]", '"x"'),
    ):
        with pytest.raises(IncompatibleState):
            PublishedArms.from_json(text, spec)
    for text in ("{}", "[1]", "nonsense", spec.to_json().replace('"format": 1', '"format": 9')):
        with pytest.raises(IncompatibleState):
            Spec.from_json(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 1.9),
        ("version", True),
        ("version", "1"),
        ("version", 1 << 32),
        ("splits", [0, 1.5]),
        ("splits", [True]),
        ("splits", [0, 0]),
        ("splits", [0, 7]),
        ("splits", 3),
        ("splits", [[0], [1]]),
        ("arms", [0.5, 1, 2]),
        ("arms", [True, 1, 2]),
        ("arms", ["2", 0, 1]),
        ("arms", [[2], [0], [1]]),
        ("arms", {"0": 1}),
        ("weights", [[0.2, 0.3, 0.5]]),
    ],
)
def test_published_fields_of_another_kind_are_refused_and_never_rounded(spec, policy, field, value):
    config = json.loads(policy.to_json(spec)) | {field: value}
    with pytest.raises(IncompatibleState):
        PublishedArms.from_json(json.dumps(config), spec)


@pytest.mark.parametrize("weights", [[[True, False, False]], [["1", 0, 0]], [1, 0, 0], 5, [[math.inf, 0, 0]]])
def test_published_probabilities_of_another_kind_are_refused(weights):
    spec = spec_of(chooser="client")
    whole = PublishedArms(version=0, splits=(), weights=np.array([[1.0, 0.0, 0.0]]))
    config = json.loads(whole.to_json(spec))
    assert PublishedArms.from_json(json.dumps(config), spec).weights.tolist() == [[1.0, 0.0, 0.0]]
    with pytest.raises(IncompatibleState):
        PublishedArms.from_json(json.dumps(config | {"weights": weights}), spec)


def test_files_name_contracts_and_their_format(spec, policy):
    # Devices carry these digests: a change of the contract's text needs a new format.
    target = spec_of(learner="tree")
    source = SourceSpec(target=target, name="x", n_users=500, privacy=LocalDP(epsilon=2.0))
    for contract, kind in (
        (spec, "Spec"),
        (target, "Spec"),
        (source, "SourceSpec"),
    ):
        config = json.loads(contract.to_json())
        assert (config["kind"], config["format"]) == (kind, 1)
        with pytest.raises(IncompatibleState):
            type(contract).from_json(json.dumps(config | {"kind": type(contract).__name__ + "2"}))
    assert config["target"]["learner"] == "tree"
    assert json.loads(policy.to_json(spec))["kind"] == "PublishedArms"
    digests = [one.digest.hex() for one in (spec, target, source.reports)]
    assert digests == ["e22c6486", "12ff114a", "e69078fb"]


@pytest.mark.parametrize(
    "change",
    [
        {"contexts": "box"},
        {"arms": []},
        {"arms": 2.5},
        {"epsilon": 17.0},
        {"epsilon": 0.0},
        {"mechanism": "floating-laplace"},
        {"learner": "guess"},
        {"chooser": "nobody"},
        {"learner": "ma2025"},
        {"seed": -1},
        {"window": -1},
        {"reports_per_version": 0},
    ],
)
def test_bad_specs_are_refused(change):
    with pytest.raises(ValueError, match=r"\w"):
        spec_of(**change)


def test_guarantee_holds_together_and_names_the_promise(spec):
    guarantee = Server(spec).guarantee
    assert (guarantee.status, guarantee.epsilon, guarantee.delta) == ("enforced", 1.0, 0.0)
    assert "the server" in guarantee.explain()
    assert Client(spec_of(chooser="client")).guarantee.epsilon == 1.0


def test_the_automatic_report_has_the_smaller_variance_and_is_the_same_everywhere():
    spec = spec_of(epsilon=4.0)
    names = [spec.protocol.mechanism_for(bins).name for bins in (1, 16, 32, 200, 1024)]
    assert names == ["krr", "krr", "krr", "signed", "signed"]
    for bins in (16, 200):
        chosen = spec.protocol.mechanism_for(bins)
        for name in ("signed", "krr"):
            other = spec_of(epsilon=4.0, mechanism=name).protocol.mechanism_for(bins)
            share = np.full(bins, 1 / bins)
            assert chosen.moments.signed_variance(share)[0] <= other.moments.signed_variance(share)[0]
    assert {spec_of(epsilon=0.5).protocol.mechanism_for(bins).name for bins in (16, 200)} == {"signed"}


def test_a_published_version_is_checked_once(spec, policy, monkeypatch):
    """Once as it is read, and by no device and no choice again."""
    checked, fits = [], BinLayout.fits
    monkeypatch.setattr(BinLayout, "fits", lambda self, one: checked.append(one) or fits(self, one))
    published = PublishedArms.from_json(policy.to_json(spec), spec)
    for _ in range(2):
        client = Client(spec, budget=10.0)
        for x in (0.1, 0.5, 0.9):
            client.choose(published, [x, 0.0])
            client.report(1.0)
        client.decide(published, [0.5, 0.0])
    assert checked == [published]


def test_what_fits_one_spec_is_still_refused_under_another(spec, policy):
    Client(spec).decide(policy, [0.5, 0.0])
    fewer = spec_of(arms=range(2))
    for call in (Client(fewer).decide, Client(fewer).choose):
        with pytest.raises(IncompatibleState):
            call(policy, [0.5, 0.0])
    with pytest.raises(IncompatibleState):
        fewer.protocol.choose(policy, [0.5, 0.0], fewer.privacy)


def test_nothing_published_can_be_changed(spec):
    """A device that has agreed to a version does not look at it again."""
    arms, weights = np.array([2, 0, 1]), np.full((3, 3), 1.0 / 3.0)
    served = PublishedArms(version=4, splits=(0, 2), arms=arms)
    drawn = PublishedArms(version=4, splits=(0, 2), weights=weights)
    for array in (served.arms, drawn.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    arms[:], weights[:] = 0, 0.0
    assert served.arms.tolist() == [2, 0, 1]
    assert drawn.weights.sum() == pytest.approx(3.0)


def test_a_version_that_was_read_from_json_is_the_one_that_was_written():
    spec = Spec(contexts=Box(low=[0], high=[1]), arms=range(2), privacy=LocalDP(epsilon=1), learner="smooth")
    written = PublishedArms(version=np.int64(1), splits=np.array([0]), arms=np.array([0, 1]))
    read = PublishedArms.from_json(written.to_json(spec), spec)
    assert read.lineage(spec) == written.lineage(spec)
    assert read.lineage(spec) != PublishedArms(version=1, splits=(0,), arms=np.array([1, 0])).lineage(spec)

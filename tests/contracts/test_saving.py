import copy
import os
import pickle
import shutil
import threading
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from contracts.cases import (
    CASES,
    HORIZON,
    account_of,
    decision_set,
    every_policy,
    learning,
    private,
    releasing_in_blocks,
    to_predict,
    with_salt,
)
from contracts.driving import ask, drive, warm
from dpbandits.budget import MemoryLedger
from dpbandits.errors import (
    BudgetExceeded,
    CorruptState,
    ForkedState,
    IncompatibleState,
    InvalidParameter,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.privacy import JointDP, SecureNoise
from dpbandits.state import StateStore, read_state, write_state
from internals import policy as internals


@cache
def uninterrupted(case):
    """Return the choices until the horizon, and the predictions then."""
    policy = case.make()
    return drive(policy, 0, HORIZON), policy.predict(to_predict(policy, decision_set(77)))[0]


@every_policy
@pytest.mark.parametrize("pause", [0, 5, 8, 21, 63])
def test_a_restored_run_is_the_uninterrupted_run(case, pause, tmp_path):
    expected, predicted = uninterrupted(case)
    interrupted = case.make()
    chosen = drive(interrupted, 0, pause)
    interrupted.save(tmp_path / "policy.state")
    restored = type(interrupted).load(tmp_path / "policy.state")
    chosen += drive(restored, pause, HORIZON)
    assert chosen == expected
    np.testing.assert_array_equal(restored.predict(to_predict(restored, decision_set(77)))[0], predicted)


@learning
def test_public_data_survives(case, tmp_path):
    policy = case.make()
    warm(policy, decision_set(5, n=20))
    policy.save(tmp_path / "policy.state")
    restored = type(policy).load(tmp_path / "policy.state")
    points = to_predict(policy, decision_set(7))
    np.testing.assert_array_equal(restored.predict(points)[0], policy.predict(points)[0])


@every_policy
def test_a_configuration_builds_an_equal_policy(case):
    policy = case.make()
    again = with_salt(type(policy).from_config(policy.to_config()))
    assert again.to_config() == policy.to_config()
    assert drive(again, 0, 30) == drive(policy, 0, 30)


@every_policy
def test_decisions_that_were_never_saved_are_disowned(case, tmp_path):
    policy = case.make()
    kept = ask(policy, 0)
    policy.save(tmp_path / "policy.state")
    lost = ask(policy, 1)
    restored = type(policy).load(tmp_path / "policy.state")
    replaced = ask(restored, 2)
    with pytest.raises(UnknownDecision):
        restored.tell(lost.id, 0.5)
    restored.tell(kept.id, 0.5)
    restored.tell(replaced.id, 0.5)


@every_policy
def test_another_policys_state_is_refused(case, tmp_path):
    policy = case.make()
    policy.save(tmp_path / "policy.state")
    for other in CASES:
        other_class = type(other.make())
        if other_class is not type(policy):
            with pytest.raises(IncompatibleState):
                other_class.load(tmp_path / "policy.state")


@every_policy
def test_a_torn_state_is_refused(case, tmp_path):
    policy = case.make()
    drive(policy, 0, 10)
    policy.save(tmp_path / "policy.state")
    whole = (tmp_path / "policy.state").read_bytes()
    for torn in (whole[:-7], whole[: len(whole) // 2], b"", whole[:100] + b"\x00" + whole[101:]):
        (tmp_path / "torn.state").write_bytes(torn)
        with pytest.raises((CorruptState, IncompatibleState)):
            type(policy).load(tmp_path / "torn.state")


@private
def test_of_two_copies_one_goes_on(case, tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    first = case.make(account=ledger.account("people"))
    drive(first, 0, 5)
    first.save(tmp_path / "policy.state")
    decision = ask(first, 5)
    shutil.copy(tmp_path / "policy.state", tmp_path / "copy.state")
    before = internals.fingerprint(first)
    second = type(first).load(tmp_path / "copy.state", ledger=ledger)
    for call in (
        lambda: ask(first, 6),
        lambda: first.tell(decision.id, 0.5),
        lambda: first.abandon(decision.id),
        lambda: first.save(tmp_path / "elsewhere.state"),
    ):
        with pytest.raises(ForkedState):
            call()
    assert internals.fingerprint(first) == before
    with pytest.raises(ForkedState):
        type(first).load(tmp_path / "policy.state", ledger=ledger)
    drive(second, 5, 12)


@private
@pytest.mark.parametrize(
    "other",
    [
        {"privacy": JointDP(epsilon=50.0, delta=1e-6)},
        {"noise": SecureNoise()},
        {"horizon": 4096},
        {"reward_range": (0.0, 0.1)},
        {"config": {}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_nothing_of_the_promise_is_said_at_load(case, tmp_path, other):
    policy = case.make()
    drive(policy, 0, 10)
    policy.save(tmp_path / "policy.state")
    with pytest.raises(TypeError, match="has no argument"):
        type(policy).load(tmp_path / "policy.state", **other)
    again = type(policy).load(tmp_path / "policy.state")
    assert again.to_config() == policy.to_config()
    assert again.guarantee == policy.guarantee


@private
def test_a_witnessed_state_needs_its_ledger_and_its_account_is_its_own(case, tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    ledger.open_account("others", privacy=JointDP(100.0, 1e-5))
    policy = case.make(account=ledger.account("people"))
    drive(policy, 0, 10)
    policy.save(tmp_path / "policy.state")
    with pytest.raises(IncompatibleState, match="saved with a ledger"):
        type(policy).load(tmp_path / "policy.state")
    with pytest.raises(IncompatibleState, match="another ledger"):
        type(policy).load(tmp_path / "policy.state", ledger=MemoryLedger(), adopt=True)
    for account in ("others", "people"):
        with pytest.raises(InvalidParameter, match="this policy's state names"):
            type(policy).load(tmp_path / "policy.state", account=ledger.account(account))
    drive(type(policy).load(tmp_path / "policy.state", ledger=ledger), 10, 20)
    assert ledger.balance("people").remaining_epsilon == 0
    assert ledger.balance("others").spent_epsilon == 0


@private
def test_a_ledger_that_comes_late_does_not_vouch_for_copies(case, tmp_path):
    """A copy from before goes on without it, and releases the same rounds with other noise."""
    policy = case.make()
    policy.ask(decision_set(0), user="u")
    policy.save(tmp_path / "policy.state")
    (tmp_path / "copy").write_bytes((tmp_path / "policy.state").read_bytes())
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    adopted = type(policy).load(tmp_path / "policy.state", account=ledger.account("people"), adopt=True)
    copy_of_it = type(policy).load(tmp_path / "copy")
    assert copy_of_it.ask(decision_set(1), user="v").id
    again = type(policy).load(tmp_path / "policy.state", ledger=ledger)
    for one in (adopted, again):
        (copies,) = [part for part in one.guarantee.assumptions if "Only one copy" in part.text]
        assert not copies.enforced


@private
def test_what_was_released_unseen_stays_unseen_and_what_was_simulated_stays_simulated(case, tmp_path):
    """A statement about the past is not bettered by what comes later."""
    policy = case.make()
    drive(policy, 0, 10)
    policy.save(tmp_path / "policy.state")
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    adopted = type(policy).load(tmp_path / "policy.state", account=ledger.account("people"), adopt=True)
    assert adopted.guarantee == policy.guarantee  # its first release had no witness
    adopted.noise = SecureNoise()
    assert adopted.guarantee.status == "simulated"


@private
def test_a_simulated_release_is_never_called_enforced(case, tmp_path):
    """A state whose configuration was given another source, as could be done at load."""
    policy = case.make()
    drive(policy, 0, 10)
    policy.save(tmp_path / "policy.state")
    state, secure = read_state(tmp_path / "policy.state"), SecureNoise()
    config = {**state.public["config"], "noise": secure.to_config()}
    write_state(tmp_path / "policy.state", replace(state, public={**state.public, "config": config}))
    if case.name in ("aggregated", "aggregated cells"):  # they take no other source
        with pytest.raises(CorruptState, match="configuration"):
            type(policy).load(tmp_path / "policy.state")
        return
    again = type(policy).load(tmp_path / "policy.state")
    assert (again.noise, again.guarantee.status) == (secure, "simulated")


@private
def test_every_release_is_in_the_log_with_its_terms(case, tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    policy = case.make(account=ledger.account("people"))
    policy.save(tmp_path / "policy.state")
    drive(policy, 0, 22)
    policy.save(tmp_path / "policy.state")
    promise = read_state(tmp_path / "policy.state").public["promise"]
    assert (promise["account"], promise["witnessed"]) == ("people", True)
    entries = [one for one in promise["releases"] if not one["purpose"].startswith("readout")]
    record = internals.mechanism_record(policy)
    drawn = {"dubey2021": 21, "linear tree": 21, "DP-IMED": 8, "DP-KLUCB": 8}  # rounds, episodes; else blocks
    assert (entries[0]["first"], sum(one["count"] for one in entries)) == (0, drawn.get(case.name, 2))
    assert len(entries) == (2 if case.people else 1)  # a look comes between two blocks
    for entry in entries:
        for name in ("law", "scale", "sensitivity"):
            assert entry[name] == getattr(record, name)
        assert entry["certificate"] == record.certificate.to_config()
    for entry in promise["releases"]:
        assert (entry["source"], entry["status"]) == ("SimulatedNoise", "simulated")
        assert (entry["charge"], entry["witnessed"]) == (internals.lineage(policy), True)
    alone = case.make()
    drive(alone, 0, 22)
    alone.save(tmp_path / "alone.state")
    entries = read_state(tmp_path / "alone.state").public["promise"]["releases"]
    assert all((entry["charge"], entry["witnessed"]) == (None, False) for entry in entries)


@private
@pytest.mark.parametrize(
    ("field", "worse"),
    [
        ("scale", lambda scale: 0.99 * scale),
        ("sensitivity", lambda sensitivity: 1.01 * sensitivity),
        ("law", lambda law: "uniform"),
        ("unit", lambda unit: "in units twice as large"),
        ("certificate", lambda certificate: {"kind": "GaussianDP", "mu": 30.0}),
        ("certificate", lambda certificate: None),
        ("status", lambda status: "enforced"),
        ("purpose", lambda purpose: "something else"),
        ("count", lambda count: count - 1),
        ("count", lambda count: 1000),
        ("scale", lambda scale: "much"),
    ],
)
def test_a_release_on_weaker_terms_than_the_configuration_promises_is_refused(case, tmp_path, field, worse):
    policy = case.make()
    drive(policy, 0, 10)
    policy.save(tmp_path / "policy.state")
    state = read_state(tmp_path / "policy.state")
    promise = state.public["promise"]
    (entry,) = promise["releases"]
    weaker = {**promise, "releases": [{**entry, field: worse(entry[field])}]}
    write_state(tmp_path / "policy.state", replace(state, public={**state.public, "promise": weaker}))
    with pytest.raises(CorruptState):
        type(policy).load(tmp_path / "policy.state")


@private
def test_the_budget_is_charged_once_and_before_the_first_answer(case, tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    policy = case.make(account=ledger.account("people"))
    assert ledger.balance("people").spent_epsilon == 0
    drive(policy, 0, 10)
    policy.save(tmp_path / "policy.state")
    restored = type(policy).load(tmp_path / "policy.state", ledger=ledger)
    drive(restored, 10, 12)
    assert ledger.balance("people").spent_epsilon == 4
    assert ledger.balance(
        "people"
    ).simulated  # whoever reads the account knows that this noise can be repeated
    overdrawn = case.make(account=ledger.account("people"))
    before = internals.fingerprint(overdrawn)
    with pytest.raises(BudgetExceeded):
        ask(overdrawn, 0)
    assert internals.fingerprint(overdrawn) == before


@private
def test_a_state_saved_before_the_first_ask_is_paid_for(case, tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    case.make(account=ledger.account("people")).save(tmp_path / "policy.state")
    assert ledger.balance("people").remaining_epsilon == 0
    policy = case.make(account=ledger.account("people"))
    with pytest.raises(BudgetExceeded):
        policy.save(tmp_path / "unpaid.state")
    assert not (tmp_path / "unpaid.state").exists()
    drive(type(policy).load(tmp_path / "policy.state", ledger=ledger), 0, 3)


@releasing_in_blocks
def test_a_failed_save_is_tried_again_with_the_same_noise(case, tmp_path, monkeypatch):
    policy = case.make()
    policy.save(tmp_path / "policy.state")
    drive(policy, 0, 8)
    store = internals.store(policy)
    commit = store.commit
    failed = []

    def full_disk(state):
        failed.append(state.arrays["released"].copy())
        raise OSError("no space left on device")

    monkeypatch.setattr(store, "commit", full_disk)
    for _ in range(2):
        with pytest.raises(OSError, match="no space"):
            ask(policy, 8)
        assert internals.posterior(policy) is None
        assert len(policy.released) == 0
    monkeypatch.setattr(store, "commit", commit)
    ask(policy, 8)
    np.testing.assert_array_equal(policy.released, failed[0])
    np.testing.assert_array_equal(failed[0], failed[1])


@releasing_in_blocks
def test_a_release_after_a_failed_save_is_durable_before_it_is_used(case, tmp_path, monkeypatch):
    policy = case.make()
    drive(policy, 0, 5)
    policy.save(tmp_path / "policy.state")
    with monkeypatch.context() as failing:
        failing.setattr(StateStore, "commit", _full_disk)
        with pytest.raises(OSError, match="no space"):
            policy.save(tmp_path / "policy.state")
    drive(policy, 5, 9)
    restored = type(policy).load(tmp_path / "policy.state")
    np.testing.assert_array_equal(restored.released, policy.released)
    assert len(policy.released) == 1


def _full_disk(_store, _state):
    raise OSError("no space left on device")


@every_policy
def test_a_save_that_failed_can_be_made_elsewhere(case, tmp_path):
    policy = case.make()
    drive(policy, 0, 3)
    case.make().save(tmp_path / "another.state")
    with pytest.raises(FileNotFoundError):
        policy.save(tmp_path / "no" / "such" / "folder")
    with pytest.raises(IncompatibleState):
        policy.save(tmp_path / "another.state")
    policy.save(tmp_path / "policy.state")
    expected = drive(policy, 3, 30)
    restored = type(policy).load(tmp_path / "policy.state")
    done = restored.diagnostics()["rounds_asked"]
    assert drive(restored, done, 30) == expected[done - 3 :]


@private
def test_a_copy_that_was_overtaken_is_not_saved_elsewhere(case, tmp_path):
    first = case.make()
    drive(first, 0, 5)
    first.save(tmp_path / "policy.state")
    second = type(first).load(tmp_path / "policy.state")
    drive(first, 5, 12)
    with pytest.raises(ForkedState):
        drive(second, 5, 12)
    with pytest.raises(ForkedState):
        second.save(tmp_path / "elsewhere.state")
    assert not (tmp_path / "elsewhere.state").exists()


@every_policy
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_policy_cannot_be_copied(case, duplicate):
    with pytest.raises(ProtocolError):
        duplicate(case.make())


@every_policy
def test_a_forked_child_cannot_go_on_nor_waits_for_a_lock(case, monkeypatch, tmp_path):
    policy = case.make()
    drive(policy, 0, 3)
    decision = ask(policy, 3)
    before = internals.fingerprint(policy)
    holding, release = threading.Event(), threading.Event()

    def hold():  # as a thread of the parent may at the fork, which is not there in the child
        with internals.turn(policy):
            holding.set()
            release.wait(60.0)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(60.0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    for call in (
        lambda: ask(policy, 4),
        lambda: policy.tell(decision.id, 0.5),
        lambda: policy.abandon(decision.id),
        lambda: policy.save(tmp_path / "state"),
    ):
        with pytest.raises(ForkedState):
            call()
    release.set()
    thread.join()
    assert internals.fingerprint(policy) == before
    assert not (tmp_path / "state").exists()

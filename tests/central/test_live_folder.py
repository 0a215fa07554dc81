"""A policy that lives in a folder: what it has acknowledged survives kill -9, faults and interruptions."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from central import live_worker
from contracts.cases import CASES, HORIZON, account_of, decision_set, every_policy, private, reward_of
from contracts.driving import ask, drive
from dpbandits.budget import MemoryLedger, SQLiteLedger
from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    CorruptState,
    ForkedState,
    IncompatibleState,
    InvalidData,
    ProtocolError,
    StateError,
)
from dpbandits.policy import Receipt
from dpbandits.policy.bookkeeping import RoundBook
from dpbandits.state import StateKey, journal, read_state
from dpbandits.state.live import WITNESSED_EVERY
from internals import policy as internals
from internals.journal import failing

WORKER = Path(live_worker.__file__)
BLOCK = next(case for case in CASES if case.name == "block")
KILLS = 10


def acknowledged(directory):
    path = directory / "acknowledged"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def check_survival(directory):
    """Everything acknowledged is in the folder; returns how much that is."""
    said = acknowledged(directory)
    names = {what: [name for one, name in said if one == what] for what in ("asked", "told", "abandoned")}
    with live_worker.opened(directory) as policy:
        assert policy.diagnostics()["rounds_asked"] >= len(names["asked"])
        assert len(set(names["asked"])) == len(names["asked"])
        settled = {*names["told"], *names["abandoned"]}
        assert settled.isdisjoint(policy.pending)
        for name in settled:
            with pytest.raises(AlreadyTold):
                policy.tell(name, 0.5)
        rounds = [int(name.split("-")[1]) for name in names["asked"]]
        assert rounds == sorted(rounds)
        assert len(set(rounds)) == len(rounds)
        for name in set(names["asked"]) - settled:  # some were told before that could be written down
            with suppress(AlreadyTold):
                policy.tell(name, 0.5)
    return len(names["asked"]), len(names["told"])


def test_what_was_acknowledged_survives_kills(tmp_path):
    moments = np.random.default_rng(31)
    with subprocess.Popen(
        [sys.executable, str(WORKER), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as keeper:
        for _ in range(KILLS):
            before = len(acknowledged(tmp_path))
            keeper.stdin.write("live\n")
            keeper.stdin.flush()
            child = json.loads(keeper.stdout.readline())
            give_up = time.monotonic() + 60.0
            while len(acknowledged(tmp_path)) < before + 12 and time.monotonic() < give_up:
                time.sleep(0.002)
            time.sleep(moments.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
            ended = json.loads(keeper.stdout.readline())
            assert ended == -signal.SIGKILL, (tmp_path / "errors").read_text()
        keeper.stdin.close()
    asked, told = check_survival(tmp_path)
    assert asked >= 5 * KILLS
    assert told >= KILLS


@cache
def uninterrupted(case):
    """Return the policy's class, its choices until the horizon, and its predictions then."""
    policy = case.make()
    return type(policy), drive(policy, 0, HORIZON), predicted_by(policy)


def predicted_by(policy):
    rows = decision_set(77)  # where there are arms, a context is followed by an arm's code
    return policy.predict(rows if policy.menu is None else rows[:, :1])[0]


@every_policy
@pytest.mark.parametrize("stop", [1, 8, 21])
def test_a_reopened_run_is_the_uninterrupted_run(case, stop, tmp_path):
    kind, expected, predicted = uninterrupted(case)
    with kind.open(tmp_path / "p", new=case.make()) as policy:
        chosen = drive(policy, 0, stop)
        last = ask(policy, stop)
        chosen.append(last.index)
        pending = policy.pending
    with kind.open(tmp_path / "p", new=case.make()) as policy:
        assert policy.diagnostics()["rounds_asked"] == stop + 1
        assert policy.pending == pending == (last.id,)
        policy.tell(last.id, reward_of(last.action, stop))
        chosen += drive(policy, stop + 1, HORIZON)
    assert chosen == expected
    with kind.open(tmp_path / "p") as policy:
        close = {"rtol": 0, "atol": 0} if case.private else {"rtol": 1e-9}  # what it solved is solved anew
        np.testing.assert_allclose(predicted_by(policy), predicted, **close)


def tell_half(policy, index):
    decision = policy.ask([index / 40], user=f"u{index}")
    policy.tell(decision.id, 0.5)
    return decision.index


@private
@pytest.mark.parametrize("sealed", [False, True])
def test_asks_tells_and_abandons_are_there_without_a_release(case, tmp_path, sealed):
    key = StateKey(bytes(range(64))) if sealed else None
    policy = case.make()
    opened = type(policy).open(tmp_path / "p", new=policy, key=key)
    decisions = [ask(opened, t) for t in range(4)]
    opened.tell(decisions[0].id, 0.25)
    opened.abandon(decisions[2].id)
    before, pending = internals.fingerprint(opened), opened.pending
    assert decisions[3].id in pending
    opened.close()
    if sealed:
        with pytest.raises(IncompatibleState, match="sealed"):
            type(policy).open(tmp_path / "p")
        raw = decisions[3].action.tobytes()
        assert not any(raw in path.read_bytes() for path in (tmp_path / "p").iterdir())
    with type(policy).open(tmp_path / "p", key=key) as again:
        assert again.pending == pending
        assert internals.raw_rounds(again) == internals.raw_rounds(opened)
        for told in (0, 2):
            with pytest.raises(AlreadyTold):
                again.tell(decisions[told].id, 0.5)
    assert internals.fingerprint(opened) == before


@private
def test_a_folder_has_one_user_and_a_closed_policy_none(case, tmp_path):
    policy = case.make()
    opened = type(policy).open(tmp_path / "p", new=policy)
    with pytest.raises(StateError, match="uses this folder"):
        type(policy).open(tmp_path / "p")
    with pytest.raises(ProtocolError, match="is saved in its folder"):
        opened.save(tmp_path / "elsewhere")
    decision = ask(opened, 0)
    opened.close()
    for call in (lambda: ask(opened, 1), lambda: opened.tell(decision.id, 0.5)):
        with pytest.raises(ProtocolError, match="closed"):
            call()
    untouched = case.make()
    type(untouched).open(tmp_path / "untouched", new=untouched).close()
    with pytest.raises(ProtocolError, match="closed"):
        ask(untouched, 0)
    with pytest.raises(IncompatibleState, match="open the folder"):
        type(policy).load(tmp_path / "p" / "policy.state")
    with pytest.raises(IncompatibleState, match="another configuration"):
        type(policy).open(tmp_path / "p", new=case.make(seed=12))
    with pytest.raises(FileNotFoundError, match="new="):
        type(policy).open(tmp_path / "q")
    assert (tmp_path / "p").stat().st_mode & 0o077 == 0


@private
def test_a_folder_is_paid_for_when_it_is_begun(case, tmp_path):
    """Whoever opens it later takes it for paid: a crash before the first ask must not make it free."""
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    new = case.make(account=ledger.account("people"))
    type(new).open(tmp_path / "p", new=new).close()
    assert ledger.balance("people").spent_epsilon == 4
    with type(new).open(tmp_path / "p", ledger=ledger) as opened:
        ask(opened, 0)
    assert ledger.balance("people").spent_epsilon == 4


@private
def test_a_copied_folder_takes_over_and_the_original_is_refused(case, tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 4.0, 1e-5))
    original = type(case.make()).open(tmp_path / "p", new=case.make(account=ledger.account("people")))
    decision = ask(original, 0)
    shutil.copytree(tmp_path / "p", tmp_path / "copy")
    with pytest.raises(IncompatibleState, match="ledger"):
        type(original).open(tmp_path / "copy")
    with type(original).open(tmp_path / "copy", ledger=ledger) as copy:
        assert copy.pending == (decision.id,)
        for call in (lambda: ask(original, 1), lambda: original.tell(decision.id, 0.5)):
            with pytest.raises(ForkedState):
                call()
        ask(copy, 1)
    original.close()
    with pytest.raises(ForkedState):
        type(original).open(tmp_path / "p", ledger=ledger)


def paid(case, **changes):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=account_of(case.make(), 8.0, 1e-5))
    return ledger, case.make(account=ledger.account("people"), **changes)


@private
def test_a_folder_of_before_its_last_closing_is_refused(case, tmp_path):
    """No release in between: positions of the state say nothing of what was asked and told since."""
    ledger, new = paid(case)
    with type(new).open(tmp_path / "p", new=new) as policy:
        drive(policy, 0, 2)
    with type(new).open(tmp_path / "p", ledger=ledger) as policy:
        first = ask(policy, 2)
        shutil.copytree(tmp_path / "p", tmp_path / "old")
        policy.tell(first.id, 0.25)
    with pytest.raises(ForkedState, match="rolled back"):
        type(new).open(tmp_path / "old", ledger=ledger)
    with type(new).open(tmp_path / "p", ledger=ledger) as policy:
        assert policy.diagnostics()["rounds_asked"] == 3
        drive(policy, 3, 12)


def test_a_folder_that_lacks_more_than_the_last_calls_is_refused_though_none_was_closed(tmp_path):
    case = BLOCK
    ledger, new = paid(case)
    with type(new).open(tmp_path / "p", new=new) as policy:
        drive(policy, 0, 21)  # the second block ended before round 20
        shutil.copytree(tmp_path / "p", tmp_path / "old")
        assert 2 * 17 == WITNESSED_EVERY + 2  # since the release, its own call not counted
        drive(policy, 21, 37)
        shutil.copytree(tmp_path / "p", tmp_path / "newest")
        with pytest.raises(ForkedState, match="rolled back"):
            type(new).open(tmp_path / "old", ledger=ledger)
        drive(policy, 37, 38)  # what was refused changed nothing
    shutil.rmtree(tmp_path / "p")
    with pytest.raises(ForkedState, match="rolled back"):  # closed, and so known to the last call
        type(new).open(tmp_path / "newest", ledger=ledger)


def test_a_ledger_that_does_not_answer_stops_the_next_ask_and_no_closing(tmp_path, monkeypatch):
    case = BLOCK
    ledger, new = paid(case)
    with type(new).open(tmp_path / "p", new=new) as policy:
        drive(policy, 0, 20)
        decisions = [ask(policy, t) for t in range(20, 20 + WITNESSED_EVERY // 2)]
        for decision in decisions:
            policy.tell(decision.id, 0.5)
        before = internals.raw_rounds(policy)
        with monkeypatch.context() as broken:
            broken.setattr(ledger, "advance", _unreachable)
            with pytest.raises(StateError, match="did not answer"):
                ask(policy, 36)
            assert internals.raw_rounds(policy) == before
        ask(policy, 36)
        monkeypatch.setattr(ledger, "advance", _unreachable)
    monkeypatch.undo()
    with type(new).open(tmp_path / "p", ledger=ledger) as again:
        assert again.diagnostics()["rounds_asked"] == 37


def _unreachable(*_, **__):
    raise StateError("the witness did not answer")


def test_a_crash_at_any_moment_leaves_a_folder_that_opens(tmp_path, monkeypatch):
    """Folder and ledger as they are at every sync and around every event of the ledger, over two releases."""
    case, moments, said = BLOCK, tmp_path / "moments", []
    (tmp_path / "now").mkdir()
    ledger = SQLiteLedger(tmp_path / "now" / "ledger")
    ledger.open_account("people", privacy=account_of(case.make(), 8.0, 1e-5))
    real_sync, real_advance = os.fsync, SQLiteLedger.advance

    def moment():
        shutil.copytree(tmp_path / "now", moments / f"{len(said)}")
        said.append(told)

    def sync(descriptor):
        moment()
        real_sync(descriptor)

    def advance(*arguments, **options):
        moment()
        real_advance(*arguments, **options)
        moment()

    told = 0
    new = case.make(account=ledger.account("people"), blocks=(2, 22, 40))
    with type(new).open(tmp_path / "now" / "p", new=new) as policy:
        drive(policy, 0, 2)
        monkeypatch.setattr(os, "fsync", sync)
        monkeypatch.setattr(SQLiteLedger, "advance", advance)
        for told in range(2, 23):
            drive(policy, told, told + 1)
    monkeypatch.undo()
    assert len(said) > 2 * 21
    for number, acknowledged_rounds in enumerate(said):
        kept = SQLiteLedger(moments / f"{number}" / "ledger")
        with type(new).open(moments / f"{number}" / "p", ledger=kept) as again:
            assert again.diagnostics()["rounds_asked"] in (acknowledged_rounds, acknowledged_rounds + 1)


def test_an_older_log_beside_a_newer_state_is_refused(tmp_path):
    """It would open with fewer rounds than were asked, though neither is damaged."""
    case = BLOCK
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        drive(policy, 0, 5)
        (log,) = (tmp_path / "p").glob("rounds-*.log")
        kept = {path.name: path.read_bytes() for path in (log, log.with_name(log.name + ".end"))}
        drive(policy, 5, 10)
    for path in (tmp_path / "p").glob("rounds-*"):
        path.unlink()
    for name, content in kept.items():
        (tmp_path / "p" / name).write_bytes(content)
    with pytest.raises(CorruptState, match="older than the state"):
        type(policy).open(tmp_path / "p")


@private
def test_a_state_saved_by_value_can_be_opened(case, tmp_path):
    policy = case.make()
    kept = ask(policy, 0)
    (tmp_path / "p").mkdir()
    policy.save(tmp_path / "p" / "policy.state")
    with type(policy).open(tmp_path / "p") as opened:
        assert opened.pending == (kept.id,)


@pytest.mark.parametrize(
    "damage", ["remove log", "remove both", "remove end", "cut", "remove state", "old state"]
)
def test_a_damaged_folder_is_refused(tmp_path, damage):
    case = BLOCK
    policy = type(case.make()).open(tmp_path / "p", new=case.make())
    old = (tmp_path / "p" / "policy.state").read_bytes()
    drive(policy, 0, 9 if damage == "old state" else 5)
    policy.close()
    (log,) = (tmp_path / "p").glob("rounds-*.log")
    if damage == "remove log":
        log.unlink()
    elif damage == "remove both":
        log.unlink()
        log.with_name(log.name + ".end").unlink()
    elif damage == "remove end":
        log.with_name(log.name + ".end").unlink()
    elif damage == "cut":
        log.write_bytes(log.read_bytes()[:-70])
    elif damage == "remove state":
        (tmp_path / "p" / "policy.state").unlink()
    else:
        (tmp_path / "p" / "policy.state").write_bytes(old)
    with pytest.raises(CorruptState):
        type(policy).open(tmp_path / "p", new=case.make())


@pytest.mark.parametrize("kind", [b"A", b"T", b"X"])
@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 64], ids=["empty", "short", "wild"])
def test_a_record_that_another_writer_left_is_refused_as_such(tmp_path, kind, content):
    """Its checksum is right, and what it says cannot be read."""
    case = BLOCK
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        drive(policy, 0, 2)
    (path,) = (tmp_path / "p").glob("rounds-*.log")
    subject = json.loads(path.read_bytes().partition(b"\n")[0])["subject"]
    log = journal.Journal(path, kind="rounds", subject=subject)
    log.settle()
    log.append(kind, content)
    with pytest.raises(CorruptState):
        type(policy).open(tmp_path / "p")


def test_a_state_of_just_before_a_release_is_refused_beside_the_log_after_it(tmp_path):
    """What was asked since would follow it, and its block would be drawn a second time."""
    case = BLOCK
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        drive(policy, 0, 8)
    with type(policy).open(tmp_path / "p") as again:
        old = (tmp_path / "p" / "policy.state").read_bytes()
        ask(again, 8)
        assert len(again.released) == 1
    (tmp_path / "p" / "policy.state").write_bytes(old)
    with pytest.raises(CorruptState, match="older than the log"):
        type(policy).open(tmp_path / "p")


def test_sealed_rounds_cannot_change_places(tmp_path):
    """Who cannot read them can write a log of the same records in another order, its chain and its end."""
    case, key = BLOCK, StateKey(bytes(range(64)))
    with type(case.make()).open(tmp_path / "p", new=case.make(), key=key) as policy:
        decisions = [ask(policy, t) for t in range(2)]
        policy.tell(decisions[0].id, 0.25)
        policy.tell(decisions[1].id, 0.75)
    (path,) = (tmp_path / "p").glob("rounds-*.log")
    subject = json.loads(path.read_bytes().partition(b"\n")[0])["subject"]
    log = {"path": path, "kind": "rounds", "subject": subject}
    asks, tells = np.split(np.arange(4), 2)
    records = journal.Journal(**log).settle()
    for order, refused in (([*asks, *tells], False), ([*asks, *tells[::-1]], True)):
        path.unlink()
        path.with_name(path.name + ".end").unlink()
        written = journal.Journal.create(**log)
        for number in order:
            written.append(*records[number])
        shutil.copytree(tmp_path / "p", tmp_path / f"copy {refused}")
        if refused:
            with pytest.raises(CorruptState, match="does not open"):
                type(policy).open(tmp_path / f"copy {refused}", key=key)
        else:
            type(policy).open(tmp_path / f"copy {refused}", key=key).close()


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt], ids=["disk", "interrupt"])
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
def test_an_append_that_fails_counts_wholly_or_not_at_all(tmp_path, monkeypatch, error, late):
    """The one disk operation of an append fails, before or after it did its work."""
    case = BLOCK
    policy = type(case.make()).open(tmp_path / "p", new=case.make())
    first = ask(policy, 0)
    real = journal.write_through

    def failing(*arguments, **options):
        if late:
            real(*arguments, **options)
        raise error("injected")

    for call in (lambda: ask(policy, 1), lambda: policy.tell(first.id, 0.75)):
        with monkeypatch.context() as broken:
            broken.setattr(journal, "write_through", failing)
            with pytest.raises(error):
                call()
    second = ask(policy, 2)  # whatever failed is settled here
    if first.id not in policy.pending:
        with pytest.raises(AlreadyTold):
            policy.tell(first.id, 0.75)
    asked, rounds = policy.diagnostics()["rounds_asked"], internals.raw_rounds(policy)
    assert asked in (2, 3)
    policy.close()
    with type(policy).open(tmp_path / "p") as again:
        assert internals.raw_rounds(again) == rounds
        assert second.id in again.pending


def test_a_batch_costs_one_write_through(tmp_path, monkeypatch):
    case = BLOCK
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        synced, real = [], os.fsync
        monkeypatch.setattr(os, "fsync", lambda descriptor: (synced.append(descriptor), real(descriptor)))
        sets = np.stack([decision_set(t) for t in range(6)])
        batch = policy.ask_batch(sets, users=[f"u{t}" for t in range(6)])
        assert len(synced) == 1
        policy.tell_batch(batch.ids, np.full(6, 0.5))
        assert len(synced) == 2


def test_what_a_call_has_done_is_not_done_again_by_the_next(tmp_path, monkeypatch):
    """The record of a call that returned is not replayed; that of an interrupted call is, once."""
    case, played, real = BLOCK, [], RoundBook.replayed
    monkeypatch.setattr(RoundBook, "replayed", lambda *record: (played.append(record[1]), real(*record))[1])
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        drive(policy, 0, 3)
        assert played == []
        with monkeypatch.context() as broken:
            internals.interrupt_after_note(broken, policy)
            with pytest.raises(KeyboardInterrupt):
                ask(policy, 3)
        drive(policy, 4, 6)
        assert played == [b"A"]
        assert policy.diagnostics()["rounds_asked"] == 6


def test_an_interruption_between_log_and_book_is_made_good(tmp_path, monkeypatch):
    case = BLOCK
    policy = type(case.make()).open(tmp_path / "p", new=case.make())
    internals.interrupt_after_note(monkeypatch, policy)
    with pytest.raises(KeyboardInterrupt):
        ask(policy, 0)
    monkeypatch.undo()
    second = ask(policy, 1)
    assert second.id.split("-")[1] == "1"
    rounds = internals.raw_rounds(policy)
    policy.close()
    with type(policy).open(tmp_path / "p") as again:
        assert internals.raw_rounds(again) == rounds


@every_policy
def test_a_round_that_was_refused_alone_is_refused_after_a_crash(case, tmp_path):
    """As one that was refused in a batch of one: nothing can be told for it, and it is its user's."""
    bad, left = np.full((5, 2), np.nan), []
    for alone in (True, False):
        policy = type(case.make()).open(tmp_path / f"{alone}", new=case.make())
        first, user = ask(policy, 0), "user-1" if policy.user_ids else None
        if alone:
            with pytest.raises(InvalidData, match="the round is taken"):
                policy.ask(bad, user)
        else:
            assert policy.ask_batch(bad[None], None if user is None else [user]).refused.all()
        lineage, number, nonce = first.id.split("-")
        refused = f"{lineage}-{int(number) + 1}-{nonce}"
        shutil.copytree(tmp_path / f"{alone}", tmp_path / f"{alone}, after a crash")  # it was never closed
        with type(policy).open(tmp_path / f"{alone}, after a crash") as again:
            assert again.diagnostics()["rounds_asked"] == 2
            assert again.pending == policy.pending
            assert refused not in again.pending
            with pytest.raises(InvalidData, match="the decision was refused"):
                again.tell(refused, 0.5)
            assert again.tell(first.id, 0.5) in (Receipt.COUNTED, Receipt.LATE)
            if case.counts_users:
                with pytest.raises(ContributionExceeded):
                    ask(again, 1)
            kept, taken = internals.raw_rounds(again)
            left.append((kept, sorted(rounds for _, rounds in taken)))
        policy.close()
    assert left[0] == left[1]


def test_what_came_after_a_commit_that_failed_is_kept(tmp_path, monkeypatch):
    case = BLOCK
    policy = type(case.make()).open(tmp_path / "p", new=case.make())
    decisions = [ask(policy, t) for t in range(8)]
    for decision in decisions[:7]:
        policy.tell(decision.id, 0.5)
    with monkeypatch.context() as broken:
        broken.setattr("dpbandits.state.store.replace_durably", _full_disk)
        with pytest.raises(OSError, match="no space"):
            ask(policy, 8)
        policy.tell(decisions[7].id, 0.5)  # late: its block was drawn
    policy.close()
    with type(policy).open(tmp_path / "p") as again:
        assert len(again.released) == 1
        with pytest.raises(AlreadyTold):
            again.tell(decisions[7].id, 0.5)


def test_an_earlier_state_that_is_written_late_does_not_end_the_log(tmp_path, monkeypatch):
    """The disk is full twice: when a commit was prepared, and when that one was written but not the next."""
    case = BLOCK
    policy = type(case.make()).open(tmp_path / "p", new=case.make())
    decisions = [ask(policy, t) for t in range(8)]
    with monkeypatch.context() as broken:
        broken.setattr("dpbandits.state.store.replace_durably", _full_disk)
        with pytest.raises(OSError, match="no space"):
            ask(policy, 8)
    policy.tell(decisions[7].id, 0.5)
    with monkeypatch.context() as broken:
        broken.setattr("dpbandits.state.store.write_durably", _full_disk)
        with pytest.raises(OSError, match="no space"):
            ask(policy, 8)
    policy.close()
    with type(policy).open(tmp_path / "p") as again, pytest.raises(AlreadyTold):
        again.tell(decisions[7].id, 0.5)


def test_a_forked_child_does_not_keep_the_folder_of_a_parent_that_died(tmp_path):
    with subprocess.Popen(
        [sys.executable, str(WORKER), str(tmp_path), "forking"], stdout=subprocess.PIPE, text=True
    ) as parent:
        child = int(parent.stdout.readline())
        try:
            os.kill(parent.pid, signal.SIGKILL)
            parent.wait()
            os.kill(child, 0)  # it is there
            with live_worker.opened(tmp_path) as policy:
                assert policy.diagnostics()["rounds_asked"] == 0
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
@pytest.mark.parametrize("nth", range(6))
def test_a_folder_that_was_never_begun_can_be_begun(tmp_path, monkeypatch, nth, error):
    case, real, left = BLOCK, os.replace, [nth]

    def cut(*paths):
        if not left[0]:
            raise error
        left[0] -= 1
        real(*paths)

    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", cut)
        with suppress(error):
            type(case.make()).open(tmp_path / "p", new=case.make()).close()
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        drive(policy, 0, 5)
    with type(case.make()).open(tmp_path / "p") as again:
        assert again.diagnostics()["rounds_asked"] == 5


def test_a_policy_is_closed_by_its_own_process_when_nothing_is_under_way(tmp_path, monkeypatch):
    case = BLOCK
    policy = type(case.make()).open(tmp_path / "p", new=case.make())
    (end,) = (tmp_path / "p").glob("rounds-*.log.end")
    child = os.fork()
    if child == 0:
        try:
            policy.close()  # as the end of a with block would
            with suppress(ForkedState):
                ask(policy, 0)
                os._exit(4)
        finally:
            os._exit(0)
    before = end.stat().st_ino
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert end.stat().st_ino == before
    slow, real, order = threading.Event(), journal.write_through, []

    def waiting(*arguments):
        slow.set()
        time.sleep(0.2)
        real(*arguments)
        order.append("asked")

    monkeypatch.setattr(journal, "write_through", waiting)
    asking = threading.Thread(target=ask, args=(policy, 0))
    asking.start()
    assert slow.wait(60.0)
    policy.close()
    order.append("closed")
    asking.join()
    monkeypatch.undo()
    assert order == ["asked", "closed"]
    with type(policy).open(tmp_path / "p") as again:
        assert again.diagnostics()["rounds_asked"] == 1


def test_a_policy_that_a_full_disk_closes_has_left_its_folder_whole(tmp_path, monkeypatch):
    case = BLOCK
    policy = type(case.make()).open(tmp_path / "p", new=case.make())
    told, waiting = ask(policy, 0), ask(policy, 1)
    policy.tell(told.id, 0.75)
    with failing(monkeypatch, "end"), pytest.raises(OSError, match="disk full"):
        policy.close()
    policy.close()
    with pytest.raises(ProtocolError, match="closed"):
        ask(policy, 2)
    with type(policy).open(tmp_path / "p") as again:
        assert again.diagnostics()["rounds_asked"] == 2
        assert again.pending == (waiting.id,)
        with pytest.raises(AlreadyTold):
            again.tell(told.id, 0.75)


def test_public_data_given_to_a_folder_is_kept(tmp_path):
    case = BLOCK
    rows = decision_set(5, n=20)
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        policy.warm_start(rows, rows[:, 0])
        mean = policy.predict(rows)[0]
    with type(case.make()).open(tmp_path / "p") as again:
        np.testing.assert_array_equal(again.predict(rows)[0], mean)


def test_old_logs_are_removed_at_each_release(tmp_path):
    case = BLOCK
    with type(case.make()).open(tmp_path / "p", new=case.make()) as policy:
        drive(policy, 0, 45)
        position = read_state(tmp_path / "p" / "policy.state").position
        assert [path.name for path in (tmp_path / "p").glob("rounds-*.log")] == [f"rounds-{position}.log"]


def _full_disk(*_):
    raise OSError("no space left on device")

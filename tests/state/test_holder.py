"""`Holder`: one process, one thread, one lineage, one charge; by a small object that does nothing else."""

import copy
import gc
import os
import pickle
import shutil
import threading
import time
import weakref

import numpy as np
import pytest

from dpbandits.budget import Cost, MemoryLedger
from dpbandits.errors import (
    BudgetExceeded,
    CorruptState,
    ForkedState,
    IncompatibleState,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.privacy.definitions import JointDP
from dpbandits.state import State
from dpbandits.state.holder import Held, Holder, in_turn, saved_state
from dpbandits.state.release_log import ReleaseLog
from dpbandits.state.witness import witness_of

ONE = Cost.of(JointDP(1.0))
STORE_COMMIT = "dpbandits.state.holder.StateStore.commit"


class Counter(Held):
    """Counts calls, and keeps the count."""

    def __init__(self, *, count=0, nested=None, **runtime):
        self.count = count
        self.inside = 0
        self._holder = Holder(self._state, what="counter", nested=nested, **runtime)

    def _state(self, lineage, position):
        arrays, public = {"count": np.array(self.count)}, {"promise": self._holder.promise}
        return State(
            kind="Counter", version=1, lineage=lineage, position=position, public=public, arrays=arrays
        )

    @in_turn
    def step(self, then=None):
        """Count one, and make it durable before it leaves."""
        self.count += 1
        if then is not None:
            then()
        self._holder.commit()
        return self.count

    @in_turn
    def read_and_write(self, pause):
        """Loses counts where two threads are inside at once."""
        seen = self.count
        pause.wait(0.002)
        self.count = seen + 1

    @in_turn
    def save(self, path):
        self._holder.save(path)

    @classmethod
    def load(cls, path, *, ledger=None, account=None, adopt=False):
        ledger = witness_of(account, ledger)
        saved = saved_state(path, kind="Counter", version=1, ledger=ledger, adopt=adopt)
        counter = cls(count=int(saved.state.arrays["count"]))
        counter._holder.take_up(saved, account=account)
        counter._holder.take_over()
        return counter

    @property
    def holder(self):
        return self._holder


def paid_ledger(epsilon=3.0):
    ledger = MemoryLedger()
    ledger.open_account("town", privacy=JointDP(epsilon, 1e-6))
    return ledger


def full_disk(*_):
    raise OSError("no space left on device")


# -- one process, one thread ---------------------------------------------------------------------------


def test_a_forked_child_is_refused_and_the_parent_goes_on():
    counter = Counter()
    child = os.fork()
    if child == 0:
        try:
            counter.step()
        except ForkedState as error:
            os._exit(7 if "the counter" in str(error) else 8)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert counter.step() == 1


def test_a_forked_child_does_not_wait_for_a_thread_that_is_not_there(monkeypatch):
    counter, holding, done = Counter(), threading.Event(), threading.Event()

    def hold():
        with counter.holder.turn():
            holding.set()
            done.wait(60.0)

    thread = threading.Thread(target=hold)
    thread.start()
    holding.wait(60.0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(ForkedState):
        counter.step()
    done.set()
    thread.join()


def test_threads_take_turns():
    counter, pause = Counter(), threading.Event()
    threads = [
        threading.Thread(target=lambda: [counter.read_and_write(pause) for _ in range(10)]) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.count == 40


def test_a_turn_inside_a_turn_is_allowed_unless_it_is_refused():
    free = Counter()
    assert free.step(then=free.step) == 2
    strict = Counter(nested="a callback cannot ask: wait for the answer")
    with pytest.raises(ProtocolError, match="a callback cannot ask"):
        strict.step(then=strict.step)
    assert strict.step() == 2  # the turn that failed was given back


def test_another_thread_is_not_nested(monkeypatch):
    strict, entered = Counter(nested="nested"), threading.Event()
    later = threading.Thread(target=lambda: (entered.wait(60.0), strict.step()))
    later.start()
    strict.step(then=entered.set)
    later.join()
    assert strict.count == 2


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused_of_the_object_and_of_its_holder(duplicate):
    counter = Counter()
    for thing in (counter, counter.holder):
        with pytest.raises(ProtocolError, match="cannot be copied or pickled"):
            duplicate(thing)


def test_its_repr_shows_no_more_than_a_part_of_the_lineage():
    counter = Counter()
    assert repr(counter.holder) == f"Holder(lineage={counter.holder.lineage[:8]!r})"


# -- one charge ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", ["town", MemoryLedger(), 5], ids=["name", "ledger", "number"])
def test_what_is_no_account_is_refused(wrong):
    with pytest.raises(InvalidParameter, match="expected an Account"):
        Counter(account=wrong)
    with pytest.raises(InvalidParameter, match="name"):
        MemoryLedger().account("")


def test_an_account_of_another_ledger_is_refused(tmp_path):
    Counter().save(tmp_path / "state")
    with pytest.raises(InvalidParameter, match="another ledger"):
        Counter.load(tmp_path / "state", ledger=MemoryLedger(), account=paid_ledger().account("town"))


def test_a_purpose_is_charged_once_in_one_life_and_in_the_next(tmp_path):
    ledger = paid_ledger()
    counter = Counter(account=ledger.account("town"))
    for purpose in ("first", "first", "second", None, None):
        counter.holder.charge(purpose, cost=ONE)
    assert float(ledger.balance("town").spent_epsilon) == 3.0
    counter.save(tmp_path / "state")
    again = Counter.load(tmp_path / "state", ledger=ledger)
    for purpose in ("first", "second", None):
        again.holder.charge(purpose, cost=ONE)
    assert float(ledger.balance("town").spent_epsilon) == 3.0
    with pytest.raises(BudgetExceeded):
        again.holder.charge("third", cost=ONE)


def test_without_an_account_nothing_is_charged():
    counter = Counter()
    counter.holder.charge("first", cost=Cost.of(JointDP(100.0)))
    assert not counter.holder.charged
    assert not counter.holder.witnessed
    assert counter.holder.ledger is None


# -- commits and saves ---------------------------------------------------------------------------------


def test_every_commit_is_kept_where_it_was_saved(tmp_path):
    counter = Counter()
    assert counter.step() == 1  # nowhere to keep it
    counter.save(tmp_path / "state")
    for expected in (2, 3):
        assert counter.step() == expected
        loaded = Counter.load(tmp_path / "state")
        assert (loaded.count, loaded.holder.lineage) == (expected, counter.holder.lineage)
        assert loaded.holder.position == counter.holder.position


def test_what_could_not_be_written_does_not_leave_and_is_written_first(tmp_path, monkeypatch):
    counter = Counter()
    counter.save(tmp_path / "state")
    with monkeypatch.context() as broken:
        broken.setattr(STORE_COMMIT, full_disk)
        for _ in range(2):
            with pytest.raises(OSError, match="no space"):
                counter.step()
    position = counter.holder.position
    assert Counter.load(tmp_path / "state").count == 0
    assert counter.step() == 3
    assert counter.holder.position == position + 2  # the state that had failed, and this one
    assert Counter.load(tmp_path / "state").count == 3


def test_a_failed_first_save_lets_nothing_leave_until_one_succeeds(tmp_path):
    counter = Counter()
    with pytest.raises(FileNotFoundError):
        counter.save(tmp_path / "no" / "folder")
    with pytest.raises(FileNotFoundError):
        counter.step()
    counter.save(tmp_path / "state")
    assert counter.step() == 2
    assert Counter.load(tmp_path / "state").count == 2


def test_after_a_failed_save_elsewhere_it_is_kept_where_it_was(tmp_path):
    counter, other = Counter(), Counter()
    counter.save(tmp_path / "mine")
    other.save(tmp_path / "theirs")
    with pytest.raises(IncompatibleState):
        counter.save(tmp_path / "theirs")
    assert counter.step() == 1
    assert Counter.load(tmp_path / "mine").count == 1
    assert Counter.load(tmp_path / "theirs").holder.lineage == other.holder.lineage


def test_a_save_elsewhere_moves_it(tmp_path):
    counter = Counter()
    counter.save(tmp_path / "first")
    counter.save(tmp_path / "second")
    counter.step()
    assert Counter.load(tmp_path / "first").count == 0
    assert Counter.load(tmp_path / "second").count == 1


# -- one lineage ---------------------------------------------------------------------------------------


def test_of_two_that_took_one_state_up_alone_the_first_to_commit_goes_on(tmp_path):
    Counter().save(tmp_path / "state")
    first, second = (Counter.load(tmp_path / "state") for _ in range(2))
    assert first.step() == 1
    for _ in range(2):
        with pytest.raises(ForkedState):
            second.step()
    with pytest.raises(ForkedState):
        second.save(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    assert first.step() == 2


@pytest.mark.parametrize("where", ["state", "copy"])
def test_of_two_that_are_witnessed_the_one_that_was_loaded_last_goes_on(tmp_path, where):
    ledger = paid_ledger()
    original = Counter(account=ledger.account("town"))
    original.save(tmp_path / "state")
    shutil.copy(tmp_path / "state", tmp_path / "copy")
    taken_up = Counter.load(tmp_path / where, ledger=ledger)
    for refused in (original.step, lambda: original.save(tmp_path / "elsewhere")):
        with pytest.raises(ForkedState, match="another copy"):
            refused()
    assert (original.count, taken_up.step()) == (0, 1)  # it was refused before it did anything
    assert not (tmp_path / "elsewhere").exists()
    if where == "copy":
        with pytest.raises(ForkedState):
            Counter.load(tmp_path / "state", ledger=ledger)


def test_whoever_dies_while_taking_up_leaves_a_state_that_can_be_taken_up(tmp_path, monkeypatch):
    """Every place where taking up touches disk or ledger, interrupted in turn."""
    steps = ["write_durably", "replace_durably", "StateStore._witness"]
    for step in steps:
        ledger, path = paid_ledger(), tmp_path / step
        Counter(account=ledger.account("town")).save(path)
        with monkeypatch.context() as dying:
            dying.setattr(f"dpbandits.state.store.{step}", full_disk)
            with pytest.raises(OSError, match="no space"):
                Counter.load(path, ledger=ledger)
        assert Counter.load(path, ledger=ledger).step() == 1


def test_an_own_commit_that_failed_is_not_taken_for_another_copys(tmp_path, monkeypatch):
    ledger = paid_ledger()
    counter = Counter(account=ledger.account("town"))
    counter.save(tmp_path / "state")
    with monkeypatch.context() as broken:
        broken.setattr("dpbandits.state.store.replace_durably", full_disk)
        with pytest.raises(OSError, match="no space"):
            counter.step()
    assert counter.step() == 2


def test_a_witnessed_state_needs_its_ledger(tmp_path):
    ledger, other = paid_ledger(), paid_ledger()
    Counter(account=ledger.account("town")).save(tmp_path / "state")
    before = (tmp_path / "state").read_bytes()
    for arguments in ({}, {"ledger": other}, {"ledger": other, "adopt": True}):
        with pytest.raises(IncompatibleState, match="ledger"):
            Counter.load(tmp_path / "state", **arguments)
    assert other.last(Counter.load(tmp_path / "state", ledger=ledger).holder.lineage) is None
    assert before != (tmp_path / "state").read_bytes()  # whoever was let in has taken over


def test_the_account_is_part_of_the_state(tmp_path):
    ledger = paid_ledger()
    ledger.open_account("village", privacy=JointDP(1.0))
    Counter(account=ledger.account("town")).save(tmp_path / "state")
    for account in ("village", "town"):
        with pytest.raises(InvalidParameter, match="this counter's state names"):
            Counter.load(tmp_path / "state", account=ledger.account(account))
    again = Counter.load(tmp_path / "state", ledger=ledger)
    again.holder.charge(cost=ONE)
    assert float(ledger.balance("town").spent_epsilon) == 1.0
    assert float(ledger.balance("village").spent_epsilon) == 0.0


def test_a_state_saved_alone_is_adopted_by_a_ledger_on_request(tmp_path):
    counter, ledger = Counter(), paid_ledger()
    counter.save(tmp_path / "state")
    with pytest.raises(IncompatibleState):
        Counter.load(tmp_path / "state", account=ledger.account("town"))
    with pytest.raises(InvalidParameter, match="one to charge"):
        Counter.load(tmp_path / "state", ledger=ledger, adopt=True)
    adopted = Counter.load(tmp_path / "state", account=ledger.account("town"), adopt=True)
    assert adopted.holder.witnessed
    assert adopted.holder.charged
    assert adopted.step() == 1
    with pytest.raises(IncompatibleState, match="ledger"):
        Counter.load(tmp_path / "state")


# -- the log of releases -------------------------------------------------------------------------------

TERMS = {"law": "Laplace", "scale": 2.0}


def test_a_release_is_entered_once_and_in_order_and_the_log_survives(tmp_path):
    ledger = paid_ledger()
    counter = Counter(account=ledger.account("town"))
    for number in (0, 0, 1):
        counter.holder.record("sum", number, TERMS, charge="sum:#")
    counter.holder.record("mean", 0, TERMS, charge=None)
    with pytest.raises(ProtocolError, match="in order"):
        counter.holder.record("sum", 3, TERMS, charge="sum:#")
    with pytest.raises(ProtocolError, match="other terms"):
        counter.holder.record("sum", 1, TERMS | {"scale": 1.0}, charge="sum:#")
    counter.save(tmp_path / "state")
    log = list(Counter.load(tmp_path / "state", ledger=ledger).holder.log)
    charge = f"{counter.holder.lineage}:sum:#"
    assert log == [
        {"purpose": "sum", "first": 0, "count": 2, **TERMS, "charge": charge, "witnessed": True},
        {"purpose": "mean", "first": 0, "count": 1, **TERMS, "charge": None, "witnessed": True},
    ]


@pytest.mark.parametrize(
    "entries",
    [
        {},
        [1],
        [{"purpose": "sum", "first": 1, "count": 1}],
        [{"purpose": "sum", "first": 0, "count": 0}],
        [{"purpose": "sum", "first": 0, "count": True}],
        [{"purpose": 1, "first": 0, "count": 1}],
        [{"purpose": "sum", "first": 0, "count": 2}, {"purpose": "sum", "first": 1, "count": 1}],
    ],
    ids=str,
)
def test_a_log_that_leaves_out_or_repeats_is_corrupt(entries):
    with pytest.raises(CorruptState):
        ReleaseLog.from_json(entries)


def test_a_long_log_is_read_and_written_in_time():
    """Thirty thousand releases, each on its own terms: a look at all others for each would take minutes."""
    terms = [{"law": "discrete Gaussian", "scale": float(number)} for number in range(30_000)]
    entries = [{"purpose": "block", "first": at, "count": 1, **term} for at, term in enumerate(terms)]
    started, log = time.process_time(), ReleaseLog()
    read = ReleaseLog.from_json(entries)
    for number, term in enumerate(terms):
        log.enter("block", number, term)
    assert time.process_time() - started < 10.0
    assert read.count("block") == log.count("block") == 30_000
    assert read.to_json() == log.to_json() == entries


def test_an_object_that_nobody_uses_is_gone_without_a_garbage_collection():
    """A policy holds hundreds of megabytes; a cycle through its holder would keep several of them."""
    counter = Counter()
    counter.step()
    seen = weakref.ref(counter)
    gc.disable()
    try:
        del counter
        assert seen() is None
    finally:
        gc.enable()

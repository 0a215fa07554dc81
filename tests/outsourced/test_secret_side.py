"""The secret side under attack by accident: copies, forks, threads, lost logs, and kill -9 at every step."""

import copy
import io
import json
import os
import pickle
import shutil
import signal
import sys
import threading

import numpy as np
import pytest

from dpbandits import MemoryLedger, Range, RowDP, Schema, SecureNoise, SimulatedNoise, SQLiteLedger
from dpbandits.errors import (
    AlreadyTold,
    BudgetExceeded,
    CorruptState,
    ForkedState,
    IncompatibleState,
    InvalidParameter,
    MissingExtra,
    ProtocolError,
)
from dpbandits.outsourced import AnswerLaplace, Curator, PublishedRows, SecretDirectory
from dpbandits.outsourced.curator.answers import AnswerLog
from dpbandits.outsourced.pipe import serve
from dpbandits.state.files import locked
from flat import curator_with
from internals.curator import ANSWERING, PUBLISHING, counted_draws, kill, refused_rename
from internals.journal import end_of, failing, files_of, put_back

SCHEMA = Schema(age=Range(20, 80), dose=Range(0, 10))
NOISE = AnswerLaplace(epsilon=0.5, distance=1.0, low=-3.0, high=3.0)


def make(path, ledger=None, *, account=None, resume=False, **options):
    paying = None if account is None else ledger.account(account)
    kept = {"ledger": ledger, "account": paying, "resume": resume}
    rng = np.random.default_rng(0)
    table = {
        "age": rng.uniform(20, 80, 40),
        "dose": rng.uniform(0, 10, 40),
        "effect": rng.normal(0, 1, 40),
    }
    given = {
        "contexts": SCHEMA,
        "privacy": RowDP(epsilon=1.0, distance=1.0),
        "objective": "effect",
        "answers": NOISE,
        "secret": None if path is None else SecretDirectory(path, **kept),
        **options,
    }
    return curator_with(table, **given)


def opened(path, ledger=None, **options):
    return Curator.open(SecretDirectory(path, ledger=ledger), **options)


def died(work):
    """Run `work` in a child process that kills itself somewhere; the bytes it gave before."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work(lambda text: os.write(writing, text.encode()))
        finally:
            os._exit(3)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        given = stream.read().decode()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return given


# -- copies of the directory ----------------------------------------------------------------------------


def test_of_two_copies_one_answers_and_the_other_evaluates_nothing(tmp_path):
    """Both copies are open before the first answers: the second is refused before it evaluates or logs."""
    ledger = SQLiteLedger(tmp_path / "book.db")
    evaluated = []

    def effect(row):
        evaluated.append(row)
        return 0.5

    make(tmp_path / "one", ledger, objective=effect).publish()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    first = opened(tmp_path / "one", ledger, objective=effect)
    second = opened(tmp_path / "two", ledger, objective=effect)
    given = first.answer(7)
    log = (tmp_path / "two" / "answers.log").read_bytes()
    for refused in (second.answer, second.answer_again):
        with pytest.raises(ForkedState, match="another copy"):
            refused(7)
    assert (tmp_path / "two" / "answers.log").read_bytes() == log
    assert len(evaluated) == 1
    assert second.answered == []
    with pytest.raises(ForkedState):
        opened(tmp_path / "two", ledger)
    assert first.answer_again(7) == given


def test_copies_that_race_past_the_first_check_are_told_apart_by_the_witness(tmp_path):
    """The other copy answers after this one has looked: this one's line is on disk, and is never given."""

    class Raced(MemoryLedger):
        between = None

        def advance(self, lineage, *, position, digest):
            if self.between is not None:
                work, self.between = self.between, None
                work()
            super().advance(lineage, position=position, digest=digest)

    ledger = Raced()
    make(tmp_path / "one", ledger).publish()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    other, late = opened(tmp_path / "two", ledger), opened(tmp_path / "one", ledger)
    given = []
    ledger.between = lambda: given.append(other.answer(7))
    with pytest.raises(ForkedState):
        late.answer(7)
    assert late.answered == []
    for curator in (late, None):
        with pytest.raises(ForkedState):
            (curator or opened(tmp_path / "one", ledger)).answer_again(7)
    assert other.answer_again(7) == given[0]


def test_while_one_copy_evaluates_the_other_does_not(tmp_path):
    """An evaluation is witnessed before it begins."""
    ledger = MemoryLedger()
    make(tmp_path / "one", ledger, objective=None).publish()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    evaluated = []
    other = opened(tmp_path / "two", ledger, objective=evaluated.append)

    def slow(_):
        with pytest.raises(ForkedState, match="another copy"):
            other.answer(7)
        return 0.25

    opened(tmp_path / "one", ledger, objective=slow).answer(7)
    assert evaluated == []


def test_a_longer_log_of_another_copy_is_not_believed(tmp_path):
    """A fork that got lines without the ledger, and is ahead of it by one and by two, is refused."""
    ledger = MemoryLedger()
    curator = make(tmp_path / "one", ledger)
    curator.publish()
    path = tmp_path / "one" / "answers.log"
    begun = files_of(path)
    curator.answer(1)
    witnessed = files_of(path)
    for rows in ((2, 3), (2,), (1, 3)):
        put_back(path, begun)
        forged = AnswerLog.create(path, curator.release_id, ledger=MemoryLedger())
        for row in rows:
            forged.append(row, 0.5)
        with pytest.raises(ForkedState):
            opened(tmp_path / "one", ledger)
    put_back(path, witnessed)
    assert opened(tmp_path / "one", ledger).answered == curator.answered


def test_a_secret_made_with_a_ledger_opens_with_it_only(tmp_path):
    ledger = MemoryLedger()
    make(tmp_path / "one", ledger).publish()
    with pytest.raises(ProtocolError, match="created with a ledger"):
        Curator.open(tmp_path / "one")
    with pytest.raises(ProtocolError, match="other parameters"):
        make(tmp_path / "one", None, resume=True)
    with pytest.raises(IncompatibleState):
        opened(tmp_path / "one", MemoryLedger())
    make(tmp_path / "free").publish()
    with pytest.raises(IncompatibleState):
        opened(tmp_path / "free", ledger)


def test_a_ledger_that_saw_the_state_and_not_the_answers_is_refused(tmp_path):
    class Forgetful(MemoryLedger):
        def last(self, lineage):
            return None if lineage.endswith(".answers") and self.forgets else super().last(lineage)

    ledger = Forgetful()
    ledger.forgets = False
    make(tmp_path / "one", ledger).publish()
    ledger.forgets = True
    with pytest.raises(IncompatibleState, match="never seen the log of answers"):
        opened(tmp_path / "one", ledger)


def test_an_account_is_a_value_of_its_ledger(tmp_path):
    """A ledger without a secret directory cannot be said: it belongs to the directory."""
    with pytest.raises(InvalidParameter, match="account is a str"):
        SecretDirectory(tmp_path / "one", account="ward")
    ward = MemoryLedger().account("ward")
    assert SecretDirectory(tmp_path / "one", account=ward).ledger is ward.ledger
    with pytest.raises(InvalidParameter, match="another ledger"):
        SecretDirectory(tmp_path / "one", account=ward, ledger=MemoryLedger())


# -- copies of the object -------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("published", [True, False])
def test_a_curator_is_not_copied(duplicate, published):
    curator = make(None)
    if published:
        curator.publish()
    with pytest.raises(ProtocolError, match="copied"):
        duplicate(curator)


def test_a_forked_child_neither_publishes_nor_answers():
    curator = make(None)
    fresh = make(None)
    curator.publish()
    child = os.fork()
    if child == 0:
        refused = 0
        for call in (
            lambda: curator.answer(1),
            lambda: curator.answer_again(1),
            curator.publish,
            fresh.publish,
        ):
            try:
                call()
            except ForkedState:
                refused += 1
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    curator.answer(1)


@pytest.mark.parametrize("on_disk", [True, False])
def test_an_objective_cannot_ask_its_own_curator(tmp_path, on_disk):
    """It would wait for itself: one clear error, nothing logged, and the curator goes on."""
    asked = []

    def effect(row):
        if not asked:
            asked.append(row)
            return curator.answer(2)
        return 0.5

    place = tmp_path / "one" if on_disk else None
    curator = make(place, objective=effect, answers=None)
    curator.publish()
    with pytest.raises(ProtocolError, match="the objective failed"):
        curator.answer(1)
    assert curator.answered == []
    curator.answer(1)


@pytest.mark.parametrize("on_disk", [True, False])
def test_threads_draw_one_release_and_one_answer_a_row(tmp_path, on_disk):
    curator = make(tmp_path / "one" if on_disk else None)
    releases, answers, told = [], [], []
    start = threading.Barrier(6)

    def work():
        start.wait()
        releases.append(curator.publish())
        for row in range(12):
            try:
                answers.append((row, curator.answer(row)))
            except AlreadyTold:
                told.append(row)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(release) for release in releases}) == 1
    assert sorted(row for row, _ in answers) == list(range(12))
    assert len(told) == 5 * 12
    assert sorted(answers) == sorted(curator.answered)


def test_two_that_publish_one_directory_publish_one_release(tmp_path):
    """The second took up the same plan before the first drew; it gets the first's release."""
    one, two = make(tmp_path / "one"), make(tmp_path / "one")
    released = one.publish()
    again = two.publish()
    assert again.release_id == released.release_id
    np.testing.assert_array_equal(again.inputs, released.inputs)
    given = two.answer(3)
    assert one.answer_again(3) == given


def test_opening_waits_for_a_line_that_is_being_written(tmp_path):
    """Half a line on disk while its writer holds the lock is no torn line: it is not cut off."""
    curator = make(tmp_path / "one")
    curator.publish()
    curator.answer(4)
    path = tmp_path / "one" / "answers.log"
    whole = path.read_bytes()
    half = whole[:-9]
    opened = []
    with locked(tmp_path / "one" / "answers.lock"):
        path.write_bytes(half)
        thread = threading.Thread(target=lambda: opened.append(Curator.open(tmp_path / "one")))
        thread.start()
        thread.join(timeout=0.5)
        assert thread.is_alive()
        assert path.read_bytes() == half
        path.write_bytes(whole)
    thread.join()
    assert opened[0].answered == curator.answered


# -- the log ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["deleted", "emptied", "torn header", "a directory"])
@pytest.mark.parametrize("witnessed", [True, False])
def test_a_log_that_is_gone_is_never_begun_anew(tmp_path, damage, witnessed):
    ledger = MemoryLedger() if witnessed else None
    curator = make(tmp_path / "one", ledger)
    curator.publish()
    given = curator.answer(5)
    path = tmp_path / "one" / "answers.log"
    sound = path.read_bytes()
    path.unlink()
    if damage == "emptied":
        path.write_bytes(b"")
    elif damage == "torn header":
        path.write_bytes(sound[:10])
    elif damage == "a directory":
        path.mkdir()
    expected = (CorruptState, IsADirectoryError)
    with pytest.raises(expected):
        opened(tmp_path / "one", ledger)
    for call in (curator.answer, curator.answer_again):  # the one that is open does not go on either
        with pytest.raises(expected):
            call(5)
        with pytest.raises(expected):
            call(6)
    if path.is_dir():
        path.rmdir()
    path.write_bytes(sound)
    assert opened(tmp_path / "one", ledger).answer_again(5) == given


def test_a_log_cut_under_an_open_curator_is_noticed(tmp_path):
    curator = make(tmp_path / "one")
    curator.publish()
    path = tmp_path / "one" / "answers.log"
    curator.answer(5)
    shorter = path.read_bytes()
    curator.answer(6)
    path.write_bytes(shorter)
    with pytest.raises(CorruptState, match="shorter"):
        curator.answer(6)


def test_answers_without_a_drawn_release_are_refused(tmp_path):
    """The state was put back to the plan, the log was not: drawing again would be a second release."""
    curator = make(tmp_path / "one")
    plan = (tmp_path / "one" / "curator.state").read_bytes()
    curator.publish()
    curator.answer(1)
    (tmp_path / "one" / "curator.state").write_bytes(plan)
    with pytest.raises(CorruptState, match="old copy"):
        make(tmp_path / "one").publish()
    for name in ("answers.log", "answers.log.end"):
        (tmp_path / "one" / name).unlink()
    AnswerLog.create(tmp_path / "one" / "answers.log", "x", ledger=None)
    with pytest.raises(IncompatibleState, match="another subject"):
        make(tmp_path / "one").publish()


@pytest.mark.parametrize(("step", "half"), [("write", True), ("sync", False)])
def test_a_failed_write_is_as_if_it_had_not_begun(tmp_path, monkeypatch, step, half):
    """The disk refuses after half a record, then after a whole one: nothing counts, the next try does."""
    ledger = MemoryLedger()
    curator = make(tmp_path / "one", ledger)
    curator.publish()
    path = tmp_path / "one" / "answers.log"
    before = files_of(path)
    with failing(monkeypatch, step, half=half), pytest.raises(OSError, match="disk full"):
        curator.answer(3)
    assert files_of(path) == before
    given = curator.answer(3)
    assert opened(tmp_path / "one", ledger).answered == [(3, given)]


def test_records_of_a_dead_process_are_synced_before_they_are_given(tmp_path, monkeypatch):
    """Killed between write and fsync: the next process must not give what a power cut could still take."""
    curator = make(tmp_path / "one")
    curator.publish()
    log = AnswerLog.open(tmp_path / "one" / "answers.log", curator.release_id, ledger=None)
    end = files_of(tmp_path / "one" / "answers.log")[1]
    log.append(9, 0.5)
    end_of(tmp_path / "one" / "answers.log").write_bytes(end)
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(descriptor) or real(descriptor))
    assert curator.answer_again(9) == 0.5
    assert synced


def test_a_busy_ledger_loses_nothing(tmp_path):
    """The witness fails after the line is on disk: the same answer is given when it is back."""

    class Busy(MemoryLedger):
        busy = False

        def advance(self, lineage, *, position, digest):
            if self.busy:
                raise OSError("busy")
            super().advance(lineage, position=position, digest=digest)

    ledger = Busy()
    curator = make(tmp_path / "one", ledger)
    curator.publish()
    ledger.busy = True
    with pytest.raises(OSError, match="busy"):
        curator.answer(3)
    assert curator.answered == []  # nothing has left
    with pytest.raises(OSError, match="busy"):
        curator.answer_again(3)
    ledger.busy = False
    with pytest.raises(AlreadyTold):
        curator.answer(3)
    assert opened(tmp_path / "one", ledger).answer_again(3) == curator.answer_again(3)


# -- kill -9 ------------------------------------------------------------------------------------------


def test_a_disk_that_refuses_is_no_news_for_the_modeler(tmp_path, monkeypatch):
    """Not where the curator's files are, nor that they are full; and the conversation goes on."""
    curator, replies = make(tmp_path / "one"), io.StringIO()
    curator.publish()

    def full(*_):
        raise OSError(28, "no space left", str(tmp_path))

    monkeypatch.setattr(AnswerLog, "append", full)
    assert serve(curator, ['{"ask": 3}', '{"ask": 4}'], replies, report=full) == 0
    told = [json.loads(line) for line in replies.getvalue().splitlines()[1:]]
    refusal = {"error": "ProtocolError", "message": "no answer was given"}
    assert told == [{"row": row, **refusal} for row in (3, 4)]


STEPS = ["begun", "evaluated", *ANSWERING, "given"]


@pytest.mark.parametrize("witnessed", [True, False])
@pytest.mark.parametrize("step", STEPS)
def test_killed_while_answering(tmp_path, step, witnessed):
    """Whatever was given before kill -9 is given again, and no row ever has two answers."""
    secret, book = tmp_path / "one", tmp_path / "book.db"

    def ledger():
        return SQLiteLedger(book) if witnessed else None

    make(secret, ledger(), objective=None).publish()
    shutil.copytree(secret, tmp_path / "two")

    def work(give):
        def objective(_):
            ANSWERING.get(step, kill if step == "evaluated" else lambda: None)()
            return 0.25

        curator = opened(secret, ledger(), objective=objective)
        if step == "begun":
            ANSWERING["record"]()
        give(repr(curator.answer(11)))
        kill()

    given = died(work)
    assert (given != "") == (step == "given")
    counted = step in ("record", "witnessed", "given")
    curator = opened(secret, ledger(), objective=lambda _: 0.25)
    if counted:
        with pytest.raises(AlreadyTold):
            curator.answer(11)
    else:
        curator.answer(11)
    value = curator.answer_again(11)
    assert given in ("", repr(value))
    assert opened(secret, ledger()).answered == [(11, value)]
    if witnessed:  # and the copy from before is out
        with pytest.raises(ForkedState):
            opened(tmp_path / "two", ledger())


def test_a_line_that_died_before_its_witness_loses_to_the_copy_that_was_witnessed(tmp_path):
    secret, book = tmp_path / "one", tmp_path / "book.db"
    make(secret, SQLiteLedger(book)).publish()
    shutil.copytree(secret, tmp_path / "two")

    def work(give):
        ANSWERING["record"]()
        give(repr(opened(secret, SQLiteLedger(book)).answer(11)))

    assert died(work) == ""
    other = opened(tmp_path / "two", SQLiteLedger(book))
    value = other.answer(11)
    with pytest.raises(ForkedState):
        opened(secret, SQLiteLedger(book))
    assert other.answer_again(11) == value


@pytest.mark.parametrize("step", PUBLISHING)
def test_killed_while_publishing(tmp_path, step):
    """One release, paid once, with an empty log, whatever died; written at the second try."""
    secret, out, book = tmp_path / "one", tmp_path / "out", tmp_path / "book.db"
    SQLiteLedger(book).open_account("ward", privacy=RowDP(1.5, distance=1))

    def curator():
        return make(secret, SQLiteLedger(book), account="ward", resume=True)

    planned = curator().release_id

    def work(_):
        held = curator()
        PUBLISHING[step]()
        held.publish(out)

    died(work)
    left = PublishedRows.load(out) if out.exists() else None
    released = curator().publish(out)
    assert released.release_id == planned
    np.testing.assert_array_equal(PublishedRows.load(out).inputs, released.inputs)
    if left is not None:
        np.testing.assert_array_equal(left.inputs, released.inputs)
    assert SQLiteLedger(book).balance("ward").remaining_epsilon == 0
    again = opened(secret, SQLiteLedger(book))
    np.testing.assert_array_equal(again.publish().inputs, released.inputs)
    assert again.answered == []
    again.answer(2)


def test_a_commit_that_failed_is_not_drawn_a_second_time(tmp_path, monkeypatch):
    """The disk refuses the last rename; publishing again in the same process gives what was committed."""
    ledger = MemoryLedger()
    curator = make(tmp_path / "one", ledger)
    drawn = counted_draws(monkeypatch)
    with monkeypatch.context() as broken:
        refused_rename(broken)
        with pytest.raises(OSError, match="disk full"):
            curator.publish()
    curator.publish()
    assert drawn == [40]


# -- before the budget is paid ------------------------------------------------------------------------


def test_what_cannot_be_written_is_said_before_the_budget_is_paid(tmp_path, monkeypatch):
    ledger = MemoryLedger()
    ledger.open_account("ward", privacy=RowDP(1.5, distance=1))
    curator = make(tmp_path / "one", ledger, account="ward")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    (tmp_path / "file").write_text("")
    for place in ("taken", "file", "file/below"):
        with pytest.raises(ProtocolError):
            curator.publish(tmp_path / place)
    with pytest.raises(InvalidParameter, match="file_format: expected one of"):
        curator.publish(tmp_path / "out", file_format="xml")

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra):
        curator.publish(tmp_path / "out", file_format="parquet")
    assert ledger.balance("ward").spent_epsilon == 0
    assert not (tmp_path / "out").exists()
    curator.publish(tmp_path / "out")
    assert ledger.balance("ward").spent_epsilon == 1.5


@pytest.mark.parametrize("noised", [True, False])
@pytest.mark.parametrize("mechanism", ["l2_laplace", "gaussian"])
def test_the_account_pays_for_positions_and_answers(tmp_path, noised, mechanism):
    """The sum of the two (basic composition), as exact decimals: 0.1 and 0.2 fit an account of 0.3."""
    ledger = MemoryLedger()
    delta = 1e-6 if mechanism == "gaussian" else 0.0
    ledger.open_account("ward", privacy=RowDP(0.3 if noised else 0.1, delta, distance=1))
    released = make(
        tmp_path / "one",
        ledger,
        account="ward",
        mechanism=mechanism,
        answers=AnswerLaplace(epsilon=0.2, distance=1.0, low=-3.0, high=3.0) if noised else None,
        privacy=RowDP(epsilon=0.1, delta=delta, distance=1.0),
    ).publish()
    left = ledger.balance("ward")
    assert (left.remaining_epsilon, left.remaining_delta) == (0, 0)
    parts = [record.certificate for record in released.guarantee.mechanisms]
    assert sum(part.epsilon_at(delta) for part in parts) <= float(left.spent_epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("answers", [None, NOISE], ids=["positions", "answers too"])
def test_an_account_knows_that_a_release_was_simulated(tmp_path, answers):
    for number, noise in enumerate((SecureNoise(), SimulatedNoise(3))):
        ledger = MemoryLedger()
        ledger.open_account("ward", privacy=RowDP(2.0, distance=1))
        make(tmp_path / f"{number}", ledger, account="ward", noise=noise, answers=answers).publish()
        assert ledger.balance("ward").simulated == bool(number)


def test_nothing_is_drawn_that_the_account_cannot_pay(tmp_path):
    """A release drawn first would be there, unpaid, for whoever opens the secret next."""
    ledger = MemoryLedger()
    ledger.open_account("ward", privacy=RowDP(2, distance=1))
    curator = make(tmp_path / "secret", ledger, account="ward")
    ledger.charge("ward", charge_id="another", cost=RowDP(1, distance=1))  # it could have paid before
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            curator.publish()
    with pytest.raises(ProtocolError, match="not finished"):
        opened(tmp_path / "secret", ledger)
    with pytest.raises(BudgetExceeded):
        make(tmp_path / "secret", ledger, account="ward", resume=True).publish()


def test_a_finished_release_is_taken_up_on_request(tmp_path):
    first = make(tmp_path / "one").publish()
    with pytest.raises(ProtocolError, match=r"Curator\.open"):
        make(tmp_path / "one")
    again = make(tmp_path / "one", resume=True)
    np.testing.assert_array_equal(again.publish(tmp_path / "out").inputs, first.inputs)
    with pytest.raises(ProtocolError, match="finished release in this directory has other parameters"):
        make(tmp_path / "one", resume=True, cap=3)

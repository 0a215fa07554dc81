"""Witnesses elsewhere only go one further; a ledger that has one cannot be rolled back unnoticed."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.budget import MemoryLedger, SQLiteLedger
from dpbandits.errors import (
    BudgetExceeded,
    CorruptState,
    ForkedState,
    IncompatibleState,
    InvalidParameter,
    StateError,
)
from dpbandits.privacy.definitions import JointDP
from dpbandits.state import FileWitness, Witness
from internals.sqlite_ledger import forge_unspent

WORKER = Path(__file__).with_name("witness_worker.py")


@pytest.fixture(params=["file", "memory", "sqlite"])
def witness(request, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir(mode=0o700)
    return {
        "file": lambda: FileWitness(folder),
        "memory": MemoryLedger,
        "sqlite": lambda: SQLiteLedger(folder / "ledger.db"),
    }[request.param]()


# -- the contract of every witness ------------------------------------------------------------------


def test_a_witness_is_compare_and_set(witness):
    assert witness.last("a life") is None
    witness.advance("a life", position=5, digest="five")
    witness.advance("a life", position=6, digest='six, "quoted"/%2f')
    witness.advance("a life", position=6, digest='six, "quoted"/%2f')
    for position, digest in ((6, "other"), (5, "five"), (8, "eight"), (0, "zero")):
        with pytest.raises(ForkedState, match="position 6"):
            witness.advance("a life", position=position, digest=digest)
    assert witness.last("a life") == Witness(6, 'six, "quoted"/%2f')
    assert witness.last("a/life") is None
    witness.advance("a/life", position=0, digest="ö")
    assert witness.last("a/life") == (0, "ö")


def test_a_witness_checks_what_it_is_told(witness):
    for name in ("", None, 7, "a\nb"):
        with pytest.raises(InvalidParameter):
            witness.advance(name, position=0, digest="x")
        with pytest.raises(InvalidParameter):
            witness.advance("life", position=0, digest=name)
    for position in (-1, 1.0, True, 2**63):
        with pytest.raises(InvalidParameter):
            witness.advance("life", position=position, digest="x")
    assert witness.last("life") is None


# -- a ledger with a witness ------------------------------------------------------------------------


def begun(path, witness):
    ledger = SQLiteLedger(path, witness=witness)
    ledger.open_account("study", privacy=JointDP(1))
    ledger.charge("study", charge_id="a", cost=JointDP(0.25))
    ledger.advance("life", position=1, digest="one")
    return ledger


def every_call(ledger):
    return (
        lambda: ledger.charge("study", charge_id="b", cost=JointDP(0.5)),
        lambda: ledger.balance("study"),
        lambda: ledger.advance("life", position=2, digest="two"),
        lambda: ledger.last("life"),
        lambda: ledger.open_account("other", privacy=JointDP(1)),
        ledger.verify,
    )


def test_a_witnessed_ledger_does_what_a_ledger_does(tmp_path, witness):
    path = tmp_path / "ledger.db"
    ledger = begun(path, witness)
    assert witness.last("ledger").position == 3
    ledger.charge("study", charge_id="a", cost=JointDP(0.25))  # nothing new happened
    ledger.advance("life", position=1, digest="one")
    with pytest.raises(BudgetExceeded):
        ledger.charge("study", charge_id="b", cost=JointDP(1))
    assert witness.last("ledger").position == 3
    again = SQLiteLedger(path, witness=witness)
    assert again.charge("study", charge_id="b", cost=JointDP(0.75)).remaining_epsilon == 0
    assert ledger.last("life") == (1, "one")
    assert witness.last("ledger").position == 4
    again.verify()


def test_a_rolled_back_ledger_is_noticed_at_the_next_call(tmp_path, witness):
    path = tmp_path / "ledger.db"
    ledger = begun(path, witness)
    shutil.copy(path, tmp_path / "older.db")
    ledger.charge("study", charge_id="x", cost=JointDP(0.75))
    newest = path.read_bytes()
    path.write_bytes((tmp_path / "older.db").read_bytes())
    for call in every_call(ledger):
        with pytest.raises(ForkedState, match="position 4"):
            call()
    with pytest.raises(ForkedState, match="position 4"):
        SQLiteLedger(path, witness=witness)
    path.write_bytes(newest)
    assert ledger.balance("study").remaining_epsilon == 0


def test_a_deleted_ledger_is_no_fresh_budget(tmp_path, witness):
    path = tmp_path / "ledger.db"
    begun(path, witness)
    path.unlink()
    with pytest.raises(ForkedState, match="no file"):
        SQLiteLedger(path, witness=witness)
    assert not path.exists()
    with pytest.raises(ForkedState, match="no file"):  # nor elsewhere
        SQLiteLedger(tmp_path / "fresh.db", witness=witness)
    SQLiteLedger(path, witness=witness, name="another").open_account("study", privacy=JointDP(1))


def test_an_empty_ledger_in_its_place_is_refused(tmp_path, witness):
    path = tmp_path / "ledger.db"
    begun(path, witness)
    SQLiteLedger(tmp_path / "fresh.db")
    (tmp_path / "fresh.db").replace(path)
    with pytest.raises(ForkedState):
        SQLiteLedger(path, witness=witness)


def test_of_two_copies_of_a_ledger_one_goes_on(tmp_path, witness):
    first = begun(tmp_path / "ledger.db", witness)
    shutil.copy(tmp_path / "ledger.db", tmp_path / "copy.db")
    second = SQLiteLedger(tmp_path / "copy.db", witness=witness)
    second.charge("study", charge_id="there", cost=JointDP(0.5))
    for call in every_call(first):
        with pytest.raises(ForkedState):
            call()
    assert second.balance("study").spent_epsilon == 0.75


def test_a_witnessed_ledger_is_refused_without_its_witness(tmp_path, witness):
    path = tmp_path / "ledger.db"
    begun(path, witness)
    with pytest.raises(IncompatibleState, match="witness="):
        SQLiteLedger(path)
    with pytest.raises(IncompatibleState, match="name="):
        SQLiteLedger(path, witness=witness, name="another")
    with pytest.raises(IncompatibleState, match="never seen"):
        SQLiteLedger(path, witness=MemoryLedger())


def test_an_open_ledger_is_refused_once_another_process_has_given_it_a_witness(tmp_path, witness):
    ledger = SQLiteLedger(tmp_path / "ledger.db")
    ledger.open_account("study", privacy=JointDP(1))
    SQLiteLedger(tmp_path / "ledger.db", witness=witness)
    for call in every_call(ledger):
        with pytest.raises(IncompatibleState, match="witness="):
            call()


def test_a_ledger_may_be_given_a_witness_later(tmp_path, witness):
    path = tmp_path / "ledger.db"
    old = SQLiteLedger(path)
    old.open_account("study", privacy=JointDP(1))
    old.charge("study", charge_id="a", cost=JointDP(0.25))
    ledger = SQLiteLedger(path, witness=witness)
    assert witness.last("ledger").position == 2
    ledger.charge("study", charge_id="b", cost=JointDP(0.25))
    assert witness.last("ledger").position == 3


@pytest.mark.parametrize("digest", ["recomputed", "kept"])
def test_forged_budget_is_noticed_although_every_checksum_is_right(tmp_path, witness, digest):
    """Whoever has the file can compute everything in it, but not what the witness remembers."""
    path = tmp_path / "ledger.db"
    begun(path, witness)
    forge_unspent(path, "study", digest=digest)
    with pytest.raises(ForkedState if digest == "recomputed" else CorruptState):
        SQLiteLedger(path, witness=witness)


def test_digests_tell_nothing_of_what_was_charged(tmp_path, witness):
    """Two ledgers in which the same happened have nothing in common at the witness."""
    for name in ("one", "two"):
        ledger = SQLiteLedger(tmp_path / f"{name}.db", witness=witness, name=name)
        ledger.open_account("study", privacy=JointDP(1))
    assert witness.last("one").position == witness.last("two").position
    assert witness.last("one").digest != witness.last("two").digest


# -- crashes ----------------------------------------------------------------------------------------


class Dies(BaseException):
    """The process ends here; nothing of the library may catch it."""


class Interrupted:
    """A witness that dies, times out or forgets at the n-th word with it, before or after acting."""

    def __init__(self, witness, at, *, after, error):
        self.witness, self.left, self.after, self.error = witness, at, after, error

    def _count(self, act):
        self.left -= 1
        if self.left == 0 and not self.after:
            raise self.error
        result = act()
        if self.left == 0:
            raise self.error
        return result

    def last(self, lineage):
        return self._count(lambda: self.witness.last(lineage))

    def advance(self, lineage, *, position, digest):
        return self._count(lambda: self.witness.advance(lineage, position=position, digest=digest))


@pytest.mark.parametrize("error", [Dies(), StateError("the witness did not answer")])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(1, 12))
def test_every_interruption_leads_on(tmp_path, at, after, error):
    """Whoever comes next goes on; what was acknowledged is there, and nothing counts twice."""
    witness, path, acknowledged = MemoryLedger(), tmp_path / "ledger.db", []
    interrupted = Interrupted(witness, at, after=after, error=error)

    def live(seen):
        ledger = SQLiteLedger(path, witness=seen)
        ledger.open_account("study", privacy=JointDP(1))
        for name in "abc":
            ledger.charge("study", charge_id=name, cost=JointDP(0.25))
            acknowledged.append(name)
        last = ledger.last("life")
        if last is None:
            ledger.advance("life", position=1, digest="one")
        return ledger

    try:
        live(interrupted)
    except (Dies, StateError):
        pass
    else:
        assert interrupted.left > 0
    if path.exists():  # what was acknowledged is there, and the witness knows of it
        spent = SQLiteLedger(path, witness=witness)
        if acknowledged:
            assert spent.balance("study").spent_epsilon >= len(acknowledged) * 0.25
    ledger = live(witness)
    assert ledger.balance("study").spent_epsilon == 0.75
    assert ledger.last("life") == (1, "one")
    ledger.verify()
    assert witness.last("ledger") == Witness(5, witness.last("ledger").digest)


@pytest.mark.parametrize("rounds", [12])
def test_kills_lose_nothing_and_stop_nobody(tmp_path, rounds):
    """A process charges until it is killed; what it acknowledged is there, and the next goes on."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    SQLiteLedger(tmp_path / "ledger.db", witness=FileWitness(tmp_path / "elsewhere")).open_account(
        "purse", privacy=JointDP(10_000)
    )
    told = 0
    for number in range(rounds):
        worker = subprocess.Popen(
            [sys.executable, WORKER, tmp_path, str(number)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert worker.stdout.readline() == b"ready\n"
        said = [worker.stdout.readline() for _ in range(2)]  # it has begun, however busy the machine is
        time.sleep(0.01 + 0.013 * number)
        worker.send_signal(signal.SIGKILL)
        told += len(said) + worker.communicate()[0].count(b"\n")
        ledger = SQLiteLedger(tmp_path / "ledger.db", witness=FileWitness(tmp_path / "elsewhere"))
        spent = ledger.balance("purse").spent_epsilon
        assert told <= spent <= told + number + 1
    ledger.verify()
    assert told >= 2 * rounds


def test_a_witness_one_behind_must_have_seen_what_came_before(tmp_path):
    """One position less is what an interrupted call leaves, but only after the same past."""
    path = tmp_path / "ledger.db"
    begun(path, MemoryLedger())
    other = MemoryLedger()
    other.advance("ledger", position=2, digest="ab" * 32)
    with pytest.raises(ForkedState, match="position 2"):
        SQLiteLedger(path, witness=other)
    assert other.last("ledger") == (2, "ab" * 32)


def test_nobody_goes_on_between_committing_and_telling(tmp_path):
    """Else the slower of two would tell what is past, and be refused although all is well."""

    slow = [2]  # the first to tell of this position takes long

    class Slow(MemoryLedger):
        def advance(self, lineage, *, position, digest):
            if position in slow:
                slow.clear()
                time.sleep(0.3)
            super().advance(lineage, position=position, digest=digest)

    ledger = SQLiteLedger(tmp_path / "ledger.db", witness=Slow())
    ledger.open_account("purse", privacy=JointDP(20))
    with ThreadPoolExecutor(4) as pool:
        for charge in [
            pool.submit(ledger.charge, "purse", charge_id=str(number), cost=JointDP(1))
            for number in range(20)
        ]:
            charge.result()
    assert ledger.balance("purse").remaining_epsilon == 0


def test_processes_share_a_witnessed_ledger(tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    witness = FileWitness(tmp_path / "elsewhere")
    ledger = SQLiteLedger(tmp_path / "ledger.db", witness=witness)
    ledger.open_account("purse", privacy=JointDP(50))
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, tmp_path, name, "30"],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for name in ("one", "two")
    ]
    lines = [worker.communicate(timeout=60)[0].split(b"\n")[1:-1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0]
    assert sum(map(len, lines)) == 50  # of sixty tries
    assert ledger.balance("purse").remaining_epsilon == 0
    assert witness.last("ledger").position == 51
    ledger.verify()


# -- the file ---------------------------------------------------------------------------------------


def files(folder):
    return [path for path in folder.iterdir() if path.suffix == ".witness"]


def test_the_file_is_private_and_only_grows(tmp_path):
    witness = FileWitness(tmp_path)
    seen = b""
    for position in range(5):
        witness.advance("life", position=position, digest=f"state {position}")
        (path,) = files(tmp_path)
        assert path.read_bytes().startswith(seen)
        assert len(path.read_bytes()) > len(seen)
        seen = path.read_bytes()
    witness.advance("life", position=4, digest="state 4")
    assert path.read_bytes() == seen
    assert path.stat().st_mode & 0o777 == 0o600
    assert "life" not in path.name
    assert repr(witness) == "FileWitness()"


@given(st.data())
def test_an_unfinished_line_never_counted(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("elsewhere")
    witness = FileWitness(folder)
    witness.advance("life", position=0, digest="zero")
    witness.advance("life", position=1, digest="one" * 2000)  # longer than what is read at first
    (path,) = files(folder)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    cut = data.draw(st.integers(0, len(whole)))
    junk = data.draw(st.sampled_from([b"", b"\0" * 7]))
    path.write_bytes(whole[:cut] + (junk if first <= cut < len(whole) - 1 else b""))
    expected = None if cut < first - 1 else 0 if cut < len(whole) - 1 else 1
    last = FileWitness(folder).last("life")
    assert (None if last is None else last.position) == expected
    following = 0 if expected is None else expected + 1
    FileWitness(folder).advance("life", position=following, digest="next")
    assert FileWitness(folder).last("life") == (following, "next")


def test_a_changed_line_is_refused(tmp_path):
    witness = FileWitness(tmp_path)
    for position in range(3):
        witness.advance("life", position=position, digest="ab")
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for index in range(start, len(whole) - 2):
        for flip in (0x01, 0x10):
            damaged = bytearray(whole)
            damaged[index] ^= flip
            if damaged[index] == ord("\n"):
                continue
            path.write_bytes(bytes(damaged))
            with pytest.raises(CorruptState):
                witness.last("life")
            with pytest.raises(CorruptState):
                witness.advance("life", position=3, digest="cd")
    # another lineage's file in its place
    path.write_bytes(whole)
    witness.advance("other", position=0, digest="x")
    (other,) = set(files(tmp_path)) - {path}
    path.write_bytes(other.read_bytes())
    with pytest.raises(CorruptState):
        witness.last("life")


def test_a_witness_that_others_can_write_is_refused(tmp_path):
    folder = tmp_path / "elsewhere"
    with pytest.raises(StateError, match="does not exist"):
        FileWitness(folder)
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(StateError, match="written by others"):
        FileWitness(folder)
    folder.chmod(0o700)
    witness = FileWitness(folder)
    witness.advance("life", position=0, digest="x")
    (path,) = files(folder)
    path.chmod(0o622)
    with pytest.raises(StateError, match="written by others"):
        witness.last("life")


def test_a_full_disk_is_a_witness_that_did_not_answer(tmp_path, monkeypatch):
    """Half a line is written; the repeated call begins a line of its own."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    witness = FileWitness(tmp_path / "elsewhere")
    ledger = SQLiteLedger(tmp_path / "ledger.db", witness=witness)
    ledger.open_account("study", privacy=JointDP(1))
    write = os.write

    def full(descriptor, data):
        monkeypatch.setattr(os, "write", fuller)
        return write(descriptor, data[: len(data) // 2])

    def fuller(descriptor, data):
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "write", full)
    for _ in range(2):
        with pytest.raises(StateError, match="ENOSPC"):
            ledger.charge("study", charge_id="a", cost=JointDP(0.5))
    monkeypatch.undo()
    assert ledger.charge("study", charge_id="a", cost=JointDP(0.5)).spent_epsilon == 0.5
    assert witness.last("ledger").position == 2

"""`Folding`: releases that are due, made in whichever process comes first.

1. **close**: the block's rows that are pending become missed, which is committed. From here on what the block
   holds does not change, and a reward that comes is late.
2. **claim**: where several processes share the store, the row of the policy's state is locked; another one
   passes over it.
3. **fold**: the state and the rounds since are read into a `ServedBandit`, and raw data meets noise there, in
   this process's memory and a private file.
4. **keep**: one transaction writes the ledger's witness of the new position, the new state and the published
   function, and removes the block's rows; of a long block it writes a fact that says so. It is committed, and
   only then can anybody see the release.
5. **forget**: the rows of a long block are removed, and then the fact. No fold reads them again. After a
   crash whoever finds the fact goes on.

So noise that was drawn and not committed has left nowhere. Two that fold the same block cannot both commit,
even without the lock: `RowLedger.go_on` compares the position and digest that were read with those that are
there, and the slower one's transaction fails as a whole. A process that was stopped holds the lock no longer
than the store lets it, wakes up without its transaction, and has released and charged nothing. Before
anything is drawn the ledger is held against its witness, where it has one.

What is large (a state, a block's rounds) is read before the lock is taken, and dropped where the policy has
gone on since: while the database sends, it does not notice that a worker was stopped, and keeps its locks.
A store of one process is not locked while a block is folded, and decides meanwhile. Rows are closed, read and
forgotten `round_log.TOGETHER` at once, in the order of their rounds, and each part in its own transaction, so
that a long block keeps no decision waiting. Which rows are in a part rests on their rounds alone.
"""

import json
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from dpbandits._threads import one_thread
from dpbandits.budget import MemoryLedger
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.errors import DPBanditsError
from dpbandits.policy.bookkeeping import RoundStatus
from dpbandits.service.clock import Clock
from dpbandits.service.engines import ServedBandit, configured, due_after, is_closed
from dpbandits.service.retention import Old, done, old_rounds, rounds_released
from dpbandits.service.round_log import TOGETHER, Rounds, StoredLife, rounds_of, scratch
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.store import Reads, Store, Writes, note_fact
from dpbandits.state.witness import Witness

__all__ = ["Folding"]

_T = TypeVar("_T")

_HELD = "SELECT held FROM states WHERE policy = ?"

_FORGET = "forget "
"""How the facts begin that say of a policy before which round its rows are to be removed."""

_REST = 0.005
"""Seconds between two transactions about one block: those who wait for the store get it first."""


def _is_free(writes: Writes, policy: str) -> bool:
    """Return whether nobody else folds it; then nobody else does until the end of the transaction."""
    return bool(writes.locked(_HELD, policy, skip=True))


class _Found(NamedTuple):
    """A policy: its state, and how many rounds that holds; rounds from the `first` that no release holds;
    most rounds of one user; where its lineage is.
    """

    content: bytes
    held: int
    first: int
    upto: int
    rounds: Sequence[Rounds]
    rounds_per_user: int | None
    at: Witness

    def __repr__(self) -> str:
        return "_Found()"  # it is raw data


def _at(reads: Reads, policy: str) -> Witness | None:
    """Return the row of the ledger that every change of the state changes."""
    row = reads.one("SELECT position, digest FROM lineages WHERE lineage = ?", policy)
    return None if row is None else Witness(int(row[0]), str(row[1]))


class _Folded(NamedTuple):
    """What a fold has made: functions by their numbers of releases, the state, where its lineage is then."""

    functions: dict[int, PublishedPosterior]
    texts: dict[int, str]
    content: bytes
    at: Witness
    ends: tuple[int, ...]
    due: int | None

    def __repr__(self) -> str:
        return "_Folded()"  # the state is raw data


class Folding:
    """Makes releases that are due, of every policy; see the module. Any number of processes have one.

    Args:
        store, ledger: the service's.
        folder: private; states pass through it.
        clock: the service's.
        made: told of a policy whose release was made here, its version, and what it published.
        failed: told the kind of what went wrong with a policy; the next turn tries again.
    """

    def __init__(
        self,
        store: Store,
        ledger: RowLedger,
        folder: Path,
        *,
        clock: Clock,
        made: Callable[[str, int, PublishedPosterior], object],
        failed: Callable[[Exception], object],
    ) -> None:
        self._store, self._ledger, self._folder = store, ledger, folder
        self._clock, self._failed, self._tell = clock, failed, made
        self._ends: dict[str, list[tuple[int, int]]] = {}
        self._ending, self._woken = threading.Event(), threading.Event()
        self._one_at_a_time = threading.Lock()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return "Folding()"

    def begin(self, *, every: float) -> None:
        """Look for what is due, again and again, in a thread."""
        self._thread = threading.Thread(
            target=self._work, args=(every,), name="dpbandits folding", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Finish what is being folded, and stop."""
        self._ending.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Look for what is due at once."""
        self._woken.set()

    def _work(self, every: float) -> None:
        self._store.comes_first = True  # decisions wait for releases
        while True:
            self._woken.wait(every)
            self._woken.clear()
            if self._ending.is_set():
                return
            self.turn()

    def turn(self) -> int:
        """Make all releases that are due now and that nobody else is making; how many."""
        made = 0
        with self._one_at_a_time:
            try:
                with self._store.reading() as reads:
                    due = [
                        str(row[0]) for row in reads.rows("SELECT policy FROM progress WHERE asked >= due")
                    ]
                    old = {one.policy: one for one in old_rounds(reads, now=self._clock.over())}
                    left = reads.rows("SELECT name, value FROM facts WHERE substr(name, 1, 7) = ?", _FORGET)
            except DPBanditsError as error:
                self._failed(error)
                return 0
            for policy, before in left:
                self._tried(partial(self._forget, policy.removeprefix(_FORGET), int(before)))
            for policy, rounds in (*((policy, None) for policy in due), *old.items()):
                made += self._tried(partial(self.fold, policy, old=rounds)) or 0
        return made

    def _tried(self, call: Callable[[], _T]) -> _T | None:
        """Do something about one policy, whose failure stops no other."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - told to whoever asked for it
            self._failed(error)
            return None

    def fold(self, policy: str, *, old: Old | None = None) -> int:
        """Make the releases of one policy that are due, and erase `old` rounds that they leave, unless
        somebody else does; how many releases.
        """
        asked = self._closed(policy)
        if asked is None and old is None:
            return 0
        if old is not None:
            self._erase_slots(old)
        with self._store.writing() as writes:  # whoever has it would be slowed by others who read it all
            if not _is_free(writes, policy) and writes.one(_HELD, policy) is not None:
                return 0
        found = self._found(policy, asked or 0)
        with self._store.reading() as reads:
            gone = reads.one("SELECT policy FROM progress WHERE policy = ?", policy) is None
        if old is not None and gone:  # it came with a backup, and is never opened again
            with self._store.writing() as writes:
                done(writes, old, now=self._clock.now())
        if found is None:
            return 0
        with self._store.claimed(_HELD, policy) as begin:
            if begin is None:
                return 0
            with self._store.seeing() as reads:
                if _at(reads, policy) != found.at:
                    return 0  # somebody else had it since: some of its rounds may be gone
            self._ledger.settle()
            folded = self._folded(policy, found, old)
            writes = begin()
            row = writes.one("SELECT due, released, asked FROM progress WHERE policy = ?", policy)
            if row is None or row[2] < found.upto or _at(writes, policy) != found.at:
                return 0  # it was not locked, or the store was put back: the next turn looks again
            self._ledger.go_on(policy, found.at, folded.at)
            made = self._keep(writes, policy, folded, found)
            if old is not None:
                done(writes, old, now=self._clock.now())
        if made:
            version = max(folded.functions)
            self._tell(policy, version, folded.functions[version])
            if folded.ends[-1] - found.first > TOGETHER:
                self._forget(policy, folded.ends[-1])
        return made

    def _found(self, policy: str, asked: int) -> _Found | None:
        with self._store.reading() as reads:
            row = reads.one(
                "SELECT s.content, s.held, p.config FROM states s JOIN progress p ON p.policy = s.policy "
                "WHERE s.policy = ?",
                policy,
            )
            at, first = _at(reads, policy), rounds_released(reads, policy)
        if row is None or at is None:
            return None
        held, most = int(row[1]), json.loads(row[2])["privacy"]["rounds_per_user"]
        upto = max(asked, held)
        rounds = rounds_of(self._store.reading, policy, first, upto)
        return _Found(bytes(row[0]), held, first, upto, rounds, most, at)

    def _folded(self, policy: str, found: _Found, old: Old | None) -> _Folded:
        """Let raw data meet noise: all releases that are due; nothing of it is kept yet."""
        beside = MemoryLedger()  # its one lineage is the store's, once the transaction is there
        beside.advance(policy, position=found.at.position, digest=found.at.digest)
        functions: dict[int, PublishedPosterior] = {}
        with one_thread(), scratch(self._folder) as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they say was said when it began
            most = found.rounds_per_user
            life = StoredLife(policy, folder, rounds=found.rounds, held=found.held, rounds_per_user=most)
            life.state.touch(mode=0o600)
            life.state.write_bytes(found.content)
            with ServedBandit.open(life, ledger=beside) as opened:
                while opened.release_next():
                    functions[opened.blocks_released] = opened.publish()
                if old is not None:
                    opened.erase_rounds(old.before)
                due = due_after(opened, opened.blocks_released)
                ends = (0, *opened.blocks[: opened.blocks_released])
            content, at = life.state.read_bytes(), beside.last(policy)
        texts = {number: function.to_json() for number, function in functions.items()}
        return _Folded(functions, texts, content, at or found.at, ends, due)

    def _keep(self, writes: Writes, policy: str, folded: _Folded, found: _Found) -> int:
        """Write down what was folded; how many releases."""
        for number, text in folded.texts.items():
            row = policy, number, folded.ends[number], self._clock.now(), text
            writes.run("INSERT INTO releases VALUES (?, ?, ?, ?, ?)", *row)
        held = found.upto, folded.content
        writes.run("UPDATE states SET held = ?, content = ? WHERE policy = ?", *held, policy)
        # First what whoever decides locks first: neither waits for the other.
        released = len(folded.ends) - 1
        writes.run("UPDATE progress SET due = ?, released = ? WHERE policy = ?", folded.due, released, policy)
        if folded.ends[-1] - found.first > TOGETHER:
            note_fact(writes, _FORGET + policy, str(folded.ends[-1]))
        else:
            writes.run("DELETE FROM slots WHERE policy = ? AND slot < ?", policy, folded.ends[-1])
        return len(folded.texts)

    def _forget(self, policy: str, before: int) -> None:
        """Remove the rows of rounds that releases hold, and then the fact that says so."""
        self._change_slots("DELETE FROM slots", (), "slot < ?", (policy, before, before))
        with self._store.writing() as writes:
            writes.run("DELETE FROM facts WHERE name = ? AND value = ?", _FORGET + policy, str(before))

    def _erase_slots(self, old: Old) -> None:
        """Their rows become refused ones, as `RoundBook.erase` has it; some at a time, as in `_closed`."""
        with self._store.reading() as reads:
            row = reads.one("SELECT config FROM progress WHERE policy = ?", old.policy)
        if row is None:
            return
        here = old.policy, old.before, int(RoundStatus.REFUSED)
        point = configured(row[0]).public_point.astype("<f8").tobytes()
        change = "UPDATE slots SET status = ?, reward = NULL, chosen = ?"
        self._change_slots(change, (here[2], point), "status <> ?", here)

    def _change_slots(
        self, change: str, values: tuple[object, ...], which: str, here: tuple[str, int, int]
    ) -> None:
        """Change rows of a policy's slots before one, until none is left of those that are meant.

        Rows that a reward has locked come after all others. Waiting for one while another is held might never
        end. Trying again at once would keep later rounds open, and somebody's reward must not decide whether
        another one still counts.
        """
        policy, end, value = here
        with self._store.reading() as reads:
            row = reads.one("SELECT MIN(slot) FROM slots WHERE policy = ?", policy)
        parts = list(range(end if row is None or row[0] is None else int(row[0]), end, TOGETHER))
        meant = f"policy = ? AND slot >= ? AND slot < ? AND {which}"
        while parts:
            left = []
            for first in parts:
                some = policy, first, min(first + TOGETHER, end), value
                with self._store.writing() as writes:
                    found = f"SELECT slot FROM slots WHERE {meant} ORDER BY slot{writes.lock[True]}"  # noqa: S608
                    writes.run(f"{change} WHERE policy = ? AND slot IN ({found})", *values, policy, *some)
                    if writes.one(f"SELECT slot FROM slots WHERE {meant} LIMIT 1", *some):  # noqa: S608
                        left.append(first)
                if left or first != parts[-1]:
                    time.sleep(_REST)
            parts = left

    def _closed(self, policy: str) -> int | None:
        """Let no reward of blocks that are due count any more; rounds asked by then. None: none is due."""
        with self._store.reading() as reads:
            row = reads.one("SELECT asked, due, config FROM progress WHERE policy = ?", policy)
            if row is None or row[1] is None or row[0] < row[1] or is_closed(reads, policy):
                return None
        asked = int(row[0])
        if policy not in self._ends:
            model = configured(row[2])
            self._ends[policy] = [
                (end, due_after(model, number) or 0) for number, end in enumerate(model.blocks)
            ]
        end = max(end for end, due in self._ends[policy] if due <= asked)
        here = policy, end, int(RoundStatus.PENDING)
        change = "UPDATE slots SET status = ?"
        self._change_slots(change, (int(RoundStatus.MISSED),), "status = ?", here)
        return asked

"""`Folding`: makes due releases, in the process that comes first.

A fold is the computation of a release: it adds a block's rounds and noise to a policy's state.

1. **close**: pending rows of the block become missed, and this is committed. From here on the block does not
   change, and a reward for it is late.
2. **claim**: in a store that processes share, the row of the policy's state is locked. Other processes skip
   a locked row.
3. **fold**: a `ServedBandit` reads the state and the later rounds and adds the noise, in the memory of this
   process and a private file.
4. **keep**: one transaction writes the new position in the ledger, the new state and the published function,
   and removes the block's rows. For a long block it writes a fact instead of removing the rows. The release
   is visible after this commit.
5. **forget**: the rows of a long block are removed, and then the fact. No fold reads them again. After a
   crash any process continues from the fact.

Privacy: noise that was drawn and not committed was seen by nobody. Two processes that fold the same block
cannot both commit, even without the lock: `RowLedger.go_on` compares position and digest with those that
were read, and the transaction of the slower process is rolled back. A process that was suspended loses its
lock after the idle timeout; it wakes up without its transaction and has released and charged nothing. The
ledger is compared with its witness, if it has one, before any noise is drawn.

Large values (a state, a block's rounds) are read before the lock is taken, and dropped if the policy went on
meanwhile: the idle timeout does not run while the database sends. An embedded store is not locked during a
fold and decides meanwhile. Rows are closed, read and forgotten in parts of `round_log.TOGETHER`, in the
order of their rounds and each in its own transaction, so that a long block delays no decision. Which rows
are in a part depends on their rounds alone.
"""

import json
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from dpbandits._threads import one_thread
from dpbandits.budget import MemoryLedger
from dpbandits.central.arm_changes import ArmChange
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.declared import REWARD
from dpbandits.errors import DPBanditsError
from dpbandits.policy.bookkeeping import RoundStatus
from dpbandits.service.clock import Clock
from dpbandits.service.engines import (
    ServedBandit,
    arms_fact,
    configured,
    due_after,
    end_fact,
    is_closed,
    looks_fact,
)
from dpbandits.service.keys import canonical
from dpbandits.service.retention import Old, done, old_rounds, rounds_released
from dpbandits.service.round_log import TOGETHER, Rounds, StoredLife, rounds_of, scratch
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.store import Reads, Store, Writes, note_fact
from dpbandits.state.witness import Witness

__all__ = ["Folding"]

_T = TypeVar("_T")

_HELD = "SELECT held FROM states WHERE policy = ?"

_FORGET = "forget "
"""Prefix of the names of facts about rows to remove.

The fact's value is the first round of a policy to keep.
"""

_REST = 0.005
"""Number of seconds between two transactions about one block, in which waiting calls can use the store."""


def _is_free(writes: Writes, policy: str) -> bool:
    """Lock a policy's state until the end of the transaction.

    Return False if another process has locked it.
    """
    return bool(writes.locked(_HELD, policy, skip=True))


def _told(reads: Reads, policy: str) -> str:
    told = reads.one("SELECT value FROM facts WHERE name = ?", arms_fact(policy))
    return str(told[0]) if told else "[]"


def _with_arms(config: str, told: str) -> ServedBandit:
    model = configured(config)
    model.know_arms(json.loads(told))
    return model


def _ended(reads: Reads, policy: str) -> int | None:
    row = reads.one("SELECT value FROM facts WHERE name = ?", end_fact(policy))
    return None if row is None else int(row[0])


class _Found(NamedTuple):
    """Inputs of a fold.

    Attributes:
        content: state of the policy.
        held: number of rounds in the state.
        first: first round that is in no release.
        upto: round after the last one.
        rounds: rounds from `first` to before `upto`.
        rounds_per_user: contribution bound; None for no bound.
        at: position of the policy's lineage in the ledger.
        arm_changes: changes of arms, as JSON. One that a release of this fold puts into effect is among them,
            because it was announced before the release's block was full.
        metrics: number of metrics beside the reward; None without a readout.
        ended: number of rounds after which the readout was ended early; None if it was not.
    """

    content: bytes
    held: int
    first: int
    upto: int
    rounds: Sequence[Rounds]
    rounds_per_user: int | None
    at: Witness
    arm_changes: str
    metrics: int | None
    ended: int | None

    def __repr__(self) -> str:
        return "_Found()"  # the values are raw data


def _at(reads: Reads, policy: str) -> Witness | None:
    row = reads.one("SELECT position, digest FROM lineages WHERE lineage = ?", policy)
    return None if row is None else Witness(int(row[0]), str(row[1]))


class _Folded(NamedTuple):
    """Results of a fold.

    Attributes:
        functions: published functions by number of releases.
        texts: JSON of these functions.
        content: new state.
        at: new position of the lineage in the ledger.
        ends: round numbers at which the released blocks end, with a leading 0.
        due: number of rounds at which the next release or look is due, or None.
        looks: released looks in the form of `ServedBandit.shown_looks`; None without a readout.
    """

    functions: dict[int, PublishedPosterior]
    texts: dict[int, str]
    content: bytes
    at: Witness
    ends: tuple[int, ...]
    due: int | None
    looks: dict[str, Any] | None

    def __repr__(self) -> str:
        return "_Folded()"  # the state is raw data


class Folding:
    """Makes the due releases of all policies; see the module. Each process of a service has one `Folding`.

    Args:
        store: store of the service.
        ledger: ledger of the service.
        folder: private folder for states.
        clock: clock of the service.
        made: callback after a release of this process: policy, version and published function.
        failed: callback for an error; the next turn tries again.
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
        self._ends: dict[str, tuple[str, list[tuple[int, int]]]] = {}
        self._ending, self._woken = threading.Event(), threading.Event()
        self._one_at_a_time = threading.Lock()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return "Folding()"

    def begin(self, *, every: float) -> None:
        """Start a thread that looks for due releases every `every` seconds."""
        self._thread = threading.Thread(
            target=self._work, args=(every,), name="dpbandits folding", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after the running fold."""
        self._ending.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()

    def wake(self) -> None:
        """Make the thread look for due releases at once."""
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
        """Make all due releases that no other process is making; return their number."""
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
        """Run a call about one policy, and return its result."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001 - reported by the callback
            self._failed(error)
            return None

    def fold(self, policy: str, *, old: Old | None = None) -> int:
        """Make the due releases of one policy, and erase the remaining `old` rounds.

        Return the number of releases. Do nothing if another process folds the policy.
        """
        asked = self._closed(policy)
        if asked is None and old is None:
            return 0
        if old is not None:
            self._erase_slots(old)
        with self._store.writing() as writes:  # else the large reads below would slow down the other process
            if not _is_free(writes, policy) and writes.one(_HELD, policy) is not None:
                return 0
        found = self._found(policy, asked or 0)
        with self._store.reading() as reads:
            gone = reads.one("SELECT policy FROM progress WHERE policy = ?", policy) is None
        if old is not None and gone:  # the policy came with a backup and is never opened again
            with self._store.writing() as writes:
                done(writes, old, now=self._clock.now())
        if found is None:
            return 0
        with self._store.claimed(_HELD, policy) as begin:
            if begin is None:
                return 0
            with self._store.seeing() as reads:
                if _at(reads, policy) != found.at:
                    return 0  # another process folded it meanwhile, and removed some of the rounds
            self._ledger.settle()
            folded = self._folded(policy, found, old)
            writes = begin()
            row = writes.one("SELECT due, released, asked FROM progress WHERE policy = ?", policy)
            if row is None or row[2] < found.upto or _at(writes, policy) != found.at:
                return 0  # the row was not locked, or the store was rolled back: the next turn looks again
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
            told, ended = _told(reads, policy), _ended(reads, policy)
        if row is None or at is None:
            return None
        config = json.loads(row[2])
        held, most, readout = int(row[1]), config["privacy"]["rounds_per_user"], config.get("readout")
        metrics = None if readout is None else len(readout["metrics"].keys() - {REWARD})
        upto = max(asked, held)
        if ended is not None and ended > upto:  # stored since `asked` was read: the next fold makes the look
            ended = None
        rounds = rounds_of(self._store.reading, policy, first, upto)
        return _Found(bytes(row[0]), held, first, upto, rounds, most, at, told, metrics, ended)

    def _folded(self, policy: str, found: _Found, old: Old | None) -> _Folded:
        """Compute all due releases of a policy, with their noise. Nothing is stored yet."""
        beside = MemoryLedger()  # `go_on` moves its lineage into the store's ledger
        beside.advance(policy, position=found.at.position, digest=found.at.digest)
        functions: dict[int, PublishedPosterior] = {}
        with one_thread(), scratch(self._folder) as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shown when the policy was created
            most = found.rounds_per_user
            life = StoredLife(
                policy,
                folder,
                rounds=found.rounds,
                held=found.held,
                rounds_per_user=most,
                arm_changes=[ArmChange.from_config(one) for one in json.loads(found.arm_changes)],
                metrics=found.metrics,
            )
            life.state.touch(mode=0o600)
            life.state.write_bytes(found.content)
            with ServedBandit.open(life, ledger=beside) as opened:
                while opened.release_next():
                    functions[opened.blocks_released] = opened.publish()
                opened.release_looks()
                if found.ended is not None:
                    opened.end_looks(found.ended)
                if old is not None:
                    opened.erase_rounds(old.before)
                looks = opened.shown_looks()
                due = due_after(opened, opened.blocks_released, opened.looks_known)
                ends = (0, *opened.blocks[: opened.blocks_released])
            content, at = life.state.read_bytes(), beside.last(policy)
        texts = {number: function.to_json() for number, function in functions.items()}
        return _Folded(functions, texts, content, at or found.at, ends, due, looks)

    def _keep(self, writes: Writes, policy: str, folded: _Folded, found: _Found) -> int:
        """Write the results of a fold in the transaction. Return the number of releases."""
        for number, text in folded.texts.items():
            row = policy, number, folded.ends[number], self._clock.now(), text
            writes.run("INSERT INTO releases VALUES (?, ?, ?, ?, ?)", *row)
        held = found.upto, folded.content
        writes.run("UPDATE states SET held = ?, content = ? WHERE policy = ?", *held, policy)
        # In the order in which decisions lock rows, so that the two do not deadlock.
        released = len(folded.ends) - 1
        writes.run("UPDATE progress SET due = ?, released = ? WHERE policy = ?", folded.due, released, policy)
        told = _told(writes, policy)
        if told != found.arm_changes:  # a change was announced meanwhile, perhaps with new blocks
            (row,) = writes.rows("SELECT config FROM progress WHERE policy = ?", policy)
            due = due_after(_with_arms(row[0], told), released, len((folded.looks or {"looks": ()})["looks"]))
            writes.run("UPDATE progress SET due = ? WHERE policy = ?", due, policy)
        ended = _ended(writes, policy)
        if ended != found.ended:  # the readout was ended meanwhile: the next fold makes its last look
            writes.run("UPDATE progress SET due = ? WHERE policy = ?", ended, policy)
        if folded.looks is not None:
            note_fact(writes, looks_fact(policy), canonical(folded.looks))
        if folded.ends[-1] - found.first > TOGETHER:
            note_fact(writes, _FORGET + policy, str(folded.ends[-1]))
        else:
            writes.run("DELETE FROM slots WHERE policy = ? AND slot < ?", policy, folded.ends[-1])
        return len(folded.texts)

    def _forget(self, policy: str, before: int) -> None:
        """Remove the rows of released rounds before `before`, and then the fact about them."""
        self._change_slots("DELETE FROM slots", (), "slot < ?", (policy, before, before))
        with self._store.writing() as writes:
            writes.run("DELETE FROM facts WHERE name = ? AND value = ?", _FORGET + policy, str(before))

    def _erase_slots(self, old: Old) -> None:
        """Mark old rounds as refused, as `RoundBook.erase` does, in several transactions as in `_closed`."""
        with self._store.reading() as reads:
            row = reads.one("SELECT config FROM progress WHERE policy = ?", old.policy)
        if row is None:
            return
        here = old.policy, old.before, int(RoundStatus.REFUSED)
        point = configured(row[0]).public_point.astype("<f8").tobytes()
        change = "UPDATE slots SET status = ?, reward = NULL, metrics = NULL, chosen = ?"
        self._change_slots(change, (here[2], point), "status <> ?", here)

    def _change_slots(
        self, change: str, values: tuple[object, ...], which: str, here: tuple[str, int, int]
    ) -> None:
        """Run `change` on all rows of a policy's slots before a slot that match the condition `which`.

        Rows that a reward has locked are skipped and changed after all others. Waiting for a row while
        others are locked could deadlock. Retrying a part at once would keep later rounds open, and then one
        user's reward would affect whether another user's reward still counts.
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
        """Close the due blocks for rewards; return the number of rounds, or None if no block is due."""
        with self._store.reading() as reads:
            row = reads.one("SELECT asked, due, config FROM progress WHERE policy = ?", policy)
            if row is None or row[1] is None or row[0] < row[1] or is_closed(reads, policy):
                return None
            told = _told(reads, policy)
        asked = int(row[0])
        known, ends = self._ends.get(policy, ("", []))
        if known != told:
            model = _with_arms(row[2], told)
            after = len(model.look_boundaries)
            ends = [(end, due_after(model, number, after) or 0) for number, end in enumerate(model.blocks)]
            self._ends[policy] = told, ends
        end = max((end for end, due in ends if due <= asked), default=0)
        here = policy, end, int(RoundStatus.PENDING)
        change = "UPDATE slots SET status = ?"
        self._change_slots(change, (int(RoundStatus.MISSED),), "status = ?", here)
        return asked

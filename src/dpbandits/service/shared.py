"""Policies that several processes answer for: rounds in the store, one release at a time.

Every worker answers by itself. It follows what was published (`ServedBandit.follow`) and takes, in one
transaction, the next slot, one of the user's rounds, and the answer:

- the slot: the row of `progress` is locked until the commit, so that slots are taken one after the other,
  without a gap, and each by one;
- the round: a row of `people` counts up to `rounds_per_user`, and no further;
- the answer: a row of `slots`, which holds what was chosen until a release holds it.

A round is answered by the release that is due there, and by no other: where that is not there yet, nothing is
taken, and the call waits.

A reward changes its row of `slots` from pending, once. `Folding` makes releases, in whichever worker comes
first:

1. **close**: the block's rows that are pending become missed, and the transaction is committed. From here on
   what the block holds does not change, and a reward that comes is late.
2. **fold**: one transaction locks the policy's row of `states` (another worker passes over it), reads the
   state into a `ServedBandit`, gives it the rounds since, lets raw data meet noise there, and writes: the
   ledger's witness of the new position, the new state, the published function; the block's rows are removed.
   It is committed, and only then can anybody see the release.

So noise that was drawn and not committed has left nowhere. Two that fold the same block cannot both commit,
even without the lock: taking the state up and releasing each go one position further at the ledger, which
compares the position and digest that were read with those that are there (`RowLedger`), and the slower one's
transaction fails as a whole. A worker that was stopped holds the lock no longer than the store lets it, wakes
up without its transaction, and has released and charged nothing.

What is large (a state, a block's rounds) is read before the lock is taken, and dropped where the policy has
gone on since: while the database sends, it does not notice that a worker was stopped, and keeps its locks.

While a block is folded its state lies in a file of a private folder of the worker, since a state is read
from and written to one; the file is removed, also after a crash, at the next start.
"""

import json
import shutil
import tempfile
import threading
import time
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from dpbandits._typing import BoolArray, FloatArray
from dpbandits.budget import Ledger
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.errors import CorruptState, DPBanditsError, InvalidParameter, ProtocolError, StateError
from dpbandits.policy import round_log
from dpbandits.policy.bookkeeping import RoundBook, RoundStatus, refuse_told, status_after
from dpbandits.service.engines import Engine, Engines, is_closed, refuse_closed
from dpbandits.service.keys import canonical
from dpbandits.service.retention import Old, done, old_rounds
from dpbandits.service.round_log import slot_of
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.served import ServedBandit
from dpbandits.service.store import Ahead, Reads, Row, Store, TryAgain, Writes
from dpbandits.state.files import locked, private_folder
from dpbandits.state.format import read_state
from dpbandits.state.journal import Record
from dpbandits.state.live import Life, Reach

__all__ = ["Folding", "SharedEngines", "TableLife", "due_after", "rounds_of", "scratch", "swept"]

WAIT_FOR_RELEASE = 0.05
"""Seconds after which a call is tried again that needs a release which is being made."""

_LOCK = "lock"
"""A file that a process holds while it uses the folder that it is in."""

_COUNTED = (
    "counted AS (INSERT INTO people VALUES (?, ?, 1) ON CONFLICT (policy, person) DO UPDATE "
    "SET rounds = people.rounds + 1 WHERE people.rounds < ? RETURNING 1), "
)
"""One of a user's rounds is taken, where one is left."""


_PROGRESS = "SELECT asked, released FROM progress WHERE policy = ?"
_ROUNDS = "SELECT rounds FROM people WHERE policy = ? AND person = ?"
_STATUS = "SELECT status FROM slots WHERE policy = ? AND slot = ?"


class TableBook(RoundBook):
    """A policy's rounds in the store; of the rounds that releases hold only the number is there.

    Args:
        store: its write transaction is the one that every call is part of.
        policy: whose.
        model: the policy, as its configuration says.
        salt: of the digests of users.

    Attributes:
        released: how many releases there were when a round was last asked for.
        records: rounds that this process has entered.
        commits: 0; states are written elsewhere.
    """

    def __init__(self, store: Store, policy: str, model: ServedBandit, salt: bytes) -> None:
        super().__init__(
            dim=model.domain.dim,
            horizon=model.horizon,
            rounds_per_user=model.privacy.rounds_per_user,
            user_ids=model.user_ids,
            lineage=policy,
            salt=salt,
        )
        self._store, self._policy = store, policy
        self.released = self.records = self.commits = 0
        self._writes: Writes | None = None  # has the policy's row: nobody else takes a slot
        self._locked: tuple[int, int | None] | None = None  # by `round_of`, for the `settle_one` that follows

    def check_open(self, count: int, users: Sequence[object] | None, *, batch: bool = False) -> list[bytes]:
        """As `RoundBook`'s; nobody else takes a slot until the commit."""
        if count != 1:
            raise ProtocolError("rounds in the store are asked one by one")
        writes = self._store.now_writing
        if self._writes is not writes:
            found = writes.locked(_PROGRESS, self._policy)
            if not found:
                raise CorruptState("the policy's rounds are gone from the store")
            self.asked, self.released = int(found[0][0]), int(found[0][1])
            self._writes = writes
            writes.when(kept=self._unlocked, lost=self._unlocked)
        digests = super().check_open(count, users, batch=batch)
        if digests and self.rounds_per_user is not None:
            had = writes.one(_ROUNDS, self._policy, digests[0])
            if had is not None and had[0] >= self.rounds_per_user:
                self.refuse_user()
        return digests

    def _unlocked(self) -> None:
        self._writes = None

    def open(
        self, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None = None
    ) -> tuple[str, ...]:
        """`open_one` of the only row: rounds come one by one here."""
        return (self.open_one(digests, actions[0], refused=refused is not None and bool(refused[0])),)

    def open_one(self, digests: Sequence[bytes], action: FloatArray, *, refused: bool) -> str:
        """Enter the round that `check_open` was called for."""
        slot = self.asked
        person, counted = (digests[0], _COUNTED) if digests else (None, "")
        who = (self._policy, person, self.rounds_per_user) if digests else ()
        writes = self._store.now_writing
        writes.when(lost=self._unlocked)
        writes.later(
            f"WITH {counted}taken AS (UPDATE progress SET asked = asked + 1 WHERE policy = ? AND asked = ? "  # noqa: S608
            "RETURNING 1) INSERT INTO slots SELECT ?, ?, ?, ?, ?, NULL FROM taken"
            f"{', counted' if counted else ''}",
            *who,
            self._policy,
            slot,
            self._policy,
            slot,
            person,
            action.astype("<f8").tobytes(),
            int(RoundStatus.REFUSED if refused else RoundStatus.PENDING),
        )  # TryAgain where another worker gave this user a round meanwhile
        self.asked, self.records = slot + 1, self.records + 1
        return f"{self._policy[:8]}-{slot}-shared"

    def ahead(self, user: object) -> list[Ahead]:
        """Return the queries of a user's next round."""
        wanted = [Ahead(("progress " + self._policy, 0), _PROGRESS, (self._policy,), lock=True)]
        if self.user_ids and self.rounds_per_user is not None:
            with suppress(DPBanditsError):  # who it is cannot be read: it is refused in its turn
                (digest,) = self._users.digests([user])
                wanted.append(Ahead(("then", 0), _ROUNDS, (self._policy, digest)))
        return wanted

    def ahead_of_round(self, decision_id: str) -> list[Ahead]:
        """Return the queries of a reward."""
        slot = slot_of(decision_id)
        return [Ahead(("round", slot), _STATUS, (self._policy, slot), lock=True)]

    def round_of(self, decision_id: str) -> int:
        """The slot of a decision that may be settled now, kept from others until the commit."""
        slot = slot_of(decision_id)
        status = self._status_of(slot)
        self._locked = slot, status
        if status is not None and status_after(status, usable=True, missing=False) is None:
            refuse_told()
        return slot

    def settle_one(self, index: int, reward: float, *, usable: bool, missing: bool) -> int:
        """As `RoundBook`'s; a round that a release holds, or has passed over, can only be late."""
        locked, self._locked = self._locked, None
        status = locked[1] if locked is not None and locked[0] == index else self._status_of(index)
        became = status_after(
            RoundStatus.MISSED if status is None else status, usable=usable, missing=missing
        )
        if became is None:
            refuse_told()
        if status is not None and became != status:
            self._store.now_writing.later(
                "UPDATE slots SET status = ?, reward = ? WHERE policy = ? AND slot = ?",
                became,
                reward if became == RoundStatus.TOLD else None,
                self._policy,
                index,
            )
        return became

    def _status_of(self, slot: int) -> int | None:
        found = self._store.now_writing.locked(_STATUS, self._policy, slot)
        return int(found[0][0]) if found else None


class Following(Engine):
    """A policy that answers by what others release.

    Args:
        store: its rounds, and what was published.
        policy: whose.
        model: built from its configuration; it follows from now on.
        salt: of the digests of users.
        settle: called before a release decides for the first time; see `RowLedger.settle`.
    """

    def __init__(
        self, store: Store, policy: str, model: ServedBandit, salt: bytes, settle: Callable[[], object]
    ) -> None:
        self._settle = settle
        self._book = book = TableBook(store, policy, model, salt)
        super().__init__(model, book)
        self._store, self._id = store, policy
        self._known: tuple[int, PublishedPosterior | None] = 0, None
        model.follow(book, self._at)

    def look(self) -> bool:
        """Releases are others' to look after."""
        return False

    def ahead(self, user: object) -> list[Ahead]:
        return self._book.ahead(user)

    def ahead_of_round(self, ask: str) -> list[Ahead]:
        return self._book.ahead_of_round(ask)

    def _at(self, slot: int) -> PublishedPosterior | None:
        """Return the posterior that decides a round; TryAgain if it is due and not there yet."""
        version = bisect_right(self.policy.batch_boundaries, slot)
        if version > self._book.released:
            raise TryAgain("the release that this decision needs is being made", after=WAIT_FOR_RELEASE)
        if version != self._known[0]:
            text = self._store.now_writing.large(
                "SELECT published AS value FROM releases WHERE policy = ? AND version = ?", self._id, version
            )
            if text is None:
                raise CorruptState("what a release has published is gone from the store")
            self._settle()
            self._known = version, PublishedPosterior.from_json(text.decode())
        self.version = version
        return self._known[1]


class SharedEngines(Engines):
    """Policies by id whose rounds are in the store; used by the writer alone.

    Args:
        store, ledger: see `Engines`.
        folder: private; a beginning's first state passes through it.
    """

    at_once: ClassVar[bool] = True

    def __init__(self, store: Store, ledger: RowLedger, folder: Path, *, most: float) -> None:
        super().__init__(store, ledger, folder, most=most)
        self._rows = ledger

    def use(self, writes: Writes, policy: str) -> Engine:
        """The policy that follows; see `Engines.use`."""
        engine = self._open.get(policy)
        if engine is None:
            refuse_closed(writes, policy)
            row = writes.one("SELECT config, salt FROM progress WHERE policy = ?", policy)
            if row is None:
                raise CorruptState("the policy's rounds are gone from the store")
            engine = self._open[policy] = Following(
                self._store, policy, configured(row[0]), bytes(row[1]), self._rows.settle
            )
            self.close_some()
        self._open.move_to_end(policy)
        return engine

    def begin(self, writes: Writes, policy: str, new: ServedBandit) -> Engine:
        """Let `new` begin, in the transaction that is open: its account pays, its state is kept."""
        if not isinstance(new.tuning.reporting_delay, int):
            raise InvalidParameter("reporting_delay: where several processes answer, expected rounds")
        with scratch(self._folder) as folder:
            life = TableLife(policy, folder)
            with ServedBandit.open(life, new=new, ledger=self._ledger) as begun:
                salt = bytes(read_state(life.state).arrays["book_salt"])
                writes.run(
                    "INSERT INTO progress VALUES (?, 0, ?, 0, ?, ?)",
                    policy,
                    due_after(begun, 0),
                    canonical(begun.to_config()),
                    salt,
                )
                writes.run("INSERT INTO states VALUES (?, 0, ?)", policy, life.state.read_bytes())
                writes.run(
                    "INSERT INTO releases VALUES (?, 0, 0, 0, ?)", policy, begun.publish(prior=True).to_json()
                )
        return self.use(writes, policy)

    def saw(self, writes: Writes, policy: str, engine: Engine, now: float) -> None:
        """Nothing: whoever makes a release writes it down."""


_HELD = "SELECT held FROM states WHERE policy = ?"


def _is_free(writes: Writes, policy: str) -> bool:
    """Return whether nobody else folds it; then nobody else does until the end of the transaction."""
    return bool(writes.locked(_HELD, policy, skip=True))


class _Found(NamedTuple):
    """A policy: how many rounds its state holds, the state, rounds that are there, where its lineage is."""

    held: int
    content: bytes
    rounds: list[Row]
    at: Row | None

    def __repr__(self) -> str:
        return "_Found()"  # it is raw data


def _found(reads: Reads, policy: str, asked: int) -> _Found | None:
    row = reads.one("SELECT held, content FROM states WHERE policy = ?", policy)
    if row is None:
        return None
    rounds = rounds_of(reads, policy, upto=max(asked, int(row[0])))
    return _Found(int(row[0]), bytes(row[1]), rounds, _at_ledger(reads, policy))


def _at_ledger(reads: Reads, policy: str) -> Row | None:
    """Return the row that every change of the state changes."""
    return reads.one("SELECT position, digest FROM lineages WHERE lineage = ?", policy)


def rounds_of(reads: Reads, policy: str, *, upto: int) -> list[Row]:
    """Rounds of a policy before one: slot, person, chosen, status and reward, in their order."""
    return reads.rows(
        "SELECT slot, person, chosen, status, reward FROM slots WHERE policy = ? AND slot < ? ORDER BY slot",
        policy,
        upto,
    )


def configured(config: str) -> ServedBandit:
    """A policy as a configuration says, that has answered nobody."""
    with warnings.catch_warnings():  # what they say was said when it began
        warnings.simplefilter("ignore")
        return ServedBandit.from_config(json.loads(config))


def due_after(policy: ServedBandit, released: int) -> int | None:
    """Rounds asked at which the release that follows so many is due; None where all were made."""
    delay = policy.tuning.reporting_delay
    return policy.blocks[released] + int(delay) if released < len(policy.blocks) else None  # type: ignore[arg-type]


class TableLife(Life):
    """Life of a policy while it begins or is folded: its state is in a file for so long, its log in `slots`.

    Args:
        policy: whose.
        folder: for the state.
        rounds: that are given to the policy, from `rounds_of`.
        upto: how many it has had then.
        held: rounds that its state holds.
    """

    def __init__(
        self, policy: str, folder: Path, *, rounds: Sequence[Row] = (), upto: int = 0, held: int = 0
    ) -> None:
        self._policy, self._folder, self._rounds = policy, folder, rounds
        self._upto, self._held = upto, held

    def __repr__(self) -> str:
        return "TableLife()"

    @property
    def state(self) -> Path:  # noqa: D102
        return self._folder / "policy.state"

    @property
    def lineage(self) -> str:  # noqa: D102
        return self._policy

    @property
    def reach(self) -> Reach:  # noqa: D102
        return Reach(0, 0, "")

    @property
    def records(self) -> int:  # noqa: D102
        return 0

    def earlier(  # noqa: D102
        self, lineage: str, position: int, *, lived: bool, follows: Reach | None
    ) -> Iterator[Record]:
        rows = self._rounds
        slots = np.array([row[0] for row in rows], dtype=np.int64)
        status = np.array([row[3] for row in rows], dtype=np.int64)
        fresh = slots >= self._held
        if not np.array_equal(slots[fresh], np.arange(self._held, self._upto)):
            raise CorruptState("rounds are gone from the store")
        new = rows[len(rows) - int(fresh.sum()) :]
        if new:
            actions = np.frombuffer(b"".join(row[2] for row in new), dtype="<f8").reshape(len(new), -1)
            people = [bytes(row[1]) for row in new if row[1] is not None]
            refused = status[fresh] == RoundStatus.REFUSED
            yield Record(round_log.ASK, round_log.pack_ask(self._held, people, actions, refused))
        told, gone = status == RoundStatus.TOLD, status == RoundStatus.ABANDONED
        either = told | gone
        if either.any():
            rewards = np.array([row[4] for row in rows], dtype=np.float64)[either]  # None is NaN
            yield Record(
                round_log.TELL,
                round_log.pack_tell(slots[either], rewards, told[either], gone[either]),
            )

    def begin(self, lineage: str, position: int) -> None:  # noqa: D102
        pass

    def append(self, kind: bytes, content: bytes) -> None:
        """Nothing is asked or told here."""
        raise ProtocolError("rounds of this policy are asked where it is followed")

    def refuse_leftovers(self) -> None:  # noqa: D102
        pass


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A private folder that is gone afterwards; those of processes that died are gone before."""
    private_folder(folder, what="states under way")
    with ExitStack() as files:
        with locked(folder / _LOCK):  # nobody sweeps between the two
            found = Path(files.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            files.enter_context(locked(found / _LOCK, wait=False))
        yield found


def swept(folder: Path) -> None:
    """Remove what processes that died have left in `scratch`: nobody holds its lock.

    Numbers of processes would not tell: in a container each life of a service has the same ones.
    """
    with locked(private_folder(folder, what="states under way") / _LOCK):
        for one in folder.iterdir():
            if one.is_dir() and not one.is_symlink():
                with suppress(StateError), locked(one / _LOCK, wait=False):
                    shutil.rmtree(one, ignore_errors=True)


class Folding:
    """Makes releases that are due, of every policy; see the module. Any number of processes have one.

    Args:
        store, ledger: the service's.
        folder: private; states pass through it.
        now: seconds since 1970.
        failed: told the kind of what went wrong with a policy; the next turn tries again.
    """

    def __init__(
        self,
        store: Store,
        ledger: Ledger,
        folder: Path,
        *,
        now: Callable[[], float],
        failed: Callable[[Exception], object],
    ) -> None:
        self._store, self._ledger, self._folder = store, ledger, folder
        self._now, self._failed = now, failed
        self._ends: dict[str, list[tuple[int, int]]] = {}
        self._ending = threading.Event()
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
        if self._thread is not None:
            self._thread.join()

    def _work(self, every: float) -> None:
        while not self._ending.wait(every):
            self.turn()

    def turn(self) -> int:
        """Make all releases that are due now and that nobody else is making; how many."""
        made = 0
        try:
            with self._store.reading() as reads:
                due = [str(row[0]) for row in reads.rows("SELECT policy FROM progress WHERE asked >= due")]
                old = {one.policy: one for one in old_rounds(reads, now=self._now())}
        except DPBanditsError as error:
            self._failed(error)
            return 0
        for policy, rounds in (*((policy, None) for policy in due), *old.items()):
            try:
                made += self.fold(policy, old=rounds)
            except Exception as error:  # noqa: BLE001 - one policy stops no other
                self._failed(error)
        return made

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
        with self._store.reading() as reads:
            found = _found(reads, policy, asked or 0)
        with self._store.writing() as writes, writes.kept_alive():
            free = _is_free(writes, policy)
            before = writes.one("SELECT due, released, asked FROM progress WHERE policy = ?", policy)
            if old is not None and before is None:  # it came with a backup, and is never opened again
                done(writes, old, now=self._now())
            if found is None or not free or _at_ledger(writes, policy) != found.at:
                return 0  # somebody else has it, or had it since: the next turn looks again
            upto = max(asked or 0, found.held)
            if before is None or before[2] < upto:  # or the database was put back since
                return 0
            if old is None and (before[0] is None or before[0] > upto):
                return 0
            with scratch(self._folder) as folder, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they say was said when it began
                life = TableLife(policy, folder, rounds=found.rounds, upto=upto, held=found.held)
                life.state.touch(mode=0o600)
                life.state.write_bytes(found.content)
                with ServedBandit.open(life, ledger=self._ledger) as opened:
                    released = made = int(before[1])
                    while opened.release_next():
                        made += 1
                        writes.run(
                            "INSERT INTO releases VALUES (?, ?, ?, ?, ?)",
                            policy,
                            made,
                            opened.blocks[made - 1],
                            self._now(),
                            opened.publish().to_json(),
                        )
                    if old is not None:
                        opened.erase_rounds(old.before)
                    due = due_after(opened, made)
                    ends = (0, *opened.blocks)[made]
                writes.run(
                    "UPDATE states SET held = ?, content = ? WHERE policy = ?",
                    upto,
                    life.state.read_bytes(),
                    policy,
                )
            # First what whoever decides locks first: neither waits for the other.
            writes.run("UPDATE progress SET due = ?, released = ? WHERE policy = ?", due, made, policy)
            writes.run("DELETE FROM slots WHERE policy = ? AND slot < ?", policy, ends)
            if old is not None:
                done(writes, old, now=self._now())
        return made - released

    def _erase_slots(self, old: Old) -> None:
        """Their rows become refused ones, as `RoundBook.erase` has it; some at a time, as in `_closed`."""
        with self._store.reading() as reads:
            row = reads.one("SELECT config FROM progress WHERE policy = ?", old.policy)
        if row is None:
            return
        here = old.policy, old.before, int(RoundStatus.REFUSED)
        point = configured(row[0]).public_point.astype("<f8").tobytes()
        self._change_slots("status = ?, reward = NULL, chosen = ?", (here[2], point), "status <> ?", here)

    def _change_slots(
        self, change: str, values: tuple[object, ...], which: str, here: tuple[str, int, int]
    ) -> None:
        """Change rows of a policy's slots before one, until none is left of those that are meant.

        Rows that a reward has locked are passed over, and come next: who waits for one while it holds another
        may wait for ever.
        """
        meant = f"policy = ? AND slot < ? AND {which}"
        while True:
            with self._store.writing() as writes:
                writes.run(
                    f"UPDATE slots SET {change} WHERE policy = ? AND slot IN "  # noqa: S608 - words of ours
                    f"(SELECT slot FROM slots WHERE {meant} ORDER BY slot{writes.lock[True]})",
                    *values,
                    here[0],
                    *here,
                )
                left = writes.one(f"SELECT slot FROM slots WHERE {meant} LIMIT 1", *here)  # noqa: S608 - the same
            if left is None:
                return
            time.sleep(0.01)

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
        self._change_slots("status = ?", (int(RoundStatus.MISSED),), "status = ?", here)
        return asked

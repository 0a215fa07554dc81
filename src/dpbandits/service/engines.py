"""`Engines`: the policies that are open, each a `ServedBandit` that follows what was released.

A `ServedBandit` is the `GPBandit` of a service, which one process may release while others answer.

Every worker answers by itself. It follows what was published (`ServedBandit.follow`) and takes, in one
transaction, the next slot, one of the user's rounds, and the answer:

- the slot: the row of `progress` is locked until the commit, so that slots are taken one after the other,
  without a gap, and each by one;
- the round: a row of `people` counts up to `rounds_per_user`, and no further;
- the answer: a row of `slots`, which holds what was chosen until a release holds it.

A round is answered by the release that is due there, and by no other: where that is not there yet, nothing is
taken, and the call waits. A reward changes its row of `slots` from pending, once. Releases are made by
`dpbandits.service.folding`.

A policy is opened when it is first needed. If all together exceed a number of bytes, those used least
recently are closed. Each counts with its estimate `bytes_needed`, which uses public numbers alone: the data
of one population closes no other population's policy. The policy in use is never closed. A policy that needs
more than this number alone is refused when it begins.
"""

import json
import warnings
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.gp_bandit import GPBandit, GPTuning
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.errors import CorruptState, DPBanditsError, InvalidParameter
from dpbandits.policy.bookkeeping import RoundBook, RoundStatus, refuse_told, status_after
from dpbandits.policy.decision import Decision
from dpbandits.service.keys import canonical
from dpbandits.service.problems import Problem
from dpbandits.service.round_log import StoredLife, scratch, slot_of
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.store import Ahead, Reads, Store, TryAgain, Writes
from dpbandits.state.format import read_state
from dpbandits.state.holder import in_turn
from dpbandits.tables.owners import Owners

__all__ = [
    "Engine",
    "Engines",
    "Kept",
    "ServedBandit",
    "configured",
    "due_after",
    "is_closed",
    "refuse_closed",
]

LEAST_WEIGHT = float(1 << 20)
"""Least bytes that an open policy counts with: its objects."""

WAIT_FOR_RELEASE = 0.05
"""Seconds after which a call is tried again that needs a release which is being made."""

REMEMBERED = 16
"""Features whose eigenfunctions a process keeps: every fold, and every opening, needs them."""

_PENDING, _REFUSED = int(RoundStatus.PENDING), int(RoundStatus.REFUSED)
_PROGRESS = "SELECT asked, released, due FROM progress WHERE policy = ?"
_ROUNDS = "SELECT rounds FROM people WHERE policy = ? AND person = ?"
_STATUS = "SELECT status FROM slots WHERE policy = ? AND slot = ?"
_ONE_MORE = (
    "INSERT INTO people {rows} "
    "ON CONFLICT (policy, person) DO UPDATE SET rounds = people.rounds + 1 WHERE people.rounds < ?"
)
_SETTLED = (
    "UPDATE slots SET status = told.column2, reward = CAST(told.column3 AS DOUBLE PRECISION) "
    "FROM ({rows}) AS told WHERE policy = ? AND slot = told.column1"
)


@lru_cache(maxsize=REMEMBERED)
def _tuning_of(text: str) -> GPTuning:
    """Return the tuning that JSON describes, with its features: public, unchanging, and slow to compute."""
    return GPTuning.from_config(json.loads(text))


class ServedBandit(GPBandit):
    """A `GPBandit` with what the service needs: its configurations, states and statements are the same.

    A worker that answers calls `follow`. The worker that releases calls `release_next` and `erase_rounds`.
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {
        **GPBandit.config_parsers,
        "tuning": lambda config: _tuning_of(json.dumps(config, sort_keys=True)),
    }
    _published: Callable[[int], PublishedPosterior | None] | None = None
    _followed: PublishedPosterior | None = None
    _informed = False

    def follow(
        self,
        book: RoundBook,
        published: Callable[[int], PublishedPosterior | None],
        *,
        informed: bool = False,
    ) -> None:
        """Answer by what another process releases, and release nothing from now on.

        Only `ask`, `ask_batch`, `tell`, `tell_batch`, `abandon`, `recommend` and `predict` are supported
        then. Answers depend on releases, the question and public coins, so they equal those of the policy
        that releases. One release has to decide all rounds of a batch.

        Args:
            book: keeps the rounds; the processes share it.
            published: gives what decides the round of an index; None if arms are drawn evenly there.
            informed: True if the policy that releases began from `warm_start`.
        """
        self._book, self._published, self._informed = book, published, informed
        self._posterior = self._followed = None

    def ask(
        self, brought: Any = None, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """See `RoundPolicy.ask`; no person calls it by hand."""
        return self._answer_to(brought, user, available, at)

    def _decide_one(self, *given: Any) -> Decision:
        if self._published is None:
            return super()._decide_one(*given)
        return self._decided_one(*given)  # the book's transaction is the turn, and one thread has it

    def _prepare(self) -> None:
        if self._published is None:
            self._drawn_ahead = len(self.blocks)  # whoever releases is closed before the next: none is drawn
            super()._prepare()
            return
        found = self._published(self._book.asked)
        if found is self._followed:
            return
        self._followed = found
        if found is None:
            self._posterior = None
        else:
            released = bisect_right(self.batch_boundaries, self._book.asked)
            rests_on: dict[str, Any] = {"released": released, "informed": self._informed}
            self._posterior = self._kind.answering(found.posterior, found.features, **rests_on)
            if self.features.basis():  # eigenvectors computed on another processor: the posterior is in them
                self.features = self._kind.features = found.features

    @in_turn
    def release_next(self) -> bool:
        """Make the next release durable, if one is due, without waiting for the round that it decides."""
        due = self._past.count < self._deadlines.due(self._book.asked)
        if due:
            if self.tuning.lag:
                self._begin_releases()
            self._release()
            self._settle()
        return due

    @in_turn
    def erase_rounds(self, before: int) -> None:
        """Erase contexts and rewards of rounds before `before` that no release holds, and save the state.

        Due blocks are released first. An erased round stays taken and contributes nothing, as a round whose
        context could not be read; a reward that comes for it is refused.

        Privacy: the time of the call and `before` must depend on public facts alone, such as times of asks,
        and never on what anybody brought or told. Then the promise is unchanged: a round is erased whatever
        its person brought, and contributes zero. The contributions of others stay as they are, no sum moves
        further by one person's data, and number, places and noise of the releases are the same.

        Raises:
            StateError, OSError: the state could not be saved; call it again.
        """
        while self.release_next():
            pass
        self._book.erase(_checks.integer(before, name="before", minimum=0), self.public_point)
        self._holder.commit()


class Kept(NamedTuple):
    """A policy's row."""

    id: str
    name: str
    population: str
    asked: dict[str, Any]
    settings: dict[str, Any]
    status: str
    revision: int
    made_at: float

    @property
    def etag(self) -> str:
        """Version number of its settings and status."""
        return f'"{self.revision}"'


class StoredBook(RoundBook):
    """A policy's rounds in the store; of the rounds that releases hold only the number is there.

    Args:
        store: its write transaction is the one that every call is part of.
        policy: whose.
        model: the policy, as its configuration says.
        salt: of the digests of users.
        due: called when a round was kept that came after a release was due.

    Attributes:
        released: how many releases there were when a round was last asked for.
        entered: rounds that this process has entered.
    """

    def __init__(
        self, store: Store, policy: str, model: ServedBandit, salt: bytes, due: Callable[[], None]
    ) -> None:
        super().__init__(
            dim=model.domain.dim,
            horizon=model.horizon,
            rounds_per_user=model.privacy.rounds_per_user,
            user_ids=model.user_ids,
            lineage=policy,
            salt=salt,
        )
        self._store, self._policy, self._due = store, policy, due
        self.released = self.entered = 0
        self._next: int | None = None  # rounds at which a release is due
        self._writes: Writes | None = None  # has the policy's row: nobody else takes a slot
        self._locked: tuple[int, int | None] | None = None  # by `round_of`, for the `settle_one` that follows
        self._seen: dict[int, int] = {}  # slot -> status of the rounds that `rounds_of` found last

    def hold(self) -> None:
        """Let nobody else take a slot until the commit."""
        writes = self._store.now_writing
        if self._writes is writes:
            return
        found = writes.locked(_PROGRESS, self._policy)
        if not found:
            raise CorruptState("the policy's rounds are gone from the store")
        self.asked, self.released, self._next = int(found[0][0]), int(found[0][1]), found[0][2]
        self._writes = writes
        writes.when(kept=self._unlocked, lost=self._unlocked)

    def check_open(self, count: int, users: Sequence[object] | None, *, batch: bool = False) -> list[bytes]:
        """See `RoundBook.check_open`. Nobody else takes a slot until the commit. The users of a `batch` are
        digests, which `admissible` gave.
        """
        self.hold()
        if batch:
            self.refuse_beyond(count)
            return [one for one in users or () if isinstance(one, bytes)]
        return super().check_open(count, users)

    def _over_limit(self, digests: Sequence[bytes]) -> bool:
        if self.rounds_per_user is None:
            return False
        had = self._store.now_writing.one(_ROUNDS, self._policy, digests[0])
        return had is not None and int(had[0]) >= self.rounds_per_user

    def _unlocked(self) -> None:
        self._writes = None

    def open(
        self, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None = None
    ) -> tuple[str, ...]:
        """Enter rounds that `check_open` was called for, whose users are all different."""
        first, count, writes = self.asked, len(actions), self._store.now_writing
        writes.when(lost=self._unlocked)
        if digests:
            people = [(self._policy, digest, 1) for digest in digests]
            # TryAgain where another worker gave one of them a round meanwhile.
            writes.later_rows(_ONE_MORE, people, self.rounds_per_user)
        writes.later(
            "UPDATE progress SET asked = asked + ? WHERE policy = ? AND asked = ?", count, self._policy, first
        )
        content, size = actions.astype("<f8").tobytes(), 8 * actions.shape[1]
        chosen = [content[at : at + size] for at in range(0, len(content), size)]
        status = [_PENDING] * count if refused is None else np.where(refused, _REFUSED, _PENDING).tolist()
        named: Sequence[bytes | None] = digests or [None] * count
        rounds = enumerate(zip(named, chosen, status, strict=True), first)
        writes.many(
            "slots", [(self._policy, at, who, row, became, None) for at, (who, row, became) in rounds]
        )
        self.asked, self.entered = first + count, self.entered + count
        if self._next is not None and self.asked > self._next:
            writes.when(kept=self._due)
        return tuple(f"{self._policy[:8]}-{slot}-stored" for slot in range(first, first + count))

    def admissible(self, users: Sequence[object]) -> list[bytes | Literal[False] | None]:
        """Return the digest of each of several users who gets a round, if all before them that may do; empty
        if the policy counts no users. False: the user gets none. None: this depends on an earlier one of the
        same user. Nobody else may take a slot until the commit; see `hold`.
        """
        if not self.user_ids:
            nobody = self.rounds_per_user is None
            return [b"" if user is None or nobody else False for user in users]
        digests = self._digests(users)
        limit, had = self.rounds_per_user, dict.fromkeys(digests, 0)
        if limit is not None:
            query = "SELECT person, rounds FROM people WHERE policy = ? AND person IN "
            named = [digest for digest in had if digest is not None]
            known = self._store.now_writing.among(query, named, self._policy)
            had |= {bytes(person): int(rounds) for person, rounds in known}
        found: list[bytes | Literal[False] | None] = []
        seen: set[bytes | None] = set()
        for digest in digests:
            full = digest is None or (limit is not None and had[digest] + (digest in seen) >= limit)
            found.append(False if full else None if digest in seen else digest)
            seen.add(digest)
        return found

    def _digests(self, users: Sequence[object]) -> list[bytes | None]:
        """Digests of users; None of who cannot be read."""
        owners = Owners.of(users, count=len(users))
        digests = [*self._users.digests_of(owners.texts), None]
        return [digests[number] for number in owners.numbers.tolist()]

    def open_one(self, digests: Sequence[bytes], action: FloatArray, *, refused: bool) -> str:
        """Enter the round that `check_open` was called for."""
        (entered,) = self.open(digests, action[None], np.ones(1, dtype=np.bool_) if refused else None)
        return entered

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
        status = self._status_in_store(slot)
        self._locked = slot, status
        if status is not None and status_after(status, usable=True, missing=False) is None:
            refuse_told()
        return slot

    def settle_one(self, index: int, reward: float, *, usable: bool, missing: bool) -> int:
        """As `RoundBook`'s; a round that a release holds, or has passed over, can only be late."""
        locked, self._locked = self._locked, None
        status = locked[1] if locked is not None and locked[0] == index else self._status_in_store(index)
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

    def rounds_of(self, ids: Sequence[str]) -> IntArray:
        """Slots (k,) of decisions, whose rounds nobody else changes until the commit."""
        slots = [slot_of(one) for one in ids]
        query = "SELECT slot, status FROM slots WHERE policy = ? AND slot IN "
        found = self._store.now_writing.among(query, sorted(slots), self._policy, lock="slot")
        self._seen = {int(slot): int(status) for slot, status in found}
        return np.array(slots, dtype=np.int64)

    def settle(
        self, rounds: IntArray, rewards: FloatArray, usable: BoolArray, missing: BoolArray
    ) -> IntArray:
        """As `RoundBook`'s, of rounds from `rounds_of`; see `settle_one`."""
        became = self._becoming(rounds, usable, missing)
        told = zip(rounds.tolist(), became.tolist(), rewards.tolist(), strict=True)
        rows = [
            (slot, status, reward if status == RoundStatus.TOLD else None)
            for slot, status, reward in told
            if self._seen.get(slot, status) != status
        ]
        self._store.now_writing.later_rows(_SETTLED, rows, self._policy)
        return became

    def _status_of(self, rounds: IntArray) -> IntArray:
        found = [self._seen.get(slot, int(RoundStatus.MISSED)) for slot in rounds.tolist()]
        return np.array(found, dtype=np.int64)

    def _status_in_store(self, slot: int) -> int | None:
        found = self._store.now_writing.locked(_STATUS, self._policy, slot)
        return int(found[0][0]) if found else None


class Engine:
    """An open policy: it answers by what was released, and releases nothing.

    Args:
        store: its rounds, and what was published.
        policy: its id.
        model: built from its configuration; it follows from now on.
        salt: of the digests of users.
        engines: it is one of these.
        informed: whether it began from a published function, which then decides before the first release.

    Attributes:
        version: the release that it decides by.
        weight: estimated bytes that it may take, from public numbers.
    """

    def __init__(
        self,
        store: Store,
        policy: str,
        model: ServedBandit,
        salt: bytes,
        engines: "Engines",
        *,
        informed: bool,
    ) -> None:
        self.policy, self.weight = model, max(LEAST_WEIGHT, model.bytes_needed)
        self._store, self._id, self._engines = store, policy, engines
        self.book = StoredBook(store, policy, model, salt, engines.is_due)
        self._known: tuple[int, PublishedPosterior | None] = -int(informed), None
        model.follow(self.book, self._at, informed=informed)

    def __repr__(self) -> str:
        return f"Engine({self.policy!r})"

    @property
    def version(self) -> int:  # noqa: D102
        return max(0, self._known[0])

    @property
    def room(self) -> int | None:
        """Rounds from the next one on that the same release decides, and the horizon covers; None: all."""
        horizon, asked = self.policy.horizon, self.book.asked
        ends = [one for one in (*self.policy.batch_boundaries, horizon) if one is not None and one > asked]
        return min(ends) - asked if ends else None if horizon is None else 0

    def _at(self, slot: int) -> PublishedPosterior | None:
        """Return the posterior that decides a round; TryAgain if it is due and not there yet."""
        version = bisect_right(self.policy.batch_boundaries, slot)
        if version > self.book.released:
            self._engines.is_due()
            raise TryAgain("the release that this decision needs is being made", after=WAIT_FOR_RELEASE)
        if version != self._known[0]:
            self._known = version, self._engines.published(self._id, version)
        return self._known[1]


class Engines:
    """Open policies by id; used by the writer alone.

    Attributes:
        kept: rows of policies by name, as they were read last; whoever uses one sees whether it is so still.
        is_due: called when a release is due.

    Args:
        store: the service's.
        ledger: witnesses states, and pays.
        folder: private; a beginning's first state passes through it.
        most: bytes that all open policies may take.
    """

    def __init__(self, store: Store, ledger: RowLedger, folder: Path, *, most: float) -> None:
        self._store, self._ledger, self._folder, self._most = store, ledger, folder, most
        self._open: OrderedDict[str, Engine] = OrderedDict()
        self.kept: dict[str, Kept] = {}
        self._made: dict[str, tuple[int, PublishedPosterior]] = {}
        self.is_due: Callable[[], None] = lambda: None

    def __repr__(self) -> str:
        return f"Engines({len(self._open)} open)"

    def use(self, writes: Writes, policy: str) -> Engine:
        """The open policy.

        Raises:
            Problem: its population is closed: the original may have released what is due here.
            CorruptState: its rounds are gone.
        """
        engine = self._open.get(policy)
        if engine is None:
            refuse_closed(writes, policy)
            row = writes.one("SELECT config, salt FROM progress WHERE policy = ?", policy)
            if row is None:
                raise CorruptState("the policy's rounds are gone from the store")
            asked = writes.one("SELECT asked FROM policies WHERE id = ?", policy)
            informed = asked is not None and "warm_start" in json.loads(asked[0])
            model = configured(row[0])
            engine = Engine(self._store, policy, model, bytes(row[1]), self, informed=informed)
            self._open[policy] = engine
            self.close_some()
        self._open.move_to_end(policy)
        return engine

    def not_so(self, name: str) -> None:
        """The row of a policy that was read last is another one by now, or never was kept."""
        self.kept.pop(name, None)

    def opened(self, policy: str) -> Engine | None:
        """The policy, where it is open."""
        return self._open.get(policy)

    def take(self, policy: str, version: int, function: PublishedPosterior) -> None:
        """Keep what a release has published that was made here, until it decides for the first time."""
        if policy in self._open:
            self._made[policy] = version, function

    def published(self, policy: str, version: int) -> PublishedPosterior:
        """Return a release that decides from now on; where there is a witness, it knows of it."""
        self._ledger.settle()
        known, function = self._made.pop(policy, (0, None))
        if known == version and function is not None:
            return function
        text = self._store.now_writing.large(
            "SELECT published AS value FROM releases WHERE policy = ? AND version = ?", policy, version
        )
        if text is None:
            raise CorruptState("what a release has published is gone from the store")
        return PublishedPosterior.from_json(text.decode())

    def begin(self, writes: Writes, policy: str, new: ServedBandit) -> None:
        """Let `new` begin, in the transaction that is open: its account pays, its state is kept.

        Raises:
            BudgetExceeded: the account cannot.
        """
        text = new.publish(prior=True).to_json()
        with scratch(self._folder) as folder:
            life = StoredLife(policy, folder)
            with ServedBandit.open(life, new=new, ledger=self._ledger) as begun:
                salt = bytes(read_state(life.state).arrays["book_salt"])
                started = policy, due_after(begun, 0), canonical(begun.to_config()), salt
                writes.run("INSERT INTO progress VALUES (?, 0, ?, 0, ?, ?)", *started)
                writes.run("INSERT INTO states VALUES (?, 0, ?)", policy, life.state.read_bytes())
                writes.run("INSERT INTO releases VALUES (?, 0, 0, 0, ?)", policy, text)

    def close_some(self) -> None:
        """Close those that were used least recently, but never the last one that was opened."""
        taken = sum(engine.weight for engine in self._open.values())
        while taken > self._most and len(self._open) > 1:
            policy, engine = self._open.popitem(last=False)
            self._made.pop(policy, None)
            taken -= engine.weight

    def refuse_large(self, new: ServedBandit) -> None:
        """Refuse a policy that would close all others whenever it is asked.

        Raises:
            InvalidParameter: it alone needs more than all open policies may take.
        """
        if new.bytes_needed > self._most:
            raise InvalidParameter(
                f"the policy needs about {new.bytes_needed / 1e9:.1f} GB of memory, and all policies together"
                f" may take {self._most / 1e9:.1f} GB here: take fewer columns, arms or rounds, or raise "
                "policy_memory in the service's settings"
            )


def configured(config: str) -> ServedBandit:
    """A policy as a configuration says, that has answered nobody."""
    with warnings.catch_warnings():  # what they say was said when it began
        warnings.simplefilter("ignore")
        return ServedBandit.from_config(json.loads(config))


def due_after(policy: ServedBandit, released: int) -> int | None:
    """Rounds asked at which the release that follows so many is due; None where all were made.

    Raises:
        InvalidParameter: the policy's `reporting_delay` is a time.
    """
    if not isinstance(policy.tuning.reporting_delay, int):
        raise InvalidParameter("reporting_delay: a policy of the service waits for rounds, and no time")
    return policy.blocks[released] + policy.tuning.reporting_delay if released < len(policy.blocks) else None


def is_closed(reads: Reads, policy: str) -> bool:
    """Return whether a policy came with a backup and its population is closed: it is never opened again."""
    row = reads.one(
        "SELECT f.value FROM policies p JOIN facts f ON f.name = 'closed ' || p.population WHERE p.id = ?",
        policy,
    )
    return row is not None


def refuse_closed(reads: Reads, policy: str) -> None:
    """Problem where `is_closed`."""
    if is_closed(reads, policy):
        raise Problem(
            "conflict", "The policy came with a backup, and its population is closed: it only reads."
        )

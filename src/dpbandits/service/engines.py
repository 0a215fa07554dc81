"""`Engines`: the open policies of a worker, each a `ServedBandit` that follows the releases.

A `ServedBandit` is a `GPBandit` for a service: one process makes its releases while others answer.

Every worker answers by itself, from the published function (`ServedBandit.follow`). One transaction takes:

- a slot: the row of `progress` is locked until the commit, so slots are taken one by one and without gaps;
- one of the user's rounds: a row of `people` counts up to `rounds_per_user`, the contribution bound;
- the answer: a row of `slots` has the chosen action until the round is in a release.

A round is decided by the release that is due at its slot, and by no other. If this release is not there yet,
the call takes nothing and waits. A reward changes its row of `slots` from pending once.
`dpbandits.service.folding` makes the releases.

A policy is opened when it is first needed. If all open policies exceed a number of bytes, the least recently
used ones are closed, but never the one in use. Each counts with its estimate `bytes_needed`, from public
numbers alone, so the data of one population does not affect which policies of another are open. A policy
that exceeds the number of bytes by itself cannot be created.
"""

import json
import struct
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
from dpbandits.central.arm_changes import ArmHistory
from dpbandits.central.gp_bandit import GPBandit, GPTuning
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.reading import read_looks
from dpbandits.central.readout.run import ReadoutRun
from dpbandits.errors import CorruptState, DPBanditsError, InvalidParameter, ProtocolError
from dpbandits.policy.bookkeeping import RoundBook, RoundStatus, refuse_told, status_after
from dpbandits.policy.decision import Decision
from dpbandits.service.keys import canonical
from dpbandits.service.problems import Problem
from dpbandits.service.round_log import StoredLife, scratch, slot_of
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.store import Ahead, Reads, Store, TryAgain, Writes, note_fact
from dpbandits.state.format import read_state
from dpbandits.state.holder import in_turn
from dpbandits.state.release_log import ReleaseLog
from dpbandits.tables.owners import Owners

__all__ = [
    "Engine",
    "Engines",
    "Kept",
    "ServedBandit",
    "arms_fact",
    "configured",
    "due_after",
    "end_fact",
    "is_closed",
    "looks_fact",
    "looks_of",
    "refuse_closed",
]

LEAST_WEIGHT = float(1 << 20)
"""Smallest number of bytes that an open policy is assumed to need."""

WAIT_FOR_RELEASE = 0.05
"""Number of seconds after which a call that needs an unfinished release is repeated."""

CONFIDENCE = 0.95
"""Confidence of the intervals that the service shows."""

REMEMBERED = 16
"""Number of cached tunings with their eigenfunctions. Every fold and every opening of a policy needs one."""

_PENDING, _REFUSED = int(RoundStatus.PENDING), int(RoundStatus.REFUSED)
_PROGRESS = "SELECT asked, released, due FROM progress WHERE policy = ?"
_ROUNDS = "SELECT rounds FROM people WHERE policy = ? AND person = ?"
_STATUS = "SELECT status FROM slots WHERE policy = ? AND slot = ?"
_ONE_MORE = (
    "INSERT INTO people {rows} "
    "ON CONFLICT (policy, person) DO UPDATE SET rounds = people.rounds + 1 WHERE people.rounds < ?"
)
_BECOMES = "UPDATE slots SET status = ?, reward = ? WHERE policy = ? AND slot = ?"
_BECOMES_BESIDE = _BECOMES.replace(" WHERE", ", metrics = ? WHERE")
_SETTLED = (
    "UPDATE slots SET status = told.column2, reward = CAST(told.column3 AS DOUBLE PRECISION) "
    "FROM ({rows}) AS told WHERE policy = ? AND slot = told.column1"
)
_SETTLED_BESIDE = _SETTLED.replace(" FROM", ", metrics = told.column4 FROM")


@lru_cache(maxsize=REMEMBERED)
def _tuning_of(text: str) -> GPTuning:
    """Return the tuning that a JSON text describes, with its features, which are public and slow to
    compute.
    """
    return GPTuning.from_config(json.loads(text))


class ServedBandit(GPBandit):
    """`GPBandit` with further methods for the service.

    Configurations, states and statements are those of a `GPBandit`.

    A worker that answers calls `follow`. The worker that releases calls `release_next` and `erase_rounds`.
    """

    config_parsers: ClassVar[Mapping[str, Any]] = {
        **GPBandit.config_parsers,
        "tuning": lambda config: _tuning_of(json.dumps(config, sort_keys=True)),
    }
    _published: Callable[[int], PublishedPosterior | None] | None = None
    _followed: PublishedPosterior | None = None
    _informed = False
    _released = 0

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metrics that are told beside the reward; empty without a readout."""
        return () if self._run is None else tuple(one.name for one in self._run.outcomes[1:])

    @property
    def look_boundaries(self) -> tuple[int, ...]:
        """Numbers of rounds from which each look is due; empty without a readout, or once it has stopped."""
        run = self._run
        return () if run is None or run.rows.stopped is not None else run.deadlines.boundaries

    @property
    def looks_known(self) -> int:
        """Number of released looks that this process knows."""
        return 0 if self._run is None else self._run.settled

    @property
    def looks_over(self) -> bool:
        """True if this process knows that no look of the readout follows; also without a readout."""
        return self._run is None or self._run.settled == self._run.planned

    @in_turn
    def end_looks(self, asked: int) -> None:
        """End the readout after `asked` rounds, and make and store its last look; see `end_readout`."""
        if self._run is not None:
            self._run.end(asked)
            self._release_looks(self._run)

    def know_looks(self, shown: Mapping[str, Any]) -> None:
        """Take over the looks that another process released, in the form of `shown_looks`."""
        if self._run is not None:
            self._run.follow(shown)

    def shown_looks(self) -> dict[str, Any] | None:
        """Return the released looks and the answer that they give, as public JSON; None without a readout."""
        run = self._run
        if run is None:
            return None
        result = None
        with suppress(ProtocolError):  # no look with rounds of both groups was released
            result = read_looks(run, confidence=CONFIDENCE).to_json()
        return {**run.shown(), "ends": list(run.ends), "result": result}

    def release_looks(self) -> None:
        """Make and store all looks that are due, after the releases of blocks."""
        if self._run is not None:
            self._release_looks(self._run)

    def _groups_of(self, run: ReadoutRun, ids: Sequence[str]) -> tuple[str | None, ...]:
        return super()._groups_of(run, ids) if self._published is None else run.coming

    def know_arms(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Take over the changes of arms that the store has; see `ArmHistory.of`."""
        if not (events or self._history.changes):  # a policy of a domain has no arms at all
            return
        self._holder.log = ReleaseLog.from_json([dict(event) for event in events])
        self._know_arms(ArmHistory.of(self._history.first, events))

    @property
    def _version(self) -> int:
        return self._past.count if self._published is None else self._released

    @property
    def _releases_begun(self) -> int:
        # Another process may have begun every release that is due.
        return super()._releases_begun if self._published is None else len(self.blocks)

    def follow(
        self,
        book: RoundBook,
        published: Callable[[int], PublishedPosterior | None],
        *,
        informed: bool = False,
    ) -> None:
        """Answer from the releases of another process, and make no releases from now on.

        Only `ask`, `ask_batch`, `tell`, `tell_batch`, `abandon`, `recommend` and `predict` are supported
        then. Answers depend on releases, the request and public coins, so they equal those of the policy
        that releases. One release has to decide all rounds of a batch.

        Args:
            book: rounds of the policy, shared by the processes.
            published: function from the index of a round to the posterior that decides it; None for uniform
                arms.
            informed: True if the policy that releases began with `warm_start`.
        """
        self._book, self._published, self._informed = book, published, informed
        self._posterior = self._followed = None

    def ask(
        self, brought: Any = None, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """Answer one user as `RoundPolicy.ask` does, without its checks for interactive use."""
        return self._answer_to(brought, user, available, at)

    def _decide_one(self, *given: Any) -> Decision:
        if self._published is None:
            return super()._decide_one(*given)
        return self._decided_one(*given)  # the transaction of the book, in one thread, is the lock

    def _prepare(self) -> None:
        if self._published is None:
            self._drawn_ahead = len(self.blocks)  # a fold opens the policy for one release: no draws ahead
            super()._prepare()
            return
        found = self._published(self._book.asked)
        self._released = bisect_right(self.batch_boundaries, self._book.asked)
        if self._history.changes:
            self._offer(self._released)
        if found is self._followed:
            return
        self._followed = found
        if found is None:
            self._posterior = None
        else:
            rests_on: dict[str, Any] = {"released": self._released, "informed": self._informed}
            rests_on |= {} if found.window is None else {"window": found.window}
            self._posterior = self._kind.answering(found.posterior, found.features, **rests_on)
            if self.features.basis():  # the posterior is in these eigenvectors, computed elsewhere
                self.features = self._kind.features = found.features

    @in_turn
    def release_next(self) -> bool:
        """Make and store the next release if it is due. Return True if it was."""
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

        Due blocks are released first. An erased round stays taken and contributes zero, like a round with an
        unreadable context. A later reward for it is refused.

        Privacy: the time of the call and `before` must depend on public facts alone, such as times of
        requests, and never on contexts or rewards. Then the guarantee is unchanged: a round is erased
        regardless of its user's data, and contributes zero. The contributions of others stay, one user's data
        changes each sum by at most its sensitivity, and number, places and noise of the releases are the
        same.

        Raises:
            StateError, OSError: the state could not be saved; call the method again.
        """
        while self.release_next():
            pass
        self.release_looks()
        self._book.erase(_checks.integer(before, name="before", minimum=0), self.public_point)
        self._holder.commit()


class Kept(NamedTuple):
    """Row of a policy in the table `policies`."""

    id: str
    name: str
    population: str
    asked: dict[str, Any]
    settings: dict[str, Any]
    status: str
    revision: int
    made_at: float
    arm_changes: str = "[]"
    """Changes of arms in the order of their announcement, as a JSON list of `ArmChange.to_config`."""
    ended: int | None = None
    """Number of rounds after which the readout was ended early; None if it was not."""

    @property
    def etag(self) -> str:
        """ETag of the policy: the version number of its settings and status."""
        return f'"{self.revision}"'


class StoredBook(RoundBook):
    """Rounds of a policy in the store. Rounds in releases are only counted.

    Args:
        store: store; every call is part of this thread's open write transaction.
        policy: id of the policy.
        model: policy built from its configuration.
        salt: salt of the digests of users.
        due: callback after a commit of rounds that makes a release due.

    Attributes:
        released: number of releases at the last request.
        entered: number of rounds that this process has entered.
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
        self._next: int | None = None  # number of rounds at which a release is due
        self._writes: Writes | None = None  # transaction that has locked the policy's row
        self._locked: tuple[int, int | None] | None = None  # (slot, status) from `round_of`
        self._seen: dict[int, int] = {}  # slot -> status, from the last `rounds_of`

    def hold(self) -> None:
        """Lock the policy's row of `progress`, so that no other process takes a slot until the commit."""
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
        """Do `RoundBook.check_open`, and lock the policy's row until the commit.

        The users of a `batch` are digests from `admissible`.
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
        """Enter one round for each of several distinct users, after `check_open`. Return the rounds' ids."""
        first, count, writes = self.asked, len(actions), self._store.now_writing
        writes.when(lost=self._unlocked)
        if digests:
            people = [(self._policy, digest, 1) for digest in digests]
            # It raises TryAgain if another worker gave one of them a round meanwhile.
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
            "slots", [(self._policy, at, who, row, became, None, None) for at, (who, row, became) in rounds]
        )
        self.asked, self.entered = first + count, self.entered + count
        if self._next is not None and self.asked > self._next:
            writes.when(kept=self._due)
        return tuple(f"{self._policy[:8]}-{slot}-stored" for slot in range(first, first + count))

    def admissible(self, users: Sequence[object]) -> list[bytes | Literal[False] | None]:
        """Return, for each user, the user's digest if the user may have a round, else False.

        None stands for a user whose answer depends on an earlier request of the list. The digest is empty if
        the policy has no user ids. Call `hold` first.
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
        owners = Owners.of(users, count=len(users))
        digests = [*self._users.digests_of(owners.texts), None]
        return [digests[number] for number in owners.numbers.tolist()]

    def open_one(self, digests: Sequence[bytes], action: FloatArray, *, refused: bool) -> str:
        """Enter one round after `check_open`; return its id."""
        (entered,) = self.open(digests, action[None], np.ones(1, dtype=np.bool_) if refused else None)
        return entered

    def ahead(self, user: object) -> list[Ahead]:
        """Return the queries that entering a round of a user will make."""
        wanted = [Ahead(("progress " + self._policy, 0), _PROGRESS, (self._policy,), lock=True)]
        if self.user_ids and self.rounds_per_user is not None:
            with suppress(DPBanditsError):  # an invalid user is refused when the call runs
                (digest,) = self._users.digests([user])
                wanted.append(Ahead(("then", 0), _ROUNDS, (self._policy, digest)))
        return wanted

    def ahead_of_round(self, decision_id: str) -> list[Ahead]:
        """Return the queries that recording a reward will make."""
        slot = slot_of(decision_id)
        return [Ahead(("round", slot), _STATUS, (self._policy, slot), lock=True)]

    def round_of(self, decision_id: str) -> int:
        """Return the slot of a decision, and lock its row until the commit.

        Raise an error if it is settled.
        """
        slot = slot_of(decision_id)
        status = self._status_in_store(slot)
        self._locked = slot, status
        if status is not None and status_after(status, usable=True, missing=False) is None:
            refuse_told()
        return slot

    def settle_one(
        self,
        index: int,
        reward: float,
        *,
        usable: bool,
        missing: bool,
        metrics: Sequence[float] | None = None,
    ) -> int:
        """Do `RoundBook.settle_one`. The reward of a round in a released block is late."""
        locked, self._locked = self._locked, None
        status = locked[1] if locked is not None and locked[0] == index else self._status_in_store(index)
        became = status_after(
            RoundStatus.MISSED if status is None else status, usable=usable, missing=missing
        )
        if became is None:
            refuse_told()
        if status is not None and became != status:
            told = became == RoundStatus.TOLD
            beside = struct.pack(f"<{len(metrics)}d", *metrics) if told and metrics else None
            values = became, reward if told else None, *(() if beside is None else (beside,))
            change = _BECOMES if beside is None else _BECOMES_BESIDE
            self._store.now_writing.later(change, *values, self._policy, index)
        return became

    def rounds_of(self, ids: Sequence[str]) -> IntArray:
        """Return the slots (k,) of k decisions, and lock their rows until the commit."""
        slots = [slot_of(one) for one in ids]
        query = "SELECT slot, status FROM slots WHERE policy = ? AND slot IN "
        found = self._store.now_writing.among(query, sorted(slots), self._policy, lock="slot")
        self._seen = {int(slot): int(status) for slot, status in found}
        return np.array(slots, dtype=np.int64)

    def settle(
        self,
        rounds: IntArray,
        rewards: FloatArray,
        usable: BoolArray,
        missing: BoolArray,
        metrics: FloatArray | None = None,
    ) -> IntArray:
        """Do `RoundBook.settle` for rounds from `rounds_of`."""
        became = self._becoming(rounds, usable, missing)
        told = zip(rounds.tolist(), became.tolist(), rewards.tolist(), strict=True)
        rows: list[tuple[Any, ...]] = [
            (slot, status, reward if status == RoundStatus.TOLD else None)
            for slot, status, reward in told
            if self._seen.get(slot, status) != status
        ]
        if metrics is not None and metrics.shape[1]:
            beside = {
                slot: row.tobytes() for slot, row in zip(rounds.tolist(), metrics.astype("<f8"), strict=True)
            }
            rows = [(*row, beside[row[0]] if row[1] == RoundStatus.TOLD else b"") for row in rows]
            self._store.now_writing.later_rows(_SETTLED_BESIDE, rows, self._policy)
            return became
        self._store.now_writing.later_rows(_SETTLED, rows, self._policy)
        return became

    def _status_of(self, rounds: IntArray) -> IntArray:
        found = [self._seen.get(slot, int(RoundStatus.MISSED)) for slot in rounds.tolist()]
        return np.array(found, dtype=np.int64)

    def _status_in_store(self, slot: int) -> int | None:
        found = self._store.now_writing.locked(_STATUS, self._policy, slot)
        return int(found[0][0]) if found else None


class Engine:
    """Open policy, which answers from the releases and makes none.

    Args:
        store: store of its rounds and published functions.
        policy: id of the policy.
        model: policy built from its configuration; it calls `follow`.
        salt: salt of the digests of users.
        engines: container of the open policies.
        informed: True if the policy began with a published function, which decides before the first release.

    Attributes:
        version: number of the release that decides.
        weight: estimated memory in bytes, from public numbers.
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
        self._changes: str | None = "[]"
        self._looks_end = False
        model.follow(self.book, self._at, informed=informed)

    def __repr__(self) -> str:
        return f"Engine({self.policy!r})"

    @property
    def version(self) -> int:  # noqa: D102
        return max(0, self._known[0])

    @property
    def room(self) -> int | None:
        """Number of next rounds that the current release decides, within the horizon; None for no bound."""
        horizon, asked = self.policy.horizon, self.book.asked
        fixed = (*self.policy.batch_boundaries, *self.policy.look_boundaries, horizon)
        ends = [one for one in fixed if one is not None and one > asked]
        return min(ends) - asked if ends else None if horizon is None else 0

    def know(self, kept: Kept) -> None:
        """Take over the changes of arms in a row of the policy that is current."""
        self._looks_end = kept.ended is not None
        if kept.arm_changes != self._changes:
            self.policy.know_arms(json.loads(kept.arm_changes))
            self._changes = kept.arm_changes

    def forget_changes(self) -> None:
        """Take over all changes again at the next `know`."""
        self._changes = None

    def _at(self, slot: int) -> PublishedPosterior | None:
        """Return the posterior that decides the round `slot`."""
        version = bisect_right(self.policy.batch_boundaries, slot)
        if version > self.book.released or self._lacks_look(slot):
            self._engines.is_due()
            raise TryAgain("the release that this decision needs is being made", after=WAIT_FOR_RELEASE)
        if version != self._known[0]:
            self._known = version, self._engines.published(self._id, version)
        return self._known[1]

    def _lacks_look(self, slot: int) -> bool:
        """Return True if a look that is due before the round `slot`, or has ended early, is not released yet.

        The rule of the readout may change the arm of this round, and that of later rounds, at the look.
        """
        policy = self.policy

        def lacks() -> bool:
            ending = self._looks_end and not policy.looks_over
            return ending or bisect_right(policy.look_boundaries, slot) > policy.looks_known

        if lacks():
            policy.know_looks(self._engines.looks(self._id))
        return lacks()


class Engines:
    """Open policies by id. Only the writer thread uses them.

    Args:
        store: store of the service.
        ledger: ledger of the service.
        folder: private folder for the first states of new policies.
        most: largest number of bytes of all open policies.

    Attributes:
        kept: cached rows of policies by name; users of a row check that it is current.
        is_due: callback when a release is due.
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
        """Return a policy, and open it if needed.

        Raises:
            Problem: its population is closed, because the original of an adopted copy may have released the
                same blocks.
            CorruptState: its rounds are missing from the store.
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
        """Drop the cached row of a policy, because the row has changed or its change was not committed."""
        self.kept.pop(name, None)

    def opened(self, policy: str) -> Engine | None:
        """Return the policy if it is open, else None."""
        return self._open.get(policy)

    def take(self, policy: str, version: int, function: PublishedPosterior) -> None:
        """Cache the published function of a release that this process made, until its first use."""
        if policy in self._open:
            self._made[policy] = version, function

    def published(self, policy: str, version: int) -> PublishedPosterior:
        """Return the published function of a policy with this version.

        The witness is told of its release before.
        """
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

    def looks(self, policy: str) -> dict[str, Any]:
        """Return the released looks of a policy. The witness is told of them before."""
        self._ledger.settle()
        found = looks_of(self._store.now_writing, policy)
        if found is None:
            raise CorruptState("the looks of a readout are gone from the store")
        return found

    def begin(self, writes: Writes, policy: str, new: ServedBandit) -> None:
        """Create the policy `new` in the open transaction: charge its account and store its first state.

        Raises:
            BudgetExceeded: the account cannot pay.
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
                if (looks := begun.shown_looks()) is not None:
                    note_fact(writes, looks_fact(policy), canonical(looks))

    def close_some(self) -> None:
        """Close the least recently used policies until the memory is within its bound.

        Never close the last opened one.
        """
        taken = sum(engine.weight for engine in self._open.values())
        while taken > self._most and len(self._open) > 1:
            policy, engine = self._open.popitem(last=False)
            self._made.pop(policy, None)
            taken -= engine.weight

    def refuse_large(self, new: ServedBandit) -> None:
        """Raise an error for a policy that alone would need more memory than all open policies may have.

        Raises:
            InvalidParameter: the policy is too large.
        """
        if new.bytes_needed > self._most:
            raise InvalidParameter(
                f"the policy needs about {new.bytes_needed / 1e9:.1f} GB of memory, and all policies together"
                f" may take {self._most / 1e9:.1f} GB here: take fewer columns, arms or rounds, or raise "
                "policy_memory in the service's settings"
            )


def arms_fact(policy: str) -> str:
    """Return the name of the fact that lists the changes of arms of a policy, by id."""
    return f"arms {policy}"


def looks_fact(policy: str) -> str:
    """Return the name of the fact with the released looks of a policy's readout, by id."""
    return f"readout {policy}"


def end_fact(policy: str) -> str:
    """Return the name of the fact with the number of rounds after which a readout was ended early, by id."""
    return f"end {policy}"


def looks_of(reads: Reads, policy: str) -> dict[str, Any] | None:
    """Return the released looks of the policy with this id, and the answer that they give.

    It is None without a readout. See `ServedBandit.shown_looks`.
    """
    row = reads.one("SELECT value FROM facts WHERE name = ?", looks_fact(policy))
    return None if row is None else dict(json.loads(row[0]))


def configured(config: str) -> ServedBandit:
    """Return a new policy from its JSON configuration.

    Warnings are ignored, as they were shown at its creation.
    """
    with warnings.catch_warnings():  # shown when the policy was created
        warnings.simplefilter("ignore")
        return ServedBandit.from_config(json.loads(config))


def due_after(policy: ServedBandit, released: int, looks: int = 0) -> int | None:
    """Return the number of rounds at which the next release or look is due; None after the last.

    Args:
        policy: the policy.
        released: number of its releases.
        looks: number of the released looks of its readout.

    Raises:
        InvalidParameter: the policy's `reporting_delay` is a time.
    """
    if not isinstance(policy.tuning.reporting_delay, int):
        raise InvalidParameter(
            "reporting_delay: expected a number of rounds; a policy of the service cannot wait for seconds"
        )
    found = [block + policy.tuning.reporting_delay for block in policy.blocks[released : released + 1]]
    return min([*found, *policy.look_boundaries[looks : looks + 1]], default=None)


def is_closed(reads: Reads, policy: str) -> bool:
    """Return True if a policy came with a backup and its population is closed, so it is never opened."""
    row = reads.one(
        "SELECT f.value FROM policies p JOIN facts f ON f.name = 'closed ' || p.population WHERE p.id = ?",
        policy,
    )
    return row is not None


def refuse_closed(reads: Reads, policy: str) -> None:
    """Raise Problem if the policy's population is closed; see `is_closed`."""
    if is_closed(reads, policy):
        raise Problem(
            "conflict", "The policy came with a backup, and its population is closed, so it is read-only."
        )

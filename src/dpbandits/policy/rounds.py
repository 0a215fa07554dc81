"""What every policy that is asked and told round by round does the same way, whatever a question looks like.

`RoundPolicy` keeps the book of rounds, charges the ledger before the first answer, makes every release
durable before anything is made of it, and lives in a folder. A subclass says how to learn (`_learn`) or to
release (`_is_due`, `_release`, `_rounds_out`, `_fit`), and what to save.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.budget import Ledger, cost_of_guarantee
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import IncompatibleState, InvalidData, MissingState
from dpbandits.policy.bookkeeping import NOBODY, RoundBook, RoundStatus
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.deadlines import Deadlines, times_of
from dpbandits.policy.decision import Answers, Receipt
from dpbandits.policy.kept import KeptPolicy, PolicyOptions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.state import StateKey
from dpbandits.state.holder import in_turn
from dpbandits.state.live import Life, LiveFolder

__all__ = ["RoundPolicy", "round_taken"]

_RECEIPTS: dict[int, Receipt] = {
    RoundStatus.TOLD: Receipt.COUNTED,
    RoundStatus.LATE: Receipt.LATE,
    RoundStatus.ABANDONED: Receipt.ABANDONED,
}
"""What a round that was told may have become; else the reward was refused, or the round was."""

_RECEIPT_OF = tuple(_RECEIPTS.get(status, Receipt.REFUSED) for status in range(max(RoundStatus) + 1))
"""The same by a status's number."""

_PLAIN = (float, np.float64, bool)
"""Types of rewards that are floats, or become one without loss."""

_TOLD = int(RoundStatus.TOLD)

_EXACT = 1 << 53
"""Integers up to here are floats."""


class RoundPolicy(KeptPolicy):
    """What is asked and told round by round, whatever a question looks like.

    Args:
        dim: columns of what the book keeps of a choice.
        reward_range, horizon, privacy, **options: see `KeptPolicy`.
    """

    _charged_as: ClassVar[str | None] = None
    """Purpose of the one charge: part of its id, which a state of any age repeats."""

    def __init__(
        self,
        *,
        dim: int,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP | None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        super().__init__(reward_range=reward_range, horizon=horizon, privacy=privacy, **options)
        self._coins = PublicCoins(self.seed)
        own = type(self)
        self._learns = own._learn is not RoundPolicy._learn
        self._ever_due = any(
            getattr(own, name) is not getattr(RoundPolicy, name)
            for name in ("_prepare", "_is_due", "_rounds_out")
        )
        self._charged = False
        self._settled = 0  # rounds whose releases are durable, and fitted
        self._deadlines = Deadlines((), 0)
        self._book = RoundBook(
            dim=dim,
            horizon=self.horizon,
            rounds_per_user=None if privacy is None else privacy.rounds_per_user,
            user_ids=self.user_ids,
            lineage=self._holder.lineage,
        )

    def __repr__(self) -> str:
        return self._shown(asked=self._book.asked)

    # -- what a policy defines ------------------------------------------------------------------

    def _learn(self, rounds: IntArray, actions: FloatArray, rewards: FloatArray) -> None:
        """Rewards (k,), validated and clipped, arrived for rounds (k,) with actions (k, d)."""

    def _learn_one(self, index: int, reward: float) -> None:
        """`_learn` of one round, for those that can do it without arrays for one number."""
        rounds = np.array([index])
        self._learn(rounds, self._book.actions(rounds), np.array([reward]))

    def _is_due(self) -> bool:
        """Whether there is something to release before the next answer."""
        return False

    def _release(self) -> None:
        """Draw what is due; whatever interrupts it, nothing has changed, or everything has."""

    @property
    def _rounds_out(self) -> int:
        """Rounds that releases have been drawn for, durable or not: no reward of theirs counts any more."""
        return 0

    def _fit(self) -> None:
        """Learn from everything that has been released."""

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Arrays to save beside the book's."""
        return {}

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take over what `_own_arrays` wrote."""

    # -- answering and telling ------------------------------------------------------------------

    def _admit(
        self, count: int, users: Sequence[object] | None, at: object = None, *, batch: bool = False
    ) -> list[bytes]:
        """Digests of the users of `count` new rounds; the promise is paid, and what is due is released.

        In a `batch` a user who has had all rounds, or has no id, is `NOBODY`, whose round is refused.
        """
        digests = self._book.check_open(count, users, batch=batch)
        if at is not None or self._deadlines.timed:
            self._deadlines.advance(at)
        self._charge()
        if self._ever_due:
            self._prepare()
        return digests

    def _opened(
        self,
        digests: Sequence[bytes],
        indices: IntArray,
        actions: FloatArray,
        propensities: FloatArray | None,
        refused: BoolArray,
        *,
        kept: FloatArray | None = None,
        labels: tuple[Label, ...] = (),
    ) -> Answers:
        """Enter B rounds; what a `DecisionBatch` of them is made of.

        The book keeps `kept` (B, dim), by default the actions (B, d). Of those that are `refused` (B,) the
        indices become -1, and actions and propensities NaN; and of those whose user is `NOBODY`.
        """
        if NOBODY in digests:
            refused = refused | np.array([digest == NOBODY for digest in digests])
        some = np.count_nonzero(refused)
        ids = self._book.open(digests, actions if kept is None else kept, refused if some else None)
        self._deadlines.note(self._book.asked)
        if some:
            indices, actions = np.where(refused, -1, indices), np.where(refused[:, None], np.nan, actions)
            propensities = None if propensities is None else np.where(refused, np.nan, propensities)
        return ids, indices, actions, propensities, refused, labels

    def _prepare(self) -> None:
        """Release what is due; every release is durable before anything is made of it."""
        while True:
            if self._rounds_out > self._settled:  # also where saving or fitting failed: no new noise
                self._settle()
            if not self._is_due():
                return
            self._release()

    def _settle(self) -> None:
        out = self._rounds_out
        self._book.close(out)
        self._holder.commit()
        self._fit()
        self._settled = out  # last: a fit that failed is tried again, not passed over

    @in_turn
    def tell(self, decision_id: str, reward: float, *, at: object = None) -> Receipt:
        """Give a decision its reward; None or NaN say that it will not come.

        A reward that comes late counts nothing, and only the receipt says so: who was late is as private as
        a reward, and a warning, or a count of them, would tell of it.

        Args:
            decision_id: `Decision.id`.
            reward: a number of the reward range; True and False are 1 and 0.
            at: when it came, a datetime or seconds, where a `reporting_delay` is a time: after its block's
                deadline it is late, whenever it is told. Default: it has come in time if its block's release
                has not been made.

        Raises:
            InvalidData: the reward is off the range, unless it is clipped, or no number, or the time is none;
                the decision stays pending.
            UnknownDecision, AlreadyTold: the id is not this policy's, or was told before.
        """
        kind = type(reward)  # and none that merely inherits from it: reading those may fail
        if at is None and (kind in _PLAIN or (kind is int and abs(reward) <= _EXACT)):
            # The common case, without an array for one number.
            index = self._book.round_of(decision_id)
            value, usable = self.reward_range.holds(float(reward), clip=self.clip)
            became = self._book.settle_one(index, value, usable=usable, missing=math.isnan(reward))
            if became == _TOLD and self._learns:
                self._learn_one(index, value)
            receipt = _RECEIPT_OF[became]
        else:
            self._book.round_of(decision_id)
            receipt = self.tell_batch([decision_id], [reward], at=at)[0]
        if receipt is Receipt.REFUSED:
            low, high = self.reward_range.low, self.reward_range.high
            raise InvalidData(
                f"the reward is no number in reward_range ({low:g}, {high:g}), or the decision was refused: "
                "tell it again, pass clip=True, or widen the range before the first ask"
            )
        return receipt

    @in_turn
    def tell_batch(
        self, decision_ids: Sequence[str], rewards: ArrayLike, *, at: object = None
    ) -> tuple[Receipt, ...]:
        """Rewards (B,) of several decisions: each by itself, and its receipt says what became of it.

        None and NaN say that a reward will not come. One off the range, unless it is clipped, or that is no
        number is refused: its decision stays pending, and may be told again. What comes for a decision that
        was told or abandoned before is refused, and changes nothing; of an id that stands there twice the
        first reward counts. `at` is when they came, as in `tell`: one time, or a sequence of B.

        Raises:
            UnknownDecision, InvalidData: an id is not this policy's, or there is not one reward an id, or
                the times are none; nothing was taken.
        """
        rounds = self._book.rounds_of(decision_ids)
        fresh = self._book.open_among(rounds)
        told = _checks.contents(rewards, name="rewards")
        if told.shape != rounds.shape:
            raise InvalidData(
                f"rewards: expected shape {rounds.shape}, one per decision id, got {told.shape}"
            )
        late = np.zeros(len(rounds), dtype=np.bool_)
        if at is not None:
            late = self._deadlines.late(rounds, times_of(at, len(rounds)))
            told = np.where(late, np.nan, told)
        values, usable = self.reward_range.within(told, clip=self.clip)
        became = np.full(len(rounds), RoundStatus.REFUSED, dtype=np.int64)
        if fresh.any():
            became[fresh] = self._take(rounds[fresh], values[fresh], usable[fresh], np.isnan(told)[fresh])
        became[late & (became == RoundStatus.ABANDONED)] = RoundStatus.LATE
        return tuple(_RECEIPT_OF[status] for status in became.tolist())

    def _take(self, rounds: IntArray, values: FloatArray, usable: BoolArray, missing: BoolArray) -> IntArray:
        """Settle rounds and learn from those that count; their `RoundStatus`."""
        became = self._book.settle(rounds, values, usable, missing)
        counted = became == RoundStatus.TOLD
        if counted.any():
            self._learn(rounds[counted], self._book.actions(rounds[counted]), values[counted])
        return became

    @in_turn
    def abandon(self, decision_id: str) -> None:
        """Say that a decision will never have a reward: it contributes nothing."""
        self._book.abandon(decision_id)

    def abandon_batch(self, decision_ids: Sequence[str]) -> tuple[Receipt, ...]:
        """Say that several decisions will never have a reward, each by itself; receipts as of `tell_batch`.

        Raises:
            UnknownDecision, InvalidData: an id is not this policy's; nothing was taken.
        """
        return self.tell_batch(decision_ids, np.full(len(self._book.rounds_of(decision_ids)), np.nan))

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told. Raw data: it says who has not reported."""
        return self._book.pending

    @property
    def rounds_asked(self) -> int:
        """Rounds that were asked: public, as is when somebody asks."""
        return self._book.asked

    def diagnostics(self) -> dict[str, Any]:
        """Released quantities only."""
        return {"policy": self.kind, "rounds_asked": self.rounds_asked, "horizon": self.horizon}

    # -- budget and durability ------------------------------------------------------------------

    def _own_guarantee(self) -> Guarantee:
        """What is promised for what is asked and told here, without what it began from."""
        return self.guarantee

    def _charge(self) -> None:
        """Spend the whole guarantee once, before the first answer and before the first save."""
        if not self._charged and self._holder.charged and not self._holder.paid:
            promised = self._own_guarantee()
            self._holder.charge(self._charged_as, cost=cost_of_guarantee(promised))
        self._charged = True

    @in_turn
    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:  # noqa: D102
        self._charge()  # whoever loads the state need not know the account
        super().save(path, key=key)

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str] | Life,
        *,
        new: Self | None = None,
        ledger: Ledger | None = None,
        account: str | None = None,
        adopt: bool = False,
        key: StateKey | None = None,
    ) -> Self:
        """The policy that lives in a folder: every ask and tell is on disk before it is answered.

        After a crash, opening the folder again gives the policy as it had answered: the same rounds asked,
        the same decision ids, every tell counted once. A batch is one record. Close the policy, or use it in
        a `with` block, to let another process have the folder; copy and move the whole of it. With a ledger,
        a folder that is put back without what the ledger has heard of is refused; see `dpbandits.state.live`.

        Args:
            folder: made where it does not exist; raw data, to be kept as the data is. Or another `Life`.
            new: the policy to begin with where the folder holds none; else it must have the configuration of
                the one that does, and is left alone.
            ledger, account, adopt: as in `load`; by default the ledger of `new`.
            key: seals the folder.

        Raises:
            MissingState: the folder holds no policy, and there is no `new`.
            StateError: another process, or another object of this one, has it open.
            IncompatibleState: `new` is another policy than the one in the folder; and as `load`.
            ForkedState, CorruptState, InvalidParameter, BudgetExceeded: as `load`.
        """
        ledger = new._ledger() if ledger is None and new is not None else ledger
        live = folder if isinstance(folder, Life) else LiveFolder(folder, key=key, ledger=ledger)
        try:
            try:
                policy = cls._taken_up(
                    live.state, ledger=ledger, account=account, adopt=adopt, key=key, opening=True
                )
            except FileNotFoundError:
                if new is None:
                    raise MissingState("the folder holds no policy: pass one as new=") from None
                live.refuse_leftovers()
                new._live_in(live, key)
                return new
            if new is not None and new.to_config() != policy.to_config():
                raise IncompatibleState("the folder holds a policy of another configuration than `new` has")
            policy._go_on_in(live)
        except BaseException:
            live.close()
            raise
        return policy

    def _ledger(self) -> Ledger | None:
        held: Any = self._holder.ledger  # what the constructor was given
        return held if isinstance(held, Ledger) else None

    def _go_on_in(self, live: Life) -> None:
        """Catch up with what was noted since the state was saved, and live there from now on."""
        holder = self._holder
        for record in live.earlier(
            holder.lineage, holder.position, lived=holder.lived, follows=holder.follows
        ):
            self._replay(record.kind, record.content)
        self._book.begin_epoch()
        self._charge()
        holder.bind(live, self._replay)
        holder.take_over()
        self._book.before = holder.note

    @in_turn
    def _live_in(self, live: Life, key: StateKey | None) -> None:
        """Begin to live in an empty folder."""
        if live.lineage is not None and not self._charged and not self._holder.position:
            self._holder.lineage = self._book.lineage = live.lineage
        self._charge()
        try:
            self._holder.bind(live, self._replay)
            self._holder.save(live.state, key=key)
        except BaseException:
            self._holder.bind(None)
            raise
        self._book.before = self._holder.note

    def _replay(self, kind: bytes, content: bytes) -> None:
        """Make a change again that was noted, unless it was made."""
        before, self._book.before = self._book.before, None
        try:
            told = self._book.replayed(kind, content)
            if told is not None and len(told.rounds):
                self._take(*told)
        finally:
            self._book.before = before

    def close(self) -> None:
        """Leave the folder that it lives in to another process; nothing more is answered.

        Raises:
            OSError: the disk refused to write down how far the log of rounds reaches. The folder is left all
                the same, and nothing that was answered is lost.
        """
        self._holder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        return {**self._book.state_arrays(), **self._deadlines.arrays(), **self._own_arrays()}

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self._book.lineage = self._holder.lineage
        self._book.restore(arrays)
        self._deadlines.restore(arrays)
        self._restore_own(arrays)
        self._settled = self._rounds_out
        self._book.close(self._settled)
        self._fit()


@contextmanager
def round_taken(what: str = "round") -> Iterator[None]:
    """What is refused inside has taken its round, and says so to its caller."""
    try:
        yield
    except InvalidData as error:
        raise InvalidData(f"{error}; the {what} is taken, and counts nothing") from None

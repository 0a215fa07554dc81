"""`RoundPolicy`: asking, telling, bookkeeping and state of every policy that is asked round by round.

It keeps the book of rounds, charges the ledger before the first answer, makes every release durable before
anything is made of it, and lives in a folder. A subclass says how to choose (`_choose`) and to predict
(`_predict`), how to learn (`_learn`) or to release (`_is_due`, `_release`, `_rounds_out`, `_fit`), and what
to save.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, ClassVar, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks, domains
from dpbandits._calls import worded
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.budget import Account, Ledger, cost_of_guarantee
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import IncompatibleState, InvalidData, InvalidParameter, MissingState, ProtocolError
from dpbandits.models.features import Features
from dpbandits.models.features.maximise import Maximiser
from dpbandits.models.ties import first_best
from dpbandits.policy.bookkeeping import NOBODY, RoundBook, RoundStatus
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.deadlines import Deadlines, times_of
from dpbandits.policy.decision import Answers, Decision, DecisionBatch, Receipt, one_decision
from dpbandits.policy.kept import KeptPolicy, PolicyOptions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.state import StateKey
from dpbandits.state.holder import in_turn
from dpbandits.state.live import Life, LiveFolder
from dpbandits.state.witness import Payer, witness_of
from dpbandits.tables import Schema
from dpbandits.tables.menu import Menu

__all__ = ["RoundPolicy", "round_taken"]

_RECEIPTS: dict[int, Receipt] = {
    RoundStatus.TOLD: Receipt.COUNTED,
    RoundStatus.LATE: Receipt.LATE,
    RoundStatus.ABANDONED: Receipt.ABANDONED,
}
"""Receipts by the status of a round that was told; for any other status the receipt is `REFUSED`."""

_PLAIN = (float, np.float64, bool)
"""Types of rewards that are floats, or become one without loss."""

_TOLD = int(RoundStatus.TOLD)

_EXACT = 1 << 53
"""Integers up to here are floats."""


class RoundPolicy(KeptPolicy):
    """A policy that chooses among candidate rows, or among a few arms for people with contexts.

    With `contexts` and `arms` whoever asks brings a context, and every arm beside it is a row: see `Menu`.

    Args:
        domain: public set that every candidate row must lie in.
        contexts: public columns of a person's context, instead of `domain`.
        arms: labels of the arms: texts, numbers or booleans, all different.
        reward_range, horizon, privacy, **options: see `KeptPolicy`.

    Attributes:
        menu: of `contexts` and `arms`; None where there is a domain alone.
        public_point: (d,) of the domain; what cannot be answered is recorded there.
        features: in whose coordinates it learns; None where it has none. Their basis is part of a state.
    """

    features: Features | None = None
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **KeptPolicy.config_parsers,
        "contexts": Schema.from_config,
    }
    _whole: Maximiser | None = None

    def __init__(
        self,
        *,
        domain: domains.Domain | None = None,
        contexts: Schema | None = None,
        arms: Sequence[Label] | None = None,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP | None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        self.menu = menu = Menu.of(domain, contexts, arms)
        instead = "domain=Box(low=[0], high=[1]) or another domain"
        asked: Any = domain if menu is None else menu.domain
        self.domain: domains.Domain = _checks.an(asked, domains.Domain, name="domain", pass_=instead)
        self.public_point = self.domain.sample(1, np.random.default_rng(0))[0]
        super().__init__(reward_range=reward_range, horizon=horizon, privacy=privacy, **options)
        self._coins = PublicCoins(self.seed)
        self._learns = type(self)._learn is not RoundPolicy._learn
        self._charged = False
        self._settled = 0  # rounds whose releases are durable, and fitted
        self._deadlines = Deadlines((), 0)
        self._book = RoundBook(
            dim=self.domain.dim,
            horizon=self.horizon,
            rounds_per_user=None if privacy is None else privacy.rounds_per_user,
            user_ids=self.user_ids,
            lineage=self._holder.lineage,
        )

    @property
    def contexts(self) -> Schema | None:
        """Public columns of a person's context; None where candidates are brought."""
        return None if self.menu is None else self.menu.contexts

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this policy anew, as JSON."""
        other = ("contexts", "arms") if self.menu is None else ("domain",)
        return {name: value for name, value in super().to_config().items() if name not in other}

    def __repr__(self) -> str:
        return self._shown(asked=self._book.asked)

    # -- what a policy defines ------------------------------------------------------------------

    @abstractmethod
    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n,) of the reward at points (n, d) of the domain."""

    @abstractmethod
    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        """Indices (B,) and propensities (B,) or None for decision sets (B, n, d) of rounds start.."""

    def _choose_one(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[int, float | None]:
        """`_choose` for one decision set (n, d), for those that can do it without arrays of one."""
        offered = None if available is None else available[None]
        indices, propensities = self._choose(candidates[None], offered, start)
        return int(indices[0]), None if propensities is None else float(propensities[0])

    def _over_domain(self, start: int | None, count: int) -> FloatArray:
        """Points (count, d) chosen out of the whole domain for rounds start..; without rounds the one point
        (1, d) of highest predicted reward.
        """
        raise NotImplementedError

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
        self._prepare()
        return digests

    def _opened(
        self,
        digests: Sequence[bytes],
        indices: IntArray,
        actions: FloatArray,
        propensities: FloatArray | None,
        refused: BoolArray,
        labels: tuple[Label, ...] = (),
    ) -> Answers:
        """Enter B rounds; what a `DecisionBatch` of them is made of.

        Rounds that are `refused` (B,), or whose user is `NOBODY`, get the index -1, and NaN for action and
        propensity.
        """
        if NOBODY in digests:
            refused = refused | np.array([digest == NOBODY for digest in digests])
        some = np.count_nonzero(refused)
        ids = self._book.open(digests, actions, refused if some else None)
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

    @property
    def _maximiser(self) -> Maximiser:
        """Of functions of the features over the domain: made at the first use."""
        if self.features is None:
            raise ProtocolError(f"{type(self).__name__} has no features")
        if self._whole is None or self._whole.features is not self.features:
            self._whole = Maximiser(self.domain, self.features)
        return self._whole

    def _check_over_domain(self) -> None:
        if type(self)._over_domain is RoundPolicy._over_domain:
            raise InvalidData(
                f"{type(self).__name__} chooses among candidates: bring them, (n, {self.domain.dim})"
            )

    @worded
    def ask(
        self, brought: Any = None, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """Choose one arm, one row, or one point of the whole domain, for `user`.

        Args:
            brought: with `contexts` and `arms`, the person's context: a dict, a dataclass, a named tuple, a
                row or a one-row frame of a table, or values in the schema's order. Else, and there too where
                it is an array of two axes, candidates (n, d), one of which is chosen. Where there is a
                domain, and nothing is brought, the whole of it is on offer.
            user: whose round it is.
            available: labels of the arms that this person may be given; default all. Of candidates leave rows
                out instead.
            at: when it is asked, on a public clock: a datetime (without a zone, of UTC) or seconds. Needed
                where a `reporting_delay` is a time and the wall clock is not meant.

        Raises:
            InvalidData: candidates of another shape or type, several people, or no user; nothing was taken.
                Or the context cannot be read, a candidate is missing or outside the domain, or there is
                nothing to choose from: the round is taken, and counts nothing.
            HorizonExceeded, ContributionExceeded: no rounds are left; nothing was taken.
        """
        return self._answer_to(brought, user, available, at)

    def _answer_to(self, brought: Any, user: object | None, available: Any, at: object) -> Decision:
        users, menu = None if user is None else [user], self.menu
        if menu is None and brought is None:
            return one_decision(self._decide_over_domain(1, users, available, at))
        if menu is None or _is_set(brought, axes=2):
            if available is not None:
                raise InvalidData("available is for arms: of candidates leave rows out instead")
            rows = self._rows_of(brought, ("n",))
            decision = self._decide_one(rows, users, None, None, at)
            if decision.index < 0:  # refused
                with round_taken():
                    self.domain.validate(rows)
            return decision
        point = menu.point(brought)
        mask, rows = None if available is None else menu.offered(available), menu.sets(point[None])[0]
        decision = self._decide_one(rows, users, mask, math.isnan(point[0]), at)
        if decision.index < 0:  # refused
            with round_taken():
                menu.refuse(brought, available)
        return decision

    @worded
    def ask_batch(
        self,
        brought: Any = None,
        users: Sequence[object] | None = None,
        *,
        available: Any = None,
        at: object = None,
    ) -> DecisionBatch:
        """Choose for B people, all by what is released now.

        Args:
            brought: with `contexts` and `arms`, a table of B rows, a mapping of columns, an array (B, d) in
                the schema's order, or a list of what `ask` takes. Else, and there too where it is an array of
                three axes, decision sets (B, n, d), or a list of sets of different lengths, which takes
                memory for B times the longest. Where there is a domain, and nothing is brought, all of the
                `users` are offered the whole of it.
            users: B user ids; required unless the policy was built with JointDP(..., user_ids=False).
            available: (B, n) True where an arm, or a row, may be chosen, with n of the longest set; or a list
                of B marks of one set; or, of arms, B lists of labels.
                Default all.
            at: as in `ask`.

        Returns:
            B decisions. A decision is refused (`DecisionBatch.refused`) if its context cannot be read, a
            candidate is missing or outside the domain, nothing is available, its user has no id, or its user
            has had all rounds. It takes its round, counts nothing, and changes nobody else's answer. So does
            a decision set of another shape, unless no set of the batch fits.

        Raises:
            InvalidData: a table or array of another shape, or not one user a decision; nothing was taken.
            HorizonExceeded: fewer rounds are left than people came; nothing was taken.
        """
        menu = self.menu
        if menu is None and brought is None:
            if users is None:
                raise InvalidData("nothing was brought: name the users, or ask one by one")
            return DecisionBatch(*self._decide_over_domain(len(users), users, available, at, batch=True))
        if menu is None or _is_set(brought, axes=3):
            rows, available = self._sets_of(brought, available)
            return DecisionBatch(*self._decide(rows, users, available, at=at))
        points = menu.points(brought)
        mask = None if available is None else menu.all_offered(available, len(points))
        answers = self._decide(menu.sets(points), users, mask, np.isnan(points[:, 0]), at=at)
        return DecisionBatch(*answers)

    def _rows_of(self, candidates: FloatArray, axes: tuple[str, ...]) -> FloatArray:
        """Candidates (..., d), whatever they say, as an array with these `axes`.

        A copy: what was looked at must be what is used, whatever a caller writes into theirs meanwhile. A NaN
        that came in between would stay in the book, and fail the rounds of others.
        """
        rows, dim = _checks.contents(candidates, name="candidates").copy(), self.public_point.size
        shape = rows.shape
        if len(shape) != len(axes) + 1 or shape[-1] != dim or shape[0] == 0 < len(shape) - 2:
            expected = f"({', '.join(axes)}, {dim})"
            raise InvalidData(f"candidates: expected an array of shape {expected}, got {shape}")
        if not shape[-2]:  # none: one is missing
            return np.full((*shape[:-2], 1, dim), np.nan)
        return rows

    def _sets_of(self, brought: Any, available: Any) -> tuple[FloatArray, BoolArray | None]:
        """Decision sets (B, n, d) and which rows are on offer, (B, n) or all.

        Each entry of a list is read by itself: sets of fewer rows are filled up with rows that are not on
        offer, an entry that is no set is one row of NaN, and of marks that are none nothing is on offer.
        """
        try:
            sets: FloatArray | list[FloatArray] = self._rows_of(brought, ("B", "n"))
        except InvalidData:
            found = [self._set_of(one) for one in brought] if isinstance(brought, list | tuple) else []
            if all(own is None for own in found):  # nobody brought a set
                raise
            none = np.full((1, self.public_point.size), np.nan)
            sets = [none if own is None else own for own in found]
        if isinstance(sets, np.ndarray) and not isinstance(available, list | tuple):
            return sets, None if available is None else _checks.as_marks(
                available, sets.shape[:2], name="available"
            )
        if available is None:
            offered = [np.ones(len(own), dtype=np.bool_) for own in sets]
        elif isinstance(available, list | tuple | np.ndarray) and len(available) == len(sets):
            filled = isinstance(available, np.ndarray) and available.ndim == 2  # (B, n) for the longest set
            theirs = [one[: len(own)] if filled else one for one, own in zip(available, sets, strict=True)]
            offered = [_marks_or_none(one, len(own)) for one, own in zip(theirs, sets, strict=True)]
        else:
            raise InvalidData(f"available: expected marks for each of {len(sets)} decision sets")
        rows = np.tile(self.public_point, (len(sets), max(map(len, sets)), 1))
        marks = np.zeros(rows.shape[:2], dtype=np.bool_)
        for place, (own, marked) in enumerate(zip(sets, offered, strict=True)):
            rows[place, : len(own)], marks[place, : len(own)] = own, marked
        return rows, marks

    def _set_of(self, brought: Any) -> FloatArray | None:
        """A decision set (n, d) of several, None for what is none.

        There is no longest set: a limit here would hold only where another person's set has another length.
        """
        try:
            return self._rows_of(brought, ("n",))
        except InvalidData:
            return None

    @in_turn
    def _decide_one(self, *given: Any) -> Decision:
        return self._decided_one(*given)

    def _decided_one(
        self,
        rows: FloatArray,
        users: Sequence[object] | None,
        available: BoolArray | None,
        unreadable: bool | None,  # noqa: FBT001
        at: object,
    ) -> Decision:
        """`_decide` for one decision set (n, d), without arrays of one; `available` (n,), or all."""
        digests = self._admit(1, users, at)
        refused = not self.domain.encloses(rows) if unreadable is None else unreadable
        if available is not None:
            refused = refused or not available.any()
        index, action, propensity, arm = -1, self.public_point, None, None
        if not refused:
            index, propensity = self._choose_one(rows, available, self._book.asked)
            action = rows[index].copy()
            arm = None if self.menu is None else self.menu.arms.labels[int(action[-1])]
        decision_id = self._book.open_one(digests, action, refused=refused)
        if self._deadlines.timed:
            self._deadlines.note(self._book.asked)
        if refused:
            action = np.full_like(action, np.nan)
        return Decision(decision_id, index, action, propensity, arm)

    @in_turn
    def _decide(
        self,
        rows: FloatArray,
        users: Sequence[object] | None,
        available: BoolArray | None,
        unreadable: BoolArray | None = None,
        *,
        at: object = None,
    ) -> Answers:
        """Decisions for decision sets (B, n, d). The bad ones are answered on a public point, for nobody.

        Args:
            rows: (B, n, d).
            users: B ids.
            available: (B, n), or all.
            unreadable: (B,) which rows are none, where the others are known to lie in the domain.
        """
        digests = self._admit(len(rows), users, at, batch=True)
        refused = self._outside(rows) if unreadable is None else unreadable
        if available is not None:
            refused = refused | ~available.any(axis=1)
        some = np.count_nonzero(refused)
        if some:
            rows = np.where(refused[:, None, None], self.public_point, rows)
            available = None if available is None else available | refused[:, None]
        if some < len(rows):
            indices, propensities = self._choose(rows, available, self._book.asked)
        else:
            indices, propensities = np.zeros(len(rows), dtype=np.int64), None
        actions = rows[np.arange(len(rows)), indices]
        return self._opened(digests, indices, actions, propensities, refused, self.arms or ())

    @in_turn
    def _decide_over_domain(
        self,
        count: int,
        users: Sequence[object] | None,
        available: object,
        at: object,
        *,
        batch: bool = False,
    ) -> Answers:
        """Decisions of B users who are offered the whole domain: each one's only row is the point chosen."""
        self._check_over_domain()
        if available is not None:
            raise InvalidData("available is for arms: of a domain bring the candidates that there are")
        digests = self._admit(count, users, at, batch=batch)
        points = self._over_domain(self._book.asked, count)
        first, none = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
        return self._opened(digests, first, points, None, none)

    def _outside(self, rows: FloatArray) -> BoolArray:
        """(B,) which decision sets (B, n, d) have a row that is missing or outside the domain."""
        if self.domain.encloses(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        return np.asarray(~self.domain.contains(rows).all(axis=1))

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
            value, usable = self.reward_range.holds(float(reward))
            became = self._book.settle_one(index, value, usable=usable, missing=math.isnan(reward))
            if became == _TOLD and self._learns:
                self._learn_one(index, value)
            receipt = _RECEIPTS.get(became, Receipt.REFUSED)
        else:
            self._book.round_of(decision_id)
            receipt = self.tell_batch([decision_id], [reward], at=at)[0]
        if receipt is Receipt.REFUSED:
            low, high = self.reward_range.low, self.reward_range.high
            raise InvalidData(
                f"the reward is no number in reward_range ({low:g}, {high:g}), or the decision was refused: "
                "tell it again, widen the range before the first ask, or pass RewardRange(..., clip=True)"
            )
        return receipt

    @in_turn
    def tell_batch(
        self, decision_ids: Sequence[str], rewards: ArrayLike, *, at: object = None
    ) -> tuple[Receipt, ...]:
        """Tell rewards (B,) of several decisions. Each gets a receipt of its own.

        None and NaN say that a reward will not come. One off the range, unless it is clipped, or that is no
        number is refused: its decision stays pending, and may be told again. What comes for a decision that
        was told or abandoned before is refused, and changes nothing; of an id that stands there twice the
        first reward counts. `at` is when they came, as in `tell`: one time, or a sequence of B.

        Raises:
            UnknownDecision, InvalidData: one id is not this policy's, one time is none, or there is not one
                reward an id. This refuses the whole call: nothing was taken.
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
        values, usable = self.reward_range.within(told)
        became = np.full(len(rounds), RoundStatus.REFUSED, dtype=np.int64)
        if fresh.any():
            became[fresh] = self._take(rounds[fresh], values[fresh], usable[fresh], np.isnan(told)[fresh])
        became[late & (became == RoundStatus.ABANDONED)] = RoundStatus.LATE
        return tuple(_RECEIPTS.get(status, Receipt.REFUSED) for status in became.tolist())

    def _take(self, rounds: IntArray, values: FloatArray, usable: BoolArray, missing: BoolArray) -> IntArray:
        """Settle rounds and learn from those that count; their `RoundStatus`."""
        became = self._book.settle(rounds, values, usable, missing)
        counted = became == RoundStatus.TOLD
        if self._learns and counted.any():
            self._learn(rounds[counted], self._book.actions(rounds[counted]), values[counted])
        return became

    @in_turn
    def abandon(self, decision_id: str) -> None:
        """Say that a decision will never have a reward: it contributes nothing."""
        self._book.abandon(decision_id)

    def abandon_batch(self, decision_ids: Sequence[str]) -> tuple[Receipt, ...]:
        """Say that several decisions will never have a reward; receipts as of `tell_batch`.

        Raises:
            UnknownDecision, InvalidData: one id is not this policy's. This refuses the whole call: nothing
                was taken.
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

    @worded
    def predict(self, points: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the expected reward, from what was released only.

        Args:
            points: (n, d) in the domain; with `contexts` and `arms`, contexts of n people, in any form that
                `ask_batch` or `ask` takes.

        Returns:
            Two arrays (n,); with `contexts` and `arms` (n, K), one row a person and one column an arm. The
            row of a person whose context cannot be read is NaN.

        Raises:
            InvalidData: points outside the domain, or no context that can be read.
        """
        if self.menu is None:
            return self._predict(self.domain.validate(points, name="points"))
        people, known = self.menu.readable(points)
        sets = self.menu.sets(people)
        found = (part.reshape(sets.shape[:2]) for part in self._predict(sets.reshape(-1, sets.shape[-1])))
        mean, spread = (np.where(known[:, None], part, np.nan) for part in found)
        return mean, spread

    @worded
    def recommend(self, brought: Any = None) -> Any:
        """What has the best predicted reward: the row among candidates (n, d), or one person's arm.

        Where there is a domain, and nothing is brought, the best point (d,) of the whole of it.

        Raises:
            InvalidData: as `predict`, or several people.
        """
        if self.menu is None and brought is None:
            self._check_over_domain()
            return self._over_domain(None, 1)[0]
        mean, _ = self.predict(brought)
        if self.menu is None:
            return int(first_best(mean, unit=self.reward_range.width))
        if len(mean) != 1:
            raise InvalidData(f"recommend: {len(mean)} people, expected one: use publish().recommend_batch")
        return self.menu.arms.labels[int(first_best(mean[0], unit=self.reward_range.width))]

    @in_turn
    def warm_start(
        self,
        points: Any,
        rewards: FloatArray | None = None,
        *,
        arms: Sequence[object] | None = None,
        disjoint: bool | None = None,
        charged_as: str | None = None,
    ) -> None:
        """Learn from public data, or from a published function of a private log, before the first ask.

        Args:
            points: (n, d) in the domain; or contexts of n people, and which `arms` they were given. Or,
                without rewards, a `central.PublishedFunction` of the same contexts or domain: what it
                predicts is the prior, as certain as it says.
            rewards: (n,).
            arms: n labels.
            disjoint: needed with a published function, and written into the statement: True where nobody in
                its data is a user here, which costs nothing and which nobody checks; False where some may be:
                then both promises are added up, and an account pays for both.
            charged_as: the id under which this policy's account has paid for the function; without it the
                account pays here.

        Raises:
            ProtocolError: a round was asked before, or this policy learns nothing.
            InvalidData: data of another shape or off the domain.
            InvalidParameter: a function that does not fit, or nothing said of its people.
            BudgetExceeded: the account cannot pay; nothing was learned.
        """
        if self._book.asked:
            raise ProtocolError("warm_start: public data comes before the first ask; build a new policy")
        if rewards is None:
            self._begin_from(points, disjoint=disjoint, charged_as=charged_as)
        elif disjoint is not None or charged_as is not None:
            raise InvalidParameter(
                "disjoint, charged_as: of a published function; data with rewards is public"
            )
        else:
            self._learn_public(*self._public_rows(points, rewards, arms))
        if self._holder.live:
            self._holder.commit()

    def _public_rows(
        self, points: Any, rewards: FloatArray, arms: Sequence[object] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Rows (n, d) of the domain and rewards (n,) of public data, as `warm_start` takes it."""
        if self.menu is not None and arms is not None:
            contexts, codes = self.menu.encode(points), self.menu.cells(arms)
            if len(contexts) != len(codes) or (codes < 0).any():
                raise InvalidData("warm_start: expected the label of one arm a person")
            points = np.column_stack([contexts, codes])
        elif arms is not None:
            raise InvalidData("arms are for a policy that was built with contexts and arms")
        rows = self.domain.validate(points, name="points")
        values = self.reward_range.validate(rewards)
        if rows.ndim != 2 or values.shape != (len(rows),):
            raise InvalidData("warm_start: expected points (n, d) and rewards (n,) of the same length")
        return rows, values

    def _begin_from(self, published: Any, *, disjoint: bool | None, charged_as: str | None) -> None:
        raise InvalidData(
            f"warm_start: pass points and rewards (n,); {type(self).__name__} does not begin from a "
            f"{type(published).__name__}"
        )

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        raise ProtocolError(f"{type(self).__name__} has nothing to learn from data: leave warm_start out")

    # -- budget and durability ------------------------------------------------------------------

    def _own_guarantee(self) -> Guarantee:
        """What is promised for what is asked and told here, without what it began from."""
        return self.guarantee

    def _charge(self) -> None:
        """Spend the whole guarantee once, before the first answer and before the first save."""
        if not self._charged and self._holder.charged and not self._holder.paid:
            self._holder.charge(cost=cost_of_guarantee(self._own_guarantee()))
        self._charged = True

    @classmethod
    def open(
        cls,
        folder: str | PathLike[str] | Life,
        *,
        new: Self | None = None,
        ledger: Ledger | None = None,
        account: Account | None = None,
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
        witness = witness_of(account, ledger)
        witness = new._ledger() if witness is None and new is not None else witness
        live = folder if isinstance(folder, Life) else LiveFolder(folder, key=key, ledger=witness)
        try:
            try:
                policy = cls._taken_up(
                    live.state, ledger=witness, account=account, adopt=adopt, key=key, opening=True
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

    def _ledger(self) -> Payer | None:
        return self._holder.ledger

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
        basis = () if self.features is None else self.features.basis()
        own = {**self._book.state_arrays(), **self._deadlines.arrays(), **self._own_arrays()}
        return own | {f"basis_{number}": array for number, array in enumerate(basis)}

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        if self.features is not None:
            basis = [arrays[f"basis_{number}"] for number, _ in enumerate(self.features.basis())]
            self.features = self.features.in_basis(basis)
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


def _marks_or_none(available: object, count: int) -> BoolArray:
    """(count,) a person's marks; nothing is on offer if they are none."""
    try:
        return _checks.as_marks(available, (count,), name="available")
    except InvalidData:
        return np.zeros(count, dtype=np.bool_)


def _is_set(brought: object, *, axes: int) -> bool:
    """Whether this is an array of candidate rows, which a table's row or a list is not."""
    return isinstance(brought, np.ndarray) and brought.ndim == axes

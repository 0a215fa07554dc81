"""`RoundPolicy`: base class of policies that answer round by round.

The class records rounds in a `RoundBook`, charges the ledger before the first answer, and makes every
release durable before it is used. It can log every event in a folder. A subclass defines how to choose
(`_choose`) and to predict (`_predict`), how to learn (`_learn`) or to release (`_is_due`, `_release`,
`_rounds_out`, `_fit`), and which arrays to save.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self, Unpack

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
from dpbandits.policy.bookkeeping import NOBODY, RoundBook, RoundStatus, is_plain
from dpbandits.policy.coins import PublicCoins
from dpbandits.policy.deadlines import Deadlines, times_of
from dpbandits.policy.decision import Answers, Decision, DecisionBatch, Receipt, one_decision
from dpbandits.policy.decision_sets import decision_sets
from dpbandits.policy.kept import KeptPolicy, PolicyOptions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.state import StateKey
from dpbandits.state.holder import in_turn
from dpbandits.state.live import Life, LiveFolder
from dpbandits.state.witness import Payer, witness_of
from dpbandits.tables import Actions, Products, Schema
from dpbandits.tables.actions import ActionCurve
from dpbandits.tables.menu import Menu
from dpbandits.tables.products import arms_from_config
from dpbandits.tables.windows import Window

__all__ = ["RoundPolicy", "round_taken"]

_RECEIPTS: dict[int, Receipt] = {
    RoundStatus.TOLD: Receipt.COUNTED,
    RoundStatus.LATE: Receipt.LATE,
    RoundStatus.ABANDONED: Receipt.ABANDONED,
}
"""Receipt for each status of a round after its reward was told. Other statuses give `REFUSED`."""

_TOLD = int(RoundStatus.TOLD)


class _Predicted(NamedTuple):
    """Predictions for n contexts and all K arms of `menu`, all from one moment.

    Encoded contexts (n, d), means and standard deviations (n, K), and the window of actions.
    """

    menu: Menu
    people: FloatArray
    mean: FloatArray
    spread: FloatArray
    window: Window | None


class RoundPolicy(KeptPolicy):
    """Base class of policies that choose among candidate rows, or among arms for users with contexts.

    With `contexts` and `arms` an ask brings a context. Its candidate rows are the context joined with each
    arm; see `Menu`.

    Args:
        domain: Public set in which every candidate row must lie.
        contexts: Public columns of a user's context; given instead of `domain`.
        arms: Labels of the arms: texts, numbers or booleans, all different; or `tables.Products`, arms with
            features.
        actions: Numbers to choose from; given instead of `arms`; see `tables.Actions`.
        reward_range, horizon, privacy, **options: See `KeptPolicy`.

    Attributes:
        menu: Menu of `contexts` and `arms`; None for a policy with a domain.
        public_point: Public point of the domain (d,), recorded as the action of a refused round.
        features: Features whose weights the policy learns; None without features. Their basis is part of the
            saved state.
        takes_products: True if the policy learns from features of arms.
    """

    features: Features | None = None
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **KeptPolicy.config_parsers,
        "contexts": Schema.from_config,
        "actions": Actions.from_config,
        "arms": arms_from_config,
    }
    takes_products: ClassVar[bool] = False
    _whole: Maximiser | None = None

    def __init__(
        self,
        *,
        domain: domains.Domain | None = None,
        contexts: Schema | None = None,
        arms: Sequence[Label] | Products | None = None,
        actions: Any = None,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP | None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        outcomes = RewardRange.of(reward_range) if actions is not None else None
        if isinstance(arms, Products) and not self.takes_products:
            raise InvalidParameter(
                f"arms: {type(self).__name__} does not learn from features of arms: pass "
                "arms=products.labels, or use central.GPBandit"
            )
        self.menu = menu = Menu.of(domain, contexts, arms, actions, reward_range=outcomes)
        instead = "domain=Box(low=[0], high=[1]) or another domain"
        asked: Any = domain if menu is None else menu.domain
        self.domain: domains.Domain = _checks.an(asked, domains.Domain, name="domain", pass_=instead)
        self.public_point = self.domain.sample(1, np.random.default_rng(0))[0]
        super().__init__(reward_range=reward_range, horizon=horizon, privacy=privacy, **options)
        self._coins = PublicCoins(self.seed)
        self._learns = type(self)._learn is not RoundPolicy._learn
        self._charged = False
        self._settled = 0  # number of first rounds whose releases are durable and fitted
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
        """Public columns of a user's context; None for a policy with a domain."""
        return None if self.menu is None else self.menu.contexts

    @property
    def actions(self) -> Actions | None:
        """Numbers to choose from; None for a policy with arms or a domain."""
        return None if self.menu is None else self.menu.actions

    def to_config(self) -> dict[str, Any]:
        """Return the policy's public configuration as JSON.

        Raises:
            InvalidParameter: The value or bounds of actions are functions, which JSON cannot hold.
        """
        if self.menu is None:
            other: tuple[str, ...] = ("contexts", "arms", "actions")
        else:
            other = ("domain", "actions" if self.menu.actions is None else "arms")
        found = {name: value for name, value in super().to_config().items() if name not in other}
        products = None if self.menu is None else self.menu.products
        return found if products is None else found | {"arms": products.to_config()}

    def __repr__(self) -> str:
        return self._shown(asked=self._book.asked)

    # -- to be defined by a subclass ------------------------------------------------------------

    @abstractmethod
    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the reward (n,) at points (n, d) of the domain."""

    @abstractmethod
    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        """Choose a row of each decision set; return indices (B,), and propensities (B,) or None.

        Args:
            candidates: Decision sets (B, n, d).
            available: Mask of available rows (B, n); None if all are available.
            start: Round of the first set; the other sets have the rounds after it.
        """

    def _choose_one(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[int, float | None]:
        """Choose a row of one decision set (n, d) as `_choose` does. A subclass may define a faster way."""
        offered = None if available is None else available[None]
        indices, propensities = self._choose(candidates[None], offered, start)
        return int(indices[0]), None if propensities is None else float(propensities[0])

    def _over_domain(self, start: int | None, count: int) -> FloatArray:
        """Return points (count, d) chosen from the whole domain, one for each round from `start` on.

        Without `start`, return the point (1, d) with the highest predicted reward.
        """
        raise NotImplementedError

    def _learn(self, rounds: IntArray, actions: FloatArray, rewards: FloatArray) -> None:
        """Learn from rewards (k,), which are validated and clipped, of rounds (k,) with actions (k, d)."""

    def _learn_one(self, index: int, reward: float) -> None:
        """Learn from the reward of one round as `_learn` does. A subclass may override it to be faster."""
        rounds = np.array([index])
        self._learn(rounds, self._book.actions(rounds), np.array([reward]))

    def _is_due(self) -> bool:
        """Return True if a release is due before the next answer."""
        return False

    def _release(self) -> None:
        """Draw the release that is due. An interrupt leaves either no change or a complete one."""

    @property
    def _rounds_out(self) -> int:
        """Number of rounds whose releases were drawn, durable or not. Rewards of these first rounds no longer
        count.
        """
        return 0

    def _fit(self) -> None:
        """Compute the model from all releases."""

    @property
    def _window(self) -> Window | None:
        return None if self.actions is None else self.actions.window

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays to save in addition to the recorded rounds."""
        return {}

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the arrays of `_own_arrays`."""

    # -- answering and telling ------------------------------------------------------------------

    def _admit(
        self, count: int, users: Sequence[object] | None, at: object = None, *, batch: bool = False
    ) -> list[bytes]:
        """Check `count` new rounds, charge the account, make due releases, and return the users' digests.

        In a `batch` a user without an id or rounds left becomes `NOBODY`, whose round is refused.
        """
        digests = self._book.check_open(count, users, batch=batch)
        self._advance(at)
        self._charge()
        self._prepare()
        return digests

    def _advance(self, at: object) -> None:
        """Take the time of a call that passed its checks."""
        self._deadlines.advance(at)

    def _opened(
        self,
        digests: Sequence[bytes],
        indices: IntArray,
        actions: FloatArray,
        propensities: FloatArray | None,
        refused: BoolArray,
        labels: tuple[Label, ...] = (),
    ) -> Answers:
        """Record B rounds, and return the fields of their `DecisionBatch`.

        Rounds that are `refused` (B,), or whose user is `NOBODY`, get the index -1, and NaN for action and
        propensity.
        """
        if NOBODY in digests:
            refused = refused | np.array([digest == NOBODY for digest in digests])
        some = np.count_nonzero(refused)
        kept = actions if self.menu is None else self.menu.stored(actions, refused)
        ids = self._book.open(digests, kept, refused if some else None)
        self._deadlines.note(self._book.asked)
        if some:
            indices, actions = np.where(refused, -1, indices), np.where(refused[:, None], np.nan, actions)
            propensities = None if propensities is None else np.where(refused, np.nan, propensities)
        return ids, indices, actions, propensities, refused, labels

    def _prepare(self) -> None:
        """Make all releases that are due. Each is durable before it is used."""
        while True:
            if self._rounds_out > self._settled:  # includes a release whose saving or fitting failed before
                self._settle()
            if not self._is_due():
                return
            self._release()

    def _settle(self) -> None:
        out = self._rounds_out
        self._book.close(out)
        self._holder.commit()
        self._fit()
        self._settled = out  # set last, so that a fit that failed is repeated

    @property
    def _maximiser(self) -> Maximiser:
        if self.features is None:
            raise ProtocolError(f"{type(self).__name__} has no features")
        if self._whole is None or self._whole.features is not self.features:
            self._whole = Maximiser(self.domain, self.features)
        return self._whole

    def _check_over_domain(self) -> None:
        if type(self)._over_domain is RoundPolicy._over_domain:
            raise InvalidData(
                f"{type(self).__name__} chooses among candidates: pass an array (n, {self.domain.dim})"
            )

    @worded
    def ask(
        self, brought: Any = None, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """Choose one arm, one row, or one point of the whole domain, for `user`.

        Args:
            brought: Context or candidates. With `contexts` and `arms`, the user's context: a dict, a
                dataclass, a named tuple, a row or a one-row frame of a table, or values in the schema's
                order. With a domain, candidates (n, d), one of which is chosen; or None to choose from the
                whole domain. An array with two axes always means candidates.
            user: Id of the user of this round.
            available: Labels of the arms that this user may be given. Default: all arms. With candidates,
                leave out rows instead.
            at: Time of the ask, on a public clock: a datetime (UTC if it has no zone) or seconds since 1970.
                Default: the wall clock, if `reporting_delay` is a time.

        Raises:
            InvalidData: Either no round was taken: the candidates have another shape or type, there are
                several users, or the user is missing. Or the round was taken and contributes nothing: the
                context cannot be read, a candidate is missing or outside the domain, or nothing is
                available.
            HorizonExceeded, ContributionExceeded: No rounds are left; no round was taken.
        """
        return self._answer_to(brought, user, available, at)

    def _answer_to(self, brought: Any, user: object | None, available: Any, at: object) -> Decision:
        users, menu = None if user is None else [user], self.menu
        if menu is None and brought is None:
            return one_decision(self._decide_over_domain(1, users, available, at))
        if menu is None or (_is_set(brought, axes=2) and menu.actions is None):
            if available is not None:
                raise InvalidData("available is for arms: with candidates, leave rows out instead")
            rows = self._rows_of(brought, ("n",))
            decision = self._decide_one(rows, users, None, None, at)
            if decision.index < 0:  # refused
                with round_taken():
                    self.domain.validate(rows)
            return decision
        point = menu.point(brought)
        mask, rows = None if available is None else menu.offered(available), menu.sets(point[None])[0]
        decision = self._decide_one(rows, users, mask, math.isnan(point[0]), at, menu)
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
        """Choose for B users, all from the same releases.

        Args:
            brought: Contexts or decision sets. With `contexts` and `arms`, a table of B rows, a mapping of
                columns, an array (B, d) in the schema's order, or a list of contexts as `ask` takes them.
                With a domain, decision sets (B, n, d); a list of sets of different lengths, which takes
                memory for B times the longest; or None to choose from the whole domain for each of `users`.
                An array with three axes always means decision sets.
            users: Ids of the B users; required unless the policy was built with JointDP(...,
                user_ids=False).
            available: Arms or rows that may be chosen: a mask (B, n) with the length n of the longest set, a
                list of B masks, or, for arms, B lists of labels. Default: all.
            at: Time of the asks; see `ask`.

        Returns:
            B decisions. A decision is refused (`DecisionBatch.refused`) if its context cannot be read, a
            candidate is missing or outside the domain, nothing is available, or its user has no id or no
            rounds left. A refused decision takes its round, contributes nothing, and changes nobody else's
            answer. A decision set of another shape is refused, too, unless no set of the batch has the right
            one.

        Raises:
            InvalidData: The table or array has another shape, or the number of users is not B; no round was
                taken.
            HorizonExceeded: Fewer than B rounds are left; no round was taken.
        """
        menu = self.menu
        if menu is None and brought is None:
            if users is None:
                raise InvalidData("neither decision sets nor users were passed: pass users=, or use ask")
            return DecisionBatch(*self._decide_over_domain(len(users), users, available, at, batch=True))
        if menu is None or (_is_set(brought, axes=3) and menu.actions is None):
            rows, available = decision_sets(brought, available, read=self._rows_of, point=self.public_point)
            return DecisionBatch(*self._decide(rows, users, available, at=at))
        points = menu.points(brought)
        mask = None if available is None else menu.all_offered(available, len(points))
        answers = self._decide(menu.sets(points), users, mask, np.isnan(points[:, 0]), at=at, menu=menu)
        return DecisionBatch(*answers, () if menu.actions is None else menu.actions.choices)

    def _rows_of(self, candidates: FloatArray, axes: tuple[str, ...]) -> FloatArray:
        """Return a copy of candidates (..., d) as an array with the given axes; values are not checked.

        It is a copy because the caller might change the array after the checks. A NaN would then be recorded
        and make the rounds of other users fail.
        """
        rows, dim = _checks.contents(candidates, name="candidates").copy(), self.public_point.size
        shape = rows.shape
        if len(shape) != len(axes) + 1 or shape[-1] != dim or shape[0] == 0 < len(shape) - 2:
            expected = f"({', '.join(axes)}, {dim})"
            raise InvalidData(f"candidates: expected an array of shape {expected}, got {shape}")
        if not shape[-2]:  # no candidates: one row of NaN, which is refused later
            return np.full((*shape[:-2], 1, dim), np.nan)
        return rows

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
        menu: Menu | None = None,
    ) -> Decision:
        """Choose a row of one decision set (n, d) as `_decide` does, faster; `available` has shape (n,)."""
        digests = self._admit(1, users, at)
        refused = not self.domain.encloses(rows) if unreadable is None else unreadable
        if menu is not None and self.menu is not None and menu is not self.menu:
            mask = None if available is None else available[None]
            sets, mask = self.menu.instead(menu, rows[None], mask)
            rows, available = sets[0], None if mask is None else mask[0]
        if available is not None:
            refused = refused or not available.any()
        index, action, propensity, arm = -1, self.public_point, None, None
        if not refused:
            index, propensity = self._choose_one(rows, available, self._book.asked)
            action = rows[index].copy()
            arm = None if self.menu is None else self.menu.arms.labels[int(action[-1])]
        chosen: Any = action
        kept = action if self.menu is None else self.menu.stored(action, refused)
        decision_id = self._book.open_one(digests, kept, refused=refused)
        if self._deadlines.timed:
            self._deadlines.note(self._book.asked)
        if refused:
            chosen = np.full_like(action, np.nan)
        elif self.menu is not None and self.menu.actions is not None:
            chosen = self.menu.actions.choice(int(action[-1]))
        return Decision(decision_id, index, chosen, propensity, arm)

    @in_turn
    def _decide(
        self,
        rows: FloatArray,
        users: Sequence[object] | None,
        available: BoolArray | None,
        unreadable: BoolArray | None = None,
        *,
        at: object = None,
        menu: Menu | None = None,
    ) -> Answers:
        """Decide for decision sets (B, n, d). A refused set is replaced by a public point.

        Args:
            rows: Decision sets (B, n, d).
            users: Ids of the B users.
            available: Mask of available rows (B, n); None if all are.
            unreadable: Mask (B,) of sets to refuse, if all others are known to lie in the domain; None to
                check the rows.
            at: Time of the asks; see `ask`.
            menu: Menu that made the rows; a release that is due may change the arms.
        """
        digests = self._admit(len(rows), users, at, batch=True)
        refused = self._outside(rows) if unreadable is None else unreadable
        if menu is not None and self.menu is not None and menu is not self.menu:
            rows, available = self.menu.instead(menu, rows, available)
        if available is not None:
            refused = refused | ~available.any(axis=1)
        some = np.count_nonzero(refused)
        if some:
            # The codes stay those of the arms offered now: the public point's own arm may be retired.
            point = np.broadcast_to(self.public_point, rows.shape)
            if menu is not None:
                point = np.concatenate([point[..., :-1], rows[..., -1:]], axis=2)
            rows = np.where(refused[:, None, None], point, rows)
            available = None if available is None else available | refused[:, None]
        if some < len(rows):
            indices, propensities = self._choose(rows, available, self._book.asked)
        else:
            indices, propensities = np.zeros(len(rows), dtype=np.int64), None
        actions = rows[np.arange(len(rows)), indices]
        actions[refused] = self.public_point
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
        self._check_over_domain()
        if available is not None:
            raise InvalidData("available is for arms: with a domain, pass the available candidates instead")
        digests = self._admit(count, users, at, batch=batch)
        points = self._over_domain(self._book.asked, count)
        first, none = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
        return self._opened(digests, first, points, None, none)

    def _outside(self, rows: FloatArray) -> BoolArray:
        """Return a mask (B,) of decision sets (B, n, d) with a row that is missing or outside the domain."""
        if self.domain.encloses(rows):
            return np.zeros(len(rows), dtype=np.bool_)
        return np.asarray(~self.domain.contains(rows).all(axis=1))

    @in_turn
    def tell(self, decision_id: str, reward: float, *, at: object = None) -> Receipt:
        """Record the reward of a decision. None or NaN means that it will never have a reward.

        A late reward does not count, and only its receipt says so. A warning or a count would reveal whose
        reward was late, which is as private as the reward.

        Args:
            decision_id: Id of the decision, `Decision.id`.
            reward: Number in the reward range. True and False are 1 and 0.
            at: Time at which the reward occurred, a datetime or seconds since 1970, if `reporting_delay` is
                a time. A reward that occurred after its block's deadline is late, whenever it is told.
                Default: the reward is in time if its block was not released yet.

        Raises:
            InvalidData: The reward is not a number, or is outside the range and not clipped; or the time is
                invalid. The decision stays pending.
            UnknownDecision: The id was not issued by this policy.
            AlreadyTold: The decision was told or abandoned before.
        """
        if at is None and is_plain(reward):
            receipt = self._told_one(decision_id, reward)
        else:
            self._book.round_of(decision_id)
            receipt = self.tell_batch([decision_id], [reward], at=at)[0]
        if receipt is Receipt.REFUSED:
            raise self._refused_reward()
        return receipt

    def _told_one(self, decision_id: str, reward: float, metrics: Sequence[float] | None = None) -> Receipt:
        """Record one plain reward, and plain metrics (M,), as `_told` does, without arrays for them."""
        index = self._book.round_of(decision_id)
        value, usable = self.reward_range.holds(float(reward))
        missing = math.isnan(reward)
        became = self._book.settle_one(index, value, usable=usable, missing=missing, metrics=metrics)
        if became == _TOLD and self._learns:
            self._learn_one(index, value)
        return _RECEIPTS.get(became, Receipt.REFUSED)

    def _refused_reward(self) -> InvalidData:
        low, high = self.reward_range.low, self.reward_range.high
        return InvalidData(
            f"the reward is not a number in reward_range ({low:g}, {high:g}), or the decision was "
            "refused: tell it again, widen the range before the first call of ask, or pass "
            "RewardRange(..., clip=True)"
        )

    @in_turn
    def tell_batch(
        self, decision_ids: Sequence[str], rewards: ArrayLike, *, at: object = None
    ) -> tuple[Receipt, ...]:
        """Record the rewards of several decisions, and return a receipt for each.

        A reward that is not a number, or is outside the range and not clipped, is refused: its decision
        stays pending, and may be told again. A reward for a decision that was told or abandoned before is
        refused and changes nothing. If an id occurs twice, the first reward counts.

        Args:
            decision_ids: Ids of B decisions.
            rewards: Rewards (B,). None or NaN means that a decision will never have one.
            at: Time at which the rewards occurred, as in `tell`: one time, or a sequence of B times.

        Raises:
            UnknownDecision: An id was not issued by this policy; no reward was taken.
            InvalidData: A time is invalid, or the number of rewards is not B; no reward was taken.
        """
        return self._told(decision_ids, rewards, at)

    def _told(
        self, decision_ids: Sequence[str], rewards: ArrayLike, at: object, metrics: FloatArray | None = None
    ) -> tuple[Receipt, ...]:
        """Record rewards as `tell_batch` does, and further metrics (B, M) of the same decisions."""
        rounds = self._book.rounds_of(decision_ids)
        fresh = self._book.open_among(rounds)
        told = _checks.column(rewards, name="rewards")
        if told.shape != rounds.shape:
            raise InvalidData(
                f"rewards has shape {told.shape}, expected {rounds.shape}: one reward for each decision id"
            )
        late = np.zeros(len(rounds), dtype=np.bool_)
        if at is not None:
            late = self._deadlines.late(rounds, times_of(at, len(rounds)))
            told = np.where(late, np.nan, told)
        values, usable = self.reward_range.within(told)
        became = np.full(len(rounds), RoundStatus.REFUSED, dtype=np.int64)
        if fresh.any():
            kept = None if metrics is None else metrics[fresh]
            missing = np.isnan(told)[fresh]
            became[fresh] = self._take(rounds[fresh], values[fresh], usable[fresh], missing, kept)
        became[late & (became == RoundStatus.ABANDONED)] = RoundStatus.LATE
        return tuple(_RECEIPTS.get(status, Receipt.REFUSED) for status in became.tolist())

    def _take(
        self,
        rounds: IntArray,
        values: FloatArray,
        usable: BoolArray,
        missing: BoolArray,
        metrics: FloatArray | None = None,
    ) -> IntArray:
        """Record rewards, learn from those that count, and return the rounds' new `RoundStatus` (k,)."""
        became = self._book.settle(rounds, values, usable, missing, metrics)
        counted = became == RoundStatus.TOLD
        if self._learns and counted.any():
            self._learn(rounds[counted], self._book.actions(rounds[counted]), values[counted])
        return became

    @in_turn
    def abandon(self, decision_id: str) -> None:
        """Record that a decision will never have a reward. It contributes nothing.

        Raises:
            UnknownDecision: The id was not issued by this policy.
            AlreadyTold: The decision was told or abandoned before.
        """
        self._book.abandon(decision_id)

    def abandon_batch(self, decision_ids: Sequence[str]) -> tuple[Receipt, ...]:
        """Record that several decisions will never have a reward; return receipts as `tell_batch` does.

        Raises:
            UnknownDecision, InvalidData: An id was not issued by this policy; nothing was abandoned.
        """
        return self.tell_batch(decision_ids, np.full(len(self._book.rounds_of(decision_ids)), np.nan))

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told. They are raw data: they show who is missing."""
        return self._book.pending

    @property
    def rounds_asked(self) -> int:
        """Number of rounds so far. It is public, as are the times of asks."""
        return self._book.asked

    def diagnostics(self) -> dict[str, Any]:
        """Return released quantities, which are safe to log."""
        return {"policy": self.kind, "rounds_asked": self.rounds_asked, "horizon": self.horizon}

    @worded
    def predict(self, points: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the expected reward, computed from releases only.

        Args:
            points: Points (n, d) in the domain; with `contexts` and `arms`, contexts of n users, in any form
                that `ask_batch` or `ask` takes.

        Returns:
            Two arrays (n,); with `contexts` and `arms` two arrays (n, K), with a column for each arm. The
            row of a context that cannot be read is NaN.

        Raises:
            InvalidData: A point lies outside the domain, or no context can be read.
        """
        if self.menu is None:
            return self._predict(self.domain.validate(points, name="points"))
        found = self._predicted(points)
        return found.mean, found.spread

    def _predicted(self, contexts: Any) -> _Predicted:
        if self.menu is None:
            raise ProtocolError("this policy was built without contexts=")
        people, known = self.menu.readable(contexts)  # contexts are read alike whatever arms are offered
        with self._holder.still():  # a release of another thread changes the model and the arms together
            menu, window = self.menu, self._window
            mean, spread = menu.predicted(people, self._predict)
        mean[~known], spread[~known] = np.nan, np.nan
        return _Predicted(menu, people, mean, spread, window)

    @worded
    def recommend(self, brought: Any = None) -> Any:
        """Return the choice with the best reward that is predicted from releases.

        For one user's context the result is the label of an arm, or the action of the highest value. For
        candidates (n, d) it is the index of a row. Without an argument it is a point (d,) of the whole
        domain.

        Raises:
            InvalidData: A point lies outside the domain, the context cannot be read, or there are several.
        """
        if self.menu is None and brought is None:
            self._check_over_domain()
            return self._over_domain(None, 1)[0]
        if self.menu is None:
            return int(first_best(self.predict(brought)[0], unit=self.reward_range.width))
        menu, people, mean, _, window = self._predicted(brought)
        if len(mean) != 1:
            raise InvalidData(
                f"recommend: {len(mean)} contexts, expected one: use publish().recommend_batch for several"
            )
        if menu.actions is not None:
            best = menu.actions.best(mean, self.reward_range, people, window=window)
            return menu.actions.choice(int(best[0]))
        return menu.arms.labels[int(first_best(mean[0], unit=self.reward_range.width))]

    def curve(self, context: Any) -> ActionCurve:
        """Return the outcomes and values of all actions for one context, predicted from releases only.

        Raises:
            InvalidData: The context cannot be read, or there are several contexts.
            ProtocolError: The policy has no `actions`.
        """
        if self.menu is None or self.menu.actions is None:
            raise ProtocolError("curve: this policy was built without actions=")
        _, people, mean, spread, window = self._predicted(context)
        return self.menu.actions.curve_of(people, (mean, spread), self.reward_range, window)

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
            points: Public data: points (n, d) in the domain, or contexts of n users. Or, without rewards, a
                `central.PublishedFunction` of the same contexts or domain, whose prediction and uncertainty
                become the prior.
            rewards: Rewards (n,) of public data.
            arms: Labels of the arms that the n users were given.
            disjoint: Required with a published function. True if no user of this policy is in the function's
                data; this costs nothing, and is an unchecked assumption of the statement. False if a user
                may
                be in both: then the two guarantees are added up, and the account is charged for both.
            charged_as: Id under which this policy's account was charged for the function. Without it the
                account is charged here.

        Raises:
            ProtocolError: A round was asked before, or this policy cannot learn.
            InvalidData: The data has another shape or lies outside the domain.
            InvalidParameter: The function does not fit, or `disjoint` is missing.
            BudgetExceeded: The charge exceeds the budget; nothing was learned.
        """
        if self._book.asked:
            raise ProtocolError("warm_start has to come before the first ask: build a new policy")
        if rewards is None:
            self._begin_from(points, disjoint=disjoint, charged_as=charged_as)
        elif disjoint is not None or charged_as is not None:
            raise InvalidParameter(
                "disjoint and charged_as are for a published function, data with rewards is public: leave "
                "them out"
            )
        else:
            self._learn_public(*self._public_rows(points, rewards, arms))
        if self._holder.live:
            self._holder.commit()

    def _public_rows(
        self, points: Any, rewards: FloatArray, arms: Sequence[object] | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return public data for `warm_start` as rows (n, d) of the domain and rewards (n,)."""
        if self.menu is not None and arms is not None:
            contexts, codes = self.menu.encode(points), self.menu.cells(arms)
            if len(contexts) != len(codes) or (codes < 0).any():
                raise InvalidData("warm_start: expected the label of an arm for each context")
            points = np.column_stack([contexts, codes])
        elif arms is not None:
            raise InvalidData("arms= is for a policy that was built with contexts and arms: leave it out")
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
        raise ProtocolError(f"{type(self).__name__} cannot learn from public data: leave warm_start out")

    # -- budget and durability ------------------------------------------------------------------

    def _own_guarantee(self) -> Guarantee:
        """Return the guarantee of this policy's rounds, without that of a function from `warm_start`."""
        return self.guarantee

    def _charge(self) -> None:
        """Charge the whole guarantee once, before the first answer and before the first save."""
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
        """Open a policy in a folder. Every ask and tell is on disk before it is answered.

        Opening the folder again after a crash restores all answers, with the same rounds and decision ids,
        and every tell counted once. A batch is one record. Close the policy, or use it in a `with` block, to
        unlock the folder for another process. Copy or move the whole folder only. With a ledger, a folder
        that was rolled back to an older copy is refused; see `dpbandits.state.live`.

        Args:
            folder: Folder, created if it is missing. It contains raw data: protect it as you protect the
                data. Another `Life` (storage of a state and its log) is accepted, too.
            new: Policy to start with if the folder has none. Otherwise it must have the same configuration
                as the policy in the folder, and is not used.
            ledger, account, adopt: See `load`. Default: the ledger of `new`.
            key: Key that encrypts the files of the folder.

        Raises:
            MissingState: The folder has no policy, and `new` is missing.
            StateError: Another process, or another object of this process, has the folder open.
            IncompatibleState: `new` has another configuration; or as for `load`.
            ForkedState, CorruptState, InvalidParameter, BudgetExceeded: As for `load`.
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
                    raise MissingState("the folder has no policy: pass one as new=") from None
                live.refuse_leftovers()
                new._live_in(live, key)
                return new
            if new is not None and new.to_config() != policy.to_config():
                raise IncompatibleState(
                    "new has another configuration than the policy in the folder: use another folder, or "
                    "leave new= out"
                )
            policy._go_on_in(live)
        except BaseException:
            live.close()
            raise
        return policy

    def _ledger(self) -> Payer | None:
        return self._holder.ledger

    def _go_on_in(self, live: Life) -> None:
        """Apply the events that were logged since the state was saved, and log later events in the folder."""
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
        """Write the first state of a new policy into an empty folder, and log later events there."""
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
        """Apply an event of the log, unless the policy's state already contains it."""
        before, self._book.before = self._book.before, None
        try:
            told = self._book.replayed(kind, content)
            if told is not None and len(told.rounds):
                self._take(*told)
        finally:
            self._book.before = before

    def close(self) -> None:
        """Unlock the policy's folder for another process. Further calls are refused.

        Raises:
            OSError: The end file of the log of rounds could not be written. The folder is unlocked
                nevertheless, and no answer is lost.
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
    """Return a context manager that adds to an `InvalidData` error that the round is taken."""
    try:
        yield
    except InvalidData as error:
        raise InvalidData(f"{error}; the {what} is taken and contributes nothing") from None


def _is_set(brought: object, *, axes: int) -> bool:
    """Return True for an array with this number of axes, which is read as candidates and not as contexts."""
    return isinstance(brought, np.ndarray) and brought.ndim == axes

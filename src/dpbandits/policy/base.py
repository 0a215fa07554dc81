"""What every policy that chooses among candidate rows, or among arms for people, does the same way.

A subclass says how to choose (`_choose`) and to predict (`_predict`), beside what `RoundPolicy` asks of it.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from dpbandits import _checks, domains
from dpbandits._calls import worded
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.models.features import Features
from dpbandits.models.features.maximise import Maximiser
from dpbandits.policy.decision import Answers, Decision, DecisionBatch, one_decision
from dpbandits.policy.rounds import RoundPolicy, round_taken
from dpbandits.state.holder import in_turn
from dpbandits.tables import Schema
from dpbandits.tables.menu import Menu

__all__ = ["BasePolicy"]


class BasePolicy(RoundPolicy):
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
        **RoundPolicy.config_parsers,
        "contexts": Schema.from_config,
    }
    _whole: Maximiser | None = None
    registry: ClassVar[dict[str, type["BasePolicy"]]] = {}
    """Every policy class that has been imported, by `kind`."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "kind" in cls.__dict__:
            BasePolicy.registry[cls.kind] = cls

    def __init__(
        self,
        *,
        domain: domains.Domain | None = None,
        contexts: Schema | None = None,
        arms: Sequence[Label] | None = None,
        **shared: Any,
    ) -> None:
        self.menu = menu = Menu.of(domain, contexts, arms)
        instead = "domain=Box(low=[0], high=[1]) or another domain"
        asked: Any = domain if menu is None else menu.domain
        self.domain: domains.Domain = _checks.an(asked, domains.Domain, name="domain", pass_=instead)
        self.public_point = self.domain.sample(1, np.random.default_rng(0))[0]
        super().__init__(dim=self.domain.dim, **shared)

    @property
    def contexts(self) -> Schema | None:
        """Public columns of a person's context; None where candidates are brought."""
        return None if self.menu is None else self.menu.contexts

    @property
    def arms(self) -> tuple[Label, ...] | None:
        """Labels of the arms; None where candidates are brought."""
        return None if self.menu is None else self.menu.arms.labels

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this policy anew, as JSON."""
        other = ("contexts", "arms") if self.menu is None else ("domain",)
        return {name: value for name, value in super().to_config().items() if name not in other}

    def _arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        basis = () if self.features is None else self.features.basis()
        return super()._arrays() | {f"basis_{number}": array for number, array in enumerate(basis)}

    def _restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        if self.features is not None:
            basis = [arrays[f"basis_{number}"] for number, _ in enumerate(self.features.basis())]
            self.features = self.features.in_basis(basis)
        super()._restore(arrays)

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

    @property
    def _maximiser(self) -> Maximiser:
        """Of functions of the features over the domain: made at the first use."""
        if self.features is None:
            raise ProtocolError(f"{type(self).__name__} has no features")
        if self._whole is None or self._whole.features is not self.features:
            self._whole = Maximiser(self.domain, self.features)
        return self._whole

    def _check_over_domain(self) -> None:
        if type(self)._over_domain is BasePolicy._over_domain:
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
                three axes, decision sets (B, n, d). Where there is a domain, and nothing is brought, all of
                the `users` are offered the whole of it.
            users: B user ids; required unless the policy was built with user_ids=False.
            available: (B, n) True where an arm, or a row, may be chosen; or, of arms, B lists of labels.
                Default all.
            at: as in `ask`.

        Returns:
            B decisions. A decision is refused (`DecisionBatch.refused`) if its context cannot be read, a
            candidate is missing or outside the domain, nothing is available, its user has no id, or its user
            has had all rounds. It takes its round, counts nothing, and changes nobody else's answer.

        Raises:
            InvalidData: tables or arrays of another shape, or not one user a decision; nothing was taken.
            HorizonExceeded: fewer rounds are left than people came; nothing was taken.
        """
        menu = self.menu
        if menu is None and brought is None:
            if users is None:
                raise InvalidData("nothing was brought: name the users, or ask one by one")
            return DecisionBatch(*self._decide_over_domain(len(users), users, available, at, batch=True))
        if menu is None or _is_set(brought, axes=3):
            rows = self._rows_of(brought, ("B", "n"))
            if available is not None:
                available = _checks.as_marks(available, rows.shape[:2], name="available")
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

    @in_turn
    def _decide_one(
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
        return self._opened(digests, indices, actions, propensities, refused, labels=self.arms or ())

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

    @worded
    def predict(self, points: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the expected reward, from what was released only.

        Args:
            points: (n, d) in the domain; with `contexts` and `arms`, contexts of n people, in any form that
                `ask_batch` or `ask` takes.

        Returns:
            Two arrays (n,); with `contexts` and `arms` (n, K), one row a person and one column an arm.

        Raises:
            InvalidData: points outside the domain, or contexts that cannot be read.
        """
        if self.menu is None:
            return self._predict(self.domain.validate(points, name="points"))
        sets = self.menu.sets(self.menu.encode(points))
        mean, spread = self._predict(sets.reshape(-1, sets.shape[-1]))
        return mean.reshape(sets.shape[:2]), spread.reshape(sets.shape[:2])

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
            return int(np.argmax(mean))
        if len(mean) != 1:
            raise InvalidData(f"recommend: {len(mean)} people, expected one: use publish().recommend_batch")
        return self.menu.arms.labels[int(np.argmax(mean[0]))]

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
            if self._holder.live:
                self._holder.commit()
            return
        if disjoint is not None or charged_as is not None:
            raise InvalidParameter(
                "disjoint, charged_as: of a published function; data with rewards is public"
            )
        if self.menu is not None and arms is not None:
            contexts, codes = self.menu.encode(points), self.menu.cells(arms)
            if len(contexts) != len(codes) or (codes < 0).any():
                raise InvalidData("warm_start: expected the label of one arm a person")
            points = np.column_stack([contexts, codes])
        elif arms is not None:
            raise InvalidData("arms are for a policy that was built with contexts and arms")
        rows = self.domain.validate(points, name="points")
        values = self.reward_range.validate(rewards, clip=self.clip)
        if rows.ndim != 2 or values.shape != (len(rows),):
            raise InvalidData("warm_start: expected points (n, d) and rewards (n,) of the same length")
        self._learn_public(rows, values)
        if self._holder.live:
            self._holder.commit()

    def _begin_from(self, published: Any, *, disjoint: bool | None, charged_as: str | None) -> None:
        raise InvalidData(
            f"warm_start: pass points and rewards (n,); {type(self).__name__} does not begin from a "
            f"{type(published).__name__}"
        )

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        raise ProtocolError(f"{type(self).__name__} has nothing to learn from data: leave warm_start out")


def _is_set(brought: object, *, axes: int) -> bool:
    """Whether this is an array of candidate rows, which a table's row or a list is not."""
    return isinstance(brought, np.ndarray) and brought.ndim == axes

"""One machine's part of the learning: checks rows, and adds them to integer cell sums.

A shard holds raw statistics and no mechanism. Shards of one `ExploreThenCommit` are merged by adding
integers, so that any split of the rows gives the same sums, bit for bit.
"""

import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._checks import contents
from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.logged.sums import MOST_CELLS, RewardSums
from dpbandits.domains import RewardRange
from dpbandits.errors import (
    ContributionExceeded,
    CorruptState,
    HorizonExceeded,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
)
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.bookkeeping import UserCounts
from dpbandits.state import State, read_state, write_state
from dpbandits.tables.menu import Menu
from dpbandits.tables.owners import Owners, first_rows

__all__ = ["CellRules", "RowRules", "Shard", "check_cells", "one_row", "reference_of"]

_KIND = "central.ExploreThenCommit.shard"
_USER_NAMES = {"salt": "salt", "users": "user_digests", "taken": "user_rows"}
_PART_BYTES = 8

ROWS_AT_ONCE = 4096
"""Rows whose entries are made and added at once."""


def check_cells(actions: CellMeasure, contexts: CellMeasure) -> None:
    """Refuse more cells than integer sums are exact over."""
    cells = actions.size * contexts.size
    if cells > MOST_CELLS:
        raise InvalidParameter(f"{cells} cells: integer sums are exact up to {MOST_CELLS}; use coarser bins")


def reference_of(reference: float | None, span: RewardRange) -> tuple[float, float]:
    """Where rewards are counted from, by default the middle, and how far from there they can lie."""
    centre = span.middle
    if reference is not None:
        centre = _checks.number(reference, name="reference", minimum=-math.inf, exclusive=False)
    if not span.low <= centre <= span.high:
        raise InvalidParameter("reference: expected a reward inside the reward range")
    return centre, max(span.high - centre, centre - span.low)


def one_row(context: ArrayLike) -> FloatArray:
    """(1, d) one context (d,), or a number, whatever it says; its columns are checked where it is located.

    Raises:
        InvalidData: several contexts.
    """
    rows = np.atleast_2d(contents(context, name="context"))
    if rows.ndim != 2 or len(rows) != 1:
        raise InvalidData(f"context: expected one, of shape (d,), got shape {rows.shape}")
    return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class RowRules(ABC):
    """What every shard of one `ExploreThenCommit` knows: public bounds and caps.

    Args:
        actions: public cells, and the law that actions were drawn from.
        reward_range: public (low, high).
        reference: rewards are counted from here.
        bound: B, the largest weight times distance from the reference that is kept.
        horizon: rows in all.
        rounds_per_user: rows one user may have.
        user_ids: whether rows name their user.
        caps: (k, n) integer caps.
        menu: contexts and arms, where rows are of people and not of points.
    """

    actions: CellMeasure
    reward_range: RewardRange
    reference: float
    bound: float
    horizon: int
    rounds_per_user: int
    user_ids: bool
    caps: IntArray
    menu: Menu | None = None

    @abstractmethod
    def coded(
        self,
        contexts: Any,
        actions: Any,
        rewards: ArrayLike,
        propensities: ArrayLike | None,
    ) -> tuple[IntArray, FloatArray, BoolArray]:
        """Rows as `entries` takes them: cells and values, in units of the bound, and which can be read (n,).

        A row that cannot be read (a context or action off the public cells, a propensity outside (0, 1], a
        reward off the range, anything missing) has the value zero, whatever else stands in it.

        Raises:
            InvalidData: not one context, action, reward and propensity a row, or arrays of another type.
        """

    def entries(self, cells: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Cells (n,) or (n, r) that rows of `coded` add to, and what each adds: for a few rows at a time."""
        return cells, values

    def weighted(
        self, count: int, actions: Any, rewards: ArrayLike, propensities: ArrayLike | None
    ) -> tuple[IntArray, FloatArray, BoolArray]:
        """Action cells (n,), weighted rewards (n,) as `coded` gives them, and which of these can be read.

        Args:
            count: of contexts.
            actions, rewards, propensities: see `Shard.learn`.
        """
        action_cells, told = self._action_cells(actions), contents(rewards, name="rewards")
        chances = np.ones(len(told)) if propensities is None else contents(propensities, name="propensities")
        if not (count,) == action_cells.shape == told.shape == chances.shape:
            raise InvalidData(
                f"{count} contexts, {len(action_cells)} actions, rewards of shape {told.shape}, "
                f"propensities of shape {chances.shape}: expected one of each a row"
            )
        values, readable = self.reward_range.within(told)
        readable &= (action_cells >= 0) & (chances > 0.0) & (chances <= 1.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scaled: FloatArray = (values - self.reference) / self.bound
            if propensities is not None:
                weights = self.actions.weights[np.maximum(action_cells, 0)] / chances
                # never NaN: a weight may be as large as float64 goes, and nothing times it is nothing
                scaled = np.where((scaled == 0.0) | (weights == 0.0), 0.0, scaled * weights)
        return action_cells, np.where(readable, scaled, 0.0), np.asarray(readable)

    def _action_cells(self, actions: Any) -> IntArray:
        """(n,) cells of actions, -1 for an action that is in none.

        Actions are labels if there is a menu, and points (n,) or (n, d) otherwise, whatever their type.
        """
        if self.menu is not None:
            return self.menu.cells(actions)
        return self.actions.find(
            self.actions.rows(contents(actions, name="actions", width=self.actions.dim), name="actions")
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class CellRules(RowRules):
    """Every row in one cell of an action and a context.

    Args:
        contexts: public cells.
    """

    contexts: CellMeasure

    def coded(
        self, contexts: Any, actions: Any, rewards: ArrayLike, propensities: ArrayLike | None
    ) -> tuple[IntArray, FloatArray, BoolArray]:
        """Cells (n,) and weighted rewards (n,) from the reference in units of the bound."""
        if self.menu is None:
            found = contents(contexts, name="contexts", width=self.contexts.dim)
        else:
            found = self.menu.points(contexts)
        places = self.contexts.find(self.contexts.rows(found, name="contexts"))
        chosen, scaled, readable = self.weighted(len(places), actions, rewards, propensities)
        readable &= places >= 0
        cells = np.where(readable, chosen * self.contexts.size + places, 0)
        return cells, np.where(readable, scaled, 0.0), readable


class Shard:
    """Learns from rows; merged into others. Everything in it is raw data.

    Args:
        rules: shared by all shards.
        lineage: of the `ExploreThenCommit` it belongs to.
        salt: secret key of the users' digests, shared by all shards.
    """

    def __init__(self, rules: RowRules, *, lineage: str, salt: bytes | None = None) -> None:
        self.rules, self.lineage = rules, lineage
        self.cells = RewardSums(rules.caps)
        self._users = UserCounts(salt)
        self._left_out = np.zeros(2, dtype=np.int64)  # rows that could not be read, and surplus rows
        self._parts = {secrets.token_bytes(_PART_BYTES)}  # this shard, and all that were merged into it

    def __repr__(self) -> str:
        return f"Shard(lineage={self.lineage[:8]!r})"

    @property
    def rows_brought(self) -> int:
        """How many rows `learn` was given, here and in what was merged: public."""
        return int(self.cells.rounds + self._left_out[1])

    def fresh(self) -> "Shard":
        """An empty shard for another machine or another part of the log: one for each."""
        return Shard(self.rules, lineage=self.lineage, salt=self._users.salt)

    def learn(
        self,
        contexts: Any,
        actions: Any,
        rewards: ArrayLike,
        *,
        propensities: ArrayLike | None = None,
        users: Sequence[object] | Owners | None = None,
    ) -> None:
        """Add rows: contexts (n, d), actions (n,) or (n, d), rewards (n,).

        A row takes one of the horizon's places and one of its user's, whatever else stands in it. A row that
        cannot be read (see `RowRules.coded`) counts zero. Surplus rows are dropped and take no place: a
        user's beyond `rounds_per_user`, all beyond the horizon, and, if ids are counted, rows without a
        readable id. The first in the order given are kept. A user who brings up to
        k rows moves at most k rows in or out in all, which is no more than replacing k: the noise covers it.
        `unsafe_left_out` says how many were left out.

        Args:
            contexts: inside the public range; of people as `Menu.points` takes them.
            actions: points; of people labels of arms.
            rewards: inside the reward range, or clipped to it.
            propensities: (n,) chance each row's action had, by a public function of public strata; leave it
                out where actions were drawn from the law of actions.
            users: (n,) ids of the persons the rows belong to. A row without a readable id is surplus.

        Raises:
            InvalidData: arrays of other shapes, or not one user a row; nothing was learned.
        """
        cells, values, readable = self.rules.coded(contexts, actions, rewards, propensities)
        owners = self._owners(users, len(cells))
        digests = self._users.digests_of(owners.texts)
        kept = self._kept(owners, len(cells), had=self._users.had(digests))
        grown, counted = self.cells, np.flatnonzero(kept)
        for start in range(0, len(counted), ROWS_AT_ONCE):
            part = counted[start : start + ROWS_AT_ONCE]
            grown = grown.with_rows(*self.rules.entries(cells[part], values[part]))
        left_out = self._left_out + _left_out(kept, readable)
        # users first: whatever interrupts this may lose rows, and never lets a user have more of them
        if self.rules.user_ids:
            self._users.add_rows(digests, np.bincount(owners.numbers[kept], minlength=len(digests)))
        self.cells, self._left_out = grown, left_out

    def unsafe_rehearse(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        *,
        propensities: ArrayLike | None = None,
        users: Sequence[object] | Owners | None = None,
    ) -> dict[str, int]:
        """What `learn` would leave out if it learned these rows first, and its errors: nothing is learned."""
        cells, _, readable = self.rules.coded(contexts, actions, rewards, propensities)
        kept = self._kept(self._owners(users, len(cells)), len(cells), had=0)
        return _named(_left_out(kept, readable))

    def _kept(self, owners: Owners, count: int, *, had: IntArray | int) -> BoolArray:
        """(n,) which rows count, whose persons had so many before."""
        kept = np.ones(count, dtype=np.bool_)
        if self.rules.user_ids:
            kept = first_rows(owners.numbers, self.rules.rounds_per_user, had)
        kept &= np.cumsum(kept) <= self.rules.horizon - self.cells.rounds
        return kept

    @property
    def unsafe_left_out(self) -> dict[str, int]:
        """How many rows counted zero, as they could not be read, or were dropped as surplus. Raw data."""
        return _named(self._left_out)

    def merge(self, other: "Shard") -> None:
        """Take over another shard of the same `ExploreThenCommit`.

        Sums cannot give a row back: keep all rows of one person in one shard, and surplus rows are dropped
        there. A shard that would bring somebody more rows than are covered is refused as a whole.

        Raises:
            IncompatibleState: a shard of something else.
            HorizonExceeded: together they have too many rows.
            ContributionExceeded: a user has too many, or the shard, or a part of it, was merged before.
        """
        if other.lineage != self.lineage:
            raise IncompatibleState(
                "the shard belongs to another ExploreThenCommit: make it with fresh() of this one"
            )
        if not self._parts.isdisjoint(other._parts):
            raise ContributionExceeded(
                "this shard, or a part or copy of it, was merged before, and its rows would count twice: "
                "give every part of the log a fresh() shard of its own, and merge it once, when it is done"
            )
        if self.cells.rounds + other.cells.rounds > self.rules.horizon:
            raise HorizonExceeded(
                f"together the shards have more rows than the horizon {self.rules.horizon} of the estimator: "
                "build it with a longer one"
            )
        together = self._users.merged(other._users)
        if max(together.values(), default=0) > self.rules.rounds_per_user:
            raise ContributionExceeded(
                f"together a user has more than {self.rules.rounds_per_user} row(s), which is what the noise "
                "covers; nothing was merged: keep all rows of one person in one shard"
            )
        grown = self.cells.merged(other.cells)
        self._parts |= other._parts
        self._users.replace(together)
        self.cells, self._left_out = grown, self._left_out + other._left_out

    def save(self, path: str | PathLike[str]) -> None:
        """Write the raw sums, mode 0600: keep the file as the data is kept."""
        state = State(kind=_KIND, version=1, lineage=self.lineage, position=0, arrays=self.arrays())
        write_state(path, state)

    def load_sums(self, path: str | PathLike[str]) -> "Shard":
        """A shard that `save` wrote, with this one's rules.

        Raises:
            IncompatibleState: a file of something else.
            CorruptState: damaged.
        """
        state = read_state(path)
        if state.kind != _KIND or state.version != 1 or state.lineage != self.lineage:
            raise IncompatibleState("the file is not a shard of this ExploreThenCommit")
        shard = self.fresh()
        shard.restore(state.arrays)
        return shard

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """What `restore` needs."""
        parts = b"".join(sorted(self._parts))
        return {
            "caps": self.rules.caps.copy(),
            "sums": self.cells.sums.copy(),
            "rounds": np.array(self.cells.rounds),
            "parts": np.frombuffer(parts, dtype=np.uint8).reshape(-1, _PART_BYTES).copy(),
            "left_out": self._left_out.copy(),
            **self._users.arrays(**_USER_NAMES),
        }

    def restore(self, arrays: Any) -> None:
        """Take up saved arrays."""
        with reading("the saved sums", CorruptState):
            self.cells = RewardSums(self.rules.caps, arrays["sums"].copy(), int(arrays["rounds"]))
            users = UserCounts.restored(arrays, **_USER_NAMES)
            parts = {row.tobytes() for row in arrays["parts"]}
            left_out = np.array(arrays["left_out"], dtype=np.int64)
            caps = arrays["caps"]
        whole = set(map(len, parts)) <= {_PART_BYTES} and left_out.shape == (2,)
        if not whole or not np.array_equal(caps, self.rules.caps):
            raise CorruptState("the saved sums contradict the saved configuration")
        self._users, self._parts, self._left_out = users, parts, left_out

    def _owners(self, users: Sequence[object] | Owners | None, count: int) -> Owners:
        if not self.rules.user_ids:
            if users is not None:
                raise InvalidData(
                    "users were given to a policy built with JointDP(..., user_ids=False): leave them out, "
                    "or build it with JointDP(..., user_ids=True)"
                )
            return Owners.of((), count=0)
        if users is None:
            raise InvalidData(
                "every row needs its user: pass users=, one id a row, or build with JointDP(..., "
                "user_ids=False), which makes the bound on rows per user an unchecked assumption"
            )
        return Owners.of(users, count=count)


def _left_out(kept: BoolArray, readable: BoolArray) -> IntArray:
    return np.array([(kept & ~readable).sum(), (~kept).sum()], dtype=np.int64)


def _named(left_out: IntArray) -> dict[str, int]:
    unreadable, surplus = left_out.tolist()
    return {"unreadable": unreadable, "surplus": surplus}

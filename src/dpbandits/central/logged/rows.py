"""`Shard`: checks rows, and adds them to integer cell sums, on one machine.

A shard has raw statistics and no mechanism. Shards of one `ExploreThenCommit` are merged by adding integers,
so any division of the rows among shards gives the same sums, bit for bit.
"""

import hashlib
import hmac
import json
import math
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
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

__all__ = ["CellRules", "RowRules", "Shard", "check_cells", "digest_of_rows", "one_row", "reference_of"]

_KIND = "central.ExploreThenCommit.shard"
_USER_NAMES = {"salt": "salt", "users": "user_digests", "taken": "user_rows"}
_PART_BYTES = 8

LARGEST_WEIGHT = 2.0**80
"""Largest weight of a row; a larger one counts as this. Rewards are clipped long before."""

ROWS_AT_ONCE = 4096
"""Number of rows whose entries are computed and added together."""


def check_cells(actions: CellMeasure, contexts: CellMeasure) -> None:
    """Raise `InvalidParameter` if there are more cells than exact integer sums allow."""
    cells = actions.size * contexts.size
    if cells > MOST_CELLS:
        raise InvalidParameter(f"{cells} cells: integer sums are exact up to {MOST_CELLS}; use coarser bins")


def reference_of(reference: float | None, span: RewardRange) -> tuple[float, float]:
    """Return the reference that is subtracted from rewards, and the largest distance of a reward from it.

    The default reference is the middle of the range.
    """
    centre = span.middle
    if reference is not None:
        centre = _checks.number(reference, name="reference", minimum=-math.inf, exclusive=False)
    if not span.low <= centre <= span.high:
        raise InvalidParameter("reference: expected a reward inside the reward range")
    return centre, max(span.high - centre, centre - span.low)


def one_row(context: ArrayLike) -> FloatArray:
    """Return one context (d,), or a number, as a row (1, d). Its columns are checked later.

    Raises:
        InvalidData: There are several contexts.
    """
    rows = np.atleast_2d(contents(context, name="context"))
    if rows.ndim != 2 or len(rows) != 1:
        raise InvalidData(f"context: expected one, of shape (d,), got shape {rows.shape}")
    return rows


def digest_of_rows(key: bytes, public: Mapping[str, Any], rows: Mapping[str, Any]) -> str:
    """Return a digest, under a secret key, of public arguments and of every column of a log.

    Args:
        key: Secret key. With it and the digest anyone can test guesses of the rows.
        public: Public arguments, ready for JSON.
        rows: Columns by name: arrays, `Owners`, or None.
    """
    digest = hmac.new(key, json.dumps(public, sort_keys=True).encode(), hashlib.sha256)
    for name, values in sorted(rows.items()):
        for part in (values.numbers, values.texts) if isinstance(values, Owners) else (values,):
            if isinstance(part, np.ndarray):
                data: Any = np.ascontiguousarray(part).ravel().view(np.uint8)  # no copy
            else:
                data = json.dumps(part).encode()
            digest.update(f"\n{name} {len(data)}\n".encode())
            digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True, eq=False, kw_only=True)
class RowRules(ABC):
    """Base class of the rules by which all shards of one `ExploreThenCommit` turn rows into sums.

    Args:
        actions: Public cells, and the law from which actions were drawn.
        reward_range: Public range (low, high).
        reference: Public reward that is subtracted from rewards.
        bound: Clipping bound B of a row's weight times its centred reward.
        horizon: Largest total number of rows.
        rounds_per_user: Largest number of rows of one user.
        user_ids: True if rows name their user.
        caps: Integer caps, (k, n).
        menu: Contexts and arms; None if rows hold points.
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
        """Return n rows for `entries`: cells, values in units of the bound, and a mask (n,) of readable rows.

        A row cannot be read if its context or action is outside the public cells, its propensity outside (0,
        1], its reward outside the range, or anything is missing. Such a row has the value zero.

        Raises:
            InvalidData: Lengths differ, or arrays have another type.
        """

    def entries(self, cells: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the cells (n,) or (n, r) to which n coded rows add, and the values that they add."""
        return cells, values

    def weighted(
        self, count: int, actions: Any, rewards: ArrayLike, propensities: ArrayLike | None
    ) -> tuple[IntArray, FloatArray, BoolArray, FloatArray]:
        """Return action cells (n,), weighted rewards (n,) in units of the bound, a mask, and weights (n,).

        The mask is True for readable rows. All other rows have reward and weight zero.

        Args:
            count: Number of contexts.
            actions, rewards, propensities: See `Shard.learn`.
        """
        action_cells, told = self._action_cells(actions), contents(rewards, name="rewards")
        chances = np.ones(len(told)) if propensities is None else contents(propensities, name="propensities")
        if not (count,) == action_cells.shape == told.shape == chances.shape:
            raise InvalidData(
                f"{count} contexts, {len(action_cells)} actions, rewards of shape {told.shape}, "
                f"propensities of shape {chances.shape}: expected one of each per row"
            )
        values, readable = self.reward_range.within(told)
        even, most = self.even(np.maximum(action_cells, 0))
        readable &= (action_cells >= 0) & (chances > 0.0) & (chances <= most)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            scaled: FloatArray = (values - self.reference) / self.bound
            weights = np.ones(count)
            if propensities is not None:
                weights = self._clipped(np.minimum(even / chances, LARGEST_WEIGHT))
                scaled = np.where(weights == 0.0, 0.0, scaled * weights)
        scaled, weights = np.where(readable, scaled, 0.0), np.where(readable, weights, 0.0)
        return action_cells, scaled, np.asarray(readable), weights

    def _clipped(self, weights: FloatArray) -> FloatArray:
        """Return the weights (n,) by which rewards are multiplied."""
        return weights

    def even(self, cells: IntArray) -> tuple[FloatArray | float, float]:
        """Return the propensity of actions in cells (n,) if all were drawn evenly, and the largest one."""
        return self.actions.weights[cells], 1.0

    def _action_cells(self, actions: Any) -> IntArray:
        """Return the cells (n,) of actions, with -1 for an action that is in no cell.

        Actions are labels if there is a menu, and points (n,) or (n, d) of any type otherwise.
        """
        if self.menu is not None:
            return self.menu.cells(actions)
        return self.actions.find(
            self.actions.rows(contents(actions, name="actions", width=self.actions.dim), name="actions")
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class CellRules(RowRules):
    """Rules that put every row in one cell of an action and a context.

    Args:
        contexts: Public cells of contexts.
    """

    contexts: CellMeasure

    def coded(
        self, contexts: Any, actions: Any, rewards: ArrayLike, propensities: ArrayLike | None
    ) -> tuple[IntArray, FloatArray, BoolArray]:
        """Return cells (n,), weighted rewards (n,) in units of the bound, and a mask of readable rows."""
        if self.menu is None:
            found = contents(contexts, name="contexts", width=self.contexts.dim)
        else:
            found = self.menu.points(contexts)
        places = self.contexts.find(self.contexts.rows(found, name="contexts"))
        chosen, scaled, readable, _ = self.weighted(len(places), actions, rewards, propensities)
        readable &= places >= 0
        cells = np.where(readable, chosen * self.contexts.size + places, 0)
        return cells, np.where(readable, scaled, 0.0), readable


class Shard:
    """Sums of rows on one machine, which can be merged into other shards. All of it is raw data.

    Args:
        rules: Rules that all shards share.
        lineage: Lineage of the `ExploreThenCommit` to which the shard belongs.
        salt: Secret key of the users' digests, the same for all shards.
    """

    def __init__(self, rules: RowRules, *, lineage: str, salt: bytes | None = None) -> None:
        self.rules, self.lineage = rules, lineage
        self.cells = RewardSums(rules.caps)
        self._users = UserCounts(salt)
        self._left_out = np.zeros(2, dtype=np.int64)  # numbers of unreadable and of surplus rows
        self._parts = {secrets.token_bytes(_PART_BYTES)}  # ids of this shard and all that were merged into it

    def __repr__(self) -> str:
        return f"Shard(lineage={self.lineage[:8]!r})"

    @property
    def rows_brought(self) -> int:
        """Public number of rows that were passed to `learn`, here and in merged shards."""
        return int(self.cells.rounds + self._left_out[1])

    def fresh(self) -> "Shard":
        """Return an empty shard. Make one for each machine or part of the log."""
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

        Every row uses one place of the horizon and one of its user's, whatever it contains. A row that cannot
        be read (see `RowRules.coded`) counts zero. Surplus rows are dropped and use no place: a user's rows
        beyond `rounds_per_user`, all rows beyond the horizon, and, if ids are counted, rows without a
        readable id. Rows are taken in the given order.

        A user with up to k rows adds or removes at most k counted rows in total. This is no more than
        replacing k rows, which the noise covers. `unsafe_left_out` tells how many rows were left out.

        Args:
            contexts: Contexts in the public range; with a menu, as `Menu.points` takes them.
            actions: Points; with a menu, labels of arms.
            rewards: Rewards in the reward range, or clipped to it.
            propensities: Chances (n,) of the rows' actions, by a public function of public strata. Leave them
                out if actions were drawn from the law of actions. For a grid of actions, see
                `ExploreTuning.logged`. If an arm was offered in a public share of the rows only, multiply the
                chances of its rows by this share; otherwise its estimate tends to the reference.
            users: User ids (n,) of the rows. A row without a readable id is surplus.

        Raises:
            InvalidData: Arrays have other shapes, or their lengths differ; nothing was learned.
        """
        cells, values, readable = self.rules.coded(contexts, actions, rewards, propensities)
        owners = self._owners(users, len(cells))
        digests = self._users.digests_of(owners.texts)
        kept = self._kept(owners, len(cells), had=self._users.had(digests))
        grown, counted = self.cells, np.flatnonzero(kept)
        for start in range(0, len(counted), ROWS_AT_ONCE):
            part = counted[start : start + ROWS_AT_ONCE]
            grown = grown.with_rows(*self.rules.entries(cells[part], values[part]))
        left_out = self._left_out + np.array([(kept & ~readable).sum(), (~kept).sum()])
        # users first: an interruption may then lose rows, but never lets a user have more of them
        if self.rules.user_ids:
            self._users.add_rows(digests, np.bincount(owners.numbers[kept], minlength=len(digests)))
        self.cells, self._left_out = grown, left_out

    def _kept(self, owners: Owners, count: int, *, had: IntArray) -> BoolArray:
        """Return a mask (n,) of rows that count, given the numbers of rows that their users had before."""
        kept = np.ones(count, dtype=np.bool_)
        if self.rules.user_ids:
            kept = first_rows(owners.numbers, self.rules.rounds_per_user, had)
        kept &= np.cumsum(kept) <= self.rules.horizon - self.cells.rounds
        return kept

    @property
    def unsafe_left_out(self) -> dict[str, int]:
        """Numbers of rows that were unreadable and contributed zero, or were dropped. They are raw data."""
        unreadable, surplus = self._left_out.tolist()
        return {"unreadable": unreadable, "surplus": surplus}

    def merge(self, other: "Shard") -> None:
        """Add another shard of the same `ExploreThenCommit`.

        A row cannot be removed from sums. So put all rows of one user into one shard, which then drops
        surplus rows. A shard with which a user would have more rows than the noise covers is refused as a
        whole.

        Raises:
            IncompatibleState: The shard belongs to another object.
            HorizonExceeded: Both shards together have too many rows.
            ContributionExceeded: A user has too many rows, or the shard, or a part of it, was merged before.
        """
        if other.lineage != self.lineage:
            raise IncompatibleState(
                "the shard belongs to another ExploreThenCommit: make it with fresh() of this one"
            )
        if not self._parts.isdisjoint(other._parts):
            raise ContributionExceeded(
                "this shard, or a part or copy of it, was merged before, and its rows would count twice. "
                "Make a fresh() shard for every part of the log, and merge it once, when it is complete"
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
                "covers; nothing was merged: keep all rows of one user in one shard"
            )
        grown = self.cells.merged(other.cells)
        self._parts |= other._parts
        self._users.replace(together)
        self.cells, self._left_out = grown, self._left_out + other._left_out

    def save(self, path: str | PathLike[str]) -> None:
        """Write the raw sums to a file of mode 0600. Protect it as you protect the data."""
        state = State(kind=_KIND, version=1, lineage=self.lineage, position=0, arrays=self.arrays())
        write_state(path, state)

    def load_sums(self, path: str | PathLike[str]) -> "Shard":
        """Return a shard from a file that `save` wrote, with the rules of this shard.

        Raises:
            IncompatibleState: The file belongs to another object.
            CorruptState: The file is damaged.
        """
        state = read_state(path)
        if state.kind != _KIND or state.version != 1 or state.lineage != self.lineage:
            raise IncompatibleState("the file is not a shard of this ExploreThenCommit")
        shard = self.fresh()
        shard.restore(state.arrays)
        return shard

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays that `restore` needs."""
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
        """Restore saved arrays."""
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
                "every row needs its user: pass users=, one id per row, or build with JointDP(..., "
                "user_ids=False), which makes the bound on rows per user an unchecked assumption"
            )
        return Owners.of(users, count=count)

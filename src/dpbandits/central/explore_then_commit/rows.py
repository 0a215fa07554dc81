"""One machine's part of the learning: checks rows, and adds them to integer cell sums.

A shard holds raw statistics and no mechanism. Shards of one `ExploreThenCommit` are merged by adding
integers, so that any split of the rows gives the same sums, bit for bit.
"""

import math
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._checks import as_numbers
from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.explore_then_commit.sums import MOST_CELLS, RewardSums
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
from dpbandits.policy.bookkeeping import user_digest
from dpbandits.state import State, read_state, write_state

__all__ = ["RowRules", "Shard", "check_cells", "one_row", "reference_of"]

_KIND = "central.USCA.shard"
_DIGEST_BYTES = 16
_PART_BYTES = 8


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
    """(1, d) one context (d,), or a number; its columns are checked where it is located.

    Raises:
        InvalidData: several contexts.
    """
    rows = np.atleast_2d(as_numbers(context, name="context"))
    if rows.ndim != 2 or len(rows) != 1:
        raise InvalidData(f"context: expected one, of shape (d,), got shape {rows.shape}")
    return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class RowRules:
    """What every shard of one `ExploreThenCommit` knows: public cells, bounds and caps.

    Args:
        contexts, actions: public cells and, for actions, the law they were drawn from.
        reward_range: public (low, high).
        reference: rewards are counted from here.
        bound: B, the largest weight times distance from the reference that is kept.
        clip: move rewards outside the range to it.
        horizon: rows in all.
        rounds_per_user: rows one user may have.
        user_ids: whether rows name their user.
        caps: (k, n) integer caps.
    """

    contexts: CellMeasure
    actions: CellMeasure
    reward_range: RewardRange
    reference: float
    bound: float
    clip: bool
    horizon: int
    rounds_per_user: int
    user_ids: bool
    caps: IntArray

    def action_cells(self, actions: ArrayLike) -> IntArray:
        """Cells (n,) of actions: integers are cell numbers, anything else points (n, d)."""
        as_numbers(actions, name="actions")  # refuses masks, objects, text
        given = np.asarray(actions)
        if given.dtype.kind in "iu" and given.ndim == 1:
            if ((given < 0) | (given >= self.actions.size)).any():
                raise InvalidData(f"actions are no numbers of the {self.actions.size} public actions")
            return given.astype(np.int64)
        return self.actions.locate(given, name="actions")

    def centred(self, rewards: ArrayLike, weights: FloatArray | None) -> FloatArray:
        """(n,) rewards from the reference in units of the bound, times weights; clipped later.

        Never NaN: a weight may be as large as float64 goes, and nothing times it is nothing.
        """
        values = self.reward_range.validate(rewards, clip=self.clip)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled: FloatArray = (values - self.reference) / self.bound
            if weights is None:
                return scaled
            return np.where((scaled == 0.0) | (weights == 0.0), 0.0, scaled * weights)

    def weights(self, cells: IntArray, propensities: ArrayLike | None) -> FloatArray | None:
        """(n,) law of actions over propensities, or None where actions came from the law itself."""
        if propensities is None:
            return None
        chances = as_numbers(propensities, name="propensities")
        if chances.shape != cells.shape:
            raise InvalidData(f"propensities: expected shape {cells.shape}, got {chances.shape}")
        if not ((chances > 0.0) & (chances <= 1.0)).all():
            raise InvalidData(
                "propensities lie outside (0, 1] or are missing: every row's action had a known chance above "
                "zero; rows whose action could not happen do not belong into the log"
            )
        with np.errstate(over="ignore"):
            return np.asarray(self.actions.weights[cells] / chances)


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
        self._salt = secrets.token_bytes(_DIGEST_BYTES) if salt is None else salt
        self._users: Counter[bytes] = Counter()
        self._parts = {secrets.token_bytes(_PART_BYTES)}  # this shard, and all that were merged into it

    def __repr__(self) -> str:
        return f"Shard(lineage={self.lineage[:8]!r})"

    def fresh(self) -> "Shard":
        """An empty shard for another machine or another part of the log: one for each."""
        return Shard(self.rules, lineage=self.lineage, salt=self._salt)

    def learn(
        self,
        contexts: ArrayLike,
        actions: ArrayLike,
        rewards: ArrayLike,
        *,
        propensities: ArrayLike | None = None,
        users: Sequence[object] | None = None,
    ) -> None:
        """Add rows: contexts (n, d), actions (n,) or (n, d), rewards (n,); all checked before any counts.

        Args:
            contexts: inside the public range.
            actions: integer cell numbers, or points.
            rewards: inside the reward range, or clipped to it.
            propensities: (n,) chance each row's action had, by a public function of public strata; leave it
                out where actions were drawn from the law of actions.
            users: (n,) ids of the persons the rows belong to.

        Raises:
            InvalidData: rows off the public ranges, propensities outside (0, 1], users missing.
            HorizonExceeded: more rows than the noise is calibrated to.
            ContributionExceeded: a user has more rows than are covered.
        """
        rules = self.rules
        action_cells = rules.action_cells(actions)
        context_cells = rules.contexts.locate(contexts, name="contexts")
        if action_cells.shape != context_cells.shape or np.shape(rewards) != action_cells.shape:
            raise InvalidData(
                f"{len(context_cells)} contexts, {len(action_cells)} actions and rewards of shape "
                f"{np.shape(rewards)}: expected one of each a row"
            )
        values = rules.centred(rewards, rules.weights(action_cells, propensities))
        self._check_horizon(len(values))
        fresh = self._check_users(users, len(values))
        grown = self.cells.with_rows(action_cells * rules.contexts.size + context_cells, values)
        # users first: whatever interrupts this may lose rows, and never lets a user have more of them
        self._users.update(fresh)
        self.cells = grown

    def merge(self, other: "Shard") -> None:
        """Take over another shard of the same `ExploreThenCommit`.

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
        self._check_horizon(other.cells.rounds)
        self._check_counts(other._users)
        grown = self.cells.merged(other.cells)
        self._parts |= other._parts
        self._users.update(other._users)
        self.cells = grown

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
        digests, parts = b"".join(self._users), b"".join(sorted(self._parts))
        return {
            "caps": self.rules.caps.copy(),
            "sums": self.cells.sums.copy(),
            "rounds": np.array(self.cells.rounds),
            "unit_digests": np.frombuffer(digests, dtype=np.uint8).reshape(-1, _DIGEST_BYTES).copy(),
            "parts": np.frombuffer(parts, dtype=np.uint8).reshape(-1, _PART_BYTES).copy(),
            "unit_rows": np.array(list(self._users.values()), dtype=np.int64),
            "salt": np.frombuffer(self._salt, dtype=np.uint8).copy(),
        }

    def restore(self, arrays: Any) -> None:
        """Take up saved arrays."""
        try:
            self.cells = RewardSums(self.rules.caps, arrays["sums"].copy(), int(arrays["rounds"]))
            digests, counts = arrays["unit_digests"], arrays["unit_rows"]
            pairs = zip(digests, counts, strict=True)
            self._users = Counter({row.tobytes(): int(count) for row, count in pairs})
            self._parts = {row.tobytes() for row in arrays["parts"]}
            self._salt = arrays["salt"].tobytes()
            lengths = {len(self._salt), *map(len, self._users), *(2 * len(part) for part in self._parts)}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptState("the saved sums are incomplete") from error
        if lengths != {_DIGEST_BYTES} or not np.array_equal(arrays["caps"], self.rules.caps):
            raise CorruptState("the saved sums contradict the saved configuration")

    def _check_horizon(self, more: int) -> None:
        if self.cells.rounds + more > self.rules.horizon:
            raise HorizonExceeded(
                f"more rows than the horizon {self.rules.horizon} that the estimator was set up for: build "
                "it with a longer horizon"
            )

    def _check_users(self, users: Sequence[object] | None, count: int) -> Counter[bytes]:
        if not self.rules.user_ids:
            if users is not None:
                raise InvalidData("users were given to a policy built with user_ids=False: leave them out")
            return Counter()
        if users is None or len(users) != count:
            raise InvalidData(
                "every row needs its user: pass users=, one id a row, or build with user_ids=False, which "
                "makes the bound on rows per user an unchecked assumption"
            )
        fresh = Counter(user_digest(user, self._salt) for user in users)
        self._check_counts(fresh)
        return fresh

    def _check_counts(self, fresh: Counter[bytes]) -> None:
        limit = self.rules.rounds_per_user
        if any(self._users[digest] + rows > limit for digest, rows in fresh.items()):
            raise ContributionExceeded(
                f"a user has more than {limit} row(s), which is what the noise covers; nothing was learned: "
                f"keep {limit} row(s) a user by a public rule, or raise rounds_per_user"
            )

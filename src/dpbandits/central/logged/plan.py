r"""Integer tables that a release needs of a log, stated as public numbers, and their reference computation.

A `SumsPlan` says which tables a release adds up. Two executors compute them, with equal integers: NumPy here,
and an engine where the data is (`dpbandits.central.logged.engine`). A release of features needs two plans.
The first counts contexts in the cells of all columns. The second adds up rewards in the cells of arms and all
columns, in which every entry has a public cap. Both plans keep the same rows of a log.

**Coded row.** Public rules turn a row into the code of its arm and a level of each column of contexts. Its
reward becomes an integer y of at most U = 2^20 in size, and its weight an integer w from 0 to V. A mark says
that the row can be read. Otherwise all of these are zero. The digits are packed, without loss, into integers
below 2^62, which are the row's words.

**Rows that count.** At most k rows of a user count. Sort a user's n rows by their words, and number them
r = 0, ..., n - 1. Identical rows may be numbered in any order. Let s be the first 52 bits of the SHA-256 of a
secret and the user's id. Row r counts if

    ((r + s) mod n) k mod n < k.

These are all rows if n <= k. Otherwise every t = (r + s) mod n below n belongs to one row. The condition
holds for the first integer t that is at least j n / k, for j = 0, ..., k - 1, and for no other t. So exactly
k rows count, evenly spaced among the sorted ones. Over secrets, each row of a user counts with probability
k/n, up to n / 2^52. Users are independent, so sums over many users represent all their rows. A row that
cannot be read may take one of the k places. Which rows of a user count depends on this user's id and rows and
on the secret alone. So privacy does not rest on its secrecy.

**Size.** A sum is at most U times the number of rows in size. So int64 holds the sums, and noise on them, of
`MOST_ROWS` = 2^42 rows. There is no other limit: rows beyond the horizon count, too.
"""

import hashlib
import hmac
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.logged.rows import CellRules
from dpbandits.central.logged.sums import REWARD_UNIT
from dpbandits.central.logged.tables import TableRelease
from dpbandits.tables.owners import Owners

__all__ = [
    "MOST_PER_USER",
    "CodedRows",
    "SumTable",
    "SumsPlan",
    "digits_by_word",
    "order_prefix",
    "packed",
    "rows_that_count",
]

MOST_PER_USER = 2**20
"""Largest number of a user's rows that count: with `MOST_ROWS` rows, n k is below 2^63."""

UNITS = round(1.0 / REWARD_UNIT)
"""Number U of integer units in the reward bound."""

_WORD = 2**62


def order_prefix(secret: bytes) -> str:
    """Return the text that stands before a user's id, where it is hashed for the order of the user's rows."""
    return hmac.new(secret, b"order of a user's rows", hashlib.sha256).hexdigest()[:32]


@dataclass(frozen=True)
class SumTable:
    """One of the tables: every readable row that counts adds to one of its entries.

    The entry is `start` + `stride` r + cell. Here r is the row's arm, or the row of its arm, and the cell is
    its levels of `columns` as digits of one number, the first one highest.

    Attributes:
        adds: "reward" if a row adds y, "weight" if it adds w, "count" if it adds 1.
        start: First entry.
        by: Meaning of r: "arm", or "row" for `SumsPlan.row_of`; None if r is zero.
        stride: Distance of the entries of two values of r.
        columns: Columns of contexts.
    """

    adds: Literal["reward", "weight", "count"]
    start: int
    by: Literal["arm", "row"] | None = None
    stride: int = 1
    columns: tuple[int, ...] = ()


class CodedRows(NamedTuple):
    """Coded rows of a log; see the module. They are raw data.

    Attributes:
        arms: Codes of arms (n,).
        levels: Levels (n, d).
        rewards: Integers y (n,).
        weights: Integers w (n,).
        readable: Mask (n,).
    """

    arms: IntArray
    levels: IntArray
    rewards: IntArray
    weights: IntArray
    readable: BoolArray

    def __repr__(self) -> str:
        return f"CodedRows(rows={len(self.arms)})"

    @classmethod
    def of(cls, cells: IntArray, added: FloatArray, readable: BoolArray) -> Self:
        """Return the coded rows of n cells: levels and arm (n, d + 1), and rewards and weights (n, 2)."""
        digits = np.where(readable[:, None], cells, 0)
        whole = np.rint(np.clip(added[:, :2], -1.0, 1.0) * UNITS).astype(np.int64)
        return cls(digits[:, -1], digits[:, :-1], whole[:, 0], whole[:, 1], readable)

    def at(self, rows: IntArray | BoolArray) -> "CodedRows":
        """Return some of the rows, by number or by a mask (n,)."""
        arms, levels, rewards, weights, readable = self
        return CodedRows(arms[rows], levels[rows], rewards[rows], weights[rows], readable[rows])


@dataclass(frozen=True, kw_only=True)
class SumsPlan:
    """Public description of the integer tables that a release needs of a log.

    Attributes:
        sizes: Number of levels of each of d columns of contexts.
        n_arms: Number K of arms.
        row_of: Row (K,) of the reward tables to which each arm belongs.
        rewards: Columns of each reward table.
        counts: Columns of each table of counts.
        alone: True if one more table of rewards has an entry for each arm.
        weight_units: Largest weight V of a row; 0 if there is no table of weights.
        rows_per_user: Number k <= `MOST_PER_USER` of a user's rows that count; None if rows have no user.
        caps: Largest size of a row's y in every entry of the one reward table; empty if that is U.
    """

    sizes: tuple[int, ...]
    n_arms: int
    row_of: tuple[int, ...]
    rewards: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    alone: bool
    weight_units: int
    rows_per_user: int | None
    caps: tuple[int, ...] = ()

    @classmethod
    def of(cls, tables: TableRelease, *, user_ids: bool) -> Self:
        """Return what a release of these tables needs, of a log with or without user ids."""
        rewards, counts = tables.summed
        return cls(
            sizes=tables.fine,
            n_arms=tables.menu.n_arms,
            row_of=tuple(tables.row_of.tolist()),
            rewards=rewards.groups,
            counts=counts.groups,
            alone=tables.n_alone > 0,
            weight_units=tables.weight_units(len(rewards.groups)) if tables.n_weighed else 0,
            rows_per_user=min(tables.privacy.rounds_per_user, MOST_PER_USER) if user_ids else None,
        )

    @classmethod
    def of_cells(cls, rules: CellRules, caps: Sequence[int] | None) -> Self:
        """Return what a release of features needs, of a log with or without user ids.

        Args:
            rules: Rules that put rows in cells of an arm and a context.
            caps: Integer caps of the cells; None for the counts of contexts.
        """
        every = (tuple(range(len(rules.contexts.shape))),)
        return cls(
            sizes=rules.contexts.shape,
            n_arms=rules.actions.size,
            row_of=tuple(range(rules.actions.size)),
            rewards=() if caps is None else every,
            counts=every if caps is None else (),
            alone=False,
            weight_units=0,
            rows_per_user=min(rules.rounds_per_user, MOST_PER_USER) if rules.user_ids else None,
            caps=() if caps is None else tuple(caps),
        )

    def coded(self, cells: IntArray, added: FloatArray, readable: BoolArray) -> CodedRows:
        """Return the coded rows of the result of `TableRules.coded` or `CellRules.coded`."""
        if cells.ndim == 1:
            arms, places = np.divmod(cells, math.prod(self.sizes))
            cells = np.column_stack([*np.unravel_index(places, self.sizes), arms])
            added = np.column_stack([added, np.zeros(len(added))])
        return CodedRows.of(cells, added, readable)

    @cached_property
    def tables(self) -> tuple[SumTable, ...]:
        """All tables, in the order of their entries."""
        return tuple(self._tables())

    def _tables(self) -> Iterator[SumTable]:
        stride, start = sum(map(self.cells, self.rewards)), 0
        for columns in self.rewards:
            yield SumTable("reward", start, "row", stride, columns)
            start += self.cells(columns)
        rewards, weights = self.regions
        if self.alone:
            yield SumTable("reward", rewards - self.n_arms, "arm")
        if self.weight_units:
            yield SumTable("weight", rewards, "row")
        for columns in self.counts:
            yield SumTable("count", weights, columns=columns)
            weights += self.cells(columns)

    @property
    def regions(self) -> tuple[int, int]:
        """First entry after those of rewards, and first entry after those of weights. Counts come last."""
        rows, stride = max(self.row_of) + 1, sum(map(self.cells, self.rewards))
        rewards = rows * stride + self.alone * self.n_arms
        return rewards, rewards + rows * (self.weight_units > 0)

    def cells(self, columns: tuple[int, ...]) -> int:
        """Return the number of cells of a table over these columns."""
        return math.prod(self.sizes[column] for column in columns)

    @property
    def size(self) -> int:
        """Number of entries of all tables."""
        return self.regions[1] + sum(map(self.cells, self.counts))

    @property
    def radices(self) -> tuple[int, ...]:
        """Number of values of each digit of a coded row: arm, levels, y + U, w, and the mark of reading."""
        return (self.n_arms, *self.sizes, 2 * UNITS + 1, self.weight_units + 1, 2)

    def packed(self, rows: CodedRows) -> IntArray:
        """Return the words (n, s) of coded rows."""
        digits = [rows.arms, *rows.levels.T, rows.rewards + UNITS, rows.weights, rows.readable]
        return packed(digits, self.radices)

    def kept(self, rows: CodedRows, owners: Owners, secret: bytes) -> BoolArray:
        """Return a mask (n,) of the rows that count; see the module.

        Args:
            rows: Coded rows.
            owners: User of each row. A row without one does not count.
            secret: Secret of the order.
        """
        return rows_that_count(owners, self.rows_per_user, secret, lambda some: self.packed(rows.at(some)))

    def summed(self, rows: CodedRows, kept: BoolArray) -> IntArray:
        """Return the entries (size,) of all tables: sums of y and w, and U times counts of rows.

        Args:
            rows: Coded rows.
            kept: Mask (n,) of rows that count.
        """
        arms, levels, rewards, weights, _ = rows.at(kept & rows.readable)
        by = {"arm": arms, "row": np.asarray(self.row_of)[arms], None: np.zeros_like(arms)}
        adds = {"reward": rewards, "weight": weights, "count": np.full(len(arms), UNITS)}
        found = np.zeros(self.size, dtype=np.int64)
        for table in self.tables:
            cells = np.zeros(len(arms), dtype=np.int64)
            for column in table.columns:
                cells = cells * self.sizes[column] + levels[:, column]
            # A sum of fewer than 2^33 integers of at most 2^20 is exact in floating point.
            cells += by[table.by] * table.stride
            own_adds = adds[table.adds]
            if self.caps and table.adds == "reward":
                caps = np.array(self.caps)[cells]
                own_adds = np.clip(own_adds, -caps, caps)
            own = np.bincount(cells, weights=own_adds)
            found[table.start : table.start + len(own)] += own.astype(np.int64)
        return found


def digits_by_word(radices: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the digits of each word, the first one highest, so that each word is below 2^62."""
    found: list[list[int]] = [[]]
    for digit, radix in enumerate(radices):
        if math.prod(radices[one] for one in found[-1]) * radix >= _WORD:
            found.append([])
        found[-1].append(digit)
    return tuple(map(tuple, found))


def packed(digits: Sequence[IntArray | BoolArray], radices: Sequence[int]) -> IntArray:
    """Return the words (n, s) of n rows with these digits, each (n,)."""
    words = digits_by_word(radices)
    found = np.zeros((len(digits[0]), len(words)), dtype=np.int64)
    for word, own in enumerate(words):
        for digit in own:
            found[:, word] = found[:, word] * radices[digit] + digits[digit]
    return found


def rows_that_count(
    owners: Owners, most: int | None, secret: bytes, packed: Callable[[IntArray], IntArray]
) -> BoolArray:
    """Return a mask (n,) of the rows that count; see the module.

    Args:
        owners: User of each row. A row without one does not count.
        most: Number k of a user's rows that count; None if all rows count.
        secret: Secret of the order.
        packed: Function that returns the words (m, s) of m rows, from their numbers (m,).
    """
    of = owners.numbers
    if most is None:
        return np.ones(len(of), dtype=np.bool_)
    had = np.bincount(of[owners.named])
    kept = np.append(had <= most, False)[of]  # index -1 reads the appended False
    many = np.flatnonzero(~kept & owners.named)
    order = np.lexsort((*packed(many).T[::-1], of[many]))
    many = many[order]
    users, first, of = np.unique(of[many], return_index=True, return_inverse=True)
    before = order_prefix(secret)
    digests = (hashlib.sha256((before + owners.texts[user]).encode()) for user in users.tolist())
    starts = np.fromiter((int(one.hexdigest()[:13], 16) for one in digests), np.int64, len(users))
    n = had[users][of]
    kept[many] = (np.arange(len(many)) - first[of] + starts[of] % n) % n * most % n < most
    return kept

r"""Integer tables that a release needs of a log, stated as public numbers, and their reference computation.

A `SumsPlan` says which tables a release of marginal tables adds up. Two executors compute them, with equal
integers: NumPy here, and an engine where the data is (`dpbandits.central.logged.engine`).

**Coded row.** Public rules turn a row into the code of its arm and a level of each column of contexts. Its
reward becomes an integer y of at most U = 2^20 in size, and its weight an integer w from 0 to V. A mark says
that the row can be read. Otherwise all of these are zero. The digits are packed, without loss, into integers
below 2^62, which are the row's words.

**Rows that count.** At most k rows of a user count, chosen by a keyed order that does not depend on the order
of the table. Identical rows of a user get the numbers m = 1, 2, ... in any order. With secret numbers a, b, c
below the prime p = `PRIME`, let g be the value of the words' polynomial at a, starting with b, and

    x = (a g + c m) mod p,   h = x^3 mod p.

The rows with the k least (h, words, m) count. The cube is a permutation modulo p, as 3 does not divide p - 1.
It keeps the places of identical rows from being an arithmetic progression, so a user's kept rows are close to
a uniform choice among the user's rows. A row that cannot be read may take one of the k places. A user's kept
rows depend on this user's rows and on the key alone, so privacy does not rest on the key's secrecy.

**Size.** A sum is at most U times the number of rows in size. So int64 holds the sums, and noise on them, of
`MOST_ROWS` = 2^42 rows. There is no other limit: rows beyond the horizon count, too.
"""

import hashlib
import hmac
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Self

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.logged.sums import REWARD_UNIT
from dpbandits.central.logged.tables import TableRelease

__all__ = ["PRIME", "CodedRows", "OrderKey", "SumTable", "SumsPlan"]

PRIME = 2_147_483_579
"""Largest prime below 2^31 with remainder 2 modulo 3.

Products of two residues fit into int64, and different residues have different cubes.
"""

UNITS = round(1.0 / REWARD_UNIT)
"""Number U of integer units in the reward bound."""

_WORD = 2**62
_HALF = 2**31


class OrderKey(NamedTuple):
    """Secret numbers of the order in which a user's rows count, from 1 to `PRIME` - 1."""

    a: int
    b: int
    c: int

    def __repr__(self) -> str:
        return "OrderKey()"

    @classmethod
    def of(cls, secret: bytes) -> Self:
        """Return the numbers that belong to a secret."""
        digest = hmac.new(secret, b"order of a user's rows", hashlib.sha256).digest()
        return cls(*(1 + int.from_bytes(digest[8 * i : 8 * i + 8]) % (PRIME - 1) for i in range(3)))

    def hashed(self, words: IntArray, number: IntArray) -> IntArray:
        """Return h (n,) of rows with words (n, s), which are number 1, 2, ... (n,) among identical rows."""
        found = np.full(len(words), self.b)
        for word in words.T:
            for half in (word // _HALF, word % _HALF):
                found = (found * self.a + half) % PRIME
        found = (found * self.a % PRIME + number % PRIME * self.c) % PRIME
        return found * found % PRIME * found % PRIME


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
        """Return the coded rows of the result of `TableRules.coded`."""
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
        rows_per_user: Number k of a user's rows that count; None if rows have no user.
    """

    sizes: tuple[int, ...]
    n_arms: int
    row_of: tuple[int, ...]
    rewards: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    alone: bool
    weight_units: int
    rows_per_user: int | None

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
            rows_per_user=tables.privacy.rounds_per_user if user_ids else None,
        )

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
        last = self.tables[-1]  # there is a table of counts for every column
        return last.start + self.cells(last.columns)

    @property
    def radices(self) -> tuple[int, ...]:
        """Number of values of each digit of a coded row: arm, levels, y + U, w, and the mark of reading."""
        return (self.n_arms, *self.sizes, 2 * UNITS + 1, self.weight_units + 1, 2)

    @cached_property
    def words(self) -> tuple[tuple[int, ...], ...]:
        """Digits of each word, the first one highest; a word is below 2^62."""
        found: list[list[int]] = [[]]
        for digit, radix in enumerate(self.radices):
            if math.prod(self.radices[one] for one in found[-1]) * radix >= _WORD:
                found.append([])
            found[-1].append(digit)
        return tuple(map(tuple, found))

    def packed(self, rows: CodedRows) -> IntArray:
        """Return the words (n, s) of coded rows."""
        digits = [rows.arms, *rows.levels.T, rows.rewards + UNITS, rows.weights, rows.readable]
        found = np.zeros((len(rows.arms), len(self.words)), dtype=np.int64)
        for word, own in enumerate(self.words):
            for digit in own:
                found[:, word] = found[:, word] * self.radices[digit] + digits[digit]
        return found

    def kept(self, rows: CodedRows, owners: IntArray, key: OrderKey) -> BoolArray:
        """Return a mask (n,) of the rows that count; see the module.

        Args:
            rows: Coded rows.
            owners: Number of each row's user (n,), -1 for a row without one, which does not count.
            key: Secret numbers of the order.
        """
        named = owners >= 0
        if self.rows_per_user is None:
            return np.ones(len(owners), dtype=np.bool_)
        few = np.bincount(owners[named]) <= self.rows_per_user
        kept = np.append(few, False)[owners]  # index -1 reads the appended False
        many = np.flatnonzero(~kept & named)
        words, of = self.packed(rows.at(many)), owners[many]
        order = np.lexsort((*words.T, of))
        words, of, many = words[order], of[order], many[order]
        number = 1 + _places((np.diff(words, axis=0, prepend=-1) != 0).any(axis=1) | _changes(of))
        order = np.lexsort((number, *words.T[::-1], key.hashed(words, number), of))
        kept[many[order]] = _places(_changes(of[order])) < self.rows_per_user
        return kept

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
            own = np.bincount(by[table.by] * table.stride + cells, weights=adds[table.adds])
            found[table.start : table.start + len(own)] += own.astype(np.int64)
        return found


def _changes(values: IntArray) -> BoolArray:
    """Return True at the first of each run of equal values (n,)."""
    return np.asarray(np.diff(values, prepend=-1) != 0)


def _places(begins: BoolArray) -> IntArray:
    """Return the place 0, 1, ... of each entry (n,) in its run, from a mask of the runs' first entries."""
    places = np.arange(len(begins))
    return places - np.maximum.accumulate(np.where(begins, places, 0))

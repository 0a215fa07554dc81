"""People as noisy tables of counts describe them: a weighted sample with about the same margins and pairs.

Counts come with noise of a known deviation. Margins are shrunk towards uniform and pairs towards
independence, by as much as James and Stein's estimator finds of noise in them; a tree of the strongest pairs
(Chow, Liu 1968) is sampled, and the sample's weights are raked to all pairs.

Two columns that a reward table holds together are counted in its bins, so that the people in each of its
cells are counted and not inferred. All other pairs are counted in few bins. Blocks may have different
bins: counts that can be summed to the same coarser bins are then added up there, and finer counts divide the
people within these. If pairs are not counted, columns are taken to be independent.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.marginals.tables import MOST_CELLS, Design, coarse

__all__ = ["LOCATED", "CountTable", "Counts", "Law", "WeightedPeople", "shrunk_law"]

SWEEPS = 8
"""Sweeps of raking over all pairs."""

FEW_COLUMNS, PAIR_BINS = 3, (8, 4)
"""Bins of a range in a pair that no reward table holds: the first number with at most so many columns."""

LOCATED = 4096
"""People whose entries are looked up at once."""

LEAST_SHARE = 1e-3
"""Least share of all people that a table of counts must hold to be kept."""

_LARGEST_STEP = 5.0
"""Most that one step of raking multiplies a weight by: noisy tables may contradict each other."""

_DIGITS, _APART = 9, 1e-14
"""Digits of a pair's information that are compared, and how much less a later pair counts if these are equal.
Last bits differ between processors, and must not decide which people are drawn."""


@dataclass(frozen=True)
class WeightedPeople:
    """A weighted sample: levels (M, d) and weights (M,) that sum to one."""

    levels: IntArray
    weights: FloatArray


def shrunk_law(noisy: FloatArray, towards: FloatArray, *, sd: float) -> FloatArray:
    """A law (...) from noisy shares: James and Stein's step towards another law, then made positive.

    Args:
        noisy: shares that sum to about one.
        towards: a law of the same shape.
        sd: of the noise of a share.

    Example:
        >>> shrunk_law(np.array([0.75, 0.25]), np.array([0.5, 0.5]), sd=0.0).tolist()
        [0.75, 0.25]
        >>> shrunk_law(np.array([0.6, 0.4]), np.array([0.5, 0.5]), sd=0.2).tolist()
        [0.5, 0.5]
    """
    apart = noisy - towards
    square = float((apart**2).sum())
    kept = 0.0 if square == 0.0 else max(0.0, 1.0 - noisy.size * sd**2 / square)
    law = np.maximum(towards + kept * apart, 0.0)
    total = law.sum()
    return np.asarray(law / total) if total > 0.0 else towards


class CountTable(NamedTuple):
    """Table of counts of one column or two, and the bins of each."""

    columns: tuple[int, ...]
    bins: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of entries."""
        return int(np.prod(self.bins, dtype=np.int64))


class Pooled(NamedTuple):
    """Counts (cells,) of one table, the variance of their noise, and the people counted."""

    counts: FloatArray
    variance: float
    people: float

    @property
    def share_sd(self) -> float:
        """Deviation of the noise of a share of the people."""
        return math.sqrt(self.variance) / self.people

    def summed(self, bins: tuple[int, ...], coarser: tuple[int, ...]) -> "Pooled":
        """Counts (bins, bins) of a pair, summed to coarser bins."""
        (a, b), (c, d) = bins, coarser
        counts = self.counts.reshape(c, a // c, d, b // d).sum(axis=(1, 3))
        return Pooled(counts, self.variance * (a // c) * (b // d), self.people)


@dataclass(frozen=True)
class Law:
    """Which tables of counts tell the law of contexts: every column, and all pairs if they are counted.

    Args:
        sizes: levels of each column.
        ordered: which columns are ranges.
        design: reward tables; two columns that one of them holds are counted in its bins. None without.
        paired: whether pairs are counted; columns are taken to be independent without.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    design: Design | None = None
    paired: bool = True

    @cached_property
    def tables(self) -> tuple[CountTable, ...]:
        """All tables, each column by itself first; their number does not depend on the design."""
        most = PAIR_BINS[len(self.sizes) > FEW_COLUMNS]
        sized = zip(self.sizes, self.ordered, strict=True)
        few = tuple(min(most, size) if ordered else size for size, ordered in sized)
        held = set() if self.design is None else set(self.design.pairs)
        bins = few if self.design is None else self.design.bins
        pairs = combinations(range(len(self.sizes)), 2) if self.paired else ()
        return (
            *(CountTable((j,), (size,)) for j, size in enumerate(self.sizes)),
            *(
                CountTable((i, j), (bins[i], bins[j]) if (i, j) in held else (few[i], few[j]))
                for i, j in pairs
            ),
        )

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Entries of every table."""
        return tuple(table.cells for table in self.tables)

    def locate(self, levels: IntArray) -> IntArray:
        """(n, tables) entry of every person in every table, counted through all tables."""
        columns = _entries(self.tables, levels, self.sizes)
        return np.asarray(np.column_stack(columns) + np.cumsum((0, *self.cells[:-1])))

    def counts(self, levels: IntArray) -> IntArray:
        """(sum of `cells`,) people with levels (n, d) in each entry of each table."""
        counts = np.zeros(sum(self.cells), dtype=np.int64)
        for start in range(0, len(levels), LOCATED):
            entries = self.locate(levels[start : start + LOCATED]).ravel()
            counts += np.bincount(entries, minlength=len(counts))
        return counts

    @property
    def most_cells(self) -> int:
        """Most entries of all tables together, under any design whose tables hold at most two columns.

        A pair of columns has as many cells as the reward table that holds it, and all of those together have
        at most `MOST_CELLS`.
        """
        return sum(replace(self, design=None).cells) + MOST_CELLS * self.paired

    def split(self, counts: FloatArray) -> list[FloatArray]:
        """Return the counts of each table from those of all (sum of `cells`,)."""
        return np.split(counts, np.cumsum(self.cells)[:-1])


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy counts of contexts in one block or several; those of equal tables are added up.

    Args:
        sizes: levels of each column.
        tables: what was counted, by table.
    """

    sizes: tuple[int, ...]
    tables: Mapping[CountTable, Pooled]

    @classmethod
    def none(cls, sizes: tuple[int, ...]) -> "Counts":
        """Before any release."""
        return cls(sizes, {})

    @property
    def people(self) -> float:
        """People counted; all are in each table of one column."""
        return self._of_columns[0].people if self.tables else 0.0

    @property
    def share_sd(self) -> float:
        """Deviation of the noise of a share of the people, in a table of one column."""
        return self._of_columns[0].share_sd

    @property
    def _of_columns(self) -> list[Pooled]:
        return [self.tables[CountTable((j,), (size,))] for j, size in enumerate(self.sizes)]

    def given(self, law: Law, counts: FloatArray, *, people: float, sd: float, kept: float = 1.0) -> "Counts":
        """Return these counts together with those of one more block.

        Args:
            law: tables of that block.
            counts: (sum of `Law.cells`,) noisy.
            people: people in that block.
            sd: deviation of the noise of a count.
            kept: share of all earlier counts that still counts.
        """
        found = {
            table: Pooled(kept * own.counts, kept**2 * own.variance, kept * own.people)
            for table, own in self.tables.items()
        }
        least = LEAST_SHARE * (kept * self.people + people)
        found = {table: own for table, own in found.items() if own.people >= least}
        for table, own in zip(law.tables, law.split(counts), strict=True):
            before = found.get(table, Pooled(np.zeros(table.cells), 0.0, 0.0))
            found[table] = Pooled(before.counts + own, before.variance + sd**2, before.people + people)
        return Counts(self.sizes, found)

    def described(self, uniforms: FloatArray, margins: Sequence[FloatArray] | None = None) -> WeightedPeople:
        """A weighted sample of the people who were counted.

        Args:
            uniforms: (M, 2 d) numbers in (0, 1).
            margins: laws of the columns, if they are known better than from the tables of one column.
        """
        if margins is None:
            margins = [
                shrunk_law(own.counts / own.people, np.full(size, 1.0 / size), sd=own.share_sd)
                for size, own in zip(self.sizes, self._of_columns, strict=True)
            ]
        pairs: dict[tuple[int, ...], list[CountTable]] = {}
        for table in self.tables:
            if len(table.columns) == 2:
                pairs.setdefault(table.columns, []).append(table)
        laws = {table: law for tables in pairs.values() for table, law in self._pair(tables, margins).items()}
        levels = self._sampled(margins, laws, uniforms)
        return WeightedPeople(levels, self._raked(levels, laws))

    def _pair(self, tables: list[CountTable], margins: Sequence[FloatArray]) -> dict[CountTable, FloatArray]:
        """Laws (bins, bins) of two columns in the bins of all their tables.

        From the coarsest bins to the finest, among them those that two tables have in common, the law is
        shrunk towards what coarser ones say, by all counts that can be summed to these bins. Then sweeps make
        the laws agree.
        """
        first, second = (margins[column] for column in tables[0].columns)
        joint = np.outer(first, second).astype(np.float64)
        every = {one.bins for one in tables}
        every |= {(math.gcd(a, c), math.gcd(b, d)) for (a, b), (c, d) in combinations(every, 2)}
        laws: dict[tuple[int, ...], FloatArray] = {}
        for bins in sorted(every, key=lambda own: (math.prod(own), own)):
            told = [self.tables[one].summed(one.bins, bins) for one in tables if _nested(one.bins, bins)]
            own = Pooled(*(sum(parts) for parts in zip(*told, strict=True)))
            towards = _summed(joint, bins)
            laws[bins] = shrunk_law(own.counts / own.people, towards, sd=own.share_sd)
            joint = _moved(joint, laws[bins])
        for law in list(laws.values()) * (SWEEPS if len(laws) > 1 else 0):
            joint = _moved(joint, law)
        return {one: _summed(joint, one.bins) for one in tables}

    def _sampled(
        self, margins: Sequence[FloatArray], laws: dict[CountTable, FloatArray], uniforms: FloatArray
    ) -> IntArray:
        """(M, d) levels, drawn along the tree of the strongest pairs.

        Of several tables of a pair the one with the most entries is taken. Pairs of equal information are
        taken in the order of their columns; pairs that counts show to be independent are among these.
        """
        d = len(margins)
        strength, chosen = np.zeros((d, d)), dict[tuple[int, ...], CountTable]()
        for table in laws:
            known = chosen.get(table.columns)
            if known is None or table.cells > known.cells:
                chosen[table.columns] = table
        for number, (columns, table) in enumerate(sorted(chosen.items())):
            strength[columns] = 1.0 + round(_information(laws[table]), _DIGITS) - _APART * number
        tree = minimum_spanning_tree(csr_array(-strength))
        order, parents = breadth_first_order(tree, 0, directed=False) if d > 1 else (np.array([0]), [-1])
        levels = np.zeros((len(uniforms), d), dtype=np.int64)
        for column in dict.fromkeys((*order.tolist(), *range(d))):  # without pairs the tree reaches no other
            parent, own = int(parents[column]), uniforms[:, column]
            if parent < 0:
                levels[:, column] = _drawn(margins[column][None], np.zeros(len(own), dtype=np.int64), own)
                continue
            table = chosen[min(parent, column), max(parent, column)]
            law, bins = laws[table], table.bins
            if parent > column:
                law, bins = law.T, bins[::-1]
            rows = coarse(levels[:, parent], size=self.sizes[parent], bins=bins[0])
            parts = _drawn(law, rows, own)
            levels[:, column] = _within(margins[column], parts, uniforms[:, d + column], bins=bins[1])
        return levels

    def _raked(self, levels: IntArray, laws: dict[CountTable, FloatArray]) -> FloatArray:
        weights = np.full(len(levels), 1.0 / len(levels))
        cells = dict(zip(laws, _entries(laws, levels, self.sizes), strict=True))
        for _ in range(SWEEPS):
            for table, law in laws.items():
                now = np.bincount(cells[table], weights=weights, minlength=law.size)
                step = law.ravel() / np.maximum(now, np.finfo(float).tiny)
                weights = weights * np.clip(step, 1.0 / _LARGEST_STEP, _LARGEST_STEP)[cells[table]]
                weights = weights / weights.sum()
        return weights


def _nested(finer: tuple[int, ...], coarser: tuple[int, ...]) -> bool:
    """Return whether counts in the first bins can be summed to the second ones."""
    return all(many % few == 0 for many, few in zip(finer, coarser, strict=True))


def _summed(joint: FloatArray, bins: tuple[int, ...]) -> FloatArray:
    """Law (bins, bins) from one of levels."""
    first, second = (_parts(size, count) for size, count in zip(joint.shape, bins, strict=True))
    return np.asarray(first @ joint @ second.T)


def _moved(joint: FloatArray, law: FloatArray) -> FloatArray:
    """Return a law of levels, scaled to the share of every cell of a law of bins, and then to sum one."""
    first, second = (_parts(size, count) for size, count in zip(joint.shape, law.shape, strict=True))
    ratio = law / np.maximum(_summed(joint, law.shape), np.finfo(float).tiny)
    moved = joint * (first.T @ ratio @ second)
    total = moved.sum()  # less than one where a law has people in a cell of bins in which nobody can be
    return np.asarray(moved / total) if total > 0.0 else joint


@lru_cache(maxsize=256)
def _parts(size: int, bins: int) -> FloatArray:
    """(bins, size) one where a level lies in a part."""
    own = coarse(np.arange(size), size=size, bins=bins) == np.arange(bins)[:, None]
    return np.asarray(own, dtype=np.float64)


def _entries(tables: Iterable[CountTable], levels: IntArray, sizes: tuple[int, ...]) -> list[IntArray]:
    """Return for each table the entry (n,) of every person with levels (n, d)."""
    known: dict[tuple[int, int], IntArray] = {}
    for column, bins in {one for table in tables for one in zip(*table, strict=True)}:
        known[column, bins] = coarse(levels[:, column], size=sizes[column], bins=bins)
    found = []
    for (first, *rest), (bins, *others) in tables:
        entry = known[first, bins]
        for column, own in zip(rest, others, strict=True):
            entry = entry * own + known[column, own]
        found.append(entry)
    return found


def _information(law: FloatArray) -> float:
    """Mutual information of a joint law (a, b)."""
    product = np.outer(law.sum(axis=1), law.sum(axis=0))
    held = law > 0.0
    return float((law[held] * np.log(law[held] / product[held])).sum())


def _drawn(law: FloatArray, rows: IntArray, uniforms: FloatArray) -> IntArray:
    """(M,) draws from rows (M,) of weights (a, b), by uniforms (M,)."""
    ends = np.cumsum(law, axis=1)
    ends = ends / np.maximum(ends[:, -1:], np.finfo(float).tiny)
    return np.asarray((uniforms[:, None] > ends[rows, :-1]).sum(axis=1))


def _within(margin: FloatArray, parts: IntArray, uniforms: FloatArray, *, bins: int) -> IntArray:
    """(M,) levels, drawn from the margin (size,) within everybody's part (M,)."""
    return _drawn(_parts(len(margin), bins) * (margin + np.finfo(float).tiny), parts, uniforms)

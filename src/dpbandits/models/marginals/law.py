"""Weighted sample of contexts with about the same margins and pairs as noisy tables of counts.

Counts have noise of a known deviation. Margins are shrunk towards uniform and pairs towards independence,
both by the James-Stein estimator. Then a tree of the strongest pairs (Chow, Liu 1968) is sampled, and the
sample's weights are raked to all pairs.

Two columns of one reward table are counted in the bins of that table. So the users in each of its cells are
counted and not inferred. All other pairs are counted in few bins. Blocks may have different bins. Then counts
that can be summed to the same coarser bins are added up there, and finer counts divide the users within
these. If pairs are not counted, columns are assumed to be independent.
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
"""Number of sweeps of raking over all pairs."""

FEW_COLUMNS, PAIR_BINS = 3, (8, 4)
"""Bins of a range in a pair that is in no reward table: the first number with at most `FEW_COLUMNS` columns,
the second with more."""

LOCATED = 4096
"""Number of users whose entries are looked up at once."""

LEAST_SHARE = 1e-3
"""Smallest share of all users that a table of counts must contain to be kept."""

_LARGEST_STEP = 5.0
"""Largest factor of a weight in one step of raking. The bound is needed as noisy tables may contradict each
other."""

_DIGITS, _APART = 9, 1e-14
"""Number of digits of a pair's information that are compared, and the amount by which a later pair counts
less if these digits are equal. Last bits differ between processors, and must not decide the sample."""


@dataclass(frozen=True)
class WeightedPeople:
    """Weighted sample of contexts: levels (M, d), and weights (M,) that sum to one."""

    levels: IntArray
    weights: FloatArray


def shrunk_law(noisy: FloatArray, towards: FloatArray, *, sd: float) -> FloatArray:
    """Return the law (...) of noisy shares, shrunk towards another law by James-Stein and made positive.

    Args:
        noisy: Noisy shares, which sum to about one.
        towards: Law of the same shape.
        sd: Standard deviation of the noise of a share.

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
    """Table of counts over one or two columns, with the number of bins of each."""

    columns: tuple[int, ...]
    bins: tuple[int, ...]

    @property
    def cells(self) -> int:
        """Number of entries."""
        return int(np.prod(self.bins, dtype=np.int64))


class Pooled(NamedTuple):
    """Counts (cells,) of one table, the variance of their noise, and the number of users counted."""

    counts: FloatArray
    variance: float
    people: float

    @property
    def share_sd(self) -> float:
        """Standard deviation of the noise of a share of the users."""
        return math.sqrt(self.variance) / self.people

    def summed(self, bins: tuple[int, ...], coarser: tuple[int, ...]) -> "Pooled":
        """Return the counts (bins, bins) of a pair, summed to coarser bins."""
        (a, b), (c, d) = bins, coarser
        counts = self.counts.reshape(c, a // c, d, b // d).sum(axis=(1, 3))
        return Pooled(counts, self.variance * (a // c) * (b // d), self.people)


@dataclass(frozen=True)
class Law:
    """Set of the tables of counts that estimate the law of contexts: every column, and optionally all pairs.

    Args:
        sizes: Number of levels of each column.
        ordered: True for each column that is a range.
        design: Reward tables, or None. Two columns of one reward table are counted in the bins of that table.
        paired: True if pairs are counted. Otherwise columns are assumed to be independent.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    design: Design | None = None
    paired: bool = True

    @cached_property
    def tables(self) -> tuple[CountTable, ...]:
        """All tables; those of single columns come first. Their number does not depend on the design."""
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
        """Number of entries of every table."""
        return tuple(table.cells for table in self.tables)

    def locate(self, levels: IntArray) -> IntArray:
        """Return the entry of every user in every table, shape (n, tables), numbered through all tables."""
        columns = _entries(self.tables, levels, self.sizes)
        return np.asarray(np.column_stack(columns) + np.cumsum((0, *self.cells[:-1])))

    def counts(self, levels: IntArray) -> IntArray:
        """Return the number of users with levels (n, d) in each entry of each table, (sum of `cells`,)."""
        counts = np.zeros(sum(self.cells), dtype=np.int64)
        for start in range(0, len(levels), LOCATED):
            entries = self.locate(levels[start : start + LOCATED]).ravel()
            counts += np.bincount(entries, minlength=len(counts))
        return counts

    @property
    def most_cells(self) -> int:
        """Largest total number of entries under any design whose tables have at most two columns.

        A pair of columns has as many cells as the reward table with this pair. All reward tables together
        have at most `MOST_CELLS`.
        """
        return sum(replace(self, design=None).cells) + MOST_CELLS * self.paired

    def split(self, counts: FloatArray) -> list[FloatArray]:
        """Return the counts of each table, given the counts of all tables, shape (sum of `cells`,)."""
        return np.split(counts, np.cumsum(self.cells)[:-1])


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy counts of contexts in one or several blocks; counts of equal tables are added up.

    Args:
        sizes: Number of levels of each column.
        tables: Noisy counts of each table.
    """

    sizes: tuple[int, ...]
    tables: Mapping[CountTable, Pooled]

    @classmethod
    def none(cls, sizes: tuple[int, ...]) -> "Counts":
        """Return the empty counts before any release."""
        return cls(sizes, {})

    @property
    def people(self) -> float:
        """Number of users counted; each table of one column counts all of them."""
        return self._of_columns[0].people if self.tables else 0.0

    @property
    def share_sd(self) -> float:
        """Standard deviation of the noise of a share of the users, in a table of one column."""
        return self._of_columns[0].share_sd

    @property
    def _of_columns(self) -> list[Pooled]:
        return [self.tables[CountTable((j,), (size,))] for j, size in enumerate(self.sizes)]

    def given(self, law: Law, counts: FloatArray, *, people: float, sd: float, kept: float = 1.0) -> "Counts":
        """Return the sum of these counts and of the counts of one more block.

        Args:
            law: Tables of that block.
            counts: Noisy counts, shape (sum of `Law.cells`,).
            people: Number of users in that block.
            sd: Standard deviation of the noise of a count.
            kept: Factor of all earlier counts (exponential discounting).
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
        """Return a weighted sample of the users who were counted.

        Args:
            uniforms: Public uniform draws in (0, 1), shape (M, 2 d).
            margins: Laws of the columns, if they are known better than from the tables of one column.
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
        """Return the laws (bins, bins) of two columns in the bins of all their tables.

        Bins are taken from the coarsest to the finest, including those that two tables have in common. For
        each, the law of all counts that can be summed to these bins is shrunk towards the law of coarser
        bins. Then sweeps make the laws agree.
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
        """Return levels (M, d), sampled along the tree of the strongest pairs.

        If a pair has several tables, the one with the most entries is used. Pairs of equal information, for
        example those without any dependence, are taken in the order of their columns.
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
    """Return the law of bins (bins, bins) from the law of levels."""
    first, second = (_parts(size, count) for size, count in zip(joint.shape, bins, strict=True))
    return np.asarray(first @ joint @ second.T)


def _moved(joint: FloatArray, law: FloatArray) -> FloatArray:
    """Return a law of levels whose cells are scaled to a law of bins, normalised to sum one."""
    first, second = (_parts(size, count) for size, count in zip(joint.shape, law.shape, strict=True))
    ratio = law / np.maximum(_summed(joint, law.shape), np.finfo(float).tiny)
    moved = joint * (first.T @ ratio @ second)
    total = moved.sum()  # less than one if a law has mass in a cell of bins that is empty in `joint`
    return np.asarray(moved / total) if total > 0.0 else joint


@lru_cache(maxsize=256)
def _parts(size: int, bins: int) -> FloatArray:
    """Return the matrix (bins, size) that is one if a level lies in a part, else zero."""
    own = coarse(np.arange(size), size=size, bins=bins) == np.arange(bins)[:, None]
    return np.asarray(own, dtype=np.float64)


def _entries(tables: Iterable[CountTable], levels: IntArray, sizes: tuple[int, ...]) -> list[IntArray]:
    """Return for each table the entries (n,) of users with levels (n, d)."""
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
    """Return the mutual information of a joint law (a, b)."""
    product = np.outer(law.sum(axis=1), law.sum(axis=0))
    held = law > 0.0
    return float((law[held] * np.log(law[held] / product[held])).sum())


def _drawn(law: FloatArray, rows: IntArray, uniforms: FloatArray) -> IntArray:
    """Return M samples (M,) from the given rows (M,) of weights (a, b), by uniforms (M,)."""
    ends = np.cumsum(law, axis=1)
    ends = ends / np.maximum(ends[:, -1:], np.finfo(float).tiny)
    return np.asarray((uniforms[:, None] > ends[rows, :-1]).sum(axis=1))


def _within(margin: FloatArray, parts: IntArray, uniforms: FloatArray, *, bins: int) -> IntArray:
    """Return levels (M,), sampled from the margin (size,) within each user's part (M,)."""
    return _drawn(_parts(len(margin), bins) * (margin + np.finfo(float).tiny), parts, uniforms)

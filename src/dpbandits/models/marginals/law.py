"""Weighted sample of contexts that has about the margins and pairs of noisy tables of counts.

A margin is the law of one column, a pair the joint law of two. Counts have noise of a known standard
deviation. Margins are shrunk towards uniform and pairs towards independence, both by the James-Stein
estimator. Then contexts are sampled along a tree of the strongest pairs (Chow, Liu 1968), and the sample's
weights are raked to all pairs.

The two columns of a reward table are counted in the bins of that table, so the users in each of its cells
are counted and not inferred. All other pairs are counted in few bins. Blocks may have different bins. Where
counts can be summed to common coarser bins, they are added up there, and finer counts divide the users
within these bins. If pairs are not counted, columns are assumed to be independent.
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
"""Number of times that raking goes through all pairs."""

FEW_COLUMNS, PAIR_BINS = 3, (8, 4)
"""Number of bins of a range in a pair that is in no reward table: the first of `PAIR_BINS` with at most
`FEW_COLUMNS` columns, the second with more.
"""

LOCATED = 4096
"""Number of users whose entries in the tables are looked up at a time."""

LEAST_SHARE = 1e-3
"""Smallest share of all users that a table of counts must contain; older tables with less are dropped."""

_LARGEST_STEP = 5.0
"""Largest factor by which a weight changes in one step of raking,
as noisy tables may contradict each other.
"""

_DIGITS, _APART = 9, 1e-14
"""Number of digits to which the mutual information of pairs is compared; and the amount that is subtracted
for each later pair, which decides between equal ones. Last bits differ between processors and must not
decide.
"""


@dataclass(frozen=True)
class WeightedPeople:
    """Weighted sample of M contexts: levels (M, d) of d columns, and weights (M,) that sum to one."""

    levels: IntArray
    weights: FloatArray


def shrunk_law(noisy: FloatArray, towards: FloatArray, *, sd: float) -> FloatArray:
    """Return noisy shares as a law (...), shrunk towards another law by James-Stein and made non-negative.

    Args:
        noisy: Noisy shares, which sum to about one.
        towards: Law of the same shape towards which the shares are shrunk.
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
        """Number of entries of the table."""
        return int(np.prod(self.bins, dtype=np.int64))


class Pooled(NamedTuple):
    """Counts (cells,) of one table, the variance of their noise, and the number of users counted."""

    counts: FloatArray
    variance: float
    people: float

    @property
    def share_sd(self) -> float:
        """Standard deviation of the noise of an entry, as a share of the users counted."""
        return math.sqrt(self.variance) / self.people

    def summed(self, bins: tuple[int, ...], coarser: tuple[int, ...]) -> "Pooled":
        """Return the counts of a pair of columns, summed from `bins` to `coarser` bins."""
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
        """All tables of counts, those of single columns first. Their number does not depend on the design."""
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
        """Return each user's entry in every table, shape (n, tables), numbered through all tables.

        Args:
            levels: Levels of the users' columns, shape (n, d).
        """
        columns = _entries(self.tables, levels, self.sizes)
        return np.asarray(np.column_stack(columns) + np.cumsum((0, *self.cells[:-1])))

    def counts(self, levels: IntArray) -> IntArray:
        """Return the number of users in each entry of all tables, (sum of `cells`,), for levels (n, d)."""
        counts = np.zeros(sum(self.cells), dtype=np.int64)
        for start in range(0, len(levels), LOCATED):
            entries = self.locate(levels[start : start + LOCATED]).ravel()
            counts += np.bincount(entries, minlength=len(counts))
        return counts

    @property
    def most_cells(self) -> int:
        """Largest total number of entries, for any design whose reward tables have at most two columns.

        A pair that is in a reward table has as many cells as that table. All reward tables together have at
        most `MOST_CELLS`.
        """
        return sum(replace(self, design=None).cells) + MOST_CELLS * self.paired

    def split(self, counts: FloatArray) -> list[FloatArray]:
        """Return the counts of each table, from the counts (sum of `cells`,) of all tables."""
        return np.split(counts, np.cumsum(self.cells)[:-1])


@dataclass(frozen=True, eq=False)
class Counts:
    """Noisy counts of contexts in one or several blocks; counts of the same table are summed over blocks.

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
        """Number of users counted, the same in each table of one column."""
        return self._of_columns[0].people if self.tables else 0.0

    @property
    def share_sd(self) -> float:
        """Standard deviation of the noise in a table of one column, as a share of the users counted."""
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
            kept: Factor by which all earlier counts are multiplied (exponential discounting).
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
        """Return a weighted sample of contexts that has about the margins and pairs of the noisy counts.

        Args:
            uniforms: Public uniform draws in (0, 1), shape (M, 2 d).
            margins: Laws of the columns, if better ones are known than from the tables of one column.
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
        """Return the joint law of two columns in the bins of each of their tables.

        Bins are taken from the coarsest to the finest, including the common coarser bins of two tables. All
        counts that can be summed to given bins are added up, and their law is shrunk towards the law found
        so far. Then sweeps over all bins make the laws agree.

        Args:
            tables: Tables of the two columns, with different bins.
            margins: Laws of all columns.
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
        """Return levels (M, d), sampled along the tree of the strongest pairs."""
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
    """Return True if counts in bins `finer` can be summed to bins `coarser`."""
    return all(many % few == 0 for many, few in zip(finer, coarser, strict=True))


def _summed(joint: FloatArray, bins: tuple[int, ...]) -> FloatArray:
    """Return the joint law of bins, with the given shape, from a joint law of two columns' levels."""
    first, second = (_parts(size, count) for size, count in zip(joint.shape, bins, strict=True))
    return np.asarray(first @ joint @ second.T)


def _moved(joint: FloatArray, law: FloatArray) -> FloatArray:
    """Return a joint law of levels, scaled so that its sums over bins agree with `law`, and normalised."""
    first, second = (_parts(size, count) for size, count in zip(joint.shape, law.shape, strict=True))
    ratio = law / np.maximum(_summed(joint, law.shape), np.finfo(float).tiny)
    moved = joint * (first.T @ ratio @ second)
    total = moved.sum()  # less than one if a law has mass in a cell of bins that is empty in `joint`
    return np.asarray(moved / total) if total > 0.0 else joint


@lru_cache(maxsize=256)
def _parts(size: int, bins: int) -> FloatArray:
    """Return a matrix (bins, size) that is one where a level lies in a bin, else zero."""
    own = coarse(np.arange(size), size=size, bins=bins) == np.arange(bins)[:, None]
    return np.asarray(own, dtype=np.float64)


def _entries(tables: Iterable[CountTable], levels: IntArray, sizes: tuple[int, ...]) -> list[IntArray]:
    """Return for each table the entries (n,) of n users with levels (n, d)."""
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
    """Return one sample for each of M rows of a law, shape (M,), by uniform numbers (M,).

    Args:
        law: Non-negative weights (a, b), each row a law of b values.
        rows: Row from which each sample comes, shape (M,).
        uniforms: Uniform numbers in (0, 1), shape (M,).
    """
    ends = np.cumsum(law, axis=1)
    ends = ends / np.maximum(ends[:, -1:], np.finfo(float).tiny)
    return np.asarray((uniforms[:, None] > ends[rows, :-1]).sum(axis=1))


def _within(margin: FloatArray, parts: IntArray, uniforms: FloatArray, *, bins: int) -> IntArray:
    """Return levels (M,), each sampled from the margin (size,) restricted to a given bin.

    Args:
        margin: Law of the column's levels, shape (size,).
        parts: Bin of each sample, shape (M,).
        uniforms: Uniform numbers in (0, 1), shape (M,).
        bins: Number of bins of the column.
    """
    return _drawn(_parts(len(margin), bins) * (margin + np.finfo(float).tiny), parts, uniforms)

"""People as noisy tables of counts describe them: a weighted sample with about the same margins and pairs.

Counts come with noise of a known deviation. Margins are shrunk towards uniform and pairs towards
independence, by as much as James and Stein's estimator finds of noise in them; a tree of the strongest pairs
(Chow, Liu 1968) is sampled, and the sample's weights are raked to all pairs.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.marginals.tables import coarse

__all__ = ["LOCATED", "Law", "WeightedPeople", "shrunk_law"]

SWEEPS = 8
"""Of raking over all pairs."""

FEW_COLUMNS, PAIR_BINS = 3, (8, 4)
"""Up to so many columns a range has the first number of bins in a pair, beyond the second."""

LOCATED = 4096
"""People whose entries are looked up at once."""

_LARGEST_STEP = 5.0
"""Most that one step of raking multiplies a weight by: noisy tables may contradict each other."""


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


@dataclass(frozen=True)
class Law:
    """Which counts tell the law of contexts, and the people that they describe.

    Args:
        sizes: levels of each column.
        ordered: which columns are ranges.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]

    @cached_property
    def bins(self) -> tuple[int, ...]:
        """Parts of every column in the tables of pairs."""
        most = PAIR_BINS[len(self.sizes) > FEW_COLUMNS]
        sized = zip(self.sizes, self.ordered, strict=True)
        return tuple(min(most, size) if ordered else size for size, ordered in sized)

    @cached_property
    def counted(self) -> tuple[tuple[int, ...], ...]:
        """Columns of every table: each by itself, and all pairs."""
        columns = range(len(self.sizes))
        return (*((j,) for j in columns), *combinations(columns, 2))

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Entries of every table."""
        return tuple(
            self.sizes[one[0]] if len(one) == 1 else self.bins[one[0]] * self.bins[one[1]]
            for one in self.counted
        )

    def locate(self, levels: IntArray) -> IntArray:
        """(n, tables) entry of every person in every table, counted through all tables."""
        parts = self._coarse(levels)
        columns = [
            levels[:, one[0]] if len(one) == 1 else parts[:, one[0]] * self.bins[one[1]] + parts[:, one[1]]
            for one in self.counted
        ]
        return np.asarray(np.column_stack(columns) + np.cumsum((0, *self.cells[:-1])))

    def counts(self, levels: IntArray) -> IntArray:
        """(sum of `cells`,) people with levels (n, d) in each entry of each table."""
        counts = np.zeros(sum(self.cells), dtype=np.int64)
        for start in range(0, len(levels), LOCATED):
            entries = self.locate(levels[start : start + LOCATED]).ravel()
            counts += np.bincount(entries, minlength=len(counts))
        return counts

    def people(self, counts: FloatArray, *, total: float, sd: float, uniforms: FloatArray) -> WeightedPeople:
        """A weighted sample of people that these counts describe.

        Args:
            counts: (sum of `cells`,) noisy.
            total: people counted.
            sd: of the noise of a count.
            uniforms: (M, 2 d) numbers in (0, 1).
        """
        tables = np.split(counts / total, np.cumsum(self.cells)[:-1])
        relative, d = sd / total, len(self.sizes)
        fine = [shrunk_law(table, np.full(len(table), 1.0 / len(table)), sd=relative) for table in tables[:d]]
        part = [
            np.asarray(
                np.bincount(coarse(np.arange(size), size=size, bins=bins), weights=margin, minlength=bins),
                dtype=np.float64,
            )
            for size, bins, margin in zip(self.sizes, self.bins, fine, strict=True)
        ]
        laws = {
            (i, j): shrunk_law(
                table.reshape(self.bins[i], self.bins[j]), part[i][:, None] * part[j], sd=relative
            )
            for (i, j), table in zip(self.counted[d:], tables[d:], strict=True)
        }
        parts = self._sampled(part, laws, uniforms[:, :d])
        levels = np.column_stack(
            [
                _within(margin, parts[:, j], uniforms[:, d + j], size=self.sizes[j], bins=self.bins[j])
                for j, margin in enumerate(fine)
            ]
        )
        return WeightedPeople(levels, self._raked(parts, laws))

    def _coarse(self, levels: IntArray) -> IntArray:
        return np.asarray(levels * np.array(self.bins) // np.array(self.sizes))

    def _sampled(
        self, margins: list[FloatArray], laws: dict[tuple[int, int], FloatArray], uniforms: FloatArray
    ) -> IntArray:
        """(M, d) parts, drawn along the tree of the strongest pairs."""
        d = len(margins)
        strength = np.zeros((d, d))
        for (i, j), law in laws.items():
            strength[i, j] = 1.0 + _information(law)
        tree = minimum_spanning_tree(csr_array(-strength))
        order, parents = breadth_first_order(tree, 0, directed=False) if d > 1 else (np.array([0]), [-1])
        parts = np.zeros((len(uniforms), d), dtype=np.int64)
        reached = set(order.tolist())
        for column in [*order.tolist(), *(j for j in range(d) if j not in reached)]:
            parent = int(parents[column]) if column in reached else -1
            if parent < 0:
                law = np.broadcast_to(margins[column], (1, len(margins[column])))
                rows = np.zeros(len(parts), dtype=np.int64)
            else:
                pair = laws[min(parent, column), max(parent, column)]
                law, rows = (pair if parent < column else pair.T), parts[:, parent]
            parts[:, column] = _drawn(law, rows, uniforms[:, column])
        return parts

    def _raked(self, parts: IntArray, laws: dict[tuple[int, int], FloatArray]) -> FloatArray:
        weights = np.full(len(parts), 1.0 / len(parts))
        cells = {(i, j): parts[:, i] * self.bins[j] + parts[:, j] for i, j in laws}
        for _ in range(SWEEPS):
            for pair, law in laws.items():
                now = np.bincount(cells[pair], weights=weights, minlength=law.size)
                step = law.ravel() / np.maximum(now, np.finfo(float).tiny)
                weights = weights * np.clip(step, 1.0 / _LARGEST_STEP, _LARGEST_STEP)[cells[pair]]
                weights = weights / weights.sum()
        return weights


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


def _within(margin: FloatArray, parts: IntArray, uniforms: FloatArray, *, size: int, bins: int) -> IntArray:
    """(M,) levels, drawn from the margin (size,) within everybody's part (M,)."""
    inside = coarse(np.arange(size), size=size, bins=bins) == np.arange(bins)[:, None]
    own = np.where(inside, margin + np.finfo(float).tiny, 0.0)
    return _drawn(own, parts, uniforms)

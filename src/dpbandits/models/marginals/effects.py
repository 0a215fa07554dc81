"""Main effects and pairwise interactions of discrete columns: the functions that marginal tables can tell.

A column is cut into levels: categories as they are, a range into equal bins. With B_j the component table of
column j, every reward function is

    f(x) = w_0 + sum_j B_j[x_j] . w_j + sum_{i<j} (B_i[x_i] (x) B_j[x_j]) . w_ij

(an analysis of variance). Component tables are centred over the levels and have total variance one: sum over
components of the mean square over levels. A range has four cosines, or more if effects are fine. A category
has an orthogonal basis of the functions of mean zero.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter

__all__ = ["MOST_PAIR_COLUMNS", "Effects", "Term", "category_components", "range_components"]

BINS = 24
"""Levels of a range."""

SHARES = (0.68, 0.26, 0.05, 0.01)
"""Shares of the first cosines in the variance of a function over a range. They are like the leading
eigenvalues of a squared-exponential kernel of lengthscale .3, whose centred eigenfunctions are nearly these
cosines."""

FINE_FEW, FINE_COSINES, FINE_PAIRS = 2, (12, 8), 6
"""Numbers of fine effects. With at most `FINE_FEW` columns a range has the first number of cosines, with more
columns the second. With at most `FINE_FEW` columns that are all ranges, each has `FINE_PAIRS` components in
their interaction. The share of a cosine is proportional to one over the square of its frequency."""

MOST_PAIR_COLUMNS = 40
"""Components of an interaction; those with more are left out."""

MOST_WEIGHTS, MOST_ENTRIES = 512, 1 << 23
"""Most weights an arm, and most entries of all arms' covariances (64 MiB), with which all interactions are
learned from the start. Beyond them a pair is learned once a released table holds both columns."""

GATHERED = 1 << 16
"""Features that are gathered at once, so that what is gathered stays in the cache."""

FEW_COLUMNS = 5
"""Up to so many columns a range has three components in an interaction, beyond two."""


def range_components(bins: int = BINS, shares: Sequence[float] = SHARES) -> FloatArray:
    """(bins, c) cosines of mean zero over equal bins of [0, 1], the first ones of most variance.

    Args:
        bins: equal parts of the range.
        shares: (c,) shares of the cosines in the variance of a function.

    Example:
        >>> table = range_components()
        >>> table.shape, bool(np.allclose(table.mean(axis=0), 0))
        ((24, 4), True)
        >>> round(float((table**2).mean(axis=0).sum()), 12)
        1.0
    """
    middles = (np.arange(bins) + 0.5) / bins
    waves = np.cos(np.pi * np.outer(middles, np.arange(1, len(shares) + 1)))
    return np.asarray(waves * np.sqrt(2.0 * np.array(shares)))


def category_components(levels: int) -> FloatArray:
    """(levels, levels - 1) orthogonal contrasts of equal variance, one in total.

    Helmert's: component k holds level k + 1 against the mean of those before it.

    Example:
        >>> category_components(2).ravel().tolist()
        [1.0, -1.0]
    """
    if levels < 1:
        raise InvalidParameter("a column has at least one level")
    steps = np.arange(1, levels)
    table = np.triu(np.ones((levels, levels - 1)))
    table[steps, steps - 1] = -steps
    table /= np.sqrt(steps * (steps + 1.0))
    return np.asarray(table * np.sqrt(levels / max(1, levels - 1)))


@dataclass(frozen=True)
class Term:
    """Weights start..stop - 1 are of these columns together: none, one or two of them."""

    columns: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Effects:
    """The functions of discrete columns that are learned.

    Args:
        sizes: levels of each column.
        ordered: which columns are ranges.
        pairs: columns (i, j), i < j, whose interactions are learned, in order; None means all that are small
            enough.
        fine: whether a range has more than four cosines, whose shares fall more slowly with the frequency.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    pairs: tuple[tuple[int, int], ...] | None = None
    fine: bool = False

    @classmethod
    def of(cls, categories: Sequence[int | None], *, fine: bool = False) -> "Effects":
        """Build the effects of columns with so many categories, or None for a range."""
        return cls(
            tuple(BINS if count is None else count for count in categories),
            tuple(count is None for count in categories),
            fine=fine,
        )

    @property
    def _shares(self) -> tuple[float, ...]:
        """Shares of the cosines of a range."""
        if not self.fine:
            return SHARES
        falling = np.arange(1.0, FINE_COSINES[len(self.sizes) > FINE_FEW] + 1.0) ** -2
        return tuple((falling / falling.sum()).tolist())

    @cached_property
    def tables(self) -> tuple[FloatArray, ...]:
        """Components (levels, c) of every column."""
        return tuple(
            range_components(size, self._shares) if ordered else category_components(size)
            for size, ordered in zip(self.sizes, self.ordered, strict=True)
        )

    @cached_property
    def pair_components(self) -> tuple[int, ...]:
        """Components of every column in an interaction."""
        most = 3 if len(self.sizes) <= FEW_COLUMNS else 2
        if self.fine and len(self.sizes) <= FINE_FEW and all(self.ordered):
            most = FINE_PAIRS
        return tuple(
            min(most, table.shape[1]) if ordered else table.shape[1]
            for table, ordered in zip(self.tables, self.ordered, strict=True)
        )

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The constant, the columns, and the pairs that are small enough."""
        sizes: list[tuple[tuple[int, ...], int]] = [((), 1)]
        sizes += [((column,), table.shape[1]) for column, table in enumerate(self.tables)]
        pairs = combinations(range(len(self.sizes)), 2) if self.pairs is None else self.pairs
        sizes += [((i, j), self._products(i, j)) for i, j in pairs if self.small_enough(i, j)]
        ends = np.cumsum([count for _, count in sizes]).tolist()
        return tuple(Term(columns, end - n, end) for (columns, n), end in zip(sizes, ends, strict=True))

    def _products(self, i: int, j: int) -> int:
        return self.pair_components[i] * self.pair_components[j]

    def small_enough(self, i: int, j: int) -> bool:
        """Return whether the interaction of two columns can be learned: its components are few."""
        return self._products(i, j) <= MOST_PAIR_COLUMNS

    def all_pairs_fit(self, arms: int) -> bool:
        """Return whether the laws of all arms' weights fit with every interaction that is small enough.

        Time grows with the cube of the weights, and memory with their square and the arms.
        """
        weights = replace(self, pairs=None).n_weights
        return weights <= MOST_WEIGHTS and arms * weights**2 <= MOST_ENTRIES

    def with_pairs(self, pairs: Iterable[tuple[int, int]]) -> "Effects":
        """Return the effects of the same columns, with the interactions of these pairs (i, j) beside their
        own.
        """
        if self.pairs is None:
            return self
        joined = tuple(sorted({*self.pairs, *((i, j) for i, j in pairs if self.small_enough(i, j))}))
        return self if joined == self.pairs else replace(self, pairs=joined)

    def places_in(self, other: "Effects") -> IntArray:
        """Return the places (m,) of its weights among those of effects that have all its terms."""
        start = {term.columns: term.start for term in other.terms}
        return np.concatenate(
            [start[term.columns] + np.arange(term.stop - term.start) for term in self.terms]
        )

    @property
    def n_weights(self) -> int:
        """m."""
        return self.terms[-1].stop

    @cached_property
    def term_of(self) -> IntArray:
        """(m,) which term every weight belongs to."""
        return np.repeat(np.arange(len(self.terms)), [term.stop - term.start for term in self.terms])

    def holds(self, column: int) -> BoolArray:
        """(terms,) whether a term is of this column, alone or with another."""
        return np.array([column in term.columns for term in self.terms])

    @cached_property
    def order(self) -> IntArray:
        """(terms,) 0 for the constant, 1 for a column, 2 for a pair."""
        return np.array([len(term.columns) for term in self.terms])

    def greatest_square(self, shares: FloatArray) -> float:
        """A bound on the square of anybody's features' length, every term's times its share (terms,)."""
        own = [(table**2).sum(axis=1).max() for table in self.tables]
        both = zip(self.tables, self.pair_components, strict=True)
        first = [(table[:, :count] ** 2).sum(axis=1).max() for table, count in both]
        most = [
            1.0
            if not term.columns
            else own[term.columns[0]]
            if len(term.columns) == 1
            else first[term.columns[0]] * first[term.columns[1]]
            for term in self.terms
        ]
        return float(shares @ np.array(most))

    @property
    def factors(self) -> list[list[tuple[int, int]]]:
        """Return (column, component) of the entries of `tables` whose product is each weight's feature."""
        found: list[list[tuple[int, int]]] = []
        for term in self.terms:
            pair = len(term.columns) == 2
            counts = [
                self.pair_components[one] if pair else self.tables[one].shape[1] for one in term.columns
            ]
            found += [[*zip(term.columns, own, strict=True)] for own in np.ndindex(*counts)]
        return found

    def levels(self, points: FloatArray) -> IntArray:
        """(n, d) levels of points (n, d): ranges in [0, 1], categories as codes."""
        sizes, ordered = np.array(self.sizes), np.array(self.ordered)
        cut = np.floor(points * np.where(ordered, sizes, 1)).astype(np.int64)
        return np.asarray(np.clip(cut, 0, sizes - 1))

    @cached_property
    def _places(self) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """All components in one row, and where every weight's two factors stand in it.

        Weight k of a person with these levels is the product of the entries `first[:, k] + levels[column] *
        width[:, k]` for its two columns. The entry 0 is a one, the second factor of weights of one column.
        """
        flat = np.concatenate([np.ones(1), *(table.ravel() for table in self.tables)])
        widths = [table.shape[1] for table in self.tables]
        starts = (1 + np.cumsum([0, *(table.size for table in self.tables)])).tolist()
        first, column, width = (np.zeros((2, self.n_weights), dtype=np.int64) for _ in range(3))
        for term in self.terms[1:]:
            own = slice(term.start, term.stop)
            counts = widths if len(term.columns) == 1 else self.pair_components
            component = np.indices([counts[one] for one in term.columns]).reshape(len(term.columns), -1)
            for side, one in enumerate(term.columns):
                first[side, own] = starts[one] + component[side]
                column[side, own], width[side, own] = one, widths[one]
        return flat, first, column, width

    def __call__(self, levels: IntArray) -> FloatArray:
        """(n, m) features of people with these levels (n, d), each the same whoever else is there."""
        flat, first, column, width = self._places
        phi = np.empty((len(levels), self.n_weights))
        step = max(1, GATHERED // self.n_weights)
        for start in range(0, len(levels), step):
            rows = slice(start, start + step)
            own, other = (flat[first[side] + levels[rows, column[side]] * width[side]] for side in (0, 1))
            np.multiply(own, other, out=phi[rows])
        return phi

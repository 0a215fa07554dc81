"""Main effects and pairwise interactions of discrete columns: functions that marginal tables can estimate.

A column has levels: its categories, or equal bins of its range. The component table B_j of column j holds
the values of its basis functions (components), one row per level. A context x has the level x_j in column j.
Every reward function is

    f(x) = w_0 + sum_j B_j[x_j] . w_j + sum_{i<j} (B_i[x_i] (x) B_j[x_j]) . w_ij

(an analysis of variance), with a constant w_0, weights w_j and w_ij, and (x) the outer product. Components
have mean zero over the levels, and their mean squares over the levels sum to one. The components of a range
are four cosines, or more if effects are fine. Those of a column of categories are an orthogonal basis of the
functions of mean zero.
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
"""Number of levels of a range."""

SHARES = (0.68, 0.26, 0.05, 0.01)
"""Shares of a range's four cosines in the variance of a function over it. They are about the leading
eigenvalues of a squared-exponential kernel of lengthscale .3, whose centred eigenfunctions are nearly
these cosines.
"""

FINE_FEW, FINE_COSINES, FINE_PAIRS = 2, (12, 8), 6
"""Sizes of fine effects. A range has the first number of cosines with at most `FINE_FEW` columns, and the
second with more. With at most `FINE_FEW` columns that are all ranges, each range has `FINE_PAIRS`
components in their interaction. The share of a cosine is proportional to one over the square of its
frequency.
"""

MOST_PAIR_COLUMNS = 40
"""Largest number of components of the interaction of two columns; larger interactions are not learned."""

MOST_WEIGHTS, MOST_ENTRIES = 512, 1 << 23
"""Limits within which all interactions are learned from the start: weights per arm, and entries of all arms'
covariances (64 MiB). Beyond them a pair is learned after a table with both columns was released.
"""

GATHERED = 1 << 16
"""Number of feature values computed at a time, so that they stay in the cache."""

FEW_COLUMNS = 5
"""Largest number of columns with which a range has three components
in an interaction; with more it has two.
"""


def range_components(bins: int = BINS, shares: Sequence[float] = SHARES) -> FloatArray:
    """Return cosines of mean zero at equal bins of [0, 1], shape (bins, c), in order of decreasing share.

    Args:
        bins: Number of equal parts of the range.
        shares: Shares of the cosines in the variance of a function, shape (c,).

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
    """Return orthogonal contrasts of equal variance; the variances sum to one. Shape (levels, levels - 1).

    These are Helmert contrasts: component k compares level k + 1 to the mean of the levels before it.

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
    """Weights number `start` to `stop` - 1, which belong to the constant, to one column or to a pair."""

    columns: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, eq=False)
class Effects:
    """Set of functions of discrete columns whose m weights are learned.

    Args:
        sizes: Number of levels of each column.
        ordered: True for each column that is a range.
        pairs: Columns (i, j), i < j, whose interactions are learned, in order; None means all that are small
            enough.
        fine: True if a range has more than four cosines, with shares that fall more slowly with frequency.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    pairs: tuple[tuple[int, int], ...] | None = None
    fine: bool = False

    @classmethod
    def of(cls, categories: Sequence[int | None], *, fine: bool = False) -> "Effects":
        """Return the effects of columns.

        Args:
            categories: Number of categories of each column; None for a range.
            fine: True for fine effects; see the class.
        """
        return cls(
            tuple(BINS if count is None else count for count in categories),
            tuple(count is None for count in categories),
            fine=fine,
        )

    @property
    def _shares(self) -> tuple[float, ...]:
        """Shares of the cosines of a range in the variance of a function."""
        if not self.fine:
            return SHARES
        falling = np.arange(1.0, FINE_COSINES[len(self.sizes) > FINE_FEW] + 1.0) ** -2
        return tuple((falling / falling.sum()).tolist())

    @cached_property
    def tables(self) -> tuple[FloatArray, ...]:
        """Component table of every column, shape (levels, c) for c components."""
        return tuple(
            range_components(size, self._shares) if ordered else category_components(size)
            for size, ordered in zip(self.sizes, self.ordered, strict=True)
        )

    @cached_property
    def pair_components(self) -> tuple[int, ...]:
        """Number of components of every column that enter its interactions."""
        most = 3 if len(self.sizes) <= FEW_COLUMNS else 2
        if self.fine and len(self.sizes) <= FINE_FEW and all(self.ordered):
            most = FINE_PAIRS
        return tuple(
            min(most, table.shape[1]) if ordered else table.shape[1]
            for table, ordered in zip(self.tables, self.ordered, strict=True)
        )

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Terms of the constant, of the columns, and of the pairs that are small enough."""
        sizes: list[tuple[tuple[int, ...], int]] = [((), 1)]
        sizes += [((column,), table.shape[1]) for column, table in enumerate(self.tables)]
        pairs = combinations(range(len(self.sizes)), 2) if self.pairs is None else self.pairs
        sizes += [((i, j), self._products(i, j)) for i, j in pairs if self.small_enough(i, j)]
        ends = np.cumsum([count for _, count in sizes]).tolist()
        return tuple(Term(columns, end - n, end) for (columns, n), end in zip(sizes, ends, strict=True))

    def _products(self, i: int, j: int) -> int:
        return self.pair_components[i] * self.pair_components[j]

    def small_enough(self, i: int, j: int) -> bool:
        """Return True if the interaction of two columns has few enough components to be learned."""
        return self._products(i, j) <= MOST_PAIR_COLUMNS

    def all_pairs_fit(self, arms: int) -> bool:
        """Return True if all interactions that are small enough can be learned from the start.

        Time grows with the cube of the number of weights, and memory with its square times the number of
        arms.
        """
        weights = replace(self, pairs=None).n_weights
        return weights <= MOST_WEIGHTS and arms * weights**2 <= MOST_ENTRIES

    def with_pairs(self, pairs: Iterable[tuple[int, int]]) -> "Effects":
        """Return the effects with the interactions of these pairs (i, j) added."""
        if self.pairs is None:
            return self
        joined = tuple(sorted({*self.pairs, *((i, j) for i, j in pairs if self.small_enough(i, j))}))
        return self if joined == self.pairs else replace(self, pairs=joined)

    def places_in(self, other: "Effects") -> IntArray:
        """Return the index of each of these m weights among the weights of `other`, which contains all these
        terms.
        """
        start = {term.columns: term.start for term in other.terms}
        return np.concatenate(
            [start[term.columns] + np.arange(term.stop - term.start) for term in self.terms]
        )

    @property
    def n_weights(self) -> int:
        """Number m of weights."""
        return self.terms[-1].stop

    @cached_property
    def term_of(self) -> IntArray:
        """Index of the term of every weight, shape (m,)."""
        return np.repeat(np.arange(len(self.terms)), [term.stop - term.start for term in self.terms])

    def holds(self, column: int) -> BoolArray:
        """Return an array (terms,) that is True for the terms with this column."""
        return np.array([column in term.columns for term in self.terms])

    @cached_property
    def order(self) -> IntArray:
        """Order of each term, shape (terms,): 0 for the constant, 1 for a column, 2 for a pair."""
        return np.array([len(term.columns) for term in self.terms])

    def greatest_square(self, shares: FloatArray) -> float:
        """Return a bound on the squared norm of features whose squares are multiplied by shares of terms.

        Args:
            shares: Factor of each term's squares, shape (terms,).
        """
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
        """Return for each weight the entries of `tables` whose product is its feature, as (column, component)
        pairs.
        """
        found: list[list[tuple[int, int]]] = []
        for term in self.terms:
            pair = len(term.columns) == 2
            counts = [
                self.pair_components[one] if pair else self.tables[one].shape[1] for one in term.columns
            ]
            found += [[*zip(term.columns, own, strict=True)] for own in np.ndindex(*counts)]
        return found

    def levels(self, points: FloatArray) -> IntArray:
        """Return the levels (n, d) of points (n, d), with ranges in [0, 1] and categories as codes."""
        sizes, ordered = np.array(self.sizes), np.array(self.ordered)
        cut = np.floor(points * np.where(ordered, sizes, 1)).astype(np.int64)
        return np.asarray(np.clip(cut, 0, sizes - 1))

    @cached_property
    def _places(self) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
        """All component tables in one row, and the positions in it of each feature's two factors.

        Feature k of a user with these levels is the product of the entries `first[:, k] + levels[column] *
        width[:, k]` for its two columns. Entry 0 is a one, the second factor of a feature of one column.
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
        """Return the features (n, m) of users with levels (n, d); each row depends on its own user only."""
        flat, first, column, width = self._places
        phi = np.empty((len(levels), self.n_weights))
        step = max(1, GATHERED // self.n_weights)
        for start in range(0, len(levels), step):
            rows = slice(start, start + step)
            own, other = (flat[first[side] + levels[rows, column[side]] * width[side]] for side in (0, 1))
            np.multiply(own, other, out=phi[rows])
        return phi

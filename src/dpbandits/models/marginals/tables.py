"""Cells of marginal tables over groups of columns, with the levels of a range summed to coarser bins."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._typing import IntArray
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = ["BIN_CHOICES", "LARGEST_GROUP", "MOST_CELLS", "Design", "coarse"]

BIN_CHOICES = (2, 3, 4, 6, 8, 12)
"""Numbers of bins that a range may have."""

LARGEST_GROUP, MOST_CELLS = 2, 320
"""Largest number of columns of a reward table, as users are counted in cells of at most two columns; and
largest number of cells of all reward tables together.
"""


def coarse(levels: IntArray, *, size: int, bins: int) -> IntArray:
    """Return the part of each level, shape (n,), if `size` levels are cut into `bins` equal parts.

    Example:
        >>> coarse(np.arange(6), size=6, bins=4).tolist()
        [0, 0, 1, 2, 2, 3]
    """
    return np.asarray(levels * bins // size)


@dataclass(frozen=True)
class Design:
    """Set of q tables, each over one group of columns; a column in no group is in no table.

    A column may be in several groups. Each user is in exactly one cell of each table.

    Args:
        sizes: Number of levels of each column.
        bins: Number of bins of each column, at most its number of levels.
        groups: Columns of each table; () is a table of one cell.
    """

    sizes: tuple[int, ...]
    bins: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    @cached_property
    def cells(self) -> tuple[int, ...]:
        """Number of cells of each group's table."""
        return tuple(int(np.prod([self.bins[j] for j in group], dtype=np.int64)) for group in self.groups)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of columns (i, j), i < j, that are in one table."""
        return tuple(pair for group in self.groups for pair in combinations(group, 2))

    @property
    def n_cells(self) -> int:
        """Number C of cells of all tables together."""
        return sum(self.cells)

    @property
    def shared(self) -> bool:
        """True if some column is in several groups."""
        return sum(map(len, self.groups)) > len({j for group in self.groups for j in group})

    def fits(self, cells: int = MOST_CELLS) -> bool:
        """Return True if no table exceeds `LARGEST_GROUP` columns, and all have at most `cells` cells."""
        return max(map(len, self.groups)) <= LARGEST_GROUP and self.n_cells <= cells

    def with_all_columns(self) -> "Design":
        """Return the design with a new table for each column that is in no group, up to `MOST_CELLS` cells.

        Example:
            >>> Design((3, 24, 2), (3, 2, 2), ((2,),)).with_all_columns().groups
            ((2,), (0,), (1,))
        """
        groups, room = [group for group in self.groups if group], MOST_CELLS - self.n_cells
        for column in sorted(set(range(len(self.sizes))).difference(*groups)):
            if self.bins[column] <= room:
                groups.append((column,))
                room -= self.bins[column]
        return replace(self, groups=tuple(groups) or ((),))

    def locate(self, levels: IntArray) -> IntArray:
        """Return each user's cell in each of q tables, shape (n, q), with cells numbered through all tables.

        Args:
            levels: Levels of the users' columns, shape (n, d).
        """
        found = np.zeros((len(levels), len(self.groups)), dtype=np.int64)
        starts = np.cumsum((0, *self.cells[:-1]))
        for table, group in enumerate(self.groups):
            for j in group:
                part = coarse(levels[:, j], size=self.sizes[j], bins=self.bins[j])
                found[:, table] = found[:, table] * self.bins[j] + part
        return np.asarray(found + starts)

    def indicators(self, levels: IntArray) -> "csr_array":
        """Return a sparse 0/1 matrix (C, n) of the cells in which n users with levels (n, d) are."""
        from scipy.sparse import csr_array

        cells = self.locate(levels)
        n, q = cells.shape
        return csr_array(
            (np.ones(n * q), (cells.ravel(), np.repeat(np.arange(n), q))), shape=(self.n_cells, n)
        )

    def to_array(self) -> IntArray:
        """Return the design as an array for `of_array`.

        The shape is (2, d) for d columns: the index of each column's group, or -1 for none, and its number
        of bins. If groups share columns, the shape is (1 + q, d): the numbers of bins, and for each group a
        row with ones at its columns.
        """
        if self.shared:
            held = [[int(j in group) for j in range(len(self.sizes))] for group in self.groups]
            return np.array([self.bins, *held], dtype=np.int64)
        owner = [
            next((g for g, group in enumerate(self.groups) if j in group), -1) for j in range(len(self.sizes))
        ]
        return np.array([owner, self.bins], dtype=np.int64)

    @classmethod
    def of_array(cls, sizes: tuple[int, ...], array: IntArray) -> "Design":
        """Return the design of an array from `to_array`.

        Raises:
            InvalidParameter: The array is not a design of columns of these sizes.
        """
        shaped = array.ndim == 2 and array.shape[1] == len(sizes) and array.dtype == np.int64
        shared = len(array) > 2
        own = array[0 if shared else 1] if shaped and len(array) > 1 else np.zeros(1, dtype=np.int64)
        if (own < 1).any() or (own > np.array(sizes)).any():
            raise InvalidParameter("a design has a group and at most as many bins as levels for every column")
        if shared:
            return cls._shared(sizes, tuple(own.tolist()), array[1:])
        owner = array[0].tolist()
        names = sorted({group for group in owner if group >= 0})
        if names != list(range(len(names))) or min(owner) < -1:
            raise InvalidParameter("a design's groups are numbered from 0")
        groups = tuple(tuple(j for j, own in enumerate(owner) if own == group) for group in names)
        return cls(sizes, tuple(array[1].tolist()), groups or ((),))

    @classmethod
    def _shared(cls, sizes: tuple[int, ...], bins: tuple[int, ...], held: IntArray) -> "Design":
        """Return a design whose groups share columns.

        Args:
            sizes: Number of levels of each column.
            bins: Number of bins of each column.
            held: Ones at the columns of each group, else zeros, shape (q, d).

        Raises:
            InvalidParameter: `held` is not of this form.
        """
        groups = tuple(tuple(np.flatnonzero(row).tolist()) for row in held)
        repeated = max(held.sum(axis=0)) > 1 and len(set(groups)) == len(groups)
        if not repeated or not np.isin(held, (0, 1)).all() or not all(groups):
            raise InvalidParameter("groups that share columns are different ones, marked by ones")
        return cls(sizes, bins, groups)

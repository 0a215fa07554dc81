"""`CellGrid`: a public grid of cells over some columns of the unit cube.

This module needs only NumPy and the standard library, as clients import it.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["CellGrid"]


@dataclass(frozen=True)
class CellGrid:
    """A public grid over all columns of the unit cube, or over some of them.

    Attributes:
        sizes: Number of cells along each of the grid's columns.
        columns: Indices of the columns that the grid covers; empty for all.

    Example:
        >>> grid = CellGrid((4, 2))
        >>> grid.size, grid.locate(np.array([[0.3, 0.9], [1.0, 1.0]])).tolist()
        (8, [3, 7])
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...] = ()

    @cached_property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.sizes)

    @cached_property
    def centres(self) -> FloatArray:
        """Centres of the grid's G cells in the unit cube, shape (G, dim)."""
        places = np.stack(np.unravel_index(np.arange(self.size), self.sizes), axis=1)
        return np.asarray((places + 0.5) / np.array(self.sizes))

    def locate(self, points: FloatArray) -> IntArray:
        """Return the cell of each of n points of the unit cube, shape (n,).

        Points have shape (n, dim).
        """
        sizes, strides = self._steps
        points = points[:, self.columns] if self.columns else points
        return np.asarray(np.minimum((points * sizes).astype(np.int64), sizes - 1) @ strides)

    @cached_property
    def _steps(self) -> tuple[IntArray, IntArray]:
        """Numbers of cells along each column, and index distances of neighbours along it, (dim,) each."""
        sizes = np.array(self.sizes, dtype=np.int64)
        return sizes, np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int64)

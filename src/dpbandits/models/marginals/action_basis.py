"""`ActionBasis`: smooth functions of a grid of actions, and its bins."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.marginals.effects import category_components, range_components

__all__ = ["ActionBasis"]

SHARES = (0.60, 0.20, 0.09, 0.05, 0.035, 0.025)
"""Shares of the cosines of an action in the variance of a function over it."""


@dataclass(frozen=True, eq=False)
class ActionBasis:
    """Functions of the grid of actions, the last column's steps varying fastest.

    Args:
        sizes: Steps of each action column.
        ordered: True for columns with an order.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]

    @cached_property
    def grid(self) -> IntArray:
        """Codes (K, p) of all actions."""
        return np.indices(self.sizes).reshape(len(self.sizes), -1).T

    @cached_property
    def _parts(self) -> list[tuple[int, FloatArray]]:
        """Number of columns and functions (K, c) of every term: the constant, columns, pairs of columns."""
        tables = [
            range_components(size, SHARES[: max(1, size - 1)]) if order else category_components(size)
            for size, order in zip(self.sizes, self.ordered, strict=True)
        ]
        alone = [table[codes] for table, codes in zip(tables, self.grid.T, strict=True)]
        found = [(0, np.ones((len(self.grid), 1))), *((1, own) for own in alone)]
        few = [own[:, :3] if order else own for own, order in zip(alone, self.ordered, strict=True)]
        for i in range(len(few)):
            for j in range(i):
                both = few[j][:, :, None] * few[i][:, None, :]
                found.append((2, both.reshape(len(self.grid), -1)))
        return found

    @cached_property
    def table(self) -> FloatArray:
        """Functions (K, b) at every action."""
        return np.concatenate([own for _, own in self._parts], axis=1)

    @cached_property
    def term_of(self) -> IntArray:
        """Term (b,) of every function."""
        return np.repeat(np.arange(len(self._parts)), [own.shape[1] for _, own in self._parts])

    @cached_property
    def order(self) -> IntArray:
        """Number of columns of every term."""
        return np.array([order for order, _ in self._parts])

    def bins(self, most: int) -> IntArray:
        """Bin (K,) of every action: a column with an order in at most `most` equal parts.

        Categories stay apart, and columns with an order share `most` among them.
        """
        ranges = sum(self.ordered)
        apart = int(np.prod([n for n, order in zip(self.sizes, self.ordered, strict=True) if not order]))
        parts = max(2, int(np.floor(max(4.0, most / apart) ** (1.0 / max(1, ranges)) + 1e-9)))
        found = np.zeros(len(self.grid), dtype=np.int64)
        for size, order, codes in zip(self.sizes, self.ordered, self.grid.T, strict=True):
            own = min(parts, size) if order else size
            found = found * own + codes * own // size
        return found

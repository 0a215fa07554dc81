"""`ActionBasis`: functions of the columns of actions or products, and bins of them."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.marginals.effects import MOST_PAIR_COLUMNS, category_components, range_components

__all__ = ["ALONE", "ActionBasis"]

ALONE = 3
"""Order of the term that has one function for every action."""

PARTS = 4
"""Most parts of a column with an order, where several columns share the bins."""

SHARES = (0.60, 0.20, 0.09, 0.05, 0.035, 0.025)
"""Shares of an action column's cosines in the variance of a function over it."""


@dataclass(frozen=True, eq=False)
class ActionBasis:
    """Functions of the columns of K actions.

    Args:
        sizes: Number of levels of each column.
        ordered: True for columns with an order.
        rows: Levels (K, p) of every action. None for the full grid, the last column's levels varying fastest.
        alone: True if every action has a function of its own, which is one there and zero elsewhere.
    """

    sizes: tuple[int, ...]
    ordered: tuple[bool, ...]
    rows: tuple[tuple[int, ...], ...] | None = None
    alone: bool = False

    def __post_init__(self) -> None:
        rows = self.grid
        if rows.ndim != 2 or rows.shape[1] != len(self.sizes) or not len(rows):
            raise InvalidParameter(f"rows: expected {len(self.sizes)} levels for every action")
        if (rows < 0).any() or (rows >= np.array(self.sizes)).any():
            raise InvalidParameter("rows: a level is below 0, or at least the number of levels")

    @cached_property
    def grid(self) -> IntArray:
        """Levels (K, p) of all actions."""
        if self.rows is not None:
            return np.array(self.rows, dtype=np.int64)
        return np.indices(self.sizes).reshape(len(self.sizes), -1).T

    @cached_property
    def _tables(self) -> list[FloatArray]:
        return [
            range_components(size, SHARES[: max(1, size - 1)]) if order else category_components(size)
            for size, order in zip(self.sizes, self.ordered, strict=True)
        ]

    def _few(self, alone: list[FloatArray]) -> list[FloatArray]:
        return [own[..., :3] if order else own for own, order in zip(alone, self.ordered, strict=True)]

    @staticmethod
    def _pairs(few: list[FloatArray]) -> list[tuple[int, int]]:
        """Return the pairs of columns whose products are few enough to be learned."""
        counts = [own.shape[-1] for own in few]
        every = [(i, j) for i in range(len(few)) for j in range(i)]
        return [(i, j) for i, j in every if counts[i] * counts[j] <= MOST_PAIR_COLUMNS]

    @cached_property
    def _parts(self) -> list[tuple[int, FloatArray]]:
        """Order and functions (K, c) of every term: the constant, columns, pairs of columns, actions alone.

        The order is the number of columns, or `ALONE`. Large pairs of columns are left out.
        """
        alone = [table[codes] for table, codes in zip(self._tables, self.grid.T, strict=True)]
        found, few = [(0, np.ones((len(self.grid), 1))), *((1, own) for own in alone)], self._few(alone)
        for i, j in self._pairs(few):
            both = few[j][:, :, None] * few[i][:, None, :]
            found.append((2, both.reshape(len(self.grid), -1)))
        return [*found, (ALONE, np.eye(len(self.grid)))] if self.alone else found

    @cached_property
    def table(self) -> FloatArray:
        """Values of all b functions at every action, shape (K, b)."""
        return np.concatenate([own for _, own in self._parts], axis=1)

    @cached_property
    def squares(self) -> FloatArray:
        """Mean square (b,) of every function over uniform levels of its columns; 1 for actions alone.

        It does not depend on which actions there are.
        """
        alone = [(table**2).mean(axis=0) for table in self._tables]
        found, few = [np.ones(1), *alone], self._few(alone)
        pairs = [np.outer(few[j], few[i]).ravel() for i, j in self._pairs(few)]
        return np.concatenate([*found, *pairs, np.ones(len(self.grid) if self.alone else 0)])

    @cached_property
    def term_of(self) -> IntArray:
        """Index of the term of every function, shape (b,)."""
        return np.repeat(np.arange(len(self._parts)), [own.shape[1] for _, own in self._parts])

    @cached_property
    def order(self) -> IntArray:
        """Order of every term: its number of columns, or `ALONE`."""
        return np.array([order for order, _ in self._parts])

    def bins(self, most: int) -> IntArray:
        """Return the bin of every action, shape (K,), with about `most` bins in all.

        Categories are not joined. Each column with an order is cut into the same number of equal parts: at
        least two, and otherwise as many as `most` allows.
        """
        ranges = sum(self.ordered)
        apart = int(np.prod([n for n, order in zip(self.sizes, self.ordered, strict=True) if not order]))
        parts = max(2, int(np.floor(max(4.0, most / apart) ** (1.0 / max(1, ranges)) + 1e-9)))
        found = np.zeros(len(self.grid), dtype=np.int64)
        for size, order, codes in zip(self.sizes, self.ordered, self.grid.T, strict=True):
            own = min(parts, size) if order else size
            found = found * own + codes * own // size
        return found

    def bins_of_some(self, most: int, first: int) -> IntArray:
        """Return bins (K,) of every action by the levels of some columns, beginning with column `first`.

        Further columns are used as long as there are at most `most` bins. Levels are cut into as many equal
        parts as fit. Bins without an action have no number.

        Example:
            >>> rows = ((0, 0), (0, 5), (2, 5), (1, 0))
            >>> ActionBasis((3, 6), (False, True), rows).bins_of_some(6, 0).tolist()
            [0, 1, 3, 2]
        """
        p, room, found = len(self.sizes), most, np.zeros(len(self.grid), dtype=np.int64)
        for column in ((first + place) % p for place in range(p)):
            size, codes = self.sizes[column], self.grid[:, column]
            parts = min(size, PARTS, room) if self.ordered[column] else min(size, room)
            if parts < 2 or (parts < size and not self.ordered[column] and room < most):
                continue
            found, room = found * parts + codes * parts // size, room // parts
        return np.unique(found, return_inverse=True)[1].ravel()

"""Feature vectors and Gram matrices stored by support, without the zeros between supports.

A support is an index range of the features outside which a feature vector is zero, such as the features of
one arm. With K arms and m features of each, a dense vector has K m entries and a dense Gram matrix (K m)^2.
By support they have m and K m^2. The blocks of a Gram matrix are one array (..., C): the entries of each
support's block, row by row, one support after another.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["Placed", "Supports", "block_entries", "blocks_of", "placed_from_dense"]

Supports = tuple[tuple[int, int], ...]
"""Half-open index ranges that partition the features; every feature vector is zero outside one of them."""


def block_entries(supports: Supports) -> int:
    """Return the total number C of entries of a Gram matrix's blocks, one block per support."""
    return sum((high - low) ** 2 for low, high in supports)


def blocks_of(flat: FloatArray, supports: Supports) -> list[FloatArray]:
    """Return each support's block as a view (..., s, s) of an array (..., C), for a support of s features.

    Example:
        >>> [block.tolist() for block in blocks_of(np.arange(5.0), ((0, 2), (2, 3)))]
        [[[0.0, 1.0], [2.0, 3.0]], [[4.0]]]
    """
    found, at = [], 0
    for low, high in supports:
        size = high - low
        found.append(flat[..., at : at + size**2].reshape(*flat.shape[:-1], size, size))
        at += size**2
    return found


class Placed(NamedTuple):
    """Feature vectors of n points, stored by support.

    Attributes:
        support: Index of the support that each point uses, shape (n,).
        phi: Features of each point in its support, shape (n, w) with w the size of the largest support. The
            entries beyond a smaller support are zero.
    """

    support: IntArray
    phi: FloatArray

    def __repr__(self) -> str:
        return "Placed()"

    def groups(self, supports: Supports) -> Iterator[tuple[int, IntArray | slice]]:
        """Yield (index of a support, rows of the points that use it), for every support in use."""
        if len(supports) == 1:
            yield 0, slice(None)
            return
        order = np.argsort(self.support, kind="stable")
        used, starts = np.unique(self.support[order], return_index=True)
        yield from zip(used.tolist(), np.split(order, starts[1:]), strict=bool(len(order)))

    def gram(self, supports: Supports) -> FloatArray:
        """Return the sum of phi phi^T over the points, as blocks (C,)."""
        flat = np.zeros(block_entries(supports))
        blocks = blocks_of(flat, supports)
        for index, rows in self.groups(supports):
            part = self.phi[rows, : len(blocks[index])]
            blocks[index][...] = part.T @ part
        return flat

    def vector(self, supports: Supports, values: FloatArray) -> FloatArray:
        """Return the sum of value times feature vector over the points, shape (m,), for values (n,)."""
        found = np.zeros(supports[-1][1])
        for index, rows in self.groups(supports):
            low, high = supports[index]
            found[low:high] = values[rows] @ self.phi[rows, : high - low]
        return found


def placed_from_dense(phi: FloatArray, supports: Supports) -> Placed:
    """Return dense feature vectors (n, m) by support; a vector of zeros gets the first support."""
    if len(supports) == 1:
        return Placed(np.zeros(len(phi), dtype=np.int64), phi)
    starts = np.array([low for low, _ in supports])
    support = np.searchsorted(starts, (phi != 0.0).argmax(axis=1), side="right") - 1
    own = np.zeros((len(phi), max(high - low for low, high in supports)))
    found = Placed(support, own)
    for index, rows in found.groups(supports):
        low, high = supports[index]
        own[rows, : high - low] = phi[rows, low:high]
    return found

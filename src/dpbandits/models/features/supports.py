"""Feature vectors and Gram matrices by support, without the zeros between supports.

With K arms and m features of each, a dense vector has K m entries and a dense Gram matrix has (K m)^2. By
support the numbers are m and K m^2. Blocks are stored as one array (..., C), which has the entries of each
support's block, row by row, one support after another.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["Placed", "Supports", "block_entries", "blocks_of", "placed_from_dense"]

Supports = tuple[tuple[int, int], ...]
"""Half-open index ranges that split the features; every feature vector is zero outside one of them."""


def block_entries(supports: Supports) -> int:
    """Return the number C of entries of one block per support."""
    return sum((high - low) ** 2 for low, high in supports)


def blocks_of(flat: FloatArray, supports: Supports) -> list[FloatArray]:
    """Return views (..., s, s) of the blocks in an array (..., C).

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
    """Feature vectors of n points by support.

    Attributes:
        support: Index of the support that each point uses, shape (n,).
        phi: Features in that support, shape (n, w) with w the size of the largest support; the rest is zero.
    """

    support: IntArray
    phi: FloatArray

    def __repr__(self) -> str:
        return "Placed()"

    def groups(self, supports: Supports) -> Iterator[tuple[int, IntArray | slice]]:
        """Yield every support that some points use, and the rows of these points, in order."""
        if len(supports) == 1:
            yield 0, slice(None)
            return
        order = np.argsort(self.support, kind="stable")
        used, starts = np.unique(self.support[order], return_index=True)
        yield from zip(used.tolist(), np.split(order, starts[1:]), strict=bool(len(order)))

    def gram(self, supports: Supports) -> FloatArray:
        """Return the sum (C,) of phi phi^T."""
        flat = np.zeros(block_entries(supports))
        blocks = blocks_of(flat, supports)
        for index, rows in self.groups(supports):
            part = self.phi[rows, : len(blocks[index])]
            blocks[index][...] = part.T @ part
        return flat

    def vector(self, supports: Supports, values: FloatArray) -> FloatArray:
        """Return the sum (m,) of values (n,) times phi."""
        found = np.zeros(supports[-1][1])
        for index, rows in self.groups(supports):
            low, high = supports[index]
            found[low:high] = values[rows] @ self.phi[rows, : high - low]
        return found


def placed_from_dense(phi: FloatArray, supports: Supports) -> Placed:
    """Return dense vectors (n, m) by support; a vector of zeros has the first support."""
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

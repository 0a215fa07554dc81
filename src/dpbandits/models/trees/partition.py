"""Adaptive dyadic partitions of the unit cube, stored as arrays.

Node 0 is the cube. A node is split in the middle of its longest edge (the max-edge rule). Among equally long
edges the choice is public: the first, or one that is keyed by a public seed and the node's number. A point
on a threshold belongs to the upper child. Children are numbered in the order of the splits, so the list of
split nodes determines the partition. The module needs NumPy only, because it runs on devices.
"""

import hashlib
import operator
from collections.abc import Iterable
from typing import Literal

import numpy as np

from dpbandits import _checks
from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter

__all__ = ["DyadicPartition", "TieRule"]

TieRule = Literal["first", "keyed"]

# Largest number of times that an edge of the unit cube can be halved exactly in float64.
MAX_HALVINGS = 52

MOST_COLUMNS = 512
"""Largest number of columns of a context; with more columns, most would never be split."""


class DyadicPartition:
    """Binary partition of [0, 1]^dim that can be refined.

    Args:
        dim: Number of columns.
        tie: Choice between equally long edges: `first`, or `keyed` by the public seed.
        seed: Public seed, used by `keyed` only.
        splits: Nodes split so far, in order.

    Attributes, of shape (n_nodes,) and -1 where not defined: `parent`, `left` and `right` (lower and upper
    child), `split_column` (the column that was halved), `depth`, `threshold`, and `rank` (position of a node
    among the leaves). Other attributes: `low`, `high` (n_nodes, dim); `leaves` (n_leaves,), ascending node
    numbers.

    Example:
        >>> partition = DyadicPartition(dim=2, splits=[0, 2])
        >>> partition.leaves, partition.locate(np.array([[0.7, 0.2], [0.1, 0.9]]))
        (array([1, 3, 4]), array([3, 1]))
    """

    def __init__(
        self, *, dim: int, tie: TieRule = "first", seed: int = 0, splits: Iterable[int] = ()
    ) -> None:
        _checks.one_of(tie, ("first", "keyed"), name="tie")
        if _checks.integer(dim, name="dim") > MOST_COLUMNS:
            raise InvalidParameter(f"dim is {dim}, expected at most {MOST_COLUMNS} columns")
        self.dim, self.tie, self.seed = int(dim), tie, _checks.integer(seed, name="seed", minimum=0)
        self.n_nodes = 1
        self.parent, self.left, self.right, self.split_column = np.full((4, 1), -1, dtype=np.int64)
        self.depth = np.zeros(1, dtype=np.int64)
        self.threshold = np.zeros(1)
        self.low, self.high = np.zeros((1, dim)), np.ones((1, dim))
        self.splits: list[int] = []
        self.leaves = np.zeros(1, dtype=np.int64)
        self.rank = np.zeros(1, dtype=np.int64)
        with reading("a list of nodes"):
            nodes = [operator.index(node) for node in splits]
        if not all(0 <= node <= 2 * len(nodes) for node in nodes):
            raise InvalidParameter("splits: expected nodes of this partition, in the order they were split")
        self._replay(nodes)

    @property
    def max_depth(self) -> int:
        """Depth of the deepest leaf."""
        return int(self.depth.max())

    def splittable(self, nodes: IntArray) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
        """Return an array that is True for nodes that can still be halved exactly."""
        return np.asarray(self.depth[nodes] < MAX_HALVINGS * self.dim)

    def split(self, nodes: Iterable[int] | IntArray) -> IntArray:
        """Split leaves, and return their children (m, 2), lower before upper.

        Raises:
            InvalidParameter: A node is not a leaf, is given twice, or is too small to be halved.
        """
        chosen = np.asarray(list(nodes), dtype=np.int64)
        inside = (chosen >= 0) & (chosen < self.n_nodes)
        if not inside.all() or (self.left[chosen] >= 0).any() or len(np.unique(chosen)) < len(chosen):
            raise InvalidParameter("split: expected distinct leaves of this partition")
        if not self.splittable(chosen).all():
            raise InvalidParameter("split: an edge of that leaf is too short to be halved exactly")
        m = len(chosen)
        if m == 0:
            return np.empty((0, 2), dtype=np.int64)
        columns = self._longest(chosen)
        middle = (self.low[chosen, columns] + self.high[chosen, columns]) / 2.0
        children = self.n_nodes + np.arange(2 * m, dtype=np.int64).reshape(m, 2)
        low, high = np.repeat(self.low[chosen], 2, axis=0), np.repeat(self.high[chosen], 2, axis=0)
        high[np.arange(0, 2 * m, 2), columns] = middle
        low[np.arange(1, 2 * m, 2), columns] = middle
        nothing = np.full(2 * m, -1, dtype=np.int64)
        self.left, self.right, self.split_column = (
            np.concatenate([links, nothing]) for links in (self.left, self.right, self.split_column)
        )
        self.parent = np.concatenate([self.parent, np.repeat(chosen, 2)])
        self.left[chosen], self.right[chosen], self.split_column[chosen] = *children.T, columns
        self.threshold[chosen] = middle
        self.threshold = np.concatenate([self.threshold, np.zeros(2 * m)])
        self.depth = np.concatenate([self.depth, np.repeat(self.depth[chosen] + 1, 2)])
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        self.n_nodes += 2 * m
        self.splits.extend(chosen.tolist())
        self.leaves = np.flatnonzero(self.left < 0)
        self.rank = np.full(self.n_nodes, -1, dtype=np.int64)
        self.rank[self.leaves] = np.arange(len(self.leaves))
        return children

    def _replay(self, splits: list[int]) -> None:
        """Split nodes in the given order, many at a time; node numbers are as if split one by one."""
        done = 0
        while done < len(splits):
            ready = done
            while ready < len(splits) and splits[ready] < self.n_nodes:
                ready += 1
            if ready == done:
                raise InvalidParameter(
                    "splits: a node is split before it exists, expected parents before children"
                )
            self.split(splits[done:ready])
            done = ready

    def locate(self, points: FloatArray, below: IntArray | None = None) -> IntArray:
        """Return the node number of the leaf that contains each point, shape (n,).

        Args:
            points: Points in the unit cube, shape (n, dim).
            below: Node in which each point lies, shape (n,); by default the cube.
        """
        nodes = np.zeros(len(points), dtype=np.int64) if below is None else below
        rows = np.arange(len(points))
        left, right, column, threshold = self.left, self.right, self.split_column, self.threshold
        for _ in range(self.max_depth - int(self.depth[nodes].min(initial=self.max_depth))):
            inner = left[nodes] >= 0
            upper = points[rows, column[nodes]] >= threshold[nodes]
            nodes = np.where(inner, np.where(upper, right[nodes], left[nodes]), nodes)
        return nodes

    def _longest(self, nodes: IntArray) -> IntArray:
        edges = self.high[nodes] - self.low[nodes]
        longest = edges == edges.max(axis=1, keepdims=True)
        if self.tie == "first":
            return np.asarray(longest.argmax(axis=1))
        options = map(np.flatnonzero, longest)
        return np.array([_keyed_choice(self.seed, *each) for each in zip(nodes, options, strict=True)])

    def __repr__(self) -> str:
        return f"DyadicPartition(dim={self.dim}, tie={self.tie!r}, leaves={len(self.leaves)})"


def _keyed_choice(seed: int, node: int, options: IntArray) -> int:
    """Return one of the options, chosen by a hash of (seed, node), which is equal on every machine."""
    digest = hashlib.blake2b(f"{seed}|split|{int(node)}".encode(), digest_size=8).digest()
    return int(options[int.from_bytes(digest, "little") % len(options)])

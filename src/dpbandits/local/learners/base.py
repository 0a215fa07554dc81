"""What the server's learning rules share: they see noisy sums, never a report and never a person.

A rule owns a partition and, version by version, publishes weights over arms in every leaf. After the
version's reports have been summed it is told the two unbiased sums of every cell (see
`dpbandits.privacy.reports`) and how noisy they are.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.privacy.reports import Moments

__all__ = ["CellSums", "LearningRule", "grown"]


@dataclass(frozen=True, kw_only=True)
class CellSums:
    """The estimates from the reports of one published version.

    With server-assigned arms a cell is a leaf and `arms` says which arm it pulled; with arms chosen
    by users a cell is a (leaf, arm) pair, in row-major order, and `weights` are the published ones.

    Attributes:
        leaves: (L,) nodes that were leaves of that version.
        arms: (L,) assigned arms, or None.
        weights: (L, K) published arm probabilities, or None.
        signed: (L,) or (L, K) unbiased sums of 1[cell] (2 reward - 1).
        count: (L,) or (L, K) unbiased sums of 1[cell].
        n: number of reports.
        moments: of the mechanism that made them.
    """

    leaves: IntArray
    arms: IntArray | None
    weights: FloatArray | None
    signed: FloatArray
    count: FloatArray
    n: int
    moments: Moments


class LearningRule(Protocol):
    """A rule that turns noisy sums into published arms."""

    partition: DyadicPartition

    def weights(self) -> FloatArray:
        """(L, K) probabilities with which the leaves pull the arms, for arms chosen by users."""

    def assign(self, normals: FloatArray) -> IntArray:
        """(L,) one arm a leaf, for arms assigned by the server.

        Args:
            normals: (L, K) public standard normals of this version.
        """

    def learn(self, sums: CellSums) -> None:
        """Take in the sums of one version."""

    def refine(self) -> None:
        """Eliminate arms and split leaves, where the rule says so."""


def grown(array: FloatArray, n_nodes: int, fill: float = 0.0) -> FloatArray:
    """The array with rows for new nodes."""
    if len(array) >= n_nodes:
        return array
    extra = np.full((n_nodes - len(array), *array.shape[1:]), fill)
    return np.concatenate([array, extra])

"""Learning without deciding: bins and arms fixed beforehand, sums kept. What a source's server does."""

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter, ProtocolError
from dpbandits.local.learners.base import CellSums
from dpbandits.local.learners.evidence import SourceSums
from dpbandits.models.trees.partition import DyadicPartition

__all__ = ["ExploreRule"]


class ExploreRule:
    """All bins of one depth; arms uniform, whatever the reports say.

    Args:
        partition: a fresh partition; it is split everywhere, `depth` times.
        n_arms: number of arms.
        depth: of the bins.
        max_leaves: bound on the number of bins.

    Raises:
        InvalidParameter: 2^depth bins are more than `max_leaves`.
    """

    def __init__(
        self, *, partition: DyadicPartition, n_arms: int, depth: int = 0, max_leaves: int = 4096
    ) -> None:
        if depth < 0 or 2**depth > max_leaves:
            raise InvalidParameter(f"depth: expected an integer >= 0 with at most {max_leaves} bins")
        for _ in range(depth):
            partition.split(partition.leaves)
        self.partition, self.n_arms = partition, n_arms
        shape = (len(partition.leaves), n_arms)
        self._signed, self._count, self._reach = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._sums: CellSums | None = None

    def weights(self) -> FloatArray:
        """Uniform."""
        return np.full((len(self.partition.leaves), self.n_arms), 1.0 / self.n_arms)

    def assign(self, normals: FloatArray) -> IntArray:
        """Uniform, by the public coin."""
        return np.asarray(normals.argmax(axis=1))

    def learn(self, sums: CellSums) -> None:
        """Add a version's sums."""
        if sums.arms is None:
            self._signed += sums.signed
            self._count += sums.count
            self._reach += sums.n
        else:
            at = (np.arange(len(sums.arms)), sums.arms)
            self._signed[at] += sums.signed
            self._count[at] += sums.count
            self._reach[at] += sums.n
        self._sums = sums

    def refine(self) -> None:
        """Bins stay as they are."""

    def sums(self) -> SourceSums:
        """Everything added up.

        Raises:
            ProtocolError: nothing has come in yet.
        """
        if self._sums is None:
            raise ProtocolError("the source has no reports yet")
        return SourceSums(
            partition=self.partition,
            signed=self._signed.copy(),
            count=self._count.copy(),
            reach=self._reach.copy(),
            moments=self._sums.moments,
            arm_hidden=self._sums.arms is None,
        )

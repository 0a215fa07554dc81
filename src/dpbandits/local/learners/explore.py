"""The learner of a source's server: fixed bins, uniform arms, and stored sums."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter, ProtocolError
from dpbandits.local.learners.base import BinLearner, VersionSums
from dpbandits.local.learners.evidence import SourceSums
from dpbandits.privacy.reports import Moments

__all__ = ["ExploreConstants", "ExploreRule"]

_MOMENTS = tuple(one.name for one in fields(Moments))


@dataclass(frozen=True, kw_only=True)
class ExploreConstants:
    """Public constants of the learner `explore`.

    Attributes:
        depth: Depth of the bins, a whole number.

    Raises:
        InvalidParameter: `depth` is not a whole number of at least 0.
    """

    depth: float = 0

    def __post_init__(self) -> None:
        if self.depth != int(self.depth) or self.depth < 0:
            raise InvalidParameter("constants: depth: expected an integer >= 0")


class ExploreRule(BinLearner):
    """A learner with fixed bins, all of one depth, and uniform arms. Arguments as for `BinLearner`.

    Raises:
        InvalidParameter: 2^depth exceeds `max_leaves`.
    """

    Constants = ExploreConstants
    kept: ClassVar[tuple[str, ...]] = ("_signed", "_count", "_reach", "_moments", "_hidden")

    def _begin(self) -> None:
        partition, depth = self.partition, int(self.constants.depth)
        if 2**depth > self.max_leaves:
            raise InvalidParameter(f"depth: expected an integer >= 0 with at most {self.max_leaves} bins")
        for _ in range(depth):
            partition.split(partition.leaves)
        shape = (len(partition.leaves), self.n_arms)
        self._signed, self._count, self._reach = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._moments, self._hidden = np.zeros((0, len(_MOMENTS))), 0  # at most one row: the last version

    def weights(self) -> FloatArray:
        """Return uniform probabilities of the K arms in the L leaves, shape (L, K)."""
        return np.full((len(self.partition.leaves), self.n_arms), 1.0 / self.n_arms)

    def assign(self, normals: FloatArray) -> IntArray:
        """Return an arm for each leaf, shape (L,), drawn uniformly by public coins."""
        return np.asarray(normals.argmax(axis=1))

    def learn(self, sums: VersionSums) -> None:
        """Add the sums of the reports on one version."""
        at: Any = slice(None) if sums.arms is None else (np.arange(len(sums.arms)), sums.arms)
        self._signed[at] += sums.signed
        self._count[at] += sums.count
        self._reach[at] += sums.n
        self._moments = np.array([[getattr(sums.moments, name) for name in _MOMENTS]])
        self._hidden = int(sums.arms is None)

    def refine(self, splits: IntArray | None = None) -> None:
        """Do nothing, because the bins are fixed."""

    def sums(self) -> SourceSums:
        """Return the sums of all reports so far.

        Raises:
            ProtocolError: there are no reports yet.
        """
        if not len(self._moments):
            raise ProtocolError("the source has no reports yet")
        return SourceSums(
            partition=self.partition,
            signed=self._signed.copy(),
            count=self._count.copy(),
            reach=self._reach.copy(),
            moments=Moments(**dict(zip(_MOMENTS, self._moments[0].tolist(), strict=True))),
            arm_hidden=bool(self._hidden),
        )

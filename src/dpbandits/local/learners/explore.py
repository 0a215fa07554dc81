"""Learning without deciding: bins and arms fixed beforehand, sums kept. What a source's server does."""

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
    """Public constants.

    Attributes:
        depth: of the bins, a whole number.

    Raises:
        InvalidParameter: not a whole number of at least 0.
    """

    depth: float = 0

    def __post_init__(self) -> None:
        if self.depth != int(self.depth) or self.depth < 0:
            raise InvalidParameter("constants: the learner 'explore' takes an integer depth")


class ExploreRule(BinLearner):
    """All bins of one depth; arms uniform, whatever the reports say. Arguments as for `BinLearner`.

    Raises:
        InvalidParameter: 2^depth bins are more than `max_leaves`.
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
        self._moments, self._hidden = np.zeros((0, len(_MOMENTS))), 0  # of the last version: no row, or one

    def weights(self) -> FloatArray:
        """Uniform."""
        return np.full((len(self.partition.leaves), self.n_arms), 1.0 / self.n_arms)

    def assign(self, normals: FloatArray) -> IntArray:
        """Uniform, by the public coin."""
        return np.asarray(normals.argmax(axis=1))

    def learn(self, sums: VersionSums) -> None:
        """Add a version's sums."""
        at: Any = slice(None) if sums.arms is None else (np.arange(len(sums.arms)), sums.arms)
        self._signed[at] += sums.signed
        self._count[at] += sums.count
        self._reach[at] += sums.n
        self._moments = np.array([[getattr(sums.moments, name) for name in _MOMENTS]])
        self._hidden = int(sums.arms is None)

    def refine(self, splits: IntArray | None = None) -> None:
        """Bins stay as they are."""

    def sums(self) -> SourceSums:
        """Everything added up.

        Raises:
            ProtocolError: nothing has come in yet.
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

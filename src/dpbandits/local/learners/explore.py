"""Learners that change no policy: that of a source's server, which stores sums, and that of a readout."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.learners.base import BinLearner, VersionSums
from dpbandits.local.learners.evidence import SourceSums
from dpbandits.privacy.reports import Moments

__all__ = ["ExploreConstants", "ExploreRule", "FixedPolicy"]

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


class FixedPolicy:
    """The learner of a readout, which publishes the policy of the contract once; see `Learner`.

    The server keeps the counts of its one version, so there is nothing to learn or to store.
    """

    def publish(self, spec: Any, _version: int, _coins: Any) -> PublishedArms:
        """Return the policy of the contract."""
        policy: PublishedArms = spec.policy
        return policy

    def count(self, _spec: Any, _published: PublishedArms, _counted: Any) -> None:
        """Raise ProtocolError, because the reports of a readout are read as they are counted."""
        raise ProtocolError("the reports of a readout change no policy: use readout()")

    def refine(self) -> None:
        """Do nothing."""

    def follow(self, _published: PublishedArms) -> None:
        """Do nothing."""

    def estimate(self, _spec: Any, _published: PublishedArms) -> PublishedArms:
        """Raise ProtocolError, as a readout has no expected rewards of arms."""
        raise ProtocolError("a readout has no law of rewards: use readout()")

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return no arrays."""
        return {}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Raise IncompatibleState if there are arrays."""
        if arrays:
            raise IncompatibleState("the state belongs to another spec")

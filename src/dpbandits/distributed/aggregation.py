"""`IdealAggregation`: both aggregators in one process, for simulations and tests.

It computes what two aggregators compute together: the sum of a version's reports, plus the noise of each. It
splits nothing into shares, so the process that runs it sees every report.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import an, integer
from dpbandits._seen import Seen, said
from dpbandits._typing import IntArray
from dpbandits.distributed.device import Report
from dpbandits.distributed.spec import DistributedSpec
from dpbandits.errors import InvalidData, ProtocolError
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.histogram import AGGREGATORS
from dpbandits.privacy.noise import NoiseSource, SecureNoise
from dpbandits.state.holder import Held, Holder, in_turn

__all__ = ["Aggregate", "IdealAggregation"]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Aggregate:
    """Released sum of one version's reports, with the noise of both aggregators. It is public.

    Attributes:
        version: Number of the version.
        sums: Noisy numbers of reports in the L buckets, shape (L,), which may be negative.
        reports: Number of reports in the sum, which is public.
    """

    version: int
    sums: IntArray
    reports: int

    def __post_init__(self) -> None:
        integer(self.version, name="version", minimum=0)
        integer(self.reports, name="reports", minimum=0)
        sums = np.array(self.sums)
        if sums.ndim != 1 or sums.dtype.kind not in "iu":
            raise InvalidData("sums: expected a list of integers")
        sums = sums.astype(np.int64)
        sums.flags.writeable = False
        object.__setattr__(self, "sums", sums)

    def __repr__(self) -> str:
        return said(self, version=self.version, reports=self.reports)

    def equals(self, other: "Aggregate") -> bool:
        """Return True if the other one is the same release."""
        same = (self.version, self.reports) == (other.version, other.reports)
        return same and np.array_equal(self.sums, other.sums)


@dataclass(repr=False)
class _Batch:
    """Exact sum of one version, with the noise of each aggregator once it is drawn. It is raw data."""

    sums: IntArray
    reports: int = 0
    noises: tuple[IntArray, ...] = ()


@worded
class IdealAggregation(Held, Seen):
    """Both aggregators in one process. Whoever runs it sees every report: use it for simulations and tests.

    Args:
        spec: The public contract.
        noise: Source of the noise of both aggregators, `SecureNoise()` by default. Their draws are
            independent.

    Raises:
        InvalidParameter: An argument is of another kind.

    Privacy: A version's noise is drawn once, at its first `collect`, and later calls return the same sum. A
    collected version takes no more reports. A report counts once, by its id.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.distributed.DistributedSpec(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"],
        ...     privacy=dpb.DistributedDP(epsilon=1), horizon=1000,
        ...     tuning=dpb.distributed.DistributedTuning(min_batch=1))
        >>> aggregation = IdealAggregation(spec, noise=dpb.SimulatedNoise(0))
        >>> aggregation.upload([Report(0, bytes(16), spec.silent)])
        1
        >>> aggregation.collect(0).reports
        1
    """

    def __init__(self, spec: DistributedSpec, *, noise: NoiseSource | None = None) -> None:
        self.spec = an(
            spec, DistributedSpec, name="spec", pass_="the DistributedSpec of devices and collector"
        )
        self._noise = SecureNoise() if noise is None else noise
        an(self._noise, NoiseSource, name="noise", pass_="noise=SecureNoise()")
        self._holder = Holder(what="aggregation")
        self._batches: dict[int, _Batch] = {}
        self._ids: set[bytes] = set()

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee against everybody but this process, which sees every report."""
        from dpbandits.distributed.statement import in_one_process

        return in_one_process(self.spec.statement(), status=self._noise.status)

    @in_turn
    def upload(self, reports: Iterable[Report]) -> int:
        """Add reports, and return how many were accepted.

        A report is dropped if its version was collected, its id was seen before, or its version or bucket
        does not exist. A protocol proves that a report is one bucket; here it is checked.
        """
        accepted = 0
        for version, name, bucket in reports:
            # every report is read alone: a forged one is dropped and stops no other
            there = type(version) is int and 0 <= version < len(self.spec.reports_per_version)
            whole = type(bucket) is int and 0 <= bucket < self.spec.length
            if not (there and whole and type(name) is bytes) or name in self._ids:
                continue
            batch = self._batch(version)
            if batch.noises:
                continue
            self._ids.add(name)
            batch.sums[bucket] += 1
            batch.reports += 1
            accepted += 1
        return accepted

    @in_turn
    def upload_buckets(self, version: int, buckets: IntArray) -> None:
        """Add the reports of n simulated devices, given their buckets (n,).

        Raises:
            InvalidData: The buckets are no integers, or do not exist.
            ProtocolError: The version was collected.
        """
        batch = self._batch(version)
        if batch.noises:
            raise ProtocolError(f"version {version} was collected and takes no more reports")
        batch.sums += self.spec.histogram.counted(buckets)
        batch.reports += len(buckets)

    @in_turn
    def collect(self, version: int) -> Aggregate:
        """Return the noisy sum of a version's reports. Repeated calls return the same numbers.

        Raises:
            ProtocolError: The version has fewer reports than the spec's `min_batch`.
        """
        batch = self._batch(version)
        if not batch.noises:
            if batch.reports < self.spec.tuning.min_batch:
                raise ProtocolError(
                    f"version {version} has fewer than {self.spec.tuning.min_batch} reports: wait for more, "
                    "or leave the version out with Collector.skip()"
                )
            # Raw data meets noise here: one draw of every aggregator, once for a version.
            batch.noises = tuple(self.spec.histogram.noise(self._noise) for _ in range(AGGREGATORS))
        sums = batch.sums + np.sum(batch.noises, axis=0)
        return Aggregate(version=version, sums=sums, reports=batch.reports)

    @in_turn
    def unsafe_view(self, version: int, *, aggregator: int) -> IntArray:
        """Return the sum of a collected version without this aggregator's noise, shape (L,).

        It is what an aggregator that works together with the collector knows, beyond shares that are
        independent of the reports. It is for audits.
        """
        batch = self._batch(version)
        if not batch.noises or aggregator not in range(AGGREGATORS):
            raise ProtocolError("unsafe_view: expected a collected version, and aggregator 0 or 1")
        return np.asarray(self.collect(version).sums - batch.noises[aggregator])

    def _batch(self, version: int) -> _Batch:
        task = self.spec.task(version)
        if task.version not in self._batches:
            self._batches[task.version] = _Batch(np.zeros(task.length, dtype=np.int64))
        return self._batches[task.version]

    def __repr__(self) -> str:
        return said(self, epsilon=self.spec.privacy.epsilon, places=self.spec.places)

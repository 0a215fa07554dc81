"""Evidence of a source: what its privatised sums say about the arms of every bin.

A source is another crowd with the same mean rewards and other contexts. Per bin and arm its reports
give two noisy sums (see `dpbandits.privacy.reports`): signed, of mean R q (2 f - 1), and a count, of
mean R q, R being how many reports could have named the cell and q the cell's share of them. The share
is estimated from the source's own counts: its people lie elsewhere than the target's. Then

    f^ = 1/2 + (signed - b (count - R q^))/(2 R q^),

where b = Cov(signed, count)/Var(count) at a pilot estimate of f removes the luck of how many people fell
into the cell. Variances come from the mechanism's moments and past estimates, never from raw data.

Privacy: post-processing of reports. Source: this library.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.trees.messages import Gaussians, downward, upward
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.models.trees.posterior import bin_masses
from dpbandits.privacy.reports import Moments

__all__ = ["SourceEvidence", "SourceSums", "prior_of", "source_evidence", "sources_in", "sources_to_arrays"]

# Variance of a node's share of its parent, as in `bin_masses`: that of a uniform share.
_SHARE_VARIANCE = 1.0 / 12.0

# A pilot estimate this near to 0 or 1 would claim that rewards have no variance.
_PILOT_LIMIT = 0.9

# Prior of a mean reward, for the pilot only.
_PILOT_MEAN, _PILOT_SD, _PILOT_CHILD_SD = 0.5, 0.3, 0.5


@dataclass(frozen=True, kw_only=True)
class SourceSums:
    """A source's sums over the leaves of its own, fixed partition.

    Attributes:
        partition: the source's bins.
        signed: (L, K) unbiased signed sums.
        count: (L, K) unbiased counts.
        reach: (L, K) reports of versions in which the cell could be named: all of them where the arm was
            the user's own, those in which the bin pulled the arm where the server assigned it.
        moments: of the mechanism.
        arm_hidden: whether a report hides the arm too (arms by the source's behaviour policy).
    """

    partition: DyadicPartition
    signed: FloatArray
    count: FloatArray
    reach: FloatArray
    moments: Moments
    arm_hidden: bool


@dataclass(frozen=True, kw_only=True)
class SourceEvidence:
    """Gaussian evidence about mean rewards on a tree of bins.

    Attributes:
        partition: the tree, with tie rule `first`.
        local: (n_nodes, K) every node's own evidence.
    """

    partition: DyadicPartition
    local: Gaussians

    def check(self, *, dim: int, n_arms: int) -> None:
        """Refuse evidence that does not fit a target with so many columns and arms.

        Raises:
            InvalidParameter: it has another number of columns or arms, another tie rule, or is not finite.
        """
        local, shape = self.local, (self.partition.n_nodes, n_arms)
        if self.partition.dim != dim or {local.precision.shape, local.moment.shape} != {shape}:
            raise InvalidParameter("attach: the evidence is of another number of columns or arms")
        if self.partition.tie != "first":
            raise InvalidParameter("attach: bins of two crowds only agree with tie 'first'")
        if not (np.isfinite(local.precision) & np.isfinite(local.moment) & (local.precision >= 0.0)).all():
            raise InvalidParameter("attach: the evidence is not finite")


def sources_to_arrays(sources: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the state of a learner's sources, by name: their `evidence`, `least_doubt` and `doubt`."""
    arrays: dict[str, NDArray[Any]] = {}
    for index, (name, source) in enumerate(sources.items()):
        local, splits = source.evidence.local, source.evidence.partition.splits
        told = (len(local.precision) - 1) // 2  # the bins of another target may have grown since
        arrays |= {
            f"source.{index}.name": np.frombuffer(name.encode(), dtype=np.uint8),
            f"source.{index}.splits": np.array(splits[:told], dtype=np.int64),
            f"source.{index}.precision": local.precision,
            f"source.{index}.moment": local.moment,
            f"source.{index}.doubts": np.array([source.least_doubt, source.doubt]),
        }
    return arrays


def sources_in(
    arrays: Mapping[str, NDArray[Any]], *, dim: int
) -> Iterator[tuple[str, SourceEvidence, list[float]]]:
    """Return names, unchecked evidence, and both doubts, as `sources_to_arrays` wrote them."""
    for index in itertools.count():
        if f"source.{index}.name" not in arrays:
            return
        name, splits, precision, moment, doubts = (
            arrays[f"source.{index}.{part}"] for part in ("name", "splits", "precision", "moment", "doubts")
        )
        partition = DyadicPartition(dim=dim, splits=splits.tolist())
        evidence = SourceEvidence(partition=partition, local=Gaussians(precision, moment))
        yield name.tobytes().decode(), evidence, doubts.tolist()


def source_evidence(sums: SourceSums, propensities: FloatArray | None = None) -> SourceEvidence:
    """Evidence of every leaf's arms.

    Args:
        sums: of the source.
        propensities: (K,) or (L, K) public probabilities of the source's arms; None: estimated from the
            counts. Not used where the source's server assigned the arms.
    """
    partition, leaves = sums.partition, sums.partition.leaves
    share, share_variance = _shares(sums, propensities)
    m, reach = sums.moments, sums.reach
    count_variance = reach * m.count_variance(share)
    raw_variance = reach * m.signed_variance(share)
    scale = 2.0 * reach * share
    seen = scale > 0.0
    safe, safe_count = np.where(seen, scale, 1.0), np.where(seen, count_variance, 1.0)

    def evidence(tilt: FloatArray) -> Gaussians:
        """Evidence when 2 f - 1 is expected to be `tilt`."""
        covariance = reach * share * (1.0 - share) * tilt
        slope = covariance / safe_count
        variance = raw_variance - slope * covariance + (reach * (tilt - slope)) ** 2 * share_variance
        # Precision times mean, never the mean: of a cell that hardly anybody reaches it is no float.
        weight = np.where(seen, safe / np.where(seen, variance, 1.0), 0.0)
        precision = weight * safe
        centred = sums.signed - slope * (sums.count - reach * share)
        result = Gaussians.silent((partition.n_nodes, share.shape[1]))
        result.precision[leaves] = precision
        result.moment[leaves] = 0.5 * precision + weight * centred
        return result

    # 2 f - 1 as the source itself would guess it, the tree smoothing over bins
    local = evidence(np.zeros_like(share))
    below = upward(partition, local, child_sd=_PILOT_CHILD_SD)
    root, silent = prior_of(local, mean=_PILOT_MEAN, sd=_PILOT_SD), Gaussians.silent(local.precision.shape)
    down = downward(partition, root=root, local=silent, below=below, child_sd=_PILOT_CHILD_SD)
    whole = (down + below).at(leaves)
    pilot = np.clip(2.0 * whole.moment / whole.precision - 1.0, -_PILOT_LIMIT, _PILOT_LIMIT)
    return SourceEvidence(partition=partition, local=evidence(np.asarray(pilot)))


def prior_of(local: Gaussians, *, mean: float, sd: float) -> Gaussians:
    """(K,) what is believed at the root of the tree that the evidence (n_nodes, K) is on."""
    precision = np.full(local.precision.shape[1], sd**-2)
    return Gaussians(precision, precision * mean)


def _shares(sums: SourceSums, propensities: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """(L, K) estimated shares of reports that a cell holds, and the variances of the estimates."""
    partition, leaves, m = sums.partition, sums.partition.leaves, sums.moments
    n_arms, even = sums.count.shape[1], 0.5 ** partition.depth[leaves].astype(np.float64)

    def masses(count: FloatArray, reports: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
        columns = np.zeros((3, partition.n_nodes))
        columns[:, leaves] = count, variance, reports
        mass = bin_masses(partition, count=columns[0], variance=columns[1], reports=columns[2])[leaves]
        prior = mass**2 * _SHARE_VARIANCE * np.maximum(partition.depth[leaves], 1)
        known = np.where(variance > 0.0, reports**2 / np.where(variance > 0.0, variance, 1.0), 0.0)
        return mass, np.where(partition.depth[leaves] > 0, 1.0 / (1.0 / prior + known), 0.0)

    if not sums.arm_hidden:
        reports = sums.reach.sum(axis=1)
        mass, variance = masses(sums.count.sum(axis=1), reports, reports * m.count_variance(even))
        return np.repeat(mass[:, None], n_arms, axis=1), np.repeat(variance[:, None], n_arms, axis=1)
    n = float(sums.reach.max(initial=0.0))
    reports = np.full(len(leaves), n)
    if propensities is not None:
        chances = np.broadcast_to(propensities, sums.count.shape)
        noise = m.count_variance(even[:, None] * chances).sum(axis=1)
        mass, variance = masses(sums.count.sum(axis=1), reports, n * noise)
        return mass[:, None] * chances, variance[:, None] * chances**2
    # Unknown propensities: every arm has a tree of its own, below its overall share.
    overall_variance = n * len(leaves) * m.count_variance(even.mean() / n_arms * np.ones(1))[0]
    floor = np.sqrt(overall_variance) / max(n, 1.0)
    overall = np.clip(sums.count.sum(axis=0) / max(n, 1.0), min(floor, 1.0 / n_arms), 1.0)
    share, share_variance = np.zeros_like(sums.count), np.zeros_like(sums.count)
    for arm, chance in enumerate(overall):
        noise = n * m.count_variance(even * chance)
        mass, variance = masses(sums.count[:, arm], n * chance * np.ones(len(leaves)), noise)
        share[:, arm] = chance * mass
        share_variance[:, arm] = chance**2 * variance + mass**2 * min(floor, chance) ** 2
    return share, share_variance

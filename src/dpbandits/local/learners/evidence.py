"""Evidence of a source: estimates of mean rewards in every bin, from the source's privatised sums.

A source is another group of users with the same mean rewards and other contexts. Let f be the mean reward of
an arm in a bin, R the number of reports that could have named this cell, and q the cell's share of them. For
each bin and arm the reports give two noisy sums (see `dpbandits.privacy.reports`): a signed sum with mean R
q (2 f - 1), and a count with mean R q. The share q is estimated from the source's own counts, as q^, because
its contexts have another distribution than the target's. The estimate of f is

    f^ = 1/2 + (signed - b (count - R q^))/(2 R q^).

The coefficient b = Cov(signed, count)/Var(count), at a pilot estimate of f, removes the random variation of
the number of users in the cell. Variances come from the mechanism's moments and past estimates, never from
raw data.

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

# Prior variance of a node's share of its parent, as in `bin_masses`: that of a uniform share.
_SHARE_VARIANCE = 1.0 / 12.0

# Bound on the pilot estimate of 2 f - 1: near -1 or 1, rewards would seem to have no variance.
_PILOT_LIMIT = 0.9

# Prior of a mean reward, used for the pilot estimate only.
_PILOT_MEAN, _PILOT_SD, _PILOT_CHILD_SD = 0.5, 0.3, 0.5


@dataclass(frozen=True, kw_only=True)
class SourceSums:
    """A source's sums over the L leaves of its own, fixed partition, for K arms.

    Attributes:
        partition: Bins of the source.
        signed: Unbiased signed sums, shape (L, K).
        count: Unbiased counts, shape (L, K).
        reach: Numbers of reports that could name the cell, shape (L, K): all reports if users chose the arm,
            else the reports on versions in which the server assigned this arm to the bin.
        moments: Moments of the mechanism.
        arm_hidden: True if reports hide the arm too, because the source's behaviour policy chose it.
    """

    partition: DyadicPartition
    signed: FloatArray
    count: FloatArray
    reach: FloatArray
    moments: Moments
    arm_hidden: bool


@dataclass(frozen=True, kw_only=True)
class SourceEvidence:
    """Gaussian evidence about the mean rewards of K arms on a tree of bins.

    Attributes:
        partition: The tree, with tie rule `first`.
        local: Each node's own evidence, shape (n_nodes, K).
    """

    partition: DyadicPartition
    local: Gaussians

    def check(self, *, dim: int, n_arms: int) -> None:
        """Raise an error for evidence that does not fit a target with `dim` columns and `n_arms` arms.

        Raises:
            InvalidParameter: the numbers of columns or arms differ, the tie rule differs, or a number is not
                finite.
        """
        local, shape = self.local, (self.partition.n_nodes, n_arms)
        if self.partition.dim != dim or {local.precision.shape, local.moment.shape} != {shape}:
            raise InvalidParameter("attach: the evidence has another number of columns or arms")
        if self.partition.tie != "first":
            raise InvalidParameter("attach: bins of two specs only agree with tie 'first'")
        if not (np.isfinite(local.precision) & np.isfinite(local.moment) & (local.precision >= 0.0)).all():
            raise InvalidParameter("attach: the evidence is not finite")


def sources_to_arrays(sources: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """Return the state of a learner's sources as arrays: `evidence`, `least_doubt` and `doubt` by name."""
    arrays: dict[str, NDArray[Any]] = {}
    for index, (name, source) in enumerate(sources.items()):
        local, splits = source.evidence.local, source.evidence.partition.splits
        told = (len(local.precision) - 1) // 2  # another target's partition may have grown since
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
    """Yield name, unchecked evidence, and [`least_doubt`, `doubt`] of each source.

    `arrays` has the form of the result of `sources_to_arrays`.
    """
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
    """Return the evidence of each leaf about the mean rewards of its arms.

    Args:
        sums: Sums of the source.
        propensities: (K,) or (L, K) public probabilities of the source's arms; None if they are to be
            estimated from the counts. Not used if the source's server assigned the arms.
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
        """Return the evidence, with b computed for the pilot value `tilt` of 2 f - 1."""
        covariance = reach * share * (1.0 - share) * tilt
        slope = covariance / safe_count
        variance = raw_variance - slope * covariance + (reach * (tilt - slope)) ** 2 * share_variance
        # Store precision times mean, not the mean: the mean of a cell with hardly any reports can overflow.
        weight = np.where(seen, safe / np.where(seen, variance, 1.0), 0.0)
        precision = weight * safe
        centred = sums.signed - slope * (sums.count - reach * share)
        result = Gaussians.silent((partition.n_nodes, share.shape[1]))
        result.precision[leaves] = precision
        result.moment[leaves] = 0.5 * precision + weight * centred
        return result

    # Pilot estimate of 2 f - 1 from the source itself, smoothed over bins by the tree.
    local = evidence(np.zeros_like(share))
    below = upward(partition, local, child_sd=_PILOT_CHILD_SD)
    root, silent = prior_of(local, mean=_PILOT_MEAN, sd=_PILOT_SD), Gaussians.silent(local.precision.shape)
    down = downward(partition, root=root, local=silent, below=below, child_sd=_PILOT_CHILD_SD)
    whole = (down + below).at(leaves)
    pilot = np.clip(2.0 * whole.moment / whole.precision - 1.0, -_PILOT_LIMIT, _PILOT_LIMIT)
    return SourceEvidence(partition=partition, local=evidence(np.asarray(pilot)))


def prior_of(local: Gaussians, *, mean: float, sd: float) -> Gaussians:
    """Return the prior of the K arms' mean rewards at the root, (K,), for evidence with K arms."""
    precision = np.full(local.precision.shape[1], sd**-2)
    return Gaussians(precision, precision * mean)


def _shares(sums: SourceSums, propensities: FloatArray | None) -> tuple[FloatArray, FloatArray]:
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
    # Propensities are unknown: estimate a tree of masses for each arm, scaled by the arm's overall share.
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

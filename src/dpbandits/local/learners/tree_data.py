"""What tree rules share: the data of nodes, and which leaves are known well enough to be split."""

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.local.learners.base import CellSums, grown
from dpbandits.models.trees.posterior import probability_best

__all__ = ["NodeData", "child_spread", "known_enough"]


class NodeData:
    """What reports said of nodes while they were leaves.

    Args:
        n_nodes: nodes so far.
        n_arms: K.

    Attributes:
        information: (n_nodes, K) sum of n pi^2/v over versions; see `models.posterior_tree.arm_posterior`.
        evidence: (n_nodes, K) sum of pi D/v.
        count: (n_nodes, 3) unbiased count, its variance, reports.
    """

    def __init__(self, n_nodes: int, n_arms: int) -> None:
        self.information, self.evidence = np.zeros((n_nodes, n_arms)), np.zeros((n_nodes, n_arms))
        self.count = np.zeros((n_nodes, 3))

    def add(self, sums: CellSums, mass: FloatArray) -> None:
        """Add a version's sums, its leaves having `mass` (L,); nodes split since only inform the masses."""
        leaves, n = sums.leaves, sums.n
        if sums.arms is not None:
            variance = sums.moments.signed_variance(mass)
            self.information[leaves, sums.arms] += n / variance
            self.evidence[leaves, sums.arms] += sums.signed / variance
            count, spread = sums.count, n * sums.moments.count_variance(mass)
        elif sums.weights is not None:
            share = mass[:, None] * sums.weights
            variance = sums.moments.signed_variance(share)
            self.information[leaves] += n * sums.weights**2 / variance
            self.evidence[leaves] += sums.weights * sums.signed / variance
            count, spread = sums.count.sum(axis=1), n * sums.moments.count_variance(share).sum(axis=1)
        else:
            return
        self.count[leaves] += np.stack([count, spread, np.full(len(leaves), n)], axis=1)

    def grow(self, n_nodes: int) -> None:
        """Make room for new nodes."""
        self.information, self.evidence = grown(self.information, n_nodes), grown(self.evidence, n_nodes)
        self.count = grown(self.count, n_nodes)


def child_spread(scale: float, depth: IntArray, dim: int) -> FloatArray:
    """(n,) scale 2^(-(s + 1)/dim): how far a smooth reward moves inside a node of depth s."""
    return np.asarray(scale * 2.0 ** (-(depth + 1) / dim))


def known_enough(
    mean: FloatArray,
    variance: FloatArray,
    child_sd: FloatArray,
    *,
    rival: float,
    known: float,
    settled: float,
) -> IntArray:
    """Places, among leaves with this posterior (L, K), of those whose rivals are known well enough to split.

    Args:
        mean, variance: (L, K).
        child_sd: (L,) spread of children about their parent.
        rival, known, settled: see `local.tree.TreeConstants`.
    """
    leading = np.take_along_axis(variance, mean.argmax(axis=1)[:, None], axis=1)[:, 0]
    # The leader is always a rival: a cheap first sieve.
    candidates = np.flatnonzero(leading <= child_sd**2)
    if not len(candidates):
        return candidates
    mean, variance, spread = mean[candidates], variance[candidates], child_sd[candidates, None]
    best = probability_best(mean, variance + spread**2)
    rivals: BoolArray = best > rival / mean.shape[1]
    well = (~rivals | (variance <= (known * spread) ** 2)).all(axis=1)
    return np.asarray(candidates[well & (best.max(axis=1) < settled)])

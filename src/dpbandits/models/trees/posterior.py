"""Posteriors of arms and of probability masses in the bins of a tree, computed from plain numbers.

- `arm_posterior`: Gaussian posterior of an arm's mean reward from noisy signed sums.
- `probability_best`: probability that an arm is best, by Gauss-Hermite quadrature.
- `bin_masses`: probability mass of every bin, from noisy counts of reports.
"""

import math

import numpy as np
from scipy.special import ndtr, roots_hermitenorm

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.trees.partition import DyadicPartition

__all__ = ["arm_posterior", "bin_masses", "probability_best", "tree_levels"]

_NODES, _WEIGHTS = roots_hermitenorm(24)
_WEIGHTS = _WEIGHTS / math.sqrt(2.0 * math.pi)

# Number of floats in memory at a time in `probability_best` (16 MiB).
_MOST_ELEMENTS = 1 << 21

# Standard deviation of a child's share of its parent's mass: that of a uniform share.
_SHARE_SD = 1.0 / math.sqrt(12.0)


def arm_posterior(
    *,
    prior_mean: FloatArray,
    prior_variance: FloatArray,
    information: FloatArray,
    evidence: FloatArray,
    mass: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and variance of mean rewards f in [0, 1]; all arrays have the same shape.

    An observation of an arm in a bin of probability mass p is a signed sum D over n reports. Its mean is
    n pi p (2 f - 1) and its variance n v, where pi is the probability of the arm.

    Args:
        prior_mean, prior_variance: Prior mean and variance of f.
        information: Sum of n pi^2/v over observations.
        evidence: Sum of pi D/v over observations.
        mass: Mass p of the bin, positive.
    """
    precision = 1.0 / prior_variance + 4.0 * mass**2 * information
    mean = (prior_mean / prior_variance + 2.0 * mass * (evidence + mass * information)) / precision
    return mean, 1.0 / precision


def probability_best(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the probability that each arm is best, for independent Gaussian arms, shape (b, n_arms).

    For arm k it is the mean over z ~ N(0, 1) of prod_{l != k} Phi((m_k + s_k z - m_l)/s_l), with arm means m
    and standard deviations s. It is computed by 24-node Gauss-Hermite quadrature, and normalised.

    Args:
        mean, variance: Mean and variance of each arm in b bins, shape (b, n_arms).

    Example:
        >>> probability_best(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]]))
        array([[0.5, 0.5]])
    """
    n_arms = mean.shape[1]
    if n_arms == 1:
        return np.ones_like(mean)
    block = max(1, _MOST_ELEMENTS // (len(_NODES) * n_arms**2))
    if len(mean) > block:
        parts = [slice(start, start + block) for start in range(0, len(mean), block)]
        return np.concatenate([probability_best(mean[part], variance[part]) for part in parts])
    deviation = np.sqrt(variance)
    points = mean[:, :, None] + deviation[:, :, None] * _NODES  # (b, k, q)
    # (b, k, l, q)
    below = ndtr((points[:, :, None, :] - mean[:, None, :, None]) / deviation[:, None, :, None])
    own = np.arange(n_arms)
    below[:, own, own, :] = 1.0
    best = below.prod(axis=2) @ _WEIGHTS
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def bin_masses(
    partition: DyadicPartition, *, count: FloatArray, variance: FloatArray, reports: FloatArray
) -> FloatArray:
    """Return the probability mass of every node, shape (n_nodes,), positive and additive over children.

    Model: the root has mass 1. A node of mass p splits into p/2 + delta and p/2 - delta with delta ~ N(0,
    p^2/12). The noisy count of a node, over the n reports while it was a leaf, has mean n p and a known
    variance.

    Args:
        partition: Tree of bins.
        count: Sums of unbiased counts while the node was a leaf, shape (n_nodes,).
        variance: Variances of those sums, shape (n_nodes,).
        reports: Number n of reports while each node was a leaf, shape (n_nodes,).
    """
    seen = (reports > 0) & (variance > 0)
    precision = np.where(seen, reports**2 / np.where(seen, variance, 1.0), 0.0)
    moment = np.where(seen, count * reports / np.where(seen, variance, 1.0), 0.0)
    levels = tree_levels(partition)
    # Spread of the split below each node: from the mass that the node would have without data.
    spread = (_SHARE_SD * 0.5 ** partition.depth.astype(np.float64)) ** 2

    for inner in reversed(levels):  # upward: evidence of a subtree about its own mass
        lower, upper = partition.left[inner], partition.right[inner]
        lower_var, upper_var = _inverse(precision[lower]), _inverse(precision[upper])
        lower_mean, upper_mean = moment[lower] * lower_var, moment[upper] * upper_var
        s2 = spread[inner]
        determinant = lower_var * upper_var + s2 * (lower_var + upper_var)
        precision[inner] += 0.25 * (lower_var + upper_var + 4.0 * s2) / determinant
        moment[inner] += (
            0.5 * ((upper_var + 2.0 * s2) * lower_mean + (lower_var + 2.0 * s2) * upper_mean) / determinant
        )

    mass = np.ones(partition.n_nodes)
    for inner in levels:  # downward: split the parent's mass
        lower, upper, half = partition.left[inner], partition.right[inner], mass[inner] / 2.0
        from_lower, from_upper = precision[lower], precision[upper]
        prior = 1.0 / (_SHARE_SD * 2.0 * half) ** 2
        total = prior + from_lower + from_upper
        centre = ((moment[lower] - half * from_lower) + (half * from_upper - moment[upper])) / total
        delta = _truncated_mean(centre, 1.0 / np.sqrt(total), half)
        mass[lower], mass[upper] = half + delta, half - delta
    return mass


def _inverse(precision: FloatArray) -> FloatArray:
    # A precision of 0 would divide by zero. With variance 1e9 there is no information on a mass, at most 1.
    return np.asarray(1.0 / np.maximum(precision, 1.0 / 1e9))


def tree_levels(partition: DyadicPartition) -> list[IntArray]:
    """Return the inner nodes, as one array per depth, from the root down."""
    inner = np.flatnonzero(partition.left >= 0)
    order = inner[np.argsort(partition.depth[inner], kind="stable")]
    depths = partition.depth[order]
    return np.split(order, np.flatnonzero(np.diff(depths)) + 1) if len(order) else []


def _truncated_mean(centre: FloatArray, deviation: FloatArray, half: FloatArray) -> FloatArray:
    """Return the mean of x ~ N(centre, deviation^2) given |x| < half, strictly inside that interval."""
    low, high = (-half - centre) / deviation, (half - centre) / deviation
    # Use symmetry to compute on the side on which tail probabilities do not cancel.
    flip = low > -high
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    inside, density = ndtr(high) - ndtr(low), np.exp(-0.5 * low**2) - np.exp(-0.5 * high**2)
    safe = inside > 1e-12
    shift = density / math.sqrt(2.0 * math.pi) / np.where(safe, inside, 1.0)
    shift = np.where(flip, -shift, shift)
    mean = np.where(safe, centre + deviation * shift, np.sign(centre) * half)
    # A child keeps at least one part in a thousand of its parent: the estimates divide by masses.
    return np.clip(mean, -0.998 * half, 0.998 * half)

"""Gaussian belief propagation on a dyadic tree: what data of other bins tell about the arms in a bin.

Model: an arm's mean reward in a bin is its parent's plus N(0, sigma_s^2), where s is the bin's depth and
sigma_s = child_sd 2^(-s/dim). Evidence is Gaussian: a precision and a moment (precision times mean) for each
node and each of K arms. The upward pass joins all evidence below a node into one message about the node. The
downward pass gives each node a prior from all evidence that is not below it. On a tree this is exact. Inputs
and outputs are plain numbers.
"""

from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.models.trees.posterior import tree_levels

__all__ = ["Gaussians", "downward", "log_evidence", "path_codes", "shrunk", "spreads", "upward"]

# Longer paths do not fit into 63 bits. There is no evidence in bins that small.
_LONGEST_PATH = 61


class Gaussians(NamedTuple):
    """Independent Gaussian likelihoods; precision 0 means no information.

    Attributes:
        precision: Inverse variances, of any shape.
        moment: Precision times mean, of the same shape.
    """

    precision: FloatArray
    moment: FloatArray

    def __add__(self, other: object) -> "Gaussians":
        if not isinstance(other, Gaussians):
            return NotImplemented
        return Gaussians(self.precision + other.precision, self.moment + other.moment)

    def at(self, rows: IntArray) -> "Gaussians":
        """Return the likelihoods of some rows."""
        return Gaussians(self.precision[rows], self.moment[rows])

    @classmethod
    def silent(cls, shape: tuple[int, ...]) -> "Gaussians":
        """Return likelihoods without information."""
        return cls(np.zeros(shape), np.zeros(shape))


def shrunk(message: Gaussians, variance: FloatArray | float) -> Gaussians:
    """Return the likelihood of theta + N(0, variance), given the likelihood of theta.

    >>> shrunk(Gaussians(np.array([1.0, 0.0]), np.array([0.5, 0.0])), 1.0)
    Gaussians(precision=array([0.5, 0. ]), moment=array([0.25, 0.  ]))
    """
    factor = 1.0 / (1.0 + message.precision * variance)
    return Gaussians(message.precision * factor, message.moment * factor)


def spreads(partition: DyadicPartition, child_sd: float) -> FloatArray:
    """Return the variance sigma_s^2 of each node's step from its parent, (n_nodes,); see the module."""
    return np.asarray((child_sd * 2.0 ** (-partition.depth / partition.dim)) ** 2)


def path_codes(partition: DyadicPartition) -> IntArray:
    """Return a number for every node, shape (n_nodes,), that is the same in all trees with tie rule `first`.

    The root has number 1. The children of node c have 2 c (lower) and 2 c + 1 (upper). A node whose path is
    too long for an integer has 0.

    >>> path_codes(DyadicPartition(dim=1, splits=[0, 2]))
    array([1, 2, 3, 6, 7])
    """
    codes = np.zeros(partition.n_nodes, dtype=np.int64)
    codes[0] = 1
    for inner in tree_levels(partition):
        inner = inner[(partition.depth[inner] < _LONGEST_PATH)]
        codes[partition.left[inner]] = 2 * codes[inner]
        codes[partition.right[inner]] = 2 * codes[inner] + 1
    return codes


def upward(partition: DyadicPartition, local: Gaussians, *, child_sd: float) -> Gaussians:
    """Return the evidence about each node from its own data and from all nodes below it.

    Args:
        partition: Tree of bins.
        local: Evidence about each node from its own data, shape (n_nodes, K).
        child_sd: Parameter of sigma_s; see the module.
    """
    precision, moment = local.precision.copy(), local.moment.copy()
    variance = spreads(partition, child_sd)
    for inner in reversed(tree_levels(partition)):
        for child in (partition.left[inner], partition.right[inner]):
            message = shrunk(Gaussians(precision[child], moment[child]), variance[child][:, None])
            precision[inner] += message.precision
            moment[inner] += message.moment
    return Gaussians(precision, moment)


def downward(
    partition: DyadicPartition, *, root: Gaussians, local: Gaussians, below: Gaussians, child_sd: float
) -> Gaussians:
    """Return the prior of each node, from all evidence that is neither its own nor below it.

    Args:
        partition: Tree of bins.
        root: Prior of the root, shape (K,).
        local: Evidence about each inner node from its own data, shape (n_nodes, K). It is not in the `below`
            of the node's children.
        below: Evidence about each node from its own data and all nodes below it, shape (n_nodes, K). A
            child's evidence enters the prior of its sibling, and never its own.
        child_sd: Parameter of sigma_s; see the module.
    """
    precision, moment = np.zeros_like(local.precision), np.zeros_like(local.moment)
    precision[0], moment[0] = root
    variance = spreads(partition, child_sd)[:, None]
    for inner in tree_levels(partition):
        lower, upper = partition.left[inner], partition.right[inner]
        own = Gaussians(precision[inner], moment[inner]) + local.at(inner)
        for child, sibling in ((lower, upper), (upper, lower)):
            prior = shrunk(own + shrunk(below.at(sibling), variance[sibling]), variance[child])
            precision[child], moment[child] = prior
    return Gaussians(precision, moment)


def log_evidence(
    partition: DyadicPartition, observed: Gaussians, *, root_variance: FloatArray, variance: FloatArray
) -> FloatArray:
    """Return log p(observations) for each of c candidate tree processes, up to a common constant.

    The constant depends on the observations' precisions only, so candidates can be compared.

    Args:
        partition: Tree of bins.
        observed: Observations of nodes, for K independent processes, shape (n_nodes, K).
        root_variance: Variance of the root in every candidate, shape (c,).
        variance: Variance of every node's step from its parent, shape (c, n_nodes).
    """
    shape = (len(root_variance), *observed.precision.shape)
    precision, moment = (np.broadcast_to(array, shape).copy() for array in observed)
    safe = np.where(observed.precision > 0.0, observed.precision, 1.0)
    score = np.broadcast_to(-0.5 * observed.moment**2 / safe, shape).copy()
    for inner in reversed(tree_levels(partition)):
        for child in (partition.left[inner], partition.right[inner]):
            step, told, mean = variance[:, child, None], precision[:, child], moment[:, child]
            factor = 1.0 / (1.0 + told * step)
            score[:, inner] += score[:, child] + 0.5 * (np.log(factor) + mean**2 * step * factor)
            precision[:, inner] += told * factor
            moment[:, inner] += mean * factor
    root = root_variance[:, None]
    factor = 1.0 / (1.0 + precision[:, 0] * root)
    whole = score[:, 0] + 0.5 * (np.log(factor) + moment[:, 0] ** 2 * root * factor)
    return np.asarray(whole.sum(axis=1))

"""Gaussian messages on a dyadic tree: what bins below, beside and above a bin say about its arms.

Model: an arm's mean reward in a bin is its parent's plus N(0, sigma_s^2), s being the bin's depth and
sigma_s = child_sd 2^(-s/dim). Evidence is Gaussian: a precision and a moment (precision times mean) for
any node and arm. Upwards everything below a node becomes one message about it; downwards every node gets
a prior from all that is not below it. On a tree this is exact. Plain numbers in, plain numbers out.
"""

from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.models.trees.posterior import tree_levels

__all__ = ["Gaussians", "downward", "log_evidence", "path_codes", "shrunk", "spreads", "upward"]

# Paths of more steps do not fit into 63 bits. Bins that small hold nobody's evidence.
_LONGEST_PATH = 61


class Gaussians(NamedTuple):
    """Independent Gaussian likelihoods; precision 0 says nothing.

    Attributes:
        precision: of any shape.
        moment: precision times mean, of the same shape.
    """

    precision: FloatArray
    moment: FloatArray

    def __add__(self, other: object) -> "Gaussians":
        """The product of the likelihoods."""
        if not isinstance(other, Gaussians):
            return NotImplemented
        return Gaussians(self.precision + other.precision, self.moment + other.moment)

    def at(self, rows: IntArray) -> "Gaussians":
        """The likelihoods of some rows."""
        return Gaussians(self.precision[rows], self.moment[rows])

    @classmethod
    def silent(cls, shape: tuple[int, ...]) -> "Gaussians":
        """Likelihoods that say nothing."""
        return cls(np.zeros(shape), np.zeros(shape))


def shrunk(message: Gaussians, variance: FloatArray | float) -> Gaussians:
    """Return what a likelihood of theta says about theta + N(0, variance).

    >>> shrunk(Gaussians(np.array([1.0, 0.0]), np.array([0.5, 0.0])), 1.0)
    Gaussians(precision=array([0.5, 0. ]), moment=array([0.25, 0.  ]))
    """
    factor = 1.0 / (1.0 + message.precision * variance)
    return Gaussians(message.precision * factor, message.moment * factor)


def spreads(partition: DyadicPartition, child_sd: float) -> FloatArray:
    """(n_nodes,) sigma_s^2 of every node."""
    return np.asarray((child_sd * 2.0 ** (-partition.depth / partition.dim)) ** 2)


def path_codes(partition: DyadicPartition) -> IntArray:
    """(n_nodes,) a number for every node that is the same in every tree with tie rule `first`.

    The root is 1, children are 2 c (lower) and 2 c + 1 (upper); 0 where the path is too long.

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
    """Return what a node's own evidence, `local` (n_nodes, K), and everything below it say about the node."""
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
    """Return what everything that is not below a node says about it: its prior.

    Args:
        root: (K,) the root's prior.
        local: (n_nodes, K) evidence about inner nodes themselves, counted in no child's `below`.
        below: (n_nodes, K) messages about nodes from what lies in and below them: a child's message
            reaches its sibling, never itself.
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
    """log p(observations) of tree processes that start from N(0, root_variance), up to a constant: (c,).

    The constant depends on the observations' precisions only, so that processes can be compared.

    Args:
        observed: (n_nodes, K) observations of nodes, K independent processes.
        root_variance: (c,) variance of the root in every candidate.
        variance: (c, n_nodes) variance of every node's step from its parent.
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

"""The recommended rule: a posterior over arms in the bins of a tree, and tempered Thompson sampling.

Every arm of every bin has a Gaussian posterior of its mean reward. A child starts from its parent's
posterior, widened by sigma_(s+1) = sigma_0 2^(-(s+1)/dim), s being the parent's depth: how far a
smooth reward can move inside the parent. Arms are drawn from the posterior with its variance
scaled down. A leaf is split when its rivals are known as well as the split would blur them.

Privacy: post-processing of reports. Source: this library; the figures reached are in the docs.
"""

from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.learners.base import CellSums, grown
from dpbandits.local.learners.tree_data import NodeData, child_spread, known_enough
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.models.trees.posterior import arm_posterior, bin_masses, probability_best

__all__ = ["TreeConstants", "TreeRule"]

# Masses are estimated anew when this share of reports has come in since, or a leaf was split.
_MASS_REFRESH = 0.02


@dataclass(frozen=True, kw_only=True)
class TreeConstants:
    """Constants of the rule, chosen on tuning worlds (`dpbandits.lab.papers.ma2025.local`) and frozen.

    Attributes:
        prior_mean: mean reward expected at the root.
        prior_sd: its standard deviation.
        child_sd: sigma_0.
        temperature: factor on the posterior variance when arms are drawn, divided by their number.
        settled: no split where one arm is best with at least this probability in the children.
        rival: arms count as rivals above this probability of being best, divided by their number.
        known: a rival is known when its deviation is at most this times the children's spread.
    """

    prior_mean: float = 0.5
    prior_sd: float = 0.3
    child_sd: float = 0.5
    temperature: float = 0.6
    settled: float = 0.98
    rival: float = 0.3
    known: float = 1.6


class TreeRule:
    """State of the rule: arrays over nodes and arms.

    Args:
        partition: the partition to grow; a fresh one.
        n_arms: number of arms.
        constants: see `TreeConstants`.
        max_leaves: no split beyond this many leaves: bounds the server's memory and a report's size.
    """

    def __init__(
        self,
        *,
        partition: DyadicPartition,
        n_arms: int,
        constants: TreeConstants | None = None,
        max_leaves: int = 4096,
    ) -> None:
        self.partition = partition
        self.n_arms = n_arms
        self.constants = constants or TreeConstants()
        self.max_leaves = max_leaves
        self._temperature = self.constants.temperature / n_arms
        shape = (partition.n_nodes, n_arms)
        self._prior_mean = np.full(shape, self.constants.prior_mean)
        self._prior_variance = np.full(shape, self.constants.prior_sd**2)
        self._data = NodeData(partition.n_nodes, n_arms)
        self._mass = np.ones(partition.n_nodes)
        self._n, self._mass_n = 0, 0
        self._posterior: tuple[FloatArray, FloatArray] | None = None

    @property
    def masses(self) -> FloatArray:
        """(n_nodes,) estimated probability of every node."""
        return self._mass

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means and variances of the leaves' arms, (L, K) each."""
        if self._posterior is None:
            leaves = self.partition.leaves
            self._posterior = arm_posterior(
                prior_mean=self._prior_mean[leaves],
                prior_variance=self._prior_variance[leaves],
                information=self._data.information[leaves],
                evidence=self._data.evidence[leaves],
                mass=self._mass[leaves, None],
            )
        return self._posterior

    def weights(self) -> FloatArray:
        """P(best) under the tempered posterior: the law of `assign`'s draws."""
        mean, variance = self.posterior()
        return probability_best(mean, self._temperature * variance)

    def assign(self, normals: FloatArray) -> IntArray:
        """Thompson draws from the tempered posterior."""
        mean, variance = self.posterior()
        return np.asarray((mean + np.sqrt(self._temperature * variance) * normals).argmax(axis=1))

    def learn(self, sums: CellSums) -> None:
        """Add a version's sums; those of leaves split since only inform the masses."""
        self._data.add(sums, self._mass[sums.leaves])
        self._n += sums.n
        self._posterior = None
        if self._n - self._mass_n > _MASS_REFRESH * self._mass_n:
            self._refresh_masses()

    def refine(self) -> None:
        """Split the leaves whose rivals are known well enough."""
        leaves = self.partition.leaves
        mean, variance = self.posterior()
        constants = self.constants
        ready = known_enough(
            mean,
            variance,
            child_spread(constants.child_sd, self.partition.depth[leaves], self.partition.dim),
            rival=constants.rival,
            known=constants.known,
            settled=constants.settled,
        )
        chosen = leaves[ready]
        chosen = chosen[self.partition.splittable(chosen)][: self.max_leaves - len(leaves)]
        if len(chosen):
            self._split(chosen)

    def _split(self, chosen: IntArray) -> None:
        at = self.partition.rank[chosen]
        mean, variance = self.posterior()
        child_sd = child_spread(self.constants.child_sd, self.partition.depth[chosen], self.partition.dim)
        child_variance = variance[at] + child_sd[:, None] ** 2
        child_mean = mean[at]
        children = self.partition.split(chosen)
        nodes = self.partition.n_nodes
        self._prior_mean, self._prior_variance = (
            grown(self._prior_mean, nodes),
            grown(self._prior_variance, nodes),
        )
        self._data.grow(nodes)
        for side in (0, 1):
            self._prior_mean[children[:, side]] = child_mean
            self._prior_variance[children[:, side]] = child_variance
        self._posterior = None
        self._refresh_masses()

    def _refresh_masses(self) -> None:
        self._mass = bin_masses(
            self.partition,
            count=self._data.count[:, 0],
            variance=self._data.count[:, 1],
            reports=self._data.count[:, 2],
        )
        self._mass_n = self._n
        self._posterior = None

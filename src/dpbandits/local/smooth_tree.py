"""The recommended rule: arms are smooth in the context, so bins speak for each other.

The posterior tree (`dpbandits.local.tree`) with another prior: an arm's mean reward is a smooth random
function plus departures of single bins (`dpbandits.models.smooth_tree`), so a report from one bin also
tells of bins beside it, and a split costs less. Arms are drawn by tempered Thompson sampling, and
leaves are split by the tree's own rule.

Privacy: post-processing of reports. Source: this library; the figures reached are in the docs.
"""

from dataclasses import dataclass

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.local.learning import CellSums, grown
from dpbandits.models.box_features import BoxFeatures
from dpbandits.models.partition import DyadicPartition
from dpbandits.models.posterior_tree import bin_masses, probability_best
from dpbandits.models.smooth_tree import SmoothTree

__all__ = ["SmoothTreeConstants", "SmoothTreeRule"]

# Beliefs are computed anew when this share of reports has come in since; splits add to them at once.
_REFRESH = 0.03


@dataclass(frozen=True, kw_only=True)
class SmoothTreeConstants:
    """Constants of the rule, chosen on tuning worlds (`dpbandits.studies.local_tuning`) and frozen.

    Attributes:
        prior_mean: mean reward expected everywhere.
        prior_sd: standard deviation of an arm's level.
        smooth_sd: standard deviation of the smooth function about it.
        length: its lengthscale; the cube has edges of length 1.
        rough: a bin of depth s departs from its parent by rough 2^(-s/dim).
        temperature: factor on the posterior variance when arms are drawn, divided by their number.
        child_sd: a leaf's children are taken to differ from it by child_sd 2^(-s/dim).
        rival: arms count as rivals above this probability of being best, divided by their number.
        known: a rival is known when its deviation is at most this times the children's; the leader is
            when its deviation is at most the children's.
        settled: no split where one arm is best with at least this probability in the children.
    """

    prior_mean: float = 0.5
    prior_sd: float = 0.241
    smooth_sd: float = 0.356
    length: float = 0.495
    rough: float = 0.0696
    temperature: float = 0.591
    child_sd: float = 0.347
    rival: float = 0.581
    known: float = 2.44
    settled: float = 0.984


class SmoothTreeRule:
    """State of the rule: arrays over nodes and arms.

    Args:
        partition: the partition to grow; a fresh one.
        n_arms: number of arms.
        constants: see `SmoothTreeConstants`.
        max_leaves: no split beyond this many leaves: bounds the server's memory and a report's size.
    """

    def __init__(
        self,
        *,
        partition: DyadicPartition,
        n_arms: int,
        constants: SmoothTreeConstants | None = None,
        max_leaves: int = 4096,
    ) -> None:
        self.partition = partition
        self.n_arms = n_arms
        self.constants = constants or SmoothTreeConstants()
        self.max_leaves = max_leaves
        self._temperature = self.constants.temperature / n_arms
        self._features = BoxFeatures(
            dim=partition.dim,
            length=self.constants.length,
            smooth_sd=self.constants.smooth_sd,
            constant_sd=self.constants.prior_sd,
        )
        self._belief = SmoothTree(self._features(partition.low, partition.high)[0], n_arms=n_arms)
        shape = (partition.n_nodes, n_arms)
        self._information, self._evidence = np.zeros(shape), np.zeros(shape)
        self._count = np.zeros((partition.n_nodes, 3))  # count, its variance, reports
        self._mass = np.ones(partition.n_nodes)
        self._n, self._refreshed_n = 0, 0

    @property
    def masses(self) -> FloatArray:
        """(n_nodes,) estimated probability of every node."""
        return self._mass

    def posterior(self) -> tuple[FloatArray, FloatArray]:
        """Posterior means and variances of the leaves' arms, (L, K) each."""
        mean, variance = self._belief.at(self.partition.leaves)
        return self.constants.prior_mean + mean, variance

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
        leaves, n = sums.leaves, sums.n
        mass = self._mass[leaves]
        if sums.arms is not None:
            variance = sums.signed_variance(mass)
            self._information[leaves, sums.arms] += n / variance
            self._evidence[leaves, sums.arms] += sums.signed / variance
            count, spread = sums.count, n * sums.count_variance(mass)
        else:
            weights = sums.weights if sums.weights is not None else np.ones((len(leaves), 1))
            share = mass[:, None] * weights
            variance = sums.signed_variance(share)
            self._information[leaves] += n * weights**2 / variance
            self._evidence[leaves] += weights * sums.signed / variance
            count, spread = sums.count.sum(axis=1), n * sums.count_variance(share).sum(axis=1)
        self._count[leaves] += np.stack([count, spread, np.full(len(leaves), n)], axis=1)
        self._n += n
        if self._n - self._refreshed_n > _REFRESH * self._refreshed_n:
            self._refreshed_n = self._n
            count, spread, reports = self._count.T
            self._mass = bin_masses(self.partition, count=count, variance=spread, reports=reports)
            precision, moment = self._data(self.partition.leaves)
            self._belief.update(self.partition.leaves, precision=precision, moment=moment)

    def refine(self) -> None:
        """Split the leaves whose rivals are known well enough."""
        leaves = self.partition.leaves
        mean, variance = self.posterior()
        child_sd = self._child(self.constants.child_sd, leaves)
        leading = np.take_along_axis(variance, mean.argmax(axis=1)[:, None], axis=1)[:, 0]
        candidates = np.flatnonzero(leading <= child_sd**2)
        if not len(candidates):
            return
        mean, variance, child_sd = mean[candidates], variance[candidates], child_sd[candidates, None]
        best = probability_best(mean, variance + child_sd**2)
        rivals: BoolArray = best > self.constants.rival / self.n_arms
        known = (~rivals | (variance <= (self.constants.known * child_sd) ** 2)).all(axis=1)
        chosen = leaves[candidates[known & (best.max(axis=1) < self.constants.settled)]]
        chosen = chosen[self.partition.splittable(chosen)][: self.max_leaves - len(leaves)]
        if len(chosen):
            self._split(chosen)

    def _child(self, scale: float, nodes: IntArray) -> FloatArray:
        """scale 2^(-s/dim), s being the depth of the nodes' children."""
        return np.asarray(scale * 2.0 ** (-(self.partition.depth[nodes] + 1) / self.partition.dim))

    def _data(self, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Precision and moment (about the prior mean) of what reports said while the nodes were leaves.

        A signed sum of n reports has mean n pi p (2 f - 1): with information and evidence summed,
        precision 4 p^2 information and moment 2 p (evidence + p information) about zero.
        """
        mass = self._mass[nodes, None]
        precision = 4.0 * mass**2 * self._information[nodes]
        moment = 2.0 * mass * (self._evidence[nodes] + mass * self._information[nodes])
        return precision, moment - precision * self.constants.prior_mean

    def _split(self, chosen: IntArray) -> None:
        precision, moment = self._data(chosen)
        spread = self._child(self.constants.rough, chosen)
        children = self.partition.split(chosen)
        new = children.ravel()
        self._belief.split(
            chosen,
            children,
            features=self._features(self.partition.low[new], self.partition.high[new]),
            precision=precision,
            moment=moment,
            spread=spread,
        )
        nodes = self.partition.n_nodes
        self._information, self._evidence = grown(self._information, nodes), grown(self._evidence, nodes)
        self._count = grown(self._count, nodes)
        # What the masses' own model says of children without data.
        self._mass = np.concatenate([self._mass, np.repeat(self._mass[chosen] / 2.0, 2)])

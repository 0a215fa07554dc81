"""The posterior tree: a posterior over arms in the bins of a tree, the rule that sources can start.

Every arm of every bin has a Gaussian posterior of its mean reward. A child starts from its parent's
posterior, widened by sigma_(s+1) = sigma_0 2^(-(s+1)/dim), s being the parent's depth: how far a
smooth reward can move inside the parent. Arms are drawn from the posterior with its variance
scaled down. A leaf is split when its rivals are known as well as the split would blur them.

Privacy: post-processing of reports. Source: this library; the figures reached are in the docs.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.learners.base import PosteriorLearner, VersionSums, child_spread, grown
from dpbandits.models.trees.posterior import arm_posterior

__all__ = ["TreeConstants", "TreeRule"]


@dataclass(frozen=True, kw_only=True)
class TreeConstants:
    """Constants of the rule, chosen on tuning worlds (`reproduction.ma2025.local`) and frozen.

    Attributes:
        prior_mean: mean reward expected at the root.
        prior_sd: its standard deviation.
        child_sd: sigma_0: a leaf's children are taken to differ from it by child_sd 2^(-(s+1)/dim).
        temperature: factor on the posterior variance when arms are drawn, divided by their number.
        settled: no split where one arm is best with at least this probability in the children.
        rival: arms count as rivals above this probability of being best, divided by their number.
        known: a rival is known when its deviation is at most this times the children's spread; the leader
            is when its deviation is at most that spread.
    """

    prior_mean: float = 0.5
    prior_sd: float = 0.3
    child_sd: float = 0.5
    temperature: float = 0.6
    settled: float = 0.98
    rival: float = 0.3
    known: float = 1.6


class TreeRule(PosteriorLearner):
    """The rule, with `TreeConstants`; arguments as for `BinLearner`."""

    Constants = TreeConstants
    kept: ClassVar[tuple[str, ...]] = (*PosteriorLearner.kept, "_prior_mean", "_prior_variance")
    refresh: ClassVar[float] = 0.02
    constants: TreeConstants

    def _begin(self) -> None:
        super()._begin()
        shape = (self.partition.n_nodes, self.n_arms)
        self._prior_mean = np.full(shape, self.constants.prior_mean)
        self._prior_variance = np.full(shape, self.constants.prior_sd**2)

    def _believed(self) -> tuple[FloatArray, FloatArray]:
        leaves = self.partition.leaves
        return arm_posterior(
            prior_mean=self._prior_mean[leaves],
            prior_variance=self._prior_variance[leaves],
            information=self._data.information[leaves],
            evidence=self._data.evidence[leaves],
            mass=self.masses[leaves, None],
        )

    def learn(self, sums: VersionSums) -> None:
        """Add a version's sums; those of leaves split since only inform the masses."""
        self._forget()
        super().learn(sums)

    def split(self, chosen: IntArray) -> None:
        """Children start from what is believed of their parent, widened."""
        at = self.partition.rank[chosen]
        mean, variance = self.posterior()
        child_sd = child_spread(self.constants.child_sd, self.partition.depth[chosen], self.partition.dim)
        child_mean, child_variance = mean[at], variance[at] + child_sd[:, None] ** 2
        children = self.partition.split(chosen)
        nodes = self.partition.n_nodes
        self._prior_mean = grown(self._prior_mean, nodes)
        self._prior_variance = grown(self._prior_variance, nodes)
        self._data.grow(nodes)
        for side in (0, 1):
            self._prior_mean[children[:, side]] = child_mean
            self._prior_variance[children[:, side]] = child_variance
        self._look_again()

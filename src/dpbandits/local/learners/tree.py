"""The posterior tree: Gaussian posteriors of mean rewards in the bins of a tree.

Each arm of each bin has a Gaussian posterior of its mean reward. A child starts from its parent's posterior,
whose standard deviation is increased by sigma_(s+1) = sigma_0 2^(-(s+1)/dim), with s the parent's depth. This
is how much a smooth reward varies within the parent. Arms follow Thompson sampling with a reduced variance. A
leaf is split when its rival arms are known as precisely as the split would blur them. Sources can initialise
this rule.

Privacy: post-processing of reports. Source: this library; the documentation has measured results.
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
    """Constants of the rule, chosen on tuning worlds (`reproduction.ma2025.local`).

    Attributes:
        prior_mean: Prior mean of a reward at the root.
        prior_sd: Prior standard deviation of the mean reward at the root.
        child_sd: The constant sigma_0: children differ from a leaf of depth s by child_sd 2^(-(s+1)/dim).
        temperature: Factor on the posterior variance in Thompson sampling, divided by the number of arms.
        settled: A leaf is not split if one arm is best in its children with at least this probability.
        rival: Probability of being best, divided by the number of arms, above which an arm is a rival.
        known: A rival is known if its standard deviation is at most this multiple of the children's spread;
            the leading arm is known if its standard deviation is at most that spread.
    """

    prior_mean: float = 0.5
    prior_sd: float = 0.3
    child_sd: float = 0.5
    temperature: float = 0.6
    settled: float = 0.98
    rival: float = 0.3
    known: float = 1.6


class TreeRule(PosteriorLearner):
    """The learner `tree`: the posterior tree of the module.

    Arguments as for `BinLearner`, with `TreeConstants`.
    """

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
        """Add the sums of one version. Sums of leaves that were split since then only affect the masses."""
        self._forget()
        super().learn(sums)

    def split(self, chosen: IntArray) -> None:
        """Split leaves. Children start from their parent's posterior with increased variance."""
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

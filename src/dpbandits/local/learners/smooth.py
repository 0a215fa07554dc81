"""A learner of bins for mean rewards that are smooth in the context, so that bins inform each other.

It is the posterior tree (`dpbandits.local.learners.tree`) with another prior. An arm's mean reward is a
smooth random function plus deviations of single bins (`dpbandits.models.trees.smooth`). A report from one
bin therefore also informs about neighbouring bins, and a split costs less. Thompson sampling and splits are
those of the posterior tree.

With drift (`forget`, a half-life in reports), the weight of all evidence on nodes is halved after that many
reports, also on nodes that were split. Whenever the masses are estimated, all posteriors are computed anew
from this evidence, from the root down. Bins are never merged.

Privacy: post-processing of reports. Source: this library; the documentation has measured results.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.learners.base import PosteriorLearner, VersionSums, child_spread
from dpbandits.local.learners.tree import TreeConstants
from dpbandits.models.features.box import BoxFeatures
from dpbandits.models.forgetting import kept_after
from dpbandits.models.trees.smooth import Generation, SmoothTree

__all__ = ["SmoothTreeConstants", "SmoothTreeRule"]


@dataclass(frozen=True, kw_only=True)
class SmoothTreeConstants(TreeConstants):
    """Constants of the rule, chosen on tuning worlds (`reproduction/tuning/local_learners.py`).

    The constants of `TreeConstants` control splits and Thompson sampling. `prior_mean` is the prior mean
    everywhere, and `prior_sd` the prior standard deviation of an arm's level.

    Attributes:
        smooth_sd: Standard deviation of the smooth function about the level.
        length: Lengthscale of the smooth function; the cube has edges of length 1.
        rough: Deviation of a bin of depth s from its parent, as the factor in rough 2^(-s/dim).
        forget: Half-life in reports; None if all reports have equal weight.
    """

    prior_sd: float = 0.241
    smooth_sd: float = 0.356
    length: float = 0.495
    rough: float = 0.0696
    temperature: float = 0.591
    child_sd: float = 0.347
    rival: float = 0.581
    known: float = 2.44
    settled: float = 0.984
    forget: float | None = None


class SmoothTreeRule(PosteriorLearner):
    """The learner `smooth`: a posterior tree with a smooth prior.

    Arguments as for `BinLearner`, with `SmoothTreeConstants`.
    """

    Constants = SmoothTreeConstants
    kept: ClassVar[tuple[str, ...]] = (*PosteriorLearner.kept, "_belief")
    # Splits update the posteriors at once, so that masses can be refreshed less often.
    refresh: ClassVar[float] = 0.03
    constants: SmoothTreeConstants

    def _begin(self) -> None:
        super()._begin()
        partition, chosen = self.partition, self.constants
        self._half_life = chosen.forget
        self._features = BoxFeatures(
            dim=partition.dim, length=chosen.length, smooth_sd=chosen.smooth_sd, constant_sd=chosen.prior_sd
        )
        self._belief = SmoothTree(self._features(partition.low, partition.high)[0], n_arms=self.n_arms)

    def _believed(self) -> tuple[FloatArray, FloatArray]:
        mean, variance = self._belief.at(self.partition.leaves)
        return self.constants.prior_mean + mean, variance

    def learn(self, sums: VersionSums) -> None:
        """Add the sums of one version. The weight of earlier versions decays with the half-life."""
        self._data.fade(float(kept_after(sums.n, self._half_life)))
        super().learn(sums)

    def _look_again(self) -> None:
        super()._look_again()
        if self._half_life is not None:
            self._belief.hand_down(self._generations(), *self._told(np.arange(self.partition.n_nodes)))
        precision, moment = self._told(self.partition.leaves)
        self._belief.update(self.partition.leaves, precision=precision, moment=moment)
        self._forget()

    def _told(self, nodes: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return precision and moment of the reports on n nodes while they were leaves, (n, K) each.

        The moment is the precision times the estimated mean reward minus the prior mean.
        """
        precision, moment = self._data.told(self.masses, nodes)
        return precision, moment - precision * self.constants.prior_mean

    def _generations(self) -> list[Generation]:
        partition, found = self.partition, []
        for depth in range(partition.max_depth):
            parents = np.flatnonzero((partition.depth == depth) & (partition.left >= 0))
            children = np.stack([partition.left[parents], partition.right[parents]], axis=1)
            found.append((parents, children, self._rough(parents)))
        return found

    def _rough(self, parents: IntArray) -> FloatArray:
        return child_spread(self.constants.rough, self.partition.depth[parents], self.partition.dim)

    def split(self, chosen: IntArray) -> None:
        """Split leaves. Children deviate from their parent, and at first have equal shares of its mass."""
        precision, moment = self._told(chosen)
        spread = self._rough(chosen)
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
        self._data.grow(self.partition.n_nodes)
        self.masses = np.concatenate([self.masses, np.repeat(self.masses[chosen] / 2.0, 2)])
        self._forget()

"""Learners that drop arms, and the practical elimination rule.

The rule: drop an arm when its interval lies below another's, split when known.

With z standard deviations of an estimate f and tau = c 2^(-s/dim) in a leaf of depth s, R =
max(z sd, tau/2): arm l is dropped where f_l + R_l < max_k (f_k - R_k); a leaf with several arms
left is split when every z sd < tau. Children keep the arms left, and start their sums anew.

Privacy: post-processing of reports. Source: Perchet & Rigollet 2013 (ABSE) and Ma2025, Algorithm 2,
with the constants that make it act at realistic numbers of users.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.local.learners.base import BinLearner, VersionSums, grown
from dpbandits.models.trees.posterior import bin_masses

__all__ = ["EliminatingLearner", "EliminationConstants", "EliminationRule"]


@dataclass(frozen=True, kw_only=True)
class EliminationConstants:
    """Constants of the rule, chosen on tuning worlds (`reproduction/tuning/local_learners.py`) and frozen.

    Attributes:
        z: width of an interval in standard deviations.
        scale: c, the bias allowed in a leaf of depth 0.
    """

    z: float = 1.11
    scale: float = 0.29


class EliminatingLearner(BinLearner):
    """Drops the arms whose interval lies below another's, and splits the leaves whose others are narrow."""

    kept: ClassVar[tuple[str, ...]] = ("_active",)

    def _begin(self) -> None:
        self._active = np.ones((self.partition.n_nodes, self.n_arms))

    @abstractmethod
    def bounds(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Estimates of mean rewards in the leaves, how far off they may be, and whether they are narrow."""

    @abstractmethod
    def may_split(self, leaves: IntArray) -> BoolArray:
        """(n,) which of these leaves may be split, wherever all their arms are narrow."""

    def ready(self, active: BoolArray, narrow: BoolArray) -> BoolArray:
        """(L,) which leaves are known well enough to be split, of arms left and narrow arms (L, K): all."""
        return np.asarray((~active | narrow).all(axis=1))

    def grow(self, n_nodes: int) -> None:
        """Make room for new nodes, which start with no data, in all arrays that are kept."""
        for name in self.kept:
            if isinstance(getattr(self, name), np.ndarray):
                setattr(self, name, grown(getattr(self, name), n_nodes))

    def assign(self, normals: FloatArray) -> IntArray:
        """An arm left, by the public coin."""
        return np.asarray(np.where(self.active(), normals, -np.inf).argmax(axis=1))

    def active(self) -> BoolArray:
        """(L, K) arms not yet dropped."""
        return np.asarray(self._active[self.partition.leaves] > 0)

    def weights(self) -> FloatArray:
        """Uniform over the arms left."""
        active = self._active[self.partition.leaves]
        return np.asarray(active / active.sum(axis=1, keepdims=True))

    def refine(self, splits: IntArray | None = None) -> None:
        """Drop arms, then split leaves, or these; children keep the arms left."""
        leaves, active = self.partition.leaves, self.active()
        mean, width, narrow = self.bounds()
        floor = np.where(active, mean - width, -np.inf).max(axis=1)
        active &= ~(mean + width < floor[:, None])
        self._active[leaves] = active
        chosen = splits
        if chosen is None:
            chosen = leaves[self.ready(active, narrow)]
            chosen = chosen[self.may_split(chosen)][: self.max_leaves - len(leaves)]
        if len(chosen):
            children = self.partition.split(chosen)
            self.grow(self.partition.n_nodes)
            for side in (0, 1):
                self._active[children[:, side]] = self._active[chosen]


class EliminationRule(EliminatingLearner):
    """The rule, with `EliminationConstants`; arguments as for `BinLearner`."""

    Constants = EliminationConstants
    kept: ClassVar[tuple[str, ...]] = (
        *EliminatingLearner.kept,
        "_signed",
        "_reach",
        "_variance",
        "_count",
        "_mass",
        "_n",
        "_mass_n",
    )
    constants: EliminationConstants

    def _begin(self) -> None:
        super()._begin()
        shape = self._active.shape
        self._signed, self._reach, self._variance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._count, self._mass = np.zeros((shape[0], 3)), np.ones(shape[0])
        self._n, self._mass_n = 0, 0

    def assign(self, normals: FloatArray) -> IntArray:
        """Return, of the arms left, the one seen least; the public coin breaks ties."""
        seen = self._reach[self.partition.leaves] + 1e-9 * np.abs(normals)
        return np.asarray(np.where(self.active(), seen, np.inf).argmin(axis=1))

    def learn(self, sums: VersionSums) -> None:
        """Add a version's sums."""
        n, mass = sums.n, self._mass[sums.leaves]
        self._signed[sums.at] += sums.signed
        self._reach[sums.at] += n if sums.weights is None else n * sums.weights
        self._variance[sums.at] += n * sums.moments.signed_variance(sums.shares(mass))
        self._count[sums.leaves] += sums.people(mass)
        self._n += n
        if self._n - self._mass_n > 0.02 * self._mass_n:
            self._refresh_masses()

    def estimates(self) -> tuple[FloatArray, FloatArray]:
        """Estimates of mean rewards and their standard deviations in the leaves, (L, K) each."""
        leaves = self.partition.leaves
        reach = 2.0 * self._mass[leaves, None] * self._reach[leaves]
        unseen = reach <= 0.0
        reach = np.where(unseen, 1.0, reach)
        mean = np.where(unseen, 0.5, 0.5 + self._signed[leaves] / reach)
        return mean, np.where(unseen, np.inf, np.sqrt(self._variance[leaves]) / reach)

    def bounds(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Estimates, max(z sd, tau/2), and where z sd < tau."""
        mean, sd = self.estimates()
        depth = self.partition.depth[self.partition.leaves]
        tau = (self.constants.scale * 2.0 ** (-depth / self.partition.dim))[:, None]
        sd = self.constants.z * sd
        return mean, np.maximum(sd, tau / 2.0), sd < tau

    def may_split(self, leaves: IntArray) -> BoolArray:
        """Return which leaves have several arms left and can be split."""
        return np.asarray((self._active[leaves].sum(axis=1) > 1) & self.partition.splittable(leaves))

    def grow(self, n_nodes: int) -> None:
        """Sums start anew; masses are estimated again."""
        super().grow(n_nodes)
        self._refresh_masses()

    def _refresh_masses(self) -> None:
        count, variance, reports = self._count.T
        self._mass = bin_masses(self.partition, count=count, variance=variance, reports=reports)
        self._mass_n = self._n

"""Learners that eliminate arms, and the practical elimination rule (`EliminationRule`).

An estimate f in a leaf of depth s has an interval of half-width R = max(z sd, tau/2), where sd is its
standard deviation and tau = c 2^(-s/dim). Arm l is eliminated if f_l + R_l < max_k (f_k - R_k). A leaf with
several remaining arms is split when z sd < tau for each of them. Children inherit the remaining arms, and
start with empty sums.

Privacy: post-processing of reports. Source: Perchet & Rigollet 2013 (ABSE) and Ma2025, Algorithm 2, with
constants for realistic numbers of users.
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
    """Constants of the elimination rule, chosen on tuning worlds (`reproduction/tuning/local_learners.py`).

    Attributes:
        z: Half-width of an interval, in standard deviations.
        scale: The constant c, the bias allowed in a leaf of depth 0.
    """

    z: float = 1.11
    scale: float = 0.29


class EliminatingLearner(BinLearner):
    """A learner that eliminates arms by intervals, and splits leaves whose remaining intervals are narrow."""

    kept: ClassVar[tuple[str, ...]] = ("_active",)

    def _begin(self) -> None:
        self._active = np.ones((self.partition.n_nodes, self.n_arms))

    @abstractmethod
    def bounds(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return estimates of mean rewards, half-widths, and True for narrow intervals, (L, K) each."""

    @abstractmethod
    def may_split(self, leaves: IntArray) -> BoolArray:
        """Return True for each of n leaves that may be split once it is `ready`, shape (n,)."""

    def ready(self, active: BoolArray, narrow: BoolArray) -> BoolArray:
        """Return True for each leaf whose remaining arms all have narrow intervals, shape (L,).

        `active` (L, K) is True for remaining arms, and `narrow` (L, K) for narrow intervals.
        """
        return np.asarray((~active | narrow).all(axis=1))

    def grow(self, n_nodes: int) -> None:
        """Append zero rows for new nodes to all arrays that `kept` names."""
        for name in self.kept:
            if isinstance(getattr(self, name), np.ndarray):
                setattr(self, name, grown(getattr(self, name), n_nodes))

    def assign(self, normals: FloatArray) -> IntArray:
        """Return a remaining arm for each leaf, shape (L,), drawn uniformly by public coins."""
        return np.asarray(np.where(self.active(), normals, -np.inf).argmax(axis=1))

    def active(self) -> BoolArray:
        """Return True for the arms of each leaf that were not eliminated, shape (L, K)."""
        return np.asarray(self._active[self.partition.leaves] > 0)

    def weights(self) -> FloatArray:
        """Return probabilities of arms in the leaves, shape (L, K), uniform over the remaining arms."""
        active = self._active[self.partition.leaves]
        return np.asarray(active / active.sum(axis=1, keepdims=True))

    def refine(self, splits: IntArray | None = None) -> None:
        """Eliminate arms, then split the leaves that are ready, or only those in `splits`.

        Children inherit the remaining arms of their parent.
        """
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
    """The elimination rule of the module, with `EliminationConstants`; arguments as for `BinLearner`."""

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
        """Return the remaining arm with the fewest reports in each leaf, shape (L,).

        Public coins break ties.
        """
        seen = self._reach[self.partition.leaves] + 1e-9 * np.abs(normals)
        return np.asarray(np.where(self.active(), seen, np.inf).argmin(axis=1))

    def learn(self, sums: VersionSums) -> None:
        """Add the sums of the reports on one version."""
        n, mass = sums.n, self._mass[sums.leaves]
        self._signed[sums.at] += sums.signed
        self._reach[sums.at] += n if sums.weights is None else n * sums.weights
        self._variance[sums.at] += n * sums.moments.signed_variance(sums.shares(mass))
        self._count[sums.leaves] += sums.people(mass)
        self._n += n
        if self._n - self._mass_n > 0.02 * self._mass_n:
            self._refresh_masses()

    def estimates(self) -> tuple[FloatArray, FloatArray]:
        """Return estimates of mean rewards and their standard deviations in the leaves, (L, K) each."""
        leaves = self.partition.leaves
        reach = 2.0 * self._mass[leaves, None] * self._reach[leaves]
        unseen = reach <= 0.0
        reach = np.where(unseen, 1.0, reach)
        mean = np.where(unseen, 0.5, 0.5 + self._signed[leaves] / reach)
        return mean, np.where(unseen, np.inf, np.sqrt(self._variance[leaves]) / reach)

    def bounds(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return estimates, half-widths max(z sd, tau/2), and True where z sd < tau; (L, K) each."""
        mean, sd = self.estimates()
        depth = self.partition.depth[self.partition.leaves]
        tau = (self.constants.scale * 2.0 ** (-depth / self.partition.dim))[:, None]
        sd = self.constants.z * sd
        return mean, np.maximum(sd, tau / 2.0), sd < tau

    def may_split(self, leaves: IntArray) -> BoolArray:
        """Return True for each of n leaves with several remaining arms that can be halved, (n,)."""
        return np.asarray((self._active[leaves].sum(axis=1) > 1) & self.partition.splittable(leaves))

    def grow(self, n_nodes: int) -> None:
        """Add new nodes with empty sums, and estimate the masses again."""
        super().grow(n_nodes)
        self._refresh_masses()

    def _refresh_masses(self) -> None:
        count, variance, reports = self._count.T
        self._mass = bin_masses(self.partition, count=count, variance=variance, reports=reports)
        self._mass_n = self._n

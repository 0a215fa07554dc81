"""What released tables say about every arm's weights: Gaussian regression with learned relevance.

Tables s_a of an arm hold sums of (reward - b) over the people of every cell, with noise. With H the cells'
indicators of a sample of people that stands for the block and W_a how many people each of them stands for who
were given arm a, E s_a + H W_a (b - 1/2) = H W_a Phi w_a, rewards being 1/2 + Phi w_a.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from dpbandits._typing import FloatArray
from dpbandits.models.marginals.effects import Effects

__all__ = ["ArmWeights", "Evidence", "Relevance"]

CONSTANT_VARIANCE, COLUMN_VARIANCE, PAIR_VARIANCE = 0.02, 0.01, 0.001
"""Prior variances of a weight, in squared widths of the reward range; chosen on tuning tables."""

PAIR_PSEUDO_COUNT = 30.0
"""Weights' worth of evidence by which pairs are drawn towards each other's variance."""


@dataclass(frozen=True, eq=False)
class Relevance:
    """Prior variance (terms,) of every term's weights."""

    variances: FloatArray

    @classmethod
    def prior(cls, effects: Effects) -> "Relevance":
        """Before any data."""
        return cls(np.array([CONSTANT_VARIANCE, COLUMN_VARIANCE, PAIR_VARIANCE])[effects.order])

    def learned(self, effects: Effects, squares: FloatArray) -> "Relevance":
        """One step of expectation maximisation, from expected squares (K, m) of the weights.

        A column's variance has two weights' worth of `COLUMN_VARIANCE` beside its own; the constant's too.
        Pairs are drawn towards their mean.
        """
        arms, term_of, order = len(squares), effects.term_of, effects.order
        sums = np.bincount(term_of, weights=squares.sum(axis=0))
        counts = arms * np.bincount(term_of)
        alone = (sums + 2.0 * np.array([CONSTANT_VARIANCE, COLUMN_VARIANCE, 0.0])[order]) / (counts + 2.0)
        pairs = order == 2
        if not pairs.any():
            return Relevance(alone)
        pooled = (sums[pairs].sum() + 2.0 * PAIR_VARIANCE) / (counts[pairs].sum() + 2.0)
        together = (sums + PAIR_PSEUDO_COUNT * pooled) / (counts + PAIR_PSEUDO_COUNT)
        return Relevance(np.where(pairs, together, alone))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Precision (K, m, m) and precision-weighted weights (K, m) of all tables so far."""

    precision: FloatArray
    shift: FloatArray

    @classmethod
    def none(cls, arms: int, weights: int) -> "Evidence":
        """Before any release."""
        return cls(np.zeros((arms, weights, weights)), np.zeros((arms, weights)))

    def faded(self, kept: float) -> "Evidence":
        """The share of it that still counts."""
        return self if kept == 1.0 else Evidence(kept * self.precision, kept * self.shift)

    def given(self, maps: FloatArray, sums: FloatArray, covariances: FloatArray) -> "Evidence":
        """With tables s_a = A_a w_a + noise of these covariances beside them.

        Args:
            maps: A, (K, C, m).
            sums: s, (K, C).
            covariances: (K, C, C).
        """
        lower = np.linalg.cholesky(covariances)
        told = np.linalg.solve(lower, maps)
        seen = np.linalg.solve(lower, sums[:, :, None])
        turned = np.swapaxes(told, 1, 2)
        return Evidence(self.precision + turned @ told, self.shift + (turned @ seen)[:, :, 0])


@dataclass(frozen=True, eq=False)
class ArmWeights:
    """Law of every arm's weights.

    Attributes:
        mean: (K, m).
        factor: (K, m, m); covariance = factor factor^T.
        relevance: the prior variances that it rests on.
    """

    mean: FloatArray
    factor: FloatArray
    relevance: Relevance

    @classmethod
    def of(cls, effects: Effects, evidence: Evidence, relevance: Relevance) -> "ArmWeights":
        """The posterior: precision J + 1/v. With D = sqrt(v): covariance D (I + D J D)^-1 D."""
        scale = np.sqrt(relevance.variances)[effects.term_of]
        system = evidence.precision * scale[:, None] * scale + np.eye(len(scale))
        lower = np.linalg.cholesky(system)
        unit = np.eye(len(scale))
        inverse = np.stack([solve_triangular(own, unit, lower=True, check_finite=False) for own in lower])
        factor = scale[:, None] * np.swapaxes(inverse, 1, 2)
        mean = factor @ (np.swapaxes(factor, 1, 2) @ evidence.shift[:, :, None])
        return cls(mean[:, :, 0], factor, relevance)

    @property
    def variances(self) -> FloatArray:
        """(K, m) of every weight."""
        return np.asarray((self.factor**2).sum(axis=2))

    def sampled(self, normals: FloatArray, *, scale: float) -> FloatArray:
        """(S, K, m) weights by standard normals (S, K, m), deviations multiplied by `scale`."""
        return np.asarray(self.mean + scale * (self.factor @ normals[..., None])[..., 0])

    @classmethod
    def fitted(
        cls, effects: Effects, evidence: Evidence, relevance: Relevance, *, steps: int
    ) -> "ArmWeights":
        """The posterior after so many steps of expectation maximisation."""
        found = cls.of(effects, evidence, relevance)
        for _ in range(steps):
            relevance = relevance.learned(effects, found.mean**2 + found.variances)
            found = cls.of(effects, evidence, relevance)
        return replace(found, relevance=relevance)

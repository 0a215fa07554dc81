"""Posterior of every arm's weights given released tables: regression with learned variances.

The tables s_a of arm a hold noisy sums of (reward - b) over the users of every cell, with a public centre b.
A weighted sample of contexts represents the users of the block. H is the 0/1 matrix of the cells that
contain each sampled context. W_a is the diagonal matrix of the number of users with arm a whom each sampled
context represents. Rewards have mean 1/2 + Phi w_a, with features Phi of the sampled contexts and weights
w_a. Then the expected tables satisfy E s_a + H W_a (b - 1/2) = H W_a Phi w_a.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dtrtri

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.marginals.effects import Effects

__all__ = ["ArmWeights", "Evidence", "Relevance", "covariance_factor"]

CONSTANT_VARIANCE, COLUMN_VARIANCE, PAIR_VARIANCE = 0.02, 0.01, 0.001
"""Prior variances of a weight of the constant, of one column and of a pair, in squared widths of the reward
range; chosen on tuning tables.
"""

PRIOR_VARIANCES = np.array([CONSTANT_VARIANCE, COLUMN_VARIANCE, PAIR_VARIANCE])
"""Prior variances of a weight whose term has no, one and two columns."""

PAIR_PSEUDO_COUNT = 30.0
"""Strength with which the variance of each pair is shrunk towards
the mean of all pairs, in numbers of weights.
"""


@dataclass(frozen=True, eq=False)
class Relevance:
    """Prior variances of the weights of terms, where a term is the constant, one column or a pair.

    Attributes:
        variances: Prior variance of each term's weights if its columns matter, shape (terms,).
        included: Probability that each column matters, shape (columns,); None if all columns matter.
    """

    variances: FloatArray
    included: FloatArray | None = None

    def of_terms(self, effects: Effects) -> FloatArray:
        """Return `variances` times the probability that all columns of the term matter, shape (terms,)."""
        if self.included is None:
            return self.variances
        share = np.array([self.included[list(term.columns)].prod() for term in effects.terms])
        return np.asarray(self.variances * share)

    @classmethod
    def prior(cls, effects: Effects) -> "Relevance":
        """Return the prior variances before any data."""
        return cls(PRIOR_VARIANCES[effects.order])

    def among(self, effects: Effects, wider: Effects) -> "Relevance":
        """Return the relevance for wider effects, which contain `effects`.

        Terms that `effects` does not have get their prior variance before any data.
        """
        own = {term.columns: value for term, value in zip(effects.terms, self.variances, strict=True)}
        return Relevance(
            np.array([own.get(term.columns, PRIOR_VARIANCES[len(term.columns)]) for term in wider.terms]),
            self.included,
        )

    def learned(self, effects: Effects, squares: FloatArray) -> "Relevance":
        """Return the relevance after one step of expectation maximisation.

        The variance of a column is shrunk towards `COLUMN_VARIANCE`, and the variance of the constant
        towards `CONSTANT_VARIANCE`, each with a pseudo-count of two weights. Pairs are shrunk towards their
        mean.

        Args:
            effects: Functions that are learned.
            squares: Expected squares of the weights, shape (K, m).
        """
        arms, term_of, order = len(squares), effects.term_of, effects.order
        sums = np.bincount(term_of, squares.sum(axis=0), minlength=len(order))
        counts = arms * np.bincount(term_of, minlength=len(order))  # a column of one level has no weights
        alone = (sums + 2.0 * np.array([CONSTANT_VARIANCE, COLUMN_VARIANCE, 0.0])[order]) / (counts + 2.0)
        pairs = order == 2
        if not pairs.any():
            return Relevance(alone)
        pooled = (sums[pairs].sum() + 2.0 * PAIR_VARIANCE) / (counts[pairs].sum() + 2.0)
        together = (sums + PAIR_PSEUDO_COUNT * pooled) / (counts + PAIR_PSEUDO_COUNT)
        return Relevance(np.where(pairs, together, alone))


@dataclass(frozen=True, eq=False)
class Evidence:
    """Evidence of all tables so far about the m weights of each of K arms.

    It consists of a precision (K, m, m) and a precision-weighted mean (K, m). If all arms have the same
    precision, that is one matrix, broadcast.
    """

    precision: FloatArray
    shift: FloatArray

    @classmethod
    def none(cls, arms: int, weights: int) -> "Evidence":
        """Return the empty evidence before any release."""
        return cls(_for_all(np.zeros((1, weights, weights)), arms), np.zeros((arms, weights)))

    @property
    def matrices(self) -> FloatArray:
        """Precision (K, m, m), or (1, m, m) if all arms have the same."""
        return self.precision[:1] if self.precision.strides[0] == 0 else self.precision

    def faded(self, kept: float) -> "Evidence":
        """Return this evidence multiplied by `kept` (exponential discounting)."""
        if kept == 1.0:
            return self
        return Evidence(_for_all(kept * self.matrices, len(self.shift)), kept * self.shift)

    def beside(self, precision: FloatArray, shift: FloatArray) -> "Evidence":
        """Return this evidence with that of k more arms: `precision` (k, m, m) and `shift` (k, m)."""
        return Evidence(np.concatenate([self.precision, precision]), np.concatenate([self.shift, shift]))

    def among(self, places: IntArray, weights: int) -> "Evidence":
        """Return this evidence as evidence about a larger set of weights, with precision zero for the new
        weights.

        Args:
            places: Index of each present weight in the larger set, shape (m,).
            weights: Size of the larger set.
        """
        if len(places) == weights:
            return self
        own, arms = self.matrices, len(self.shift)
        precision, shift = np.zeros((len(own), weights, weights)), np.zeros((arms, weights))
        precision[:, places[:, None], places] = own
        shift[:, places] = self.shift
        return Evidence(_for_all(precision, arms), shift)

    def given(
        self,
        tables: Iterable[tuple[FloatArray, FloatArray, FloatArray]],
        *,
        arms: IntArray | None = None,
    ) -> "Evidence":
        """Return the sum of this evidence and that of new tables s_a = A_a w_a + noise, for all arms a.

        Args:
            tables: For every arm in order the map A_a (C, m), the covariance of the noise (C, C) and the
                sums s_a (1, C). If all arms share map and covariance, one entry with the sums (K, C) of all
                arms.
            arms: Indices of the arms that have tables; None if all have. The others learn nothing.
        """
        precision, shift = [], []
        for maps, covariance, sums in tables:
            lower = np.linalg.cholesky(covariance)
            told = solve_triangular(lower, maps, lower=True, check_finite=False)
            seen = solve_triangular(lower, sums.T, lower=True, check_finite=False)
            precision.append(told.T @ told)
            shift.append((told.T @ seen).T)
        if arms is not None:
            found, moved = np.array(self.precision), self.shift.copy()
            found[arms] += np.stack(precision)
            moved[arms] += np.concatenate(shift)
            return Evidence(found, moved)
        return Evidence(
            _for_all(self.matrices + np.stack(precision), len(self.shift)), self.shift + np.concatenate(shift)
        )


@dataclass(frozen=True, eq=False)
class ArmWeights:
    """Gaussian posterior of every arm's weights.

    Attributes:
        mean: Posterior means, shape (K, m).
        factor: Factors F of the covariances F F^T, shape (K, m, m). If arms have the same, it is one matrix,
            broadcast.
        relevance: Prior variances from which the posterior was computed.
    """

    mean: FloatArray
    factor: FloatArray
    relevance: Relevance

    @classmethod
    def of(cls, effects: Effects, evidence: Evidence, relevance: Relevance) -> "ArmWeights":
        """Return the posterior given evidence and prior variances.

        With the evidence's precision J and D = diag(sqrt(prior variances)) its covariance is D (I + D J
        D)^-1 D.
        """
        scale = np.sqrt(relevance.of_terms(effects))[effects.term_of]
        factor = np.stack([covariance_factor(own, scale) for own in evidence.matrices])
        turned = np.swapaxes(factor, 1, 2)
        mean = (factor @ (turned @ evidence.shift[:, :, None]))[:, :, 0]
        return cls(mean, _for_all(factor, len(mean)), relevance)

    def of_arms(self, arms: IntArray) -> "ArmWeights":
        """Return the posterior of some arms (k,)."""
        if len(arms) == len(self.mean):
            return self
        shared = self.factor.strides[0] == 0
        factor = _for_all(self.factor[:1], len(arms)) if shared else self.factor[arms]
        return replace(self, mean=self.mean[arms], factor=factor)

    @property
    def variances(self) -> FloatArray:
        """Posterior variances of the weights, shape (K, m)."""
        own = self.factor[:1] if self.factor.strides[0] == 0 else self.factor
        return _for_all(np.stack([(one**2).sum(axis=1) for one in own]), len(self.mean))

    @classmethod
    def fitted(
        cls, effects: Effects, evidence: Evidence, relevance: Relevance, *, steps: int
    ) -> "ArmWeights":
        """Return the posterior after `steps` steps of expectation maximisation for the prior variances."""
        found = cls.of(effects, evidence, relevance)
        for _ in range(steps):
            relevance = relevance.learned(effects, found.mean**2 + found.variances)
            found = cls.of(effects, evidence, relevance)
        return replace(found, relevance=relevance)


def _for_all(own: FloatArray, arms: int) -> FloatArray:
    return np.broadcast_to(own, (arms, *own.shape[1:]))


def covariance_factor(precision: FloatArray, scale: FloatArray) -> FloatArray:
    """Return F (m, m) with F F^T = D (I + D J D)^-1 D, for D = diag(scale) and the precision J."""
    system = precision * scale[:, None]
    system *= scale
    system[np.diag_indices_from(system)] += 1.0
    # To LAPACK the transpose of a C-ordered lower triangle is an upper one.
    inverse, failed = dtrtri(np.linalg.cholesky(system).T, lower=0)
    if failed:
        raise np.linalg.LinAlgError("the precision is singular")
    return np.asarray(scale[:, None] * inverse)

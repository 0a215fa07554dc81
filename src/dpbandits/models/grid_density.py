"""Probability law of contexts over the cells of a grid, learned from noisy means of public functions.

The probability p(g) of cell g is proportional to exp(psi(g) . t), with features psi and independent normal
weights t: a logistic Gaussian process. An observation is the mean of n reports, whose expected value is
sum_g p(g) u(g) for a public function u of cells. The posterior of t is Laplace's approximation, by Newton
steps with linearised means. The derivative of a mean is sum_g p(g) u(g) (psi(g) - mean of psi under p).

Source: Lenk, *The logistic normal distribution for Bayesian, nonparametric, predictive densities*, 1988.
"""

import math

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.models.features.products import LENGTHS, ProductFeatures

__all__ = ["GridDensity"]

# Lengthscale of the log density, as a law over LENGTHS.
_LENGTH_LAW = (LENGTHS == 0.22).astype(np.float64)

_SDS = np.array([0.125, 0.25, 0.5, 1.0, 2.0])
"""Candidate standard deviations of the log density, which are
averaged over; a small one means nearly uniform.
"""

_STEPS = 3

# Largest change of a log density in one Newton step.
_LONGEST_STEP = 2.0


class GridDensity:
    """Posterior of a probability law over the G cells of a grid, with F features of which one is constant.

    Args:
        features: Features at the grid's cells.

    Attributes:
        weights: Posterior mode of the features' weights, shape (F - 1,).
        variance: Prior variance of each weight, averaged over the posterior of the log density's deviation.
        factor: Cholesky factor of the weights' precision, shape (F - 1, F - 1).
        p: Probabilities of the cells, shape (G,).
    """

    def __init__(self, features: ProductFeatures) -> None:
        variances = features.variances([_LENGTH_LAW] * len(features.profiles))[1:]
        self._values = features.values[:, 1:] * np.sqrt(variances)
        self.weights = np.zeros(self._values.shape[1])
        self.variance = float((_SDS**2).mean())
        self.factor = np.eye(len(self.weights)) / math.sqrt(self.variance)
        self.look()

    def look(self) -> None:
        """Compute the cells' probabilities `p` from the present weights."""
        levels = self._values @ self.weights
        raised = np.exp(levels - levels.max())
        self.p = raised / raised.sum()
        self._centred = self._values - self.p @ self._values

    def learn(self, functions: FloatArray, means: FloatArray, precisions: FloatArray) -> None:
        """Fit the law to all observations.

        Args:
            functions: Values of m public functions u at the cells, shape (m, G).
            means: Observed mean of each function, shape (m,).
            precisions: Inverse variance of each observed mean, shape (m,).
        """
        for _ in range(_STEPS):
            self._step(*self._linearised(functions, means, precisions))
        precision, moment = self._linearised(functions, means, precisions)
        scores = np.array([_log_evidence(precision, moment, sd) for sd in _SDS])
        law = np.exp(scores - scores.max())
        self.variance = float(law @ _SDS**2 / law.sum())
        for _ in range(_STEPS):
            self._step(*self._linearised(functions, means, precisions))

    def _linearised(
        self, functions: FloatArray, means: FloatArray, precisions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return precision and moment of the weights, with means linearised at the present weights."""
        slopes = (functions * self.p) @ self._centred
        rest = means - functions @ self.p + slopes @ self.weights
        return (slopes * precisions[:, None]).T @ slopes, slopes.T @ (precisions * rest)

    def _step(self, precision: FloatArray, moment: FloatArray) -> None:
        self.factor = _factor(precision, self.variance)
        step = self._solve(moment) - self.weights
        longest = float(np.abs(self._centred @ step).max(initial=0.0))
        self.weights = self.weights + step * min(1.0, _LONGEST_STEP / max(longest, _LONGEST_STEP))
        self.look()

    def least_known(self, normals: FloatArray) -> FloatArray:
        """Return the signs (G,) of a function of cells whose mean under p is very uncertain.

        Args:
            normals: Standard normals from which the function is computed, shape (F - 1,).
        """
        drawn = solve_triangular(self.factor, normals, lower=True, trans=1, check_finite=False)
        signs = _signs(self._centred @ drawn)
        return _signs(self._centred @ self._solve((self.p * signs) @ self._centred))

    def doubt(self, function: FloatArray) -> float:
        """Return the posterior standard deviation of a function's mean under p, given its values (G,)."""
        slope = (self.p * function) @ self._centred
        return math.sqrt(max(0.0, float(slope @ self._solve(slope))))

    def boxes(self, centres: FloatArray, n: int) -> IntArray:
        """Return the index of each cell's box, shape (G,), for n boxes of about equal probability.

        Boxes come from repeated halving along the longest side.

        Args:
            centres: Centres of the cells, shape (G, d).
            n: Number of boxes, a power of two.
        """
        parts = np.zeros(len(centres), dtype=np.int64)
        for _ in range(n.bit_length() - 1):
            cuts = np.zeros(len(centres), dtype=np.int64)
            for part in range(int(parts.max()) + 1):
                mine = np.flatnonzero(parts == part)
                cuts[mine] = _upper_half(centres[mine], self.p[mine])
            parts = 2 * parts + cuts
        return parts

    def _solve(self, moment: FloatArray) -> FloatArray:
        half = solve_triangular(self.factor, moment, lower=True, check_finite=False)
        return np.asarray(solve_triangular(self.factor, half, lower=True, trans=1, check_finite=False))


def _factor(precision: FloatArray, variance: float) -> FloatArray:
    """Return the Cholesky factor of `precision` plus the prior precision 1 / `variance` on the diagonal."""
    total = precision.copy()
    total[np.diag_indices_from(total)] += 1.0 / variance
    return np.asarray(cholesky(total, lower=True, check_finite=False))


def _log_evidence(precision: FloatArray, moment: FloatArray, sd: float) -> float:
    factor = _factor(precision, sd**2)
    half = solve_triangular(factor, moment, lower=True, check_finite=False)
    return float(0.5 * half @ half - np.log(np.diag(factor)).sum() - len(moment) * math.log(sd))


def _signs(values: FloatArray) -> FloatArray:
    return np.where(values < 0.0, -1.0, 1.0)


def _upper_half(points: FloatArray, mass: FloatArray) -> BoolArray:
    """Return an array (m,): True for cells in the upper half by probability, along their longest side."""
    if not len(points):
        return np.zeros(0, dtype=np.bool_)
    column = points[:, int(np.argmax(np.ptp(points, axis=0)))]
    levels, level = np.unique(column, return_inverse=True)
    below = np.cumsum(np.bincount(level, weights=mass))
    cut = int(np.argmin(np.abs(below[:-1] - below[-1] / 2.0))) if len(levels) > 1 else 0
    return np.asarray(level > cut)

"""Bayesian regression on noisy linear functionals of K functions, averaged over their smoothness.

Function k is f_k(x) = psi(x) . w_k, with F features psi and independent normal weights w_k. All functions
have the same prior variances. With w = (w_1, ..., w_K) an observation is d = h . w + noise of variance v,
for a known vector h. Only the precision A = sum h h^T/v and the moment b = sum h d/v are stored.

The lengthscale of each column and the standard deviation of the functions are unknown. Each of them has a
discrete law, independent of the others. Coordinate ascent over the evidence updates one law at a time, with
the others at their means. The weights' prior variances are averages over these laws
(`models.features.products`).

Source: this library.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from dpbandits._typing import FloatArray
from dpbandits.models.features.products import LENGTHS, ProductFeatures

__all__ = ["AveragedRegression"]

DEVIATIONS = np.array([0.05, 0.1, 0.15, 0.2, 0.28, 0.4])
"""Candidates for the standard deviation of a function without its constant; the model averages over them."""

# Median and spread of the log-normal prior of a lengthscale.
_LENGTH, _LENGTH_SPREAD = 0.5, 0.5

# Products with a prior standard deviation below this share of the largest are left out of the evidence.
_SMALL = 1e-4


# Number of points whose deviations of mixed functions are computed at once, which bounds memory.
_POINTS = 16


class AveragedRegression:
    """Gaussian posterior of the weights of K functions with F features each.

    Args:
        features: Features of the functions at G public points.
        n_functions: Number K of functions.
        constant_sd: Prior standard deviation of the functions' constants.

    Attributes:
        precision, moment: Sums A and b, shapes (K F, K F) and (K F,). Add observations to them, then call
            `renew`.
        heard: Precision and moment of further observations, of the same shapes, which are added to A and b
            when the posterior is computed; None if there are none.
        laws: Probabilities of the 6 candidate lengthscales of each of `dim` columns, and in the last row of
            the 6 `DEVIATIONS`; shape (dim + 1, 6).
        variances: Prior variances of a function's weights, shape (F,).
        mean: Posterior mean of the weights, shape (K, F).
    """

    def __init__(self, features: ProductFeatures, *, n_functions: int, constant_sd: float) -> None:
        self.features, self.n_functions, self._constant_sd = features, n_functions, constant_sd
        size = n_functions * features.values.shape[1]
        self.precision, self.moment = np.zeros((size, size)), np.zeros(size)
        self.heard: tuple[FloatArray, FloatArray] | None = None
        away = (np.log(LENGTHS) - math.log(_LENGTH)) / _LENGTH_SPREAD
        lengths = np.exp(-0.5 * away**2)
        even = np.ones(len(DEVIATIONS))
        prior = np.array([lengths] * len(features.profiles) + [even])
        self._prior = prior / prior.sum(axis=1, keepdims=True)
        self.laws = self._prior.copy()
        self.renew()

    kept = ("precision", "moment", "laws", "_used_precision", "_used_moment")
    """Names of the attributes that a saved state contains; call `restored` after you load them."""

    def restored(self) -> None:
        """Compute the posterior from the arrays named in `kept`, after they were loaded."""
        self._believe()

    def tell(self, functionals: FloatArray, sums: FloatArray, variances: FloatArray) -> None:
        """Add m observations to `precision` and `moment`; the posterior changes with the next `renew`.

        Args:
            functionals: Vectors h, shape (m, K F).
            sums: Observations d, shape (m,).
            variances: Noise variances v, shape (m,).
        """
        self.precision += (functionals / variances[:, None]).T @ functionals
        self.moment += functionals.T @ (sums / variances)

    def fade(self, kept: float) -> None:
        """Multiply the weight of all observations by `kept`, in (0, 1] (exponential discounting)."""
        if kept < 1.0:
            self.precision *= kept
            self.moment *= kept

    def learn_laws(self) -> None:
        """Update the law of each column's lengthscale, and that of the functions' deviation, in turn."""
        known = self._known()
        for place in range(len(self.laws)):
            scores = np.empty(len(LENGTHS))
            for chosen in range(len(LENGTHS)):
                laws = self.laws.copy()
                laws[place] = np.arange(len(LENGTHS)) == chosen
                scores[chosen] = _log_evidence(*known, self._scale_of(self._variances(laws)))
            law = self._prior[place] * np.exp(scores - scores.max())
            self.laws[place] = law / law.sum()

    def log_evidence(self, told: FloatArray) -> float:
        """Return the log evidence of a precision and a moment under the present prior, up to a constant.

        Args:
            told: Precision, with the moment as last column, shape (K F, K F + 1).
        """
        scale, moment = self._scale, told[:, -1]
        scaled = told[:, :-1] * scale[:, None] * scale
        scaled[np.diag_indices_from(scaled)] += 1.0
        factor = cholesky(scaled, lower=True, check_finite=False, overwrite_a=True)
        half = solve_triangular(factor, scale * moment, lower=True, check_finite=False)
        return float(0.5 * half @ half - np.log(np.diag(factor)).sum())

    def renew(self) -> None:
        """Compute the posterior from all observations, those in `heard` included."""
        self._used_precision, self._used_moment = self._known()
        self._believe()

    def _known(self) -> tuple[FloatArray, FloatArray]:
        """Return precision and moment of all observations, those in `heard` included."""
        if self.heard is None:
            return self.precision.copy(), self.moment.copy()
        return self.precision + self.heard[0], self.moment + self.heard[1]

    def law(self, functionals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior means (m,) and covariance (m, m) of m functionals h . w, for rows h (m, K F)."""
        scaled = (functionals * self._scale).T
        half = solve_triangular(self._factor, scaled, lower=True, check_finite=False)
        return functionals @ self.mean.ravel(), half.T @ half

    def _believe(self) -> None:
        self.variances = self._variances(self.laws)
        self._scale = self._scale_of(self.variances)
        scaled = self._used_precision * self._scale[:, None] * self._scale
        scaled[np.diag_indices_from(scaled)] += 1.0
        self._factor = cholesky(scaled, lower=True, check_finite=False)
        self.mean = self.solve(self._used_moment).reshape(self.n_functions, -1)

    def deviation(self, normals: FloatArray) -> FloatArray:
        """Return posterior mean weights subtracted from a posterior sample, shape (K, F).

        Args:
            normals: Independent standard normals from which the sample is computed, shape (K F,).
        """
        drawn = solve_triangular(self._factor, normals, lower=True, trans=1, check_finite=False)
        return np.asarray((self._scale * drawn).reshape(self.n_functions, -1))

    def solve(self, functional: FloatArray) -> FloatArray:
        """Return the posterior covariance matrix of the weights times a vector (K F,)."""
        half = solve_triangular(self._factor, self._scale * functional, lower=True, check_finite=False)
        whole = solve_triangular(self._factor, half, lower=True, trans=1, check_finite=False)
        return np.asarray(self._scale * whole)

    def spread(self, mixes: FloatArray | None = None) -> FloatArray:
        """Return the posterior standard deviation of each function at the features' points, shape (G, K).

        Args:
            mixes: Weights of A sums of the functions, shape (A, K). The deviations of these sums, shape
                (G, A), are returned instead.
        """
        values = self.features.values
        if mixes is not None:
            found = np.empty((len(values), len(mixes)))
            each, size = np.eye(self.n_functions), len(self._scale)
            for start in range(0, len(values), _POINTS):
                rows = values[start : start + _POINTS]
                alone = np.einsum("ab,gf->afgb", each, rows).reshape(size, -1) * self._scale[:, None]
                half = solve_triangular(self._factor, alone, lower=True, check_finite=False)
                mixed = half.reshape(size, len(rows), -1) @ mixes.T
                found[start : start + _POINTS] = np.linalg.norm(mixed, axis=0)
            return found
        columns = []
        for k in range(self.n_functions):
            at = slice(k * values.shape[1], (k + 1) * values.shape[1])
            scaled = np.zeros((len(self._scale), len(values)))
            scaled[at] = (values * self._scale[at]).T
            columns.append(
                np.linalg.norm(solve_triangular(self._factor, scaled, lower=True, check_finite=False), axis=0)
            )
        return np.stack(columns, axis=1)

    def _variances(self, laws: Sequence[FloatArray] | FloatArray) -> FloatArray:
        *lengths, deviation = laws
        variances = self.features.variances(lengths) * float(deviation @ DEVIATIONS**2)
        variances[0] = self._constant_sd**2
        return variances

    def _scale_of(self, variances: FloatArray) -> FloatArray:
        return np.tile(np.sqrt(variances), self.n_functions)


def _log_evidence(precision: FloatArray, moment: FloatArray, scale: FloatArray) -> float:
    """Return the log evidence of observations up to a constant, without weights of negligible prior.

    Args:
        precision: Precision A of the observations, shape (K F, K F).
        moment: Moment b of the observations, shape (K F,).
        scale: Prior standard deviations of the weights, shape (K F,).
    """
    used = np.flatnonzero(scale > _SMALL * scale.max())
    scale = scale[used]
    scaled = precision[np.ix_(used, used)] * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] += 1.0
    factor = cholesky(scaled, lower=True, check_finite=False, overwrite_a=True)
    half = solve_triangular(factor, scale * moment[used], lower=True, check_finite=False)
    return float(0.5 * half @ half - np.log(np.diag(factor)).sum())

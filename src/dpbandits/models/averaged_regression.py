"""Bayesian regression on noisy linear functionals of K functions, averaged over their smoothness.

f_k(x) = psi(x) w_k, and all w_k have independent normal weights of common prior variances. Observations are
sums d = h w + noise with w = (w_1, ..., w_K). Only their precision A = sum h h^T/v and moment b = sum h d/v
are stored. The lengthscales of columns and the functions' deviation are unknown. They have independent laws,
one per column. Each is the posterior given the means of the others (coordinate ascent over the evidence).
The prior is the mean of the priors under these laws, which is a product again (`models.features.products`).

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
"""Standard deviations of the functions, without their constants, that are averaged over."""

# Median and spread of the log-normal prior of a lengthscale.
_LENGTH, _LENGTH_SPREAD = 0.5, 0.5

# Products with a prior standard deviation below this share of the largest are left out of the evidence.
_SMALL = 1e-4


class AveragedRegression:
    """Posterior of the weights of K functions.

    Args:
        features: Features of the functions.
        n_functions: Number K of functions.
        constant_sd: Prior standard deviation of the functions' constants.

    Attributes:
        precision, moment: Sums A and b, shapes (K F, K F) and (K F,). Add observations to them, then call
            `renew`.
        heard: Precision and moment, of the same shapes, of observations made elsewhere; None without any.
        laws: Laws of the columns' lengthscales, and of the deviation in the last row, shape (dim + 1, 6).
        variances: Prior variances, shape (F,).
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
    """Names of the arrays that are stored; after they are loaded, call `restored`."""

    def restored(self) -> None:
        """Compute the posterior from the arrays `kept` after these were loaded."""
        self._believe()

    def tell(self, functionals: FloatArray, sums: FloatArray, variances: FloatArray) -> None:
        """Add observations: functionals (m, K F), their noisy sums (m,) and the noise variances (m,)."""
        self.precision += (functionals / variances[:, None]).T @ functionals
        self.moment += functionals.T @ (sums / variances)

    def fade(self, kept: float) -> None:
        """Multiply the weight of all observations by `kept`, in (0, 1] (exponential discounting)."""
        if kept < 1.0:
            self.precision *= kept
            self.moment *= kept

    def learn_laws(self) -> None:
        """Update the laws of the columns' lengthscales and of the deviation, each once."""
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
        """Return the log evidence of a precision and a moment under the present laws, up to a constant.

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
        """Update the posterior by all observations."""
        self._used_precision, self._used_moment = self._known()
        self._believe()

    def _known(self) -> tuple[FloatArray, FloatArray]:
        """Return precision and moment of all observations, here and elsewhere."""
        if self.heard is None:
            return self.precision.copy(), self.moment.copy()
        return self.precision + self.heard[0], self.moment + self.heard[1]

    def law(self, functionals: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior means (m,) and covariance (m, m) of functionals (m, K F)."""
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
        """Return a posterior sample of the weights minus their mean, (K, F), from standard normals (K F,)."""
        drawn = solve_triangular(self._factor, normals, lower=True, trans=1, check_finite=False)
        return np.asarray((self._scale * drawn).reshape(self.n_functions, -1))

    def solve(self, functional: FloatArray) -> FloatArray:
        """Return the posterior covariance (K F,) of the weights with a functional (K F,)."""
        half = solve_triangular(self._factor, self._scale * functional, lower=True, check_finite=False)
        whole = solve_triangular(self._factor, half, lower=True, trans=1, check_finite=False)
        return np.asarray(self._scale * whole)

    def spread(self) -> FloatArray:
        """Return the posterior standard deviations of the functions at the features' points, (G, K)."""
        values = self.features.values
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
    """Return the log evidence of precision (K F, K F) and moment (K F,), up to a constant.

    Args:
        precision: Precision of observations.
        moment: Moment of observations.
        scale: Prior deviations of the weights, shape (K F,).
    """
    used = np.flatnonzero(scale > _SMALL * scale.max())
    scale = scale[used]
    scaled = precision[np.ix_(used, used)] * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] += 1.0
    factor = cholesky(scaled, lower=True, check_finite=False, overwrite_a=True)
    half = solve_triangular(factor, scale * moment[used], lower=True, check_finite=False)
    return float(0.5 * half @ half - np.log(np.diag(factor)).sum())

r"""Kernel regression on uniformly explored data in its population form, which is diagonal.

Pairs (action, context) fall into public cells w. Their public law mu is the product of the law of actions
and the law of contexts. The kernel has eigenvalues lambda_i and eigenfunctions psi_i under mu
(`dpbandits.models.features.eigen`). With T rounds, ridge tau and h_i = lambda_i/(T lambda_i + tau):

| quantity | formula |
|---|---|
| estimate from cell sums s | sum_i h_i psi_i(w) b_i, b = psi^T s |
| influence of a reward at v on w | g(w, v) = sum_i h_i psi_i(w) psi_i(v) |
| deviation sigma-bar(w) | sqrt(g(w, w)) |

It is the estimator of Pavlovic2025, eqs. (4) and (5). The empirical covariance of an approximating set is
replaced by the covariance that it approximates. Units: rewards are centred and divided by their bound, so
they lie in [-1, 1]. Nothing here is private or random. The arithmetic on raw data is in
`dpbandits.central.logged.sums`.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import ndtr

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.features.eigen import EigenFeatures

__all__ = [
    "NOISE_VARIANCE",
    "SIGNAL_VARIANCE",
    "CoefficientPosterior",
    "Plan",
    "PopulationEstimator",
    "clip_loss",
    "prior_variances",
]

SIGNAL_VARIANCE = 0.25 / 1.44
"""Expected variance of the mean reward over cells, in squared bounds.

A function with largest value 1 has a variance of about 1/4. The bound is assumed to be 1.2 times the largest
value, since rewards also have noise.
"""

NOISE_VARIANCE = 0.2
"""Assumed variance of a reward times an eigenfunction, in squared bounds; it is at most 1."""


def prior_variances(eigenvalues: FloatArray) -> FloatArray:
    """Return expected squares (m,) of a function's coefficients, which are proportional to lambda^2.

    That holds for functions that are sums of kernel sections. Variances proportional to lambda made no
    difference on nine tuning tables and worlds with contexts of two and three columns (one order each). Logs
    earned .002 less at epsilon .3, the same at 1 and .004 more at 3.

    Example:
        >>> prior_variances(np.array([2.0, 1.0])) / SIGNAL_VARIANCE
        array([0.8, 0.2])
    """
    squares = eigenvalues**2
    return np.asarray(SIGNAL_VARIANCE * squares / squares.sum())


@dataclass(frozen=True)
class PopulationEstimator:
    """Kernel regression estimator for a number of rounds and a ridge; the module defines the symbols.

    Args:
        features: Eigenfeatures over (actions, contexts): cell = action * n_contexts + context.
        rounds: Number T of rounds.
        ridge: Regularisation tau.
    """

    features: EigenFeatures
    rounds: int
    ridge: float

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return self.features.measures[0].size

    @property
    def n_contexts(self) -> int:
        """Number of context cells."""
        return self.features.n_cells // self.n_actions

    @cached_property
    def shrinkage(self) -> FloatArray:
        """Shrinkage factors h, (m,)."""
        values = self.features.eigenvalues
        return np.asarray(values / (self.rounds * values + self.ridge))

    @cached_property
    def scaled(self) -> FloatArray:
        """Rows sqrt(h) psi(w), (n, m), with the influences g as inner products and sigma-bar as norms."""
        return np.asarray(self.features.psi * np.sqrt(self.shrinkage))

    @cached_property
    def deviation(self) -> FloatArray:
        """Deviations sigma-bar of all cells, (n,)."""
        return np.asarray(np.sqrt(self.features.squares @ self.shrinkage))

    def estimate(self, sums: FloatArray) -> FloatArray:
        """Return estimated means (A, C) from cell sums (n,)."""
        weights = self.shrinkage * (self.features.psi.T @ sums)
        return np.asarray((self.features.psi @ weights).reshape(self.n_actions, self.n_contexts))

    def influence(self, context: int) -> FloatArray:
        """Return the influence of a reward in each of n cells on each of A actions at one context, (A, n)."""
        return np.asarray(self.scaled[context :: self.n_contexts] @ self.scaled.T)

    def own_ranges(self, contexts: IntArray, actions: IntArray | None = None) -> FloatArray:
        """Return the range over actions x of g((x, c), w), for cells w = (actions[a], c) and c = contexts[k],
        (k, a).
        """
        chosen = slice(None) if actions is None else actions
        root = np.sqrt(self.shrinkage)
        spreads = []
        for context in contexts:
            rows = self.features.psi[context :: self.n_contexts] * root
            block = rows[chosen] @ rows.T
            spreads.append(block.max(axis=1) - block.min(axis=1))
        return np.array(spreads)


@dataclass(frozen=True)
class Plan:
    """Ridge, caps and expected noise of one use of the data, fixed before any data.

    Attributes:
        estimator: Estimator with the chosen ridge.
        caps: Caps of rewards, (n,) in (0, 1], in units of the reward bound.
        share: Share of the largest influence that caps allow.
        noise_scale: Expected noise. For answers it is the mean of R/epsilon (approximate, as R is computed
            within each cell's own context). For a release it is the standard deviation 2S/mu. The module
            `calibration` defines R, S and mu.
    """

    estimator: PopulationEstimator
    caps: FloatArray
    share: float
    noise_scale: float


@dataclass(frozen=True)
class CoefficientPosterior:
    """Independent normal posteriors of the coefficients of the eigenfunctions.

    Attributes:
        mean: Posterior means, (m,).
        variance: Posterior variances, (m,).
    """

    mean: FloatArray
    variance: FloatArray

    @classmethod
    def prior(cls, eigenvalues: FloatArray) -> "CoefficientPosterior":
        """Return the prior, with mean zero and `prior_variances`."""
        return cls(np.zeros(len(eigenvalues)), prior_variances(eigenvalues))

    def given(
        self, projections: FloatArray, *, rounds: int, noise_variance: FloatArray
    ) -> "CoefficientPosterior":
        """Return the posterior given noisy projections b = psi^T s of the cell sums s of `rounds` rounds.

        b_i has mean T theta_i and variance T v + s_i, for coefficients theta, T rounds, v = `NOISE_VARIANCE`
        and the noise variances s = `noise_variance`, shape (m,).
        """
        total = rounds * NOISE_VARIANCE + noise_variance
        precision = 1.0 / self.variance + rounds**2 / total
        mean = (self.mean / self.variance + rounds * projections / total) / precision
        return CoefficientPosterior(mean, 1.0 / precision)

    def tables(self, features: EigenFeatures, n_actions: int) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the function in every cell, shapes (A, C).

        The deviation includes the part of the function that the features leave out. `SIGNAL_VARIANCE` times
        the share of the kernel that they leave out bounds the variance of that part, averaged over cells:
        for coefficients with squares proportional to lambda^2 the share is smaller.
        """
        mean = features.psi @ self.mean
        deviation = np.sqrt(features.squares @ self.variance + SIGNAL_VARIANCE * features.left_out)
        return mean.reshape(n_actions, -1), deviation.reshape(n_actions, -1)


@lru_cache(maxsize=1)
def _clip_table() -> tuple[FloatArray, FloatArray]:
    """Return a grid of caps Y, and E (|f| - Y)_+^2 for f ~ N(0, SIGNAL_VARIANCE) at each of them."""
    grid = np.linspace(0.0, 1.0, 201)
    z = grid / np.sqrt(SIGNAL_VARIANCE)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return grid, 2.0 * SIGNAL_VARIANCE * ((1.0 + z**2) * ndtr(-z) - z * density)


def clip_loss(caps: FloatArray) -> FloatArray:
    """Return the mean square by which clipping at caps changes a normal function of the expected size."""
    grid, losses = _clip_table()
    return np.asarray(np.where(caps >= 1.0, 0.0, np.interp(caps, grid, losses)))

"""The kernel that a modeler of noisy inputs should use: k averaged over the noise.

f is a Gaussian process with kernel k, and only z = x + e is seen of a row x. With a flat prior on
positions, x given z is z - e, so two different rows have covariance E k(z - e, z' - e'). When the
difference e - e' is a mixture of isotropic Gaussians (standard deviations s_m, weights w_m) and k is
squared exponential with lengthscales l_j, this is again a mixture of squared exponentials:

    k~(z, z') = sum_m w_m prod_j sqrt(l_j^2 / L_mj) exp(-(z_j - z'_j)^2 / (2 L_mj)),   L_mj = l_j^2 + s_m^2.

A row with itself still has variance k(x, x): what k~(z, z) falls short of it is `nugget`, a part of
f(x) that no other row tells about. `expected_kernel` returns the smooth part and the nugget apart.

Source: Kharkovskii2020 has no such correction; for Gaussian noise it goes back to Girard and
Murray-Smith (2003). `RowKernel` puts the two parts together for a pool of rows whose first column is
the nugget, so that a Gaussian process over rows treats it exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import BLOCK_ELEMENTS, KERNELS, Kernel, RowEvaluator, ScaledKernel

__all__ = ["FeatureKernel", "RowKernel", "SquaredExponentialMixture", "expected_kernel", "strip_scale"]


@KERNELS.add("SquaredExponentialMixture")
@dataclass(frozen=True, kw_only=True)
class SquaredExponentialMixture(Kernel):
    """sum_m variances[m] exp(-sum_j (x_j - y_j)^2 / (2 squares[m][j])).

    Args:
        variances: (m,) non-negative.
        squares: m tuples of squared lengthscales, each one number (all columns) or one a column.

    Raises:
        InvalidParameter: not so.
    """

    variances: tuple[float, ...]
    squares: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        variances = np.asarray(self.variances, dtype=np.float64)
        squares = [np.asarray(row, dtype=np.float64) for row in self.squares]
        if not (
            len(variances) == len(squares) > 0
            and np.isfinite(variances).all()
            and (variances >= 0.0).all()
            and all(len(row) > 0 and np.isfinite(row).all() and (row > 0.0).all() for row in squares)
        ):
            raise InvalidParameter(
                "a mixture has as many variances (at least 0) as tuples of squared lengthscales (above 0)"
            )

    @property
    def max_variance(self) -> float:
        """The variance of a single point."""
        return math.fsum(self.variances)

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        others = np.ascontiguousarray(Y.T)
        at_squares = self._at_squares(len(others))
        terms = len(self.variances)

        def fill(X: FloatArray, out: FloatArray) -> None:
            step = max(1, BLOCK_ELEMENTS // max(1, len(X) * terms))
            for start in range(0, others.shape[1], step):  # blocks that stay in cache
                block = others[:, start : start + step]
                # Differences are taken directly, so no squared distance is negative.
                gaps = X.T[:, :, None] - block[:, None, :]
                np.multiply(gaps, gaps, out=gaps)
                out[:, start : start + step] = at_squares(gaps.reshape(len(others), -1)).reshape(len(X), -1)

        return fill

    def of_pairs(self, squares: FloatArray) -> FloatArray:
        """Return values (n,) at n pairs of points, from the squared differences (d, n) of their columns."""
        at_squares, out = self._at_squares(len(squares)), np.empty(squares.shape[1])
        step = max(1, BLOCK_ELEMENTS // len(self.variances))
        for start in range(0, len(out), step):
            out[start : start + step] = at_squares(squares[:, start : start + step])
        return out

    def _at_squares(self, dim: int) -> Callable[[FloatArray], FloatArray]:
        """Prepare for points of `dim` columns: squared differences (dim, n) -> values (n,)."""
        if not all(len(row) in (1, dim) for row in self.squares):
            raise InvalidData(f"points have {dim} columns, the kernel another number of lengthscales")
        isotropic = all(len(row) == 1 for row in self.squares)
        width = 1 if isotropic else dim
        rates = np.array([row if len(row) == width else row * width for row in self.squares])
        np.divide(-0.5, rates, out=rates)
        variances = np.asarray(self.variances)

        def at_squares(squares: FloatArray) -> FloatArray:
            terms = rates @ (squares.sum(axis=0)[None] if isotropic else squares)
            np.exp(terms, out=terms)
            return np.asarray(variances @ terms)

        return at_squares


@KERNELS.add("FeatureKernel")
@dataclass(frozen=True, kw_only=True)
class FeatureKernel(Kernel):
    """k(x, y) = x . y: the points are feature vectors already, such as posterior means of features."""

    bound: float

    @property
    def max_variance(self) -> float:
        """A bound on the squared norm of a point, given by whoever made the features."""
        return self.bound

    def _diagonal(self, X: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("ij,ij->i", X, X))

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        def fill(X: FloatArray, out: FloatArray) -> None:
            np.matmul(X, Y.T, out=out)

        return fill


@KERNELS.add("RowKernel", smooth=KERNELS.read)
@dataclass(frozen=True, kw_only=True)
class RowKernel(Kernel):
    """`smooth` between different rows, and a row's own nugget on top for a row with itself.

    Points are (nugget, coordinates...). Two rows at one place are still two rows: only `diagonal` and
    the diagonal of `kernel(X)` hold the nugget, which is how `PoolGP` asks.
    """

    smooth: Kernel
    variance: float

    @property
    def max_variance(self) -> float:
        """Variance of one row, smooth part and nugget together."""
        return self.variance

    def _diagonal(self, X: FloatArray) -> FloatArray:
        return self.smooth.diagonal(X[:, 1:]) + X[:, 0]

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        inner = self.smooth.rows_against(Y[:, 1:])
        return lambda X, out: inner(X[:, 1:], out)


def expected_kernel(
    kernel: Kernel, noise_scales: FloatArray, weights: FloatArray, *, dim: int
) -> tuple[SquaredExponentialMixture, float]:
    """The smooth kernel between different noisy rows, and the nugget of a row with itself.

    Args:
        kernel: `SquaredExponential` (all columns), or a positive multiple of it.
        noise_scales: (m,) standard deviations of the *difference* of two rows' noises, a mixture of
            isotropic Gaussians: `NoiseLaw.difference_mixture()`.
        weights: (m,) their probabilities.
        dim: columns of the points.

    Returns:
        (k~, nugget) with k~(z, z) + nugget = k(x, x).

    Raises:
        InvalidParameter: another kernel (no closed form here), or not a mixture.

    Example:
        >>> base = SquaredExponential(lengthscale=3.0)
        >>> kernel, nugget = expected_kernel(base, np.array([4.0]), np.ones(1), dim=1)
        >>> float(kernel(np.zeros((1, 1)))[0, 0]), nugget
        (0.6, 0.4)
    """
    scales = np.atleast_1d(np.asarray(noise_scales, float))
    shares = np.atleast_1d(np.asarray(weights, float))
    if (
        scales.shape != shares.shape
        or scales.ndim != 1
        or not (np.isfinite(scales).all() and (scales >= 0).all() and (shares >= 0).all())
        or abs(shares.sum() - 1.0) > 1e-9
    ):
        raise InvalidParameter(
            "noise_scales and weights are two (m,) arrays: scales >= 0, weights sum to one"
        )
    base, variance = strip_scale(kernel)
    if not isinstance(base, SquaredExponential) or base.columns is not None:
        raise InvalidParameter(
            f"no closed form for the expectation of {type(base).__name__}: use "
            "SquaredExponential over all columns, or a model that averages over positions in the box"
        )
    lengths = np.atleast_1d(np.asarray(base.lengthscale, float)) ** 2
    if len(lengths) not in (1, dim):
        raise InvalidParameter(f"the kernel has {len(lengths)} lengthscales for {dim} columns")
    lengths = np.broadcast_to(lengths, (dim,))
    squares = lengths[None, :] + scales[:, None] ** 2
    factors = np.sqrt(lengths / squares).prod(axis=1)
    variances = variance * shares * factors
    isotropic = bool((lengths == lengths[0]).all())
    rows = squares[:, :1] if isotropic else squares
    mixture = SquaredExponentialMixture(
        variances=tuple(map(float, variances)), squares=tuple(tuple(map(float, row)) for row in rows)
    )
    return mixture, float(variance * (shares * (1.0 - factors)).sum())


def strip_scale(kernel: Kernel) -> tuple[Kernel, float]:
    """A kernel without its outer multiples, and their product."""
    variance = 1.0
    while isinstance(kernel, ScaledKernel):
        variance *= kernel.variance
        kernel = kernel.kernel
    return kernel, variance

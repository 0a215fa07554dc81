"""Kernel for Gaussian process regression on noisy inputs: the mean of a kernel k over the noise.

f is a Gaussian process with kernel k, and a row x is observed only as z = x + e. With a flat prior on
positions, x given z is z - e, so two different rows have covariance E k(z - e, z' - e'). Let the
difference e - e' be a mixture of isotropic Gaussians (standard deviations s_m, weights w_m), and k squared
exponential with lengthscales l_j. Then this is again a mixture of squared exponentials:

    k~(z, z') = sum_m w_m prod_j sqrt(l_j^2 / L_mj) exp(-(z_j - z'_j)^2 / (2 L_mj)),   L_mj = l_j^2 + s_m^2.

The variance of a row's own value is still k(x, x). The difference k(x, x) - k~(z, z) is the nugget: the
variance of the part of f(x) about which no other row is informative. `expected_kernel` returns k~ and the
nugget. `RowKernel` joins both for a pool of rows whose first column is the nugget, so that a Gaussian
process over rows is exact.

Source: Girard and Murray-Smith (2003) for Gaussian noise. Kharkovskii2020 has no such correction.
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
    """Kernel k(x, y) = sum_m variances[m] exp(-sum_j (x_j - y_j)^2 / (2 squares[m][j])).

    Args:
        variances: Non-negative variances of the m components, shape (m,).
        squares: Squared lengthscales of each of the m components, as tuples with one number for all columns
            or one per column.

    Raises:
        InvalidParameter: Arguments have other shapes, or numbers are out of range.
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
                "variances, squares: expected as many variances (at least 0) as tuples of squared "
                "lengthscales (above 0)"
            )

    @property
    def max_variance(self) -> float:
        """Variance of a single point."""
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
        """Return the kernel's values (n,) for n pairs of points.

        Args:
            squares: Squared difference of the two points in each column, shape (d, n).
        """
        at_squares, out = self._at_squares(len(squares)), np.empty(squares.shape[1])
        step = max(1, BLOCK_ELEMENTS // len(self.variances))
        for start in range(0, len(out), step):
            out[start : start + step] = at_squares(squares[:, start : start + step])
        return out

    def _at_squares(self, dim: int) -> Callable[[FloatArray], FloatArray]:
        """Return a function from squared differences of columns, shape (dim, n), to kernel values (n,)."""
        if not all(len(row) in (1, dim) for row in self.squares):
            raise InvalidData(
                f"points have {dim} columns, and the kernel another number of lengthscales: pass one for "
                "each column, or one for all"
            )
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
    """Kernel k(x, y) = x . y for points that are feature vectors, such as posterior means of features."""

    bound: float

    @property
    def max_variance(self) -> float:
        """Bound on the squared norm of a point, as passed to the constructor."""
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
    """Kernel of rows: `smooth` between different rows, plus a row's nugget for the row with itself.

    Points are (nugget, coordinates...). Two rows with equal coordinates are still two rows: only `diagonal`
    and the diagonal of `kernel(X)` include the nugget, and `PoolGP` uses these.
    """

    smooth: Kernel
    variance: float

    @property
    def max_variance(self) -> float:
        """Variance k(x, x) of a row: smooth part plus nugget."""
        return self.variance

    def _diagonal(self, X: FloatArray) -> FloatArray:
        return self.smooth.diagonal(X[:, 1:]) + X[:, 0]

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        inner = self.smooth.rows_against(Y[:, 1:])
        return lambda X, out: inner(X[:, 1:], out)


def expected_kernel(
    kernel: Kernel, noise_scales: FloatArray, weights: FloatArray, *, dim: int
) -> tuple[SquaredExponentialMixture, float]:
    """Return the smooth kernel between different noisy rows, and the nugget of a row with itself.

    Args:
        kernel: `SquaredExponential` over all columns, or a positive multiple of it.
        noise_scales: Standard deviations of the *difference* of two rows' noises, a mixture of isotropic
            Gaussians, as in `NoiseLaw.difference_mixture()`; shape (m,).
        weights: Probabilities of the mixture's components, shape (m,).
        dim: Number of columns of the points.

    Returns:
        (k~, nugget) with k~(z, z) + nugget = k(x, x).

    Raises:
        InvalidParameter: The kernel has no closed form here, or the mixture is invalid.

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
    """Return the kernel inside all `ScaledKernel` wrappers, and the product of their factors."""
    variance = 1.0
    while isinstance(kernel, ScaledKernel):
        variance *= kernel.variance
        kernel = kernel.kernel
    return kernel, variance

"""Base class of kernels, evaluated on whole arrays, with products, sums and multiples of kernels."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np

from dpbandits import _checks
from dpbandits._config import Configured, Registry
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = [
    "BLOCK_ELEMENTS",
    "DIFFERENCE",
    "KERNELS",
    "GradientEvaluator",
    "Kernel",
    "ProductKernel",
    "RowEvaluator",
    "ScaledKernel",
    "SumKernel",
]

RowEvaluator = Callable[[FloatArray, FloatArray], None]
"""Function `fill(X, out)` that writes the kernel matrix k(X, Y),
shape (n, m), into `out`, for fixed points Y.
"""

GradientEvaluator = Callable[[FloatArray, FloatArray], FloatArray]
"""Function `pull(X, W)` for fixed points Y (m, d). It returns the gradient of sum_j W[i, j] k(x_i, y_j) with
respect to each row x_i of X, shape (n, d), for X (n, d) and weights W (n, m).
"""

DIFFERENCE = 2.0**-18
"""Step of central differences, relative to 1 + |x|: about the cube root of the machine precision."""

BLOCK_ELEMENTS = 1 << 15
"""Number of kernel entries computed at a time, so that a block and its scratch array stay in the cache."""


_NOISY = "dpbandits.models.expected_kernel"

KERNELS: Registry[Kernel] = Registry(
    "a kernel", elsewhere={"SquaredExponentialMixture": _NOISY, "FeatureKernel": _NOISY, "RowKernel": _NOISY}
)
"""Registry of kernels. Add your own with `@KERNELS.add("its type")` to read its configurations."""


class Kernel(Configured, ABC):
    """Positive semi-definite function of two points, evaluated on whole arrays.

    Subclasses define `_evaluator`. If not every point has variance one, they also define `_diagonal` and
    `max_variance`. Kernels combine with `*` and `+`, and with positive numbers: `0.5 * kernel`.
    """

    @property
    def max_variance(self) -> float:
        """Upper bound on k(x, x) over all x; the kernels of this module attain it."""
        return 1.0

    @abstractmethod
    def _evaluator(self, Y: FloatArray) -> RowEvaluator: ...

    def _loose(self, Y: FloatArray) -> RowEvaluator:
        """Return a faster `_evaluator` for uses in which rounding does not matter; see `rows_against`."""
        return self._evaluator(Y)

    def _diagonal(self, X: FloatArray) -> FloatArray:
        """Return k(x, x) of the rows of X (n, d); by default constant."""
        return np.full(X.shape[0], self.max_variance)

    def in_units_of(self, widths: FloatArray) -> Kernel:
        """Return the kernel k(x / widths, y / widths), as a kernel of unscaled points.

        Args:
            widths: Positive widths, one per column, shape (d,); 1 for a column of codes.

        Raises:
            InvalidParameter: A width is not 1, and this kernel does not define scaling.
        """
        if (np.asarray(widths) == 1.0).all():
            return self
        raise InvalidParameter(
            f"kernel: a {type(self).__name__} does not define how it is scaled to the ranges of a box: "
            "override in_units_of, or pass a box from 0 to 1"
        )

    def rows_against(self, Y: FloatArray, *, loose: bool = False) -> RowEvaluator:
        """Return an evaluator for many evaluations against the same points.

        Args:
            Y: Points, shape (m, d).
            loose: True for scores. Evaluation is then faster for some kernels, and an entry may exceed its
                bound by rounding. Features that are released always use False.

        Returns:
            Function `fill(X, out)`, which writes k(X, Y) into `out`, a C-contiguous array (n, m), block by
            block. It does not check its arguments.
        """
        evaluate = (self._loose if loose else self._evaluator)(_as_points(Y, "Y"))

        def fill(X: FloatArray, out: FloatArray) -> None:
            if out.size <= BLOCK_ELEMENTS:
                evaluate(X, out)
                return
            step = max(1, BLOCK_ELEMENTS // max(1, out.shape[1]))
            for start in range(0, len(X), step):
                evaluate(X[start : start + step], out[start : start + step])

        return fill

    def gradients_against(self, Y: FloatArray) -> GradientEvaluator:
        """Return the function `pull(X, W)` of `GradientEvaluator` for fixed points `Y` (m, d)."""
        return self._gradient(_as_points(Y, "Y"))

    def _gradient(self, Y: FloatArray) -> GradientEvaluator:
        """Return the evaluator that `gradients_against` returns; the default uses central differences."""
        fill = self.rows_against(Y)

        def pull(X: FloatArray, W: FloatArray) -> FloatArray:
            gradient = np.empty_like(X)
            above, below = np.empty_like(W), np.empty_like(W)
            for column in range(X.shape[1]):
                step = DIFFERENCE * (1.0 + np.abs(X[:, column]))
                high, low = X.copy(), X.copy()
                high[:, column] += step
                low[:, column] -= step
                fill(high, above)
                fill(low, below)
                gradient[:, column] = np.einsum("ij,ij->i", W, above - below) / (2.0 * step)
            return gradient

        return pull

    def __call__(self, X: FloatArray, Y: FloatArray | None = None) -> FloatArray:
        """Return the matrix k(X, Y), shape (n, m), for X (n, d) and Y (m, d); Y defaults to X.

        Raises:
            InvalidData: Points are not two-dimensional arrays with equal numbers of columns.
        """
        X = _as_points(X, "X")
        other = X if Y is None else _as_points(Y, "Y")
        if X.shape[1] != other.shape[1]:
            raise InvalidData(
                f"X has {X.shape[1]} columns and Y has {other.shape[1]}: kernels compare points of one space"
            )
        out = np.empty((len(X), len(other)))
        self.rows_against(other)(X, out)
        if Y is None:
            np.fill_diagonal(out, self._diagonal(X))
        return out

    def diagonal(self, X: FloatArray) -> FloatArray:
        """Return the variances k(x, x), shape (n,), for X of shape (n, d)."""
        return self._diagonal(_as_points(X, "X"))

    def __mul__(self, other: Kernel | float) -> Kernel:
        if isinstance(other, Kernel):
            return ProductKernel((*_parts(self, ProductKernel), *_parts(other, ProductKernel)))
        return ScaledKernel(kernel=self, variance=float(other))

    def __rmul__(self, other: float) -> Kernel:
        return ScaledKernel(kernel=self, variance=float(other))

    def __add__(self, other: Kernel) -> Kernel:
        return SumKernel((*_parts(self, SumKernel), *_parts(other, SumKernel)))


@dataclass(frozen=True)
class _Combination(Kernel):
    """Base class of kernels that combine the values of several kernels on the same points."""

    parts: tuple[Kernel, ...]

    _operation: ClassVar[np.ufunc]

    def in_units_of(self, widths: FloatArray) -> Kernel:
        return type(self)(tuple(part.in_units_of(widths) for part in self.parts))

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if not parts or not all(isinstance(part, Kernel) for part in parts):
            raise InvalidParameter("parts: expected at least one kernel, and only kernels")
        object.__setattr__(self, "parts", parts)

    def _diagonal(self, X: FloatArray) -> FloatArray:
        return np.asarray(self._operation.reduce([part.diagonal(X) for part in self.parts], axis=0))

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        first, *others = [part._evaluator(Y) for part in self.parts]

        def fill(X: FloatArray, out: FloatArray) -> None:
            first(X, out)
            scratch = np.empty_like(out)
            for other in others:
                other(X, scratch)
                self._operation(out, scratch, out=out)

        return fill


@KERNELS.add("Product", parts=KERNELS.read_all)
@dataclass(frozen=True)
class ProductKernel(_Combination):
    """Product of kernels, written `a * b`: two points are similar if every factor finds them similar."""

    _operation = np.multiply

    def _gradient(self, Y: FloatArray) -> GradientEvaluator:
        fills = [part.rows_against(Y) for part in self.parts]
        pulls = [part.gradients_against(Y) for part in self.parts]

        def pull(X: FloatArray, W: FloatArray) -> FloatArray:
            values = [np.empty_like(W) for _ in fills]
            for fill, value in zip(fills, values, strict=True):
                fill(X, value)
            total = np.zeros_like(X)
            for number, part in enumerate(pulls):
                others = (value for place, value in enumerate(values) if place != number)
                total += part(X, reduce(np.multiply, others, W))
            return total

        return pull

    @property
    def max_variance(self) -> float:
        """Product of the factors' upper bounds on k(x, x)."""
        return math.prod(part.max_variance for part in self.parts)


@KERNELS.add("Sum", parts=KERNELS.read_all)
@dataclass(frozen=True)
class SumKernel(_Combination):
    """Sum of kernels, written `a + b`: the prior of a sum of independent functions."""

    _operation = np.add

    def _gradient(self, Y: FloatArray) -> GradientEvaluator:
        pulls = [part.gradients_against(Y) for part in self.parts]
        return lambda X, W: reduce(np.add, (pull(X, W) for pull in pulls))

    @property
    def max_variance(self) -> float:
        """Sum of the terms' upper bounds on k(x, x)."""
        return math.fsum(part.max_variance for part in self.parts)


@KERNELS.add("Scaled", kernel=KERNELS.read)
@dataclass(frozen=True, kw_only=True)
class ScaledKernel(Kernel):
    """Kernel times a positive number, written `variance * kernel`."""

    variance: float
    kernel: Kernel

    def __post_init__(self) -> None:
        _checks.an(self.kernel, Kernel, name="kernel", pass_="variance * kernel")
        _checks.number(self.variance, name="variance", maximum=1e204)  # squares of answers up to 1e100

    @property
    def max_variance(self) -> float:
        """Upper bound on k(x, x): that of the kernel, times `variance`."""
        return self.variance * self.kernel.max_variance

    def in_units_of(self, widths: FloatArray) -> Kernel:
        """See `Kernel.in_units_of`."""
        return ScaledKernel(variance=self.variance, kernel=self.kernel.in_units_of(widths))

    def _diagonal(self, X: FloatArray) -> FloatArray:
        return np.asarray(self.variance * self.kernel.diagonal(X))

    def _gradient(self, Y: FloatArray) -> GradientEvaluator:
        pull = self.kernel.gradients_against(Y)
        return lambda X, W: self.variance * pull(X, W)

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        inner = self.kernel._evaluator(Y)

        def fill(X: FloatArray, out: FloatArray) -> None:
            inner(X, out)
            out *= self.variance

        return fill


def _parts(kernel: Kernel, kind: type[ProductKernel] | type[SumKernel]) -> tuple[Kernel, ...]:
    return kernel.parts if isinstance(kernel, kind) else (kernel,)


def _as_points(points: FloatArray, name: str) -> FloatArray:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2:
        raise InvalidData(f"{name} has shape {array.shape}: kernels take (n, d) arrays, one point per row")
    return array

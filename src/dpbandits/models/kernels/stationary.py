"""Covariance functions on arrays of points, with products, sums and per-column parts.

| class | k(x, y), with r the distance after division by the lengthscales |
|---|---|
| `SquaredExponential` | exp(-r^2 / 2) |
| `Matern` (nu = 1/2) | exp(-r) |
| `Matern` (nu = 3/2) | (1 + sqrt(3) r) exp(-sqrt(3) r) |
| `Matern` (nu = 5/2) | (1 + sqrt(5) r + 5 r^2 / 3) exp(-sqrt(5) r) |
| `Indicator` | 1 if the codes are equal, else `correlation` |
| `ProductKernel`, `SumKernel`, `ScaledKernel` | written `a * b`, `a + b`, `2.0 * a` |

Every kernel is an immutable value: equal parameters make equal kernels. `to_config` gives a kernel's JSON,
from which `from_config` rebuilds it. Squared distances come from one matrix product per block of rows,
centred on the second argument, and are clipped at zero. For nu = 1/2 this is not accurate enough near equal
points, so differences are computed directly.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.kernels.base import KERNELS, GradientEvaluator, Kernel, RowEvaluator

__all__ = ["Indicator", "Matern", "SquaredExponential", "from_config"]


_FEW_COLUMNS = 4
"""Largest number of columns for which squared norms are faster inside
the matrix product than as a separate sum.
"""

_NEAR = 2.0**20
"""Largest half of a squared norm, in lengthscales, for which the
matrix product has rounding errors below 1e-9.
"""


@dataclass(frozen=True, kw_only=True)
class _Stationary(Kernel):
    """Base class of kernels that depend on a scaled distance, with variance one and checked parameters.

    Args:
        lengthscale: One positive number, or one per column (automatic relevance determination). Its unit is
            that of the points. A policy over a box measures every column as a share of its range:
            `lengthscale=0.3` on a price from 1 to 20 is 5.7.
        columns: Indices of the columns that the kernel reads; None for all.
    """

    lengthscale: float | tuple[float, ...]
    columns: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", None if self.columns is None else _as_columns(self.columns))
        object.__setattr__(self, "lengthscale", _as_lengthscale(self.lengthscale, self.columns))

    def in_units_of(self, widths: FloatArray) -> Kernel:
        own = np.asarray(widths, dtype=np.float64)
        if self.columns is not None and max(self.columns) < len(own):
            own = own[list(self.columns)]
        given = np.asarray(self.lengthscale)
        if given.ndim and given.shape != own.shape:
            raise InvalidParameter(
                f"lengthscale: {given.size} came for {own.size} columns, expected one each, or one for all"
            )
        scaled = given * (own[0] if not given.ndim and (own == own[0]).all() else own)
        return replace(self, lengthscale=float(scaled) if scaled.ndim == 0 else tuple(scaled.tolist()))

    def _scaled(self, points: FloatArray, factor: float) -> FloatArray:
        """Return the kernel's columns times `factor` over the lengthscale: distances are `factor` r."""
        points = _take(points, self.columns)
        if isinstance(self.lengthscale, tuple) and points.shape[1] != len(self.lengthscale):
            raise InvalidData(
                f"points have {points.shape[1]} columns and the kernel has {len(self.lengthscale)} "
                "lengthscales: pass one lengthscale per column, or one for all"
            )
        return np.asarray(points * self._scale(factor))

    def _scale(self, factor: float) -> FloatArray:
        """Return `factor` over the lengthscale, one number or one per column."""
        return np.asarray(factor / np.asarray(self.lengthscale))

    def _gradient(self, Y: FloatArray) -> GradientEvaluator:
        """Return the evaluator of dk/dx = -s(r) (x - y) / lengthscale^2, with s(r) from `_slope`."""
        slope, scaled = self._slope(Y), self._scaled(Y, 1.0)

        def pull(X: FloatArray, W: FloatArray) -> FloatArray:
            drawn = np.empty_like(W)
            slope(X, drawn)
            drawn *= W
            own = drawn @ scaled - drawn.sum(axis=1)[:, None] * self._scaled(X, 1.0)
            own /= np.asarray(self.lengthscale)
            if self.columns is None:
                return np.asarray(own)
            gradient = np.zeros_like(X)
            gradient[:, self.columns] = own
            return gradient

        return pull

    @abstractmethod
    def _slope(self, Y: FloatArray) -> RowEvaluator:
        """Return the evaluator of s(r) = -k'(r)/r for rows of X against Y, with r the scaled distance."""

    def _squared_distances(self, Y: FloatArray, factor: float, *, negative: bool = False) -> RowEvaluator:
        """Return the evaluator of factor^2 r^2 for rows of X against Y, with r the scaled distance.

        It is one matrix product, |x - y|^2 = [x, |x|^2, 1] . [-2 y, 1, |y|^2], clipped at zero. Points are
        centred on the mean of Y, so rounding errors are relative to the spread of the points and not to
        their position. If `negative`, the evaluator writes -factor^2 r^2.
        """
        scaled, scale = self._scaled(Y, factor), self._scale(factor)
        m, d = scaled.shape
        centre = scaled.mean(axis=0) if m else np.zeros(d)
        scaled -= centre
        right = np.empty((d + 2, m))
        right[:d] = -2.0 * scaled.T
        right[d] = 1.0
        right[d + 1] = np.einsum("ij,ij->i", scaled, scaled)
        if negative:
            np.negative(right, out=right)
        cut = np.minimum if negative else np.maximum

        def fill(X: FloatArray, out: FloatArray) -> None:
            left = np.empty((len(X), d + 2))
            own = left[:, :d]
            np.subtract(_take(X, self.columns) * scale, centre, out=own)
            np.einsum("ij,ij->i", own, own, out=left[:, d])
            left[:, d + 1] = 1.0
            np.matmul(left, right, out=out)
            cut(out, 0.0, out=out)

        return fill


@worded
@KERNELS.add("SquaredExponential")
@dataclass(frozen=True, kw_only=True)
class SquaredExponential(_Stationary):
    """Squared exponential kernel exp(-r^2 / 2), for infinitely smooth functions.

    Args:
        lengthscale: One positive number, or one per column (automatic relevance determination).
        columns: Indices of the columns that the kernel reads; None for all.

    >>> import numpy as np
    >>> kernel = SquaredExponential(lengthscale=0.5)
    >>> kernel(np.array([[0.0], [0.5]])).round(4).tolist()
    [[1.0, 0.6065], [0.6065, 1.0]]
    """

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        less_half_squares = self._squared_distances(Y, math.sqrt(0.5), negative=True)

        def fill(X: FloatArray, out: FloatArray) -> None:
            less_half_squares(X, out)
            np.exp(out, out=out)

        return fill

    def _loose(self, Y: FloatArray) -> RowEvaluator:
        """Return an evaluator by -r^2/2 = [x, x^2, 1] . [y/l^2, -1/(2 l^2), -|y/l|^2/2], without clipping.

        Here l is the lengthscale, so values may exceed one by rounding. It is faster than the exact
        evaluator.
        """
        scaled, scale, columns = self._scaled(Y, math.sqrt(0.5)), self._scale(math.sqrt(0.5)), self.columns
        m, d = scaled.shape
        theirs = type(self)._evaluator is not SquaredExponential._evaluator  # a subclass overrides it
        if theirs or not 0 < d <= _FEW_COLUMNS or not m:
            return self._evaluator(Y)
        centre = _take(Y, columns).mean(axis=0)
        scaled -= centre * scale
        lengths = (scaled**2).sum(axis=1)
        if not lengths.max() <= _NEAR:
            return self._evaluator(Y)
        each = np.broadcast_to(scale, d)[:, None]
        squares = np.broadcast_to(-(each**2), (d, m))
        right = np.concatenate([2.0 * each * scaled.T, squares, -lengths[None]])

        def fill(X: FloatArray, out: FloatArray) -> None:
            left = np.empty((len(X), 2 * d + 1))
            own = left[:, :d]
            np.subtract(X if columns is None else _take(X, columns), centre, out=own)
            np.multiply(own, own, out=left[:, d:-1])
            left[:, -1] = 1.0
            np.dot(left, right, out=out)
            np.exp(out, out=out)

        return fill

    def _slope(self, Y: FloatArray) -> RowEvaluator:
        return self._evaluator(Y)


@worded
@KERNELS.add("Matern")
@dataclass(frozen=True, kw_only=True)
class Matern(_Stationary):
    """Matern kernel, for functions that are nu - 1/2 times differentiable.

    Args:
        nu: Smoothness, one of 0.5, 1.5, 2.5.
        lengthscale: One positive number, or one per column (automatic relevance determination).
        columns: Indices of the columns that the kernel reads; None for all.

    Raises:
        InvalidParameter: nu is another number, or a lengthscale is not positive and finite.

    >>> import numpy as np
    >>> kernel = Matern(nu=2.5, lengthscale=0.2)
    >>> kernel(np.array([[0.0, 0.0]]), np.array([[0.1, 0.0]])).round(4).tolist()
    [[0.8286]]
    """

    nu: float

    def __post_init__(self) -> None:
        if _checks.number(self.nu, name="nu") not in (0.5, 1.5, 2.5):
            raise InvalidParameter(f"Matern smoothness nu is {self.nu!r}: choose 0.5, 1.5 or 2.5")
        object.__setattr__(self, "nu", float(self.nu))
        super().__post_init__()

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        if self.nu == 0.5:
            return self._exponential(Y)
        squares = self._squared_distances(Y, math.sqrt(2.0 * self.nu))

        def fill(X: FloatArray, out: FloatArray) -> None:
            squares(X, out)
            distance = np.sqrt(out)
            if self.nu == 1.5:
                np.add(distance, 1.0, out=out)
            else:
                out *= 1.0 / 3.0
                out += distance
                out += 1.0
            np.negative(distance, out=distance)
            np.exp(distance, out=distance)
            out *= distance

        return fill

    def _slope(self, Y: FloatArray) -> RowEvaluator:
        """Return the evaluator of s(r) for nu = 1/2, 3/2 or 5/2.

        These are exp(-r)/r, 3 exp(-sqrt(3) r), and 5/3 (1 + sqrt(5) r) exp(-sqrt(5) r). The first is set to
        0 at r = 0.
        """
        squares = self._squared_distances(Y, math.sqrt(2.0 * self.nu))

        def fill(X: FloatArray, out: FloatArray) -> None:
            squares(X, out)
            distance = np.sqrt(out)
            decay = np.exp(-distance)
            if self.nu == 0.5:
                np.divide(decay, distance, out=out, where=distance > 0.0)
            elif self.nu == 1.5:
                np.multiply(decay, 3.0, out=out)
            else:
                np.multiply(decay, (5.0 / 3.0) * (1.0 + distance), out=out)

        return fill

    def _exponential(self, Y: FloatArray) -> RowEvaluator:
        """Return the evaluator for nu = 1/2, which computes differences of points directly.

        This kernel is linear in r at 0. The root of a squared distance that should be zero, but is not by
        rounding, would be an error of 1e-8.
        """
        scaled = np.ascontiguousarray(self._scaled(Y, 1.0).T)

        def fill(X: FloatArray, out: FloatArray) -> None:
            rows = self._scaled(X, 1.0)
            out.fill(0.0)
            scratch = np.empty_like(out)
            for column, other in enumerate(scaled):
                np.subtract(rows[:, column, None], other, out=scratch)
                np.multiply(scratch, scratch, out=scratch)
                out += scratch
            np.sqrt(out, out=out)
            np.negative(out, out=out)
            np.exp(out, out=out)

        return fill


@worded
@KERNELS.add("Indicator")
@dataclass(frozen=True, kw_only=True)
class Indicator(Kernel):
    """Kernel of arms and categories: 1 if all chosen columns are equal, else `correlation`.

    Args:
        correlation: Covariance of two different codes, between 0 (independent) and 1 (equal).
        columns: Indices of the columns with integer codes.

    >>> import numpy as np
    >>> Indicator(correlation=0.25, columns=(0,))(np.array([[0.0], [1.0]])).tolist()
    [[1.0, 0.25], [0.25, 1.0]]
    """

    correlation: float = 0.0
    columns: tuple[int, ...]

    def in_units_of(self, widths: FloatArray) -> Kernel:
        """Return this kernel unchanged, because codes have no unit."""
        return self

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _as_columns(self.columns))
        if _checks.number(self.correlation, name="correlation", exclusive=False) > 1.0:
            raise InvalidParameter(f"correlation is {self.correlation!r}: it lies between 0 and 1")
        object.__setattr__(self, "correlation", float(self.correlation))

    def _evaluator(self, Y: FloatArray) -> RowEvaluator:
        codes = np.ascontiguousarray(_take(Y, self.columns).T)

        def fill(X: FloatArray, out: FloatArray) -> None:
            rows = _take(X, self.columns)
            same = np.equal(rows[:, 0, None], codes[0])
            for column in range(1, codes.shape[0]):
                same &= np.equal(rows[:, column, None], codes[column])
            np.multiply(same, 1.0 - self.correlation, out=out)
            out += self.correlation

        return fill

    def _gradient(self, Y: FloatArray) -> GradientEvaluator:
        return lambda X, _: np.zeros_like(X)  # flat between codes


from_config = KERNELS.read
"""Rebuild a kernel from its `to_config()`; anything else is an `InvalidParameter`."""


def _as_columns(columns: int | Sequence[int]) -> tuple[int, ...]:
    try:
        given = np.atleast_1d(np.asarray(columns))
    except ValueError:
        raise InvalidParameter("columns are ragged: give distinct column indices from 0 up") from None
    distinct = given.ndim == 1 and 0 < given.size == np.unique(given).size
    if not distinct or given.dtype.kind not in "iu" or np.any(given < 0):
        raise InvalidParameter(f"columns is {columns!r}: give distinct column indices from 0 up")
    return tuple(int(c) for c in given)


def _as_lengthscale(
    lengthscale: float | Sequence[float], columns: tuple[int, ...] | None
) -> float | tuple[float, ...]:
    try:
        values = np.asarray(lengthscale, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter("lengthscale: one positive number, or one per column") from None
    if values.ndim > 1 or values.size == 0:
        raise InvalidParameter(
            f"lengthscale has shape {values.shape}: one positive number, or one per column"
        )
    for value in values.flat:
        _checks.scale(value, name="lengthscale")
    if values.ndim == 0:
        return float(values)
    if columns is not None and values.size != len(columns):
        raise InvalidParameter(
            f"{values.size} lengthscales for {len(columns)} columns: expected one per column, or one for all"
        )
    return tuple(float(v) for v in values)


def _take(points: FloatArray, columns: tuple[int, ...] | None) -> FloatArray:
    if columns is None:
        return points
    if max(columns) >= points.shape[1]:
        raise InvalidData(
            f"the kernel reads column {max(columns)}, expected one of 0 .. {points.shape[1] - 1}"
        )
    return points[:, columns]

"""`Box`: an axis-aligned rectangle with public bounds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import worded
from dpbandits._checks import LARGEST, as_points, assign, integer, public_array
from dpbandits._config import Valued
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.domains.protocol import DOMAINS, Domain
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["Box"]

MAX_GRID_ENTRIES = 1 << 26
"""Largest number of coordinates of a grid, which takes half a gigabyte of memory."""


@worded
@DOMAINS.add("Box")
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Box(Valued, Domain):
    """All points x with low <= x <= high in every column.

    Args:
        low: Public lower bounds (d,).
        high: Public upper bounds (d,), each above its lower bound.

    Raises:
        InvalidParameter: The bounds are empty, not finite, of different lengths, or not low < high.

    Example:
        >>> box = Box(low=[0, -1], high=[10, 1])
        >>> box.to_unit([[5.0, 0.0]])
        array([[0.5, 0.5]])
        >>> box.contains([[5.0, 0.0], [5.0, 2.0]])
        array([ True, False])
        >>> Box([0, -1], [10, 1]) == box
        True
    """

    low: FloatArray
    high: FloatArray

    def __init__(self, low: ArrayLike, high: ArrayLike) -> None:
        lower, upper = public_array(low, name="low", ndim=1), public_array(high, name="high", ndim=1)
        if lower.shape != upper.shape:
            raise InvalidParameter(
                f"low has shape {lower.shape}, high has shape {upper.shape}: expected the same"
            )
        if not (upper - lower >= 1.0 / LARGEST).all():
            raise InvalidParameter(
                f"every entry of low must be below its entry of high, by {1.0 / LARGEST:g} or more"
            )
        assign(self, low=lower, high=upper)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.low.size

    @cached_property
    def _bounds(self) -> tuple[FloatArray, FloatArray] | tuple[float, float]:
        """`low` and `high`; as two numbers if all columns have the same bounds, which compares faster."""
        if (self.low == self.low[0]).all() and (self.high == self.high[0]).all():
            return float(self.low[0]), float(self.high[0])
        return self.low, self.high

    def _inside(self, array: FloatArray) -> BoolArray:
        """Return which entries (..., d) are between their bounds; False for NaN."""
        low, high = self._bounds
        return np.asarray((array >= low) & (array <= high))

    def _holds(self, array: FloatArray) -> BoolArray:
        return np.asarray(self._inside(array).all(axis=-1))

    def _holds_all(self, array: FloatArray) -> bool:
        low, high = self._bounds
        if isinstance(low, float) and array.size:  # argmin and argmax return a NaN if there is one
            return bool(low <= array.item(array.argmin()) and array.item(array.argmax()) <= high)
        inside = self._inside(array)
        return bool(np.count_nonzero(inside) == inside.size)

    def _outside(self, array: FloatArray) -> str:
        columns = np.flatnonzero(~self._inside(array).reshape(-1, self.dim).all(axis=0))
        bounds = ", ".join(f"column {j} in [{self.low[j]:g}, {self.high[j]:g}]" for j in columns[:3])
        return (
            f"has points outside the public bounds ({bounds}): clip them with domain.clip, or "
            "widen the domain before the first call of ask"
        )

    def _nearest(self, array: FloatArray) -> FloatArray:
        return np.clip(array, self.low, self.high)

    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self._unscale(rng.random((n, self.dim)))

    def to_unit(self, points: ArrayLike) -> FloatArray:
        """Scale points of the box (..., d) to [0, 1]^d by its public bounds."""
        array = self.validate(points, name="points")
        return np.clip((array - self.low) / (self.high - self.low), 0.0, 1.0)

    def from_unit(self, points: ArrayLike) -> FloatArray:
        """Scale points of [0, 1]^d (..., d) to the box, the inverse of `to_unit` up to rounding.

        The result always lies in the box.
        """
        array = as_points(points, self.dim, name="points")
        if not ((array >= 0.0) & (array <= 1.0)).all():
            raise InvalidData("points has entries outside [0, 1]: from_unit expects points of the unit cube")
        return self._unscale(array)

    def _unscale(self, unit: FloatArray) -> FloatArray:
        return np.clip(self.low + unit * (self.high - self.low), self.low, self.high)

    def grid(self, per_dimension: int | Sequence[int]) -> FloatArray:
        """Return a regular grid whose end points lie on the bounds.

        Args:
            per_dimension: Number of points along every axis, or a number for each axis. A single point is the
                middle of its axis.

        Returns:
            Points (product of the numbers, d). The last column varies fastest.

        Raises:
            InvalidParameter: The numbers do not fit the box, or the grid is too large.
        """
        sides = [per_dimension] * self.dim if np.ndim(per_dimension) == 0 else list(per_dimension)  # type: ignore[arg-type]
        if len(sides) != self.dim:
            raise InvalidParameter(f"per_dimension has {len(sides)} entries, expected 1 or {self.dim}")
        sizes = [integer(side, name="per_dimension", minimum=1) for side in sides]
        if math.prod(sizes) * self.dim > MAX_GRID_ENTRIES:
            raise InvalidParameter(
                f"a grid of {math.prod(sizes)} points in {self.dim} dimensions is too large: use a coarser "
                "grid, or sample(n, rng)"
            )
        axes = [
            np.linspace(low, high, size) if size > 1 else np.array([low + 0.5 * (high - low)])
            for low, high, size in zip(self.low, self.high, sizes, strict=True)
        ]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dim)

    def __repr__(self) -> str:
        return f"Box(low={self.low.tolist()}, high={self.high.tolist()})"

"""Public probability laws of actions and contexts on cells, declared before any data.

A `CellMeasure` divides columns into cells. Each cell has a representative point and a weight. Cells of
several axes are numbered row-major, the last axis fastest.

- `CellMeasure.uniform`, `.beta`, `.histogram`: one continuous column in equal bins, or in bins with given
  edges;
- `CellMeasure.finite`: a list of points, such as arms or doses;
- `CellMeasure.product`: independent columns side by side; `with_weights`: any joint law on the same cells.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc

from dpbandits._checks import LARGEST, as_numbers, integer, public_array, scale
from dpbandits._config import Valued
from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["Axis", "CellMeasure", "FiniteAxis", "IntervalAxis"]

_CHUNK = 1 << 15
"""Number of rows that are compared to all points of a finite axis at a time."""


@dataclass(frozen=True, eq=False)
class IntervalAxis(Valued):
    """One column with cells between neighbouring `edges`; a cell's point is its middle.

    Args:
        edges: Increasing numbers, shape (k + 1,), for k cells. The first and the last bound the public
            range.
    """

    edges: FloatArray
    dim: ClassVar[int] = 1

    def __post_init__(self) -> None:
        edges = public_array(self.edges, name="edges", ndim=1)
        if len(edges) < 2 or (np.diff(edges) <= 0).any():
            raise InvalidParameter("edges: expected at least two finite, increasing numbers")
        object.__setattr__(self, "edges", edges)

    @property
    def points(self) -> FloatArray:
        """Middles of the cells, shape (k, 1)."""
        return np.asarray(0.5 * (self.edges[:-1] + self.edges[1:]))[:, None]

    @property
    def widths(self) -> FloatArray:
        """Distance from the first edge to the last, shape (1,)."""
        return np.asarray(self.edges[-1:] - self.edges[:1])

    def find(self, values: FloatArray) -> IntArray:
        """Return the cell of each value (n, 1), shape (n,); -1 for a value outside the public range."""
        column = values[:, 0]
        cells = np.minimum(np.searchsorted(self.edges, column, side="right") - 1, len(self.edges) - 2)
        inside = (column >= self.edges[0]) & (column <= self.edges[-1])  # False for NaN
        return np.where(inside, cells, -1).astype(np.int64)

    def outside(self, name: str) -> InvalidData:
        """Return the error to raise for values that are in no cell; `name` says what the values are."""
        return InvalidData(
            f"{name} leave the public range [{self.edges[0]:g}, {self.edges[-1]:g}], or are missing: clip "
            "them to it, or declare a wider range that you know without the data"
        )


@dataclass(frozen=True, eq=False)
class FiniteAxis(Valued):
    """Axis with k distinct points (k, d) as cells; each value must equal one of the points exactly."""

    points: FloatArray

    def __post_init__(self) -> None:
        points = np.asarray(self.points)
        points = public_array(points[:, None] if points.ndim == 1 else points, name="points", ndim=2)
        if len(np.unique(points, axis=0)) != len(points):
            raise InvalidParameter("points: a point is listed twice")
        object.__setattr__(self, "points", points)

    @property
    def dim(self) -> int:
        """Number of columns of a point."""
        return int(self.points.shape[1])

    @property
    def widths(self) -> FloatArray:
        """Distance from the lowest to the highest number of each column, shape (d,); 1 if they are equal."""
        spans = np.ptp(self.points, axis=0)
        return np.asarray(np.where(spans > 0.0, spans, 1.0))

    def find(self, values: FloatArray) -> IntArray:
        """Return the cell of each value (n, d), shape (n,); -1 for a value that equals none of the points."""
        cells = np.empty(len(values), dtype=np.int64)
        for start in range(0, len(values), _CHUNK):
            rows = values[start : start + _CHUNK]
            same = (rows[:, None, :] == self.points[None]).all(axis=2)
            cells[start : start + len(rows)] = np.where(same.any(axis=1), same.argmax(axis=1), -1)
        return cells

    def outside(self, name: str) -> InvalidData:
        """Return the error to raise for values that are in no cell; `name` says what the values are."""
        return InvalidData(
            f"{name} hold values other than the {len(self.points)} public points: leave these rows out, or "
            "declare points that you know without the data"
        )


Axis = IntervalAxis | FiniteAxis


@dataclass(frozen=True, eq=False, repr=False)
class CellMeasure(Valued):
    """Public probability law on finitely many cells.

    Args:
        axes: Cells of each axis; the columns of all axes are concatenated.
        weights: Probabilities of all cells, at least 0, shape (n,). They are scaled to sum to 1.

    Raises:
        InvalidParameter: There are no axes, the number of weights is not the number of cells, or weights are
            negative or all zero.

    Example:
        >>> doses = CellMeasure.finite([0.0, 0.5, 1.0])
        >>> age = CellMeasure.beta(2, 5, low=20, high=80, cells=6)
        >>> both = CellMeasure.product(doses, age)
        >>> both.size, both.dim, both.locate([[0.5, 80.0]]).tolist()
        (18, 2, [11])
    """

    axes: tuple[Axis, ...]
    weights: FloatArray

    def __post_init__(self) -> None:
        if not self.axes:
            raise InvalidParameter("a measure needs at least one axis")
        weights = np.array(self.weights, dtype=np.float64)
        if weights.shape != (math.prod(self.shape),):
            raise InvalidParameter(f"weights: expected {math.prod(self.shape)} of them, one a cell")
        if not ((weights >= 0.0) & (weights <= LARGEST)).all() or weights.sum() < 1.0 / LARGEST:
            raise InvalidParameter(f"weights: expected numbers from 0 to {LARGEST:g}, some above 0")
        object.__setattr__(self, "weights", weights / weights.sum())

    # -- laws -------------------------------------------------------------------------------------

    @classmethod
    def uniform(cls, *, low: float, high: float, cells: int) -> Self:
        """Return the uniform law of one column with values in [low, high], in `cells` equal bins."""
        return cls((_bins(low, high, cells),), np.ones(cells))

    @classmethod
    def beta(cls, a: float, b: float, *, low: float, high: float, cells: int) -> Self:
        """Return the law of one column in equal bins of [low, high], with Beta(a, b) for the position in that
        range.
        """
        scale(a, name="a")
        scale(b, name="b")
        cumulative = betainc(a, b, np.linspace(0.0, 1.0, cells + 1))
        return cls((_bins(low, high, cells),), np.diff(cumulative))

    @classmethod
    def histogram(cls, edges: Sequence[float], weights: Sequence[float]) -> Self:
        """Return the law of one column with given bin edges and a public weight for each bin."""
        return cls((IntervalAxis(np.asarray(edges, dtype=np.float64)),), np.asarray(weights))

    @classmethod
    def finite(cls, points: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """Return a law on k points, with shape (k,) or (k, d); by default all are equally likely."""
        axis = FiniteAxis(np.asarray(points, dtype=np.float64))
        return cls((axis,), np.ones(len(axis.points)) if weights is None else np.asarray(weights))

    @classmethod
    def product(cls, *measures: "CellMeasure") -> Self:
        """Return the joint law of independent measures, with their columns side by side."""
        weights = np.ones(1)
        for measure in measures:
            weights = np.multiply.outer(weights, measure.weights).ravel()
        return cls(tuple(axis for measure in measures for axis in measure.axes), weights)

    def with_weights(self, weights: ArrayLike) -> "CellMeasure":
        """Return the measure with other weights (n,) on the same cells."""
        return CellMeasure(self.axes, np.asarray(weights, dtype=np.float64))

    # -- cells ------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells along every axis."""
        return tuple(len(axis.points) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number n of cells."""
        return len(self.weights)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return sum(axis.dim for axis in self.axes)

    @property
    def widths(self) -> FloatArray:
        """Width of the range of every column, the unit of a kernel's lengthscale, shape (d,)."""
        return np.concatenate([axis.widths for axis in self.axes])

    @property
    def points(self) -> FloatArray:
        """Representative points of all cells, shape (n, d)."""
        grids = np.meshgrid(*(np.arange(count) for count in self.shape), indexing="ij")
        return np.concatenate(
            [axis.points[grid.ravel()] for axis, grid in zip(self.axes, grids, strict=True)], axis=1
        )

    def locate(self, values: ArrayLike, *, name: str = "values") -> IntArray:
        """Return the cell of each value, shape (n,), for values (n, d), or (n,) if there is one column.

        Raises:
            InvalidData: Values are not numbers, have another shape, or are outside the public range. The
                message names no value.
        """
        rows = self.rows(as_numbers(values, name=name), name=name)
        for axis, cells in zip(self.axes, self._along_axes(rows), strict=True):
            if (cells < 0).any():
                raise axis.outside(name)
        return self.find(rows)

    def rows(self, values: FloatArray, *, name: str = "values") -> FloatArray:
        """Return values as an array (n, d); the shape (n,) is accepted if there is one column.

        Raises:
            InvalidData: The values have another shape.
        """
        rows = values[:, None] if values.ndim == 1 and self.dim == 1 else values
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise InvalidData(f"{name}: expected shape (n, {self.dim}), got {rows.shape}")
        return rows

    def find(self, rows: FloatArray) -> IntArray:
        """Return the cell of each row (n, d), shape (n,); -1 if a value is missing or out of range."""
        cells, inside = np.zeros(len(rows), dtype=np.int64), np.ones(len(rows), dtype=np.bool_)
        for axis, own in zip(self.axes, self._along_axes(rows), strict=True):
            cells = cells * len(axis.points) + own
            inside &= own >= 0
        return np.where(inside, cells, -1)

    def _along_axes(self, rows: FloatArray) -> list[IntArray]:
        columns = np.split(rows, np.cumsum([axis.dim for axis in self.axes])[:-1], axis=1)
        return [axis.find(own) for axis, own in zip(self.axes, columns, strict=True)]

    def cells_at(self, uniforms: FloatArray) -> IntArray:
        """Return cells (n,) sampled from the law by uniform numbers (n,) in (0, 1)."""
        cells = np.searchsorted(np.cumsum(self.weights), uniforms, side="right")
        last = int(np.flatnonzero(self.weights)[-1])  # cumulative weights may round to below 1
        return np.minimum(cells, last).astype(np.int64)

    @classmethod
    @reading("the configuration of a measure")
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Rebuild a measure from `to_config()`, with weights equal bit for bit.

        Raises:
            InvalidParameter: The argument is not the configuration of a measure.
        """
        axes = tuple((IntervalAxis if "edges" in axis else FiniteAxis)(**axis) for axis in config["axes"])
        weights = np.asarray(config["weights"], dtype=np.float64)
        measure = cls(axes, weights)
        object.__setattr__(measure, "weights", weights)  # not divided by their rounded sum again
        return measure

    def __repr__(self) -> str:
        return f"CellMeasure(shape={self.shape}, dim={self.dim})"


def _bins(low: float, high: float, cells: int) -> IntervalAxis:
    integer(cells, name="cells")
    return IntervalAxis(np.linspace(low, high, cells + 1))

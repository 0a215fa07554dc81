"""Which arm a local policy gives where: a version that was published, as areas over two of its columns.

Everything here was published, to everybody's devices: it is computed from reports that protect themselves.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.service.desk.drawing import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axis

if TYPE_CHECKING:
    from dpbandits.local import PublishedArms, Spec

__all__ = ["Area", "Map", "columns_of", "drawn_map", "shares"]

FINEST = 64
"""Places along a range: the finest bins that are told apart in a picture."""

MOST_NAMES = 8
"""Categories that are named at an axis."""

LONGEST_NAME = 14

POINTS = 4096
"""Contexts that shares are counted among, always the same ones: nobody's."""

_WIDE = 156.0
"""Room for the names of categories to the left, in units of the picture."""


class Area(NamedTuple):
    """A rectangle of one arm, in units of the picture."""

    left: float
    top: float
    width: float
    height: float
    arm: int


@dataclass(frozen=True)
class Map:
    """The picture.

    Attributes:
        areas: rectangles that cover it.
        named: arm -> where its number stands: in the middle of its largest area.
        across, up: ticks; none upwards where there is one column.
        left: where what is drawn begins.
    """

    areas: tuple[Area, ...]
    named: dict[int, tuple[float, float]]
    across: tuple[Axis, ...]
    up: tuple[Axis, ...]
    left: float
    width: ClassVar[float] = WIDTH
    height: ClassVar[float] = HEIGHT
    bottom: ClassVar[float] = HEIGHT - BOTTOM


def columns_of(spec: "Spec") -> list[dict[str, Any]]:
    """Name, and low and high or values, of every column."""
    if spec.protocol.schema is not None:
        return [dict(one) for one in spec.protocol.schema.to_config()["columns"]]
    bounds = zip(spec.protocol.domain.low.tolist(), spec.protocol.domain.high.tolist(), strict=True)
    return [
        {"name": f"column {number}", "low": low, "high": high} for number, (low, high) in enumerate(bounds)
    ]


def _given(spec: "Spec", published: "PublishedArms", points: FloatArray) -> IntArray:
    """(n,) arms at points (n, dim) of the unit cube; the likeliest one where devices draw."""
    arms = published.arms if published.weights is None else published.weights.argmax(axis=1)
    if arms is None:  # `check` has refused it before
        raise ValueError("nothing is published")
    return np.asarray(arms, dtype=np.int64)[spec.protocol.layout.locate(published, points)]


def shares(spec: "Spec", published: "PublishedArms") -> FloatArray:
    """(n_arms,) of how many contexts, spread evenly, each arm is given."""
    points = np.random.default_rng(0).uniform(size=(POINTS, spec.dim))
    return np.bincount(_given(spec, published, points), minlength=spec.n_arms) / POINTS


def drawn_map(spec: "Spec", published: "PublishedArms", across: int, up: int | None) -> Map:
    """The areas over one column, or over two different ones; the others stand in their middle."""
    columns = columns_of(spec)
    left = _WIDE if up is not None and "values" in columns[up] else LEFT
    wide, high = WIDTH - left - RIGHT, HEIGHT - TOP - BOTTOM
    sizes = [1 if one is None else _places(spec, columns, one) for one in (across, up)]
    middles = [(np.arange(size) + 0.5) / size for size in sizes]
    points = np.full((sizes[1] * sizes[0], spec.dim), 0.5)
    points[:, across] = np.tile(middles[0], sizes[1])
    if up is not None:
        points[:, up] = np.repeat(middles[1], sizes[0])
    arms = _given(spec, published, points).reshape(sizes[1], sizes[0])
    areas = [
        Area(
            round(left + first / sizes[0] * wide, 2),
            round(TOP + (1.0 - last_row / sizes[1]) * high, 2),
            round((end - first) / sizes[0] * wide, 2),
            round((last_row - first_row) / sizes[1] * high, 2),
            int(arms[first_row, first]),
        )
        for first_row, last_row in _runs((arms[1:] != arms[:-1]).any(axis=1))
        for first, end in _runs(arms[first_row, 1:] != arms[first_row, :-1])
    ]
    largest = {one.arm: one for one in sorted(areas, key=lambda one: one.width * one.height)}
    return Map(
        areas=tuple(areas),
        named={
            arm: (round(one.left + one.width / 2, 1), round(one.top + one.height / 2, 1))
            for arm, one in sorted(largest.items())
        },
        across=_ticks(columns[across], lambda part: round(left + part * wide, 1)),
        up=() if up is None else _ticks(columns[up], lambda part: round(TOP + (1.0 - part) * high, 1)),
        left=left,
    )


def _places(spec: "Spec", columns: list[dict[str, Any]], column: int) -> int:
    if "values" in columns[column]:
        return len(columns[column]["values"])
    return spec.protocol.grids.whole.sizes[column] if spec.protocol.asks else FINEST


def _runs(changes: np.ndarray[Any, np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """First and end of every stretch between changes."""
    ends = [*(np.flatnonzero(changes) + 1).tolist(), len(changes) + 1]
    return list(zip([0, *ends[:-1]], ends, strict=True))


def _ticks(column: dict[str, Any], place: Any) -> tuple[Axis, ...]:
    if "values" in column:
        names = [str(one) for one in column["values"]]
        step = -(-len(names) // MOST_NAMES)
        return tuple(
            Axis(place((number + 0.5) / len(names)), name[:LONGEST_NAME])
            for number, name in enumerate(names)
            if number % step == 0
        )
    low, high = float(column["low"]), float(column["high"])
    return tuple(Axis(place(part / 4), f"{low + (high - low) * part / 4:.4g}") for part in range(5))

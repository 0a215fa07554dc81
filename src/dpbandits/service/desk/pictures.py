"""Pictures of the desk: lines with bands, maps of a local policy's arms, and summaries of functions.

A template writes them as SVG, with the colours of the style sheet.

Privacy: all inputs are releases or published. Averages and counts are taken over fixed, public points that
are spread evenly. So pictures are post-processing of releases. They show expectations of a function, not
users' data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.domains.arms import Label
from dpbandits.tables.windows import Window

if TYPE_CHECKING:
    from dpbandits.local import PublishedArms, Spec

__all__ = [
    "Area",
    "Arm",
    "Axis",
    "Learned",
    "Line",
    "Map",
    "columns_of",
    "drawn_map",
    "learned",
    "line",
    "shares",
]

WIDTH, HEIGHT = 640.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 12.0, 12.0, 34.0
"""Margins for the numbers at the axes, in units of the picture.

They are wide enough for the font of narrow screens.
"""

TICKS = 4

FINEST = 64
"""Largest number of bins of a range that a picture distinguishes."""

MOST_NAMES = 8
"""Largest number of categories that are named at an axis."""

LONGEST_NAME = 14

POINTS = 4096
"""Number of fixed, public contexts over which the arms' shares are counted."""

_WIDE = 156.0
"""Left margin for names of categories, in units of the picture."""

LEARNED_AT = 128
"""Number of contexts, or points of a domain, at which a function is evaluated for a small picture."""


class Axis(NamedTuple):
    """Tick of an axis: its place and its label."""

    at: float
    says: str


@dataclass(frozen=True)
class Line:
    """A drawn line with a band (points of a polyline and of a polygon), marks at its values, and ticks of
    the axes.
    """

    path: str
    band: str
    dots: tuple[tuple[float, float], ...]
    across: tuple[Axis, ...]
    up: tuple[Axis, ...]
    width: ClassVar[float] = WIDTH
    height: ClassVar[float] = HEIGHT
    left: ClassVar[float] = LEFT
    right: ClassVar[float] = WIDTH - RIGHT
    bottom: ClassVar[float] = HEIGHT - BOTTOM


def line(
    across: Sequence[float], values: Sequence[float], spread: Sequence[float], *, low: float, high: float
) -> Line:
    """Return a line through k values at increasing places, with a band of one `spread` above and below.

    Values beyond `low` and `high`, the ends of the vertical axis, are clipped.
    """
    last = max(across[-1], 1.0)

    def right(number: float) -> float:
        return round(LEFT + number / last * (WIDTH - LEFT - RIGHT), 1)

    def up(number: float) -> float:
        inside = min(max(number, low), high)
        return round(HEIGHT - BOTTOM - (inside - low) / (high - low) * (HEIGHT - BOTTOM - TOP), 1)

    upper = [(right(at), up(one + by)) for at, one, by in zip(across, values, spread, strict=True)]
    lower = [(right(at), up(one - by)) for at, one, by in zip(across, values, spread, strict=True)]
    middle = tuple((right(at), up(one)) for at, one in zip(across, values, strict=True))
    steps = [part / TICKS for part in range(TICKS + 1)]
    return Line(
        path=_points(middle),
        band=_points((*upper, *reversed(lower))),
        dots=middle,
        across=tuple(Axis(right(last * part), f"{last * part:,.0f}") for part in steps),
        up=tuple(Axis(up(low + (high - low) * part), f"{low + (high - low) * part:.3g}") for part in steps),
    )


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:g},{y:g}" for x, y in places)


class Area(NamedTuple):
    """Rectangle of one arm, in units of the picture."""

    left: float
    top: float
    width: float
    height: float
    arm: int


@dataclass(frozen=True)
class Map:
    """Map of arms over one or two columns.

    Attributes:
        areas: rectangles that cover the map.
        named: arm -> place of its number, in the middle of its largest area.
        across: ticks of the horizontal axis.
        up: ticks of the vertical axis; empty for one column.
        left: left end of the map.
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
    """Return, for every context column of a spec, its name, and its low and high or its values."""
    if spec.protocol.schema is not None:
        return [dict(one) for one in spec.protocol.schema.to_config()["columns"]]
    bounds = zip(spec.protocol.domain.low.tolist(), spec.protocol.domain.high.tolist(), strict=True)
    return [
        {"name": f"column {number}", "low": low, "high": high} for number, (low, high) in enumerate(bounds)
    ]


def _given(spec: "Spec", published: "PublishedArms", points: FloatArray) -> IntArray:
    """Return the arms (n,) at points (n, dim) of the unit cube."""
    arms = published.arms if published.weights is None else published.weights.argmax(axis=1)
    if arms is None:  # `check` has refused it before
        raise ValueError("nothing is published")
    return np.asarray(arms, dtype=np.int64)[spec.protocol.layout.locate(published, points)]


def shares(spec: "Spec", published: "PublishedArms") -> FloatArray:
    """Return the share of evenly spread contexts for which each arm is chosen, shape (n_arms,)."""
    points = np.random.default_rng(0).uniform(size=(POINTS, spec.dim))
    return np.bincount(_given(spec, published, points), minlength=spec.n_arms) / POINTS


def drawn_map(spec: "Spec", published: "PublishedArms", across: int, up: int | None) -> Map:
    """Return the map of arms over one column, or over two different ones.

    Other columns are at their middle.
    """
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
    """Return (first, end) of every run of equal cells."""
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


class Arm(NamedTuple):
    """Expected reward of one arm, averaged over contexts, and the share of contexts for which it is
    the best.

    For an action, `reward` is the expected outcome and `value` the mean value of outcomes.
    """

    label: Label
    reward: float
    share: float
    value: float | None = None


class Learned(NamedTuple):
    """Summary of a published function.

    It has the expected reward of the function's own choices, the mean uncertainty at a point, values by
    arm, and the window of `explore`.
    """

    reward: float
    sd: float
    arms: tuple[Arm, ...]
    window: Window | None = None


def learned(text: str) -> Learned:
    """Return the summary of a published function from its JSON. Raise CorruptState for another text."""
    function = PublishedPosterior.from_json(text)
    rng = np.random.default_rng(0)  # public, and the same at every release
    if function.menu is None:
        mean, sd = function.at_points(function.domain.sample(LEARNED_AT, rng))
        best = int(function.best_of(mean[None])[0])
        return Learned(float(mean[best]), float(sd[best]), ())
    points, arms = function.menu.contexts.domain.sample(LEARNED_AT, rng), function.arms
    codes = np.tile(np.arange(len(arms), dtype=np.float64), LEARNED_AT)
    each = np.column_stack([np.repeat(points, len(arms), axis=0), codes])
    mean, sd = (np.reshape(one, (LEARNED_AT, len(arms))) for one in function.at_points(each))
    actions = function.menu.actions
    if actions is None:
        best_arms, values = function.best_of(mean), [None] * len(arms)
    else:
        outcomes, window = function.reward_range, function.window
        best_arms = actions.best(mean, outcomes, points, window=window)
        values = actions.ranked(mean, outcomes).mean(axis=0).tolist()
    share = np.bincount(best_arms, minlength=len(arms)) / LEARNED_AT
    rows = np.arange(LEARNED_AT)
    return Learned(
        reward=float(mean[rows, best_arms].mean()),
        sd=float(sd[rows, best_arms].mean()),
        arms=tuple(map(Arm, arms, mean.mean(axis=0).tolist(), share.tolist(), values)),
        window=function.window,
    )

"""Numbers as the points of a picture, for a template to write as SVG; colours are the style sheet's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

__all__ = ["Axis", "Line", "line"]

WIDTH, HEIGHT = 640.0, 260.0
LEFT, RIGHT, TOP, BOTTOM = 72.0, 12.0, 12.0, 34.0
"""Room for the numbers at the axes, in units of the picture, at the larger letters of a narrow screen."""

TICKS = 4


class Axis(NamedTuple):
    """A tick: where it stands, and what it says."""

    at: float
    says: str


@dataclass(frozen=True)
class Line:
    """Drawing of a line with a band (points of a polyline and of a polygon), measured places, and ticks."""

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
    """A line through k values at rising places, and a band of one spread to both sides.

    What lies beyond `low` and `high`, the ends of the upward axis, is drawn at its end.
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

"""The house style of pictures: one palette, quiet axes, error bands, no chart junk.

Colours are Okabe and Ito's, told apart by colour-blind readers.
"""

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._lazy import names_of
from dpbandits.errors import MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "PALETTE",
    "add_legend",
    "draw_band",
    "draw_points",
    "label_axes",
    "new_figure",
    "panels",
    "to_data_uri",
    "to_png",
]

__dir__ = names_of(__name__)

PALETTE = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "amber": "#E69F00",
    "grey": "#7F7F7F",
    "black": "#222222",
}

_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.edgecolor": "#9A9A9A",
    "font.size": 10,
    "lines.linewidth": 2.0,
    "figure.constrained_layout.use": True,
}


def new_figure(*, width: float = 7.2, height: float = 3.6, columns: int = 1) -> "tuple[Figure, list[Axes]]":
    """A figure in the house style, sizes in inches, and its axes from left to right.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtra("plots need matplotlib: install dpbandits[report]") from error
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def panels(
    rows: Sequence[dict[str, Any]], *, width: float, margin: float = 0.0, height: float = 4.2
) -> "tuple[Figure, list[tuple[Axes, str, list[dict[str, Any]]]]]":
    """A figure with a panel a world of a study's rows, and every panel: axes, world and rows.

    Args:
        rows: see `lab.study`; worlds stand in the order in which they come.
        width, margin, height: inches of a panel, beside all panels, of the figure; at least 7.2 wide.
    """
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    whole = max(7.2, margin + width * len(worlds))
    figure, axes = new_figure(width=whole, height=height, columns=len(worlds))
    return figure, [
        (ax, world, [row for row in rows if row["world"] == world])
        for ax, world in zip(axes, worlds, strict=True)
    ]


def draw_band(
    axes: "Axes",
    x: ArrayLike,
    mean: ArrayLike,
    error: ArrayLike,
    *,
    colour: str,
    errors: float = 2.0,
    **line: Any,
) -> None:
    """A curve and a band of `errors` standard errors around it; `line` goes to matplotlib."""
    middle, half = np.asarray(mean, dtype=np.float64), errors * np.asarray(error, dtype=np.float64)
    axes.plot(x, middle, color=PALETTE[colour], **line)
    axes.fill_between(x, middle - half, middle + half, color=PALETTE[colour], alpha=0.15, linewidth=0)


def draw_points(
    axes: "Axes", x: ArrayLike, mean: ArrayLike, error: ArrayLike, *, colour: str, **line: Any
) -> None:
    """Points, joined, with bars of two standard errors; `line` goes to matplotlib."""
    bars = 2.0 * np.asarray(error, dtype=np.float64)
    axes.errorbar(x, mean, bars, color=PALETTE[colour], **{"marker": "o", "capsize": 3, **line})


def label_axes(axes: "Axes", *, title: str, x: str, y: str = "") -> None:
    """Title at the left in bold, and what the axes show."""
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def add_legend(axes: "Axes") -> None:
    """A legend to the right of the axes, where it covers nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)


def to_png(figure: "Figure") -> bytes:
    """The figure as PNG bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def to_data_uri(png: bytes) -> str:
    """PNG bytes as a data URI, for pages that stand alone."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")

"""Results, tables and pictures for the documentation's pages, light and dark.

Pages import it by name (`conf.py` puts this folder where notebooks look). It reads what named commands wrote
into `reproduction/results` and computes nothing of its own.
"""

import base64
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from IPython.display import HTML, Markdown

from dpbandits.lab import plot

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
"""One row of a result file."""

RESULTS = Path(__file__).parents[2] / "reproduction" / "results"
_DARK_TEXT, _DARK_LINES, _DARK_GRID = "#d5dbe1", "#8a94a0", "#3b444e"
_TOO_DARK = {
    plot.PALETTE["black"]: "#d5dbe1",
    plot.PALETTE["blue"]: "#4aa3df",
    plot.PALETTE["grey"]: "#a8a8a8",
}


def load(name: str) -> Any:
    """The result file `name`.json as a command wrote it."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def load_all(*names: str) -> list[dict[str, Any]]:
    """Rows of those files that exist, the first to be preferred."""
    return [row for name in names if (RESULTS / f"{name}.json").exists() for row in load(name)]


def pm(value: float | None, error: float | None = None, *, scale: float = 1.0, digits: int = 4) -> str:
    """`value ± error`, both times `scale`; a dash where there is no value."""
    if value is None:
        return "–"
    tail = "" if error is None else f" ± {scale * error:.{digits}f}"
    return f"{scale * value:.{digits}f}{tail}"


def table(heads: Sequence[object], lines: Iterable[Sequence[object]]) -> Markdown:
    """A Markdown table; cells are shown as text."""
    rows = [heads, ["---"] * len(heads), *lines]
    return Markdown("\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in rows))


def _cell(value: object) -> str:
    """A value and its error stay on one line."""
    return str(value).replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def grid(
    rows: Sequence[dict[str, Any]],
    *,
    down: Callable[[dict[str, Any]], object],
    across: Callable[[dict[str, Any]], object],
    cell: Callable[[dict[str, Any]], str],
    head: str = "",
) -> Markdown:
    """A table with a line for each value of `down` and a column for each of `across`."""
    lines, columns = (list(dict.fromkeys(key(row) for row in rows)) for key in (down, across))
    cells = {(down(row), across(row)): cell(row) for row in rows}
    return table(
        [head, *columns], [[line, *(cells.get((line, column), "") for column in columns)] for line in lines]
    )


def outcomes(head: str, found: dict[str, float], *, digits: int = 2) -> Markdown:
    """A table of named results; `head` says what they are."""
    return table([head, ""], [[name, f"{value:.{digits}f}"] for name, value in found.items()])


def draw(*, width: float = 7.2, height: float = 3.4, columns: int = 1) -> "tuple[Figure, list[Axes]]":
    """A figure in the house style and its axes."""
    return plot.new_figure(width=width, height=height, columns=columns)


def bars(
    axes: "Axes", names: Sequence[str], values: Sequence[float], errors: Sequence[float], **look: Any
) -> None:
    """Horizontal bars with two standard errors, the first on top."""
    axes.barh(
        names, values, xerr=[2 * error for error in errors], height=0.65, ecolor=plot.PALETTE["grey"], **look
    )
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def shown(figure: "Figure", alt: str) -> HTML:
    """The figure twice, for light and for dark pages; `alt` says what it shows to those who do not see it."""
    light = _png(figure)
    _darken(figure)
    pictures = {"only-light": light, "only-dark": _png(figure)}
    return HTML(
        "".join(f'<img class="{kind} picture" alt="{alt}" src="{uri}">' for kind, uri in pictures.items())
    )


def income_picture() -> HTML:
    """Mean reward on `cps-income`, by policy: the picture of the landing page."""
    shown_here = ("random", "best constant arm", "non-private", "private")
    rows = [row for row in load("income")["rows"] if row["policy"] in shown_here]
    names = [
        row["policy"] if row["epsilon"] is None else f"private, epsilon = {row['epsilon']:g}" for row in rows
    ]
    colours = [plot.PALETTE["grey" if row["epsilon"] is None else "blue"] for row in rows]
    figure, (axes,) = draw(height=2.9)
    bars(axes, names, [row["reward"] for row in rows], [row["stderr"] for row in rows], color=colours)
    axes.set(xlim=(0.2, None), xlabel="share of people whose bracket of earnings is guessed right")
    return shown(figure, "Private policies at epsilon 0.1 to 3 beside random, constant and non-private ones.")


def accepted_picture(private: np.ndarray, open_to_all: np.ndarray) -> HTML:
    """Share of 30,000 visitors that accept, by blocks of 1,500, in the guide on offers."""
    figure, (axes,) = draw(height=3.0)
    for name, rewards, colour in (("without privacy", open_to_all, "grey"), ("epsilon = 1", private, "blue")):
        shares = rewards.reshape(-1, 1_500).mean(axis=1)
        axes.plot(np.arange(1_500, 30_001, 1_500), shares, color=plot.PALETTE[colour], label=name)
    axes.axhline(0.25, color=plot.PALETTE["orange"], linestyle="--", label="random offer")
    axes.set(xlabel="visitors", ylabel="share that accepts")
    axes.legend(frameon=False, ncols=3, loc="lower right")
    return shown(figure, "Share of visitors that accept: both policies learn, the private one later.")


def _png(figure: "Figure") -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160, transparent=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _darken(figure: "Figure") -> None:
    """Text, axes, and the darkest lines, marks and error bars in colours that are seen on a dark page."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_hex
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        text.set_color(_DARK_TEXT)
    for axes in figure.axes:
        axes.tick_params(colors=_DARK_LINES, labelcolor=_DARK_TEXT, grid_color=_DARK_GRID)
        for spine in axes.spines.values():
            spine.set_edgecolor(_DARK_LINES)
    for line in figure.findobj(Line2D):
        for name in ("color", "markeredgecolor", "markerfacecolor"):
            colour = getattr(line, f"get_{name}")()
            line.set(**{name: _TOO_DARK.get(str(colour), colour)})
    for bars in figure.findobj(LineCollection):
        bars.set_color([_TOO_DARK.get(to_hex(colour), colour) for colour in bars.get_edgecolor()])


def ceil_to(value: float, digits: int) -> float:
    """`value`, a bound, rounded up."""
    return math.ceil(10**digits * value) / 10**digits

"""Pictures of a comparison, one for each question."""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbandits import _checks
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.plot import LINES, add_foot, add_legend, draw_band, draw_points, label_axes, panels
from dpbandits.lab.study import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["QUESTIONS", "drawn"]


def drawn(means: Sequence[Row], runs: Sequence[Any], question: str, *, foot: str) -> "Figure":
    """Return the picture that answers a question; see `Comparison.picture`."""
    column, draw = QUESTIONS[_checks.one_of(question, tuple(QUESTIONS), name="question")]
    rows = [row | {"of": one} for row, one in zip(means, runs, strict=True)]
    if column is not None and len({row[column] for row in rows} - {None}) < 2:  # a line needs two values
        raise InvalidParameter(f"question {question!r}: all runs have the same {column}, expected several")
    names = list(dict.fromkeys(row["policy"] for row in rows))
    styles = dict(zip(names, cycle(LINES), strict=False))
    figure, places = panels(rows, width=3.6, margin=2.4)
    for number, (ax, world, here) in enumerate(places):
        draw(ax, here, styles)
        label_axes(ax, title=world, x=_AXES[question], y="mean reward" if number == 0 else "")
    add_legend(places[-1][0])
    add_foot(figure, foot)
    return figure


def _of_policies(rows: Sequence[Row], styles: Mapping[str, Any]) -> list[tuple[list[Row], dict[str, Any]]]:
    """Return, for each policy that has rows, its rows and the style of its line."""
    found = []
    for name, (colour, dash, mark) in styles.items():
        own = [row for row in rows if row["policy"] == name]
        if own:
            found.append((own, {"colour": colour, "linestyle": dash, "marker": mark, "label": name}))
    return found


def _along(column: str) -> Callable[..., None]:
    """Return a function that draws mean rewards by `column`, which is "epsilon" or "people"."""

    def draw(ax: "Axes", rows: Sequence[Row], styles: Mapping[str, Any]) -> None:
        marks = sorted({row[column] for row in rows} - {None})
        for own, style in _of_policies(rows, styles):
            other = "people" if column == "epsilon" else "epsilon"
            first = next(iter(dict.fromkeys(row[other] for row in own)))
            own = sorted((row for row in own if row[other] == first), key=lambda row: row[column] or 0.0)
            mean, error = (np.array([row[name] for row in own]) for name in ("reward", "reward_error"))
            if own[0][column] is None:
                across = {name: value for name, value in style.items() if name != "marker"}
                draw_band(ax, [marks[0], marks[-1]], mean[[0, 0]], np.nan_to_num(error[[0, 0]]), **across)
            else:
                draw_points(ax, [row[column] for row in own], mean, np.nan_to_num(error), **style)
        ax.set_xscale("log")
        ax.set_xticks(marks, [f"{mark:g}" for mark in marks])
        ax.minorticks_off()

    return draw


def _draw_policies(ax: "Axes", rows: Sequence[Row], styles: Mapping[str, Any]) -> None:
    for place, (own, style) in enumerate(_of_policies(rows, styles)):
        aside = place + 0.12 * (np.arange(len(own)) - (len(own) - 1) / 2.0)
        mean, error = (np.array([row[name] for row in own]) for name in ("reward", "reward_error"))
        draw_points(ax, aside, mean, np.nan_to_num(error), **style | {"linestyle": ""})
    ax.set_xticks([])


def _draw_rounds(ax: "Axes", rows: Sequence[Row], styles: Mapping[str, Any]) -> None:
    for own, style in _of_policies(rows, styles):
        row = max(own, key=lambda one: (one["people"] or 0, one["epsilon"] or 0.0))
        mean, error = mean_and_error(row["of"].values("parts"))
        line = {name: value for name, value in style.items() if name != "marker"}
        draw_band(ax, row["of"].records[0]["ends"], mean, np.nan_to_num(error), **line)
    ax.set_xscale("log")


QUESTIONS: Mapping[str, tuple[str | None, Callable[..., None]]] = {
    "policies": (None, _draw_policies),
    "promise": ("epsilon", _along("epsilon")),
    "people": ("people", _along("people")),
    "rounds": (None, _draw_rounds),
}
"""Column of the horizontal axis, which needs two values, and drawing function, by question."""

_AXES = {"policies": "", "promise": "epsilon", "people": "people", "rounds": "rounds"}

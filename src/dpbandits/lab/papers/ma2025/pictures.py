"""Pictures of Ma2025's experiments, and of one locally private run (`dpbandits local simulate`).

For evaluation: regret looks at mean rewards that no server sees. Bins and their arms are public.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import SimulationResult
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.papers.ma2025.methods import MARKS
from dpbandits.lab.plot import (
    PALETTE,
    add_legend,
    draw_band,
    draw_points,
    label_axes,
    new_figure,
    panels,
    to_png,
)
from dpbandits.lab.study import Row
from dpbandits.local.contract.spec import Spec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SIZE_OF_SOURCES", "bars", "bins_picture", "mean_regret", "picture", "regret_picture"]

SIZE_OF_SOURCES = "users of each source"
"""An axis."""

_COLOURS = {
    "tree": "blue",
    "smooth": "sky",
    "ma2025": "orange",
    "ma2025-c1": "amber",
    "ma2025-2log2": "orange",
    "ma2025-c64": "pink",
    "ma2025-tuned": "amber",
    "linear": "green",
    "neural": "pink",
    "abse": "black",
}
_ARMS = [PALETTE[name] for name in ("blue", "orange", "green", "pink", "sky", "amber", "grey", "black")]
_STYLES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def picture(
    rows: Sequence[Row], *, along: str, line_of: Callable[[Row], tuple[float, str]] | None = None
) -> bytes:
    """PNG: regret along what the item varies, with two standard errors, a panel a world.

    Args:
        rows: of the item.
        along: what the axis shows.
        line_of: where on it and on which line a row lies; None draws whole curves.
    """
    figure, found = panels(rows, width=5.2)
    for ax, world, own in found:
        label_axes(ax, title=world, x=along, y="regret per user")
        _draw_curves(ax, own) if line_of is None else _draw_lines(ax, own, line_of)
        ax.set_ylim(bottom=0)
        if along == "n":
            ax.set_xscale("log")
    add_legend(found[-1][0])
    return to_png(figure)


def bars(rows: Sequence[Row]) -> bytes:
    """PNG: regret of every row, which is labelled, with two standard errors, a panel a world."""
    figure, found = panels(rows, width=5.2)
    for ax, world, own in found:
        label_axes(ax, title=world, x="regret per user")
        labels = []
        for place, row in enumerate(own):
            sources, error = row["sources"], 2.0 * row["standard_error"]
            colour, marker = PALETTE[_COLOURS[row["method"]]], "s" if sources else "o"
            ax.errorbar([row["regret"]], [place], xerr=[error], color=colour, marker=marker, capsize=2)
            theirs = f", {sources[0]['epsilon']:g}" if sources else ""
            promise = "" if row["epsilon"] is None else f"({row['epsilon']:g}{theirs}) "
            labels.append(f"{promise}{row['method']}{' with sources' if sources else ''}")
        ax.set_yticks(range(len(own)), labels, fontsize=6)
        ax.set_ylim(bottom=0)
    return to_png(figure)


def _draw_curves(ax: "Axes", rows: Sequence[Row]) -> None:
    labels = list(dict.fromkeys(_source_label(row) for row in rows))
    for row in rows:
        users = [row["n_users"] * (mark + 1) / MARKS for mark in range(MARKS)]
        source = _source_label(row)
        draw_band(
            ax,
            users,
            row["curve"],
            row["curve_errors"],
            colour=_COLOURS[row["method"]],
            linestyle=_STYLES[labels.index(source) % len(_STYLES)],
            label=f"{row['method']}, {source}",
        )


def _draw_lines(ax: "Axes", rows: Sequence[Row], line_of: Callable[[Row], tuple[float, str]]) -> None:
    lines: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for row in rows:
        place, line = line_of(row)
        points = lines.setdefault((row["method"], line), [])
        points.append((place, row["regret"], row["standard_error"]))
    kinds = list(dict.fromkeys(line for _, line in lines))
    for (method, line), points in lines.items():
        kind = kinds.index(line)
        draw_points(
            ax,
            *np.array(points).T,
            colour=_COLOURS[method],
            linestyle=_STYLES[kind % len(_STYLES)],
            marker=_MARKERS[kind % len(_MARKERS)],
            markersize=4,
            linewidth=1.2,
            label=f"{method}, {line}",
        )


def _source_label(row: Row) -> str:
    sources = (f"{source['n_users'] or 'all'} at {source['epsilon']:g}" for source in row["sources"])
    return " + ".join(sources) or "no source"


def mean_regret(results: Sequence[SimulationResult]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Users seen (V,), mean regret per user so far (V,) and its standard error over runs (V,)."""
    seen = results[0].users.cumsum().astype(np.float64)
    mean, error = mean_and_error(np.array([result.regret.cumsum() for result in results]) / seen)
    return seen, np.array(mean), np.nan_to_num(error)  # of a single run no error is known


def regret_picture(results: Sequence[SimulationResult], *, title: str) -> "Figure":
    """Mean regret per user so far, with a band of one standard error.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    seen, mean, error = mean_regret(results)
    figure, (axes,) = new_figure()
    draw_band(axes, seen, mean, error, colour="blue", errors=1.0)
    axes.set(xlabel="users so far", ylabel="regret per user", title=title, ylim=(0.0, None))
    return figure


def bins_picture(spec: Spec, result: SimulationResult) -> "Figure":
    """The bins, or cells, at every snapshot, coloured by the arm with the largest weight: one or two columns.

    Raises:
        InvalidParameter: more than two columns, or a run without snapshots.
        MissingExtra: matplotlib is not installed.
    """
    if spec.dim > 2 or not result.snapshots:
        raise InvalidParameter("bins_picture: expected one or two context columns, and snapshots")
    figure, axes_of = new_figure(width=3.2 * len(result.snapshots), height=3.4, columns=len(result.snapshots))
    from matplotlib.patches import Rectangle

    boxes = "cells" if spec.asks else "bins"
    edge: dict[str, Any] = {"linewidth": 0.0} if spec.asks else {"edgecolor": "white", "linewidth": 0.6}
    for axes, (seen, splits, arms) in zip(axes_of, result.snapshots, strict=True):
        for low, high, arm in zip(*_boxes(spec, splits), arms, strict=True):
            bottom, top = (low[1], high[1]) if spec.dim == 2 else (0.0, 1.0)
            colour = _ARMS[arm % len(_ARMS)]
            size = (high[0] - low[0], top - bottom)
            axes.add_patch(Rectangle((low[0], bottom), *size, facecolor=colour, **edge))
        axes.set(
            xlim=(0, 1), ylim=(0, 1), xlabel="first column", title=f"{seen:,} users, {len(arms)} {boxes}"
        )
        axes.grid(visible=False)
        if spec.dim == 2:
            axes.set(ylabel="second column")
        else:
            axes.set_yticks([])
    return figure


def _boxes(spec: Spec, splits: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    """Corners (L, dim) of the bins after these splits, or of the grid's cells."""
    if spec.asks:
        half = 0.5 / np.array(spec.grid.sizes)
        return spec.grid.centres - half, spec.grid.centres + half
    partition = spec.partition(splits)
    return partition.low[partition.leaves], partition.high[partition.leaves]

"""Pictures of Ma2025's experiments. For evaluation: regret looks at mean rewards that no server sees."""

from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from dpbandits.lab.evaluation.pictures import ARM_COLOURS
from dpbandits.lab.plot import (
    LINES,
    PALETTE,
    add_legend,
    draw_band,
    draw_points,
    label_axes,
    new_figure,
    panels,
)
from dpbandits.lab.study import Row
from reproduction.ma2025.methods import MARKS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "SIZE_OF_SOURCES",
    "bars",
    "beside_published",
    "panelled",
    "watched_point",
]

SIZE_OF_SOURCES = "users of each source"
"""An axis."""

_COLOURS = {
    "questions": "pink",
    "tree": "blue",
    "smooth": "sky",
    "ma2025": "orange",
    "ma2025-code": "black",
    "ma2025-code-once": "grey",
    "ma2025-code-again": "amber",
    "ma2025-code-honest": "orange",
    "ma2025-c1": "amber",
    "ma2025-2log2": "orange",
    "ma2025-c64": "pink",
    "ma2025-tuned": "amber",
    "linear": "green",
    "neural": "pink",
    "abse": "black",
    "abse-printed": "grey",
}


def panelled(
    rows: Sequence[Row],
    *,
    along: str,
    panels_of: Callable[[Row], Sequence[str]],
    line_of: Callable[[Row], tuple[float, str]],
    columns: int,
    titles: Sequence[str] = (),
) -> "Figure":
    """Regret along what a figure varies, its panels as the paper lays them out, with two standard errors.

    Hollow marks are the means of published runs, beside the line of the code that they were made by.

    Args:
        rows: Rows of the item.
        along: Labels of the axes.
        panels_of: titles of the panels that a row lies in.
        line_of: Function from a row to its place on the axis and its line; a row of line "" is on every line.
        columns: panels side by side.
        titles: all panels in their order; by default in that of the rows.
    """
    titles = titles or list(dict.fromkeys(title for row in rows for title in panels_of(row)))
    names = [name for name in dict.fromkeys(line_of(row)[1] for row in rows) if name]
    high = max(row["regret"] + 2.0 * row["standard_error"] for row in rows)
    deep = -(-len(titles) // columns)
    figure, axes = new_figure(width=1.6 + 2.9 * columns, height=0.6 + 2.6 * deep, columns=columns, rows=deep)
    last = min(columns, len(titles)) - 1
    for ax, title in zip(axes, titles, strict=False):
        own = [(row, *line_of(row)) for row in rows if title in panels_of(row)]
        for name, (colour, dash, mark) in zip(names, cycle(LINES), strict=False):
            points = sorted(
                (place, row["regret"], row["standard_error"])
                for row, place, line in own
                if line in ("", name)
            )
            style = {"linestyle": dash, "marker": mark, "markersize": 4, "linewidth": 1.2, "label": name}
            if any(line == name for _, _, line in own):
                draw_points(ax, *np.array(points).T, colour=colour, **style)
            elif ax is axes[last]:  # its legend is everybody's
                ax.plot([], [], color=PALETTE[colour], **style)
            published = sorted(
                (place, row["published"])
                for row, place, line in own
                if line in ("", name) and row["method"] == "ma2025-code"
            )
            if published:
                at, mean = np.array(published).T
                ax.plot(at, mean, color=PALETTE[colour], marker=mark, mfc="none", markersize=9, linestyle="")
        ax.set_ylim(0.0, 1.05 * high)
        label_axes(ax, title=title, x=along, y="regret per user")
    for ax in axes[len(titles) :]:
        ax.set_visible(False)
    add_legend(axes[last])
    return figure


METHOD_NAMES = {"ma2025-code": "as its code runs, not private", "tree": "ours, private"}
"""Methods that are drawn beside published runs, and titles of their panels."""


def beside_published(
    rows: Sequence[Row],
    *,
    along: str,
    line_of: Callable[[Row], tuple[float, str]],
    group_of: Callable[[Row], Sequence[str]] = lambda _: ("",),
) -> "Figure":
    """Regret of the public code with the published runs in it, and ours on the same axis beside it.

    Args:
        rows: the item's; those of the printed world are left out, unless there are no others.
        along, line_of: as for `panelled`.
        group_of: titles of the lines of panels that a row lies in.
    """
    own = [row for row in rows if "published" in row and row["method"] in METHOD_NAMES] or list(rows)
    groups = list(dict.fromkeys(group for row in own for group in group_of(row)))
    methods = sorted(
        {row["method"] for row in own}, key=lambda name: (name not in METHOD_NAMES, name == "tree")
    )
    titles = [_titled(method, group) for group in groups for method in methods]

    def panels(row: Row) -> list[str]:
        return [_titled(row["method"], group) for group in group_of(row)]

    return panelled(own, along=along, panels_of=panels, line_of=line_of, columns=2, titles=titles)


def _titled(method: str, group: str) -> str:
    return "\n".join(filter(None, (METHOD_NAMES.get(method, method), group)))


_HATCHES = ("", "//", "..", "xx")


def watched_point(rows: Sequence[Row], *, shown: Sequence[str]) -> "Figure":
    """Figure 6: a column a source; regret of all, regret at one context, and shares of the arms there.

    Args:
        rows: Rows of cells that watch a point.
        shown: methods whose arms are drawn, a row each.
    """
    sources = list(dict.fromkeys(map(_source_label, rows)))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    users = np.arange(1, MARKS + 1) * rows[0]["n_users"] / MARKS
    width, height = 1.6 + 3.0 * len(sources), 2.1 * (2 + len(shown))
    figure, axes = new_figure(width=width, height=height, columns=len(sources), rows=2 + len(shown))
    for column, label in enumerate(sources):
        own = {row["method"]: row for row in rows if _source_label(row) == label}
        (source,) = own[methods[0]]["sources"] or [None]
        first, second, *rest = axes[column :: len(sources)]
        for ax, mean, error in ((first, "curve", "curve_errors"), (second, "local_curve", "local_errors")):
            for method, (colour, dash, _) in zip(methods, LINES, strict=False):
                line = {"colour": colour, "linestyle": dash, "label": method, "linewidth": 1.4}
                draw_band(ax, users, own[method][mean], own[method][error], **line)
            ax.set_ylim(0.0, 1.0)
        published = own[methods[0]].get("published")
        if published is not None:
            (circle,) = first.plot(users[-1:], [published], marker="o", mfc="none", linestyle="")
            circle.set(color=PALETTE["black"], label="published, one run", clip_on=False)
        said = f"{label}, gamma {source['gamma']:g}" if source else label
        label_axes(first, title=said, x="", y="regret of all")
        label_axes(second, title="", x="", y="regret at the point")
        for ax, method in zip(rest, shown, strict=True):
            shares = np.array(own[method]["arm_shares"])
            layers = ax.stackplot(users, shares.T, colors=ARM_COLOURS, edgecolor="white", linewidth=0.5)
            for arm, (layer, hatch) in enumerate(zip(layers, cycle(_HATCHES), strict=False)):
                layer.set_hatch(hatch)
                layer.set_label(f"arm {arm + 1}")
            ax.set_ylim(0.0, 1.0)
            label_axes(ax, title="", x="users so far" if method == shown[-1] else "", y=f"arms, {method}")
    add_legend(axes[len(sources) - 1])
    add_legend(axes[3 * len(sources) - 1])
    return figure


def bars(rows: Sequence[Row]) -> "Figure":
    """Regret of every row, which is labelled, with two standard errors, a panel a world."""
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
        ax.set_ylim(bottom=-0.5)
    return figure


def _source_label(row: Row) -> str:
    sources = (f"{source['n_users'] or 'all'} at {source['epsilon']:g}" for source in row["sources"])
    return " + ".join(sources) or "no source"

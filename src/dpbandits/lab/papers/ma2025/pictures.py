"""Pictures of Ma2025's experiments: regret along what an item varies, one panel a world."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpbandits.lab.papers.ma2025.methods import MARKS
from dpbandits.lab.plot import PALETTE, add_legend, draw_band, draw_points, label_axes, new_figure, to_png
from dpbandits.lab.study import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["picture"]

_COLOURS = {
    "tree": "blue",
    "smooth": "sky",
    "ma2025": "orange",
    "ma2025-tuned": "amber",
    "linear": "green",
    "neural": "pink",
    "abse": "black",
}
_STYLES = ("-", "--", ":", "-.")
_MARKERS = ("o", "s", "^", "D", "v", "P")


def picture(rows: Sequence[Row], *, item: str) -> bytes:
    """PNG: regret along what the item varies, with two standard errors."""
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    figure, axes = new_figure(width=max(7.2, 5.2 * len(worlds)), height=4.2, columns=len(worlds))
    for ax, name in zip(axes, worlds, strict=True):
        own = [row for row in rows if row["world"] == name]
        if item == "table2":
            label_axes(ax, title=name, x="regret per user")
            _draw_bars(ax, own)
        else:
            along, value = _ALONG[item]
            label_axes(ax, title=name, x=along, y="regret per user")
            _draw_curves(ax, own) if value is None else _draw_lines(ax, item, own, value)
            ax.set_ylim(bottom=0)
    if item != "table2":  # whose rows are labelled
        add_legend(axes[-1])
    if item in ("figure7a", "figure7b"):
        for ax in axes:
            ax.set_xscale("log")
    return to_png(figure)


def _draw_curves(ax: "Axes", rows: Sequence[Row]) -> None:
    labels = list(dict.fromkeys(_source_label(row) for row in rows))
    for row in rows:
        users = [row["n_users"] * (mark + 1) / MARKS for mark in range(MARKS)]
        source = _source_label(row)
        line: dict[str, Any] = {
            "linestyle": _STYLES[labels.index(source) % len(_STYLES)],
            "label": f"{row['method']}, {source}",
        }
        draw_band(ax, users, row["curve"], row["curve_errors"], colour=_COLOURS[row["method"]], **line)


def _draw_lines(ax: "Axes", item: str, rows: Sequence[Row], value: Callable[[Row], float]) -> None:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_group(item, row), []).append(row)
    rest = list(dict.fromkeys(key[1:] for key in groups))
    for key, own in groups.items():
        place = rest.index(key[1:])
        draw_points(
            ax,
            [value(row) for row in own],
            [row["regret"] for row in own],
            [row["standard_error"] for row in own],
            colour=_COLOURS[key[0]],
            linestyle=_STYLES[place % len(_STYLES)],
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=4,
            linewidth=1.2,
            label=", ".join(str(part) for part in key),
        )


def _draw_bars(ax: "Axes", rows: Sequence[Row]) -> None:
    for place, row in enumerate(rows):
        marker = "s" if row["sources"] else "o"
        error = 2.0 * row["standard_error"]
        colour = PALETTE[_COLOURS[row["method"]]]
        ax.errorbar([row["regret"]], [place], xerr=[error], color=colour, marker=marker, capsize=2)
    labels = [f"{_promise(row)}{row['method']}{' with sources' if row['sources'] else ''}" for row in rows]
    ax.set_yticks(range(len(rows)), labels, fontsize=6)
    ax.set_ylim(bottom=0)


def _promise(row: Row) -> str:
    if row["epsilon"] is None:
        return ""
    own = f", {row['sources'][0]['epsilon']:g}" if row["sources"] else ""
    return f"({row['epsilon']:g}{own}) "


def _source_label(row: Row) -> str:
    sources = (f"{source['n_users'] or 'all'} at {source['epsilon']:g}" for source in row["sources"])
    return " + ".join(sources) or "no source"


def _first(row: Row, name: str) -> float:
    """A number of the first source; 0 without sources."""
    return float(row["sources"][0][name] or 0.0) if row["sources"] else 0.0


_ALONG: dict[str, tuple[str, Callable[[Row], float] | None]] = {
    "figure6": ("users so far", None),
    "figure7a": ("n", lambda row: row["n_users"]),
    "figure7b": ("n", lambda row: row["n_users"]),
    "figure8": ("users of each source", lambda row: _first(row, "n_users")),
    "figure9a": ("gamma", lambda row: _first(row, "gamma")),
    "figure9b": ("kappa", lambda row: _first(row, "kappa")),
    "figure9c": ("users of each source", lambda row: _first(row, "n_users")),
}


def _group(item: str, row: Row) -> tuple[Any, ...]:
    """Which line a row lies on."""
    method, own = row["method"], [source["epsilon"] for source in row["sources"]]
    if item in ("figure7a", "figure7b"):
        return method, f"epsilon {row['epsilon']:g}"
    if item == "figure8":
        return method, f"source epsilon {own[0]:g}, gamma {_first(row, 'gamma'):g}" if own else "alone"
    if item == "figure9c":
        return method, f"epsilon {row['epsilon']:g}", "then ".join(f"{one:g} " for one in own).strip()
    return method, f"source epsilon {own[0]:g}"

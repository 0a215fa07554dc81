"""What is said about the results of Ma2025's experiments, and their pictures."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dpbandits.lab.papers.ma2025.cells import Cell, CellResult, Item
from dpbandits.lab.papers.ma2025.methods import MARKS
from dpbandits.lab.plot import PALETTE, add_legend, label_axes, new_figure, to_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AUTHORS_LOG", "picture", "verdict"]

AUTHORS_LOG: dict[tuple[str, float, int], tuple[float, float]] = {
    ("ma", 1.0, 10_000): (0.3879, 0.0039),
    ("ma", 1.0, 20_000): (0.3618, 0.0071),
    ("ma", 1.0, 40_000): (0.3086, 0.0067),
    ("ma", 1.0, 80_000): (0.2173, 0.0083),
}
"""(world, epsilon, n) -> average regret without sources and its standard error over 30 runs, from the log
that the authors publish beside their code (logs/sample_size_target/LDPMAB.csv, commit a9c31ee, total regret
over n). Their code adds noise only in the bin that a user falls in: these runs are not locally private."""

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


def verdict(result: CellResult) -> str:
    """Whether a published number and ours agree, or why they cannot be compared."""
    cell = result.cell
    if cell.method in ("tree", "smooth", "ma2025-tuned"):
        return "not in the paper"
    if cell.method != "ma2025":
        return "cannot be compared: table not at hand, other columns and pairs"
    known = AUTHORS_LOG.get((cell.world, cell.epsilon or 0.0, cell.n_users or 0))
    if known is None or cell.sources:
        return "cannot be compared: figure not at hand"
    mean, error = known
    near = abs(result.regret - mean) <= 3.0 * math.hypot(error, result.standard_error)
    found = "agrees with" if near else "not reproduced with honest noise:"
    return f"{found} the authors' log, {mean:.3f} ({error:.3f})"


def picture(item: Item, results: Sequence[CellResult]) -> bytes:
    """PNG: regret along what the item varies, one panel a world, bands of two standard errors."""
    worlds = list(dict.fromkeys(result.cell.world for result in results))
    figure, axes = new_figure(width=max(7.2, 5.2 * len(worlds)), height=4.2, columns=len(worlds))
    draw = {"figure6": _curves, "table2": _bars}.get(item, _lines)
    for ax, name in zip(axes, worlds, strict=True):
        draw(ax, item, [result for result in results if result.cell.world == name])
        label_axes(ax, title=name, x=_AXES.get(item, ("", None))[0], y="regret per user")
        ax.set_ylim(bottom=0)
    if draw is not _bars:  # whose rows are labelled
        add_legend(axes[-1])
    return to_png(figure)


def _curves(ax: "Axes", item: Item, results: Sequence[CellResult]) -> None:
    labels = list(dict.fromkeys(_source_label(result.cell) for result in results))
    for result in results:
        n = result.cell.n_users or 0
        users = [n * (mark + 1) / MARKS for mark in range(MARKS)]
        mean = result.curves.mean(axis=0)
        error = 2.0 * result.curves.std(axis=0, ddof=1) / math.sqrt(len(result.curves))
        colour = PALETTE[_COLOURS[result.cell.method]]
        style = _STYLES[labels.index(_source_label(result.cell)) % len(_STYLES)]
        label = f"{result.cell.method}, {_source_label(result.cell)}"
        ax.plot(users, mean, color=colour, linestyle=style, label=label)
        ax.fill_between(users, mean - error, mean + error, color=colour, alpha=0.15, linewidth=0)


def _lines(ax: "Axes", item: Item, results: Sequence[CellResult]) -> None:
    along = _AXES[item][1]
    if along is None:
        return
    groups: dict[tuple[Any, ...], list[CellResult]] = {}
    for result in results:
        groups.setdefault(_group(item, result.cell), []).append(result)
    rest = list(dict.fromkeys(key[1:] for key in groups))
    for key, rows in groups.items():
        place = rest.index(key[1:])
        ax.errorbar(
            [along(row.cell) for row in rows],
            [row.regret for row in rows],
            [2.0 * row.standard_error for row in rows],
            color=PALETTE[_COLOURS[key[0]]],
            linestyle=_STYLES[place % len(_STYLES)],
            marker=_MARKERS[place % len(_MARKERS)],
            markersize=4,
            capsize=2,
            linewidth=1.2,
            label=", ".join(str(part) for part in key),
        )
    if item in ("figure7a", "figure7b"):
        ax.set_xscale("log")


def _bars(ax: "Axes", item: Item, results: Sequence[CellResult]) -> None:
    for place, result in enumerate(results):
        ax.errorbar(
            [result.regret],
            [place],
            xerr=[2.0 * result.standard_error],
            color=PALETTE[_COLOURS[result.cell.method]],
            marker="s" if result.cell.sources else "o",
            capsize=2,
        )
    labels = [f"{_promise(result.cell)}{result.cell.label}" for result in results]
    ax.set_yticks(range(len(results)), labels, fontsize=6)
    ax.set_xlabel("regret per user")


def _promise(cell: Cell) -> str:
    if cell.epsilon is None:
        return ""
    own = f", {cell.sources[0].epsilon:g}" if cell.sources else ""
    return f"({cell.epsilon:g}{own}) "


def _source_label(cell: Cell) -> str:
    if not cell.sources:
        return "no source"
    return " + ".join(f"{source.n_users or 'all'} at {source.epsilon:g}" for source in cell.sources)


def _first(cell: Cell, name: str) -> float:
    """A number of the first source; 0 without sources."""
    return float(getattr(cell.sources[0], name) or 0.0) if cell.sources else 0.0


_AXES: dict[str, tuple[str, Callable[[Cell], float] | None]] = {
    "figure6": ("users so far", None),
    "figure7a": ("n", lambda cell: float(cell.n_users or 0)),
    "figure7b": ("n", lambda cell: float(cell.n_users or 0)),
    "figure8": ("users of each source", lambda cell: _first(cell, "n_users")),
    "figure9a": ("gamma", lambda cell: _first(cell, "gamma")),
    "figure9b": ("kappa", lambda cell: _first(cell, "kappa")),
    "figure9c": ("users of each source", lambda cell: _first(cell, "n_users")),
}


def _group(item: Item, cell: Cell) -> tuple[Any, ...]:
    """Which line a cell lies on."""
    own = tuple(source.epsilon for source in cell.sources)
    if item in ("figure7a", "figure7b"):
        return cell.method, f"epsilon {cell.epsilon:g}"
    if item == "figure8":
        return cell.method, f"source epsilon {own[0]:g}, gamma {_first(cell, 'gamma'):g}" if own else "alone"
    if item == "figure9c":
        return cell.method, f"epsilon {cell.epsilon:g}", "then ".join(f"{one:g} " for one in own).strip()
    return cell.method, f"source epsilon {own[0]:g}"

"""What is said about the results of Dubey2021's experiments, their files and pictures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbandits.lab.papers.dubey2021.cells import (
    AIMS,
    BLOCKS,
    LOCAL,
    LOCAL_PUBLISHED,
    OPEN,
    PRINTED,
    PUBLIC,
    RANDOM,
    SIMPLE,
    TREE,
    TRUSTING,
    CellResult,
    Item,
    cells,
)
from dpbandits.lab.plot import PALETTE, new_figure, to_png

__all__ = ["picture", "rows_of", "verdict", "write_results"]

COLOURS = {
    TREE: "orange",
    PRINTED: "pink",
    BLOCKS: "blue",
    PUBLIC: "sky",
    LOCAL: "green",
    LOCAL_PUBLISHED: "amber",
    OPEN: "black",
    RANDOM: "grey",
    SIMPLE: "amber",
    TRUSTING: "pink",
}


def verdict(result: CellResult) -> str:
    """Whether the paper's number and ours agree, or why they cannot be compared.

    The figures of the paper are curves without numbers, on functions whose seeds and whose candidates
    between the two levels are not given, and the table's candidate sets are not stated: no cell's
    number can be set beside ours as the same quantity.
    """
    if result.cell.column in (BLOCKS, PUBLIC, LOCAL, SIMPLE, TRUSTING, OPEN, RANDOM):
        return "not in the paper"
    if result.cell.world.startswith("figure1"):
        return "cannot be compared: curves, functions not given"
    return "cannot be compared: candidate sets not stated"


def rows_of(item: Item, results: Sequence[CellResult]) -> list[dict[str, Any]]:
    """What result files and --json hold: a flat row a cell, with its verdict (and aim, of targets)."""
    rows = []
    for result in results:
        aim = {"aim": AIMS[result.cell]} if item == "targets" else {}
        rows.append(result.to_json() | {"verdict": verdict(result)} | aim)
    return rows


def write_results(item: Item, results: Sequence[CellResult], folder: Path) -> None:
    """Put results into dubey2021-ITEM.json and redraw the picture.

    Cells that were not run this time keep the rows that the file has: an item may be run column by column.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"dubey2021-{item}.json"
    rows = {_name(row): row for row in json.loads(path.read_text())} if path.exists() else {}
    rows |= {_name(row): row for row in rows_of(item, results)}
    order = {(c.world, c.column, c.epsilon, c.delta): place for place, c in enumerate(cells(item))}
    ordered = sorted(rows.values(), key=lambda row: order.get(_name(row), len(order)))
    path.write_text(json.dumps(ordered, indent=1) + "\n")
    everything = [CellResult.from_json(row) for row in ordered]
    (folder / f"dubey2021-{item}.png").write_bytes(picture(item, everything))


def _name(row: Mapping[str, Any]) -> tuple[str, str, float | None, float | None]:
    return row["world"], row["column"], row["epsilon"], row["delta"]


def picture(item: Item, results: Sequence[CellResult]) -> bytes:
    """PNG of a figure or table: regret by policy, with two standard errors."""
    worlds = list(dict.fromkeys(result.cell.world for result in results))
    figure, axes = new_figure(width=max(7.2, 4.2 * len(worlds)), height=4.2, columns=len(worlds))
    along = "delta" if item == "figure2" else "epsilon"
    for ax, name in zip(axes, worlds, strict=True):
        own = [result for result in results if result.cell.world == name]
        private = [result.cell for result in own if result.cell.epsilon is not None]
        promises = list(dict.fromkeys((cell.epsilon or 0.0, cell.delta or 0.0) for cell in private))
        for column in dict.fromkeys(result.cell.column for result in own):
            colour = PALETTE[COLOURS[column]]
            rows = [result for result in own if result.cell.column == column]
            if rows[0].cell.epsilon is None:
                ax.axhline(rows[0].regret, color=colour, linestyle="--", label=column)
                continue
            at = [promises.index((row.cell.epsilon or 0.0, row.cell.delta or 0.0)) for row in rows]
            errors = [2.0 * row.standard_error for row in rows]
            ax.errorbar(
                at, [row.regret for row in rows], errors, color=colour, marker="o", label=column, capsize=3
            )
        labels = [f"{d:g}" if along == "delta" else f"({e:g}, {d:g})" for e, d in promises]
        ax.set_xticks(range(len(promises)), labels)
        ax.set_xlabel(along if along == "delta" else "(epsilon, delta)")
        ax.set_ylim(bottom=0)
        ax.set_title(name)
    axes[0].set_ylabel("regret")
    axes[-1].legend(fontsize=7)
    return to_png(figure)

"""What is said about the results of Dubey2021's experiments, and their pictures."""

from collections.abc import Sequence

from dpbandits.studies.dubey2021 import (
    BLOCKS,
    LOCAL,
    OPEN,
    PRINTED,
    PUBLIC,
    RANDOM,
    SIMPLE,
    TREE,
    TRUSTING,
    CellResult,
    Item,
)
from dpbandits.studies.plots import PALETTE, new_figure, to_png

__all__ = ["picture", "verdict"]

COLOURS = {
    TREE: "orange",
    PRINTED: "pink",
    BLOCKS: "blue",
    PUBLIC: "sky",
    LOCAL: "green",
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
    if result.cell.column in (BLOCKS, PUBLIC, SIMPLE, TRUSTING, OPEN, RANDOM):
        return "not in the paper"
    if result.cell.world.startswith("figure1"):
        return "cannot be compared: curves, functions not given"
    return "cannot be compared: candidate sets not stated"


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

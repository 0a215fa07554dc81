"""Comparison of our methods with published ones that have the same valid guarantee.

Kharkovskii2020 has no line: nothing that it publishes is private.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpbandits.lab.study import Row
from reproduction.dubey2021.cells import BLOCKS, LOCAL, LOCAL_PUBLISHED, LOCAL_SHARP, PRINTED, SHARP, TREE
from reproduction.dubey2021.parts import OF_THE_SAME_PROMISE
from reproduction.ma2025.methods import CONSTANTS
from reproduction.result_folder import ResultFolder

__all__ = ["CHANGED", "ahead", "behind"]

CHANGED = "not as published: "
"""Begins the name of a published method with one part of it changed."""

_OURS_OF_DUBEY = {
    TREE: BLOCKS,
    PRINTED: BLOCKS,
    SHARP: BLOCKS,
    LOCAL_PUBLISHED: LOCAL,
    LOCAL_SHARP: LOCAL,
}
"""Columns of Dubey2021 that keep the promise -> ours beside them; Lemma 2's noise is more than is needed."""

_HONEST_OF_MA = (*CONSTANTS, "ma2025", "ma2025-tuned", "linear", "neural")
"""Methods of Ma2025 and those that it compares with, each with the noise that its promise needs."""


@dataclass(frozen=True)
class _Pair:
    """A published method beside ours at one place.

    Attributes:
        item: the place; what stands before its first comma is the figure or table.
        method: the published one.
        theirs, ours: mean and its standard error.
        more: True if larger numbers are better.
    """

    item: str
    method: str
    theirs: tuple[float, float]
    ours: tuple[float, float]
    more: bool

    @property
    def gap(self) -> float:
        """Return the lead of the baseline over our policy; negative if ours is ahead."""
        return (self.theirs[0] - self.ours[0]) * (1.0 if self.more else -1.0)

    @property
    def told_apart(self) -> bool:
        """Return True if the gap is more than two standard errors of the difference."""
        return abs(self.gap) > 2.0 * math.hypot(self.theirs[1], self.ours[1])

    @property
    def ratio(self) -> float:
        """Their loss over ours, or our reward over theirs: above 1 where ours is better."""
        return self.ours[0] / self.theirs[0] if self.more else self.theirs[0] / self.ours[0]


def behind(results: Path) -> list[Row]:
    """Return the cases in which a published method is better than ours with the same valid guarantee.

    Returns:
        Lines of item, method, theirs, ours (with standard errors) and whether they are told apart by two
        standard errors of the difference. Methods that nobody published, Dubey2021's with one part of it
        changed, say so.
    """
    return [
        {
            "item": pair.item,
            "published method": pair.method,
            "theirs": "{:.4g} ({:.2g})".format(*pair.theirs),
            "ours": "{:.4g} ({:.2g})".format(*pair.ours),
            "told apart": "yes" if pair.told_apart else "no",
        }
        for pair in _pairs(results)
        if pair.gap > 0.0
    ]


def ahead(results: Path) -> list[Row]:
    """How often ours does better than a published method at the same promise, a line a figure or table.

    Returns:
        Lines of item, method, places compared, places where ours is better, and those told apart by two
        standard errors of the difference. The last column is the range over these of their loss over ours, or
        of our reward over theirs.
    """
    found: dict[tuple[str, str], list[_Pair]] = {}
    for pair in _pairs(results):
        if not pair.method.startswith(CHANGED):
            found.setdefault((pair.item.partition(",")[0], pair.method), []).append(pair)
    lines = []
    for (item, method), pairs in found.items():
        better = [pair for pair in pairs if pair.gap < 0.0]
        ratios = [pair.ratio for pair in better if pair.told_apart]
        lines.append(
            {
                "item": item,
                "published method": method,
                "places": str(len(pairs)),
                "ours is better": str(len(better)),
                "told apart": str(len(ratios)),
                "by a factor of": f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "none",
            }
        )
    return lines


def _pairs(results: Path) -> Iterator[_Pair]:
    held = ResultFolder(results)
    for part in (_dubey, _parts, _ma, _pavlovic):
        yield from part(held)


def _pair(
    item: str, method: str, theirs: Row | None, ours: Row | None, *, name: str, more: bool
) -> list[_Pair]:
    """A pair if both were run: `more` where larger numbers are better."""
    if theirs is None or ours is None:
        return []
    one, other = ((float(row[name]), float(row["standard_error"])) for row in (theirs, ours))
    return [_Pair(item, method, one, other, more=more)]


def _dubey(held: ResultFolder) -> Iterator[_Pair]:
    for stem in ("figure-1", "figure-2", "table-1", "algorithm-3"):
        rows = held.rows(f"dubey2021-{stem}")
        for method, own in _OURS_OF_DUBEY.items():
            for row in rows:
                if row["column"] != method:
                    continue
                where = {name: row[name] for name in ("world", "epsilon", "delta")}
                ours = held.row(f"dubey2021-{stem}", column=own, **where)
                item = f"Dubey2021 {stem}, {row['world']}, ({row['epsilon']:g}, {row['delta']:g})"
                named = f"{CHANGED}{method}" if method in (SHARP, LOCAL_SHARP) else method
                yield from _pair(item, named, row, ours, name="regret", more=False)


def _parts(held: ResultFolder) -> Iterator[_Pair]:
    """Yield comparisons with parts of a published method, which readers of the paper can leave out."""
    for row in held.rows("dubey2021-table-1-parts"):
        if row["column"] in OF_THE_SAME_PROMISE:
            where = {name: row[name] for name in ("world", "epsilon", "delta")}
            ours = held.row("dubey2021-table-1", column="block release", **where)
            item = f"Dubey2021 table-1-parts, {row['world']}, ({row['epsilon']:g}, {row['delta']:g})"
            method = f"{CHANGED}tree, right noise, {row['column']}"
            yield from _pair(item, method, row, ours, name="regret", more=False)


def _ma(held: ResultFolder) -> Iterator[_Pair]:
    for stem in ("figure-6", "figure-7a", "figure-7b", "figure-8", "figure-9a", "figure-9b", "figure-9c"):
        rows = held.rows(f"ma2025-{stem}")
        place = {
            json.dumps([row["world"], row["epsilon"], row["n_users"], row["sources"]]): row
            for row in rows
            if row["method"] == "tree"
        }
        for row in rows:
            if row["method"] in _HONEST_OF_MA:
                key = json.dumps([row["world"], row["epsilon"], row["n_users"], row["sources"]])
                item = f"Ma2025 {stem}, epsilon {row['epsilon']:g}, n {row['n_users']:,}"
                yield from _pair(item, row["method"], row, place.get(key), name="regret", more=False)
    yield from _table_2(held.part("ma2025-table-2", "cells"))


def _table_2(cells: Sequence[Row]) -> Iterator[_Pair]:
    """Reward per person: the table's ratio has the noise of its divisor besides, the same for everybody."""
    found = {
        (row["world"], row["epsilon"], source["epsilon"] if source else None, row["method"]): row
        for row in cells
        for source in (row["sources"] or (None,))
    }
    for (world, epsilon, theirs, method), row in found.items():
        ours = found.get((world, epsilon, theirs, "tree"))
        if method not in _HONEST_OF_MA or ours is None:
            continue
        kind = "" if theirs is None else f" with sources at {theirs:g}"
        for moment, tail in (("n/4", "_at_quarter"), ("n", "")):
            both = [
                {"reward": 1.0 - each[f"regret{tail}"], "standard_error": each[f"standard_error{tail}"]}
                for each in (row, ours)
            ]
            item = f"Ma2025 Table 2, {world}, epsilon {epsilon:g}{kind}, reward at {moment}"
            yield from _pair(item, method, *both, name="reward", more=True)


def _pavlovic(held: ResultFolder) -> Iterator[_Pair]:
    for row in held.rows("pavlovic2025-errors"):
        if row["method"] == "published calibration":
            where = {name: row[name] for name in ("setting", "rounds", "epsilon")}
            ours = held.row("pavlovic2025-errors", method="USCA answer", **where)
            item = f"Pavlovic2025 errors, {row['setting']}, T {row['rounds']:,}, epsilon {row['epsilon']:g}"
            yield from _pair(item, row["method"], row, ours, name="error", more=False)

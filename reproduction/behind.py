"""Where ours loses to a published method at the same promise, both honest: what the page says first.

Kharkovskii2020 has no line: nothing that it publishes is private.
"""

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpbandits.lab.study import Row
from reproduction.dubey2021.parts import OF_THE_SAME_PROMISE
from reproduction.ma2025.methods import NOT_PRIVATE
from reproduction.result_folder import ResultFolder

__all__ = ["CHANGED", "behind"]

CHANGED = "not as published: "
"""Begins the name of a published method with one part of it changed."""


def behind(results: Path) -> list[Row]:
    """Where a published method does better than ours at the same promise, both honest.

    Returns:
        Lines of item, method, theirs, ours (with standard errors) and whether they are told apart by two
        standard errors of the difference. Methods that nobody published, Dubey2021's tree with one part
        of it changed, say so.
    """
    held = ResultFolder(results)
    parts = (_behind_dubey, _behind_parts, _behind_ma, _behind_pavlovic)
    return [row for part in parts for row in part(held)]


def _against(
    item: str, method: str, theirs: Row | None, ours: Row | None, *, name: str, more: bool
) -> list[Row]:
    """A line if theirs is better: `more` where larger numbers are."""
    if theirs is None or ours is None:
        return []
    gap = (theirs[name] - ours[name]) * (1.0 if more else -1.0)
    if not gap > 0.0:
        return []
    error = math.hypot(theirs["standard_error"], ours["standard_error"])
    return [
        {
            "item": item,
            "published method": method,
            "theirs": f"{theirs[name]:.4g} ({theirs['standard_error']:.2g})",
            "ours": f"{ours[name]:.4g} ({ours['standard_error']:.2g})",
            "told apart": "yes" if gap > 2.0 * error else "no",
        }
    ]


def _behind_dubey(held: ResultFolder) -> Iterator[Row]:
    for stem in ("figure-1", "figure-2", "table-1", "algorithm-3"):
        rows = held.rows(f"dubey2021-{stem}")
        for method, own in (("tree, right noise", "block release"), ("local, as published", "local")):
            for row in rows:
                if row["column"] != method:
                    continue
                where = {name: row[name] for name in ("world", "epsilon", "delta")}
                ours = held.row(f"dubey2021-{stem}", column=own, **where)
                item = f"Dubey2021 {stem}, {row['world']}, ({row['epsilon']:g}, {row['delta']:g})"
                yield from _against(item, method, row, ours, name="regret", more=False)


def _behind_parts(held: ResultFolder) -> Iterator[Row]:
    """What would be ahead had it been published: a reader who can leave out a radius has it."""
    for row in held.rows("dubey2021-table-1-parts"):
        if row["column"] in OF_THE_SAME_PROMISE:
            where = {name: row[name] for name in ("world", "epsilon", "delta")}
            ours = held.row("dubey2021-table-1", column="block release", **where)
            item = f"Dubey2021 table-1-parts, {row['world']}, ({row['epsilon']:g}, {row['delta']:g})"
            method = f"{CHANGED}tree, right noise, {row['column']}"
            yield from _against(item, method, row, ours, name="regret", more=False)


def _behind_ma(held: ResultFolder) -> Iterator[Row]:
    for stem in ("figure-6", "figure-7a", "figure-7b", "figure-8", "figure-9a", "figure-9b", "figure-9c"):
        rows = held.rows(f"ma2025-{stem}")
        place = {
            json.dumps([row["world"], row["epsilon"], row["n_users"], row["sources"]]): row
            for row in rows
            if row["method"] == "tree"
        }
        for row in rows:
            if row["method"] not in ("tree", *NOT_PRIVATE):
                key = json.dumps([row["world"], row["epsilon"], row["n_users"], row["sources"]])
                item = f"Ma2025 {stem}, epsilon {row['epsilon']:g}, n {row['n_users']:,}"
                yield from _against(item, row["method"], row, place.get(key), name="regret", more=False)
    yield from _behind_table_2(held.part("ma2025-table-2", "cells"))


def _behind_table_2(cells: Sequence[Row]) -> Iterator[Row]:
    """Reward per person: the table's ratio has the noise of its divisor besides, the same for everybody."""
    found = {
        (row["world"], row["epsilon"], source["epsilon"] if source else None, row["method"]): row
        for row in cells
        for source in (row["sources"] or (None,))
    }
    for (world, epsilon, theirs, method), row in found.items():
        ours = found.get((world, epsilon, theirs, "tree"))
        if method == "tree" or epsilon is None or ours is None:
            continue
        kind = "" if theirs is None else f" with sources at {theirs:g}"
        for moment, tail in (("n/4", "_at_quarter"), ("n", "")):
            both = [
                {"reward": 1.0 - each[f"regret{tail}"], "standard_error": each[f"standard_error{tail}"]}
                for each in (row, ours)
            ]
            item = f"Ma2025 Table 2, {world}, epsilon {epsilon:g}{kind}, reward at {moment}"
            yield from _against(item, method, *both, name="reward", more=True)


def _behind_pavlovic(held: ResultFolder) -> Iterator[Row]:
    for row in held.rows("pavlovic2025-errors"):
        if row["method"] == "published calibration":
            where = {name: row[name] for name in ("setting", "rounds", "epsilon")}
            ours = held.row("pavlovic2025-errors", method="USCA answer", **where)
            item = f"Pavlovic2025 errors, {row['setting']}, T {row['rounds']:,}, epsilon {row['epsilon']:g}"
            yield from _against(item, row["method"], row, ours, name="error", more=False)

"""`dpbandits study ma2025`: the figures of Ma2025, and its table on real people."""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table

from dpbandits.cli.console import console, progress_bar
from dpbandits.cli.study_options import AsJson, Columns, Jobs, Out, Reps, Seed, Worlds
from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.papers.ma2025 import cells as ma2025
from dpbandits.lab.papers.ma2025.methods import table_references
from dpbandits.lab.papers.ma2025.report import picture, verdict
from dpbandits.lab.papers.ma2025.table import table2

__all__ = ["Ma2025Item", "ma2025_command"]


class Ma2025Item(StrEnum):
    """Figures and the table of Ma2025."""

    figure6 = "figure6"
    figure7a = "figure7a"
    figure7b = "figure7b"
    figure8 = "figure8"
    figure9a = "figure9a"
    figure9b = "figure9b"
    figure9c = "figure9c"
    table2 = "table2"


def ma2025_command(
    *,
    item: Annotated[Ma2025Item, typer.Argument(help="Which figure or table.")],
    reps: Reps = 20,
    seed: Seed = ma2025.FIRST_SEED,
    jobs: Jobs = 1,
    out: Out = None,
    as_json: AsJson = False,
    columns: Columns = None,
    worlds: Worlds = None,
) -> None:
    """Figures 6 to 9 (people and sources that are simulated) and Table 2 (real people) of Ma2025.

    Average regret per target user, with standard errors over seeds. Started again with the same --out, it
    runs only what is missing; with --column or --world it writes to files called -part. Table 2 wants the
    extra `datasets`, and for `adult` its files in the folder that DPBANDITS_DATA names.
    """
    name: ma2025.Item = item.value
    with progress_bar() as bar:
        running = bar.add_task(f"ma2025 {name}", total=None)
        results = ma2025.run_item(
            name,
            reps=reps,
            seed=seed,
            jobs=jobs,
            out=out,
            columns=columns,
            worlds=worlds,
            progress=lambda done, total: bar.update(running, completed=done, total=total),
        )
    rows = [result.to_json() | {"verdict": verdict(result), "first_seed": seed} for result in results]
    whole: Any = rows
    compared = name == "table2" and any(result.cell.method == "abse" for result in results)
    if compared:
        tables = dict.fromkeys(result.cell.world for result in results)
        known = {table: table_references(table) for table in tables}
        whole = {"cells": [_without_curve(row) for row in rows], "references": known, **table2(results)}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        stem = f"ma2025-{name}" + ("" if columns is None and worlds is None else "-part")
        (out / f"{stem}.json").write_text(json.dumps(whole, indent=1) + "\n")
        (out / f"{stem}.png").write_bytes(picture(name, results))
    if as_json:
        typer.echo(json.dumps(whole))
        return
    title = f"Ma2025, {name}: regret per user, {reps} seeds from {seed}"
    table = Table(title=title, caption=BANNER)
    for heading in (
        "world",
        "method",
        "epsilon",
        "n",
        "sources at epsilon (gamma, kappa)",
        "at n/4",
        "at n",
        "s.e.",
        "verdict",
    ):
        table.add_column(heading, justify="right" if heading in ("epsilon", "n", "at n", "s.e.") else "left")
    for result, row in zip(results, rows, strict=True):
        cell = result.cell
        sources = "; ".join(
            f"{source.n_users or 'all'} at {source.epsilon:g} ({source.gamma:g}, {source.kappa:g})"
            for source in cell.sources
        )
        table.add_row(
            cell.world,
            cell.method,
            "" if cell.epsilon is None else f"{cell.epsilon:g}",
            "all" if cell.n_users is None else f"{cell.n_users:,}",
            sources,
            f"{row['regret_at_quarter']:.4f}",
            f"{result.regret:.4f}",
            f"{result.standard_error:.4f}",
            row["verdict"],
        )
    console().print(table)


def _without_curve(row: dict[str, Any]) -> dict[str, Any]:
    """Table 2 reads two points of a curve, which stand beside it."""
    return {key: value for key, value in row.items() if not key.startswith("curve")}

"""`dpbandits study kharkovskii2020`: outsourced optimisation, private and as published."""

import json
from enum import StrEnum
from typing import Annotated, cast

import typer
from rich.table import Table

from dpbandits.cli.console import console, progress_bar
from dpbandits.cli.study_options import AsJson, Jobs, Out, Reps, Seed
from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.papers.kharkovskii2020 import cells as items
from dpbandits.lab.papers.kharkovskii2020.methods import attack_table

__all__ = ["kharkovskii2020_command"]


class KharkovskiiItem(StrEnum):
    """Tables and figures of Kharkovskii2020."""

    synthetic = "synthetic"
    branin = "branin"
    loans = "loans"
    ames = "ames"
    figure2 = "figure2"
    figure3 = "figure3"
    hidden = "hidden"
    attack = "attack"


def kharkovskii2020_command(
    *,
    item: Annotated[KharkovskiiItem, typer.Argument(help="Which table or figure.")],
    reps: Reps = 20,
    seed: Seed = 1_000_000,
    jobs: Jobs = 1,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Simple regret of Kharkovskii2020's worlds, private and as published; `attack` recovers the rows.

    Standard errors over seeds. Started again with the same --out, it runs only what is missing.
    """
    if item is KharkovskiiItem.attack:
        typer.echo(attack_table(seed))
        return
    name = cast("items.Item", item.value)
    with progress_bar() as bar:
        running = bar.add_task(f"kharkovskii2020 {name}", total=None)
        results = items.run_item(
            name,
            reps=reps,
            seed=seed,
            jobs=jobs,
            out=out,
            progress=lambda done, total: bar.update(running, completed=done, total=total),
        )
    rows = [result.to_json() for result in results]
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"kharkovskii2020-{name}.json").write_text(json.dumps(rows, indent=1))
        (out / f"kharkovskii2020-{name}.png").write_bytes(items.picture(name, results))
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table(title=f"Kharkovskii2020, {name}: simple regret, {reps} seeds from {seed}", caption=BANNER)
    for heading in ("world", "method", "epsilon", "r", "regret", "s.e.", "verdict"):
        table.add_column(heading, justify="left" if heading in ("world", "method", "verdict") else "right")
    for result in results:
        cell = result.cell
        table.add_row(
            cell.world,
            cell.method,
            "" if cell.epsilon is None else f"{cell.epsilon:g}",
            "" if cell.dimension is None else str(cell.dimension),
            f"{result.regret:.3g}",
            f"{result.standard_error:.2g}",
            items.verdict(result),
        )
    console().print(table)

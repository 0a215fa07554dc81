"""`dpbandits study`: the experiments of the papers, each beside what was printed."""

import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.table import Table

from dpbandits.cli.console import console, progress_bar
from dpbandits.cli.study_kharkovskii2020 import kharkovskii2020_command
from dpbandits.cli.study_ma2025 import ma2025_command
from dpbandits.cli.study_options import AsJson, Columns, Jobs, Out, Reps, Seed, Worlds
from dpbandits.cli.study_pavlovic2025 import pavlovic2025_command
from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.papers.dubey2021 import cells as dubey2021
from dpbandits.lab.papers.dubey2021.report import rows_of, verdict, write_results

__all__ = ["app"]

app = typer.Typer(help="Experiments of the papers.", no_args_is_help=True)
app.command("ma2025")(ma2025_command)
app.command("kharkovskii2020")(kharkovskii2020_command)
app.command("pavlovic2025")(pavlovic2025_command)


class DubeyItem(StrEnum):
    """Figures and tables of Dubey2021."""

    figure1 = "figure1"
    figure2 = "figure2"
    table1 = "table1"
    robustness = "robustness"
    targets = "targets"


@app.callback()
def _group() -> None:
    """Keeps each paper a subcommand."""


@app.command("dubey2021")
def dubey2021_command(
    *,
    item: Annotated[DubeyItem, typer.Argument(help="Which figure or table.")],
    reps: Reps = 20,
    seed: Seed = 1_000_000,
    jobs: Jobs = 1,
    out: Out = None,
    as_json: AsJson = False,
    columns: Columns = None,
    worlds: Worlds = None,
) -> None:
    """Figures 1 (epsilon) and 2 (delta) and Table 1 of Dubey2021, worlds to be robust in, and targets.

    Regret summed over the horizon, with standard errors over seeds. Started again with the same --out,
    it runs only what is missing; with --column or --world, other rows stay as they are there.
    """
    name: dubey2021.Item = item.value
    with progress_bar() as bar:
        running = bar.add_task(f"dubey2021 {name}", total=None)
        results = dubey2021.run_item(
            name,
            reps=reps,
            seed=seed,
            jobs=jobs,
            out=out,
            columns=columns,
            worlds=worlds,
            progress=lambda done, total: bar.update(running, completed=done, total=total),
        )
    if out is not None:
        write_results(name, results, out)
    if as_json:
        typer.echo(json.dumps(rows_of(name, results)))
        return
    table = Table(title=f"Dubey2021, {name}: regret, {reps} seeds from {seed}", caption=BANNER)
    for heading in ("world", "policy", "epsilon", "delta", "regret", "s.e.", "median", "paper", "verdict"):
        table.add_column(heading, justify="left" if heading in ("world", "policy", "verdict") else "right")
    for result in results:
        cell = result.cell
        table.add_row(
            cell.world,
            cell.column,
            "" if cell.epsilon is None else f"{cell.epsilon:g}",
            "" if cell.delta is None else f"{cell.delta:g}",
            f"{result.regret:.0f}",
            f"{result.standard_error:.1f}",
            f"{result.median:.0f}",
            "not printed",
            verdict(result),
        )
    console().print(table)

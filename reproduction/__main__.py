"""`python -m reproduction PAPER ITEM`: run a figure, table or check of a paper.

Without arguments it lists the papers and their items. `make reproduce ARGS="..."` calls it.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from dpbandits.cli.console import console, guarded
from dpbandits.cli.options import AsJson, Jobs
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.study import Row
from reproduction import PAPERS, study
from reproduction.experiments import Choice, Item

__all__ = ["app"]

_Several = list[str] | None

app = typer.Typer(
    name="python -m reproduction",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command()
def reproduce(
    *,
    paper: Annotated[str | None, Argument(help=f"{', '.join(PAPERS)}; without one, a list.")] = None,
    item: Annotated[str | None, Argument(help="Which figure or table of it; without one, a list.")] = None,
    reps: Annotated[
        int | None, Option(min=2, help="Repetitions of every cell; by default the item's own.")
    ] = None,
    seed: Annotated[int | None, Option(help="First seed; report seeds start at 1,000,000.")] = None,
    jobs: Jobs = 1,
    cluster: Annotated[
        str | None, Option(help="Dask scheduler that runs it: tcp://HOST:PORT, or local:WORKERS.")
    ] = None,
    resume: Annotated[
        bool | None,
        Option("--resume/--fresh", help="Go on from the records in --out, as by default, or run all again."),
    ] = None,
    everything: Annotated[bool, Option("--list", help="Name every item, and run nothing.")] = False,
    out: Annotated[Path | None, Option(help="Folder for results (resumed from there) and pictures.")] = None,
    as_json: AsJson = False,
    columns: Annotated[_Several, Option("--column", help="Only this policy, method or case; repeat.")] = None,
    published: Annotated[
        bool, Option("--published", help="Only the paper's own method, and any --column beside it.")
    ] = False,
    worlds: Annotated[_Several, Option("--world", help="Only this world, table or setting; repeat.")] = None,
    epsilons: Annotated[list[float] | None, Option("--epsilon", help="Only this one; repeat.")] = None,
    rounds: Annotated[list[int] | None, Option(min=1, help="Only this T or n; repeat.")] = None,
    where: Annotated[
        _Several, Option(help="Only this value of a cell's field: delta=0.1, sources.0.gamma=2; repeat.")
    ] = None,
) -> None:
    """Run a figure or table of a paper, its own numbers beside ours where they measure the same.

    Started again with the same --out, it runs only what is missing; of an item that is run in parts
    (--column, --world, ...) other rows stay as they are there.
    """
    if everything or paper is None or item is None:
        _print_items(paper, as_json=as_json)
        return
    if resume is not None and out is None:
        raise InvalidParameter("--resume and --fresh are of the records in a folder: name it with --out")
    experiments = study(paper)
    what = experiments.item(item)
    if published:
        columns = [*experiments.published, *(columns or [])]
    rows, whole = experiments.run(
        item,
        choice=Choice(
            columns=columns, worlds=worlds, epsilons=epsilons, rounds=rounds, where=_values(where or [])
        ),
        reps=reps,
        seed=seed,
        jobs=jobs,
        cluster=cluster,
        resume=resume is not False,
        out=out,
        progress=True,
    )
    if as_json:
        typer.echo(json.dumps(whole))
        return
    console().print(_table(f"{experiments.title}, {item}: {experiments.measured}", what, rows))


def _table(title: str, item: Item, rows: list[Row]) -> Table:
    counts: Any = {"repetitions": rows[0].get("reps"), "seeds from": rows[0].get("first_seed")}
    known = [f"{name} {value}" for name, value in counts.items() if value is not None]
    table = Table(title=", ".join([title, *known]), caption=BANNER)
    for name, form in item.columns.items():
        table.add_column(name.replace("_", " "), justify="right" if form else "left")
    for row in rows:
        table.add_row(*item.text_of(row))
    return table


def _values(said: list[str]) -> dict[str, Any]:
    """NAME=VALUE, where a value that is JSON is that, and else text."""
    found: dict[str, Any] = {}
    for text in said:
        name, between, value = text.partition("=")
        if not (name and between) or name in found:
            raise InvalidParameter(f"--where {text!r}: expected NAME=VALUE, every name once")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _print_items(paper: str | None, *, as_json: bool) -> None:
    lines = [
        (name, item, what.about)
        for name in (PAPERS if paper is None else (paper,))
        for item, what in study(name).items.items()
    ]
    if as_json:
        typer.echo(json.dumps([dict(zip(("paper", "item", "what"), line, strict=True)) for line in lines]))
        return
    table = Table("paper", "item", "what", title="python -m reproduction PAPER ITEM")
    for line in lines:
        table.add_row(*line)
    console().print(table)


if __name__ == "__main__":
    guarded(app)

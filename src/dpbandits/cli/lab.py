"""`dpbandits lab`: where nobody is protected.

`lab study PAPER ITEM`: the experiments of the papers. `lab compare STUDY.toml`: any policies in any worlds.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from typer import Argument, Option

from dpbandits.cli.console import console
from dpbandits.cli.options import AsJson, Jobs
from dpbandits.errors import InvalidParameter
from dpbandits.lab import papers

if TYPE_CHECKING:
    from dpbandits.lab.study import Item, Row

__all__ = ["app"]

_Several = list[str] | None

app = typer.Typer(help="Experiments, where nobody is protected.", no_args_is_help=True)


@app.command()
def study(
    *,
    paper: Annotated[str | None, Argument(help=f"{', '.join(papers.PAPERS)}; without one, a list.")] = None,
    item: Annotated[str | None, Argument(help="Which figure or table of it; without one, a list.")] = None,
    reps: Annotated[int | None, Option(min=2, help="Of every cell; by default the item's own.")] = None,
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
    from dpbandits.lab.study import Choice

    if everything or paper is None or item is None:
        _print_items(paper, as_json=as_json)
        return
    if resume is not None and out is None:
        raise InvalidParameter("--resume and --fresh are of the records in a folder: name it with --out")
    experiments = papers.study(paper)
    what = experiments.item(item)
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


@app.command()
def compare(
    study: Annotated[Path, Argument(help="TOML file of worlds, policies, epsilons, people and reps.")],
    *,
    out: Annotated[Path, Option(help="Folder for the table and the pictures; runs that it holds are kept.")],
    reps: Annotated[int | None, Option(min=1, help="Of every cell, instead of the file's.")] = None,
    seed: Annotated[int | None, Option(help="First seed, instead of the file's.")] = None,
    jobs: Jobs = 1,
    cluster: Annotated[
        str | None, Option(help="Dask scheduler that runs it: tcp://HOST:PORT, or local:WORKERS.")
    ] = None,
    fresh: Annotated[bool, Option("--fresh", help="Run all again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run policies in worlds, and write runs.parquet, means.json and pictures.

    Started again with the same --out, it runs only what is missing. Modules that the file names are run.
    """
    from dpbandits.lab.comparing import compare as compared
    from dpbandits.lab.comparing import study_in
    from dpbandits.lab.evaluation import BANNER

    said = study_in(study) | {name: n for name, n in (("reps", reps), ("seed", seed)) if n is not None}
    found = compared(**said, jobs=jobs, cluster=cluster, out=out, resume=not fresh, progress=True)
    rows = found.means()
    if as_json:
        typer.echo((out / "means.json").read_text(encoding="utf-8"), nl=False)
        return
    names = ("world", "people", "policy", "epsilon", "reward", "share", "seconds")
    table = Table(*names, title=f"means of {rows[0]['reps']} runs", caption=BANNER)
    for row in rows:
        table.add_row(*(_cell(row, name) for name in names))
    console().print(table)


def _cell(row: "Row", name: str) -> str:
    """A mean with its standard error, or what the row says."""
    value, error = row.get(name), row.get(f"{name}_error")
    if isinstance(value, float):
        return f"{value:.4g}" if error is None or not error > 0 else f"{value:.4f} ± {error:.4f}"
    return "" if value is None else str(value)


def _table(title: str, item: "Item", rows: "list[Row]") -> Table:
    from dpbandits.lab.evaluation import BANNER

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
        for name in (papers.PAPERS if paper is None else (paper,))
        for item, what in papers.study(name).items.items()
    ]
    if as_json:
        typer.echo(json.dumps([dict(zip(("paper", "item", "what"), line, strict=True)) for line in lines]))
        return
    table = Table("paper", "item", "what", title="dpbandits lab study PAPER ITEM")
    for line in lines:
        table.add_row(*line)
    console().print(table)

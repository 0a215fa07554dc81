"""`dpbandits lab`: experiments that protect nobody.

`lab compare STUDY.toml` runs any policies in any worlds.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from typer import Argument, Option

from dpbandits.cli.console import console
from dpbandits.cli.options import AsJson, Jobs

if TYPE_CHECKING:
    from dpbandits.lab.study import Row

__all__ = ["app"]

app = typer.Typer(help="Experiments, where nobody is protected.", no_args_is_help=True)


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

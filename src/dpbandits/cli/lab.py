"""`dpbandits lab compare STUDY.toml`: policies compared in simulated or recorded worlds.

Results of these experiments are not protected.
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

app = typer.Typer(help="Simulated experiments. They protect nobody.", no_args_is_help=True)


@app.command()
def compare(
    study: Annotated[
        Path, Argument(help="TOML file with worlds, policies, epsilons, numbers of users and repetitions.")
    ],
    *,
    out: Annotated[
        Path, Option(help="Folder for results and pictures. Runs with a result in it are not run again.")
    ],
    reps: Annotated[
        int | None, Option(min=1, help="Repetitions of every combination. Default: the file's.")
    ] = None,
    seed: Annotated[int | None, Option(help="First seed. Default: the file's.")] = None,
    jobs: Jobs = 1,
    cluster: Annotated[
        str | None,
        Option(help="Dask scheduler: tcp://HOST:PORT, or local:WORKERS. Default: processes by --jobs."),
    ] = None,
    fresh: Annotated[bool, Option("--fresh", help="Run everything again, also runs with a result.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare policies in worlds, and write runs.parquet, means.json and pictures.

    The command imports, and so runs, the Python modules that the file names.
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
    value, error = row.get(name), row.get(f"{name}_error")
    if isinstance(value, float):
        return f"{value:.4g}" if error is None or not error > 0 else f"{value:.4f} ± {error:.4f}"
    return "" if value is None else str(value)

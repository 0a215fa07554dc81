"""`dpbandits export sql`: a published policy as a statement for a database."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

__all__ = ["app"]

Dialect = Literal["duckdb", "postgres", "spark"]
"""Databases of `dpbandits.export.to_sql`; importing its module would load NumPy for the help."""

app = typer.Typer(help="Write a published policy for other runtimes.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Do nothing: a callback keeps `sql` a subcommand although it is the only one."""


@app.command()
def sql(
    policy: Annotated[Path, Argument(help="Folder of a published policy.")],
    *,
    dialect: Annotated[Dialect, Option(help="Database that shall run the statement.")] = "duckdb",
    table: Annotated[str, Option(help="Name of the table or view with the columns of contexts.")] = "people",
    decision: Annotated[str, Option(help="Name of the column of arms in the result.")] = "decision",
    fallback: Annotated[
        str | None, Option(help="Arm of a person whose context cannot be read. Default: NULL.")
    ] = None,
) -> None:
    """Print a SELECT statement that gives every row of a table its arm, as `predict` does."""
    from dpbandits.central import PublishedFunction

    function = PublishedFunction.load(policy)
    arm = None
    if fallback is not None and function.menu is not None:
        [place] = function.menu.arms.codes([fallback]).tolist()
        arm = function.arms[place] if place >= 0 else fallback
    sys.stdout.write(function.to_sql(dialect, table=table, decision=decision, fallback=arm))

"""What goes to people goes through here: tables and JSON to stdout, progress and errors to stderr."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

__all__ = ["console", "error_console", "numbers_table", "print_json", "progress"]


def console() -> Console:
    """Standard output."""
    return Console(highlight=False)


def error_console() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def print_json(values: object) -> None:
    """Values to standard output, for programs."""
    typer.echo(json.dumps(values, indent=2, allow_nan=False))


def numbers_table(*columns: str, title: str, **options: Any) -> Table:
    """A table whose columns hold numbers, all but the first."""
    table = Table(*columns, title=title, **options)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


@contextmanager
def progress(what: str, *, total: int | None = None, completed: int = 0) -> Iterator[Callable[..., None]]:
    """A bar with the time left, on standard error, gone when it is done; silent where nobody watches.

    Gives what moves it: `moved(advance=1)`, `moved(completed=3, total=9)`, `moved(description="rest")`.
    """
    stderr = error_console()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=stderr, transient=True, disable=not stderr.is_terminal) as bar:
        yield partial(bar.update, bar.add_task(what, total=total, completed=completed))

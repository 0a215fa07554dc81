"""Output of the commands: tables and JSON go to stdout, progress and errors to stderr.

Every command runs in `guarded`, which turns an error into one line on standard error and an exit status.

======  =============================================================================================
status  meaning
======  =============================================================================================
0       success
1       refused by the library or the system: the line says why and what to do; or an audit's verdict is
        unexpected; or standard output was closed, which prints nothing
2       the command line has a wrong command, option or value
3       no audit's verdict is unexpected, and some audits had too few samples to decide
70      a defect of dpbandits. The line names the type and place of the error; the error's own text could
        hold data and is not shown
130     interrupted with Ctrl-C
======  =============================================================================================
"""

import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpbandits.errors import DPBanditsError, InvalidParameter

__all__ = [
    "console",
    "drop_output",
    "error_console",
    "guarded",
    "new_file",
    "new_folder",
    "numbers_table",
    "print_json",
]

TRACEBACK = "DPBANDITS_TRACEBACK"
"""Environment variable for developers: if it is set, Python's tracebacks are printed."""

REFUSED, DEFECT, INTERRUPTED = 1, 70, 130


def guarded(command: Callable[[], object]) -> None:
    """Run a command and exit with its status; the module's table lists the statuses.

    If the environment variable DPBANDITS_TRACEBACK is set, errors are not caught. Tracebacks can hold data.
    """
    if hasattr(sys.stdout, "reconfigure"):  # escape characters that the terminal's encoding lacks
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        # PYTHONWARNINGS=error would turn a warning into an error, and so into status 70.
        warnings.simplefilter("default", UserWarning)
        if os.environ.get(TRACEBACK):
            command()
            return
        status = _status_of(command)
    sys.exit(status)


def _status_of(command: Callable[[], object]) -> int | str | None:
    status: int | str | None = 0
    try:
        try:
            command()
        except SystemExit as left:
            status = left.code
        sys.stdout.flush()
    except DPBanditsError as error:
        _say(type(error).__name__, str(error))
        return REFUSED
    except BrokenPipeError:
        drop_output()
        return status or REFUSED
    except OSError as error:
        drop_output()
        where = "" if error.filename is None else f"{error.filename}: "
        _say(type(error).__name__, f"{where}{error.strerror or 'cannot be reached'}")
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except MemoryError:
        _say("MemoryError", "this needs more memory than there is")
        return REFUSED
    except Exception as error:  # noqa: BLE001 - the text of an unexpected error could hold data
        _say(
            type(error).__name__,
            f"a defect of dpbandits, in {_place(error)}. Its text is not shown, as it could hold data; "
            f"{TRACEBACK}=1 shows all of it to a developer",
        )
        return DEFECT
    return status


def _say(kind: str, text: str) -> None:
    shown = "".join(mark if mark.isprintable() else " " for mark in text)
    with suppress(OSError):  # standard error is closed
        error_console().print(f"[bold red]{kind}[/]: {escape(' '.join(shown.split()))}", soft_wrap=True)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a warning of this library as one line. Of other warnings, print only the type."""
    from dpbandits.privacy.definitions import DPBanditsWarning

    _say("Warning", str(message) if issubclass(category, DPBanditsWarning) else category.__name__)


def _place(error: BaseException) -> str:
    names = [
        f"{name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if (name := str(frame.f_globals.get("__name__"))).startswith("dpbandits.")
    ]
    return names[-1] if names else "a library"


def drop_output() -> None:
    """Discard what standard output still buffers, so that a closed pipe causes no error at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def new_file(path: Path, option: str) -> None:
    """Raise InvalidParameter unless a new file can be created at the path. Call it before computing."""
    if path.exists() or path.is_symlink():
        raise InvalidParameter(f"{option} {path}: this file exists and is not overwritten: name another")
    _check_writable(path.absolute().parent, option, path)


def new_folder(path: Path, option: str, *, holding: Iterable[str], force: bool) -> None:
    """Raise InvalidParameter unless these files can be created in a folder, or replaced because of `force`.

    The folder may be missing; then its nearest existing parent must be writable.
    """
    if not force and any((path / name).exists() for name in holding):
        raise InvalidParameter(
            f"{option} {path}: this folder has an earlier result, which is not overwritten: name another "
            "folder, or pass --force"
        )
    parent = path.absolute()
    while not parent.exists():
        parent = parent.parent
    _check_writable(parent, option, path)


def _check_writable(folder: Path, option: str, path: Path) -> None:
    if not folder.is_dir():
        raise InvalidParameter(f"{option} {path}: {folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidParameter(f"{option} {path}: no permission to write to {folder}")


def console() -> Console:
    """Return a console that prints to standard output."""
    return Console(highlight=False)


def error_console() -> Console:
    """Return a console that prints to standard error."""
    return Console(stderr=True, highlight=False)


def print_json(values: object) -> None:
    """Print values as JSON to standard output."""
    typer.echo(json.dumps(values, indent=2, allow_nan=False))


def numbers_table(*columns: str, title: str, **options: Any) -> Table:
    """Return a table whose first column holds labels and whose other columns hold numbers."""
    table = Table(*columns, title=title, **options)
    for column in table.columns[1:]:
        column.justify = "right"
    return table

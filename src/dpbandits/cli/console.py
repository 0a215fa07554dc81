"""Output of the commands: tables and JSON go to stdout, progress and errors to stderr.

Every command runs in `guarded`: whatever goes wrong is one line on standard error, and an exit status.

======  =============================================================================================
status  what happened
======  =============================================================================================
0       done
1       refused, by the library or by the system: the line says what and what to do. Also an audit that
        came out otherwise than it should; and, silently, a reader of standard output that went away
2       the command's words are wrong
70      a defect of dpbandits: the line names the kind of error and the place, and none of its text, which
        could hold data
130     stopped with Ctrl-C
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
"""Environment variable of developers: errors come as Python prints them."""

REFUSED, DEFECT, INTERRUPTED = 1, 70, 130


def guarded(command: Callable[[], object]) -> None:
    """Run a command and leave with its exit status; see this file's page.

    With the environment variable DPBANDITS_TRACEBACK errors pass as they are: tracebacks can hold data.
    """
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal cannot show is no reason to stop
        sys.stdout.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        warnings.simplefilter("default", UserWarning)  # PYTHONWARNINGS=error makes no defect of a warning
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
    except Exception as error:  # noqa: BLE001 - whatever it is, its text must not be shown
        _say(
            type(error).__name__,
            f"a defect of dpbandits, in {_place(error)}. Its text is not shown, as it could hold data; "
            f"{TRACEBACK}=1 shows all of it to a developer",
        )
        return DEFECT
    return status


def _say(kind: str, text: str) -> None:
    """One line on standard error, whatever the text holds."""
    shown = "".join(mark if mark.isprintable() else " " for mark in text)
    with suppress(OSError):  # nobody listens
        error_console().print(f"[bold red]{kind}[/]: {escape(' '.join(shown.split()))}", soft_wrap=True)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """The library's warnings as one line each; of others the kind."""
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
    """Discard the rest of the buffer of standard output, which is no error at exit."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def new_file(path: Path, option: str) -> None:
    """Raise InvalidParameter, before anything is computed, unless a new file can be made at the path."""
    if path.exists() or path.is_symlink():
        raise InvalidParameter(f"{option} {path}: is there already, and nothing is overwritten: name another")
    _check_writable(path.absolute().parent, option, path)


def new_folder(path: Path, option: str, *, holding: Iterable[str], force: bool) -> None:
    """Raise InvalidParameter unless files of these names can be made in a folder, or replaced by `force`."""
    if not force and any((path / name).exists() for name in holding):
        raise InvalidParameter(
            f"{option} {path}: holds an earlier result, which is not overwritten: name another folder, or "
            "pass --force"
        )
    held = path.absolute()
    while not held.exists():
        held = held.parent
    _check_writable(held, option, path)


def _check_writable(folder: Path, option: str, path: Path) -> None:
    if not folder.is_dir():
        raise InvalidParameter(f"{option} {path}: {folder} is no folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InvalidParameter(f"{option} {path}: {folder} cannot be written to")


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

"""Output of the command `dpbandits`, for the page on the command line."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from dpbandits.cli import app

_PROGRAM = Path(sys.executable).with_name("dpbandits")
_PLAIN = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}


def show(*words: str) -> None:
    """Run `dpbandits` with these words, and print the command and its output."""
    done = subprocess.run(  # noqa: S603 (the words are those of the page)
        [_PROGRAM, *words], check=True, capture_output=True, text=True, env=_PLAIN
    )
    sys.stdout.write(f"$ dpbandits {' '.join(words)}\n{done.stdout}\n")


def show_help() -> None:
    """Print the help of every command that is no group."""
    for words in _commands(get_command(app)):
        show(*words, "--help")


def _commands(command: Any, *words: str) -> Iterator[tuple[str, ...]]:
    if not hasattr(command, "commands"):
        yield words
    for name in getattr(command, "commands", ()):
        yield from _commands(command.resolve_command(None, [name])[1], *words, name)

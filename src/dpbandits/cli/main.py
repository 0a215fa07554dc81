"""The application: finds a command's file when it is asked for, and guards it."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpbandits import __version__
from dpbandits.cli.console import guarded

__all__ = ["app", "main"]

_COMMANDS = {
    "run": "run:run",
    "calibrate": "promise:calibrate",
    "guarantee": "promise:guarantee",
    "audit": "audit:audit",
    "central": "central:app",
    "local": "local:app",
    "outsourced": "outsourced:app",
    "lab": "lab:app",
}
"""Command -> file:name of its function, or of a room's group of commands; loaded on first use."""


class _Commands(TyperGroup):
    """Loads one command's file, not all: `dpbandits --version` answers at once."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        # a wrong name loads all: they are what the nearest is looked for among
        for name in [cmd_name] if cmd_name in _COMMANDS else _COMMANDS:
            if name not in self.commands:
                self.commands[name] = _loaded(name)
        return self.commands.get(cmd_name)


def _loaded(name: str) -> Any:
    file, _, attribute = _COMMANDS[name].partition(":")
    found = getattr(import_module(f"dpbandits.cli.{file}"), attribute)
    holder = typer.Typer(add_completion=False)
    holder.callback()(_nothing)
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name)
    else:
        holder.command(name)(found)
    return typer.main.get_command(holder).commands[name]  # type: ignore[attr-defined]  # a group: it has a callback


def _nothing() -> None:
    """Makes a group of an application with one command."""


app = typer.Typer(
    cls=_Commands,
    name="dpbandits",
    help="Private decisions: bandits that provably do not give away the people they learn from.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(value: bool) -> None:  # noqa: FBT001  # typer's callback signature
    if value:
        typer.echo(f"dpbandits {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Options before the command."""


def main() -> None:
    """Entry point of the `dpbandits` command; see `dpbandits.cli.console` for what it exits with."""
    guarded(app)

"""The application: finds a command's file when it is asked for, and guards it."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from dpbandits import __version__
from dpbandits.cli.console import guarded

__all__ = ["app", "main"]

_COMMANDS = {
    "run": (
        "run:run",
        "Decide privately about a table of people; show what it costs, attack it, and write a report.",
    ),
    "schema": (
        "schema:schema",
        "Write a first TOML file for a table, to be corrected by what is known without the data.",
    ),
    "plan": ("plan:plan", "Say what privacy will cost, per trust model, before a single person is asked."),
    "calibrate": ("promise:calibrate", "How much noise a promise needs."),
    "guarantee": (
        "promise:guarantee",
        "Print the statement of a configured policy, from its public parameters alone.",
    ),
    "audit": (
        "audit:audit",
        "Prove privacy loss from below, through the public calls and with the real noise.",
    ),
    "central": ("central:app", "One trusted server: learn from a log once, and publish."),
    "local": ("local:app", "Local privacy: people decide on their own device."),
    "outsourced": ("outsourced:app", "A table's owner releases it once, and a stranger optimises."),
    "lab": ("lab:app", "Experiments, where nobody is protected."),
    "service": (
        "service:app",
        "Commands on the data of a service: backups, copies, moves, counts, tokens, the clock.",
    ),
    "serve": (
        "service:serve",
        "Serve private decisions over HTTP, from a folder or PostgreSQL, until it is stopped.",
    ),
}
"""Command -> file:name of its function, or of a room's group of commands, and its line in the list.

The file is loaded when the command is asked for; the list needs none.
"""


class _Commands(TyperGroup):
    """Knows all commands by their lines, and loads the file of the one that is asked for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _loaded(name), rest


def _loaded(name: str) -> Any:
    file, _, attribute = _COMMANDS[name][0].partition(":")
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
    help="Contextual bandits and Bayesian optimisation with differential privacy.",
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


for _name, (_, _line) in _COMMANDS.items():
    app.command(_name, help=_line)(_nothing)


def main() -> None:
    """Entry point of the `dpbandits` command; see `dpbandits.cli.console` for what it exits with."""
    guarded(app)

"""The application. It loads a command's file when the command is called, and reports errors."""

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
        "Simulate a private policy on a table: report its cost, its guarantee and an attack on it.",
    ),
    "schema": (
        "schema:schema",
        "Write a first TOML file that describes a table, from a public sample of its rows.",
    ),
    "plan": (
        "plan:plan",
        "Predict the cost of privacy under each trust model, before any data is collected.",
    ),
    "calibrate": ("promise:calibrate", "Print the noise that a privacy promise needs."),
    "guarantee": (
        "promise:guarantee",
        "Print the privacy statement of a configured policy, as text, HTML or PDF. No data is read.",
    ),
    "audit": (
        "audit:audit",
        "Measure lower bounds of the privacy loss, through the public interface and with the real noise.",
    ),
    "central": ("central:app", "Trusted server: learn a policy from logged data, and publish it once."),
    "local": ("local:app", "Local privacy: every user decides and adds noise on their own device."),
    "outsourced": (
        "outsourced:app",
        "Outsourced optimisation: a curator releases a table once, and a modeler optimises over it.",
    ),
    "export": ("export:app", "Write a published policy for other runtimes."),
    "lab": ("lab:app", "Simulated experiments. They protect nobody."),
    "service": (
        "service:app",
        "Administer a service's data: backups, copies, moves, counts, tokens, the clock.",
    ),
    "serve": (
        "service:serve",
        "Serve private decisions over HTTP, from a folder or PostgreSQL, until the process is stopped.",
    ),
}
"""Command -> (file:name of its function or group, its line in the list of commands).

The list of commands is printed without loading these files, because some import slow packages.
"""


class _Commands(TyperGroup):
    """Group that lists all commands and loads the file of the one that is called."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        return name, None if name is None else _loaded(name), rest


def _loaded(name: str) -> Any:
    file, _, attribute = _COMMANDS[name][0].partition(":")
    found = getattr(import_module(f"dpbandits.cli.{file}"), attribute)
    group = typer.Typer(add_completion=False)
    group.callback()(_nothing)
    if isinstance(found, typer.Typer):
        group.add_typer(found, name=name)
    else:
        group.command(name)(found)
    return typer.main.get_command(group).commands[name]  # type: ignore[attr-defined]  # it has a callback


def _nothing() -> None:
    """Do nothing: a callback makes Typer treat an application with one command as a group."""


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
    """Declare the options that stand before the command."""


for _name, (_, _line) in _COMMANDS.items():
    app.command(_name, help=_line)(_nothing)


def main() -> None:
    """Run the `dpbandits` command. `dpbandits.cli.console` lists its exit statuses."""
    guarded(app)

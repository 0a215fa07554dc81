"""The application: mounts the commands, and turns the library's errors into one clear line."""

import sys
from typing import Annotated

import typer
from rich.markup import escape

from dpbandits import __version__
from dpbandits.cli import central as usca
from dpbandits.cli import local, outsourced, study
from dpbandits.cli.audit import audit
from dpbandits.cli.calibrate import calibrate
from dpbandits.cli.console import error_console
from dpbandits.cli.guarantee import guarantee
from dpbandits.cli.run import run
from dpbandits.errors import DPBanditsError

__all__ = ["app", "main"]

app = typer.Typer(
    name="dpbandits",
    help="Private decisions: bandits that provably do not give away the people they learn from.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.add_typer(calibrate, name="calibrate")
app.command()(guarantee)
app.command()(audit)
app.add_typer(local.app, name="local")
app.add_typer(study.app, name="study")
outsourced.register(app)
usca.register(app)


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
    """Entry point of the `dpbandits` command: an error of the library is one line and exit status 1."""
    try:
        app()
    except DPBanditsError as error:
        name = type(error).__name__
        error_console().print(f"[bold red]{name}[/]: {escape(str(error))}", soft_wrap=True)
        sys.exit(1)

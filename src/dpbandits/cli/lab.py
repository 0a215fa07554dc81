"""`dpbandits lab`: what experimenters run; nobody is protected."""

import typer

from dpbandits.cli import study

__all__ = ["app"]

app = typer.Typer(help="Experiments: the papers, and what came of them.", no_args_is_help=True)
app.add_typer(study.app, name="study")


@app.callback()
def _group() -> None:
    """Keeps `study` a subcommand while it is the only one."""

"""`dpbandits calibrate`: how much noise a promise needs."""

import json
from typing import Annotated

import typer
from rich.table import Table

from dpbandits.cli.console import console
from dpbandits.privacy.calibration import calibrate_gaussian

__all__ = ["calibrate"]

calibrate = typer.Typer(help="How much noise a promise needs.", no_args_is_help=True)


@calibrate.callback()
def _group() -> None:
    """Keeps `gaussian` a subcommand while it is the only one."""


@calibrate.command()
def gaussian(
    epsilon: Annotated[float, typer.Option(help="Privacy loss, above 0.")],
    delta: Annotated[float, typer.Option(help="Probability outside the epsilon bound, in (0, 1).")],
    sensitivity: Annotated[float, typer.Option(help="Largest Euclidean change one user can make.")] = 1.0,
    releases: Annotated[int, typer.Option(help="Releases that share the promise.")] = 1,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Standard deviation of Gaussian noise for (epsilon, delta), by both certificates.

    `sigma` belongs to real-valued Gaussian noise (Gaussian differential privacy, exact). `sigma_discrete`
    belongs to discrete Gaussian noise (zero-concentrated differential privacy, tight conversion): it is what
    the enforced guarantees of this library rest on unless they say otherwise.
    """
    values = calibrate_gaussian(epsilon, delta, sensitivity, releases)
    if as_json:
        typer.echo(json.dumps(values, indent=2))
        return
    table = Table(title=f"({epsilon:g}, {delta:g}), sensitivity {sensitivity:g}, {releases} release(s)")
    table.add_column("certificate")
    table.add_column("parameter", justify="right")
    table.add_column("sigma", justify="right")
    table.add_row("Gaussian DP, real-valued noise", f"mu = {values['mu']:.6g}", f"{values['sigma']:.6g}")
    table.add_row(
        "zero-concentrated DP, discrete noise",
        f"rho = {values['rho']:.6g}",
        f"{values['sigma_discrete']:.6g}",
    )
    console().print(table)

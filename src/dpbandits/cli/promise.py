"""`dpbandits calibrate` and `guarantee`: what a promise costs, and what it says, before any data."""

import math
import tomllib
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from dpbandits._reading import json_object, reading
from dpbandits.cli.console import console, numbers_table, print_json
from dpbandits.cli.options import AsJson
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits.policy.kept import KeptPolicy

__all__ = ["calibrate", "guarantee"]

_ROOMS_OF_POLICIES = ("central", "central.published", "lab.baselines")

calibrate = typer.Typer(help="How much noise a promise needs.", no_args_is_help=True)


@calibrate.callback()
def _group() -> None:
    """Keeps `gaussian` a subcommand while it is the only one."""


@calibrate.command()
def gaussian(
    epsilon: Annotated[float, Option(help="Privacy loss, above 0.")],
    delta: Annotated[float, Option(help="Probability outside the epsilon bound, in (0, 1).")],
    sensitivity: Annotated[float, Option(help="Largest Euclidean change one user can make.")] = 1.0,
    releases: Annotated[int, Option(help="Releases that share the promise.")] = 1,
    *,
    as_json: AsJson = False,
) -> None:
    """Standard deviation of Gaussian noise for (epsilon, delta), by both certificates.

    `sigma` belongs to real-valued Gaussian noise (Gaussian differential privacy, exact). `sigma_discrete`
    belongs to discrete Gaussian noise (zero-concentrated differential privacy, tight conversion): it is what
    the enforced guarantees of this library rest on unless they say otherwise.
    """
    from dpbandits.privacy.calibration import calibrate_gaussian

    values = calibrate_gaussian(epsilon, delta, sensitivity, releases)
    if not all(math.isfinite(value) for value in values.values()):
        raise InvalidParameter(f"sensitivity {sensitivity:g}: so large that no noise would be enough")
    if as_json:
        print_json(values)
        return
    title = f"({epsilon:g}, {delta:g}), sensitivity {sensitivity:g}, {releases} release(s)"
    table = numbers_table("certificate", "parameter", "sigma", title=title)
    for certificate, symbol, sigma in (
        ("Gaussian DP, real-valued noise", "mu", "sigma"),
        ("zero-concentrated DP, discrete noise", "rho", "sigma_discrete"),
    ):
        table.add_row(certificate, f"{symbol} = {values[symbol]:.6g}", f"{values[sigma]:.6g}")
    console().print(table)


def guarantee(
    config: Annotated[Path, Argument(help="A policy's configuration: .json, as to_config has it, or .toml.")],
    *,
    as_json: AsJson = False,
) -> None:
    """Print the statement of a configured policy, from its public parameters alone."""
    parameters = _read_config(config)
    policies = _policies()
    by_kind = {policy.kind: policy for policy in policies.values()}  # as to_config calls them
    kind = parameters.get("policy")
    policy_class = {**by_kind, **policies}.get(kind) if isinstance(kind, str) else None
    if policy_class is None:
        raise InvalidParameter(f"{config}: key 'policy' must be one of {', '.join(policies)}")
    promised = policy_class.from_config({**parameters, "policy": policy_class.kind}).guarantee
    typer.echo(promised.to_json() if as_json else promised.explain())


def _policies() -> "dict[str, type[KeptPolicy]]":
    """Every policy, by the name that people import."""
    from dpbandits.policy.kept import KeptPolicy

    rooms = {room: import_module(f"dpbandits.{room}") for room in _ROOMS_OF_POLICIES}
    listed = {
        f"{room}.{name}": getattr(module, name) for room, module in rooms.items() for name in module.__all__
    }
    return {
        name: one for name, one in listed.items() if isinstance(one, type) and issubclass(one, KeptPolicy)
    }


def _read_config(path: Path) -> dict[str, Any]:
    """A configuration file as a dictionary; InvalidParameter for whatever is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path}: cannot be read as text") from error
    if path.suffix == ".json":
        return json_object(text, f"a configuration in {path.name}")
    if path.suffix == ".toml":
        with reading(f"a configuration in {path.name}"):
            return tomllib.loads(text)
    raise InvalidParameter(f"{path}: expected a .json or .toml file")

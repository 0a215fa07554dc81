"""`dpbandits guarantee CONFIG`: what a policy will promise, before any data."""

import json
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from dpbandits import central
from dpbandits.errors import InvalidParameter
from dpbandits.lab import baselines
from dpbandits.policy import BasePolicy

__all__ = ["guarantee", "read_config"]

_ROOMS = (central, baselines)
"""Importing the rooms fills the registry of policies."""


def guarantee(
    config: Annotated[
        Path, typer.Argument(help="A policy's configuration: .json, as to_config writes it, or .toml.")
    ],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the guarantee as JSON.")] = False,
) -> None:
    """Print the statement of a configured policy, from its public parameters alone."""
    parameters = read_config(config)
    kind = parameters.get("policy")
    policy_class = BasePolicy.registry.get(kind) if isinstance(kind, str) else None
    if policy_class is None:
        known = ", ".join(sorted(BasePolicy.registry))
        raise InvalidParameter(f"{config}: key 'policy' must be one of {known}")
    promised = policy_class.from_config(parameters).guarantee
    typer.echo(promised.to_json() if as_json else promised.explain())


def read_config(path: Path) -> dict[str, Any]:
    """A configuration file as a dictionary.

    Raises:
        InvalidParameter: no such file, another suffix, or not a table of keys.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path}: cannot be read as text") from error
    try:
        if path.suffix == ".toml":
            return tomllib.loads(text)
        if path.suffix == ".json":
            values = json.loads(text)
            if isinstance(values, dict):
                return values
            raise InvalidParameter(f"{path}: expected a JSON object at the top")
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise InvalidParameter(f"{path}: {error}") from error
    raise InvalidParameter(f"{path}: expected a .json or .toml file")

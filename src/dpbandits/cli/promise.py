"""`dpbandits calibrate` and `guarantee`: the noise that a promise needs, and its statement, without data."""

import json
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
from dpbandits.privacy.pages import Paper

if TYPE_CHECKING:
    from dpbandits.policy.kept import KeptPolicy
    from dpbandits.privacy import Guarantee

__all__ = ["calibrate", "guarantee"]

_PACKAGES = ("central", "central.published", "lab.baselines")
"""Packages that export policies."""

calibrate = typer.Typer(help="Print the noise that a privacy promise needs.", no_args_is_help=True)


@calibrate.callback()
def _group() -> None:
    """Do nothing: a callback keeps `gaussian` a subcommand although it is the only one."""


@calibrate.command()
def gaussian(
    epsilon: Annotated[float, Option(help="Privacy loss, above 0.")],
    delta: Annotated[float, Option(help="Probability with which the epsilon bound may fail, in (0, 1).")],
    sensitivity: Annotated[
        float,
        Option(help="Largest Euclidean distance by which replacing one user can change a release, above 0."),
    ] = 1.0,
    releases: Annotated[
        int, Option(help="Number of releases that together keep the promise, each with this noise.")
    ] = 1,
    *,
    as_json: AsJson = False,
) -> None:
    """Print the standard deviation of Gaussian noise for (epsilon, delta)-differential privacy.

    `sigma` is for real-valued Gaussian noise, by Gaussian differential privacy (exact). `sigma_discrete` is
    for discrete Gaussian noise, by zero-concentrated differential privacy with a tight conversion. Enforced
    guarantees of this library rest on discrete noise unless they say otherwise.
    """
    from dpbandits.privacy.calibration import calibrate_gaussian

    values = calibrate_gaussian(epsilon, delta, sensitivity, releases)
    if not all(math.isfinite(value) for value in values.values()):
        raise InvalidParameter(
            f"sensitivity {sensitivity:g}: the noise would exceed the largest number, pass a smaller one"
        )
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
    source: Annotated[
        Path,
        Argument(
            metavar="FILE",
            help="Configuration of a policy (.json from to_config(), or .toml), or a statement (.json).",
        ),
    ],
    *,
    annex: Annotated[bool, Option("--annex", help="Print the annex for experts, too.")] = False,
    html: Annotated[
        Path | None, Option(help="Write the statement and its annex as HTML to this file.")
    ] = None,
    pdf: Annotated[Path | None, Option(help="Write both as PDF to this file (extra `pdf`).")] = None,
    paper: Annotated[Paper, Option(help="Paper of the PDF: A4 or Letter.")] = "A4",
    registry: Annotated[
        Path | None,
        Option(help="Write a record (YAML) for the registry of DP deployments to this file."),
    ] = None,
    facts: Annotated[
        Path | None,
        Option(
            help="Facts for --registry that only you know (.toml or .json): name, data_curators, "
            "intended_use, data_product_region, description, publication_date, registry_authors."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print the privacy statement of a configured policy, as text, HTML or PDF. No data is read."""
    if facts is not None and registry is None:
        raise InvalidParameter("--facts is for a record: pass --registry record.yaml, too")
    found = _guarantee_in(source)
    if registry is not None:
        from dpbandits.privacy.registry import as_yaml, registry_record

        record = registry_record(found, {} if facts is None else _read_config(facts))
        registry.write_text(f"{as_yaml(record)}\n", encoding="utf-8")
    if html is not None:
        html.write_text(found.to_html(), encoding="utf-8")
    if pdf is not None:
        pdf.write_bytes(found.to_pdf(paper=paper))
    if as_json:
        typer.echo(found.to_json())
    elif annex or (html is None and pdf is None and registry is None):
        typer.echo(found.explain() + (f"\n\n\n{found.annex()}" if annex else ""))


_UNPROVEN = (
    "This statement was read from a file, and nothing proves that a policy made it: compare its SHA-256 with "
    "that of the policy."
)


def _guarantee_in(path: Path) -> "Guarantee":
    from dpbandits.privacy import Guarantee

    parameters = _read_config(path)
    if {"definition", "observers", "assumptions"} <= parameters.keys():
        typer.echo(_UNPROVEN, err=True)
        return Guarantee.from_json(json.dumps(parameters))
    policies = _policies()
    by_kind = {policy.kind: policy for policy in policies.values()}  # names in the output of to_config
    kind = parameters.get("policy")
    policy_class = {**by_kind, **policies}.get(kind) if isinstance(kind, str) else None
    if policy_class is None:
        raise InvalidParameter(f"{path}: key 'policy' must be one of {', '.join(policies)}")
    return policy_class.from_config({**parameters, "policy": policy_class.kind}).guarantee


def _policies() -> "dict[str, type[KeptPolicy]]":
    from dpbandits.policy.kept import KeptPolicy

    modules = {package: import_module(f"dpbandits.{package}") for package in _PACKAGES}
    listed = {
        f"{package}.{name}": getattr(module, name)
        for package, module in modules.items()
        for name in module.__all__
    }
    return {
        name: one for name, one in listed.items() if isinstance(one, type) and issubclass(one, KeptPolicy)
    }


def _read_config(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidParameter(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path}: cannot be read as text") from error
    if path.suffix == ".json":
        return json_object(text, f"a configuration in {path.name}")
    if path.suffix == ".toml":
        with reading(f"a configuration in {path.name}"):
            return tomllib.loads(text)
    raise InvalidParameter(f"{path}: expected a .json or .toml file")

"""Record of a guarantee for the registry of deployments of differential privacy (OpenDP and NIST).

`registry_record` fills every technical field from a guarantee, and takes from its caller the few facts that
only the owner of a deployment knows. `FIELDS` lists the fields and permitted values of the registry's schema,
as published on 2026-07-15 (https://github.com/opendp/deployments-registry-data).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from dpbandits._version import __version__
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import ZeroConcentratedDP
from dpbandits.privacy.definitions import DistributedDP, LocalDP, RowDP
from dpbandits.privacy.guarantee import Guarantee

__all__ = ["FIELDS", "as_yaml", "registry_record"]

FIELDS: dict[str, dict[str, type | tuple[str, ...]]] = {
    "basic": {
        "name": str,
        "data_curators": list,
        "intended_use": str,
        "data_product_type": (
            "Summary statistics",
            "Machine learning model",
            "Dataset",
            "Synthetic data",
            "Interactive API",
            "SQL queries",
        ),
        "data_product_region": str,
        "description": str,
        "publication_date": str,
        "data_product_sector": (
            "Technology",
            "Healthcare",
            "Education",
            "Government",
            "Energy",
            "Finance",
        ),
    },
    "dp_variant": {
        "variant_name": ("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
        "data_domain": str,
        "unprotected_quantities": str,
    },
    "privacy_loss": {
        "privacy_unit": str,
        "privacy_unit_details": str,
        "privacy_parameters": dict,
        "privacy_parameters_details": str,
    },
    "deployment_model": {
        "model_name": ("Local", "Central", "Shuffle", "Federated", "Varies"),
        "model_name_details": str,
        "actors": str,
        "release_type": ("One release", "Many releases"),
        "release_type_details": str,
        "data_source_type": ("Static", "Dynamic"),
        "data_source_type_details": str,
        "access_type": ("Interactive", "Non-interactive"),
        "access_type_details": str,
    },
    "accounting": {"post_processing": str, "composition": str},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": str,
        "mechanisms": str,
        "justification": str,
    },
    "administrative": {"sources": str, "notes": str, "registry_authors": list},
}
"""Fields of a deployment by section. A value is the field's type, or the texts that it may have."""

REQUIRED = (
    "name",
    "data_curators",
    "intended_use",
    "data_product_region",
    "description",
    "publication_date",
    "registry_authors",
)
"""Facts that `registry_record` cannot know."""


def registry_record(guarantee: Guarantee, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a deployment, at the highest of the registry's three tiers.

    Args:
        guarantee: The guarantee of what is deployed; its status must be `enforced`.
        facts: Values of fields by name. It has every field of `REQUIRED`, and may have any other of `FIELDS`,
            which replaces what the guarantee says.

    Raises:
        InvalidParameter: The guarantee protects nobody, a required fact is missing, or a fact is not a field
            of the registry or has no permitted value.
    """
    if guarantee.status != "enforced" or guarantee.certificate is None:
        raise InvalidParameter(f"a registry lists what protects people; this guarantee is {guarantee.status}")
    lacking = [name for name in REQUIRED if not facts.get(name)]
    if lacking:
        raise InvalidParameter(f"facts about the deployment are missing: {', '.join(lacking)}")
    places = {name: section for section, fields in FIELDS.items() for name in fields}
    unknown = sorted(set(facts) - set(places))
    if unknown:
        raise InvalidParameter(f"the registry has no field {', '.join(unknown)}")
    deployment = _from_guarantee(guarantee)
    for name, value in facts.items():
        found = value.isoformat() if hasattr(value, "isoformat") else value  # a date of a TOML file
        _check(name, found, FIELDS[places[name]][name])
        deployment[places[name]][name] = found
    slug = re.sub(r"[^a-z0-9]+", "-", str(facts["name"]).lower()).strip("-")
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}


def _check(name: str, value: Any, allowed: type | tuple[str, ...]) -> None:
    if isinstance(allowed, tuple):
        if value not in allowed:
            raise InvalidParameter(f"{name}: expected one of {', '.join(allowed)}")
    elif allowed is list:
        if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
            raise InvalidParameter(f"{name}: expected a list of texts")
    elif not isinstance(value, allowed):
        raise InvalidParameter(f"{name}: expected {'text' if allowed is str else 'a table'}")
    if name == "publication_date" and not re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        raise InvalidParameter("publication_date: expected a date such as 2027-03-01")


def _from_guarantee(guarantee: Guarantee) -> dict[str, dict[str, Any]]:
    """Return the sections of a record, with all fields that a guarantee determines."""
    definition, certificate = guarantee.definition, guarantee.certificate
    local, rows = isinstance(definition, LocalDP), isinstance(definition, RowDP)
    shared = isinstance(definition, DistributedDP)
    parameters: dict[str, Any] = {"epsilon": guarantee.epsilon, "delta": guarantee.delta}
    if isinstance(certificate, ZeroConcentratedDP):
        parameters["rho"] = certificate.rho
    variant = "Pure DP" if guarantee.delta == 0.0 else "Approximate DP"
    unchecked = [one for one in guarantee.assumptions if not one.enforced]
    several = any(record.releases > 1 for record in guarantee.mechanisms)
    seen = [f"{one.who}: {one.sees}" for one in guarantee.observers if not one.protected]
    title = f"{definition.title}, epsilon = {guarantee.epsilon:g}, delta = {guarantee.delta:g}"
    return {
        "basic": {"data_product_type": "Dataset" if rows else "Machine learning model"},
        "dp_variant": {
            "variant_name": variant if local else "Custom",
            "data_domain": "All inputs within the public bounds and columns that were declared. "
            + _sentences([f"The variant is {title}"]),
            "unprotected_quantities": _listed([*seen, *definition.left_out, *guarantee.limits]),
        },
        "privacy_loss": {
            "privacy_unit": guarantee.unit,
            "privacy_unit_details": _sentences([guarantee.neighbours]),
            "privacy_parameters": parameters,
            "privacy_parameters_details": _sentences(
                [
                    f"Certificate: {'' if certificate is None else certificate.describe()}",
                    "Whoever guesses between two equally likely inputs is right at most "
                    f"{guarantee.membership_bound():.4f} of the time",
                ]
            ),
        },
        "deployment_model": {
            "model_name": "Local" if local else "Varies" if shared else "Central",
            "model_name_details": _sentences([title]),
            "actors": _listed(
                [
                    f"{one.who} ({'covered' if one.protected else 'not covered'}): {one.sees}"
                    for one in guarantee.observers
                ]
            ),
            "release_type": "Many releases" if several else "One release",
            "release_type_details": "The promise covers all releases together; nothing is renewed with time.",
            "data_source_type": "Dynamic" if several or local or shared else "Static",
            "data_source_type_details": "Everybody's data is used in the releases that the promise counts.",
            "access_type": "Non-interactive",
            "access_type_details": "Nobody queries the data: decisions and predictions follow from releases.",
        },
        "accounting": {
            "post_processing": "Decisions, predictions and published functions are computed from what was "
            "released.",
            "composition": _sentences(["" if certificate is None else certificate.rule]),
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "The library computes nothing from the data before "
            "noise is added: bounds, columns and schedules are public arguments.",
            "mechanisms": _listed(
                [
                    *(record.describe() for record in guarantee.mechanisms),
                    "Noise is drawn by a cryptographic generator in whole numbers, without rounding.",
                    f"Library: dpbandits {__version__}, https://github.com/dpbandits/dpbandits",
                ]
            ),
            "justification": _sentences([guarantee.theorem]) + " " + _listed([one.text for one in unchecked]),
        },
        "administrative": {
            "sources": "https://dpbandits.readthedocs.io",
            "notes": f"SHA-256 of the privacy statement: {guarantee.digest}",
        },
    }


def _sentences(texts: list[str]) -> str:
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in texts if text)


def _listed(texts: list[str]) -> str:
    return "\n".join(f"- {_sentences([text])}" for text in texts)


def as_yaml(value: Any, *, indent: int = 0) -> str:
    """Return nested dictionaries, lists, texts and numbers as YAML; texts are quoted as in JSON.

    Args:
        value: A dictionary with at least one key.
        indent: Number of blanks before each line.
    """
    lines = []
    for key, part in value.items():
        if isinstance(part, dict):
            lines += [f"{' ' * indent}{key}:", as_yaml(part, indent=indent + 2)]
        else:
            lines.append(f"{' ' * indent}{key}: {json.dumps(part, ensure_ascii=False)}")
    return "\n".join(lines)

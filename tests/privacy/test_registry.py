"""Records for the registry of deployments of differential privacy."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dpbandits as dpb
from dpbandits.cli import app
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.registry import FIELDS, REQUIRED, as_yaml, registry_record

FACTS = {
    "name": "Offers of a shop",
    "data_curators": ["Shop & Sons"],
    "intended_use": "Whom to send which offer.",
    "data_product_region": "Norway",
    "description": 'A "policy" that learns which offer suits whom.',
    "publication_date": "2027-03-01",
    "registry_authors": ["A. Nilsen"],
}
PEOPLE = {"contexts": dpb.Schema(age=dpb.Range(18, 90)), "arms": ["mail", "call"]}
GUARANTEES = {
    "central": lambda: (
        dpb.central.GPBandit(
            **PEOPLE, reward_range=(0, 1), horizon=2_000, privacy=dpb.JointDP(1, 1e-6)
        ).guarantee
    ),
    "pure": lambda: (
        dpb.central.GPBandit(**PEOPLE, reward_range=(0, 1), horizon=2_000, privacy=dpb.JointDP(1)).guarantee
    ),
    "local": lambda: dpb.local.Spec(**PEOPLE, privacy=dpb.LocalDP(2)).statement(),
}


def wrong(deployment: dict[str, Any]) -> list[str]:
    """Fields that the registry does not have, or whose values it does not take."""
    found = []
    for section, fields in deployment.items():
        for name, value in fields.items():
            allowed = FIELDS.get(section, {}).get(name)
            fits = value in allowed if isinstance(allowed, tuple) else allowed and isinstance(value, allowed)
            if not fits:
                found.append(f"{section}.{name}")
    return found


@pytest.mark.parametrize("name", GUARANTEES)
def test_every_field_is_filled_with_a_permitted_value(name: str) -> None:
    guarantee = GUARANTEES[name]()
    record = registry_record(guarantee, FACTS)
    assert record | {"deployment": None} == {
        "url_slug": "offers-of-a-shop",
        "status": "Draft",
        "tier": 3,
        "deployment": None,
    }
    deployment = record["deployment"]
    assert not wrong(deployment)
    filled = {(section, one) for section, fields in deployment.items() for one in fields}
    every = {(section, one) for section, fields in FIELDS.items() for one in fields}
    assert every - filled == {("basic", "data_product_sector")}
    assert all(value for fields in deployment.values() for value in fields.values())
    parameters = deployment["privacy_loss"]["privacy_parameters"]
    assert (parameters["epsilon"], parameters["delta"]) == (guarantee.epsilon, guarantee.delta)
    assert deployment["deployment_model"]["model_name"] == ("Local" if name == "local" else "Central")
    assert guarantee.digest in deployment["administrative"]["notes"]


def test_facts_replace_what_the_guarantee_says() -> None:
    more = FACTS | {"data_product_sector": "Finance", "sources": "https://shop.example/privacy"}
    deployment = registry_record(GUARANTEES["central"](), more)["deployment"]
    assert deployment["basic"]["data_product_sector"] == "Finance"
    assert deployment["administrative"]["sources"] == "https://shop.example/privacy"


@pytest.mark.parametrize("lacking", REQUIRED)
def test_missing_facts_are_named(lacking: str) -> None:
    facts = {name: value for name, value in FACTS.items() if name != lacking}
    with pytest.raises(InvalidParameter, match=lacking):
        registry_record(GUARANTEES["central"](), facts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("surprise", "text"),
        ("data_product_sector", "Farming"),
        ("data_curators", "Shop"),
        ("publication_date", "1 March"),
        ("description", 7),
    ],
)
def test_facts_that_the_registry_would_refuse_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidParameter, match=name):
        registry_record(GUARANTEES["central"](), FACTS | {name: value})


def test_what_protects_nobody_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="none"):
        registry_record(dpb.privacy.Guarantee.without_privacy(), FACTS)


def test_yaml_has_quoted_texts() -> None:
    text = as_yaml({"a": {"b": 'x: "y"\n- z', "c": [1.5, "ü"]}, "d": 3})
    assert text == 'a:\n  b: "x: \\"y\\"\\n- z"\n  c: [1.5, "ü"]\nd: 3'


def test_the_command_writes_a_record(tmp_path: Path) -> None:
    policy = dpb.central.GPBandit(**PEOPLE, reward_range=(0, 1), horizon=2_000, privacy=dpb.JointDP(1, 1e-6))
    (tmp_path / "policy.json").write_text(json.dumps(policy.to_config()))
    (tmp_path / "facts.toml").write_text(
        "\n".join(f"{name} = {json.dumps(value)}" for name, value in FACTS.items())
    )
    words = ["guarantee", str(tmp_path / "policy.json"), "--registry", str(tmp_path / "record.yaml")]
    assert CliRunner().invoke(app, words).exit_code != 0
    alone = CliRunner().invoke(app, [*words[:2], "--facts", str(tmp_path / "facts.toml")])
    assert alone.exit_code != 0
    assert "pass --registry" in str(alone.exception)
    lost = CliRunner().invoke(app, [*words, "--facts", str(tmp_path / "fact.toml")])
    assert "there is no such file" in str(lost.exception)
    assert CliRunner().invoke(app, [*words, "--facts", str(tmp_path / "facts.toml")]).exit_code == 0
    assert (
        (tmp_path / "record.yaml").read_text().startswith('url_slug: "offers-of-a-shop"\nstatus: "Draft"\n')
    )

"""Over HTTP a population protects one unit, and nothing about another is charged to it."""

from collections.abc import Iterator
from typing import Any

import pytest

import dpbandits as dpb
from dpbandits.service.core import Service
from service.conftest import OFFERS, Caller, served

POPULATIONS: dict[str, dict[str, Any]] = {
    "users": {"kind": "JointDP", "epsilon": 90, "delta": 1e-4},
    "users-of-three-rounds": {"kind": "JointDP", "epsilon": 90, "delta": 1e-4, "rounds_per_user": 3},
    "devices": {"kind": "LocalDP", "epsilon": 90},
    "rows": {"kind": "RowDP", "epsilon": 90, "distance": 1},
    "rows-far": {"kind": "RowDP", "epsilon": 90, "distance": 20},
}


def policy(population: str) -> tuple[str, dict[str, Any]]:
    return "policies", {**OFFERS, "population": population}


def survey(population: str) -> tuple[str, dict[str, Any]]:
    spec = dpb.local.Spec(contexts=dpb.Box(low=[0], high=[1]), arms=range(2), privacy=dpb.LocalDP(1))
    return "local", {"name": "tips", "population": population, "spec": spec.to_config()}


def exchange(population: str, answers: dict[str, Any] | None) -> tuple[str, dict[str, Any]]:
    privacy = {"epsilon": 2, "distance": 1}
    asked = {"name": "doses", "population": population, "privacy": privacy, "answers": answers, "cap": 3}
    return "outsourced", asked


NOISED = {"epsilon": 1, "distance": 0.5, "low": 0, "high": 1}
REQUESTS = {
    "policy": (policy, {"users": 1, "users-of-three-rounds": 1}),
    "survey": (survey, {"devices": 1}),
    "exact exchange": (lambda name: exchange(name, None), {"rows": 2, "rows-far": 40}),
    "noised exchange": (lambda name: exchange(name, NOISED), {"rows": 3, "rows-far": 60}),
}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    """Client with every scope of one service; each test uses populations and names of its own."""
    with served(Service(tmp_path_factory.mktemp("service") / "data")) as caller:
        yield caller


@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("population", POPULATIONS)
def test_every_pair_is_charged_for_the_populations_neighbours_or_refused(
    office: Caller, population: str, request_name: str
) -> None:
    own = f"{population}-{request_name}".replace(" ", "-")
    opened = office.post("/v1/populations", {"name": own, "privacy": POPULATIONS[population]})
    assert opened.status_code == 201, opened.text
    make, charged = REQUESTS[request_name]
    path, body = make(own)
    begun = office.post(f"/v1/{path}", {**body, "name": own})
    found = office.get(f"/v1/populations/{own}").json()
    if population in charged:
        assert begun.status_code == 201, begun.text
        if found["accountant"] == "undecided":
            assert float(found["parts"][0]["spent"]) == charged[population]
    else:
        assert begun.status_code == 422, begun.text
        assert "another unit" in begun.json()["detail"]
        assert all(float(part["spent"]) == 0 for part in found["parts"])
    assert found["unit"]
    assert found["neighbours"]


@pytest.mark.parametrize("other", POPULATIONS)
def test_a_population_keeps_its_unit(admin: Caller, other: str) -> None:
    asked = {"name": "people", "privacy": POPULATIONS["rows"]}
    assert admin.post("/v1/populations", asked).status_code == 201
    again = admin.post("/v1/populations", {**asked, "privacy": POPULATIONS[other]})
    assert again.status_code == (201 if other == "rows" else 422), again.text
    assert "a move of 1 " in admin.get("/v1/populations/people").json()["unit"]


@pytest.mark.parametrize(
    "privacy", [None, {}, {"epsilon": 1, "kind": "NoPrivacy"}, {"kind": "RowDP", "epsilon": 1}]
)
def test_no_population_is_without_a_unit(admin: Caller, privacy: Any) -> None:
    refused = admin.post("/v1/populations", {"name": "people", "privacy": privacy})
    assert refused.status_code == 422, refused.text
    assert admin.get("/v1/populations/people").status_code == 404

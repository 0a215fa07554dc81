"""Policies beyond those that are held in memory are opened again, and decide as they would have."""

from pathlib import Path

from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service.conftest import CUSTOMERS, OFFERS, served


def arms(folder: Path, most: int) -> list[str]:
    with served(Service(folder, settings=Settings(open_policies=most))) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        for name in ("offers", "other"):
            asked = {**OFFERS, "name": name, "privacy": {"epsilon": 0.5, "delta": 1e-6}}
            assert caller.post("/v1/policies", asked).status_code == 201
        return [
            caller.decide(f"v{number}", policy=("offers", "other")[number % 2]).json()["arm"]
            for number in range(12)
        ]


def test_one_policy_in_memory_decides_as_many_do(tmp_path: Path) -> None:
    assert arms(tmp_path / "one", 1) == arms(tmp_path / "many", 64)

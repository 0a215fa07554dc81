"""Policies beyond those that are held in memory are opened again, and decide as they would have."""

from functools import partial
from pathlib import Path

import pytest

from dpbandits.service.core import Service
from dpbandits.service.engines import LEAST_WEIGHT
from dpbandits.service.policies import kept_policy
from dpbandits.service.settings import Settings
from service.conftest import CUSTOMERS, OFFERS, of_the_library, served

ROOM_FOR_ONE = int(1.5 * of_the_library().bytes_needed)
"""Bytes, for one policy and not for two."""


def arms(folder: Path, memory: int) -> list[str]:
    with served(Service(folder, settings=Settings(policy_memory=memory))) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        for name in ("offers", "other"):
            asked = {**OFFERS, "name": name, "privacy": {"epsilon": 0.5, "delta": 1e-6}}
            assert caller.post("/v1/policies", asked).status_code == 201
        return [
            caller.decide(f"v{number}", policy=("offers", "other")[number % 2]).json()["arm"]
            for number in range(12)
        ]


def test_one_policy_in_memory_decides_as_many_do(tmp_path: Path) -> None:
    assert arms(tmp_path / "one", ROOM_FOR_ONE) == arms(tmp_path / "many", 4 << 30)


def test_open_policies_are_bounded_by_bytes_and_the_one_in_use_stays(tmp_path: Path) -> None:
    service = Service(tmp_path / "folder", settings=Settings(policy_memory=ROOM_FOR_ONE))
    with served(service) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        ids = []
        for name in ("offers", "other", "third"):
            asked = {**OFFERS, "name": name, "privacy": {"epsilon": 0.3, "delta": 1e-6}}
            assert caller.post("/v1/policies", asked).status_code == 201
            ids.append(service.read(partial(kept_policy, name=name)).id)
            assert caller.decide("v0", policy=name).status_code == 200
            assert [service.engines.opened(one) is None for one in ids] == [True] * (len(ids) - 1) + [False]
        caller.decide("v1", policy="offers")
        assert [service.engines.opened(one) is None for one in ids] == [False, True, True]
        engine = service.engines.opened(ids[0])
        assert engine is not None
        assert LEAST_WEIGHT <= engine.weight <= ROOM_FOR_ONE < 2 * engine.weight


def test_a_policy_that_needs_more_than_all_may_take_is_refused_in_numbers(tmp_path: Path) -> None:
    with served(Service(tmp_path / "folder", settings=Settings(policy_memory=ROOM_FOR_ONE))) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        asked = {**OFFERS, "name": "large", "arms": [f"arm {number}" for number in range(100)]}
        answer = caller.post("/v1/policies", {**asked, "tuning": {"n_features": 64, "release": "features"}})
        assert answer.status_code == 422
        assert "GB of memory" in answer.text
        assert "policy_memory" in answer.text
        assert caller.post("/v1/policies", {**OFFERS, "name": "small"}).status_code == 201


def test_small_policies_count_with_what_the_documentation_says() -> None:
    """docs/guides/deploy.md shows such sizes, which decide how many policies the default keeps open."""
    marginals, features = ({"release": name} for name in ("marginals", "features"))
    needed = {
        (name, horizon): of_the_library(tuning=tuning, horizon=horizon).bytes_needed / 2**20
        for name, tuning in (("default", {}), ("marginals", marginals), ("features", features))
        for horizon in (400, 100_000)
    }
    assert needed["default", 400] == needed["marginals", 400] == pytest.approx(6.9, abs=0.05)
    assert needed["default", 100_000] == pytest.approx(23.0, abs=0.5)
    assert needed["features", 400] == pytest.approx(0.6, abs=0.05)
    assert needed["features", 100_000] == pytest.approx(23.3, abs=0.5)
    assert 590 <= Settings().policy_memory / 2**20 // needed["default", 400] <= 600

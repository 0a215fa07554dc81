"""What operators can be alarmed by, and what of it would be a count over people."""

import re
from typing import Any

import pytest

from dpbandits.errors import StateError
from dpbandits.service import core, decisions, readiness, tokens
from dpbandits.service.core import Service
from dpbandits.service.metrics import Metrics
from service.conftest import Caller

DECIDE, REWARD = "/v1/policies/{policy}/decisions", "/v1/policies/{policy}/decisions/{decision}/reward"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(core, "FOLD_SECONDS", 1e6)  # nobody makes a release


def measured(caller: Caller, name: str, **labels: str) -> list[float]:
    """Values of a metric that has these labels."""
    found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", caller.get("/metrics").text, re.MULTILINE)
    return [float(value) for said, value in found if all(f'{a}="{b}"' in said for a, b in labels.items())]


def test_answers_that_failed_are_counted_by_route_but_not_where_people_are(
    shop: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    decision = shop.decide("v1").json()["id"]

    def away(*_: Any, **__: Any) -> None:
        raise StateError("the store is away")

    for name in ("decide", "reward"):
        monkeypatch.setattr(decisions.Decisions, name, away)
    for number in range(3):
        assert shop.decide(f"w{number}").status_code == 503
        assert shop.reward(decision, 1).status_code == 503
    rewards = {"rewards": [{"decision": decision, "reward": 1}]}
    shop.post("/v1/policies/offers/rewards:batch", rewards)
    assert measured(shop, "dpbandits_errors_total", route=DECIDE, method="POST", status="503") == [3.0]
    assert sum(measured(shop, "dpbandits_errors_total")) == 3.0
    assert "reward" not in shop.get("/metrics").text


def test_the_store_is_timed_by_what_the_service_does_itself(shop: Caller) -> None:
    for step in ("connection", "queue", "commit"):
        name = f"dpbandits_{step}_seconds"
        while not measured(shop, f"{name}_count")[0]:
            pass
        assert 0.0 < measured(shop, f"{name}_sum")[0] < 60.0 * measured(shop, f"{name}_count")[0]


def test_why_it_is_not_ready_and_what_the_process_takes(shop: Caller) -> None:
    while sum(measured(shop, "dpbandits_not_ready")):
        pass
    assert len(measured(shop, "dpbandits_not_ready")) == len(readiness.WORDS)
    (memory,) = measured(shop, "process_resident_memory_bytes")
    assert 30 << 20 < memory < 4 << 30
    assert memory % (1 << 20) == 0.0
    (spent,) = measured(shop, "process_cpu_seconds_total")
    assert spent == int(spent) > 0
    assert measured(shop, "process_open_fds")[0] > 3


def test_a_release_that_is_late_is_seen(service: Service, shop: Caller) -> None:
    assert measured(shop, "dpbandits_release_lag_rounds", policy="offers") == [0.0]
    with service.store.writing() as writes:
        writes.run("UPDATE progress SET due = 5, asked = 12")
    assert measured(shop, "dpbandits_release_lag_rounds", policy="offers") == [8.0]


def test_counters_of_two_services_behind_one_address_are_told_apart(service: Service, shop: Caller) -> None:
    def processes(text: str) -> set[str]:
        return set(re.findall(r'process="(\w+)"', text))

    other = Metrics(service)
    other.saw("GET", "/v1/policies", 200, 0.01)
    shop.get("/v1/policies")
    own, theirs = processes(shop.get("/metrics").text), processes(other.text().decode())
    assert len(own) == len(theirs) == 1
    assert own != theirs


def test_rewards_that_are_refused_before_their_route_are_not_counted(
    shop: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store does not say whose a token is, a token is none, comes too often or brings too much."""
    at = f"/v1/policies/offers/decisions/{shop.decide('v1').json()['id']}/reward"
    before = sum(measured(shop, "dpbandits_requests_total"))
    assert Caller(shop.client, "junk").put(at, {"reward": 1}).status_code == 401
    assert shop.put(f"{at}/", {"reward": 1}).status_code == 404
    assert shop.put(at, {"reward": "x" * (5 << 20)}).status_code == 413

    token_of = tokens.token_of

    def away(reads: Any, keys: Any, text: str, now: float) -> Any:
        if text == "unknown":
            raise StateError("the store is away")
        return token_of(reads, keys, text, now)  # known tokens are forgotten now and then

    monkeypatch.setattr(tokens, "token_of", away)
    strange = Caller(shop.client, "unknown")
    assert strange.put(at, {"reward": 1}).status_code == 503
    assert strange.post("/v1/policies/offers/rewards:batch", {"rewards": []}).status_code == 503
    assert strange.decide("w").status_code == 503
    assert measured(shop, "dpbandits_errors_total", route=DECIDE, method="POST", status="503") == [1.0]
    assert sum(measured(shop, "dpbandits_errors_total")) == 1.0
    assert sum(measured(shop, "dpbandits_requests_total")) == before + 4  # a decision, and /metrics thrice
    text = shop.get("/metrics").text
    assert "reward" not in text
    assert 'method="PUT"' not in text
    assert 'route="none"' not in text

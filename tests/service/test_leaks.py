"""What people bring is in no log, metric, page, error or file but where it has to be."""

import logging
import re
import sqlite3
from pathlib import Path

import pytest

from dpbandits.service import readiness
from dpbandits.service.core import Service
from dpbandits.service.retention import WARNING, erase
from dpbandits.service.store import TABLES, Writes
from service.conftest import CUSTOMERS, OFFERS, Caller, Hands

CANARY = "zq7canary"
REWARD = 0.7358294617

ALLOWED = frozenset(
    {
        "dpbandits_requests",
        "dpbandits_request_seconds",
        "dpbandits_errors",
        "dpbandits_connection_seconds",
        "dpbandits_queue_seconds",
        "dpbandits_commit_seconds",
        "dpbandits_not_ready",
        "dpbandits_release_lag_rounds",
        "process_cpu_seconds",
        "process_resident_memory_bytes",
        "process_open_fds",
        "dpbandits_other_bodies",
        "dpbandits_releases",
        "dpbandits_rounds_released",
        "dpbandits_budget_spent",
        "dpbandits_budget_limit",
    }
)
"""Metrics that may be shown; why they may is said in `service/metrics.py`."""


def brought(caller: Caller) -> list[str]:
    """Canaries in everything a caller can send; the texts of all answers."""
    answers = []
    for number in range(30):
        context = {"age": 20 + number, "region": CANARY if number % 5 == 0 else "west", CANARY: CANARY}
        more = {"available": [CANARY]} if number % 7 == 0 else {}
        reply = caller.decide(
            f"{CANARY}-id-{number}", user=f"{CANARY}-user-{number}", context=context, **more
        )
        answers.append(reply.text)
        identity = reply.json().get("id", CANARY)
        answers.append(caller.reward(identity, REWARD if number % 3 else CANARY).text)
    answers.append(caller.decide("c", context=None, candidates=[[CANARY]]).text)
    answers.append(caller.decide("c", arm=CANARY).text)
    for number in range(12):
        decision = caller.decide(f"{CANARY}-told-{number}", policy="read").json()["id"]
        metrics = {"revenue": REWARD if number % 2 else CANARY, **({CANARY: CANARY} if number == 5 else {})}
        path = f"/v1/policies/read/decisions/{decision}/reward"
        answers.append(caller.put(path, {"reward": 1, "metrics": metrics}).text)
        told = {"decision": decision, "reward": 1, "metrics": metrics}
        answers.append(caller.post("/v1/policies/read/rewards:batch", {"rewards": [told]}).text)
    answers.append(caller.get(f"/v1/policies/offers/{CANARY}").text)
    answers.append(caller.get(f"/v1/policies/offers/decisions/{CANARY}?{CANARY}={CANARY}").text)
    return answers


def test_canaries(shop: Caller, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    readout = {"control": {"arm": "nothing"}, "metrics": {"revenue": {"low": 0, "high": 9}}, "looks": 40}
    read = {**OFFERS, "name": "read", "tuning": {"blocks": [350]}, "readout": readout}
    assert shop.post("/v1/policies", read).status_code == 201
    answers = brought(shop)
    while not shop.get("/v1/policies/read/readout").json()["looks"]:
        pass
    pages = [
        shop.get(path).text
        for path in (
            "/metrics",
            "/v1/events",
            "/v1/policies",
            "/v1/policies/offers",
            "/v1/policies/offers/policy",
            "/v1/policies/offers/guarantee",
            "/v1/policies/offers/releases",
            "/v1/policies/read",
            "/v1/policies/read/readout",
            "/v1/populations",
            "/openapi.json",
        )
    ]
    for text in (*answers, *pages, *(one.getMessage() for one in caplog.records if one.name != "httpx")):
        assert CANARY not in text
        assert str(REWARD) not in text
    for path in folder.rglob("*"):  # ids, users and texts are digests or codes; a context is a number
        if path.is_file():
            assert CANARY.encode() not in path.read_bytes(), path.name


def test_the_log_does_not_say_what_became_of_a_person(shop: Caller, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="dpbandits.service")
    decision = shop.decide("v1").json()["id"]
    shop.decide("v2", context={"age": 44})
    shop.reward(decision, 1)
    shop.reward(decision, 7)
    lines = [
        re.sub(r"[0-9.]+ ms", "", one.getMessage())
        for one in caplog.records
        if "decisions" in one.getMessage()
    ]
    assert set(lines) == {
        "POST /v1/policies/{policy}/decisions answered ",
        "PUT /v1/policies/{policy}/decisions/{decision}/reward answered ",
    }


def test_a_defect_tells_its_place_and_no_text(
    shop: Caller, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError(CANARY)

    monkeypatch.setattr("dpbandits.service.policies.described", broken)
    reply = shop.get("/v1/policies/offers")
    assert (reply.status_code, reply.json()["type"]) == (500, "urn:dpbandits:defect")
    assert CANARY not in reply.text + caplog.text
    assert "ValueError at test_leaks.py" in caplog.text


def test_metrics_are_those_that_are_allowed(shop: Caller) -> None:
    shop.decide("v1")
    text = shop.get("/metrics").text
    families = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    plain = {re.sub("_(total|created|bucket|sum|count)$", "", one) for one in families}
    assert plain <= ALLOWED
    assert {"dpbandits_requests", "dpbandits_releases", "dpbandits_budget_spent"} <= plain
    labels = set(re.findall(r'(\w+)="', text))
    assert labels <= {"method", "route", "policy", "population", "part", "le", "process", "status", "reason"}


@pytest.fixture
def one_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "BEAT_SECONDS", 1e6)


@pytest.mark.usefixtures("one_beat")
def test_metrics_do_not_count_rewards(shop: Caller) -> None:
    while shop.get("/v1/ready").status_code != 200:
        pass

    def counted() -> set[str]:
        text = shop.get("/metrics").text
        return {line for line in text.splitlines() if "/metrics" not in line and '/decisions"' not in line}

    seen = [shop.decide(f"v{number}").json()["id"] for number in range(2)]
    before = counted()
    shop.reward(seen[0], 1)
    shop.post("/v1/policies/offers/rewards:batch", {"rewards": [{"decision": seen[1], "reward": 1}]})
    for verb in ("activate", "abandon"):
        shop.post(f"/v1/policies/offers/decisions/{seen[1]}:{verb}")
    shop.get(f"/v1/policies/offers/decisions/{seen[1]}")
    assert counted() == before


def test_an_export_says_what_it_is(shop: Caller) -> None:
    decision = shop.decide("v1").json()
    shop.reward(decision["id"], 0.5)
    reply = shop.get("/v1/policies/offers/raw")
    assert reply.headers["x-not-a-private-release"] == WARNING
    warning, line = reply.text.splitlines()
    assert "not a private release" in warning
    assert f'"arm": "{decision["arm"]}"' in line
    assert '"reward": 0.5' in line
    assert "west" not in line  # contexts are not in it


def test_what_is_old_is_erased_and_its_id_stays_used(service: Service, shop: Caller, hands: Hands) -> None:
    decision = shop.decide("v1").json()
    shop.reward(decision["id"], REWARD)
    hands.passed += 31 * 86400.0
    shop.decide("v2")
    service.tick().result()
    assert str(REWARD) not in shop.get("/v1/policies/offers/raw").text
    assert len(shop.get("/v1/policies/offers/raw").text.splitlines()) == 2
    for context in (None, {"age": 44, "region": "west"}):
        assert shop.decide("v1", context=context).status_code == 410
    assert shop.reward(decision["id"], 1).json() == {"outcome": "duplicate"}


def test_a_reward_that_comes_after_the_erasure_is_not_kept(
    service: Service, shop: Caller, hands: Hands
) -> None:
    decision = shop.decide("v1").json()["id"]
    hands.passed += 31 * 86400.0
    shop.decide("v2")
    service.tick().result()
    assert shop.reward(decision, REWARD).json() == {"outcome": "late"}
    with service.store.reading() as reads:
        assert reads.rows("SELECT status, reward FROM decisions ORDER BY number LIMIT 1") == [("lost", None)]


def test_looking_for_what_is_old_takes_as_long_however_much_there_is() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for statement in TABLES:
        connection.execute(statement)
    connection.executemany(
        "INSERT INTO decisions VALUES (?, 'p', 't', ?, x'', NULL, 'counted', '{}', 1.0, ?, NULL, NULL)",
        [(number, number.to_bytes(4), 1000.0 + number) for number in range(1, 20_001)],
    )
    hundreds: list[int] = []
    connection.set_progress_handler(lambda: hundreds.append(1), 100)
    assert erase(Writes(connection), before=1000.0, now=0.0, rounds_at=0.0) == 0
    assert len(hundreds) < 100  # steps of SQLite; 500 rows are looked at
    assert erase(Writes(connection), before=1600.5, now=0.0, rounds_at=0.0) == 500
    assert erase(Writes(connection), before=1600.5, now=0.0, rounds_at=0.0) == 100
    assert erase(Writes(connection), before=1600.5, now=0.0, rounds_at=0.0) == 0


def test_a_policy_of_other_people_is_another(shop: Caller) -> None:
    other = {**CUSTOMERS, "name": "others"}
    assert shop.post("/v1/populations", other).status_code == 201
    assert shop.post("/v1/policies", {**OFFERS, "name": "theirs", "population": "others"}).status_code == 201
    decision = shop.decide("v1").json()["id"]
    reply = shop.reward(decision, 1, policy="theirs")
    assert reply.json()["type"] == "urn:dpbandits:not-found"

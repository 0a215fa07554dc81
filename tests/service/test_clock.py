"""A clock that is wrong for a while does no damage, on a folder and on a database."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpbandits.cli import app
from dpbandits.service.clock import SETTLING_SECONDS, accept_clock
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import CUSTOMERS, OFFERS, Caller, Hands, served
from service.test_actions import PRICED
from service.test_http import answered

DAY, YEAR = 86400.0, 365 * 86400.0
WAITS = {"wait_seconds": DAY, "default_reward": 0.25}


@pytest.fixture(params=["folder", "database"])
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings(database="" if request.param == "folder" else databases.any_kind())


@pytest.fixture
def shop(service: Service) -> Iterator[Caller]:
    with served(service) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        assert caller.post("/v1/policies", {**OFFERS, "settings": WAITS}).status_code == 201
        yield caller


def statuses(service: Service) -> list[str]:
    with service.store.reading() as reads:
        return [row[0] for row in reads.rows("SELECT status FROM decisions ORDER BY number")]


def raw_lines(caller: Caller) -> int:
    return len(caller.get("/v1/policies/offers/raw").text.splitlines()) - 1


def events(caller: Caller) -> list[str]:
    """What was said of the clock, the first one first."""
    found = caller.get("/v1/events").json()["events"]
    return [one["what"] for one in reversed(found) if one["what"].startswith("clock")]


def waits(answer: dict[str, Any], service: Service) -> bool:
    """Whether a wait of a day ends in a day."""
    return abs(answer["expires_at"] - service.now() - DAY) < 60.0


@pytest.mark.parametrize("wrong", [YEAR, -YEAR])
def test_a_clock_that_is_wrong_for_a_while_does_no_damage(
    service: Service, shop: Caller, hands: Hands, wrong: float
) -> None:
    pending = [shop.decide(f"v{number}").json() for number in range(4)]
    assert shop.reward(pending[0]["id"], 0.5).json() == {"outcome": "counted"}
    seconds = {"label": "x", "scopes": ["read"], "seconds": DAY}
    reader = Caller(shop.client, shop.post("/v1/tokens", seconds).json()["token"])
    before = service.now()
    hands.wrong = wrong
    for _ in range(3):
        hands.passed += 1.0
        service.tick().result()
    meanwhile = shop.decide("meanwhile").json()
    assert waits(meanwhile, service)
    assert reader.get("/v1/policies").status_code == 200
    assert statuses(service) == ["counted", *["pending"] * 4]
    assert raw_lines(shop) == 5
    hands.wrong = 0.0
    service.tick().result()
    assert before <= service.now() < before + 60.0
    assert events(shop) == ["clock-stopped", "clock-goes-on"]
    assert statuses(service) == ["counted", *["pending"] * 4]
    assert raw_lines(shop) == 5
    assert waits(shop.decide("after").json(), service)
    hands.passed += 2 * DAY  # and what is due is done then
    service.tick().result()
    assert statuses(service) == ["counted", *["defaulted"] * 5]
    assert reader.get("/v1/policies").status_code == 401


def test_nothing_that_was_due_is_done_while_the_clock_is_stopped(
    service: Service, shop: Caller, hands: Hands
) -> None:
    shop.decide("v0")
    hands.wrong = YEAR
    service.tick().result()
    hands.passed += 40 * DAY
    service.tick().result()
    assert statuses(service) == ["pending"]
    assert raw_lines(shop) == 1


def test_while_the_clock_is_stopped_prices_go_on_and_no_default_counts(
    service: Service, shop: Caller, hands: Hands
) -> None:
    answered(shop.post("/v1/policies", PRICED | {"settings": WAITS}), 201)
    first = answered(shop.decide("v0", policy="prices"))
    hands.wrong = YEAR
    service.tick().result()
    assert service.clock.stopped
    hands.passed += 2 * DAY
    service.tick().result()
    meanwhile = answered(shop.decide("v1", policy="prices"))
    assert {first["action"], meanwhile["action"]} <= {3.0, 4.0, 5.0}
    assert answered(shop.reward(first["id"], 1, policy="prices")) == {"outcome": "counted"}
    hands.wrong = 0.0
    service.tick().result()
    assert not service.clock.stopped
    assert answered(shop.reward(meanwhile["id"], 1, policy="prices")) == {"outcome": "counted"}
    late = answered(shop.decide("v2", policy="prices"))
    hands.passed += 2 * DAY
    service.tick().result()
    assert answered(shop.reward(late["id"], 1, policy="prices"))["outcome"] != "counted"


@pytest.mark.parametrize("by", [4 * 60.0, -4 * 60.0])
def test_small_corrections_are_followed(service: Service, shop: Caller, hands: Hands, by: float) -> None:
    before = service.now()
    hands.wrong += by
    service.tick().result()
    assert abs(service.now() - before - by) < 60.0
    assert events(shop) == []


def test_an_operator_accepts_a_later_clock_while_the_service_runs(
    service: Service, shop: Caller, hands: Hands, folder: Path, settings: Settings
) -> None:
    shop.decide("v0")
    hands.wrong = 2 * DAY  # as where a virtual machine was paused
    service.tick().result()
    assert service.clock.stopped
    arguments = ["service", "accept-clock", str(folder)]
    if settings.database:
        arguments += ["--database", settings.database]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    service.tick().result()
    assert not service.clock.stopped
    assert f"{datetime.fromtimestamp(service.now(), UTC):%Y-%m-%d}" in told.output
    assert statuses(service) == ["defaulted"]
    assert events(shop) == ["clock-stopped", "clock-accepted"]


def test_an_earlier_clock_that_is_accepted_keeps_the_lengths_of_all_waits(
    service: Service, shop: Caller, hands: Hands, folder: Path, settings: Settings
) -> None:
    hands.wrong = YEAR  # it was wrong from the beginning
    accept_clock(folder, settings=settings)
    service.tick().result()
    shop.decide("v0")
    seconds = {"label": "x", "scopes": ["read"], "seconds": 10 * DAY}
    made = shop.post("/v1/tokens", seconds).json()
    replaced = Caller(shop.client, made["token"])
    rotated = shop.post(f"/v1/tokens/{made['id']}:rotate", {"overlap_seconds": DAY}).json()
    reader = Caller(shop.client, rotated["token"])
    assert replaced.get("/v1/policies").status_code == 200
    hands.wrong = 0.0
    service.tick().result()
    assert service.clock.stopped
    accept_clock(folder, settings=settings)
    service.tick().result()
    assert not service.clock.stopped
    assert waits(shop.decide("v1").json(), service)
    while replaced.get("/v1/policies").status_code != 401:  # workers look at tokens again after a moment
        pass
    hands.passed += DAY + 60.0
    service.tick().result()
    assert statuses(service) == ["defaulted", "defaulted"]
    assert reader.get("/v1/policies").status_code == 200
    hands.passed += 10 * DAY
    assert reader.get("/v1/policies").status_code == 401
    hands.passed += 21 * DAY
    service.tick().result()
    assert raw_lines(shop) == 0


def begun(folder: Path, settings: Settings) -> tuple[str | None, dict[str, Any]]:
    """A service that has a decision which waits, and is stopped."""
    service = Service(folder, settings=settings)
    with served(service) as admin:
        admin.post("/v1/populations", CUSTOMERS)
        admin.post("/v1/policies", {**OFFERS, "settings": WAITS})
        service.tick().result()
        return admin.token, admin.decide("v0").json()


def test_a_clock_that_was_set_back_while_the_service_was_stopped(
    folder: Path, settings: Settings, hands: Hands
) -> None:
    token, first = begun(folder, settings)
    hands.wrong = -YEAR
    again = Service(folder, settings=settings)
    with served(again, token) as admin:
        again.tick().result()
        assert again.clock.stopped
        second = admin.decide("v1").json()
        assert second["expires_at"] >= first["expires_at"] - 60.0
        assert admin.decide("v0").json() == first
        assert statuses(again) == ["pending", "pending"]
        hands.wrong = 0.0
        again.tick().result()
        assert events(admin) == ["clock-stopped", "clock-goes-on"]


def test_a_clock_far_ahead_at_a_start_is_trusted_after_a_minute(
    folder: Path, settings: Settings, hands: Hands
) -> None:
    token, _ = begun(folder, settings)
    hands.passed += 2 * DAY
    again = Service(folder, settings=settings)
    with served(again, token):
        again.tick().result()
        assert statuses(again) == ["pending"]
        hands.passed += SETTLING_SECONDS
        again.tick().result()
        assert statuses(again) == ["defaulted"]


def test_a_machine_that_boots_a_year_ahead_and_is_set_right_has_done_nothing(
    folder: Path, settings: Settings, hands: Hands
) -> None:
    token, _ = begun(folder, settings)
    hands.wrong = YEAR
    again = Service(folder, settings=settings)
    with served(again, token) as admin:
        again.tick().result()
        assert abs(admin.decide("v1").json()["expires_at"] - again.now() - DAY) < 60.0
        hands.passed, hands.wrong = hands.passed + 3.0, 0.0
        again.tick().result()
        assert not again.clock.stopped
        assert statuses(again) == ["pending", "pending"]
        with again.store.reading() as reads:
            due = [row[0] for row in reads.rows("SELECT due_at FROM decisions")]
        assert all(at <= again.now() + DAY for at in due)


def test_a_restart_does_not_end_a_stop(folder: Path, settings: Settings, hands: Hands) -> None:
    token, _ = begun(folder, settings)
    service = Service(folder, settings=settings)
    hands.wrong = YEAR
    service.clock.look()
    service.close()
    again = Service(folder, settings=settings)
    with served(again, token):
        hands.passed += 2 * SETTLING_SECONDS
        again.tick().result()
        assert again.clock.stopped
        assert statuses(again) == ["pending"]


def test_workers_have_the_clock_of_the_database_whatever_their_machines_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A function of the schema stands before the database's own clock, and can be wrong."""
    import psycopg

    address = f"{databases.any_kind()},pg_catalog"
    settings, real = Settings(database=address), time.time
    token, first = begun(tmp_path / "data", settings)
    with psycopg.connect(address, autocommit=True) as sql:
        for text in (
            "CREATE TABLE wrong (by INTERVAL)",
            "INSERT INTO wrong VALUES ('0')",
            "CREATE FUNCTION clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE sql AS "
            "'SELECT pg_catalog.clock_timestamp() + by FROM wrong'",
        ):
            sql.execute(text.encode())
        monkeypatch.setattr("time.time", lambda: real() + YEAR)
        one = Service(tmp_path / "data", settings=settings)
        monkeypatch.setattr("time.time", lambda: real() - YEAR)
        other = Service(tmp_path / "data", settings=settings)
        with served(one, token) as admin, served(other, token) as colleague:
            for worker in (one, other):
                worker.tick().result()
                assert abs(worker.now() - real()) < 60.0
                assert not worker.clock.stopped
            assert colleague.decide("v0").json() == first
            assert waits(colleague.decide("v1").json(), one)
            sql.execute(b"UPDATE wrong SET by = '1 year'")
            for worker in (one, other):
                worker.tick().result()
                assert worker.clock.stopped
                assert abs(worker.now() - real()) < 60.0
            late = Service(tmp_path / "data", settings=settings)  # is begun while the clock is wrong
            late.tick().result()
            assert late.clock.stopped
            assert abs(late.now() - real()) < 180.0
            sql.execute(b"UPDATE wrong SET by = '0'")
            for worker in (late, other, one):
                worker.tick().result()
                assert not worker.clock.stopped
            late.close()
            assert statuses(one) == ["pending", "pending"]
            assert events(admin) == ["clock-stopped", "clock-goes-on"]


def test_a_worker_whose_machine_stood_still_follows_the_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(database=databases.any_kind())
    one, other = (Service(folder, settings=settings) for _ in range(2))
    hands = Hands(monkeypatch)
    hands.passed += DAY
    other.clock.look()
    stood, hands.passed = hands.passed, 0.0  # the first one's clocks have not seen the day
    hands.wrong = stood
    one.clock.look()
    assert not one.clock.stopped
    assert abs(one.now() - time.time() - DAY) < 60.0
    one.close()
    other.close()

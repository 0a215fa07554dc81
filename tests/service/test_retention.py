"""Raw rounds that no release holds are erased after the retention time, whatever became of their policy."""

import shutil
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service import application, core
from dpbandits.service import folding as folds
from dpbandits.service.backups import adopt, back_up
from dpbandits.service.core import Service
from dpbandits.service.folding import Folding
from dpbandits.service.retention import old_rounds
from dpbandits.service.settings import Settings
from internals.workers import folding
from service import databases
from service.conftest import CUSTOMERS, OFFERS, Caller, Hands, served

DAY = 86400.0
AGE = 61.803398874989485
REWARD = 0.7358294617
RAW = [struct.pack("<d", value) for value in ((AGE - 18) / 72, REWARD)]
"""How a context's age, and a reward, stand in a log of rounds, a row and a state."""

KINDS = ["folder", "database"]


class Clock:
    """How many days have passed."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands

    @property
    def days(self) -> float:
        return self._hands.passed / DAY

    @days.setter
    def days(self, days: float) -> None:
        self._hands.passed = DAY * days


@pytest.fixture(autouse=True)
def _no_release_between_a_decision_and_its_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Releases are made where a later round was asked, or a test says so."""
    monkeypatch.setattr(core, "FOLD_SECONDS", 1e6)


@pytest.fixture
def clock(hands: Hands) -> Clock:
    return Clock(hands)


@pytest.fixture(params=KINDS)
def settings(request: pytest.FixtureRequest) -> Settings:
    return Settings(database="" if request.param == "folder" else databases.any_kind())


@pytest.fixture
def shop(service: Service) -> Iterator[Caller]:
    with served(service) as caller:
        assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
        yield caller


def begun(shop: Caller, blocks: list[int], lag: int = 0) -> None:
    tuning = {"blocks": blocks, "n_features": 3, "lag": lag}
    asked = {**OFFERS, "horizon": blocks[-1], "tuning": tuning}
    assert shop.post("/v1/policies", asked).status_code == 201


def visits(shop: Caller, first: int, count: int) -> list[dict[str, Any]]:
    """Every second one is rewarded."""
    answers = []
    for number in range(first, first + count):
        answers.append(shop.decide(f"v{number}", context={"age": AGE, "region": "west"}).json())
        if number % 2:
            assert shop.reward(answers[-1]["id"], REWARD).json() == {"outcome": "counted"}
    return answers


def told_the_time(service: Service) -> None:
    """Whatever is due is done by now."""
    service.tick().result()
    while True:
        folding(service).turn()
        with service.store.reading() as reads:  # its own thread may have been at it
            due = reads.one("SELECT 1 FROM progress WHERE asked >= due")
            if due is None and not old_rounds(reads, now=service.now()):
                return


def raw(service: Service, folder: Path) -> int:
    """How often a context or a reward stands in anything that is kept."""
    kept = [path.read_bytes() for path in folder.rglob("policy.state")]
    with service.store.reading() as reads:
        for query in ("chosen FROM slots", "content FROM states"):
            kept += [bytes(row[0]) for row in reads.rows(f"SELECT {query}")]
        for query in ("slots", "decisions"):
            rewards = reads.rows(f"SELECT reward FROM {query}")  # noqa: S608 - ours
            kept += [struct.pack("<d", row[0] or 0) for row in rewards]
    return sum(one.count(value) for one in kept for value in RAW)


def erased(service: Service, clock: Clock, folder: Path, days: float = 31.0) -> None:
    """Nothing is erased before it is time, and all of it then."""
    told_the_time(service)
    before = raw(service, folder)
    assert before > 0
    clock.days += 29.0
    told_the_time(service)
    assert raw(service, folder) == before
    clock.days += days - 29.0
    told_the_time(service)
    clock.days += 0.31
    told_the_time(service)
    assert raw(service, folder) == 0


def spent(shop: Caller) -> Any:
    return shop.get("/v1/populations/customers").json()["parts"]


@pytest.mark.parametrize("status", ["retired", "paused", "active"])
def test_rounds_of_a_block_that_is_never_released(
    service: Service, shop: Caller, folder: Path, clock: Clock, status: str
) -> None:
    begun(shop, [6, 60], lag=2)
    answers = visits(shop, 0, 12)
    told_the_time(service)
    policy = shop.get("/v1/policies/offers/policy").text
    changed = shop("PATCH", "/v1/policies/offers", {"status": status}, If_Match="*")
    assert changed.status_code == 200, changed.text
    paid = spent(shop)
    erased(service, clock, folder)
    assert [shop.reward(one["id"], 1).json()["outcome"] for one in answers[6:]] == ["late", "duplicate"] * 3
    assert shop.get("/v1/policies/offers/policy").text == policy
    assert spent(shop) == paid
    told = [one for one in shop.get("/v1/events").json()["events"] if one["what"] == "rounds-erased"]
    assert [(one["subject"], one["told"]) for one in told] == [
        ("policy offers", "rounds 6 to 11 are older than the retention time and count nothing")
    ]


def test_waits_that_are_over_are_settled_before_whenever_it_is_noticed(
    service: Service, shop: Caller, folder: Path, clock: Clock
) -> None:
    """The service slept for a year: default rewards count as if it had not, and nothing fails."""
    settings = {"wait_seconds": 60, "default_reward": 0.25}
    for name, blocks in (("offers", [6, 60]), ("more", [60])):
        tuning = {"blocks": blocks, "n_features": 3, "lag": 0}
        asked = {**OFFERS, "name": name, "horizon": 60, "tuning": tuning, "settings": settings}
        assert shop.post("/v1/policies", asked).status_code == 201
    answers = [shop.decide("v", policy=name).json()["id"] for name in ("offers", "more")]
    clock.days += 365.0
    told_the_time(service)
    for name, answer in zip(("offers", "more"), answers, strict=True):
        found = shop.get(f"/v1/policies/{name}/decisions/{answer}").json()
        assert found == {"status": "defaulted"}
    clock.days += 1.0
    told_the_time(service)
    with service.store.reading() as reads:
        assert reads.rows("SELECT reward, answer FROM decisions") == [(None, None)] * 2


def erased_by_the_hour(
    folder: Path, settings: Settings, clock: Clock, others: int, context: Any, *, slot: bool
) -> list[Any]:
    """What is erased and released, and when, where the first of all has brought `context`."""
    clock.days = 0.0
    began, service = time.time(), Service(folder, settings=settings)
    seen = []

    def day(at: object) -> float:
        return round((float(str(at)) - began) / DAY, 2)

    with served(service) as shop:
        assert shop.post("/v1/populations", CUSTOMERS).status_code == 201
        begun(shop, [10, 60], lag=2)
        shop.decide("first", context=context)
        if not slot:
            with service.store.writing() as writes:
                writes.run("UPDATE decisions SET ask = NULL WHERE status = 'refused'")
        clock.days = 0.2
        visits(shop, 0, others)
        for clock.days in (30.01, 30.15, 30.25, 30.32, 30.4, 30.52):
            told_the_time(service)
            with service.store.reading() as reads:
                marked = "SELECT value FROM facts WHERE name LIKE 'old %'"
                happened = "SELECT at, told FROM events WHERE what = 'rounds-erased'"
                released = "SELECT version, rounds, made_at FROM releases WHERE version > 0"
                marks = [one.split() for (one,) in reads.rows(marked)]
                events, releases = reads.rows(happened), reads.rows(released)
            seen.append(
                (
                    [(before, day(since)) for before, since in marks],
                    [(day(at), told) for at, told in events],
                    [(version, rounds, day(at)) for version, rounds, at in releases],
                )
            )
    return seen


@pytest.mark.parametrize("others", [8, 9])
@pytest.mark.parametrize("slot", [True, False])
def test_who_could_be_read_decides_neither_what_is_erased_nor_when(
    tmp_path: Path, settings: Settings, clock: Clock, others: int, slot: bool
) -> None:
    """Of a block that lacks a round, and of a complete one, which is released early; also where a refused
    round was kept without its slot.
    """
    worlds = []
    for number, age in enumerate((44, "?")):
        if settings.database:
            settings = Settings(database=databases.any_kind())
        context = {"age": age, "region": "west"}
        one = tmp_path / str(number)
        worlds.append(erased_by_the_hour(one, settings, clock, others, context, slot=slot))
    assert worlds[0] == worlds[1]
    assert worlds[0][0][0] != []  # it begins with the first of all
    assert worlds[0][-1][1:] != ([], [])  # something was erased, or released


def test_all_waits_that_are_over_are_settled_at_once(
    service: Service, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever else was told, and so waits no longer."""
    monkeypatch.setattr(application, "TICK_SECONDS", 1e6)  # the one tick is the test's
    settings = {"wait_seconds": 600, "default_reward": 0.25}
    tuning = {"blocks": [200], "n_features": 3, "lag": 0}
    with served(service) as shop:
        assert shop.post("/v1/populations", CUSTOMERS).status_code == 201
        for name, count in (("offers", 110), ("more", 1)):
            asked = {**OFFERS, "name": name, "horizon": 200, "tuning": tuning, "settings": settings}
            assert shop.post("/v1/policies", asked).status_code == 201
            for number in range(count):
                shop.decide(f"v{number}", policy=name)
        clock.days += 0.01
        service.tick().result()
        with service.store.reading() as reads:
            found = reads.rows("SELECT status, COUNT(*) FROM decisions GROUP BY status")
        assert found == [("defaulted", 111)]


@pytest.mark.parametrize("lag", [0, 2])
def test_a_block_that_takes_longer_is_released_with_what_is_left_of_it(
    folder: Path, settings: Settings, clock: Clock, lag: int
) -> None:
    """Users have had their rounds, a new start changes nothing, and the release is made at its place."""
    service = Service(folder, settings=settings)
    with served(service) as shop:
        assert shop.post("/v1/populations", CUSTOMERS).status_code == 201
        begun(shop, [6, 20, 40], lag)
        visits(shop, 0, 12)
        told_the_time(service)
        erased(service, clock, folder)
        paid, token = spent(shop), shop.token
    service = Service(folder, settings=settings)
    with served(service, token) as shop:
        assert raw(service, folder) == 0
        again = shop.decide("again", user="v9").json()
        assert again["type"] == "urn:dpbandits:user-has-had-all"
        visits(shop, 13, 8 + lag)  # the block's last round has no reward: a turn may release it at once
        assert raw(service, folder) > 0
        told_the_time(service)
        visits(shop, 30, 1)
        shop.get("/v1/policies/offers/policy")
        released = shop.get("/v1/policies/offers/releases").json()["releases"]
        assert [one["rounds"] for one in released] == [6, 20]
        assert spent(shop) == paid


def test_a_block_that_is_complete_is_released_before(
    service: Service, shop: Caller, folder: Path, clock: Clock
) -> None:
    """Though nobody came for the round that waits for it."""
    begun(shop, [6, 60], lag=2)
    visits(shop, 0, 7)
    erased(service, clock, folder)
    released = shop.get("/v1/policies/offers/releases").json()["releases"]
    assert [one["rounds"] for one in released] == [6]


class Stopped(BaseException):
    """As if the process had ended here."""


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
@pytest.mark.parametrize("where", ["keep", "done"])
def test_whatever_interrupts_it_is_done_again_and_once(
    folder: Path, settings: Settings, clock: Clock, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Stopped when all is computed, or written and not committed: the next start does it."""
    monkeypatch.setattr(Folding, "wake", lambda _: None)
    monkeypatch.setattr(application, "TICK_SECONDS", 1e6)  # the one tick is the test's
    service = Service(folder, settings=settings)
    with served(service) as shop:
        shop.post("/v1/populations", CUSTOMERS)
        begun(shop, [6, 60])
        answers, token = visits(shop, 0, 6), shop.token
        assert folding(service).turn() == 1
        answers += visits(shop, 6, 6)
        clock.days = 31.0
        told_the_time(service)
        clock.days += 0.31
        assert raw(service, folder) > 0

        def stopped(*_: object, **__: object) -> None:
            shutil.copytree(folder, folder.with_name("killed"))
            raise Stopped

        monkeypatch.setattr(*{"keep": (Folding, "_keep"), "done": (folds, "done")}[where], stopped)
        service.tick().result()
        with pytest.raises(Stopped):
            folding(service).turn()
        monkeypatch.undo()
    later = Clock(Hands(monkeypatch))
    later.days = 32.0
    service = Service(folder.with_name("killed"), settings=settings)
    later.days += 0.01  # until the clock is trusted
    with served(service, token) as shop:
        told_the_time(service)
        assert raw(service, folder.with_name("killed")) == 0
        assert shop.decide("new").json()["fallback"] is False
        assert shop.reward(answers[8]["id"], 1).json() == {"outcome": "late"}
        released = shop.get("/v1/policies/offers/releases").json()["releases"]
        assert [one["rounds"] for one in released] == [6]


@pytest.mark.parametrize("settings", ["folder"], indirect=True)
def test_a_copy_that_is_closed_keeps_no_rounds(
    service: Service, shop: Caller, folder: Path, tmp_path: Path
) -> None:
    begun(shop, [6, 60])
    visits(shop, 0, 12)
    policy = shop.get("/v1/policies/offers/policy").text
    service.close()
    back_up(folder, tmp_path / "copy")
    assert adopt(tmp_path / "copy", settings=Settings()) is False
    copy = Service(tmp_path / "copy")
    with served(copy, shop.token) as admin:
        with copy.store.reading() as reads:
            for table in ("slots", "states", "people", "progress"):
                assert reads.rows(f"SELECT * FROM {table}") == []  # noqa: S608 - ours
        assert admin.get("/v1/policies/offers/policy").text == policy

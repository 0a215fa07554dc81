"""Whose a token is: asked of the store beside the event loop, for a short time, and remembered."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service import gate, tokens
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import Caller, served

JUNK = "dpb_0123456789ab_junk"

IN_TIME = 30.0
"""Seconds within which a busy machine answers what waits for nothing; a store hangs for 60 at least."""


def health_seconds(caller: Caller) -> float:
    began = time.monotonic()
    assert Caller(caller.client, None).get("/v1/health").status_code == 200
    return time.monotonic() - began


def refused_in_time(caller: Caller, count: int) -> list[float]:
    """Seconds of health while so many junk tokens are asked for; all of these are turned away."""
    with ThreadPoolExecutor(count) as pool:
        junk = [Caller(caller.client, f"{JUNK}{number}") for number in range(count)]
        asked = [pool.submit(one.get, "/v1/policies") for one in junk]
        time.sleep(0.1)
        seconds = [health_seconds(caller) for _ in range(5)]
        replies = [one.result() for one in asked]
    assert {one.status_code for one in replies} == {503}
    assert {one.headers["retry-after"] for one in replies} == {"1"}
    return seconds


class Hanging:
    """A service whose reads hang while it is told so.

    Look-ups of tokens are counted. Reads of others, such as checks of readiness, come in between.
    """

    def __init__(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        self._go, self._read, self.reads, self.most, self._now = threading.Event(), service.read, 0, 0, 0
        self._go.set()
        self._lock = threading.Lock()
        monkeypatch.setattr(service, "read", self.read)

    def read(self, call: Callable[[Any], Any]) -> Any:
        looks_up = getattr(call, "__module__", "") == gate.__name__
        with self._lock:
            self.reads += looks_up
            self._now += looks_up
            self.most = max(self.most, self._now)
        self._go.wait(60.0)
        with self._lock:
            self._now -= looks_up
        return self._read(call)

    @contextmanager
    def now(self) -> Iterator[None]:
        self._go.clear()
        try:
            yield
        finally:
            self._go.set()


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is forgotten while a test counts look-ups: no other worker makes or withdraws a token."""
    monkeypatch.setattr(gate, "WATCH_SECONDS", 1e6)


@pytest.fixture
def hanging(service: Service, monkeypatch: pytest.MonkeyPatch) -> Hanging:
    return Hanging(service, monkeypatch)


def test_health_answers_while_the_store_hangs(
    hanging: Hanging, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert admin.get("/v1/events").status_code == 200
    hanging.most = 0
    with hanging.now(), monkeypatch.context() as impatient:
        impatient.setattr(gate, "LOOKUP_SECONDS", 0.5)
        assert max(refused_in_time(admin, 20)) < IN_TIME
        assert hanging.most <= gate.LOOKUPS
    assert admin.get("/v1/policies").status_code == 200
    assert Caller(admin.client, JUNK).get("/v1/policies").status_code == 401


def test_there_are_so_many_lookups_and_one_more_is_turned_away(
    hanging: Hanging, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "MOST_LOOKING", gate.LOOKUPS)
    before = hanging.reads
    with ThreadPoolExecutor(gate.LOOKUPS) as pool:
        with hanging.now():
            junk = [Caller(admin.client, f"{JUNK}{n}") for n in range(gate.LOOKUPS + 1)]
            waiting = [pool.submit(one.get, "/v1/events") for one in junk[1:]]
            within(lambda: hanging.reads == before + gate.LOOKUPS)
            assert junk[0].get("/v1/events").status_code == 503
            assert not any(one.done() for one in waiting)  # so it was turned away sooner than those that wait
        assert {one.result().status_code for one in waiting} == {401}


@pytest.mark.usefixtures("unwatched")
def test_what_is_no_token_is_looked_up_once(
    hanging: Hanging, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "TEXTS_KEPT", 5)
    before = hanging.reads
    for _ in range(5):
        assert Caller(admin.client, JUNK).get("/v1/events").status_code == 401
    assert hanging.reads == before + 1
    for number in range(5):
        Caller(admin.client, f"{JUNK}{number}").get("/v1/events")
    Caller(admin.client, JUNK).get("/v1/events")
    assert hanging.reads == before + 7  # those that are remembered are bounded
    for _ in range(3):  # a text that is too long for a token is none, and is neither kept nor asked for
        assert Caller(admin.client, "x" * 5000).get("/v1/events").status_code == 401


@pytest.mark.usefixtures("unwatched")
def test_requests_with_one_token_are_one_lookup(hanging: Hanging, admin: Caller) -> None:
    before = hanging.reads
    with ThreadPoolExecutor(8) as pool:
        with hanging.now():
            asked = [pool.submit(Caller(admin.client, JUNK).get, "/v1/events") for _ in range(8)]
            within(lambda: hanging.reads > before)
            time.sleep(0.2)
        assert {one.result().status_code for one in asked} == {401}
    assert hanging.reads == before + 1


def test_a_token_that_was_none_counts_once_it_is_made(
    service: Service, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once here, and soon where another worker has made it."""
    monkeypatch.setattr("secrets.token_urlsafe", lambda count: "s" * count)
    monkeypatch.setattr("secrets.token_hex", lambda count: "a" * 2 * count)
    text = f"dpb_{'a' * 12}_{'s' * 32}"
    caller = Caller(admin.client, text)
    assert caller.get("/v1/policies").status_code == 401
    made = admin.post("/v1/tokens", {"label": "x", "scopes": ["read"]})
    assert made.json()["token"] == text
    assert caller.get("/v1/policies").status_code == 200
    monkeypatch.setattr("secrets.token_hex", lambda count: "b" * 2 * count)
    caller = Caller(admin.client, text.replace("a" * 12, "b" * 12))
    assert caller.get("/v1/policies").status_code == 401
    how: dict[str, Any] = {"label": "y", "scopes": ["read"], "now": service.now()}
    service.write(lambda writes: tokens.make_token(writes, service.keys, **how)).result()
    within(lambda: caller.get("/v1/policies").status_code == 200)
    service.write(lambda writes: tokens.withdraw(writes, "b" * 12, service.now())).result()
    within(lambda: caller.get("/v1/policies").status_code == 401)


def within(done: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_token_is_not_known_for_ever_while_the_store_is_silent(
    hanging: Hanging, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "LOOKUP_SECONDS", 0.1)
    monkeypatch.setattr(gate, "SILENT_SECONDS", 0.2)
    within(lambda: admin("DELETE", "/v1/outsourced/none").status_code == 404)
    with hanging.now():
        within(lambda: admin("DELETE", "/v1/outsourced/none").status_code == 503)
    within(lambda: admin.get("/v1/policies").status_code == 200)


def test_health_answers_while_the_database_is_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = databases.any_kind()
    service = Service(tmp_path / "data", settings=Settings(database=address))
    with served(service) as admin:
        assert admin.get("/v1/policies").status_code == 200
        with databases.frozen(address), monkeypatch.context() as impatient:
            impatient.setattr(gate, "LOOKUP_SECONDS", 2.0)
            assert max(refused_in_time(admin, 10)) < IN_TIME
        within(lambda: admin.get("/v1/policies").status_code == 200, 60.0)

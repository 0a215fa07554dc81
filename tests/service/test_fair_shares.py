"""Who sends much, or batches, is slowed down by itself, and others wait for one transaction at most."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import pytest

from dpbandits.service import gate, writer
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore
from dpbandits.service.writer import Crowded, Writer
from service.conftest import AGNES, CUSTOMERS, DEFAULTS, Caller, served
from service.test_local import ASKED as TIPS
from service.test_local import PEOPLE as PEOPLE_OF_DEVICES


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Writer]:
    store = SQLiteStore(tmp_path / "a.db")
    found = Writer(store)
    yield found
    found.close()
    store.close()


@contextmanager
def held(writer: Writer) -> Iterator[None]:
    """The writer is busy with one call until the block is left."""
    busy, go = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        busy.set()
        go.wait(60.0)

    held = writer.submit(hold)
    busy.wait(60.0)
    try:
        yield
    finally:
        go.set()
        held.result(60.0)


def test_senders_have_their_turns(alone: Writer) -> None:
    done: list[str] = []
    with held(alone):
        sent = [alone.submit(lambda _: done.append("many"), by="many") for _ in range(500)]
        sent += [alone.submit(lambda _: done.append("few"), by="few") for _ in range(3)]
    for one in sent:
        one.result(60.0)
    assert len(done) == 503
    assert max(place for place, who in enumerate(done) if who == "few") < 2 * 3


def test_of_batches_a_transaction_has_one(alone: Writer) -> None:
    """And everybody has their turn with one, too."""
    transactions: list[list[str]] = []

    def call(who: str) -> Any:
        def called(writes: Any) -> None:
            if not transactions or writes is not last[0]:
                transactions.append([])
                last[:] = [writes]
            transactions[-1].append(who)

        return called

    last: list[Any] = [None]
    with held(alone):
        sent = [alone.submit(call("A"), by="A", count=100) for _ in range(5)]
        sent += [alone.submit(call("B"), by="B", count=100) for _ in range(2)]
        sent += [alone.submit(call("one"), by="C") for _ in range(3)]
    for one in sent:
        one.result(60.0)
    assert transactions[0] == ["one", "one", "one", "A"]
    assert [one for (one,) in transactions[1:]] == ["B", "A", "B", "A", "A", "A"]


def test_what_waits_is_bounded_for_a_sender_and_in_all(
    alone: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_OF_ONE", 20)
    monkeypatch.setattr(writer, "MOST_WAITING", 30)
    with held(alone):
        sent = [alone.submit(lambda _: None, by="A", count=10) for _ in range(2)]
        with pytest.raises(Crowded):
            alone.submit(lambda _: None, by="A")
        sent += [alone.submit(lambda _: None, by="B") for _ in range(10)]
        with pytest.raises(Crowded):
            alone.submit(lambda _: None, by="C")
        sent.append(alone.submit(lambda _: None))  # the service itself
    for one in sent:
        one.result(60.0)
    for _ in range(50):
        alone.submit(lambda _: None, by="A", count=10).result(60.0)  # what is done waits no more


def test_who_is_turned_away_is_told_to_come_again(
    service: Service, shop: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MOST_OF_ONE", 0)
    bodies = [{"id": f"v{number}", "user": f"v{number}", "context": AGNES} for number in range(3)]
    for reply in (
        shop.decide("v"),
        shop.post("/v1/policies/offers/decisions:batch", {"decisions": bodies}),
        shop.reward("d1-0", 1),
        shop.post("/v1/policies/offers/rewards:batch", {"rewards": [{"decision": "d", "reward": 1}] * 2}),
    ):
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        assert reply.json()["type"] == "urn:dpbandits:too-many-requests"
    assert service.read(lambda reads: reads.one("SELECT COUNT(*) FROM decisions")) == (0,)
    monkeypatch.undo()
    assert shop.decide("v").status_code == 200


@pytest.mark.parametrize("settings", [Settings(requests_per_second=50.0)])
def test_each_decision_of_a_batch_counts_as_a_request(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    clocks = SimpleNamespace(monotonic=lambda: now, perf_counter=perf_counter)
    monkeypatch.setattr(gate, "time", clocks)

    def batch(count: int) -> Any:
        bodies = [{"id": f"v{number}", "user": f"v{number}", "context": AGNES} for number in range(count)]
        return admin.post("/v1/policies/none/decisions:batch", {"decisions": bodies})

    assert batch(45).status_code == 200
    late = batch(45)
    assert late.status_code == 429
    now += int(late.headers["retry-after"])
    assert batch(300).status_code == 200  # more than a second's worth: let through, and paid for afterwards
    late = batch(1)
    assert late.status_code == 429
    assert 2 <= int(late.headers["retry-after"]) <= 6


@pytest.mark.parametrize("settings", [Settings(requests_per_address=5.0, proxies="127.0.0.1")])
def test_a_token_of_devices_is_slowed_down_by_address(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert admin.post("/v1/populations", PEOPLE_OF_DEVICES).status_code == 201
    assert admin.post("/v1/local", TIPS).status_code == 201
    device, mixed = admin.with_scopes("report"), admin.with_scopes("report", "read")
    clocks = SimpleNamespace(monotonic=lambda: 0.0, perf_counter=perf_counter)
    monkeypatch.setattr(gate, "time", clocks)  # all of it is at one moment
    where = f"/v1/local/{TIPS['name']}/policy"
    replies = [device.get(where) for _ in range(12)]
    assert replies[0].status_code == 200
    late = [one for one in replies if one.status_code == 429]
    assert late
    assert late[0].headers["retry-after"] == "1"
    assert all(mixed.get(where).status_code == 200 for _ in range(12))  # nobody's device has it
    other = Caller(admin.client, device.token)
    monkeypatch.setattr(gate, "network_of", lambda address: "another")
    assert other.get(where).status_code == 200


def test_rates_of_many_addresses_are_bounded(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "RATES_KEPT", 3)
    monkeypatch.setattr(gate, "network_of", lambda address: next(names))
    names = iter(f"address {number}" for number in range(100))
    device = admin.with_scopes("report")
    assert {device.get("/v1/local/none/policy").status_code for _ in range(20)} == {404}


def test_a_batch_is_done_in_parts(tmp_path: Path) -> None:
    """Of a hundred at most, and all of it is answered."""
    service = Service(tmp_path / "data", settings=Settings(requests_per_second=1e6))
    with served(service) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        assert admin.post("/v1/policies", {**DEFAULTS, "horizon": 1000}).status_code == 201
        counts: list[int] = []
        submit = service.writer.submit

        def counted(*given: Any, **how: Any) -> Any:
            counts.append(how.get("count", 1))
            return submit(*given, **how)

        service.writer.submit = counted  # type: ignore[method-assign]
        bodies = [{"id": f"v{number}", "user": f"v{number}", "context": AGNES} for number in range(250)]
        reply = admin.post("/v1/policies/offers/decisions:batch", {"decisions": bodies})
        found = reply.json()["results"]
        assert len({one["decision"]["id"] for one in found}) == 250
        assert max(counts) == 100
        told = [{"decision": one["decision"]["id"], "reward": 1} for one in found]
        reply = admin.post("/v1/policies/offers/rewards:batch", {"rewards": told})
        assert len(reply.json()["results"]) == 250
        assert max(counts) == 100

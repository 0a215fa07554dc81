"""Exports of raw rows: in pages, each read by itself; whoever reads slowly stops nobody."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dpbandits.errors import StateError
from dpbandits.service.core import Service
from dpbandits.service.gate import LOOKUPS
from dpbandits.service.postgres import OTHERS, RESERVED, PostgresStore
from dpbandits.service.retention import exported
from dpbandits.service.settings import Settings
from dpbandits.service.store import note_event
from internals.workers import impatient
from service import databases
from service.conftest import CUSTOMERS, OFFERS, Caller, served

PAGES = 3 * 1000
WAL = "service.db-wal"


def filled(service: Service, rows: int = PAGES) -> None:
    """So many decisions of the policy, as they are kept."""

    def fill(writes: Any) -> None:
        (policy,) = writes.one("SELECT id FROM policies")
        now = service.now()
        writes.many(
            "decisions",
            [
                (
                    number,
                    policy,
                    "t",
                    b"%d" % number,
                    b"",
                    None,
                    "counted",
                    '{"arm": "mail"}',
                    1.0,
                    now,
                    None,
                    None,
                )
                for number in range(10_000, 10_000 + rows)
            ],
        )

    service.write(fill).result()


@contextmanager
def stalled(caller: Caller, count: int) -> Iterator[None]:
    """So many readers of an export take a page of it, and nothing more until the block is left."""
    client = caller.client
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "GET",
        "path": "/v1/policies/offers/raw",
        "raw_path": b"/v1/policies/offers/raw",
        "query_string": b"",
        "root_path": "",
        "headers": [(b"authorization", f"Bearer {caller.token}".encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "scheme": "http",
    }
    reading: list[int] = []

    async def read(go: asyncio.Event) -> None:
        async def send(message: Any) -> None:
            nonlocal sent
            sent += 1
            if sent == 3:  # after the headers and the warning
                reading.append(1)
                await go.wait()

        async def receive() -> Any:
            if not told.is_set():
                told.set()
                return {"type": "http.request", "body": b"", "more_body": False}
            return await asyncio.Future()

        sent, told = 0, asyncio.Event()
        await client.app({**scope}, receive, send)

    async def begin() -> tuple[asyncio.Event, list[asyncio.Task[None]]]:
        go = asyncio.Event()
        tasks = [asyncio.create_task(read(go)) for _ in range(count)]
        while len(reading) < count:
            await asyncio.sleep(0.01)
        return go, tasks

    async def end(go: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
        go.set()
        await asyncio.gather(*tasks)

    portal: Any = client.portal
    go, tasks = portal.call(begin)
    try:
        yield
    finally:
        portal.call(end, go, tasks)


def begun(admin: Caller, service: Service) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    assert admin.post("/v1/policies", OFFERS).status_code == 201
    filled(service)


def test_an_export_has_every_decision_once_in_order(service: Service, shop: Caller) -> None:
    filled(service)
    asked = [shop.decide(f"v{number}").json()["id"] for number in range(3)]
    lines = shop.get("/v1/policies/offers/raw").text.splitlines()
    found = [json.loads(line) for line in lines]
    assert "not a private release" in found[0]["warning"]
    ids = [one["id"] for one in found[1:]]
    assert len(ids) == len(set(ids)) == PAGES + 3
    numbers = [int(one[1:].partition("-")[0], 16) for one in ids]
    assert numbers == sorted(numbers)
    assert set(asked) <= set(ids)


def test_decisions_that_come_after_an_export_began_are_not_in_it(service: Service, shop: Caller) -> None:
    filled(service)
    (policy,) = service.read(lambda reads: reads.one("SELECT id FROM policies")) or ("",)
    pages = exported(service.read, service.keys, policy)
    seen = next(pages) + next(pages)
    first = json.loads(seen.splitlines()[1])["id"]
    late = [shop.decide(f"v{number}").json()["id"] for number in range(3)]
    rest = "".join(pages)
    assert len((seen + rest).splitlines()) == 1 + PAGES
    assert not any(one in rest for one in [first, *late])


def test_stalled_readers_do_not_let_the_write_ahead_log_grow(
    service: Service, shop: Caller, folder: Path
) -> None:
    filled(service)
    with stalled(shop, 2):
        for number in range(60):
            told = "x" * 250_000
            service.write(lambda writes, told=told: note_event(writes, 0.0, "test", "test", told)).result()
            if not number % 20:
                assert shop.decide(f"v{number}").status_code == 200
        assert (folder / WAL).stat().st_size < 8 << 20  # of 15 MB that were written


def test_stalled_readers_hold_no_connection_of_a_database(tmp_path: Path) -> None:
    address = databases.any_kind()
    service = Service(tmp_path / "data", settings=Settings(database=address))
    with served(service) as admin:
        begun(admin, service)
        with stalled(admin, 8):
            assert all(admin.decide(f"v{number}").status_code == 200 for number in range(5))
            assert admin.get("/v1/policies").status_code == 200


def test_connections_are_reserved_for_decisions_and_what_they_wait_for(tmp_path: Path) -> None:
    """Readers have all others. A token is looked up meanwhile, a population that pays, and a release made."""
    address = databases.any_kind()
    service = Service(tmp_path / "data", settings=Settings(database=address))
    with served(service) as admin:
        begun(admin, service)
        asked = {"label": "a test's", "scopes": ["decide"], "populations": ["customers"]}
        shop = Caller(admin.client, admin.post("/v1/tokens", asked).json()["token"])
        with ExitStack() as looking:
            for _ in range(OTHERS):
                looking.enter_context(service.store.reading())
            answers = [shop.decide(f"v{number}") for number in range(30)]
            assert {one.status_code for one in answers} == {200}
            assert answers[-1].json()["release"] == 1
    assert RESERVED == 2 + LOOKUPS  # the writer and the folding thread have one each
    store = PostgresStore(address)
    with ExitStack() as looking:
        for _ in range(OTHERS):
            looking.enter_context(store.reading())
        impatient(store)
        with pytest.raises(StateError, match="no connection"), store.reading():
            pass
    store.close()

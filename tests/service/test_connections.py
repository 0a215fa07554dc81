"""Connections and bodies of people without a token keep nobody out, and take little."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from dpbandits.service import http_server as serving
from dpbandits.service.gate import Gate
from dpbandits.service.http_server import Connections, http_server
from dpbandits.service.problems import Problem
from dpbandits.service.settings import Settings
from dpbandits.service.tokens import Token

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BOTH = pytest.mark.parametrize("fast", [True, False])


GO = threading.Event()
"""Set where answers at /slow may come."""

ASKED: list[str] = []
"""Paths of requests that the application has been given."""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heads may come late, from a machine that stands still."""
    monkeypatch.setattr(serving, "HEAD_SECONDS", 600.0)


async def fine(scope: Any, receive: Any, send: Any) -> None:
    """Answers when the body is there, and at /slow when it may."""
    while (await receive()).get("more_body"):
        pass
    ASKED.append(scope["path"])
    while scope["path"] == "/slow" and not GO.is_set():
        await asyncio.sleep(0.01)
    headers = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})


@contextmanager
def served(connections: Connections | None = None, *, fast: bool = True) -> Iterator[int]:
    server = http_server(fine, fast=fast, connections=connections, lifespan="off", proxy_headers=False)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    GO.clear()
    ASKED.clear()
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        GO.set()
        server.should_exit = True
        thread.join(60.0)


def asked(connection: socket.socket, sent: bytes = GET) -> bytes:
    """The answer; nothing where the connection was closed instead."""
    found = b""
    with suppress(OSError):
        connection.sendall(sent)
        while not found.endswith(b"ok"):
            piece = connection.recv(65536)
            if not piece:
                break
            found += piece
    return found


def opened(files: ExitStack, port: int, count: int) -> list[socket.socket]:
    return [
        files.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in range(count)
    ]


@BOTH
@pytest.mark.parametrize("proxies", ["", "127.0.0.0/8"])
def test_idle_connections_keep_nobody_out(*, fast: bool, proxies: str) -> None:
    """Of too many from one address, or in all, the oldest idle ones are closed."""
    connections = Connections(most=30, of_one=20, proxies=proxies)
    with served(connections, fast=fast) as port, ExitStack() as files:
        idle = opened(files, port, 60)
        (mine,) = opened(files, port, 1)
        for _ in range(3):
            assert asked(mine).startswith(b"HTTP/1.1 200")
            *_, last = opened(files, port, 5)
        assert asked(last).startswith(b"HTTP/1.1 200")  # connections are taken in turn: all were taken
        left = sum(bool(asked(one)) for one in idle)
        assert left == (30 if proxies else 20) - 1 - 15
        assert not asked(idle[0])


@BOTH
def test_a_connection_that_is_answered_is_not_closed_for_others(*, fast: bool) -> None:
    with served(Connections(of_one=5), fast=fast) as port, ExitStack() as files:
        busy = opened(files, port, 5)
        for one in busy:
            one.sendall(GET.replace(b"/ ", b"/slow "))
        comes_to(lambda: len(ASKED) == 5)
        (late,) = opened(files, port, 1)
        assert not asked(late)
        GO.set()
        assert all(asked(one, b"").startswith(b"HTTP/1.1 200") for one in busy)
        (late,) = opened(files, port, 1)
        assert asked(late).startswith(b"HTTP/1.1 200")


def comes_to(be: Callable[[], bool]) -> None:
    until = time.monotonic() + 60.0
    while not be():
        assert time.monotonic() < until
        time.sleep(0.01)


@BOTH
def test_a_head_has_its_time(monkeypatch: pytest.MonkeyPatch, *, fast: bool) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.6)
    with served(fast=fast) as port, ExitStack() as files:
        silent, slow = opened(files, port, 2)
        kept = begun(files, port, "/")
        answered = begun(files, port, "/slow")
        assert asked(kept, b"").startswith(b"HTTP/1.1 200")
        began = time.monotonic()
        for piece in (GET[:-2], b"", b"", b""):
            with suppress(OSError):
                slow.sendall(piece + b"a")
            time.sleep(0.25)
        for one in (silent, slow):
            with suppress(ConnectionError):
                assert one.recv(100) == b""
        assert time.monotonic() - began < 20.0
        GO.set()
        assert asked(answered, b"").startswith(b"HTTP/1.1 200")  # an answer may take longer
        assert asked(kept).startswith(b"HTTP/1.1 200")  # and so may the next request


def begun(files: ExitStack, port: int, path: str) -> socket.socket:
    """A connection whose head came in its time; of a machine that stands still it may have come late."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        (found,) = opened(files, port, 1)
        with suppress(OSError):
            found.sendall(GET.replace(b"/ ", path.encode() + b" "))
        found.setblocking(False)
        while path not in ASKED:
            try:
                if not found.recv(1, socket.MSG_PEEK):
                    break
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:
                break
        else:
            found.settimeout(60)
            return found
    raise AssertionError("no head came in its time")


def test_addresses_of_one_network_count_together() -> None:
    class One:
        def __init__(self, address: str) -> None:
            self.client, self.transport, self.closed = (address, 1), self, False
            self.makes_room = True

        def abort(self) -> None:
            self.closed = True

        close = abort

    connections = Connections(of_one=2, proxies="192.0.2.0/24,2001:db8:9::/48")
    first = [One(f"2001:db8::{number}") for number in range(3)]
    others = [One("2001:db8:0:1::1"), *(One("192.0.2.7") for _ in range(3)), One("198.51.100.1")]
    others += [One("2001:db8:9::1") for _ in range(3)]
    others += [One(f"::ffff:198.51.100.{number}") for number in range(2, 5)]  # IPv4 at a socket of IPv6
    for one in [*first, *others]:
        connections.add(one)
    assert [one.closed for one in first] == [True, False, False]
    assert not any(one.closed for one in others)


# -- bodies -------------------------------------------------------------------------------------------


class Sender:
    """A request with a body, piece by piece."""

    def __init__(self, gate: Gate, token: str | None, size: int, *, says: bool = True) -> None:
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        headers += [(b"content-length", b"%d" % size)] if says else [(b"transfer-encoding", b"chunked")]
        self._scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        self._gate, self.pieces, self.taken = gate, asyncio.Queue[bytes | None](), 0
        self.status, self.headers, self.problem = 0, {}, ""

    async def run(self) -> "Sender":
        async def receive() -> Any:
            piece = await self.pieces.get()
            self.taken += 1
            return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                self.headers = {name.decode(): value.decode() for name, value in message["headers"]}
            elif self.status >= 400:
                self.problem = json.loads(message["body"])["type"]

        await self._gate(self._scope, receive, send)
        return self


async def known(scope: Any) -> Token:
    sent = dict(scope["headers"]).get(b"authorization", b"").decode()
    if "Bearer good" not in sent:
        raise Problem("no-token")
    return Token(sent, frozenset(), None)


def gate(**bounds: Any) -> Gate:
    return Gate(fine, Settings(**bounds), known, lambda *_: None)


@pytest.mark.parametrize("says", [True, False])
@pytest.mark.parametrize("token", [None, "junk"])
def test_whose_a_body_is_is_known_before_it_is_read(token: str | None, *, says: bool) -> None:
    async def run() -> None:
        one = Sender(gate(), token, 1 << 20, says=says)
        for _ in range(1 << 6):
            one.pieces.put_nowait(b"x" * (1 << 14))
        await asyncio.wait_for(one.run(), 5.0)
        assert (one.status, one.problem) == (401, "urn:dpbandits:no-token")
        assert one.taken <= (token is None and not says)  # no more than a form takes

    asyncio.run(run())


def test_a_form_needs_no_token() -> None:
    async def run() -> None:
        one = Sender(gate(), None, 1000)
        one.pieces.put_nowait(b"x" * 1000)
        one.pieces.put_nowait(None)
        assert (await one.run()).status == 200

    asyncio.run(run())


def test_bytes_of_all_bodies_have_a_bound() -> None:
    async def run() -> None:
        behind = gate(largest_body=1 << 20, bytes_at_once=3 << 20)
        slow = [Sender(behind, f"good {number % 2}", 1 << 20) for number in range(3)]
        reading = [asyncio.create_task(one.run()) for one in slow]
        for one in slow:
            one.pieces.put_nowait(b"x" * (1 << 20))
        await asyncio.sleep(0.05)
        late = Sender(behind, "good", 1000)
        late.pieces.put_nowait(b"x" * 1000)
        late.pieces.put_nowait(None)
        await late.run()
        assert (late.status, late.problem, late.headers["retry-after"]) == (503, "urn:dpbandits:busy", "1")
        for one in slow:
            one.pieces.put_nowait(None)
        assert [one.status for one in await asyncio.gather(*reading)] == [200] * 3
        again = Sender(behind, "good", 1 << 20)
        again.pieces.put_nowait(b"x" * (1 << 20))
        again.pieces.put_nowait(None)
        assert (await again.run()).status == 200  # nothing of the others is counted any more

    asyncio.run(run())


def test_so_many_requests_are_answered_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbandits.service.gate.MOST_AT_ONCE", 2)

    async def run() -> None:
        behind = gate()
        waiting = [Sender(behind, f"good {number}", 10) for number in range(2)]
        nobodys = Sender(behind, None, 10)  # without a token it counts for nobody
        reading = [asyncio.create_task(one.run()) for one in [*waiting, nobodys]]
        await asyncio.sleep(0.05)
        late = await Sender(behind, "good", 10).run()
        assert (late.status, late.problem) == (503, "urn:dpbandits:busy")
        for one in [*waiting, nobodys]:
            one.pieces.put_nowait(None)
        assert [one.status for one in await asyncio.gather(*reading)] == [200] * 3

    asyncio.run(run())


@pytest.mark.parametrize("mine", [6, 7])
def test_a_token_that_stalls_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch, mine: int) -> None:
    """Of 8 requests, or of 8 MiB, one token has 6 at most."""
    monkeypatch.setattr("dpbandits.service.gate.MOST_AT_ONCE", 8)

    async def run() -> None:
        behind = gate(largest_body=1 << 20, bytes_at_once=8 << 20)
        stalled = [Sender(behind, "good device", 1 << 20) for _ in range(mine)]
        reading = [asyncio.create_task(one.run()) for one in stalled]
        for one in stalled:
            one.pieces.put_nowait(b"x" * (1 << 20))
        await asyncio.sleep(0.05)
        assert [one.status for one in stalled] == [0] * 6 + [503] * (mine - 6)
        other = Sender(behind, "good shop", 1 << 20)
        other.pieces.put_nowait(b"x" * (1 << 20))
        other.pieces.put_nowait(None)
        assert (await other.run()).status == 200
        for one in stalled:
            one.pieces.put_nowait(None)
        await asyncio.gather(*reading)
        again = [Sender(behind, "good device", 1 << 20) for _ in range(6)]  # nothing is counted any more
        for one in again:
            one.pieces.put_nowait(b"x" * (1 << 20))
            one.pieces.put_nowait(None)
        assert [(await one.run()).status for one in again] == [200] * 6

    asyncio.run(run())


@pytest.mark.parametrize("token", [None, "good"])
def test_a_length_beside_chunks_says_nothing(token: str | None) -> None:
    """h11 lets both pass, and gives what comes in chunks."""

    async def run() -> None:
        one = Sender(gate(largest_body=1 << 20), token, 0, says=False)
        one._scope["headers"].append((b"content-length", b"0"))
        for _ in range(1 << 8):
            one.pieces.put_nowait(b"x" * (1 << 14))
        await asyncio.wait_for(one.run(), 5.0)
        assert one.status == (401 if token is None else 413)
        assert one.taken <= 65

    asyncio.run(run())

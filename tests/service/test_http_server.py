"""The server before the application: which loop and parser it has, and what it collects of a head."""

import asyncio
import resource
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dpbandits.service.http_server import LARGEST_HEAD, http_server

MEGABYTE = 1 << 20


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Answers with the length of the body, and of all headers and trailers."""
    if scope["type"] != "http":
        return
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    heads = sum(len(name) + len(value) for name, value in scope["headers"])
    body = f"{size} {heads}".encode()
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def served(*, fast: bool) -> Iterator[int]:
    server = http_server(echo, fast=fast, lifespan="off")
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(60.0)


def sent(port: int, *pieces: bytes) -> tuple[bytes, int]:
    """What is answered to pieces, and how many bytes could be sent before that."""
    done = 0
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        try:
            for piece in pieces:
                connection.sendall(piece)
                done += len(piece)
                time.sleep(0.0005)
        except OSError:
            pass  # it was refused before all of it was there
        try:
            return connection.recv(65536), done
        except OSError:
            return b"", done


def test_what_a_head_may_take_is_bounded(subtests: Any) -> None:
    """A header of ten megabytes, many headers, a long line and trailers: refused before they are whole."""
    start = b"POST / HTTP/1.1\r\nHost: x\r\n"
    part = b"a" * (32 << 10)
    chunked = start + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    many = b"".join(b"h%d: v\r\n" % number for number in range(3000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with served(fast=True) as port:
        for name, pieces in (
            ("one header", [start + b"a: ", *[part] * 320]),
            ("the name of one", [start, *[part] * 320]),
            ("many headers", [start, *[many] * 320]),
            ("the line", [b"POST /", *[part] * 320]),
            ("a trailer", [chunked + b"a: ", *[part] * 320]),
        ):
            with subtests.test(name):
                answer, done = sent(port, *pieces)
                assert answer.split(b" ")[1:2] == [b"431"] or not answer
                assert answer or done < MEGABYTE
                assert done < 8 * MEGABYTE  # what the two ends of a connection buffer, at most
        answer, _ = sent(
            port, start + b"a: " + b"b" * (LARGEST_HEAD - 100) + b"\r\nContent-Length: 0\r\n\r\n"
        )
        assert answer.startswith(b"HTTP/1.1 200")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 32 * MEGABYTE


@pytest.mark.parametrize("fast", [True, False])
def test_large_bodies_and_requests_one_after_the_other_are_whole(fast: bool) -> None:
    with served(fast=fast) as port:
        body = b"x" * (3 * MEGABYTE)
        one = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(one + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            found = b"".join(iter(lambda: connection.recv(65536), b""))
        assert found.count(b"HTTP/1.1 200") == 2
        assert b"%d " % len(body) in found


def bases(kind: type) -> list[str]:
    return [one.__name__ for one in kind.__mro__]


def test_without_them_h11_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpbandits.service.http_server.find_spec", lambda name: None)
    config = http_server(echo, lifespan="off").config
    config.load()
    assert "H11Protocol" in bases(config.http_protocol_class)
    assert config.h11_max_incomplete_event_size == LARGEST_HEAD


def test_the_fast_loop_and_parser_are_used_where_they_are_installed() -> None:
    pytest.importorskip("uvloop")
    config = http_server(echo, lifespan="off").config
    config.load()
    assert "HttpToolsProtocol" in bases(config.http_protocol_class)
    made = config.get_loop_factory()
    loop = made() if made is not None else asyncio.new_event_loop()
    try:
        assert type(loop).__module__.startswith("uvloop")
    finally:
        loop.close()

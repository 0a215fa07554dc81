"""HTTP server: uvicorn with uvloop and httptools if they are installed, else with asyncio and h11.

A head is the request line with the headers. httptools buffers an unfinished head of any length, which
`_Bounded` refuses; h11 has its own bound. A head has to arrive within `HEAD_SECONDS`. `Connections` bounds
the number of open connections and closes the oldest idle ones, so that a client without a token cannot block
others.
"""

import asyncio
from importlib.util import find_spec
from ipaddress import ip_address, ip_network
from typing import Any

import uvicorn

from dpbandits.service.gate import SENDER, network_of

__all__ = ["Connections", "http_server"]

HEAD_SECONDS = 10.0
"""Number of seconds within which a request's head has to arrive, or the rest of its body after the answer."""

LARGEST_HEAD = 64 << 10
"""Largest size in bytes of request line and headers, or of trailers.

The check may let `_PIECE` bytes more pass.
"""

_PIECE = 16 << 10
"""Number of bytes that are parsed between two checks of the bound `LARGEST_HEAD`."""


class Connections:
    """Open connections by address, oldest first.

    Args:
        most: largest number of connections.
        of_one: largest number of connections of one address, or of one /64 network of IPv6.
        proxies: addresses and networks, separated by commas, to which the bound `of_one` does not apply.
    """

    def __init__(self, *, most: int = 10_000, of_one: int = 500, proxies: str = "") -> None:
        self._most, self._of_one, self._count = most, of_one, 0
        self._proxies = [ip_network(one.strip()) for one in proxies.split(",") if one]
        self._by: dict[str, dict[Any, None]] = {}

    def add(self, one: Any) -> None:
        """Add a connection. If there are too many, close an idle one, or else the new one."""
        address, free = self._address(one)
        ours = self._by.setdefault(address, {})
        full = None
        if len(ours) >= self._of_one and not free:
            full = ours
        elif self._count >= self._most:
            full = max(self._by.values(), key=len)
        if full is not None:
            idle = next((other for other in full if other.makes_room), None)
            if idle is None:
                one.transport.close()
                return
            self.remove(idle)
            idle.transport.abort()
        self._by.setdefault(address, {})[one] = None
        self._count += 1

    def remove(self, one: Any) -> None:
        """Remove a connection."""
        address, _ = self._address(one)
        ours = self._by.get(address, {})
        if one in ours:
            del ours[one]
            self._count -= 1
            if not ours:
                del self._by[address]

    def _address(self, one: Any) -> tuple[str, bool]:
        """Return the key of a connection's address, and True if the address is a proxy."""
        if not one.client:
            return "", True
        found = ip_address(one.client[0])
        found = getattr(found, "ipv4_mapped", None) or found
        return network_of(one.client[0]), any(found in network for network in self._proxies)


def http_server(
    application: Any, *, fast: bool = True, connections: Connections | None = None, **options: Any
) -> uvicorn.Server:
    """Return a server of an ASGI application.

    With `fast`, it uses uvloop and httptools if they are installed.
    """
    from uvicorn.protocols.http.h11_impl import H11Protocol

    quick = fast and find_spec("httptools") is not None
    parser = _watched(_bounded() if quick else H11Protocol, connections or Connections())
    return uvicorn.Server(
        uvicorn.Config(
            application,
            loop="auto" if fast else "asyncio",
            http=parser,
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            **{"timeout_keep_alive": 30, "timeout_graceful_shutdown": 10, **options},
        )
    )


def _watched(protocol: Any, connections: Connections) -> Any:
    """Return a subclass of a uvicorn protocol that counts connections and has a timeout for heads."""

    class Watched(protocol):  # type: ignore[misc]
        _late: asyncio.TimerHandle | None = None

        @property
        def makes_room(self) -> bool:
            """True if the connection may be closed: it is idle, or sends a body without a token."""
            return self._waits or (self.cycle.more_body and SENDER not in self.cycle.scope)

        @property
        def _waits(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._late = self.loop.call_later(HEAD_SECONDS, transport.abort)
            connections.add(self)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if not self._waits:
                self._in_time()
            elif self._late is None:
                self._late = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

        def connection_lost(self, exc: Exception | None) -> None:
            self._in_time()
            connections.remove(self)
            super().connection_lost(exc)

        def _in_time(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None

    return Watched


def _bounded() -> type:
    """Return a subclass of uvicorn's httptools protocol that bounds the size of heads."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Bounded(HttpToolsProtocol):
        _unfinished = 0  # bytes since the last event of the parser

        def data_received(self, data: bytes) -> None:
            for first in range(0, len(data), _PIECE):
                piece = data[first : first + _PIECE]
                self._unfinished += len(piece)
                super().data_received(piece)
                if self.transport.is_closing():
                    return
                if self._unfinished > LARGEST_HEAD:
                    self.transport.write(
                        b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
                        b"content-length: 0\r\nconnection: close\r\n\r\n"
                    )
                    self.transport.close()
                    return

        def on_headers_complete(self) -> None:
            self._unfinished = 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            self._unfinished = 0
            super().on_body(body)

        def on_message_complete(self) -> None:
            self._unfinished = 0
            super().on_message_complete()

    return Bounded

"""The HTTP server: uvicorn with uvloop and httptools where they are installed, else with asyncio and h11.

httptools collects an unfinished header, however long it is; `_Bounded` refuses it. h11 has a bound of its
own.
"""

from importlib.util import find_spec
from typing import Any

import uvicorn

__all__ = ["http_server"]

LARGEST_HEAD = 64 << 10
"""Bytes of a request's line and headers, or of what follows a body, that are collected before they are whole;
a piece more may pass."""

_PIECE = 16 << 10
"""Bytes after which the bound is looked at."""


def http_server(application: Any, *, fast: bool = True, **options: Any) -> uvicorn.Server:
    """Return a server of an ASGI application; `fast` with uvloop and httptools, if they are installed."""
    parser: Any = "h11"
    if fast and find_spec("httptools") is not None:
        parser = _bounded()
    return uvicorn.Server(
        uvicorn.Config(
            application,
            loop="auto" if fast else "asyncio",
            http=parser,
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            **{"timeout_keep_alive": 30, "timeout_graceful_shutdown": 10, **options},
        )
    )


def _bounded() -> type:
    """Return uvicorn's protocol with httptools, whose heads are bounded."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Bounded(HttpToolsProtocol):
        _unfinished = 0  # bytes since the parser last gave something of this connection

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

"""`Gate` bounds the size and time of every request, and words and logs every answer.

It is plain ASGI around the application. It reads a whole body, within its bound and its time, once the token
is known: without a token a body may be as large as a form, and no larger. All bodies together have a bound,
of which one token may take a part (`Taken`). An error that no route foresaw is answered as a problem and
logged by its kind and place, without its text, which could hold data. The log of requests holds the route's
template, never the path; no query, header or body.
"""

import asyncio
import json
import logging
import re
import secrets
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address
from typing import Any

from dpbandits.service.problems import Problem, problem_of
from dpbandits.service.settings import Settings
from dpbandits.service.tokens import Token

__all__ = ["BODY", "SENDER", "Gate", "LogLines", "Taken", "answer_of", "log", "network_of", "written_json"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger("dpbandits.service")

SENDER = "dpbandits.sender"
"""Key of a scope: the token that its request came with, once it was looked up."""

BODY = "dpbandits.body"
"""Key of a scope: the body of its request, once it was read."""

LARGEST_FORM = 4096
"""Largest size in bytes of a body without a token."""

_BODILESS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS"})
"""Methods of requests that have no body if they do not say how long it is: no route reads one."""

MOST_AT_ONCE = 1000
"""Largest number of requests with bodies that are answered at a time."""

SHARE = 0.75
"""Part of what may be held at a time that one token may take: a token is in every device, or in a web page,
and whoever has it may stop in the middle of many bodies.
"""

_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        b"form-action 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


_WRITTEN = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def written_json(value: Any) -> bytes:
    """JSON in ASCII, without NaN."""
    return _WRITTEN.encode(value).encode()


_REQUEST: ContextVar[str] = ContextVar("request", default="")
"""Id of the request that is being answered, for all lines of the log that are about it."""

_RANDOM = re.compile(rb"[0-9A-Za-z._-]{16,64}")
"""Ids of requests that are taken from callers. Random ids are as long; a name or a number of a person, which
would stay in the log, seldom is, and is replaced."""


class LogLines(logging.Formatter):
    """Format of lines of the log with the id of their request, as text or as one object of JSON each.

    An exception is named by its kind alone: its text, and a traceback's, could hold data.

    Args:
        as_json: `time`, `level`, `message`, `request`, and of a request `method`, `route`, `status` and `ms`.
    """

    def __init__(self, *, as_json: bool) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:  # noqa: D102
        request = _REQUEST.get()
        if not self._as_json:
            return super().format(record) + f" request={request}" * bool(request)
        line = {"time": datetime.fromtimestamp(record.created, UTC).isoformat(), "level": record.levelname}
        line |= {"message": record.getMessage(), **getattr(record, "fields", {})}
        if request:
            line["request"] = request
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)

    def formatException(self, ei: Any) -> str:  # noqa: D102, N802 - the name is that of the standard library
        return ei[0].__name__ if ei[0] else ""


class Taken:
    """Counts what requests that are read or answered hold at a time: all together, and each sender.

    Args:
        most: of all.
        least: of one sender, also where that is more than its share.
    """

    def __init__(self, most: int, *, least: int = 1) -> None:
        self._most, self._of_one = most, max(least, int(SHARE * most))
        self._all, self._by = 0, Counter[str]()

    def take(self, sender: str, count: int) -> None:
        """Hold so much more; Problem where it is too much, and nothing more is held."""
        if self._all + count > self._most or self._by[sender] + count > self._of_one:
            raise _busy()
        self._all += count
        self._by[sender] += count

    def give_back(self, sender: str, count: int) -> None:
        """Hold so much less."""
        self._all -= count
        self._by[sender] -= count
        if not self._by[sender]:
            del self._by[sender]


class Gate:
    """The application behind it; see the module.

    Args:
        application: ASGI.
        settings: bounds of sizes and times.
        sender: finds out whose a request is; Problem where it is nobody's.
        saw: told (method, route's template, status, seconds) of every request.
        named: template of the route that a request was for which is refused here.
    """

    def __init__(
        self,
        application: Application,
        settings: Settings,
        sender: Callable[[Scope], Awaitable[Token]],
        saw: Callable[[str, str, int, float], None],
        named: Callable[[Scope], str] = lambda _: "none",
    ) -> None:
        self._application, self._settings, self._sender, self._saw = application, settings, sender, saw
        self._named = named
        self._bytes, self._bodies = (
            Taken(settings.bytes_at_once, least=settings.largest_body),
            Taken(MOST_AT_ONCE),
        )
        self._noise = b""
        strict = f"max-age={settings.hsts_seconds}".encode()
        self._headers = _HEADERS + (((b"strict-transport-security", strict),) * (settings.hsts_seconds > 0))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        began, status, started, request = time.perf_counter(), 500, False, self._request_id(scope["headers"])
        about = _REQUEST.set(request)

        async def sending(message: Message) -> None:
            nonlocal status, started
            if message["type"] == "http.response.start":
                status, started = message["status"], True
                named = {name.lower() for name, _ in message["headers"]}
                more = (pair for pair in self._headers if pair[0] not in named)
                message["headers"] = [*message["headers"], *more, (b"x-request-id", request.encode())]
            await send(message)

        try:
            largest, token = self._body_of(scope)
            if largest:
                await self._with_body(scope, receive, sending, largest, token=token)
            else:
                await self._application(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - the last place where it can be kept from a log
            problem = problem_of(error)
            if problem.slug == "defect":
                place = traceback.extract_tb(error.__traceback__)[-1]  # this method is in it, at least
                file = place.filename.rpartition("/")[2]
                log.error("defect: %s at %s:%s", type(error).__name__, file, place.lineno)
            if not started:
                await answer_of(problem, scope["path"])(sending)
        finally:
            route = scope.get("route")
            template = str(getattr(route, "path_format", "")) or self._named(scope)
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"  # else it is anybody's text
            self._saw(method, template, status, time.perf_counter() - began)
            _REQUEST.reset(about)

    def _request_id(self, headers: Sequence[tuple[bytes, bytes]]) -> str:
        sent = next((value for name, value in headers if name == b"x-request-id"), b"")
        if _RANDOM.fullmatch(sent):
            return sent.decode()
        if not self._noise:
            self._noise = secrets.token_bytes(1 << 12)  # asking the system takes as long as much else
        own, self._noise = self._noise[:16], self._noise[16:]
        return own.hex()

    def _body_of(self, scope: Scope) -> tuple[int, bool]:
        """Return how many bytes the body of a request may have, 0 if it has none, and whether it has a token.

        Raises:
            Problem: it says that it has more.
        """
        most, token, size, chunked = self._settings.largest_body, False, -1, False
        for name, value in scope["headers"]:
            if name == b"content-length":
                size = int(value) if value.isdigit() and len(value) <= 18 else most + 1
            elif name == b"transfer-encoding":
                chunked = True
            elif name == b"authorization":
                token = True
        if chunked:  # h11 lets both pass, and then a length says nothing
            size = -1
        if size > most:
            raise Problem("too-large", f"The request has more than {most} bytes.")
        if size > LARGEST_FORM and not token:
            raise _nobodys()
        if size == 0 or (size < 0 and scope["method"] in _BODILESS):
            return 0, token
        return most if token else min(most, LARGEST_FORM), token

    async def _with_body(
        self, scope: Scope, receive: Receive, send: Send, largest: int, *, token: bool
    ) -> None:
        """Answer a request with a body, which is counted until the answer was sent."""
        sender = ""
        if token:
            scope[SENDER] = found = await self._sender(scope)
            sender = found.id
        self._bodies.take(sender, token)
        parts: list[bytes] = []
        try:
            await self._read(parts, receive, largest, sender)
            scope[BODY] = b"".join(parts)
            await self._application(scope, _once(scope[BODY], receive), send)
        finally:
            self._bodies.give_back(sender, token)
            self._bytes.give_back(sender, sum(map(len, parts)))

    async def _read(self, parts: list[bytes], receive: Receive, largest: int, sender: str) -> None:
        """Read the whole body, within its bound and its time; `parts` is what counts as held."""
        size, more = 0, True
        try:
            async with asyncio.timeout(self._settings.longest_request):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem("malformed", "The request broke off.")
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    if size > largest:
                        said = Problem("too-large", f"The request has more than {largest} bytes.")
                        raise said if sender else _nobodys()
                    self._bytes.take(sender, len(part))
                    parts.append(part)
        except TimeoutError:
            raise Problem("slow", "The request did not come within its time.") from None


def network_of(address: str) -> str:
    """Return the key of an address: for IPv6 its network /64, which one subscriber has; else itself."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    if isinstance(found, IPv6Address) and found.ipv4_mapped is None:
        return found.exploded[:19]
    return str(getattr(found, "ipv4_mapped", None) or found)


def _nobodys() -> Problem:
    return Problem(
        "no-token",
        "Send a token: without one a body is at most 4 KiB.",
        headers={"WWW-Authenticate": "Bearer"},
    )


def _busy() -> Problem:
    """Return the problem that too many requests are being answered; their number depends on no content."""
    return Problem(
        "busy", "Too many others are being answered: repeat the request.", headers={"Retry-After": "1"}
    )


def _once(body: bytes, receive: Receive) -> Receive:
    """The body that was read, and then what follows."""
    told = False

    async def receiving() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


def answer_of(problem: Problem, path: str) -> Callable[[Send], Awaitable[None]]:
    """Return the problem as an answer at a path."""

    async def answering(send: Send) -> None:
        status, media, told = problem.said_at(path)
        body = written_json(told)
        headers = [(name.lower().encode(), value.encode()) for name, value in problem.headers.items()]
        headers += [
            (b"content-length", str(len(body)).encode()),
            (b"content-type", media.encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answering

"""`Gate` bounds size and time of requests and logs answers; `Doorkeeper` authenticates their senders.

`Gate` is ASGI middleware. It reads a whole body, within a bound and a time, once the token is known. Without
a token the body may have the size of a form. There is a bound on all bodies together, and one token may use
a share of it (`Taken`). An unforeseen error is answered as a problem and logged by its type and place.

`Doorkeeper` checks token, scopes and limits before a route runs. The event loop never waits for the store:
an unknown token is looked up in a thread, for a short time. Results are cached, also for texts that are not
tokens. The cache is emptied when this worker makes or withdraws a token, and within a quarter of a second
after another worker did.

Privacy: the log has the template of the route and never the path, the query, a header, a body or the text of
an exception, which may hold data.
"""

import asyncio
import json
import math
import re
import secrets
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from ipaddress import IPv6Address, ip_address
from logging import INFO
from typing import Any

from dpbandits.service import tokens
from dpbandits.service.core import Service
from dpbandits.service.logs import REQUEST, log
from dpbandits.service.problems import Problem, problem_of
from dpbandits.service.settings import Settings
from dpbandits.service.store import Reads
from dpbandits.service.tokens import Token
from dpbandits.service.writer import awaited

__all__ = ["BODY", "SENDER", "Doorkeeper", "Gate", "Taken", "answer_of", "network_of", "written_json"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

SENDER = "dpbandits.sender"
"""Key in an ASGI scope under which the request's token is stored, once it was looked up."""

BODY = "dpbandits.body"
"""Key in an ASGI scope under which the request's body is stored, once it was read."""

LARGEST_FORM = 4096
"""Largest size in bytes of the body of a request without a token."""

_BODILESS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS"})
"""HTTP methods whose requests have no body unless they have a Content-Length. No route reads such a body."""

MOST_AT_ONCE = 1000
"""Largest number of concurrent requests with bodies."""

SHARE = 0.75
"""Share of the bounds on bodies that one token may use.

Everybody can get a token that is in every device or in a web page, and can send many bodies and stop in the
middle of each.
"""

_NAMED = {
    "policy": ("policies", "There is no policy of this name."),
    "survey": ("surveys", "There is no local policy of this name."),
    "exchange": ("exchanges", "There is no exchange of this name."),
    "population": ("", "There is no population of this name."),
}
"""For each parameter of a path, the table of its resources, and the message if the resource does
not exist.
"""

TEXTS_KEPT = 1000
"""Largest number of cached tokens, and of cached invalid texts; beyond it the cache is emptied."""

LOOKUP_SECONDS = 2.0
"""Longest time in seconds that a request waits for the look-up of its token."""

LOOKUPS = 2
"""Number of threads that look up tokens. If the store hangs, only these threads hang."""

MOST_LOOKING = 200
"""Largest number of texts that are being looked up or wait for it. Further requests are refused."""

WATCH_SECONDS = 0.25
"""Number of seconds between two checks whether tokens in the store have changed."""

RATES_KEPT = 20_000
"""Number of tokens or addresses whose rates are in memory. Beyond it, idle ones are dropped."""

_PUBLIC = frozenset({"report"})
"""Scopes of a token that is built into devices and so is not secret."""

SILENT_SECONDS = 5.0
"""Longest time in seconds that a token stays cached while the store does not answer.

It may have been withdrawn.
"""

_JUDGED_UNREAD = frozenset({401, 403, 405, 408, 413, 429})
"""HTTP statuses that do not depend on a request's content.

The log has no others below 500 for routes about one user.
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
    """Return a value as JSON in ASCII. NaN raises ValueError."""
    return _WRITTEN.encode(value).encode()


_RANDOM = re.compile(rb"[0-9A-Za-z._-]{16,64}")
"""Pattern of request ids that are accepted from callers. It requires the length of random ids.

Shorter texts, such as the name or number of a user, are replaced, because the log contains the id.
"""


class Taken:
    """Counter of a resource that concurrent requests use, in total and by sender.

    Args:
        most: bound on the total.
        least: smallest bound on one sender, if the sender's share of the total is smaller.
    """

    def __init__(self, most: int, *, least: int = 1) -> None:
        self._most, self._of_one = most, max(least, int(SHARE * most))
        self._all, self._by = 0, Counter[str]()

    def take(self, sender: str, count: int) -> None:
        """Add to the sender's count; raise Problem, and change nothing, if a bound is exceeded."""
        if self._all + count > self._most or self._by[sender] + count > self._of_one:
            raise _busy()
        self._all += count
        self._by[sender] += count

    def give_back(self, sender: str, count: int) -> None:
        """Subtract from the sender's count."""
        self._all -= count
        self._by[sender] -= count
        if not self._by[sender]:
            del self._by[sender]


class Gate:
    """Middleware before the application; see the module.

    Args:
        application: ASGI application.
        settings: bounds on sizes and times.
        sender: function that authenticates a request; it raises Problem if there is no valid token.
        saw: callback for (method, template of the route, status, seconds) of every request.
        named: function that returns the template of the route, for requests that `Gate` refuses itself.
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
        """Answer one request, or pass it on to the application; log the answer."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        began, status, started, request = time.perf_counter(), 500, False, self._request_id(scope["headers"])
        about = REQUEST.set(request)

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
        except Exception as error:  # noqa: BLE001 - else the server would log its text
            problem = problem_of(error)
            if problem.slug == "defect":
                place = traceback.extract_tb(error.__traceback__)[-1]  # it has at least this method
                file = place.filename.rpartition("/")[2]
                log.error("defect: %s at %s:%s", type(error).__name__, file, place.lineno)
            if not started:
                await answer_of(problem, scope["path"])(sending)
        finally:
            route = scope.get("route")
            template = str(getattr(route, "path_format", "")) or self._named(scope)
            method = (
                scope["method"] if scope["method"] in _METHODS else "OTHER"
            )  # any other text is the caller's
            seconds = time.perf_counter() - began
            self._saw(method, template, status, seconds)
            if log.isEnabledFor(INFO):
                _note(method, template, status, seconds)
            REQUEST.reset(about)

    def _request_id(self, headers: Sequence[tuple[bytes, bytes]]) -> str:
        sent = next((value for name, value in headers if name == b"x-request-id"), b"")
        if _RANDOM.fullmatch(sent):
            return sent.decode()
        if not self._noise:
            self._noise = secrets.token_bytes(1 << 12)  # in bulk: each call to the system is slow
        own, self._noise = self._noise[:16], self._noise[16:]
        return own.hex()

    def _body_of(self, scope: Scope) -> tuple[int, bool]:
        """Return the allowed size of the body in bytes (0 for none), and True if it has a token."""
        most, token, size, chunked = self._settings.largest_body, False, -1, False
        for name, value in scope["headers"]:
            if name == b"content-length":
                size = int(value) if value.isdigit() and len(value) <= 18 else most + 1
            elif name == b"transfer-encoding":
                chunked = True
            elif name == b"authorization":
                token = True
        if chunked:  # h11 accepts both headers, and then the length is meaningless
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
        """Answer a request with a body. The body counts against the bounds until the answer was sent."""
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
        """Read the whole body into `parts`. Raise Problem if it exceeds its size or its time."""
        size, more = 0, True
        try:
            async with asyncio.timeout(self._settings.longest_request):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise Problem("malformed", "The request was cut off.")
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    if size > largest:
                        said = Problem("too-large", f"The request has more than {largest} bytes.")
                        raise said if sender else _nobodys()
                    self._bytes.take(sender, len(part))
                    parts.append(part)
        except TimeoutError:
            raise Problem("slow", "The request did not arrive in time.") from None


class Doorkeeper:
    """Authenticates requests and limits their rate. Use it from one event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turns = asyncio.Semaphore(LOOKUPS)
        self._rates, self._addresses = _Rates(), _Rates()
        self._paying: dict[tuple[str, str], str] = {}
        self.forget()

    async def token(self, scope: Scope) -> Token:
        """Return the token of a request, and count the request against the rate limits once.

        Raises:
            Problem: the token is invalid or sends too many requests, or the store does not answer.
        """
        if SENDER in scope:
            known: Token = scope[SENDER]
            return known
        sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        kind, _, text = sent.decode("latin-1").partition(" ")
        found = self._known.get(text)
        may_be = kind.lower() == "bearer" and 0 < len(text) <= tokens.LONGEST and text not in self._none
        if found is None and may_be:
            found = await self._looked_up(text)
        if found is None or (found.ends_at is not None and found.ends_at <= self._service.now()):
            raise Problem(
                "no-token",
                "Send Authorization: Bearer with a valid token.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        self._slow_down_address(found, scope)  # first: a refused address uses none of the token's rate
        self.slow_down(found.id)
        return found

    async def admit(
        self, scope: Scope, scopes: Sequence[str], path: Mapping[str, Any], *, within: bool = False
    ) -> Token:
        """Return the token of a request after checks of its scopes and limits.

        Args:
            scope: ASGI scope of the request.
            scopes: scopes of which one is enough.
            path: parameters in the path.
            within: True if the route itself checks the token's limits.

        Raises:
            Problem: the token is invalid, lacks the scope, is limited to other resources or sends too many
                requests; or the store does not answer.
        """
        token = await self.token(scope)
        if token.scopes.isdisjoint(scopes):
            raise Problem("out-of-scope", f"This needs a token with the scope {' or '.join(scopes)}.")
        if not within:
            paying = "" if token.limits.populations is None else await self._paying_for(path)
            _refuse_beyond(token, path, paying)
        return token

    async def _paying_for(self, path: Mapping[str, Any]) -> str:
        """Return the population that pays for the resource in a path; empty if the path names none."""
        table, name, _ = _named_in(path)
        known = self._paying
        found = known.get((table, name), "")
        if table and not found:
            found = await self._read(partial(_population, table=table, name=name))
            if found:
                known[table, name] = found
        return found

    async def _looked_up(self, text: str) -> Token | None:
        """Return the token with this text, or None. Requests with the same text share one look-up."""
        looking = self._looking
        if text not in looking:
            if len(looking) >= MOST_LOOKING:
                raise _unanswered()
            task = looking[text] = asyncio.ensure_future(self._look_up(text))

            def ended(task: asyncio.Task[Token | None]) -> None:
                del looking[text]
                if not task.cancelled():
                    task.exception()  # marks it as retrieved: the waiting requests may be cancelled

            task.add_done_callback(ended)
        return await asyncio.shield(looking[text])

    async def _look_up(self, text: str) -> Token | None:
        known, none = self._known, self._none
        keys, now = self._service.keys, self._service.now()
        found: Token | None = await self._read(lambda reads: tokens.token_of(reads, keys, text, now))
        # If the cache was emptied meanwhile, `known` and `none` are not in use any more: the result may be
        # older than a token that was made or withdrawn.
        if len(known) >= TEXTS_KEPT:
            known.clear()
        if len(none) >= TEXTS_KEPT:
            none.clear()
        if found is not None:
            known[text] = found
        else:
            none.add(text)
        return found

    async def _read(self, call: Callable[[Reads], Any]) -> Any:
        """Run a call on the store in a thread.

        Raise Problem if it takes too long; the thread still finishes it.
        """
        loop, found = asyncio.get_running_loop(), Future[Any]()

        def read() -> None:
            self._service.store.comes_first = True  # decisions wait for it
            try:
                found.set_result(self._service.read(call))
            except Exception as error:  # noqa: BLE001 - for whoever waits
                found.set_exception(error)
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._turns.release)

        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                await self._turns.acquire()
                try:
                    threading.Thread(target=read, name="dpbandits looks a token up", daemon=True).start()
                except RuntimeError:
                    self._turns.release()
                    raise _unanswered() from None
                return await awaited(found)
        except TimeoutError:
            raise _unanswered() from None

    async def watch(self) -> None:
        """Empty the cache whenever another worker has made or withdrawn a token. Run until cancelled."""
        seen, heard = None, time.monotonic()
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                found = await self._read(tokens.changes)
            except Exception:  # noqa: BLE001 - the next look tries again
                if time.monotonic() - heard > SILENT_SECONDS:
                    self.forget()
                continue
            heard, self._paying = time.monotonic(), {}
            if found != seen:
                self.forget()
                seen = found

    def slow_down(self, token: str, count: int = 1) -> None:
        """Count requests of the token with this id. Raise Problem if there are too many."""
        wait = self._rates.wait(token, count, self._service.settings.requests_per_second)
        if wait:
            raise Problem("too-many-requests", "This token sends too many requests.", headers=_after(wait))

    def _slow_down_address(self, token: Token, scope: Scope) -> None:
        """Count a request of an address if its token is one of devices, which anybody can extract from a
        device.
        """
        if token.scopes == _PUBLIC and scope.get("client"):
            where = network_of(scope["client"][0])
            wait = self._addresses.wait(where, 1, self._service.settings.requests_per_address)
            if wait:
                raise Problem(
                    "too-many-requests", "This address sends too many requests.", headers=_after(wait)
                )

    def forget(self) -> None:
        """Empty the cache of tokens. Call it from any thread after a token was made or withdrawn."""
        self._known: dict[str, Token] = {}
        self._none: set[str] = set()
        self._looking: dict[str, asyncio.Task[Token | None]] = {}
        self._paying = {}

    def refuse_beyond(self, token: Token, path: Mapping[str, Any]) -> None:
        """Raise Problem if the path is beyond the token's limits, as `admit` does. Any thread may call it.

        It may read the store.
        """
        table, name, _ = _named_in(path)
        paying = ""
        if table and token.limits.populations is not None:
            paying = self._service.read(partial(_population, table=table, name=name))
        _refuse_beyond(token, path, paying)


def _named_in(path: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the table and the name of the resource in a path, and the message if it does not exist.

    The table is empty for a population; all three are empty if the path names no resource.
    """
    kind = next((one for one in _NAMED if one in path), None)
    return ("", "", "") if kind is None else (_NAMED[kind][0], str(path[kind]), _NAMED[kind][1])


def _population(reads: Reads, *, table: str, name: str) -> str:
    """Return the population that pays for the resource with this name; empty if there is none."""
    row = reads.one(f"SELECT population FROM {table} WHERE name = ?", name)  # noqa: S608 - a name of ours
    return "" if row is None else str(row[0])


def _refuse_beyond(token: Token, path: Mapping[str, Any], paying: str) -> None:
    """Check a token's limits against the resource that a path names, whose population is `paying`."""
    limits = token.limits
    if limits == tokens.UNLIMITED:
        return
    table, name, said = _named_in(path)
    if not said:
        raise Problem("out-of-scope", "This route is about the whole service: use a token without limits.")
    reached = limits.reach(name, paying) if table else limits.reach_population(name)
    if not reached:
        raise Problem("not-found", said)


class _Rates:
    """Token buckets of many senders, each with a capacity of one second's requests."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, who: str, count: int, rate: float) -> int:
        """Return 0 and count `count` requests of `who`, or return the seconds to wait before them.

        A batch larger than the capacity passes if the bucket is full; the next requests wait longer for it.
        """
        now, most = time.monotonic(), max(rate, 1.0)
        left, then = self._left.get(who, (most, now))
        left = min(most, left + (now - then) * rate)
        needed = 1.0 if count <= 1 else min(count, most - 1.0)  # the batch's own request was counted before
        if count > 0 and left < needed:
            return max(1, math.ceil((needed - left) / rate))
        if len(self._left) >= RATES_KEPT and who not in self._left:
            self._left = {
                one: kept for one, kept in self._left.items() if kept[0] + (now - kept[1]) * rate < most
            }
            if len(self._left) >= RATES_KEPT:
                self._left.clear()
        self._left[who] = left - count, now
        return 0


def _after(seconds: int) -> dict[str, str]:
    return {"Retry-After": str(seconds)}


def _unanswered() -> Problem:
    """Return the problem for a store that did not answer; it is independent of the token."""
    return Problem(
        "not-recorded",
        "The service could not use its store; repeat the request.",
        headers={"Retry-After": "1"},
    )


def _note(method: str, route: str, status: int, seconds: float) -> None:
    """Log a request. On routes about one user, the log omits statuses that may depend on the user."""
    of_people = route.startswith("/ofrep/") or "{policy}/" in route or "{row}/" in route
    told = "answered" if of_people and status < 500 and status not in _JUDGED_UNREAD else status
    fields = {"method": method, "route": route, "status": told, "ms": round(1000.0 * seconds, 1)}
    log.info("%s %s %s %.1f ms", *fields.values(), extra={"fields": fields})


def network_of(address: str) -> str:
    """Return the rate-limit key of an address: the /64 network for IPv6, else the address."""
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
    """Return the problem for too many concurrent requests; it is independent of their content."""
    return Problem(
        "busy", "Too many requests are being answered: repeat the request.", headers={"Retry-After": "1"}
    )


def _once(body: bytes, receive: Receive) -> Receive:
    """Return an ASGI receive function that first returns the body that was read, and then what the
    client sends.
    """
    told = False

    async def receiving() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


def answer_of(problem: Problem, path: str) -> Callable[[Send], Awaitable[None]]:
    """Return a function that sends the problem as the answer to a request for `path`."""

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

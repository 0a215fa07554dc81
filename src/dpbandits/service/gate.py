"""`Gate` bounds the size and time of every request and logs every answer; `Doorkeeper` finds its sender.

It is plain ASGI around the application. It reads a whole body, within its bound and its time, once the token
is known: without a token a body may be as large as a form, and no larger. All bodies together have a bound,
of which one token may take a part (`Taken`). An error that no route foresaw is answered as a problem and
logged by its kind and place, without its text, which could hold data. The log of requests holds the route's
template, never the path; no query, header or body.

`Doorkeeper` checks the token, the scopes and the limits of a request before a route sees it. The event loop
never waits for the store. An unknown text is looked up in a thread, for a short time. The result is
remembered, for tokens and for texts that are none. All of it is forgotten when this worker makes or withdraws
a token, and within a quarter of a second after another worker did.
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

_NAMED = {
    "policy": ("policies", "There is no policy of this name."),
    "survey": ("surveys", "There is no local policy of this name."),
    "exchange": ("exchanges", "There is no exchange of this name."),
    "population": ("", "There is no population of this name."),
}
"""Name in a path -> table of what it names, and the message if there is none."""

TEXTS_KEPT = 1000
"""Number of tokens, and of texts that are none, that are remembered; beyond it all are forgotten."""

LOOKUP_SECONDS = 2.0
"""Longest time in seconds that a request waits until the store has found its token."""

LOOKUPS = 2
"""Number of threads that ask the store at a time. While it is frozen only these are stuck."""

MOST_LOOKING = 200
"""Number of texts that are looked up or wait for it; a request with one more is refused."""

WATCH_SECONDS = 0.25
"""Seconds between two checks whether tokens in the store have changed."""

RATES_KEPT = 20_000
"""Number of tokens, or addresses, whose rates are kept. Beyond it those at their full rate are forgotten."""

_PUBLIC = frozenset({"report"})
"""Scopes of a token that every device has."""

SILENT_SECONDS = 5.0
"""Longest time in seconds that a token stays known while the store does not answer: it may be withdrawn."""

_JUDGED_UNREAD = frozenset({401, 403, 405, 408, 413, 429})
"""Statuses that say nothing of what was sent: of what concerns a person the log has no other."""

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


_RANDOM = re.compile(rb"[0-9A-Za-z._-]{16,64}")
"""Ids of requests that are taken from callers. Random ids are as long; a name or a number of a person, which
would stay in the log, seldom is, and is replaced."""


class Taken:
    """Counts what requests that are read or answered hold at a time: all together, and each sender.

    Args:
        most: bound of all together.
        least: bound of one sender, if its share is less.
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


class Doorkeeper:
    """Finds the sender of a request and limits the rate; used from one event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._turns = asyncio.Semaphore(LOOKUPS)
        self._rates, self._addresses = _Rates(), _Rates()
        self._paying: dict[tuple[str, str], str] = {}
        self.forget()

    async def token(self, scope: Scope) -> Token:
        """The token of a request; Problem where it has none that counts, comes too often, or the store does
        not say whose it is. A request is counted once.
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
        self._slow_down_address(found, scope)  # first: what it is refused counts for nobody else
        self.slow_down(found.id)
        return found

    async def admit(
        self, scope: Scope, scopes: Sequence[str], path: Mapping[str, Any], *, within: bool = False
    ) -> Token:
        """The token of a request, with any one of these scopes, and limits that include what the path names.

        Args:
            scope: scope of the request.
            scopes: scopes of which one is enough.
            path: parameters in the path.
            within: True if the route itself looks at the token's limits.

        Raises:
            Problem: there is no such token, or it comes too often.
        """
        token = await self.token(scope)
        if token.scopes.isdisjoint(scopes):
            raise Problem("out-of-scope", f"This needs a token with the scope {' or '.join(scopes)}.")
        if not within:
            paying = "" if token.limits.populations is None else await self._paying_for(path)
            _refuse_beyond(token, path, paying)
        return token

    async def _paying_for(self, path: Mapping[str, Any]) -> str:
        """Return the population that pays for what a path names; empty if there is none."""
        table, name, _ = _named_in(path)
        known = self._paying
        found = known.get((table, name), "")
        if table and not found:
            found = await self._read(partial(_population, table=table, name=name))
            if found:
                known[table, name] = found
        return found

    async def _looked_up(self, text: str) -> Token | None:
        """Look up the token of a text; requests with the same text share one lookup."""
        looking = self._looking
        if text not in looking:
            if len(looking) >= MOST_LOOKING:
                raise _unanswered()
            task = looking[text] = asyncio.ensure_future(self._look_up(text))

            def ended(task: asyncio.Task[Token | None]) -> None:
                del looking[text]
                if not task.cancelled():
                    task.exception()  # whoever waited for it may be gone

            task.add_done_callback(ended)
        return await asyncio.shield(looking[text])

    async def _look_up(self, text: str) -> Token | None:
        known, none = self._known, self._none
        keys, now = self._service.keys, self._service.now()
        found: Token | None = await self._read(lambda reads: tokens.token_of(reads, keys, text, now))
        # Where something was forgotten meanwhile, these are not the ones that requests look at any more: what
        # was read may be older than a token that was made or withdrawn.
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
        """Look at something in a thread; Problem where that takes too long. The thread ends when it can."""
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
        """Forget what was looked up when another worker has made or withdrawn a token; until cancelled."""
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
        """Count requests of a token, by its id; Problem where it comes too often."""
        wait = self._rates.wait(token, count, self._service.settings.requests_per_second)
        if wait:
            raise Problem("too-many-requests", "This token sends too many requests.", headers=_after(wait))

    def _slow_down_address(self, token: Token, scope: Scope) -> None:
        """Count a request of an address with a token of devices, which anybody may have taken from one."""
        if token.scopes == _PUBLIC and scope.get("client"):
            where = network_of(scope["client"][0])
            wait = self._addresses.wait(where, 1, self._service.settings.requests_per_address)
            if wait:
                raise Problem(
                    "too-many-requests", "This address sends too many requests.", headers=_after(wait)
                )

    def forget(self) -> None:
        """Ask the store again who may; called from any thread once a token was made or withdrawn."""
        self._known: dict[str, Token] = {}
        self._none: set[str] = set()
        self._looking: dict[str, asyncio.Task[Token | None]] = {}
        self._paying = {}

    def refuse_beyond(self, token: Token, path: Mapping[str, Any]) -> None:
        """Raise Problem as `admit` does for a token with limits, from any thread; it may ask the store."""
        table, name, _ = _named_in(path)
        paying = ""
        if table and token.limits.populations is not None:
            paying = self._service.read(partial(_population, table=table, name=name))
        _refuse_beyond(token, path, paying)


def _named_in(path: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return table and name of what the parameters of a path name, and the message if there is no such thing.

    The table is empty for a population; all three are empty if the path names nothing.
    """
    kind = next((one for one in _NAMED if one in path), None)
    return ("", "", "") if kind is None else (_NAMED[kind][0], str(path[kind]), _NAMED[kind][1])


def _population(reads: Reads, *, table: str, name: str) -> str:
    """Return the population that pays for what has this name; empty if nothing has it."""
    row = reads.one(f"SELECT population FROM {table} WHERE name = ?", name)  # noqa: S608 - a name of ours
    return "" if row is None else str(row[0])


def _refuse_beyond(token: Token, path: Mapping[str, Any], paying: str) -> None:
    """Raise Problem, as if it did not exist, where a path names what the token does not reach; and where it
    names nothing, for a token with limits. `paying` is the population that pays for what the path names.
    """
    limits = token.limits
    if limits == tokens.UNLIMITED:
        return
    table, name, said = _named_in(path)
    if not said:
        raise Problem("out-of-scope", "This is about the whole service: use a token without limits.")
    reached = limits.reach(name, paying) if table else limits.reach_population(name)
    if not reached:
        raise Problem("not-found", said)


class _Rates:
    """Rate limits of many senders: a second's worth at once, and that rate on average."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def wait(self, who: str, count: int, rate: float) -> int:
        """Seconds after which `who` may do `count` more; 0: now, and that is counted.

        What is more than a second's worth is let through at once when nothing else is owed, and paid for by
        waiting longer afterwards.
        """
        now, most = time.monotonic(), max(rate, 1.0)
        left, then = self._left.get(who, (most, now))
        left = min(most, left + (now - then) * rate)
        needed = 1.0 if count <= 1 else min(count, most - 1.0)  # its request itself was counted before
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
    """Return the problem that the store did not answer; it says nothing about the token."""
    return Problem(
        "not-recorded",
        "The service could not use its store; repeat the request.",
        headers={"Retry-After": "1"},
    )


def _note(method: str, route: str, status: int, seconds: float) -> None:
    """Log a request. If its route is about people, its status may depend on one of them, and is left out."""
    of_people = route.startswith("/ofrep/") or "{policy}/" in route or "{row}/" in route
    told = "answered" if of_people and status < 500 and status not in _JUDGED_UNREAD else status
    fields = {"method": method, "route": route, "status": told, "ms": round(1000.0 * seconds, 1)}
    log.info("%s %s %s %.1f ms", *fields.values(), extra={"fields": fields})


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

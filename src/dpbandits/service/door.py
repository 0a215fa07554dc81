"""`Door` checks the token, the scopes and the limits of a request before a route sees it.

The event loop never waits for the store. An unknown text is looked up in a thread, for a short time.
The result is remembered, for tokens and for texts that are none. All of it is forgotten when this worker
makes or withdraws a token, and within a quarter of a second after another worker did.
"""

import asyncio
import math
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.openapi.models import SecurityBase as SecurityModel
from fastapi.security.base import SecurityBase

from dpbandits.service import tokens
from dpbandits.service.core import Service
from dpbandits.service.gate import SENDER, Scope, network_of
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads
from dpbandits.service.tokens import Token
from dpbandits.service.writer import awaited

__all__ = [
    "Admin",
    "AdminWithin",
    "Curator",
    "Decider",
    "Device",
    "Doorkeeper",
    "Modeler",
    "Needs",
    "Reader",
    "ReaderWithin",
    "Rewarder",
]

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
        """Problem, as if it did not exist, where a path's parameters name what the token does not reach; and
        where they name nothing, for a token with limits. It may ask the store.
        """
        limits = token.limits
        if limits == tokens.UNLIMITED:
            return
        kind = next((one for one in _NAMED if one in path), None)
        if kind is None:
            raise Problem("out-of-scope", "This is about the whole service: use a token without limits.")
        name, (table, said) = str(path[kind]), _NAMED[kind]
        if not table:
            reached = limits.reach_population(name)
        else:
            paying = "" if limits.populations is None else self._population(table, name)
            reached = limits.reach(name, paying)
        if not reached:
            raise Problem("not-found", said)

    def _population(self, table: str, name: str) -> str:
        """Return the population that pays for what has this name; empty if nothing has it."""
        found = self._paying.get((table, name))
        if found is None:
            query = f"SELECT population FROM {table} WHERE name = ?"  # noqa: S608 - a name of ours
            row = self._service.read(lambda reads: reads.one(query, name))
            if row is None:
                return ""
            found = self._paying[table, name] = str(row[0])
        return found


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


class Needs(SecurityBase):
    """Dependency of a route: a token with any one of these scopes, whose limits include what the path names.

    Args:
        scopes: of which one is enough.
        within: whether the route itself looks at the token's limits. Otherwise a token with limits is refused
            where the path names nothing.
    """

    def __init__(self, *scopes: str, within: bool = False) -> None:
        self.scopes, self.within = scopes, within
        self.model: SecurityModel = HTTPBearerModel()
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Token:
        """The token; Problem where it lacks the scope."""
        door: Doorkeeper = request.app.state.door
        token = await door.token(request.scope)
        if token.scopes.isdisjoint(self.scopes):
            raise Problem("out-of-scope", f"This needs a token with the scope {' or '.join(self.scopes)}.")
        if not self.within:
            if token.limits.populations is None:  # it asks the store for nothing
                door.refuse_beyond(token, request.path_params)
            else:
                await asyncio.to_thread(door.refuse_beyond, token, request.path_params)
        return token


Admin = Annotated[Token, Depends(Needs("admin"))]
AdminWithin = Annotated[Token, Depends(Needs("admin", within=True))]
Reader = Annotated[Token, Depends(Needs("read", "admin"))]
ReaderWithin = Annotated[Token, Depends(Needs("read", "admin", within=True))]
Decider = Annotated[Token, Depends(Needs("decide"))]
Rewarder = Annotated[Token, Depends(Needs("reward"))]
Device = Annotated[Token, Depends(Needs("report"))]
Curator = Annotated[Token, Depends(Needs("curate"))]
Modeler = Annotated[Token, Depends(Needs("model"))]

"""Who sends a request, and whether they may: tokens, scopes and limits, before a route sees anything."""

import asyncio
import math
import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.openapi.models import SecurityBase as SecurityModel
from fastapi.security.base import SecurityBase

from dpbandits.service import tokens
from dpbandits.service.core import Service
from dpbandits.service.problems import Problem
from dpbandits.service.tokens import Token

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
"""Names in paths: the table of what they name, and what is said where there is none."""

TOKENS_KEPT = 1000
"""Tokens that are remembered between requests, so that not each asks the store."""


class Doorkeeper:
    """Sender of a request, and the rate that they may use."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: dict[str, Token] = {}
        self._forgotten = 0
        self._left: dict[str, tuple[float, float]] = {}
        self._paying: dict[tuple[str, str], str] = {}

    def token(self, request: Request) -> Token:
        """The token of a request; Problem where it has none that counts, or comes too often."""
        kind, _, text = request.headers.get("authorization", "").partition(" ")
        found = self._known.get(text)
        if found is None and kind.lower() == "bearer" and text:
            forgotten = self._forgotten
            keys, now = self._service.keys, self._service.now()
            found = self._service.read(lambda reads: tokens.token_of(reads, keys, text, now))
            if found is not None:
                if len(self._known) >= TOKENS_KEPT:
                    self._known = {}
                known = self._known
                if forgotten == self._forgotten:  # else it may have been withdrawn while it was read
                    known[text] = found
        if found is None or (found.ends_at is not None and found.ends_at <= self._service.now()):
            raise Problem(
                "no-token", "Send Authorization: Bearer with a token.", headers={"WWW-Authenticate": "Bearer"}
            )
        self.slow_down(found.id)
        return found

    def slow_down(self, token: str) -> None:
        """Count a request of a token, by its id; Problem where it comes too often."""
        rate, now = self._service.settings.requests_per_second, time.monotonic()
        most = max(rate, 1.0)
        left, then = self._left.get(token, (most, now))
        left = min(most, left + (now - then) * rate)
        if left < 1.0:
            wait = math.ceil((1.0 - left) / rate)
            raise Problem(
                "too-many-requests", "This token comes too often.", headers={"Retry-After": str(max(wait, 1))}
            )
        self._left[token] = (left - 1.0, now)

    def forget(self) -> None:
        """Ask the store again who may; called once a token is known to be withdrawn."""
        self._forgotten += 1
        self._known, self._paying = {}, {}

    def refuse_beyond(self, token: Token, path: Mapping[str, Any]) -> None:
        """Problem, as if it did not exist, where a path's parameters name what the token does not reach; and
        where they name nothing, for a token with limits. It may ask the store.
        """
        limits = token.limits
        if limits == tokens.UNLIMITED:
            return
        kind = next((one for one in _NAMED if one in path), None)
        if kind is None:
            raise Problem("out-of-scope", "This token has limits, and this is about the whole service.")
        name, (table, said) = str(path[kind]), _NAMED[kind]
        if not table:
            reached = limits.reach_population(name)
        else:
            paying = "" if limits.populations is None else self._population(table, name)
            reached = limits.reach(name, paying)
        if not reached:
            raise Problem("not-found", said)

    def _population(self, table: str, name: str) -> str:
        """The population that pays for what has this name; empty where nothing has it."""
        found = self._paying.get((table, name))
        if found is None:
            query = f"SELECT population FROM {table} WHERE name = ?"  # noqa: S608 - a name of ours
            row = self._service.read(lambda reads: reads.one(query, name))
            if row is None:
                return ""
            found = self._paying[table, name] = str(row[0])
        return found


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
        token = door.token(request)
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

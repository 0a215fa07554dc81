"""Who sends a request, and whether they may: tokens and their scopes, before a route sees anything."""

import math
import time
from typing import Annotated

from fastapi import Depends, Request
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.openapi.models import SecurityBase as SecurityModel
from fastapi.security.base import SecurityBase

from dpbandits.service import tokens
from dpbandits.service.core import Service
from dpbandits.service.problems import Problem
from dpbandits.service.tokens import Token

__all__ = ["Admin", "Curator", "Decider", "Device", "Doorkeeper", "Modeler", "Needs", "Reader", "Rewarder"]

TOKENS_KEPT = 1000
"""Tokens that are remembered between requests, so that not each asks the store."""


class Doorkeeper:
    """Sender of a request, and the rate that they may use."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: dict[str, Token] = {}
        self._forgotten = 0
        self._left: dict[str, tuple[float, float]] = {}

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
        self._known = {}


class Needs(SecurityBase):
    """Dependency of a route: a token with any one of these scopes."""

    def __init__(self, *scopes: str) -> None:
        self.scopes = scopes
        self.model: SecurityModel = HTTPBearerModel()
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Token:
        """The token; Problem where it lacks the scope."""
        token: Token = request.app.state.door.token(request)
        if token.scopes.isdisjoint(self.scopes):
            raise Problem("out-of-scope", f"This needs a token with the scope {' or '.join(self.scopes)}.")
        return token


Admin = Annotated[Token, Depends(Needs("admin"))]
Reader = Annotated[Token, Depends(Needs("read", "admin"))]
Decider = Annotated[Token, Depends(Needs("decide"))]
Rewarder = Annotated[Token, Depends(Needs("reward"))]
Device = Annotated[Token, Depends(Needs("report"))]
Curator = Annotated[Token, Depends(Needs("curate"))]
Modeler = Annotated[Token, Depends(Needs("model"))]

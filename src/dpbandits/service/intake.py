"""Reports come by the hundred requests a second: what keeps a request short, whatever the framework does.

`Intake` writes down together what waits together: while one group of batches is written, the next gathers,
and one thread is busy, however many requests wait. `Straight` answers a route without what the framework does
for routes in general, which takes longer than counting a hundred reports.
"""

import asyncio
import re
from collections.abc import Callable, Sequence

from fastapi import FastAPI, Request
from fastapi.routing import APIRoute
from starlette.routing import Match

from dpbandits.service.door import Needs
from dpbandits.service.gate import Receive, Scope, Send
from dpbandits.service.messages import IN_PATH
from dpbandits.service.problems import Problem

__all__ = ["Intake", "Straight"]

MOST_TOGETHER = 64
"""Batches that are written at once: the first of them waits for all."""

_LONGEST_NAME = 64

Told = dict[str, int]
Group = list[tuple[bytes, asyncio.Future[Told]]]


class Intake:
    """Batches of reports on their way to the disk; used from one event loop.

    Args:
        absorb: takes bodies of one local policy, and gives what to answer each: of one that is refused its
            error. What it raises is raised for all of them.
    """

    def __init__(self, absorb: Callable[[str, list[bytes]], Sequence[Told | Exception]]) -> None:
        self._absorb = absorb
        self._waiting: dict[str, Group] = {}

    async def __call__(self, name: str, body: bytes) -> Told:
        """Return the answer once the reports are on disk."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[Told] = loop.create_future()
        waiting = self._waiting.get(name)
        if waiting is None:  # nobody writes for it now
            loop.run_in_executor(None, self._write, loop, name, [(body, mine)])
            self._waiting[name] = []
        else:
            waiting.append((body, mine))
        return await mine

    def _write(self, loop: asyncio.AbstractEventLoop, name: str, group: Group) -> None:
        try:
            told: Sequence[Told | Exception] = self._absorb(name, [body for body, _ in group])
        except Exception as error:  # noqa: BLE001 - for whoever waits
            told = [error] * len(group)
        loop.call_soon_threadsafe(self._answer, name, group, told)

    def _answer(self, name: str, group: Group, told: Sequence[Told | Exception]) -> None:
        for (_, one), result in zip(group, told, strict=True):
            if one.done():  # who asked is gone
                continue
            if isinstance(result, Exception):
                one.set_exception(result)
            else:
                one.set_result(result)
        following = self._waiting.pop(name)
        if following:
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._write, loop, name, following[:MOST_TOGETHER])
            self._waiting[name] = following[MOST_TOGETHER:]


class Straight:
    """An application, one of whose routes is answered ahead of it: the token is judged, then the name in the
    path, then its endpoint is called with that name, the request and the token. What any of them raises is
    the gate's to answer.
    """

    def __init__(self, app: FastAPI, name: str, needs: Needs) -> None:
        self._app, self._needs = app, needs
        self._route = next(one for one in app.routes if isinstance(one, APIRoute) and one.name == name)
        self._end = self._route.path_format.rpartition("}")[2]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["path"].endswith(self._end):
            found, child = self._route.matches(scope)
            if found is Match.FULL:
                scope.update(child, app=self._app)
                await self._answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        token = await self._needs(request)
        (name,) = scope["path_params"].values()
        if len(name) > _LONGEST_NAME or not re.fullmatch(IN_PATH, name):
            raise Problem("invalid", "path does not fit.")
        await (await self._route.endpoint(name, request, token))(scope, receive, send)

"""`Direct` answers the routes that are asked most without what the framework does for routes in general.

The framework's part of a decision takes longer than the decision. Only plain requests are answered here: a
path and a body that fit, sent as `application/json`. Every other request goes to the framework as it came, so
that what is refused is refused in one place, in the same words. The framework also makes the document of the
interface of the same functions.
"""

import inspect
import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

from fastapi import FastAPI, Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.routing import Match

from dpbandits.service.door import Needs
from dpbandits.service.gate import BODY, Receive, Scope, Send

__all__ = ["Direct"]


class _Entry(NamedTuple):
    """A route with the types of its path's parameters, the scopes that it needs, and its message."""

    route: APIRoute
    places: "dict[str, TypeAdapter[Any]]"
    needs: Needs
    message: tuple[str, type[BaseModel]] | None


class Direct:
    """An application, some of whose routes are answered ahead of it. What their functions, or the judge of
    the token, raise is the gate's to answer.

    Args:
        app: the application.
        names: of routes, by their functions. No two of them share a method and the last part of their paths.
        written: makes an answer of what a function gives that is none.
    """

    def __init__(self, app: FastAPI, names: Sequence[str], written: Callable[[Any], Response]) -> None:
        self._app, self._written = app, written
        self._entries: dict[tuple[str, str], _Entry] = {}
        for route in app.routes:
            if isinstance(route, APIRoute) and route.name in names:
                for method in route.methods or ():
                    self._entries[method, route.path_format.rpartition("/")[2]] = _entry_of(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        entry = None
        if scope["type"] == "http" and not scope.get("root_path"):
            entry = self._entries.get((scope["method"], scope["path"].rpartition("/")[2]))
        places = None if entry is None else _in_path(entry, scope)
        if entry is None or places is None:
            await self._app(scope, receive, send)
            return
        given = dict(places)
        if entry.message is None:
            given["request"] = Request(scope, receive)
        else:
            message = _read(entry.message[1], scope, scope.get(BODY, b""))
            if message is None:
                await self._app(scope, receive, send)
                return
            given[entry.message[0]] = message
        scope.update(app=self._app, route=entry.route, path_params=places)
        given["token"] = await entry.needs(Request(scope, receive))
        answer = await entry.route.endpoint(**given)
        if not isinstance(answer, Response):
            answer = self._written(answer)
        await answer(scope, receive, send)


def _entry_of(route: APIRoute) -> _Entry:
    takes = inspect.signature(route.endpoint).parameters
    places = {name: TypeAdapter(takes[name].annotation) for name in route.param_convertors}
    (needs,) = (
        one.dependency
        for one in get_args(takes["token"].annotation)
        if isinstance(one, Depends) and isinstance(one.dependency, Needs)
    )
    messages = [
        (name, one.annotation)
        for name, one in takes.items()
        if isinstance(one.annotation, type) and issubclass(one.annotation, BaseModel)
    ]
    return _Entry(route, places, needs, messages[0] if messages else None)


def _in_path(entry: _Entry, scope: Scope) -> dict[str, Any] | None:
    """Parameters in the path of a request; None where it is another path, or one does not fit."""
    match, found = entry.route.matches(scope)
    if match is not Match.FULL:
        return None
    try:
        return {name: entry.places[name].validate_python(text) for name, text in found["path_params"].items()}
    except ValidationError:
        return None


def _read(kind: type[BaseModel], scope: Scope, body: bytes) -> BaseModel | None:
    """The message in a body; None where it is not sent as JSON, or does not fit."""
    media = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    if media != b"application/json":
        return None
    try:
        return kind.model_validate(json.loads(body), from_attributes=True)  # as the framework does
    except Exception:  # noqa: BLE001 - the framework finds it again, and says what it is
        return None

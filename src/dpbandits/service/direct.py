"""`Direct`: the routes that are asked most, answered without what the framework does for routes in general.

For a decision that takes longer than the decision. Only what is plain is answered here: a path and a body
that fit, sent as `application/json`. Every other request goes to the framework as it came, so that what is
refused is refused in one place, in the same words; the framework also makes the document of the interface of
the same functions.
"""

import inspect
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, get_args

from fastapi import FastAPI, Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from dpbandits.service.door import Needs
from dpbandits.service.gate import Receive, Scope, Send, once

__all__ = ["Direct"]


class _Place(NamedTuple):
    """A parameter in a path: its name, and what fits."""

    name: str
    pattern: re.Pattern[str]
    fits: "TypeAdapter[Any]"


class _Entry(NamedTuple):
    """A route: the parts of its path, its function, and what this takes."""

    route: APIRoute
    parts: Sequence[str | _Place]
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
                entry = _entry_of(route)
                for method in route.methods or ():
                    self._entries[method, str(entry.parts[-1])] = entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http" or scope.get("root_path"):
            await self._app(scope, receive, send)
            return
        parts = scope["path"].split("/")
        entry = self._entries.get((scope["method"], parts[-1]))
        given = None if entry is None else _in_path(entry.parts, parts)
        if entry is None or given is None:
            await self._app(scope, receive, send)
            return
        in_path = {**given}
        if entry.message is None:
            given["request"] = Request(scope, receive)
        else:
            body, more = b"", True
            while more:
                part = await receive()
                body, more = body + part.get("body", b""), part.get("more_body", False)
            receive = once(body, receive)
            message = _read(entry.message[1], scope, body)
            if message is None:
                await self._app(scope, receive, send)
                return
            given[entry.message[0]] = message
        scope.update(app=self._app, route=entry.route, path_params=in_path)
        given["token"] = await entry.needs(Request(scope, receive))
        answer = await entry.route.endpoint(**given)
        if not isinstance(answer, Response):
            answer = self._written(answer)
        await answer(scope, receive, send)


def _entry_of(route: APIRoute) -> _Entry:
    takes = inspect.signature(route.endpoint).parameters
    parts: list[str | _Place] = []
    for part in route.path_format.split("/"):
        name = part[1:-1]
        if part.startswith("{"):
            pattern = re.compile(route.param_convertors[name].regex)
            parts.append(_Place(name, pattern, TypeAdapter(takes[name].annotation)))
        else:
            parts.append(part)
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
    return _Entry(route, parts, needs, messages[0] if messages else None)


def _in_path(places: Sequence[str | _Place], parts: Sequence[str]) -> dict[str, Any] | None:
    """Parameters in a path; None where one does not fit, or another part is another word."""
    if len(parts) != len(places):
        return None
    found: dict[str, Any] = {}
    for place, part in zip(places, parts, strict=True):
        if isinstance(place, str):
            if part != place:
                return None
        elif place.pattern.fullmatch(part) is None:
            return None
        else:
            try:
                found[place.name] = place.fits.validate_python(part)
            except ValidationError:
                return None
    return found


def _read(kind: type[BaseModel], scope: Scope, body: bytes) -> BaseModel | None:
    """The message in a body; None where it is not sent as JSON, or does not fit."""
    media = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    if media != b"application/json":
        return None
    try:
        return kind.model_validate(json.loads(body), from_attributes=True)  # as the framework does
    except Exception:  # noqa: BLE001 - the framework finds it again, and says what it is
        return None

"""Routes of decisions and rewards, and `Direct`, a fast path for the most frequent routes.

The framework's overhead takes longer than a decision. `Direct` answers plain requests: a valid path and
body, sent as `application/json`. All other requests go to the framework unchanged, so that only the
framework refuses requests. The framework also makes the OpenAPI document from the same functions.
"""

import asyncio
import inspect
import json
from asyncio import wrap_future
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Annotated, Any, NamedTuple, get_args

from fastapi import FastAPI, Path, Request, Response
from fastapi.params import Depends
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from dpbandits.service import decisions
from dpbandits.service.answers import Named, Of
from dpbandits.service.core import Service
from dpbandits.service.documented import REFUSED_DECISION, Decider, Needs, Rewarder, Routes
from dpbandits.service.gate import BODY, Doorkeeper, Receive, Scope, Send, written_json
from dpbandits.service.logs import log
from dpbandits.service.messages import (
    IN_PATH,
    CheckRequest,
    DecisionRequest,
    DecisionsRequest,
    Misfit,
    RewardRequest,
    RewardsRequest,
    not_fitting,
)
from dpbandits.service.problems import Problem, problem_of
from dpbandits.service.writer import Crowded, awaited

__all__ = ["MOST_ASKED", "Direct", "Json", "PolicyName", "add_decisions", "given"]

MOST_ASKED = ("decide", "decide_batch", "tell_reward", "tell_rewards", "send_reports")
"""Names of the routes' functions that `Direct` answers."""

MOST_AT_ONCE = 100
"""Largest number of a batch's members in one call of the writer. Other callers wait for the whole call."""

PolicyName = Annotated[str, Path(max_length=64, pattern=IN_PATH, examples=["offers"])]
DecisionId = Annotated[
    str, Path(max_length=100, pattern=IN_PATH, examples=["d1-5f0c2a9d6b7e4c1f8a3b2d4e6f708192"])
]


class Json(JSONResponse):
    """JSON answer in ASCII. A content with NaN raises ValueError."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of the body."""
        return written_json(content)


class _Entry(NamedTuple):
    """A route, with the types of its path's parameters, the scopes that it needs, and the type of
    its body.
    """

    route: APIRoute
    places: "dict[str, TypeAdapter[Any]]"
    needs: Needs
    message: tuple[str, type[BaseModel]] | None


class Direct:
    """Middleware that answers some routes of an application directly. `Gate` handles the exceptions.

    Args:
        app: application.
        names: names of the functions of these routes. No two of them share a method and the last part of
            their paths.
    """

    def __init__(self, app: FastAPI, names: Sequence[str]) -> None:
        self._app = app
        self._entries: dict[tuple[str, str], _Entry] = {}
        for route in app.routes:
            if isinstance(route, APIRoute) and route.name in names:
                for method in route.methods or ():
                    self._entries[method, route.path_format.rpartition("/")[2]] = _entry_of(route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or pass it on to the framework."""
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
        door: Doorkeeper = self._app.state.door
        given["token"] = await door.admit(scope, entry.needs.scopes, places, within=entry.needs.within)
        answer = await entry.route.endpoint(**given)
        if not isinstance(answer, Response):
            answer = Json(answer)
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
    """Return the parameters in a request's path."""
    match = entry.route.path_regex.match(scope["path"])
    if match is None:
        return None
    try:
        return {name: entry.places[name].validate_python(text) for name, text in match.groupdict().items()}
    except ValidationError:
        return None


def _read(kind: type[BaseModel], scope: Scope, body: bytes) -> BaseModel | None:
    """Return the message in a body, of type `kind`."""
    media = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    if media != b"application/json":
        return None
    try:
        return kind.model_validate(json.loads(body), from_attributes=True)  # as the framework does
    except Exception:  # noqa: BLE001 - the framework finds the error again and answers it
        return None


def given(message: BaseModel) -> dict[str, Any]:
    """Return a message's members as a dictionary, without those that the caller left out."""
    return message.model_dump(exclude_none=True)


async def _each(
    members: Sequence[Any],
    together: Callable[[list[Any]], Future[list[Any]]],
    begin: Callable[[Any], Future[Any]],
    told: Callable[[Any], str],
) -> Response:
    """Return the answer to a batch, with the results of its members in order.

    `together` runs as many members as possible at once, and `begin` each of the others. `told` writes a
    result as JSON.

    Raises:
        Crowded: too many calls wait, and nothing of the batch was done.
    """
    found: dict[int, Any] = {
        place: not_fitting(one.places) for place, one in enumerate(members) if isinstance(one, Misfit)
    }

    async def alone(place: int) -> None:
        try:
            found[place] = await awaited(begin(members[place]))
        except Exception as error:  # noqa: BLE001 - answered as for a single request
            found[place] = problem_of(error)

    fit = [place for place in range(len(members)) if place not in found]
    for first in range(0, len(fit), MOST_AT_ONCE):
        left = fit[first : first + MOST_AT_ONCE]
        before = len(left) + 1
        while 1 < len(left) < before:
            before = len(left)
            try:
                results = await awaited(together([members[place] for place in left]))
            except Crowded:
                if found.keys().isdisjoint(fit):
                    raise  # nothing of the batch was done
                break
            except Exception as error:  # noqa: BLE001 - rolled back; each member gets its own error below
                if problem_of(error).slug == "defect":
                    log.error("a batch failed and is done one by one: %s", type(error).__name__)
                break
            found |= {place: one for place, one in zip(left, results, strict=True) if one is not None}
            left = [place for place in left if place not in found]
        await asyncio.gather(*map(alone, left))
    each = [found[place] for place in range(len(members))]
    texts = [
        written_json({"problem": one.to_json()}).decode() if isinstance(one, Problem) else told(one)
        for one in each
    ]
    return _as_json(f'{{"results":[{",".join(texts)}]}}')


def _as_json(text: str) -> Response:
    """Return an HTTP answer with this JSON text."""
    return Response(text, media_type="application/json")


def add_decisions(app: FastAPI, service: Service) -> None:
    """Add the routes of decisions and rewards to an application."""
    route = Routes(app, "decisions", "/v1/policies/{policy}")

    @route("POST /decisions", "Make a decision for one user", "Decision", *REFUSED_DECISION)
    async def decide(policy: PolicyName, message: DecisionRequest, token: Decider) -> Response:
        """An idempotent request gets the stored answer. `id` in the answer identifies the decision."""
        return _as_json(await awaited(service.decide(policy, token.id, given(message))))

    @route("POST /decisions:batch", "Make decisions for several users", "Decisions")
    async def decide_batch(policy: PolicyName, message: DecisionsRequest, token: Decider) -> Response:
        """Each decision is answered or refused by itself and counts as a request of the token."""
        app.state.door.slow_down(token.id, len(message.decisions) - 1)
        return await _each(
            message.decisions,
            lambda some: service.decide_together(policy, token.id, list(map(given, some))),
            lambda one: service.decide(policy, token.id, given(one)),
            '{{"decision":{}}}'.format,
        )

    @route("POST /decisions:check", "Validate contexts", "Checks", "not-found")
    async def check_contexts(policy: PolicyName, message: CheckRequest, token: Decider) -> dict[str, Any]:
        """The check takes no round and stores nothing.

        A cell in `replaced` is read as its column's declared value. Each context counts as a request of the
        token.
        """
        app.state.door.slow_down(token.id, len(message.contexts) - 1)
        checking = partial(decisions.check, policy=policy, contexts=message.contexts)
        return {"results": await asyncio.to_thread(service.read, checking)}

    @route("GET /decisions/{decision:word}", "Get the status of a decision", "Status")
    def decision_status(policy: PolicyName, decision: DecisionId, token: Decider) -> dict[str, Any]:
        with service.store.reading() as reads:
            found = service.decisions.status(reads, policy=policy, decision_id=decision)
        return {"status": found}

    @route("PUT /decisions/{decision:word}/reward", "Record a reward", "Outcome", "conflict")
    async def tell_reward(
        policy: PolicyName, decision: DecisionId, message: RewardRequest, token: Rewarder
    ) -> Response:
        """The outcome is `counted`, `late` (the reward does not count) or `duplicate` (there was a reward
        before).
        """
        telling = service.reward(policy, decision, float(message.reward), message.told, by=token.id)
        return Json({"outcome": await awaited(telling)})

    @route("POST /rewards:batch", "Record several rewards", "Outcomes")
    async def tell_rewards(policy: PolicyName, message: RewardsRequest, token: Rewarder) -> Response:
        """Each reward is counted or refused by itself and counts as a request of the token."""
        app.state.door.slow_down(token.id, len(message.rewards) - 1)
        return await _each(
            message.rewards,
            lambda some: service.reward_together(
                policy, [(one.decision, float(one.reward), one.told) for one in some], by=token.id
            ),
            lambda one: service.reward(policy, one.decision, float(one.reward), one.told, by=token.id),
            '{{"outcome":"{}"}}'.format,
        )

    @route("POST /decisions/{decision:word}:activate", "Activate a deferred decision", "Status")
    async def activate(policy: PolicyName, decision: DecisionId, token: Decider) -> dict[str, Any]:
        return {"status": await wrap_future(service.activate(policy, decision, by=token.id))}

    @route(
        "POST /decisions/{decision:word}:abandon",
        "Abandon a decision",
        Of({"status": "abandoned"}, Named("Status")),
        "not-found",
        "conflict",
    )
    async def abandon(policy: PolicyName, decision: DecisionId, token: Decider) -> dict[str, Any]:
        return {"status": await wrap_future(service.abandon(policy, decision, by=token.id))}

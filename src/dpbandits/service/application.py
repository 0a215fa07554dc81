"""ASGI application of the service: its routes, the scopes that each needs, and the answers.

The routes turn JSON into arguments of `dpbandits.service.core.Service`, and errors into problems.
"""

import asyncio
import re
from asyncio import wrap_future
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.routing import APIRoute
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match, Route

from dpbandits import __version__
from dpbandits.errors import DPBanditsError
from dpbandits.service import decisions, policies, tokens
from dpbandits.service.budgets import balance_to_json, population_names, promise_of, standing
from dpbandits.service.core import Service
from dpbandits.service.desk.pages import add_desk
from dpbandits.service.direct import MOST_ASKED, Direct, Json, PolicyName, add_decisions, given
from dpbandits.service.documented import (
    Admin,
    AdminWithin,
    Device,
    Documented,
    Reader,
    ReaderWithin,
    Routes,
    Tag,
    tagged,
)
from dpbandits.service.exchanges import add_exchanges
from dpbandits.service.flags import add_flags
from dpbandits.service.gate import Application, Doorkeeper, Gate, Receive, Scope, Send, written_json
from dpbandits.service.keys import canonical
from dpbandits.service.logs import log
from dpbandits.service.messages import (
    IN_PATH,
    ChangeRequest,
    NewArmRequest,
    PolicyRequest,
    PopulationRequest,
    RetiredArmRequest,
    RotateRequest,
    SurveyRequest,
    TokenRequest,
    not_fitting,
)
from dpbandits.service.metrics import Metrics
from dpbandits.service.problems import PROBLEM_TYPES, Problem, problem_of
from dpbandits.service.readiness import Readiness
from dpbandits.service.retention import WARNING, exported
from dpbandits.service.store import Writes, note_event
from dpbandits.service.surveys import Intake, begin_survey

__all__ = ["application"]

LINES = "application/x-ndjson"
"""Media type of an answer with one JSON value per line."""

TICK_SECONDS = 0.25
"""Number of seconds between two runs of the periodic work (`Service.tick`)."""


_OPEN = re.compile(
    r"/v1/local/[^/]+/(policy|reports)|/v1/policies/[^/]+/(decisions|rewards)([:/].*)?|/ofrep/v1/.*"
)
"""Pattern of the paths that pages of other origins may use from a browser."""


class Word(StringConvertor):
    """Converter for a part of a path without a colon, because a verb follows the colon:
    `{decision:word}:activate`.
    """

    regex = "[^/:]+"


register_url_convertor("word", Word())


SurveyName = Annotated[str, Path(max_length=64, pattern=IN_PATH, examples=["tips"])]
PopulationName = Annotated[str, Path(max_length=64, pattern=IN_PATH, examples=["customers"])]
TokenId = Annotated[str, Path(max_length=40, pattern=IN_PATH, examples=["5f0c2a9d6b7e"])]
_TOKEN = {
    "id": "5f0c2a9d6b7e",
    "token": "dpb_5f0c2a9d6b7e_shown-here-and-nowhere-else",
    "scopes": ["decide", "reward"],
}
_STATED = {
    "statement": "PRIVACY STATEMENT\n\nPromise: Joint differential privacy, epsilon = 1, ...",
    "guarantee": {"epsilon": 1.0, "delta": 1e-6},
}
_RELEASE = {"version": 1, "rounds": 1000, "made_at": 1767225600.0}
_EVENT = {
    "number": 1,
    "at": 1767225600.0,
    "what": "token-made",
    "subject": "token 5f0c2a9d6b7e",
    "told": "decide reward",
    "token": "0b1c2d3e4f50",
}


def application(service: Service) -> Application:
    """Return the ASGI application of an open service, which is closed when the application ends."""

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        beside = [asyncio.create_task(_tick(service)), asyncio.create_task(app.state.door.watch())]
        app.state.readiness = Readiness(service, metrics.beat)
        yield
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await asyncio.to_thread(app.state.readiness.close)
        await asyncio.to_thread(service.close)

    app = Documented(
        title="dpbandits",
        version=__version__,
        summary="Private decisions over HTTP.",
        lifespan=living,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # a redirect may lead to plain http behind a proxy
        default_response_class=Json,
    )
    app.state.service, app.state.door = service, Doorkeeper(service)
    app.add_exception_handler(Problem, _of_problem)
    app.add_exception_handler(DPBanditsError, _of_problem)
    app.add_exception_handler(RequestValidationError, _of_request)
    app.add_exception_handler(HTTPException, _of_http)
    app.add_exception_handler(Exception, _of_problem)  # the gate logs it
    metrics = Metrics(service)
    add_decisions(app, service)  # routes are matched in this order: the most frequent ones are first
    _routes_of_devices(app, service)
    _routes_of_populations(app, service)
    _routes_of_policies(app, service)
    add_exchanges(app, service)
    add_flags(app, service)
    _routes_of_operators(app, service, metrics)
    add_desk(app, service, app.state.door)

    named = partial(_template, app)
    gate = Gate(Direct(app, MOST_ASKED), service.settings, app.state.door.token, metrics.saw, named)
    return _open_to(service.settings.cors_origins, gate)


def _open_to(origins: Sequence[str], application: Application) -> Application:
    """Return an application whose answers can be read by pages of these origins in a browser (CORS).

    Only routes of devices, decisions and feature flags are open to pages. Credentials of the browser are
    never accepted, so a page cannot use a login at the desk and needs a token. Everybody who opens the page
    can read this token, so give it one scope only.
    """
    if not origins:
        return application
    shared = CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT"],
        allow_headers=["authorization", "content-type", "if-none-match"],
        expose_headers=["etag", "retry-after"],
    )

    async def answering(scope: Scope, receive: Receive, send: Send) -> None:
        is_open = scope["type"] == "http" and _OPEN.fullmatch(scope["path"])
        await (shared if is_open else application)(scope, receive, send)

    return answering


def _template(app: FastAPI, scope: Scope) -> str:
    found = (
        route.path_format
        for route in app.routes
        if isinstance(route, APIRoute) and route.matches(scope)[0] is Match.FULL
    )
    return next(found, "none")


async def _tick(service: Service) -> None:
    while not service.read_only:
        await asyncio.sleep(TICK_SECONDS)
        try:
            await wrap_future(service.tick())
        except Exception as error:  # noqa: BLE001 - the next tick tries again
            log.error("background work failed: %s", type(error).__name__)


async def _of_problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    status, media, told = problem.said_at(request.url.path)
    return Response(written_json(told), status_code=status, headers=problem.headers, media_type=media)


async def _of_request(request: Request, error: Exception) -> Response:
    """Return the answer for an invalid body. It names the invalid members and contains no values."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    return await _of_problem(request, not_fitting(found))


async def _of_http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    slug = next((name for name, (code, _) in PROBLEM_TYPES.items() if code == status), "malformed")
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    if status == 405:
        headers = {"Allow": ", ".join(sorted(_methods_at(request)))}
    return await _of_problem(request, Problem(slug, headers=headers))


def _methods_at(request: Request) -> set[str]:
    """Return the HTTP methods of all routes with the request's path.

    The framework's own answer would have those of the first route only.
    """
    found: set[str] = set()
    for route in request.app.routes:
        if isinstance(route, Route) and route.matches(request.scope)[0] is not Match.NONE:
            found |= route.methods or set()
    return found


def _routes_of_populations(app: FastAPI, service: Service) -> None:
    of_tokens, route = Routes(app, "tokens", "/v1/tokens"), Routes(app, "populations", "/v1/populations")

    async def changed(change: Callable[[Writes], Any]) -> Any:
        """Change tokens, and empty this worker's cache of tokens afterwards."""

        def changing(writes: Writes) -> Any:
            writes.when(kept=app.state.door.forget)
            return change(writes)

        return await wrap_future(service.write(changing))

    @of_tokens("POST ", "Make a token", _TOKEN, status=201)
    async def make_token(message: TokenRequest, token: AdminWithin) -> dict[str, Any]:
        """The text of the token is in this answer and is never shown again."""
        limits = tokens.Limits.of(message.policies, message.populations)
        if not token.limits.include(limits):
            raise Problem("out-of-scope", "This token has limits: send limits within them.")
        how: dict[str, Any] = {"now": service.now(), "limits": limits, "by": token.id}
        how |= message.model_dump(include={"label", "scopes", "seconds"})
        identity, text = await changed(partial(tokens.make_token, keys=service.keys, **how))
        return {"id": identity, "token": text, "scopes": message.scopes}

    @of_tokens("DELETE /{identity:word}", "Withdraw a token", None, status=204)
    async def withdraw_token(identity: TokenId, token: AdminWithin) -> Response:
        how: dict[str, Any] = {"now": service.now(), "within": token.limits, "by": token.id}
        await changed(partial(tokens.withdraw, identity=identity, **how))
        return Response(status_code=204)

    @of_tokens("GET ", "List the valid tokens, latest first", "ListedTokens")
    def list_tokens(token: AdminWithin) -> dict[str, Any]:
        """The list has no texts of tokens. A token with limits sees only the tokens within its own limits."""
        return {
            "tokens": service.read(lambda reads: tokens.listed_tokens(reads, token.limits, service.now()))
        }

    @of_tokens("POST /{identity:word}:rotate", "Give a token a new text", "RotatedToken")
    async def rotate_token(identity: TokenId, message: RotateRequest, token: AdminWithin) -> dict[str, Any]:
        """The token gets a new text.

        The old text stays valid for the overlap, so the request can be repeated if no answer came.
        """
        how = {"now": service.now(), "within": token.limits, "by": token.id, **message.model_dump()}
        found: dict[str, Any] = await changed(
            partial(tokens.rotate, keys=service.keys, identity=identity, **how)
        )
        return found

    @route("POST ", "Create a population", "Population", status=201)
    async def open_population(message: PopulationRequest, token: AdminWithin) -> dict[str, Any]:
        """A population has one privacy budget for a group of users. The request is idempotent."""
        token.refuse_population(message.name)
        privacy = given(message.privacy)

        def opening(writes: Any) -> dict[str, Any]:
            service.ledger.open_account(message.name, privacy=promise_of(privacy))
            row = message.name, canonical({"privacy": privacy}), service.now()
            if writes.run("INSERT INTO populations VALUES (?, ?, ?) ON CONFLICT DO NOTHING", *row):
                subject = f"population {message.name}"
                note_event(writes, service.now(), "population-opened", subject, by=token.id)
            return {"name": message.name, **balance_to_json(service.ledger.balance(message.name))}

        return await wrap_future(service.write(opening))

    @route("GET ", "List the populations with spent and remaining budget", "Populations")
    def list_populations(token: ReaderWithin) -> dict[str, Any]:
        names = filter(token.limits.reach_population, service.read(population_names))
        return {
            "populations": [{"name": name, **balance_to_json(service.ledger.balance(name))} for name in names]
        }

    @route("GET /{population}", "Get spent and remaining budget of a population", "Population")
    def get_population(population: PopulationName, token: Reader) -> dict[str, Any]:
        return {"name": population, **standing(service.ledger, population)}


def _routes_of_policies(app: FastAPI, service: Service) -> None:
    route = Routes(app, "policies", "/v1/policies")

    @route("POST :preview", "Preview the guarantee and cost of a policy", "PolicyPreview", "not-found")
    def preview_policy(message: PolicyRequest, token: AdminWithin) -> dict[str, Any]:
        """The answer has the guarantee and the cost of the policy. Nothing is stored, charged or drawn."""
        token.refuse_new(message.name, message.population)
        return policies.preview(service.ledger, _asked(message))

    @route("POST ", "Create a policy", "Policy", "not-found", "conflict", "budget-exceeded", status=201)
    async def begin_policy(message: PolicyRequest, token: AdminWithin, response: Response) -> dict[str, Any]:
        """The policy's population is charged for everything that the policy will ever release."""
        token.refuse_new(message.name, message.population)
        kept = await asyncio.to_thread(service.begin_policy, _asked(message), token.id)
        response.headers["ETag"] = kept.etag
        return await asyncio.to_thread(service.read, partial(policies.described, kept=kept))

    @route("GET ", "List the policies", "Policies")
    def list_policies(token: ReaderWithin) -> dict[str, Any]:
        found, reach = service.read(policies.all_described), token.limits.reach
        return {"policies": [one for one in found if reach(one["name"], one["population"])]}

    @route("GET /{policy}", "Get a policy", "Policy")
    def get_policy(policy: PolicyName, token: Reader, response: Response) -> dict[str, Any]:
        with service.store.reading() as reads:
            kept = policies.kept_policy(reads, policy)
            response.headers["ETag"] = kept.etag
            return policies.described(reads, kept)

    @route(
        "PATCH /{policy}",
        "Change status or settings of a policy",
        "Policy",
        "conflict",
        "changed-meanwhile",
        "needs-if-match",
    )
    async def change_policy(
        policy: PolicyName, message: ChangeRequest, token: Admin, response: Response, if_match: Tag = None
    ) -> dict[str, Any]:
        """The request changes status or settings.

        The guarantee never changes. The header `If-Match` is required.
        """
        settings = None if message.settings is None else message.settings.model_dump(exclude_unset=True)
        how: dict[str, Any] = {"status": message.status, "settings": settings, "if_match": if_match}
        how |= {"now": service.now(), "by": token.id}
        kept = await wrap_future(service.write(lambda writes: policies.change(writes, policy, **how)))
        response.headers["ETag"] = kept.etag
        return await asyncio.to_thread(service.read, partial(policies.described, kept=kept))

    async def change_arms(policy: str, *, retire: bool, asked: dict[str, Any], by: str) -> dict[str, Any]:
        how: dict[str, Any] = {"retire": retire, "asked": asked, "now": service.now(), "by": by}
        kept = await wrap_future(
            service.write(lambda writes: policies.change_arms(writes, service.engines, policy, **how))
        )
        return await asyncio.to_thread(service.read, partial(policies.arms_described, kept=kept))

    @route("GET /{policy}/arms", "List the arms, and their changes", "Arms")
    def list_arms(policy: PolicyName, token: Reader) -> dict[str, Any]:
        with service.store.reading() as reads:
            return policies.arms_described(reads, policies.kept_policy(reads, policy))

    @route("POST /{policy}/arms", "Add an arm from the next release on", "Arms", "conflict")
    async def add_arm(policy: PolicyName, message: NewArmRequest, token: Admin) -> dict[str, Any]:
        """The guarantee's numbers stay. Arm and time must not depend on private data. It is idempotent."""
        return await change_arms(policy, retire=False, asked=given(message), by=token.id)

    @route("POST /{policy}/arms:retire", "Retire an arm from the next release on", "Arms", "conflict")
    async def retire_arm(policy: PolicyName, message: RetiredArmRequest, token: Admin) -> dict[str, Any]:
        """Rewards of its open decisions still count. The request is idempotent."""
        return await change_arms(policy, retire=True, asked=given(message), by=token.id)

    @route(
        "GET /{policy}/policy",
        "Get the published function, which decides without the service",
        {"format": 1, "kind": "PublishedPosterior", "guarantee": {"epsilon": 1.0}},
        "conflict",
        has_tag=True,
    )
    def published_function(policy: PolicyName, token: Reader, if_none_match: Tag = None) -> Response:
        """The answer is the policy's latest function, as JSON for `PublishedFunction.from_json`.

        The ETag is its version.
        """
        return tagged(*service.published(policy), if_none_match)

    @route("GET /{policy}/guarantee", "Get the statement of the guarantee", _STATED, "conflict")
    def get_guarantee(policy: PolicyName, token: Reader) -> Response:
        """`statement` is the guarantee as a page of text that can be signed.

        `guarantee` is all of it as JSON.
        """
        found = service.guarantee(policy)
        text = f'{{"statement":{canonical(found["statement"])},"guarantee":{found["guarantee"]}}}'
        return Response(text, media_type="application/json")

    @route("GET /{policy}/readout", "Compare the policy with its control group", "Readout", "conflict")
    def get_readout(policy: PolicyName, token: Reader) -> dict[str, Any]:
        """The answer rests on released looks alone. `result` is that of `GPBandit.readout()`."""
        return service.readout(policy)

    @route("POST /{policy}/readout:end", "End the comparison with the control group", "Readout", "conflict")
    async def end_readout(policy: PolicyName, token: Admin) -> dict[str, Any]:
        """The last look holds the rounds so far, and is released soon. The request is idempotent."""
        how: dict[str, Any] = {"now": service.now(), "by": token.id}
        await wrap_future(
            service.write(lambda writes: policies.end_readout(writes, service.engines, policy, **how))
        )
        service.engines.is_due()
        return await asyncio.to_thread(service.readout, policy)

    @route("GET /{policy}/releases", "List the releases", {"releases": [_RELEASE]})
    def list_releases(policy: PolicyName, token: Reader) -> dict[str, Any]:
        with service.store.reading() as reads:
            kept = policies.kept_policy(reads, policy)
            rows = policies.releases_of(reads, kept.id)
        return {"releases": [dict(zip(_RELEASE, row, strict=True)) for row in rows]}


def _asked(message: PolicyRequest) -> dict[str, Any]:
    """Return the request in the form in which it is stored, without members that the caller left out."""
    found = given(message)
    found["horizon"] = message.horizon
    found["settings"] = message.settings.model_dump()
    if [message.arms, message.products, message.actions, message.domain].count(None) != 3:
        raise Problem("invalid", "Send contexts and arms, products or actions, or a domain: one of them.")
    if message.products is not None:
        found["arms"] = list(policies.products_of(found["products"]).labels)
    if message.actions is not None:
        found["arms"] = list(policies.actions_of(found["actions"]).labels)
    return found


def _routes_of_devices(app: FastAPI, service: Service) -> None:
    route = Routes(app, "local", "/v1/local")
    intake = Intake(service.surveys.absorb_each)

    @route(
        "POST ",
        "Create a local policy",
        {"name": "tips", "population": "people"},
        "not-found",
        "conflict",
        "budget-exceeded",
        status=201,
    )
    async def begin_local_policy(message: SurveyRequest, token: AdminWithin) -> dict[str, Any]:
        """The policy's population is charged once, for one report of one user."""
        token.refuse_new(message.name, message.population)
        asked = message.model_dump()
        await wrap_future(
            service.write(lambda writes: begin_survey(writes, service.ledger, asked, service.now(), token.id))
        )
        return {"name": message.name, "population": message.population}

    @route(
        "GET /{survey}/policy",
        "Get the contract and the published version for devices",
        {
            "spec": {"kind": "Spec", "privacy": {"kind": "LocalDP", "epsilon": 1.0}},
            "published": {"version": 0},
        },
        has_tag=True,
    )
    def get_local_policy(survey: SurveyName, token: Device, if_none_match: Tag = None) -> Response:
        """`spec` is JSON for `Spec.from_json`, and `published` for `PublishedArms.from_json`.

        For a readout, `spec` is JSON for `ReadoutSpec.from_json`.
        """
        service.refuse_in_a_copy()  # the reports for it would be lost
        return tagged(*service.surveys.published(survey), if_none_match)

    @route(
        "GET /{survey}/readout",
        "Compare a version with its control group, from devices' reports",
        "LocalReadout",
        "conflict",
    )
    def get_local_readout(survey: SurveyName, token: Reader) -> dict[str, Any]:
        """The answer is computed from private reports alone, as `local.Server.readout()` does."""
        service.refuse_in_a_copy()
        return service.surveys.readout(survey)

    @route(
        "POST /{survey}/reports",
        "Send reports",
        {"accepted": 2, "not_counted": 0},
        options={
            "openapi_extra": {
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/octet-stream": {
                            "schema": {"type": "string", "format": "binary"},
                            "example": "\x03\x00abc",
                        }
                    },
                }
            }
        },
    )
    async def send_reports(survey: SurveyName, request: Request, token: Device) -> Response:
        """The body has each report after its length, which has two bytes, little-endian.

        When the answer comes, the reports are on disk.
        """
        service.refuse_in_a_copy()
        return Json(await intake(survey, await request.body()))


def _routes_of_operators(app: FastAPI, service: Service, measured: Metrics) -> None:
    route = Routes(app, "operators", "")

    @route(
        "GET /metrics",
        "Get metrics of traffic, releases and budgets for Prometheus",
        'dpbandits_releases{policy="offers"} 3.0\n',
        media="text/plain",
    )
    def metrics(token: Reader) -> Response:
        """The metrics come from an allow-list: none is by arm, by reward or by status of a decision."""
        return Response(measured.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @route("GET /v1/events", "List the events for operators, latest first", {"events": [_EVENT]})
    def list_events(token: Admin) -> dict[str, Any]:
        """`token` is the id of the token whose request caused the event.

        It is empty if the service or a command did.
        """
        rows = service.read(
            lambda reads: reads.rows(
                "SELECT number, at, what, subject, told, token FROM events WHERE what != ? "
                "ORDER BY number DESC LIMIT 200",
                decisions.OTHER_CONTEXT,
            )
        )
        return {"events": [dict(zip(_EVENT, row, strict=True)) for row in rows]}

    @route(
        "GET /v1/policies/{policy}/raw",
        "Export raw decisions and rewards, which is not a private release",
        f'{{"warning": "{WARNING}"}}\n',
        media=LINES,
    )
    def export_raw(policy: PolicyName, token: Admin) -> Response:
        """The answer has a line with a warning, and then one JSON line for each decision that exists at the
        beginning.

        A line shows the decision as it is when its page is read. The export is recorded as an event.
        """
        kept = service.read(lambda reads: policies.kept_policy(reads, policy))
        if not service.read_only:
            event = service.now(), "raw-exported", f"policy {policy}"
            service.write(lambda writes: note_event(writes, *event, by=token.id)).result()
        pages = exported(service.read, service.keys, kept.id)
        headers = {"X-Not-A-Private-Release": WARNING}
        return StreamingResponse(pages, media_type=LINES, headers=headers)

    @route("GET /v1/live", "Check that the process answers", {"status": "up"}, needs_token=False)
    async def live() -> dict[str, Any]:
        """The answer says that the process runs. The route needs no token."""
        return {"status": "up"}

    @route("GET /v1/health", "Check that the process answers", {"status": "up"}, needs_token=False)
    async def health() -> dict[str, Any]:
        """The answer says that the process runs, as that of the route for `live`.

        The route needs no token.
        """
        return await live()

    @route("GET /v1/ready", "Check readiness", {"status": "ready"}, "not-ready", needs_token=False)
    async def ready(request: Request) -> dict[str, Any]:
        """The route needs no token.

        If the service is not ready, `reasons` lists the failed checks, in fixed words.
        """
        if reasons := request.app.state.readiness.reasons():
            raise Problem("not-ready", "See `reasons`.", more={"reasons": reasons})
        return {"status": "ready"}

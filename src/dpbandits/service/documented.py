"""`Routes`: adds routes, each with the token that it needs and its part of the OpenAPI document."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.openapi.models import HTTPBearer as HTTPBearerModel
from fastapi.openapi.models import SecurityBase as SecurityModel
from fastapi.security.base import SecurityBase

from dpbandits.service.answers import TYPES, Named, example_of, type_of
from dpbandits.service.gate import Doorkeeper
from dpbandits.service.problems import PROBLEM_TYPES, Problem
from dpbandits.service.tokens import Token

__all__ = [
    "REFUSED_DECISION",
    "Admin",
    "AdminWithin",
    "Curator",
    "Decider",
    "Device",
    "Documented",
    "Modeler",
    "Needs",
    "Reader",
    "ReaderWithin",
    "Rewarder",
    "Routes",
    "Tag",
    "tagged",
]

_Call = TypeVar("_Call", bound=Callable[..., Any])

_READ_WHOLE = ("malformed", "slow", "too-large")
"""Slugs of problems that any request can have before its content is parsed."""

_KNOWN = ("no-token", "out-of-scope", "too-many-requests", "invalid", "busy", "not-recorded", "read-only")
"""Slugs of problems that every request which needs a token can have."""


REFUSED_DECISION = ("conflict", "other-body", "no-rounds-left", "user-has-had-all", "erased")
"""Slugs of problems that a request for a decision can have."""

Tag = Annotated[str | None, Header()]


def tagged(body: str | bytes, etag: str, known: str | None) -> Response:
    """Return an answer with its ETag; a 304 without a body if the caller already has this version."""
    if known == "*" or etag in [one.strip() for one in (known or "").split(",")]:
        return Response(status_code=304, headers={"ETag": etag})
    return Response(body, media_type="application/json", headers={"ETag": etag})


class Needs(SecurityBase):
    """Dependency of a route: the request needs a token with one of these scopes, whose limits include
    the path.

    Args:
        scopes: scopes of which one is enough.
        within: True if the route itself checks the token's limits. Otherwise a token with limits is refused
            at a path that names no resource.
    """

    def __init__(self, *scopes: str, within: bool = False) -> None:
        self.scopes, self.within = scopes, within
        self.model: SecurityModel = HTTPBearerModel()
        self.scheme_name = "token"

    async def __call__(self, request: Request) -> Token:
        """Return the token of a request.

        Raise Problem if it lacks the scope or the path is beyond its limits.
        """
        door: Doorkeeper = request.app.state.door
        return await door.admit(request.scope, self.scopes, request.path_params, within=self.within)


Admin = Annotated[Token, Depends(Needs("admin"))]
AdminWithin = Annotated[Token, Depends(Needs("admin", within=True))]
Reader = Annotated[Token, Depends(Needs("read", "admin"))]
ReaderWithin = Annotated[Token, Depends(Needs("read", "admin", within=True))]
Decider = Annotated[Token, Depends(Needs("decide"))]
Rewarder = Annotated[Token, Depends(Needs("reward"))]
Device = Annotated[Token, Depends(Needs("report"))]
Curator = Annotated[Token, Depends(Needs("curate"))]
Modeler = Annotated[Token, Depends(Needs("model"))]


class Documented(FastAPI):
    """Application whose OpenAPI document has the types of answers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, generate_unique_id_function=lambda route: route.name)
        self.state.shown = {
            name: {"description": said, **type_of(members)} for name, (said, members) in TYPES.items()
        }

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, with the types of answers."""
        found = super().openapi()
        found["components"]["schemas"] |= self.state.shown
        return found


class Routes:
    """Adds routes to an application, with one tag, and with paths that begin with `under`.

    Each route documents all its answers. The name of a route's function is the id of the operation. It is
    part of the interface and never changes.
    """

    def __init__(self, app: FastAPI, tag: str, under: str) -> None:
        self._app, self._tag, self._under = app, tag, under

    def __call__(
        self,
        place: str,
        summary: str,
        answer: Any,
        *problems: str,
        status: int = 200,
        media: str = "application/json",
        needs_token: bool = True,
        has_tag: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[[_Call], _Call]:
        """Return a decorator of the function that answers at a path.

        Args:
            place: method and path, such as "GET /{exchange}".
            summary: summary of the route.
            answer: name of the answer's type; or an `Of` with another example; or members as in `TYPES`, for
                a type that is named after the function. For another media type than JSON it is an example.
                None stands for no body.
            problems: slugs of further problems. Those of every request, and "not-found" for a path that
                names a resource, are added.
            status: HTTP status of the answer.
            media: media type of the answer.
            needs_token: True if the route needs a token.
            has_tag: True if the answer is `tagged`.
            options: further options of the framework's `api_route`.
        """
        method, _, path = place.partition(" ")
        path = self._under + path
        found: dict[int | str, dict[str, Any]] = {status: {"description": "Done"}}
        if has_tag:
            found[304] = {"description": "It is the version that If-None-Match names"}
        slugs = [*_READ_WHOLE, *(_KNOWN if needs_token else ()), *problems]
        slugs += ["not-found"] if "{" in path and "not-found" not in problems else []
        refused = [(slug, *Problem(slug).said_at(path)) for slug in slugs]
        for code in sorted({one[1] for one in refused}):
            ours = [one for one in refused if one[1] == code]
            kind = "Problem" if ours[0][2] == "application/problem+json" else "FlagProblem"
            shown = {slug: {"value": told} for slug, _, _, told in ours}
            found[code] = {
                "description": "; ".join(dict.fromkeys(PROBLEM_TYPES[one[0]][1] for one in ours)),
                "content": {ours[0][2]: {"schema": type_of(Named(kind)), "examples": shown}},
            }
        told: dict[str, Any] = {"summary": summary, "responses": found, **(options or {})}
        told |= {"methods": [method], "tags": [self._tag], "status_code": status}

        def add(call: _Call) -> _Call:
            if media != "application/json":
                found[status]["content"] = {media: {"example": answer}}
                told["response_class"] = type("Text", (Response,), {"media_type": media})
            elif answer is not None:
                kind = Named(answer) if isinstance(answer, str) else answer
                schema = type_of(kind)
                if isinstance(answer, dict):
                    name = "".join(map(str.capitalize, call.__name__.split("_"))) + "Answer"
                    self._app.state.shown[name], schema = schema, type_of(Named(name))
                found[status]["content"] = {media: {"example": example_of(kind), "schema": schema}}
            return self._app.api_route(path, response_model=None, **told)(call)

        return add

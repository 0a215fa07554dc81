"""Examples and statuses in the OpenAPI document: an example of each answer, and all statuses of a route."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import FastAPI

from dpbandits.service.problems import PROBLEM_TYPES, Problem

__all__ = ["Documented", "Routes"]

_Call = TypeVar("_Call", bound=Callable[..., Any])

_READ_WHOLE = ("malformed", "slow", "too-large")
"""Problems of any request, before its contents are looked at."""

_KNOWN = ("no-token", "out-of-scope", "too-many-requests", "invalid", "not-recorded", "read-only")
"""Problems of any request that needs a token."""

_FAULT = {
    "type": "object",
    "description": "A column of the context, and which of its rules the cell breaks; never a value.",
    "required": ["column", "rule"],
    "properties": {"column": {"type": "string"}, "rule": {"type": "string"}},
}

_PROBLEM = {
    "type": "object",
    "title": "Problem",
    "description": "RFC 9457: fixed words and public numbers; nothing of what was sent.",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string", "enum": [f"urn:dpbandits:{slug}" for slug in PROBLEM_TYPES]},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "id": {"type": "string", "description": "Of the decision, where a round was taken."},
        "reason": {"type": "string", "enum": ["context", "available", "candidates"]},
        "faults": {"type": "array", "items": _FAULT},
    },
}


class Documented(FastAPI):
    """The application, whose document says what a problem is."""

    def openapi(self) -> dict[str, Any]:
        """The document."""
        found = super().openapi()
        found.setdefault("components", {}).setdefault("schemas", {})["Problem"] = _PROBLEM
        return found


class Routes:
    """Adds routes of one tag, whose paths begin with `under`, with everything that each may answer."""

    def __init__(self, app: FastAPI, tag: str, under: str) -> None:
        self._app, self._tag, self._under = app, tag, under

    def __call__(
        self,
        place: str,
        summary: str,
        example: Any,
        *problems: str,
        status: int = 200,
        media: str = "application/json",
        needs_token: bool = True,
        options: Mapping[str, Any] | None = None,
        **others: str,
    ) -> Callable[[_Call], _Call]:
        """Decorate the function that answers at a path.

        Args:
            place: method and path, as "GET /{exchange}".
            summary: of the route.
            example: of its answer; None where that has no body.
            problems: slugs of what else may come of it, beside what may come of any request.
            status, media: of its answer.
            needs_token: whether it does.
            options: further ones of the framework's `api_route`.
            others: further statuses, as `s304`, and what they say.
        """
        said: dict[str, Any] = {"description": "Done"}
        if example is not None:
            said["content"] = {media: {"example": example}}
        found: dict[int | str, dict[str, Any]] = {status: said}
        found |= {int(name[1:]): {"description": text} for name, text in others.items()}
        slugs = (*_READ_WHOLE, *(_KNOWN if needs_token else ()), *problems)
        for code in sorted({PROBLEM_TYPES[slug][0] for slug in slugs}):
            ours = [slug for slug in slugs if PROBLEM_TYPES[slug][0] == code]
            shown = {slug: {"value": Problem(slug).to_json()} for slug in ours}
            content = {"schema": {"$ref": "#/components/schemas/Problem"}, "examples": shown}
            found[code] = {
                "description": "; ".join(dict.fromkeys(PROBLEM_TYPES[slug][1] for slug in ours)),
                "content": {"application/problem+json": content},
            }
        method, _, path = place.partition(" ")
        told: dict[str, Any] = {"summary": summary, "responses": found, **(options or {})}
        told |= {"methods": [method], "tags": [self._tag], "status_code": status}
        return self._app.api_route(self._under + path, **told)

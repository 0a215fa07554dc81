"""What the OpenAPI document says of a route: its name, the type of its answer, an example, all statuses."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import FastAPI

from dpbandits.service.answers import TYPES, type_of
from dpbandits.service.problems import PROBLEM_TYPES, Problem

__all__ = ["OPERATIONS", "Documented", "Routes"]

_Call = TypeVar("_Call", bound=Callable[..., Any])

_READ_WHOLE = ("malformed", "slow", "too-large")
"""Problems of any request, before its contents are looked at."""

_KNOWN = ("no-token", "out-of-scope", "too-many-requests", "invalid", "busy", "not-recorded", "read-only")
"""Problems of any request that needs a token."""

OPERATIONS: dict[str, tuple[str, str | None]] = {
    "POST /v1/policies/{policy}/decisions": ("decide", "Decision"),
    "POST /v1/policies/{policy}/decisions:batch": ("decide_batch", "Decisions"),
    "POST /v1/policies/{policy}/decisions:check": ("check_contexts", "Checks"),
    "GET /v1/policies/{policy}/decisions/{decision}": ("decision_status", "Status"),
    "PUT /v1/policies/{policy}/decisions/{decision}/reward": ("tell_reward", "Outcome"),
    "POST /v1/policies/{policy}/decisions/{decision}:activate": ("activate", "Status"),
    "POST /v1/policies/{policy}/decisions/{decision}:abandon": ("abandon", "Status"),
    "POST /v1/policies/{policy}/rewards:batch": ("tell_rewards", "Outcomes"),
    "GET /v1/tokens": ("list_tokens", "ListedTokens"),
    "POST /v1/tokens/{identity}:rotate": ("rotate_token", "RotatedToken"),
    "POST /v1/populations": ("open_population", "Population"),
    "GET /v1/populations": ("list_populations", "Populations"),
    "GET /v1/populations/{name}": ("get_population", "Population"),
    "POST /v1/policies:preview": ("preview_policy", "PolicyPreview"),
    "POST /v1/policies": ("begin_policy", "Policy"),
    "GET /v1/policies": ("list_policies", "Policies"),
    "GET /v1/policies/{policy}": ("get_policy", "Policy"),
    "PATCH /v1/policies/{policy}": ("change_policy", "Policy"),
    "GET /v1/policies/{policy}/policy": ("published_function", None),
    "GET /v1/policies/{policy}/guarantee": ("get_guarantee", None),
    "GET /v1/policies/{policy}/releases": ("list_releases", None),
    "GET /v1/policies/{policy}/raw": ("export_raw", None),
    "POST /v1/local": ("begin_local_policy", None),
    "GET /v1/local/{survey}/policy": ("get_local_policy", None),
    "POST /v1/local/{survey}/reports": ("send_reports", None),
    "POST /v1/outsourced:preview": ("preview_exchange", "Preview"),
    "POST /v1/outsourced": ("begin_exchange", "Exchange"),
    "GET /v1/outsourced": ("list_exchanges", "Exchanges"),
    "GET /v1/outsourced/{exchange}": ("get_exchange", "Exchange"),
    "DELETE /v1/outsourced/{exchange}": ("end_exchange", None),
    "PUT /v1/outsourced/{exchange}/release": ("upload_release", "Exchange"),
    "GET /v1/outsourced/{exchange}/release": ("get_release", "Release"),
    "POST /v1/outsourced/{exchange}/questions": ("ask_rows", "Questions"),
    "GET /v1/outsourced/{exchange}/questions": ("list_questions", "Questions"),
    "POST /v1/outsourced/{exchange}/work": ("take_work", None),
    "PUT /v1/outsourced/{exchange}/questions/{row}/answer": ("answer_row", None),
    "POST /ofrep/v1/evaluate/flags/{policy}": ("evaluate_flag", "Flag"),
    "POST /ofrep/v1/evaluate/flags": ("evaluate_flags", "Flags"),
    "GET /metrics": ("metrics", None),
    "GET /v1/events": ("list_events", None),
    "GET /v1/live": ("live", None),
    "GET /v1/health": ("health", None),
    "GET /v1/ready": ("ready", None),
}
"""Method and path -> the operation's id and the type of its answer. Ids are part of the interface and never
change. A route that is not here has the name of its function. Where no type is named the example gives it:
then every member is always there, and never null.
"""


class Documented(FastAPI):
    """The application, whose document has the types of answers."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, generate_unique_id_function=lambda route: route.name)
        self.state.shown = {
            name: {"description": said, **type_of(members)} for name, (said, members) in TYPES.items()
        }

    def openapi(self) -> dict[str, Any]:
        """The document."""
        found = super().openapi()
        found["components"]["schemas"] |= self.state.shown
        return found


def _kind_of(example: Any) -> Any:
    """Return the kind of answers that have the members of an example; of null nothing is known."""
    if isinstance(example, dict):
        return {name: _kind_of(value) for name, value in example.items()}
    return [_kind_of(one) for one in example[:1] or [None]] if isinstance(example, list) else type(example)


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
        method, _, path = place.partition(" ")
        path = self._under + path
        name, answer = OPERATIONS.get(f"{method} {path.replace(':word}', '}')}", (None, None))
        said: dict[str, Any] = {"description": "Done"}
        if example is not None:
            said["content"] = {media: {"example": example}}
        found: dict[int | str, dict[str, Any]] = {status: said}
        found |= {int(name[1:]): {"description": text} for name, text in others.items()}
        slugs = (*_READ_WHOLE, *(_KNOWN if needs_token else ()), *problems)
        refused = [(slug, *Problem(slug).said_at(path)) for slug in slugs]
        for code in sorted({one[1] for one in refused}):
            ours = [one for one in refused if one[1] == code]
            shown = {slug: {"value": told} for slug, _, _, told in ours}
            kind = "Problem" if ours[0][2] == "application/problem+json" else "FlagProblem"
            found[code] = {
                "description": "; ".join(dict.fromkeys(PROBLEM_TYPES[one[0]][1] for one in ours)),
                "content": {ours[0][2]: {"schema": type_of(kind), "examples": shown}},
            }
        told: dict[str, Any] = {"summary": summary, "responses": found, **(options or {})}
        told |= {"methods": [method], "tags": [self._tag], "status_code": status, "operation_id": name}

        def add(call: _Call) -> _Call:
            shown = answer or "".join(map(str.capitalize, (name or call.__name__).split("_"))) + "Answer"
            if isinstance(example, dict):
                self._app.state.shown.setdefault(shown, type_of(_kind_of(example)))
                said["content"][media]["schema"] = type_of(shown)
            return self._app.api_route(path, response_model=None, **told)(call)

        return add

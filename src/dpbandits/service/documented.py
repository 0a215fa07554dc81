"""What the OpenAPI document says of a route: its name, the type of its answer, an example, all statuses."""

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import FastAPI
from pydantic import BaseModel

from dpbandits.service import answers
from dpbandits.service.problems import PROBLEM_TYPES, Problem

__all__ = ["OPERATIONS", "Documented", "Routes", "operations_in"]

_Call = TypeVar("_Call", bound=Callable[..., Any])

_READ_WHOLE = ("malformed", "slow", "too-large")
"""Problems of any request, before its contents are looked at."""

_KNOWN = ("no-token", "out-of-scope", "too-many-requests", "invalid", "not-recorded", "read-only")
"""Problems of any request that needs a token."""

OPERATIONS: dict[str, tuple[str, type[BaseModel] | None]] = {
    "POST /v1/policies/{policy}/decisions": ("decide", answers.DecisionAnswer),
    "POST /v1/policies/{policy}/decisions:batch": ("decide_batch", answers.DecisionsAnswer),
    "POST /v1/policies/{policy}/decisions:check": ("check_contexts", answers.ChecksAnswer),
    "GET /v1/policies/{policy}/decisions/{decision}": ("decision_status", answers.StatusAnswer),
    "PUT /v1/policies/{policy}/decisions/{decision}/reward": ("tell_reward", answers.OutcomeAnswer),
    "POST /v1/policies/{policy}/decisions/{decision}:activate": ("activate", answers.StatusAnswer),
    "POST /v1/policies/{policy}/decisions/{decision}:abandon": ("abandon", answers.StatusAnswer),
    "POST /v1/policies/{policy}/rewards:batch": ("tell_rewards", answers.OutcomesAnswer),
    "GET /v1/tokens": ("list_tokens", answers.TokensAnswer),
    "POST /v1/tokens/{identity}:rotate": ("rotate_token", answers.RotatedAnswer),
    "POST /v1/populations": ("open_population", answers.PopulationAnswer),
    "GET /v1/populations": ("list_populations", answers.PopulationsAnswer),
    "GET /v1/populations/{name}": ("get_population", answers.PopulationAnswer),
    "POST /v1/policies:preview": ("preview_policy", answers.PolicyPreviewAnswer),
    "POST /v1/policies": ("begin_policy", answers.PolicyAnswer),
    "GET /v1/policies": ("list_policies", answers.PoliciesAnswer),
    "GET /v1/policies/{policy}": ("get_policy", answers.PolicyAnswer),
    "PATCH /v1/policies/{policy}": ("change_policy", answers.PolicyAnswer),
    "GET /v1/policies/{policy}/policy": ("published_function", None),
    "GET /v1/policies/{policy}/guarantee": ("get_guarantee", None),
    "GET /v1/policies/{policy}/releases": ("list_releases", None),
    "GET /v1/policies/{policy}/raw": ("export_raw", None),
    "POST /v1/local": ("begin_local_policy", None),
    "GET /v1/local/{survey}/policy": ("get_local_policy", None),
    "POST /v1/local/{survey}/reports": ("send_reports", None),
    "POST /v1/outsourced:preview": ("preview_exchange", answers.ExchangePreviewAnswer),
    "POST /v1/outsourced": ("begin_exchange", answers.ExchangeAnswer),
    "GET /v1/outsourced": ("list_exchanges", answers.ExchangesAnswer),
    "GET /v1/outsourced/{exchange}": ("get_exchange", answers.ExchangeAnswer),
    "DELETE /v1/outsourced/{exchange}": ("end_exchange", None),
    "PUT /v1/outsourced/{exchange}/release": ("upload_release", answers.ExchangeAnswer),
    "GET /v1/outsourced/{exchange}/release": ("get_release", answers.ReleaseAnswer),
    "POST /v1/outsourced/{exchange}/questions": ("ask_rows", answers.QuestionsAnswer),
    "GET /v1/outsourced/{exchange}/questions": ("list_questions", answers.QuestionsAnswer),
    "POST /v1/outsourced/{exchange}/work": ("take_work", None),
    "PUT /v1/outsourced/{exchange}/questions/{row}/answer": ("answer_row", None),
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
    """The application, whose document has the types that examples show."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, generate_unique_id_function=lambda route: route.name)
        self.separate_input_output_schemas = False  # a member that may be left out is so in answers as well
        self.state.shown = {}  # name -> type of answers that an example shows

    def openapi(self) -> dict[str, Any]:
        """The document."""
        found = super().openapi()
        found["components"]["schemas"] |= self.state.shown
        return found


def _type_of(example: Any) -> dict[str, Any]:
    """Return the JSON Schema of answers that have the members of an example."""
    if isinstance(example, dict):
        members = {name: _type_of(value) for name, value in example.items()}
        return {"type": "object", "properties": members, "required": list(members)}
    if isinstance(example, list):
        return {"type": "array", "items": _type_of(example[0]) if example else {}}
    if example is None:  # of any type, or null
        return {}
    kinds = {str: "string", bool: "boolean", int: "integer", float: "number"}
    return {"type": kinds[type(example)]}


def operations_in(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the operations of a document in its order, each with the examples that it shows, as JSON."""
    found, schemas = [], document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, one in methods.items():
            examples = {}
            for body in one.get("requestBody", {}).get("content", {}).values():
                named = body["schema"].get("$ref", "").rpartition("/")[2]
                examples["Request"] = body["example"] if not named else schemas[named]["examples"][0]
            for status, answer in one["responses"].items():
                for content in answer.get("content", {}).values():
                    if "example" in content and int(status) < 300:
                        examples["Answer"] = content["example"]
            shown = {title: _indented(example) for title, example in examples.items()}
            found.append({"method": method.upper(), "path": path, "operation": one, "examples": shown})
    return found


def _indented(example: Any) -> str:
    return example if isinstance(example, str) else json.dumps(example, indent=2)


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
        if answer is not None:
            said["model"] = answer
        found: dict[int | str, dict[str, Any]] = {status: said}
        found |= {int(name[1:]): {"description": text} for name, text in others.items()}
        slugs = (*_READ_WHOLE, *(_KNOWN if needs_token else ()), *problems)
        for code in sorted({PROBLEM_TYPES[slug][0] for slug in slugs}):
            ours = [slug for slug in slugs if PROBLEM_TYPES[slug][0] == code]
            shown = {slug: {"value": Problem(slug).to_json()} for slug in ours}
            content = {"schema": {"$ref": "#/components/schemas/ProblemAnswer"}, "examples": shown}
            found[code] = {
                "description": "; ".join(dict.fromkeys(PROBLEM_TYPES[slug][1] for slug in ours)),
                "content": {"application/problem+json": content},
            }
        told: dict[str, Any] = {"summary": summary, "responses": found, **(options or {})}
        told |= {"methods": [method], "tags": [self._tag], "status_code": status, "operation_id": name}

        def add(call: _Call) -> _Call:
            if answer is None and isinstance(example, dict):
                shown = "".join(map(str.capitalize, (name or call.__name__).split("_"))) + "Answer"
                self._app.state.shown[shown] = {"title": shown, **_type_of(example)}
                said["content"][media]["schema"] = {"$ref": f"#/components/schemas/{shown}"}
            return self._app.api_route(path, response_model=None, **told)(call)

        return add

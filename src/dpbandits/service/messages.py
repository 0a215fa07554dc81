"""Bodies of requests. Unknown members are refused, and errors never quote a value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from dpbandits.local import Spec
from dpbandits.privacy.definitions import LocalDP
from dpbandits.service.problems import Problem
from dpbandits.tables import Range, Schema

__all__ = [
    "IN_PATH",
    "MEMBERS",
    "ActionsRequest",
    "AnswerRequest",
    "AnswersRequest",
    "ChangeRequest",
    "CheckRequest",
    "DecisionRequest",
    "DecisionsRequest",
    "ExchangeRequest",
    "FlagsRequest",
    "Misfit",
    "PolicyRequest",
    "PopulationRequest",
    "PromiseRequest",
    "QuestionsRequest",
    "ReleaseRequest",
    "RewardRequest",
    "RewardsRequest",
    "RotateRequest",
    "RowPromiseRequest",
    "SettingsRequest",
    "SurveyRequest",
    "TokenRequest",
    "WorkRequest",
    "not_fitting",
]

Name = Annotated[
    str, Field(min_length=1, max_length=64, pattern="^[a-z0-9][a-z0-9._-]*$", examples=["offers"])
]
IN_PATH = "^[!-~]+$"
"""Pattern of a name or an id in a path: printable ASCII, which every store can hold."""
Line = Annotated[str, Field(max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
"""Line of text without control characters."""
Label = Annotated[str, Field(max_length=500)] | bool | int | Annotated[float, Field(allow_inf_nan=False)]
Number = Annotated[float, Field(allow_inf_nan=False)]
Whole = Annotated[int, Field(ge=1, le=1 << 48)]
Seconds = Annotated[float, Field(gt=0, le=10 * 366 * 86400)]


_SPEC = Spec(contexts=Schema(age=Range(18.0, 90.0)), arms=["mail", "call"], privacy=LocalDP(epsilon=1.0))


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True, strict=True)


@dataclass(frozen=True, eq=False)
class Misfit:
    """Invalid member of a batch: the places and types of its errors, without values."""

    places: list[Any]


def _by_itself(value: object, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return read(value)
    except ValidationError as error:
        return Misfit(error.errors(include_url=False, include_context=False, include_input=False))


T = TypeVar("T")
ByItself = Annotated[T, WrapValidator(_by_itself)]
"""Type of a member of a batch. An invalid member becomes a `Misfit` and does not affect the others."""


def _shown(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


class PromiseRequest(_Strict):
    """Privacy definition, such as `JointDP(epsilon=1, delta=1e-6)`."""

    kind: Literal["JointDP", "LocalDP", "RowDP"] = "JointDP"
    epsilon: Number
    delta: Number | None = None
    rounds_per_user: Whole | None = None
    user_ids: bool | None = None
    distance: Number | None = None
    rows_per_user: Whole | None = None


class PopulationRequest(_Strict):
    """Group of users with one privacy budget."""

    name: Name
    privacy: PromiseRequest

    model_config = _shown({"name": "customers", "privacy": {"epsilon": 2, "delta": 1e-6}})


class SettingsRequest(_Strict):
    """Settings of a policy, which are not part of its guarantee."""

    mode: Literal["live", "shadow"] = "live"
    fallback: Label | None = None
    default_reward: Number | None = None
    wait_seconds: Seconds | None = None


class TuningRequest(_Strict):
    """Optional settings of `GPTuning`."""

    release: Literal["features", "cells", "marginals"] | None = None
    blocks: Annotated[list[Whole], Field(max_length=10_000)] | None = None
    reporting_delay: Annotated[int, Field(ge=0, le=1 << 48)] | None = None
    lag: Annotated[int, Field(ge=0, le=1 << 48)] | None = None
    n_features: Annotated[int, Field(ge=1, le=500)] | None = None
    thompson_scale: Number | None = None
    decision_sets: Literal["private", "public"] | None = None
    forget: Whole | None = None
    census: bool | None = None
    longest_block: Whole | None = None


class WarmStartRequest(_Strict):
    """Published function from GET .../policy from which a new policy begins.

    `disjoint` states that no user of its data is a user here; the service cannot check this, and the
    statement lists it as an assumption.
    """

    function: dict[str, Any]
    disjoint: bool


class RangeRequest(_Strict):
    """Public range of a metric. With `clip` a value outside counts as the nearer end, else as the default."""

    low: Number
    high: Number
    clip: bool = False


class ProductsRequest(_Strict):
    """Arms with public features: `columns` describes the features, and `rows` has an object for every arm.
    The field `name` of a row is the label of the arm.
    """

    name: str = "name"
    columns: Annotated[list[dict[str, Any]], Field(min_length=1)]
    rows: Annotated[list[dict[str, Any]], Field(min_length=2, max_length=4096)]


class ActionsRequest(_Strict):
    """Numbers to choose from: one to three columns `Range` (with `steps`), `Ordered` or `Categories`; a named
    `value` of the outcome, such as {"type": "Revenue", "price": "price", "cost": 2}; and a `shape`, such as
    {"price": "decreasing"}. `explore` has the low and high end of the values among which decisions begin,
    such as {"price": [8, 12]}. `step` has the least and the most by which an end moves in a release, such as
    {"price": [0, 2]}. Named `bounds` are {"type": "Within", "action": "price", "low": 5, "high": 20}.
    """

    columns: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=3)]
    value: dict[str, Any] | None = None
    shape: dict[str, str] | None = None
    bounds: dict[str, Any] | None = None
    explore: dict[str, Annotated[list[Number], Field(min_length=2, max_length=2)]] | None = None
    step: dict[str, Annotated[list[Number], Field(min_length=2, max_length=2)]] | None = None


class ControlRequest(_Strict):
    """Control group: the label of an arm or "uniform", or {"function": ...} with a published function; and
    the share of users in the group.
    """

    arm: Label | dict[str, dict[str, Any]]
    share: Number | None = None


class StopRequest(_Strict):
    """Rule on released looks: `harm` names a metric that may exceed the control's by at most `above`."""

    harm: str
    above: Number | None = None
    then: Literal["control"] | None = None


class ReadoutRequest(_Strict):
    """Private comparison with a control group. `metrics` has "bool" or {"low": ..., "high": ...} by name, and
    `minimum` pairs of an arm and its least share. `segments` is the name of a column of categories, or
    {"age": [30, 50]} with the inner edges of a range.
    """

    control: ControlRequest
    metrics: Annotated[dict[str, Literal["bool"] | RangeRequest], Field(max_length=16)] | None = None
    weights: dict[str, Number] | None = None
    looks: Whole | None = None
    share: Number | None = None
    minimum: Annotated[list[tuple[Label, Number]], Field(max_length=10_000)] | None = None
    stop: StopRequest | None = None
    segments: str | dict[str, Annotated[list[Number], Field(max_length=64)]] | None = None
    segments_share: Number | None = None


class PolicyRequest(_Strict):
    """`GPBandit` with contexts and arms or actions, or with a domain and a kernel.

    The request also has its guarantee and its population.
    """

    name: Name
    population: Name
    contexts: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)] | None = None
    arms: Annotated[list[Label], Field(min_length=1, max_length=10_000)] | None = None
    products: ProductsRequest | None = None
    actions: ActionsRequest | None = None
    domain: dict[str, Any] | None = None
    kernel: dict[str, Any] | None = None
    reward_range: Annotated[list[Number], Field(min_length=2, max_length=2)]
    horizon: Annotated[int, Field(ge=1, le=1 << 48)] | None
    privacy: PromiseRequest
    tuning: TuningRequest | None = None
    clip: bool | None = None
    seed: Annotated[int, Field(ge=0, le=1 << 62)] | None = None
    warm_start: WarmStartRequest | None = None
    readout: ReadoutRequest | None = None
    settings: SettingsRequest = SettingsRequest()

    model_config = _shown(
        {
            "name": "offers",
            "population": "customers",
            "contexts": [
                {"name": "age", "type": "Range", "low": 18, "high": 90},
                {"name": "region", "type": "Categories", "values": ["north", "south", "west"]},
            ],
            "arms": ["mail", "call", "nothing"],
            "reward_range": [0, 1],
            "horizon": 50000,
            "privacy": {"epsilon": 1, "delta": 1e-6},
            "settings": {"fallback": "nothing", "wait_seconds": 86400, "default_reward": 0},
        }
    )


class SurveyRequest(_Strict):
    """Local policy: a `local.Spec` or `ReadoutSpec` in the form of `to_json`, and its population."""

    name: Name
    population: Name
    spec: dict[str, Any]

    model_config = _shown({"name": "tips", "population": "people", "spec": _SPEC.to_config()})


class RowPromiseRequest(_Strict):
    """Privacy definition for the place of one row, such as `RowDP(epsilon=1, distance=1)`."""

    epsilon: Number
    delta: Number | None = None
    distance: Number
    rows_per_user: Whole | None = None


class AnswersRequest(_Strict):
    """Noise on a curator's answers, such as `AnswerLaplace(epsilon=1, distance=0.5, low=0, high=1)`."""

    epsilon: Number
    distance: Number
    low: Number
    high: Number


class ExchangeRequest(_Strict):
    """Outsourced table with the guarantees of its release and of all answers. Without `answers` the answers
    are exact, and no guarantee covers them. `cap` is the largest number of answered rows.
    """

    name: Name
    population: Name
    privacy: RowPromiseRequest
    answers: AnswersRequest | None = None
    cap: Whole

    model_config = _shown(
        {
            "name": "doses",
            "population": "patients",
            "privacy": {"epsilon": 1, "distance": 1},
            "answers": {"epsilon": 1, "distance": 0.5, "low": 0, "high": 1},
            "cap": 4,
        }
    )


class ReleaseRequest(_Strict):
    """Files that `PublishedRows.save` wrote: release.json, and inputs.npy in Base64 or its address."""

    description: dict[str, Any]
    inputs: str | None = None
    at: Annotated[str, Field(max_length=500, pattern="^https://[!-~]+$")] | None = None

    model_config = _shown(
        {
            "description": {"kind": "dpbandits.row-release", "schema_version": 1, "rows": 4},
            "inputs": "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY4JywgLi4u",
        }
    )


class QuestionsRequest(_Strict):
    """Numbers of the rows of a release that a modeler asks for."""

    rows: Annotated[list[Annotated[int, Field(ge=0, le=1 << 48)]], Field(min_length=1, max_length=1000)]

    model_config = _shown({"rows": [2, 0]})


class WorkRequest(_Strict):
    """Name of one of the curator's workers, and the largest number of rows for it."""

    worker: Annotated[str, Field(min_length=1, max_length=200)]
    most: Annotated[int, Field(ge=1, le=1000)] = 1

    model_config = _shown({"worker": "ward-1", "most": 10})


class AnswerRequest(_Strict):
    """Answer of a row; null for no answer, which is possible for exact answers only."""

    answer: Number | None

    model_config = _shown({"answer": 0.75})


class ChangeRequest(_Strict):
    """Changes of a policy's status or settings."""

    status: Literal["active", "paused", "retired"] | None = None
    settings: SettingsRequest | None = None

    model_config = _shown({"status": "paused"})


class NewArmRequest(_Strict):
    """New arm of a policy, as `GPBandit.add_arm` takes it."""

    arm: Label
    like: Label | None = None
    features: dict[str, Label] | None = None
    minimum: Number | None = None

    model_config = _shown({"arm": "chat", "like": "call", "minimum": 0.1})


class RetiredArmRequest(_Strict):
    """Arm of a policy that is no longer offered."""

    arm: Label

    model_config = _shown({"arm": "mail"})


class DecisionRequest(_Strict):
    """Request for a decision, with an idempotency key `id` of the caller."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    user: Annotated[str, Field(min_length=1, max_length=500)] | int | None = None
    context: dict[str, Any] | None = None
    candidates: list[Any] | None = None
    available: list[Any] | None = None
    arm: Label | None = None
    deferred: bool = False

    model_config = _shown({"id": "visit-1", "user": "u-17", "context": {"age": 44, "region": "west"}})


class DecisionsRequest(_Strict):
    """Requests for several decisions, each answered or refused by itself."""

    decisions: Annotated[list[ByItself[DecisionRequest]], Field(min_length=1, max_length=1000)]

    model_config = _shown(
        {"decisions": [{"id": "visit-2", "user": "u-18", "context": {"age": 61, "region": "south"}}]}
    )


class CheckRequest(_Strict):
    """Contexts to validate without taking a round."""

    contexts: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)]

    model_config = _shown({"contexts": [{"age": 44, "region": "west"}, {"age": "unknown"}]})


class FlagsRequest(BaseModel):
    """OFREP's context: `targetingKey` is the user, and the other members are columns."""

    model_config = _shown({"context": {"targetingKey": "u-17", "age": 44, "region": "west"}})
    model_config["hide_input_in_errors"] = True

    context: dict[str, Any] | None = None


class RewardRequest(_Strict):
    """Reward of a decision, in the unit of the policy's reward_range; true and false are 1 and 0.

    `metrics` has values of metrics of the policy's readout by name, such as {"complaint": false}. A value
    that is left out, or is no number of the metric's range, counts as the public default.
    """

    reward: Number | bool
    metrics: Annotated[dict[str, Any], Field(max_length=16)] | None = None

    model_config = _shown({"reward": 1})

    @property
    def told(self) -> dict[str, float]:
        """Metrics as numbers: infinity for a value that is no number, which counts as the default."""
        return {name: _number(value) for name, value in (self.metrics or {}).items()}


def _number(value: Any) -> float:
    try:
        return float(value) if isinstance(value, bool | int | float) else math.inf
    except OverflowError:
        return math.inf


class _Told(RewardRequest):
    decision: Annotated[str, Field(max_length=100)]


class RewardsRequest(_Strict):
    """Rewards of several decisions, each counted or refused by itself."""

    rewards: Annotated[list[ByItself[_Told]], Field(min_length=1, max_length=1000)]

    model_config = _shown({"rewards": [{"decision": "d1-5f0c2a9d6b7e4c1f8a3b2d4e6f708192", "reward": 1}]})


Names = Annotated[list[Name], Field(min_length=1, max_length=1000)]


class TokenRequest(_Strict):
    """New token with these scopes.

    The lists `policies` (also local ones and outsourced tables) and `populations` limit it: a request must
    be within each list that is given.
    """

    label: Line
    scopes: Annotated[
        list[Literal["admin", "decide", "reward", "report", "curate", "model", "read"]],
        Field(min_length=1, max_length=7),
    ]
    seconds: Seconds | None = None
    policies: Names | None = None
    populations: Names | None = None

    model_config = _shown({"label": "the shop", "scopes": ["decide", "reward"], "policies": ["offers"]})


class RotateRequest(_Strict):
    """Seconds until the old text of a token ends, and new lifetime of the token, which is unchanged by
    default.
    """

    overlap_seconds: Annotated[float, Field(ge=0, le=366 * 86400)] = 3600.0
    seconds: Seconds | None = None

    model_config = _shown({"overlap_seconds": 86400})


MEMBERS = frozenset(name for kind in _Strict.__subclasses__() for name in kind.model_fields) | frozenset(
    _Told.model_fields
)
"""Names of all members of messages. An error about a body may contain these names."""


_SAID = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "json_invalid": "is no JSON",
    "list_type": "is not a list",
    "dict_type": "is not an object",
    "model_type": "is not an object",
    "model_attributes_type": "is not an object",
    "string_type": "is not a text",
    "float_type": "is not a number",
    "float_parsing": "is not a number",
    "int_type": "is not a whole number",
    "int_parsing": "is not a whole number",
    "int_from_float": "is not a whole number",
    "bool_type": "is not true or false",
    "bool_parsing": "is not true or false",
}
"""Messages for errors in a body, by type of error. The message for all other types is "does not fit"."""


def not_fitting(found: Sequence[Any]) -> Problem:
    """Return the problem for an invalid message.

    It has the places and kinds of the errors, in public words.
    """
    said: dict[str, dict[str, None]] = {}
    for one in found[:10]:  # a number or a boolean has an error for each of them
        said.setdefault(_named(one["loc"], one["type"]), {})[_SAID.get(one["type"], "does not fit")] = None
    places = [f"{place} {' and '.join(errors)}" for place, errors in said.items()]
    slug = "malformed" if any(one["type"] == "json_invalid" for one in found) else "invalid"
    return Problem(slug, f"{'; '.join(places)}.")


_PLACES = MEMBERS | {"body", "path", "query", "header"}


def _named(place: tuple[Any, ...], kind: str) -> str:
    """Return the place of an error in a message, by names of members and positions in lists.

    A name that the caller chose becomes "member". Names of types at the end, and the byte of an error in
    JSON, are left out. `kind` is the type of the error.
    """
    at = place[:1] if kind == "json_invalid" else place or ("member",)
    parts = [str(one) if isinstance(one, int) else one if one in _PLACES else "member" for one in at]
    while kind != "extra_forbidden" and len(parts) > 1 and parts[-1] == "member":
        parts.pop()
    return ".".join(parts)

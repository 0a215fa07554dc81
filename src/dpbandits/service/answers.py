"""Bodies of answers, for the OpenAPI document and whoever generates a client from it.

The routes write these answers themselves: no answer is read into a model. Tests compare the answers with the
models (`tests/service/test_schema.py`). A member that may be left out is never null.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from dpbandits.service.messages import PolicyRequest
from dpbandits.service.problems import PROBLEM_TYPES
from dpbandits.service.readiness import WORDS

__all__ = [
    "ChecksAnswer",
    "DecisionAnswer",
    "DecisionsAnswer",
    "ExchangeAnswer",
    "ExchangePreviewAnswer",
    "ExchangesAnswer",
    "OutcomeAnswer",
    "OutcomesAnswer",
    "PoliciesAnswer",
    "PolicyAnswer",
    "PolicyPreviewAnswer",
    "PopulationAnswer",
    "PopulationsAnswer",
    "QuestionsAnswer",
    "ReleaseAnswer",
    "RotatedAnswer",
    "StatusAnswer",
    "TokensAnswer",
]

LEFT_OUT: Any = Field(default_factory=lambda: None)
"""Default of a member that may be left out; the document shows no default of it."""

Label = str | bool | int | float
Seconds = Annotated[float, Field(description="Seconds since 1970.")]
Decimal = Annotated[str, Field(description="An exact decimal.")]


class Fault(BaseModel):
    """A column of a context, and which of its rules the cell breaks; never a value."""

    column: str
    rule: str


class ProblemAnswer(BaseModel):
    """RFC 9457: fixed words and public numbers, nothing of what was sent; `id` if a round was taken."""

    type: Literal[tuple(f"urn:dpbandits:{slug}" for slug in PROBLEM_TYPES)]  # type: ignore[valid-type]
    title: str
    status: int
    detail: str = LEFT_OUT
    id: str = LEFT_OUT
    reason: Literal["context", "available", "candidates"] = LEFT_OUT
    faults: list[Fault] = LEFT_OUT
    reasons: list[Literal[WORDS]] = LEFT_OUT  # type: ignore[valid-type]


class DecisionAnswer(BaseModel):
    """What was decided. `arm` is there if the policy has arms; else `index` and `action`."""

    id: str
    release: int = Field(description="How many releases it rests on.")
    fallback: bool = Field(description="Whether the policy could not answer.")
    propensity: float | None = Field(description="Probability of the arm, where it is known.")
    arm: Label = LEFT_OUT
    index: int = LEFT_OUT
    action: list[float] = LEFT_OUT
    expires_at: Seconds = LEFT_OUT
    would_choose: Label = LEFT_OUT
    reason: Literal["context", "available", "user", "user-has-had-all", "no-rounds-left"] = LEFT_OUT
    faults: list[Fault] = LEFT_OUT


class DecisionResult(BaseModel):
    """A decision, or a problem: one of the two."""

    decision: DecisionAnswer = LEFT_OUT
    problem: ProblemAnswer = LEFT_OUT


class DecisionsAnswer(BaseModel):
    """Results in the order of the request."""

    results: list[DecisionResult]


class Check(BaseModel):
    """What the policy would make of a context: it `fits` if it has no `faults`."""

    fits: bool
    faults: list[Fault]
    replaced: list[Fault] = Field(description="Cells for which a declared value is used.")
    ignored: int = Field(description="How many members are no columns.")


class ChecksAnswer(BaseModel):
    """Results in the order of the request."""

    results: list[Check]


class StatusAnswer(BaseModel):
    """What became of a decision."""

    status: (
        Literal["deferred", "pending", "counted", "defaulted", "late", "abandoned", "expired", "lost"]
        | (Literal["refused", "fallback"])
    )


class OutcomeAnswer(BaseModel):
    """What became of a reward; `late` counts nothing, and before a `duplicate` another was told."""

    outcome: Literal["counted", "late", "duplicate"]


class OutcomeResult(BaseModel):
    """An outcome, or a problem: one of the two."""

    outcome: Literal["counted", "late", "duplicate"] = LEFT_OUT
    problem: ProblemAnswer = LEFT_OUT


class OutcomesAnswer(BaseModel):
    """Results in the order of the request."""

    results: list[OutcomeResult]


class PolicyAnswer(PolicyRequest):
    """A policy as it was asked for, and how far it is."""

    status: Literal["active", "paused", "retired"]
    release: int
    rounds_released: int
    made_at: Seconds


class PoliciesAnswer(BaseModel):
    """All policies, by name."""

    policies: list[PolicyAnswer]


class Promised(BaseModel):
    """What an account promises in all."""

    epsilon: Decimal
    delta: Decimal


class Part(BaseModel):
    """A number that an account counts."""

    name: str
    spent: Decimal
    left: Decimal
    limit: Decimal


class BalanceAnswer(BaseModel):
    """What an account has spent and has left."""

    accountant: str
    promised: Promised
    unit: str
    neighbours: str
    simulated: bool
    parts: list[Part]


class PopulationAnswer(BalanceAnswer):
    """A population, and its account."""

    name: str


class PopulationsAnswer(BaseModel):
    """All populations, by name."""

    populations: list[PopulationAnswer]


class CostAnswer(BaseModel):
    """What would be charged."""

    epsilon: Decimal
    delta: Decimal
    rho: Decimal | None
    mu: Decimal | None
    unit: str
    neighbours: str


class Change(BaseModel):
    """A population before a charge and after it; null where it cannot pay."""

    name: str
    before: BalanceAnswer
    after: BalanceAnswer | None


class ExchangePreviewAnswer(BaseModel):
    """What it would cost, and whether the population can pay; else `why_not`."""

    fits: bool
    why_not: str
    cost: CostAnswer
    population: Change


class PolicyPreviewAnswer(ExchangePreviewAnswer):
    """The same, with what the policy would promise."""

    releases_after_rounds: list[int]
    statement: str
    warnings: list[str]


class ExchangeAnswer(BaseModel):
    """An exchange; null of its release until that is there."""

    name: str
    population: str
    status: str
    privacy: dict[str, Any]
    answers: dict[str, Any] | None
    cap: int
    made_at: Seconds
    rows: int | None
    release: str | None
    statement: str | None


class ExchangesAnswer(BaseModel):
    """All exchanges, by name."""

    exchanges: list[ExchangeAnswer]


class Listed(BaseModel):
    """A token, without its text; null of limits and ends that it has not."""

    id: str
    label: str
    scopes: list[str]
    policies: list[str] | None
    populations: list[str] | None
    made_at: Seconds
    ends_at: Seconds | None
    old_text_ends_at: Seconds | None


class TokensAnswer(BaseModel):
    """Tokens, the latest first."""

    tokens: list[Listed]


class RotatedAnswer(BaseModel):
    """A token's new text."""

    id: str
    token: str
    ends_at: Seconds | None
    old_text_ends_at: Seconds | None


class ReleaseAnswer(BaseModel):
    """What the curator published: release.json, and inputs.npy in Base64 or its address."""

    description: dict[str, Any]
    inputs: str | None
    at: str | None


class Question(BaseModel):
    """A row that was asked for."""

    row: int
    status: str
    answer: float | None


class QuestionsAnswer(BaseModel):
    """Questions in the order in which they were asked."""

    questions: list[Question]

"""Types and examples of answers in the OpenAPI document, from which clients are generated.

The routes write these answers themselves. Tests compare them with the types here
(`tests/service/test_schema.py`).
"""

from typing import Any, Literal, NamedTuple, get_args, get_origin

from dpbandits.service.messages import PolicyRequest
from dpbandits.service.problems import PROBLEM_TYPES

__all__ = ["TYPES", "Named", "Of", "example_of", "type_of"]


class Named(NamedTuple):
    """Reference to another type of `TYPES` by its name."""

    name: str


class Of(NamedTuple):
    """An example value, together with its kind; see `TYPES`."""

    example: Any
    kind: Any


_LABEL = (str, bool, int, float)
_SLUGS = tuple(f"urn:dpbandits:{slug}" for slug in PROBLEM_TYPES)
_OUTCOME = Literal["counted", "late", "duplicate"]
_OPEN_OR_TOLD = Literal["deferred", "pending", "counted", "defaulted", "late"]
_STATUS = Literal[_OPEN_OR_TOLD, "abandoned", "expired", "lost", "refused", "fallback"]
_SHOWN: Any = PolicyRequest.model_config.get("json_schema_extra")
_ASKED = _SHOWN["examples"][0]
_DECISION, _TOKEN = "d1-5f0c2a9d6b7e4c1f8a3b2d4e6f708192", "5f0c2a9d6b7e"
_NOW, _LATER = 1767225600.0, 1767312000.0
_UNIT = {
    "unit": "one user: everything the user contributes to what is charged here",
    "neighbours": "two histories are neighbours when one user's whole contribution ...",
}
_BALANCE = {
    "accountant": "zcdp",
    "promised": {"epsilon": "2", "delta": "0.000001"},
    "spent_as_epsilon": "0.93",
    **_UNIT,
    "simulated": False,
    "parts": [Named("Part")],
}
_ENDS = Of([0.02, 0.1], [(float, None)])
_PREVIEW = {"fits": True, "why_not": "", "cost": Named("Cost"), "population": Named("Change")}
_TOKEN_ENDS = {"ends_at": Of(None, (float, None)), "old_text_ends_at": Of(_LATER, (float, None))}

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "Fault": (
        "A column, and which of its rules a cell breaks; never a value.",
        {"column": "age", "rule": "is not a number"},
    ),
    "Problem": (
        "RFC 9457: fixed words and public numbers, nothing of what was sent; `id` if a round was taken.",
        {
            "type": Literal[_SLUGS],
            "title": str,
            "status": int,
            "detail?": str,
            "id?": str,
            "reason?": Literal["context", "available", "candidates"],
            "faults?": [Named("Fault")],
        },
    ),
    "Decision": (
        "`release`: how many releases it rests on. `arm` if the policy has arms; with actions an `action` "
        "that is a number, or an object of several columns. Else `index` and `action`. "
        "`fallback`: whether the policy could not answer; then the `reason`. Times are seconds since 1970. "
        "`group` of the user, if the policy has a readout.",
        {
            "id": _DECISION,
            "release": 0,
            "fallback": False,
            "propensity": Of(0.5, (float, None)),
            "arm?": Of("call", _LABEL),
            "index?": int,
            "action?": ([float], *_LABEL, dict),
            "expires_at?": Of(_LATER, float),
            "would_choose?": (*_LABEL, dict),
            "reason?": Literal["context", "available", "user", "user-has-had-all", "no-rounds-left"],
            "faults?": [Named("Fault")],
            "group?": Literal["policy", "control"],
        },
    ),
    "DecisionResult": (
        "One of the two.",
        {"decision?": Of(Named("Decision"), Named("Decision")), "problem?": Named("Problem")},
    ),
    "Decisions": ("In the order of the request.", {"results": [Named("DecisionResult")]}),
    "Check": (
        "A context `fits` if it has no faults. A declared value is used for what is `replaced`; `ignored` is "
        "the number of members that are no columns.",
        {"fits": False, "faults": [Named("Fault")], "replaced": Of([], [Named("Fault")]), "ignored": 0},
    ),
    "Checks": ("In the order of the request.", {"results": [Named("Check")]}),
    "Status": ("What became of a decision.", {"status": Of("pending", _STATUS)}),
    "Outcome": (
        "`late` counts nothing; before a `duplicate` another was told.",
        {"outcome": Of("counted", _OUTCOME)},
    ),
    "OutcomeResult": ("One of the two.", {"outcome?": Of("counted", _OUTCOME), "problem?": Named("Problem")}),
    "Outcomes": ("In the order of the request.", {"results": [Named("OutcomeResult")]}),
    "Policy": (
        "A policy as it was asked for, and how far it is.",
        {
            "name": "offers",
            "population": "customers",
            "status": Of("active", Literal["active", "paused", "retired"]),
            "horizon": Of(_ASKED["horizon"], (int, None)),
            "privacy": Of(_ASKED["privacy"], Named("PromiseRequest")),
            "reward_range": Of(_ASKED["reward_range"], [float]),
            "contexts?": Of(_ASKED["contexts"], [dict]),
            "arms?": Of(_ASKED["arms"], [_LABEL]),
            "products?": Named("ProductsRequest"),
            "actions?": Named("ActionsRequest"),
            "domain?": dict,
            "kernel?": dict,
            "tuning?": Named("TuningRequest"),
            "clip?": bool,
            "seed?": int,
            "warm_start?": {"disjoint": bool, "sha256": str},
            "readout?": Named("ReadoutRequest"),
            "settings": Of(_ASKED["settings"], Named("SettingsRequest")),
            "release": 3,
            "rounds_released": 6250,
            "made_at": _NOW,
        },
    ),
    "ArmChange": (
        "`rounds` had been asked at the announcement; it is in effect from `release` on. `ends` are the "
        "numbers of rounds at which blocks end from then on, if it planned them anew.",
        {
            "event": Of("arm added", Literal["arm added", "arm retired"]),
            "arm": Of("chat", _LABEL),
            "release": 4,
            "rounds": 7300,
            "at": _NOW,
            "like?": Of("call", _LABEL),
            "features?": dict,
            "minimum?": 0.1,
            "ends?": [8000, 9000],
        },
    ),
    "Arms": (
        "Arms that the latest release offers, and all changes in the order of their announcement.",
        {"arms": Of(["mail", "call", "chat"], [_LABEL]), "changes": [Named("ArmChange")]},
    ),
    "ReadMetric": (
        "Means of both groups in units of the metric, and their difference, policy minus control. "
        "`interval` holds for a comparison that is read once, and `always` at all looks together.",
        {
            "name": "reward",
            "control": 0.2,
            "control_interval": _ENDS,
            "policy": 0.26,
            "policy_interval": _ENDS,
            "difference": 0.06,
            "interval": _ENDS,
            "always": _ENDS,
            "p_value": 0.004,
            "ratio": Of(1.3, (float, None)),
            "ratio_interval": _ENDS,
            "harm": False,
        },
    ),
    "Readings": (
        "Estimates after some looks. `comparable` is false if the groups answer unequally often.",
        {
            "metrics": [Named("ReadMetric")],
            "looks": 2,
            "planned_looks": Of(4, (int, None)),
            "confidence": 0.95,
            "rounds": Of([1000, 9000], [int]),
            "answered": Of([0.81, 0.8], [(float, None)]),
            "sample_ratio": Of(0.4, (float, None)),
            "comparable": True,
        },
    ),
    "ReadSegment": (
        "Difference of the rewards in one segment. All segments' intervals hold together. `enough` is false "
        "if it has too few rounds to compare.",
        {
            "name": "region north",
            "enough": True,
            "control": Of(0.2, (float, None)),
            "policy": Of(0.26, (float, None)),
            "difference": Of(0.06, (float, None)),
            "interval": Of([0.01, 0.11], [float]),
            "p_value": 0.03,
        },
    ),
    "ReadoutResult": (
        "`GPBandit.readout()` as JSON: `stopped` is the look at which the rule has stopped, or null. "
        "`segments` is empty before the last look.",
        {
            "readings": Named("Readings"),
            "sentence": "The policy earns more than the control ...",
            "stopped": Of(None, (int, None)),
            "learning": Of(_ASKED["privacy"], dict),
            "sums": Of([4.1, 1.2], [float]),
            "segments": [Named("ReadSegment")],
        },
    ),
    "Readout": (
        "Released `looks` of a policy's readout. Look k is due after `ends[k - 1]` rounds and the delay of "
        "rewards; no look follows if it is `over`. `result` is null until a look has rounds of both groups.",
        {
            "looks": 2,
            "planned_looks": 4,
            "ends": [2500, 5000, 7500, 10000],
            "over": False,
            "result": Of(Named("ReadoutResult"), (Named("ReadoutResult"), None)),
        },
    ),
    "LocalReadout": (
        "`local.Server.readout()` as JSON. `reports` has the numbers of reports of the control and of the "
        "policy group. `comparable` is false if they do not fit the control's share.",
        {
            "reward": Named("ReadMetric"),
            "sentence": "The policy earns more than the control ...",
            "reports": Of([5020, 4980], [int]),
            "share": 0.5,
            "sample_ratio": 0.7,
            "comparable": True,
            "confidence": 0.95,
            "epsilon": 1.0,
        },
    ),
    "Flag": (
        "What OFREP calls an evaluation; errors in place of a value if the context cannot be read.",
        {
            "key": "offers",
            "reason?": Of("SPLIT", Literal["SPLIT", "STATIC", "DEFAULT"]),
            "variant?": Of("call", str),
            "value?": Of("call", (*_LABEL, dict)),
            "metadata?": Of({"release": 3}, dict),
            "errorCode?": str,
            "errorDetails?": str,
        },
    ),
    "Flags": ("By name.", {"flags": [Named("Flag")]}),
    "FlagProblem": (
        "OFREP's form of a problem; the `key` if it is about one flag.",
        {"key?": str, "errorCode": str, "errorDetails": str},
    ),
    "Policies": ("By name.", {"policies": [Named("Policy")]}),
    "Part": (
        "A number that an account counts, as exact decimals.",
        {"name": "rho", "spent": "0.017", "left": "0.052", "limit": "0.069"},
    ),
    "Balance": ("What an account has spent and has left.", _BALANCE),
    "Population": ("A population, and its account.", {"name": "customers", **_BALANCE}),
    "Populations": ("By name.", {"populations": [Named("Population")]}),
    "Cost": (
        "What would be charged, as exact decimals.",
        {
            "epsilon": "1.0",
            "delta": "0.000001",
            "rho": Of("0.017", (str, None)),
            "mu": Of("0.18", (str, None)),
            **_UNIT,
        },
    ),
    "Change": (
        "Before a charge and after it; null where the population cannot pay.",
        {
            "name": "customers",
            "before": Named("Balance"),
            "after": Of(Named("Balance"), (Named("Balance"), None)),
        },
    ),
    "Preview": ("What it would cost, and whether the population can pay; else `why_not`.", _PREVIEW),
    "PolicyPreview": (
        "The same, with what the policy would promise.",
        {
            **_PREVIEW,
            "releases_after_rounds": [1250, 3000, 6500],
            "statement": "PRIVACY STATEMENT\n\nPromise: Joint differential privacy, epsilon = 1, ...",
            "warnings": Of([], [str]),
        },
    ),
    "ListedToken": (
        "A token without its text; null of limits and ends that it has not.",
        {
            "id": _TOKEN,
            "label": "the shop",
            "scopes": ["decide", "reward"],
            "policies": Of(["offers"], ([str], None)),
            "populations": Of(None, ([str], None)),
            "made_at": _NOW,
            **_TOKEN_ENDS,
        },
    ),
    "ListedTokens": ("The latest first.", {"tokens": [Named("ListedToken")]}),
    "RotatedToken": (
        "A token's new text.",
        {"id": _TOKEN, "token": f"dpb_{_TOKEN}_shown-here-and-nowhere-else", **_TOKEN_ENDS},
    ),
    "Exchange": (
        "An exchange; null of its release until that is there.",
        {
            "name": "doses",
            "population": "patients",
            "status": "awaited",
            "privacy": Of({"epsilon": 1.0, "distance": 1.0}, dict),
            "answers": Of({"epsilon": 1.0, "distance": 0.5, "low": 0.0, "high": 1.0}, (dict, None)),
            "cap": 4,
            "made_at": _NOW,
            "rows": Of(None, (int, None)),
            "release": Of(None, (str, None)),
            "statement": Of(None, (str, None)),
        },
    ),
    "Exchanges": ("By name.", {"exchanges": [Named("Exchange")]}),
    "Release": (
        "What the curator published: release.json, and inputs.npy in Base64 or its address.",
        {
            "description": Of({"kind": "dpbandits.row-release", "schema_version": 1, "rows": 4}, dict),
            "inputs": Of("k05VTVBZAQB2AHsnZGVzY3InOiAnPGY4JywgLi4u", (str, None)),
            "at": Of(None, (str, None)),
        },
    ),
    "Question": (
        "A row that was asked for.",
        {"row": 2, "status": "answered", "answer": Of(0.75, (float, None))},
    ),
    "Questions": ("In the order in which they were asked.", {"questions": [Named("Question")]}),
}
"""Name -> description and members of each type of answer.

A member of a type is an example value, whose type is its kind; or a kind without an example; or an `Of` with
both. A list has the kind of its first entry. A tuple means any of its kinds, with None for null. A member
whose name ends with a question mark is optional and never null; examples contain only those optional members
that are `Of`.
"""

_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", None: "null", dict: "object"}


def type_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a kind; see `TYPES` for the forms of a kind."""
    if isinstance(kind, Named):
        return {"$ref": f"#/components/schemas/{kind.name}"}
    if isinstance(kind, Of):
        return type_of(kind.kind)
    if isinstance(kind, list):
        return {"type": "array", "items": type_of(kind[0])}
    if isinstance(kind, tuple):
        return {"anyOf": [type_of(one) for one in kind]}
    if isinstance(kind, dict):
        members = {name.rstrip("?"): type_of(one) for name, one in kind.items()}
        required = [name for name in kind if not name.endswith("?")]
        return {"type": "object", "properties": members, "required": required}
    if get_origin(kind) is Literal:
        return {"type": "string", "enum": list(get_args(kind))}
    return {"type": _KINDS[kind if kind in _KINDS else type(kind)]}


def example_of(kind: Any) -> Any:
    """Return the example value of a kind that has one; see `TYPES`."""
    if isinstance(kind, Named):
        return example_of(TYPES[kind.name][1])
    if isinstance(kind, Of):
        return example_of(kind.example)
    if isinstance(kind, list):
        return [example_of(one) for one in kind]
    if isinstance(kind, dict):
        shown = {name: one for name, one in kind.items() if name[-1] != "?" or isinstance(one, Of)}
        return {name.rstrip("?"): example_of(one) for name, one in shown.items()}
    return kind

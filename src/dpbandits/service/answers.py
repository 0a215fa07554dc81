"""Types of answers in the OpenAPI document, for whoever generates a client from it.

The routes write these answers themselves, and tests compare what they write with these types
(`tests/service/test_schema.py`).
"""

from typing import Any, Literal, get_args, get_origin

from dpbandits.service.problems import PROBLEM_TYPES

__all__ = ["TYPES", "type_of"]

_LABEL, _SECONDS = (str, bool, int, float), float
_SLUGS = tuple(f"urn:dpbandits:{slug}" for slug in PROBLEM_TYPES)
_OUTCOME = Literal["counted", "late", "duplicate"]
_OPEN_OR_TOLD = Literal["deferred", "pending", "counted", "defaulted", "late"]
_STATUS = Literal[_OPEN_OR_TOLD, "abandoned", "expired", "lost", "refused", "fallback"]
_BALANCE = {
    "accountant": str,
    "promised": {"epsilon": str, "delta": str},
    "spent_as_epsilon": str,
    "unit": str,
    "neighbours": str,
    "simulated": bool,
    "parts": ["Part"],
}
_PREVIEW = {"fits": bool, "why_not": str, "cost": "Cost", "population": "Change"}
_TOKEN_ENDS = {"ends_at": (_SECONDS, None), "old_text_ends_at": (_SECONDS, None)}

TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "Fault": ("A column, and which of its rules a cell breaks; never a value.", {"column": str, "rule": str}),
    "Problem": (
        "RFC 9457: fixed words and public numbers, nothing of what was sent; `id` if a round was taken.",
        {
            "type": Literal[_SLUGS],
            "title": str,
            "status": int,
            "detail?": str,
            "id?": str,
            "reason?": Literal["context", "available", "candidates"],
            "faults?": ["Fault"],
        },
    ),
    "Decision": (
        "`release`: how many releases it rests on. `arm` if the policy has arms, else `index` and `action`. "
        "`fallback`: whether the policy could not answer; then the `reason`. Times are seconds since 1970.",
        {
            "id": str,
            "release": int,
            "fallback": bool,
            "propensity": (float, None),
            "arm?": _LABEL,
            "index?": int,
            "action?": [float],
            "expires_at?": _SECONDS,
            "would_choose?": _LABEL,
            "reason?": Literal["context", "available", "user", "user-has-had-all", "no-rounds-left"],
            "faults?": ["Fault"],
        },
    ),
    "DecisionResult": ("One of the two.", {"decision?": "Decision", "problem?": "Problem"}),
    "Decisions": ("In the order of the request.", {"results": ["DecisionResult"]}),
    "Check": (
        "A context `fits` if it has no faults. A declared value is used for what is `replaced`; `ignored` is "
        "the number of members that are no columns.",
        {"fits": bool, "faults": ["Fault"], "replaced": ["Fault"], "ignored": int},
    ),
    "Checks": ("In the order of the request.", {"results": ["Check"]}),
    "Status": ("What became of a decision.", {"status": _STATUS}),
    "Outcome": ("`late` counts nothing; before a `duplicate` another was told.", {"outcome": _OUTCOME}),
    "OutcomeResult": ("One of the two.", {"outcome?": _OUTCOME, "problem?": "Problem"}),
    "Outcomes": ("In the order of the request.", {"results": ["OutcomeResult"]}),
    "Policy": (
        "A policy as it was asked for, and how far it is.",
        {
            "name": str,
            "population": str,
            "status": Literal["active", "paused", "retired"],
            "horizon": (int, None),
            "privacy": "PromiseRequest",
            "reward_range": [float],
            "contexts?": [dict],
            "arms?": [_LABEL],
            "domain?": dict,
            "kernel?": dict,
            "tuning?": "TuningRequest",
            "clip?": bool,
            "seed?": int,
            "warm_start?": {"disjoint": bool, "sha256": str},
            "settings": "SettingsRequest",
            "release": int,
            "rounds_released": int,
            "made_at": _SECONDS,
        },
    ),
    "Flag": (
        "What OFREP calls an evaluation; errors in place of a value if the context cannot be read.",
        {
            "key": str,
            "reason?": Literal["SPLIT", "STATIC", "DEFAULT"],
            "variant?": str,
            "value?": _LABEL,
            "metadata?": dict,
            "errorCode?": str,
            "errorDetails?": str,
        },
    ),
    "Flags": ("By name.", {"flags": ["Flag"]}),
    "FlagProblem": (
        "OFREP's form of a problem; the `key` if it is about one flag.",
        {"key?": str, "errorCode": str, "errorDetails": str},
    ),
    "Policies": ("By name.", {"policies": ["Policy"]}),
    "Part": (
        "A number that an account counts, as exact decimals.",
        {"name": str, "spent": str, "left": str, "limit": str},
    ),
    "Balance": ("What an account has spent and has left.", _BALANCE),
    "Population": ("A population, and its account.", {"name": str, **_BALANCE}),
    "Populations": ("By name.", {"populations": ["Population"]}),
    "Cost": (
        "What would be charged, as exact decimals.",
        {
            "epsilon": str,
            "delta": str,
            "rho": (str, None),
            "mu": (str, None),
            "unit": str,
            "neighbours": str,
        },
    ),
    "Change": (
        "Before a charge and after it; null where the population cannot pay.",
        {"name": str, "before": "Balance", "after": ("Balance", None)},
    ),
    "Preview": ("What it would cost, and whether the population can pay; else `why_not`.", _PREVIEW),
    "PolicyPreview": (
        "The same, with what the policy would promise.",
        {**_PREVIEW, "releases_after_rounds": [int], "statement": str, "warnings": [str]},
    ),
    "ListedToken": (
        "A token without its text; null of limits and ends that it has not.",
        {
            "id": str,
            "label": str,
            "scopes": [str],
            "policies": ([str], None),
            "populations": ([str], None),
            "made_at": _SECONDS,
            **_TOKEN_ENDS,
        },
    ),
    "ListedTokens": ("The latest first.", {"tokens": ["ListedToken"]}),
    "RotatedToken": ("A token's new text.", {"id": str, "token": str, **_TOKEN_ENDS}),
    "Exchange": (
        "An exchange; null of its release until that is there.",
        {
            "name": str,
            "population": str,
            "status": str,
            "privacy": dict,
            "answers": (dict, None),
            "cap": int,
            "made_at": _SECONDS,
            "rows": (int, None),
            "release": (str, None),
            "statement": (str, None),
        },
    ),
    "Exchanges": ("By name.", {"exchanges": ["Exchange"]}),
    "Release": (
        "What the curator published: release.json, and inputs.npy in Base64 or its address.",
        {"description": dict, "inputs": (str, None), "at": (str, None)},
    ),
    "Question": ("A row that was asked for.", {"row": int, "status": str, "answer": (float, None)}),
    "Questions": ("In the order in which they were asked.", {"questions": ["Question"]}),
}
"""Name -> description and members. A member with a question mark may be left out, and is never null. A text
is the name of another type, a list holds its one kind, and a tuple is any of its kinds, None for null.
"""

_KINDS = {str: "string", bool: "boolean", int: "integer", float: "number", None: "null", dict: "object"}


def type_of(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a kind, as members of `TYPES` name it."""
    if isinstance(kind, str):
        return {"$ref": f"#/components/schemas/{kind}"}
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
    return {"type": _KINDS[kind]} if kind in _KINDS else {}

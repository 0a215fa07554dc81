"""Policies as feature flags: OFREP, the protocol between clients of OpenFeature and a remote service.

| OFREP | service |
|---|---|
| key of a flag | name of a policy with arms |
| `targetingKey` of the context | the user |
| `requestId` of the context | optional; distinguishes rounds of one user |
| other members of the context | the context, if they are columns; others are ignored |
| `value`, `variant` | the arm or the `action` (a number, or an object of several columns), and its text |
| `metadata` | the id `decision` for rewards, and further members, such as the `group` of a readout |

Evaluating one flag is a decision (`Decisions.decide`) with all its rules. The caller's id is a digest of the
user and `requestId`, so an idempotent request has the same answer and takes no round. The id does not depend
on the context, so that repeating an evaluation with guessed contexts is noticed and soon refused.

Evaluating all flags takes no round and stores nothing. The arms are those that the published functions
recommend, which are releases; anybody can compute them from `GET /v1/policies/{policy}/policy`. The ETag is
a digest of the answer.

Source: OpenFeature Remote Evaluation Protocol 0.1.0, `service/openapi.yaml`. `Problem.said_at` writes
refusals in its form.
"""

import hashlib
import json
from asyncio import to_thread, wrap_future
from functools import lru_cache, partial
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, FastAPI, Path, Response

from dpbandits.central.published_function import PublishedPosterior
from dpbandits.service import policies
from dpbandits.service.core import Service
from dpbandits.service.decisions import FLAG_ID
from dpbandits.service.documented import REFUSED_DECISION, Decider, Needs, Routes, Tag, tagged
from dpbandits.service.gate import written_json
from dpbandits.service.keys import canonical
from dpbandits.service.messages import IN_PATH, FlagsRequest
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads
from dpbandits.service.tokens import Token

__all__ = ["add_flags"]

FUNCTIONS_KEPT = 32
"""Number of parsed published functions in the cache."""

_USER, _REQUEST = "targetingKey", "requestId"
_SHOWN = ("release", "fallback", "reason", "expires_at", "group")
_Key = Annotated[str, Path(max_length=64, pattern=IN_PATH, examples=["offers"])]
_Evaluator = Annotated[Token, Depends(Needs("decide", "read", within=True))]


def add_flags(app: FastAPI, service: Service) -> None:
    """Add the routes of feature flags to an application."""
    route = Routes(app, "flags", "/ofrep/v1/evaluate")
    flags: dict[str, _Flagged] = {}  # by name of the policy; the entries never change

    @route("POST /flags/{policy}", "Evaluate a flag for one user: a decision", "Flag", *REFUSED_DECISION)
    async def evaluate_flag(policy: _Key, message: FlagsRequest, token: Decider) -> dict[str, Any]:
        """`targetingKey` is the user. A request with the same user and `requestId` gets the same decision."""
        given = message.context or {}
        if policy not in flags:
            flags[policy] = await to_thread(service.read, partial(_flagged, policy=policy))
        flag, user = flags[policy], _text(given, _USER)
        body = {
            "id": f"{FLAG_ID}{_digest(canonical([user, _text(given, _REQUEST)]).encode())}",
            "context": {name: value for name, value in given.items() if name in flag.columns},
            "deferred": False,
        } | ({"user": user} if flag.user_ids else {})
        answer: str = await wrap_future(service.decide(policy, token.id, body))
        return _flag(policy, json.loads(answer))

    @route(
        "POST /flags",
        "Evaluate all flags for one user, by the published functions",
        "Flags",
        has_tag=True,
    )
    def evaluate_flags(message: FlagsRequest, token: _Evaluator, if_none_match: Tag = None) -> Response:
        """The answer has the recommended arm of every active policy with arms.

        It takes no round and stores nothing.
        """
        found = [
            _recommended(service, one["name"], message.context or {})
            for one in service.read(policies.all_described)
            if "arms" in one
            and one["status"] == "active"
            and token.limits.reach(one["name"], one["population"])
        ]
        body = written_json({"flags": found})
        return tagged(body, f'"{_digest(body)}"', if_none_match)


class _Flagged(NamedTuple):
    """Public facts of a policy with arms: names of its columns, and True if it has user ids."""

    columns: frozenset[str]
    user_ids: bool


def _flagged(reads: Reads, policy: str) -> _Flagged:
    """Return the public facts of a policy; raise Problem if there is none or it has no arms."""
    asked = policies.kept_policy(reads, policy).asked
    if "arms" not in asked:
        raise Problem("conflict", "A policy of candidates is not a flag.")
    columns = frozenset(str(column.get("name")) for column in asked["contexts"])
    return _Flagged(columns, asked["privacy"].get("user_ids") is not False)


@lru_cache(maxsize=FUNCTIONS_KEPT)
def _function(text: str) -> PublishedPosterior:
    return PublishedPosterior.from_json(text)


def _recommended(service: Service, policy: str, context: dict[str, Any]) -> dict[str, Any]:
    """Return the arm that a policy's latest function recommends, or the rules that the context breaks."""
    text, tag = service.published(policy)
    function = _function(text)
    findings = [] if function.menu is None else function.menu.findings([context])[0]
    faults = [{"column": one.column, "rule": one.rule} for one in findings if one.refused]
    if faults:
        problem = Problem("invalid", "The context cannot be read.", more={"faults": faults})
        return {"key": policy, **problem.said_at("/ofrep/")[2]}
    release = int(tag.strip('"').rpartition("-")[2])
    return _evaluation(policy, function.recommend(context), "STATIC", {"release": release})


def _text(given: dict[str, Any], name: str) -> str | None:
    """Return the member `name` of the context, `targetingKey` or `requestId`."""
    text = given.get(name)
    if name == _USER and not text:
        missing = {"errorCode": "TARGETING_KEY_MISSING"}
        raise Problem("invalid", "targetingKey is missing: it names the user.", more=missing)
    if text is None or (isinstance(text, str) and len(text) <= 500):
        return text
    raise Problem("invalid", f"{name}: expected a text of at most 500 characters.")


def _flag(policy: str, answer: dict[str, Any]) -> dict[str, Any]:
    more: dict[str, Any] = {name: answer[name] for name in _SHOWN if name in answer}
    if "faults" in answer:
        more["faults"] = "; ".join(f"{one['column']} {one['rule']}" for one in answer["faults"])
    reason = "DEFAULT" if answer["fallback"] else "SPLIT"
    chosen = answer["action"] if "action" in answer else answer["arm"]
    return _evaluation(policy, chosen, reason, {"decision": answer["id"], **more})


def _evaluation(policy: str, arm: Any, reason: str, metadata: dict[str, Any]) -> dict[str, Any]:
    variant = arm if isinstance(arm, str) else json.dumps(arm)
    return {"key": policy, "reason": reason, "variant": variant, "value": arm, "metadata": metadata}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:32]

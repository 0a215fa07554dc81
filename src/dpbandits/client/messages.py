"""Messages of the client: bodies of requests, decisions, receipts and results of batches."""

import json
import math
import secrets
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import numpy as np

from dpbandits import _checks
from dpbandits.client.connection import error_of, strange
from dpbandits.domains.arms import Label
from dpbandits.errors import CorruptState, DPBanditsError, InvalidData
from dpbandits.policy.decision import Decision, Receipt

__all__ = [
    "RemoteDecision",
    "contexts_or_rows",
    "id_text",
    "metric_values",
    "queued_reward",
    "quoted_id",
    "read_decision",
    "read_receipt",
    "read_result",
    "read_results",
    "request_body",
    "reward_body",
    "reward_number",
]

_T = TypeVar("_T")

_OUTCOMES = {"counted": Receipt.COUNTED, "late": Receipt.LATE, "duplicate": Receipt.REFUSED}


@dataclass(frozen=True, repr=False)
class RemoteDecision(Decision):
    """Decision of a service. If the policy has arms, read `arm`: `index` is -1 and `action` is empty.

    If it has actions, `action` is the number, or a dict of several columns.

    Attributes:
        release: number of releases that the decision rests on.
        fallback: True if `arm` (and `action`, if the policy has actions) is the policy's fallback, because no
            round was left or the request was refused.
        reason: reason for the fallback, such as "context"; None without a fallback.
        faults: (column, rule) of each cell of the context that could not be read; never a value.
        expires_at: time in seconds since 1970 after which no reward is awaited, or None.
        would_choose: arm that a policy in shadow mode would have chosen.
    """

    release: int = 0
    fallback: bool = False
    reason: str | None = None
    faults: tuple[tuple[str, str], ...] = ()
    expires_at: float | None = None
    would_choose: Label | None = None


def request_body(
    brought: Any, user: object, *, available: Any, name: Any, arm: Any, deferred: bool
) -> dict[str, Any]:
    """Return the JSON body of an ask."""
    if available is not None and (isinstance(available, str) or not isinstance(available, Iterable)):
        raise InvalidData(f"available: expected a list of labels, got {_checks.kind_of(available)}")
    body = {
        "id": secrets.token_hex(16) if name is None else name,
        "user": user,
        "available": None if available is None else list(available),
        "arm": arm,
        "deferred": deferred or None,
        "context" if isinstance(brought, Mapping) else "candidates": contexts_or_rows(brought),
    }
    return {key: value for key, value in body.items() if value is not None}


def read_decision(answer: Any) -> RemoteDecision:
    """Return the decision in the service's answer to an ask."""
    try:
        return RemoteDecision(
            id=str(answer["id"]),
            index=int(answer.get("index", -1)),
            action=_action(answer),
            propensity=answer["propensity"],
            arm=answer.get("arm"),
            release=int(answer["release"]),
            fallback=bool(answer["fallback"]),
            reason=answer.get("reason"),
            faults=tuple((str(one["column"]), str(one["rule"])) for one in answer.get("faults", ())),
            expires_at=answer.get("expires_at"),
            would_choose=answer.get("would_choose"),
            group=answer.get("group"),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise strange() from None


def _action(answer: Mapping[str, Any]) -> Any:
    """Return the action in an answer. A row of numbers becomes an array (d,), which is empty if absent."""
    action = answer.get("action", [])
    return np.array(action, dtype=np.float64) if isinstance(action, list) else action


def read_results(answer: dict[str, Any], count: int) -> list[Any]:
    """Return the results in the answer to a batch of `count`."""
    results = answer.get("results")
    if not isinstance(results, list) or len(results) != count:
        raise strange()
    return results


def read_result(one: Any, read: Callable[[Any], _T], missing: type[DPBanditsError]) -> "_T | DPBanditsError":
    """Return one result of a batch, or the error that refused it."""
    problem = one.get("problem") if isinstance(one, dict) else None
    if problem is None:
        try:
            return read(one)
        except (KeyError, TypeError):
            raise strange() from None
    if not isinstance(problem, dict):
        raise strange()
    return error_of(problem, problem.get("status"), missing)


def read_receipt(answer: Any) -> Receipt:
    """Return the receipt in the answer to a reward."""
    outcome = answer.get("outcome") if isinstance(answer, dict) else None
    if outcome not in _OUTCOMES:
        raise strange()
    return _OUTCOMES[outcome]


def queued_reward(stored: bytes) -> tuple[str, float | None, dict[str, Any]]:
    """Return the decision id, the reward and the metrics of a queue entry."""
    try:
        decision, value, metrics = json.loads(stored)
    except (TypeError, ValueError):
        raise CorruptState(
            "the queue has a file that is not a reward: give the queue a folder of its own"
        ) from None
    return id_text(decision), value, metrics


def metric_values(metrics: Mapping[str, Any]) -> dict[str, bool | float | None]:
    """Return metrics for JSON. A value that is no finite number becomes None: the public default counts."""
    found: dict[str, bool | float | None] = {}
    for name, value in metrics.items():
        plain = value.item() if isinstance(value, np.generic) else value
        finite = False
        with suppress(OverflowError):
            finite = isinstance(plain, bool | int | float) and math.isfinite(plain)
        found[name] = plain if finite else None
    return found


def reward_body(value: float, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON body of a reward."""
    return {"reward": value, **({"metrics": dict(metrics)} if metrics else {})}


def contexts_or_rows(brought: object) -> object:
    """Return a context or candidates; raise InvalidData by the type alone, without a look at the content."""
    if brought is None or isinstance(brought, Mapping | list | tuple | np.ndarray):
        return brought
    if hasattr(brought, "__array__"):
        return np.asarray(brought)
    raise InvalidData(
        f"ask: expected a context as a dict by column, or candidates as rows, got {_checks.kind_of(brought)}"
    )


def reward_number(reward: object) -> float | None:
    """Return a reward as a JSON number; None if it will not come."""
    if isinstance(reward, np.generic):
        reward = reward.item()
    if reward is None or (isinstance(reward, float) and math.isnan(reward)):
        return None
    if isinstance(reward, bool | int | float):
        with suppress(OverflowError):
            if math.isfinite(reward):
                return float(reward)
    raise InvalidData(f"reward: expected a finite number, True or False, got {_checks.kind_of(reward)}")


def id_text(decision_id: object) -> str:
    """Return the id; raise InvalidData if it is not a text."""
    if not isinstance(decision_id, str):
        raise InvalidData(f"decision_id: expected a decision's id, got {_checks.kind_of(decision_id)}")
    return decision_id


def quoted_id(decision_id: object) -> str:
    """Return the id as a part of a path."""
    return quote(id_text(decision_id)[:200], safe="", errors="replace")

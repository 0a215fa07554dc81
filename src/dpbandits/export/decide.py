"""The reference evaluator of exported policies. Copy it anywhere: it needs the standard library alone.

docs/guides/exported-policies.md describes the format; `js/src/decide.js` is the same evaluator in JavaScript.
"""

import math
from bisect import bisect_right
from operator import mul
from typing import Any

__all__ = ["arm_scores", "decide_by"]

Point = list[float]


class _Unreadable(ValueError):
    """The context does not fit the policy's columns."""


def _place(column: dict[str, Any], value: Any) -> float:
    """Return the coordinate of a column's value.

    For a range this is the value's share of the range, in [0, 1]. For a category it is the category's code,
    or the middle of the category's part of [0, 1].
    """
    value = column.get("missing") if value is None or value != value else value
    if value is not None and value not in column.get("values", [value]):
        value = column.get("unknown")
    values, low, high = column.get("values"), column.get("low", 0.0), column.get("high", 1.0)
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (number and (column.get("clip") or low <= value <= high) if values is None else value in values):
        raise _Unreadable
    if values is not None:
        code = float(values.index(value))
        return code if column.get("coded") else (code + 0.5) / len(values)
    return float(min(max((min(max(value, low), high) - low) / (high - low), 0.0), 1.0))


def _kernel(k: dict[str, Any], x: Point, z: Point) -> float:
    """Return the kernel of x and z from its configuration (see `dpbandits.models.kernels`)."""
    if k["type"] in ("Product", "Sum"):
        return (math.prod if k["type"] == "Product" else sum)(_kernel(part, x, z) for part in k["parts"])
    if k["type"] == "Scaled":
        return float(k["variance"]) * _kernel(k["kernel"], x, z)
    own, scale = k.get("columns") or range(len(x)), k.get("lengthscale", 1.0)
    if k["type"] == "Indicator":
        return 1.0 if all(x[j] == z[j] for j in own) else float(k["correlation"])
    scales = scale if isinstance(scale, list) else [scale] * len(own)
    r = math.hypot(*((x[j] - z[j]) / one for j, one in zip(own, scales, strict=True)))
    if k["type"] == "SquaredExponential":
        return math.exp(-(r**2) / 2.0)
    r *= math.sqrt(2.0 * k["nu"])
    return float({0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r * r / 3.0}[k["nu"]]) * math.exp(-r)


def _tree(rule: dict[str, Any], x: Point) -> list[float]:
    """Return the scores of the leaf that holds x."""
    node = rule["nodes"][0]
    while "above" in node:
        node = rule["nodes"][node["above" if x[node["column"]] >= node["at"] else "below"]]
    return list(node["scores"])


def _cells(rule: dict[str, Any], x: Point) -> list[float]:
    """Return the scores of the grid cell that holds x; the last column varies fastest."""
    cell = 0
    for share, edges in zip(x, rule["edges"], strict=True):
        cell = cell * (len(edges) + 1) + bisect_right(edges, share)
    return list(rule["scores"][cell])


def _features(rule: dict[str, Any], x: Point, draw: int | None) -> list[float]:
    """Return scores that are linear in kernel features; features longer than `longest` are scaled down."""
    near = [_kernel(rule["kernel"], x, z) for z in rule["landmarks"]]
    phi = [sum(map(mul, near, column)) for column in zip(*rule["projection"], strict=True)]
    return _weighed(rule, phi, min(1.0, rule["longest"] / (math.hypot(*phi) or 1.0)), draw)


def _effects(rule: dict[str, Any], x: Point, draw: int | None) -> list[float]:
    """Return scores that are linear in the effects of columns and of groups of columns."""
    columns = zip(rule["components"], rule["edges"], x, strict=True)
    rows = [table[bisect_right(edges, share)] for table, edges, share in columns]
    phi = [math.prod(rows[j][component] for j, component in factors) for factors in rule["factors"]]
    return _weighed(rule, phi, 1.0, draw)


def _weighed(rule: dict[str, Any], phi: list[float], cut: float, draw: int | None) -> list[float]:
    """Return each arm's reward, middle + width cut (weights of the arm . phi), for features phi.

    The weights are the posterior mean, or the public draw with the number `draw`.
    """
    weights = rule["mean"] if draw is None else rule["draws"][draw]
    return [rule["middle"] + rule["width"] * cut * sum(map(mul, phi, arm)) for arm in weights]


def _values(told: dict[str, Any], scores: list[float]) -> list[float]:
    """Return the value of each action from its score, the expected outcome.

    Outcomes are clipped to their range and sorted along the declared shape; then each action's line is
    applied.
    """
    found = [min(max(score, told["low"]), told["high"]) for score in scores]
    for places in told["rising"]:
        for place, score in zip(places, sorted(found[one] for one in places), strict=True):
            found[place] = score
    return [a + b * score for a, b, score in zip(told["offsets"], told["slopes"], found, strict=True)]


def _end(end: Any, columns: list[dict[str, Any]], x: Point) -> float:
    """Return an end of bounds at x: a number, one for every category, or a line in a column's own units."""
    if not isinstance(end, dict):
        return float(end)
    column, at = columns[end["column"]], x[end["column"]]
    if "ends" in end:
        return float(end["ends"][int(at)])
    return float(end["at_zero"] + end["slope"] * (column["low"] + (column["high"] - column["low"]) * at))


def _allowed(limits: list[dict[str, Any]], columns: list[dict[str, Any]], x: Point) -> list[bool]:
    """Return which actions are allowed at x, by the limits of their columns.

    Values `of` a column lie from `low` to `high`; if none does, the nearest to the middle is allowed. Of
    these, the ones with the least distance `off` from the window are allowed.
    """
    allowed: list[bool] = []
    for limit in limits:
        of: list[float] = limit["of"] if "of" in limit else limit["off"]
        fits = [True] * len(of)
        if "of" in limit:
            low, high = _end(limit["low"], columns, x), _end(limit["high"], columns, x)
            low, high = (min(max(end, min(of)), max(of)) for end in (low, max(low, high)))
            fits = [low <= value <= high for value in of]
            if not any(fits):
                away = [abs(value - (low + high) / 2.0) for value in of]
                fits = [one == min(away) for one in away]
        if "off" in limit:
            least = min(off for off, one in zip(limit["off"], fits, strict=True) if one)
            fits = [one and off == least for off, one in zip(limit["off"], fits, strict=True)]
        allowed = [one and fit for one, fit in zip(allowed or fits, fits, strict=True)]
    return allowed


def _point(policy: dict[str, Any], context: Any) -> Point:
    """Return the coordinates of a context in the policy's columns."""
    told = context if isinstance(context, dict) else dict(enumerate(context))
    return [_place(one, told.get(one.get("name", j))) for j, one in enumerate(policy["columns"])]


def arm_scores(policy: dict[str, Any], context: Any, draw: int | None = None) -> list[float]:
    """Return each arm's expected reward or probability, or each action's value.

    Weights are the posterior mean, or the public draw with the number `draw`.
    """
    x, rule = _point(policy, context), policy["rule"]
    if rule["type"] in ("kernel", "effects"):
        found = (_features if rule["type"] == "kernel" else _effects)(rule, x, draw)
        return _values(policy["value"], found) if "value" in policy else found
    return (_tree if rule["type"] == "tree" else _cells)(rule, x)


def decide_by(policy: dict[str, Any], context: Any, draw: int | None = None) -> Any:
    """Return the arm or action that the server gives to this person; None if the context cannot be read."""
    try:
        found = arm_scores(policy, context, draw)
    except _Unreadable:
        return None
    if "limits" in policy.get("value", {}):
        allowed = _allowed(policy["value"]["limits"], policy["columns"], _point(policy, context))
        found = [score if fits else -math.inf for score, fits in zip(found, allowed, strict=True)]
    return policy.get("actions", policy["arms"])[found.index(max(found))]

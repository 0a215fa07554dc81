"""Published policies as plain JSON, for programs that decide without this library.

`written_policy` makes the text that each release's `to_decisions()` returns: columns, arms and one rule. A
rule is a table over cells, a tree of bins, effects of columns and of their pairs, or features. `read` checks
such a text. `growthbook` converts a policy that is constant on public cells to weights for each leaf
condition. All inputs are public: nothing here reads raw data.
"""

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dpbandits._reading import json_object, reading
from dpbandits._typing import FloatArray
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.export.decide import arm_scores, decide_by
from dpbandits.tables import Schema
from dpbandits.tables.sql.levels import first_reaching, least

__all__ = [
    "chosen",
    "cut_at",
    "effect_groups",
    "effect_table",
    "growthbook",
    "read",
    "written_policy",
]

_FORMAT = 1
_KIND = "dpbandits decisions"
_COLUMNS = ("Range", "Categories")

MOST_CELLS = 1 << 16
"""Largest number of cells that `growthbook` converts."""

Box = tuple[tuple[float, float], ...]
"""Low and high end of each column, in shares of its range; half open."""


def written_policy(
    rule: dict[str, Any],
    *,
    schema: Schema | None,
    arms: Sequence[Any],
    version: int | None,
    bounds: Sequence[tuple[float, float]] = (),
    coded: bool = False,
    clip: bool = False,
    actions: dict[str, Any] | None = None,
) -> str:
    """Return the JSON of a policy.

    Args:
        rule: Rule as described in docs/guides/exported-policies.md: its `type` and the fields of that type.
        schema: Schema of contexts; None if contexts are numbers in `bounds`.
        arms: Labels of the arms.
        version: Version of the release; None if it has none.
        bounds: Low and high end of each column, used without a schema.
        coded: True if categories are their codes; False if they are the middles of equal parts of [0, 1].
        clip: True if ranges clip, as they do on clients, whatever the schema says.
        actions: Fields `actions` and `value` of a policy with actions; see `Actions.exported`.

    Raises:
        InvalidParameter: a column is of a type that cannot be exported.
    """
    columns: list[dict[str, Any]] = [{"low": low, "high": high} for low, high in bounds]
    if schema is not None:
        columns = [{"name": name, **column.to_config()} for name, column in schema.columns.items()]
        other = [column["name"] for column in columns if column["type"] not in _COLUMNS]
        if other:
            raise InvalidParameter(f"columns {other} cannot be exported: expected Range or Categories")
    for column in columns:
        if "values" in column:
            column |= {"coded": True} if coded else {}
        elif clip:
            column["clip"] = True
    told = {"format": _FORMAT, "kind": _KIND, "arms": list(arms), "columns": columns, "rule": rule}
    told |= actions or {}
    return json.dumps(told if version is None else told | {"version": version}, allow_nan=False)


def read(text: str) -> dict[str, Any]:
    """Read an exported policy for `dpbandits.export.decide`, and try it at the middle of its columns.

    Raises:
        CorruptState: the text is no exported policy.
    """
    policy = json_object(text, "an exported policy", CorruptState)
    with reading("an exported policy", CorruptState):
        if (policy["format"], policy["kind"]) != (_FORMAT, _KIND):
            raise CorruptState("the policy has another format version than this library reads")
        middle = {
            column.get("name", place): (
                column["values"][0] if "values" in column else 0.5 * (column["low"] + column["high"])
            )
            for place, column in enumerate(policy["columns"])
        }
        rule, n_arms = policy["rule"], len(policy["arms"])
        if ("value" in policy) != ("actions" in policy):
            raise CorruptState("the policy has actions without a value, or a value without actions")
        if "value" in policy:
            told = policy["value"]
            sizes = {len(policy["actions"]), len(told["slopes"]), len(told["offsets"])}
            places = {one for group in told["rising"] for one in group}
            repeated = any(len(set(group)) < len(group) for group in told["rising"])
            if sizes != {n_arms} or not places <= set(range(n_arms)) or repeated or rule["type"] != "effects":
                raise CorruptState("the policy's value does not fit its actions")
            lists = [own[name] for own in told.get("limits", ()) for name in ("of", "off") if name in own]
            if any(len(one) != n_arms for one in lists):
                raise CorruptState("the policy's limits do not fit its actions")
            decide_by(policy, middle)
        for place, node in enumerate(rule.get("nodes", ())):
            if "above" in node and not min(node["below"], node["above"]) > place:
                raise CorruptState("a node of the policy's tree refers to itself or to an earlier node")
        draws, size = rule.get("draws", ()), 0
        if rule["type"] in ("kernel", "effects"):
            size = len(rule["projection"][0] if rule["type"] == "kernel" else rule["factors"])
        if any([*map(len, draw)] != [size] * n_arms for draw in draws):
            raise CorruptState("a draw of the policy has another number of weights than of arms or features")
        for draw in (None, 0) if draws else (None,):
            found = arm_scores(policy, middle, draw)
            if len(found) != n_arms or not all(map(math.isfinite, found)):
                raise CorruptState("the policy's scores are not one finite number for each arm")
    return policy


def chosen(arms: Sequence[int], n_arms: int) -> list[list[float]]:
    """Return (cells, n_arms) scores: 1 for each cell's chosen arm, 0 for the others."""
    rows: list[list[float]] = np.eye(n_arms)[np.asarray(arms, dtype=np.int64)].tolist()
    return rows


def cut_at(size: int) -> list[float]:
    """Return the lower ends of cells 1, 2, ... of `size` equal cells of [0, 1].

    Each is the first double x for which floor(x size) is the cell's number.
    """
    return [least(lambda x, k=k: x * size >= k, 0.0, 1.0) for k in range(1, size)]  # type: ignore[misc]


# -- weights per leaf condition -----------------------------------------------------------------------


def growthbook(text: str, name: str) -> dict[str, Any]:
    """Return an exported policy as a contextual bandit of GrowthBook's SDK payload (SDK 1.7 of 2026).

    Args:
        text: Result of `to_decisions()` of a policy that is constant on cells.
        name: Name by which features refer to the bandit.

    Returns:
        `contextualBandits`, a dict from the name to `banditVersion` and `contexts` (`leafId`,
        `condition`, `weights`); and `rule`, the part of a feature's rule that refers to it. Leaves do not
        overlap. A person whom the policy cannot read matches no leaf and gets the rule's even weights.
        Missing values match no leaf: fill them in before.

    Raises:
        CorruptState: the text is no exported policy.
        InvalidParameter: the scores are not constant on cells, columns have no names, or there are more
            than `MOST_CELLS` cells.
    """
    policy = read(text)
    arms, columns = policy["arms"], policy["columns"]
    if policy["rule"]["type"] not in ("tree", "cells", "effects") or "value" in policy:
        raise InvalidParameter("growthbook: this policy is not constant on cells: decide by its JSON")
    if any("name" not in column for column in columns):
        raise InvalidParameter("growthbook: expected columns with names: build the policy with contexts=")
    contexts: list[dict[str, Any]] = []
    with reading("a policy that is constant on cells", InvalidParameter):
        for box, weights in _leaves(policy):
            sides = zip(columns, box, strict=True)
            condition = {column["name"]: _within(column, *side) for column, side in sides}
            if all(one is not None for one in condition.values()):
                leaf = {"leafId": len(contexts), "condition": condition, "weights": weights}
                contexts.append(leaf)
    even = [1.0 / len(arms)] * len(arms)
    rule = {"contextualBanditRef": name, "contextualVariations": arms, "weights": even}
    bandit = {"banditVersion": policy.get("version", 0), "contexts": contexts}
    return {"contextualBandits": {name: bandit}, "rule": rule}


def _leaves(policy: dict[str, Any]) -> Iterator[tuple[Box, list[float]]]:
    """Yield disjoint boxes of the columns' shares with the weights of the arms there."""
    rule = policy["rule"]
    whole = ((0.0, math.inf),) * len(policy["columns"])
    if rule["type"] == "tree":
        for box, chances in _below(rule["nodes"], 0, whole):
            if min(chances) < 0.0 or abs(sum(chances) - 1.0) > 1e-4:
                raise InvalidParameter("growthbook: expected probabilities that sum to 1 in each leaf")
            yield box, [chance / sum(chances) for chance in chances]
        return
    shape = [len(edges) + 1 for edges in rule["edges"]]
    if math.prod(shape) > MOST_CELLS:
        raise InvalidParameter(f"growthbook: the policy has more than {MOST_CELLS} cells")
    scores = _of_effects(rule, shape) if rule["type"] == "effects" else np.array(rule["scores"])
    weights = np.eye(scores.shape[1])[scores.argmax(axis=1)].reshape(*shape, -1)
    bounds = [(0.0, *edges, math.inf) for edges in rule["edges"]]
    yield from _merged(weights, [(0, size) for size in shape], bounds)


def _of_effects(rule: dict[str, Any], shape: Sequence[int]) -> FloatArray:
    """Return (cells, K) scores without the constant `middle` and the factor `width`."""
    scores = np.zeros((*shape, len(rule["mean"])))
    for columns, features in effect_groups(rule).items():
        part = effect_table(rule, columns, features)
        scores += part.reshape(*(size if j in columns else 1 for j, size in enumerate(shape)), -1)
    return scores.reshape(-1, scores.shape[-1])


def effect_groups(rule: dict[str, Any]) -> dict[tuple[int, ...], list[int]]:
    """Return the indices of the features of each group of columns in a rule of type `effects`."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for feature, factors in enumerate(rule["factors"]):
        groups.setdefault(tuple(sorted(column for column, _ in factors)), []).append(feature)
    return groups


def effect_table(rule: dict[str, Any], columns: Sequence[int], features: Sequence[int]) -> FloatArray:
    """Return what a group of columns adds to the arms' scores, without the factor `width`.

    The shape is (levels of the first column, levels of the second, ..., K).
    """
    factors = [sorted(rule["factors"][feature]) for feature in features]
    sides = [
        np.array(rule["components"][column])[:, [own[at][1] for own in factors]]
        for at, column in enumerate(columns)
    ]
    axes = "abcdefgh"[: len(columns)]
    words = ",".join([*(f"{axis}k" for axis in axes), "zk"])
    return np.asarray(np.einsum(f"{words}->{axes}z", *sides, np.array(rule["mean"])[:, features]))


def _below(nodes: list[dict[str, Any]], at: int, box: Box) -> Iterator[tuple[Box, list[float]]]:
    node = nodes[at]
    if "above" not in node:
        yield box, node["scores"]
        return
    column, cut = node["column"], node["at"]
    low, high = box[column]
    for child, side in (("below", (low, cut)), ("above", (cut, high))):
        yield from _below(nodes, node[child], (*box[:column], side, *box[column + 1 :]))


def _merged(
    weights: FloatArray, spans: list[tuple[int, int]], bounds: list[tuple[float, ...]]
) -> Iterator[tuple[Box, list[float]]]:
    """Yield boxes of constant weights that together cover a block of cells."""
    block = weights[tuple(slice(*span) for span in spans)].reshape(-1, weights.shape[-1])
    if (block == block[0]).all():
        yield (
            tuple((cut[low], cut[high]) for cut, (low, high) in zip(bounds, spans, strict=True)),
            block[0].tolist(),
        )
        return
    longest = max(range(len(spans)), key=lambda j: spans[j][1] - spans[j][0])
    low, high = spans[longest]
    for span in itertools.pairwise((low, (low + high) // 2, high)):
        yield from _merged(weights, [*spans[:longest], span, *spans[longest + 1 :]], bounds)


def _within(column: dict[str, Any], low: float, high: float) -> dict[str, Any] | None:
    """Return the condition that a share, or a code, lies in [low, high); None if no value does."""
    values = column.get("values")
    if values is not None:
        places = [code if column.get("coded") else (code + 0.5) / len(values) for code in range(len(values))]
        held = [value for value, place in zip(values, places, strict=True) if low <= place < high]
        return {"$in": held} if held else None
    bottom, top = column["low"], column["high"]

    condition: dict[str, Any] = {}
    if low > 0.0:
        condition["$gte"] = first_reaching(low, bottom, top)
    elif not column.get("clip"):
        condition["$gte"] = bottom
    if high <= 1.0:
        condition["$lt"] = first_reaching(high, bottom, top)
    elif not column.get("clip"):
        condition["$lte"] = top
    return condition if "$gte" in condition else {"$exists": True, **condition}

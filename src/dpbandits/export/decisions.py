"""Published policies as plain JSON, for whoever decides without this library.

`written_policy` is what `to_decisions()` of everything published gives: columns, arms and one rule, a table
over cells, a tree of bins, effects of columns and of pairs of them, or features. `read` checks such a text.
`growthbook` says it again as weights per leaf condition, where the policy is constant on public cells. All of
it is public: nothing here sees data.
"""

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from dpbandits._reading import json_object, reading
from dpbandits._typing import FloatArray
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.export.decide import arm_scores
from dpbandits.tables import Schema

__all__ = ["chosen", "cut_at", "growthbook", "read", "written_policy"]

_FORMAT = 1
_KIND = "dpbandits decisions"
_COLUMNS = ("Range", "Categories")

MOST_CELLS = 1 << 16
"""Cells that are looked at, one after another, for leaf conditions."""

Box = tuple[tuple[float, float], ...]


def written_policy(
    rule: dict[str, Any],
    *,
    schema: Schema | None,
    arms: Sequence[Any],
    version: int | None,
    bounds: Sequence[tuple[float, float]] = (),
    coded: bool = False,
    clip: bool = False,
) -> str:
    """The JSON of a policy.

    Args:
        rule: `type` and what belongs to it.
        schema: of people's contexts; None where contexts are numbers in `bounds`.
        arms: what they are called.
        version: of what was published; None where it has none.
        bounds: low and high of every column, without a schema.
        coded: whether categories are codes, and not the middles of equal parts.
        clip: whether ranges clip, whatever the schema says, as devices do.

    Raises:
        InvalidParameter: columns that are not exported.
    """
    columns: list[dict[str, Any]] = [{"low": low, "high": high} for low, high in bounds]
    if schema is not None:
        columns = [{"name": name, **column.to_config()} for name, column in schema.columns.items()]
        other = [column["name"] for column in columns if column["type"] not in _COLUMNS]
        if other:
            raise InvalidParameter(f"columns {other} are neither Range nor Categories: not exported")
    for column in columns:
        if "values" in column:
            column |= {"coded": True} if coded else {}
        elif clip:
            column["clip"] = True
    told = {"format": _FORMAT, "kind": _KIND, "arms": list(arms), "columns": columns, "rule": rule}
    return json.dumps(told if version is None else told | {"version": version}, allow_nan=False)


def read(text: str) -> dict[str, Any]:
    """An exported policy for `dpbandits.export.decide`, tried once in the middle of its columns.

    Raises:
        CorruptState: anything else.
    """
    policy = json_object(text, "an exported policy", CorruptState)
    with reading("an exported policy", CorruptState):
        if (policy["format"], policy["kind"]) != (_FORMAT, _KIND):
            raise CorruptState("the policy was exported in another version of the format")
        middle = {
            column.get("name", place): (
                column["values"][0] if "values" in column else 0.5 * (column["low"] + column["high"])
            )
            for place, column in enumerate(policy["columns"])
        }
        rule, n_arms = policy["rule"], len(policy["arms"])
        for place, node in enumerate(rule.get("nodes", ())):
            if "above" in node and not min(node["below"], node["above"]) > place:
                raise CorruptState("a split of the policy leads back to itself")
        draws, size = rule.get("draws", ()), 0
        if rule["type"] in ("kernel", "effects"):
            size = len(rule["projection"][0] if rule["type"] == "kernel" else rule["factors"])
        if any([*map(len, draw)] != [size] * n_arms for draw in draws):
            raise CorruptState("a draw of the policy has another number of weights than there are features")
        for draw in (None, 0) if draws else (None,):
            found = arm_scores(policy, middle, draw)
            if len(found) != n_arms or not all(map(math.isfinite, found)):
                raise CorruptState("the policy has another number of scores than of arms")
    return policy


def chosen(arms: Sequence[int], n_arms: int) -> list[list[float]]:
    """Scores of cells that name one arm each."""
    rows: list[list[float]] = np.eye(n_arms)[np.asarray(arms, dtype=np.int64)].tolist()
    return rows


def cut_at(size: int) -> list[float]:
    """Edges between `size` equal cells of [0, 1], as floor(x size) has them: the first numbers of cells."""
    return [_least(lambda x, k=k: x * size >= k, 0.0, 1.0) for k in range(1, size)]  # type: ignore[misc]


def _least(reached: Callable[[float], bool], low: float, high: float) -> float:
    """The first double in (low, high] from which on something holds; it holds at `high`."""
    while True:
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            return high
        low, high = (low, middle) if reached(middle) else (middle, high)


# -- weights per leaf condition -----------------------------------------------------------------------


def growthbook(text: str, name: str) -> dict[str, Any]:
    """An exported policy as a contextual bandit of GrowthBook's SDK payload, format of its SDK 1.7 of 2026.

    Args:
        text: of `to_decisions()`, of a policy that is constant on cells.
        name: what features refer to it by.

    Returns:
        `contextualBandits`, by name, with `banditVersion` and `contexts` (`leafId`, `condition`, `weights`);
        and `rule`, the part of a feature's rule that refers to it. Leaves do not overlap. A person whom the
        policy cannot read matches none, and falls to the rule's even weights; missing values are nobody's, so
        fill them in before.

    Raises:
        CorruptState: no exported policy.
        InvalidParameter: its arms' scores are no constants on cells, or its cells are too many.
    """
    policy = read(text)
    arms, columns = policy["arms"], policy["columns"]
    if policy["rule"]["type"] not in ("tree", "cells", "effects"):
        raise InvalidParameter("growthbook: this policy is not constant on cells: decide by its JSON")
    if any("name" not in column for column in columns):
        raise InvalidParameter("growthbook: columns have no names: build the policy with contexts=")
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
    """Boxes of shares, half open, and their weights; equal neighbours are one where that is easy.

    A tree says chances, which may be rounded; cells say expected rewards, of which the best takes all.
    """
    rule = policy["rule"]
    whole = ((0.0, math.inf),) * len(policy["columns"])
    if rule["type"] == "tree":
        for box, chances in _below(rule["nodes"], 0, whole):
            if min(chances) < 0.0 or abs(sum(chances) - 1.0) > 1e-4:
                raise InvalidParameter("growthbook: chances of a leaf do not sum to 1")
            yield box, [chance / sum(chances) for chance in chances]
        return
    shape = [len(edges) + 1 for edges in rule["edges"]]
    if math.prod(shape) > MOST_CELLS:
        raise InvalidParameter(f"growthbook: more than {MOST_CELLS} cells")
    scores = _of_effects(rule, shape) if rule["type"] == "effects" else np.array(rule["scores"])
    weights = np.eye(scores.shape[1])[scores.argmax(axis=1)].reshape(*shape, -1)
    bounds = [(0.0, *edges, math.inf) for edges in rule["edges"]]
    yield from _merged(weights, [(0, size) for size in shape], bounds)


def _of_effects(rule: dict[str, Any], shape: Sequence[int]) -> FloatArray:
    """(cells, K) scores on all cells, less the middle and over the width of rewards."""
    components, weights = [np.array(own) for own in rule["components"]], np.array(rule["mean"]).T
    factors = [sorted(own) for own in rule["factors"]]
    places: dict[tuple[int, ...], list[int]] = {}
    for place, own in enumerate(factors):
        places.setdefault(tuple(j for j, _ in own), []).append(place)
    scores = np.zeros((*shape, weights.shape[1]))
    for columns, held in places.items():  # a term each: its columns' levels side by side
        axes = "abcd"[: len(columns)]
        sides = [components[j][:, [factors[k][at][1] for k in held]] for at, j in enumerate(columns)]
        words = ",".join([*(f"{axis}k" for axis in axes), "kz"])
        part = np.einsum(f"{words}->{axes}z", *sides, weights[held])
        scores += part.reshape(*(size if j in columns else 1 for j, size in enumerate(shape)), -1)
    return scores.reshape(-1, weights.shape[1])


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
    """A block of cells as few boxes: whole where it is constant, else its halves along its longest side."""
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
    """The condition that a share, or a code, lies in [low, high); None where nothing does."""
    values = column.get("values")
    if values is not None:
        places = [code if column.get("coded") else (code + 0.5) / len(values) for code in range(len(values))]
        held = [value for value, place in zip(values, places, strict=True) if low <= place < high]
        return {"$in": held} if held else None
    bottom, top = column["low"], column["high"]

    def first(cut: float) -> float:
        """The first number whose share is at least `cut`."""
        return _least(lambda x: (x - bottom) / (top - bottom) >= cut, bottom, top)

    condition: dict[str, Any] = {}
    if low > 0.0:
        condition["$gte"] = first(low)
    elif not column.get("clip"):
        condition["$gte"] = bottom
    if high <= 1.0:
        condition["$lt"] = first(high)
    elif not column.get("clip"):
        condition["$lte"] = top
    return condition if "$gte" in condition else {"$exists": True, **condition}

"""`Lookups`: a published policy of arms as constant arrays, looked up by the levels of a context.

Marginal tables and tables over cells have this form, in which NumPy and SQL compute equal scores: each sum is
rounded once, in the order of the arrays. Everything here is public.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.export.decisions import effect_groups, effect_table
from dpbandits.models.ties import first_best

__all__ = ["Lookups"]

MOST_NUMBERS = 1 << 21
"""Largest number of scores in a statement. Each takes about 20 characters."""


@dataclass(frozen=True, eq=False)
class Lookups:
    """Scores of K arms, which are sums of entries of arrays.

    Attributes:
        edges: For each of d coordinates of contexts, where its levels 1, 2, ... begin.
        middle: Constant of all scores, in reward units.
        tables: Arrays (levels of a coordinate, ..., K) in reward units, by their coordinates.
        unit: Reward units in which ties of scores are defined; see `dpbandits.models.ties`.
    """

    edges: list[list[float]]
    middle: float
    tables: Mapping[tuple[int, ...], FloatArray]
    unit: float

    @classmethod
    def of(cls, rule: Mapping[str, Any]) -> Self:
        """Return the arrays of the rule of an exported policy.

        Raises:
            InvalidParameter: The rule is of another type than "effects" and "cells", or has more than
                `MOST_NUMBERS` scores.
        """
        if rule["type"] not in ("effects", "cells"):
            raise InvalidParameter(
                f"scores of type {rule['type']} are no sums of effects or constant on cells"
            )
        edges, sizes = rule["edges"], [len(own) + 1 for own in rule["edges"]]
        if rule["type"] == "cells":
            scores = np.array(rule["scores"])
            return cls(edges, 0.0, {tuple(range(len(sizes))): scores.reshape(*sizes, -1)}, 0.0)
        groups = effect_groups(dict(rule))
        if sum(math.prod(sizes[one] for one in group) for group in groups) * len(rule["mean"]) > MOST_NUMBERS:
            raise InvalidParameter(f"the policy has more than {MOST_NUMBERS} scores")
        tables = {
            group: rule["width"] * effect_table(dict(rule), group, own) for group, own in groups.items()
        }
        return cls(edges, rule["middle"], tables, rule["width"])

    def means(self, people: FloatArray) -> FloatArray:
        """Return the scores (n, K) of encoded contexts (n, d)."""
        levels = [
            np.searchsorted(own, at, side="right") for own, at in zip(self.edges, people.T, strict=True)
        ]
        found = np.array(self.middle)
        for columns, table in self.tables.items():
            found = found + table[tuple(levels[one] for one in columns)]
        return np.broadcast_to(found, (len(people), found.shape[-1]))

    def best_of(self, means: FloatArray) -> IntArray:
        """Return the first of the best arms (n,) from scores (n, K)."""
        return first_best(means, unit=self.unit)

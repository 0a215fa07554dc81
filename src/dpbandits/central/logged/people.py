"""People with contexts and arms, in cells: what `contexts=Schema(...)` and `arms=[...]` stand for here.

Every range of the schema, scaled to [0, 1], is cut into equal bins, as many as keep the cells of all columns
together few; every category is a cell of its own. Of the law of contexts nothing is known: it is taken as
uniform.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbandits.central.arguments import check_kinds
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.people import LENGTHSCALE, context_kernel
from dpbandits.models.kernels import Indicator, Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.tables import Categories, Cycle, Schema
from dpbandits.tables.columns import Column
from dpbandits.tables.menu import Menu

__all__ = [
    "ARM_CORRELATION",
    "CELLS",
    "bins_a_side",
    "cells_of",
    "law_of",
    "law_or_schema",
    "measure_of",
    "people_config",
    "people_kernel",
    "people_menu",
]

CELLS = 24
"""Bins of a continuous action, and of one context column; fewer where there are several."""

MOST_CONTEXT_CELLS = 600
"""Cells of all context columns together, where bins are chosen."""

ARM_CORRELATION = 0.05
"""Of two arms at one context: what is learned of them is how they differ. On tuning tables of two and three
columns .7 in its place earned .02 to .03 less."""

_TURNS = 1 << 12
"""Places of a cycle that are counted to find where its circle passes."""

MOST_CONTEXTS = 1 << 14
"""Cells of all context columns together, at most."""


def people_menu(
    contexts: Schema | ContextLaw | CellMeasure, *, arms: Sequence[Label] | None, actions: CellMeasure | None
) -> Menu | None:
    """The menu of people's contexts and arms, or None where there are actions.

    Raises:
        InvalidParameter: arguments that do not fit together.
    """
    if not isinstance(contexts, Schema) and arms is None:
        return None
    if actions is not None:
        raise InvalidParameter("pass arms= beside a Schema, or actions= beside a law: not both")
    if not isinstance(contexts, Schema):
        raise InvalidParameter("arms= needs contexts=Schema(...) beside it, a law of contexts actions=")
    if arms is None:
        raise InvalidParameter("contexts= needs arms= beside it")
    return Menu(contexts=contexts, arms=arms)


def cells_of(
    contexts: Schema | ContextLaw | CellMeasure,
    *,
    arms: Sequence[Label] | None,
    actions: CellMeasure | None,
    kernel: Kernel | None,
) -> tuple[Menu | None, ContextLaw, CellMeasure, Kernel]:
    """What a policy was told of contexts and actions, in cells: menu, law of contexts, actions and kernel.

    Raises:
        InvalidParameter: arguments of another kind, or that do not fit together.
    """
    menu = people_menu(contexts, arms=arms, actions=actions)
    if menu is not None:
        check_kinds(kernel=kernel, optional=("kernel",))
        return (
            menu,
            law_of(menu),
            measure_of(menu),
            kernel or people_kernel(menu, correlation=ARM_CORRELATION),
        )
    check_kinds(kernel=kernel, actions=actions)
    if kernel is None or actions is None:  # refused above; for type checkers
        raise InvalidParameter("kernel and actions are needed")
    if isinstance(contexts, Schema):  # refused by people_menu; for type checkers
        raise InvalidParameter("contexts= needs arms= beside it")
    return None, ContextLaw.of(contexts), actions, kernel


def law_or_schema(config: Mapping[str, Any]) -> ContextLaw | Schema:
    """What a configuration says of contexts."""
    return Schema.from_config(config) if config.get("type") == "Schema" else ContextLaw.from_config(config)


def people_config(config: dict[str, Any], menu: Menu | None) -> dict[str, Any]:
    """A policy's configuration, with the schema and the arms in place of what they stand for."""
    unused = "arms" if menu is None else "actions"
    schema = {} if menu is None else {"contexts": menu.contexts.to_config()}
    return {name: value for name, value in config.items() if name != unused} | schema


def bins_a_side(ranges: int, *, taken: int = 1) -> int:
    """Bins of each of several ranges beside `taken` cells of categories."""
    return max(2, min(CELLS, int((MOST_CONTEXT_CELLS / taken) ** (1.0 / max(1, ranges)))))


def law_of(menu: Menu) -> ContextLaw:
    """Cells of encoded contexts, all equally likely.

    Raises:
        InvalidParameter: more cells than are learned over.
    """
    columns, sizes = menu.contexts.columns.values(), list(menu.contexts.codes.values())
    ranges = menu.contexts.dim - len(sizes)
    side = bins_a_side(ranges, taken=min(MOST_CONTEXT_CELLS, math.prod(sizes)))
    cells = math.prod(sizes) * side**ranges
    if cells > MOST_CONTEXTS:
        raise InvalidParameter(
            f"contexts: {cells} cells of {len(columns)} columns, {MOST_CONTEXTS} can be learned over: pass "
            "fewer columns, or fewer categories"
        )
    parts = [
        CellMeasure.finite(np.arange(len(column.values), dtype=np.float64))
        if isinstance(column, Categories)
        else _cells_of_column(column, side)
        for column in columns
    ]
    return ContextLaw(CellMeasure.product(*parts), "uniform")


def _cells_of_column(column: Column, side: int) -> CellMeasure:
    """Equal bins of every coordinate: all equally likely, or as often as a circle passes through them."""
    line = CellMeasure.uniform(low=0.0, high=1.0, cells=side)
    if not isinstance(column, Cycle):
        return line
    square, turns = CellMeasure.product(line, line), np.linspace(0.0, 1.0, _TURNS, endpoint=False)
    circle = Cycle(1.0).points(turns)
    return square.with_weights(np.bincount(square.find(circle), minlength=square.size))


def measure_of(menu: Menu) -> CellMeasure:
    """The arms' codes, explored equally often."""
    return CellMeasure.finite(np.arange(menu.n_arms, dtype=np.float64))


def people_kernel(menu: Menu, *, correlation: float, lengthscale: float = LENGTHSCALE) -> Kernel:
    """Over (arm, context): similar contexts have similar rewards, and two arms at one context this much."""
    contexts = context_kernel(menu.contexts.domain, lengthscale=lengthscale, first=1)
    return Indicator(correlation=correlation, columns=(0,)) * contexts

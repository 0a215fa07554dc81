"""Conversion of `contexts=Schema(...)` and `arms=[...]` to cells, for `ExploreThenCommit`.

Every range of the schema, scaled to [0, 1], is divided into equal bins. Their number is chosen so that all
columns together have few cells. Every category is its own cell. The law of contexts is not known, and is
assumed to be uniform.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpbandits.central.arguments import check_kinds
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.domains import Arms, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.people import LENGTHSCALE, context_kernel
from dpbandits.models.kernels import Indicator, Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.tables import Actions, Categories, Cycle, Products, Schema
from dpbandits.tables.columns import Column
from dpbandits.tables.menu import Menu

__all__ = [
    "ARM_CORRELATION",
    "CELLS",
    "actions_in",
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
"""Number of bins of a continuous action, and of one context column; fewer if there are several columns."""

MOST_CONTEXT_CELLS = 600
"""Largest number of cells of all context columns together that the chosen number of bins gives."""

ARM_CORRELATION = 0.05
"""Prior correlation of two arms at one context. It is small because arms are compared with each other.

On tuning tables of two and three columns, a correlation of .7 earned .02 to .03 less.
"""

_TURNS = 1 << 12
"""Number of points on a cycle's circle from which the cells that the circle crosses are found."""

MOST_CONTEXTS = 1 << 14
"""Largest number of cells of all context columns together; more raise an error."""


def people_menu(
    contexts: Schema | ContextLaw | CellMeasure,
    *,
    arms: Sequence[Label] | Arms | Products | None,
    actions: Any = None,
    reward_range: RewardRange | None = None,
) -> Menu | None:
    """Return the menu of contexts and arms or a grid of actions, or None if actions are cells.

    Raises:
        InvalidParameter: Arguments do not fit together.
    """
    if isinstance(actions, Actions | Schema | Column):
        if arms is not None or not isinstance(contexts, Schema):
            raise InvalidParameter("pass actions=Range(...) beside contexts=Schema(...), and no arms=")
        return Menu(contexts=contexts, actions=Actions.of(actions), reward_range=reward_range)
    if not isinstance(contexts, Schema) and arms is None:
        return None
    if actions is not None:
        raise InvalidParameter("pass arms= beside a Schema, or actions= beside a law: not both")
    if not isinstance(contexts, Schema):
        raise InvalidParameter("pass arms= with contexts=Schema(...), or actions= with a law of contexts")
    if arms is None:
        raise InvalidParameter("contexts=Schema(...) needs arms= or actions=Range(...)")
    return Menu(contexts=contexts, arms=arms)


def cells_of(
    contexts: Schema | ContextLaw | CellMeasure,
    *,
    arms: Sequence[Label] | Products | None,
    actions: Any,
    kernel: Kernel | None,
) -> tuple[Menu | None, ContextLaw, CellMeasure, Kernel]:
    """Return menu, law of contexts, actions and kernel, in cells, from a policy's arguments.

    Raises:
        InvalidParameter: Arguments have another type, or do not fit together.
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
    if kernel is None or actions is None:  # check_kinds has raised; for type checkers
        raise InvalidParameter("kernel and actions are needed")
    if isinstance(contexts, Schema):  # people_menu has raised; for type checkers
        raise InvalidParameter("contexts=Schema(...) needs arms=")
    return None, ContextLaw.of(contexts), actions, kernel


def law_or_schema(config: Mapping[str, Any]) -> ContextLaw | Schema:
    """Return the contexts that a configuration holds: a `Schema` or a `ContextLaw`."""
    return Schema.from_config(config) if config.get("type") == "Schema" else ContextLaw.from_config(config)


def people_config(config: dict[str, Any], menu: Menu | None) -> dict[str, Any]:
    """Return a policy's configuration, with schema and arms instead of the cells made from them."""
    unused = "arms" if menu is None else "actions"
    schema = {} if menu is None else {"contexts": menu.contexts.to_config()}
    if menu is not None and menu.actions is not None:
        unused, schema = "arms", schema | {"actions": menu.actions.to_config()}
    if menu is not None and menu.products is not None:
        schema |= {"arms": menu.products.to_config()}
    return {name: value for name, value in config.items() if name != unused} | schema


def actions_in(config: Mapping[str, Any]) -> CellMeasure | Actions:
    """Return the actions of a configuration: a grid, which has a schema, or cells."""
    return Actions.from_config(config) if "schema" in config else CellMeasure.from_config(config)


def bins_a_side(ranges: int, *, taken: int = 1) -> int:
    """Return the number of bins of each of several ranges, if categories already give `taken` cells."""
    return max(2, min(CELLS, int((MOST_CONTEXT_CELLS / taken) ** (1.0 / max(1, ranges)))))


def law_of(menu: Menu) -> ContextLaw:
    """Return the uniform law on cells of encoded contexts.

    Raises:
        InvalidParameter: There are more than `MOST_CONTEXTS` cells.
    """
    columns, sizes = menu.contexts.columns.values(), list(menu.contexts.codes.values())
    ranges = menu.contexts.dim - len(sizes)
    side = bins_a_side(ranges, taken=min(MOST_CONTEXT_CELLS, math.prod(sizes)))
    cells = math.prod(sizes) * side**ranges
    if cells > MOST_CONTEXTS:
        raise InvalidParameter(
            f"contexts: {cells} cells of {len(columns)} columns, expected at most {MOST_CONTEXTS}: pass "
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
    """Return equal bins of a column's coordinates, weighted equally, or for a cycle by its circle."""
    line = CellMeasure.uniform(low=0.0, high=1.0, cells=side)
    if not isinstance(column, Cycle):
        return line
    square, turns = CellMeasure.product(line, line), np.linspace(0.0, 1.0, _TURNS, endpoint=False)
    circle = Cycle(1.0).points(turns)
    return square.with_weights(np.bincount(square.find(circle), minlength=square.size))


def measure_of(menu: Menu) -> CellMeasure:
    """Return the codes of arms or actions, explored equally often."""
    return CellMeasure.finite(np.arange(menu.n_arms, dtype=np.float64))


def people_kernel(menu: Menu, *, correlation: float, lengthscale: float = LENGTHSCALE) -> Kernel:
    """Return a kernel over (arm, context): smooth in contexts, with the given correlation between arms."""
    contexts = context_kernel(menu.contexts.domain, lengthscale=lengthscale, first=1)
    return Indicator(correlation=correlation, columns=(0,)) * contexts

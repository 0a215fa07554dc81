"""Named bounds of an action: the values that a user with a context may get.

A bound is called with the context columns by name, arrays (n,), and returns {"price": (low, high)} with
arrays (n,). A function of your own does so as well, but only named bounds can be saved, sent to a service or
exported.

    Within("price", low=5, high=20)
    Within("price", low=Linear("income", at_zero=5, slope=10))
    Within("price", high=ByCategory("segment", {"new": 12, "old": 20}))
    Both(Within("price", ...), Within("discount", ...))

Named bounds are checked for every possible context when a policy is built, so that they fail for none.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpbandits._checks import LARGEST, an, assign, number
from dpbandits._config import Configured, Registry
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.tables.columns import Categories, Column, Range

__all__ = ["BOUNDS", "Both", "ByCategory", "Linear", "Within", "checked_bounds", "limits"]

BOUNDS: Registry[Any] = Registry("bounds of actions")
"""Registry of bounds and of their ends."""


def _finite(value: Any, name: str) -> float:
    return number(value, name=name, minimum=-LARGEST, exclusive=False, maximum=LARGEST)


@BOUNDS.add("Linear")
@dataclass(frozen=True)
class Linear(Configured):
    """An end of bounds that is linear in a range of the context: at_zero + slope x column.

    Args:
        column: Name of the context column, a `Range`.
        at_zero: End where the column is zero.
        slope: Change of the end per unit of the column.
    """

    column: str
    at_zero: float
    slope: float

    def __post_init__(self) -> None:
        an(self.column, str, name="column", pass_='column="income"')
        for name in ("at_zero", "slope"):
            assign(self, **{name: _finite(getattr(self, name), name)})

    def __call__(self, people: Mapping[str, Any]) -> FloatArray:
        """Return the end (n,) for n users."""
        return np.asarray(self.at_zero + self.slope * people[self.column])

    def exported(self, place: int, column: Column) -> dict[str, Any]:
        """Return the end as fields of an exported policy; its context column has the number `place`."""
        return {"column": place, "at_zero": self.at_zero, "slope": self.slope}


@BOUNDS.add("ByCategory", ends=lambda told: dict(tuple(pair) for pair in told))
@dataclass(frozen=True)
class ByCategory(Configured):
    """An end of bounds for every category of a context column.

    Args:
        column: Name of the context column, with `Categories`.
        ends: End for every category.
    """

    column: str
    ends: Mapping[Any, float]

    def __post_init__(self) -> None:
        an(self.column, str, name="column", pass_='column="segment"')
        given: Any = self.ends
        if not isinstance(given, Mapping) or not given:
            raise InvalidParameter('ends: expected a number for every category, as {"new": 12, "old": 20}')
        assign(self, ends={one: _finite(end, "ends") for one, end in self.ends.items()})

    def __call__(self, people: Mapping[str, Any]) -> FloatArray:
        """Return the end (n,) for n users."""
        told = np.asarray(people[self.column])
        found = np.full(len(told), np.nan)
        for one, end in self.ends.items():
            found[told == one] = end
        return found

    def to_config(self) -> dict[str, Any]:
        """Return the end as JSON, with pairs of a category and a number."""
        return super().to_config() | {"ends": [[one, end] for one, end in self.ends.items()]}

    def exported(self, place: int, column: Column) -> dict[str, Any]:
        """Return the end as fields of an exported policy; its context column has the number `place`."""
        return {"column": place, "ends": [self.ends[one] for one in column.values]}  # type: ignore[attr-defined]


def _end(told: Any) -> Any:
    return BOUNDS.read(told) if isinstance(told, Mapping) else told


@BOUNDS.add("Within", low=_end, high=_end)
@dataclass(frozen=True)
class Within(Configured):
    """Bounds of one column of actions.

    Args:
        action: Name of the action column.
        low, high: Ends: numbers, `Linear` or `ByCategory`. Default: the end of the grid.

    Raises:
        InvalidParameter: An end is anything else.

    Example:
        >>> found = Within("price", low=5, high=Linear("income", 5, 10))({"income": np.array([0.0, 1.0])})
        >>> [end.tolist() for end in found["price"]]
        [[5.0, 5.0], [5.0, 15.0]]
    """

    action: str
    low: float | Linear | ByCategory = -LARGEST
    high: float | Linear | ByCategory = LARGEST

    def __post_init__(self) -> None:
        an(self.action, str, name="action", pass_='Within("price", low=5)')
        for name in ("low", "high"):
            end = getattr(self, name)
            if not isinstance(end, Linear | ByCategory):
                assign(self, **{name: _finite(end, name)})

    @property
    def parts(self) -> tuple["Within", ...]:
        """This one."""
        return (self,)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the context columns on which the ends depend."""
        return frozenset(end.column for end in (self.low, self.high) if isinstance(end, Linear | ByCategory))

    def __call__(self, people: Mapping[str, Any]) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return the lower and upper bound (n,) of the column, by its name."""
        low, high = self.ends(people)
        return {self.action: (low, np.maximum(low, high))}  # rounding may exchange equal ends

    def ends(self, people: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
        """Return both ends (n,) as they are declared."""
        ends = (end(people) if callable(end) else np.asarray(end) for end in (self.low, self.high))
        low, high = np.broadcast_arrays(*ends)
        return low, high


@BOUNDS.add("Both", parts=BOUNDS.read_all)
@dataclass(frozen=True)
class Both(Configured):
    """Bounds of several columns of actions.

    Args:
        parts: Bounds of each column.

    Raises:
        InvalidParameter: A part is not `Within`, or two have the same column.
    """

    parts: tuple[Within, ...]

    def __post_init__(self) -> None:
        given: Any = self.parts
        parts = tuple(given) if isinstance(given, tuple | list) else ()
        names = [one.action for one in parts if isinstance(one, Within)]
        if not parts or len(set(names)) < len(parts):
            raise InvalidParameter("parts: expected a list of Within(...) of different columns")
        assign(self, parts=parts)

    @cached_property
    def reads(self) -> frozenset[str]:
        """Names of the context columns on which the ends depend."""
        return frozenset().union(*(one.reads for one in self.parts))

    def __call__(self, people: Mapping[str, Any]) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return the lower and upper bound (n,) of every column, by name."""
        return {name: ends for one in self.parts for name, ends in one(people).items()}


def checked_bounds(bounds: Within | Both, contexts: Mapping[str, Column]) -> None:
    """Check named bounds for every possible context.

    Both ends are linear in a range and constant for a category. So it suffices to compare them at the ends of
    ranges and in every category.

    Raises:
        InvalidParameter: A context column is missing or of another type, a category has no end, or the lower
            bound exceeds the upper one somewhere.
    """
    for one in bounds.parts:
        corners: dict[str, list[Any]] = {}
        for end in (one.low, one.high):
            if isinstance(end, Linear | ByCategory):
                corners[end.column] = _corners(end, contexts.get(end.column))
        rows = list(itertools.product(*corners.values()))
        people = {name: np.array([row[j] for row in rows]) for j, name in enumerate(corners)}
        low, high = one.ends(people)
        if not np.all(low <= high):
            raise InvalidParameter(f"bounds: low exceeds high for some contexts, for {one.action!r}")


def _corners(end: Linear | ByCategory, column: Column | None) -> list[Any]:
    """Return the values of a context column at which an end has its extremes."""
    if isinstance(end, Linear) and isinstance(column, Range):
        return [column.low, column.high]
    if isinstance(end, ByCategory) and isinstance(column, Categories):
        if set(end.ends) != set(column.values):
            raise InvalidParameter(f"bounds: expected one end for each category of {end.column!r}")
        return list(column.values)
    wanted = "Range" if isinstance(end, Linear) else "Categories"
    raise InvalidParameter(f"bounds: there is no context column {end.column!r} with {wanted}")


def limits(bounds: Within | Both, contexts: Mapping[str, Column]) -> dict[str, dict[str, Any]]:
    """Return the ends of every bounded column as fields of an exported policy: numbers, or as `exported`."""
    names = list(contexts)

    def told(end: float | Linear | ByCategory) -> Any:
        if isinstance(end, Linear | ByCategory):
            return end.exported(names.index(end.column), contexts[end.column])
        return end

    return {one.action: {"low": told(one.low), "high": told(one.high)} for one in bounds.parts}

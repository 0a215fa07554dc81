"""SqlLevels of contexts, codes of arms and steps of actions, as expressions of cells."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dpbandits._cells import EXACT, MISSING, SOFT, as_objects, cell_value
from dpbandits.domains.arms import Arms
from dpbandits.errors import InvalidParameter
from dpbandits.tables.actions import ON_STEP, Actions
from dpbandits.tables.columns import Categories, Column, Ordered, Range
from dpbandits.tables.sql.cells import FARTHEST, LARGEST_BOUND, Reading, SqlCell
from dpbandits.tables.sql.dialects import double

__all__ = ["Level", "SqlLevels", "first_reaching", "least"]

Level = int | None
"""Level of a cell; None if the cell cannot be read."""


def least(reached: Callable[[float], bool], low: float, high: float) -> float:
    """Return the first double in (low, high] at which `reached` holds.

    `reached` must be monotone and hold at `high`.
    """
    while True:
        middle = low + 0.5 * (high - low)
        if not low < middle < high:
            return high
        low, high = (low, middle) if reached(middle) else (middle, high)


def first_reaching(share: float, low: float, high: float) -> float:
    """Return the first number of a range from `low` to `high` whose share of it is at least `share`."""
    return least(lambda x: (x - low) / (high - low) >= share, low, high)


@dataclass(frozen=True)
class SqlLevels:
    """Public map from a cell to a level, which is an integer.

    Attributes:
        missing: Level of a missing cell.
        words: SqlLevels of categories that are spelled like a missing value, by word in lower case.
        texts: SqlLevels of categories that are texts.
        numbers: SqlLevels of categories that are numbers.
        other: Level of a category that is not listed. For a range, level of its low end.
        ends: Low and high end of a range; () for categories.
        cuts: Numbers of a range in increasing order, and the level that begins at each.
        outside: SqlLevels of numbers below and above the range.
    """

    missing: Level
    words: dict[str, Level] = field(default_factory=dict)
    texts: dict[str, Level] = field(default_factory=dict)
    numbers: dict[float, Level] = field(default_factory=dict)
    other: Level = None
    ends: tuple[float, ...] = ()
    cuts: Sequence[tuple[float, Level]] = ()
    outside: tuple[Level, Level] = (None, None)

    @classmethod
    def of(cls, column: Column, edges: Sequence[float], name: str, *, coded: bool = True) -> "SqlLevels":
        """Return the levels of a column of contexts.

        Args:
            column: Column with one coordinate.
            edges: Coordinates at which the levels 1, 2, ... begin.
            name: Name of the column, for errors.
            coded: True if the coordinate of a category is its code; False if it is the middle of one of K
                equal parts of [0, 1].

        Raises:
            InvalidParameter: A category is a date, a time or 2^53, a bound is beyond `LARGEST_BOUND`, or
                columns of this type have no levels in SQL.
        """
        if isinstance(column, Categories):

            def level(cell: Any) -> Level:
                [point] = column.points(as_objects([cell])).tolist()
                point = point if coded else (point + 0.5) / len(column.values)
                return None if math.isnan(point) else bisect_right(edges, point)

            return cls._listed(column.values, level, name)
        if not isinstance(column, Range):
            raise InvalidParameter(f"column {name!r} is a {type(column).__name__}, which is not read in SQL")
        low, high = _ends(column, name)
        if not all(0.0 < edge <= 1.0 for edge in edges):
            raise InvalidParameter("edges: expected shares of a range, above 0")
        return cls._ranged(
            column,
            [(first_reaching(edge, low, high), place) for place, edge in enumerate(edges, 1)],
            lambda share: bisect_right(edges, share),
        )

    @classmethod
    def of_arms(cls, arms: Arms, name: str) -> "SqlLevels":
        """Return the codes of arms by their labels. The errors are those of `of`."""
        return cls._listed(arms.labels, lambda cell: _code(arms.code(cell)), name)

    @classmethod
    def of_actions(cls, actions: Actions, *, between: bool) -> dict[str, "SqlLevels"]:
        """Return the steps of a logged action by column; see `Actions.located`. The errors are those of `of`.

        Args:
            actions: Grid of actions.
            between: True if a number between two steps of a range counts as the nearer step.
        """
        sized = zip(actions.schema.columns.items(), actions.sizes, strict=True)
        return {name: cls._of_steps(column, size, name, between=between) for (name, column), size in sized}

    @classmethod
    def _of_steps(cls, column: Column, size: int, name: str, *, between: bool) -> "SqlLevels":
        if isinstance(column, Categories):
            codes = column.codes
            return cls._listed(column.values, lambda cell: _code(int(codes(as_objects([cell]))[0])), name)
        if isinstance(column, Ordered):
            if max(map(abs, column.values)) > LARGEST_BOUND:
                raise _too_large(name)
            return cls(missing=None, numbers={float(value): at for at, value in enumerate(column.values)})
        if not isinstance(column, Range):
            raise InvalidParameter(f"column {name!r} is a {type(column).__name__}, which is not read in SQL")
        low, high = _ends(column, name)
        last = size - 1

        def place(number: float) -> float:
            return (number - low) / (high - low) * last

        def step(share: float) -> Level:
            found = share * last
            near = math.floor(found + 0.5)
            return near if between or abs(found - near) <= ON_STEP * last else None

        def after(step: int) -> Callable[[float], bool]:
            return lambda number: place(number) - step > ON_STEP * last

        def begun(step: int) -> Callable[[float], bool]:
            if between:
                return lambda number: math.floor(place(number) + 0.5) >= step
            return lambda number: place(number) - step >= -ON_STEP * last

        cuts: list[tuple[float, Level]] = []
        for at in range(1, size):
            cuts += [] if between else [(least(after(at - 1), low, high), None)]
            cuts.append((least(begun(at), low, high), at))
        return cls._ranged(column, cuts, step)

    @classmethod
    def _ranged(
        cls, column: Range, cuts: Sequence[tuple[float, Level]], level: Callable[[float], Level]
    ) -> "SqlLevels":
        """Return the levels of a range, which begin at these numbers; `level` is that of a share."""

        def of(cell: Any) -> Level:
            [share] = column.points(as_objects([cell])).tolist()
            return None if math.isnan(share) else level(share)

        low, high = column.low, column.high
        outside = (of(low), of(high)) if column.clip else (None, None)
        return cls(missing=of(None), other=of(low), ends=(low, high), cuts=cuts, outside=outside)

    @classmethod
    def _listed(cls, values: Iterable[Any], level: Callable[[Any], Level], name: str) -> "SqlLevels":
        """Return the levels of listed values; `level` is that of a cell."""
        values = list(values)
        found = {cell_value(value): level(value) for value in values}
        texts = {value: at for value, at in found.items() if isinstance(value, str)}
        numbers: dict[float, Level] = {v: at for v, at in found.items() if isinstance(v, int | float)}
        if len(texts) + len(numbers) + (None in found) < len(found) or EXACT in map(abs, numbers):
            raise InvalidParameter(f"column {name!r} has a category that is a date, a time or 2^53")
        return cls(
            missing=level(None),
            words={text: at for text, at in texts.items() if text in SOFT},
            texts={text: at for text, at in texts.items() if text not in SOFT},
            numbers=numbers,
            other=level("\0"),
        )

    def reading(self, cell: SqlCell) -> Reading:
        """Return the reading of a cell as its level; NULL for a cell that cannot be read."""
        number = bool(self.ends or self.numbers) or cell.kind != "text"
        return cell.reading(self._expression(cell), text=bool(self.texts), number=number)

    def _expression(self, cell: SqlCell) -> str:
        number, literal = cell.number, cell.engine.literal
        missing = MISSING | {"+nan"} if self.ends else MISSING
        cases: list[tuple[str, Level]] = []
        if cell.kind == "text":
            cases += [(f"{cell.word} = {literal(word)}", at) for word, at in self.words.items()]
        cases.append((cell.missing(missing), self.missing))
        if self.ends:
            low, high = map(double, self.ends)
            cases += [(f"{number} IS NULL OR abs({number}) > {double(FARTHEST)}", None)]
            cases += [(f"{number} < {low}", self.outside[0]), (f"{number} > {high}", self.outside[1])]
            otherwise = _ladder(number, self.other, self.cuts)
        else:
            if cell.kind == "text":
                cases += [
                    (f"{cell.text} = {cell.engine.literal(text)}", at) for text, at in self.texts.items()
                ]
            cases += [(f"{number} = {double(value)}", at) for value, at in self.numbers.items()]
            otherwise = _level(self.other)
        listed = " ".join(f"WHEN {case} THEN {_level(at)}" for case, at in cases)
        return f"CASE {listed} ELSE {otherwise} END"


def _ends(column: Range, name: str) -> tuple[float, float]:
    if max(-column.low, column.high) > LARGEST_BOUND:
        raise _too_large(name)
    return column.low, column.high


def _too_large(name: str) -> InvalidParameter:
    return InvalidParameter(f"column {name!r} has a bound beyond {LARGEST_BOUND:g} in size")


def _code(code: int) -> Level:
    return None if code < 0 else code


def _level(at: Level) -> str:
    return "CAST(NULL AS integer)" if at is None else str(at)


def _ladder(number: str, base: Level, cuts: Sequence[tuple[float, Level]]) -> str:
    """Return the expression of the level of a number, by binary search among the cuts."""
    if not cuts:
        return _level(base)
    half = len(cuts) // 2
    cut, level = cuts[half]
    above, below = _ladder(number, level, cuts[half + 1 :]), _ladder(number, base, cuts[:half])
    return f"CASE WHEN {number} >= {double(cut)} THEN {above} ELSE {below} END"

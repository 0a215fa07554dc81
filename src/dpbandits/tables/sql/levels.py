"""Levels of contexts, codes of arms and steps of actions, as expressions of cells."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._cells import EXACT, MISSING, SOFT, as_objects, cell_value
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains.arms import Arms
from dpbandits.errors import InvalidParameter
from dpbandits.tables.actions import ON_STEP, Actions
from dpbandits.tables.columns import Categories, Column, Ordered, Range
from dpbandits.tables.dates import Cycle, DateRange
from dpbandits.tables.sql.cells import FARTHEST, LARGEST_BOUND, Reading, SqlCell
from dpbandits.tables.sql.dialects import double
from dpbandits.tables.sql.times import DAY, PERIODS, moment, place, place_reading, time_reading

__all__ = ["Level", "SqlLevels", "first_reaching", "least"]

Level = int | None
"""Level of a cell; None if the cell cannot be read."""

_NEAR = 1 << 12
"""Number of places on each side of an angle among which a level of a cycle may change."""


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
        along: Meaning of the cuts. "values" has none, "numbers" are those of a range, and "times" are
            microseconds since 1970. With the name of a period they are microseconds from its beginning. With
            the length of a period they are shares of it.
        words: Levels of values that are spelled like a missing value, by word in lower case.
        texts: Levels of values that are texts.
        numbers: Levels of values that are numbers.
        base: Level of a value that is not listed, and of a number below the first cut.
        cuts: Numbers in increasing order, and the level that begins at each.
    """

    missing: Level
    along: str | float = "values"
    words: dict[str, Level] = field(default_factory=dict)
    texts: dict[str, Level] = field(default_factory=dict)
    numbers: dict[float, Level] = field(default_factory=dict)
    base: Level = None
    cuts: Sequence[tuple[float, Level]] = ()

    @classmethod
    def of(cls, column: Column, edges: Sequence[float], name: str, *, coded: bool = True) -> "SqlLevels":
        """Return the levels of a column of contexts with one coordinate.

        Args:
            column: Column.
            edges: Coordinates at which the levels 1, 2, ... begin.
            name: Name of the column, for errors.
            coded: True if the coordinate of a category is its code; False if it is the middle of one of K
                equal parts of [0, 1].

        Raises:
            InvalidParameter: A category is a date, a time or 2^53, a bound is beyond `LARGEST_BOUND`, or the
                column is `Ordered` or a `Cycle`.
        """
        if isinstance(column, Categories):

            def level(cell: Any) -> Level:
                [point] = column.point(cell)
                point = point if coded else (point + 0.5) / len(column.values)
                return None if math.isnan(point) else bisect_right(edges, point)

            return cls._listed(column.values, level, name)
        if not all(0.0 < edge <= 1.0 for edge in edges):
            raise InvalidParameter("edges: expected shares of a range, above 0")

        def at(share: float) -> int:
            return bisect_right(edges, share)

        if isinstance(column, DateRange):
            return cls._of_times(column, edges, at)
        if not isinstance(column, Range):
            raise InvalidParameter(f"column {name!r} is a {type(column).__name__}, which is not read in SQL")
        low, high = _ends(column, name)
        cuts = [(first_reaching(edge, low, high), place) for place, edge in enumerate(edges, 1)]
        return cls._ranged(column, cuts, at)

    @classmethod
    def _of_times(cls, column: DateRange, edges: Sequence[float], at: Callable[[float], int]) -> "SqlLevels":
        """Return the levels of a range of times. They begin at whole microseconds."""
        first, last = column.ends()

        def reached(edge: float) -> int:
            low, high = first, last
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if _share(middle, first, last) >= edge else (middle + 1, high)
            return low

        def of(cell: Any) -> Level:
            [share] = column.point(cell)
            return None if math.isnan(share) else at(share)

        whole_day = not isinstance(column.last, datetime)
        beyond = last if whole_day else last + 1
        while not whole_day and _share(beyond, first, last) <= 1.0:  # rounding takes it for the end
            beyond += 1
        cuts = [(first, 0), *((reached(edge), place) for place, edge in enumerate(edges, 1))]
        cuts = [cut for cut in cuts if cut[0] < beyond]
        below, above = (0, at(1.0)) if column.clip else (None, None)
        return cls(missing=of(None), along="times", base=below, cuts=[*cuts, (beyond, above)])

    @classmethod
    def of_cycle(cls, column: Cycle, edges: Sequence[Sequence[float]], name: str) -> list["SqlLevels"]:
        """Return the levels of the two coordinates of a cycle.

        Args:
            column: Column.
            edges: For each coordinate, the coordinates in (0, 1) at which the levels 1, 2, ... begin.
            name: Name of the column, for errors.

        Raises:
            InvalidParameter: An edge is not in (0, 1).
        """
        if len(edges) != 2 or not all(0.0 < edge < 1.0 for own in edges for edge in own):
            raise InvalidParameter(f"column {name!r}: expected edges in (0, 1) of two coordinates")
        return [cls._of_coordinate(column, place, np.array(own)) for place, own in enumerate(edges)]

    @classmethod
    def _of_coordinate(cls, column: Cycle, coordinate: int, edges: FloatArray) -> "SqlLevels":
        """Return the levels of one coordinate: they change near the angles at which it equals an edge."""
        named = isinstance(column.period, str)

        def levels(places: Any) -> IntArray:
            shares = column.shares(places) if named else places
            return np.searchsorted(edges, column.circle(shares)[:, coordinate], side="right")

        swing = 2.0 * edges - 1.0
        found = np.arccos(swing) if coordinate == 0 else np.arcsin(swing)
        angles = np.concatenate([found, -found if coordinate == 0 else math.pi - found]) % (2.0 * math.pi)
        shares = np.sort(np.append(angles / (2.0 * math.pi), 1.0))
        cuts: list[tuple[float, Level]] = []
        begun = np.zeros(1, dtype=np.int64 if named else np.float64)
        base = last = int(levels(begun)[0])
        for places in _near(shares, column):
            for start, level in zip(places.tolist(), levels(places).tolist(), strict=True):
                if level != last and (not cuts or start > cuts[-1][0]):
                    cuts.append((start, level))
                    last = level
        point = column.point(None)[coordinate]
        missing = None if math.isnan(point) else int(np.searchsorted(edges, point, side="right"))
        return cls(missing=missing, along=column.period, base=base, cuts=cuts)

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
            [share] = column.point(cell)
            return None if math.isnan(share) else level(share)

        low, high = column.low, column.high
        below, above = (of(low), of(high)) if column.clip else (None, None)
        cuts = [(low, of(low)), *cuts, (math.nextafter(high, math.inf), above)]
        return cls(missing=of(None), along="numbers", base=below, cuts=cuts)

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
            base=level("\0"),
        )

    def reading(self, cell: SqlCell) -> Reading:
        """Return the reading of a cell as its level; NULL for a cell that cannot be read."""
        number, literal = cell.number, cell.engine.literal
        if self.along == "values":
            cases = [(cell.missing(), self.missing)]
            if cell.kind == "text":
                words = [(f"{cell.word} = {literal(word)}", at) for word, at in self.words.items()]
                cases = [*words, *cases]
                cases += [(f"{cell.text} = {literal(text)}", at) for text, at in self.texts.items()]
            cases += [(f"{number} = {double(value)}", at) for value, at in self.numbers.items()]
            typed = bool(self.numbers) or cell.kind != "text"
            known = {text: str(at) for text, at in (self.texts | self.words).items() if at is not None}
            value = _cases(cases, _level(self.base))
            return cell.reading(value, text=bool(self.texts), number=typed, known=known)
        if self.along == "numbers":
            unreadable = f"{number} IS NULL OR abs({number}) > {double(FARTHEST)}"
            cases = [(cell.missing(MISSING | {"+nan"}), self.missing), (unreadable, None)]
            return cell.reading(_cases(cases, _ladder(number, self.base, self.cuts)))
        if isinstance(self.along, float):
            share = f"dpb_u{cell.place}"
            cases = [(cell.missing(MISSING | {"+nan"}), self.missing), (f"{share} IS NULL", None)]
            found = cell.reading(_cases(cases, _ladder(share, self.base, self.cuts)))
            return Reading((*found.layers, {share: _share_of_period(number, self.along)}), found.value)
        at = moment(cell) if self.along == "times" else place(cell)
        cases = [(cell.missing(), self.missing), (f"{at} IS NULL", None)]
        value = _cases(cases, _ladder(at, self.base, self.cuts))
        return time_reading(cell, value) if self.along == "times" else place_reading(cell, self.along, value)


def _cases(cases: Iterable[tuple[str, Level]], otherwise: str) -> str:
    listed = " ".join(f"WHEN {case} THEN {_level(at)}" for case, at in cases)
    return f"CASE {listed} ELSE {otherwise} END"


def _share_of_period(number: str, length: float) -> str:
    """Return the expression of the share in [0, 1] of a period of this length that a number has passed.

    It is NULL if the number is missing, or if number/length is infinite. A quotient is computed only if it is
    neither infinite nor rounded to zero, for which PostgreSQL raises an error.
    """
    nothing = least(lambda x: x / length != 0.0, 0.0, 1.0 + length)
    end = math.inf if length >= 1.0 else least(lambda x: math.isinf(x / length), 1.0, FARTHEST)
    known = f"abs({number}) <= {double(math.nextafter(end, 0.0))}"
    passed = f"{number} / {double(length)}"
    whole = f"{known} AND abs({passed}) >= {EXACT}"  # Spark's floor is an integer
    return (
        f"CASE WHEN abs({number}) < {double(nothing)} THEN 0e0 WHEN {whole} THEN 0e0 "
        f"WHEN {known} THEN {passed} - floor({passed}) END"
    )


def _near(shares: FloatArray, column: Cycle) -> Iterable[NDArray[Any]]:
    """Yield places next to these shares of a period, in increasing order.

    They are microseconds of a named period, and else shares. A level of the cycle changes at such places
    only: rounding moves it by less than they cover.
    """
    steps = np.arange(-_NEAR, _NEAR)
    if not isinstance(column.period, str):
        for share in shares:
            bits = np.array([share]).view(np.int64) + steps
            yield bits[(bits >= 0) & (bits <= np.ones(1).view(np.int64))].view(np.float64)
        return
    most, unit = PERIODS[column.period], DAY / 24 if column.period == "day" else DAY
    for share in [*shares, *(shares + 1.0)]:
        places = round(share * column.length * unit) + steps
        yield places[(places >= 0) & (places < most)]


def _share(moment: int, first: int, last: int) -> float:
    """Return the share of a range of times, in microseconds, as `DateRange` computes it."""
    return float(moment - first) / float(last - first)


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
    literal = str(cut) if isinstance(cut, int) else double(cut)
    above, below = _ladder(number, level, cuts[half + 1 :]), _ladder(number, base, cuts[:half])
    return f"CASE WHEN {number} >= {literal} THEN {above} ELSE {below} END"

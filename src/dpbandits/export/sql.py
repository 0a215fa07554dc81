"""Published policies as SQL: a database decides for every row of a table, without this library.

`to_sql` writes one SELECT statement from the text of `to_decisions()`. Layers of subqueries turn each cell
into a text, a number, a level and scores. A term of the policy, such as the joint effect of two columns, is a
constant array that is looked up by level. The statement holds only what the published policy holds.

Each cell is cast to text and read by the rules of `dpbandits._cells`. No cell makes the statement fail: a
pattern decides whether a text is a number, and PostgreSQL, which has no TRY_CAST, casts only numbers in the
range of a double. The text is built here without a library for SQL: the two dialects differ in a few words.
"""

import math
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Context, Decimal
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Literal

import numpy as np

from dpbandits._calls import worded
from dpbandits._cells import EXACT, LONGEST_NUMBER, MISSING, SOFT, as_objects, cell_value
from dpbandits._checks import one_of
from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.export.decisions import effect_groups, effect_table, first_reaching, read
from dpbandits.models.ties import TIE
from dpbandits.tables.columns import COLUMNS, Column, Range

__all__ = ["Dialect", "to_sql"]

Dialect = Literal["duckdb", "postgres"]

MOST_NUMBERS = 1 << 21
"""Largest number of scores in a statement. Each takes about 20 characters."""

LARGEST_BOUND = 1e18
"""Largest size of a bound of a range; `_BEYOND` is larger."""

_BEYOND = 1.2e18
"""Number for a cell with 16 to 256 hexadecimal digits: it lies above every bound."""

_SPACES = " || ".join(f"chr({place})" for place in range(0x3001) if chr(place).isspace())
"""Expression of the characters that Python strips from a text."""

_DIGITS = "[0-9](?:_?[0-9])*"
_NUMBER = rf"[+-]?(?:{_DIGITS}[.]?(?:{_DIGITS})?|[.]{_DIGITS})(?:e[+-]?{_DIGITS})?"
"""Pattern of the texts in lower case that Python reads as numbers, except infinity, NaN and hexadecimals."""

_HEX = "0x(?:_?[0-9a-f])+"
_FENCE = " OFFSET 0"
"""End of a subquery.

Without it an engine puts the subquery's expressions wherever they are used, and each layer multiplies the
size of the plan.
"""

_INFINITE = 2**1024 - 2**970
"""Least size of a number that is rounded to infinity."""

_NOTHING = Context(prec=40, rounding=ROUND_UP).divide(Decimal(1), Decimal(2**1075))
"""Largest size of a number that is rounded to zero."""


def _quoted(text: Any, sign: str = "'") -> str:
    """Return a text as a literal, or a name with `sign` the double quote."""
    if not isinstance(text, str) or "\0" in text:
        raise InvalidParameter("to_sql: names, arms and categories are texts without null characters")
    return sign + text.replace(sign, 2 * sign) + sign


def _name(text: Any) -> str:
    return _quoted(text, '"')


def _double(number: float) -> str:
    """Return a literal that both engines read as this double. Without an exponent it is a decimal."""
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


@dataclass(frozen=True)
class _Engine:
    """Words in which the dialects differ, as templates.

    Attributes:
        text: Expression of a cell as text.
        matches: Condition that a text matches a whole pattern.
        decimal: Expression of the number in a text that matches `_NUMBER`; NULL or infinity if it is too
            large.
        hexadecimal: Expression of the number in up to 15 hexadecimal digits.
        array: Constant array of numbers.
        row: All columns of the table from one value that the subqueries pass on.
    """

    text: str
    matches: str
    decimal: str
    hexadecimal: str
    array: str
    row: str

    def number(self, word: str) -> str:
        """Return the expression of the number in a text in lower case; NULL if it is none."""
        plain = f"replace({word}, '_', '')"
        digits = f"ltrim(substr({plain}, 3), '0')"
        hexadecimal = self.hexadecimal.format(digits)
        return (
            f"CASE WHEN length({word}) > {LONGEST_NUMBER} THEN NULL "
            f"WHEN {self.matches.format(word, _NUMBER)} THEN {self.decimal.format(plain)} "
            f"WHEN {word} = 'true' THEN 1e0 WHEN {word} = 'false' THEN 0e0 "
            f"WHEN {self.matches.format(word, _HEX)} THEN CASE WHEN length({digits}) <= 15 "
            f"THEN {hexadecimal} WHEN length({digits}) <= 256 THEN {_double(_BEYOND)} END END"
        )


_ENGINES: dict[str, _Engine] = {
    "duckdb": _Engine(
        text="CAST({} AS VARCHAR)",
        matches="regexp_full_match({}, '{}')",
        decimal="TRY_CAST({} AS DOUBLE)",
        hexadecimal="TRY_CAST(TRY_CAST('0x0' || {} AS BIGINT) AS DOUBLE)",
        array="CAST('[{}]' AS {}[])",
        row="dpb_row.*",
    ),
    # The first branch of `decimal` reads numbers below 1e200 that are above 1e-198 or zero. The last two read
    # numbers with an exponent of at most four digits exactly before they are rounded.
    "postgres": _Engine(
        text='(CAST({} AS text) COLLATE "C")',
        matches="{} ~ '^(?:{})$'",
        decimal="CASE WHEN length({0}) <= 100 AND {0} !~ 'e[+-]?[0-9]{{3}}' "
        "THEN CAST({0} AS double precision) "
        "WHEN {0} ~ 'e[+-]?0*[1-9][0-9]{{4}}' THEN CASE WHEN {0} ~ '^[+-]?[0.]+e|e-' THEN 0e0 END "
        f"WHEN abs(CAST({{0}} AS numeric)) >= {_INFINITE} THEN NULL "
        f"WHEN abs(CAST({{0}} AS numeric)) <= {_NOTHING} THEN 0e0 "
        "ELSE CAST({0} AS double precision) END",
        hexadecimal="CAST(CAST(CAST('x' || lpad({}, 16, '0') AS bit(64)) AS bigint) AS double precision)",
        array="(CAST('{{{}}}' AS {}[]))",
        row="(dpb_row).*",
    ),
}


@worded
def to_sql(
    text: str,
    dialect: Dialect,
    *,
    table: str = "people",
    decision: str = "decision",
    fallback: Any = None,
) -> str:
    """Return a SELECT statement that gives every row of a table the arm that `recommend` gives its context.

    The statement returns all columns of the table and the arm. Columns that the policy does not use may have
    any name that does not begin with `dpb_`, and that the database tells apart from the policy's: DuckDB
    ignores case.

    Args:
        text: Result of `to_decisions()` of a function of contexts and arms.
        dialect: "duckdb", or "postgres" for PostgreSQL 15 or newer with texts in UTF-8.
        table: Name of the table or view with a column for every column of the policy.
        decision: Name of the column of arms in the result.
        fallback: Arm of a person whose context cannot be read. The default is NULL.

    Raises:
        CorruptState: The text is no exported policy.
        InvalidParameter: The policy chooses numbers, its scores are not sums of effects or constant on cells,
            it has more than `MOST_NUMBERS` scores, arms are of several types, or a category is spelled like a
            date. The database takes two names for the same.

    Privacy:
        The statement is computed from the published policy and the names alone.
    """
    engine = _ENGINES[one_of(dialect, tuple(_ENGINES), name="dialect")]
    source, into = _name(table), _name(decision)
    policy = read(text)
    rule, arms = policy["rule"], policy["arms"]
    if rule["type"] not in ("effects", "cells") or "value" in policy:
        raise InvalidParameter(
            "to_sql: expected a policy with arms, whose scores are sums of effects or constant on cells: "
            "decide by its JSON"
        )
    *labels, otherwise = _labels(arms, fallback)
    with reading("a policy with columns by name"):
        told = zip(policy["columns"], rule["edges"], strict=True)
        columns = [_Column.of(place, column, edges) for place, (column, edges) in enumerate(told)]
    names = [decision, *(column["name"] for column in policy["columns"])]
    if len({_compared(name, dialect) for name in names}) < len(names):
        raise InvalidParameter(
            "to_sql: the database takes two of the policy's columns, or one of them and decision, for "
            "the same: DuckDB ignores case, and PostgreSQL reads the first 63 bytes of a name. Rename one"
        )
    layers = [
        [part for column in columns for part in column.texts(engine)],
        [f"{engine.number(f'dpb_w{one.place}')} AS dpb_n{one.place}" for one in columns if one.numeric],
        [f"{column.level()} AS dpb_l{column.place}" for column in columns],
    ]
    sizes = [len(edges) + 1 for edges in rule["edges"]]
    if rule["type"] == "cells":
        best = np.argmax(np.array(rule["scores"]), axis=1).reshape(sizes)
        layers.append([f"{_entry(engine, range(len(sizes)), best)} AS dpb_arm"])
        chosen = [f"dpb_arm = {arm}" for arm in range(len(arms))]
    else:
        known = " + ".join(f"dpb_l{column.place}" for column in columns)  # NULL if a cell cannot be read
        scores = [f"dpb_s{arm}" for arm in range(len(arms))]
        sums = zip(_scores(engine, rule, sizes), scores, strict=True)
        layers.append([f"{known} AS dpb_known", *(f"{one} AS {name}" for one, name in sums)])
        layers.append([f"greatest({', '.join(scores)}) AS dpb_best"])
        # the first score that ties with the best one, as `models.ties.first_best` finds it
        ties = [f"dpb_best - {_double(TIE * rule['width'])}"]
        ties += [f"dpb_best * {_double(factor)}" for factor in (1.0 - TIE, 1.0 + TIE)]
        layers.append([f"least({', '.join(ties)}) AS dpb_least"])
        chosen = [f"dpb_known IS NOT NULL AND {score} >= dpb_least" for score in scores]
    first, *others = filter(None, layers)
    found = f"SELECT dpb_people AS dpb_row, {', '.join(first)}\nFROM {source} AS dpb_people{_FENCE}"
    for number, layer in enumerate(others, 1):
        found = f"SELECT *, {', '.join(layer)}\nFROM (\n{found}\n) AS dpb_{number}{_FENCE}"
    cases = " ".join(f"WHEN {one} THEN {label}" for one, label in zip(chosen, labels, strict=True))
    arm = f"CASE {cases} ELSE {otherwise} END AS {into}"
    return f"SELECT {engine.row}, {arm}\nFROM (\n{found}\n) AS dpb_policy\n"


def _compared(name: str, dialect: Dialect) -> str | bytes:
    """Return a name as the database compares it with others."""
    return name.lower() if dialect == "duckdb" else name.encode()[:63]


def _labels(arms: Sequence[Any], fallback: Any) -> list[str]:
    """Return literals of the arms, followed by that of the fallback."""
    if len({float if type(arm) is int else type(arm) for arm in arms}) != 1:
        raise InvalidParameter("to_sql: arms are of several types, and a column of SQL has one: rename them")
    if fallback is not None and fallback not in arms:
        raise InvalidParameter("fallback: expected one of the arms, or None")
    whole = all(isinstance(arm, int) for arm in arms)

    def literal(arm: Any) -> str:
        if isinstance(arm, str):
            return _quoted(arm)
        return str(arm).upper() if whole else f"CAST({arm!r} AS double precision)"

    listed = [literal(arm) for arm in arms]
    return [*listed, "NULL" if fallback is None else listed[arms.index(fallback)]]


@dataclass(frozen=True)
class _Column:
    """One column of the policy: expressions of its cell's text, number and level.

    Attributes:
        place: Index of the column. With it, `dpb_t`, `dpb_w`, `dpb_n` and `dpb_l` are the names of the cell's
            text, this text in lower case, its number, and its level.
        name: Quoted name in the table.
        missing: Level of a missing cell. This and other levels are None if the context cannot be read.
        words: Levels of categories that are spelled like a missing value, by word in lower case.
        texts_of: Levels of categories that are texts.
        numbers_of: Levels of categories that are numbers.
        other: Level of a category that is not listed.
        cuts: Least numbers of the levels 1, 2, ... of a range.
        ends: Low and high end of a range; () for categories.
        outside: Levels of numbers below and above the range.
    """

    place: int
    name: str
    missing: int | None
    words: dict[str, int | None]
    texts_of: dict[str, int | None]
    numbers_of: dict[float, int | None]
    other: int | None
    cuts: list[float]
    ends: tuple[float, ...]
    outside: tuple[int | None, int | None]

    @classmethod
    def of(cls, place: int, told: dict[str, Any], edges: list[float]) -> "_Column":
        """Read a column of an exported policy, whose levels 1, 2, ... begin at the coordinates `edges`."""
        told = dict(told)
        name, coded = told.pop("name"), told.pop("coded", False)
        column: Column = COLUMNS.read(told)
        categories = [] if isinstance(column, Range) else told["values"]

        def level(cell: Any) -> int | None:
            """Return the level of a cell as the library reads it."""
            [point] = column.points(as_objects([cell])).tolist()
            if categories and not coded:
                point = (point + 0.5) / len(categories)
            return None if math.isnan(point) else bisect_right(edges, point)

        values = {cell_value(category): level(category) for category in categories}
        texts = {value: at for value, at in values.items() if isinstance(value, str)}
        numbers: dict[float, int | None] = {
            value: at for value, at in values.items() if isinstance(value, int | float)
        }
        if len(texts) + len(numbers) + (None in values) < len(values) or EXACT in map(abs, numbers):
            raise InvalidParameter(f"to_sql: column {name!r} has a category that is a date, a time or 2^53")
        cuts: list[float] = []
        ends: tuple[float, ...] = ()
        outside: tuple[int | None, int | None] = (None, None)
        if isinstance(column, Range):
            low, high = ends = column.low, column.high
            if max(-low, high) > LARGEST_BOUND:
                raise InvalidParameter(
                    f"to_sql: column {name!r} has a bound beyond {LARGEST_BOUND:g} in size"
                )
            if not all(0.0 < edge <= 1.0 for edge in edges):
                raise InvalidParameter("edges: expected shares of a range, above 0")
            cuts = [first_reaching(edge, low, high) for edge in edges]
            outside = (level(low), level(high)) if column.clip else outside
        return cls(
            place=place,
            name=_name(name),
            missing=level(None),
            words={text: at for text, at in texts.items() if text in SOFT},
            texts_of={text: at for text, at in texts.items() if text not in SOFT},
            numbers_of=numbers,
            other=level("\0") if categories else None,
            cuts=cuts,
            ends=ends,
            outside=outside,
        )

    @property
    def numeric(self) -> bool:
        """True if the level depends on the cell's number."""
        return bool(self.ends or self.numbers_of)

    def texts(self, engine: _Engine) -> list[str]:
        """Return the expressions of the cell's text without spaces at its ends, and of it in lower case."""
        cell = f"COALESCE({engine.text.format(f'dpb_people.{self.name}')}, '')"
        plain = engine.matches.format(cell, "[ -~]*")  # such a text is stripped and lowered much faster
        other = f"rtrim(ltrim({cell}, {_SPACES}), {_SPACES})"
        small = f"translate({other}, '{ascii_uppercase}', '{ascii_lowercase}')"
        text = f"CASE WHEN {plain} THEN trim({cell}) ELSE {other} END AS dpb_t{self.place}"
        word = f"CASE WHEN {plain} THEN lower(trim({cell})) ELSE {small} END AS dpb_w{self.place}"
        return [text, word] if self.texts_of else [word]

    def level(self) -> str:
        """Return the expression of the cell's level; NULL if the context cannot be read."""
        word, number = f"dpb_w{self.place}", f"dpb_n{self.place}"
        missing = ", ".join(map(_quoted, sorted(MISSING | {"+nan"} if self.ends else MISSING)))
        cases = [*((f"{word} = {_quoted(one)}", at) for one, at in self.words.items())]
        cases.append((f"{word} IN ({missing})", self.missing))
        if self.ends:
            low, high = self.ends
            cases += [(f"{number} IS NULL OR abs({number}) > {_double(sys.float_info.max)}", None)]
            cases += [(f"{number} < {_double(low)}", self.outside[0])]
            cases += [(f"{number} > {_double(high)}", self.outside[1])]
            cases += [
                (f"{number} >= {_double(cut)}", at + 1) for at, cut in reversed([*enumerate(self.cuts)])
            ]
        cases += [(f"dpb_t{self.place} = {_quoted(text)}", at) for text, at in self.texts_of.items()]
        cases += [(f"{number} = {_double(value)}", at) for value, at in self.numbers_of.items()]
        otherwise = 0 if self.ends else self.other
        listed = " ".join(f"WHEN {case} THEN {_level(at)}" for case, at in cases)
        return f"CASE {listed} ELSE {_level(otherwise)} END"


def _level(at: int | None) -> str:
    return "CAST(NULL AS integer)" if at is None else str(at)


def _entry(engine: _Engine, columns: Sequence[int], table: FloatArray | IntArray) -> str:
    """Return the expression of a table's entry at the levels of these columns, one axis each."""
    index = f"dpb_l{columns[0]}"
    for column, size in zip(columns[1:], table.shape[1:], strict=True):
        index = f"({index}) * {size} + dpb_l{column}"
    kind = "integer" if table.dtype.kind == "i" else "double precision"
    return f"{engine.array.format(','.join(map(repr, table.ravel().tolist())), kind)}[{index} + 1]"


def _scores(engine: _Engine, rule: dict[str, Any], sizes: Sequence[int]) -> list[str]:
    """Return the expressions of the arms' scores: a constant and an entry for each group of columns."""
    groups = effect_groups(rule)
    count = sum(math.prod(sizes[column] for column in group) for group in groups)
    if count * len(rule["mean"]) > MOST_NUMBERS:
        raise InvalidParameter(f"to_sql: the policy has more than {MOST_NUMBERS} scores")
    sums = [[_double(rule["middle"])] for _ in rule["mean"]]
    for group, features in groups.items():
        table = rule["width"] * effect_table(rule, group, features)
        for arm, parts in enumerate(sums):
            own = table[..., arm]
            parts.append(_entry(engine, group, own) if group else f"({_double(float(own))})")
    return [" + ".join(parts) for parts in sums]

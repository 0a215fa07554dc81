"""Expressions of a cell's text and number, by the rules of `dpbandits._cells`.

A cell is cast to text and read as the library reads texts. If the type of its column is known, a number is
read without a text. No cell makes an expression fail: a pattern decides whether a text is a number, and
PostgreSQL, which has no TRY_CAST, casts only numbers in the range of a double.
"""

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase
from typing import Literal

from dpbandits._cells import LONGEST_NUMBER, MISSING
from dpbandits.errors import InvalidParameter
from dpbandits.tables.sql.dialects import CELLS, NUMBER, SqlEngine, double

__all__ = [
    "FARTHEST",
    "LARGEST_BOUND",
    "TRIMMED",
    "Kind",
    "Reading",
    "SqlCell",
    "kind_of_type",
    "layers_of",
    "number_reading",
]

Kind = Literal["text", "whole", "number", "truth", "time", "clock"]
"""Kinds of columns: texts and all that is read as its text, integers of at most 64 bits, floats, booleans,
dates and times, and times of day."""

LARGEST_BOUND = 1e18
"""Largest size of a bound to which a cell's number is compared; `_BEYOND` is larger."""

FARTHEST = sys.float_info.max
"""Largest finite double."""

_BEYOND = 1.2e18
"""Number for a cell with 16 to 256 hexadecimal digits: it lies above every bound."""

_PLAIN = "-?[0-9]+(?:[.][0-9]+)?"
_LONGEST_PLAIN = 300
"""Largest number of characters of a number without an exponent that is surely in the range of a double."""

TRIMMED = "[!-~](?:[ -~]*[!-~])?"
"""Pattern of the texts of printable ASCII characters without blanks at their ends, except the empty one."""

_HEX = "0x[0-9a-f]+"
_HEX_DIGITS = 256
"""Largest number of hexadecimal digits of a finite double."""
_HEX_INFINITE = "f" * 13 + "c"
"""First digits of the numbers with `_HEX_DIGITS` digits that are rounded to infinity."""

_KINDS: dict[Kind, str] = {
    "whole": "u?(?:big|small|tiny)?int(?:eger|8|16|32|64)?|int[24]|long|short|byte",
    "number": "double|double precision|float|real|float(?:4|8|32|64)",
    "truth": "bool|boolean",
    "time": r"date|(?:timestamp|datetime)(?:_s|_ms|_ns|_ntz|_ltz|tz|tz_ns)?(?: with(?:out)? time zone)?",
    "clock": r"time(?:_ns|tz)?(?: with(?:out)? time zone)?",
    "text": "varchar|character varying|character|char|bpchar|string|text|citext|name|uuid|enum|null|"
    "u?hugeint|decimal|numeric|bignum|varint",
}
"""Patterns of the names of types, in lower case and without what stands in parentheses."""


def kind_of_type(declared: str | None, name: str) -> Kind:
    """Return the kind of a column from its public type.

    Args:
        declared: Name of the type as the database gives it; None if it is not known.
        name: Name of the column, for errors.

    Raises:
        InvalidParameter: The type is binary, nested, an interval, or one that this library does not know.
    """
    if declared is None:
        return "text"
    plain = declared.lower().replace('"', "").removeprefix("!")  # Ibis marks types without NULL
    listed = plain.startswith("enum(") and plain.endswith(")")
    plain = "enum" if listed else " ".join(re.sub(r"\([^()]*\)", "", plain).split())
    for kind, pattern in _KINDS.items():
        if re.fullmatch(pattern, plain):
            return kind
    shown = plain.partition("(")[0]  # an enumeration has its labels in parentheses
    raise InvalidParameter(
        f"column {name!r} has the type {shown}: cast it to a text, a number, a boolean, a date or a "
        "timestamp in a view"
    )


@dataclass(frozen=True)
class Reading:
    """Expression of what a cell means, and the named expressions that it uses.

    Attributes:
        layers: Expressions by name. The first layer reads the table, each other the layer before it.
        value: Expression of what the last layer has.
    """

    layers: tuple[dict[str, str], ...]
    value: str


def layers_of(readings: dict[str, Reading]) -> list[list[str]]:
    """Return layers for `dialects.layered`. The last has the value of each reading under its name."""
    layers: list[dict[str, str]] = [{} for _ in range(1 + max(len(one.layers) for one in readings.values()))]
    for name, one in readings.items():
        for layer, own in zip(layers, one.layers, strict=False):
            layer.update(own)
        layers[-1][name] = one.value
    return [[f"{value} AS {name}" for name, value in layer.items()] for layer in layers]


@dataclass(frozen=True)
class SqlCell:
    """Column of a table in an engine, and expressions of its cells.

    Attributes:
        engine: Dialect of the statement.
        name: Name of the column.
        place: Text that no other cell of the statement has. With it, `dpb_t`, `dpb_w` and `dpb_n` are the
            names of the cell's text without blanks at its ends, this text in lower case, and its number.
        declared: Type of the column; None if it is not known, and cells are read as their text.

    Raises:
        InvalidParameter: The type cannot be read; see `kind_of_type`.
    """

    engine: SqlEngine
    name: str
    place: str
    declared: str | None = None

    def __post_init__(self) -> None:
        kind_of_type(self.declared, self.name)

    @property
    def kind(self) -> Kind:
        """Kind of the column."""
        return kind_of_type(self.declared, self.name)

    @property
    def source(self) -> str:
        """Expression of the cell itself, in the first layer."""
        return f"{CELLS}.{self.engine.name(self.name)}"

    @property
    def text(self) -> str:
        """Name of the text without blanks at its ends. Only for cells of kind text."""
        return f"dpb_t{self.place}"

    @property
    def word(self) -> str:
        """Name of the text in lower case. Only for cells of kind text."""
        return f"dpb_w{self.place}"

    @property
    def number(self) -> str:
        """Name of the number.

        A text that is no number has the number NULL or infinity; a typed cell that is missing has NULL.
        """
        return f"dpb_n{self.place}"

    def missing(self, words: Iterable[str] = MISSING) -> str:
        """Return the condition that the cell is missing, after the layer of numbers.

        Args:
            words: Texts in lower case that mean a missing cell.
        """
        if self.kind == "text":
            return f"{self.word} IN ({', '.join(map(self.engine.literal, sorted(words)))})"
        return f"{self.number} IS NULL"

    def reading(
        self, value: str, *, text: bool = False, number: bool = True, known: Mapping[str, str] | None = None
    ) -> Reading:
        """Return a reading with this value, which may use the cell's names.

        Plain numbers and known texts, which are most cells, are read at once. Only other cells are read as a
        text: `text` and `word` are NULL otherwise.

        Args:
            value: Expression.
            text: True if it uses `text`.
            number: True if it uses `number`.
            known: Values of cells that have exactly these texts.
        """
        if self.kind != "text":
            return Reading(({self.number: self._typed()},), value)
        engine, raw, plain, quick = self.engine, *(f"dpb_{part}{self.place}" for part in ("r", "q", "k"))
        given = engine.text.format(self.source)
        first, layers, unread = {raw: given}, [self._texts(raw)], []
        if not text:
            del layers[0][self.text]
        if number:
            matches = f"length({given}) <= {_LONGEST_PLAIN} AND {engine.matches.format(given, _PLAIN)}"
            first[plain] = f"CASE WHEN {matches} THEN {engine.cast(given)} END"
            unread.append(f"{plain} IS NULL")
            layers.append({self.number: f"CASE WHEN {plain} IS NULL THEN {self._number()} ELSE {plain} END"})
        if known:
            cases = (f"WHEN {given} = {engine.literal(one)} THEN {found}" for one, found in known.items())
            first[quick] = f"CASE {' '.join(cases)} END"
            unread.append(f"{quick} IS NULL")
            value = f"CASE WHEN {quick} IS NULL THEN {value} ELSE {quick} END"
        if unread:
            layers[0] = {
                name: f"CASE WHEN {' AND '.join(unread)} THEN {one} END" for name, one in layers[0].items()
            }
        return Reading((first, *layers), value)

    def _texts(self, given: str) -> dict[str, str]:
        """Return the expressions of the cell's text without spaces at its ends, and of it in lower case.

        Args:
            given: Expression of the cell as text.
        """
        engine = self.engine
        cell = f"COALESCE({given}, '')"
        plain = engine.matches.format(cell, f"(?:{TRIMMED})?")  # most texts, which are read much faster
        other = f"trim(TRAILING {engine.spaces} FROM trim(LEADING {engine.spaces} FROM {cell}))"
        small = f"translate({other}, '{ascii_uppercase}', '{ascii_lowercase}')"
        return {
            self.text: f"CASE WHEN {plain} THEN {cell} ELSE {other} END",
            self.word: f"CASE WHEN {plain} THEN lower({cell}) ELSE {small} END",
        }

    def _number(self) -> str:
        """Return the expression of the number in a text in lower case; NULL if it is none."""
        engine, word, matches = self.engine, self.word, self.engine.matches.format
        plain = f"replace({word}, '_', '')"
        digits = f"trim(LEADING '0' FROM substr({plain}, 3))"
        alone = f"({word} = {plain} OR NOT {matches(word, '.*(?:[^0-9]_|_[^0-9]).*|_.*|.*_')})"
        inner = f"({word} = {plain} OR {word} LIKE '0x%' AND NOT {matches(word, '.*(?:__.*|_)')})"
        return (
            f"CASE WHEN length({word}) > {LONGEST_NUMBER} THEN NULL "
            f"WHEN {matches(plain, NUMBER)} THEN CASE WHEN {alone} THEN {engine.decimal.format(plain)} END "
            f"WHEN {word} = 'true' THEN 1e0 WHEN {word} = 'false' THEN 0e0 "
            f"WHEN {matches(plain, _HEX)} AND {inner} THEN CASE WHEN length({digits}) <= 15 "
            f"THEN {engine.hexadecimal.format(digits)} WHEN length({digits}) > {_HEX_DIGITS} "
            f"OR length({digits}) = {_HEX_DIGITS} AND {digits} >= '{_HEX_INFINITE}' THEN NULL "
            f"ELSE {double(_BEYOND)} END END"
        )

    def _typed(self) -> str:
        """Return the expression of a typed cell's number.

        It is NULL for a missing cell, and infinity for a date or time, which is never a number.
        """
        kind, double_type = self.kind, self.engine.double
        if kind == "truth":
            return f"CASE WHEN {self.source} THEN 1e0 WHEN NOT {self.source} THEN 0e0 END"
        if kind in ("time", "clock"):
            return f"CASE WHEN {self.source} IS NOT NULL THEN CAST('Infinity' AS {double_type}) END"
        number = f"CAST({self.source} AS {double_type})"
        return number if kind == "whole" else f"NULLIF({number}, CAST('NaN' AS {double_type}))"


def number_reading(cell: SqlCell, bounds: Sequence[float] = ()) -> Reading:
    """Return the reading of a cell as a finite number; NULL for any other cell.

    Args:
        cell: SqlCell.
        bounds: Public numbers to which the number will be compared.

    Raises:
        InvalidParameter: A bound is larger than `LARGEST_BOUND`.
    """
    if any(abs(bound) > LARGEST_BOUND for bound in bounds):
        raise InvalidParameter(f"column {cell.name!r} has a bound beyond {LARGEST_BOUND:g} in size")
    return cell.reading(f"CASE WHEN abs({cell.number}) <= {double(FARTHEST)} THEN {cell.number} END")

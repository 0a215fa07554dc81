"""User ids in a database: a narrower rule than that of `_checks.person`, the same in every engine.

An id is an integer, or a text of printable ASCII characters without blanks at its ends. An integer has one
spelling: "05", "+5" and "5.0" are "5". A row counts zero if its id is one of these:

- missing, a boolean, a date or a time;
- a number with a fraction, an exponent or hexadecimal digits;
- a text with another character, or of more than 4,096 characters.

Dropping a person's rows, or counting two people as one, keeps the promise. Counting one person as two would
break it. `id_in` is the rule in Python.
"""

import re
from collections.abc import Callable
from datetime import date, time
from decimal import Decimal

import numpy as np

from dpbandits._cells import EXACT, MISSING
from dpbandits.errors import InvalidParameter
from dpbandits.tables.sql.cells import TRIMMED, Reading, SqlCell

__all__ = ["id_in", "id_reading"]

LONGEST_ID = 4096
"""Largest number of characters of an id."""

_WHOLE = "[+-]?[0-9]+(?:[.]0*)?"
"""Pattern of the integers, in any spelling that is not refused."""

_DATE = "(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}|[0-9]{4}-?w[0-9]{2}(?:-?[1-7])?)(?:[^0-9][0-9:.,+z-]*)?"
_REFUSED = (
    r"[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:e[+-]?[0-9]+)?|0x[0-9a-f]+|[+-](?:inf(?:inity)?|nan)|"
    rf"{_DATE}|[0-9]{{2}}:[0-9:.,+z-]*"
)
"""Pattern of the texts in lower case that are other numbers, dates or times. All begin below `_LETTERS`."""

_LETTERS = ":"
"""Character above digits and signs, and below letters."""

_WORDS = sorted(MISSING | {"true", "false", "inf", "infinity"})


def id_in(cell: object) -> str | None:
    """Return the id in a cell by the rule of databases; None if the row counts zero.

    Example:
        >>> [id_in(cell) for cell in ("u7", " 007 ", 7.0, "1e3", True, "none", "0x1f")]
        ['u7', '7', '7', None, None, None, None]
    """
    if isinstance(cell, bool | np.bool_ | date | time | bytes):
        return None
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    if isinstance(cell, float | np.floating):
        number = float(cell)
        return str(int(number)) if abs(number) <= EXACT and number.is_integer() else None
    if isinstance(cell, Decimal):
        cell = format(cell, "f") if cell.is_finite() else ""
    if not isinstance(cell, str) or not re.fullmatch("[ -~]*", cell):
        return None
    text = cell.strip(" ")
    word = text.lower()
    if len(text) > LONGEST_ID or word in _WORDS:
        return None
    if re.fullmatch(_WHOLE, text):
        digits = text.partition(".")[0].lstrip("+-").lstrip("0")
        return ("-" if text[0] == "-" and digits else "") + (digits or "0")
    return None if re.fullmatch(_REFUSED, word) else text


def id_reading(cell: SqlCell) -> Reading:
    """Return the reading of a cell as a user id; NULL for a row without one.

    Raises:
        InvalidParameter: Booleans, dates and times are no ids.
    """
    engine, kind, source = cell.engine, cell.kind, cell.source
    if kind == "whole":
        return Reading(({cell.text: engine.text.format(source)},), cell.text)
    if kind == "number":
        number = f"CAST({source} AS {engine.double})"
        whole = engine.text.format(f"CAST({cell.number} AS bigint)")
        exact = f"abs({cell.number}) <= {EXACT} AND {cell.number} = floor({cell.number})"
        return Reading(({cell.number: number},), f"CASE WHEN {exact} THEN {whole} END")
    if kind != "text":
        raise InvalidParameter(f"user: column {cell.name!r} has the type {cell.declared}, which has no ids")
    matches: Callable[[str, str], str] = engine.matches.format
    given, text, word = engine.text.format(source), cell.text, cell.word
    trimmed = f"WHEN {matches(given, '[ -~]*')} THEN trim({given})"
    digits = f"trim(LEADING '0' FROM trim(LEADING '+-' FROM split_part({text}, '.', 1)))"
    words = f"{word} IN ({', '.join(map(engine.literal, _WORDS))})"
    # A longer text that begins with a letter is none of the texts that are refused.
    lower = (
        f"CASE WHEN {text} < '{_LETTERS}' OR length({text}) <= {max(map(len, _WORDS))} THEN lower({text}) END"
    )
    return Reading(
        ({text: f"CASE WHEN {matches(given, TRIMMED)} THEN {given} {trimmed} END"}, {word: lower}),
        f"CASE WHEN length({text}) > {LONGEST_ID} OR {words} THEN NULL "
        f"WHEN {text} >= '{_LETTERS}' THEN {text} "
        f"WHEN {matches(text, _WHOLE)} THEN CASE WHEN {digits} = '' THEN '0' "
        f"WHEN substr({text}, 1, 1) = '-' THEN '-' || {digits} ELSE {digits} END "
        f"WHEN {matches(word, _REFUSED)} THEN NULL ELSE {text} END",
    )

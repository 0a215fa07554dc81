"""Columns of a table in a TOML file. Unknown keys are errors, so that a misspelt bound cannot go unnoticed.

Sections::

    [columns.age]
    low = 16
    high = 64
    clip = true                  # optional: replace a value outside by the nearer bound
    missing = 40                 # optional: public number that replaces a missing value

    [columns.gender]
    categories = ["female", "male", "unknown"]
    missing = "unknown"          # optional: category of a missing value
    unknown = "unknown"          # optional: category of a value that is not listed

    [columns.since]              # dates and times
    first = 2020-01-01
    last = 2024-12-31            # includes this day; clip and missing are optional, as above

    [columns.hour]               # periodic values
    period = 24                  # period of a number; or "day", "week" or "year" for dates and times
    missing = 12                 # optional: place in the period, see `Cycle`
"""

import json
import tomllib
from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any

from dpbandits.errors import DataUnavailable, InvalidParameter
from dpbandits.tables.columns import Categories, Column, Ordered, Range
from dpbandits.tables.dates import Cycle, DateRange

__all__ = [
    "check_keys",
    "columns_in",
    "description_in",
    "number_in",
    "section_of",
    "text_in",
    "value_in",
    "written",
]


def description_in(text: str, name: str) -> dict[str, Any]:
    """Return the content of a TOML text. Raise InvalidParameter with the file's name if it is not TOML."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameter(f"{name} is not a TOML file: {error}") from None
    except ValueError:  # such as a number of thousands of digits
        raise InvalidParameter(f"{name} is not a TOML file that can be read") from None
    except RecursionError:
        raise InvalidParameter(f"{name} is nested too deeply") from None


def text_in(path: Path) -> str:
    """Return the text of a file that should be TOML.

    Raises:
        InvalidParameter: The file is not UTF-8 text.
        DataUnavailable: The file does not exist or cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidParameter(f"{path.name} is not a TOML file: {error}") from None
    except OSError as error:
        raise DataUnavailable(f"{path.name} cannot be read: {error.strerror}") from None


def columns_in(description: Mapping[str, Any]) -> dict[str, Column]:
    """Return the columns that the sections [columns.NAME] declare, in their order."""
    columns = value_in(description, "columns", dict, "the file")
    return {name: _column(name, declared) for name, declared in columns.items()}


def section_of(name: str, column: Column, *, within: str = "columns") -> str:
    """Return the TOML text of the section [columns.NAME], or [WITHIN.NAME], that declares a column."""
    config = {
        key: v for key, v in column.to_config().items() if key != "type" and (key, v) != ("clip", False)
    }
    if "values" in config:
        key = "ordered" if isinstance(column, Ordered) else "categories"
        config = {key: config.pop("values"), **config}
    moments = {"first", "last", "missing"} if "first" in config else set()  # TOML writes dates unquoted
    lines = [f"{key} = {value if key in moments else written(value)}" for key, value in config.items()]
    return "\n".join([f"[{within}.{written(name)}]", *lines])


def written(value: object) -> str:
    """Return a value as TOML text. It is its JSON text, in which TOML also requires DEL to be escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _column(name: str, declared: object) -> Column:
    """Return the column that a section [columns.NAME] declares."""
    where = f"[columns.{name}]"
    if not isinstance(declared, dict):
        raise InvalidParameter(
            f"{where} must be a section with low and high, categories, first and last, or period"
        )
    if "categories" in declared:
        check_keys(declared, where, required={"categories"}, optional={"missing", "unknown"})
        options = {name: declared[name] for name in ("missing", "unknown") if name in declared}
        return Categories(value_in(declared, "categories", list, where), **options)
    if "ordered" in declared:
        check_keys(declared, where, required={"ordered"})
        return Ordered(tuple(value_in(declared, "ordered", list, where)))
    if "period" in declared:
        check_keys(declared, where, required={"period"}, optional={"missing"})
        return Cycle(declared["period"], missing=declared.get("missing"))
    ends = {"first", "last"} if {"first", "last"} & set(declared) else {"low", "high"}
    steps = {"steps"} if "low" in ends else set()
    check_keys(declared, where, required=ends, optional={"clip", "missing", *steps})
    clip = value_in(declared, "clip", bool, where) if "clip" in declared else False
    if "first" in ends:
        return DateRange(declared["first"], declared["last"], clip=clip, missing=declared.get("missing"))
    filled = number_in(declared, "missing", where) if "missing" in declared else None
    return Range(
        number_in(declared, "low", where),
        number_in(declared, "high", where),
        clip=clip,
        missing=filled,
        steps=declared.get("steps"),
    )


def check_keys(
    section: Mapping[str, Any], where: str, *, required: Set[str], optional: Set[str] = frozenset()
) -> None:
    """Raise InvalidParameter if a section lacks a required key or has an unknown key."""
    missing = sorted(required - set(section))
    unknown = sorted(str(key) for key in set(section) - required - optional)
    if missing:
        raise InvalidParameter(f"{where} lacks {', '.join(missing)}")
    if unknown:
        known = ", ".join(sorted(required | optional))
        raise InvalidParameter(f"{where} has unknown keys {', '.join(unknown)}: expected {known}")


def value_in(section: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """Return the value of a key. Raise InvalidParameter if it has another type than `kind`."""
    value = section[key]
    if not isinstance(value, kind):
        raise InvalidParameter(f"{where}: {key} is a {type(value).__name__}, expected a {kind.__name__}")
    return value


def number_in(section: Mapping[str, Any], key: str, where: str) -> float:
    """Return the value of a key as a float. Raise InvalidParameter if it is not a number."""
    value = section[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(f"{where}: {key} is a {type(value).__name__}, expected a number")
    return float(value)

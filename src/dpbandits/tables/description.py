"""What a TOML file says in public of a table's columns; strict, so that a misspelt bound cannot go unnoticed.

[columns.age]
low = 16
high = 64
clip = true                  # optional: move values outside to the nearer bound
missing = 40                 # optional: a public number for missing values

[columns.gender]
categories = ["female", "male", "unknown"]
missing = "unknown"          # optional: the category of missing values
"""

import json
import tomllib
from collections.abc import Mapping, Set
from typing import Any

from dpbandits.errors import InvalidParameter
from dpbandits.tables.columns import Categories, Range

__all__ = ["check_keys", "columns_in", "description_in", "number_in", "section_of", "value_in"]


def description_in(text: str, name: str) -> dict[str, Any]:
    """A TOML text; InvalidParameter with the file's name where it is none."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameter(f"{name} is not a TOML file: {error}") from None
    except RecursionError:
        raise InvalidParameter(f"{name} is nested too deeply") from None


def columns_in(description: Mapping[str, Any]) -> dict[str, Range | Categories]:
    """The sections [columns.NAME] of a description, in its order."""
    columns = value_in(description, "columns", dict, "the file")
    return {name: _column(name, declared) for name, declared in columns.items()}


def section_of(name: str, column: Range | Categories) -> str:
    """A column as its section declares it."""
    config = {
        key: v for key, v in column.to_config().items() if key != "type" and (key, v) != ("clip", False)
    }
    if "values" in config:
        config = {"categories": config.pop("values"), **config}
    lines = [f"{key} = {_written(value)}" for key, value in config.items()]
    return "\n".join([f"[columns.{_written(name)}]", *lines])


def _written(value: object) -> str:
    """A value as TOML has it: as JSON does, but for what TOML does not escape alike."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _column(name: str, declared: object) -> Range | Categories:
    """A column as its section [columns.NAME] declares it."""
    where = f"[columns.{name}]"
    if not isinstance(declared, dict):
        raise InvalidParameter(f"{where} must be a section with low and high, or with categories")
    if "categories" in declared:
        check_keys(declared, where, required={"categories"}, optional={"missing"})
        return Categories(value_in(declared, "categories", list, where), missing=declared.get("missing"))
    check_keys(declared, where, required={"low", "high"}, optional={"clip", "missing"})
    clip = value_in(declared, "clip", bool, where) if "clip" in declared else False
    filled = number_in(declared, "missing", where) if "missing" in declared else None
    return Range(
        number_in(declared, "low", where), number_in(declared, "high", where), clip=clip, missing=filled
    )


def check_keys(
    section: Mapping[str, Any], where: str, *, required: Set[str], optional: Set[str] = frozenset()
) -> None:
    """Refuse a section that lacks a key, or has one that is not listed."""
    missing, unknown = sorted(required - set(section)), sorted(set(section) - required - optional)
    if missing:
        raise InvalidParameter(f"{where} lacks {', '.join(missing)}")
    if unknown:
        known = ", ".join(sorted(required | optional))
        raise InvalidParameter(f"{where} has unknown keys {', '.join(unknown)}: expected {known}")


def value_in(section: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    """The value under a key, of one kind."""
    value = section[key]
    if not isinstance(value, kind):
        raise InvalidParameter(f"{where}: {key} is a {type(value).__name__}, expected a {kind.__name__}")
    return value


def number_in(section: Mapping[str, Any], key: str, where: str) -> float:
    """The number under a key."""
    value = section[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(f"{where}: {key} is a {type(value).__name__}, expected a number")
    return float(value)

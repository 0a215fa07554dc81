"""`reading`: one clear error for malformed input from a file or a network.

Code that reads a configuration cannot rely on the types of its JSON values. Instead of checking every field,
`reading` turns the errors that Python raises for wrong types into one error.
"""

import json
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from dpbandits.errors import DPBanditsError, InvalidCall, InvalidData, InvalidParameter

__all__ = ["json_object", "reading"]

_MISFITS = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, struct.error)

LARGEST_TEXT = 1 << 24
"""Largest number of characters of JSON. A policy with 1,000 bins and 100 arms has a tenth of this."""


@contextmanager
def reading(what: str, error: type[DPBanditsError] = InvalidParameter) -> Iterator[None]:
    """Turn the exceptions that malformed values cause inside the block into `error`. Errors about state pass.

    The message names the type of the exception and never a value, because the input may be private state.

    Example:
        >>> with reading("a box"):
        ...     dict(low=0)["high"]
        Traceback (most recent call last):
        dpbandits.errors.InvalidParameter: not a box: a field is missing or of the wrong kind (KeyError)
    """
    try:
        yield
    except (InvalidParameter, InvalidData) as unfit:
        if isinstance(unfit, error) and not isinstance(unfit, InvalidCall):
            raise
        raise error(f"not {what}: {unfit}") from None
    except DPBanditsError:
        raise
    except _MISFITS as misfit:
        raise error(
            f"not {what}: a field is missing or of the wrong kind ({type(misfit).__name__})"
        ) from None


def json_object(
    text: str, what: str, error: type[DPBanditsError] = InvalidParameter, *, most: int = LARGEST_TEXT
) -> dict[str, Any]:
    """Return the JSON object in `text`, which has finite numbers only and at most `most` characters.

    Raises:
        error: The text is anything else.
    """
    if len(text) > most:
        raise error(f"not {what}: the text is longer than {most} characters")
    with reading(what, error):
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if not isinstance(value, dict):
            raise TypeError
    fields: dict[str, Any] = value
    return fields


def _refuse(_: str) -> NoReturn:
    raise ValueError


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # 1e309 is valid JSON and beyond the largest float
        raise ValueError
    return value


def config_type(config: object, field: str = "type") -> str:
    """Return the label of a configuration; empty if it is not a mapping or its label is not a text."""
    label = config.get(field) if isinstance(config, Mapping) else None
    return label if isinstance(label, str) else ""

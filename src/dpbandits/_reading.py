"""Reading what somebody else wrote: one clear error, whatever is wrong with it.

A configuration is plain JSON values from a file or a network. Code that reads it may assume nothing of its
types; instead of a check a field, `reading` turns what Python raises on a wrong type into one error.
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
"""Characters of JSON that are read: a policy of a thousand bins and a hundred arms has a tenth of this."""


@contextmanager
def reading(what: str, error: type[DPBanditsError] = InvalidParameter) -> Iterator[None]:
    """Turn whatever a malformed value makes Python raise into `error`; errors about state pass.

    The message names the kind of exception, never a value: what is read may be damaged private state.

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


def json_object(text: str, what: str, error: type[DPBanditsError] = InvalidParameter) -> dict[str, Any]:
    """The JSON object in `text`; numbers are finite, its size bounded.

    Raises:
        error: anything else.
    """
    if len(text) > LARGEST_TEXT:
        raise error(f"not {what}: the text is longer than {LARGEST_TEXT} characters")
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
    if math.isinf(value):  # 1e309 is valid JSON
        raise ValueError
    return value


def config_type(config: object, field: str = "type") -> str:
    """The label of a configuration; empty where it is no mapping or its label is no text."""
    label = config.get(field) if isinstance(config, Mapping) else None
    return label if isinstance(label, str) else ""

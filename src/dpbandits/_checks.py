"""Checks of public numbers that a caller passed; whatever is not one is refused by its name and type."""

import math
import numbers

from dpbandits.errors import InvalidParameter

__all__ = ["integer", "number", "one_of", "probability"]


def number(value: object, *, name: str, minimum: float = 0.0, exclusive: bool = True) -> float:
    """`value` as a finite float above `minimum` (or at it, when not `exclusive`)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidParameter(f"{name} is a {type(value).__name__}, expected a number")
    try:
        result = float(value)
    except OverflowError:
        raise InvalidParameter(f"{name} is beyond the largest float") from None
    inside = result > minimum if exclusive else result >= minimum
    if not (math.isfinite(result) and inside):
        bound = "above" if exclusive else "at least"
        raise InvalidParameter(f"{name} is {result:g}, expected a finite number {bound} {minimum:g}")
    return result


def probability(value: object, *, name: str) -> float:
    """`value` as a float in [0, 1)."""
    result = number(value, name=name, exclusive=False)
    if result >= 1.0:
        raise InvalidParameter(f"{name} is {result:g}, expected a probability in [0, 1)")
    return result


def integer(value: object, *, name: str, minimum: int = 1) -> int:
    """`value` as an int that is at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InvalidParameter(f"{name} is a {type(value).__name__}, expected an integer")
    result = int(value)
    if result < minimum:
        raise InvalidParameter(f"{name} is {result}, expected an integer of at least {minimum}")
    return result


def one_of(value: object, choices: tuple[str, ...], *, name: str) -> str:
    """`value`, which must be one of these texts."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidParameter(f"{name}: expected one of {', '.join(map(repr, choices))}")
    return value

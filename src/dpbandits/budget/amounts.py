"""Exact arithmetic on amounts of budget: decimals, so that three charges of 0.1 are 0.3."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow
from fractions import Fraction

import numpy as np

from dpbandits.errors import InvalidParameter

__all__ = ["NOTHING", "UNKNOWN", "Amount", "above", "add", "exact", "float_above", "float_below", "times"]

Amount = float | Decimal
"""A budget: floats mean the decimal they print as, so that 0.1 is one tenth."""

NOTHING = Decimal(0)

UNKNOWN = Decimal("Infinity")
"""Amount of a charge in a notion of privacy in which nothing is proven of it: no limit admits it."""

# Amounts are bounded so that any sum of them, and of their squares, is exact within the context's digits.
_LARGEST_EXPONENT = 400
_LARGEST_DIGITS = 400
_EXACT = Context(prec=4000, Emax=10_000, Emin=-10_000, traps=[Inexact, InvalidOperation, Overflow])

_UP = Context(prec=14, rounding=ROUND_CEILING)
"""Rounding of charges: so few digits that the same charge is the same on nearly every processor."""

_SHORT = Context(prec=12, rounding=ROUND_CEILING)
_SHORT_DOWN = Context(prec=12, rounding=ROUND_FLOOR)


def exact(amount: object, *, name: str) -> Decimal:
    """The decimal that an amount prints as.

    Raises:
        InvalidParameter: not a finite number of at least zero, or of absurd size.
    """
    if isinstance(amount, (int, np.integer, Decimal)) and not isinstance(amount, bool):
        decimal = Decimal(amount if isinstance(amount, Decimal) else int(amount))
    elif isinstance(amount, (float, np.floating)):
        decimal = Decimal(repr(float(amount)))
    else:
        raise InvalidParameter(f"{name} is a {type(amount).__name__}, expected a number")
    if not decimal.is_finite() or decimal < 0:
        raise InvalidParameter(f"{name} is {decimal}, expected a finite number of at least 0")
    if not decimal:
        return Decimal(0)  # without a sign or an exponent
    if abs(decimal.adjusted()) > _LARGEST_EXPONENT or len(decimal.as_tuple().digits) > _LARGEST_DIGITS:
        raise InvalidParameter(f"{name} is too large, too small or too long for a budget")
    return decimal


def add(left: Decimal, right: Decimal) -> Decimal:
    """The exact sum of two amounts."""
    return _EXACT.add(left, right)


def less(left: Decimal, right: Decimal) -> Decimal:
    """The exact difference of two amounts."""
    return _EXACT.subtract(left, right)


def times(left: Decimal, right: Decimal) -> Decimal:
    """The exact product of two amounts."""
    return _EXACT.multiply(left, right)


def square_up(amount: Decimal) -> Decimal:
    """The square, rounded up to fourteen digits."""
    return _UP.multiply(amount, amount)


def half_square_up(amount: Decimal) -> Decimal:
    """Half of the square, rounded up to fourteen digits."""
    return _UP.multiply(square_up(amount), Decimal("0.5"))


def above(value: float) -> Decimal:
    """A float, rounded up to fourteen digits."""
    return _UP.create_decimal_from_float(value)


def sum_up(left: Decimal, right: Decimal) -> Decimal:
    """The sum, rounded up to fourteen digits."""
    return _UP.add(left, right)


def root_up(amount: Decimal) -> Decimal:
    """The square root, rounded up to fourteen digits."""
    # Decimal rounds its root to nearest whatever the context says: one digit up is above it.
    return _UP.next_plus(_UP.sqrt(amount))


def float_below(value: Decimal) -> float:
    """The largest float that is not above."""
    nearest = float(value)
    return float(np.nextafter(nearest, -np.inf)) if Decimal(nearest) > value else nearest


def float_above(value: Decimal) -> float:
    """The smallest float that is not below."""
    nearest = float(value)
    return float(np.nextafter(nearest, np.inf)) if Decimal(nearest) < value else nearest


def short(amount: Decimal, *, down: bool = False) -> str:
    """Twelve digits of an amount, for a message."""
    return str((_SHORT_DOWN if down else _SHORT).plus(amount))


def ratio_up(whole: Decimal, part: Decimal) -> int:
    """Smallest number of parts that cover the whole."""
    return -int(-Fraction(whole) // Fraction(part))

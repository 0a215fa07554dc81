"""Exact arithmetic on amounts of privacy budget.

Amounts are decimals, so that three charges of 0.1 are 0.3.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact, InvalidOperation, Overflow
from fractions import Fraction

import numpy as np

from dpbandits.errors import InvalidParameter

__all__ = ["NOTHING", "UNKNOWN", "Amount", "above", "add", "exact", "float_above", "float_below", "times"]

Amount = float | Decimal
"""Type of an amount. A float stands for the decimal that it prints as, so that 0.1 is one tenth."""

NOTHING = Decimal(0)

UNKNOWN = Decimal("Infinity")
"""Amount of a charge in a sum about which nothing is proven. No limit admits it."""

# Amounts are bounded so that every sum of them, and of their squares, is exact in the context `_EXACT`.
_LARGEST_EXPONENT = 400
_LARGEST_DIGITS = 400
_EXACT = Context(prec=4000, Emax=10_000, Emin=-10_000, traps=[Inexact, InvalidOperation, Overflow])

_UP = Context(prec=14, rounding=ROUND_CEILING)
"""Decimal context that rounds charges up.

With 14 digits a charge is the same number on nearly every processor.
"""

_SHORT = Context(prec=12, rounding=ROUND_CEILING)
_SHORT_DOWN = Context(prec=12, rounding=ROUND_FLOOR)


def exact(amount: object, *, name: str) -> Decimal:
    """Return an amount as the decimal that it prints as.

    Raises:
        InvalidParameter: The amount is not a finite number of at least 0, or is absurdly large or small.
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
        return Decimal(0)  # drops a sign and an exponent
    if abs(decimal.adjusted()) > _LARGEST_EXPONENT or len(decimal.as_tuple().digits) > _LARGEST_DIGITS:
        raise InvalidParameter(f"{name} is too large, too small or too long for a budget")
    return decimal


def add(left: Decimal, right: Decimal) -> Decimal:
    """Return the exact sum of two amounts."""
    return _EXACT.add(left, right)


def less(left: Decimal, right: Decimal) -> Decimal:
    """Return the exact difference left - right of two amounts."""
    return _EXACT.subtract(left, right)


def times(left: Decimal, right: Decimal) -> Decimal:
    """Return the exact product of two amounts."""
    return _EXACT.multiply(left, right)


def square_up(amount: Decimal) -> Decimal:
    """Return the square of an amount, rounded up to 14 digits."""
    return _UP.multiply(amount, amount)


def half_square_up(amount: Decimal) -> Decimal:
    """Return half of the square of an amount, rounded up to 14 digits."""
    return _UP.multiply(square_up(amount), Decimal("0.5"))


def above(value: float) -> Decimal:
    """Return a float as a decimal, rounded up to 14 digits."""
    return _UP.create_decimal_from_float(value)


def sum_up(left: Decimal, right: Decimal) -> Decimal:
    """Return the sum of two amounts, rounded up to 14 digits."""
    return _UP.add(left, right)


def root_up(amount: Decimal) -> Decimal:
    """Return the square root of an amount, rounded up to 14 digits."""
    # Decimal.sqrt rounds to nearest in every context, so the next larger number is above the root.
    return _UP.next_plus(_UP.sqrt(amount))


def float_below(value: Decimal) -> float:
    """Return the largest float that is at most `value`."""
    nearest = float(value)
    return float(np.nextafter(nearest, -np.inf)) if Decimal(nearest) > value else nearest


def float_above(value: Decimal) -> float:
    """Return the smallest float that is at least `value`."""
    nearest = float(value)
    return float(np.nextafter(nearest, np.inf)) if Decimal(nearest) < value else nearest


def short(amount: Decimal, *, down: bool = False) -> str:
    """Return an amount as text with 12 digits for a message. It is rounded up, or down with `down=True`."""
    return str((_SHORT_DOWN if down else _SHORT).plus(amount))


def ratio_up(whole: Decimal, part: Decimal) -> int:
    """Return the smallest whole number n with n * part >= whole."""
    return -int(-Fraction(whole) // Fraction(part))

"""Probabilities as integers over 2^64, and logarithms that never round a promise down."""

import math
from fractions import Fraction

from dpbandits._checks import number
from dpbandits.errors import InvalidParameter

__all__ = [
    "LATTICE",
    "MAX_EPSILON",
    "calibration_epsilon",
    "log_upper",
    "on_lattice",
    "probability",
]

LATTICE = 1 << 64
"""Every probability on a device is an integer over this."""

MAX_EPSILON = 16.0
"""Above it the small probabilities come too near to 2**-64 for the calibration's slack."""

# Rounding a probability to the lattice moves a likelihood ratio by less than this relative share of epsilon.
_SLACK = 1e-9


def calibration_epsilon(epsilon: float) -> float:
    """The epsilon that probabilities are computed for, so that after rounding they keep `epsilon`.

    Raises:
        InvalidParameter: epsilon is not in (0, 16].
    """
    epsilon = number(epsilon, name="epsilon")
    if epsilon > MAX_EPSILON:
        raise InvalidParameter(
            f"epsilon {epsilon:g} is above {MAX_EPSILON:g}, the largest that exact 64-bit sampling supports: "
            "ask for less, or use a non-private policy"
        )
    return epsilon * (1.0 - _SLACK)


def on_lattice(value: float) -> int:
    """The probability as an integer over 2**64, rounded down."""
    return math.floor(Fraction(value) * LATTICE)


def probability(threshold: int) -> Fraction:
    """The rational that a threshold stands for."""
    return Fraction(threshold, LATTICE)


def log_upper(ratio: Fraction) -> float:
    """A float that is at least log(ratio), for ratios of at least 1.

    Below 2 through log(1 + x), x exact: the quotient of a ratio near 1, rounded, would lose what is asked
    for. Either way the error is under three steps of the result, and four are added.
    """
    if ratio < 2:
        excess = ratio - 1
        value = math.log1p(excess.numerator / excess.denominator)
    else:
        value = math.log(ratio.numerator / ratio.denominator)
    for _ in range(4):
        value = math.nextafter(value, math.inf)
    return value

"""What counts of what is past, where people change: a half-life, fixed before any data.

What is given less weight was released before: forgetting is arithmetic on releases, and protects nobody.
"""

import math
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray

__all__ = ["counting", "kept_after"]


def kept_after(rounds: FloatArray | float, half_life: float | None) -> Any:
    """What counts of a release so many rounds after its block: 1 at once, a half after a half-life."""
    ages = np.asarray(rounds, dtype=np.float64)
    return np.ones_like(ages) if half_life is None else np.exp2(-ages / half_life)


def counting(rounds: int, half_life: float | None) -> float:
    """How many of so many rounds count: all of them, or the sum of what is kept of each.

    Example:
        >>> counting(500, None), round(counting(500, 1_000)), round(counting(10**9, 1_000))
        (500.0, 423, 1443)
    """
    if half_life is None:
        return float(rounds)
    rate = math.log(2.0) / half_life
    return -math.expm1(-rate * rounds) / rate

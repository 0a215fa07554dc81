"""Exponential discounting of past releases under non-stationarity, with a half-life fixed before any data.

Discounting is post-processing of releases, so it does not change their privacy.
"""

import math
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray

__all__ = ["counting", "kept_after"]


def kept_after(rounds: FloatArray | float, half_life: float | None) -> Any:
    """Return the weight of a release, `rounds` rounds after its block: 1 at once, 1/2 after one half-life.

    Without a half-life every weight is 1.
    """
    ages = np.asarray(rounds, dtype=np.float64)
    return np.ones_like(ages) if half_life is None else np.exp2(-ages / half_life)


def counting(rounds: int, half_life: float | None) -> float:
    """Return the effective number of the last `rounds` rounds, which is the sum of their weights.

    Example:
        >>> counting(500, None), round(counting(500, 1_000)), round(counting(10**9, 1_000))
        (500.0, 423, 1443)
    """
    if half_life is None:
        return float(rounds)
    rate = math.log(2.0) / half_life
    return -math.expm1(-rate * rounds) / rate

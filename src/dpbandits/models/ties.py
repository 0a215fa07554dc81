"""Scores that are equal in exact arithmetic: how far apart rounding may put them, and which one is taken.

NumPy alone is needed, because devices choose by it too.
"""

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["TIE", "first_best"]

TIE = 1e-12
"""A score ties with the best if it is below it by at most this much, times the best if that is above 1.

Scores are matrix products, in widths of the reward range. Each BLAS kernel adds in its own order, so scores
that are equal in exact arithmetic differ by about 1e-15. A difference of 1e-12 in reward decides nothing.
"""


def first_best(scores: FloatArray, *, unit: float = 1.0) -> IntArray:
    """Index (...) of the first score of (..., n) that ties with the best; 0 where a score is NaN.

    Args:
        scores: in any unit.
        unit: width of the reward range in that unit; `TIE` is a share of it.

    Example:
        >>> first_best(np.array([[0.1, 0.3, 0.3 + 1e-15], [0.3, 0.1, 0.2]])).tolist()
        [1, 0]
    """
    best = scores.max(axis=-1, keepdims=True)
    least = np.minimum(best - TIE * unit, np.minimum(best * (1.0 - TIE), best * (1.0 + TIE)))
    return np.asarray((scores >= least).argmax(axis=-1))

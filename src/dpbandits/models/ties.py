"""Choice of the best of several scores, with ties between scores that are equal up to rounding.

The module needs NumPy only, because devices use it too.
"""

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["TIE", "first_best"]

TIE = 1e-12
"""Largest difference between the best score and a score tied with it, times the best score if that exceeds 1.

Scores are matrix products, in units of the width of the reward range. Each BLAS kernel adds in its own
order, so scores that are equal in exact arithmetic differ by about 1e-15. A reward lower by 1e-12 is no
loss.
"""


def first_best(scores: FloatArray, *, unit: float = 1.0) -> IntArray:
    """Return the index (...) of the first score that ties with the best; 0 if a score is NaN.

    Args:
        scores: Scores in any unit, shape (..., n).
        unit: Width of the reward range in that unit; `TIE` is a share of it.

    Example:
        >>> first_best(np.array([[0.1, 0.3, 0.3 + 1e-15], [0.3, 0.1, 0.2]])).tolist()
        [1, 0]
    """
    best = scores.max(axis=-1, keepdims=True)
    least = np.minimum(best - TIE * unit, np.minimum(best * (1.0 - TIE), best * (1.0 + TIE)))
    return np.asarray((scores >= least).argmax(axis=-1))

"""Lower triangular systems, panel by panel.

SciPy copies a triangle that is part of a larger array, and lets no other thread run while LAPACK solves it.
Here the products between panels, nearly all of the work, are NumPy's: they read the array where it lies, and
other threads run meanwhile.
"""

import numpy as np
from scipy.linalg.lapack import dtrtrs

from dpbandits._typing import FloatArray

__all__ = ["PANEL", "solve_lower"]

PANEL = 128
"""Rows that LAPACK solves at a time."""


def solve_lower(lower: FloatArray, right: FloatArray) -> FloatArray:
    """L^-1 B (t, n) for a lower triangle L (t, t), whatever stands above its diagonal, and B (t, n) or (t,).

    Example:
        >>> solve_lower(np.array([[2.0, 0.0], [1.0, 4.0]]), np.array([2.0, 5.0]))
        array([1., 1.])
    """
    if len(lower) <= PANEL:
        return _solved(lower, right)
    solved: FloatArray = np.array(right, dtype=np.float64, order="C")
    for low in range(0, len(lower), PANEL):
        rows = slice(low, low + PANEL)
        solved[rows] -= lower[rows, :low] @ solved[:low]
        solved[rows] = _solved(lower[rows, rows], solved[rows])
    return solved


def _solved(lower: FloatArray, right: FloatArray) -> FloatArray:
    """By LAPACK itself, to which a C-ordered L is an upper triangle, transposed."""
    solved: FloatArray = dtrtrs(np.ascontiguousarray(lower).T, right, lower=0, trans=1)[0]
    return solved

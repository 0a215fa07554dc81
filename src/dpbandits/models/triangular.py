"""Lower triangular systems and Cholesky factors, computed for a panel of `PANEL` rows at a time.

Nearly all of the work is products between panels. NumPy computes them: it reads the array in place, and does
not block other threads. SciPy alone would copy a triangle that is part of a larger array, and block other
threads while LAPACK works. NumPy's own Cholesky factor transposes the matrix in memory twice.
"""

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from dpbandits._typing import FloatArray

__all__ = ["PANEL", "factor_lower", "solve_lower"]

PANEL = 128
"""Number of rows that LAPACK works on at a time."""


def factor_lower(matrix: FloatArray) -> FloatArray:
    """Return L (t, t) with L L^T = A for a symmetric positive definite A (t, t).

    `matrix` (A) must be C-contiguous and is overwritten. Entries of L above the diagonal are arbitrary.

    Raises:
        LinAlgError: A is not positive definite.

    Example:
        >>> np.tril(factor_lower(np.array([[4.0, 2.0], [2.0, 2.0]])))
        array([[2., 0.],
               [1., 1.]])
    """
    for low in range(0, len(matrix), PANEL):
        high = min(low + PANEL, len(matrix))
        below = matrix[low:, low:high]
        if low:
            below -= matrix[low:, :low] @ matrix[low:high, :low].T
        # To LAPACK the transpose of a C-ordered lower triangle is an upper one.
        factor, failed = dpotrf(matrix[low:high, low:high].T, lower=0, clean=0)
        if failed:
            raise np.linalg.LinAlgError("the matrix is not positive definite")
        matrix[low:high, low:high] = factor.T
        if high < len(matrix):
            matrix[high:, low:high] = dtrtrs(factor, matrix[high:, low:high].T, lower=0, trans=1)[0].T
    return matrix


def solve_lower(lower: FloatArray, right: FloatArray) -> FloatArray:
    """Return L^-1 B for a lower triangle L (t, t) and B (t, n) or (t,).

    Entries of L above the diagonal are not read.

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
    """Return L^-1 B by LAPACK, for which a C-ordered L is a transposed upper triangle."""
    solved: FloatArray = dtrtrs(np.ascontiguousarray(lower).T, right, lower=0, trans=1)[0]
    return solved

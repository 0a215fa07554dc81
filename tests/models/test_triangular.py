"""Triangular factors and systems: against NumPy, on both sides of a panel."""

import numpy as np
import pytest

from dpbandits.models.triangular import PANEL, factor_lower, solve_lower


def positive(size: int, seed: int = 0) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((size, size))
    return root @ root.T / size + np.eye(size)


@pytest.mark.parametrize("size", [1, 2, PANEL - 1, PANEL, PANEL + 1, 2 * PANEL, 3 * PANEL + 17])
def test_a_factor_is_numpys_and_solves(size):
    matrix = positive(size)
    factor = factor_lower(matrix.copy())
    assert np.allclose(np.tril(factor), np.linalg.cholesky(matrix), rtol=0.0, atol=1e-12)
    right = np.random.default_rng(1).standard_normal((size, 3))
    half = solve_lower(factor, right)
    assert np.allclose(half.T @ half, right.T @ np.linalg.solve(matrix, right), atol=1e-9)


@pytest.mark.parametrize("place", [0, PANEL - 1, PANEL, 2 * PANEL + 3])
def test_what_is_not_positive_definite_is_refused(place):
    matrix = positive(3 * PANEL)
    matrix[place, place] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        factor_lower(matrix)

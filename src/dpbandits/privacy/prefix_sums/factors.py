"""Lower-triangular mixing matrices of the matrix mechanism, and the noise that they lead to.

A `Factor` R has columns of norm at most 1. The releases are r = R x + noise. Linear algebra recovers every
block and every prefix from them. `block_covariance` and `prefix_variance` give the exact noise of these
estimates, in units of the variance that one release alone would need.

`square_root_toeplitz` uses the Toeplitz square root of the lower-triangular matrix of ones
(Henzinger, Upadhyay, Upadhyay 2023; Fichtenberger, Henzinger, Upadhyay 2023).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from scipy.linalg import solve_triangular

from dpbandits import _checks
from dpbandits._config import Valued
from dpbandits._reading import reading
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter

__all__ = ["Factor", "identity", "optimised_factor", "square_root_toeplitz"]

LARGEST_INVERSE = 1e12
"""Largest entry that a factor's inverse may have; beyond it block estimates would be mere noise."""

OPTIMISER_STEPS = 400
"""Number of steps of the fixed-point iteration; after 200 the objective changes by less than a millionth."""


@dataclass(frozen=True, eq=False)
class Factor(Valued):
    """Lower-triangular mixing matrix R of the block sums.

    Args:
        matrix: Mixing matrix, shape (K, K), lower triangular with a nonzero diagonal. Every column has
            Euclidean norm at most 1, and no entry of the inverse is above `LARGEST_INVERSE`.

    Raises:
        InvalidParameter: The matrix breaks one of these conditions.
    """

    matrix: FloatArray  # configurations hold the matrix itself: no later formula can change a guarantee
    _inverse: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with reading("a factor's matrix"):
            matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or len(matrix) == 0 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidParameter(f"a factor of shape {matrix.shape}: expected a square matrix")
        if not np.isfinite(matrix).all() or np.triu(matrix, 1).any() or not np.diag(matrix).all():
            raise InvalidParameter("a factor must be finite, lower triangular and nonzero on its diagonal")
        norm = float(np.sqrt((matrix**2).sum(axis=0)).max())
        if norm > 1.0 + 1e-12:
            raise InvalidParameter(f"a column of the factor has norm {norm:g}, expected at most 1")
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = solve_triangular(matrix, np.eye(len(matrix)), lower=True, check_finite=False)
        if not (np.abs(inverse) <= LARGEST_INVERSE).all():
            raise InvalidParameter("the factor is nearly singular: enlarge its diagonal")
        inverse = np.tril(inverse)  # LAPACK leaves signed zeros above the diagonal
        for name, array in (("matrix", matrix), ("_inverse", inverse)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n_blocks(self) -> int:
        """Number K of blocks."""
        return len(self.matrix)

    @property
    def column_norm(self) -> float:
        """Largest Euclidean norm of a column: at most 1."""
        return float(np.sqrt((self.matrix**2).sum(axis=0)).max())

    @property
    def touched(self) -> int:
        """Largest number of releases that depend on one block."""
        return int((self.matrix != 0.0).sum(axis=0).max())

    def unmix(self, released: FloatArray) -> FloatArray:
        """Return block estimates R^-1 r from the first k releases r, both of shape (k, ...)."""
        k = len(released)
        return np.asarray((self._inverse[:k, :k] @ np.reshape(released, (k, -1))).reshape(released.shape))

    def block_covariance(self, k: int | None = None) -> FloatArray:
        """Return the covariance (R^T R)^-1 of the first k blocks' estimates, shape (k, k).

        The unit is the noise variance of one release.
        """
        size = self.n_blocks if k is None else k
        if not 1 <= size <= self.n_blocks:
            raise InvalidParameter(f"k is {size}, expected 1 to {self.n_blocks} blocks")
        inverse = self._inverse[:size, :size]
        return np.asarray(inverse @ inverse.T)

    def prefix_variance(self) -> FloatArray:
        """Return the variance of each prefix's estimate, shape (K,), in units of the noise variance of one
        release.
        """
        return np.asarray((np.cumsum(self._inverse, axis=0) ** 2).sum(axis=1))

    def __repr__(self) -> str:
        return f"Factor(n_blocks={self.n_blocks})"


def square_root_toeplitz(n_blocks: int) -> Factor:
    """Return the Toeplitz square root of the prefix-sum matrix, scaled to columns of norm at most 1.

    The matrix L has entries c_(i-j) with c_0 = 1 and c_k = c_(k-1) (2k-1)/(2k), and L L is the
    lower-triangular matrix of ones. Let S_j be the sum of the first j numbers c_k^2. Then R = L/sqrt(S_K),
    and the prefix over j blocks has variance S_K S_j.

    Example:
        >>> round(float(square_root_toeplitz(32).prefix_variance()[-1] ** 0.5), 1)
        2.2
    """
    size = _checks.integer(n_blocks, name="n_blocks")
    k = np.arange(1, size)
    c = np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])
    i, j = np.indices((size, size))
    matrix = np.where(i >= j, c[np.abs(i - j)], 0.0)
    return Factor(matrix / math.sqrt(float((c**2).sum())))


def identity(n_blocks: int) -> Factor:
    """Return the factor that releases each block separately, which is best if only single blocks matter."""
    return Factor(np.eye(_checks.integer(n_blocks, name="n_blocks")))


def optimised_factor(boundaries: Sequence[int], horizon: int) -> Factor:
    r"""Return the best factor for a schedule in which each round is decided by the releases so far.

    Let n_j be the number of rounds in block j, and consider a statistic that is the same in all rounds.
    After release k the information about it is I_k = sum_{i<=k} (R n)_i^2. The a_k rounds up to the next
    release are decided with it. Errors fall like 1/I_k, so R minimises sum_k a_k/I_k over columns of norm 1.
    Stationary points satisfy

        R_ij proportional to b_i (R n)_i for i >= j,    b_i = sum_{k >= i} a_k/I_k^2.

    A fixed-point iteration with averaging finds such a point, starting from the square-root Toeplitz factor.
    Compared with that factor, early releases have up to three quarters more information, and the last ones
    less.

    Args:
        boundaries: Ends of the blocks in rounds, strictly increasing.
        horizon: Total number of rounds, at least the last boundary.

    Example:
        >>> factor = optimised_factor([24, 51, 82, 117], 200)
        >>> bool(np.allclose((factor.matrix**2).sum(axis=0), 1.0))
        True
    """
    ends = np.asarray(boundaries, dtype=np.float64)
    if ends.ndim != 1 or len(ends) == 0 or ends[0] <= 0 or np.any(np.diff(ends) <= 0) or horizon < ends[-1]:
        raise InvalidParameter("optimised_factor: expected increasing boundaries, none above the horizon")
    return _optimised(tuple(ends.tolist()), float(horizon))


@lru_cache(maxsize=64)  # a study builds thousands of policies with the same schedule
def _optimised(boundaries: tuple[float, ...], horizon: float) -> Factor:
    ends = np.array(boundaries)
    n_rounds = np.diff(ends, prepend=0.0)
    # No round may follow the last boundary: at least 1 gives the last release some weight all the same.
    answered = np.maximum(np.diff(ends, append=horizon), 1.0)
    matrix = _unit_columns(square_root_toeplitz(len(ends)).matrix)
    for _ in range(OPTIMISER_STEPS):
        mixed = matrix @ n_rounds
        information = np.cumsum(mixed**2)
        later = np.cumsum((answered / information**2)[::-1])[::-1]
        target = np.tril(np.repeat((later * mixed)[:, None], len(ends), axis=1))
        matrix = _unit_columns(0.5 * (matrix + _unit_columns(target)))
    return Factor(matrix)


def _unit_columns(matrix: FloatArray) -> FloatArray:
    return np.asarray(matrix / np.sqrt((matrix**2).sum(axis=0)))

"""Lower-triangular mixing matrices of block sums, and what their noise costs.

A `Factor` R has columns of norm at most 1. Its releases r = R x + noise give every block and every
prefix by linear algebra, with noise that `block_covariance` and `prefix_variance` state exactly, in
units of the variance that one release alone would need.

The factor of `square_root_toeplitz` is the Toeplitz square root of the matrix of ones below the diagonal
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
"""A block's noise in units of a release's: beyond, the blocks cannot be told from the releases."""

OPTIMISER_STEPS = 400
"""Steps of the fixed-point iteration; the objective moves by less than 1e-6 of itself after 200."""


@dataclass(frozen=True, eq=False)
class Factor(Valued):
    """Lower-triangular mixing matrix R of the block sums.

    Args:
        matrix: (K, K), lower triangular, diagonal not zero, every column of Euclidean norm at most 1, no
            entry of its inverse above `LARGEST_INVERSE`.

    Raises:
        InvalidParameter: anything else.
    """

    matrix: FloatArray  # in configurations the matrix itself: no later formula can change a guarantee
    _inverse: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        with reading("a factor's matrix"):
            matrix = np.array(self.matrix, dtype=np.float64)
        if matrix.ndim != 2 or len(matrix) == 0 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidParameter(f"a factor of shape {matrix.shape}: expected a square matrix")
        if not np.isfinite(matrix).all() or np.triu(matrix, 1).any() or not np.diag(matrix).all():
            raise InvalidParameter("a factor is finite, lower triangular and has no zero on its diagonal")
        norm = float(np.sqrt((matrix**2).sum(axis=0)).max())
        if norm > 1.0 + 1e-12:
            raise InvalidParameter(f"a column of the factor has norm {norm:g}, expected at most 1")
        with np.errstate(over="ignore", invalid="ignore"):
            inverse = solve_triangular(matrix, np.eye(len(matrix)), lower=True, check_finite=False)
        if not (np.abs(inverse) <= LARGEST_INVERSE).all():
            raise InvalidParameter("a factor this near to singular cannot be undone: enlarge its diagonal")
        inverse = np.tril(inverse)  # what LAPACK leaves above the diagonal is zero up to its sign
        for name, array in (("matrix", matrix), ("_inverse", inverse)):
            array.setflags(write=False)
            object.__setattr__(self, name, array)

    @property
    def n_blocks(self) -> int:
        """K."""
        return len(self.matrix)

    @property
    def column_norm(self) -> float:
        """Largest Euclidean norm of a column: at most 1."""
        return float(np.sqrt((self.matrix**2).sum(axis=0)).max())

    @property
    def touched(self) -> int:
        """Largest number of releases that one block enters."""
        return int((self.matrix != 0.0).sum(axis=0).max())

    def unmix(self, released: FloatArray) -> FloatArray:
        """R^-1 r for the first releases. (k, ...) -> (k, ...)."""
        k = len(released)
        return np.asarray((self._inverse[:k, :k] @ np.reshape(released, (k, -1))).reshape(released.shape))

    def block_covariance(self, k: int | None = None) -> FloatArray:
        """N = (R^T R)^-1 of the first k blocks, in units of the noise variance of a release. (k, k)."""
        size = self.n_blocks if k is None else k
        if not 1 <= size <= self.n_blocks:
            raise InvalidParameter(f"k is {size}, expected 1 to {self.n_blocks} blocks")
        inverse = self._inverse[:size, :size]
        return np.asarray(inverse @ inverse.T)

    def prefix_variance(self) -> FloatArray:
        """(K,): variance of the estimated sum over blocks 0..j, in units of a release's noise variance."""
        return np.asarray((np.cumsum(self._inverse, axis=0) ** 2).sum(axis=1))

    def __repr__(self) -> str:
        return f"Factor(n_blocks={self.n_blocks})"


def square_root_toeplitz(n_blocks: int) -> Factor:
    """The Toeplitz square root of the prefix-sum matrix, scaled to columns of norm at most 1.

    L has entries c_(i-j), c_0 = 1, c_k = c_(k-1) (2k-1)/(2k), and L L is the lower-triangular matrix of
    ones. With S_j the sum of the first j squared entries, R = L/sqrt(S_K), and the prefix over j blocks
    has variance S_K S_j.

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
    """Every block released once, by itself: the best when only single blocks matter."""
    return Factor(np.eye(_checks.integer(n_blocks, name="n_blocks")))


def optimised_factor(boundaries: Sequence[int], horizon: int) -> Factor:
    r"""The factor that serves a schedule best when people are answered by what was released so far.

    With n_j rounds in block j, release k has gathered the information I_k = sum_{i<=k} (R n)_i^2 about a
    statistic that is alike in all rounds, and answers the a_k rounds up to the next release. Errors
    fall like 1/I_k, so R minimises sum_k a_k/I_k over columns of norm 1. Stationary points satisfy

        R_ij proportional to b_i (R n)_i for i >= j,    b_i = sum_{k >= i} a_k/I_k^2,

    and are found by iterating this with averaging, from the square-root Toeplitz factor. Against that
    one, early releases carry up to three quarters more information and the last ones a little less.

    Args:
        boundaries: ends of the blocks, strictly increasing.
        horizon: rounds in all; at least the last boundary.

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
    # Rounds after the last boundary may be none: the last release then still counts for something.
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

"""Cosine features of boxes, which give the mean of a smooth function over each box.

The function on the unit cube is f(x) = sum_i w_i s_i prod_c cos(pi i_c (x_c + margin)/(1 + 2 margin)), a
Gaussian process of reduced rank. The sum runs over multi-indices i with one frequency i_c per column c. The
weights w_i are independent standard normal, and s_i^2 is the spectral density of a squared exponential
kernel. The mean of a cosine over an interval is a difference of sines, so the features of a box are exact.

Source: Solin & Särkkä, *Hilbert space methods for reduced-rank Gaussian process regression*, 2020, with
cosines in place of sines, so that functions are not zero at the boundary beyond the cube.
"""

import heapq
import math

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["BoxFeatures"]

# Extension of the cube on either side, because cosines have slope zero at their ends.
_MARGIN = 0.2

# Frequencies whose prior variance is below this share of the constant's are left out.
_LEAST = 1e-4


class BoxFeatures:
    """Feature map of boxes [low, high] in the unit cube.

    Args:
        dim: Number of columns.
        length: Lengthscale of the kernel.
        smooth_sd: Prior standard deviation of f without its constant, on average over cube and margin.
        constant_sd: Prior standard deviation of the constant.
        max_features: Largest number of features; the lowest frequencies are used.

    Attributes:
        n_features: Number of features.

    Example:
        >>> features = BoxFeatures(dim=1, length=0.5, smooth_sd=0.2, constant_sd=0.3)
        >>> features(np.array([[0.0]]), np.array([[1.0]])).shape == (1, features.n_features)
        True
    """

    def __init__(
        self, *, dim: int, length: float, smooth_sd: float, constant_sd: float, max_features: int = 64
    ) -> None:
        index = _lowest(dim, max_features)
        square = (math.pi * index / (1.0 + 2.0 * _MARGIN)) ** 2
        density = np.exp(-0.5 * length**2 * square.sum(axis=1))
        kept = density > _LEAST
        self._index, density = index[kept], density[kept]
        self.n_features = len(density)
        rest = float(density[1:].sum())
        variance = density * (smooth_sd**2 / rest if rest else 0.0)
        variance[0] = constant_sd**2
        # A product of m cosines has mean square 2^-m, which is scaled to one.
        self._scale = np.sqrt(variance * 2.0 ** (self._index > 0).sum(axis=1))

    def __call__(self, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the features (n, n_features) of n boxes with lower and upper corners (n, dim).

        The mean of f over a box is its feature vector times standard normal weights.
        """
        length = 1.0 + 2.0 * _MARGIN
        low, high = (low + _MARGIN) / length, (high + _MARGIN) / length
        result = np.ones((len(low), self.n_features))
        for column in range(low.shape[1]):
            used = np.flatnonzero(self._index[:, column])
            if len(used):
                wave = math.pi * self._index[used, column]
                left, right = low[:, column, None], high[:, column, None]
                result[:, used] *= (np.sin(wave * right) - np.sin(wave * left)) / (wave * (right - left))
        return np.asarray(result * self._scale)


def _lowest(dim: int, n: int) -> IntArray:
    """Return up to n multi-indices (<= n, dim) of least sums of squares, ties in lexicographic order."""
    heap: list[tuple[int, tuple[int, ...]]] = [(0, (0,) * dim)]
    found: list[tuple[int, ...]] = []
    while len(found) < n:
        norm, index = heapq.heappop(heap)
        found.append(index)
        last = max((c for c in range(dim) if index[c]), default=0)
        for column in range(last, dim):
            step = list(index)
            step[column] += 1
            heapq.heappush(heap, (norm + 2 * index[column] + 1, tuple(step)))
    return np.array(found, dtype=np.int64)

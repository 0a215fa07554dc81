r"""Fourier features of the squared exponential kernel, by quadrature.

k(x, y) = E cos(w . (x - y)) with w ~ N(0, diag(1/lengthscale^2)). With frequencies w_j and weights p_j
that sum to one, phi(x) = (sqrt(p_j) cos(w_j . x), sqrt(p_j) sin(w_j . x))_j has norm exactly one and
phi(x) . phi(y) = sum_j p_j cos(w_j . (x - y)).

The frequencies are the full tensor grid of Gauss-Hermite nodes (Mutny and Krause 2018, Dubey2021). As
cos(w . r) = cos(-w . r), one of w and -w is kept with double weight: half the grid, in every orthant.
(Keeping the positive orthant alone, as public code does, is another kernel: for d = 2 its error stays near
0.4 however many nodes there are.)
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._checks import integer
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.models import kernels
from dpbandits.models.features.base import FEATURES, NORM_BOUND, Features, checked_points
from dpbandits.models.kernels import SquaredExponential

__all__ = ["QuadratureFourierFeatures"]

MOST_FEATURES = 1 << 14
"""A tensor grid grows like nodes^d: above this many features it is a mistake."""

MOST_NODES = 128
"""Nodes a dimension: Gauss-Hermite weights beyond are below the smallest float."""

MOST_DIMENSIONS = 512
"""Columns of a point."""


@FEATURES.add("QuadratureFourierFeatures", kernel=kernels.from_config)
class QuadratureFourierFeatures(Features):
    """Fourier features at the nodes of a tensor Gauss-Hermite rule.

    Args:
        kernel: squared exponential on all columns.
        dim: d.
        nodes: q, per dimension; m = q^d features (of q^d nodes half are kept, with cosine and sine).

    Attributes:
        n_features: m = q^d.
        supports: ((0, m),).
        frequencies, weights: w (J, d) and p (J,), which sum to one.

    Raises:
        InvalidParameter: another kernel, or a grid of more than 2^14 features.

    References:
        Mutny and Krause 2018; Dubey2021, Section 3.

    >>> features = QuadratureFourierFeatures(kernel=SquaredExponential(lengthscale=1.0), dim=2, nodes=8)
    >>> features.n_features
    64
    """

    def __init__(self, *, kernel: SquaredExponential, dim: int, nodes: int) -> None:
        lengthscales = _lengthscales(kernel, dim)
        integer(nodes, name="nodes")
        if nodes > MOST_NODES or dim * math.log(nodes) > math.log(MOST_FEATURES) + 1e-9:
            raise InvalidParameter(
                f"expected 1 to {MOST_NODES} nodes a dimension, and 1 to {MOST_FEATURES} features in all"
            )
        self.kernel, self.dim, self.nodes = kernel, dim, nodes
        points, weights = np.polynomial.hermite.hermgauss(nodes)
        grid = np.stack(np.meshgrid(*[points] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
        masses = np.stack(np.meshgrid(*[weights / math.sqrt(math.pi)] * dim, indexing="ij"))
        mass = masses.reshape(dim, -1).prod(axis=0)
        # The grid is symmetric: in its order, node i and node (last - i) are opposite.
        half = len(grid) // 2
        kept = np.arange(len(grid) - half)
        mass = mass[kept] * np.where(kept < half, 2.0, 1.0)
        centre = np.where(np.arange(len(kept)) < half, 1.0, 0.0)[:, None]
        frequencies = math.sqrt(2.0) * grid[kept] / lengthscales * centre
        self.frequencies, self.weights = frequencies, mass / mass.sum()
        # The zero frequency has no sine.
        self._with_sine = np.flatnonzero(frequencies.any(axis=1))
        self.n_features = len(frequencies) + len(self._with_sine)
        self.supports = ((0, self.n_features),)
        self._scale = np.sqrt(self.weights) * NORM_BOUND

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Feature vectors (..., m) of points (..., d), each of norm one, less one rounding margin."""
        points, lead = checked_points(X, self.frequencies.shape[1])
        # batch by batch: a matrix product rounds by its shape
        angles = points.reshape(*lead, self.frequencies.shape[1]) @ self.frequencies.T
        cosines = np.cos(angles) * self._scale
        sines = np.sin(angles[..., self._with_sine]) * self._scale[self._with_sine]
        return np.concatenate([cosines, sines], axis=-1)

    def gradient(self, X: FloatArray, V: FloatArray) -> FloatArray:
        """See `Features.gradient`."""
        points, _ = checked_points(X, self.frequencies.shape[1])
        angles, count = points @ self.frequencies.T, len(self.frequencies)
        turning = -V[:, :count] * self._scale * np.sin(angles)
        turning[:, self._with_sine] += V[:, count:] * (self._scale * np.cos(angles))[:, self._with_sine]
        return np.asarray(turning @ self.frequencies)

    def __repr__(self) -> str:
        return f"QuadratureFourierFeatures(nodes={self.nodes}, dim={self.dim}, kernel={self.kernel!r})"


def _lengthscales(kernel: SquaredExponential, dim: int) -> FloatArray:
    if getattr(kernel, "columns", ()) is not None or type(kernel) is not SquaredExponential:
        raise InvalidParameter("Fourier features are of a SquaredExponential kernel on all columns")
    if integer(dim, name="dim") > MOST_DIMENSIONS:
        raise InvalidParameter(f"dim is beyond {MOST_DIMENSIONS}: no Fourier features cover that")
    lengthscale = np.asarray(kernel.lengthscale, dtype=np.float64)
    if lengthscale.ndim == 1 and len(lengthscale) != dim:
        raise InvalidParameter(f"{len(lengthscale)} lengthscales for {dim} dimensions")
    return np.broadcast_to(lengthscale, (dim,))

r"""Fourier features of the squared exponential kernel, computed by quadrature.

k(x, y) = E cos(w . (x - y)) with w ~ N(0, diag(1/lengthscale^2)). With frequencies w_j and weights p_j
that sum to one, phi(x) = (sqrt(p_j) cos(w_j . x), sqrt(p_j) sin(w_j . x))_j has norm exactly one and
phi(x) . phi(y) = sum_j p_j cos(w_j . (x - y)).

The frequencies w_j are the full tensor grid of Gauss-Hermite nodes (Mutny and Krause 2018, Dubey2021). As
cos(w . r) = cos(-w . r), only one of w and -w is used, with double weight. So half of the grid is used, with
nodes in every orthant. (Public code uses the positive orthant only, which approximates another kernel: for
d = 2 its error stays near 0.4 for any number of nodes.)
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
"""Largest number of features. A tensor grid has nodes^d of them, so
a larger request is taken for a mistake.
"""

MOST_NODES = 128
"""Largest number of nodes per dimension; with more, some Gauss-Hermite weights underflow to zero."""

MOST_DIMENSIONS = 512
"""Largest number of columns of a point."""


@FEATURES.add("QuadratureFourierFeatures", kernel=kernels.from_config)
class QuadratureFourierFeatures(Features):
    """Fourier features at the nodes of a tensor Gauss-Hermite rule.

    Args:
        kernel: Squared exponential kernel on all columns.
        dim: Number d of columns.
        nodes: Number q of nodes per dimension. There are m = q^d features: half of the q^d nodes are used,
            with cosine and sine.

    Attributes:
        n_features: Number m = q^d of features.
        supports: Index range ((0, m),).
        frequencies, weights: Frequencies w (J, d), and weights p (J,), which sum to one.

    Raises:
        InvalidParameter: The kernel is not supported, or the grid has more than 2^14 features.

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
                f"nodes: expected 1 to {MOST_NODES} nodes per dimension, and at most {MOST_FEATURES} "
                f"features in all, got {nodes} nodes and {dim} dimensions"
            )
        self.kernel, self.dim, self.nodes = kernel, dim, nodes
        points, weights = np.polynomial.hermite.hermgauss(nodes)
        grid = np.stack(np.meshgrid(*[points] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
        masses = np.stack(np.meshgrid(*[weights / math.sqrt(math.pi)] * dim, indexing="ij"))
        mass = masses.reshape(dim, -1).prod(axis=0)
        # The grid is symmetric: node i is the negative of node (last - i).
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
        """Return the feature vectors (..., m) of points (..., d), of norm one minus a margin for rounding."""
        points, lead = checked_points(X, self.frequencies.shape[1])
        # Batch by batch, because the rounding of a matrix product depends on its shape.
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
        raise InvalidParameter("kernel: expected a SquaredExponential kernel on all columns")
    if integer(dim, name="dim") > MOST_DIMENSIONS:
        raise InvalidParameter(f"dim is {dim}, expected at most {MOST_DIMENSIONS} columns")
    lengthscale = np.asarray(kernel.lengthscale, dtype=np.float64)
    if lengthscale.ndim == 1 and len(lengthscale) != dim:
        raise InvalidParameter(f"{len(lengthscale)} lengthscales for {dim} dimensions")
    return np.broadcast_to(lengthscale, (dim,))

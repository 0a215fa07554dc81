"""Averages of a kernel's features over where a row can lie: uniform in the public cube, given its release.

With features k(x, y) = phi(x) . phi(y), two rows have covariance m(z) . m(z') for m(z) = E[phi(x) | z].

- Noise of Gaussian mixtures: p(x | z) is proportional to the noise's density at z - x, on a grid of the cube.
  Squared distances are sums of one-dimensional ones, so nothing is lost to cancellation in single precision,
  which the weights are computed in (relative errors near 1e-6, far below those of the grid).
- Cells: with probability `keep` uniform in the reported cell, else uniform outside of it. Each cell is
  averaged over points of its own, so cells may be finer than the grid.

Features whose share of the variance, all together, is below `_LEAST_SHARE` are left out; the row's nugget
takes what they would have explained.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray
from dpbandits.domains import Box
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels.base import Kernel
from dpbandits.privacy.rows import CellLaw, NoiseLaw
from dpbandits.privacy.rows.noise_laws import IsotropicLaw

__all__ = ["GRID", "BoxAverages"]

GRID = {1: 400, 2: 40, 3: 12}
"""Points along each side of the cube on which positions are averaged, by dimension."""

_FEATURES = 192
_LEAST_SHARE = 1e-6
_CHUNK_ELEMENTS = 1 << 18
"""Entries of the (rows, grid) matrix computed at a time: stays in cache."""
_KEPT_ELEMENTS = 1 << 25
"""Entries kept in single precision between fits (128 MiB); beyond, they are computed for every fit."""

_Single = NDArray[np.float32]


class BoxAverages:
    """What depends on the release alone; the same for all kernels, so kept when there is room.

    Args:
        inputs: (n, d) released rows.
        law: their noise law.
        half_width: the public cube is [-half_width, half_width]^d.

    Raises:
        InvalidParameter: more than three dimensions.
    """

    def __init__(self, inputs: FloatArray, law: NoiseLaw, half_width: float) -> None:
        dim = inputs.shape[1]
        if dim not in GRID:
            raise InvalidParameter(
                f"posterior='box' works in up to {max(GRID)} dimensions, the release has {dim}"
            )
        if not isinstance(law, CellLaw | IsotropicLaw):
            raise InvalidParameter(f"posterior='box' does not know the noise law {type(law).__name__}")
        self._axis = _midpoints(GRID[dim], half_width)
        self._grid = _product(self._axis, dim)
        self._cube = Box(low=np.full(dim, -half_width), high=np.full(dim, half_width))
        self._law = law
        self._inputs = inputs
        self._kept: list[_Single] | None = None
        self._cells: tuple[FloatArray, NDArray[np.intp]] | None = None
        if isinstance(law, CellLaw):
            places, inverse = np.unique(inputs, axis=0, return_inverse=True)
            self._cells = places, inverse.reshape(-1)
        elif len(inputs) * len(self._grid) <= _KEPT_ELEMENTS:
            self._kept = [self._weights(at) for at in self._chunks()]

    def average(self, kernel: Kernel) -> FloatArray:
        """(n, m) with m(z) . m(z') = E[k(x, x') | z, z'] for x, x' uniform in the cube a priori."""
        features = MercerFeatures(kernel=kernel, domain=self._cube, n_features=_FEATURES)
        scale = math.sqrt(max(1.0, kernel.max_variance))
        on_grid = features(self._grid) * scale
        left_out = np.cumsum((on_grid**2).mean(axis=0)[::-1])[::-1]  # by column, with all that follow
        used = max(1, int((left_out > _LEAST_SHARE * kernel.max_variance).sum()))
        on_grid = on_grid[:, :used]
        if self._cells is not None:
            return self._average_cells(features, scale, on_grid.mean(axis=0))
        # The last column sums the weights, so that they need not be divided one by one.
        narrow = np.column_stack([on_grid, np.ones(len(on_grid))]).astype(np.float32)
        averaged = np.empty((len(self._inputs), used))
        for number, at in enumerate(self._chunks()):
            weights = self._weights(at) if self._kept is None else self._kept[number]
            sums = weights @ narrow
            np.divide(sums[:, :-1], sums[:, -1:], out=averaged[at])
        return averaged

    def _average_cells(self, features: MercerFeatures, scale: float, everywhere: FloatArray) -> FloatArray:
        if self._cells is None or not isinstance(self._law, CellLaw):
            raise InvalidParameter("these rows were not released as cells")
        places, inverse = self._cells
        law, (_, dim) = self._law, places.shape
        per_side = max(1, round(len(self._axis) * law.width / (2.0 * law.half_width)))
        inside = np.zeros((len(places), len(everywhere)))
        offsets = _product(_midpoints(per_side, 0.5 * law.width), dim)
        for offset in offsets:
            inside += features(places + offset)[:, : len(everywhere)]
        inside = inside * (scale / len(offsets))
        share = (0.5 * law.width / law.half_width) ** dim
        outside = (everywhere - share * inside) / (1.0 - share)
        averaged: FloatArray = (law.keep * inside + (1.0 - law.keep) * outside)[inverse]
        return averaged

    def _chunks(self) -> Iterator[slice]:
        step = max(1, _CHUNK_ELEMENTS // len(self._grid))
        for start in range(0, len(self._inputs), step):
            yield slice(start, min(start + step, len(self._inputs)))

    def _weights(self, at: slice) -> _Single:
        """(rows, grid) posterior weights, up to a factor a row; the largest is one, so no row underflows."""
        if not isinstance(self._law, IsotropicLaw):
            raise InvalidParameter("these rows were released as cells")
        rows = self._inputs[at]
        dim = rows.shape[1]
        gaps = (rows.T[:, :, None] - self._axis) ** 2  # (dim, rows, axis)
        nearest = gaps.min(axis=2).sum(axis=0)
        gaps = gaps.astype(np.float32)
        squares = gaps[0]
        for coordinate in gaps[1:]:
            squares = (squares[:, :, None] + coordinate[:, None, :]).reshape(len(rows), -1)
        weights: _Single = self._law.radial_log_density(squares if dim > 1 else squares.copy())
        weights -= self._law.radial_log_density(nearest).astype(np.float32)[:, None]
        np.exp(weights, out=weights)
        return weights


def _midpoints(count: int, half_width: float) -> FloatArray:
    """`count` midpoints of equal parts of [-half_width, half_width]."""
    return np.asarray((np.arange(count) + 0.5) * (2.0 * half_width / count) - half_width, dtype=np.float64)


def _product(axis: FloatArray, dim: int) -> FloatArray:
    """(len(axis)^dim, dim) points, the last coordinate fastest."""
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)

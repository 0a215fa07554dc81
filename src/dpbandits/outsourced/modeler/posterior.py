"""Posterior of a modeler about every row of a release: a Gaussian process that accounts for the noise.

There are three ways to treat the unknown position x of a released row z = x + e:

- **flat**: all positions are equally likely, so x given z is z - e. The kernel is averaged in closed form
  (`dpbandits.models.expected_kernel`), at the cost of an exact kernel with ten terms.
- **box**: positions are uniform in the public cube. The law of x given z is proportional to the noise's
  density, restricted to the cube (`BoxAverages`). With strong noise, published rows lie far outside the
  cube, and this restriction is very informative.
- **plugin**: z is used as x, as in the published method. It serves as a baseline.

With flat and box, a row's variance exceeds the variance of the part that is correlated with other rows. The
difference is its *nugget*, about which only the row's own answer is informative. `signal_variance` is the
variance without the nugget.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray
from dpbandits.domains import Box
from dpbandits.errors import InvalidParameter
from dpbandits.models.expected_kernel import FeatureKernel, RowKernel, expected_kernel, strip_scale
from dpbandits.models.features import MercerFeatures
from dpbandits.models.gaussian_process import PoolGP
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.outsourced.publish import PublishedRows
from dpbandits.privacy.rows import CellLaw, NoiseLaw
from dpbandits.privacy.rows.noise_laws import IsotropicLaw

__all__ = ["GRID", "BoxAverages", "PosteriorKind", "RowPosterior", "choose_posterior"]

PosteriorKind = Literal["flat", "box", "plugin"]

GRID = {1: 400, 2: 40, 3: 12}
"""Number of grid points along each side of the cube over which
positions are averaged, by number of dimensions.
"""

STRONG_NOISE = 0.08
"""Standard deviation of the noise, as a share of half the cube's
side, above which the box posterior is used.
"""
_GRID_STEPS = 0.8
"""Standard deviation of the noise, in grid steps, above which the box posterior is used: the grid cannot
resolve weaker noise.
"""

_LARGEST_BOX = 5e8
"""Largest number of weights for which the box posterior is chosen: about ten seconds for each fit."""

_FEATURES = 192
"""Number of Mercer features of the box posterior."""
_LEAST_SHARE = 1e-6
"""Largest share of the kernel's variance that all omitted features together may have."""
_CHUNK_ELEMENTS = 1 << 18
"""Number of entries of the matrix (rows, grid points) computed at a time, so that they fit into the cache."""
_KEPT_ELEMENTS = 1 << 25
"""Largest number of matrix entries stored in single precision between fits (128 MiB); more are recomputed."""

_Single = NDArray[np.float32]


def choose_posterior(*, n: int, law: NoiseLaw, kernel: Kernel, half_width: float) -> PosteriorKind:
    """Return the kind of posterior that `posterior="auto"` means, chosen by public numbers.

    In more than three dimensions it is flat. Otherwise it is the box for the noise law of cells, for noise
    above `STRONG_NOISE` half widths (unless there are very many rows), and for kernels without a closed
    form.

    Raises:
        InvalidParameter: neither box nor flat supports this release and kernel.
    """
    base, _ = strip_scale(kernel)
    closed = isinstance(base, SquaredExponential) and base.columns is None
    boxed = law.dim in GRID
    per_side = GRID.get(law.dim, 1)
    least = max(STRONG_NOISE, 2.0 * _GRID_STEPS / per_side) * half_width
    strong = law.sd > least and n * per_side**law.dim <= _LARGEST_BOX
    if boxed and (not closed or isinstance(law, CellLaw) or strong):
        return "box"
    if not closed:
        raise InvalidParameter(
            f"{type(base).__name__} has no closed form under noise, and positions are averaged on a grid in "
            "at most three dimensions only: use SquaredExponential"
        )
    return "flat"


class RowPosterior:
    """Gaussian process over the n rows of a release.

    Args:
        published: The rows, with the law of their noise.
        kernel: Covariance of the objective f at true positions, in public coordinates.
        noise_sd: Standard deviation of an answer around f(x), above 0.
        mean: Prior mean of f.
        kind: "flat", "box" or "plugin", as in the module; "auto" uses `choose_posterior`.
        capacity: Number of answers to reserve memory for.
        weights: Averages of an earlier `box` posterior of the same rows (`weights`), or None.

    Attributes:
        scale: Prior standard deviation of a row's value, the unit in which scores are compared.
    """

    def __init__(
        self,
        published: PublishedRows,
        *,
        kernel: Kernel,
        noise_sd: float,
        mean: float,
        kind: PosteriorKind | Literal["auto"],
        capacity: int,
        weights: "BoxAverages | None" = None,
    ) -> None:
        inputs, law, half_width = published.inputs, published.law, published.half_width
        n, dim = inputs.shape
        if kind == "auto":
            kind = choose_posterior(n=n, law=law, kernel=kernel, half_width=half_width)
        row_kernel: Kernel
        if kind == "box":
            weights = BoxAverages(inputs, law, half_width) if weights is None else weights
            shared = weights.average(kernel)
            variance = kernel.max_variance
            self.nugget = np.maximum(variance - np.einsum("ij,ij->i", shared, shared), 0.0)
            row_kernel = RowKernel(smooth=FeatureKernel(bound=variance), variance=variance)
            pool = np.column_stack([self.nugget, shared])
            del shared
        elif kind == "flat":
            smooth, nugget = expected_kernel(kernel, *law.difference_mixture(), dim=dim)
            self.nugget = np.full(n, nugget)
            row_kernel = RowKernel(smooth=smooth, variance=kernel.max_variance)
            pool = np.column_stack([self.nugget, inputs])
        else:
            self.nugget = np.zeros(n)
            row_kernel, pool = kernel, inputs
        self.kind: PosteriorKind = kind
        self.weights = weights
        self.prior_mean, self.noise_sd = mean, noise_sd
        self.scale = math.sqrt(kernel.max_variance)
        self._process = PoolGP(kernel=row_kernel, pool=pool, noise_sd=noise_sd, capacity=capacity)

    def add(self, row: int, answer: float) -> None:
        """Add the answer of a row."""
        self._process.add(row, answer - self.prior_mean)

    def imagining(self) -> AbstractContextManager[None]:
        """Return a context manager that removes all answers added within it at its end."""
        return self._process.imagining()

    def imagine(self, rows: list[int]) -> None:
        """Add imagined answers of `rows`, equal to their means: variances shrink, and means do not change."""
        for row in rows:
            self._process.add(row, self._process.mean_at(row))

    @property
    def is_empty(self) -> bool:
        """True if no answer was added."""
        return self._process.n_observations == 0

    @property
    def mean(self) -> FloatArray:
        """Posterior means of the rows' values, shape (n,)."""
        values = self.centred_mean
        if self.prior_mean:
            values += self.prior_mean
        return values

    @property
    def centred_mean(self) -> FloatArray:
        """Posterior means of the rows' values, minus the prior mean, shape (n,)."""
        return self._process.mean

    @property
    def variance(self) -> FloatArray:
        """Posterior variances of the rows' values, including the nugget, shape (n,)."""
        return self._process.variance

    @property
    def signal_variance(self) -> FloatArray:
        """Posterior variances without the nugget, shape (n,); meaningless for answered rows."""
        values = self._process.variance
        values -= self.nugget
        return np.maximum(values, 0.0, out=values)


class BoxAverages:
    """Averages of a kernel's features over a row's position, which is uniform in the cube a priori.

    With features k(x, y) = phi(x) . phi(y), two rows released as z and z' have covariance m(z) . m(z'),
    where m(z) = E[phi(x) | z].

    - Mixtures of Gaussian noise: p(x | z) is proportional to the noise's density at z - x, on a grid of the
      cube. Squared distances are sums of one-dimensional ones. So the weights, in single precision, lose
      nothing to cancellation (their relative errors are near 1e-6, far below those of the grid).
    - Cells: x is uniform in the reported cell with probability `keep`, else uniform outside it. Each cell is
      averaged over its own points, so cells may be finer than the grid.

    Features are omitted if their joint share of the variance is below `_LEAST_SHARE`; the nugget includes
    the variance that they would explain. Values that depend on the release alone are the same for all
    kernels, and are stored if they fit into memory.

    Args:
        inputs, law: Released rows (n, d), and their noise law.
        half_width: Half the side of the public cube [-half_width, half_width]^d.

    Raises:
        InvalidParameter: the release has more than three dimensions.
    """

    def __init__(self, inputs: FloatArray, law: NoiseLaw, half_width: float) -> None:
        dim = inputs.shape[1]
        if dim not in GRID:
            raise InvalidParameter(
                f"posterior='box' needs at most {max(GRID)} dimensions, the release has {dim}"
            )
        if not isinstance(law, CellLaw | IsotropicLaw):
            raise InvalidParameter(f"posterior='box' does not support the noise law {type(law).__name__}")
        self._axis = _midpoints(GRID[dim], half_width)
        self._grid = _product(self._axis, dim)
        self._cube = Box(low=np.full(dim, -half_width), high=np.full(dim, half_width))
        self._law = law
        self._inputs = inputs
        self._kept: list[_Single] | None = None
        if isinstance(law, IsotropicLaw) and len(inputs) * len(self._grid) <= _KEPT_ELEMENTS:
            self._kept = [self._weights(law, at) for at in self._chunks()]

    def average(self, kernel: Kernel) -> FloatArray:
        """Return the averages m(z) of m features for each row, shape (n, m); see the class."""
        features = MercerFeatures(kernel=kernel, domain=self._cube, n_features=_FEATURES, scale=1.0)
        scale = math.sqrt(max(1.0, kernel.max_variance))
        on_grid = features(self._grid) * scale
        left_out = np.cumsum((on_grid**2).mean(axis=0)[::-1])[::-1]  # share of a column and all after it
        used = max(1, int((left_out > _LEAST_SHARE * kernel.max_variance).sum()))
        on_grid = on_grid[:, :used]
        if isinstance(self._law, CellLaw):
            return self._average_cells(self._law, features, scale, on_grid.mean(axis=0))
        # The last column sums the weights, so that only the sums need to be divided.
        narrow = np.column_stack([on_grid, np.ones(len(on_grid))]).astype(np.float32)
        averaged = np.empty((len(self._inputs), used))
        for number, at in enumerate(self._chunks()):
            sums = (self._weights(self._law, at) if self._kept is None else self._kept[number]) @ narrow
            np.divide(sums[:, :-1], sums[:, -1:], out=averaged[at])
        return averaged

    def _average_cells(
        self, law: CellLaw, features: MercerFeatures, scale: float, everywhere: FloatArray
    ) -> FloatArray:
        places, inverse = np.unique(self._inputs, axis=0, return_inverse=True)
        dim = places.shape[1]
        per_side = max(1, round(len(self._axis) * law.width / (2.0 * law.half_width)))
        inside = np.zeros((len(places), len(everywhere)))
        offsets = _product(_midpoints(per_side, 0.5 * law.width), dim)
        for offset in offsets:
            inside += features(places + offset)[:, : len(everywhere)]
        inside = inside * (scale / len(offsets))
        share = (0.5 * law.width / law.half_width) ** dim
        outside = (everywhere - share * inside) / (1.0 - share)
        averaged: FloatArray = (law.keep * inside + (1.0 - law.keep) * outside)[inverse.reshape(-1)]
        return averaged

    def _chunks(self) -> Iterator[slice]:
        step = max(1, _CHUNK_ELEMENTS // len(self._grid))
        return (slice(start, start + step) for start in range(0, len(self._inputs), step))

    def _weights(self, law: IsotropicLaw, at: slice) -> _Single:
        """Return posterior weights of grid points for some rows, shape (rows, grid points)."""
        rows = self._inputs[at]
        dim = rows.shape[1]
        gaps = (rows.T[:, :, None] - self._axis) ** 2  # (dim, rows, axis)
        nearest = gaps.min(axis=2).sum(axis=0)
        gaps = gaps.astype(np.float32)
        squares = gaps[0]
        for coordinate in gaps[1:]:
            squares = (squares[:, :, None] + coordinate[:, None, :]).reshape(len(rows), -1)
        weights: _Single = law.radial_log_density(squares if dim > 1 else squares.copy())
        weights -= law.radial_log_density(nearest).astype(np.float32)[:, None]
        np.exp(weights, out=weights)
        return weights


def _midpoints(count: int, half_width: float) -> FloatArray:
    return np.asarray((np.arange(count) + 0.5) * (2.0 * half_width / count) - half_width, dtype=np.float64)


def _product(axis: FloatArray, dim: int) -> FloatArray:
    """Return the grid points with all combinations of coordinates, shape (len(axis)^dim, dim)."""
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)

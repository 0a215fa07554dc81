"""Posterior of a modeler about every row of a release: a Gaussian process that expects the noise.

Two ways to treat the unknown position x behind a released row z = x + e:

- **flat**: any position is as likely as another, so x given z is z - e. The kernel averages in closed
  form (`dpbandits.models.expected_kernel`); the cost is that of an exact kernel with ten terms.
- **box**: positions are uniform in the public cube, so x given z is weighted by the noise's density
  and cut off at the cube's faces (`BoxAverages`). For strong noise, published rows lie far outside of the
  cube, and knowing that no row does is worth a lot.
- **plugin**: z is taken for x. To compare with; it is what the published method does.

In the first two, a row's own variance exceeds that of the shared part by its *nugget*, which only the row's
own answer can explain. `signal_variance` is the variance without it: what asking teaches about other rows.
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
"""Points along each side of the cube on which positions are averaged, by dimension."""

STRONG_NOISE = 0.08
"""The box pays when the noise's standard deviation exceeds this share of half the cube's side."""
_GRID_STEPS = 0.8
"""... and this many steps of the grid, which could not resolve weaker noise."""

_LARGEST_BOX = 5e8
"""Entries above which the rule no longer chooses the box: some ten seconds a fit."""

_FEATURES = 192
_LEAST_SHARE = 1e-6
_CHUNK_ELEMENTS = 1 << 18
"""Entries of the (rows, grid) matrix computed at a time: stays in cache."""
_KEPT_ELEMENTS = 1 << 25
"""Entries kept in single precision between fits (128 MiB); beyond, they are computed for every fit."""

_Single = NDArray[np.float32]


def choose_posterior(*, n: int, law: NoiseLaw, kernel: Kernel, half_width: float) -> PosteriorKind:
    """The rule for `posterior="auto"`, from public numbers.

    box in up to three dimensions for cells, for noise above `STRONG_NOISE` half widths (unless there are
    very many rows), and for kernels without a closed form; flat otherwise.

    Raises:
        InvalidParameter: neither can work.
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
    """Gaussian process over the rows of a release.

    Args:
        published: the rows, with the law of their noise.
        kernel: covariance of f at true positions, in public coordinates.
        noise_sd: standard deviation of an answer around f(x), above 0.
        mean: prior mean of f.
        kind: see the module; "auto" asks `choose_posterior`.
        capacity: answers to reserve memory for.
        weights: for `box`: what an earlier posterior of the same rows computed (`weights`).

    Attributes:
        scale: prior standard deviation of a row's value: the unit in which scores are compared.
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
        """Learn the answer of a row."""
        self._process.add(row, answer - self.prior_mean)

    def imagining(self) -> AbstractContextManager[None]:
        """Return a context at whose end the answers added in it are removed."""
        return self._process.imagining()

    def imagine(self, rows: list[int]) -> None:
        """Add answers at `rows` that are equal to their means: variances shrink, means stay."""
        for row in rows:
            self._process.add(row, self._process.mean_at(row))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was added yet."""
        return self._process.n_observations == 0

    @property
    def mean(self) -> FloatArray:
        """(n,) posterior means of the rows' values."""
        values = self.centred_mean
        if self.prior_mean:
            values += self.prior_mean
        return values

    @property
    def centred_mean(self) -> FloatArray:
        """(n,) posterior means of the rows' values, less the prior mean."""
        return self._process.mean

    @property
    def variance(self) -> FloatArray:
        """(n,) posterior variances of the rows' values, nugget included."""
        return self._process.variance

    @property
    def signal_variance(self) -> FloatArray:
        """(n,) posterior variances without the nugget; meaningless for rows that were answered."""
        values = self._process.variance
        values -= self.nugget
        return np.maximum(values, 0.0, out=values)


class BoxAverages:
    """Averages of a kernel's features over where a row can lie: uniform in the cube, given its release.

    With features k(x, y) = phi(x) . phi(y), two rows have covariance m(z) . m(z') for m(z) = E[phi(x) | z].

    - Noise of Gaussian mixtures: p(x | z) is proportional to the noise's density at z - x, on a grid of the
      cube. Squared distances are sums of one-dimensional ones, so nothing is lost to cancellation in single
      precision, which the weights are computed in (relative errors near 1e-6, far below those of the grid).
    - Cells: with probability `keep` uniform in the reported cell, else uniform outside of it. Each cell is
      averaged over points of its own, so cells may be finer than the grid.

    Features whose share of the variance, all together, is below `_LEAST_SHARE` are left out; the row's nugget
    takes what they would have explained. What depends on the release alone is the same for all kernels, so
    it is kept when there is room.

    Args:
        inputs, law: (n, d) released rows, and their noise law.
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
        if isinstance(law, IsotropicLaw) and len(inputs) * len(self._grid) <= _KEPT_ELEMENTS:
            self._kept = [self._weights(law, at) for at in self._chunks()]

    def average(self, kernel: Kernel) -> FloatArray:
        """(n, m) with m(z) . m(z') = E[k(x, x') | z, z'] for x, x' uniform in the cube a priori."""
        features = MercerFeatures(kernel=kernel, domain=self._cube, n_features=_FEATURES, scale=1.0)
        scale = math.sqrt(max(1.0, kernel.max_variance))
        on_grid = features(self._grid) * scale
        left_out = np.cumsum((on_grid**2).mean(axis=0)[::-1])[::-1]  # by column, with all that follow
        used = max(1, int((left_out > _LEAST_SHARE * kernel.max_variance).sum()))
        on_grid = on_grid[:, :used]
        if isinstance(self._law, CellLaw):
            return self._average_cells(self._law, features, scale, on_grid.mean(axis=0))
        # The last column sums the weights, so that they need not be divided one by one.
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
        """(rows, grid) posterior weights, up to a factor a row; the largest is one, so no row underflows."""
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
    """`count` midpoints of equal parts of [-half_width, half_width]."""
    return np.asarray((np.arange(count) + 0.5) * (2.0 * half_width / count) - half_width, dtype=np.float64)


def _product(axis: FloatArray, dim: int) -> FloatArray:
    """(len(axis)^dim, dim) points, the last coordinate fastest."""
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)

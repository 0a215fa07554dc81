"""What a modeler believes about every row of a release: a Gaussian process that expects the noise.

Two ways to treat the unknown position x behind a released row z = x + e:

- **flat**: any position is as likely as another, so x given z is z - e. The kernel averages in closed
  form (`dpbandits.models.expected_kernel`); the cost is that of an exact kernel with ten terms.
- **box**: positions are uniform in the public cube, so x given z is weighted by the noise's density
  and cut off at the cube's faces (`dpbandits.outsourced.modeler.box`). For strong noise, published rows lie
  far outside of the cube, and knowing that no row does is worth a lot.
- **plugin**: z is taken for x. To compare with; it is what the published method does.

In the first two, a row's own variance exceeds that of the shared part by its *nugget*, which only the
row's own answer can explain. `signal_variance` is the variance without it: what asking teaches about
other rows.
"""

import copy
from typing import Literal

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.expected_kernel import FeatureKernel, RowKernel, expected_kernel, strip_scale
from dpbandits.models.gaussian_process import PoolGP
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.outsourced.modeler.box import GRID, BoxAverages
from dpbandits.outsourced.publish import PublishedRows
from dpbandits.privacy.rows import CellLaw, NoiseLaw

__all__ = ["PosteriorKind", "RowPosterior", "choose_posterior"]

PosteriorKind = Literal["flat", "box", "plugin"]

STRONG_NOISE = 0.08
"""The box pays when the noise's standard deviation exceeds this share of half the cube's side."""
_GRID_STEPS = 0.8
"""... and this many steps of the grid, which could not resolve weaker noise."""

_LARGEST_BOX = 5e8
"""Entries above which the rule no longer chooses the box: some ten seconds a fit."""


def choose_posterior(
    *, n: int, law: NoiseLaw, kernel: Kernel, half_width: float, projected: bool
) -> PosteriorKind:
    """The rule for `posterior="auto"`, from public numbers.

    box in up to three dimensions for cells, for noise above `STRONG_NOISE` half widths (unless there are
    very many rows), and for kernels without a closed form; flat otherwise.

    Raises:
        InvalidParameter: neither can work.
    """
    base, _ = strip_scale(kernel)
    closed = isinstance(base, SquaredExponential) and base.columns is None
    boxed = law.dim in GRID and not projected
    per_side = GRID.get(law.dim, 1)
    least = max(STRONG_NOISE, 2.0 * _GRID_STEPS / per_side) * half_width
    strong = law.sd > least and n * per_side**law.dim <= _LARGEST_BOX
    if boxed and (not closed or isinstance(law, CellLaw) or strong):
        return "box"
    if not closed:
        raise InvalidParameter(
            f"{type(base).__name__} has no closed form under noise, and positions are averaged on a grid in "
            "at most three unprojected dimensions only: use SquaredExponential"
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
        weights: BoxAverages | None = None,
    ) -> None:
        inputs, law, half_width = published.inputs, published.law, published.half_width
        n, dim = inputs.shape
        if kind == "auto":
            kind = choose_posterior(
                n=n, law=law, kernel=kernel, half_width=half_width, projected=published.projected
            )
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
        self.prior_mean = mean
        self._process = PoolGP(kernel=row_kernel, pool=pool, noise_sd=noise_sd, capacity=capacity)

    def add(self, row: int, answer: float) -> None:
        """Learn the answer of a row."""
        self._process.add(row, answer - self.prior_mean)

    def imagine(self, rows: list[int]) -> "RowPosterior":
        """A copy that has seen answers at `rows` equal to their means: variances shrink, means stay."""
        imagined = copy.copy(self)
        imagined._process = copy.deepcopy(self._process)
        for row in rows:
            imagined._process.add(row, float(imagined._process.mean[row]))
        return imagined

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added yet."""
        return self._process.n_observations == 0

    @property
    def mean(self) -> FloatArray:
        """(n,) posterior means of the rows' values."""
        values = self._process.mean
        if self.prior_mean:
            values += self.prior_mean
        return values

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

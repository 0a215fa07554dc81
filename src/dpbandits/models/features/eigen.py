r"""Eigenfeatures: the eigenfunctions of a kernel's integral operator under a product of public measures.

For a probability mu on cells w, (T f)(w) = sum_v k(w, v) mu(v) f(v) has eigenpairs (lambda_i, psi_i). The
psi_i are orthonormal under mu, and k(w, v) = sum_i lambda_i psi_i(w) psi_i(v). In this basis regression on
data from mu is diagonal, so a million rounds cost no more than their cell sums.

- **Kronecker.** If the kernel factors over groups of measures, eigenpairs of the groups are multiplied.
  Products do so, and squared exponentials, which factor over columns.
- **Nystrom.** A group with more than `LARGEST_DENSE` cells is reduced by pivoted Cholesky. Landmarks are
  chosen greedily, in blocks, at the largest mu times missing variance. Within their span the eigenpairs are
  then exact (Rayleigh-Ritz).

**Truncation.** Eigenpairs below `tolerance` times the largest are left out. The error is known:
`missing_variance` is sum_w mu(w) (k(w, w) - sum_i lambda_i psi_i(w)^2) over sum_w mu(w) k(w, w). The
remainder is itself a kernel, so this bounds every covariance of the remainder, by Cauchy-Schwarz.

Truncation affects accuracy only: noise is calibrated to the features that are kept.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular

from dpbandits._checks import an, integer, number
from dpbandits._config import Configured
from dpbandits._memory import FLOAT, check_fits
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.models import kernels
from dpbandits.models.features.base import warn_if_little_is_held
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel, ProductKernel, ScaledKernel
from dpbandits.models.measures import CellMeasure

__all__ = ["EigenFeatures"]

LARGEST_DENSE = 700
"""Largest number of cells of a group without pivoted Cholesky."""

LANDMARK_SHARE = 3.0
"""Share of the variance that may be missing when pivoted Cholesky stops, in units of `tolerance`. With it
eigenvalues above `tolerance` are accurate to a few digits.
"""

MOST_LANDMARKS = 500
"""Largest number of landmarks, which bounds the time for rough
kernels; `missing_variance` reports the error.
"""

BLOCK = 20
CANDIDATES = 320
"""Number of candidates among which the next `BLOCK` landmarks are
chosen, nearly as well as from all cells.
"""

COPIES = 9
"""Number of arrays of the size of the eigenfunctions in memory while a log is published.

Measured with three columns and 20 arms, for a policy that releases the law of contexts.
"""

DEFAULT_TOLERANCE = 1e-6


class EigenFeatures(Configured):
    """Eigenpairs (lambda_i, psi_i) of `kernel` under the product of `measures`, at its n cells.

    Cells are numbered row-major over the measures, as in `CellMeasure.product`.

    Args:
        kernel: Kernel over the concatenated columns of the measures.
        measures: Independent public laws, such as (actions, contexts).
        tolerance: Share of the largest eigenvalue below which eigenvalues are left out.
        largest: Largest number of features.

    Attributes:
        eigenvalues: Eigenvalues, decreasing, shape (m,).
        psi: Eigenfunctions at the cells, shape (n, m).
        weights: Probabilities of the cells, shape (n,).
        variance: Variances k(w, w), shape (n,).
        missing_variance: Share of the mean variance that truncation leaves out.

    Raises:
        InvalidParameter: There are no measures, the tolerance is outside (0, 1), or the eigenfunctions do not
            fit into memory.

    Warns:
        LittleVariance: The features hold less than 80% of the kernel's variance.

    Example:
        >>> features = EigenFeatures(
        ...     kernel=SquaredExponential(lengthscale=0.3),
        ...     measures=(CellMeasure.uniform(low=0, high=1, cells=12), CellMeasure.finite([0.0, 0.5, 1.0])))
        >>> gram = features.psi.T @ (features.weights[:, None] * features.psi)
        >>> bool(abs(gram - np.eye(features.n_features)).max() < 1e-10), features.missing_variance < 1e-6
        (True, True)
    """

    # Features that were computed elsewhere may differ; see `in_basis`.
    config_parsers: ClassVar[Mapping[str, Any]] = {
        "kernel": kernels.from_config,
        "measures": lambda measures: [CellMeasure.from_config(measure) for measure in measures],
    }

    def __init__(
        self,
        *,
        kernel: Kernel,
        measures: Sequence[CellMeasure],
        tolerance: float = DEFAULT_TOLERANCE,
        largest: int | None = None,
    ) -> None:
        an(kernel, Kernel, name="kernel", pass_="kernel=kernels.Matern(nu=2.5, lengthscale=0.3)")
        measures = list(measures)
        for measure in measures:
            an(measure, CellMeasure, name="measures", pass_="measures=(CellMeasure.uniform(...), ...)")
        if not measures:
            raise InvalidParameter("eigenfeatures need at least one measure")
        if number(tolerance, name="tolerance") >= 1.0:
            raise InvalidParameter(f"tolerance is {tolerance:g}, expected a number in (0, 1)")
        if largest is not None:
            integer(largest, name="largest")
        self.kernel, self.measures, self.tolerance, self.largest = kernel, tuple(measures), tolerance, largest
        self.weights = CellMeasure.product(*self.measures).weights

        scale, groups = _split(kernel, self.measures)
        values, psi = np.full(1, scale), np.ones((1, 1))
        variance = np.full(1, scale)
        for part, measure in groups:
            part_values, part_psi, part_variance = _eigenpairs(part, measure, tolerance)
            products = np.multiply.outer(values, part_values).ravel()
            kept = _leading(products, tolerance, largest)
            left, right = np.divmod(kept, len(part_values))  # products that are left out are not computed
            needed = FLOAT * COPIES * len(psi) * len(part_psi) * len(kept)
            check_fits(needed, instead="take fewer cells or arms, or a smoother kernel")
            values = products[kept]
            psi = (psi[:, None, left] * part_psi[None, :, right]).reshape(-1, len(kept))
            variance = np.multiply.outer(variance, part_variance).ravel()
        self.eigenvalues, self.psi, self.variance = values, np.ascontiguousarray(psi), variance
        self.missing_variance = max(0.0, 1.0 - float(values.sum()) / float(self.weights @ variance))
        warn_if_little_is_held(
            1.0 - self.missing_variance,
            what=f"{len(values)} eigenfunctions",
            mend="pass a longer lengthscale, a smoother kernel, or more of them (tolerance, largest)",
        )

    @property
    def n_features(self) -> int:
        """Number m of features."""
        return len(self.eigenvalues)

    @property
    def n_cells(self) -> int:
        """Number n of cells."""
        return len(self.weights)

    @cached_property
    def squares(self) -> FloatArray:
        """Squares psi^2 (n, m); a function with independent coefficients has variance squares @ variances."""
        return self.psi**2

    @cached_property
    def left_out(self) -> FloatArray:
        """Part of each k(w, w) that the features leave out, as a share of the mean variance, shape (n,)."""
        mean = float(self.weights @ self.variance)
        return np.asarray(np.maximum(self.variance - self.squares @ self.eigenvalues, 0.0) / mean)

    def feature_map(self) -> FloatArray:
        """Return the vectors sqrt(lambda) psi(w) of all cells w, shape (n, m).

        Their inner products are the truncated kernel.
        """
        return np.asarray(self.psi * np.sqrt(self.eigenvalues))

    def information_gain(self, rounds: float, ridge: float) -> float:
        """Return the information gain 1/2 sum_i log(1 + T lambda_i/tau) of T observations about the function.

        Args:
            rounds: Number T of observations.
            ridge: Noise variance tau of an observation.
        """
        return 0.5 * float(np.log1p(rounds * self.eigenvalues / ridge).sum())

    def effective_dimension(self, rounds: float, ridge: float) -> float:
        """Return sum_i T lambda_i/(T lambda_i + tau), the number of features that T rounds determine.

        Args:
            rounds: Number T of observations.
            ridge: Noise variance tau of an observation.
        """
        told = rounds * self.eigenvalues
        return float((told / (told + ridge)).sum())

    def in_basis(self, eigenvalues: FloatArray, psi: FloatArray) -> "EigenFeatures":
        """Return these features with eigenvalues (m,) and eigenfunctions (n, m) from an earlier computation.

        The signs of eigenfunctions and the basis of equal eigenvalues are arbitrary, so another machine or
        another number of threads may give other ones.

        Raises:
            InvalidParameter: The arrays are not eigenpairs of this kernel under these measures.
        """
        shaped = psi.shape == (self.n_cells, len(eigenvalues)) and len(eigenvalues) > 0
        if not shaped or not (np.isfinite(psi).all() and (eigenvalues > 0.0).all()):
            raise InvalidParameter("in_basis: expected eigenvalues (m,) above 0 and finite psi (n, m)")
        gram = psi.T @ (self.weights[:, None] * psi)
        known = min(len(eigenvalues), self.n_features)
        off = np.abs(eigenvalues[:known] - self.eigenvalues[:known]).max() / self.eigenvalues[0]
        if np.abs(gram - np.eye(len(gram))).max() > 1e-4 or off > 1e-4:
            raise InvalidParameter(
                "in_basis: the eigenpairs are not those of this kernel and these measures: pass those that "
                "were stored with them"
            )
        other = copy.copy(self)
        for computed in ("squares", "left_out"):
            other.__dict__.pop(computed, None)
        other.eigenvalues, other.psi = eigenvalues.copy(), np.ascontiguousarray(psi)
        return other

    def __repr__(self) -> str:
        return f"EigenFeatures(n_cells={self.n_cells}, n_features={self.n_features})"


def _leading(values: FloatArray, tolerance: float, largest: int | None) -> IntArray:
    order = np.argsort(-values, kind="stable")
    return np.asarray(order[values[order] >= tolerance * values[order[0]]][:largest])


# -- factors of a kernel, and their measures ---------------------------------------------------------


def _split(
    kernel: Kernel, measures: tuple[CellMeasure, ...]
) -> tuple[float, list[tuple[Kernel | None, CellMeasure]]]:
    """Split a kernel into a constant times kernels over runs of neighbouring measures.

    Returns:
        The constant, and for each run the kernel over its columns (None if constant) and its joint measure.
    """
    ends = np.cumsum([measure.dim for measure in measures]).tolist()
    spans = [(end - measure.dim, end) for end, measure in zip(ends, measures, strict=True)]
    scale, parts = _factors(kernel, ends[-1])
    joined = list(range(len(measures)))  # measure -> first measure of its run
    for _, columns in parts:
        touched = [k for k, (low, high) in enumerate(spans) if any(low <= c < high for c in columns)]
        first, last = joined[touched[0]], touched[-1]
        for k in range(len(joined)):
            if first <= joined[k] <= last or first <= k <= last:
                joined[k] = min(first, joined[k])
    groups: list[tuple[Kernel | None, CellMeasure]] = []
    for first in sorted(set(joined)):
        members = [k for k in range(len(measures)) if joined[k] == first]
        low, high = spans[members[0]][0], spans[members[-1]][1]
        own = [_shifted(part, columns, low) for part, columns in parts if low <= columns[0] < high]
        run = [measures[k] for k in members]
        measure = run[0] if len(run) == 1 else CellMeasure.product(*run)
        groups.append((reduce(lambda a, b: a * b, own) if own else None, measure))
    return scale, groups


def _factors(kernel: Kernel, dim: int) -> tuple[float, list[tuple[Kernel, tuple[int, ...]]]]:
    """Return a constant and the factors of a kernel, each with the indices of the columns that it reads."""
    if isinstance(kernel, ScaledKernel):
        scale, parts = _factors(kernel.kernel, dim)
        return scale * kernel.variance, parts
    if isinstance(kernel, ProductKernel):
        pieces = [_factors(part, dim) for part in kernel.parts]
        return math.prod(scale for scale, _ in pieces), [part for _, parts in pieces for part in parts]
    columns = getattr(kernel, "columns", None)
    looked_at = tuple(range(dim)) if columns is None else tuple(sorted(columns))
    if max(looked_at) >= dim:
        raise InvalidParameter(f"the kernel reads column {max(looked_at)}, expected one of 0 .. {dim - 1}")
    if isinstance(kernel, SquaredExponential) and len(looked_at) > 1:
        given = range(dim) if kernel.columns is None else kernel.columns
        scales = kernel.lengthscale
        lengths = scales if isinstance(scales, tuple) else (scales,) * len(looked_at)
        if len(lengths) != len(looked_at):
            raise InvalidParameter(f"{len(lengths)} lengthscales for {len(looked_at)} columns")
        return 1.0, [
            (SquaredExponential(lengthscale=length, columns=(column,)), (column,))
            for column, length in zip(given, lengths, strict=True)
        ]
    return 1.0, [(kernel, looked_at)]


def _shifted(kernel: Kernel, columns: tuple[int, ...], offset: int) -> Kernel:
    if offset == 0:
        return kernel
    config = dict(kernel.to_config())
    if "columns" not in config:
        raise InvalidParameter("kernel: expected sums over the columns of all measures, or of the first ones")
    own = columns if config["columns"] is None else config["columns"]
    config["columns"] = [column - offset for column in own]
    return kernels.from_config(config)


# -- eigenpairs of one group -------------------------------------------------------------------------


def _eigenpairs(
    kernel: Kernel | None, measure: CellMeasure, tolerance: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return eigenvalues (m,), eigenfunctions (n, m) and variances (n,) of a kernel under one measure.

    Eigenfunctions have values at all n cells, also at cells of weight 0.
    """
    points, weights = measure.points, measure.weights
    if kernel is None:  # the kernel does not read these columns, so functions are constant along them
        return np.ones(1), np.ones((len(points), 1)), np.ones(len(points))
    variance = kernel.diagonal(points)
    factor = (_exact if len(points) <= LARGEST_DENSE else _pivoted)(kernel, points, weights, tolerance)
    values, rotation = np.linalg.eigh(factor.T @ (weights[:, None] * factor))
    values, rotation = values[::-1], rotation[:, ::-1]
    kept = _leading(values, tolerance, None)
    psi = factor @ (rotation[:, kept] / np.sqrt(values[kept]))
    # Signs are arbitrary, and fixed here, so that they do not depend on the linear algebra library.
    signs = np.sign(psi[np.abs(psi).argmax(axis=0), np.arange(psi.shape[1])])
    return values[kept], psi * signs, variance


def _exact(kernel: Kernel, points: FloatArray, weights: FloatArray, _: float) -> FloatArray:
    """Return F (n, k) with F F^T = K, the kernel matrix of cells of positive weight.

    Rows of the other cells are extrapolated.
    """
    landmarks = np.flatnonzero(weights > 0.0)
    # k(w, Z) K_ZZ^(-1/2), from the eigenvectors of the landmarks' operator.
    at = np.sqrt(weights)[landmarks]
    inner, vectors = np.linalg.eigh(at[:, None] * kernel(points[landmarks]) * at)
    usable = inner > 1e-13 * inner[-1]
    scaled = at[:, None] * vectors[:, usable] / np.sqrt(inner[usable])
    return np.asarray(kernel(points, points[landmarks]) @ scaled)


def _pivoted(kernel: Kernel, points: FloatArray, weights: FloatArray, tolerance: float) -> FloatArray:
    """Return F (n, k) with F F^T = k(., Z) K_ZZ^-1 k(Z, .) for k landmarks Z, by pivoted Cholesky."""
    missing = kernel.diagonal(points).copy()
    negligible = 1e-9 * float(missing.max())
    enough = LANDMARK_SHARE * tolerance * float(weights @ missing)
    most = min(len(points), MOST_LANDMARKS)
    rows, count = np.empty((most, len(points))), 0  # F^T
    while count < most and float(weights @ missing) > enough:
        shares = np.cumsum(weights * missing)
        steps = (np.arange(CANDIDATES) + 0.5) / CANDIDATES * shares[-1]
        candidates = np.unique(np.minimum(np.searchsorted(shares, steps), len(points) - 1))
        known = rows[:count, candidates]
        residual = kernel(points[candidates]) - known.T @ known
        pivots = candidates[_greedy(residual, weights[candidates], negligible, most - count)]
        if not len(pivots):
            break
        left = kernel(points[pivots], points) - rows[:count, pivots].T @ rows[:count]
        lower = np.linalg.cholesky(left[:, pivots])
        fresh = solve_triangular(lower, left, lower=True, check_finite=False)
        rows[count : count + len(pivots)] = fresh
        missing = np.maximum(missing - np.einsum("ij,ij->j", fresh, fresh), 0.0)
        missing[pivots] = 0.0
        count += len(pivots)
    return rows[:count].T


def _greedy(left: FloatArray, weights: FloatArray, negligible: float, most: int) -> IntArray:
    """Choose up to `BLOCK` rows of the residual kernel matrix `left` greedily; return their indices."""
    left, chosen = left.copy(), np.zeros(0, dtype=np.int64)
    while len(chosen) < min(BLOCK, most):
        missing = left.diagonal()
        pivot = int(np.argmax(weights * missing))
        if weights[pivot] <= 0.0 or missing[pivot] <= negligible:
            break
        column = left[:, pivot] / math.sqrt(missing[pivot])
        left -= np.multiply.outer(column, column)
        left[pivot], left[:, pivot] = 0.0, 0.0
        chosen = np.append(chosen, pivot)
    return chosen

"""Base class of feature maps, and their registry for configurations.

A feature map is public: it is computed from the domain, the kernel and a seed, never from data. The
sensitivity of a private release of features depends on the bound on their norm. Maps enforce this bound by
scaling, and the release mechanism enforces it again, in integers.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import caller_level
from dpbandits._config import Configured, Registry
from dpbandits._typing import FloatArray
from dpbandits.domains import Domain
from dpbandits.errors import DPBanditsWarning, InvalidData
from dpbandits.models.features.supports import Placed, Supports, placed_from_dense
from dpbandits.models.kernels.base import DIFFERENCE

__all__ = [
    "FEATURES",
    "NORM_BOUND",
    "Features",
    "LittleVariance",
    "Supports",
    "checked_points",
    "checked_rows_of_weights",
    "checked_weights",
    "from_config",
    "in_fixed_shapes",
    "left_out",
    "warn_if_little_is_held",
]

ROWS_AT_ONCE = 128
"""Number of points whose features `in_fixed_shapes` computes at a time. It is a multiple of the tile size of
matrix kernels, and covers most blocks of a short run. Larger blocks need several batches, at little cost.
"""

NORM_BOUND = 1.0 - 2.0**-40
"""Largest norm of a feature vector. It is below one by more than
the rounding error of any summation order.
"""


ENOUGH_VARIANCE = 0.8
"""Share of the prior variance that features should hold; a smaller
share gives the warning `LittleVariance`.
"""


class Features(Configured, ABC):
    """Map from points to feature vectors of norm at most one, finite on the whole domain.

    A map must not fail on any point of its domain. The failure would occur when the block with this point is
    released, during another user's call. So an error in that call would depend on the data of the user with
    the point.

    Subclasses set the attributes and define `__call__`. A subclass that approximates a kernel k also sets
    `scale` and defines `variance`. Otherwise the prior contains only functions that are linear in the
    features.

    Attributes:
        n_features: Length m of a feature vector.
        supports: Index ranges; every feature vector is zero outside one of them. It is ((0, m),) for maps
            without such structure.
        scale: Number by which features were divided: scale^2 phi(x) . phi(y) is close to k(x, y). So a
            function with prior k has weights of variance scale^2.
        row_by_row: True if the other points of a call never change a point's features, not even in the last
            bit. This holds only for maps without a matrix product, whose rounding depends on its shape.
    """

    n_features: int
    supports: Supports
    scale: float = 1.0
    row_by_row: bool = False

    @abstractmethod
    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the feature vectors (..., m) of points (..., d)."""

    def of_known(self, points: FloatArray) -> FloatArray:
        """Return the feature vectors (..., m) of C-contiguous points (..., d) known to lie in the domain.

        Use the result for scores and not for a release. Points are not checked, and a vector whose norm
        exceeds one by rounding is not scaled down.
        """
        return self(points)

    def placed(
        self, points: FloatArray, through: "Callable[[Features, FloatArray], FloatArray] | None" = None
    ) -> Placed:
        """Return the feature vectors of points by support, without the zeros of other supports.

        Args:
            points: Points, shape (n, d).
            through: Function that applies a map to points (n, d); default `map(points)`. A map that contains
                another map passes this function on to it.
        """
        return placed_from_dense(self(points) if through is None else through(self, points), self.supports)

    def to_be_scored(self, points: FloatArray) -> FloatArray:
        """Return the points (n, d) as rows (n, L), whose products with rows of `to_score` are scores.

        The points must lie in the domain, as for `of_known`. Each row depends on its own point only, and not
        on the other points or their number, because these belong to other users.
        """
        return in_fixed_shapes(self, points)

    def to_score(self, weights: FloatArray) -> FloatArray:
        """Return weights (k, m) in the form for `scores_of_known`; compute it once for many decisions."""
        return weights

    def scores_of_known(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        """Return the scores (B, n) of B decision sets (B, n, d), each under its own weights.

        Args:
            points: Decision sets of points known to lie in the domain, as for `of_known`.
            weights: Result of `to_score`, with one row for each decision set.
        """
        return self.project_each(points, weights)

    def project(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """Return phi(X) @ weights, shape (..., k), for points (..., d) and weights (m, k)."""
        return np.asarray(self(X) @ checked_weights(weights, self.n_features))

    def project_each(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """Return the scores (B, n) of B decision sets (B, n, d), each under its own weights (B, m)."""
        phi = self(X)
        matrix = checked_rows_of_weights(weights, phi.shape[:-1], self.n_features)
        return np.asarray(np.matmul(phi, matrix[:, :, None])[:, :, 0])

    def variance(self, X: ArrayLike) -> FloatArray:
        """Return k(x, x) / scale^2 at points (..., d); without truncation of the kernel it is |phi(x)|^2."""
        return np.asarray((self(X) ** 2).sum(axis=-1))

    def largest_squares(self, domain: Domain) -> FloatArray | None:
        """Return bounds (m,) on the squares of the features over a domain; None if they are not known."""
        return None

    def gradient(self, X: FloatArray, V: FloatArray) -> FloatArray:
        """Return the gradients (n, d) of V[i] . phi(x_i) with respect to x_i, for points (n, d) and V (n, m).

        The default is central differences.
        """
        gradient = np.empty_like(X)
        for column in range(X.shape[1]):
            step = DIFFERENCE * (1.0 + np.abs(X[:, column]))
            high, low = X.copy(), X.copy()
            high[:, column] += step
            low[:, column] -= step
            gradient[:, column] = np.einsum("ij,ij->i", V, self(high) - self(low)) / (2.0 * step)
        return gradient

    def written_out(self) -> "Features":
        """Return an equal map whose configuration contains its arrays, so that loading computes nothing.

        The default is the map itself, for maps with a closed form.
        """
        return self

    def basis(self) -> tuple[FloatArray, ...]:
        """Return the arrays of this map that another processor may compute differently, for `in_basis`.

        The default is no arrays, for maps with a closed form.
        """
        return ()

    def in_basis(self, basis: Sequence[FloatArray]) -> "Features":
        """Return this map with the arrays of `basis()` from another machine in place of its own.

        Sums of feature vectors can only be used in the coordinates in which they were computed. Whatever the
        arrays hold, feature vectors are finite and have norm at most one.

        Raises:
            InvalidParameter: The arrays are not a basis of this map.
        """
        return self


FEATURES: Registry[Features] = Registry(
    "features",
    elsewhere={
        "QuadratureFourierFeatures": "dpbandits.models.features.fourier",
        "AdditiveFeatures": "dpbandits.models.features.additive",
        "EffectFeatures": "dpbandits.models.marginals.features",
        "ActionFeatures": "dpbandits.models.marginals.action_features",
    },
)
"""Registry of feature maps. Add your own with `@FEATURES.add("its type")` to read its configurations."""


from_config = FEATURES.read
"""Rebuild features from their `to_config()`; anything else is an `InvalidParameter`."""


class LittleVariance(DPBanditsWarning):
    """Warning: the features hold too little of the kernel's variance to learn most functions of the prior."""


def warn_if_little_is_held(share: float, *, what: str, mend: str) -> None:
    """Warn at the caller's line if features hold less than `ENOUGH_VARIANCE` of the prior variance.

    Args:
        share: Share of the prior variance that the features hold, averaged over the domain's public law.
        what: Name and number of the features, for the message.
        mend: Advice to the caller.
    """
    if share < ENOUGH_VARIANCE:
        warnings.warn(
            f"{what} hold {100.0 * share:.0f}% of the kernel's variance, averaged over the domain: the rest "
            f"of the function cannot be learned from any data; {mend}",
            LittleVariance,
            stacklevel=caller_level(),
        )


def left_out(features: Features, X: FloatArray, phi: FloatArray) -> FloatArray:
    """Return the prior variance at points (..., d) that their feature vectors (..., m) do not represent.

    The result is k(x, x) / scale^2 - |phi(x)|^2, shape (...). A function with prior p k has this variance
    times p scale^2, in addition to the variance that comes from the weights.
    """
    return np.asarray(np.maximum(features.variance(X) - np.einsum("...j,...j->...", phi, phi), 0.0))


def in_fixed_shapes(features: Features, points: FloatArray) -> FloatArray:
    """Return the feature vectors (n, m) of points (n, d), each independent of the other points.

    The integers that a user contributes to a release must not depend on other users, not even by rounding.
    The rounding of a matrix product depends on its shape. So all products have one shape here:
    `ROWS_AT_ONCE` points at a time, with the last batch filled up. With some BLAS kernels rounding also
    depends on a point's position in its batch. So callers must give every user a fixed position, independent
    of who reports. For maps with `row_by_row` neither matters.
    """
    if features.row_by_row:
        return features(points)
    phi = np.empty((len(points), features.n_features))
    for start in range(0, len(points), ROWS_AT_ONCE):
        rows = points[start : start + ROWS_AT_ONCE]
        count = len(rows)
        if count < ROWS_AT_ONCE:
            rows = np.concatenate([rows, np.broadcast_to(rows[:1], (ROWS_AT_ONCE - count, rows.shape[1]))])
        phi[start : start + count] = features(rows)[:count]
    return phi


def checked_points(X: ArrayLike, dim: int) -> tuple[FloatArray, tuple[int, ...]]:
    """Return points (..., dim) as an array (n, dim), and the leading shape (...).

    Raises:
        InvalidData: The points do not have `dim` columns.
    """
    array = np.asarray(X, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != dim:
        raise InvalidData(f"points have shape {array.shape}: these features take (..., {dim})")
    # The sum of squares of finite entries may overflow. That of other entries is never finite.
    if not (math.isfinite(np.vdot(array, array)) or np.isfinite(array).all()):
        raise InvalidData("points contain NaN or infinite entries: validate them against the domain first")
    lead = array.shape[:-1]
    return array.reshape(math.prod(lead), dim), lead


def checked_weights(weights: ArrayLike, n_features: int) -> FloatArray:
    """Return weights as an array (m, k) with m = `n_features`.

    Raises:
        InvalidData: The weights have another shape.
    """
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != n_features:
        raise InvalidData(f"weights have shape {matrix.shape}: expected ({n_features}, k)")
    return matrix


def checked_rows_of_weights(weights: ArrayLike, lead: tuple[int, ...], n_features: int) -> FloatArray:
    """Return weights as an array (B, m), for decision sets with leading shape `lead` = (B, n).

    Raises:
        InvalidData: The weights have another shape.
    """
    matrix = np.asarray(weights, dtype=np.float64)
    if len(lead) != 2 or matrix.shape != (lead[0], n_features):
        raise InvalidData(
            f"points have {len(lead) + 1} axes and weights have shape {matrix.shape}: expected decision sets "
            f"(B, n, d) and weights (B, {n_features})"
        )
    return matrix

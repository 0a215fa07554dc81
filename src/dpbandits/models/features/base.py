"""Base of every feature map, and how one is built from its configuration.

A feature map is a public object: it is made from the domain, the kernel and a seed, never from data.
The bound on the norm is what the sensitivity of a private release of features rests on; it is enforced
here by scaling, and again, in integers, by the mechanism that releases.
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
"""Points whose features are computed at once where every user's must come out the same whoever else is there:
a multiple of what matrix kernels take at a time. Few blocks of a short run are longer, and long ones cost
little more in several."""

NORM_BOUND = 1.0 - 2.0**-40
"""Longest feature vector let through: below one by more than any summation order can round."""


ENOUGH_VARIANCE = 0.8
"""Share of the prior variance below which a map is warned about."""


class Features(Configured, ABC):
    """A map from points to feature vectors of norm at most one, finite on the whole domain.

    A map that fails on a point of its domain fails when that point's block is released, in somebody else's
    ask: whether it does so would tell about the one who brought the point.

    Subclasses set the attributes and give `__call__`; `scale` and `variance` too where they approximate a
    kernel. Without these the functions of the map are all there is.

    Attributes:
        n_features: length m of a feature vector.
        supports: ranges of which every feature vector uses one; ((0, m),) without such structure.
        scale: what features are divided by: scale^2 phi(x) . phi(y) is close to k(x, y), so that a function
            with prior k has weights of variance scale^2.
        row_by_row: whether a point's features are the same to the last bit whatever points are computed with
            it. Matrix products round by their shape, so this holds only for maps that make none.
    """

    n_features: int
    supports: Supports
    scale: float = 1.0
    row_by_row: bool = False

    @abstractmethod
    def __call__(self, X: ArrayLike) -> FloatArray:
        """Feature vectors (..., m) of points (..., d)."""

    def of_known(self, points: FloatArray) -> FloatArray:
        """Feature vectors (..., m) of C-contiguous points (..., d) that are known to lie in the domain.

        For scores, and not for what is released: they are not looked at again, and a vector that exceeds
        length one by rounding only may stay as it is, as in `project`.
        """
        return self(points)

    def placed(
        self, points: FloatArray, through: "Callable[[Features, FloatArray], FloatArray] | None" = None
    ) -> Placed:
        """Feature vectors of points (n, d) by support, without the zeros elsewhere.

        Args:
            points: (n, d).
            through: function that applies a map to points (n, d); default `map(points)`. A map that contains
                another map applies it to that one.
        """
        return placed_from_dense(self(points) if through is None else through(self, points), self.supports)

    def to_be_scored(self, points: FloatArray) -> FloatArray:
        """Rows (n, L) of points (n, d), as in `of_known`: times rows of `to_score` they are scores.

        Each is the same whatever the other points are, and however many: they are other people's.
        """
        return in_fixed_shapes(self, points)

    def to_score(self, weights: FloatArray) -> FloatArray:
        """Rows of weights (k, m) as `scores_of_known` takes them, (k, ...): made once for many decisions."""
        return weights

    def scores_of_known(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        """`project_each` of points (B, n, d) as in `of_known`, by B rows of what `to_score` gave."""
        return self.project_each(points, weights)

    def project(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """phi(X) @ weights, (..., k), for points (..., d) and weights (m, k)."""
        return np.asarray(self(X) @ checked_weights(weights, self.n_features))

    def project_each(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """Scores (B, n): phi(X[b]) @ weights[b] for decision sets (B, n, d) and weights (B, m)."""
        phi = self(X)
        matrix = checked_rows_of_weights(weights, phi.shape[:-1], self.n_features)
        return np.asarray(np.matmul(phi, matrix[:, :, None])[:, :, 0])

    def variance(self, X: ArrayLike) -> FloatArray:
        """k(x, x) / scale^2 at points (..., d): |phi(x)|^2, where nothing is left out."""
        return np.asarray((self(X) ** 2).sum(axis=-1))

    def largest_squares(self, domain: Domain) -> FloatArray | None:
        """(m,) at most how large the square of every feature is over a domain; None where nobody can tell."""
        return None

    def gradient(self, X: FloatArray, V: FloatArray) -> FloatArray:
        """Gradients (n, d) by x_i of V[i] . phi(x_i), for points (n, d) and rows V (n, m) held fixed.

        By central differences, unless a map says otherwise.
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
        """Return the same map with everything that was computed for it: another machine need not compute it
        anew.

        Itself, where its configuration says it in closed form.
        """
        return self

    def basis(self) -> tuple[FloatArray, ...]:
        """Return what another processor may compute otherwise from the same configuration, for `in_basis`.

        Nothing, where a configuration says a map in closed form.
        """
        return ()

    def in_basis(self, basis: Sequence[FloatArray]) -> "Features":
        """The map of this configuration as it was where its `basis()` was taken.

        Sums of feature vectors are worth something in the coordinates that they were taken in, and in no
        others. Whatever the arrays hold, features stay finite and at most one long.

        Raises:
            InvalidParameter: arrays that are no basis of this map.
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
"""Add a map of your own with `@FEATURES.add("its type")`, and configurations that name it are read."""


from_config = FEATURES.read
"""Rebuild features from their `to_config()`; anything else is an `InvalidParameter`."""


class LittleVariance(DPBanditsWarning):
    """Features hold so little of their kernel's variance that most functions of it cannot be learned."""


def warn_if_little_is_held(share: float, *, what: str, mend: str) -> None:
    """Warn whoever called the library where features hold less than `ENOUGH_VARIANCE` of the prior variance.

    Args:
        share: of the prior variance over the domain's public law.
        what: the features, and their number.
        mend: what to do about it.
    """
    if share < ENOUGH_VARIANCE:
        warnings.warn(
            f"{what} hold {100.0 * share:.0f}% of the kernel's variance, averaged over the domain: the rest "
            f"of the function cannot be learned, whatever the data; {mend}",
            LittleVariance,
            stacklevel=caller_level(),
        )


def left_out(features: Features, X: FloatArray, phi: FloatArray) -> FloatArray:
    """Variance (...) at points (..., d) that their feature vectors (..., m) do not hold.

    k(x, x) / scale^2 - |phi(x)|^2, in units of |phi|^2: a function with prior p k has as much variance times
    p scale^2 that no weight describes.
    """
    return np.asarray(np.maximum(features.variance(X) - np.einsum("...j,...j->...", phi, phi), 0.0))


def in_fixed_shapes(features: Features, points: FloatArray) -> FloatArray:
    """Feature vectors (n, m) of points (n, d), each the same whatever the others are, and however many.

    Matrix products round by their shape. Here they all have one: `ROWS_AT_ONCE` points at a time, the last
    ones filled up. What a user's point becomes on the lattice of a release must not depend on anybody else:
    give every user the same place, whoever reports. (With some BLAS kernels a place
    moves last bits.) A map that is `row_by_row` needs no such care.
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
    """Points (..., dim) as (n, dim), and the leading shape; InvalidData where they do not fit."""
    array = np.asarray(X, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] != dim:
        raise InvalidData(f"points have shape {array.shape}: these features take (..., {dim})")
    # The sum of squares of finite entries may overflow, that of others is never finite.
    if not (math.isfinite(np.vdot(array, array)) or np.isfinite(array).all()):
        raise InvalidData("points contain NaN or infinite entries: validate them against the domain first")
    lead = array.shape[:-1]
    return array.reshape(math.prod(lead), dim), lead


def checked_weights(weights: ArrayLike, n_features: int) -> FloatArray:
    """Weights (m, k); InvalidData where they do not fit."""
    matrix = np.asarray(weights, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != n_features:
        raise InvalidData(f"weights have shape {matrix.shape}: expected ({n_features}, k)")
    return matrix


def checked_rows_of_weights(weights: ArrayLike, lead: tuple[int, ...], n_features: int) -> FloatArray:
    """Weights (B, m) for decision sets of shape `lead` = (B, n); InvalidData where they do not fit."""
    matrix = np.asarray(weights, dtype=np.float64)
    if len(lead) != 2 or matrix.shape != (lead[0], n_features):
        raise InvalidData(
            f"{len(lead) + 1} axes of points and weights of shape {matrix.shape}: expected decision sets "
            f"(B, n, d) and weights (B, {n_features})"
        )
    return matrix

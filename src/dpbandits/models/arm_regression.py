"""Bayesian linear regression on features of separate arms, with a separate posterior for each support.

A support is an index range of the features, usually the features of one arm. The model is that of
`FeatureGP`: an observation is y = phi . w + noise, with feature vector phi, weights w ~ N(0, p I) and noise
variance s^2. Let c = s^2 / p. The posterior covariance of a support's weights is p (I - V^T V). Every
observation changes the posterior mean and adds a row v to V, by the Sherman-Morrison formula:

    r = (I - V^T V) phi,    v = r / sqrt(c + phi . r),    mean <- mean + r (y - phi . mean) / (c + phi . r)

A prediction or an update of a support with n observations and m features costs O(min(n, m) m). When V has
twice as many rows as features, a triangular matrix of m rows with the same V^T V replaces it.
"""

from collections.abc import Mapping

import numpy as np

from dpbandits._checks import number, scale
from dpbandits._memory import FLOAT
from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData
from dpbandits.models.features import Placed, Supports
from dpbandits.models.noisy_regression import WeightPosterior

__all__ = ["ArmsGP"]

FEWEST_ROWS = 32
"""Smallest number of rows of V (see the module) that are replaced by a triangular matrix."""

SPARE_ROWS = 4
"""Number of unused rows that each support gets when memory is laid
out, besides a quarter of its used rows.
"""

LEAST_RATIO = 1e-12
"""Smallest ratio c of noise variance to prior variance; smaller ones cannot be told from rounding errors."""

ENTRIES_HELD = 1 << 20
"""Largest number of products of points with rows of V that are in memory at a time (8 MiB)."""


class ArmsGP:
    """Gaussian posteriors of the weights of S supports, which are independent of each other.

    In shapes, w is the number of features of the largest support.

    Args:
        supports: Index range of the features of each support.
        prior_variance: Variance of a weight before any data.
        noise_variance: Variance of the noise of an observation.

    Attributes:
        n_observations: Number of observations so far.

    Example:
        >>> model = ArmsGP(((0, 2), (2, 4)), prior_variance=1.0, noise_variance=0.01)
        >>> model.add(1, np.array([1.0, 0.0]), 0.5)
        >>> mean, sd = model.moments(Placed(np.array([0, 1]), np.array([[1.0, 0.0], [1.0, 0.0]])))
        >>> mean.round(3).tolist(), sd.round(3).tolist()
        ([0.0, 0.495], [1.0, 0.1])
    """

    def __init__(self, supports: Supports, *, prior_variance: float, noise_variance: float) -> None:
        self.supports, self.n_observations = supports, 0
        self.prior_variance = scale(prior_variance, name="prior_variance")
        self._ratio = max(LEAST_RATIO, scale(noise_variance, name="noise_variance") / self.prior_variance)
        self._width = max(high - low for low, high in supports)
        self._mean = np.zeros((len(supports), self._width))
        self._lay_out([np.zeros((0, self._width))] * len(supports))

    @staticmethod
    def bytes_needed(supports: Supports, observations: int | None) -> float:
        """Return the peak memory in bytes for up to `observations` observations; None means any number."""
        widest = max(high - low for low, high in supports)
        rows = float(len(supports) * max(FEWEST_ROWS, 2 * widest))
        if observations is not None:
            rows = min(rows, float(observations))
        return FLOAT * 2.25 * widest * (rows + SPARE_ROWS * len(supports))

    def _lay_out(self, rows: list[FloatArray]) -> None:
        """Store the rows V of all supports in one array, with spare rows of zeros after each support."""
        sizes = np.array([len(own) for own in rows], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes + sizes // 4 + SPARE_ROWS)])
        laid = np.zeros((int(starts[-1]), self._width))
        for start, own in zip(starts, rows, strict=False):
            laid[start : start + len(own)] = own
        self._sizes, self._starts, self._rows = sizes, starts, laid

    def _of(self, support: int) -> FloatArray:
        start = self._starts.item(support)
        return self._rows[start : start + self._sizes.item(support)]

    def _all_of(self) -> list[FloatArray]:
        return [self._of(support) for support in range(len(self.supports))]

    def look(self, phi: FloatArray) -> FloatArray:
        """Return the products of all supports' rows V with features (w,), for `moments_of_all` and `add`."""
        return np.asarray(self._rows.dot(phi))

    def moments_of_all(self, phi: FloatArray, looked: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation of phi . w in every support, shapes (S,).

        Args:
            phi: Features, shape (w,).
            looked: Result of `look` for these features.
        """
        told = np.add.reduceat(looked * looked, self._starts[:-1])
        return self._mean.dot(phi), np.sqrt(self.prior_variance * np.maximum(phi.dot(phi) - told, 0.0))

    def moments(self, placed: Placed) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation of phi . w at n points, shapes (n,)."""
        support, phi = placed
        variance = np.einsum("ij,ij->i", phi, phi)
        for index, rows in placed.groups(self.supports):
            own, points = self._of(index), np.arange(len(phi))[rows]
            step = max(1, ENTRIES_HELD // max(1, len(own)))
            for low in range(0, len(points), step):
                part = phi[points[low : low + step]] @ own.T
                variance[points[low : low + step]] -= np.einsum("ij,ij->i", part, part)
        mean = np.einsum("ij,ij->i", phi, self._mean[support])
        return mean, np.sqrt(self.prior_variance * np.maximum(variance, 0.0))

    def add(self, support: int, phi: FloatArray, y: float, *, looked: FloatArray | None = None) -> None:
        """Add the observation `y` at a feature vector of one support.

        Args:
            support: Index of the support.
            phi: Features, shape (w,).
            y: Observed value.
            looked: Result of `look` for these features, if there was no observation since.

        Raises:
            InvalidData: Numbers or their squares are not finite.
        """
        own, start = self._of(support), self._starts.item(support)
        seen = own.dot(phi) if looked is None else looked[start : start + len(own)]
        left = phi - seen.dot(own)
        total, error = max(0.0, float(phi.dot(left))) + self._ratio, y - float(phi.dot(self._mean[support]))
        if not np.isfinite(total + error * error):
            raise InvalidData(
                "inputs or observations are NaN or infinite, or their squares are: leave them out"
            )
        self.n_observations += 1  # first, so that after an interruption no old `look` is used
        if start + len(own) == self._starts.item(support + 1):
            self._lay_out(self._all_of())
            start = self._starts.item(support)
        self._rows[start + len(own)] = left / np.sqrt(total)
        self._sizes[support] += 1
        self._mean[support] += (error / total) * left
        if len(own) + 1 > max(FEWEST_ROWS, 2 * self._width):
            rows = self._all_of()
            with one_thread():
                rows[support] = np.asarray(np.linalg.qr(rows[support], mode="r"))
            self._lay_out(rows)

    def add_batch(self, placed: Placed, y: FloatArray) -> None:
        """Add the observations y (n,) at n points, one after the other."""
        for support, phi, value in zip(placed.support.tolist(), placed.phi, y.tolist(), strict=True):
            self.add(support, phi, value)

    def fade(self, kept: float) -> None:
        """Multiply the weight of all observations by `kept`, in [0, 1] (exponential discounting)."""
        share = number(kept, name="kept", exclusive=False, maximum=1.0)
        if share == 1.0:
            return
        rows = self._all_of()
        for support, own in enumerate(rows):
            if len(own):
                _, roots, directions = np.linalg.svd(own, full_matrices=False)
                left = np.maximum(1.0 - roots**2, np.finfo(np.float64).eps)
                precision = share / left + (1.0 - share)
                mean = directions @ self._mean[support]
                self._mean[support] = directions.T @ (mean * share / left / precision)
                rows[support] = np.sqrt(share * (1.0 / left - 1.0) / precision)[:, None] * directions
        self._lay_out(rows)

    @property
    def posterior(self) -> WeightPosterior:
        """Return the Gaussian posterior of the weights, to sample from or to store."""
        mean, factors = np.zeros(self.supports[-1][1]), list[FloatArray]()
        for index, (low, high) in enumerate(self.supports):
            mean[low:high] = self._mean[index, : high - low]
            own = self._of(index)[:, : high - low]
            left = (1.0 + LEAST_RATIO) * np.eye(high - low) - own.T @ own  # positive despite rounding
            factors.append(np.asarray(np.linalg.cholesky(self.prior_variance * left)))
        return WeightPosterior(mean=mean, factors=factors, supports=self.supports)

    def to_arrays(self) -> dict[str, FloatArray | IntArray]:
        """Return the posterior as arrays to be stored."""
        count = np.array(float(self.n_observations))
        rows = np.concatenate(self._all_of())
        return {"mean": self._mean.copy(), "rows": rows, "sizes": self._sizes.copy(), "count": count}

    def load_arrays(self, arrays: Mapping[str, FloatArray | IntArray]) -> None:
        """Restore the posterior from the result of `to_arrays`.

        Raises:
            InvalidData: The arrays belong to another model.
        """
        mean, rows, sizes, count = (
            arrays.get(name, np.zeros(0)) for name in ("mean", "rows", "sizes", "count")
        )
        shapes = (mean.shape, sizes.shape, count.shape)
        known = shapes == (self._mean.shape, self._sizes.shape, ()) and bool((sizes >= 0).all())
        if not known or sizes.dtype != np.int64 or rows.shape != (sizes.sum(), self._width):
            raise InvalidData(
                f"stored arrays do not fit {len(self.supports)} supports of {self._width} features: load "
                "them into a model with the arguments of the one that stored them"
            )
        self._mean, self.n_observations = np.array(mean, dtype=np.float64), int(count)
        self._lay_out(np.split(np.array(rows, dtype=np.float64), np.cumsum(sizes)[:-1]))

"""Gaussian process regression on clean data, one observation at a time.

| class | what is observed and predicted | cost of an observation at step t |
|---|---|---|
| `ExactGP` | any points | t^2, and n t^2 for n predictions |
| `PoolGP` | members of one fixed pool of n points | n t, predictions included |
| `FeatureGP` | points through m features | m^2, however large t is |

All three have prior mean zero and independent Gaussian noise of known size.

`ExactGP` and `PoolGP` only append rows to a Cholesky factor, so rounding errors do not accumulate.
`FeatureGP` updates a square root S of the covariance S S^T (Potter's form), which stays positive
semi-definite.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dger

from dpbandits._checks import integer, number, scale
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.models.triangular import solve_lower

__all__ = ["ExactGP", "FeatureGP", "PoolGP"]

PREDICTION_ELEMENTS = 1 << 21
"""Largest number of entries in memory at a time of the (t, n)
matrix of t observations and n points (16 MiB).
"""


class ExactGP:
    """Gaussian process regression with an incremental Cholesky factor.

    Args:
        kernel: Prior covariance.
        noise_sd: Standard deviation of the observation noise, positive.
        capacity: Number of observations for which memory is reserved; it is doubled when it is full.

    Attributes:
        n_observations: Number of observations so far.

    >>> from dpbandits.models.kernels import SquaredExponential
    >>> gp = ExactGP(kernel=SquaredExponential(lengthscale=0.5), noise_sd=0.1)
    >>> gp.add([0.0], 1.0)
    >>> mean, sd = gp.predict([[0.0], [5.0]])
    >>> mean.round(3).tolist(), sd.round(3).tolist()
    ([0.99, 0.0], [0.1, 1.0])
    """

    def __init__(self, *, kernel: Kernel, noise_sd: float, capacity: int = 64) -> None:
        self.kernel = kernel
        self.noise_sd = scale(noise_sd, name="noise_sd")
        self.n_observations = 0
        room = integer(capacity, name="capacity")
        self._factor = np.zeros((room, room))  # lower triangle of K + noise^2 I
        self._whitened = np.zeros(room)  # factor^-1 targets
        self._inputs = np.zeros((room, 0))
        self._predicted: tuple[int, FloatArray, FloatArray] | None = None

    def add(self, x: ArrayLike, y: float) -> None:
        """Add the observation `y` at the point `x` (d,)."""
        self.add_batch(np.asarray(x, dtype=np.float64)[None], [y])

    def add_batch(self, X: ArrayLike, y: ArrayLike) -> None:
        """Add observations y (b,) at points X (b, d), in one step of factorisation."""
        t = self.n_observations
        points, values = _as_observations(X, y, columns=self._inputs.shape[1] if t else None)
        b = len(values)
        if b == 0:
            return
        self._reserve(t + b, points.shape[1])
        new = slice(t, t + b)
        own = self.kernel(points) if b > 1 else self.kernel.diagonal(points)[:, None].copy()
        own.flat[:: b + 1] += self.noise_sd**2
        if t:
            cross = self._whitened_at(points)
            own -= cross.T @ cross
            self._factor[new, :t] = cross.T
            values = values - cross.T @ self._whitened[:t]
        corner = _bounded_cholesky(own, self.noise_sd**2)
        self._factor[new, new] = corner
        self._whitened[new] = solve_lower(corner, values) if b > 1 else values / corner[0]
        self._inputs[new] = points
        self.n_observations = t + b

    def _whitened_at(self, points: FloatArray) -> FloatArray:
        """Return L^-1 K(inputs, points), shape (t, b), for the Cholesky factor L of t observations.

        It is cached for a single point that was among the points of the last prediction.
        """
        t, predicted = self.n_observations, self._predicted
        if predicted is not None and predicted[0] == t and len(points) == 1:
            same = np.flatnonzero((predicted[1] == points).all(axis=1))
            if same.size:
                return predicted[2][:, same[:1]]
        return solve_lower(self._factor[:t, :t], self.kernel(self._inputs[:t], points))

    def predict(self, X: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation (n,) of the noise-free function at points (n, d)."""
        points = np.asarray(X, dtype=np.float64)
        variance = self.kernel.diagonal(points)
        mean = np.zeros(len(points))
        t = self.n_observations
        step = max(1, PREDICTION_ELEMENTS // max(1, t))
        for start in range(0, len(points) if t else 0, step):
            at = slice(start, start + step)
            whitened = self._whitened_at(points[at])
            self._predicted = t, points[at].copy(), whitened
            mean[at] = self._whitened[:t] @ whitened
            variance[at] -= np.einsum("ij,ij->j", whitened, whitened)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the posterior as arrays to be stored."""
        t = self.n_observations
        return {
            "inputs": self._inputs[:t].copy(),
            "factor": self._factor[:t, :t].copy(),
            "whitened": self._whitened[:t].copy(),
        }

    def load_arrays(self, arrays: Mapping[str, FloatArray]) -> None:
        """Restore the posterior from the arrays of `to_arrays`.

        Later results are equal up to rounding. They are equal bit for bit if there was no prediction between
        the last observation and `to_arrays`.

        Raises:
            InvalidData: An array is missing, or shapes do not fit together.
        """
        inputs, factor, whitened = _stored(arrays, "inputs", "factor", "whitened")
        t = len(whitened)
        if inputs.ndim != 2 or len(inputs) != t or factor.shape != (t, t) or whitened.ndim != 1:
            raise InvalidData(
                f"stored arrays do not fit together: inputs {inputs.shape}, factor {factor.shape}, "
                f"whitened {whitened.shape}; expected (t, d), (t, t), (t,)"
            )
        self.n_observations, self._predicted = 0, None
        self._reserve(t, inputs.shape[1])
        self._inputs[:t], self._factor[:t, :t], self._whitened[:t] = inputs, factor, whitened
        self.n_observations = t

    def _reserve(self, needed: int, dim: int) -> None:
        t, room = self.n_observations, len(self._whitened)
        while room < needed:
            room *= 2
        if more := room - len(self._whitened):
            self._whitened = np.pad(self._whitened, (0, more))
            factor, self._factor = self._factor, np.zeros((room, room))
            self._factor[:t, :t] = factor[:t, :t]
        if self._inputs.shape != (room, dim):
            inputs = np.zeros((room, dim))
            inputs[:t] = self._inputs[:t] if t else 0.0
            self._inputs = inputs


class PoolGP:
    """Gaussian process on a fixed pool of n points, with predictions at all after every observation.

    Let L be the Cholesky factor of the observations' covariance. The rows of V = L^-1 K(observed, pool) are
    stored. The observation at step t appends a row, from which means and variances of the whole pool follow
    in O(n t). The variance of a pool point is the kernel's diagonal. So kernels for noisy inputs, with k(x,
    x) above the limit of k(x, y) for y -> x, are treated exactly.

    Args:
        kernel: Prior covariance.
        pool: Points, shape (n, d).
        noise_sd: Standard deviation of the observation noise, positive.
        capacity: Number of observations for which memory is reserved; it is doubled when it is full.

    Attributes:
        n_observations: Number of observations so far.

    >>> from dpbandits.models.kernels import SquaredExponential
    >>> gp = PoolGP(kernel=SquaredExponential(lengthscale=0.5), pool=[[0.0], [5.0]], noise_sd=0.1)
    >>> gp.add(0, 1.0)
    >>> gp.mean.round(3).tolist(), gp.variance.round(3).tolist()
    ([0.99, 0.0], [0.01, 1.0])
    """

    def __init__(self, *, kernel: Kernel, pool: ArrayLike, noise_sd: float, capacity: int = 64) -> None:
        self.kernel = kernel
        self.pool = np.array(pool, dtype=np.float64)
        self.noise_sd = number(noise_sd, name="noise_sd", maximum=1e102)  # answers go up to 1e100
        if self.pool.ndim != 2 or not np.isfinite(self.pool).all():
            raise InvalidData(f"pool has shape {self.pool.shape}: expected finite numbers (n, d)")
        self.n_observations = 0
        self._prior_variance = kernel.diagonal(self.pool)
        self._fill = kernel.rows_against(self.pool)
        self._mean = np.zeros(len(self.pool))
        self._variance = self._prior_variance.copy()
        self._rows = np.empty((integer(capacity, name="capacity"), len(self.pool)))
        self._history: list[tuple[int, float]] = []

    def add(self, index: int, y: float) -> None:
        """Add the observation `y` at the pool's point `index`."""
        if not 0 <= index < len(self.pool):
            raise InvalidData(f"index is not in the pool, expected one of 0 .. {len(self.pool) - 1}")
        if not math.isfinite(y):
            raise InvalidData("an observation is NaN or infinite: leave it out")
        t = self.n_observations
        if t == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        values = np.empty((1, len(self.pool)))
        self._fill(self.pool[index : index + 1], values)
        row = values[0]
        row[index] = self._prior_variance[index]
        row -= self._rows[:t, index] @ self._rows[:t]
        pivot = math.sqrt(max(row[index], 0.0) + self.noise_sd**2)
        row /= pivot
        innovation = (y - self._mean[index]) / pivot
        self._rows[t] = row
        self._mean += innovation * row
        np.multiply(row, row, out=row)
        self._variance -= row
        np.maximum(self._variance, 0.0, out=self._variance)
        self._history.append((int(index), float(y)))
        self.n_observations = t + 1

    @contextmanager
    def imagining(self) -> Iterator[None]:
        """Return a context manager that removes at its end the observations added inside it."""
        t, mean, variance = self.n_observations, self._mean.copy(), self._variance.copy()
        try:
            yield
        finally:
            self._mean, self._variance, self.n_observations = mean, variance, t
            del self._history[t:]

    def mean_at(self, index: int) -> float:
        """Return the posterior mean at the pool's point `index`."""
        return float(self._mean[index])

    @property
    def mean(self) -> FloatArray:
        """Posterior means at the pool's points, shape (n,)."""
        return self._mean.copy()

    @property
    def variance(self) -> FloatArray:
        """Posterior variances of the function, without noise, at the pool's points, shape (n,)."""
        return self._variance.copy()

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the indices and values of all observations, as arrays to be stored."""
        history = np.asarray(self._history, dtype=np.float64).reshape(-1, 2)
        return {"indices": history[:, 0], "targets": history[:, 1]}

    def load_arrays(self, arrays: Mapping[str, FloatArray]) -> None:
        """Add the observations of `to_arrays` to a new object; later results are equal bit for bit."""
        indices, targets = _stored(arrays, "indices", "targets")
        if indices.shape != targets.shape or indices.ndim != 1 or self.n_observations:
            raise InvalidData(
                f"stored arrays have shapes {indices.shape} and {targets.shape}, and the pool has "
                f"{self.n_observations} observations: expected equal lengths, and a pool without observations"
            )
        for index, target in zip(indices, targets, strict=True):
            self.add(int(index), float(target))


class FeatureGP:
    """Bayesian linear regression on m features: y = phi . w + noise, w ~ N(0, prior_variance I).

    Args:
        n_features: Number m of features.
        prior_variance: Variance of each weight before any data.
        noise_variance: Variance of the observation noise.

    Attributes:
        n_observations: Number of observations so far.

    >>> model = FeatureGP(n_features=2, prior_variance=1.0, noise_variance=0.01)
    >>> model.add([1.0, 0.0], 0.5)
    >>> model.mean_weights.round(3).tolist()
    [0.495, 0.0]
    """

    def __init__(self, n_features: int, *, prior_variance: float, noise_variance: float) -> None:
        self.n_features = integer(n_features, name="n_features")
        self.prior_variance = scale(prior_variance, name="prior_variance")
        self.noise_variance = scale(noise_variance, name="noise_variance")
        self.n_observations = 0
        self._set(math.sqrt(prior_variance) * np.eye(n_features), np.zeros(n_features))

    def _set(self, factor: FloatArray, mean: FloatArray) -> None:
        """Store the covariance's root S and the mean in one array (m, m + 1), to be read by one product."""
        law = np.empty((self.n_features, self.n_features + 1))
        law[:, :-1], law[:, -1] = factor, mean
        self._law = law

    @property
    def _factor(self) -> FloatArray:
        return self._law[:, :-1]

    @property
    def _mean(self) -> FloatArray:
        return self._law[:, -1]

    def add(self, phi: ArrayLike, y: float) -> None:
        """Add the observation `y` at the feature vector `phi` (m,)."""
        row = np.asarray(phi, dtype=np.float64)
        if row.shape != (self.n_features,):
            raise InvalidData(f"features have shape {row.shape}: expected ({self.n_features},)")
        self._take(row.dot(self._law), float(y))

    def add_looked(self, looked: FloatArray, y: float) -> None:
        """Add the observation `y` at a feature vector, given the result `looked` (m + 1,) of `look` for it.

        Call `look` after the previous observation was added: an older result would give a wrong posterior.

        Raises:
            InvalidData: The shape is wrong, or a number is not finite.
        """
        if looked.shape != (self.n_features + 1,):
            raise InvalidData(
                f"the result of look has shape {looked.shape}: expected ({self.n_features + 1},)"
            )
        self._take(looked.copy(), float(y))

    def _take(self, looked: FloatArray, y: float) -> None:
        """Update the posterior by the observation y at a feature vector, given `looked` = [v, phi . mean].

        Here phi is the feature vector and v = S^T phi. Potter's form is S <- S - gamma (S v) v^T and mean <-
        mean + (error / total) S v. Both changes are multiples of S v, with the factors -gamma [v, -error /
        (gamma total)]. `looked` is overwritten.
        """
        error = y - looked.item(-1)
        looked[-1] = 0.0
        total = float(looked.dot(looked)) + self.noise_variance
        squared = error * error
        if not math.isfinite(total + squared):
            raise InvalidData(
                "inputs or observations are NaN or infinite, or their squares are: leave them out"
            )
        column = self._law.dot(looked)
        shrunk = total + math.sqrt(total * self.noise_variance)
        looked[-1] = -error * shrunk / total
        # The number first, so that after an interruption no `look` at an earlier posterior is used.
        self.n_observations += 1
        self._law = dger(-1.0 / shrunk, looked, column, a=self._law.T, overwrite_a=True).T

    def add_batch(self, Phi: ArrayLike, y: ArrayLike) -> None:
        """Add observations y (b,) at feature vectors Phi (b, m), in one factorisation of size m."""
        rows, values = _as_observations(Phi, y, columns=self.n_features)
        if len(values) == 0:
            return
        # Covariance S (I + A^T A)^-1 S^T with A = Phi S / sigma.
        scaled = rows @ self._factor / math.sqrt(self.noise_variance)
        inner = scaled.T @ scaled
        inner[np.diag_indices(self.n_features)] += 1.0
        lower = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        errors = values - rows @ self._mean
        factor = solve_triangular(lower, self._factor.T, lower=True, check_finite=False).T
        pulled = factor.T @ (rows.T @ errors) / self.noise_variance
        mean = self._mean + factor @ pulled
        self.n_observations += len(values)  # before the posterior changes, as in `_take`
        self._set(factor, mean)

    def fade(self, kept: float) -> None:
        """Multiply the weight of all observations by `kept`, in [0, 1] (exponential discounting)."""
        share = number(kept, name="kept", exclusive=False, maximum=1.0)
        if share == 1.0:
            return
        inverse = np.linalg.inv(self._factor)
        own = share * inverse.T @ inverse
        pull = own @ self._mean
        own[np.diag_indices(self.n_features)] += (1.0 - share) / self.prior_variance
        lower = cholesky(own, lower=True, overwrite_a=True, check_finite=False)
        root = solve_triangular(lower, np.eye(self.n_features), lower=True, check_finite=False)
        self._set(root.T, root.T @ (root @ pull))

    @property
    def mean_weights(self) -> FloatArray:
        """Posterior mean of the weights, shape (m,)."""
        return self._mean.copy()

    @property
    def posterior(self) -> WeightPosterior:
        """Return the Gaussian posterior of the weights, to sample from or to store."""
        return WeightPosterior(
            mean=self._mean.copy(),
            factors=[self._factor.copy()],
            supports=((0, self.n_features),),
        )

    def predict_from_features(self, Phi: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean and standard deviation (...) of the function at feature vectors (..., m)."""
        mean, sd = self.moments(self.look(Phi))
        return mean.copy(), sd  # a view would keep the whole array of `look` in memory

    def look(self, Phi: ArrayLike) -> FloatArray:
        """Return Phi @ [S, mean], shape (..., m + 1), for feature vectors (..., m).

        `moments` and `add_looked` take the result. S is the square root of the weights' covariance.
        """
        features = np.asarray(Phi, dtype=np.float64)
        if features.ndim == 0 or features.shape[-1] != self.n_features:
            raise InvalidData(f"features have shape {features.shape}: expected (..., {self.n_features})")
        return np.asarray(features.dot(self._law) if features.ndim == 2 else features @ self._law)

    @staticmethod
    def moments(looked: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return posterior mean (a view) and standard deviation of the function, shapes (...).

        Args:
            looked: Result of `look`, shape (..., m + 1).
        """
        spread = looked[..., :-1]
        return looked[..., -1], np.sqrt(np.vecdot(spread, spread))

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the posterior as arrays to be stored."""
        return {
            "mean": self._mean.copy(),
            "factor": self._factor.copy(),
            "count": np.array(float(self.n_observations)),
        }

    def load_arrays(self, arrays: Mapping[str, FloatArray]) -> None:
        """See `ExactGP.load_arrays`."""
        mean, factor, count = _stored(arrays, "mean", "factor", "count")
        m = self.n_features
        if mean.shape != (m,) or factor.shape != (m, m) or count.shape != ():
            raise InvalidData(
                f"stored mean {mean.shape}, factor {factor.shape} and count {count.shape} do not fit "
                f"{m} features"
            )
        self._set(factor, mean)
        self.n_observations = int(count)


def _bounded_cholesky(matrix: FloatArray, least: float) -> FloatArray:
    """Return the lower Cholesky factor of a matrix whose exact eigenvalues are at least `least`."""
    if matrix.size == 1:
        return np.sqrt(np.maximum(matrix, least))
    try:
        lower: FloatArray = cholesky(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:  # an eigenvalue was rounded below zero: raise all to `least`
        values, vectors = np.linalg.eigh(matrix)
        _, upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, least))).T)
        lower = upper.T * np.sign(np.diagonal(upper))
    return lower


def _as_observations(X: ArrayLike, y: ArrayLike, *, columns: int | None) -> tuple[FloatArray, FloatArray]:
    points, values = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if points.ndim != 2 or values.shape != points.shape[:1]:
        raise InvalidData(f"{points.shape} inputs for {values.shape} observations: expected (b, d) and (b,)")
    if columns is not None and points.shape[1] != columns:
        raise InvalidData(f"inputs have {points.shape[1]} columns: expected {columns}, as in the model")
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise InvalidData("inputs or observations contain NaN or infinite entries: leave them out")
    return points, values


def _stored(arrays: Mapping[str, FloatArray], *names: str) -> list[FloatArray]:
    for name in names:
        if name not in arrays:
            raise InvalidData(f"stored arrays lack {name!r}: they were not written by this class's to_arrays")
    return [np.asarray(arrays[name], dtype=np.float64) for name in names]

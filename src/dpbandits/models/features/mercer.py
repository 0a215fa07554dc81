"""Features from the leading eigenfunctions of a kernel, phi(x) . phi(y) ~ k(x, y), and features of arms.

For smooth kernels a few dozen eigenfunctions are as accurate as hundreds of random features.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import domains
from dpbandits._calls import worded
from dpbandits._checks import an, integer, number, public_array
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import Arms, Ball, Box, Domain, Finite, Product
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models import kernels
from dpbandits.models.features.base import (
    FEATURES,
    NORM_BOUND,
    Features,
    checked_points,
    checked_rows_of_weights,
    checked_weights,
    warn_if_little_is_held,
)
from dpbandits.models.features.supports import Placed, Supports
from dpbandits.models.kernels.base import BLOCK_ELEMENTS, GradientEvaluator, Kernel, RowEvaluator

__all__ = ["ArmFeatures", "MercerFeatures", "SectionFeatures", "mercer_or_given", "spread_over"]

RELATIVE_EIGENVALUE_FLOOR = 1e-10
"""Share of the largest eigenvalue below which eigenvalues are
rounding noise; their eigenpairs are dropped.
"""

SCALE_SAMPLE = 1 << 10
SCALE_QUANTILE = 0.99
SCALE_STEPS = 16
"""Inverse of the step to which `scale` is rounded up, so that the scale does not depend on the last bits of a
linear algebra library. Before rounding it is the `SCALE_QUANTILE` of the features' norm over `SCALE_SAMPLE`
public points.
"""

LONG_ENOUGH = 0.875
"""Scale above which features are not divided by it, as this would reduce the noise by at most a seventh."""

SYMMETRY_BREAK = 0.01
"""Largest random excess over 1 of the landmarks' weights. On a regular grid many eigenvalues are equal;
without unequal weights their eigenvectors would depend on the linear algebra library.
"""

MOST_ARM_FEATURES = 1 << 16
"""Largest number of features of all arms together."""

MOST_LANDMARKS = 1 << 11
"""Largest number of landmarks, and so of features; factorising their kernel matrix takes 200 MiB."""

TURNED = 1e-4
"""Largest difference between two maps of one configuration that is accepted as rounding. It is a hundred
times the relative error 1e-16 / 1e-10 of the smallest eigenvalues that are kept
(`RELATIVE_EIGENVALUE_FLOOR`).
"""

SURELY_SHORT = 1.0 - 2.0**-35
"""Squared norm of a vector whose norm is certainly below `NORM_BOUND`, whatever the order of summation of up
to 2^16 squares.
"""

GRIDS = {1: 1025, 2: 33, 3: 11}
"""Number of grid points per side at which features over a box are bounded, for each number of columns."""

PRODUCT_ELEMENTS = 1 << 19
"""Largest number of kernel entries in memory at a time when they are multiplied by a wide matrix (4 MiB)."""


@FEATURES.add("SectionFeatures", kernel=kernels.from_config)
class SectionFeatures(Features):
    """Feature map phi(x) = k(x, Z) @ A for given points Z and numbers A, clipped to norm one.

    Args:
        kernel: Kernel k.
        landmarks: Points Z, shape (L, d).
        projection: Matrix A, shape (L, m).
        scale: Divisor of the features in (0, 1], by which A is divided already; see `Features`.

    Attributes:
        n_features: Number m of features.
        supports: Index range ((0, m),).

    Raises:
        InvalidParameter: Arrays do not fit each other.
    """

    _pull: GradientEvaluator | None = None  # built on first use
    _loose: RowEvaluator | None = None  # built on first use

    def __init__(
        self, *, kernel: Kernel, landmarks: ArrayLike, projection: ArrayLike, scale: float = 1.0
    ) -> None:
        self.kernel = an(kernel, Kernel, name="kernel", pass_="kernels.SquaredExponential(lengthscale=0.3)")
        self.landmarks: FloatArray = public_array(landmarks, name="landmarks", ndim=2)
        self.projection: FloatArray = public_array(projection, name="projection", ndim=2)
        if len(self.projection) != len(self.landmarks) or len(self.landmarks) > MOST_LANDMARKS:
            raise InvalidParameter(
                f"projection has {len(self.projection)} rows and there are {len(self.landmarks)} landmarks: "
                f"expected one row for each landmark, at most {MOST_LANDMARKS}"
            )
        self.scale = number(scale, name="scale", maximum=1.0)
        self.n_features = self.projection.shape[1]
        self.supports: Supports = ((0, self.n_features),)
        self._unit = max(1.0, kernel.max_variance) * self.scale**2  # divisor of k(x, x)
        self._short = False  # True if norms exceed one by rounding only

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the feature vectors (..., m) of points (..., d), each of norm at most one.

        Raises:
            InvalidData: The number of columns is wrong, or entries are not finite.
        """
        points, lead = self._points(X)
        if len(points) * len(self.landmarks) <= PRODUCT_ELEMENTS:  # the common case: one block
            rows = np.empty((len(points), len(self.landmarks)))
            self._fill(points, rows)
            phi: FloatArray = rows.dot(self.projection)
        else:
            phi = np.empty((len(points), self.n_features))
            for at, block in self._blocks(points, PRODUCT_ELEMENTS):
                np.matmul(block, self.projection, out=phi[at])
        _enforce_norm(phi)
        return phi.reshape(*lead, self.n_features)

    def of_known(self, points: FloatArray) -> FloatArray:
        """See `Features.of_known`."""
        (n_landmarks, dim), count = self.landmarks.shape, points.size // points.shape[-1]
        if not self._quick or points.shape[-1] != dim or count * n_landmarks > PRODUCT_ELEMENTS:
            return self(points)
        phi: FloatArray = self._sections(points).dot(self.projection)
        return phi if points.ndim == 2 else phi.reshape(*points.shape[:-1], self.n_features)

    @cached_property
    def _fill(self) -> RowEvaluator:
        """Evaluator that writes the kernel rows k(x, Z) of points x."""
        return self.kernel.rows_against(self.landmarks)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes without the evaluators, which cannot be pickled and are rebuilt on use."""
        return {name: value for name, value in vars(self).items() if name not in ("_fill", "_loose", "_pull")}

    @property
    def _quick(self) -> bool:
        """True if scores may come from kernel rows: no norm is clipped, and `__call__` not overridden."""
        return self._short and type(self).__call__ is SectionFeatures.__call__

    def _sections(self, points: FloatArray) -> FloatArray:
        """Return the kernel rows k(x, Z), shape (n, L), of n points (..., d), for scores only."""
        if self._loose is None:
            self._loose = self.kernel.rows_against(self.landmarks, loose=True)
        n_landmarks, dim = self.landmarks.shape
        rows = np.empty((points.size // dim, n_landmarks))
        self._loose(points if points.ndim == 2 else points.reshape(-1, dim), rows)
        return rows

    def to_be_scored(self, points: FloatArray) -> FloatArray:
        """See `Features.to_be_scored`."""
        if type(self).__call__ is not SectionFeatures.__call__:
            return super().to_be_scored(points)
        some = (
            points if len(points) > 1 else np.repeat(points, 2, axis=0)
        )  # a product with one row is rounded differently
        if self._quick:
            return self._sections(some)[: len(points)]
        rows = np.empty((len(some), len(self.landmarks)))
        self._fill(some, rows)
        phi = np.matmul(rows[: len(points), None], self.projection)[:, 0]
        _enforce_norm(phi)
        return np.asarray(phi)

    def to_score(self, weights: FloatArray) -> FloatArray:
        """See `Features.to_score`. If no norm can exceed one, the result (k, L) multiplies kernel rows."""
        return weights @ self.projection.T if self._quick else weights

    def scores_of_known(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        """See `Features.scores_of_known`. Sets are separate, as a score must not depend on other sets."""
        if not self._quick:
            return self.project_each(points, weights)
        n_sets, n, n_landmarks = *points.shape[:2], len(self.landmarks)
        if n_sets == 1 and n * n_landmarks <= BLOCK_ELEMENTS:  # the common case
            scores: FloatArray = self._sections(points[0]).dot(weights[0])
            return scores[None]
        out, step = np.empty((n_sets, n)), max(1, BLOCK_ELEMENTS // (n_landmarks * max(1, n)))
        for low in range(0, n_sets, step):
            rows = self._sections(points[low : low + step]).reshape(-1, n, n_landmarks)
            np.matmul(rows, weights[low : low + step, :, None], out=out[low : low + step, :, None])
        return out

    def project(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """Return phi(X) @ weights, shape (..., k), for points (..., d) and weights (m, k).

        The cost is L kernel evaluations and L k multiplications per point. A norm that exceeds one by
        rounding only is not clipped here, so the result equals phi(X) @ weights up to rounding.
        """
        points, lead = self._points(X)
        matrix = checked_weights(weights, self.n_features)
        if not self._short:
            return np.asarray(self(X) @ matrix)
        through = self.projection @ matrix
        out = np.empty((len(points), through.shape[1]))
        block = max(BLOCK_ELEMENTS, min(PRODUCT_ELEMENTS, BLOCK_ELEMENTS * through.shape[1]))
        for at, rows in self._blocks(points, block):
            np.matmul(rows, through, out=out[at])
        return out.reshape(*lead, through.shape[1])

    def project_each(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """Return scores (B, n), phi(X[b]) @ weights[b], for decision sets (B, n, d) and weights (B, m)."""
        points, lead = self._points(X)
        matrix = checked_rows_of_weights(weights, lead, self.n_features)
        n_sets, n = lead
        if len(points) * len(self.landmarks) <= BLOCK_ELEMENTS:  # the common case: one block
            return self._scores(points, matrix, matrix @ self.projection.T, n)
        out, n_landmarks = np.empty(lead), len(self.landmarks)
        step = max(1, PRODUCT_ELEMENTS // n_landmarks)
        for start in range(0, n_sets, step):
            through = matrix[start : start + step] @ self.projection.T
            inner = max(1, BLOCK_ELEMENTS // (n_landmarks * max(1, n)))
            for low in range(start, min(start + step, n_sets), inner):
                high = min(low + inner, start + step, n_sets)
                columns = through[low - start : high - start]
                out[low:high] = self._scores(points[low * n : high * n], matrix[low:high], columns, n)
        return out

    def _scores(self, points: FloatArray, matrix: FloatArray, through: FloatArray, n: int) -> FloatArray:
        """Return the scores that `project_each` returns, for b decision sets of n points each.

        Sets are computed separately, because a score must not depend on the other sets of its batch.

        Args:
            points: Points of all sets, shape (b n, d).
            matrix: Weights of each set, shape (b, m).
            through: Products of the weights with A, shape (b, L).
            n: Number of points in a set.
        """
        rows = np.empty((len(matrix), n, len(self.landmarks)))
        self._fill(points, rows.reshape(-1, len(self.landmarks)))
        if self._short:
            return np.asarray(np.matmul(rows, through[:, :, None])[:, :, 0])
        phi = np.matmul(rows, self.projection)
        _enforce_norm(phi.reshape(-1, self.n_features))
        return np.asarray(np.matmul(phi, matrix[:, :, None])[:, :, 0])

    def variance(self, X: ArrayLike) -> FloatArray:
        """Return k(x, x) / scale^2 at points (..., d), over the kernel's maximal variance if above one."""
        points, lead = self._points(X)
        return self.kernel.diagonal(points).reshape(lead) / self._unit

    def largest_squares(self, domain: Domain) -> FloatArray | None:
        """See `Features.largest_squares`. Boxes of up to three columns have bounds, computed on a grid.

        The grid contains the corners. The landmarks are added, because features of a rough kernel may be
        large only near them. With more columns the result is None: a grid says little, and few features are
        much smaller than the others.
        """
        theirs = type(self).__call__ is not SectionFeatures.__call__
        if theirs or not isinstance(domain, Box) or domain.dim not in GRIDS:
            return None
        rows = self(np.concatenate([domain.grid(GRIDS[domain.dim]), self.landmarks]))
        return np.asarray(np.maximum(rows.max(axis=0), -rows.min(axis=0)) ** 2)

    def gradient(self, X: FloatArray, V: FloatArray) -> FloatArray:
        """See `Features.gradient`; where a vector is clipped, the result is the clipped vector's gradient."""
        points, _ = self._points(X)
        rows = np.empty((len(points), len(self.landmarks)))
        if not self._short:
            self._fill(points, rows)
            phi = rows @ self.projection
            squares = np.einsum("ij,ij->i", phi, phi)
            long = np.flatnonzero(squares > NORM_BOUND**2)
            if len(long):  # the gradient of V . B phi/|phi| has B/|phi| (V - (V . phi) phi/|phi|^2) for V
                V = V.copy()
                along = np.einsum("ij,ij->i", V[long], phi[long]) / squares[long]
                V[long] = (V[long] - along[:, None] * phi[long]) * (NORM_BOUND / np.sqrt(squares[long]))[
                    :, None
                ]
        if self._pull is None:
            self._pull = self.kernel.gradients_against(self.landmarks)
        return self._pull(points, np.matmul(V, self.projection.T, out=rows))

    def _points(self, X: ArrayLike) -> tuple[FloatArray, tuple[int, ...]]:
        return checked_points(X, self.landmarks.shape[1])

    def _blocks(self, points: FloatArray, elements: int) -> Iterator[tuple[slice, FloatArray]]:
        """Yield slices of the points with their kernel rows, in one buffer of at most `elements` entries."""
        n_landmarks = len(self.landmarks)
        step = min(max(1, elements // n_landmarks), max(1, len(points)))
        buffer = np.empty((step, n_landmarks))
        for start in range(0, len(points), step):
            at = slice(start, min(start + step, len(points)))
            rows = buffer[: at.stop - start]
            self._fill(points[at], rows)
            yield at, rows


@worded
@FEATURES.add("MercerFeatures", kernel=kernels.from_config, domain=domains.from_config)
class MercerFeatures(SectionFeatures):
    """Leading eigenfunctions of a kernel over a public domain (Nystrom method).

    Let Z be the landmarks, points of the domain, with kernel matrix K(Z, Z) = U diag(g) U^T. Then phi(x) =
    diag(g)^(-1/2) U^T k(Z, x) over the leading eigenpairs. phi(x) is the coordinate vector of a projection,
    so ||phi(x)||^2 <= k(x, x). If the kernel's variance exceeds one, features are divided by its square
    root.

    In many dimensions a few features have norms far below one, except near the landmarks. Noise calibrated
    to norm one would be much larger than they are. So features are divided by `scale`, the 99% quantile of
    their norm under the domain's public law. It is rounded up to sixteenths, and is 1 if it is above 7/8.
    Vectors longer than one are clipped, here and again when they are encoded
    (`reproduction/studies/feature_norms.py`).

    Landmarks are the points of a `Finite` domain, or a random subset if there are more than `n_landmarks`.
    On boxes, arms and their products they are a randomly shifted low-discrepancy sequence, and on other
    domains uniform samples.

    Args:
        kernel: Prior covariance of the unknown function, a public choice.
        domain: Public domain of the points.
        n_features: Largest number of features. Eigenpairs that are rounding noise are dropped, so a smooth
            kernel on a small domain may need fewer: see the attribute `n_features`.
        n_landmarks: Number of points from which eigenfunctions are computed, default 2 * n_features. More
            are more accurate; the cost of scoring a point is proportional to it.
        seed: Public seed of the landmarks (counter-based Philox generator).
        scale: Divisor of the features, in (0, 1]; by default measured at public points, and then stored in
            the configuration.

    Attributes:
        n_features: Number m of features.
        supports: Index range ((0, m),).
        landmarks: Landmarks Z, shape (L, d).
        eigenvalues: Decreasing estimates of the kernel operator's eigenvalues on the domain, shape (m,).
        projection: Matrix A (L, m) with phi(x) = k(x, Z) @ A before clipping to norm one. Equal
            configurations have equal matrices on one machine; other linear algebra libraries may round them
            differently.

    Raises:
        InvalidParameter: Sizes are not positive, or there are fewer landmarks than features.

    Warns:
        LittleVariance: The features hold less than 80% of the kernel's variance over the domain.

    >>> from dpbandits.domains import Box
    >>> kernel = kernels.SquaredExponential(lengthscale=0.5)
    >>> features = MercerFeatures(kernel=kernel, domain=Box(low=[0], high=[1]), n_features=8)
    >>> phi = features([[0.2], [0.4]])
    >>> bool(abs(phi[0] @ phi[1] - kernel([[0.2]], [[0.4]])[0, 0]) < 1e-6)
    True
    """

    def __init__(
        self,
        *,
        kernel: Kernel,
        domain: Domain,
        n_features: int,
        n_landmarks: int | None = None,
        seed: Seed = 0,
        scale: float | None = None,
    ) -> None:
        an(kernel, Kernel, name="kernel", pass_="kernels.SquaredExponential(lengthscale=0.3)")
        an(domain, Domain, name="domain", pass_="domains.Box(low=[0], high=[1]) or another domain")
        integer(n_features, name="n_features")
        size = 2 * n_features if n_landmarks is None else integer(n_landmarks, name="n_landmarks")
        if size > MOST_LANDMARKS:
            raise InvalidParameter(f"expected at most {MOST_LANDMARKS} landmarks: their matrix is factorised")
        if size < n_features:
            raise InvalidParameter(f"{size} landmarks for {n_features} features: pass at least as many")
        self.kernel, self.domain, self.n_landmarks, self._requested = kernel, domain, n_landmarks, n_features
        self.seed = integer(seed, name="seed", minimum=0)
        rng = np.random.Generator(np.random.Philox(seed))
        self.landmarks = spread_over(domain, size, rng)
        weights = 1.0 + SYMMETRY_BREAK * rng.random(len(self.landmarks))
        values, vectors = _leading_eigenpairs(kernel(self.landmarks), np.sqrt(weights), n_features)
        self.n_features = len(values)
        self.supports = ((0, self.n_features),)
        self.eigenvalues: FloatArray = values / weights.sum()
        self._unit = max(1.0, kernel.max_variance)
        # In the memory order in which products with few points are fastest.
        self.projection = np.ascontiguousarray(vectors / np.sqrt(values * self._unit))
        self.scale = self._measured(rng) if scale is None else number(scale, name="scale", maximum=1.0)
        self._short = self.scale == 1.0
        self.projection /= self.scale
        self._unit *= self.scale**2

    def _measured(self, rng: np.random.Generator) -> float:
        """Return the `scale` measured at public points, and warn if the features hold too little variance."""
        points = self.domain.sample(SCALE_SAMPLE, rng)
        squares, variances = (self(points) ** 2).sum(axis=1), self.variance(points)
        warn_if_little_is_held(
            float(squares.sum() / variances.sum()),
            what=f"{self.n_features} features",
            mend="pass more of them (n_features), a longer lengthscale, or additive features",
        )
        norm = float(np.quantile(np.sqrt(squares), SCALE_QUANTILE))
        return 1.0 if norm > LONG_ENOUGH else max(1.0, float(np.ceil(SCALE_STEPS * norm))) / SCALE_STEPS

    def to_config(self) -> dict[str, Any]:
        """Return the configuration for JSON, with the requested sizes, and with the scale if it is not 1."""
        config = super().to_config() | {"n_features": self._requested}
        if self.scale == 1.0:  # left out, so that digests of specs from before there was a scale stay
            del config["scale"]
        return config

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """See `Configured.arguments`; a configuration without a scale has scale 1."""
        return {"scale": 1.0} | super().arguments(config)

    def __repr__(self) -> str:
        return f"MercerFeatures(n_features={self.n_features}, kernel={self.kernel!r}, domain={self.domain!r})"

    def written_out(self) -> Features:
        """See `Features.written_out`; another processor may rotate or round the eigenfunctions."""
        return SectionFeatures(
            kernel=self.kernel, landmarks=self.landmarks, projection=self.projection, scale=self.scale
        )

    def basis(self) -> tuple[FloatArray, ...]:
        """See `Features.basis`; the result is the projection, whose columns another processor may rotate."""
        return (self.projection,)

    def in_basis(self, basis: Sequence[FloatArray]) -> "MercerFeatures":
        """See `Features.in_basis`.

        Let A be the projection computed here, A' the given one, u = max(1, largest variance) scale^2 and
        K = k(Z, Z). Two equations are checked up to `TURNED`:

        - u A'^T K A' = 1: the features of A' times sqrt(u) are orthonormal in the kernel's function space,
          as those of A are. Hence ||phi'(x)||^2 <= k(x, x)/u everywhere (Bessel), and A' was divided by
          `scale`;
        - K A' A'^T K = K A A^T K: the landmarks' features have the same inner products under both maps, so
          at the landmarks the two maps differ by a rotation.

        Privacy does not depend on these checks: features are clipped to norm one, here and when they are
        encoded.
        """
        (given,) = basis
        projection, gram = public_array(given, name="projection", ndim=2), self.kernel(self.landmarks)
        if projection.shape == self.projection.shape:
            mine, theirs = gram @ self.projection, gram @ projection
            orthonormal = self._unit * (projection.T @ theirs) - np.eye(self.n_features)
            turned = theirs @ theirs.T - mine @ mine.T
            if max(np.abs(orthonormal).max(), np.abs(turned).max()) <= TURNED:
                other = copy.copy(self)
                other.projection = np.empty_like(self.projection)  # rounding depends on the memory layout
                other.projection[...] = projection
                return other
        raise InvalidParameter(
            "stored features are not of this kernel, domain and seed: they were changed, or belong to a "
            "version of NumPy that draws other landmarks"
        )


@FEATURES.add("ArmFeatures", base=FEATURES.read)
class ArmFeatures(Features):
    """Separate features for every arm: features of the other columns, in the arm's own index range.

    Arms have separate features, so Gram matrices are block diagonal and `supports` has one range per arm.

    Args:
        base: Features of the other columns, in their order.
        arm_column: Index of the column of integer codes 0 .. n_arms - 1.
        n_arms: Number of arms.

    >>> from dpbandits.domains import Box
    >>> kernel = kernels.Matern(nu=1.5, lengthscale=0.5)
    >>> base = MercerFeatures(kernel=kernel, domain=Box(low=[0], high=[1]), n_features=4)
    >>> features = ArmFeatures(base=base, arm_column=1, n_arms=3)
    >>> features.n_features, features.supports
    (12, ((0, 4), (4, 8), (8, 12)))
    """

    def __init__(self, *, base: Features, arm_column: int, n_arms: int) -> None:
        an(base, Features, name="base", pass_="base=MercerFeatures(...)")
        integer(arm_column, name="arm_column", minimum=0)
        if integer(n_arms, name="n_arms") * base.n_features > MOST_ARM_FEATURES:
            raise InvalidParameter(f"expected at most {MOST_ARM_FEATURES} features of all arms together")
        self.base, self.arm_column, self.n_arms, self.scale = base, arm_column, n_arms, base.scale
        self.n_features = n_arms * base.n_features
        self.supports: Supports = tuple(
            (arm * base.n_features + low, arm * base.n_features + high)
            for arm in range(n_arms)
            for low, high in base.supports
        )

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the feature vectors (..., n_arms * m) of points (..., d), zero outside the arm's range."""
        arms, others, lead = self._split(X)
        phi = np.zeros((len(arms), self.n_arms, self.base.n_features))
        phi[np.arange(len(arms)), arms] = self.base(others)
        return phi.reshape(*lead, self.n_features)

    def placed(
        self, points: FloatArray, through: Callable[[Features, FloatArray], FloatArray] | None = None
    ) -> Placed:
        """See `Features.placed`; the supports of every arm are those of the base."""
        arms, others, _ = self._split(points)
        own = self.base.placed(others, through)
        return Placed(arms * len(self.base.supports) + own.support, own.phi)

    def offered(self, sets: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return arms (B, n) and contexts (B, n, d) of B decision sets of n candidates each.

        If all candidates of each set have the same context, contexts have shape (B, 1, d).
        """
        last = self.arm_column == sets.shape[2] - 1
        others = sets[:, :, :-1] if last else np.delete(sets, self.arm_column, axis=2)
        one = others[:, :1]
        contexts = one if (others == one).all() else others
        return sets[:, :, self.arm_column].astype(np.int64), np.ascontiguousarray(contexts)

    def to_score(self, weights: FloatArray) -> FloatArray:
        """See `Features.to_score`; the result has shape (k, n_arms, L)."""
        each = self.base.to_score(weights.reshape(-1, self.base.n_features))
        return each.reshape(len(weights), self.n_arms, -1)

    def scores_of_known(self, points: FloatArray, weights: FloatArray) -> FloatArray:
        """See `Features.scores_of_known`. The features of a context are computed once for all its arms."""
        arms, contexts = self.offered(points)
        out, step = np.empty(arms.shape), max(1, BLOCK_ELEMENTS // (arms.shape[1] * weights.shape[2]))
        for low in range(0, len(arms), step):
            some = contexts[low : low + step]
            rows = self.base.to_be_scored(some.reshape(-1, some.shape[2]))
            own = weights[np.arange(low, low + len(some))[:, None], arms[low : low + step]]
            phi = np.broadcast_to(rows.reshape(*some.shape[:2], -1), own.shape)
            np.einsum("bnl,bnl->bn", phi, own, out=out[low : low + step])
        return out

    def project(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """Return phi(X) @ weights, shape (..., k), for points (..., d) and weights (n_arms * m, k)."""
        arms, others, lead = self._split(X)
        matrix = checked_weights(weights, self.n_features)
        per_arm = matrix.reshape(self.n_arms, self.base.n_features, matrix.shape[1])
        out = np.empty((len(arms), matrix.shape[1]))
        for arm in range(self.n_arms):
            chosen = np.flatnonzero(arms == arm)
            if chosen.size:
                out[chosen] = self.base.project(others[chosen], per_arm[arm])
        return out.reshape(*lead, matrix.shape[1])

    def gradient(self, X: FloatArray, V: FloatArray) -> FloatArray:
        """See `Features.gradient`; the entry of the arm's column is zero."""
        arms, others, _ = self._split(X)
        own = V.reshape(len(V), self.n_arms, self.base.n_features)[np.arange(len(V)), arms]
        return np.insert(self.base.gradient(others, own), self.arm_column, 0.0, axis=1)

    def variance(self, X: ArrayLike) -> FloatArray:
        """Return the variance of the base at the columns without the arm, for points (..., d)."""
        _, others, lead = self._split(X)
        return self.base.variance(others).reshape(lead)

    def written_out(self) -> "ArmFeatures":
        """See `Features.written_out`."""
        return ArmFeatures(base=self.base.written_out(), arm_column=self.arm_column, n_arms=self.n_arms)

    def basis(self) -> tuple[FloatArray, ...]:
        """See `Features.basis`; the result is the basis of `base`."""
        return self.base.basis()

    def in_basis(self, basis: Sequence[FloatArray]) -> "ArmFeatures":
        """See `Features.in_basis`."""
        base = self.base.in_basis(basis)
        return ArmFeatures(base=base, arm_column=self.arm_column, n_arms=self.n_arms)

    def __repr__(self) -> str:
        return f"ArmFeatures(n_arms={self.n_arms}, arm_column={self.arm_column}, base={self.base!r})"

    def _split(self, X: ArrayLike) -> tuple[IntArray, FloatArray, tuple[int, ...]]:
        array = np.asarray(X, dtype=np.float64)
        if array.ndim == 0 or array.shape[-1] <= self.arm_column:
            raise InvalidData(
                f"points have shape {array.shape}, expected the arm in column {self.arm_column}"
            )
        points, lead = checked_points(array, array.shape[-1])
        codes = points[:, self.arm_column]
        if not np.all((codes >= 0) & (codes < self.n_arms) & (codes == np.floor(codes))):
            raise InvalidData(
                f"column {self.arm_column} has entries that are not arms: expected 0 .. {self.n_arms - 1}"
            )
        return codes.astype(np.int64), np.delete(points, self.arm_column, axis=1), lead


def mercer_or_given(
    features: Features | None, *, kernel: Kernel | None, domain: Domain, n_features: int
) -> Features:
    """Return `features` if they are given, else Mercer features of `kernel`.

    Raises:
        InvalidParameter: Both a kernel and features are given, or neither.
    """
    if features is not None and kernel is None:
        return an(features, Features, name="features", pass_="features=MercerFeatures(...)")
    if kernel is not None and features is None:
        return MercerFeatures(kernel=kernel, domain=domain, n_features=n_features)
    if features is None:
        raise InvalidParameter(
            "kernel, features: neither came, expected one: pass "
            "kernel=kernels.Matern(nu=2.5, lengthscale=0.3)"
        )
    raise InvalidParameter("kernel, features: both came, expected one: leave the kernel out")


def _leading_eigenpairs(K: FloatArray, root_weights: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the leading eigenvalues g of R K R, decreasing, and the matrix R U of their eigenvectors U."""
    values, vectors = np.linalg.eigh(root_weights[:, None] * K * root_weights)
    values, vectors = values[::-1][:count], vectors[:, ::-1][:, :count]
    kept = values > RELATIVE_EIGENVALUE_FLOOR * values[0]
    values, vectors = values[kept], vectors[:, kept]
    largest = np.argmax(np.abs(vectors), axis=0)
    vectors = vectors * np.sign(vectors[largest, np.arange(len(values))])
    return values, root_weights[:, None] * vectors


def _enforce_norm(phi: FloatArray) -> None:
    """Scale rows of `phi` that are longer than `NORM_BOUND` down to that norm, in place."""
    if len(phi) and np.vecdot(phi, phi).max() <= SURELY_SHORT:
        return
    norms = np.sqrt(np.einsum("ij,ij->i", phi, phi))
    long = norms > NORM_BOUND
    if long.any():
        phi[long] *= (NORM_BOUND / norms[long])[:, None]


# -- landmarks -----------------------------------------------------------------------------------

MAX_SPREAD_DIMENSION = 10
"""Largest dimension in which a low-discrepancy sequence is better than random points."""

MOST_REJECTED_DIMENSION = 6
"""Largest dimension in which points in a ball are found by rejecting points of the box around it; the ball
fills 8% of the box there. In more dimensions points are sampled from the ball directly.
"""


def spread_over(domain: Domain, size: int, rng: np.random.Generator) -> FloatArray:
    """Return L = `size` evenly spread points (L, d) of a public domain, or fewer on a small finite domain."""
    if isinstance(domain, Finite):
        if domain.n_points <= size:
            return np.array(domain.points)
        return domain.points[np.sort(rng.choice(domain.n_points, size=size, replace=False))]
    if isinstance(domain, Ball) and domain.dim <= MOST_REJECTED_DIMENSION:
        return _in_ball(domain, size, rng)
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    widths = [part.dim if isinstance(part, Box) else 1 for part in parts]
    spreadable = [part for part in parts if isinstance(part, Box | Arms | Finite)]
    if len(spreadable) < len(parts) or sum(widths) > MAX_SPREAD_DIMENSION:
        return domain.sample(size, rng)
    unit = _spread(size, sum(widths), rng)
    columns = np.split(unit, np.cumsum(widths)[:-1], axis=1)
    return np.concatenate([_from_unit(part, u) for part, u in zip(spreadable, columns, strict=True)], axis=1)


def _in_ball(ball: Ball, size: int, rng: np.random.Generator) -> FloatArray:
    """Return `size` points in the ball: the first ones of a low-discrepancy sequence in the box around it."""
    count = 2 * size
    state = rng.bit_generator.state
    while True:
        rng.bit_generator.state = state  # the same shift, a longer sequence
        points = ball.bounding_box.from_unit(_spread(count, ball.dim, rng))
        inside = points[ball.contains(points)]
        if len(inside) >= size:
            return inside[:size]
        count *= 2


def _from_unit(part: Box | Arms | Finite, unit: FloatArray) -> FloatArray:
    if isinstance(part, Box):
        return part.from_unit(unit)
    return np.asarray(part.points[(unit[:, 0] * len(part.points)).astype(np.int64)])


def _spread(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """Return points (n, dim) of a randomly shifted additive recurrence on [0, 1)^dim.

    x_i = frac(shift + i alpha), alpha_j = g^-j with g the root of g^(dim + 1) = g + 1 (Roberts 2018, the
    generalised golden ratio). The points are evenly spread for every n.
    """
    ratio = 2.0
    for _ in range(64):  # a contraction: 64 steps reach machine precision for every dim
        ratio = (1.0 + ratio) ** (1.0 / (dim + 1))
    steps = np.arange(1, n + 1)[:, None] * ratio ** -np.arange(1.0, dim + 1.0)
    return np.asarray((rng.random(dim) + steps) % 1.0)

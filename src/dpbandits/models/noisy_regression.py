"""Bayesian regression on feature weights from noisy sufficient statistics.

The model: a reward is z = phi . w + e, with m features phi, weights w ~ N(0, p I) and Var(e) <= rho^2. The
sufficient statistics are the Gram matrix G = sum phi phi^T and the vector u = sum z phi. The latter is G w
plus an error of covariance rho^2 G. Only G + E and u + e_u are known. E is symmetric Gaussian noise,
isotropic in Frobenius norm: its standard deviation is s_A on the diagonal and s_A / sqrt(2) off it. The
vector's noise is e_u ~ N(0, s_u^2 I).

Let G^ be an estimate of G whose error has variance q. Then u = G^ w + (G - G^) w + errors as above, and the
second term has covariance q (||w||^2 I + w w^T) / 2. Averaged over directions of w this is q (1 + 1/m) / 2
for ||w|| = 1. So the noisy vector is a regression on G^ with error covariance

    (s_u^2 + (1 + 1/m) q / 2) I + rho^2 G^.

`posterior_from_block_statistics` takes one noisy pair per block. Gram matrices are shrunk towards a public
prior, and the blocks are fitted by generalised least squares. Between `supports` (index ranges, such as the
features of separate arms) every Gram matrix is zero, so each support is a separate problem. Inputs are plain
numbers. If they are a release, all results are post-processing of it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.linalg import block_diag, cho_solve, cholesky, solve_triangular

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.features import Features, Placed, Supports, left_out
from dpbandits.models.triangular import PANEL, factor_lower, solve_lower

__all__ = ["WeightPosterior", "posterior_from_block_statistics"]

SYMMETRY_TOLERANCE = 1e-9
"""Largest difference of A and A^T, relative to the largest entry, that is accepted as rounding."""


_NUMBERS_AT_ONCE = 1 << 21
"""Number of features in one support, of all points together, that `predict_function` computes at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class WeightPosterior:
    """Gaussian posterior of feature weights.

    Args:
        mean: Posterior mean, shape (m,).
        factors: For each support a factor F (k, k) of the covariance F F^T of its k weights. Weights of
            different supports are independent.
        supports: Index ranges of the supports; ((0, m),) if there is one.
    """

    mean: FloatArray
    factors: Sequence[FloatArray]
    supports: Supports

    @property
    def factor(self) -> FloatArray:
        """Factor F (m, m) of the covariance F F^T of all weights; with many supports it is much larger than
        `factors`.
        """
        return self.factors[0] if len(self.factors) == 1 else np.asarray(block_diag(*self.factors))

    @property
    def covariance(self) -> FloatArray:
        """Posterior covariance, shape (m, m)."""
        return np.asarray(self.factor @ self.factor.T)

    def predict(self, Phi: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of phi . w at feature vectors (..., m), shapes (...)."""
        features = np.asarray(Phi, dtype=np.float64)
        if features.ndim == 0 or features.shape[-1] != self.mean.size:
            raise InvalidData(f"features have shape {features.shape}: expected (..., {self.mean.size})")
        variance = np.zeros(features.shape[:-1])
        for (low, high), factor in zip(self.supports, self.factors, strict=True):
            part = features[..., low:high] @ factor
            variance += np.einsum("...j,...j->...", part, part)
        return features @ self.mean, np.sqrt(variance)

    def predict_function(
        self, features: Features, X: FloatArray, *, weight_variance: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the function at points, variance beyond features included.

        The function is phi(x) . w plus an independent Gaussian process, about which the statistics have no
        information. The variance of that process is p times the result of `left_out`.

        Args:
            features: Feature map of these weights.
            X: Points, shape (..., d).
            weight_variance: Variance p of a weight before any data.
        """
        X = np.asarray(X, dtype=np.float64)
        points = X.reshape(-1, X.shape[-1])
        mean, variance = np.empty((2, len(points)))
        at_once = max(1, _NUMBERS_AT_ONCE // max(high - low for low, high in self.supports))
        for start in range(0, len(points), at_once):
            part = slice(start, start + at_once)
            mean[part], variance[part] = self._moments(features, points[part], weight_variance)
        return mean.reshape(X.shape[:-1]), np.sqrt(variance).reshape(X.shape[:-1])

    def _moments(
        self, features: Features, points: FloatArray, weight_variance: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance (n,) of the function at points (n, d); see `predict_function`."""
        support, own = features.placed(points)
        means, variances = np.empty(len(own)), np.empty(len(own))
        for index, rows in Placed(support, own).groups(self.supports):
            (low, high), factor = self.supports[index], self.factors[index]
            part = own[rows, : high - low]
            means[rows], scaled = part @ self.mean[low:high], part @ factor
            variances[rows] = np.einsum("ij,ij->i", scaled, scaled)
        return means, variances + weight_variance * left_out(features, points, own)

    @classmethod
    def of(cls, mean: FloatArray, factor: FloatArray, supports: Supports) -> "WeightPosterior":
        """Return a posterior from mean (m,) and a covariance factor (m, m) that is zero between supports."""
        return cls(
            mean=mean, factors=[factor[low:high, low:high] for low, high in supports], supports=supports
        )

    @classmethod
    def prior(cls, variance: float, supports: Supports) -> "WeightPosterior":
        """Return the prior N(0, variance I) of the weights."""
        size, sd = supports[-1][1], math.sqrt(_checks.number(variance, name="variance"))
        factors = [sd * np.eye(high - low) for low, high in supports]
        return cls(mean=np.zeros(size), factors=factors, supports=supports)

    def given(
        self, grams: Sequence[FloatArray], vector: FloatArray, *, reward_variance: float
    ) -> "WeightPosterior":
        """Return the posterior with this law as prior, given the sufficient statistics without noise.

        If this law has covariance F F^T, the posterior's is F (I + F^T G F / rho^2)^-1 F^T, so a singular
        Gram matrix G is never inverted.

        Args:
            grams: Sum of phi phi^T of every support, shapes (s, s).
            vector: Sum of z phi, shape (m,).
            reward_variance: Variance rho^2 of a reward given its mean.

        Raises:
            InvalidData: Shapes do not fit, or entries are not finite.
            InvalidParameter: The variance is not positive.
        """
        _checks.number(reward_variance, name="reward_variance")
        vector = np.asarray(vector, dtype=np.float64)
        if vector.shape != self.mean.shape or len(grams) != len(self.supports):
            raise InvalidData(
                f"{len(grams)} Gram matrices and a vector of shape {vector.shape}: expected one matrix for "
                f"each support, {len(self.supports)}, and a vector ({self.mean.size},)"
            )
        own = {
            place: (factor, _as_statistics(np.asarray(gram)[None], vector[None, slice(*place)])[0][0])
            for place, factor, gram in zip(self.supports, self.factors, grams, strict=True)
        }

        def solve(low: int, high: int) -> tuple[FloatArray, FloatArray]:
            F, G = own[low, high]
            system = F.T @ G @ F / reward_variance
            system[np.diag_indices(high - low)] += 1.0
            lower = cholesky(system, lower=True)
            residual = vector[low:high] - G @ self.mean[low:high]
            shift = F @ cho_solve((lower, True), F.T @ residual / reward_variance)
            return self.mean[low:high] + shift, solve_triangular(lower, F.T, lower=True).T

        return _per_support(self.mean.size, self.supports, solve)

    def sample_weights(self, normals: FloatArray, *, scale: float = 1.0) -> FloatArray:
        """Return samples (k, m) from standard normals (k, m): mean + scale * factor @ normal.

        A `scale` below one gives samples closer to the mean; 0 gives the mean.
        """
        draws = np.asarray(normals, dtype=np.float64)
        if draws.ndim != 2 or draws.shape[1] != self.mean.size:
            raise InvalidData(f"normals have shape {draws.shape}: expected (k, {self.mean.size})")
        weights = np.empty_like(draws)
        for (low, high), factor in zip(self.supports, self.factors, strict=True):
            np.matmul(draws[:, low:high], factor.T, out=weights[:, low:high])
        weights *= scale
        weights += self.mean
        return weights


def posterior_from_block_statistics(
    grams: FloatArray,
    vectors: FloatArray,
    *,
    noise_covariance: FloatArray,
    gram_noise_sd: float,
    vector_noise_sd: float,
    prior_variance: float,
    reward_variance: float,
    prior_grams: FloatArray | None = None,
    prior_gram_sd: FloatArray | None = None,
    kept: FloatArray | None = None,
    supports: Supports | None = None,
) -> WeightPosterior:
    """Return the posterior from noisy (Gram, vector) pairs of K blocks with correlated noise.

    N is `noise_covariance`, and m is the number of features. The steps are:

    1. Shrink the Gram matrices: V = diag(`prior_gram_sd`^2), W = V (V + s_A^2 N)^-1, G^ = M + W (grams - M).
       The error of G^ has covariance Q = V - W V between blocks. Without a prior W = I and Q = s_A^2 N. With
       a deviation of 0, G^ is M and the released Gram matrix is ignored.
    2. Discount: with factors `kept` c, multiply G^_k, u_k and their variances in N and Q by c_k, as if block
       k had fewer users. So its information G (s^2 I + rho^2 G)^-1 G is multiplied by c_k.
    3. Clip each G^_k to be positive semi-definite.
    4. Regress: H = stack(G^_k), Cov = (s_u^2 N + (1 + 1/m) Q / 2) (x) I + rho^2 blockdiag(G^_k);
       precision H^T Cov^-1 H + I / p, mean precision^-1 H^T Cov^-1 u.

    The cost is K eigendecompositions of size m and one Cholesky factor of size (sum of the ranks of the
    G^_k) <= K m, so the function suits a small number of uneven blocks.

    Args:
        grams: Symmetric noisy Gram matrices of the blocks, shape (K, m, m).
        vectors: Noisy vectors, shape (K, m).
        noise_covariance: Covariance N of the noise between blocks, for noise of standard deviation one,
            shape (K, K).
        gram_noise_sd: Factor s_A of the noise on the diagonal of a Gram matrix; off it the factor is
            s_A / sqrt(2).
        vector_noise_sd: Factor s_u of the noise of each entry of a vector.
        prior_grams: Expected Gram matrices M, which are public, shape (K, m, m).
        prior_gram_sd: Standard deviation of the true Gram matrices about M, on the diagonal, shape (K,).
        kept: Discount factors c in (0, 1], shape (K,); None for no discounting.
        prior_variance: Variance of each weight before any data.
        reward_variance: Bound on the variance of a reward given its mean.
        supports: Index ranges that are separate problems; None for one range.

    Raises:
        InvalidData: Shapes do not fit, or entries are not finite.
        InvalidParameter: A deviation is negative, a variance is not positive, a covariance is not positive
            definite, or only one of `prior_grams` and `prior_gram_sd` was passed.
    """
    grams, vectors = _as_statistics(grams, vectors)
    _checks.number(gram_noise_sd, name="gram_noise_sd", exclusive=False)
    _checks.number(vector_noise_sd, name="vector_noise_sd", exclusive=False)
    _checks.number(prior_variance, name="prior_variance")
    _checks.number(reward_variance, name="reward_variance")
    covariance, n_blocks = np.asarray(noise_covariance, dtype=np.float64), len(grams)
    if covariance.shape != (n_blocks, n_blocks):
        raise InvalidData(f"noise_covariance has shape {covariance.shape}: expected ({n_blocks}, {n_blocks})")
    _check_symmetric(covariance, "noise covariances")
    try:
        np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        raise InvalidParameter("noise_covariance is not positive definite") from None
    grams, uncertainty = _shrink(grams, gram_noise_sd**2 * covariance, prior_grams, prior_gram_sd)
    if kept is not None:
        shares = np.asarray(kept, dtype=np.float64)
        if shares.shape != (len(grams),) or not ((shares > 0.0) & (shares <= 1.0)).all():
            raise InvalidParameter(f"kept: expected {len(grams)} factors in (0, 1], one for each block")
        grams, vectors = shares[:, None, None] * grams, shares[:, None] * vectors
        between = np.sqrt(shares[:, None] * shares)
        covariance, uncertainty = between * covariance, between * uncertainty

    def solve(low: int, high: int) -> tuple[FloatArray, FloatArray]:
        spill = 0.5 * (1.0 + 1.0 / (high - low))  # share of a Gram matrix's noise in an entry of the vector
        between = vector_noise_sd**2 * covariance + spill * uncertainty
        information, pull = _block_information(
            grams[:, low:high, low:high], vectors[:, low:high], between, reward_variance
        )
        information[np.diag_indices(high - low)] += 1.0 / prior_variance
        inverse = solve_lower(factor_lower(information), np.eye(high - low))
        return inverse.T @ (inverse @ pull), inverse.T

    return _per_support(grams.shape[1], supports, solve)


def _shrink(
    grams: FloatArray, noise: FloatArray, prior_grams: FloatArray | None, prior_gram_sd: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the shrunk Gram matrices G^ (K, m, m), not yet clipped, and the covariance Q (K, K) of their
    errors.

    Both are defined in step 1 of `posterior_from_block_statistics`.
    """
    if (prior_grams is None) != (prior_gram_sd is None):
        raise InvalidParameter("prior_grams, prior_gram_sd: one of the two came, expected both or neither")
    if prior_grams is None or not noise.any():
        return grams, noise
    prior = np.asarray(prior_grams, dtype=np.float64)
    sd = np.asarray(prior_gram_sd, dtype=np.float64)
    if prior.shape != grams.shape or sd.shape != grams.shape[:1]:
        raise InvalidData(
            f"prior_grams {prior.shape}, prior_gram_sd {sd.shape} do not fit grams {grams.shape}"
        )
    with np.errstate(over="ignore"):
        known = np.isfinite(prior).all() and np.isfinite(sd**2).all()
    if not (known and (sd >= 0.0).all()):
        raise InvalidParameter("prior_grams must be finite, and prior_gram_sd finite and not negative")
    _check_symmetric(prior, "prior Gram matrices")
    W = sd[:, None] ** 2 * _inverse(np.diag(sd**2) + noise)
    Q = W @ noise  # = V - W V, without its cancellation
    return prior + np.tensordot(W, grams - prior, axes=1), 0.5 * (Q + Q.T)


def _block_information(
    grams: FloatArray, vectors: FloatArray, between: FloatArray, reward_variance: float
) -> tuple[FloatArray, FloatArray]:
    """Return H^T Cov^-1 H (m, m) and H^T Cov^-1 u (m,), for step 4 of `posterior_from_block_statistics`.

    Cov = S (x) I + rho^2 blockdiag(G_k) with S = `between`. Let G_k = F_k F_k^T, F = blockdiag(F_k),
    J = stack(F_k^T), P = S^-1 (x) I and B = F^T P F. The matrix inversion lemma gives
    F^T Cov^-1 F = (I - (I + rho^2 B)^-1) / rho^2 and F^T Cov^-1 u = (I + rho^2 B)^-1 F^T P u.

    Only well-conditioned sums are factorised: the smallest eigenvalue of I + rho^2 B is at least one, even
    if the G_k are singular. Rounding errors stay relative to sum G_k / rho^2, for any size of the noise.
    """
    # Columns (m, R) of all F_k, whose G_k are clipped to their positive parts, and their k (R,).
    values, vectors_of = np.linalg.eigh(grams)
    smallest = np.finfo(np.float64).eps * grams.shape[1] * max(0.0, float(values.max(initial=0.0)))
    owner, position = np.nonzero(values > smallest)
    roots = (vectors_of[owner, :, position] * np.sqrt(values[owner, position])[:, None]).T
    total = roots @ roots.T
    if not between.any():
        # Limit of no noise: the part of each u_k inside the range of G_k counts, with weight 1 / rho^2.
        directions = roots / np.linalg.norm(roots, axis=0)
        inside = directions @ np.einsum("ir,ri->r", directions, vectors[owner])
        return total / reward_variance, inside / reward_variance
    P = _inverse(between)
    system = roots.T @ roots
    for k, (start, stop) in enumerate(pairwise(np.searchsorted(owner, np.arange(len(P) + 1)).tolist())):
        system[start:stop] *= reward_variance * P[k, owner]  # columns of one block are neighbours
    system[np.diag_indices(len(system))] += 1.0
    pulled = np.einsum("ir,ri->r", roots, (P @ vectors)[owner])
    both = np.vstack([roots, pulled]).T
    if len(roots) > PANEL:
        solved = solve_lower(factor_lower(system), both)
    else:
        # The transpose of a symmetric matrix is the same matrix in the memory order of LAPACK.
        lower = cholesky(system.T, lower=True, overwrite_a=True, check_finite=False)
        solved = solve_triangular(lower, both, lower=True, overwrite_b=True, check_finite=False)
    J, right = solved[:, :-1], solved[:, -1]
    return (total - J.T @ J) / reward_variance, J.T @ right


def _inverse(matrix: FloatArray) -> FloatArray:
    half = solve_lower(factor_lower(matrix.copy()), np.eye(len(matrix)))
    return np.asarray(half.T @ half)


def _per_support(
    n_features: int, supports: Supports | None, solve: Callable[[int, int], tuple[FloatArray, FloatArray]]
) -> WeightPosterior:
    ranges: Supports = ((0, n_features),) if supports is None else tuple(supports)
    starts, stops = [low for low, _ in ranges], [high for _, high in ranges]
    in_order = starts == [0, *stops[:-1]] and all(low < high for low, high in ranges)
    if not ranges or not in_order or stops[-1] != n_features:
        raise InvalidParameter(
            f"supports: expected consecutive non-empty ranges that split 0 .. {n_features}, such as "
            f"((0, {n_features}),)"
        )
    mean, factors = np.empty(n_features), []
    for low, high in ranges:
        mean[low:high], factor = solve(low, high)
        factors.append(factor)
    return WeightPosterior(mean=mean, factors=factors, supports=ranges)


def _as_statistics(grams: FloatArray, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
    matrices = np.asarray(grams, dtype=np.float64)
    columns = np.asarray(vectors, dtype=np.float64)
    fits = matrices.ndim == 3 and columns.ndim == 2 and matrices.shape == (*columns.shape, columns.shape[1])
    if not fits or 0 in columns.shape:
        raise InvalidData(
            f"Gram matrices {matrices.shape} and vectors {columns.shape} do not fit: expected (K, m, m) "
            "and (K, m)"
        )
    if not (np.isfinite(matrices).all() and np.isfinite(columns).all()):
        raise InvalidData("statistics contain NaN or infinite entries")
    _check_symmetric(matrices, "Gram matrices")
    return matrices, columns


def _check_symmetric(matrices: FloatArray, name: str) -> None:
    """Raise `InvalidData` for asymmetric matrices, as factorisations read one triangle only."""
    stack = matrices.reshape(-1, *matrices.shape[-2:])  # one at a time, so that differences stay in the cache
    asymmetry = max(float(np.abs(matrix - matrix.T).max()) for matrix in stack)
    if asymmetry > SYMMETRY_TOLERANCE * max(matrices.max(), -matrices.min()):
        raise InvalidData(f"{name} are not symmetric: pass (A + A^T) / 2 if only rounding is to blame")

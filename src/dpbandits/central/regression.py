"""Posterior of feature weights, computed from released block sums.

The released Gram matrices are shrunk towards the matrices expected from public decision sets. The strength
of shrinkage follows from one number, the relative deviation c of users' decision sets from the public ones.
It is chosen among a few values by the marginal likelihood of the released matrices (`likely_spread`). All of
this uses releases and public numbers only, so it costs no privacy.
"""

from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData
from dpbandits.models.features import Supports, blocks_of
from dpbandits.models.noisy_regression import WeightPosterior, posterior_from_block_statistics
from dpbandits.privacy.prefix_sums import BlockRelease

__all__ = [
    "REWARD_VARIANCE",
    "SPREADS",
    "likely_spread",
    "posterior_from_releases",
    "resolved",
]

REWARD_VARIANCE = 0.25
"""Largest variance of a reward, in squared widths of its range, for any distribution."""

SPREADS = (0.01, 0.03, 0.1, 0.3)
"""Candidates for the relative deviation of decision sets from the public ones, in increasing order."""

FORGOTTEN = 1e-3
"""Weight below which a block is left out; a block has it after ten times the half-life."""

INDISTINCT = 2.0
"""Difference of log-likelihoods, odds of seven to one, up to which two candidates count as equally likely."""

UNRESOLVED = 1.0
"""Factor U in `resolved`: features with less than U times the variance of the mean reward are negligible.

Negligible features keep their prior law. On tuning seeds a smaller factor gains no reward:
`reproduction/studies/less_work.py --group unresolved`.
"""


def posterior_from_releases(
    release: BlockRelease,
    released: IntArray,
    grams: FloatArray,
    *,
    block_sizes: FloatArray,
    prior_variance: float,
    supports: Supports,
    kept: FloatArray | None = None,
    largest: FloatArray | None = None,
) -> WeightPosterior:
    """Return the posterior of the feature weights, for centred rewards in a range of width 1.

    Weights of features that the rounds so far cannot resolve (see `resolved`) keep their prior law. Their
    statistics are nearly all noise, and would cost as much to solve for as those of other features.

    Args:
        release: Mechanism that made the releases.
        released: Releases of the first k blocks, (k, D).
        grams: Gram matrix of each block, (k, C), by support (see `models.features.supports`): exact if
            decision sets are public, else expected.
        block_sizes: Number of rounds in each block, (k,).
        prior_variance: Prior variance of a weight.
        supports: Ranges of features that are solved separately.
        kept: Weight of every block in the regression if the past is discounted, (k,). Blocks with a weight
            below `FORGOTTEN` are left out.
        largest: Public upper bound on each feature's part of the function's prior variance at any point,
            (m,); None to solve for all features.
    """
    k = len(released)
    mechanism = release.mechanism
    estimates = release.block_estimates(released)
    covariance = release.factor.block_covariance(k)
    if kept is not None:
        recent = kept >= FORGOTTEN
        estimates, grams, block_sizes = estimates[recent], grams[recent], block_sizes[recent]
        covariance, kept = covariance[np.ix_(recent, recent)], kept[recent]
    among = np.arange(supports[-1][1])
    if largest is not None:
        among = resolved(largest, rounds=float(block_sizes.sum()))
    expected, vectors = blocks_of(grams, supports), mechanism.vector_from_coordinates(estimates)
    common: dict[str, Any] = {
        "noise_covariance": covariance,
        "vector_noise_sd": release.vector_noise_sd,
        "prior_variance": prior_variance,
        "reward_variance": REWARD_VARIANCE,
        "kept": kept,
        "gram_noise_sd": release.gram_noise_sd,
    }
    told = expected
    if not mechanism.vector_only:
        deviations = estimates[:, : mechanism.gram_size] - mechanism.gram_to_coordinates(expected)
        spread = likely_spread(deviations, release.gram_noise_sd**2 * covariance, block_sizes)
        common["prior_gram_sd"] = spread * block_sizes
        told = mechanism.grams_from_coordinates(estimates)
    mean, factors = np.zeros(supports[-1][1]), list[FloatArray]()
    for (low, high), gram, prior in zip(supports, told, expected, strict=True):
        own = among[slice(*np.searchsorted(among, [low, high]))] - low
        factor = np.sqrt(prior_variance) * np.eye(high - low)
        if len(own):
            found = posterior_from_block_statistics(
                _part(gram, own),
                vectors[:, low + own],
                prior_grams=None if mechanism.vector_only else _part(prior, own),
                **common,
            )
            mean[low + own], factor[own[:, None], own] = found.mean, found.factor
        factors.append(factor)
    return WeightPosterior(mean=mean, factors=factors, supports=supports)


def resolved(largest: FloatArray, *, rounds: float) -> IntArray:
    """Return the increasing indices of the features whose weights n rounds can resolve.

    With U = `UNRESOLVED`, the other features together make up at most U rho^2 / n of the function's prior
    variance at every point. So n rewards without noise would shrink the variance of one of their weights by
    at most a part U / (1 + U). Their contribution to the mean of n rewards has at most the part U of its
    variance. Both hold at every point where `largest` holds, and rest on public numbers only.

    Args:
        largest: Upper bound on p phi_j^2 over the domain, p the prior variance of a weight, (m,).
        rounds: Number n of rounds.

    Example:
        >>> resolved(np.array([0.2, 2e-3, 2e-4, 2e-6]), rounds=500)
        array([0, 1])
    """
    order = np.argsort(largest, kind="stable")
    left = np.cumsum(largest[order]) * rounds / REWARD_VARIANCE
    return np.sort(order[np.searchsorted(left, UNRESOLVED, side="right") :])


def _part(matrices: FloatArray, among: IntArray) -> FloatArray:
    """Return the submatrices (..., a, a) with the rows and columns `among` of matrices (..., m, m)."""
    return matrices if len(among) == matrices.shape[-1] else matrices[..., among[:, None], among]


def likely_spread(deviations: FloatArray, noise: FloatArray, block_sizes: FloatArray) -> float:
    """Return the smallest of `SPREADS` that explains the released Gram matrices' deviations.

    A spread c explains them if its log-likelihood is within `INDISTINCT` of the best, so that without
    evidence the public law is trusted. For blocks of n rounds, deviations are N(0, diag((c n)^2) + noise),
    independently in every isometric coordinate of the matrix (the diagonal, and sqrt(2) times the entries
    above it).

    Args:
        deviations: Released less expected Grams in isometric coordinates, (k, C).
        noise: Covariance of the release noise between blocks in one coordinate, (k, k).
        block_sizes: Number of rounds in each block, (k,).

    Raises:
        InvalidData: Deviations are not finite.
    """
    if not np.isfinite(deviations).all():
        raise InvalidData("statistics contain NaN or infinite entries")
    size, scatter = deviations.shape[1], deviations @ deviations.T
    totals = np.stack([np.diag((spread * block_sizes) ** 2) + noise for spread in SPREADS])
    determinants = np.linalg.slogdet(totals)[1]
    fits = np.trace(np.linalg.solve(totals, scatter), axis1=1, axis2=2)
    likelihoods = -0.5 * (size * determinants + fits)
    return float(SPREADS[int(np.argmax(likelihoods >= likelihoods.max() - INDISTINCT))])

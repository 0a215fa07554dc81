"""Predict, before any data, how much of a reward function a whole run can learn.

Constructors use it for the warning `NothingToLearn`. It depends on public numbers alone: the features, the
domain, the number of rounds and the scale of the noise.
"""

from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.domains import Domain, Product
from dpbandits.models.features import ArmFeatures, Features

__all__ = ["FLAT", "NOTHING_TO_LEARN", "Foresight", "foresight", "of_means"]

POINTS = 256
"""Public points of the domain over which the correlation is taken."""

TYPICAL_VARIANCE = 0.01
"""Variance of a reward function over its domain, in squared widths of the reward range. The prior of a policy
is ten times as wide, so that it learns fast. With this value the correlation is near the share of the
non-private improvement that 16 tuning worlds kept (`reproduction/tuning/foresight.py`, seeds 0 to 15)."""

NOTHING_TO_LEARN = 0.4
"""Correlation below which a constructor warns. It is about the share of a best decision's advantage that
is kept."""

FLAT = 0.05
"""Share of the prior variance that lies in differences between points, below which a kernel is called flat:
such as Matern(nu=2.5) with a lengthscale above 1.6 times the range of one column, or above 2.2 in two."""


class Foresight(NamedTuple):
    """Prediction for a whole run.

    Attributes:
        correlation: between a typical function and what is learned of it, over the domain.
        varies: share of the prior variance that lies in differences between points of the domain.
    """

    correlation: float
    varies: float


def foresight(
    features: Features,
    domain: Domain,
    *,
    rounds: float,
    noise_sd: float,
    prior_variance: float,
    reward_variance: float,
) -> Foresight:
    """The correlation after `rounds` rounds at points that are spread over the domain.

    The vector u = sum z phi is known up to noise of `noise_sd` a coordinate, and the Gram matrix is known. In
    the directions of the mean of phi phi^T, with eigenvalues l, a weight is estimated with variance
    v = rho^2/g + s^2/g^2, where g = rounds l, and shrunk by p / (p + v).

    Args:
        features: separate ones of every arm are judged by one arm's share of the rounds, and levels of arms
            count; elsewhere only differences between points do.
        domain: domain of the points.
        rounds: number of rounds that the releases cover.
        noise_sd: s, noise standard deviation of each coordinate of the vector after the last release.
        prior_variance: p, prior variance of a weight.
        reward_variance: rho^2, variance of a reward given its mean.
    """
    per_arm = False
    if isinstance(features, ArmFeatures) and isinstance(domain, Product):
        per_arm, rounds = True, rounds / features.n_arms
        domain, features = Product(*domain.parts[:-1]), features.base
    points = domain.sample(POINTS, np.random.default_rng(0))
    phi = features(points)
    middle = np.zeros(phi.shape[1]) if per_arm else phi.mean(axis=0)
    _, roots, directions = np.linalg.svd(phi / np.sqrt(len(phi)), full_matrices=False)
    gram = np.maximum(rounds * roots**2, np.finfo(np.float64).tiny ** 0.25)
    weight = (((phi - middle) @ directions.T) ** 2).mean(axis=0)
    variance, total = features.variance(points).mean(), features.variance(points).mean() - middle @ middle
    typical = TYPICAL_VARIANCE / max(float(total), 1e-12)
    error = reward_variance / gram + (noise_sd / gram) ** 2
    shrunk = prior_variance / (prior_variance + error)
    return Foresight(
        _correlation(weight, shrunk, typical, error, typical * float(total)),
        float(total / max(variance, 1e-300)),
    )


def of_means(count: float, *, noise_sd: float, prior_variance: float, reward_variance: float) -> float:
    """The correlation where means of `count` rewards are told, with noise of `noise_sd` in their sums."""
    error = np.array([reward_variance / count + (noise_sd / count) ** 2])
    shrunk = prior_variance / (prior_variance + error)
    return _correlation(np.ones(1), shrunk, TYPICAL_VARIANCE, error, TYPICAL_VARIANCE)


def _correlation(
    weight: FloatArray, shrunk: FloatArray, typical: float, error: FloatArray, total: float
) -> float:
    """Between f of variance `total` and its estimate, whose part j is shrunk[j] (f_j + an error)."""
    covariance = float(weight @ (shrunk * typical))
    learned = float(weight @ (shrunk**2 * (typical + error)))
    return float(covariance / max(np.sqrt(learned * total), 1e-300))

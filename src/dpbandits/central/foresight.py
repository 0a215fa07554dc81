"""Forecast, before any data, of how much of a reward function a whole run can learn.

Constructors use the forecast for the warning `NothingToLearn`. It depends only on public numbers: the
features, the domain, the number of rounds and the scale of the noise. It is an estimate, which assumes that
decisions are spread over the domain, and that the released Gram matrix is used without shrinkage.
"""

from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.domains import Domain, Product
from dpbandits.models.features import ArmFeatures, Features
from dpbandits.models.kernels import Kernel

__all__ = [
    "FLAT",
    "FLAT_POINTS",
    "NOTHING_TO_LEARN",
    "TYPICAL_VARIANCE",
    "Foresight",
    "expected_correlation",
    "flat_column",
    "foresight",
]

POINTS = 256
"""Number of public points of the domain at which a function and its estimate are correlated."""

DRAWS, MOST_ARMS = 256, 8
"""Number of public draws over which the correlation is averaged, and largest number of simulated arms."""

TYPICAL_VARIANCE = 0.01
"""Assumed variance of a reward function over its domain, in squared widths of the reward range.

So its standard deviation is a tenth of the range. The prior of a policy is ten times as wide, so that the
policy learns fast.
"""

NOTHING_TO_LEARN = 0.25
"""Forecast correlation below which a constructor gives the warning `NothingToLearn`.

In settings with a lower correlation, 38% of the runs of 16 tuning worlds earned less than random choices,
and in other settings 16% (`reproduction/tuning/foresight.py`, seeds 0 to 15).
"""

FLAT = 0.05
"""Share of the prior variance that lies in differences between points, below which a kernel is called flat.

Examples are Matern(nu=2.5) with a lengthscale above 1.6 times the range of one column, or above 2.2 in two.
"""


FLAT_POINTS = 64
"""Number of public points along each column at which a kernel is evaluated."""

FLAT_COLUMN = (
    "kernel: along column {column} of {columns} only {share:.1%} of its variance lies in differences, so the "
    "column hardly counts. A lengthscale is a share of the range of each column: pass 0.3, not 0.3 times the "
    "range. Leave out a column that does not matter."
)


class Foresight(NamedTuple):
    """Forecast for a whole run.

    Attributes:
        correlation: Correlation over the domain of a typical function with its estimate, averaged over runs.
        varies: Share of the prior variance that lies in differences between points of the domain.
    """

    correlation: float
    varies: float


def foresight(
    features: Features,
    domain: Domain,
    *,
    rounds: float,
    noise_sd: float,
    gram_noise_sd: float = 0.0,
    prior_variance: float,
    reward_variance: float,
) -> Foresight:
    """Return the forecast after `rounds` rounds at points that are spread over the domain.

    The vector u = sum z phi and the Gram matrix G = sum phi phi^T are known up to noise, for rewards z and
    features phi. Noise of standard deviation s' in G is noise of s' |w| in the coordinates of G w, for
    weights w. Let l be an eigenvalue of the mean of phi phi^T, and g = rounds l. The weight in that
    eigenvector's direction is estimated with variance v = rho^2/g + (s^2 + s'^2 |w|^2)/g^2, and shrunk by p
    / (p + v).

    Args:
        features: Feature map. If every arm has its own features, an arm's weights are estimated from its
            share of the rounds. Differences between arms then count like differences between points.
        domain: Domain of the points.
        rounds: Number of rounds that the releases cover.
        noise_sd: Noise standard deviation s of each coordinate of the vector after the last release.
        gram_noise_sd: Noise standard deviation s' of each entry of the Gram matrix; 0 if it is public.
        prior_variance: Prior variance p of a weight.
        reward_variance: Variance rho^2 of a reward given its mean.
    """
    arms = 1
    if isinstance(features, ArmFeatures) and isinstance(domain, Product):
        arms, rounds = features.n_arms, rounds / features.n_arms
        domain, features = Product(*domain.parts[:-1]), features.base
    points = domain.sample(POINTS, np.random.default_rng(0))
    phi = features(points)
    _, roots, directions = np.linalg.svd(phi / np.sqrt(len(phi)), full_matrices=False)
    squares, means = roots**2, directions @ phi.mean(axis=0)
    gram = np.maximum(rounds * squares, np.finfo(np.float64).tiny ** 0.25)
    variance = float(features.variance(points).mean())
    total = variance - float(means @ means) / arms
    typical = TYPICAL_VARIANCE / max(total, 1e-12)
    noise_variance = noise_sd**2 + gram_noise_sd**2 * typical * len(squares)
    correlation = expected_correlation(
        squares,
        means,
        error=reward_variance / gram + noise_variance / gram**2,
        prior_variance=prior_variance,
        typical=typical,
        unexplained=max(0.0, variance - float(squares.sum())),
        arms=arms,
    )
    return Foresight(correlation, total / max(variance, 1e-300))


def expected_correlation(
    squares: FloatArray,
    means: FloatArray,
    *,
    error: FloatArray,
    prior_variance: float,
    typical: float,
    unexplained: float = 0.0,
    arms: int = 1,
) -> float:
    """Return the correlation of a function with its estimate, over points and arms, averaged over runs.

    Functions are sum_j f_j psi_j(x), one per arm, with f_j normal of variance `typical`. The estimate has
    the weights s_j (f_j + e_j), with e_j normal of variance `error` and s_j = p / (p + error). The mean is
    taken over `DRAWS` public draws of f and e. A ratio of means would be larger: a run with an unlucky
    function or error has a low correlation, but little weight in such a ratio.

    Args:
        squares: Mean squares of the psi_j, which are orthogonal over the points, shape (m,).
        means: Means of the psi_j over the points, shape (m,).
        error: Variance of the error of a weight, shape (m,).
        prior_variance: Variance p of a weight in the policy's prior.
        typical: Variance of a weight of the function.
        unexplained: Mean square of the part that no psi_j describes, for weights of variance one.
        arms: Number of arms with separate weights.
    """
    rng, shape = np.random.default_rng(0), (DRAWS, min(arms, MOST_ARMS), len(squares))
    shrunk = prior_variance / (prior_variance + error)
    noise = np.where(shrunk > 0.0, shrunk * np.sqrt(error), 0.0)
    function = np.sqrt(typical) * rng.standard_normal(shape)
    learned = shrunk * function + noise * rng.standard_normal(shape)

    def covariance(one: FloatArray, other: FloatArray) -> FloatArray:
        apart = (one @ means).mean(axis=1) * (other @ means).mean(axis=1)
        return np.asarray((one * other * squares).sum(axis=2).mean(axis=1) - apart)

    whole = covariance(function, function) + typical * unexplained
    spread = np.sqrt(np.maximum(whole * covariance(learned, learned), 0.0))
    return max(0.0, float((covariance(function, learned) / np.maximum(spread, 1e-300)).mean()))


def flat_column(kernel: Kernel, points: FloatArray) -> str | None:
    """Return a warning that names a column along which a kernel is flat; None if there is no such column.

    With the other columns fixed, a share of at least `FLAT`/d of the variance must lie in differences along
    each of the d columns. In a sum of d one-column kernels the share is about 1/d.

    Args:
        kernel: Kernel over the columns, in the unit of the points.
        points: Public points spread over the domain, shape (n, d).
    """
    columns = points.shape[1]
    for column in range(columns):
        line = np.tile(points[:1], (len(points), 1))
        line[:, column] = points[:, column]
        gram = kernel(line)
        share = 1.0 - float(gram.mean() / max(np.diag(gram).mean(), np.finfo(np.float64).tiny))
        if share < FLAT / columns:
            return FLAT_COLUMN.format(column=column + 1, columns=columns, share=share)
    return None

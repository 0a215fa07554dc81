"""Bayesian regression on feature weights from noisy sums of centred rewards, one sum per cell.

The model: a reward y in [0, 1] of a point with features phi is 1/2 + phi . w + e with w ~ N(0, p I). For each
cell c of a block, the sum z_c of y - 1/2 over its users is known, with noise of variance s^2. The users in
the cell are predicted by public draws: their number is n_c, and their mean feature vector is phi_c. So

    z_c = n_c phi_c . w + e_c,    Var e_c = n_c / 4 + s^2 + (a n_c)^2 E (phi_c . w)^2.

The last term is the error of a predicted count with relative deviation a. Its expectation is over the
posterior of earlier blocks. Cells and blocks are independent given w. With discounting, the precision that
earlier blocks contribute is multiplied by a factor of at most one at every later block. Inputs are plain
numbers. If they are a release, all results are post-processing of it.
"""

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData
from dpbandits.models.noisy_regression import WeightPosterior

__all__ = ["posterior_from_cells"]

REWARD_VARIANCE = 0.25
"""Largest variance of a reward in [0, 1]."""


def posterior_from_cells(
    sums: FloatArray,
    *,
    counts: FloatArray,
    features: FloatArray,
    noise_sd: float,
    prior: WeightPosterior,
    count_error: float = 0.0,
    kept: FloatArray | None = None,
) -> WeightPosterior:
    """Return the posterior of the weights after K blocks of C cells.

    Args:
        sums: Noisy sums of centred rewards, for a reward range of width 1, blocks in order, shape (K, C).
        counts: Predicted numbers of users, shape (K, C).
        features: Mean feature vectors of the users in each cell, shape (K, C, m).
        noise_sd: Standard deviation of the noise of each sum.
        prior: Law of the weights before any block.
        count_error: Relative deviation a of true counts from the predicted ones.
        kept: Factors in [0, 1], one per block, by which the precision from all earlier blocks is multiplied,
            shape (K,); None for no discounting.

    Raises:
        InvalidData: Shapes do not fit, entries are not finite, or counts are negative.
        InvalidParameter: A deviation is negative.
    """
    size = prior.mean.size
    if counts.shape != sums.shape or features.shape != (*sums.shape, size) or sums.ndim != 2:
        raise InvalidData(
            f"sums {sums.shape}, counts {counts.shape}, features {features.shape} do not fit: expected "
            f"(K, C), (K, C), (K, C, {size})"
        )
    if not all(np.isfinite(part).all() for part in (sums, counts, features)) or (counts < 0.0).any():
        raise InvalidData("sums, counts or features are not finite, or a count is negative")
    noise = _checks.number(noise_sd, name="noise_sd", exclusive=False)
    error = _checks.number(count_error, name="count_error", exclusive=False)
    inverse = np.linalg.inv(prior.factor)
    precision = inverse.T @ inverse
    law, pull = prior, precision @ prior.mean
    bare, shares = (precision, pull), np.ones(len(sums)) if kept is None else kept
    for block, people in enumerate(counts):
        mean, sd = law.predict(features[block])
        variance = REWARD_VARIANCE * people + noise**2 + (error * people) ** 2 * (mean**2 + sd**2)
        seen = variance > 0.0  # without noise, a cell without users has no information
        rows, variance = (people[:, None] * features[block])[seen], variance[seen]
        weighed = rows / variance[:, None]
        precision = bare[0] + shares[block] * (precision - bare[0]) + weighed.T @ rows
        pull = bare[1] + shares[block] * (pull - bare[1]) + weighed.T @ sums[block, seen]
        lower = cholesky(precision, lower=True)
        law = WeightPosterior(
            mean=cho_solve((lower, True), pull),
            factors=[solve_triangular(lower, np.eye(size), lower=True).T],
            supports=prior.supports,
        )
    return law

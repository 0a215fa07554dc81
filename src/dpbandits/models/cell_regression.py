"""Bayesian regression on feature weights from noisy centred rewards summed in cells.

The model: a reward y in [0, 1] of a point with features phi is 1/2 + phi . w + e with w ~ N(0, p I). Of a
block one knows, for every cell c, the sum z_c of y - 1/2 over its people, with noise of variance s^2; who was
there is predicted by public draws: n_c people whose mean feature vector is phi_c. So

    z_c = n_c phi_c . w + e_c,    Var e_c = n_c / 4 + s^2 + (a n_c)^2 E (phi_c . w)^2,

where the last term is what a count does that is off by the share a of it; the expectation is over what
earlier blocks say. Cells and blocks are independent given w. Where the past fades, what earlier blocks add to
the prior's precision shrinks with every block. Inputs are plain numbers; if they are a release, so is
everything computed here (post-processing).
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
    """The law of the weights after K blocks of C cells.

    Args:
        sums: (K, C) noisy sums of centred rewards, of a range of width 1, blocks in order.
        counts: (K, C) predicted numbers of people.
        features: (K, C, m) their mean feature vectors.
        noise_sd: of every sum.
        prior: before any block.
        count_error: a, relative deviation of true counts from the predicted ones.
        kept: (K,) what counts of everything before it when a block comes, in [0, 1]; all of it where None.

    Raises:
        InvalidData: shapes that do not fit, entries that are not finite, or negative counts.
        InvalidParameter: a negative deviation.
    """
    size = prior.mean.size
    if counts.shape != sums.shape or features.shape != (*sums.shape, size) or sums.ndim != 2:
        raise InvalidData(f"sums {sums.shape}, counts {counts.shape}, features {features.shape} do not fit")
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
        seen = variance > 0.0  # without noise, a cell without people says nothing
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

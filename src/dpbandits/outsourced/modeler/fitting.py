"""Kernel hyperparameters from a modeler's answers, by marginal likelihood.

Answers are few (tens), rows are noisy, and the result must be reproducible. So the lengthscale and the share
of variance that no position explains are searched on a fixed grid. With one lengthscale for each column, the
search is coordinate descent. The mean and the variance with the highest likelihood follow in closed form.
The likelihood uses the expected kernel under the release's noise law, so that noise in the inputs is not
mistaken for a short lengthscale.

Weak public priors limit the influence of few answers. Lengthscales have a log-normal prior around a third of
the cube's side. The unexplained share w of an answer's variance has a density proportional to w^a (1 - w)^b
in its log-odds. On real tables w is large, and on smooth functions near zero.

The priors were chosen by `reproduction/tuning/outsourced.py` on tables and simulated worlds that no results
page uses, and on tuning seeds of the paper's synthetic study.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dormqr, dpttrf, dpttrs, dsytrd, dsytrd_lwork

from dpbandits._typing import FloatArray
from dpbandits.models.expected_kernel import expected_kernel
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.privacy.rows import NoiseLaw

__all__ = ["Hyperparameters", "fit"]

LENGTHSCALES = 2.0 ** np.arange(-4.0, 1.01, 0.5)
"""Candidate lengthscales, as multiples of half the cube's side (0.0625 ... 2)."""

UNEXPLAINED = np.array([1e-6, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
"""Candidates for the variance that no position explains, in multiples of the kernel's variance."""

PRIOR_LENGTHSCALE, PRIOR_SPREAD = 2.0**-0.5, 1.0
"""Prior median of a lengthscale, as a multiple of half the side, and standard deviation of its logarithm."""
UNEXPLAINED_SHAPE = 0.3, 1.0
"""Exponents a and b of the prior of the unexplained share w, whose
density is w^a (1 - w)^b in its log-odds.
"""
_SWEEPS = 2
"""Number of passes of coordinate descent over the columns."""
_WORK = 64 * 2
"""Size of LAPACK's workspace for tridiagonal reduction."""


@dataclass(frozen=True)
class Hyperparameters:
    """Fitted model: prior `mean` and `kernel` of the objective, and noise `noise_sd` of answers."""

    kernel: Kernel
    mean: float
    noise_sd: float


def fit(
    inputs: FloatArray,
    answers: FloatArray,
    *,
    law: NoiseLaw,
    half_width: float,
    known_noise_sd: float = 0.0,
    per_column: bool = False,
) -> Hyperparameters:
    """Return the model fitted to t >= 2 released rows (t, d) and their answers (t,), in any unit.

    Args:
        inputs, answers, law: Rows, their answers, and the noise law of the rows.
        half_width: Half the side of the public cube, the unit of the candidates.
        known_noise_sd: Standard deviation of the noise that the curator adds to answers. Its variance is
            added to the fitted one.
        per_column: True for one lengthscale per column, False for one lengthscale for all columns.
    """
    t, dim = inputs.shape
    mixture = law.difference_mixture()
    pairs = np.tril_indices(t)
    squares = np.ascontiguousarray((inputs[pairs[0]] - inputs[pairs[1]]).T)
    np.multiply(squares, squares, out=squares)
    lengths = np.full(dim, PRIOR_LENGTHSCALE)
    columns = [np.array([j]) for j in range(dim)] if per_column and dim > 1 else [np.arange(dim)]
    spread = max(float(answers.std()), 1e-12 * (float(np.abs(answers).max()) or 1.0))
    floor = (known_noise_sd / spread) ** 2
    best = (-math.inf, lengths, 0.0, 0.0, 0.0)
    tried: dict[tuple[float, ...], tuple[float, float, float, float]] = {}
    for _ in range(_SWEEPS if len(columns) > 1 else 1):
        for group in columns:
            for candidate in LENGTHSCALES:
                trial = lengths.copy()
                trial[group] = candidate
                key = tuple(trial.tolist())
                if key not in tried:
                    kernel = SquaredExponential(lengthscale=tuple((trial * half_width).tolist()))
                    smooth, nugget = expected_kernel(kernel, *mixture, dim=dim)
                    correlation = np.empty((t, t), order="F")
                    correlation[pairs] = smooth.of_pairs(squares)
                    correlation.ravel(order="K")[:: t + 1] += nugget
                    tried[key] = _score(correlation, answers, floor)
                scored = tried[key]
                distances = (np.log(trial / PRIOR_LENGTHSCALE) / PRIOR_SPREAD) ** 2
                total = scored[0] - 0.5 * float(distances.sum() if per_column else distances[0])
                if total > best[0] + 1e-9:
                    best = (total, trial, *scored[1:])
            lengths = best[1]
    _, lengths, unexplained, variance, mean = best
    return Hyperparameters(
        kernel=variance * SquaredExponential(lengthscale=tuple((lengths * half_width).tolist())),
        mean=mean,
        noise_sd=max(math.sqrt(unexplained * variance), known_noise_sd),
    )


def _score(correlation: FloatArray, answers: FloatArray, floor: float) -> tuple[float, float, float, float]:
    """Return the highest log likelihood over all unexplained parts, with its part, variance and mean.

    The lower triangle of the matrix is read and overwritten. The matrix is made tridiagonal once. Each
    candidate part then costs O(t), because it changes the diagonal only.

    Args:
        correlation: Correlation of the explained parts of t answers, shape (t, t), in Fortran order.
        answers: Answers, shape (t,).
        floor: Smallest unexplained part.
    """
    t = len(answers)
    work, _ = dsytrd_lwork(t, lower=1)
    reflectors, diagonal, beside, factors, _ = dsytrd(correlation, lower=1, lwork=int(work), overwrite_a=1)
    sides = np.array([np.ones(t), answers]).T  # LAPACK needs Fortran order
    sides[1:], _, _ = dormqr("L", "T", reflectors[1:, :-1], factors, sides[1:], _WORK)
    unexplained = UNEXPLAINED + floor
    likelihoods, variances, means = np.empty((3, len(unexplained)))
    for place, part in enumerate(unexplained.tolist()):
        pivots, below, _ = dpttrf(diagonal + part, beside)
        solved, _ = dpttrs(pivots, below, sides)
        ones, cross = (sides[:, 0] @ solved).tolist()
        means[place] = cross / ones
        remainder = np.array([-means[place], 1.0])  # the mean is subtracted before squaring
        variances[place] = max(float((sides @ remainder) @ (solved @ remainder)) / t, 1e-300)
        likelihoods[place] = -0.5 * (t * math.log(variances[place]) + float(np.log(pivots).sum()))
    share = UNEXPLAINED / (1.0 + UNEXPLAINED)
    a, b = UNEXPLAINED_SHAPE
    likelihoods += a * np.log(share) + b * np.log1p(-share)
    at = int(likelihoods.argmax())
    return float(likelihoods[at]), float(unexplained[at]), float(variances[at]), float(means[at])

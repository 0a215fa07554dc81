"""Kernel hyperparameters from the answers a modeler has, by marginal likelihood.

Answers are few (tens), rows are noisy, and the choice must be the same for whoever rebuilds it. So the
lengthscale and the share of variance that no position explains are searched on a fixed grid, one
lengthscale a column if asked for, by coordinate descent; the mean and the variance are profiled out in
closed form. The likelihood is that of the expected kernel under the release's noise law, so that noise in
the inputs is not mistaken for a short lengthscale. Weak public priors keep few answers from deciding
alone: log-normal around a third of the cube's side for lengthscales, and for the share w of an answer's
variance that no position explains a density proportional to w^a (1 - w)^b in its log-odds: on real tables
most of it, on a smooth function none.

The priors were chosen by `reproduction/tuning/outsourced.py` on tables and made-up worlds that no results
page shows, and on tuning seeds of the paper's synthetic study.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.models.expected_kernel import expected_kernel
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.privacy.rows import NoiseLaw

__all__ = ["Hyperparameters", "fit"]

LENGTHSCALES = 2.0 ** np.arange(-4.0, 1.01, 0.5)
"""Candidates, as multiples of half the cube's side (0.0625 ... 2)."""

UNEXPLAINED = np.array([1e-6, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
"""Candidates for the variance that no position explains, as multiples of the kernel's."""

PRIOR_LENGTHSCALE, PRIOR_SPREAD = 2.0**-0.5, 1.0
"""Median, as a multiple of half the side, and deviation of the logarithm."""
UNEXPLAINED_SHAPE = 0.3, 1.0
"""a and b of the module's docstring."""
_SWEEPS = 2


@dataclass(frozen=True)
class Hyperparameters:
    """A fitted model: f has prior `mean` and `kernel`; answers scatter by `noise_sd` around f."""

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
    """Fit to the (t, d) released rows that were answered with (t,) values in any unit, t >= 2.

    Args:
        inputs, answers, law: the rows, their answers, their noise law.
        half_width: half the side of the public cube: the unit of the candidates.
        known_noise_sd: noise that the curator adds to answers; on top of what is fitted.
        per_column: one lengthscale a column instead of one for all.
    """
    dim = inputs.shape[1]
    mixture = law.difference_mixture()
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
                    tried[key] = _score(inputs, answers, mixture, trial * half_width, floor)
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


def _score(
    inputs: FloatArray,
    answers: FloatArray,
    mixture: tuple[FloatArray, FloatArray],
    lengths: FloatArray,
    floor: float,
) -> tuple[float, float, float, float]:
    """Best profiled log likelihood over the unexplained part: (value, part, variance, mean)."""
    kernel = SquaredExponential(lengthscale=tuple(lengths.tolist()))
    smooth, nugget = expected_kernel(kernel, *mixture, dim=inputs.shape[1])
    correlation = smooth(inputs)
    correlation[np.diag_indices(len(inputs))] += nugget
    values, vectors = np.linalg.eigh(correlation)
    values = np.maximum(values, 0.0)
    ones, rotated = vectors.T @ np.ones(len(inputs)), vectors.T @ answers
    t = len(inputs)
    unexplained = UNEXPLAINED + floor
    weights = 1.0 / (values + unexplained[:, None])
    means = (weights * ones * rotated).sum(axis=1) / (weights * ones**2).sum(axis=1)
    squares = (weights * (rotated - means[:, None] * ones) ** 2).sum(axis=1)
    variances = np.maximum(squares / t, 1e-300)
    likelihoods = -0.5 * (t * np.log(variances) - np.log(weights).sum(axis=1))
    share = UNEXPLAINED / (1.0 + UNEXPLAINED)
    a, b = UNEXPLAINED_SHAPE
    likelihoods += a * np.log(share) + b * np.log1p(-share)
    at = int(likelihoods.argmax())
    return float(likelihoods[at]), float(unexplained[at]), float(variances[at]), float(means[at])

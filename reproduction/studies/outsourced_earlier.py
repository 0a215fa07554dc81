"""Earlier modeler, whose exploration does not adapt to the fit, for comparison with the present one.

It is GP-UCB over rows with the fixed weight `DEFAULT_EXPLORATION`, for any share of an answer that positions
explain. All columns have one lengthscale, with a prior median of .35 half widths. The variance that no
position explains is at most three times the kernel's, with an exponential prior. The posterior over noisy
rows and the schedule of fitting hyperparameters are those of `outsourced.modeler`. It maximises, one row at a
time.
"""

import math

import numpy as np

from dpbandits.models.expected_kernel import expected_kernel
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced import PublishedRows
from dpbandits.outsourced.modeler.fitting import LENGTHSCALES
from dpbandits.outsourced.modeler.modeler import DEFAULT_EXPLORATION
from dpbandits.outsourced.modeler.posterior import RowPosterior
from dpbandits.policy.coins import PublicCoins

UNEXPLAINED = np.array([1e-6, 1e-3, 1e-2, 0.05, 0.2, 0.5, 1.0, 3.0])
PRIOR_LENGTHSCALE, UNEXPLAINED_RATE = 0.35, 0.5
FIRST_ROWS, REFIT_GROWTH, KNOWN_NOISE, TIE = 5, 1.3, 1e-3, 1e-12


class EarlierModeler:
    """Ask and tell, as a `Modeler`."""

    def __init__(self, published: PublishedRows, *, horizon: int, seed: int) -> None:
        self.published, self.horizon, self.coins = published, horizon, PublicCoins(seed)
        self.taken = np.zeros(published.n, dtype=bool)
        self.answers: dict[int, float] = {}
        self.fitted_at, self.asked = 0, 0
        self.posterior: RowPosterior | None = None

    def ask(self) -> int:
        """The row of the largest mean + sqrt(weight * variance); a public coin among those that tie."""
        answered = len(self.answers)
        if answered >= FIRST_ROWS and (not self.fitted_at or answered >= REFIT_GROWTH * self.fitted_at):
            self.fit()
        if self.posterior is None:
            score = np.zeros(self.published.n)
        else:
            score = self.posterior.mean + np.sqrt(DEFAULT_EXPLORATION * self.posterior.signal_variance)
        score[self.taken] = -np.inf
        best = float(score.max())
        tied = np.flatnonzero(score >= best - TIE * max(1.0, abs(best)))
        coin = float(self.coins.uniform("outsourced-tie", self.asked, self.asked + 1, 1)[0, 0])
        row = int(tied[min(int(coin * len(tied)), len(tied) - 1)])
        self.taken[row], self.asked = True, self.asked + 1
        return row

    def tell(self, row: int, answer: float) -> None:
        """The answer of a row that was asked for."""
        self.answers[row] = answer
        if self.posterior is not None:
            self.posterior.add(row, answer)

    def fit(self) -> None:
        """The likeliest lengthscale and unexplained part, and all answers told to that posterior."""
        inputs, answers = self.published.inputs[list(self.answers)], np.array(list(self.answers.values()))
        candidates = [self.scored(inputs, answers, length) for length in LENGTHSCALES]
        best = candidates[0]
        for one in candidates[1:]:
            best = one if one[0] > best[0] + 1e-9 else best
        _, kernel, mean, noise_sd = best
        self.fitted_at = len(answers)
        self.posterior = RowPosterior(
            self.published,
            kernel=kernel,
            noise_sd=max(noise_sd, KNOWN_NOISE * math.sqrt(kernel.max_variance)),
            mean=mean,
            kind="auto",
            capacity=self.horizon,
            weights=None if self.posterior is None else self.posterior.weights,
        )
        for row, answer in self.answers.items():
            self.posterior.add(row, answer)

    def scored(
        self, inputs: np.ndarray, answers: np.ndarray, length: float
    ) -> tuple[float, SquaredExponential, float, float]:
        """Log likelihood with the prior, kernel, mean and noise of the best unexplained part."""
        dim = inputs.shape[1]
        kernel = SquaredExponential(lengthscale=(length * self.published.half_width,) * dim)
        smooth, nugget = expected_kernel(kernel, *self.published.law.difference_mixture(), dim=dim)
        correlation = smooth(inputs)
        correlation[np.diag_indices(len(inputs))] += nugget
        values, vectors = np.linalg.eigh(correlation)
        values = np.maximum(values, 0.0)
        ones, rotated, t = vectors.T @ np.ones(len(inputs)), vectors.T @ answers, len(inputs)
        found = []
        for part in UNEXPLAINED:
            weights = 1.0 / (values + part)
            mean = float((weights * ones * rotated).sum() / (weights * ones**2).sum())
            variance = max(float((weights * (rotated - mean * ones) ** 2).sum()) / t, 1e-300)
            likelihood = -0.5 * (t * math.log(variance) - float(np.log(weights).sum()))
            found.append((likelihood - UNEXPLAINED_RATE * part, float(part), variance, mean))
        likelihood, part, variance, mean = max(found)
        likelihood -= 0.5 * math.log(length / PRIOR_LENGTHSCALE) ** 2
        return likelihood, variance * kernel, mean, math.sqrt(part * variance)

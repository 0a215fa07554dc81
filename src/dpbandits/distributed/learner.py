"""The collector's model: rewards of K arms over the cells of a grid, from noisy counts with known arms.

**Model.** The mean reward of arm k in cell c is f_k(c) = 1/2 + psi(c) w_k. The f_k are Gaussian processes on
the centres of the grid with features psi and weights w_k (`models.averaged_regression`).

**Counts.** A version v has n_v reports, and released numbers of successes S and failures F in every cell,
each with noise of variance s^2. The law of contexts p over the cells is common to all versions. Its estimate
p_c is the total S + F in the cell over the number of reports, shrunk towards the mean of the cells by the
share of its variance that is noise (empirical Bayes). The predicted count is n_vc = n_v p_c.

**Rewards.** Let g be the present mean of f in a cell, for the version's arm there. The sum used is

    r = (1 - g) S - g F + n_vc (g - 1/2),

whose mean is n_vc (f - 1/2) if the count is as predicted. An error of the count multiplies f - g, not
f - 1/2. The variance of r is n_vc max(g (1 - g), `LEAST`) + s^2 ((1 - g)^2 + g^2), plus the variance of the
count times the posterior variance of f. As g depends on the fit, the fit is made
`FITS` times, and the smoothness of the f_k is learned in the first.

**Arms.** Version 0 gives arms to cells in a random order, equally often. Later, `DRAWS` posterior draws with
variances multiplied by temperature/K each have a best arm in every cell, and each cell takes that of a random
draw. The version after the last has the best arms under the posterior mean.

Everything is computed from released sums, the spec and public coins.
"""

import math
from collections.abc import Sequence

import numpy as np

from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray, IntArray
from dpbandits.distributed.published import PublishedCellArms, PublishedVersion
from dpbandits.distributed.spec import DistributedSpec
from dpbandits.models.averaged_regression import AveragedRegression
from dpbandits.models.features.products import ProductFeatures
from dpbandits.policy.coins import PublicCoins

__all__ = ["CountLearner"]

N_FEATURES, MOST_WEIGHTS, FEWEST_FEATURES = 64, 768, 8
"""Number of features of an arm, the most weights of all arms, and the fewest features of an arm."""

CONSTANT_SD = 0.24
"""Prior standard deviation of an arm's level, as for the local learner of questions."""

FLOOR, LEAST, FITS, DRAWS = 0.05, 0.05, 2, 16
"""Smallest estimated share of a cell, relative to equal shares; smallest variance of a reward in [0, 1];
number of fits; number of posterior draws of a version.
"""

INSIDE = 0.02
"""Distance from 0 and 1 to which the present mean g is clipped."""


class CountLearner:
    """Posterior of the rewards after some versions. It is a function of their sums, in no order.

    Args:
        spec: The public contract.

    Attributes:
        kind: Class of the versions.
        mean: Posterior mean of the expected rewards, scaled to [0, 1], shape (C, K).
    """

    kind = PublishedCellArms

    def __init__(self, spec: DistributedSpec) -> None:
        self._spec = spec
        self._features = ProductFeatures(
            spec.grid.centres,
            categories=spec.contexts.codes,
            n_features=max(FEWEST_FEATURES, min(N_FEATURES, MOST_WEIGHTS // spec.n_arms)),
        )
        self._begin()

    def _begin(self) -> None:
        """Set the posterior to the prior."""
        self._model = AveragedRegression(
            self._features, n_functions=self._spec.n_arms, constant_sd=CONSTANT_SD
        )
        self._look()

    def _look(self) -> None:
        self.mean = np.asarray(0.5 + self._features.values @ self._model.mean.T)

    def fit(self, asked: Sequence[PublishedVersion], sums: IntArray, reports: IntArray) -> None:
        """Compute the posterior from the sums of V versions.

        Args:
            asked: The V versions.
            sums: Released sums of the L buckets, shape (V, L).
            reports: Numbers of reports, shape (V,).
        """
        arms = np.stack([one.arms for one in asked if isinstance(one, PublishedCellArms)])
        with one_thread():
            self._begin()
            told = sums[:, :-1].reshape(len(sums), -1, 2).astype(np.float64)
            successes, failures = told[..., 0], told[..., 1]
            share, doubt = self._law(told.sum(axis=(0, 2)), int(reports.sum()), len(sums))
            people = reports[:, None] * share
            spread = people + reports[:, None] ** 2 * doubt
            for once in range(FITS):
                self._tell(arms, successes, failures, people, spread)
                if not once:
                    self._model.learn_laws()
                self._model.renew()
                self._look()

    def _law(self, counts: FloatArray, n: int, versions: int) -> tuple[FloatArray, FloatArray]:
        """Return the shares of the cells (C,) and the variances of their errors (C,).

        Args:
            counts: Noisy numbers of people in the cells, shape (C,).
            n: Number of reports, of all versions together.
            versions: Number V of versions, each with its own noise.
        """
        size = len(counts)
        if n == 0:
            return np.full(size, 1.0 / size), np.full(size, 1.0 / size**2)
        seen = counts / n
        even = max(float(seen.mean()), FLOOR / size)  # some devices have nothing to say
        noise = even / n + 2.0 * versions * self._spec.histogram.noise_variance / n**2
        true = max(0.0, float(np.mean((seen - even) ** 2)) - noise)
        kept = true / (true + noise)
        share = np.maximum(even + kept * (seen - even), FLOOR / size)
        return share, np.full(size, kept * noise)

    def _tell(
        self,
        arms: IntArray,
        successes: FloatArray,
        failures: FloatArray,
        people: FloatArray,
        spread: FloatArray,
    ) -> None:
        """Replace the model's observations by those of all versions, arrays of shape (V, C)."""
        model, values, noise = self._model, self._features.values, self._spec.histogram.noise_variance
        cells, told = np.arange(len(values)), []
        for version, arm in enumerate(arms):  # a few versions; each has a row for every cell
            g = np.clip(self.mean[cells, arm], INSIDE, 1.0 - INSIDE)
            n = people[version]
            found = (1.0 - g) * successes[version] - g * failures[version] + n * (g - 0.5)
            rows = np.zeros((len(cells), self._spec.n_arms, values.shape[1]))
            rows[cells, arm] = values
            flat = rows.reshape(len(cells), -1)
            variance = n * np.maximum(g * (1.0 - g), LEAST) + noise * ((1.0 - g) ** 2 + g**2)
            variance += spread[version] * model.law(flat)[1].diagonal()
            told.append((n[:, None] * flat, found, variance))
        model.precision[:], model.moment[:] = 0.0, 0.0
        for one in told:
            model.tell(*one)

    def publish(self, version: int, coins: PublicCoins) -> PublishedCellArms:
        """Return a version, its arms drawn with public coins; the last one has the best arms."""
        last = version == len(self._spec.reports_per_version)
        arms = self.mean.argmax(axis=1) if last else self._arms(version, coins)
        return PublishedCellArms(version=version, arms=arms)

    def estimate(self, last: PublishedVersion) -> PublishedCellArms:
        """Return the best arms, and expected rewards with their standard deviations, in reward units.

        They have the number of the last version.
        """
        bounds = self._spec.reward_range
        with one_thread():
            spread = self._model.spread()
        return PublishedCellArms(
            version=last.version,
            arms=self.mean.argmax(axis=1),
            mean=bounds.low + bounds.width * self.mean,
            sd=bounds.width * spread,
        )

    def _arms(self, version: int, coins: PublicCoins) -> IntArray:
        """Return the arms (C,) of a version that devices report on, drawn with public coins."""
        spec, model = self._spec, self._model
        size, k = spec.grid.size, spec.n_arms
        if version == 0:
            order = coins.uniform("first arms", 0, size, 1)[:, 0].argsort()
            return np.asarray(order.argsort() % k)
        normals = coins.normal(f"arms/{version}", 0, DRAWS, model.moment.size)
        scale = math.sqrt(spec.tuning.temperature / k)
        with one_thread():
            drawn = np.stack([model.mean + scale * model.deviation(one) for one in normals])
            best = (self._features.values @ drawn.transpose(0, 2, 1)).argmax(axis=2)
        which = (coins.uniform(f"draws/{version}", 0, size, 1)[:, 0] * DRAWS).astype(np.int64)
        return np.asarray(best[which, np.arange(size)])

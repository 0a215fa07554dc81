"""The collector's model with many columns: rewards of K arms from noisy marginal tables (`TableLearner`).

**Model.** The mean reward of arm k is f_k(x) = 1/2 + phi(x) w_k, with the effects phi of columns and pairs of
`models.marginals.effects`, and the prior and the posterior of central marginal tables.

**Counts.** A version has q tables and n reports, about n/q a table. A place is an arm k and a cell c of a
table. Its released numbers of successes S and failures F each have noise of variance s^2. The sums of S + F
over arms count users in the cells of a table. A weighted sample of contexts is made from these counts
(`models.marginals.law`), in which columns without a common table are independent. The version's draws give
the arms of every sampled context. So the sample predicts the number N of reports of a place, and the sum h of
the features of their contexts.

**Rewards.** Let g be the present mean of f in a place. The sum used is

    r = (1 - g) S - g F + N (g - 1/2),

whose mean is h w_k if N is right. An error of N multiplies f - g, not f - 1/2. The variance of r is

    N max(g (1 - g), `LEAST`) + s^2 ((1 - g)^2 + g^2) + (N + (`COUNT_ERROR` N)^2) u + (`MISFIT` N)^2,

with the posterior variance u of f in the place. As g and u depend on the fit, it is made `FITS` times.

**Versions.** Version 0 gives random arms. Later versions have `DRAWS` posterior draws with variances
multiplied by temperature/K, and the last one has the posterior mean. Every version has the tables that are
expected to tell most now (`models.marginals.designing`).

Everything is computed from released sums, the spec and public coins.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray, IntArray
from dpbandits.distributed.published import PublishedTableArms, PublishedVersion
from dpbandits.distributed.spec import DistributedSpec
from dpbandits.errors import InvalidParameter
from dpbandits.models.marginals import (
    ArmWeights,
    Counts,
    Design,
    Effects,
    Evidence,
    Relevance,
    WeightedPeople,
    best_design,
    fitted_with_inclusion,
    shrunk_law,
    variances_to_choose_by,
)
from dpbandits.models.marginals.law import CountTable, Pooled
from dpbandits.policy.coins import PublicCoins

__all__ = ["TableLearner"]

SAMPLE, DRAWS, DECIMALS = 2_500, 16, 5
"""Number of sampled contexts; number of posterior draws of a version, and their decimals."""

LEAST, COUNT_ERROR, MISFIT = 0.05, 0.1, 0.01
"""Smallest variance of a reward in [0, 1]; relative error of a predicted number; error of a place's mean."""

INSIDE = 0.02
"""Distance from 0 and 1 to which the present mean g is clipped."""

REWARD_VARIANCE = 0.25
"""Variance of a reward by which tables are chosen."""

FITS, STEPS = 2, 15
"""Number of fits, and steps of expectation maximisation of each."""

FEWEST = 1e-6
"""Smallest predicted number of reports of a place."""


class _Told(NamedTuple):
    """Sums of one version, with predictions for every arm k and cell c.

    Attributes:
        successes, failures: Noisy numbers S and F, shape (K, C).
        maps: Sums h of the features of the predicted reports, shape (K, C, m).
        people: Predicted numbers N of reports, shape (K, C).
    """

    successes: FloatArray
    failures: FloatArray
    maps: FloatArray
    people: FloatArray


class TableLearner:
    """Posterior of the rewards after some versions. It is a function of their sums, in no order.

    Args:
        spec: The public contract, with marginal tables.

    Attributes:
        kind: Class of the versions.
        effects: The m functions of contexts that are learned now.
        weights: Posterior of every arm's weights.
    """

    kind = PublishedTableArms

    def __init__(self, spec: DistributedSpec) -> None:
        if spec.effects is None:
            raise InvalidParameter("spec: expected one with marginal tables")
        self._spec, self._coins = spec, PublicCoins(spec.seed)
        self._begin(spec.effects)

    def _begin(self, effects: Effects) -> None:
        self.effects = effects
        nothing = Evidence.none(self._spec.n_arms, effects.n_weights)
        self.weights = ArmWeights.of(effects, nothing, Relevance.prior(effects))

    # -- learning -------------------------------------------------------------------------------

    def fit(self, asked: Sequence[PublishedVersion], sums: IntArray, reports: IntArray) -> None:
        """Compute the posterior from the sums of V versions.

        Args:
            asked: The V versions.
            sums: Released sums of the L buckets, shape (V, L).
            reports: Numbers of reports, shape (V,).
        """
        spec = self._spec
        known = [one for one in asked if isinstance(one, PublishedTableArms)]
        tables, effects = [one.tables(spec) for one in known], known[0].effects(spec)
        for design in tables:
            effects = effects.with_pairs(design.pairs)
        with one_thread():
            told = [
                row[: 2 * spec.n_arms * own.n_cells].reshape(spec.n_arms, -1, 2).astype(np.float64)
                for row, own in zip(sums, tables, strict=True)
            ]
            people = self._people(tables, [one.sum(axis=(0, 2)) for one in told], reports)
            phi = effects(people.levels)
            found = [
                self._predicted(version, own, rows, int(n), people, phi)
                for version, own, rows, n in zip(known, tables, told, reports, strict=True)
            ]
            self._begin(effects)
            for _ in range(FITS):
                evidence = Evidence.none(spec.n_arms, effects.n_weights)
                for one in found:
                    evidence = evidence.given(self._read(one))
                self.weights = fitted_with_inclusion(effects, evidence, Relevance.prior(effects), steps=STEPS)

    def _people(
        self, tables: Sequence[Design], counts: Sequence[FloatArray], reports: IntArray
    ) -> WeightedPeople:
        """Return a weighted sample of contexts.

        Args:
            tables: Tables of the V versions.
            counts: Noisy numbers of reports in their cells, one array (C,) a version.
            reports: Numbers of reports, shape (V,).
        """
        variance = 2.0 * self._spec.n_arms * self._spec.histogram.noise_variance
        pooled: dict[CountTable, Pooled] = {}
        for design, cells, n in zip(tables, counts, reports.tolist(), strict=True):
            parts = np.split(cells, np.cumsum(design.cells)[:-1])
            for group, part in zip(design.groups, parts, strict=True):
                table = CountTable(group, tuple(design.bins[j] for j in group))
                before = pooled.get(table, Pooled(np.zeros(table.cells), 0.0, 0.0))
                more = n / len(design.groups)
                pooled[table] = Pooled(before.counts + part, before.variance + variance, before.people + more)
        pooled = {table: own for table, own in pooled.items() if own.people > 0.0}
        sizes = self.effects.sizes
        margins = [np.full(size, 1.0 / size) for size in sizes]
        for table, own in sorted(pooled.items(), key=lambda one: (one[0].cells, one[0])):
            for axis, column in enumerate(table.columns):
                _move(margins[column], own, table.bins, axis)
        pairs = {table: own for table, own in pooled.items() if len(table.columns) == 2}
        uniforms = self._coins.uniform("people", 0, SAMPLE, 2 * len(sizes))
        return Counts(sizes, pairs).described(uniforms, margins)

    def _predicted(
        self,
        version: PublishedTableArms,
        tables: Design,
        told: FloatArray,
        n: int,
        people: WeightedPeople,
        phi: FloatArray,
    ) -> _Told:
        """Return a version's sums with its predictions.

        Args:
            version: The version.
            tables: Its tables.
            told: Its noisy successes and failures, shape (K, C, 2).
            n: Number of reports.
            people: Sampled contexts.
            phi: Their features, shape (M, m).
        """
        shares = version.shares(self._spec, people.levels)
        given = n / len(tables.groups) * people.weights[:, None] * shares
        cells = tables.indicators(people.levels)
        maps = np.stack([cells @ (own[:, None] * phi) for own in given.T])
        return _Told(told[..., 0], told[..., 1], maps, np.maximum(np.asarray(cells @ given).T, FEWEST))

    def _read(self, told: _Told) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Return for every arm the map (C, m), the covariance of the noise (C, C) and the sums (1, C)."""
        noise, found = self._spec.histogram.noise_variance, []
        for arm, n in enumerate(told.people):
            mean = told.maps[arm] / n[:, None]
            g = np.clip(0.5 + mean @ self.weights.mean[arm], INSIDE, 1.0 - INSIDE)
            unsure = ((mean @ self.weights.factor[arm]) ** 2).sum(axis=1)
            sums = (1.0 - g) * told.successes[arm] - g * told.failures[arm] + n * (g - 0.5)
            variance = n * np.maximum(g * (1.0 - g), LEAST) + noise * ((1.0 - g) ** 2 + g**2)
            variance += (n + (COUNT_ERROR * n) ** 2) * unsure + (MISFIT * n) ** 2
            found.append((told.maps[arm], np.diag(variance), sums[None]))
        return found

    # -- versions -------------------------------------------------------------------------------

    def publish(self, version: int, coins: PublicCoins) -> PublishedTableArms:
        """Return a version, its weights drawn with public coins; the last one has the posterior mean."""
        sizes, draws = self._spec.reports_per_version, None
        if version == len(sizes):
            draws = self.weights.mean[None]
        elif version:
            arms, m = self.weights.mean.shape
            normals = coins.normal(f"weights/{version}", 0, DRAWS, arms * m).reshape(DRAWS, arms, m, 1)
            scale = math.sqrt(self._spec.tuning.temperature / arms)
            with one_thread():
                draws = self.weights.mean + scale * (self.weights.factor @ normals)[..., 0]
            draws = np.round(draws, DECIMALS)
        tables = self._design(sizes[min(version, len(sizes) - 1)])
        return self._of(version, tables.to_array(), draws)

    def estimate(self, last: PublishedVersion) -> PublishedTableArms:
        """Return the posterior of the weights, as mean and factors, with the tables of the last version."""
        if not isinstance(last, PublishedTableArms):
            raise InvalidParameter("last: expected a version with marginal tables")
        return self._of(last.version, last.design, self.weights.mean[None], self.weights.factor)

    def _of(
        self, version: int, design: IntArray, draws: FloatArray | None, factor: FloatArray | None = None
    ) -> PublishedTableArms:
        pairs = None if self.effects.pairs is None else np.array(self.effects.pairs, dtype=np.int64)
        return PublishedTableArms(version=version, design=design, pairs=pairs, draws=draws, factor=factor)

    def _design(self, reports: int) -> Design:
        """Return the tables that are expected to tell most from this number of reports."""
        spec, effects, weights = self._spec, self.effects, self.weights
        variance = weights.variances.mean(axis=0)
        with one_thread():
            return best_design(
                effects,
                variance=variances_to_choose_by(effects, weights.relevance, variance),
                people=reports / spec.n_arms,
                noise_variance=lambda _: spec.histogram.noise_variance / 2.0,
                reward_variance=REWARD_VARIANCE,
                cells=spec.places // spec.n_arms,
                split=True,
            )


def _move(margin: FloatArray, own: Pooled, bins: tuple[int, ...], axis: int) -> None:
    """Move a column's law (levels,) towards the counts of a table in which it is this axis, in place.

    Levels of one part keep their proportions. A part that had the probability 0 shares its new one equally.
    """
    counts = own.counts.reshape(bins)
    others = tuple(one for one in range(len(bins)) if one != axis)
    sd = own.share_sd * math.sqrt(math.prod(bins) / bins[axis])
    parts = np.arange(len(margin)) * bins[axis] // len(margin)
    now = np.asarray(np.bincount(parts, weights=margin), dtype=np.float64)
    law = shrunk_law(counts.sum(axis=others) / own.people, now, sd=sd)
    within = np.where(
        now[parts] > 0.0, margin / np.where(now > 0.0, now, 1.0)[parts], 1.0 / np.bincount(parts)[parts]
    )
    margin[:] = law[parts] * within

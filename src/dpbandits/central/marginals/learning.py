"""Posterior of every arm's weights, computed from releases of marginal tables and public numbers.

To interpret a block's tables one needs the posterior with which its rounds were answered. Its public draws
give the probability of each arm for each context x. The centre b(x) is the amount that was subtracted from
rewards.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import ArmFeatures, Features
from dpbandits.models.marginals import (
    ArmWeights,
    Counts,
    Design,
    EffectFeatures,
    Effects,
    Evidence,
    Law,
    Relevance,
    WeightedPeople,
    fitted_with_inclusion,
)
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.models.marginals.designing import forecast_weights
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.tables.windows import Window

__all__ = ["Belief", "BlockReader", "EffectPosterior", "Heard", "effect_features", "forced_draws", "forecast"]

SAMPLE = 2_500
"""Number of simulated users that represent all users in a fit."""

DRAWS = 48
"""Number of public posterior draws that answer users until the next release."""

CENTRES = (0.3, 0.7)
"""Range of the centre, the amount that is subtracted from rewards, after the first block."""

VARIANCE, LATER_VARIANCE = 0.25, 0.2
"""Variance of a reward, in squared widths of its range: largest value,
and value of reward - b(x) after a release.
"""

COUNT_ERROR, POOR_LAW, LEFT_OVER = 0.1, 0.3, 0.1
"""Assumed errors of the predicted numbers of users in cells.

The first is the relative error of a number. The second is added to it if the law of contexts is poorly
known. The third is the deviation of miscounted users' rewards from the centre.
"""

SCORED = 1 << 22
"""Largest number of products of a feature and a weight in memory at the same time (32 MiB)."""

LIKENESS = 0.7
"""Prior correlation of a new arm's weights with the weights of the arm that it is said to be like.
`python -m reproduction.tuning.arms_change` compares it with other numbers."""

WIDEST = 0.5
"""Largest variance of a new arm's weights around the average of all arms, in prior variances.

Below 1, the rest is evidence of the average. Without such evidence the learned prior variances and the new
arm's mean could drive each other up.
"""

FIRST_STEPS, STEPS = 15, 5
"""Numbers of steps of expectation maximisation after the first release, and after each later one."""


def forced_draws(share: float) -> int:
    """Return the number of the `DRAWS` draws that give an arm its minimum share, which is rounded up."""
    return math.ceil(share * DRAWS)


class Heard(NamedTuple):
    """Release of a block, in the units of the model.

    Attributes:
        people: Number of rounds in the block.
        design: Tables of the block.
        sums: Noisy sums (K, C) of reward - b, in widths of the reward range.
        sum_sd: Standard deviation of their noise.
        counts: Noisy counts of contexts, in the order of `Law.cells` with this design.
        count_sd: Standard deviation of their noise.
        arms: Codes (K,) of the arms of the rows of `sums`; None if these are all arms.
        alone: Noisy sums (K,) of reward - b of every arm over all contexts; None without such a table.
    """

    people: int
    design: Design
    sums: FloatArray
    sum_sd: float
    counts: FloatArray
    count_sd: float
    arms: IntArray | None = None
    alone: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class Belief:
    """Posterior after the releases so far, with the data from which it was computed.

    Attributes:
        counts: Noisy counts of contexts in all blocks, discounted if there is a half-life.
        effects: The m functions of contexts that are learned.
        evidence: Evidence of all tables.
        mean: Mean of every arm's weights, (K, m).
        relevance: Prior variances of the weights.
        draws: S draws of the weights of the k offered arms, with which users are answered now, (S, k, m);
            None for random answers.
        offered: Codes (k,) of the arms that users are offered now; None if all K arms are offered.
    """

    counts: Counts
    effects: Effects
    evidence: Evidence
    mean: FloatArray
    relevance: Relevance
    draws: FloatArray | None = None
    offered: IntArray | None = None

    @property
    def codes(self) -> IntArray:
        """Codes (k,) of the arms that users are offered now."""
        return np.arange(len(self.mean)) if self.offered is None else self.offered

    def about(self, effects: Effects) -> "Belief":
        """Return the belief extended to `effects`, which include its own; added effects have their prior."""
        if effects is self.effects:
            return self
        places = self.effects.places_in(effects)
        evidence = self.evidence.among(places, effects.n_weights)
        return replace(
            self, effects=effects, evidence=evidence, relevance=self.relevance.among(self.effects, effects)
        )

    def centres(self, phi: FloatArray) -> FloatArray:
        """Return the centres b(x) (n,) for n users: the best arm's mean, clipped to `CENTRES`."""
        if self.draws is None:
            return np.full(len(phi), 0.5)
        mean = self.mean if self.offered is None else self.mean[self.offered]
        return np.asarray(np.clip((0.5 + phi @ mean.T).max(axis=1), *CENTRES))

    def shares(self, phi: FloatArray) -> FloatArray:
        """Return the probability (n, K) of every arm for users with features (n, m); 0 if not offered."""
        codes, every = self.codes, len(self.mean)
        arms = len(codes)
        if self.draws is None:
            shares = np.zeros((len(phi), every))
            shares[:, codes] = 1.0 / arms
            return shares
        flat, shares = self.draws.reshape(-1, phi.shape[1]), np.empty((len(phi), arms))
        step = max(1, SCORED // len(flat))
        for begin in range(0, len(phi), step):
            rows = slice(begin, begin + step)
            best = (phi[rows] @ flat.T).reshape(-1, len(self.draws), arms).argmax(axis=2)
            shares[rows] = (best[:, :, None] == np.arange(arms)).mean(axis=1)
        if self.offered is None:
            return shares
        found = np.zeros((len(phi), every))
        found[:, codes] = shares
        return found


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Computation of the belief after each release.

    Args:
        effects: Functions that are learned before any release.
        law: Tables of counts, before a block's design decides in which bins pairs are counted.
        arms: Number K of arms.
    """

    effects: Effects
    law: Law
    arms: int

    def beginning(self) -> tuple[Belief, ArmWeights]:
        """Return the belief and the posterior before any release."""
        evidence = Evidence.none(self.arms, self.effects.n_weights)
        weights = ArmWeights.of(self.effects, evidence, Relevance.prior(self.effects))
        nobody = Counts.none(self.law.sizes)
        return Belief(nobody, self.effects, evidence, weights.mean, weights.relevance), weights

    def given(self, belief: Belief, evidence: Evidence) -> tuple[Belief, ArmWeights]:
        """Return the belief with other evidence, from public data, before any release."""
        return self._fitted(replace(belief, evidence=evidence), FIRST_STEPS)

    def after(
        self,
        belief: Belief,
        told: Heard,
        *,
        answered: Sequence[tuple[float, Belief]],
        uniforms: FloatArray,
        kept: float = 1.0,
    ) -> tuple[Belief, ArmWeights]:
        """Return the belief and the posterior after one more block, without draws for the next answers.

        Two columns that are in one of the block's tables have an interaction from now on.

        Args:
            belief: Belief when the block closed, which defines b(x).
            told: Release of the block.
            answered: Shares of the block's rounds, each with the belief by which these rounds were answered.
            uniforms: Public uniform numbers, (SAMPLE, 2 d).
            kept: Factor by which earlier information is multiplied (exponential discounting).
        """
        law = replace(self.law, design=told.design)
        counts = belief.counts.given(law, told.counts, people=told.people, sd=told.count_sd, kept=kept)
        sample = counts.described(uniforms)
        wider = belief.about(belief.effects.with_pairs(told.design.pairs))
        read = self._read(belief, told, answered, sample, counts.share_sd, wider.effects)
        evidence = wider.evidence.faded(kept).given(read, arms=told.arms)
        found = replace(wider, counts=counts, evidence=evidence, draws=None)
        return self._fitted(found, FIRST_STEPS if belief.counts.people == 0.0 else STEPS)

    def joined(
        self, belief: Belief, weights: ArmWeights, likes: Sequence[int | None], offered: IntArray
    ) -> tuple[Belief, ArmWeights]:
        """Return the belief and the posterior with new arms added.

        Let w_a be the weights (m,) of arm a, with posterior mean m_a and covariance C_a. A new arm that is
        like arm a starts with the weights

            m + rho (w_a - m) + (1 - rho^2)^(1/2) s z,

        with z (m,) standard normal, rho = `LIKENESS`, m the average of all K arms' means m_a, and s^2 the
        scatter of arms around m. If deviations w_a - m have variance s^2, those of the new arm have it, too.
        So its mean is m + rho (m_a - m), and its covariance rho^2 C_a + (1 - rho^2) s^2. An arm that is like
        no other has rho = 0. Nothing is shrunk towards the middle of the reward range, which may be far from
        all arms.

        A term (the constant, a column, a pair) has one s^2: the average of E (w_a - m)^2 over its weights and
        all arms, times (K + 1)/(K - 1). This factor makes it the variance of another draw from the same law:
        the mean of K draws errs, and squared distances from it are too small. It is at most `WIDEST` prior
        variances, and equal to that if there is one arm, which shows no scatter.

        Args:
            belief: Belief after a release.
            weights: Posterior that belongs to the belief.
            likes: For each new arm the code of the arm that it is like, or None.
            offered: Codes of the arms that are offered from now on.
        """
        belief = replace(belief, offered=offered)
        if not likes:
            return belief, weights
        scale = np.sqrt(belief.relevance.of_terms(belief.effects))[belief.effects.term_of]
        identity, precisions, shifts = np.eye(len(scale)), [], []
        average, arms = weights.mean.mean(axis=0) / scale, len(weights.mean)
        square = ((weights.mean / scale - average) ** 2 + weights.variances / scale**2).mean(axis=0)
        counts = np.maximum(np.bincount(belief.effects.term_of), 1)
        scatter = np.full(len(counts), WIDEST)
        if arms > 1:
            another = (arms + 1) / (arms - 1) * np.bincount(belief.effects.term_of, square) / counts
            scatter = np.minimum(another, WIDEST)
        apart = np.diag(scatter[belief.effects.term_of])
        for like in likes:
            mean, covariance = average, apart
            if like is not None:
                half = weights.factor[like] / scale[:, None]
                mean = average + LIKENESS * (weights.mean[like] / scale - average)
                covariance = LIKENESS**2 * (half @ half.T) + (1.0 - LIKENESS**2) * apart
            inverse = np.linalg.inv(covariance)
            precision, shift = inverse - identity, inverse @ mean
            precisions.append(precision / scale / scale[:, None])
            shifts.append(shift / scale)
        evidence = belief.evidence.beside(np.stack(precisions), np.stack(shifts))
        weights = ArmWeights.of(belief.effects, evidence, belief.relevance)
        return replace(belief, evidence=evidence, mean=weights.mean), weights

    def _fitted(self, belief: Belief, steps: int) -> tuple[Belief, ArmWeights]:
        weights = fitted_with_inclusion(belief.effects, belief.evidence, belief.relevance, steps=steps)
        return replace(belief, mean=weights.mean, relevance=weights.relevance), weights

    def _read(
        self,
        belief: Belief,
        told: Heard,
        answered: Sequence[tuple[float, Belief]],
        sample: WeightedPeople,
        share_sd: float,
        effects: Effects,
    ) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Yield the map (C, m), covariance (C, C) and sums (1, C) of a block's tables for each arm.

        If all rounds of the block were answered at random, all arms have the same map and covariance. Then
        there is one item, with sums (K, C).
        """
        known = {effects: effects(sample.levels)}
        for _, one in ((0.0, belief), *answered):
            if one.effects not in known:
                known[one.effects] = one.effects(sample.levels)
        phi, uniform = known[effects], all(one.draws is None for _, one in answered)
        chances = np.zeros((len(phi), len(belief.mean)))
        for share, one in answered:
            chances[:, : len(one.mean)] += share * one.shares(known[one.effects])
        if told.arms is not None:
            chances = chances[:, told.arms]
        given = told.people * sample.weights[:, None] * chances  # (M, K)
        cells = told.design.indicators(sample.levels)
        people = np.asarray(cells @ given).T  # (K, C)
        if uniform:
            # All arms have the same contexts here: errors of the counts cancel in differences between arms.
            level = told.sums.sum() / (len(told.design.groups) * told.people)
            sums, reward_variance = told.sums - told.sums.mean(axis=0) + level * people, VARIANCE
        else:
            centred = belief.centres(known[belief.effects])[:, None] - 0.5
            sums, reward_variance = told.sums + np.asarray(cells @ (given * centred)).T, LATER_VARIANCE
        error = COUNT_ERROR + POOR_LAW * min(1.0, 16.0 * share_sd)
        own = told.sum_sd**2 + (error * LEFT_OVER * people) ** 2
        for arm in range(1 if uniform else chances.shape[1]):
            weight = given[:, arm]
            covariance = reward_variance * ((cells * weight) @ cells.T).toarray()
            covariance[np.diag_indices_from(covariance)] += own[arm]
            yield cells @ (weight[:, None] * phi), covariance, sums if uniform else sums[arm : arm + 1]


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectPosterior(WeightPosterior):
    """The posterior of every arm's weights, arms side by side, with the features of these weights.

    Attributes:
        features: Features, the same for every arm.
        draws: Public draws (S, K, m) that answer users; None before any release.
        relevance: Prior variances that the posterior rests on; None if they are not known.
        window: Window of actions among which users are answered (`tables.windows`); None without a window.
    """

    features: ArmFeatures | ActionFeatures
    draws: FloatArray | None = None
    relevance: Relevance | None = None
    window: Window | None = None

    @classmethod
    def of_arms(cls, mean: FloatArray, factor: FloatArray, features: ArmFeatures) -> "EffectPosterior":
        """Build the posterior from means and factors for the weights of `Effects`.

        Args:
            mean: Means, (K, m).
            factor: Factors, (K, m, m); covariance = factor factor^T.
            features: Features with `EffectFeatures` as base.
        """
        base = effect_features(features)
        ratio, shared = base.ratio[:, None], factor.strides[0] == 0
        factors = [ratio * factor[0]] * len(factor) if shared else [ratio * own for own in factor]
        mean = (base.ratio * mean).ravel()
        return cls(mean=mean, factors=factors, supports=features.supports, features=features)


def effect_features(features: Features) -> EffectFeatures:
    """Return the features of a context.

    Raises:
        InvalidParameter: The features are not those of marginal tables.
    """
    base = features.base if isinstance(features, ArmFeatures | ActionFeatures) else None
    if not isinstance(base, EffectFeatures):
        raise InvalidParameter("marginal tables need ArmFeatures with EffectFeatures as base")
    return base


@lru_cache(maxsize=32)
def forecast(
    sizes: tuple[int, ...],
    ordered: tuple[bool, ...],
    people: tuple[float, ...],
    noise_variances: tuple[float, float],
) -> int:
    """Return the result of `forecast_weights` from a cache, as a study builds thousands of equal policies.

    Args:
        people: Users per arm, in every block.
        noise_variances: Variances of an entry with one table, in the first block and in later ones.
    """
    noises = [lambda groups, own=own: own * groups**2 for own in noise_variances]
    later = np.minimum(np.arange(len(people)), 1).tolist()
    return forecast_weights(
        Effects(sizes, ordered, ()),
        people=people,
        noise_variances=[noises[one] for one in later],
        reward_variances=[(VARIANCE, LATER_VARIANCE)[one] for one in later],
    )

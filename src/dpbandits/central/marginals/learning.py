"""From releases of marginal tables to what is believed of every arm: post-processing, in public numbers.

Each block's tables are read with what was believed when it was answered: the public draws that people were
answered by say who was given which arm, and the centre b(x) what was taken from their rewards.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.models.features import Features
from dpbandits.models.marginals import (
    ArmWeights,
    Design,
    EffectFeatures,
    Effects,
    Evidence,
    Law,
    Relevance,
    WeightedPeople,
)
from dpbandits.models.noisy_regression import WeightPosterior

__all__ = ["Belief", "BlockReader", "Heard", "as_posterior"]

SAMPLE = 2_500
"""WeightedPeople that stand for all in a fit."""

DRAWS = 48
"""Public posterior draws that people are answered by until the next release."""

CENTRES = (0.3, 0.7)
"""Between these lies what is taken from rewards after the first block."""

VARIANCE, LATER_VARIANCE = 0.25, 0.2
"""Of a reward, in squared widths of its range: the largest, and about what is left after b(x)."""

COUNT_ERROR, POOR_LAW, LEFT_OVER = 0.1, 0.3, 0.1
"""Relative error of the counts of people in cells, what is added where the law of contexts is poorly known,
and by how much the reward of people that are miscounted differs from what is taken from it."""

FIRST_STEPS, STEPS = 15, 5
"""Of expectation maximisation, after the first release and after later ones."""


class Heard(NamedTuple):
    """What a block released.

    Attributes:
        people: rounds in the block.
        design: the tables.
        sums: (K, C) noisy sums of reward - b, in widths of the reward range.
        sum_sd: of their noise.
        counts: noisy counts of contexts, as `Law.cells`.
        count_sd: of their noise.
    """

    people: int
    design: Design
    sums: FloatArray
    sum_sd: float
    counts: FloatArray
    count_sd: float


@dataclass(frozen=True, eq=False)
class Belief:
    """What releases said so far.

    Attributes:
        counts: noisy counts of contexts in all blocks.
        count_variance: of their noise.
        people: rounds in all blocks; what fades counts for less.
        evidence: of all tables.
        weights: law of every arm's weights.
        draws: (S, K, m) weights by which people are answered now; None at random.
    """

    counts: FloatArray
    count_variance: float
    people: float
    evidence: Evidence
    weights: ArmWeights
    draws: FloatArray | None = None

    def means(self, phi: FloatArray) -> FloatArray:
        """(n, K) expected rewards at features (n, m), in widths of the range from its low end."""
        return np.asarray(0.5 + phi @ self.weights.mean.T)

    def centres(self, phi: FloatArray) -> FloatArray:
        """(n,) what is taken from rewards: the best arm's mean, kept within `CENTRES`."""
        if self.draws is None:
            return np.full(len(phi), 0.5)
        return np.asarray(np.clip(self.means(phi).max(axis=1), *CENTRES))

    def shares(self, phi: FloatArray) -> FloatArray:
        """(n, K) chance of every arm for people with features (n, m)."""
        arms = len(self.weights.mean)
        if self.draws is None:
            return np.full((len(phi), arms), 1.0 / arms)
        flat = self.draws.reshape(-1, phi.shape[1])
        best = (phi @ flat.T).reshape(len(phi), len(self.draws), arms).argmax(axis=2)
        return np.asarray((best[:, :, None] == np.arange(arms)).mean(axis=1))


@dataclass(frozen=True, eq=False)
class BlockReader:
    """How releases are read.

    Args:
        effects: functions that are learned.
        law: what is counted of contexts.
        arms: K.
    """

    effects: Effects
    law: Law
    arms: int

    def beginning(self) -> Belief:
        """Before any release."""
        evidence = Evidence.none(self.arms, self.effects.n_weights)
        weights = ArmWeights.of(self.effects, evidence, Relevance.prior(self.effects))
        return Belief(np.zeros(sum(self.law.cells)), 0.0, 0, evidence, weights)

    def given(self, belief: Belief, evidence: Evidence) -> Belief:
        """What evidence of another kind says: public data, before any release."""
        weights = ArmWeights.fitted(self.effects, evidence, belief.weights.relevance, steps=FIRST_STEPS)
        return replace(belief, evidence=evidence, weights=weights)

    def after(
        self,
        belief: Belief,
        told: Heard,
        *,
        answered: Sequence[tuple[float, Belief]],
        uniforms: FloatArray,
        kept: float = 1.0,
    ) -> Belief:
        """With one more block and no draws yet: how people are answered next is the caller's.

        Args:
            belief: when the block closed: b(x) comes from it.
            told: the block's release.
            answered: shares of the block's rounds, and the belief by which they were answered.
            uniforms: (SAMPLE, 2 d) public.
            kept: what counts of all that was known before.
        """
        first = belief.people == 0
        counts, people = kept * belief.counts + told.counts, kept * belief.people + told.people
        variance = kept**2 * belief.count_variance + told.count_sd**2
        sample = self.law.people(counts, total=people, sd=float(np.sqrt(variance)), uniforms=uniforms)
        evidence = belief.evidence.faded(kept).given(
            *self._read(belief, told, answered, sample, np.sqrt(variance) / people)
        )
        steps = FIRST_STEPS if first else STEPS
        weights = ArmWeights.fitted(self.effects, evidence, belief.weights.relevance, steps=steps)
        return Belief(counts, variance, people, evidence, weights)

    def _read(
        self,
        belief: Belief,
        told: Heard,
        answered: Sequence[tuple[float, Belief]],
        sample: WeightedPeople,
        share_sd: float,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Maps (K, C, m), sums (K, C) and covariances (K, C, C) of a block's tables."""
        phi = self.effects(sample.levels)
        chances = sum((share * one.shares(phi) for share, one in answered), np.zeros((len(phi), self.arms)))
        given = told.people * sample.weights[:, None] * chances  # (M, K)
        cells = told.design.indicators(sample.levels)
        people = np.asarray(cells @ given).T  # (K, C)
        maps = np.stack([cells @ (own[:, None] * phi) for own in given.T])
        overlap = np.stack([((cells * own) @ cells.T).toarray() for own in given.T])
        if all(one.draws is None for _, one in answered):
            # Everybody's arm is anybody's: errors of the counts cancel in differences between arms.
            level = told.sums.sum() / (len(told.design.groups) * told.people)
            sums, reward_variance = told.sums - told.sums.mean(axis=0) + level * people, VARIANCE
        else:
            sums = told.sums + np.asarray(cells @ (given * (belief.centres(phi) - 0.5)[:, None])).T
            reward_variance = LATER_VARIANCE
        error = COUNT_ERROR + POOR_LAW * min(1.0, 16.0 * share_sd)
        own = told.sum_sd**2 + (error * LEFT_OVER * people) ** 2
        return maps, sums, reward_variance * overlap + own[:, :, None] * np.eye(own.shape[1])


def as_posterior(
    mean: FloatArray, factor: FloatArray, *, base: EffectFeatures, features: Features
) -> WeightPosterior:
    """A law of every arm's weights as one of the weights of `features`, arms side by side.

    Args:
        mean: (K, m).
        factor: (K, m, m); covariance = factor factor^T.
        base: of a context.
        features: the same for every arm.
    """
    scaled = base.ratio[:, None] * factor
    return WeightPosterior(mean=(base.ratio * mean).ravel(), factors=scaled, supports=features.supports)

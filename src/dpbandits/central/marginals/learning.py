"""From releases of marginal tables to what is believed of every arm: post-processing, in public numbers.

Each block's tables are read with what was believed when it was answered: the public draws that people were
answered by say who was given which arm, and the centre b(x) what was taken from their rewards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray
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
from dpbandits.models.noisy_regression import WeightPosterior

__all__ = ["Belief", "BlockReader", "EffectPosterior", "Heard", "effect_features"]

SAMPLE = 2_500
"""WeightedPeople that stand for all in a fit."""

DRAWS = 48
"""Public posterior draws that people are answered by until the next release."""

CENTRES = (0.3, 0.7)
"""Between these lies what is taken from rewards after the first block."""

VARIANCE, LATER_VARIANCE = 0.25, 0.2
"""Variance of a reward, in squared widths of its range: the largest, and about what is left after b(x)."""

COUNT_ERROR, POOR_LAW, LEFT_OVER = 0.1, 0.3, 0.1
"""Relative error of the counts of people in cells, what is added where the law of contexts is poorly known,
and by how much the reward of people that are miscounted differs from what is taken from it."""

SCORED = 1 << 22
"""Products of a feature and a weight that are held at once: 32 MiB."""

FIRST_STEPS, STEPS = 15, 5
"""Steps of expectation maximisation, after the first release and after later ones."""


class Heard(NamedTuple):
    """Release of a block, as it is read.

    Attributes:
        people: rounds in the block.
        design: the tables.
        sums: (K, C) noisy sums of reward - b, in widths of the reward range.
        sum_sd: of their noise.
        counts: noisy counts of contexts, as `Law.cells` has them with this design.
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
    """Belief after the releases so far.

    Attributes:
        counts: noisy counts of contexts in all blocks; what fades counts for less.
        effects: the functions of contexts that are learned, m of them.
        evidence: of all tables.
        mean: (K, m) of every arm's weights.
        relevance: prior variances of the weights.
        draws: (S, K, m) weights by which people are answered now; None at random.
    """

    counts: Counts
    effects: Effects
    evidence: Evidence
    mean: FloatArray
    relevance: Relevance
    draws: FloatArray | None = None

    def about(self, effects: Effects) -> "Belief":
        """Return the belief about the weights of effects that include its own; nothing is known of the
        others.
        """
        if effects is self.effects:
            return self
        places = self.effects.places_in(effects)
        evidence = self.evidence.among(places, effects.n_weights)
        return replace(
            self, effects=effects, evidence=evidence, relevance=self.relevance.among(self.effects, effects)
        )

    def centres(self, phi: FloatArray) -> FloatArray:
        """(n,) what is taken from rewards: the best arm's mean, kept within `CENTRES`."""
        if self.draws is None:
            return np.full(len(phi), 0.5)
        return np.asarray(np.clip((0.5 + phi @ self.mean.T).max(axis=1), *CENTRES))

    def shares(self, phi: FloatArray) -> FloatArray:
        """(n, K) chance of every arm for people with features (n, m)."""
        arms = len(self.mean)
        if self.draws is None:
            return np.full((len(phi), arms), 1.0 / arms)
        flat, shares = self.draws.reshape(-1, phi.shape[1]), np.empty((len(phi), arms))
        step = max(1, SCORED // len(flat))
        for begin in range(0, len(phi), step):
            rows = slice(begin, begin + step)
            best = (phi[rows] @ flat.T).reshape(-1, len(self.draws), arms).argmax(axis=2)
            shares[rows] = (best[:, :, None] == np.arange(arms)).mean(axis=1)
        return shares


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Reader of releases.

    Args:
        effects: functions that are learned before any release.
        law: tables of counts, before a block's design says in which bins pairs are counted.
        arms: K.
    """

    effects: Effects
    law: Law
    arms: int

    def beginning(self) -> tuple[Belief, ArmWeights]:
        """Before any release."""
        evidence = Evidence.none(self.arms, self.effects.n_weights)
        weights = ArmWeights.of(self.effects, evidence, Relevance.prior(self.effects))
        nobody = Counts.none(self.law.sizes)
        return Belief(nobody, self.effects, evidence, weights.mean, weights.relevance), weights

    def given(self, belief: Belief, evidence: Evidence) -> tuple[Belief, ArmWeights]:
        """Return the belief with evidence of another kind: public data, before any release."""
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
        """Return the belief with one more block and no draws yet; the caller draws for the next answers.

        Columns that one of its tables holds together interact from now on.

        Args:
            belief: when the block closed: b(x) comes from it.
            told: the block's release.
            answered: shares of the block's rounds, and the belief by which they were answered.
            uniforms: (SAMPLE, 2 d) public.
            kept: what counts of all that was known before.
        """
        law = replace(self.law, design=told.design)
        counts = belief.counts.given(law, told.counts, people=told.people, sd=told.count_sd, kept=kept)
        sample = counts.described(uniforms)
        wider = belief.about(belief.effects.with_pairs(told.design.pairs))
        read = self._read(belief, told, answered, sample, counts.share_sd, wider.effects)
        evidence = wider.evidence.faded(kept).given(read)
        found = replace(wider, counts=counts, evidence=evidence, draws=None)
        return self._fitted(found, FIRST_STEPS if belief.counts.people == 0.0 else STEPS)

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
        """Maps (C, m), covariances (C, C) and sums (1, C) of a block's tables, arm after arm.

        Where nothing was released before, all arms share the first two: sums are (K, C).
        """
        known = {effects: effects(sample.levels)}
        for _, one in ((0.0, belief), *answered):
            if one.effects not in known:
                known[one.effects] = one.effects(sample.levels)
        phi, uniform = known[effects], all(one.draws is None for _, one in answered)
        chances = np.zeros((len(phi), self.arms))
        for share, one in answered:
            chances += share * one.shares(known[one.effects])
        given = told.people * sample.weights[:, None] * chances  # (M, K)
        cells = told.design.indicators(sample.levels)
        people = np.asarray(cells @ given).T  # (K, C)
        if uniform:
            # Everybody's arm is anybody's: errors of the counts cancel in differences between arms.
            level = told.sums.sum() / (len(told.design.groups) * told.people)
            sums, reward_variance = told.sums - told.sums.mean(axis=0) + level * people, VARIANCE
        else:
            centred = belief.centres(known[belief.effects])[:, None] - 0.5
            sums, reward_variance = told.sums + np.asarray(cells @ (given * centred)).T, LATER_VARIANCE
        error = COUNT_ERROR + POOR_LAW * min(1.0, 16.0 * share_sd)
        own = told.sum_sd**2 + (error * LEFT_OVER * people) ** 2
        for arm in range(1 if uniform else self.arms):
            weight = given[:, arm]
            covariance = reward_variance * ((cells * weight) @ cells.T).toarray()
            covariance[np.diag_indices_from(covariance)] += own[arm]
            yield cells @ (weight[:, None] * phi), covariance, sums if uniform else sums[arm : arm + 1]


@dataclass(frozen=True, kw_only=True, eq=False)
class EffectPosterior(WeightPosterior):
    """The law of every arm's weights, arms side by side, and the features whose weights they are.

    Attributes:
        features: the same for every arm.
        draws: (S, K, m) public draws that people are answered by; None where nothing was released.
        relevance: prior variances that the law rests on; None where they are not known.
    """

    features: ArmFeatures
    draws: FloatArray | None = None
    relevance: Relevance | None = None

    @classmethod
    def of_arms(cls, mean: FloatArray, factor: FloatArray, features: ArmFeatures) -> "EffectPosterior":
        """Build the weights from the law of the weights of `Effects`.

        Args:
            mean: (K, m).
            factor: (K, m, m); covariance = factor factor^T.
            features: of `EffectFeatures`.
        """
        base = effect_features(features)
        ratio, shared = base.ratio[:, None], factor.strides[0] == 0
        factors = [ratio * factor[0]] * len(factor) if shared else [ratio * own for own in factor]
        mean = (base.ratio * mean).ravel()
        return cls(mean=mean, factors=factors, supports=features.supports, features=features)


def effect_features(features: Features) -> EffectFeatures:
    """The features of a context.

    Raises:
        InvalidParameter: features of another kind.
    """
    base = features.base if isinstance(features, ArmFeatures) else None
    if not isinstance(base, EffectFeatures):
        raise InvalidParameter("marginal tables are read in the features of effects")
    return base

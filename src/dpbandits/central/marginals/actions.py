"""Marginal tables for contexts and a number to choose: prices, doses, bids.

The release is that of `dpbandits.central.marginals.release`, with bins of the grid of actions in place of
arms. What is computed from releases differs:

- The law across actions is joint and smooth (`dpbandits.models.marginals.actions`).
- What is told is an outcome; what is maximised is its public value (`dpbandits.domains.actions`).

**Privacy.** The proof of `release` covers this release. An action is computed from earlier releases, public
coins and the user's own context, as an arm is. Its bin is a public function of the action.

A round adds R - beta to one entry of each of q tables. Here beta is a function of the user's own context and
action that is fixed by earlier releases, and it is clipped to the same bounds. Replacing the round moves two
entries of each table, by |R - beta| and |R' - beta'| at most. This is 2 q c in L1 (1024 q, or 1434 q later),
whatever the numbers of bins and actions are. The counts are those of `release`.

A window of actions (`explore`, see `dpbandits.tables.windows`) is computed from releases, public coins and
public arguments alone. The law p(a | x) of a block takes it into account.

Values, shapes and bounds are functions that are applied to releases and to the user's own context alone
(post-processing). They are assumed to be public and to read no private state. Nothing checks this, so the
statement says it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.marginals.learning import (
    CENTRES,
    COUNT_ERROR,
    FIRST_STEPS,
    LATER_VARIANCE,
    LEFT_OVER,
    POOR_LAW,
    SCORED,
    STEPS,
    VARIANCE,
    Belief,
    Heard,
)
from dpbandits.errors import ProtocolError
from dpbandits.models.marginals import Counts, Effects, Evidence, Law, Relevance, WeightedPeople
from dpbandits.models.marginals.actions import ActionEffects, ActionWeights, BinSums, evidence_of
from dpbandits.tables.windows import Window

__all__ = ["ActionBelief", "ActionReader", "ActionRule"]


COMPARED = 500
"""Number of simulated users on whom decisions by context are compared with the best single action."""


@dataclass(frozen=True, eq=False)
class ActionRule:
    """Rule that chooses an action from outcomes: the value, and what is allowed.

    Args:
        actions: Declared actions.
        low, width: Lower end and width of the range of outcomes.
        clipped: True if predicted outcomes are clipped to the range.
    """

    actions: Any
    low: float
    width: float
    clipped: bool = True

    def values(self, scores: FloatArray) -> FloatArray:
        """Return the values (..., K) of outcomes 1/2 + scores (..., K), in widths of the range."""
        if not self.clipped:
            return scores
        means = self.low + self.width * np.clip(0.5 + scores, 0.0, 1.0)
        return np.asarray(self.actions.surely_valued(means, self.low, self.low + self.width))

    def masked(self, values: FloatArray, allowed: BoolArray | None) -> FloatArray:
        """Return values (n, ..., K) with -inf for actions that the mask (n, K) does not allow."""
        if allowed is None:
            return values
        return np.where(allowed.reshape(len(allowed), *(1,) * (values.ndim - 2), -1), values, -np.inf)


@dataclass(frozen=True, eq=False, kw_only=True)
class ActionBelief(Belief):
    """Posterior after the releases so far; `mean` and `draws` are those of every action.

    Attributes:
        rule: Rule that chooses.
        sample: People who stand for all users; None before any release.
        window: Window of actions among which users are answered; None for the whole grid.
    """

    rule: ActionRule
    sample: WeightedPeople | None = None
    window: Window | None = None

    def outcomes(self, phi: FloatArray) -> FloatArray:
        """Return the centres (n, K) subtracted from outcomes: their means, clipped to `CENTRES`."""
        if self.draws is None:
            return np.full((len(phi), len(self.mean)), 0.5)
        return np.asarray(np.clip(0.5 + phi @ self.mean.T, *CENTRES))

    def chances(self, phi: FloatArray, allowed: BoolArray | None) -> FloatArray:
        """Return the probability (n, K) of every action for users with features (n, m).

        Args:
            phi: Features of the users' contexts.
            allowed: Mask (n, K) of actions within the users' bounds; None if there are no bounds.
        """
        every, codes = len(self.mean), self.codes
        if self.draws is None:
            if allowed is None:
                allowed = np.zeros((len(phi), every), dtype=np.bool_)
                allowed[:, codes] = True
            return np.asarray(allowed / allowed.sum(axis=1, keepdims=True))
        draws, actions, m = self.draws.shape
        flat, chances = self.draws.reshape(-1, m), np.empty((len(phi), actions))
        step = max(1, SCORED // (4 * len(flat)))
        for begin in range(0, len(phi), step):
            rows = slice(begin, begin + step)
            values = self.rule.values((phi[rows] @ flat.T).reshape(-1, draws, actions))
            best = self.rule.masked(values, None if allowed is None else allowed[rows]).argmax(axis=2)
            places = np.arange(len(best))[:, None] * actions + best
            count = np.bincount(places.ravel(), minlength=len(best) * actions)
            chances[rows] = count.reshape(-1, actions) / draws
        if self.offered is None:
            return chances
        found = np.zeros((len(phi), every))
        found[:, codes] = chances
        return found

    @property
    def mean_features(self) -> FloatArray:
        """Features (m,) of contexts, averaged over users."""
        phi, weights, _ = self._people()
        return np.asarray(weights @ phi)

    def gain(self, draws: FloatArray) -> FloatArray:
        """Return how much deciding by context gains over the best single action, under draws (S, k, m) of the
        offered actions.

        Both decide by the mean, within the reach of the window. The result (S,) is in widths of the range,
        averaged over users.
        """
        phi, weights, allowed = self._people()
        values = self.rule.values(phi @ self.mean[self.codes].T)
        best = self.rule.masked(values, allowed).argmax(axis=1)
        average = np.broadcast_to(weights @ values, values.shape)
        same, rows = self.rule.masked(average, allowed).argmax(axis=1), np.arange(len(phi))
        found = np.empty(len(draws))
        for number, one in enumerate(draws):
            values = self.rule.values(phi @ one.T)
            found[number] = weights @ (values[rows, best] - values[rows, same])
        return found

    def ahead(self, mean: FloatArray, draws: FloatArray) -> FloatArray:
        """Return how much the best actions under `mean` are worth above a random action, under draws.

        Random actions are uniform among those within the reach of the window. The result (S,) is in units of
        the value, averaged over users.

        Args:
            mean: Weights (k, m) of the offered actions by which users are answered.
            draws: Weights (S, k, m) of these actions, drawn from the posterior.
        """
        phi, weights, allowed = self._people()
        best = self.rule.masked(self.rule.values(phi @ mean.T), allowed).argmax(axis=1)
        even = np.ones((len(phi), len(mean))) if allowed is None else allowed.astype(np.float64)
        even /= even.sum(axis=1, keepdims=True)
        found, rows = np.empty(len(draws)), np.arange(len(phi))
        for number, one in enumerate(draws):
            values = self.rule.values(phi @ one.T)
            found[number] = weights @ (values[rows, best] - (even * values).sum(axis=1))
        return found

    def recommended(self) -> FloatArray:
        """Return the share of users (K,) for whom each action has the highest value of the mean outcome."""
        phi, weights, allowed = self._people()
        best = self.rule.masked(self.rule.values(phi @ self.mean.T), allowed).argmax(axis=1)
        shares = np.bincount(best, weights=weights, minlength=len(self.mean))
        return np.asarray(shares, dtype=np.float64)

    def widened(self) -> "ActionBelief":
        """Return the belief with its window widened after a release.

        The draws that answer next give the share of users who get each action. These shares decide how far
        the window's ends move.
        """
        if self.window is None or self.sample is None:
            return self
        actions, levels = self.rule.actions, self.sample.levels
        allowed = actions.allowed(middles(self.effects, levels), actions.reach(self.window))
        shares = self.sample.weights @ self.chances(self.effects(levels), allowed)
        return replace(self, window=actions.widened(self.window, shares / shares.sum()))

    def _people(self) -> tuple[FloatArray, FloatArray, BoolArray | None]:
        """Features (n, m) of users in the sample, weights that sum to one, and a mask of allowed actions."""
        if self.sample is None:
            raise ProtocolError("there is no sample of users before a release")
        levels, weights = self.sample.levels[:COMPARED], self.sample.weights[:COMPARED]
        window = None if self.window is None else self.rule.actions.reach(self.window)
        allowed = self.rule.actions.allowed(middles(self.effects, levels), window)
        return self.effects(levels), weights / weights.sum(), allowed


def middles(effects: Effects, levels: IntArray) -> FloatArray:
    """Return encoded contexts (n, d) in the middle of the given levels (n, d)."""
    return np.where(np.array(effects.ordered), (levels + 0.5) / np.array(effects.sizes), levels)


@dataclass(frozen=True, eq=False)
class ActionReader:
    """Computation of the belief about every action after each release.

    Args:
        across: Functions of contexts and actions that are learned.
        law: Tables of counts.
        rule: Rule that chooses an action.
    """

    across: ActionEffects
    law: Law
    rule: ActionRule

    @property
    def effects(self) -> Effects:
        """Functions of contexts."""
        return self.across.effects

    def beginning(self) -> tuple[ActionBelief, ActionWeights]:
        """Return the belief and the posterior before any release."""
        weights, prior = self.across.n_weights, self.across.prior
        nothing = np.zeros((weights, weights)), np.zeros(weights)
        law = ActionWeights.of(self.across, *nothing, prior, self.across.included)
        belief = ActionBelief(
            counts=Counts.none(self.law.sizes),
            effects=self.effects,
            evidence=Evidence.none(1, weights),
            mean=self.across.of_actions(law.mean),
            relevance=Relevance(prior, law.included),
            rule=self.rule,
            window=self.rule.actions.window,
        )
        return belief, law

    def given(self, belief: ActionBelief, evidence: Evidence) -> tuple[ActionBelief, ActionWeights]:
        """Return the belief with other evidence, from public data, before any release."""
        return self._fitted(replace(belief, evidence=evidence), FIRST_STEPS)

    def after(
        self,
        belief: ActionBelief,
        told: Heard,
        *,
        bins: IntArray,
        answered: Sequence[tuple[float, ActionBelief]],
        uniforms: FloatArray,
        kept: float = 1.0,
    ) -> tuple[ActionBelief, ActionWeights]:
        """Return the belief and the posterior after one more block; see `BlockReader.after`.

        Args:
            belief: Belief when the block closed, which defines the centre.
            told: Release of the block; its sums have a row for every bin of actions.
            bins: Bin (K,) of every action.
            answered: Shares of the block's rounds, each with the belief by which these rounds were answered.
            uniforms: Public uniform numbers, (SAMPLE, 2 d).
            kept: Factor by which earlier information is multiplied (exponential discounting).
        """
        law = replace(self.law, design=told.design)
        counts = belief.counts.given(law, told.counts, people=told.people, sd=told.count_sd, kept=kept)
        sample = counts.described(uniforms)
        bins_told = self._read(belief, told, bins, answered, sample, counts.share_sd)
        precision, shift = evidence_of(bins_told, weights=self.across.n_weights, errors=told.design.n_cells)
        before = belief.evidence.faded(kept)
        evidence = Evidence(before.precision + precision, before.shift + shift)
        found = replace(belief, counts=counts, evidence=evidence, draws=None, sample=sample)
        return self._fitted(found, FIRST_STEPS if belief.counts.people == 0.0 else STEPS)

    def joined(
        self, belief: ActionBelief, law: ActionWeights, before: ActionEffects
    ) -> tuple[ActionBelief, ActionWeights]:
        """Return belief and posterior with the further actions that `across` has after those of `before`.

        A further action is predicted by the functions of its columns. If actions have effects of their own,
        its effect has the prior law, about which there is no evidence yet.
        """
        places, weights = before.places_in(self.across), self.across.n_weights
        evidence = belief.evidence.among(places, weights)
        told = evidence.precision[0], evidence.shift[0]
        law = ActionWeights.of(self.across, *told, law.variances, law.included)
        return replace(belief, evidence=evidence, mean=self.across.of_actions(law.mean)), law

    def _fitted(self, belief: ActionBelief, steps: int) -> tuple[ActionBelief, ActionWeights]:
        weights = ActionWeights.fitted(
            self.across,
            belief.evidence.precision[0],
            belief.evidence.shift[0],
            belief.relevance.variances,
            steps=steps,
            included=belief.relevance.included,
        )
        mean = self.across.of_actions(weights.mean)
        relevance = Relevance(weights.variances, weights.included)
        return replace(belief, mean=mean, relevance=relevance), weights

    def _read(
        self,
        belief: ActionBelief,
        told: Heard,
        bins: IntArray,
        answered: Sequence[tuple[float, ActionBelief]],
        sample: WeightedPeople,
        share_sd: float,
    ) -> Iterator[BinSums]:
        phi, contexts = self.effects(sample.levels), middles(self.effects, sample.levels)
        chances = np.zeros((len(phi), len(bins)))
        for share, theirs in answered:
            allowed = self.rule.actions.allowed(contexts, theirs.window)
            chances[:, : len(theirs.mean)] += share * theirs.chances(phi, allowed)
        given = told.people * sample.weights[:, None] * chances  # (M, K)
        return self.bin_sums(
            told,
            bins,
            sample,
            share_sd,
            given=given,
            centred=given * (belief.outcomes(phi) - 0.5),
            variance=VARIANCE if belief.draws is None else LATER_VARIANCE,
        )

    def bin_sums(
        self,
        told: Heard,
        bins: IntArray,
        sample: WeightedPeople,
        share_sd: float,
        *,
        given: FloatArray,
        centred: FloatArray,
        variance: float,
    ) -> Iterator[BinSums]:
        """Yield the tables of every bin of actions, each followed by the sums of its actions alone.

        Within a bin, an error of a cell's count changes its sum by the mean of reward - centre, which is
        estimated from all the bin's sums. Centres follow the predictions after the first release; then the
        mean is near zero, and `LEFT_OVER` allows for the rest.

        Args:
            told: Release.
            bins: Bin (K,) of every action.
            sample: M weighted contexts that represent all users.
            share_sd: Deviation of the noise of a share of the users in a table of one column.
            given: Expected numbers (M, K) of users of each sampled context with each action.
            centred: `given` times the centre less 1/2, (M, K), which is added to the sums.
            variance: Variance of a row's contribution, in squared widths of the range.
        """
        phi = self.effects(sample.levels)
        cells, count = told.design.indicators(sample.levels), int(bins.max()) + 1
        error = COUNT_ERROR + POOR_LAW * min(1.0, 16.0 * share_sd)
        # Errors of a table's counts leave the number of all users as it is.
        shares, tables = (
            np.asarray(cells @ sample.weights),
            np.repeat(np.arange(len(told.design.cells)), told.design.cells),
        )
        shared = np.eye(len(shares)) - (tables[:, None] == tables) * shares
        maps = self.across.maps(cells, given, phi, bins)
        for one, own in zip(range(count), maps, strict=True):
            here = bins == one
            weight = given[:, here].sum(axis=1)
            people = np.asarray(cells @ weight)
            covariance = variance * ((cells * weight) @ cells.T).toarray()
            covariance[np.diag_indices_from(covariance)] += told.sum_sd**2 + (error * LEFT_OVER * people) ** 2
            level = float(told.sums[one].sum()) / max(1.0, len(told.design.groups) * float(weight.sum()))
            sums = told.sums[one] + np.asarray(cells @ centred[:, here].sum(axis=1))
            off = error * float(np.clip(level, -0.5, 0.5)) * people[:, None] * shared
            found = BinSums(own, covariance, sums, off)
            if told.alone is not None:
                alone = told.alone[here] + centred[:, here].sum(axis=0)
                found = self._with_actions(
                    found, alone, told.sum_sd, cells, phi, given[:, here], here, variance, error
                )
            yield found

    def _with_actions(
        self,
        found: BinSums,
        sums: FloatArray,
        sum_sd: float,
        cells: csr_array,
        phi: FloatArray,
        own: FloatArray,
        here: BoolArray,
        variance: float,
        error: float,
    ) -> BinSums:
        """Return a bin's tables with a row for each of its actions: the sum over all contexts.

        The same rewards are in both, so their rows are correlated.

        Args:
            found: Tables of the bin.
            sums: Sums of its actions, with the centre added.
            sum_sd: Standard deviation of the noise of a sum.
            cells: Cells (C, M) of the sampled contexts.
            phi: Functions (M, m) of the sampled contexts.
            own: Expected numbers of users (M, k) whom each sampled context stands for, by action of the bin.
            here: True for the actions (K,) of the bin.
            variance: Variance of a reward.
            error: Relative error of the numbers of users.
        """
        people = own.sum(axis=0)
        maps = self.across.products(own.T @ phi, self.across.basis.table[here])
        both = variance * np.asarray(cells @ own)
        alone = np.diag(variance * people + sum_sd**2 + (error * LEFT_OVER * people) ** 2)
        return BinSums(
            np.concatenate([found.maps, maps]),
            np.block([[found.covariance, both], [both.T, alone]]),
            np.concatenate([found.sums, sums]),
            np.concatenate([found.miscounted, np.zeros((len(people), found.miscounted.shape[1]))]),
        )

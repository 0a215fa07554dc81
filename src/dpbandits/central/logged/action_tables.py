r"""Marginal tables of a log whose decisions are numbers to choose: prices, doses, bids.

The tables are those of `dpbandits.central.logged.tables`, with bins of the grid of actions in place of arms.
The law across actions is joint and smooth, as in `dpbandits.central.marginals.actions`.

**Contribution of a row.** Let r be the reward of a row, b the public reference, and B the public bound.

- Rows with densities: p is the density with which the row's action was drawn, and w the density of an even
  draw. Both are per unit of every `Range`, and probabilities for the other columns.
- Rows with propensities: p is the chance with which the row's step was drawn, and w = 1/K.
- Rows whose actions were drawn evenly: w/p = 1.

Let D be the largest |r - b|, and W = B/D the largest weight. With U = 2^20, the row adds three kinds of
integers:

- round(U clip(min(w/p, W) (r - b)/B, -1, 1)) to one entry of each of q tables: the cell of its context, in
  the row of its action's bin;
- with densities or propensities, round(V min(w/p, W)/W) to the entry of its action's bin in the table of
  weights, for a public integer V <= U (`WEIGHT_SHARE`);
- U to one entry of each of t tables of counts. Counts are not weighted: they count contexts, and the law of
  contexts does not depend on the actions.

**Sensitivity.** The integers of a row are at most U, V and U in size, whatever its density. A row whose
density is missing, not positive or not finite cannot be read and adds nothing. The row's density, action and
context decide its entries, and those of no other row. The proof of `dpbandits.central.logged.tables` uses
nothing else. So the sensitivities are 2 (q U + V) k for sums and weights, and 2 t k for counts, in L1. They
do not depend on the numbers of bins and actions. It is assumed that no density was estimated from the log,
as one row would then change others; the statement lists this.

**Expectation.** Let n be the number of users in a cell, e the even share of a bin of actions, and m the mean
of r - b under evenly drawn actions of the bin. Without a largest weight, the cell's sum is n e m in
expectation, for every positive density. With it, the sum is n e s m if actions of the bin were drawn with
one density. Here s = min(1, W p/w), and the bin's entry in the table of weights is s in expectation, times
the number of all users, e and V/W. So s is estimated from that table (`_seen`). Without this, a bin of rarely
logged actions would be pulled towards b. A density that also varies with the context leaves a bias.

A number between steps counts as the nearer step. Where numbers are drawn evenly from a `Range`, half as many
are nearest to its first or last step, which the reading takes into account (`Actions.even_shares`).
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpbandits._memory import FLOAT, check_fits
from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.logged.calibration import ExpectedError
from dpbandits.central.logged.contexts import LEAST_ROWS, SURE
from dpbandits.central.logged.rows import reference_of
from dpbandits.central.logged.sums import REWARD_UNIT
from dpbandits.central.logged.tables import (
    BIAS,
    EXPECTED_DRAWS,
    EXPECTED_SHARE,
    WIDER,
    TableRelease,
    expected_loss,
)
from dpbandits.central.marginals.action_release import FREEDOM, number_of_bins, pays
from dpbandits.central.marginals.actions import ActionBelief, ActionReader, ActionRule
from dpbandits.central.marginals.learning import DRAWS, EffectPosterior, Heard
from dpbandits.domains import Product
from dpbandits.errors import InvalidData
from dpbandits.models.features import Features
from dpbandits.models.marginals import (
    BINS,
    EffectFeatures,
    Evidence,
    Law,
    Relevance,
    WeightedPeople,
)
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.models.marginals.actions import ActionEffects, ActionWeights, evidence_of
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Actions

__all__ = ["UNSAID", "WEIGHTED_BOUND", "ActionTableRelease", "Logged"]

Logged = Literal["steps", "numbers", "propensities", "densities"]
"""Declaration of how logged actions were drawn.

- "steps": every step of the grid was equally likely.
- "numbers": numbers were drawn evenly from each `Range`, and may lie between steps.
- "propensities": every row has the chance with which its step was drawn.
- "densities": every row has the density with which its number was drawn; numbers may lie between steps.
"""

UNSAID = (
    'actions: say how the logged actions were drawn, in tuning=ExploreTuning(logged=...): "propensities" or '
    '"densities" if every row has one, else "steps" or "numbers" if all steps, or all numbers between low '
    "and high, were equally likely"
)
"""Error for actions without this declaration."""

WEIGHTED_BOUND = 2.0
"""Default clipping bound of weighted rewards, in units of the largest |reward - reference|.

A row is not clipped if its action was at least half as likely as under even draws. The bound was chosen
among numbers from 1 to 8, on worlds and seeds of its own:
`python -m reproduction.studies.prices_logs --only bounds`.
"""

WEIGHT_SHARE = 8
"""A row's entry V in the table of weights is the sum of the units of all reward tables, divided by this
number, and at most U. The table of weights then adds an eighth to Laplace noise, and less to Gaussian noise.
"""

FEW_ROWS, FEW_DEVIATIONS = 100.0, 2.0
"""A bin of actions has few rows if the released sum of its weights is below the first number. It also has few
if the sum is below the second number of deviations of its noise.
"""

STEPS = 35
"""Steps of expectation maximisation for the prior variances."""

LEAST = 1e-12
"""Variance added to every weight: the law of an average over users has fewer dimensions than weights."""

SQUARES = 12
"""Number of matrices of the joint weights in memory at the same time."""


_UNITS = round(1.0 / REWARD_UNIT)


@dataclass(frozen=True, eq=False, kw_only=True)
class ActionTableRelease(TableRelease):
    """The mechanism that releases the tables of a log of actions, and the computation of the function.

    Args:
        logged: Declaration of how the logged actions were drawn.
    """

    logged: Logged | None = None
    freedom: ClassVar[float] = FREEDOM

    def __post_init__(self) -> None:
        """Raise `InvalidParameter` as the base class does, or if the joint weights do not fit."""
        super().__post_init__()
        check_fits(FLOAT * SQUARES * self.across.n_weights**2, instead="take fewer columns or categories")

    @property
    def actions(self) -> Actions:
        """Grid of actions."""
        found: Actions = self.menu.actions  # type: ignore[assignment]
        return found

    @cached_property
    def even(self) -> FloatArray:
        """Shares (K,) of the actions if they are drawn evenly."""
        return self.actions.even_shares(between=self.between)

    def weight_units(self, groups: int) -> int:
        """Return the largest entry V of a row in the table of weights, 0 if all weights are one."""
        if self.logged not in ("propensities", "densities"):
            return 0
        return _UNITS * min(groups, WEIGHT_SHARE) // WEIGHT_SHARE

    @property
    def between(self) -> bool:
        """True if logged numbers may lie between steps."""
        return self.logged in ("numbers", "densities")

    @property
    def functions(self) -> list[str]:
        """Names of the public functions of actions that are applied to releases."""
        return self.actions.functions

    def codes(self, arms: Any) -> IntArray:
        """Return the codes (n,) of logged actions, -1 for an action that cannot be read."""
        return self.actions.located(arms, between=self.between)

    def check_weights(self, *, given: bool) -> None:
        """Raise InvalidData if propensities are given, or not given, contrary to `logged`."""
        if given != (self.logged in ("propensities", "densities")):
            raise InvalidData(
                f"propensities: expected {'none' if given else f'the {self.logged} of all rows'}, as the "
                f'policy was built with ExploreTuning(logged="{self.logged}")'
            )

    def even_propensity(self, codes: IntArray) -> tuple[FloatArray | float, float]:
        """Return the propensity, or the density, of evenly drawn actions, and the largest valid one."""
        if self.logged == "densities":
            return self.actions.even_density, float(np.finfo(np.float64).max)
        return 1.0 / self.menu.n_arms, 1.0

    @property
    def told(self) -> float:
        """Epsilon of a row times rows, over 10,000."""
        return self.privacy.epsilon / self.privacy.rounds_per_user * self.horizon / 10_000

    @cached_property
    def row_of(self) -> IntArray:
        """Bin (K,) of every action."""
        return self._basis.bins(number_of_bins(self.told))

    @property
    def _basis(self) -> ActionBasis:
        return ActionBasis(tuple(self.actions.sizes), tuple(self.actions.ordered))

    @cached_property
    def base(self) -> EffectFeatures:
        """Features of an encoded context, with interactions if the joint weights of all of them fit."""
        base = EffectFeatures(domain=Product(*self.menu.domain.parts[:-1]), fine=True)
        if not base.effects.all_pairs_fit(self.menu.n_arms):
            base = EffectFeatures(domain=base.domain, pairs=(), fine=True)
        across = ActionEffects.of(base.effects, self._basis)
        return EffectFeatures(domain=base.domain, pairs=across.effects.pairs, fine=True)

    @cached_property
    def across(self) -> ActionEffects:
        """Functions that are learned."""
        return ActionEffects(self.base.effects, self._basis)

    def _features_of(self, base: EffectFeatures) -> Features:
        return ActionFeatures(base=base, sizes=self._basis.sizes, ordered=self._basis.ordered)

    @property
    def _each(self) -> float:
        """Number of bins that tell about the same functions of the action, where tables are chosen."""
        return max(1.0, self.n_rows / self.freedom)

    @property
    def _rows_an_arm(self) -> float:
        return self.horizon * self._each / self.n_rows

    def _noise_variance(self, groups: int) -> float:
        return super()._noise_variance(groups) * self._each

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the result of `learned`: mean and factor of the joint weights, cuts, and weights of rows.

        The last array has a column for each bin of actions. The first row is the released sum of the weights
        of logged rows in the bin. The second is the share of users to whom an action of the bin is
        recommended.
        """
        weights = self.across.n_weights
        found = (weights,), (weights, weights), (sum(self.base.effects.ordered), BINS - 1)
        return (*found, (2, self.n_rows)) if self.n_weighed else found

    def _posterior(self, mean: FloatArray, factor: FloatArray, features: Any) -> EffectPosterior:
        ratio = features.ratio
        return EffectPosterior(
            mean=ratio * mean,
            factors=[ratio[:, None] * factor],
            supports=features.supports,
            features=features,
        )

    def _read(self, released: IntArray, cut: Any, reference: float, unit: float) -> tuple[FloatArray, ...]:
        """Return mean and factor of the joint weights, with deviations that cover bias, and weights of rows.

        The last array is there with `n_weighed`; see `shapes`. If the release does not show that deciding by
        context pays, the function is replaced by its average over users, as it is online.
        """
        sums, people, counts, sample = self._told(released, cut, unit)
        centre = (reference - self.reward_range.middle) / self.reward_range.width
        alone = released[self._end_of_sums - self.n_alone : self._end_of_sums] * (REWARD_UNIT * unit)
        weighed = self._weighed(released, reference)
        seen = self._seen(weighed, reference, people)
        told = self._heard(sums, alone)
        evidence = self._evidence(told, sample, counts.share_sd, people=people, centre=centre, seen=seen)
        law = ActionWeights.fitted(self.across, *evidence, self.across.prior, steps=STEPS)
        belief = ActionBelief(
            counts=counts,
            effects=self.base.effects,
            evidence=Evidence.none(1, 0),
            mean=self.across.of_actions(law.mean),
            relevance=Relevance(law.variances),
            rule=self._rule,
            sample=sample,
        )
        normals = PublicCoins(self.seed).normal("usca/gain", 0, DRAWS, len(law.mean))
        draws = self.across.of_actions(law.mean + normals @ law.factor.T)
        if not pays(belief.gain(draws), self.told):
            law = self.across.averaged(law, belief.mean_features)
        covariance = WIDER**2 * law.factor @ law.factor.T
        # Effects outside the model count as an unknown constant, whose weight comes first.
        covariance[0, 0] += BIAS**2
        factor = np.asarray(np.linalg.cholesky(covariance + LEAST * np.eye(len(covariance))))
        if not self.n_weighed:
            return law.mean, factor
        shares = replace(belief, mean=self.across.of_actions(law.mean)).recommended()
        chosen = np.bincount(self.row_of, weights=shares, minlength=self.n_rows)
        return law.mean, factor, np.stack([weighed, chosen])

    def _weighed(self, released: IntArray, reference: float) -> FloatArray:
        """Return the noisy sums of the weights of logged rows, by bin of actions; () if there are none."""
        start = self._end_of_sums
        return np.asarray(released[start : start + self.n_weighed] * self._weight_step(reference))

    def _weight_step(self, reference: float) -> float:
        """Return the weight of a row that one unit of the table of weights stands for."""
        largest = self.bound / reference_of(reference, self.reward_range)[1]
        return largest / max(1, self.weight_units(len(self.design.groups)))

    def _weight_sd(self, reference: float) -> float:
        """Return the deviation of the noise in the sum of a bin's weights."""
        return float(np.sqrt(self.sum_variance)) / self._unit * _UNITS * self._weight_step(reference)

    def _seen(self, weighed: FloatArray, reference: float, people: float) -> FloatArray:
        """Return the share s (K,) of the weight of every action that remains after clipping; see the module.

        It is one unless the release contradicts that, by `SURE` deviations of noise and weights.

        Args:
            weighed: Noisy sums of weights by bin of actions.
            reference: Public reference.
            people: Number of logged rows.
        """
        if not len(weighed):
            return np.ones(len(self.row_of))
        even = people * np.bincount(self.row_of, weights=self.even)
        largest = self.bound / reference_of(reference, self.reward_range)[1]
        sd = np.sqrt(self._weight_sd(reference) ** 2 + largest * even)
        found = np.where(weighed > even - SURE * sd, 1.0, np.maximum(weighed / even, LEAST_ROWS))
        return np.asarray(found[self.row_of])

    def few_rows(self, learned: tuple[FloatArray, ...], reference: float) -> dict[str, float] | None:
        """Return the share of recommendations among actions of which the log has few rows; see `FEW_ROWS`."""
        if not self.n_weighed:
            return None
        weighed, told = learned[-1]
        least = max(FEW_ROWS, FEW_DEVIATIONS * self._weight_sd(reference))
        return {"few_rows": least, "recommended_with_few_rows": float(told[weighed < least].sum())}

    def expected_error(self) -> ExpectedError:
        """Return the expected loss, in units of the value, on random functions; no data is used.

        Functions are drawn from the prior, with `EXPECTED_SHARE` of its variances, and then estimated from
        tables with noise and with the known law of contexts.
        """
        across, coins = self.across, PublicCoins(0)
        levels = self._expected_levels()
        sample = WeightedPeople(levels, np.full(len(levels), 1.0 / len(levels)))
        told = self._heard(np.zeros((self.n_rows, self.design.n_cells)), np.zeros(self.n_alone))
        seen = np.ones(len(self.row_of))
        precision, _ = self._evidence(told, sample, 0.0, people=self.horizon, centre=0.0, seen=seen)
        prior = EXPECTED_SHARE * across.prior
        factor = ActionWeights.of(across, precision, np.zeros(across.n_weights), prior).factor
        normals = coins.normal("usca/expected-tables", 0, EXPECTED_DRAWS, 2 * across.n_weights)
        truth, rest = np.split(normals, 2, axis=1)
        truth = truth * np.sqrt(across.variances(prior))
        values, vectors = np.linalg.eigh(precision)
        seen = truth @ precision + (rest * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        estimate = (seen @ factor) @ factor.T
        phi, rule = self.base.effects(levels), self._rule
        means, scores = (
            np.stack([rule.values(phi @ one.T) for one in across.of_actions(weights)])
            for weights in (truth, estimate)
        )
        return expected_loss(means.swapaxes(1, 2), scores.argmax(axis=2))

    def _heard(self, sums: FloatArray, alone: NDArray[np.floating[Any]]) -> Heard:
        """Return sums, and sums of single arms if there are any, as a release of a block without counts."""
        sd, own = float(np.sqrt(self.sum_variance)), np.asarray(alone, np.float64) if len(alone) else None
        return Heard(self.horizon, self.design, sums, sd, np.zeros(0), 0.0, alone=own)

    def _evidence(
        self,
        told: Heard,
        sample: WeightedPeople,
        share_sd: float,
        *,
        people: float,
        centre: float,
        seen: FloatArray,
    ) -> tuple[FloatArray, FloatArray]:
        """Return precision and shift of the weights, from sums of reward - 1/2 - `centre` in widths.

        `seen` (K,) is the share of the weight of every action's rows that clipping leaves.
        """
        given = people * sample.weights[:, None] * (self.even * seen)
        effects = self.base.effects
        reader = ActionReader(self.across, Law(effects.sizes, effects.ordered), self._rule)
        bins = reader.bin_sums(
            told,
            self.row_of,
            sample,
            share_sd,
            given=given,
            centred=given * centre,
            variance=self._variance,
        )
        return evidence_of(bins, weights=self.across.n_weights, errors=self.design.n_cells)

    @property
    def _rule(self) -> ActionRule:
        return ActionRule(self.actions, self.reward_range.low, self.reward_range.width)

"""`ActionRelease`: marginal tables for contexts and a grid of actions; see `actions` for the derivation."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dpbandits._memory import FLOAT
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.foresight import Foresight
from dpbandits.central.kinds import Findings, ScheduleSize
from dpbandits.central.marginals.actions import ActionBelief, ActionReader, ActionRule
from dpbandits.central.marginals.learning import (
    DRAWS,
    LATER_VARIANCE,
    SAMPLE,
    SCORED,
    VARIANCE,
    EffectPosterior,
    effect_features,
)
from dpbandits.central.marginals.release import (
    Drawn,
    MarginalPast,
    MarginalRelease,
    Planned,
    Read,
    centre_of,
)
from dpbandits.central.statement import Setting
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import Features
from dpbandits.models.forgetting import kept_after
from dpbandits.models.marginals import MOST_CELLS, Cuts, EffectFeatures, Effects, Relevance, best_design
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.models.marginals.actions import ActionEffects
from dpbandits.models.marginals.law import LOCATED
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import PublicCoins, best_choice, uniform_choice
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.tables.windows import Window

__all__ = ["ActionRelease", "number_of_bins", "pays"]

FIRST_SHARES, PEOPLE = (0.03, 0.1, 1.0 / 3.0), 400.0
"""Bounds of the first block: shares of the horizon, and users at epsilon 1.

The block has `PEOPLE` users, or more if epsilon is small, but then at most the second share of the horizon.
In any case it has at least the first share and at most the third.
"""

GROWTH, LAST_SHARE = 1.4, 0.9
"""Ratio of the lengths of consecutive blocks, and share of the horizon after which there is no release."""

FEWEST_BINS, BINS, MOST_BINS, BINS_POWER = 4, 6.0, 12, 0.25
"""Smallest, usual and largest number of bins of the actions, and an exponent.

The usual number is multiplied by (epsilon times users / 10,000) to the power of the exponent.
"""

FREEDOM = 3.0
"""Number of functions of the action about which all bins together
are informative, for the choice of tables.
"""

EXPLORED = (
    "Decisions are chosen within a window of values that begins as explore= and widens after releases. It is "
    "computed from releases and public arguments, which costs no further privacy."
)
"""Note of a statement with `Actions(explore=)`."""

TOLD_APART = 2.0
"""Number of posterior deviations below which the diagnostics count actions as not better than random ones."""

UNTOLD = (
    "Releases so far do not tell actions{where} apart: recommended actions are predicted to be worth "
    "{ahead:.2g} more than random ones, with a standard deviation of {sd:.2g}. So a recommendation, such as "
    "the middle of a window, rests on assumptions and not on what people did. Take more people, a larger "
    "epsilon, fewer columns of contexts or a wider explore=."
)
"""Warning of the diagnostics; see `TOLD_APART`."""

CAUTION, MOST_CAUTION, CAUTION_POWER = 0.3, 1.3, -0.9
"""Number of posterior deviations by which the gain of deciding by context must exceed zero.

The first number applies if epsilon times users is 10,000. It is multiplied by (epsilon times users / 10,000)
to the power of the third number, up to at most the second number. If the gain is smaller, every user gets
the action that is best on average over users. The gain and its deviation are computed from releases.
"""


def number_of_bins(told: float) -> int:
    """Return the number of bins of the actions, from epsilon times users over 10,000."""
    wanted: float = BINS * told**BINS_POWER
    return round(min(max(wanted, FEWEST_BINS), MOST_BINS))


def pays(gain: FloatArray, told: float) -> bool:
    """Return True if draws (S,) of the gain of deciding by context show that it pays; see `CAUTION`.

    Args:
        gain: Result of `ActionBelief.gain`.
        told: Epsilon times users, over 10,000.
    """
    return bool(gain.mean() > min(MOST_CAUTION, CAUTION * told**CAUTION_POWER) * gain.std())


@dataclass(frozen=True, kw_only=True, eq=False)
class ActionPosterior(EffectPosterior):
    """Posterior with which users are answered.

    Attributes:
        learned: Posterior of all weights. If releases do not show that deciding by context gains, users are
            answered with its average over users instead.
    """

    features: ActionFeatures
    learned: WeightPosterior


class ActionRelease(MarginalRelease):
    """Kind of release: marginal tables with bins of actions in place of arms; see `actions`.

    Args:
        setup: Public arguments of the policy, with contexts and actions.

    Raises:
        InvalidParameter: As in `MarginalRelease`, or contexts and actions have too many products of effects.
    """

    thompson_scale = 0.6
    freedom: ClassVar[float] = FREEDOM

    _own: ActionFeatures

    def _basis(self) -> ActionBasis:
        actions = self._setup.actions
        return ActionBasis(tuple(actions.sizes), tuple(actions.ordered))

    def _own_features(self) -> Features:
        basis = self._basis()
        base = EffectFeatures(domain=self._columns)
        if not base.effects.all_pairs_fit(self.arms):
            base = EffectFeatures(domain=self._columns, pairs=())
        across = ActionEffects.of(base.effects, basis)
        base = EffectFeatures(domain=self._columns, pairs=across.effects.pairs)
        self._own = ActionFeatures(
            base=base, sizes=basis.sizes, ordered=basis.ordered, rows=basis.rows, alone=basis.alone
        )
        return self._own

    def _own_reader(self, effects: Effects) -> Any:
        reward_range = self._setup.reward_range
        self._rule = ActionRule(self._setup.actions, reward_range.low, reward_range.high - reward_range.low)
        return ActionReader(self._own.across, self.law, self._rule)

    def _features_at(self, version: int) -> ActionFeatures:
        return self._own

    def _reader_at(self, version: int) -> ActionReader:
        reader: ActionReader = self.reader
        return (
            reader
            if self._features_at(version) is self._own
            else replace(reader, across=self._features_at(version).across)
        )

    @property
    def _told(self) -> float:
        """Epsilon per round of a user, times the number of rounds, over 10,000."""
        privacy = self._setup.privacy
        return privacy.epsilon / privacy.rounds_per_user * (self._setup.horizon or 10_000) / 10_000

    def _rows(self, block: int) -> IntArray:
        return self._own.across.basis.bins(number_of_bins(self._told))

    def _census_people(self) -> int:
        return 0

    def _own_blocks(self, census: int) -> tuple[int, ...]:
        if self._setup.horizon is None:
            return super()._own_blocks(census)
        rounds = self._setup.longest
        return self._grown(rounds, PEOPLE, shares=FIRST_SHARES, growth=GROWTH, last_share=LAST_SHARE)

    def bytes_needed(self) -> float:
        """Estimate memory in bytes; it is quadratic in the joint weights."""
        held, actions = ScheduleSize.of(self.blocks, self._setup), len(self.history.labels)
        across = self._features_at(len(self.blocks) + 1).across
        m, joint, cells = across.effects.n_weights, across.n_weights, MOST_CELLS
        drawn = DRAWS * actions * m
        bins = int(self._rows(0).max()) + 1
        kept = (
            held.blocks * (drawn + self.law.most_cells + bins * cells + SAMPLE * self._columns.dim)
            + 4 * drawn
        )
        reading = SAMPLE * (2 * m + 5 * actions + 2 * joint) + SCORED + cells * (3 * joint + 4 * cells)
        locating = 3 * LOCATED * len(self.law.tables) + 4 * held.longest * self._columns.dim
        return FLOAT * (kept + 8 * joint**2 + max(reading, locating)) + held.book

    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> Planned:
        """Return the tables that are expected to be most informative, and the centre, from the posterior.

        All bins of actions are informative about the same few functions of the action. So their tables count
        as the tables of `FREEDOM` arms, each of them the sum of equally many bins' tables.
        """
        known: EffectPosterior = posterior if isinstance(posterior, ActionPosterior) else self.prior
        law: WeightPosterior = known
        features = self._own
        if isinstance(known, ActionPosterior):
            law, features = known.learned, known.features
        base, bins = effect_features(self.features), int(self._rows(block).max()) + 1
        own = (law.factors[0] ** 2).sum(axis=1) / features.ratio**2
        if known.relevance is not None:
            own = features.across.worths(own, known.relevance)
        first = self.says_nothing(posterior)
        each = max(1.0, bins / self.freedom)
        tables = best_design(
            base.effects,
            variance=features.across.of_contexts(own),
            people=self.rounds(block) * each / bins,
            noise_variance=lambda groups: self._noise_variance(groups, first=first) * each,
            reward_variance=VARIANCE if first else LATER_VARIANCE,
        )
        return Planned(tables, None if first else features.of_every(law.mean), base)

    def _window(self, posterior: WeightPosterior | None) -> Window | None:
        found = posterior.window if isinstance(posterior, EffectPosterior) else None
        return found or self._setup.actions.window

    def _subtracted(self, points: FloatArray, design: Planned) -> IntArray:
        """Return beta (n,), the predicted outcome for each user's own context and action, clipped."""
        if design.centre is None:
            return self._centre(points[:, :-1], design)
        found, step = np.empty(len(points)), max(1, SCORED // design.centre.shape[1])
        for begin in range(0, len(points), step):
            rows = points[begin : begin + step]
            own = design.centre[rows[:, -1].astype(np.int64)]
            found[begin : begin + step] = 0.5 + np.einsum("nm,nm->n", design.base(rows[:, :-1]), own)
        return centre_of(found)

    def _after(self, number: int, one: Drawn, beliefs: list[Any]) -> tuple[Any, Any]:
        told, answered = self._heard(number, one, beliefs)
        found: tuple[Any, Any] = self._reader_at(number).after(
            beliefs[-1],
            told,
            bins=self._rows(number)[: len(beliefs[-1].mean)],
            answered=answered,
            uniforms=self._people_coins(len(told.design.sizes)),
            kept=float(kept_after(told.people, self.tuning.forget)),
        )
        return found

    def _law(
        self, effects: Effects, weights: Any, cuts: Cuts | None = None, *, version: int = 0
    ) -> ActionPosterior:
        features = self._features_at(version)
        ratio, supports = features.ratio, features.supports
        factors = [ratio[:, None] * weights.factor]
        law = WeightPosterior(mean=ratio * weights.mean, factors=factors, supports=supports)
        return ActionPosterior(
            mean=law.mean,
            factors=factors,
            supports=supports,
            features=features,
            relevance=Relevance(weights.variances, weights.included),
            learned=law,
        )

    def _answering(
        self,
        drawn: Drawn | None,
        belief: Any,
        weights: Any,
        *,
        released: int = 0,
        cuts: Cuts | None = None,
    ) -> Read:
        """Return belief and posterior with the public draws by which users are answered from now on.

        If releases do not show a gain of deciding by context, the posterior is replaced by its average over
        users. Then publications, predictions and answers are the same for everybody.
        """
        posterior = self._law(belief.effects, weights, cuts, version=released)
        ratio = effect_features(self.features).ratio
        if not self._pays(belief, posterior):
            average = posterior.features.across.averaged(weights, belief.mean_features)
            law = self._law(belief.effects, average, cuts, version=released)
            posterior = replace(law, learned=posterior.learned)
        draws = self._drawn_from(posterior, released)
        belief = replace(belief, draws=draws / ratio).widened()
        return Read(drawn, belief, replace(posterior, draws=draws, window=belief.window))

    def _pays(self, belief: ActionBelief, posterior: ActionPosterior) -> bool:
        """Return True if deciding by context gains enough, or if there is no sample of users to find out."""
        if belief.sample is None:
            return True
        normals = self._coins.normal("marginals/gain", 0, DRAWS, len(posterior.mean))
        draws = posterior.features.of_actions(posterior.sample_weights(normals))
        return pays(belief.gain(draws / effect_features(self.features).ratio), self._told)

    def findings(self, past: MarginalPast, count: int) -> Findings:
        """Return the findings about counts, and a warning if releases do not tell actions apart."""
        found, chain = super().findings(past, count), self._chain
        last = chain[-1] if chain and len(chain) == past.count else None
        posterior, belief = (None, None) if last is None else (last.posterior, last.belief)
        if not isinstance(posterior, ActionPosterior) or not isinstance(belief, ActionBelief):
            return found
        if belief.sample is None:
            return found
        features, ratio = posterior.features, effect_features(self.features).ratio
        normals = self._coins.normal("marginals/gain", 0, DRAWS, len(posterior.mean))
        draws = features.of_actions(posterior.learned.sample_weights(normals)) / ratio
        ahead = belief.ahead(features.of_actions(posterior.mean) / ratio, draws)
        mean, sd = float(ahead.mean()), float(ahead.std())
        if mean >= TOLD_APART * sd:
            return found
        where = "" if belief.window is None else " within the window"
        return found._replace(warnings=[*found.warnings, UNTOLD.format(where=where, ahead=mean, sd=sd)])

    def answering(
        self,
        posterior: WeightPosterior,
        features: Features,
        *,
        released: int,
        informed: bool = False,
        window: Window | None = None,
    ) -> EffectPosterior:
        """Return the posterior with its public draws, which are not part of the publication."""
        if not isinstance(features, ActionFeatures):
            raise InvalidParameter("features: expected ActionFeatures, like those that were published")
        law = {name: getattr(posterior, name) for name in ("mean", "factors", "supports")}
        plain = EffectPosterior(**law, features=features, window=window)
        if released == 0 and not informed:
            return plain
        return replace(plain, draws=self._drawn_from(plain, released))

    def _drawn_from(self, posterior: EffectPosterior, released: int) -> FloatArray:
        """Return every action's weights (S, K, m) under draws of the joint law; see `_spread`."""
        spread = self._spread(released)
        normals = self._coins.normal("marginals/thompson", 0, DRAWS, len(posterior.mean))
        draws = posterior.mean + spread * (self.weights(posterior, normals) - posterior.mean)
        found: FloatArray = posterior.features.of_actions(draws)  # type: ignore[union-attr]
        return self._forced(found, released)

    def choose(
        self,
        posterior: WeightPosterior | None,
        candidates: FloatArray,
        available: BoolArray | None,
        start: int,
        coins: PublicCoins,
    ) -> tuple[IntArray, FloatArray | None]:
        """Return a uniform action before any release, then that of the highest value under a public draw.

        Only actions within bounds and window are answered, as far as some of them are available.
        """
        n_sets, n = candidates.shape[:2]
        ties = coins.uniform("ties", start, start + n_sets, 1)[:, 0]
        contexts, codes = candidates[:, 0, :-1], candidates[..., -1].astype(np.int64)
        offered = self._offered(contexts, codes, available, self._window(posterior))
        if not isinstance(posterior, EffectPosterior) or posterior.draws is None:
            return uniform_choice(ties, n, offered)
        weights, base = posterior.draws, posterior.features.base
        own = self._drawn_in(start, n_sets, coins)
        scores, step = np.empty((n_sets, n)), max(1, SCORED // weights[0].size)
        for begin in range(0, n_sets, step):
            sets = slice(begin, begin + step)
            phi = base.of_known(np.ascontiguousarray(contexts[sets]))
            values = self._rule.values(np.einsum("bm,bkm->bk", phi, weights[own[sets]]))
            scores[sets] = values[np.arange(len(values))[:, None], codes[sets]]
        return best_choice(scores, ties, offered), None

    def _offered(
        self,
        contexts: FloatArray,
        codes: IntArray,
        available: BoolArray | None,
        window: Window | None,
    ) -> BoolArray | None:
        """Return which of the actions with these codes (n, k) may be answered; None for all.

        These are the `available` ones of (n, k) within bounds and window; see `Actions.offered`.
        """
        actions = self._setup.actions
        if actions.bounds is None and window is None:
            return available
        if available is None:
            within = actions.allowed(contexts, window)[np.arange(len(codes))[:, None], codes]
            some = within.any(axis=1)
            return within if some.all() else np.asarray(within | ~some[:, None])
        marked = np.zeros((len(codes), actions.n_actions), dtype=np.bool_)
        np.put_along_axis(marked, codes, available, axis=1)
        found = actions.offered(contexts, marked, window=window)
        return np.asarray(np.take_along_axis(found, codes, axis=1))

    def can_change(self) -> str | None:
        """Return the reason why actions cannot be added or retired, as text."""
        return "its actions are a grid, which is fixed"

    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """Return the guarantee of the tables, with a note on the window of actions if there is one."""
        found = super().guarantee(privacy, setting)
        if self._setup.actions.window is None:
            return found
        return replace(found, notes=(*found.notes, EXPLORED))

    def _functions(self) -> list[str]:
        found: list[str] = self._setup.actions.functions
        return found

    def foresight(self) -> Foresight | None:
        """Return None: there is no forecast for actions yet."""
        return None

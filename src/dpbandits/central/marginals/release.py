r"""Marginal tables of rewards and contexts: a kind of release for contexts and arms.

A block releases two things:

- *The law of contexts*: counts of all rounds by single columns and, with up to `PAIRED_COLUMNS` columns, by
  pairs of columns.
- *Reward tables*: the columns are divided into groups (some may be left out). For every group and arm there
  is a table with the sum of reward - b over the rounds in every cell.

The groups, the bins of a range and the centre b(x) are computed from earlier releases only. `learning`
computes the posterior from the tables.

**Sensitivity to one replaced round, in integers.** Rewards are rounded to R in 0 .. 1024, centres to beta.

- Reward tables: with q groups a round adds R - beta to one entry of each of q tables, and nothing if its
  reward does not count. Replacing it changes at most two entries per group, by |R - beta| and |R' - beta'|.
  This is 2 q c in L1, where c is the largest |R - beta|. In the first block beta = 512 and c = 512: 1024 q.
  Later beta is in 307 .. 717 and c = 717: 1434 q. (If both rounds are in one cell, its entry changes by no
  more than the sum.)
- Counts: with t tables a round adds one to one entry of each, or nothing if it was refused. The sensitivity
  is at most 2 t in L1, and sqrt(2 t) in L2. There is one table per column and, with up to `PAIRED_COLUMNS`
  columns, one per pair. So t is d or d (d + 1)/2 for any releases. A pair that a reward table holds is
  counted in its bins, which are fixed by earlier releases; t does not depend on them.

**Noise.** Let a user have k rounds. The sums have discrete Laplace noise of rate epsilon_v/(2 q c k), drawn
exactly. The counts have discrete Laplace noise of rate epsilon_x/(2 t k), or Gaussian noise calibrated to
sqrt(2 t) k at (epsilon_x, delta), whichever is smaller: a public choice.

**Promise.** epsilon_v + epsilon_x <= epsilon, as the rational numbers that these floats are. The promise is
pure if the counts' noise is Laplace.

**Proof.** Fix two neighbouring data sets that differ in one user's rounds, of which k_j fall in block j,
sum_j k_j <= k. A block's design is fixed by earlier releases, and all other users' rounds are the same given
these (the billboard argument: answers depend on releases, public coins and a user's own context). The
log-likelihood ratio of block j's sums is at most k_j 2 q c epsilon_v/(2 q c k) = epsilon_v k_j/k, and these
add up to epsilon_v along every path. Laplace counts add up to epsilon_x in the same way. Gaussian counts
change by at most sqrt(2 t) k_j in L2, whose squares add up to at most (sqrt(2 t) k)^2 along every path:
`dpbandits.privacy.noise` states what that certifies. Both noises are independent given the past, so the
losses add up (adaptive composition).  QED.

**Census.** If few rounds suffice (`CENSUS_SHARES`), the first block is a census instead. It releases a
histogram of `CENSUS_BINS` equal bins of each of r ranges, and neither sums nor counts. Its rounds are
answered at random, unless there is public data. A range that users fill only in part then gets finer bins
where users are (`dpbandits.models.marginals.census`). This is post-processing of the release.
Public data is read in equal levels, so with public data no range gets finer bins.

- Sensitivity: a round adds one to one bin of each of r histograms, or nothing if it was refused.
  Replacing it changes at most two bins per histogram by one: 2 r in L1, and 2 r k_0 if k_0 rounds of the
  user are in the census. The number of bins does not matter.
- Noise: discrete Laplace noise of rate epsilon_v/(2 r k), drawn exactly. The rate is smaller where this
  would exceed `GREATEST_RATE`, and then the loss is smaller too (`TableNoise.census_sensitivity`).
- Promise: the log-likelihood ratio of the census is at most k_0 2 r epsilon_v/(2 r k) = epsilon_v k_0/k. It
  is one more block in the sum over j above, which stays at most epsilon_v, as sum_j k_j <= k. Its rounds add
  nothing to the counts' loss. Every certificate without a census holds with one.

Missing and late rewards contribute zero to the sums, and refused rounds to both. Every round belongs to the
block of its ask.

**Arms that come and go.** A block has tables for the arms that were offered in it, a set that is fixed
before its release by public announcements and round numbers (`dpbandits.central.arm_changes`).

- Sensitivity: a round still adds R - beta to one entry of each of q tables, in the rows of its own arm, or
  nothing if the block has no table for that arm. Replacing it changes at most two entries per group: 2 q c,
  whatever the number of arms, and whether the two rounds have the same arm. Counts do not hold arms.
- Promise: noise, epsilon and the sum over blocks j are as above for any sequence of sets of arms, and for
  blocks that an announcement plans anew (`arm_changes` has the argument). A change of arms makes no release
  of its own, charges nothing and returns nothing.
- A retired arm has no table, hence no noise, in blocks after the last one in which it was offered. Rewards
  of its open rounds enter the block of their ask, like any other reward.
- What is assumed: an announcement depends on releases and public facts, and on no private data. It is then
  one more public choice, like the design, that the adversary of the proof may make between blocks.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpbandits._memory import FLOAT, check_fits
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arm_changes import ArmHistory
from dpbandits.central.foresight import TYPICAL_VARIANCE, Foresight, expected_correlation
from dpbandits.central.kinds import BlockRows, Findings, Kind, Past, ScheduleSize, Setup
from dpbandits.central.marginals.learning import (
    CENTRES,
    DRAWS,
    LATER_VARIANCE,
    SAMPLE,
    SCORED,
    VARIANCE,
    Belief,
    BlockReader,
    EffectPosterior,
    Heard,
    effect_features,
    forced_draws,
    forecast,
)
from dpbandits.central.marginals.noise import TableNoise
from dpbandits.central.marginals.statement import marginals_guarantee
from dpbandits.central.schedule import (
    check_boundaries,
    fading_blocks,
    growing_blocks,
    planned_anew,
    short_blocks,
)
from dpbandits.central.statement import Setting
from dpbandits.domains import Arms, Product
from dpbandits.errors import CorruptState, InvalidParameter, ProtocolError
from dpbandits.models.features import ArmFeatures, Features
from dpbandits.models.forgetting import kept_after
from dpbandits.models.marginals import (
    CENSUS_BINS,
    COLUMN_VARIANCE,
    MOST_CELLS,
    ArmWeights,
    Cuts,
    Design,
    EffectFeatures,
    Effects,
    Evidence,
    Law,
    best_design,
    columns_in_turn,
    cuts_of,
    variances_to_choose_by,
)
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.models.marginals.law import LOCATED
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import PublicCoins, best_choice, uniform_choice
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.tables import Products

__all__ = ["Drawn", "MarginalPast", "MarginalRelease", "Planned", "Read", "centre_of"]

UNITS = 1024
"""Number of parts of the reward range to which rewards and centres are rounded."""

FIRST_SHARES, PEOPLE_AN_ARM = (0.03, 0.15, 1.0 / 3.0), 90.0
"""Bounds of the first block: shares of the horizon, and users per arm at epsilon 1.

The block has `PEOPLE_AN_ARM` users per arm, or more if epsilon is small, but then at most the second share
of the horizon. In any case it has at least the first share and at most the third.
"""

GROWTH, LAST_SHARE = 1.4, 0.9
"""Ratio of the lengths of consecutive blocks, and share of the horizon after which there is no release."""

ALARM, FEW_READ = 1.0 / 30_000.0, 0.9
"""Thresholds of the diagnostics' warning about unreadable contexts.

The warning appears if the share of readable contexts is below the second number by more than noise explains.
Noise alone causes it with at most the first probability.
"""

FEW = (
    "The released counts show readable contexts in about {read:.0%} of the rounds. The other rounds are "
    "refused. Check refused decisions, and the ranges and categories of the schema."
)

PAIRED_COLUMNS = 5
"""Largest number of columns with which pairs of columns are counted, in addition to single columns.

With more columns, the noise that all pairs need cost more reward than the pairs gained, on tuning tables:
`python -m reproduction.tuning.releases --only pairs`.
"""

SPREAD_POWER = 1.0
"""Exponent of the share of later releases, in the factor on deviations of Thompson sampling.

With 0 deviations stay the same to the end. `python -m reproduction.tuning.releases --only "marginals: draws
towards the end"` compares exponents.
"""

CENSUS_SHARES, CENSUS_PEOPLE = (0.005, 0.04), (54.0, 216.0)
"""Bounds of a census: shares of the horizon, and users per range at epsilon 1 and one round per user.

The numbers of users are multiplied by the number of ranges and by the rounds of a user over epsilon. A
census has at least the first number of users. It has up to the second number, as far as the first share of
the horizon allows. By default there is no census if the first number exceeds the second share of the
horizon. `python -m reproduction.tuning.releases --only census` compares both pairs with others.
"""

FEWEST_COUNTED = 18.0
"""Smallest number of users in a default census; fewer users may be in one window by chance."""

SQUARES = 7
"""Number of matrices of all arms' weights in memory during a release: three stored, four for computation."""

FORCED = 1_000.0
"""Amount added to a new arm's reward, in widths of the range, in the draws that give its minimum share."""

OPEN_ENDED_FIRST = 1_000
"""Number of rounds of the first block if the horizon is not known."""


class Planned(NamedTuple):
    """Public design of a block, made when it closes.

    Attributes:
        tables: Groups of columns of the reward tables, and their bins.
        centre: Weights (K, m) from which the centre is computed: b(x) is the largest of the arms' means.
            None if b = 1/2.
        base: Features of a context that belong to the weights.
    """

    tables: Design
    centre: FloatArray | None
    base: EffectFeatures


class Drawn(NamedTuple):
    """A block's release: design (2, d), noisy sums (K, C) in `UNITS`, noisy counts, and True if b = 1/2.

    K counts the arms that were offered in the block, or bins of arms. `alone` has the noisy sums of every arm
    over all contexts, if there is such a table.
    """

    design: IntArray
    sums: IntArray
    counts: IntArray
    plain: bool
    alone: IntArray | None = None

    @property
    def arrays(self) -> dict[str, IntArray]:
        """Arrays by name, without `plain`."""
        found = {"design": self.design, "sums": self.sums, "counts": self.counts}
        return found if self.alone is None else found | {"alone": self.alone}


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class MarginalPast(Past):
    """Earlier releases. Nothing here is secret, as later releases use no raw data of earlier blocks."""

    blocks: tuple[Drawn, ...]
    census: IntArray | None = None

    @property
    def count(self) -> int:
        """Number of blocks released."""
        return len(self.every)

    @property
    def every(self) -> tuple["IntArray | Drawn", ...]:
        """Releases in order: the noisy counts (r, B) of a census if there was one, then the tables."""
        return self.blocks if self.census is None else (self.census, *self.blocks)

    def released(self, count: int) -> IntArray:
        """Return the census if there is one, then sums and counts of the other blocks, in order."""
        parts = [
            array.ravel()
            for one in self.every[:count]
            for array in (list(one.arrays.values())[1:] if isinstance(one, Drawn) else [one])
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *parts])

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of a saved state, by name."""
        named: dict[str, np.ndarray[Any, Any]] = {
            "marginals": np.array([one.plain for one in self.blocks], dtype=np.bool_)
        }
        for number, one in enumerate(self.blocks):
            named |= {f"{name}_{number}": array for name, array in one.arrays.items()}
        return named if self.census is None else named | {"census": self.census}


class Read(NamedTuple):
    """Release, the belief after it and its posterior, which only the last release keeps."""

    drawn: "Drawn | IntArray | None"
    belief: Belief
    posterior: EffectPosterior | None

    @property
    def answers(self) -> "Read":
        """Return a copy without evidence and posterior, which later releases do not need."""
        nothing = Evidence.none(len(self.belief.mean), 0)
        return self._replace(belief=replace(self.belief, evidence=nothing), posterior=None)


class MarginalRelease(Kind[Planned, MarginalPast]):
    """Kind of release: marginal tables with Laplace noise; see the module.

    If the interactions of all columns do not fit (see `Effects.all_pairs_fit`), an interaction is learned
    only after a table with both of its columns was released. The attribute `features` then has the features
    before any release.

    Args:
        setup: Public arguments of the policy, with contexts and arms, or a product domain of such rows.

    Raises:
        InvalidParameter: There is a kernel, there are other features or public decision sets, or candidates
            are not contexts followed by an arm.
    """

    name = "marginals"
    draws_every_round = False

    _alone = False
    """True if every block also has a table of every arm's rounds, whatever their contexts."""

    def __init__(self, setup: Setup) -> None:
        domain = setup.domain
        if not isinstance(domain, Product) or len(domain.parts) < 2 or not isinstance(domain.parts[-1], Arms):
            raise InvalidParameter("release='marginals' is for contexts and arms: pass contexts= and arms=")
        if setup.kernel is not None or setup.tuning.decision_sets == "public":
            raise InvalidParameter(
                "release='marginals' takes no kernel, and protects both contexts and rewards"
            )
        self.arms, self._columns = domain.parts[-1].n_arms, Product(*domain.parts[:-1])
        self.history = ArmHistory(domain.parts[-1].labels)
        levels = [part.n_arms for part in self._columns.parts if isinstance(part, Arms)]
        # Check this before the tables of components, which may not fit: the least number of weights is known.
        least = 1 + sum(levels) - len(levels)
        check_fits(FLOAT * SQUARES * self.arms * least**2, instead="take fewer categories or arms")
        self._setup = setup
        own = self._own_features()
        base = effect_features(own)
        if setup.tuning.features is not None and setup.tuning.features.to_config() != own.to_config():
            raise InvalidParameter("release='marginals' has its own features: leave features= out")
        self.features, effects = own, base.effects
        self.law = Law(effects.sizes, effects.ordered, paired=len(effects.sizes) <= PAIRED_COLUMNS)
        self.reader = self._own_reader(effects)
        self._ranges = np.flatnonzero(effects.ordered)
        given = setup.tuning.blocks
        first = self._census_people() if given is None else 0
        self.blocks = self._own_blocks(first) if given is None else check_boundaries(given, setup.longest)
        self._first_blocks = self.blocks
        self._census = bool(first) if given is None else bool(setup.tuning.census)
        self._check_census()
        self.counted_first = int(self._census)
        self.tuning = self.filled(setup.tuning, blocks=self.blocks, factor=None, census=self._census)
        self.noise = setup.noise
        self.shares = self._planned_noise()  # raises here, and not at a release, if no noise fits the promise
        self._chain: list[Read] = []
        self._public: tuple[FloatArray, FloatArray] | None = None
        self._informed: tuple[tuple[FloatArray, FloatArray], Read] | None = None
        self._known_features: dict[Any, Any] = {(base.pairs, None, self.arms): own}
        self._coins = PublicCoins(setup.seed)
        self.shares.sum_rate(self._sum_sensitivity(self._columns.dim, first=False))

    def _own_features(self) -> Features:
        base = EffectFeatures(domain=self._columns)
        if not base.effects.all_pairs_fit(self.arms):
            base = EffectFeatures(domain=self._columns, pairs=())
        return ArmFeatures(base=base, arm_column=self._columns.dim, n_arms=self.arms)

    def _own_reader(self, effects: Effects) -> Any:
        return BlockReader(effects, self.law, self.arms)

    def _rows(self, block: int) -> IntArray:
        if not self.history.changes:
            return np.arange(self.arms)
        rows, held = np.full(len(self.history.labels), -1, dtype=np.int64), self._offered_in(block)
        rows[held] = np.arange(len(held))
        return rows

    def _offered_in(self, block: int) -> IntArray:
        """Return the codes of the arms that were offered to some round of a block, a public fact."""
        delay = self.tuning.reporting_delay
        late = self.tuning.lag + (0 if isinstance(delay, timedelta) else delay)
        start, end = (0, *self.blocks)[block : block + 2]
        changed = [boundary + late for boundary in self.blocks]
        versions = range(bisect_right(changed, start), bisect_right(changed, end - 1) + 1)
        return np.unique(np.concatenate([self.history.offered(one) for one in versions]))

    def can_change(self) -> str | None:
        """Return None if arms may be added and retired, or else the reason why not."""
        if isinstance(self.tuning.reporting_delay, timedelta):
            return "its releases wait for a time (reporting_delay), and arms change at a number of rounds"
        return None

    def know(self, history: ArmHistory) -> None:
        """Take over changes of arms, with the blocks that they plan."""
        blocks = history.planned(self._first_blocks)
        if blocks[-1] > self._setup.longest:
            raise CorruptState("a change of arms plans blocks after the horizon")
        self.history, self.blocks = history, blocks

    def planned_anew(self, asked: int, most: int) -> tuple[int, ...]:
        """Return the ends of blocks of `most` rounds after `asked` rounds; none if noise is not for them."""
        setup, most = self._setup, max(most, self.rounds(int(self._census)))
        if setup.horizon is None or setup.privacy.rounds_per_user > self.shares.releases:
            return ()
        return planned_anew(self.blocks, asked, most=most, horizon=setup.horizon, last_share=LAST_SHARE)

    def _census_people(self) -> int:
        """Return the number of rounds of the default census, a public number; 0 for none."""
        setup = self._setup
        if setup.tuning.census is False or setup.horizon is None or setup.tuning.forget is not None:
            return 0
        if not len(self._ranges):
            return 0
        privacy = setup.privacy
        unit = len(self._ranges) * privacy.rounds_per_user / privacy.epsilon
        least, enough = (max(people * unit, FEWEST_COUNTED) for people in CENSUS_PEOPLE)
        cheap, most = (share * setup.horizon for share in CENSUS_SHARES)
        return int(np.ceil(max(least, min(enough, cheap)))) if least <= most else 0

    def _own_blocks(self, census: int) -> tuple[int, ...]:
        rounds = self._setup.longest - census
        forget, longest = self._setup.tuning.forget, self._setup.tuning.longest_block
        if self._setup.horizon is None:
            ends = growing_blocks(rounds, first=OPEN_ENDED_FIRST, growth=GROWTH, last_share=1.0)
            return short_blocks(fading_blocks(ends, forget, longest=rounds), longest, longest=rounds)
        wanted = PEOPLE_AN_ARM * self.arms
        ends = self._grown(rounds, wanted, shares=FIRST_SHARES, growth=GROWTH, last_share=LAST_SHARE)
        return (census, *(census + end for end in ends)) if census else ends

    def _grown(
        self, rounds: int, wanted: float, *, shares: tuple[float, ...], growth: float, last_share: float
    ) -> tuple[int, ...]:
        """Return the ends of growing blocks, cut as `forget` and `longest_block` ask.

        Args:
            rounds: Number of rounds to divide.
            wanted: Users in the first block at epsilon 1.
            shares: Least and largest part of the rounds in the first block, and a cap that overrules both.
            growth: Factor from one block to the next.
            last_share: Part of the rounds after which no release is made.
        """
        tuning = self._setup.tuning
        least, most, cap = (share * rounds for share in shares)
        people = wanted / min(1.0, self._setup.privacy.epsilon) ** 0.5
        first = max(1, int(min(max(least, min(most, people)), cap)))
        ends = growing_blocks(rounds, first=first, growth=growth, last_share=last_share)
        ends = fading_blocks(ends, tuning.forget, longest=rounds)
        return short_blocks(ends, tuning.longest_block, longest=max(ends[-1], int(last_share * rounds)))

    def _check_census(self) -> None:
        setup = self._setup
        if (setup.tuning.census and not self._census) or (
            self._census
            and (
                not len(self._ranges)
                or len(self.blocks) < 2
                or setup.horizon is None
                or setup.tuning.forget is not None
            )
        ):
            raise InvalidParameter(
                "census: needs ranges, a known horizon, no forget, and another block after it; "
                "without blocks= it takes at most 4% of the horizon"
            )

    def bytes_needed(self) -> float:
        """Estimate memory in bytes; it is linear in arms and quadratic in the expected weights of one."""
        held, arms = ScheduleSize.of(self.blocks, self._setup), len(self.history.labels)
        m = self._expected_weights(self.blocks[: held.blocks])
        square, drawn, cells = arms * m**2, DRAWS * arms * m, MOST_CELLS // 2
        kept = held.blocks * (drawn + self.law.most_cells + arms * cells) + 2 * drawn
        scored = min(SCORED, SAMPLE * DRAWS * arms)
        reading = SAMPLE * (2 * m + 2 * arms) + 2 * scored + cells * (2 * m + 3 * cells)
        locating = 3 * LOCATED * len(self.law.tables) + 4 * held.longest * self._columns.dim
        return FLOAT * (kept + max(SQUARES * square, 4 * square + reading, 3 * square + locating)) + held.book

    def _expected_weights(self, blocks: tuple[int, ...]) -> int:
        """Return the expected number m of weights per arm after these blocks."""
        effects: Effects = self.reader.effects
        if effects.pairs is None:
            return effects.n_weights
        return forecast(
            effects.sizes,
            effects.ordered,
            tuple((np.diff((0, *blocks))[int(self._census) :] / self.arms).tolist()),
            tuple(self._noise_variance(1, first=first) for first in (True, False)),
        )

    # -- noise ----------------------------------------------------------------------------------

    def _largest(self, *, first: bool) -> int:
        """Return c, the largest |R - beta|, in `UNITS`."""
        return UNITS // 2 if first else UNITS - _rounded(CENTRES[0])

    def _sum_sensitivity(self, groups: int, *, first: bool) -> int:
        return (groups + int(self._alone)) * self._table_sensitivity(first=first)

    def _table_sensitivity(self, *, first: bool) -> int:
        return 2 * self._largest(first=first) * self._setup.privacy.rounds_per_user

    def _noise_variance(self, groups: int, *, first: bool) -> float:
        """Return the noise variance of an entry of the sums, in squared widths of the reward range."""
        scale = self._sum_sensitivity(groups, first=first) / (UNITS * self.shares.sum_epsilon)
        return 2.0 * scale**2

    def _planned_noise(self) -> TableNoise:
        law = self.law
        return TableNoise.planned(
            self._setup.privacy,
            self.noise,
            tables=len(law.tables),
            cells=law.most_cells,
            releases=len(self.blocks) - self._census,
        )

    @property
    def certificate(self) -> Certificate:
        """Certificate of all releases together."""
        return self.shares.certificate

    def record(self, *, first: bool = False) -> MechanismRecord:
        """Return the counts' noise with all certificates; if `first`, with the first number of blocks."""
        record, blocks = self.shares.record(), self._first_blocks if first else self.blocks
        name = "a census of ranges, then marginal tables" if self._census else record.name
        return replace(record, name=name, releases=len(blocks))

    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """Return the joint DP guarantee, which is pure if the counts' noise is Laplace."""
        sums, counts = replace(self.shares, releases=len(self.blocks) - self._census).records()
        moved, plain = (self._table_sensitivity(first=first) for first in (False, True))
        records = [
            replace(
                sums,
                step=moved / UNITS * self._setup.reward_range.width,
                shown_in="in reward units, L1, times the number of reward tables in a release; both times "
                f"{plain / moved:.3g} if rewards are centred at the middle of their range",
            ),
            counts,
        ]
        if self._census:
            records.insert(0, self.shares.census_record(len(self._ranges)))
        return marginals_guarantee(
            privacy,
            records,
            certificate=self.certificate,
            setting=setting,
            census=self._census,
            functions=self._functions(),
            products=isinstance(self._setup.actions, Products),
        )

    def _functions(self) -> list[str]:
        return []

    # -- a release ------------------------------------------------------------------------------

    def nothing(self) -> MarginalPast:
        """Return the past before any release."""
        return MarginalPast(blocks=())

    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> Planned:
        """Return the tables that are expected to be most informative, and the centre, from the posterior."""
        law = self.prior if posterior is None else posterior
        base = effect_features(self.features_of(law))
        variances = np.array([(own**2).sum(axis=1) for own in law.factors]) / base.ratio**2
        people, first = self.rounds(block), self.says_nothing(posterior)
        variance, relevance = variances.mean(axis=0), getattr(law, "relevance", None)
        if relevance is not None:
            variance = variances_to_choose_by(base.effects, relevance, variance)
        tables = best_design(
            base.effects,
            variance=variance,
            people=people / len(law.factors),
            noise_variance=lambda groups: self._noise_variance(groups, first=first),
            reward_variance=VARIANCE if first else LATER_VARIANCE,
        )
        centre = None if posterior is None or first else posterior.mean.reshape(len(law.factors), -1)
        return Planned(tables, centre, base)

    def draw(self, block: int, rows: BlockRows, design: Planned, past: MarginalPast) -> MarginalPast:
        """Return the past with the release of a block.

        Contexts are counted, rewards are summed in cells, and noise is added here.
        """
        if self._census and not block:
            return MarginalPast(blocks=(), census=self._counted(rows))
        tables, plain = design.tables, design.centre is None
        levels, codes = design.base.levels(rows.actions[:, :-1]), rows.actions[:, -1].astype(np.int64)
        counts = self._law_with(tables).counts(levels[~rows.refused])
        low, high = self._setup.reward_range.low, self._setup.reward_range.high
        told = np.clip(np.where(rows.told, rows.rewards, low), low, high)
        worth = _rounded((told - low) / (high - low)) - self._subtracted(rows.actions, design)
        rows_of = self._rows(block)
        n_rows, theirs = int(rows_of.max()) + 1, rows_of[codes]
        counted = rows.told & (theirs >= 0)
        cells = theirs[:, None] * tables.n_cells + tables.locate(levels)
        sums = np.zeros(n_rows * tables.n_cells, dtype=np.int64)
        np.add.at(sums, cells[counted], worth[counted, None])
        sensitivity = self._sum_sensitivity(len(tables.groups), first=plain)
        entries = len(sums)
        if self._alone:
            held = self._offered_in(block)
            alone = np.zeros(len(held), dtype=np.int64)
            np.add.at(alone, np.searchsorted(held, codes[counted]), worth[counted])
            sums = np.concatenate([sums, alone])
        sums += self.shares.on_sums(sensitivity, len(sums), self.noise, number=block)
        counts += self.shares.on_counts(len(counts), self.noise, number=block)
        drawn = Drawn(
            tables.to_array(),
            sums[:entries].reshape(n_rows, -1),
            counts,
            plain,
            alone=sums[entries:] if self._alone else None,
        )
        return replace(past, blocks=(*past.blocks, drawn))

    def _counted(self, rows: BlockRows) -> IntArray:
        """Return the counts (r, B) of a census with noise; refused rounds are not counted."""
        contexts = rows.actions[~rows.refused, :-1]
        bins = effect_features(self.features).bins(contexts, CENSUS_BINS)[:, self._ranges]
        counts = np.zeros((len(self._ranges), CENSUS_BINS), dtype=np.int64)
        np.add.at(counts, (np.arange(len(self._ranges)), bins), 1)
        noise = self.shares.on_census(len(self._ranges), counts.size, self.noise)
        return counts + noise.reshape(counts.shape)

    def _subtracted(self, points: FloatArray, design: Planned) -> IntArray:
        """Return beta (n,), the amounts subtracted from rewards in `UNITS`, for users' own points (n, d)."""
        return self._centre(points[:, :-1], design)

    def _centre(self, contexts: FloatArray, design: Planned) -> IntArray:
        if design.centre is None:
            return np.full(len(contexts), UNITS // 2, dtype=np.int64)
        best, step = np.empty(len(contexts)), max(1, SCORED // design.centre.size)
        for begin in range(0, len(contexts), step):
            rows = slice(begin, begin + step)
            means = 0.5 + np.einsum("nm,km->nk", design.base(contexts[rows]), design.centre)
            best[rows] = means.max(axis=1)
        return centre_of(best)

    # -- post-processing ------------------------------------------------------------------------

    def fit(self, past: MarginalPast) -> WeightPosterior | None:
        """Return the posterior of the weights after all these releases. Each block is read once."""
        return self.believed(past, None)

    def believed(
        self, past: MarginalPast, public: tuple[FloatArray, FloatArray] | None
    ) -> WeightPosterior | None:
        """Return the posterior after these releases and public data, with which users were answered, too."""
        if public is not self._public:
            self._public, self._chain = public, []
        every, cuts = past.every, self._cuts(past, public)
        known = [link for link, now in zip(self._chain, every, strict=False) if link.drawn is now]
        if known and known[-1].posterior is None:  # the caller passes an earlier past than the last time
            known = []
        beginning = self._beginning
        for number in range(len(known), past.count):
            beliefs = [beginning.belief, *(link.belief for link in known)]
            one = every[number]
            if isinstance(one, Drawn):
                told = self._with_arms(number + 1, *self._after(number, one, beliefs))
                found = self._answering(one, *told, released=number + 1, cuts=cuts)
            else:
                found = self._counted_only(one, beginning, cuts)
            known = [*(link.answers for link in known), found]
        self._chain = known
        return known[-1].posterior if known else beginning.posterior

    def _with_arms(self, version: int, belief: Any, weights: Any) -> tuple[Any, Any]:
        """Return belief and posterior with the arms of a version, which follows that many releases."""
        if not self.history.changes:
            return belief, weights
        likes = [
            None if one.like is None else self.history.code(one.like) for one in self.history.added(version)
        ]
        found: tuple[Any, Any] = self.reader.joined(belief, weights, likes, self.history.offered(version))
        return found

    def _cuts(self, past: MarginalPast, public: tuple[FloatArray, FloatArray] | None) -> Cuts | None:
        """Return the inner ends of levels from a census.

        Return None if there is no census, if there is `public` data, or if no column has a window.
        """
        if past.census is None or public is not None:
            return None
        scale = self.shares.census_sensitivity(len(self._ranges)) / self.shares.sum_epsilon
        effects = effect_features(self.features).effects
        found = cuts_of(
            past.census.astype(np.float64),
            people=self.rounds(0),
            sd=float(np.sqrt(2.0)) * scale,
            levels=effects.sizes[int(self._ranges[0])],
        )
        by_column = dict(zip(self._ranges.tolist(), found, strict=True))
        return tuple(by_column.get(j, ()) for j in range(len(effects.sizes))) if any(found) else None

    def _counted_only(self, census: IntArray, beginning: Read, cuts: Cuts | None) -> Read:
        """Return the reading of a census: the belief before the census, in the levels of the given cuts."""
        if beginning.posterior is not None:
            return beginning._replace(drawn=census)
        belief, weights = self.reader.beginning()
        return Read(census, beginning.belief, self._law(belief.effects, weights, cuts))

    def says_nothing(self, posterior: WeightPosterior | None) -> bool:
        """Return True if there was no release of rewards; a census alone has no rewards."""
        return not isinstance(posterior, EffectPosterior) or posterior.draws is None

    @cached_property
    def _plain(self) -> Read:
        """Belief before any release and without public data, with which arms are drawn uniformly."""
        return Read(None, self.reader.beginning()[0], None)

    @property
    def _beginning(self) -> Read:
        if self._public is None:
            return self._plain
        if self._informed is None or self._informed[0] is not self._public:
            nothing, own = self._plain.belief, self.features
            ratio = own.ratio if isinstance(own, ActionFeatures) else effect_features(own).ratio
            shape = nothing.evidence.shift.shape
            gram = self._public[0].reshape(*shape, shape[1])
            vector = ratio * self._public[1].reshape(shape)
            evidence = Evidence(ratio[:, None] * ratio * gram / VARIANCE, vector / VARIANCE)
            self._informed = (self._public, self._answering(None, *self.reader.given(nothing, evidence)))
        return self._informed[1]

    def _spread(self, released: int) -> float:
        """Return the public factor on the draws' deviations after this many releases.

        Exploration helps only through later releases, so the factor falls with their number. It is 0 after
        the last release, when every user gets the arm of the largest mean. It is always 1 with discounting
        (`forget`) or an unknown horizon, for which no release is known to be the last.
        """
        if self._setup.horizon is None or self.tuning.forget is not None:
            return 1.0
        of_rewards = len(self.history.planned(self._first_blocks, released)) - self._census
        return float((1.0 - max(0, released - self._census) / of_rewards) ** SPREAD_POWER)

    def _answering(
        self,
        drawn: Drawn | None,
        belief: Belief,
        weights: ArmWeights,
        *,
        released: int = 0,
        cuts: Cuts | None = None,
    ) -> Read:
        posterior = self._law(belief.effects, weights.of_arms(belief.codes), cuts)
        draws = self._drawn_from(posterior, released)
        answering = replace(belief, draws=draws / effect_features(posterior.features).ratio)
        return Read(drawn, answering, replace(posterior, draws=draws))

    def answering(
        self, posterior: WeightPosterior, features: Features, *, released: int, informed: bool = False
    ) -> EffectPosterior:
        """Return the posterior with its public draws, which are not part of the publication."""
        if not isinstance(features, ArmFeatures):
            raise InvalidParameter("features: expected ArmFeatures, like those that were published")
        law = {name: getattr(posterior, name) for name in ("mean", "factors", "supports")}
        plain = EffectPosterior(**law, features=features)
        if released <= self._census and not informed:
            return plain  # no rewards were released, and arms are drawn uniformly
        return replace(plain, draws=self._drawn_from(plain, released))

    def _drawn_from(self, posterior: EffectPosterior, released: int) -> FloatArray:
        """Return Thompson weights (S, K, m) from public coins, with deviations times `_spread`.

        A new arm is the best one in a share of the draws that is its minimum, rounded up to whole draws. The
        last release ends minimums of new arms, because no later release would learn from them.
        """
        spread, codes = self._spread(released), self.history.offered(released)
        normals = self._normals(codes, len(posterior.mean) // len(codes))
        draws = posterior.mean + spread * (self.weights(posterior, normals) - posterior.mean)
        return self._forced(draws.reshape(DRAWS, len(codes), -1), released)

    def _forced(self, draws: FloatArray, released: int) -> FloatArray:
        """Return Thompson weights (S, k, m) in which an arm is the best in its minimum share of draws."""
        codes, ratio, taken = self.history.offered(released), effect_features(self.features).ratio[0], 0
        new = self.history.minimums(released) if self._spread(released) > 0.0 else []
        kept = [(self.history.code(label), share) for label, share in self._setup.minimum.items()]
        for code, share in (*kept, *new):
            end = taken + forced_draws(share)
            draws[taken:end, np.searchsorted(codes, code), 0] += FORCED * ratio
            taken = end
        return draws

    def _normals(self, codes: IntArray, weights: int) -> FloatArray:
        """Return public standard normals (S, k `weights`) for the k arms with these codes.

        Each added arm has its own random stream, so that the draws of other arms do not depend on it.
        """
        first = self._coins.normal("marginals/thompson", 0, DRAWS, self.arms * weights)
        if not self.history.changes:
            return first
        old = first.reshape(DRAWS, self.arms, weights)
        own = [
            old[:, code]
            if code < self.arms
            else self._coins.normal(f"marginals/thompson/{code}", 0, DRAWS, weights)
            for code in codes.tolist()
        ]
        return np.concatenate(own, axis=1)

    def _after(self, number: int, one: Drawn, beliefs: list[Any]) -> tuple[Any, Any]:
        told, answered = self._heard(number, one, beliefs)
        found: tuple[Any, Any] = self.reader.after(
            beliefs[-1],
            told,
            answered=answered,
            uniforms=self._people_coins(len(told.design.sizes)),
            kept=float(kept_after(told.people / self._setup.learning_share, self.tuning.forget)),
        )
        return found

    def _people_coins(self, columns: int) -> FloatArray:
        return self._coins.uniform("marginals/people", 0, SAMPLE, 2 * columns)

    def _heard(self, number: int, one: Drawn, beliefs: list[Any]) -> tuple[Heard, list[tuple[float, Any]]]:
        start, end = (0, *self.blocks)[number : number + 2]
        tables = self._tables(one)
        scale = self._sum_sensitivity(len(tables.groups), first=one.plain) / (UNITS * self.shares.sum_epsilon)
        told = Heard(
            people=self.rounds(number),
            design=tables,
            sums=one.sums / UNITS,
            sum_sd=float(np.sqrt(2.0)) * scale,
            counts=one.counts.astype(np.float64),
            count_sd=self.shares.sd,
            arms=self._offered_in(number) if self.history.changes else None,
            alone=None if one.alone is None else one.alone / UNITS,
        )
        # Shares of the block's rounds by the belief that answered them. A delay in time is no number of
        # rounds; the few rounds during it are assumed to have been answered by the later belief.
        delay = self.tuning.reporting_delay
        late = self.tuning.lag + (0 if isinstance(delay, timedelta) else delay)
        edges = np.clip([0, *(begin + late for begin in self.blocks[:number]), end], start, end)
        shares = np.diff(edges) / (end - start)
        answered = [
            (float(share), belief) for share, belief in zip(shares, beliefs, strict=True) if share > 0.0
        ]
        return told, answered

    def _law_with(self, tables: Design) -> Law:
        return replace(self.law, design=tables)

    def _tables(self, one: Drawn) -> Design:
        return Design.of_array(self.reader.effects.sizes, one.design)

    def _law(self, effects: Effects, weights: ArmWeights, cuts: Cuts | None = None) -> EffectPosterior:
        arms = len(weights.mean)
        features = self._known_features.get((effects.pairs, cuts, arms))
        if features is None:
            base = EffectFeatures(domain=self._columns, pairs=effects.pairs, cuts=cuts)
            features = ArmFeatures(base=base, arm_column=self._columns.dim, n_arms=arms)
            self._known_features[effects.pairs, cuts, arms] = features
        law = EffectPosterior.of_arms(weights.mean, weights.factor, features)
        return replace(law, relevance=weights.relevance)

    @property
    def prior(self) -> EffectPosterior:
        """Prior of the weights."""
        belief, weights = self.reader.beginning()
        return self._law(belief.effects, weights)

    def features_of(self, posterior: WeightPosterior) -> Features:
        """Return the posterior's features, which include interactions of columns in released tables."""
        return posterior.features if isinstance(posterior, EffectPosterior) else self.features

    def choose(
        self,
        posterior: WeightPosterior | None,
        candidates: FloatArray,
        available: BoolArray | None,
        start: int,
        coins: PublicCoins,
    ) -> tuple[IntArray, FloatArray | None]:
        """Choose arms uniformly before any release, later the best arm under one of `DRAWS` public draws.

        A public coin selects the draw for each user. With a known horizon, draws come closer to the mean
        with every release; see `_spread`.
        """
        n_sets, n = candidates.shape[:2]
        ties = coins.uniform("ties", start, start + n_sets, 1)[:, 0]
        if not isinstance(posterior, EffectPosterior) or posterior.draws is None:
            return uniform_choice(ties, n, available)
        weights, base = posterior.draws, posterior.features.base
        own = self._drawn_in(start, n_sets, coins)
        contexts, codes = candidates[..., :-1], candidates[..., -1].astype(np.int64)
        if (contexts == contexts[:, :1]).all():  # one context per set, the same for all arms
            contexts = contexts[:, :1]
        scores, step = np.empty((n_sets, n)), max(1, SCORED // (n * weights.shape[2]))
        for begin in range(0, n_sets, step):
            sets = slice(begin, begin + step)
            theirs = weights[own[sets, None], codes[sets]]
            phi = np.broadcast_to(base.of_known(contexts[sets]), theirs.shape)
            np.einsum("bnm,bnm->bn", phi, theirs, out=scores[sets])
        return best_choice(scores, ties, available), None

    def draws_for(self, posterior: WeightPosterior, start: int, count: int, coins: PublicCoins) -> FloatArray:
        """Return the public draws (count, K m) by which rounds from `start` on are answered.

        Raises:
            ProtocolError: Nothing was released, and arms are drawn uniformly.
        """
        weights = posterior.draws if isinstance(posterior, EffectPosterior) else None
        if weights is None:
            raise ProtocolError("public_draws: nothing was released, and arms are drawn uniformly")
        return weights[self._drawn_in(start, count, coins)].reshape(count, -1)

    def _drawn_in(self, start: int, count: int, coins: PublicCoins) -> IntArray:
        """Return the indices (count,) of the draws that public coins select for rounds from `start` on."""
        return (coins.uniform("marginals/draw", start, start + count, 1)[:, 0] * DRAWS).astype(np.int64)

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers about the noise."""
        return {"count_noise_sd": self.shares.sd, "tables_of_counts": len(self.law.tables)}

    def foresight(self) -> Foresight | None:
        """Return a forecast for a reward function that has main effects of all columns only.

        It assumes that columns are equally important, that effects differ between arms, that arms have equal
        mean levels, and that they are chosen equally often. It is None if no column has two levels.
        """
        squares, information = columns_in_turn(
            self.reader.effects,
            variance=COLUMN_VARIANCE,
            people=self._setup.learning_share * np.diff((0, *self.blocks))[int(self._census) :] / self.arms,
            noise_variance=lambda groups: self._noise_variance(groups, first=False),
            reward_variance=VARIANCE,
        )
        if not len(squares):
            return None
        correlation = expected_correlation(
            squares,
            np.zeros_like(squares),
            error=1.0 / np.maximum(information, 1e-100),
            prior_variance=COLUMN_VARIANCE,
            typical=TYPICAL_VARIANCE / float(squares.sum()),
            arms=self.arms,
        )
        return Foresight(correlation, 1.0)

    def findings(self, past: MarginalPast, count: int) -> Findings:
        """Return the share of readable contexts, estimated from released counts; warn if it is small."""
        tables = past.blocks[: max(0, count - self._census)]
        if not tables or not self.law.tables:
            return Findings({}, [])
        rounds, read, weights = sum(map(self.rounds, range(self._census, count))), 0.0, []
        for one in tables:  # each table of a block counts all of its rounds
            cells = np.array(self._law_with(self._tables(one)).cells)
            weights.append(np.repeat(1.0 / cells, cells) / ((1.0 / cells).sum() * rounds))
            read += float(weights[-1] @ one.counts)
        share, sd = read, self.shares.sd * float(sum((own**2).sum() for own in weights)) ** 0.5
        most = self.shares.largest_error(weights, failure=ALARM)
        found = [FEW.format(read=max(0.0, share))] if share + most < FEW_READ else []
        return Findings({"read_share": share, "read_share_sd": sd}, found)

    # -- state ----------------------------------------------------------------------------------

    def taken_up(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> MarginalPast:
        """Return the past that a state saved.

        Raises:
            CorruptState: This configuration does not write such arrays.
        """
        plain, found, census = arrays["marginals"], [], arrays.get("census")
        most = len(self.blocks) - self._census
        if plain.dtype != np.bool_ or plain.ndim != 1 or len(plain) > most:
            raise CorruptState("the saved releases contradict the saved configuration")
        if census is None:
            if self._census and len(plain):
                raise CorruptState("the census of the saved releases is missing")
        elif not self._census or census.dtype != np.int64 or census.shape != (len(self._ranges), CENSUS_BINS):
            raise CorruptState("the saved releases contradict the saved configuration")
        for number, first in enumerate(plain.tolist()):
            design, sums, counts = (arrays[f"{name}_{number}"] for name in ("design", "sums", "counts"))
            one = Drawn(design, sums, counts, first, arrays.get(f"alone_{number}"))
            tables = self._tables(one)
            if not tables.fits():
                raise CorruptState("the saved releases contradict the saved configuration")
            n_rows = int(self._rows(number + self._census).max()) + 1
            expected = (n_rows, tables.n_cells), (sum(self._law_with(tables).cells),)
            shapes = (one.sums.shape, one.counts.shape) == expected
            beside = [] if one.alone is None else [one.alone.shape]
            shapes &= beside == ([(len(self._offered_in(number)),)] if self._alone else [])
            if not shapes or any(array.dtype != np.int64 for array in one.arrays.values()):
                raise CorruptState("the saved releases contradict the saved configuration")
            found.append(one)
        return MarginalPast(blocks=tuple(found), census=census)


def centre_of(best: FloatArray) -> IntArray:
    """Return centres (n,) in `UNITS` from predicted means (n,), clipped to `CENTRES`; NaN counts as 0."""
    return np.asarray(_rounded(np.clip(np.nan_to_num(best), *CENTRES)))


def _rounded(values: Any) -> Any:
    """Return values, as shares of the reward range, rounded to integers in `UNITS`."""
    return np.rint(UNITS * np.asarray(values)).astype(np.int64)

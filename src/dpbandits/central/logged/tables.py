r"""Marginal tables of logged bandit data with contexts and arms, released once.

Public numbers decide, before any data, which tables there are: groups of columns and bins that are expected
to be most informative. Rows are only added up, on any number of machines; no row is stored.

**Contribution of a row**, in integers. The public reference is subtracted from its reward, and the difference
is divided by the public bound. If the row has a propensity p, this is multiplied by 1/(K p). The result is
clipped to [-1, 1] and rounded to a multiple of 1/U, U = 2^20.

The row adds this integer to one entry of each of q reward tables of its arm, and U to one entry of each of t
tables of counts. A row that cannot be read adds nothing.

- Counts: there is one table for each of d columns, and one for each pair of columns if their noise is small
  enough (`PAIR_ERROR`, a public choice). So t is d or d (d + 1)/2, for any bins.
- Rewards: tables may share columns (`PAIRED_NOISE`, a public choice). A row is still in one cell of each.
- Levels: rows are summed in many fine levels of a range. The release merges them into the levels of the
  tables.
- Weights, for actions with propensities alone: there is one table of weights, which
  `dpbandits.central.logged.action_tables` describes. A row adds at most an integer V <= U to one of its
  entries. V is 0 if there is no such table.
- Propensities are part of the row. The contribution to a reward table is at most U in size for every
  propensity, so sensitivities do not depend on propensities. (A wrong propensity causes bias, and so does a
  propensity so small that rewards are clipped.)

**Sensitivity.** Neighbouring data sets differ in one user's rows, of which at most k count. Which rows count
depends on the user's own rows alone where a whole table is read (`dpbandits.central.logged.plan`): replacing
the user removes at most k rows and adds at most k. Where rows arrive in parts (`Shard`), rows beyond the
horizon are dropped. Then let b be the larger of the numbers of this user's rows that count, b <= k. At most b
rows leave the log and at most b enter: the user's own, and rows of others that cross the end of the horizon.
The horizon is otherwise a public number for calibration.

- A row that leaves, or enters, changes sums and weights by at most q U + V in L1, and counts by t in L1.
- A pair of a leaving and an entering row changes the counts by at most sqrt(2 t) in L2.

In total the sensitivities are

    sums and weights: 2 (q U + V) k in L1;    counts: 2 t k in L1 and sqrt(2 t) k in L2.

The entries of a table are disjoint cells. Merging cells in any way changes none of these bounds: a row still
adds to one entry of each table.

The same rows change sums, weights and counts together, counts times an integer W, by at most
k sqrt(4 q U^2 + 2 t W^2 + 2 V^2) in L2: `VectorNoise` has the derivation.

**Noise and promise.** There are two laws. The one with less noise on the sums is used. This is a public
choice, which depends only on q, epsilon, delta and the noise source. The certificates differ, so a cost must
be that of this q, which follows from columns, arms, horizon, reward range and bound.

*Laplace.* Discrete Laplace noise of rate epsilon_v/(2 (q U + V) k) on sums and weights; on the counts
discrete Laplace noise of rate epsilon_x/(2 t k), or Gaussian noise calibrated to sqrt(2 t) k at
(epsilon_x, delta): `dpbandits.central.marginals.noise`. Both are independent, and epsilon_v + epsilon_x <=
epsilon.

*Gaussian*, with delta above 0. Noise on sums and counts as one vector, calibrated to its L2 sensitivity at
(epsilon, delta). Its deviation grows with sqrt(q), and that of Laplace noise with q.

**Order.** The counts of each single column are released first, in all fine levels. They determine the levels
of ranges in all other tables (`ends_of`), with more levels where there are more users. The sums, the weights
and the counts of pairs are released second, in these levels. So the second part is a query that depends on
the first release and on nothing else of the data. Given any first release, the L1 bounds of both parts of the
counts are 2 d k and 2 (t - d) k. Laplace noise of one rate loses at most epsilon_x d/t and epsilon_x (t -
d)/t in them, which adds up to epsilon_x on every path. With Gaussian noise the squared L2 bounds of both
parts add up to the square of the whole on every path, for counts alone as for counts and sums in one vector.
`dpbandits.privacy.noise` states what that certifies, also for releases that depend on earlier ones. The
certificate counts the entries that a user's rows change, at most 2 k in each table on every path.

Everything else is computed from the release.  QED.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import caller_level
from dpbandits._memory import FLOAT, check_fits
from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.central.logged.calibration import (
    NOTHING_TO_LEARN,
    Budget,
    ExpectedError,
    NothingToLearn,
)
from dpbandits.central.logged.contexts import RowsCounted
from dpbandits.central.logged.estimator import Plan
from dpbandits.central.logged.rows import RowRules, reference_of
from dpbandits.central.logged.sums import REWARD_UNIT
from dpbandits.central.marginals.learning import SAMPLE, VARIANCE, EffectPosterior
from dpbandits.central.marginals.noise import TableNoise, VectorNoise
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.domains import Arms, Product, RewardRange
from dpbandits.errors import CorruptState
from dpbandits.models.features import ArmFeatures, Features
from dpbandits.models.marginals import (
    BINS,
    MOST_CELLS,
    Counts,
    Design,
    EffectFeatures,
    Law,
    Relevance,
    Tables,
    WeightedPeople,
    all_pairs,
    best_design,
    coarse,
    ends_of,
    fitted_with_misfit,
    left_variances,
    shrunk_law,
    smoothed,
)
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.definitions import JointDP, warn_if_delta_large
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.tables.menu import Menu

__all__ = ["TableCalibration", "TableRelease", "TableRules", "expected_loss"]

_UNITS = round(1.0 / REWARD_UNIT)

WIDER, BIAS, BIAS_OF_MISFIT = 1.6, 0.045, 2.0
"""Constants by which the standard deviations of a published function are widened.

The posterior's deviation is multiplied by the first. A bias is added: the second, in widths of the reward
range, plus the third times the tables' misfit. The constants were chosen on tuning tables so that nineteen
of twenty expected rewards lie within two deviations.
"""

EXPECTED_SHARE = 0.5
"""Share of the prior variance used for expected errors, as functions on tuning tables are smaller by it."""

REMAINDER = 0.06
"""Standard deviation of the part of a reward function beyond main effects and pairs, for expected errors.

The unit is the width of the reward range. Chosen on tuning tables.
"""

PAIR_ERROR = 0.3
"""Largest noise at which pairs of columns are counted.

It is the deviation of a count's noise, as a share of the users in one of `PAIR_CELLS` equal cells.
"""

FEWEST_TABLES = 2
"""Smallest number of tables with which, under Gaussian noise, columns without a table get one."""

PAIR_CELLS = 16
"""Number of cells of a pair of ranges in a table of counts, with more than three columns."""

FINE_LEVELS, MOST_FINE = (768, 384, 192, 96), (1 << 20, 1 << 22)
"""Possible numbers of fine levels of a range in which rows are summed, and limits on the entries.

The largest number of levels is used with which sums and counts have at most the first limit of entries (8
MiB), or the second if tables share columns (32 MiB).
"""

PAIRED_BINS, MOST_PAIRED = (12, 8, 6, 4), 1536
"""Numbers of bins of a range if every pair of columns has a reward table; largest number of their cells.

The largest number of bins is used that noise allows.
"""

PAIRED_NOISE = 4.0
"""Largest noise with which every pair of columns has a reward table.

It is the ratio of the variance of the noise in a mean cell to that of its rewards.
"""

FINE_ERROR = 2.0
"""Largest noise with which rows are summed in fine levels.

It is the deviation of a count's noise as a share of the users in one of `BINS` equal levels. The count is
added up from fine levels.
"""

SQUARES, SQUARES_AN_ARM = 25, 8
"""Numbers of matrices of the size of an arm's weights in memory at the same time.

The first is for all arms together while tables are read; the second is for each arm when the function is
saved. Measured with five columns of 200 categories, 2 and 30 arms.
"""

EXPECTED_PEOPLE, EXPECTED_DRAWS = 400, 24
"""Numbers of simulated users and of simulated functions for expected errors."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableRelease:
    """Mechanism that releases the tables of a log, and computation of the function from them.

    Args:
        menu: Contexts and arms.
        horizon: Number N of rows.
        reward_range: Public range (low, high).
        bound: Bound of a reward's distance from the reference, in reward units.
        privacy: Promise.
        noise: Noise source.
        seed: Seed of the public coins.
        given: Tables in which rows are summed; None for the tables that are expected to be most informative.
            A state saves them, as another processor may find other tables.
    """

    menu: Menu
    horizon: int
    reward_range: RewardRange
    bound: float
    privacy: JointDP
    noise: NoiseSource
    seed: Seed
    given: Design | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidParameter` if no noise fits the promise, or the tables do not fit into memory."""
        levels = [part.n_arms for part in self.menu.domain.parts[:-1] if isinstance(part, Arms)]
        # Check this before the tables of components, which may not fit: the weights of categories are known.
        squares = SQUARES + SQUARES_AN_ARM * (self.n_rows if self.menu.actions is None else 1)
        check_fits(FLOAT * squares * sum(levels) ** 2, instead="take fewer categories or arms")
        if isinstance(self.shares, TableNoise):
            self.shares.sum_rate(self.sensitivity)

    def weight_units(self, groups: int) -> int:
        """Return the largest entry V of a row in the table of weights, for a number of reward tables.

        It is 0 if no weights are released.
        """
        return 0

    @property
    def n_weighed(self) -> int:
        """Number of entries of the table of weights: one for each row of the reward tables, or 0."""
        return self.n_rows if self.weight_units(1) else 0

    @property
    def caps(self) -> IntArray:
        """Largest size of a row's contribution to every entry, shape (1, size)."""
        caps = np.full((1, self.size), _UNITS, dtype=np.int64)
        start = self._entries(self.fine, self.design)[0]
        caps[:, start : start + self.n_weighed] = self.weight_units(len(self.design.groups))
        return caps

    @property
    def functions(self) -> list[str]:
        """Names of the public functions of actions that are applied to releases."""
        return []

    @property
    def n_alone(self) -> int:
        """Number of entries of one more table of sums, with one entry for every arm; 0 without it."""
        return 0

    def _sums(self, groups: int) -> int:
        """Return the number of tables of sums with these reward tables."""
        return groups + (self.n_alone > 0)

    def codes(self, arms: Any) -> IntArray:
        """Return the codes (n,) of logged arms, -1 for an unknown one."""
        return self.menu.cells(arms)

    @property
    def between(self) -> bool:
        """True if logged numbers may lie between the steps of a grid of actions."""
        return False

    def check_weights(self, *, given: bool) -> None:
        """Raise InvalidData if propensities are given, or not given, contrary to what is declared."""

    def even_propensity(self, codes: IntArray) -> tuple[FloatArray | float, float]:
        """Return the propensity of these arms if all were equally likely, and the largest valid one."""
        return 1.0 / self.menu.n_arms, 1.0

    # -- what is public before any data -----------------------------------------------------------

    @cached_property
    def row_of(self) -> IntArray:
        """Row (K,) of the reward tables that each arm adds to."""
        return np.arange(self.menu.n_arms)

    @property
    def n_rows(self) -> int:
        """Number of rows of a reward table."""
        return int(self.row_of.max()) + 1

    @cached_property
    def _plain_law(self) -> Law:
        """Tables of counts, before a design decides in which bins pairs are counted."""
        effects = _base(self.menu).effects
        every = Law(effects.sizes, effects.ordered)
        sds = [one.sd for one in (self._laplace(every), self._gaussian(every, 1)) if one is not None]
        return replace(every, paired=min(sds) <= PAIR_ERROR * self.horizon / PAIR_CELLS)

    def _laplace(self, law: Law) -> TableNoise:
        tables = len(law.tables)
        cells = self._touched(self._most_counted(law), tables)
        return TableNoise.planned(self.privacy, self.noise, tables=tables, cells=cells)

    def _gaussian(self, law: Law, groups: int) -> VectorNoise | None:
        tables = len(law.tables)
        weighed = self.n_weighed
        entries = self.n_rows * MOST_PAIRED + self.n_alone + weighed + self._most_counted(law)
        return VectorNoise.planned(
            self.privacy,
            self.noise,
            units=_UNITS,
            sums=groups,
            counts=tables,
            entries=self._touched(entries, groups + tables + (weighed > 0)),
            weights=self.weight_units(groups),
        )

    def _most_counted(self, law: Law) -> int:
        """Return a bound on the number of entries of counts with equal levels, for any design."""
        return law.most_cells + MOST_PAIRED - MOST_CELLS

    def _touched(self, entries: int, tables: int) -> int:
        """Return a bound on the number of entries that one user's rows change, at least `entries`.

        `entries` is the number of entries with equal levels. Each of k rows leaves an entry of every table,
        and another row enters one. Columns are counted in fine levels, so more entries than that may change.
        """
        fine = FINE_LEVELS[0] * len(_base(self.menu, pairs=()).effects.sizes)
        return max(entries, min(2 * tables * self.privacy.rounds_per_user, entries + fine))

    @cached_property
    def _laws(self) -> tuple[TableNoise, VectorNoise | None]:
        """Both kinds of noise (Laplace, Gaussian or None), the Gaussian one for a single reward table."""
        return self._laplace(self._plain_law), self._gaussian(self._plain_law, 1)

    def _variances(self, groups: int) -> tuple[float, float]:
        """Return noise variances of an entry of the sums, in squared widths, for Laplace and Gaussian noise.

        The squared sensitivity of a vector grows with the number of reward tables.
        """
        laplace, gaussian = self._laws
        weights = self.weight_units(groups) / _UNITS
        groups = self._sums(groups)
        scale = 2.0 * (groups + weights) * self.privacy.rounds_per_user * self._unit / laplace.sum_epsilon
        alone = np.inf if gaussian is None else gaussian.sigma / _UNITS * self._unit
        return 2.0 * scale**2, groups * float(alone) ** 2

    @cached_property
    def shares(self) -> TableNoise | VectorNoise:
        """Noise with the smaller variance in the sums, chosen by public numbers alone."""
        return self._shares(len(self.design.groups))

    def _shares(self, groups: int) -> TableNoise | VectorNoise:
        """Return the noise for this number of reward tables."""
        laplace, gaussian = self._variances(groups)
        vector = self._gaussian(self._plain_law, self._sums(groups)) if gaussian < laplace else None
        return self._laws[0] if vector is None else vector

    @cached_property
    def base(self) -> EffectFeatures:
        """Features of an encoded context; if not all interactions fit, only those of columns in one table."""
        every = _base(self.menu)
        if every.effects.all_pairs_fit(self.menu.n_arms):
            return every
        pairs = _base(self.menu, pairs=()).effects.with_pairs(self.design.pairs).pairs
        return _base(self.menu, pairs=pairs)

    @cached_property
    def features(self) -> Features:
        """Features of a context and an arm."""
        return self._features_of(self.base)

    def _features_of(self, base: EffectFeatures) -> Features:
        """Return the features with these of contexts, the same for every arm."""
        return ArmFeatures(base=base, arm_column=self.menu.contexts.dim, n_arms=self.menu.n_arms)

    @cached_property
    def law(self) -> Law:
        """Tables of counts; a pair of columns in a reward table is counted in the bins of that table."""
        return replace(self._plain_law, design=self.design)

    @property
    def _rows_an_arm(self) -> float:
        return self.horizon / self.menu.n_arms

    @property
    def _unit(self) -> float:
        """Bound in widths of the reward range."""
        return self.bound / self.reward_range.width

    @property
    def _variance(self) -> float:
        """Variance of one row's contribution, in squared widths of the reward range."""
        return VARIANCE * max(1.0, 2.0 * self._unit)

    def records(self) -> tuple[MechanismRecord, ...]:
        """Return every use of noise, with sums in reward units."""
        sums, *counts = self.shares.records()
        reward = self.bound / _UNITS
        if isinstance(self.shares, VectorNoise):
            person = self.shares.weight * reward
            moved, shown = (
                self.shares.sensitivity,
                f"in reward units, L2; a person counts as {person:.3g} of them",
            )
        else:
            moved, shown = self.sensitivity, "in reward units, L1 over cells"
        return replace(sums, step=moved * reward, shown_in=shown), *counts

    def _noise_variance(self, groups: int) -> float:
        """Return the noise variance of an entry of the sums for a number of tables, in squared widths.

        It is approximate for Gaussian noise: at a large epsilon and a small delta, the scale of discrete
        Gaussian noise is not quite proportional to the sensitivity. `sum_variance` is exact.
        """
        return min(self._variances(groups))

    @property
    def sum_variance(self) -> float:
        """Variance of the noise that is drawn for an entry of the sums, in squared widths."""
        if isinstance(self.shares, VectorNoise):
            return (self.shares.sigma / _UNITS * self._unit) ** 2
        return self._variances(len(self.design.groups))[0]

    @cached_property
    def design(self) -> Design:
        """Tables that are expected to explain most, or those that were `given`.

        The search assumes that all columns are equally important. It leaves out columns with many levels
        first, though the best arm may depend on one of these alone. With Gaussian noise one more table adds
        only about 1/(2 q) of the deviation, so columns without a table get one. If noise is small enough,
        every pair gets a table, since it is not known before data which ones matter.
        """
        if self.given is not None:
            return self.given
        effects = _base(self.menu, pairs=()).effects  # other pairs also have their prior variance
        found = best_design(
            effects,
            variance=Relevance.prior(effects).variances[effects.term_of],
            people=self._rows_an_arm,
            noise_variance=self._noise_variance,
            reward_variance=self._variance,
        )
        tables = len(found.groups)
        laplace, gaussian = self._variances(tables)
        if gaussian < laplace and tables >= FEWEST_TABLES:
            found = found.with_all_columns()
        return self._all_pairs(found) or found

    def _all_pairs(self, few: Design) -> Design | None:
        """Return tables of every pair of columns, in the most bins that noise allows.

        None means that noise or memory allows none, or that these are no more tables than `few`.

        The noise of a sum has variance s^2, the n rows of an arm lie in C cells of a mean table, and the
        variance of a reward is v. Noise then has s^2 C/(n v) times the variance of rewards in such a cell.

        Args:
            few: Tables otherwise. If ranges have fine levels with these, they must have some with all pairs.
        """
        effects = _base(self.menu).effects
        if not effects.all_pairs_fit(self.menu.n_arms) or not self._plain_law.paired:
            return None
        for bins in PAIRED_BINS:
            found = all_pairs(effects, bins)
            tables = len(found.groups)
            noise = self._noise_variance(tables) * found.n_cells / tables
            allowed = noise <= PAIRED_NOISE * self._variance * self._rows_an_arm
            room = tables > len(few.groups) and found.fits(MOST_PAIRED)
            sizes = self._plain_law.sizes
            fine = self._finest(found) != sizes or self._finest(few) == sizes
            if allowed and room and fine:
                return found
        return None

    @cached_property
    def fine(self) -> tuple[int, ...]:
        """Levels of each column that rows are summed in: a public choice.

        Ranges have more levels here than in the tables, if noise and memory allow.
        """
        return self._finest(self.design)

    def _finest(self, design: Design) -> tuple[int, ...]:
        """Return the levels of each column that rows are summed in with these tables."""
        law, sd = self._plain_law, self._shares(len(design.groups)).sd
        for count in FINE_LEVELS:
            sized = zip(law.sizes, law.ordered, strict=True)
            found = tuple(count if ordered else size for size, ordered in sized)
            error = sd * float(np.sqrt(count / BINS)) / (self.horizon / BINS)
            if error <= FINE_ERROR and sum(self._entries(found, design)) <= MOST_FINE[design.shared]:
                return found
        return law.sizes

    @cached_property
    def summed(self) -> tuple[Design, Design]:
        """Tables of sums, and tables of counts, in fine levels, in which rows are summed."""
        return self._tables(self.fine, self.design)

    def _tables(self, sizes: tuple[int, ...], design: Design) -> tuple[Design, Design]:
        counted = tuple(table.columns for table in self._plain_law.tables)
        return Design(sizes, sizes, design.groups), Design(sizes, sizes, counted)

    def _entries(self, sizes: tuple[int, ...], design: Design) -> tuple[int, int]:
        sums, counts = self._tables(sizes, design)
        return self.n_rows * sums.n_cells + self.n_alone, counts.n_cells

    @property
    def size(self) -> int:
        """Number of entries of all sums, weights and counts."""
        return sum(self._entries(self.fine, self.design)) + self.n_weighed

    def levels(self, points: FloatArray) -> IntArray:
        """Return fine levels (n, d) of encoded contexts (n, d)."""
        return replace(self.base.effects, sizes=self.fine).levels(self.base.shares(points))

    @property
    def sensitivity(self) -> int:
        """L1 sensitivity of sums and weights to one user's rows, in units of 1/U."""
        groups = len(self.design.groups)
        moved = self._sums(groups) * _UNITS + self.weight_units(groups)
        return 2 * moved * self.privacy.rounds_per_user

    def places(self, levels: IntArray, arms: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return the entries to which n rows add, by level and arm.

        Returns:
            Entries (n, q) of sums, or (n, q + 1) with a table of arms; (n, 1) of weights, or (n, 0) if there
            are none; and (n, t) of counts.
        """
        sums, counts = self.summed
        end = self.n_rows * sums.n_cells
        found = self.row_of[arms][:, None] * sums.n_cells + sums.locate(levels)
        if self.n_alone:
            found = np.column_stack([found, end + arms])
        end, weighed = end + self.n_alone, self.n_weighed
        weights = end + self.row_of[arms][:, None][:, : min(1, weighed)]
        return found, weights, end + weighed + counts.locate(levels)

    # -- the release ------------------------------------------------------------------------------

    def release(self, sums: IntArray) -> IntArray:
        """Return the tables with noise, given raw sums in units of 1/U and counts, (size,).

        Returns:
            The sums in the cells of the design, those of every arm if there is such a table, the weights, the
            counts of every single column in fine levels, and the counts of pairs.
        """
        shares, rows, alone = self.shares, self.n_rows, sum(self.fine)
        ends, tables = self._entries(self.fine, self.design)[0], self.law.tables[len(self.fine) :]
        weights, counts = sums[ends : ends + self.n_weighed], sums[ends + self.n_weighed :] // _UNITS
        # counts are numbers of users, as every row added U
        margins, none = counts[:alone], np.zeros(0, dtype=np.int64)
        if isinstance(shares, VectorNoise):
            margins = shares.released(none, margins, self.noise)
        else:
            margins = margins + shares.on_counts(alone, self.noise, number=0)
        levels = self._cut(margins).levels  # from here on, tables depend on the first release
        own = [(group, tuple(self.design.bins[j] for j in group)) for group in self.design.groups]
        first = ends - self.n_alone
        rewards = self._together(sums[:first].reshape(rows, -1), own, levels).ravel()
        rewards = np.concatenate([rewards, sums[first:ends], weights])
        pairs = self._together(counts[None, alone:], [(one.columns, one.bins) for one in tables], levels)[0]
        if isinstance(shares, VectorNoise):
            rest = shares.released(rewards, pairs, self.noise)
            return np.insert(rest, len(rewards), margins)
        rewards = rewards + shares.on_sums(self.sensitivity, len(rewards), self.noise, number=0)
        if len(pairs):
            pairs = pairs + shares.on_counts(len(pairs), self.noise, number=1)
        return np.concatenate([rewards, margins, pairs])

    def _together(
        self,
        sums: IntArray,
        tables: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
        levels: Sequence[IntArray],
    ) -> IntArray:
        """Return sums (r, cells) in the bins of tables, added up from sums (r, entries) in fine levels.

        Args:
            sums: Sums of the same tables in fine levels.
            tables: Columns and bins of each table.
            levels: Level to which every fine level of every column belongs.
        """
        found, start = [sums[:, :0]], 0
        for columns, bins in tables:
            cells = np.zeros(1, dtype=np.int64)
            for column, count in zip(columns, bins, strict=True):
                part = coarse(levels[column], size=self.base.effects.sizes[column], bins=count)
                cells = np.add.outer(cells * count, part).ravel()
            added = np.zeros((math.prod(bins), len(sums)), dtype=np.int64)
            np.add.at(added, cells, sums[:, start : start + len(cells)].T)
            found.append(added.T)
            start += len(cells)
        return np.concatenate(found, axis=1)

    def _cut(self, margins: IntArray) -> "_Cut":
        """Return the levels of ranges, computed from the released counts of single columns."""
        effects, apart = self.base.effects, self._apart(margins, self.fine)
        people = self._rows_counted(apart)
        ends, levels, sums, laws = [], [], [], []
        for own, size, ordered in zip(apart, effects.sizes, effects.ordered, strict=True):
            sd = self.shares.sd / people
            law = smoothed(own / people, sd=sd) if ordered else np.full(size, 1.0 / size)
            ends.append(ends_of(law, size) if ordered else np.arange(1, size))
            levels.append(np.searchsorted(ends[-1], np.arange(len(own)), side="right"))
            sums.append(np.asarray(np.bincount(levels[-1], own, minlength=size), dtype=np.float64))
            towards = np.asarray(np.bincount(levels[-1], law, minlength=size), dtype=np.float64)
            laws.append(shrunk_law(sums[-1] / people, towards, sd=sd * float(np.sqrt(len(own) / size))))
        return _Cut(ends, levels, sums, laws)

    def _apart(self, counts: IntArray, cells: Sequence[int]) -> list[FloatArray]:
        """Return the released counts of users, as one array per table."""
        weight = self.shares.weight if isinstance(self.shares, VectorNoise) else 1
        return np.split(counts / weight, np.cumsum(cells)[:-1])

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the result of `learned`: mean and factor of every arm's weights, and cuts."""
        arms, weights = self.menu.n_arms, self.base.effects.n_weights
        return (arms, weights), (arms, weights, weights), (sum(self.base.effects.ordered), BINS - 1)

    def learned(self, released: IntArray, *, reference: float, bound: float) -> tuple[FloatArray, ...]:
        """Return mean and factor of every arm's weights, and inner ends of the levels, from a release.

        The ends are shares of the ranges; see `shapes`.

        Args:
            released: Result of `release`.
            reference, bound: Reference and bound with which rows were summed.
        """
        ends = self._end_of_sums + self.n_weighed
        cut = self._cut(released[ends : ends + sum(self.fine)])
        mean, factor, *more = self._read(released, cut, reference, bound / self.reward_range.width)
        ordered = zip(cut.ends, self.fine, self.base.effects.ordered, strict=True)
        cuts = [ends / size for ends, size, is_range in ordered if is_range]
        return mean, factor, np.array(cuts).reshape(-1, BINS - 1), *more

    def few_rows(self, learned: tuple[FloatArray, ...], reference: float) -> dict[str, float] | None:
        """Return what the result of `learned` says about rarely logged actions; None if it says nothing."""
        return None

    def published(
        self, learned: tuple[FloatArray, ...], guarantee: Guarantee, *, reference: float
    ) -> PublishedPosterior:
        """Return the result of `learned` as a published function.

        Args:
            learned: Result of `learned`.
            guarantee: Guarantee of the release.
            reference: Reference with which rows were summed.

        Raises:
            InvalidParameter: The cuts are invalid.
        """
        mean, factor, cuts, *_ = learned
        base = self.base
        if self.fine != base.effects.sizes:
            left = iter(cuts.tolist())
            own = [tuple(next(left)) if ordered else () for ordered in base.effects.ordered]
            base = EffectFeatures(domain=base.domain, pairs=base.pairs, fine=True, cuts=own)
        features = self._features_of(base)
        return PublishedPosterior(
            menu=self.menu,
            domain=self.menu.domain,
            reward_range=self.reward_range,
            features=features,
            posterior=self._posterior(mean, factor, features),
            weight_variance=features.scale**2,
            guarantee=guarantee,
            few_rows=self.few_rows(learned, reference),
        )

    def _posterior(self, mean: FloatArray, factor: FloatArray, features: Any) -> EffectPosterior:
        """Return the law of the weights of `features` from the result of `_read`."""
        return EffectPosterior.of_arms(mean, factor, features)

    def _told(
        self, released: IntArray, cut: "_Cut", unit: float
    ) -> tuple[Any, float, Counts, WeightedPeople]:
        """Return sums (rows, cells) in widths of the range, the number of logged rows, counts and a sample.

        The counts are those of contexts, and the weighted sample represents all users.
        """
        rows, cells, effects = self.n_rows, self.design.n_cells, self.base.effects
        sums = released[: rows * cells].reshape(rows, cells) * (REWARD_UNIT * unit)
        columns = len(self.fine)
        ends = self._end_of_sums + self.n_weighed
        counted = self._apart(released[ends:], (*self.fine, *self.law.cells[columns:]))
        counts = np.concatenate([*cut.sums, *counted[columns:]])
        coins = PublicCoins(self.seed).uniform("usca/people", 0, 2 * SAMPLE, 2 * len(effects.sizes))
        # a Latin hypercube: every column is sampled evenly
        even = (coins.argsort(axis=0).argsort(axis=0) + 0.5) / len(coins)
        people = self._rows_counted(counted)
        told = Counts.none(effects.sizes).given(self.law, counts, people=people, sd=self.shares.sd)
        return sums, people, told, told.described(even, cut.laws)

    @property
    def _end_of_sums(self) -> int:
        """Number of entries of all sums in a release."""
        return self.n_rows * self.design.n_cells + self.n_alone

    def _read(self, released: IntArray, cut: "_Cut", reference: float, unit: float) -> tuple[FloatArray, ...]:
        """Return mean and factor of every arm's weights, with deviations that cover bias."""
        cells, effects = self.design.n_cells, self.base.effects
        sums, rows, _, sample = self._told(released, cut, unit)
        phi, given = effects(sample.levels), rows / len(sums) * sample.weights
        inside = self.design.indicators(sample.levels)
        people = np.asarray(inside @ given)
        # All arms have the same contexts here: errors of the counts cancel in differences between arms.
        level = sums.sum() / (len(self.design.groups) * rows)
        level += (reference - self.reward_range.middle) / self.reward_range.width
        tables = Tables(
            maps=np.asarray(inside @ (given[:, None] * phi)),
            sums=sums - sums.mean(axis=0) + level * people,
            covariance=self._variance * ((inside * given) @ inside.T).toarray()
            + self.sum_variance * np.eye(cells),
            people=people,
        )
        weights, misfit = fitted_with_misfit(effects, tables)
        # Effects outside the model count as an unknown constant of each arm, whose weight comes first.
        factor = weights.factor[0]  # all arms share it, as they share the tables' errors
        covariance = WIDER**2 * factor @ factor.T
        covariance[0, 0] += (BIAS + BIAS_OF_MISFIT * misfit) ** 2
        factors = np.broadcast_to(np.linalg.cholesky(covariance), weights.factor.shape)
        return weights.mean, factors

    def expected_error(self) -> ExpectedError:
        """Return the expected loss, in reward units, on random functions; no data is used."""
        effects, arms = self.base.effects, self.menu.n_arms
        coins, shape = PublicCoins(0), (EXPECTED_DRAWS, 2, arms, effects.n_weights)
        prior = EXPECTED_SHARE * Relevance.prior(effects).variances[effects.term_of]
        left = left_variances(
            effects,
            self.design,
            variance=prior,
            people=self._rows_an_arm,
            noise_variance=self.sum_variance,
            reward_variance=self._variance,
        )
        normals = coins.normal("usca/expected-tables", 0, EXPECTED_DRAWS, 2 * arms * effects.n_weights)
        normals = normals.reshape(shape)
        phi = effects(self._expected_levels())
        learned = np.sqrt(prior - left) * normals[:, 0]
        truth = learned + np.sqrt(left) * normals[:, 1]
        beyond = coins.normal("usca/expected-rest", 0, EXPECTED_DRAWS, arms * EXPECTED_PEOPLE)
        scores, means = learned @ phi.T, truth @ phi.T  # (draws, K, people)
        means = means + REMAINDER * beyond.reshape(means.shape)
        return expected_loss(self.reward_range.width * means, scores.argmax(axis=1))

    def _expected_levels(self) -> IntArray:
        """Return the levels (n, d) of public simulated users."""
        sizes = self.base.effects.sizes
        uniforms = PublicCoins(0).uniform("usca/expected-people", 0, EXPECTED_PEOPLE, len(sizes))
        return np.asarray((uniforms * np.array(sizes)).astype(np.int64))

    def _rows_counted(self, counts: Sequence[FloatArray]) -> float:
        """Return the number of rows estimated from noisy counts; the horizon unless the counts contradict it.

        A table may have more rows than the horizon.

        The counts of each table add up to the number of rows, with a noise variance in proportion to the
        number of cells. The totals are averaged with weights 1/variance.
        """
        weights = 1.0 / np.array([len(part) for part in counts])
        totals = np.array([part.sum() for part in counts])
        found, sd = float(weights @ totals / weights.sum()), self.shares.sd / float(np.sqrt(weights.sum()))
        return RowsCounted(found, sd).instead_of(self.horizon)


class _Cut(NamedTuple):
    """Levels of all columns in the tables, and the users in them.

    Attributes:
        ends: Inner ends of each column's levels, as numbers of fine levels below them.
        levels: Level to which each fine level of each column belongs.
        sums: Noisy counts of users by level.
        laws: Shares of users by level.
    """

    ends: list[IntArray]
    levels: list[IntArray]
    sums: list[FloatArray]
    laws: list[FloatArray]


def expected_loss(means: FloatArray, chosen: IntArray) -> ExpectedError:
    """Return the loss of chosen arms (draws, n) against the best ones, from true means (draws, K, n)."""
    best = means.max(axis=1)
    losses = (best - np.take_along_axis(means, chosen[:, None, :], axis=1)[:, 0]).mean(axis=1)
    random, error = (best - means.mean(axis=1)).mean(), losses.std(ddof=1) / np.sqrt(len(losses))
    return ExpectedError(float(losses.mean()), float(random), float(error))


def _base(menu: Menu, pairs: tuple[tuple[int, int], ...] | None = None) -> EffectFeatures:
    return EffectFeatures(domain=Product(*menu.domain.parts[:-1]), pairs=pairs, fine=True)


@dataclass(frozen=True, eq=False, kw_only=True)
class TableRules(RowRules):
    """Rules that add rows with contexts and arms to entries of tables.

    Args:
        tables: Mechanism that releases the tables.
    """

    tables: TableRelease

    def coded(
        self, contexts: Any, actions: Any, rewards: ArrayLike, propensities: ArrayLike | None
    ) -> tuple[IntArray, FloatArray, BoolArray]:
        """Return levels and arm (n, d + 1), increments of sums, weights and counts (n, 3), and readable rows.

        Raises:
            InvalidData: As in the base class, or propensities do not fit what is declared about the log.
        """
        self.tables.check_weights(given=propensities is not None)
        points = self.tables.menu.points(contexts)
        known: BoolArray = np.asarray(np.isfinite(points).all(axis=1))
        chosen, scaled, valued, weights = self.weighted(len(points), actions, rewards, propensities)
        levels = self.tables.levels(np.where(known[:, None], points, 0.0))
        readable: BoolArray = np.asarray(valued & known)
        added = np.where(readable[:, None], np.column_stack([scaled, self.share * weights, readable]), 0.0)
        return np.column_stack([levels, np.where(valued, chosen, 0)]), added, readable

    @property
    def share(self) -> float:
        """Entry in the table of weights, as a share of U, of a row of weight one."""
        return self.tables.weight_units(len(self.tables.design.groups)) / _UNITS / self.largest

    @property
    def largest(self) -> float:
        """Weight of a row at which the largest |reward - reference| reaches the bound."""
        return self.bound / reference_of(self.reference, self.reward_range)[1]

    def _clipped(self, weights: FloatArray) -> FloatArray:
        return np.minimum(weights, self.largest) if self.tables.n_weighed else weights

    def even(self, cells: IntArray) -> tuple[FloatArray | float, float]:
        """Return the propensity of actions in cells (n,) if all were equally likely, and the largest one."""
        return self.tables.even_propensity(cells)

    def _action_cells(self, actions: Any) -> IntArray:
        return self.tables.codes(actions)

    def entries(self, cells: IntArray, values: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return entries (n, e), one in each of e tables, and the value that is added to each."""
        places = self.tables.places(cells[:, :-1], cells[:, -1])
        return np.hstack(places), np.repeat(values, [one.shape[1] for one in places], axis=1)


@dataclass(frozen=True, eq=False)
class TableCalibration:
    """Calibration of one release of tables, without answers, fixed before any data; see `Calibration`.

    Attributes:
        budget: Division of epsilon, all of which is for the release.
        release: Mechanism that releases the tables.
        caps: Caps of all entries, (1, size).
    """

    budget: Budget
    release: TableRelease
    caps: IntArray
    answers: None = None

    @classmethod
    def planned(cls, release: TableRelease) -> "TableCalibration":
        """Compute the calibration of a release.

        Warns:
            LargeDelta, NothingToLearn: Reported at the line that constructs the policy.
        """
        privacy, rows = release.privacy, release.horizon
        warn_if_delta_large(privacy.delta, -(-rows // privacy.rounds_per_user))
        found = cls(Budget(privacy.epsilon, 0.0, 0), release, release.caps)
        expected = found.expected_errors()["publish"]
        if expected.share > NOTHING_TO_LEARN:
            warnings.warn(
                f"publish: with {rows} rows at this epsilon the expected error is {expected.error:.3g}, a "
                f"random action's is {expected.random:.3g} (on tables like those used for tuning): more rows "
                "or a larger epsilon are needed before data is touched",
                NothingToLearn,
                stacklevel=caller_level(),
            )
        return found

    @property
    def plans(self) -> dict[str, Plan]:
        """Plans of uses: empty, since no cell has its own cap."""
        return {}

    @property
    def rounds_per_user(self) -> int:
        """Number of rows of one user that the promise covers."""
        return self.release.privacy.rounds_per_user

    @property
    def bound(self) -> float:
        """Bound of centred rewards, in reward units."""
        return self.release.bound

    def with_design(self, design: IntArray, caps: IntArray) -> "TableCalibration":
        """Return this release with the tables (2, d) and caps that an earlier process used for its sums.

        Raises:
            CorruptState: The configuration cannot have had these tables or caps.
        """
        with reading("the saved tables", CorruptState):
            given = Design.of_array(self.release.base.effects.sizes, design)
        release = replace(self.release, given=given)
        if not given.fits(MOST_PAIRED) or not np.array_equal(caps, release.caps):
            raise CorruptState("the saved tables contradict the saved configuration")
        return replace(self, release=release, caps=release.caps)

    def expected_errors(self) -> dict[str, ExpectedError]:
        """Return the expected loss, in reward units, on random functions; no data is used."""
        return {"publish": self.release.expected_error()}

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers of the tables."""
        design, shares = self.release.design, self.release.shares
        return {
            "groups_of_columns": [list(group) for group in design.groups],
            "cells_of_sums": design.n_cells,
            "sum_noise_sd": float(np.sqrt(self.release.sum_variance)),
            "count_noise_sd": shares.sd,
        }

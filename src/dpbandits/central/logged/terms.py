r"""Terms of rows and numbers of persons in a private evaluation, as integers, and their computation in NumPy.

An engine computes equal integers where the data is (`dpbandits.central.logged.terms_engine`). See
`dpbandits.central.logged.evaluation` for the terms t and their bounds.

**Row.** Let U = 2^20. A row that can be read has J integers r = rint(U u). A number u is a term less 1/2, or
a difference of two terms, over twice its bound. So |u| <= 1/2, and r is cut to the range from -U/2 to U/2. A
row that cannot be read has r = 0, and a mark says so. Every operation on doubles is rounded once, in an order
that NumPy and engines share. Shares of the reward range below 2^-100 count as zero. So no product or quotient
overflows or underflows, which is an error in some engines.

**Rows that count.** The mark and the integers r are the digits of a coded row. At most k coded rows of a
person count, by the rule of `dpbandits.central.logged.plan`. Which of equal coded rows count does not matter.

**Person.** Let n >= 1 readable rows of a person count, with sums T of their r. The person's integers are
q = floor(T/n + 1/2), computed as floor((2 T + n) / 2n). Then -U/2 <= q <= U/2, since -n U/2 <= T <= n U/2. A
person without such a row does not count. `privacy.moments` releases the sums of q, those of floor(a q^2 / U),
and the number of persons. Its sensitivity holds for any integers q in this range, whatever the rows are:
replacing a person replaces this person's q, or lets the person count or not count. The integers q depend on
the person's own rows, the key and public values alone.

Rounding rows first moves q by at most one of the U steps, against the mean of unrounded terms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.logged.plan import packed, rows_that_count
from dpbandits.central.published_function import PublishedFunction
from dpbandits.domains import RewardRange
from dpbandits.export.lookups import Lookups
from dpbandits.tables.menu import Menu
from dpbandits.tables.owners import Owners

__all__ = ["HALF", "LEAST", "STEPS", "Method", "TermRules", "bounds_of"]

Method = Literal["doubly_robust", "ips"]

STEPS = 1 << 20
"""Number U of steps of a number, as in `dpbandits.privacy.moments`."""

HALF = STEPS // 2

LEAST = 2.0**-100
"""Smallest share of the reward range that does not count as zero."""

_AT_ONCE = 1 << 14
"""Number of rows whose predictions are in memory at the same time."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TermRules:
    """Public rules that turn rows into integers.

    Attributes:
        menu: Contexts and arms.
        reward_range: Public range.
        policies: Scores of the policies. The first one predicts rewards.
        method: Estimator.
        largest_weight: Bound M of inverse propensities.
        against: Code of the constant arm.
        rows_per_user: Number k of a person's rows that count; None if every row is a person.
    """

    menu: Menu
    reward_range: RewardRange
    policies: Sequence[Lookups | PublishedFunction]
    method: Method
    largest_weight: float
    against: int
    rows_per_user: int | None

    @property
    def numbers(self) -> int:
        """Number J of numbers of a person."""
        return 1 + 2 * len(self.policies)

    @property
    def radices(self) -> tuple[int, ...]:
        """Number of values of each digit of a coded row: r + U/2 for each number, and the mark of reading."""
        return (*[STEPS + 1] * self.numbers, 2)

    def coded(
        self, people: FloatArray, given: IntArray, rewards: FloatArray, chances: FloatArray | None
    ) -> tuple[IntArray, BoolArray]:
        """Return the integers r (n, J) of n rows, and a mask (n,) of the rows that can be read.

        Args:
            people: Encoded contexts (n, d), NaN if one cannot be read.
            given: Codes of the logged arms (n,), -1 if one is unknown.
            rewards: Rewards (n,).
            chances: Propensities (n,); None if arms were drawn uniformly.
        """
        values, readable = self.reward_range.within(rewards)
        chance = np.full(len(given), 1.0 / self.menu.n_arms) if chances is None else chances
        readable &= np.isfinite(people).all(axis=1) & (given >= 0) & (chance > 0.0) & (chance <= 1.0)
        found = np.zeros((len(given), self.numbers), dtype=np.int64)
        rows = np.flatnonzero(readable)
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            with np.errstate(over="ignore"):
                weights = np.minimum(1.0 / chance[some], self.largest_weight)
            numbers = self._numbers(people[some], given[some], self._shares(values[some]), weights)
            found[some] = np.rint(np.clip(numbers, -0.5, 0.5) * STEPS).astype(np.int64)
        return found, readable

    def _shares(self, values: FloatArray) -> FloatArray:
        """Return the shares of the reward range, from 0 to 1, of rewards or predictions of any shape."""
        above, width = values - self.reward_range.low, self.reward_range.width
        inside = (above >= width * LEAST) & (above < width)
        return np.where(inside, above / np.where(inside, width, 1.0), above >= width)

    def _numbers(
        self, people: FloatArray, given: IntArray, scaled: FloatArray, weights: FloatArray
    ) -> FloatArray:
        """Return the numbers u (n, J) of n readable rows, from rewards (n,) in [0, 1] and weights (n,)."""
        at, terms, choices = np.arange(len(people)), [], [np.full(len(people), self.against)]
        # In batches of one size no row's last bit depends on how many rows others have.
        whole = np.resize(people, (_AT_ONCE, people.shape[1]))
        model = np.zeros((len(people), 1))
        for place, policy in enumerate(self.policies):
            looked_up = isinstance(policy, Lookups)  # row by row, and exactly the same in engines
            means = policy.means(people) if looked_up else policy.means(whole)[: len(people)]
            choices.append(policy.best_of(means))
            if place == 0 and self.method == "doubly_robust":
                model = self._shares(means)
        for chosen in choices:
            if self.method == "ips":
                terms.append(weights * (chosen == given) * (scaled - 0.5))
            else:
                rest = weights * (chosen == given) * (scaled - model[at, given])
                terms.append(model[at, chosen] - 0.5 + rest)
        values, differences = bounds_of(self.method, self.largest_weight)
        own = np.column_stack(terms)
        return np.column_stack([own / (2.0 * values), (own[:, 1:] - own[:, :1]) / (2.0 * differences)])

    def kept(self, terms: IntArray, readable: BoolArray, owners: Owners, key: bytes) -> BoolArray:
        """Return a mask (n,) of the readable rows that count.

        Args:
            terms, readable: Result of `coded`.
            owners: Person of each row. A row without one does not count.
            key: Secret of the order.
        """

        def words(some: IntArray) -> IntArray:
            return packed([*(terms[some].T + HALF), readable[some]], self.radices)

        return rows_that_count(owners, self.rows_per_user, key, words) & readable

    def of_people(self, terms: IntArray, owners: IntArray) -> IntArray:
        """Return the integers q (people, J) of the persons with a row that counts.

        Args:
            terms: Integers r (n, J) of the rows that count.
            owners: Number of each row's person (n,).
        """
        if self.rows_per_user is None:
            return terms
        counted = np.bincount(owners)
        # Sums of fewer than 2^33 integers of at most 2^19 are exact in floating point.
        sums = np.column_stack([np.bincount(owners, part) for part in terms.T]).astype(np.int64)
        have = counted > 0
        rows = counted[have, None]
        return np.asarray((2 * sums[have] + rows) // (2 * rows))


def bounds_of(method: Method, largest_weight: float) -> tuple[float, float]:
    """Return the bounds of a term less 1/2, and of a difference of two terms, in widths of the range."""
    if method == "ips":
        return 0.5 * largest_weight, 0.5 * largest_weight
    return largest_weight - 0.5, largest_weight

r"""Outcomes as integers, their sums at a look, and the sensitivities of these sums.

**Integers.** A metric's value v becomes t = 2 z - 1 in [-1, 1], with z = (v - low)/(high - low), and then the
integer x = round(U t), where U is the metric's `unit`. A look releases three kinds of integers of a group.

- The sum X = sum_i x_i over the group's rounds of the look. X/(2 U) is the sum of z - 1/2. A round whose
  value is missing adds the integer of the public default.
- For a metric with more than two values, or if users have several rounds, a sum of squares over users. A
  user with m rounds in the look, whose integers add up to T, adds Q(T) = round(g T^2/(U m)), with g = 1/2 for
  Laplace noise and g = 53/32 for Gaussian noise. Q/(g U) is the user's (sum of t)^2/m, which is t^2 if m = 1.
- The count of rounds with a reward that counts, times an integer A.

**Sensitivity.** Let a user have m rounds in the look. Other rounds in their place change T within
[-m U, m U], and the number of answered rounds by at most m. The number m stays, as ids and times of asks do.

- L1, with Laplace noise: let t = T/(m U) and s = |t + t'|, d = |t - t'|, so that d <= 2 - s. Before rounding,
  T and Q change by m U d + m U d s/2 = m U d (1 + s/2) <= m U (2 - s)(1 + s/2) = m U (4 - s^2)/2 <= 2 m U.
  Rounding Q adds less than 1. The total change is an integer below 2 m U + 1, so it is at most 2 m U:
  squares need no noise of their own.
- L2, with Gaussian noise: before rounding, the change is m U d sqrt(1 + (g s)^2) with d <= 2 - s. It is at
  most 2 m U for g = 53/32, as (2 - s)^2 (1 + (53 s/32)^2) <= 4 for s in [0, 2] (a test enumerates it).
  Rounding adds less than 1: at most 2 m U + 1 <= m (2 U + 1).
- The count's integer changes by at most m A.

Over all metrics the integers of a look change by at most m S, with S = sum_i 2 U_i + A in L1, and
S = sqrt(sum_i (2 U_i + 1)^2 + A^2) in L2. A user's rounds are in one group, m_j of them in look j, with
sum_j m_j <= k. So all looks together change by at most k S, in L1 and in L2.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.readout.declared import ToldMetric

__all__ = ["ANSWERED", "MOST_ROUNDS", "Lattice"]

UNIT = 1 << 16
"""Unit of the metrics of the largest weight: number of steps from the middle to an end of their range."""

MOST_ROUNDS = 4096
"""Largest contribution bound with which squares of a user's sum fit into 64 bits."""

ANSWERED = 0.3
"""Weight of the count of answered rounds, beside 1 for the reward. More means less noise."""

_GAUSSIAN = (53, 32)
_LAPLACE = (1, 2)
"""Factor g of squares, as numerator and denominator, by law of the noise."""


@dataclass(frozen=True)
class Lattice:
    """Metrics of a readout as integers.

    Args:
        outcomes: Metrics, M of them.
        repeats: True if a user may have several rounds. Then squares of yes/no metrics are released, too.
    """

    outcomes: tuple[ToldMetric, ...]
    repeats: bool

    @cached_property
    def units(self) -> IntArray:
        """Unit U of every metric, (M,)."""
        return np.array([round(UNIT * one.weight / self._largest) for one in self.outcomes], dtype=np.int64)

    @property
    def _largest(self) -> float:
        return max(one.weight for one in self.outcomes)

    @property
    def answered(self) -> int:
        """Integer A that an answered round adds to the count."""
        return round(2 * UNIT * ANSWERED / self._largest)

    @cached_property
    def squared(self) -> BoolArray:
        """Mask (M,) of the metrics whose squares are released."""
        return np.array([self.repeats or not one.yes_no for one in self.outcomes], dtype=np.bool_)

    @property
    def size(self) -> int:
        """Number of integers that a look releases of a group."""
        return len(self.outcomes) + int(self.squared.sum()) + 1

    @cached_property
    def defaults(self) -> IntArray:
        """Integers (M,) of the public defaults."""
        return np.asarray(self.read(np.array([[one.default for one in self.outcomes]]))[0])

    def read(self, values: FloatArray) -> IntArray:
        """Return values (n, M), in units of the metrics, as integers.

        Every value is read by itself. A value that is missing or unreadable counts as the default.
        """
        columns = []
        for column, unit, one in zip(np.asarray(values).T, self.units, self.outcomes, strict=True):
            inside, counts = one.bounds.within(np.where(np.isnan(column), one.default, column))
            if one.yes_no:
                counts = counts & ((inside == one.bounds.low) | (inside == one.bounds.high))
            used = np.where(counts, inside, one.default)
            columns.append(np.rint(2.0 * unit * one.bounds.to_centred(used)))
        return np.stack(columns, axis=1).astype(np.int64)

    def sums(self, values: IntArray, answered: BoolArray, people: IntArray, *, gaussian: bool) -> IntArray:
        """Return the integers (D,) of a group's rounds at a look, without noise: sums, squares, count.

        Args:
            values: Integers of n rounds, (n, M).
            answered: Mask (n,) of rounds with a reward that counts.
            people: Number of each round's user, (n,), from 0 on without gaps.
            gaussian: True if Gaussian noise is added, False for Laplace noise.
        """
        visits = np.bincount(people, minlength=1)[:, None]
        totals = np.zeros((len(visits), len(self.outcomes)), dtype=np.int64)
        np.add.at(totals, people, values)
        above, below = _GAUSSIAN if gaussian else _LAPLACE
        divisor = np.maximum(visits, 1) * self.units[self.squared] * below
        squares = (above * totals[:, self.squared] ** 2 + divisor // 2) // divisor
        count = self.answered * int(np.count_nonzero(answered))
        return np.concatenate([values.sum(axis=0), squares.sum(axis=0), [count]])

    def scales(self, *, gaussian: bool) -> tuple[FloatArray, FloatArray, float]:
        """Return the values of one integer step: (M,) of sums, (M,) of squares, and of the count.

        Sums are those of z - 1/2, squares those of (2 z - 1)^2; NaN stands for squares that are not released.
        """
        above, below = _GAUSSIAN if gaussian else _LAPLACE
        squares = np.where(self.squared, below / (above * self.units), np.nan)
        return 0.5 / self.units, squares, 1.0 / self.answered

    def sensitivity(self, *, gaussian: bool) -> float:
        """Return S, the largest change by one round of a user: in L2 for Gaussian noise, else in L1."""
        if not gaussian:
            return float(2 * int(self.units.sum()) + self.answered)
        moved = 2 * self.units + self.squared
        return math.sqrt(int((moved**2).sum()) + self.answered**2) * (1.0 + 2.0**-40)

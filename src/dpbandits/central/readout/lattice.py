r"""Outcomes as integers, their sums at a look, and the sensitivities of these sums.

**Integers.** A metric's value v becomes t = 2 z - 1 in [-1, 1], with z = (v - low)/(high - low), and then the
integer x = round(U t), where U is the metric's `unit`. A look releases three kinds of integers of a group.

- The sum X = sum_i x_i over the group's rounds of the look. X/(2 U) is the sum of z - 1/2. A round whose
  value is missing adds the integer of the public default.
- For a metric with more than two values, or if users have several rounds, a sum of squares over users. A
  user with m rounds in the look, whose integers add up to T, adds Q(T) = round(g T^2/(U m)), with g = 1/2 for
  Laplace noise and g = 25/16 for Gaussian noise. Q/(g U) is the user's (sum of t)^2/m, which is t^2 if m = 1.
- A sum that tells the number of rounds with a reward that counts. An answered round adds the integer A, less
  round(A (x - x0)/(4 U)), where x is the integer of its reward, and x0 = -U that of the lowest reward, which
  is the default. An unanswered round adds 0. So the number of answered rounds is the sum over A, plus
  (X - n x0)/(4 U) for n rounds, which is half the sum of z. The default may be the highest reward. Then z and
  1 - z change their places. If the default is between both ends, every answered round adds A.

**Sensitivity.** Let a user have m rounds in the look. Other rounds in their place change T within
[-m U, m U], and the number of answered rounds by at most m. The number m stays, as ids and times of asks do.
Let t = T/(m U), s = |t + t'| and d = |t - t'|, so that d <= 2 - s. Before rounding, T changes by m U d, and Q
by g m U d s.

- The integers of answers, if the default of the reward is its lowest value: let a share p of the user's
  rounds be unanswered. They have t = -1, so p is in [0, (1 - t)/2]. The user adds m A (1 - p - (1 + t)/4),
  which is in m A [(1 + t)/4, (3 - t)/4]. So the change is at most m A (2 - t - t')/4 or
  m A (2 + t + t')/4, and at most m A (2 + s)/4. Rounding adds at most m.
- L1, with Laplace noise: let w = A/(2 U). Reward, squares and answers change by at most 2 m U F, with
  F = (1 - s/2)(1 + s/2) + w (2 + s)/4. This is largest at s = w/2: F <= 1 + w/2 + w^2/16. Without squares,
  F = 1 - s/2 + w (2 + s)/4 is largest at s = 0, as w <= 2: F <= 1 + w/2. Rounding Q adds less than 1. For
  other metrics F is without w and at most 1, so squares cost nothing.
- L2, with Gaussian noise: the change of reward, squares and answers is at most m U times the root of
  (2 - s)^2 (1 + (g s)^2) + w^2 (2 + s)^2/4. For g = 25/16 and w <= 9/16 this is largest at s = 0, and there
  it is 2 m U sqrt(1 + w^2/4) (a test enumerates it). Rounding adds a vector of a norm below m + 1/2.
- If the default is between both ends, the integer of answers changes by at most m A on its own.

Over all metrics the integers of a look change by at most m S. In L1, S adds up the bounds of the metrics; in
L2 it is the root of the sum of their squares. A user's rounds are in one group, m_j of them in look j, with
sum_j m_j <= k. So all looks together change by at most k S, in L1 and in L2.
"""

import math
from collections.abc import Sequence
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

ANSWERED, ANSWERED_ALONE = 9 / 16, 0.3
"""Weight w of the sum of answers, where the sum of rewards has the weight 1.

A larger weight means less noise in the number of answers. The second is for a reward whose default is between
both ends of its range.
"""

_GAUSSIAN = (25, 16)
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

    @cached_property
    def _end(self) -> int:
        """1 if the default of the reward is its lowest value, -1 if it is the highest, 0 if it is between."""
        first = self.outcomes[0]
        return int(first.default == first.bounds.low) - int(first.default == first.bounds.high)

    @property
    def answered(self) -> int:
        """Integer A that an answered round with the default reward adds to the sum of answers."""
        return round(2 * int(self.units[0]) * (ANSWERED if self._end else ANSWERED_ALONE))

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

    def read_one(self, values: Sequence[float]) -> list[int]:
        """Return `read` of one round's values (M,), without an array for it."""
        found = []
        for value, unit, one in zip(values, self.units.tolist(), self.outcomes, strict=True):
            inside, counts = one.bounds.holds(value)
            if one.yes_no:
                counts = counts and inside in (one.bounds.low, one.bounds.high)
            found.append(round(2.0 * unit * one.bounds.centred(inside if counts else one.default)))
        return found

    def sums(self, values: IntArray, answered: BoolArray, people: IntArray, *, gaussian: bool) -> IntArray:
        """Return the integers (D,) of a group's rounds at a look, without noise: sums, squares, answers.

        Args:
            values: Integers of n rounds, (n, M). Those of unanswered rounds are not read.
            answered: Mask (n,) of rounds with a reward that counts.
            people: Number of each round's user, (n,), from 0 on without gaps.
            gaussian: True if Gaussian noise is added, False for Laplace noise.
        """
        values = np.where(answered[:, None], values, self.defaults)
        visits = np.bincount(people, minlength=1)[:, None]
        totals = np.zeros((len(visits), len(self.outcomes)), dtype=np.int64)
        np.add.at(totals, people, values)
        above, below = _GAUSSIAN if gaussian else _LAPLACE
        divisor = np.maximum(visits, 1) * self.units[self.squared] * below
        squares = (above * totals[:, self.squared] ** 2 + divisor // 2) // divisor
        less = np.rint(self._end * self.answered * (values[:, 0] - self.defaults[0]) / (4 * self.units[0]))
        answers = self.answered * np.count_nonzero(answered) - int(less.sum())
        return np.concatenate([values.sum(axis=0), squares.sum(axis=0), [answers]])

    def scales(self, *, gaussian: bool) -> tuple[FloatArray, FloatArray]:
        """Return the values of one integer step: (M,) of sums, and (M,) of squares.

        Sums are those of z - 1/2, squares those of (2 z - 1)^2; NaN stands for squares that are not released.
        """
        above, below = _GAUSSIAN if gaussian else _LAPLACE
        return 0.5 / self.units, np.where(self.squared, below / (above * self.units), np.nan)

    @property
    def of_answers(self) -> tuple[float, float]:
        """Answered rounds per step of the sum of answers, and per step of the reward's sum."""
        return 1.0 / self.answered, self._end / (4.0 * int(self.units[0]))

    def answers(self, released: IntArray, rounds: int) -> float:
        """Return the number of answered rounds among `rounds`, from the released integers (D,)."""
        of_answers, of_sum = self.of_answers
        return float(released[-1]) * of_answers + of_sum * float(released[0] - rounds * self.defaults[0])

    def sensitivity(self, *, gaussian: bool) -> float:
        """Return S, the largest change by one round of a user: in L2 for Gaussian noise, else in L1."""
        own, A, rounding = 2.0 * float(self.units[0]), float(self.answered), 1.0 + float(self.squared[0])
        others = 2 * self.units[1:]
        if not gaussian:
            squared = A * A / (16.0 * own) if self.squared[0] else 0.0
            first = own + 0.5 * A + squared + rounding if self._end else own + A
            return float(math.ceil(first) + int(others.sum()))
        first = math.hypot(own, 0.5 * A) + 1.5 if self._end else math.hypot(own + rounding - 1.0, A)
        others = others + self.squared[1:]
        return math.sqrt(first**2 + float((others**2).sum())) * (1.0 + 2.0**-40)

"""Questions about many columns: each version covers one to three columns, chosen by their gain.

**One column.** Each column has its own learner (`learners.questions`), whose arms and questions depend on
that column alone. The gain of a column is the mean reward of the best arm in each of its cells, minus that of
the best single arm. A version covers the column with the largest gain in a draw of all posteriors by the
version's public coins (Thompson sampling). Early versions therefore cover all columns, later ones mostly
those with a large expected gain.

**Levels.** Every report also informs about the arms' mean rewards over all users, l = (l_1, ..., l_K). The
reports on column j give a precision A_j and a moment b_j of l. The learner of a column also uses the sums of
A and b over the other columns. Given l, the model treats the functions of two columns as independent, so
these sums contain all information of the other columns (belief propagation on a star is exact). The first
version on a column therefore starts with what other columns say about the best single arm.

**Several columns.** From `_ALONE` reports on, joint learners are added whenever the number of reports has
grown by the factor `GROWTH`. The two columns with the largest expected gains get a learner on their joint
grid, and so do the best three. Columns whose joint grid would exceed `MOST_CELLS` are skipped. The new
learner takes over all reports on each of its columns: a version on one column is also a version on the joint
grid. It then learns from versions on any of its columns. A version covers several columns if their expected
gain exceeds the largest gain drawn for a single column. At most `_MOST_GROUPS` such learners are stored. A
late report is dropped if no stored learner has all columns of its version.

Privacy: post-processing of reports. The columns of a version depend on earlier reports and public coins, like
its questions, see `local.contract.grid`. Source: this library; Thompson, *On the likelihood that one unknown
probability exceeds another*, 1933; Pearl, *Reverend Bayes on inference engines*, 1982.
"""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import IncompatibleState
from dpbandits.local.contract.grid import MOST_CELLS, PublishedQuestions
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.base import Counted
from dpbandits.local.learners.questions import GROWTH, RENEWAL, QuestionConstants, QuestionLearner
from dpbandits.policy.coins import PublicCoins

__all__ = ["ColumnLearner"]

_ALONE = 1500.0
"""Number of reports without noise from which columns are combined.

Private reports need 1 + 1/i times as many, where i is the information of one report (`learners.questions`).
"""

_MOST_TOGETHER, _MOST_GROUPS = 3, 6
"""Largest numbers of columns of a version, and of stored learners of several columns."""

_DIGITS = 12
"""Number of decimals to which gains are compared. So rounding does not decide between gains that are zero."""


class ColumnLearner:
    """A `Learner` for specs with `learner="questions"` whose versions name columns; see the module."""

    Constants = QuestionConstants

    def __init__(self, spec: Spec, constants: QuestionConstants) -> None:
        self.constants, self._spec, self._surprise = constants, spec, math.inf
        self._rules: dict[tuple[int, ...], QuestionLearner] = {}
        for column in range(spec.dim):
            self._rules[column,] = self._fresh((column,))
        self.reports = self._shared = 0
        self._looked = _ALONE * (1.0 + 1.0 / self._rules[0,].tells) / GROWTH

    @classmethod
    def of(cls, spec: Spec) -> Self:
        """Return a fresh learner for the spec. Raise TypeError if the spec has a constant of unknown name."""
        return cls(spec, QuestionConstants(**spec.tuning.constants))

    @property
    def columns(self) -> tuple[int, ...]:
        """Columns of the single learner with the largest expected gain, ascending."""
        return max(self._rules, key=lambda columns: self._rules[columns].gain)

    @property
    def places(self) -> FloatArray:
        """Expected distribution of contexts over the G cells of the grid of `columns`, shape (G,)."""
        return self._rules[self.columns].places

    def leading(self) -> IntArray:
        """Return the arm with the largest expected reward in each cell, (G,).

        There are G cells in the grid of `columns`.
        """
        return self._rules[self.columns].leading()

    def resist(self, surprise: float) -> None:
        """Limit the effect of forged reports from now on; see `PosteriorLearner.resist`."""
        self._surprise = surprise
        for rule in self._rules.values():
            rule.resist(surprise)

    def publish(self, spec: Spec, version: int, coins: PublicCoins) -> PublishedQuestions:
        """Return the next version, made by the learner whose columns the rule in the module chooses."""
        gains = {
            columns: rule.drawn_gain(version, coins) if len(columns) == 1 else rule.gain
            for columns, rule in self._rules.items()
        }
        best = max(gains, key=lambda columns: round(gains[columns], _DIGITS))
        return self._rules[best].publish(spec, version, coins)

    def count(self, spec: Spec, published: PublishedQuestions, counted: Counted) -> None:
        """Learn from counted reports on the version `published`."""
        self.reports += sum(n for group in counted for _, _, n in group)
        for columns, rule in self._rules.items():
            if set(published.columns) <= set(columns):
                rule.count(spec, rule.widened(published), counted)

    def refine(self) -> None:
        """Update posteriors, combine columns, and share levels.

        Each step runs when enough reports have arrived.
        """
        for rule in self._rules.values():
            if rule.reports:
                rule.refine()
        if self.reports >= GROWTH * self._looked:
            self._looked = self.reports
            self._put_together()
        if self.reports >= RENEWAL * self._shared:
            self._shared = self.reports
            self._share_levels()

    def follow(self, published: PublishedQuestions) -> None:
        """Adopt a published version. A learner of the version's columns is added if there is none."""
        self.refine()
        if published.columns not in self._rules:
            self._join(published.columns)

    def estimate(self, spec: Spec, published: PublishedQuestions) -> PublishedQuestions:
        """Return the version with an estimate for each cell of its grid; see `Server.estimate`."""
        return self._rules[published.columns].estimate(spec, published)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays; see `Learner.to_arrays`."""
        arrays = {
            f"{_named(columns)}.{name}": array
            for columns, rule in self._rules.items()
            for name, array in rule.to_arrays().items()
        }
        groups = [columns for columns in self._rules if len(columns) > 1]
        kept = np.zeros((len(groups), self._spec.dim), dtype=np.bool_)
        for row, columns in zip(kept, groups, strict=True):
            row[list(columns)] = True
        numbers = np.array([self.reports, self._shared, self._looked], dtype=np.float64)
        return arrays | {"groups": kept, "numbers": numbers}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from arrays; see `Learner.restore`."""
        kept, numbers = arrays["groups"], arrays["numbers"]
        good = kept.dtype == np.bool_ and kept.ndim == 2 and kept.shape[1] == self._spec.dim
        good = good and len(kept) <= _MOST_GROUPS and bool((kept.sum(axis=1) > 1).all())
        if not good or numbers.shape != (3,):
            raise IncompatibleState("the stored state belongs to another learner")
        alone = [columns for columns in self._rules if len(columns) == 1]
        groups = [tuple(np.flatnonzero(row).tolist()) for row in kept]
        self._rules = {columns: self._fresh(columns) for columns in [*alone, *groups]}
        for columns, rule in self._rules.items():
            prefix = f"{_named(columns)}."
            rule.restore({k.removeprefix(prefix): one for k, one in arrays.items() if k.startswith(prefix)})
        self.reports, self._shared, self._looked = int(numbers[0]), int(numbers[1]), float(numbers[2])

    # -- columns ----------------------------------------------------------------------------------------

    def _fresh(self, columns: tuple[int, ...]) -> QuestionLearner:
        rule = QuestionLearner(self._spec, self.constants, grid=self._spec.protocol.grids.over(columns))
        rule.resist(self._surprise)
        return rule

    def _put_together(self) -> None:
        """Add learners on the joint grids of the best two and of the best three columns."""
        alone = [columns for columns in self._rules if len(columns) == 1]
        together: tuple[int, ...] = ()
        for columns in sorted(alone, key=lambda one: -round(self._rules[one].gain, _DIGITS)):
            wider = tuple(sorted(together + columns))
            size = math.prod(self._rules[column,].grid.size for column in wider)
            if size <= MOST_CELLS and len(wider) <= _MOST_TOGETHER:
                together = wider
                if len(together) > 1 and together not in self._rules:
                    self._join(together)

    def _join(self, columns: tuple[int, ...]) -> None:
        """Add a learner of these columns.

        If there are too many, it replaces the learner with the smallest gain.
        """
        groups = [one for one in self._rules if len(one) > 1]
        if len(groups) >= _MOST_GROUPS:
            del self._rules[min(groups, key=lambda one: self._rules[one].gain)]
        rule = self._rules[columns] = self._fresh(columns)
        for column in columns:
            rule.hear(self._rules[column,])
        rule.look()
        self._shared = 0

    def _share_levels(self) -> None:
        """Give every learner the information about arms' mean rewards from reports on other columns."""
        told = {one: rule.told_levels for one, rule in self._rules.items() if len(one) == 1 and rule.reports}
        if not told:
            return
        total = np.sum(list(told.values()), axis=0)
        for columns, rule in self._rules.items():
            rule.hear_levels(total - sum(told.get((column,), 0.0) for column in columns))


def _named(columns: tuple[int, ...]) -> str:
    return "columns." + "-".join(map(str, columns))

"""Questions about many columns: a version is over one to three of them, chosen by their gain.

**Alone.** Every column has a learner of its own (`learners.questions`), whose arms and questions depend on
that column alone. The gain of a column is what the best arms of its cells earn over the best arm for all. A
version is over the column whose gain is largest in a draw of all posteriors by the version's public coins
(Thompson sampling). So all columns are asked about at first, and later mostly those whose gain is believed to
be large.

**Levels.** Any report also tells of the arms' mean rewards l = (l_1, ..., l_K) over all people. The reports
about column j tell of l by a precision A_j and a moment b_j. The learner of a column also takes in the sums
of A and b over the other columns. Given l, the model takes the functions of two columns to be independent, so
these sums are all that others can tell (belief propagation on a star is exact). A column that is asked about
for the first time so begins with what others have told of the best arm for all.

**Together.** From `_ALONE` reports on, whenever reports have grown by a factor of 1.3, the two columns with
the largest expected gains get a learner of their common grid, and so do the best three; columns for which
`MOST_CELLS` leaves no room are passed over. The new learner takes over all reports about each of its columns
alone: a version over one column is also one over that grid. From then on it also learns from versions over
some of its columns. A version is over several columns if their expected gain is above the largest gain drawn
for one column. At most `_MOST_GROUPS` such learners are kept. A late report is dropped if no learner that is
kept holds all columns of its version.

Privacy: post-processing of reports. The columns of a version are a function of earlier reports and public
coins, as what it asks is, see `local.contract.grid`. Source: this library; Thompson, *On the likelihood that
one unknown probability exceeds another*, 1933; Pearl, *Reverend Bayes on inference engines*, 1982.
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
"""Reports before columns are asked about together, if they were rewards without noise. Private reports need
1 + 1/i times as many, where i is what one of them tells (`learners.questions`)."""

_MOST_TOGETHER, _MOST_GROUPS = 3, 6
"""Most columns that a version is over, and most learners of several columns that are kept."""

_DIGITS = 12
"""Digits of gains that are compared: where one arm is the best for all, gains are zero up to rounding."""


class ColumnLearner:
    """A `Learner` for specs with `learner="questions"` whose versions name columns."""

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
        """A fresh learner for the spec; TypeError where its constants are not those of the rule."""
        return cls(spec, QuestionConstants(**spec.tuning.constants))

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns of the learner with the largest expected gain, ascending."""
        return max(self._rules, key=lambda columns: self._rules[columns].gain)

    @property
    def places(self) -> FloatArray:
        """(G,) expected law of contexts on the grid of `columns`."""
        return self._rules[self.columns].places

    def leading(self) -> IntArray:
        """(G,) the arm of the largest expected reward in every cell of the grid of `columns`."""
        return self._rules[self.columns].leading()

    def resist(self, surprise: float) -> None:
        """Expect forged reports, from here on; see `PosteriorLearner.resist`."""
        self._surprise = surprise
        for rule in self._rules.values():
            rule.resist(surprise)

    def publish(self, spec: Spec, version: int, coins: PublicCoins) -> PublishedQuestions:
        """See `QuestionLearner.publish`; the module says over which columns the version is."""
        gains = {
            columns: rule.drawn_gain(version, coins) if len(columns) == 1 else rule.gain
            for columns, rule in self._rules.items()
        }
        best = max(gains, key=lambda columns: round(gains[columns], _DIGITS))
        return self._rules[best].publish(spec, version, coins)

    def count(self, spec: Spec, published: PublishedQuestions, counted: Counted) -> None:
        """Learn from counted reports that answered `published`."""
        self.reports += sum(n for group in counted for _, _, n in group)
        for columns, rule in self._rules.items():
            if set(published.columns) <= set(columns):
                rule.count(spec, rule.widened(published), counted)

    def refine(self) -> None:
        """Learn from new reports, put columns together, and share levels, each once enough has come."""
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
        """See `Learner.follow`; a learner of the published columns is added if there is none."""
        self.refine()
        if published.columns not in self._rules:
            self._join(published.columns)

    def estimate(self, spec: Spec, published: PublishedQuestions) -> PublishedQuestions:
        """See `Server.estimate`: one estimate for each cell of the version's grid."""
        return self._rules[published.columns].estimate(spec, published)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """See `Learner.to_arrays`."""
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
        """See `Learner.restore`."""
        kept, numbers = arrays["groups"], arrays["numbers"]
        good = kept.dtype == np.bool_ and kept.ndim == 2 and kept.shape[1] == self._spec.dim
        good = good and len(kept) <= _MOST_GROUPS and bool((kept.sum(axis=1) > 1).all())
        if not good or numbers.shape != (3,):
            raise IncompatibleState("what was kept of a learner is another learner's")
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
        """Add learners of the best two columns that fit one grid, and of the best three."""
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
        """Add a learner of these columns, in place of the one of the least gain if there are many."""
        groups = [one for one in self._rules if len(one) > 1]
        if len(groups) >= _MOST_GROUPS:
            del self._rules[min(groups, key=lambda one: self._rules[one].gain)]
        rule = self._rules[columns] = self._fresh(columns)
        for column in columns:
            rule.hear(self._rules[column,])
        rule.look()
        self._shared = 0

    def _share_levels(self) -> None:
        """Tell every learner what reports about other columns say of the arms' mean rewards."""
        told = {one: rule.told_levels for one, rule in self._rules.items() if len(one) == 1 and rule.reports}
        if not told:
            return
        total = np.sum(list(told.values()), axis=0)
        for columns, rule in self._rules.items():
            rule.hear_levels(total - sum(told.get((column,), 0.0) for column in columns))


def _named(columns: tuple[int, ...]) -> str:
    return "columns." + "-".join(map(str, columns))

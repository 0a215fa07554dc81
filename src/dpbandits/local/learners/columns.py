"""Questions about more columns than one grid has room for: about one at a time first, then about the best.

**Alone.** At first every version is over one column, in turn, and every column has a learner of its own
(`learners.questions`): arms by that column alone, questions about that column alone. When those still asked
about have had enough reports, the better half of them goes on: what a column is worth is what the best arm
of every one of its cells is expected to earn over the best arm for all.

**Together.** When at most three are left, versions are over the best columns whose grid has at most
`MOST_CELLS` cells, taken in the order of what they are worth, at most four. A version of one column is one of
that grid too, that looks at no other: so the learner of the grid takes over all that its columns were asked
and told. From then on it is the only one that asks.

What is left out is left out for good, and what two columns say only together is not seen. Reports of a column
that was left out tell nothing more.

Privacy: post-processing of reports; the columns of a version are a function of earlier reports, as what it
asks is, see `local.contract.grid`. Source: this library.
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
from dpbandits.local.learners.questions import QuestionConstants, QuestionLearner
from dpbandits.policy.coins import PublicCoins

__all__ = ["ColumnLearner"]

_ALONE = 280.0
"""Reports of a column before columns are compared, were they rewards without noise."""

_FEW, _MOST = 3, 4
"""Number of columns that are left when the best are joined, and the largest number that are joined."""


class ColumnLearner:
    """A `Learner` for specs with `learner="questions"` whose versions name columns."""

    Constants = QuestionConstants

    def __init__(self, spec: Spec, constants: QuestionConstants) -> None:
        self.constants, self._spec, self._surprise = constants, spec, math.inf
        self._alone = [
            QuestionLearner(spec, constants, grid=spec.protocol.grids.over((column,)))
            for column in range(spec.dim)
        ]
        self._live = np.arange(spec.dim)
        self._each = self._due = _ALONE * (1.0 + 1.0 / self._alone[0].tells)
        self._joint: QuestionLearner | None = None

    @classmethod
    def of(cls, spec: Spec) -> Self:
        """A fresh learner for the spec; TypeError where its constants are not those of the rule."""
        return cls(spec, QuestionConstants(**spec.tuning.constants))

    @property
    def columns(self) -> tuple[int, ...]:
        """That are asked about together; empty before they are chosen."""
        return () if self._joint is None else self._joint.grid.columns

    @property
    def _best(self) -> QuestionLearner:
        return self._alone[self._ranked()[0]] if self._joint is None else self._joint

    @property
    def places(self) -> FloatArray:
        """Belief about the law of the columns that are asked about, or of the best one."""
        return self._best.places

    def leading(self) -> IntArray:
        """The arm of the largest expected reward in every cell of their grid."""
        return self._best.leading()

    def resist(self, surprise: float) -> None:
        """Expect forged reports, from here on; see `PosteriorLearner.resist`."""
        self._surprise = surprise
        for one in self._alone if self._joint is None else [*self._alone, self._joint]:
            one.resist(surprise)

    def publish(self, spec: Spec, version: int, coins: PublicCoins) -> PublishedQuestions:
        """See `QuestionLearner.publish`; before columns are chosen, one of them after another."""
        if self._joint is not None:
            return self._joint.publish(spec, version, coins)
        column = int(self._live[version % len(self._live)])
        return self._alone[column].publish(spec, version, coins)

    def count(self, spec: Spec, published: PublishedQuestions, counted: Counted) -> None:
        """Learn from counted reports that answered `published`."""
        if len(published.columns) == 1:
            self._alone[published.columns[0]].count(spec, published, counted)
        if self._joint is not None and set(published.columns) <= set(self.columns):
            self._joint.count(spec, self._joint.widened(published), counted)

    def refine(self) -> None:
        """Look at everything again where enough has come, and choose columns where it is time."""
        self._think()
        reports = sum(self._alone[one].reports for one in self._live)
        if self._joint is None and reports >= self._due * len(self._live):
            kept = max(_FEW, math.ceil(len(self._live) / 2))
            self._live, self._due = np.sort(self._ranked()[:kept]), self._due + self._each
            if len(self._live) <= _FEW:
                self._join(self._chosen())

    def follow(self, published: PublishedQuestions) -> None:
        """See `Learner.follow`: columns are those that were published."""
        self._think()
        together = len(published.columns) > 1
        if together and published.columns != self.columns:
            self._join(published.columns)
        elif not together:
            self._joint = None

    def estimate(self, spec: Spec, published: PublishedQuestions) -> PublishedQuestions:
        """See `Server.estimate`: the same in all of a cell of the version's grid."""
        one = self._alone[published.columns[0]] if len(published.columns) == 1 else self._best
        return one.estimate(spec, published)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """See `Learner.to_arrays`."""
        arrays = {
            f"column.{column}.{name}": array
            for column, one in enumerate(self._alone)
            for name, array in one.to_arrays().items()
        }
        arrays |= {"live": self._live, "due": np.array([self._due])}
        if self._joint is not None:
            arrays |= {f"joint.{name}": array for name, array in self._joint.to_arrays().items()}
        return arrays | {"joined": np.array(self.columns, dtype=np.int64)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `Learner.restore`."""
        live, joined = arrays["live"], tuple(arrays["joined"].tolist())
        known = np.arange(len(self._alone))
        if not len(live) or not np.isin([*live, *joined], known).all():
            raise IncompatibleState("what was kept of a learner is another learner's")
        for column, one in enumerate(self._alone):
            one.restore(_under(arrays, f"column.{column}."))
        self._live, self._due, self._joint = live.copy(), float(arrays["due"][0]), None
        if joined:
            self._joint = self._fresh(joined)
            self._joint.restore(_under(arrays, "joint."))

    # -- columns ----------------------------------------------------------------------------------------

    def _think(self) -> None:
        for one in self._alone if self._joint is None else [self._joint]:
            one.refine()

    def _ranked(self) -> IntArray:
        """Columns that are still asked about, the best first, then the others."""
        worth = np.array([one.gain for one in self._alone])
        worth[np.setdiff1d(np.arange(len(worth)), self._live)] -= 1.0  # a gain is at most 1
        return np.argsort(-worth, kind="stable")

    def _chosen(self) -> tuple[int, ...]:
        """The best columns that fit one grid."""
        taken: list[int] = []
        for column in self._ranked().tolist():
            size = math.prod(self._alone[one].grid.size for one in [*taken, column])
            if size <= MOST_CELLS and len(taken) < _MOST:
                taken.append(column)
        return tuple(sorted(taken))

    def _fresh(self, columns: tuple[int, ...]) -> QuestionLearner:
        one = QuestionLearner(self._spec, self.constants, grid=self._spec.protocol.grids.over(columns))
        one.resist(self._surprise)
        return one

    def _join(self, columns: tuple[int, ...]) -> None:
        self._joint = self._fresh(columns)
        for column in columns:
            self._joint.hear(self._alone[column])
        self._joint.look()


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

"""A randomised log as a table: its columns coded into public cells, learned from once, published.

`LoggedTable.read` codes the columns; `publish` spends the promise, on the law of contexts and on the
function, and gives a `PublishedTable`: a `PublishedFunction` that knows the table's names.
"""

import contextlib
import json
import os
import secrets
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.policy import ExploreThenCommit, ExploreTuning
from dpbandits.central.published_function import PublishedFunction
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.models.kernels import Indicator, Kernel, SquaredExponential
from dpbandits.models.measures import CellMeasure, IntervalAxis
from dpbandits.privacy.definitions import DPBanditsWarning, JointDP
from dpbandits.state.ledger import Ledger

__all__ = ["READ_ARMS", "LogColumns", "LoggedTable", "PublishedTable"]

CELLS = 24
"""Bins of a continuous action, and of one context column; fewer where there are several."""

MOST_CONTEXT_CELLS = 600
HISTOGRAM_SHARE = 0.2
"""Share of epsilon spent on the law of contexts, unless it is declared uniform."""

ARM_CORRELATION = 0.7
READ_ARMS = "The names of the arms were read off the table and are published: they must be public anyway."
_COLUMNS = "columns.json"

Bounds = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class LogColumns:
    """Which column is what.

    Args:
        contexts: of the contexts.
        action, reward: of the action and of the reward.
        propensity: of the chance that each action had; None where actions were drawn uniformly.
        user: of the person a row belongs to; None where nobody has two rows, which is not checked then.

    Raises:
        InvalidParameter: a column is named twice.
    """

    contexts: Sequence[str]
    action: str
    reward: str
    propensity: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        optional = [self.propensity, self.user]
        if len(self.kinds) != len(self.contexts) + 4 - optional.count(None):
            raise InvalidParameter(
                "a column is named twice: contexts, action, reward and the others are different"
            )

    @property
    def kinds(self) -> dict[str, type]:
        """Type of every column, by name."""
        numbers, texts = [*self.contexts, self.propensity, self.reward], [self.action, self.user]
        kinds = {**dict.fromkeys(numbers, float), **dict.fromkeys(texts, str)}
        return {name: kind for name, kind in kinds.items() if name is not None}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LoggedTable:
    """A log in cells: raw data.

    Attributes:
        columns: which column was what.
        reward_range: public (low, high).
        kernel: over (action, contexts), or (arm, contexts).
        context_cells, action_cells: public cells.
        arms: names of arms, or None where actions are numbers with a range.
        arms_were_read: whether the names come from the table and not from a public list.
        rows: arguments of `ExploreThenCommit.learn`.
    """

    columns: LogColumns
    reward_range: Bounds
    kernel: Kernel
    context_cells: CellMeasure
    action_cells: CellMeasure
    arms: list[str] | None
    arms_were_read: bool
    rows: dict[str, Any]

    @classmethod
    def read(
        cls,
        table: Mapping[str, ArrayLike],
        columns: LogColumns,
        bounds: Sequence[Bounds],
        *,
        arms: Sequence[str] | None = None,
        lengthscale: float = 0.3,
        clip: bool = False,
    ) -> "LoggedTable":
        """Code a table whose columns have the types of `columns.kinds`.

        Args:
            table: column -> (n,) values.
            columns: which column is what.
            bounds: public (low, high) of contexts, of the action unless it has arms, and of the reward.
            arms: public names of arms; without them text and integers in the table are arms.
            lengthscale: of the kernel, as a share of each range.
            clip: move contexts and rewards outside to their bounds.

        Raises:
            InvalidParameter: bounds or arms that do not fit.
            InvalidData: an action that is none of the arms.
        """
        cells = np.asarray(table[columns.action])
        names = _arm_names(cells, arms)
        expected = len(columns.contexts) + 1 + (names is None)
        if len(bounds) != expected:
            raise InvalidParameter(
                f"{len(bounds)} bounds, expected {expected}: one for each context, "
                + ("the action and the reward" if names is None else "and the reward (the action has arms)")
            )
        ranges = bounds[: len(columns.contexts)]
        named = zip(columns.contexts, ranges, strict=True)
        if names is None:
            low, high = bounds[len(columns.contexts)]
            action_cells = CellMeasure.uniform(low=low, high=high, cells=CELLS)
        else:
            action_cells = CellMeasure.finite(np.arange(len(names), dtype=np.float64))
        side = max(2, min(CELLS, int(MOST_CONTEXT_CELLS ** (1.0 / len(ranges)))))
        propensity, user = columns.propensity, columns.user
        return cls(
            columns=columns,
            reward_range=bounds[-1],
            kernel=_kernel(bounds[:-1], ranges, arms=names is not None, lengthscale=lengthscale),
            context_cells=CellMeasure.product(
                *(CellMeasure.uniform(low=low, high=high, cells=side) for low, high in ranges)
            ),
            action_cells=action_cells,
            arms=names,
            arms_were_read=names is not None and arms is None,
            rows={
                "contexts": np.column_stack(
                    [_within(table[name], limits, clip=clip) for name, limits in named]
                ),
                "actions": _numbers(cells) if names is None else _arm_numbers(cells, names),
                "rewards": _within(table[columns.reward], bounds[-1], clip=clip),
                "propensities": None if propensity is None else np.asarray(table[propensity], dtype=float),
                "users": None if user is None else [str(cell) for cell in np.asarray(table[user])],
            },
        )

    def rehearse(self, privacy: JointDP, *, bound: float | None = None) -> None:
        """Learn without spending: whatever is wrong with the rows shows now.

        Raises:
            InvalidData, ContributionExceeded: as `ExploreThenCommit.learn`.

        Warns:
            NothingToLearn: before any data.
        """
        self._policy(privacy, self.context_cells, bound).learn(**self.rows)

    def publish(
        self,
        privacy: JointDP,
        *,
        bound: float | None = None,
        uniform_contexts: bool = False,
        ledger: Ledger | None = None,
        account: str | None = None,
    ) -> "PublishedTable":
        """Spend the promise and publish the function.

        Args:
            privacy: in all, law of contexts included; delta above 0.
            bound: largest weighted distance of a reward from the range's middle that is kept.
            uniform_contexts: spend nothing on the law of contexts, and call it uniform.
            ledger, account: charged before anything is drawn.
        """
        law = ContextLaw(self.context_cells)
        if not uniform_contexts:
            spent = HISTOGRAM_SHARE * privacy.epsilon
            if ledger is not None and account is not None:
                ledger.charge(account, charge_id=f"histogram:{secrets.token_hex(8)}", epsilon=spent)
            law = ContextLaw.from_private_histogram(
                self.rows["contexts"],
                cells=self.context_cells,
                epsilon=spent,
                rounds_per_user=privacy.rounds_per_user,
                users=self.rows["users"],
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DPBanditsWarning)  # said at the rehearsal
            policy = self._policy(privacy, law, bound, ledger=ledger, account=account)
        policy.learn(**self.rows)
        function = policy.publish()
        if self.arms_were_read:
            function = function.resting_on(READ_ARMS)
        columns = self.columns
        return PublishedTable(function, list(columns.contexts), columns.action, columns.reward, self.arms)

    def _policy(
        self, privacy: JointDP, contexts: ContextLaw | CellMeasure, bound: float | None, **charged: Any
    ) -> ExploreThenCommit:
        return ExploreThenCommit(
            kernel=self.kernel,
            contexts=contexts,
            actions=self.action_cells,
            reward_range=self.reward_range,
            horizon=len(self.rows["rewards"]),
            privacy=privacy,
            user_ids=self.columns.user is not None,
            tuning=ExploreTuning(bound=bound),
            **charged,
        )


@dataclass(frozen=True)
class PublishedTable:
    """A published function and the names of the table that it was learned from; all of it is public.

    Attributes:
        function: over actions and contexts.
        contexts: names of context columns.
        action, reward: names of these columns.
        arms: names of arms, or None where actions are numbers.
    """

    function: PublishedFunction
    contexts: list[str]
    action: str
    reward: str
    arms: list[str] | None

    @property
    def action_names(self) -> list[str]:
        """Every action as it is shown."""
        return self.arms or [f"{point:g}" for point in self.function.actions.points[:, 0]]

    def context_rows(self, table: Mapping[str, ArrayLike], *, clip: bool = False) -> FloatArray:
        """(n, d) contexts of a table; with `clip` at the nearest bound, as learned with it."""
        rows = np.column_stack([np.asarray(table[name], dtype=float) for name in self.contexts])
        if not clip:
            return rows
        ends = [axis.edges[[0, -1]] for axis in self.function.contexts.axes if isinstance(axis, IntervalAxis)]
        low, high = np.transpose(ends)
        return np.asarray(np.clip(rows, low, high))

    def action_cells(self, table: Mapping[str, ArrayLike]) -> IntArray:
        """(n,) numbers of the actions in a table.

        Raises:
            InvalidData: an action that is none of these.
        """
        cells = np.asarray(table[self.action])
        if self.arms is not None:
            return _arm_numbers(cells, self.arms)
        return self.function.actions.locate(_numbers(cells), name="actions")

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write the function and `columns.json`."""
        self.function.save(directory)
        names = {"context": self.contexts, "action": self.action, "arms": self.arms, "reward": self.reward}
        (Path(directory) / _COLUMNS).write_text(json.dumps(names) + "\n", "utf-8")

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> "PublishedTable":
        """Read what `save` wrote.

        Raises:
            CorruptState: damaged, or a function without names.
        """
        function = PublishedFunction.load(directory)
        try:
            names = json.loads((Path(directory) / _COLUMNS).read_text("utf-8"))
            return cls(function, list(names["context"]), names["action"], names["reward"], names["arms"])
        except (OSError, ValueError, KeyError, TypeError):
            raise CorruptState(f"{_COLUMNS} is missing in the policy's folder, or damaged") from None


def _arm_names(cells: NDArray[Any], declared: Sequence[str] | None) -> list[str] | None:
    """Names of arms, or None where actions are numbers with a range."""
    if declared is not None:
        names = list(declared)
        if len(set(names)) != len(names) or not all(names):
            raise InvalidParameter("arms: expected distinct names, as a,b,c")
        return names
    texts = sorted({str(cell) for cell in cells})
    with contextlib.suppress(ValueError):
        return [str(value) for value in sorted({int(text) for text in texts})]
    try:
        [float(text) for text in texts]
    except ValueError:
        return texts
    return None


def _arm_numbers(cells: NDArray[Any], arms: Sequence[str]) -> IntArray:
    codes = {label: code for code, label in enumerate(arms)}
    for text in {str(cell) for cell in cells} - set(codes):
        with contextlib.suppress(ValueError):
            codes[text] = codes.get(str(int(text)), -1)  # 01 is 1
    coded = np.array([codes.get(str(cell), -1) for cell in cells], dtype=np.int64)
    if (coded < 0).any():
        raise InvalidData(f"the action column holds something else than the {len(arms)} arms")
    return coded


def _numbers(cells: NDArray[Any]) -> FloatArray:
    try:
        return cells.astype(np.float64)
    except ValueError:
        raise InvalidData("the action column: a number was expected in every row") from None


def _within(values: ArrayLike, limits: Bounds, *, clip: bool) -> FloatArray:
    numbers = np.asarray(values, dtype=float)
    return np.asarray(np.clip(numbers, *limits)) if clip else numbers


def _kernel(bounds: Sequence[Bounds], ranges: Sequence[Bounds], *, arms: bool, lengthscale: float) -> Kernel:
    if not lengthscale > 0.0:
        raise InvalidParameter("lengthscale: expected a number above 0")
    scales = tuple(lengthscale * (high - low) for low, high in ranges)
    if not arms:  # the action's range stands last, and its column first
        low, high = bounds[-1]
        return SquaredExponential(lengthscale=(lengthscale * (high - low), *scales))
    own = SquaredExponential(lengthscale=scales, columns=tuple(range(1, len(scales) + 1)))
    return Indicator(correlation=ARM_CORRELATION, columns=(0,)) * own

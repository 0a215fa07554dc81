"""`Decision`, `DecisionBatch` and `Receipt`: results of asks and tells.

Under joint differential privacy a decision may be shown to its own user only, so its `repr` shows only the
id.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

import numpy as np

from dpbandits._seen import Seen
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.arms import Label

__all__ = ["Answers", "Decision", "DecisionBatch", "Receipt", "one_decision"]

Answers: TypeAlias = tuple[
    tuple[str, ...], IntArray, FloatArray, FloatArray | None, BoolArray, tuple[Label, ...]
]
"""Type of the fields of a `DecisionBatch`, in order."""


class Receipt(Enum):
    """Result of telling a reward."""

    COUNTED = "counted"
    """The reward counts."""
    LATE = "late"
    """The reward was dropped, as the guarantee requires, because its block had been released."""
    ABANDONED = "abandoned"
    """The reward was missing (None, NaN): the decision never has a reward and contributes nothing."""
    REFUSED = "refused"
    """The reward does not count: it is not a number in the range, and may be told again; or its decision was
    refused; or the decision was told before."""
    QUEUED = "queued"
    """The service was not reached: the reward waits on this machine's disk (`dpbandits.client`)."""


@dataclass(frozen=True, repr=False, init=False)
class Decision(Seen):
    """Result of one ask.

    Attributes:
        id: Id of the decision, for `tell` and `abandon`.
        index: Position of the chosen row among the candidates. It is 0 if the ask had no candidates and chose
            from the whole domain, and -1 if a batch refused the candidates.
        action: Chosen row (d,). For a policy with `actions`: the number or category, or a dict of several
            columns.
        propensity: Probability of this choice given all public information; None if unknown.
        arm: Label of the chosen arm; None for a policy without `arms`.
    """

    id: str
    index: int
    action: Any
    propensity: float | None = None
    arm: Label | None = None

    def __init__(
        self,
        id: str,  # noqa: A002
        index: int,
        action: Any,
        propensity: float | None = None,
        arm: Label | None = None,
    ) -> None:
        own = self.__dict__  # takes half the time of the __init__ that a frozen dataclass generates
        own["id"], own["index"], own["action"], own["propensity"], own["arm"] = (
            id,
            index,
            action,
            propensity,
            arm,
        )

    def __repr__(self) -> str:
        return f"Decision(id={self.id!r})"


@dataclass(frozen=True, repr=False)
class DecisionBatch(Seen):
    """Decisions of one `ask_batch` call, in the order of the decision sets.

    Attributes:
        ids: Ids of the B decisions.
        indices: Positions of the chosen rows (B,).
        actions: Chosen rows (B, d).
        propensities: Probabilities of the choices (B,), or None; see `Decision.propensity`.
        refused: Mask (B,) of decision sets that could not be answered. Their index is -1, and their action
            and propensity are NaN. Each took a round, and its reward does not count.
        labels: Labels of all arms; empty for a policy without `arms`.
        choices: All actions, by code, of a policy with `actions`; empty otherwise.
    """

    ids: tuple[str, ...]
    indices: IntArray
    actions: FloatArray
    propensities: FloatArray | None = None
    refused: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    labels: tuple[Label, ...] = ()
    choices: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.refused.shape != (len(self.ids),):  # the default is empty and means that none was refused
            object.__setattr__(self, "refused", np.zeros(len(self.ids), dtype=np.bool_))

    @property
    def arms(self) -> tuple[Label | None, ...]:
        """Labels of the chosen arms of the B decisions; None for a refused set, or without `arms`."""
        chosen = zip(self.actions[:, -1].tolist(), self.refused.tolist(), strict=True)
        return tuple(
            self.labels[int(arm)] if self.labels and not refused else None for arm, refused in chosen
        )

    @property
    def chosen(self) -> tuple[Any, ...]:
        """Every decision's `action`, of a policy with `actions`; None for a refused set."""
        chosen = zip(self.actions[:, -1].tolist(), self.refused.tolist(), strict=True)
        return tuple(
            copy(self.choices[int(code)]) if self.choices and not refused else None
            for code, refused in chosen
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Decision:
        answers = self.ids, self.indices, self.actions, self.propensities, self.refused, self.labels
        return one_decision(answers, position, self.choices)

    def __iter__(self) -> Iterator[Decision]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        return f"DecisionBatch({len(self)} decisions)"


def one_decision(answers: Answers, position: int = 0, choices: tuple[Any, ...] = ()) -> Decision:
    """Return one decision of a batch, with copies of its values only, so that it does not keep the others."""
    ids, indices, actions, propensities, refused, labels = answers
    action = np.array(actions[position])
    propensity = None if propensities is None else float(propensities[position])
    arm = _arm(labels, action, refused=bool(refused[position]))
    chosen = copy(choices[int(action[-1])]) if choices and not refused[position] else action
    return Decision(ids[position], int(indices[position]), chosen, propensity, arm)


def _arm(labels: tuple[Label, ...], action: FloatArray, *, refused: bool) -> Label | None:
    """Return the label of the arm whose code is the last column of an action (d,)."""
    return labels[int(action[-1])] if labels and not refused else None

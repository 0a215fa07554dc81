"""What a policy hands back: decisions, and receipts for rewards.

Under joint differential privacy a decision is for its own user's eyes only, so its `repr` shows
the id and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

import numpy as np

from dpbandits._seen import Seen
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.arms import Label

__all__ = ["Answers", "Decision", "DecisionBatch", "Receipt", "one_decision"]

Answers: TypeAlias = tuple[
    tuple[str, ...], IntArray, FloatArray, FloatArray | None, BoolArray, tuple[Label, ...]
]
"""What a `DecisionBatch` is made of, in its order."""


class Receipt(Enum):
    """What became of a reward that was told."""

    COUNTED = "counted"
    LATE = "late"
    """Its block had been released; the reward was dropped, as the guarantee requires."""
    ABANDONED = "abandoned"
    """A missing value (None, NaN) was told: the decision never has a reward, and contributes nothing."""
    REFUSED = "refused"
    """It contributes nothing as it stands: the reward is off the range or no number, and may be told again;
    or the decision itself was refused, and has no reward; or it was told before."""
    QUEUED = "queued"
    """A service was not reached: the reward waits on this machine's disk (`dpbandits.client`)."""


@dataclass(frozen=True, repr=False, init=False)
class Decision(Seen):
    """One answered request.

    Attributes:
        id: names the decision in `tell` and `abandon`.
        index: position of the chosen row among the candidates, 0 where none were brought and the whole domain
            was on offer; -1 where a batch refused them.
        action: (d,) the chosen row.
        propensity: probability of this choice given everything public, where it is known; else None.
        arm: the chosen arm's label, where the policy was built with `arms`; else None.
    """

    id: str
    index: int
    action: FloatArray
    propensity: float | None = None
    arm: Label | None = None

    def __init__(
        self,
        id: str,  # noqa: A002
        index: int,
        action: FloatArray,
        propensity: float | None = None,
        arm: Label | None = None,
    ) -> None:
        own = self.__dict__  # what a frozen dataclass writes for itself takes twice as long
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
        ids: B decision ids.
        indices: (B,) chosen rows.
        actions: (B, d) the chosen rows themselves.
        propensities: (B,) or None, as in `Decision.propensity`.
        refused: (B,) True where a decision set could not be answered: its index is -1, its action and
            propensity are NaN, and a reward told for it counts nothing. It took its round all the same.
        labels: of all arms, where the policy was built with `arms`; else empty.
    """

    ids: tuple[str, ...]
    indices: IntArray
    actions: FloatArray
    propensities: FloatArray | None = None
    refused: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    labels: tuple[Label, ...] = ()

    def __post_init__(self) -> None:
        if self.refused.shape != (len(self.ids),):  # by default none is
            object.__setattr__(self, "refused", np.zeros(len(self.ids), dtype=np.bool_))

    @property
    def arms(self) -> tuple[Label | None, ...]:
        """B chosen arms, as `Decision.arm`; None where the set was refused."""
        chosen = zip(self.actions[:, -1].tolist(), self.refused.tolist(), strict=True)
        return tuple(
            self.labels[int(arm)] if self.labels and not refused else None for arm, refused in chosen
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Decision:
        answers = self.ids, self.indices, self.actions, self.propensities, self.refused, self.labels
        return one_decision(answers, position)

    def __iter__(self) -> Iterator[Decision]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        return f"DecisionBatch({len(self)} decisions)"


def one_decision(answers: Answers, position: int = 0) -> Decision:
    """One of several decisions, by itself: it holds none of the others."""
    ids, indices, actions, propensities, refused, labels = answers
    action = np.array(actions[position])
    propensity = None if propensities is None else float(propensities[position])
    arm = _arm(labels, action, refused=bool(refused[position]))
    return Decision(ids[position], int(indices[position]), action, propensity, arm)


def _arm(labels: tuple[Label, ...], action: FloatArray, *, refused: bool) -> Label | None:
    """Label of the arm that stands last in an action (d,)."""
    return labels[int(action[-1])] if labels and not refused else None

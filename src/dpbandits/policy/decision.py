"""`Decision`, `DecisionBatch` and `Receipt`: results of asks and tells.

Under joint differential privacy a decision may be shown to its own user only. So its `repr` shows only its
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
"""Type of the fields of a `DecisionBatch`, as a tuple in their order."""


class Receipt(Enum):
    """Result of telling a reward."""

    COUNTED = "counted"
    """The reward counts."""
    LATE = "late"
    """The reward was dropped, because its block had been released. The guarantee requires this."""
    ABANDONED = "abandoned"
    """The reward was missing (None or NaN): the decision will never have a reward and contributes nothing."""
    REFUSED = "refused"
    """The reward does not count, for one of three reasons. It is not a number in the range, and may be told
    again; or the decision was refused; or the decision was told before.
    """
    QUEUED = "queued"
    """The service could not be reached; the reward is stored on this machine's disk (`dpbandits.client`)."""


@dataclass(frozen=True, repr=False, init=False)
class Decision(Seen):
    """Result of one ask.

    Attributes:
        id: Id of the decision, for `tell` and `abandon`.
        index: Position of the chosen row among the candidates. It is 0 if the ask had no candidates and
            chose from the whole domain, and -1 if a batch refused the candidates.
        action: Chosen row (d,). For a policy with `actions` it is a number or category, or a dict with one
            entry per action column.
        propensity: Probability of this choice given all public information; None if it is not known.
        arm: Label of the chosen arm; None for a policy without `arms`.
        group: "policy" or "control" if the policy has a readout (`central.Readout`) and the round is part of
            it; otherwise None.
    """

    id: str
    index: int
    action: Any
    propensity: float | None = None
    arm: Label | None = None
    group: str | None = None

    def __init__(
        self,
        id: str,  # noqa: A002
        index: int,
        action: Any,
        propensity: float | None = None,
        arm: Label | None = None,
        group: str | None = None,
    ) -> None:
        own = self.__dict__  # takes half the time of the __init__ that a frozen dataclass generates
        own["id"], own["index"], own["action"], own["propensity"], own["arm"], own["group"] = (
            id,
            index,
            action,
            propensity,
            arm,
            group,
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
        propensities: Probabilities of the choices (B,), or None if not known; see `Decision.propensity`. With
            a readout, NaN for a choice whose probability is not known.
        refused: Mask (B,) of decision sets that could not be answered. Their index is -1, and their action
            and propensity are NaN. Each of them took a round, whose reward does not count.
        labels: Labels of all arms; empty for a policy without `arms`.
        choices: All actions of a policy with `actions`, in the order of their codes; otherwise empty.
        groups: `Decision.group` of each of the B decisions; empty without a readout.
    """

    ids: tuple[str, ...]
    indices: IntArray
    actions: FloatArray
    propensities: FloatArray | None = None
    refused: BoolArray = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    labels: tuple[Label, ...] = ()
    choices: tuple[Any, ...] = ()
    groups: tuple[str | None, ...] = ()

    def __post_init__(self) -> None:
        if self.refused.shape != (len(self.ids),):  # the default is empty and means that none was refused
            object.__setattr__(self, "refused", np.zeros(len(self.ids), dtype=np.bool_))

    @property
    def arms(self) -> tuple[Label | None, ...]:
        """Label of the chosen arm of each of B decisions; None for a refused set, or for a policy without
        `arms`.
        """
        chosen = zip(self.actions[:, -1].tolist(), self.refused.tolist(), strict=True)
        return tuple(
            self.labels[int(arm)] if self.labels and not refused else None for arm, refused in chosen
        )

    @property
    def chosen(self) -> tuple[Any, ...]:
        """Chosen action of each of B decisions of a policy with `actions`; None for a refused set."""
        chosen = zip(self.actions[:, -1].tolist(), self.refused.tolist(), strict=True)
        return tuple(
            copy(self.choices[int(code)]) if self.choices and not refused else None
            for code, refused in chosen
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, position: int) -> Decision:
        answers = self.ids, self.indices, self.actions, self.propensities, self.refused, self.labels
        return one_decision(answers, position, self.choices, self.groups)

    def __iter__(self) -> Iterator[Decision]:
        return (self[position] for position in range(len(self)))

    def __repr__(self) -> str:
        return f"DecisionBatch({len(self)} decisions)"


def one_decision(
    answers: Answers,
    position: int = 0,
    choices: tuple[Any, ...] = (),
    groups: tuple[str | None, ...] = (),
) -> Decision:
    """Return one decision of a batch, as copies, so that it does not keep the batch in memory."""
    ids, indices, actions, propensities, refused, labels = answers
    action = np.array(actions[position])
    propensity = None if propensities is None else float(propensities[position])
    arm = _arm(labels, action, refused=bool(refused[position]))
    chosen = copy(choices[int(action[-1])]) if choices and not refused[position] else action
    group = groups[position] if groups else None
    return Decision(ids[position], int(indices[position]), chosen, propensity, arm, group)


def _arm(labels: tuple[Label, ...], action: FloatArray, *, refused: bool) -> Label | None:
    """Return the label of the arm whose code is the last column of an action (d,); None if there is none."""
    return labels[int(action[-1])] if labels and not refused else None

"""The one interface all policies answer to, in every trust room and among the baselines."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Protocol, Self, runtime_checkable

from dpbandits._typing import FloatArray
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Policy"]


@runtime_checkable
class Policy(Protocol):
    """Chooses among candidates or arms, learns from rewards, and states what it promises.

    What is brought to an ask is a decision set (n, d), or one person's context; to a batch decision sets
    (B, n, d), or contexts of B people: see `RoundPolicy`. Where nothing is brought the whole of a domain is
    on offer. Rewards are in the units of the policy's `reward_range`. A round is the index of its ask, from
    zero.
    """

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to the people in the data, and on which assumptions."""

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told."""

    def ask(
        self, brought: Any = None, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """Choose one row, or one arm."""

    def tell(self, decision_id: str, reward: float, *, at: object = None) -> Receipt:
        """Give a decision its reward; a late one is dropped, and the receipt says so."""

    def ask_batch(
        self,
        brought: Any = None,
        users: Sequence[object] | None = None,
        *,
        available: Any = None,
        at: object = None,
    ) -> DecisionBatch:
        """Choose for B people, all by what is released now."""

    def tell_batch(
        self, decision_ids: Sequence[str], rewards: FloatArray, *, at: object = None
    ) -> tuple[Receipt, ...]:
        """Rewards (B,) of several decisions."""

    def abandon(self, decision_id: str) -> None:
        """Say that a decision will never have a reward."""

    def abandon_batch(self, decision_ids: Sequence[str]) -> tuple[Receipt, ...]:
        """Say that several decisions will never have a reward."""

    def recommend(self, brought: Any = None) -> Any:
        """The row, or the label of the arm, with the best predicted reward, from released statistics."""

    def predict(self, points: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and deviation of the expected reward, from releases only: (n,), or (n, K) of people."""

    def warm_start(
        self, points: Any, rewards: FloatArray | None = None, *, arms: Sequence[object] | None = None
    ) -> None:
        """Learn from public data and rewards (n,), or from a published function, before the first ask."""

    def diagnostics(self) -> dict[str, Any]:
        """Released quantities only: safe to log."""

    def to_config(self) -> dict[str, Any]:
        """Everything public that builds this policy anew, as JSON."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """The policy that `to_config` described, without data."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole state to `path`; from then on every release is durable there before it is used."""

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Take up a saved policy where it stood."""

"""The one interface all policies answer to, in every trust room and among the baselines."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Protocol, Self, runtime_checkable

from dpbandits._typing import BoolArray, FloatArray
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Policy"]


@runtime_checkable
class Policy(Protocol):
    """Chooses among candidates, learns from rewards, and states what it promises.

    Points are rows: a decision set is (n, d), a batch of them (B, n, d). Rewards are in the units of
    the policy's `reward_range`. A round is the index of its ask, from 0.
    """

    @property
    def guarantee(self) -> Guarantee:
        """What is promised to the people in the data, and on which assumptions."""

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told."""

    def ask(self, candidates: FloatArray, *, user: object | None = None) -> Decision:
        """Choose one row of `candidates` (n, d)."""

    def tell(self, decision_id: str, reward: float) -> Receipt:
        """Give a decision its reward; a late one is dropped, and the receipt says so."""

    def ask_batch(
        self,
        candidates: FloatArray,
        *,
        users: Sequence[object] | None = None,
        available: BoolArray | None = None,
    ) -> DecisionBatch:
        """Choose one row in each of B decision sets (B, n, d), all by what is released now."""

    def tell_batch(self, decision_ids: Sequence[str], rewards: FloatArray) -> tuple[Receipt, ...]:
        """Rewards (B,) of several decisions."""

    def abandon(self, decision_id: str) -> None:
        """Say that a decision will never have a reward."""

    def recommend(self, candidates: FloatArray) -> int:
        """Row of `candidates` (n, d) with the best predicted reward, from released statistics."""

    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n,) of the expected reward at `points` (n, d), from releases only."""

    def warm_start(self, points: FloatArray, rewards: FloatArray) -> None:
        """Learn from public data, points (n, d) and rewards (n,), before the first ask."""

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

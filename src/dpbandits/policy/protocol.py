"""`Policy`: the interface of all policies and baselines, in all trust models."""

from collections.abc import Sequence
from os import PathLike
from typing import Any, Protocol, Self, runtime_checkable

from dpbandits._typing import FloatArray
from dpbandits.policy.decision import Decision, DecisionBatch, Receipt
from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Policy"]


@runtime_checkable
class Policy(Protocol):
    """Interface of policies, which choose candidates or arms, learn from rewards and have a guarantee.

    The argument of an ask is a decision set (n, d) or one user's context. A batch has decision sets
    (B, n, d), or contexts of B users; see `RoundPolicy`. Without an argument a policy chooses from its whole
    domain. Rewards are in the units of the policy's `reward_range`. The number of a round is the index of
    its ask, from 0.
    """

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee for the users in the data, with its assumptions."""

    @property
    def pending(self) -> tuple[str, ...]:
        """Ids of decisions whose reward can still be told."""

    def ask(
        self, brought: Any = None, user: object | None = None, *, available: Any = None, at: object = None
    ) -> Decision:
        """Choose one row or arm for one user."""

    def tell(self, decision_id: str, reward: float, *, at: object = None) -> Receipt:
        """Record the reward of a decision. A late reward is dropped, with the receipt `LATE`."""

    def ask_batch(
        self,
        brought: Any = None,
        users: Sequence[object] | None = None,
        *,
        available: Any = None,
        at: object = None,
    ) -> DecisionBatch:
        """Choose for B users, all from the same releases."""

    def tell_batch(
        self, decision_ids: Sequence[str], rewards: FloatArray, *, at: object = None
    ) -> tuple[Receipt, ...]:
        """Record the rewards (B,) of several decisions, and return their receipts."""

    def abandon(self, decision_id: str) -> None:
        """Record that a decision will never have a reward."""

    def abandon_batch(self, decision_ids: Sequence[str]) -> tuple[Receipt, ...]:
        """Record that several decisions will never have a reward."""

    def recommend(self, brought: Any = None) -> Any:
        """Return the row, or the label of the arm, with the best reward that is predicted from releases."""

    def predict(self, points: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of the expected reward, computed from releases only.

        Their shape is (n,) for n points, and (n, K) for n contexts and K arms.
        """

    def warm_start(
        self, points: Any, rewards: FloatArray | None = None, *, arms: Sequence[object] | None = None
    ) -> None:
        """Learn from public data with rewards (n,), or from a published function, before the first ask."""

    def diagnostics(self) -> dict[str, Any]:
        """Return released quantities, which are safe to log."""

    def to_config(self) -> dict[str, Any]:
        """Return the policy's public configuration for JSON."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Build a policy, without data, from `to_config()`."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the whole state to `path`. Every later release is durable there before it is used."""

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Load a saved policy, which continues where the saved one was."""

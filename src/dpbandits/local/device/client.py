"""The device's side: choose with the published policy, privatise, keep the report, spend own budget.

NumPy and the standard library only. The operating system's generator is the only source of randomness,
and no argument replaces it.
"""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError
from dpbandits.local.contract.reports import NONCE_BYTES, PublishedArms, pack
from dpbandits.local.contract.spec import Spec
from dpbandits.local.device.outbox import MemoryOutbox, Outbox
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.privacy.reports import ReportMechanism
from dpbandits.privacy.words import secure_words
from dpbandits.state.ledger import Amount, Ledger, MemoryLedger

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Client"]

_TWO_64 = 2.0**64


@dataclass(repr=False)
class _Decision:
    """What the device remembers between choosing and reporting. Never printed: it is the user's data."""

    version: int
    leaf: int
    arm: int
    mechanism: ReportMechanism
    nonce: bytes | None = None
    report: bytes | None = None
    kept: bool = False


class Client:
    """One user's device.

    Args:
        spec: the public contract.
        ledger: the device's own ledger; by default one in memory.
        outbox: where reports wait; by default in memory. A real device gives a `FileOutbox` and an
            `SQLiteLedger`, so that neither is forgotten in a crash.
        epsilon: the user's own, one of the spec's `epsilons`, chosen without looking at context or reward;
            None: the spec's.
        budget: total epsilon the device will ever spend on this spec; by default one report's.
        account: name of the account in the ledger.

    Privacy: every report is epsilon-locally private. The budget is charged before the report is drawn,
    the report is stored before it is returned, and a retry returns the same bytes.

    Example:
        >>> from dpbandits.domains import Box
        >>> from dpbandits.local import Server
        >>> spec = Spec(domain=Box(low=[0], high=[1]), n_arms=2, epsilon=1.0)
        >>> client, server = Client(spec), Server(spec)
        >>> arm = client.choose(server.publish(), [0.3])
        >>> report = client.privatize([0.3], arm, reward=1.0)
        >>> server.absorb([report, report]).accepted
        1
    """

    def __init__(
        self,
        spec: Spec,
        *,
        ledger: Ledger | None = None,
        outbox: Outbox | None = None,
        epsilon: float | None = None,
        budget: Amount | None = None,
        account: str = "local-reports",
    ) -> None:
        own: object = epsilon
        if own is not None and not (
            isinstance(own, int | float) and own in (spec.epsilons or (spec.epsilon,))
        ):
            raise InvalidParameter("epsilon: expected one of the spec's epsilons")
        self.spec = spec
        self.epsilon = spec.epsilon if epsilon is None else epsilon
        self._ledger: Ledger = MemoryLedger() if ledger is None else ledger
        self._outbox: Outbox = MemoryOutbox() if outbox is None else outbox
        self._account = account
        self._ledger.open_account(account, epsilon=self.epsilon if budget is None else budget)
        self._decision: _Decision | None = None
        self._known: tuple[tuple[int, ...], DyadicPartition, ReportMechanism] | None = None

    @property
    def guarantee(self) -> "Guarantee":
        """What one report promises."""
        from dpbandits.local.contract.statement import report_guarantee

        return report_guarantee(self.spec, epsilon=self.epsilon)

    def choose(self, policy: PublishedArms, context: ArrayLike) -> int:
        """The arm for this context; nothing is sent.

        Args:
            policy: as published by the server.
            context: (dim,) inside the spec's domain.

        Raises:
            InvalidData: the context has another shape, is not finite, or lies outside the domain.
            IncompatibleState: the policy does not fit the spec.
        """
        leaf = self._leaf(policy, context)
        if policy.arms is not None:
            arm = int(policy.arms[leaf])
        elif policy.weights is not None:
            share = (int(secure_words(1)[0]) >> 11) * 2.0**-53
            arm = int(np.searchsorted(policy.weights[leaf].cumsum(), share, side="right"))
            arm = min(arm, self.spec.n_arms - 1)
        else:
            raise ProtocolError("the policy names no arms")
        if self._known is None:
            raise ProtocolError("the policy was not read")
        self._decision = _Decision(version=policy.version, leaf=leaf, arm=arm, mechanism=self._known[2])
        return arm

    def privatize(self, context: ArrayLike, arm: int, reward: float) -> bytes:
        """The private report of the last choice: the only thing that leaves the device.

        Calling it again for the same choice returns the same bytes and costs nothing.

        Args:
            context: as given to `choose`; checked, and nothing else of it is used.
            arm: as returned by `choose`.
            reward: clipped to the spec's range.

        Raises:
            ProtocolError: no choice is open, or arm or context are not the chosen ones.
            InvalidData: the reward is not a finite number, or the context is outside the domain.
            BudgetExceeded: the device's budget does not cover another report; nothing was drawn.
        """
        decision = self._decision
        if decision is None:
            raise ProtocolError("privatize: choose an arm first")
        if decision.kept and decision.nonce is not None:
            stored = self._outbox.get(decision.nonce.hex())
            if stored is None:
                raise ProtocolError("privatize: this choice was reported and sent; choose again")
            return stored
        if decision.nonce is None or decision.report is None:
            decision.nonce, decision.report = self._draw(decision, context, arm, reward)
        # Where storing fails, the next call stores these bytes: one choice is paid and drawn once.
        self._outbox.put(decision.nonce.hex(), decision.report)
        decision.kept = True
        return decision.report

    def _draw(self, decision: _Decision, context: ArrayLike, arm: int, reward: float) -> tuple[bytes, bytes]:
        """Where the user's data meets randomness: nonce and report, after the ledger was charged."""
        unit = self._unit(context)
        if (
            self._known is None
            or int(self._rank(self._known[1], unit)) != decision.leaf
            or arm != decision.arm
        ):
            raise ProtocolError("privatize: context and arm are not those of the last choice")
        positive = self._coin(reward)
        if decision.nonce is None:  # a ledger that failed may have written the charge: the id stays
            decision.nonce = os.urandom(NONCE_BYTES)
        nonce = decision.nonce
        self._ledger.charge(self._account, charge_id=nonce.hex(), epsilon=self.epsilon)
        cell = decision.leaf if self.spec.arms == "server" else decision.leaf * self.spec.n_arms + arm
        kind = bytes([self.spec.epsilons.index(self.epsilon)]) if self.spec.epsilons else b""
        payload = kind + decision.mechanism.encode(cell, positive=positive)
        return nonce, pack(digest=self.spec.digest, version=decision.version, nonce=nonce, payload=payload)

    def unsent(self) -> list[bytes]:
        """Reports stored and not yet marked as sent: after a crash, send these again."""
        return list(self._outbox.pending().values())

    def sent(self, report: bytes) -> None:
        """Forget a report that the server has confirmed."""
        for key, stored in self._outbox.pending().items():
            if stored == report:
                self._outbox.remove(key)

    def __repr__(self) -> str:
        return f"Client(epsilon={self.epsilon:g}, mechanism={self.spec.mechanism!r})"

    def _unit(self, context: ArrayLike) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
        point = np.asarray(context)
        if point.ndim != 1:
            raise InvalidData(f"context has shape {point.shape}: expected ({self.spec.dim},)")
        return self.spec.domain.to_unit(self.spec.domain.validate(point[None], name="context"))

    def _leaf(self, policy: PublishedArms, context: ArrayLike) -> int:
        unit = self._unit(context)
        policy.check(self.spec)
        if self._known is None or self._known[0] != policy.splits:
            partition = self.spec.partition(policy.splits)
            self._known = (
                policy.splits,
                partition,
                self.spec.mechanism_for(len(partition.leaves), self.epsilon),
            )
        return self._rank(self._known[1], unit)

    @staticmethod
    def _rank(partition: DyadicPartition, unit: "np.ndarray[tuple[int, int], np.dtype[np.float64]]") -> int:
        return int(partition.rank[partition.locate(unit)[0]])

    def _coin(self, reward: float) -> bool:
        """A bit whose mean is the reward, scaled to [0, 1]."""
        if isinstance(reward, bool | np.bool_) or not isinstance(
            reward, int | float | np.integer | np.floating
        ):
            raise InvalidData(f"reward has type {type(reward).__name__}: expected a number")
        if not np.isfinite(reward):
            raise InvalidData("reward is not finite")
        bounds = self.spec.reward_range
        share = min(1.0, max(0.0, (float(reward) - bounds.low) / (bounds.high - bounds.low)))
        return int(secure_words(1)[0]) < share * _TWO_64

"""The device's side: choose with what was published, report privately, keep the report, spend own budget.

NumPy and the standard library only, where the contract asks for no more. The operating system's generator is
the only source of randomness, and no argument replaces it.
"""

import os
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Generic

from numpy.typing import ArrayLike

from dpbandits._checks import integer
from dpbandits.errors import InvalidParameter, ProtocolError
from dpbandits.local.contract.reports import NONCE_BYTES, Chosen, Contract, PublishedArms, PublishedT, pack
from dpbandits.local.contract.spec import Spec
from dpbandits.local.device.outbox import MemoryOutbox, Outbox
from dpbandits.state.holder import Held, Holder, in_turn
from dpbandits.state.ledger import Amount, Ledger, MemoryLedger

if TYPE_CHECKING:
    from dpbandits.privacy.definitions import JointDP, LocalDP
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Client", "SourceClient"]


@dataclass(repr=False)
class _Open:
    """A choice and what has become of it. Never printed: it is the user's data."""

    choice: Chosen
    nonce: bytes = b""
    report: bytes = b""
    kept: bool = False


class Client(Held, Generic[PublishedT]):
    """One user's device.

    Args:
        spec: the public contract, `Spec` or `GPSpec`.
        privacy: the user's own promise, of one of the spec's `epsilons`, chosen without looking at context
            or reward; None: the spec's.
        ledger: the device's own ledger; by default one in memory.
        outbox: where reports wait; by default in memory. A real device gives a `FileOutbox` and an
            `SQLiteLedger`, so that neither is forgotten in a crash.
        budget: total epsilon the device will ever spend on this spec, delta in proportion; by default one
            report's.
        account: name of the account in the ledger.

    Privacy: every report keeps the promise. The budget is charged before the report is drawn, the report is
    stored before it is returned, and a retry returns the same bytes.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     domain=dpb.Box(low=[0], high=[1]), n_arms=2, privacy=dpb.LocalDP(epsilon=1))
        >>> client, server = Client(spec), dpb.local.Server(spec)
        >>> arm = client.choose(server.publish(), [0.3])
        >>> report = client.report(1.0)
        >>> server.absorb([report, report]).accepted
        1
    """

    _moving: ClassVar[str] = "Build it again over the ledger and the outbox"

    def __init__(
        self,
        spec: Contract[PublishedT],
        *,
        privacy: "LocalDP | JointDP | None" = None,
        ledger: Ledger | None = None,
        outbox: Outbox | None = None,
        budget: Amount | None = None,
        account: str = "local-reports",
    ) -> None:
        self.spec = spec
        self.privacy = own = spec.own(privacy)
        self._outbox: Outbox = MemoryOutbox() if outbox is None else outbox
        purse: Ledger = MemoryLedger() if ledger is None else ledger
        delta: Amount = own.delta
        if budget is not None and delta:
            delta = Decimal(str(delta)) * Decimal(str(budget)) / Decimal(str(own.epsilon))
        purse.open_account(account, epsilon=own.epsilon if budget is None else budget, delta=delta)
        self._holder = Holder(what="device", ledger=purse, account=account)
        self._last: _Open | None = None
        self._paid: bytes | None = None

    @property
    def guarantee(self) -> "Guarantee":
        """What one report promises."""
        return self.spec.statement(self.privacy)

    @in_turn
    def choose(self, published: PublishedT, context: ArrayLike) -> int:
        """The arm for this context, or the row of these candidates; nothing is sent.

        What `report` was to send before is over: a stored report stays in the outbox (`unsent`).

        Args:
            published: by the server.
            context: (dim,) inside the spec's domain; candidates (n, dim) for a `GPSpec`.

        Raises:
            InvalidData: the context has another shape, is not finite, or lies outside the domain.
            IncompatibleState: what was published does not fit the spec.
        """
        self._last = None  # a refusal leaves nothing open: a reward must not be told of an earlier context
        choice = self.spec.choose(published, context, self.privacy)
        self._last = _Open(choice)
        return choice.arm

    @in_turn
    def report(self, reward: float) -> bytes:
        """The private report of the last choice: the only thing that leaves the device.

        Calling it again for the same choice returns the same bytes and costs nothing.

        Args:
            reward: of the chosen arm; clipped to the spec's range.

        Raises:
            ProtocolError: no choice is open.
            InvalidData: the reward is not a finite number.
            BudgetExceeded: the device's budget does not cover another report; nothing was drawn.
        """
        last = self._last
        if last is None:
            raise ProtocolError("report: choose an arm first")
        if last.kept:
            stored = self._outbox.get(last.nonce.hex())
            if stored is None:
                raise ProtocolError("report: this choice was reported and sent; choose again")
            return stored
        if not last.report:
            last.nonce, last.report = self._draw(last.choice, reward)
        # Where storing fails, the next call stores these bytes: one choice is paid and drawn once.
        self._outbox.put(last.nonce.hex(), last.report)
        last.kept = True
        return last.report

    def _draw(self, choice: Chosen, reward: float) -> tuple[bytes, bytes]:
        """Where the user's data meets noise: nonce and report, after the ledger was charged."""
        exact = self.spec.exact(choice, reward)
        # A ledger that failed may have written the charge: its id is used until something is drawn under it.
        nonce = self._paid = self._paid or os.urandom(NONCE_BYTES)
        self._holder.charge(nonce.hex(), epsilon=self.privacy.epsilon, delta=self.privacy.delta)
        payload = self.spec.noised(choice, exact, self.privacy)
        self._paid = None
        return nonce, pack(spec=self.spec, version=choice.version, nonce=nonce, payload=payload)

    def unsent(self) -> list[bytes]:
        """Reports stored and not yet marked as sent: after a crash, send these again."""
        return list(self._outbox.pending().values())

    def sent(self, report: bytes) -> None:
        """Forget a report that the server has confirmed."""
        for key, stored in self._outbox.pending().items():
            if stored == report:
                self._outbox.remove(key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(epsilon={self.privacy.epsilon:g})"


class SourceClient(Client[PublishedArms]):
    """A source's device: like `Client`, and it can report what was decided without it.

    Example:
        >>> import dpbandits as dpb
        >>> target = Spec(domain=dpb.Box(low=[0], high=[1]), n_arms=2, privacy=dpb.LocalDP(epsilon=1),
        ...     learner="tree")
        >>> source = dpb.local.SourceSpec(
        ...     target=target, name="last year", n_users=1000, privacy=dpb.LocalDP(epsilon=4))
        >>> device, server = SourceClient(source.reports), dpb.local.Server(source.reports)
        >>> device.observe(server.publish(), [0.3], arm=1)
        >>> server.absorb([device.report(0.0)]).accepted
        1
    """

    spec: Spec

    @in_turn
    def observe(self, published: PublishedArms, context: ArrayLike, arm: int) -> None:
        """Take a decision that was made elsewhere; `report` then reports it.

        Args:
            published: by the source's server; its bins count, its arms do not.
            context: as for `choose`.
            arm: the arm that was pulled.

        Raises:
            InvalidParameter: no such arm, or the spec's arms are assigned by the server.
            InvalidData: as for `choose`.
        """
        arm = integer(arm, name="arm", minimum=0)
        if self.spec.arms != "user" or arm >= self.spec.n_arms:
            raise InvalidParameter("observe: expected a spec with arms 'user', and one of its arms")
        self.choose(published, context)
        if self._last is not None:
            self._last.choice.arm = arm

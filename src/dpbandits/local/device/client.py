"""The client (`Client`): choose with a published version, report privately, and charge the budget.

The number and the shape of a client's reports, and its refusals, depend only on the spec, the published
versions and the budget. These are checked first. Afterwards no context and no reward is refused: numbers out
of bounds are clipped, unreadable data is missing, and a choice without a reward is reported too. Missing
data is replaced by an input that depends on no user. Counts of such data stay on the device
(`Client.unsafe_counts`). To test an integration without a server use `spec.check(context)`.

A client of a `Spec` needs only NumPy and the standard library. Randomness comes from the operating system's
generator only, and no argument replaces it.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn

from dpbandits._calls import worded
from dpbandits._checks import an
from dpbandits._seen import no_such, said
from dpbandits.budget import Account, Cost, MemoryLedger, Terms, Unit
from dpbandits.budget.amounts import Amount, exact
from dpbandits.domains.rewards import read_reward
from dpbandits.errors import BudgetExceeded, IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.reports import NONCE_BYTES, Chosen, Contract, PublishedT, pack
from dpbandits.local.contract.spec import Spec
from dpbandits.local.device.outbox import MemoryOutbox, Outbox
from dpbandits.state.holder import Held, Holder, in_turn

if TYPE_CHECKING:
    from dpbandits.privacy.definitions import JointDP, LocalDP
    from dpbandits.privacy.guarantee import Guarantee, Status

__all__ = ["Client", "SourceClient"]

MOST_VERSIONS = 1 << 16
"""Largest number of versions that one client accepts."""

_SPEC = "the Spec or GPSpec of its server, for JSON Spec.from_json(text)"

_SPENT = "use decide(), which makes no report, or pass budget= to a new client for several reports"

_NESTED = "a call of this client is under way in this thread: call it again afterwards"


_INSTEAD = {
    "ask": "choose(published, context)",
    "tell": "report(reward)",
    "abandon": "report(None)",
    "predict": "predict(spec, contexts) of the server's estimate()",
    "recommend": "decide(published, context)",
    "publish": "publish() of the server",
    "save": "an outbox and a ledger, which store the client's state",
}
"""Names of methods of policies in other packages, and the equivalent methods of `Client`."""


@dataclass(repr=False)
class _Open:
    """A choice and its report, once it was drawn. It is private data and is never printed."""

    choice: Chosen | None  # removed when the report is drawn
    nonce: bytes = b""
    report: bytes = b""
    kept: bool = False


@worded
class Client(Held, Generic[PublishedT]):
    """One user's client: it chooses arms and makes private reports.

    Args:
        spec: The public contract, `Spec`, `GPSpec` or `ReadoutSpec`. The ledger account and the outbox are
            bound to it and cannot be used for another spec.
        privacy: The user's own guarantee, with one of the spec's `epsilons`, chosen without looking at
            context or reward; None for the spec's.
        outbox: Store of reports not yet sent; by default in memory. In production use a `FileOutbox` and the
            account of an `SQLiteLedger`, which survive a crash.
        budget: Total epsilon that the client may ever spend on this spec, with delta in proportion; by
            default enough for one report.
        account: Account of the client's own ledger, such as `SQLiteLedger(path).account("reports")`; the
            client opens it. Each spec needs its own. By default it is in memory.

    Privacy: every report has the guarantee. Each choice has one charge and one report, also with several
    threads. The budget is charged before the report is drawn, the report is stored before it is returned,
    and a retry returns the same bytes. A forked process is refused.

    Raises:
        InvalidParameter: an argument is of another kind, the budget allows more reports than a `ReadoutSpec`
            takes, or the account is open with other parameters or for another spec.
        IncompatibleState: the outbox belongs to another spec.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
        >>> client, server = Client(spec), dpb.local.Server(spec)
        >>> arm = client.choose(server.publish(), [0.3])
        >>> report = client.report(1.0)
        >>> server.absorb([report, report]).accepted
        1
    """

    _moving: ClassVar[str] = "Build a new one with the same ledger and outbox"

    def __init__(
        self,
        spec: Contract[PublishedT],
        *,
        privacy: "LocalDP | JointDP | None" = None,
        outbox: Outbox | None = None,
        budget: Amount | None = None,
        account: Account | None = None,
    ) -> None:
        self.spec = an(spec, Contract, name="spec", pass_=_SPEC)
        self.privacy = own = spec.protocol.own(privacy)
        self._outbox: Outbox = MemoryOutbox() if outbox is None else outbox
        an(self._outbox, Outbox, name="outbox", pass_="outbox=FileOutbox(folder)")
        purse = MemoryLedger().account("local-reports") if account is None else account
        an(purse, Account, name="account", pass_='account=SQLiteLedger(path).account("reports")')
        total = exact(own.epsilon if budget is None else budget, name="budget")
        most = spec.protocol.most_reports
        if most is not None and total > most * exact(own.epsilon, name="epsilon"):
            raise InvalidParameter(
                f"budget: a {type(spec).__name__} takes {most} report of each device: leave budget= out"
            )
        delta = exact(own.delta, name="delta")
        if budget is not None and delta:
            delta = delta * total / Decimal(str(own.epsilon))
        self._outbox.pin(spec.fingerprint, spec.digest)
        unit = Unit(
            f"one user: everything the user's device reports under the spec {spec.fingerprint}",
            "any two sequences of inputs that the device could report on are neighbours",
        )
        book: Any = purse.ledger
        book.open_account(purse.name, privacy=Terms(epsilon=total, delta=delta, unit=unit))
        self._ledger, self._account = purse.ledger, purse.name
        simulated = spec.protocol.status != "enforced"  # simulated noise is reproducible
        self._cost = Cost(unit=unit, epsilon=own.epsilon, delta=own.delta, simulated=simulated)
        self._holder = Holder(what="device", account=purse, nested=_NESTED)
        self._last: _Open | None = None
        self._paid: bytes | None = None
        self._remembered = False
        self._versions: dict[int, bytes] = {}
        self._told: PublishedT | None = None
        self._counts: Counter[str] = Counter()

    @property
    def guarantee(self) -> "Guarantee":
        """Guarantee of each report: of the next one, and of all reports that outbox and account know of.

        If one report had simulated noise or a larger epsilon, this counts permanently.

        Raises:
            CorruptState: the outbox's log of releases is damaged, or holds weaker terms than the spec's.
            StateError: the ledger could not be read.
        """
        paid = self._ledger.balance(self._account)
        status: Status = "simulated" if paid.simulated else "enforced"
        from dpbandits.local.contract.statement import weakest

        return weakest(self.spec, self.privacy, self._outbox.log(), status=status)

    @property
    def unsafe_counts(self) -> Mapping[str, int]:
        """Numbers of clipped or missing contexts and rewards, and of unavailable arms.

        These are private data: they must not leave the device.
        """
        return MappingProxyType(self._counts)

    @in_turn
    def decide(self, published: PublishedT, context: Any, *, available: Any = None) -> Any:
        """Return the arm for this context, or the row of these candidates, without report or charge.

        Use this if the budget is spent or the user does not take part. Whether you call `decide` or `choose`
        must not depend on the user's data. Arguments and errors are those of `choose`.
        """
        self._agree(published)
        return self.spec.protocol.label(
            self._read(self.spec.protocol.decide, published, context, available).arm
        )

    @in_turn
    def choose(self, published: PublishedT, context: Any, *, available: Any = None) -> Any:
        """Return the arm for this context, or the row of these candidates; nothing is sent.

        An earlier choice without a report is reported now without its reward, and closed: a later reward
        could belong to another context. Its report is put into the outbox (`unsent`), and the budget must
        cover both reports. A choice that is refused changes nothing: the earlier one stays open for its own
        reward. If `decide` answers instead, that answer has no `report`.

        Args:
            published: Version from the server.
            context: A dict, a dataclass or a row if the spec has columns; (dim,) for a box; candidates (n,
                dim) for a `GPSpec`. No context is refused. Numbers outside the domain are clipped to it. An
                unreadable context is missing, and decided like the middle of the domain (for candidates: row
                0).
            available: Arms that may be given to this user now; None for all. The report hides this list as it
                hides the context. A list that is empty or cannot be read counts as all arms, and the report
                is then independent of the user's data. Under a `Spec` the same happens if the published arm
                is not available. The server treats such reports like missing rewards, so that an arm which is
                rarely available looks average. For candidates, leave out rows instead.

        Returns:
            The arm's label, or the index of the row.

        Raises:
            InvalidParameter: `published` is no version of the spec's server, or `available` was passed for a
                spec without arms.
            IncompatibleState: the version does not fit the spec, or differs from an earlier one with its
                number.
            BudgetExceeded: the budget does not cover another report.
            StateError, OSError: the report of the earlier choice could not be charged or stored.
        """
        return self.spec.protocol.label(self._choose(published, context, available).arm)

    def _choose(self, published: PublishedT, context: Any, available: Any = None) -> Chosen:
        self._agree(published)
        self._afford()
        if self._last is not None:
            self._report(self._last, None)
            self._last = None
        choice = self._read(self.spec.protocol.choose, published, context, available)
        self._last = _Open(choice)
        return choice

    @in_turn
    def report(self, reward: float | None) -> bytes:
        """Return the private report of the last choice, the only data that leaves the device.

        Another call for the same choice returns the same bytes and costs nothing.

        Args:
            reward: Reward of the chosen arm, clipped to the spec's range. None, and anything but a number, is
                missing: the report is then independent of this user. If no reward has come within the spec's
                `deadline`, call `report(None)`. The time of sending is visible: a report sent as soon as a
                reward comes reveals that it came. Let reports wait (`unsent`) until a time that is
                independent of the data.

        Raises:
            ProtocolError: no choice is open, or its report was sent.
            BudgetExceeded: other clients spent the account meanwhile; nothing was drawn.
        """
        if self._last is None:
            raise ProtocolError("report: no choice is open; choose an arm first")
        stored = self._report(self._last, reward)
        if stored is None:
            raise ProtocolError("report: the report of this choice was sent: call choose again")
        return stored

    def _agree(self, published: PublishedT) -> None:
        if published is self._told is not None:
            return
        kind = self.spec.protocol.publishes
        an(
            published,
            kind,
            name="published",
            pass_=f"the version from the server's publish(), or {kind.__name__}.from_json(text, spec)",
        )
        digest = published.lineage(self.spec)
        if self._versions.setdefault(published.version, digest) != digest:
            raise IncompatibleState(f"version {published.version} has other contents than an earlier one")
        if len(self._versions) > MOST_VERSIONS:
            del self._versions[published.version]
            raise ProtocolError(f"this client has used {MOST_VERSIONS} versions and takes no more")
        self._told = published

    def _afford(self) -> None:
        """Raise BudgetExceeded if the account cannot pay for a choice.

        Call this before private data is read or a choice is reported.

        The amount due is for this choice's report, and for the report of an earlier open choice if that was
        not drawn. A charge that a failing ledger may have made is subtracted.
        """
        drawn = self._last is None or self._last.choice is None
        due = (1 if drawn else 2) - (self._paid is not None)
        account, balance = self._account, self._ledger.balance(self._account)
        charge = self._cost.charged_to(balance.terms, account=account)
        try:
            for _ in range(due):
                balance = balance.charged(charge, account=account)
        except BudgetExceeded as error:
            raise BudgetExceeded(f"{error}; {_SPENT}") from None

    def _read(
        self, choosing: Callable[..., Chosen], published: PublishedT, context: Any, available: Any
    ) -> Chosen:
        choice = choosing(published, context, self.privacy, available)
        self._counts["unavailable arms"] += choice.unavailable
        self._counts["missing contexts"] += choice.missing
        self._counts["clipped contexts"] += choice.clipped
        return choice

    def _report(self, last: _Open, reward: Any) -> bytes | None:
        """Return the report of a choice, drawn and stored once. It is None if the report has been sent."""
        if last.kept:
            return self._outbox.get(last.nonce.hex())
        if last.choice is not None and not last.report:
            last.nonce, last.report = self._draw(last.choice, reward)
        last.choice = None  # the private data is no longer needed
        # If storing fails, the next call stores the same bytes: a choice is charged and drawn once.
        self._outbox.put(last.nonce.hex(), last.report)
        last.kept = True
        return last.report

    def _draw(self, choice: Chosen, reward: Any) -> tuple[bytes, bytes]:
        """Draw a report; return its nonce and its bytes.

        The user's data meets noise here, after the ledger was charged.
        """
        # A ledger that failed may have recorded the charge: reuse its id until a report is drawn with it.
        nonce = self._paid = self._paid or os.urandom(NONCE_BYTES)
        self._holder.charge(nonce.hex(), cost=self._cost)
        if not self._remembered:
            own = {"privacy": self.privacy.to_config(), "charge": self._account, "witnessed": False}
            self._outbox.remember("report", self.spec.protocol.terms(self.privacy) | own)
            self._remembered = True
        value, clipped = read_reward(self.spec.reward_range, reward)
        self._counts["missing rewards"] += value is None
        self._counts["clipped rewards"] += clipped
        payload = self.spec.protocol.noised(choice, self.spec.protocol.exact(choice, value), self.privacy)
        self._paid = None
        return nonce, pack(spec=self.spec, version=choice.version, nonce=nonce, payload=payload)

    def unsent(self) -> list[bytes]:
        """Return the reports that are stored and not marked as sent. After a crash, send these again."""
        return list(self._outbox.pending().values())

    def sent(self, report: bytes) -> None:
        """Remove a report that the server has confirmed."""
        for key, stored in self._outbox.pending().items():
            if stored == report:
                self._outbox.remove(key)

    def __repr__(self) -> str:
        return said(self, epsilon=self.privacy.epsilon, delta=getattr(self.privacy, "delta", 0.0))

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, _INSTEAD)


class SourceClient(Client[PublishedArms]):
    """Client of a source. It works like `Client`, and can also report decisions that were made elsewhere.

    Example:
        >>> import dpbandits as dpb
        >>> target = Spec(contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1),
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
    def observe(self, published: PublishedArms, context: Any, arm: Any) -> None:
        """Record a decision that was made elsewhere, so that `report` can report it.

        Args:
            published: Version from the source's server; only its bins are used.
            context: Context as for `choose`.
            arm: Label of the chosen arm. An unknown label counts as missing data, like an unreadable
                context.

        Raises:
            InvalidParameter: under this spec the server chooses.
            IncompatibleState, BudgetExceeded, StateError, OSError: as in `choose`.
        """
        if self.spec.chooser != "client":
            raise InvalidParameter('observe: expected a spec with chooser="client"')
        choice, code = self._choose(published, context), self.spec.protocol.arms.code(arm)
        choice.arm = max(code, 0)
        choice.missing |= code < 0

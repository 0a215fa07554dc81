"""The device's side: choose with what was published, report privately, keep the report, spend own budget.

Whether a device refuses, and how many reports of what shape it makes, depends on the spec, what was published
and the budget alone. These are judged first; after that no context and no reward is refused. Numbers outside
their bounds are clipped, what cannot be read is missing, and a choice without a reward reports all the same:
what is missing is replaced by an input of nobody. Counters of that stay on the device
(`Client.unsafe_counts`), and `spec.check(context)` tests an integration without a server.

NumPy and the standard library only, where the contract asks for no more. The operating system's generator is
the only source of randomness, and no argument replaces it.
"""

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn

from dpbandits._calls import worded
from dpbandits._checks import an
from dpbandits._seen import no_such, said
from dpbandits.budget import Account, Cost, MemoryLedger, Terms, Unit
from dpbandits.budget.amounts import Amount, exact
from dpbandits.errors import BudgetExceeded, IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.reports import NONCE_BYTES, Chosen, Contract, PublishedT, pack, read_reward
from dpbandits.local.contract.spec import Spec
from dpbandits.local.device.outbox import MemoryOutbox, Outbox
from dpbandits.state.holder import Held, Holder, in_turn

if TYPE_CHECKING:
    from dpbandits.privacy.definitions import JointDP, LocalDP
    from dpbandits.privacy.guarantee import Guarantee, Status

__all__ = ["Client", "SourceClient"]

MOST_VERSIONS = 1 << 16
"""Versions that one client takes from a server."""

_SPEC = "the Spec or GPSpec of its server, of JSON Spec.from_json(text)"

_SPENT = "decide() answers without a report, and budget= lets a new device make several"

_NESTED = "a call of this device is under way in this thread: its report is not drawn twice"


_INSTEAD = {
    "ask": "choose(published, context)",
    "tell": "report(reward)",
    "abandon": "report(None)",
    "predict": "predict(spec, contexts) of the server's estimate()",
    "recommend": "decide(published, context)",
    "publish": "publish() of the server",
    "save": "an outbox and a ledger that keep what this device has to remember",
}
"""Calls of policies in other packages, and what stands for them here."""


@dataclass(repr=False)
class _Open:
    """A choice and what has become of it. Never printed: it is the user's data."""

    choice: Chosen | None  # None once the report is drawn
    nonce: bytes = b""
    report: bytes = b""
    kept: bool = False


@worded
class Client(Held, Generic[PublishedT]):
    """One user's device.

    Args:
        spec: the public contract, `Spec` or `GPSpec`. Ledger account and outbox are bound to it: neither
            takes part in another.
        privacy: the user's own promise, of one of the spec's `epsilons`, chosen without looking at context
            or reward; None: the spec's.
        outbox: where reports wait; by default in memory. A real device gives a `FileOutbox` and the account
            of an `SQLiteLedger`, so that neither is forgotten in a crash.
        budget: total epsilon the device will ever spend on this spec, delta in proportion; by default one
            report's.
        account: of the device's own ledger, such as `SQLiteLedger(path).account("reports")`, which is opened
            here; each spec needs its own. By default one in memory.

    Privacy: every report keeps the promise. One choice, one charge, one report, whatever threads do: the
    budget is charged before the report is drawn, the report is stored before it is returned, and a retry
    returns the same bytes. A forked process is refused.

    Raises:
        InvalidParameter: arguments of another kind, or an account that is open on other terms or for another
            spec.
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

    _moving: ClassVar[str] = "Build it again over the ledger and the outbox"

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
        simulated = spec.protocol.status != "enforced"  # the account remembers noise that can be repeated
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
        """Guarantee of one report: the next, and all that outbox and account know of.

        A report of simulated noise, or of a larger epsilon of the spec's, counts for good.

        Raises:
            CorruptState: the outbox's log of releases is damaged, or of weaker terms than the spec's.
            StateError: the ledger could not be asked.
        """
        paid = self._ledger.balance(self._account)
        status: Status = "simulated" if paid.simulated else "enforced"
        from dpbandits.local.contract.statement import weakest

        return weakest(self.spec, self.privacy, self._outbox.log(), status=status)

    @property
    def unsafe_counts(self) -> Mapping[str, int]:
        """How many contexts and rewards were clipped or missing, and how many arms were not available.

        The user's data, for the device alone.
        """
        return MappingProxyType(self._counts)

    @in_turn
    def decide(self, published: PublishedT, context: Any, *, available: Any = None) -> Any:
        """The arm for this context, or the row of these candidates; no report follows and nothing is charged.

        For a device whose budget is spent, or that takes no part. Whether it calls this or `choose` must not
        depend on its user's data. Arguments and errors are those of `choose`.
        """
        self._agree(published)
        return self.spec.protocol.label(self._read(published, context, available).arm)

    @in_turn
    def choose(self, published: PublishedT, context: Any, *, available: Any = None) -> Any:
        """The arm for this context, or the row of these candidates; nothing is sent.

        An earlier choice that has no report gets one without its reward, and is over: a reward must not be
        told of another context. Its report waits in the outbox (`unsent`), and the budget has to cover both.
        A choice that is refused changes nothing: the earlier one stays open and takes its own reward, so what
        `decide` answers meanwhile has no `report`.

        Args:
            published: by the server.
            context: a dict, a dataclass or a row where the spec has columns; (dim,) of a box, and for a
                `GPSpec` candidates (n, dim). No context is refused: numbers outside the domain are
                clipped to it; what cannot be read is missing, and decided as the middle of the domain is
                (candidates: as row 0).
            available: list of the arms that may be given to this person now; default all. The report hides it
                as it hides the context. A list that cannot be read, or names none, is taken for all arms, and
                the report then says nothing. Of a `Spec`, so it does wherever the published arm was not
                available, which its server takes for missing rewards: an arm that seldom is looks like an
                average one. Of candidates leave rows out instead.

        Returns:
            The arm's label, or the number of the row.

        Raises:
            InvalidParameter: not what the spec's server publishes, or `available` where there are no arms.
            IncompatibleState: what was published does not fit the spec, or differs from what had its number.
            BudgetExceeded: the device's budget does not cover another report.
            StateError, OSError: the report of the earlier choice could not be charged or stored.
        """
        return self.spec.protocol.label(self._choose(published, context, available).arm)

    def _choose(self, published: PublishedT, context: Any, available: Any = None) -> Chosen:
        """See `choose`."""
        self._agree(published)
        self._afford()
        if self._last is not None:
            self._report(self._last, None)
            self._last = None
        choice = self._read(published, context, available)
        self._last = _Open(choice)
        return choice

    @in_turn
    def report(self, reward: float | None) -> bytes:
        """The private report of the last choice: the only thing that leaves the device.

        Calling it again for the same choice returns the same bytes and costs nothing.

        Args:
            reward: of the chosen arm; clipped to the spec's range. What is no number is missing, and None is:
                the report then says nothing of this user. Where no reward has come within the spec's
                `deadline`, call `report(None)`. When a report is sent is seen: one that leaves as soon as a
                reward comes tells that it came. Let reports wait (`unsent`) until a time that says nothing.

        Raises:
            ProtocolError: no choice is open, or its report was sent.
            BudgetExceeded: others have spent the account meanwhile; nothing was drawn.
        """
        if self._last is None:
            raise ProtocolError("report: no choice is open; choose an arm first")
        stored = self._report(self._last, reward)
        if stored is None:
            raise ProtocolError("report: this choice was reported and sent; choose again")
        return stored

    def _agree(self, published: PublishedT) -> None:
        """Refuse what is not of the spec's server, before anything private is read."""
        if published is self._told is not None:
            return
        kind = self.spec.protocol.publishes
        an(
            published,
            kind,
            name="published",
            pass_=f"what the server's publish() gave, or {kind.__name__}.from_json(text, spec)",
        )
        digest = published.lineage(self.spec)
        if self._versions.setdefault(published.version, digest) != digest:
            raise IncompatibleState(f"version {published.version} was published with other contents before")
        if len(self._versions) > MOST_VERSIONS:
            del self._versions[published.version]
            raise ProtocolError(f"this device has taken {MOST_VERSIONS} versions and takes no more")
        self._told = published

    def _afford(self) -> None:
        """Refuse what the account cannot pay, before anything private is read or an open choice is reported.

        To pay: this choice's report, and that of an open choice which is not drawn; less what a ledger that
        failed may have charged.
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

    def _read(self, published: PublishedT, context: Any, available: Any) -> Chosen:
        choice = self.spec.protocol.choose(published, context, self.privacy, available)
        self._counts["unavailable arms"] += choice.unavailable
        self._counts["missing contexts"] += choice.missing
        self._counts["clipped contexts"] += choice.clipped
        return choice

    def _report(self, last: _Open, reward: Any) -> bytes | None:
        """The report of a choice, drawn and stored once; None where it was sent since."""
        if last.kept:
            return self._outbox.get(last.nonce.hex())
        if last.choice is not None and not last.report:
            last.nonce, last.report = self._draw(last.choice, reward)
        last.choice = None  # what the report was about is not kept
        # Where storing fails, the next call stores these bytes: one choice is paid and drawn once.
        self._outbox.put(last.nonce.hex(), last.report)
        last.kept = True
        return last.report

    def _draw(self, choice: Chosen, reward: Any) -> tuple[bytes, bytes]:
        """Draw a report. The user's data meets noise here: nonce and report are drawn after the ledger was
        charged.
        """
        # A ledger that failed may have written the charge: its id is used until something is drawn under it.
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
        """Reports stored and not yet marked as sent: after a crash, send these again."""
        return list(self._outbox.pending().values())

    def sent(self, report: bytes) -> None:
        """Forget a report that the server has confirmed."""
        for key, stored in self._outbox.pending().items():
            if stored == report:
                self._outbox.remove(key)

    def __repr__(self) -> str:
        return said(self, epsilon=self.privacy.epsilon, delta=getattr(self.privacy, "delta", 0.0))

    if not TYPE_CHECKING:  # who checks types is told of every name that is not here

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, _INSTEAD)


class SourceClient(Client[PublishedArms]):
    """A source's device: like `Client`, and it can report what was decided without it.

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
        """Take a decision that was made elsewhere; `report` then reports it.

        Args:
            published: by the source's server; its bins count, its arms do not.
            context: as for `choose`.
            arm: label of the arm that was pulled; what is no arm is missing, like a context.

        Raises:
            InvalidParameter: the spec's server chooses.
            IncompatibleState, BudgetExceeded, StateError, OSError: as for `choose`.
        """
        if self.spec.chooser != "client":
            raise InvalidParameter('observe: expected a spec with chooser="client"')
        choice, code = self._choose(published, context), self.spec.protocol.arms.code(arm)
        choice.arm = max(code, 0)
        choice.missing |= code < 0

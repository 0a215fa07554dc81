"""`Ledger`: a record of spent budget and of the position of each saved state.

A ledger keeps two records that must outlive any one process or copy of a state:

- **Accounts.** A charge is written before anything is computed from it, under an id that makes it
  idempotent: a retry after a crash is the same charge. Amounts are exact decimals.
- **The witness.** Every committed state advances its lineage by one position, compare-and-set.
  Of two copies of one state only the first to advance goes on; the other gets `ForkedState`.

An account protects one `Unit`, fixed when it is opened, and every cost names its own. A cost in another unit
is converted by the rules of `dpbandits.budget.units`, or refused. How an account adds up
its charges, and why that keeps its promise, is in `dpbandits.budget.accountants`.

Names of accounts appear in messages, so they must be public; ids of charges never do.
"""

import unicodedata
from abc import abstractmethod
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from dpbandits._calls import worded
from dpbandits.budget.accounts import Balance, Charge, Cost, Terms
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.definitions import Definition
from dpbandits.state.witness import Account, Payer, Witness, check_advance, check_name, new_witness

__all__ = ["Ledger"]


class Entries(Protocol):
    """The rows of a ledger, as one event sees them and adds to them."""

    def account(self, name: str) -> Balance | None: ...
    def charge(self, account: str, charge_id: str) -> Charge | None: ...
    def lineage(self, lineage: str) -> Witness | None: ...
    def put_account(self, name: str, balance: Balance) -> None: ...
    def put_charge(self, account: str, charge_id: str, charge: Charge) -> None: ...
    def put_lineage(self, lineage: str, witness: Witness) -> None: ...


class Contents(NamedTuple):
    """All rows of a ledger, to be taken in by another one: balances, charges and witnesses by their names."""

    accounts: dict[str, Balance]
    charges: dict[tuple[str, str], Charge]
    lineages: dict[str, Witness]


class Ledger(Payer):
    """Interface of all ledgers. Each method is atomic. Subclasses implement `_event`."""

    @abstractmethod
    def _event(self) -> AbstractContextManager[Entries]:
        """Open the rows for one atomic, durable change."""

    def _reading(self) -> AbstractContextManager[Entries]:
        """Open the rows for reading."""
        return self._event()

    @worded
    def open_account(self, name: str, *, privacy: Definition | Terms) -> Account:
        """Create an account that keeps a promise, whatever is charged to it; a repeated call changes nothing.

        Args:
            name: public name, without surrounding blanks, in Unicode form NFC.
            privacy: promise that all charges together keep: `JointDP`, `LocalDP` or `RowDP`, which also fixes
                the unit; or `Terms`, for a unit that no promise describes.

        Returns:
            The account, as `account(name)` gives it: a policy takes it as `account=`.

        Raises:
            InvalidParameter: nothing is promised, or the account exists with other terms.

        Example:
            >>> from dpbandits.budget import MemoryLedger
            >>> from dpbandits.privacy.definitions import JointDP
            >>> ledger = MemoryLedger()
            >>> customers = ledger.open_account("customers", privacy=JointDP(2, 1e-5))
            >>> ledger.balance("customers")
            Balance(left: epsilon 2.0 of 2.0, delta 0.00001 of 0.00001; accountant: undecided)
        """
        check_name(name, what="an account's name")
        if name != unicodedata.normalize("NFC", name.strip()):
            raise InvalidParameter(
                "an account's name has blanks around it or an accent apart from its letter (Unicode's form "
                "NFC is expected): written so it would be a second account of the same people"
            )
        opened = Balance(Terms.of(privacy))
        with self._event() as entries:
            existing = entries.account(name)
            if existing is None:
                entries.put_account(name, opened)
            else:
                _check_same_terms(name, existing.terms, opened.terms)
        return self.account(name)

    def account(self, name: str) -> Account:
        """The account of this name, for what pays with it; the first charge refuses one that is not open."""
        return Account(self, name)

    @worded
    def charge(self, account: str, *, charge_id: str, cost: Cost | Definition) -> Balance:
        """Spend budget, durably, before anything is computed from it; returns the new balance.

        Args:
            account: name of an open account.
            charge_id: unique within the account. Charging it again with equal amounts does
                nothing, so that a retry after a crash is safe.
            cost: what to spend. A promise is charged as a mechanism that keeps it and nothing more.

        Raises:
            BudgetExceeded: the account cannot pay; nothing was written.
            InvalidParameter: no such account, no cost, the id was charged other amounts, or the cost is about
                another unit and no conversion to the account's is known.
        """
        check_name(charge_id, what="charge_id")
        asked = Cost.of(cost)
        with self._event() as entries:
            balance = _found(entries.account(account), account)
            charge = asked.charged_to(balance.terms, account=account)
            earlier = entries.charge(account, charge_id)
            if earlier == charge:
                return balance
            if earlier is not None:
                raise InvalidParameter(
                    f"this charge_id was charged {earlier.words()} before, now {charge.words()}: "
                    "use a new id for a new charge"
                )
            balance = balance.charged(charge, account=account)
            entries.put_charge(account, charge_id, charge)
            entries.put_account(account, balance)
            return balance

    def balance(self, account: str) -> Balance:
        """Limits and spending of an account."""
        with self._reading() as entries:
            return _found(entries.account(account), account)

    def after(self, account: str, *, cost: Cost | Definition) -> Balance:
        """Return the balance after a new charge. Nothing is written.

        Raises:
            BudgetExceeded, InvalidParameter: as `charge`.
        """
        balance = self.balance(account)
        return balance.charged(Cost.of(cost).charged_to(balance.terms, account=account), account=account)

    def charged(self, account: str, charge_id: str) -> Charge | None:
        """Return the charge of an id, or None."""
        check_name(charge_id, what="charge_id")
        with self._reading() as entries:
            _found(entries.account(account), account)
            return entries.charge(account, charge_id)

    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """Witness that `lineage` is now at `position` with state `digest`, compare-and-set.

        A lineage's first witness may stand at any position; the next must be one further.
        Repeating the last witness does nothing.

        Raises:
            ForkedState: another copy of the state is at this position or beyond, or positions
                between were skipped.
        """
        witness = new_witness(lineage, position, digest)
        with self._event() as entries:
            last = entries.lineage(lineage)
            check_advance(last, witness)
            if last != witness:
                entries.put_lineage(lineage, witness)

    def last(self, lineage: str) -> Witness | None:
        """The last witness of a lineage, or None when the ledger has never seen it."""
        with self._reading() as entries:
            return entries.lineage(lineage)

    def take_in(self, contents: Contents) -> None:
        """Begin with another ledger's rows; that one is not to be charged, or to witness, any more.

        Raises:
            InvalidParameter: an account or a lineage is there already; nothing was taken.
        """
        with self._event() as entries:
            known = any(entries.account(name) is not None for name in contents.accounts)
            if known or any(entries.lineage(lineage) is not None for lineage in contents.lineages):
                raise InvalidParameter("the ledger has accounts or lineages of these names already")
            for name, balance in contents.accounts.items():
                entries.put_account(name, balance)
            for (account, charge_id), charge in contents.charges.items():
                entries.put_charge(account, charge_id, charge)
            for lineage, witness in contents.lineages.items():
                entries.put_lineage(lineage, witness)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _found(balance: Balance | None, account: str) -> Balance:
    """The balance, or InvalidParameter where there is no account."""
    if balance is None:
        raise InvalidParameter(f"the ledger has no account {account!r}: call open_account first")
    return balance


def _check_same_terms(name: str, existing: Terms, asked: Terms) -> None:
    """Refuse to open an account anew with other terms."""
    if existing != asked:
        names = ("epsilon", "delta", "unit")
        differing = [one for one in names if getattr(existing, one) != getattr(asked, one)]
        raise InvalidParameter(
            f"account {name!r} exists with epsilon {existing.epsilon} and delta {existing.delta} for "
            f"{existing.unit.whose!r}, and differs from what was asked in {', '.join(differing)}: terms of "
            "an open account cannot change, open another account"
        )

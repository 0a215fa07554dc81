"""`Ledger`: a record of spent privacy budget and of the position of each saved state.

A ledger has two records that outlive every process and every copy of a state:

- **Accounts.** A charge is written before anything is computed from it. Its id makes it idempotent: a retry
  after a crash is the same charge. Amounts are exact decimals.
- **Lineages.** A lineage is the sequence of the committed states of one policy. Every committed state
  advances its lineage by one position, with compare-and-set. Of two copies of one state only the first to
  advance continues; the other gets `ForkedState`.

An account protects one `Unit`, fixed when it is opened. A cost in another unit is converted by the rules of
`dpbandits.budget.units`, or refused. The composition rules and their proof are in
`dpbandits.budget.accountants`.

Names of accounts appear in messages, so they must be public. Ids of charges do not appear.
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
    """Access to the rows of a ledger in one transaction."""

    def account(self, name: str) -> Balance | None: ...
    def charge(self, account: str, charge_id: str) -> Charge | None: ...
    def lineage(self, lineage: str) -> Witness | None: ...
    def put_account(self, name: str, balance: Balance) -> None: ...
    def put_charge(self, account: str, charge_id: str, charge: Charge) -> None: ...
    def put_lineage(self, lineage: str, witness: Witness) -> None: ...


class Contents(NamedTuple):
    """All rows of a ledger, for a copy: balances, charges and positions, by their names."""

    accounts: dict[str, Balance]
    charges: dict[tuple[str, str], Charge]
    lineages: dict[str, Witness]


class Ledger(Payer):
    """Interface of all ledgers. Each method is atomic. Subclasses implement `_event`."""

    @abstractmethod
    def _event(self) -> AbstractContextManager[Entries]:
        """Open the rows in a transaction, which is one atomic and durable change."""

    def _reading(self) -> AbstractContextManager[Entries]:
        return self._event()

    @worded
    def open_account(self, name: str, *, privacy: Definition | Terms) -> Account:
        """Open an account with a guarantee for all its charges together. Repeating the call changes nothing.

        Args:
            name: Public name, without surrounding blanks, in Unicode form NFC.
            privacy: Guarantee of all charges together: `JointDP`, `LocalDP` or `RowDP`, which also sets the
                unit; or `Terms`, for any other unit.

        Returns:
            The account, as from `account(name)`. Pass it to a policy as `account=`.

        Raises:
            InvalidParameter: There is no guarantee, or the account exists with other terms.

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
                "an account's name has blanks around it or is not in Unicode form NFC: pass "
                "unicodedata.normalize('NFC', name.strip()), so that no second account looks the same"
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
        """Return the account with this name, to pass as `account=`.

        An unknown name fails at the first charge.
        """
        return Account(self, name)

    @worded
    def charge(self, account: str, *, charge_id: str, cost: Cost | Definition) -> Balance:
        """Spend budget durably, and return the new balance. Charge before you compute anything.

        Args:
            account: Name of an open account.
            charge_id: Id, unique within the account. Charging it again with equal amounts does nothing, so
                that a retry after a crash is safe.
            cost: Cost to spend. A bare guarantee is charged without a certificate, by (epsilon, delta).

        Raises:
            BudgetExceeded: The charge exceeds the budget; nothing was written.
            InvalidParameter: There is no such account, `cost` is not a cost, the id was charged with other
                amounts, or no conversion to the account's unit is known.
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
        """Return the limits and the spent budget of an account."""
        with self._reading() as entries:
            return _found(entries.account(account), account)

    def after(self, account: str, *, cost: Cost | Definition) -> Balance:
        """Return the balance that a new charge would leave. Nothing is written.

        Raises:
            BudgetExceeded, InvalidParameter: As for `charge`.
        """
        balance = self.balance(account)
        return balance.charged(Cost.of(cost).charged_to(balance.terms, account=account), account=account)

    def charged(self, account: str, charge_id: str) -> Charge | None:
        """Return the amounts of the charge with this id; None if there is no such charge."""
        check_name(charge_id, what="charge_id")
        with self._reading() as entries:
            _found(entries.account(account), account)
            return entries.charge(account, charge_id)

    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """Record that `lineage` is at `position` with the state `digest`, with compare-and-set.

        The first position of a lineage may be any number. Each next position must be one larger. Repeating
        the last call does nothing.

        Raises:
            ForkedState: Another copy of the state is at this position or beyond, or a position was skipped.
        """
        witness = new_witness(lineage, position, digest)
        with self._event() as entries:
            last = entries.lineage(lineage)
            check_advance(last, witness)
            if last != witness:
                entries.put_lineage(lineage, witness)

    def last(self, lineage: str) -> Witness | None:
        """Return the last position and digest of a lineage; None if the ledger has never seen it."""
        with self._reading() as entries:
            return entries.lineage(lineage)

    def take_in(self, contents: Contents) -> None:
        """Copy another ledger's rows into this one. Do not use the other ledger afterwards.

        Raises:
            InvalidParameter: An account or a lineage exists already; nothing was copied.
        """
        with self._event() as entries:
            known = any(entries.account(name) is not None for name in contents.accounts)
            if known or any(entries.lineage(lineage) is not None for lineage in contents.lineages):
                raise InvalidParameter("the ledger has accounts or lineages of these names: use an empty one")
            for name, balance in contents.accounts.items():
                entries.put_account(name, balance)
            for (account, charge_id), charge in contents.charges.items():
                entries.put_charge(account, charge_id, charge)
            for lineage, witness in contents.lineages.items():
                entries.put_lineage(lineage, witness)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _found(balance: Balance | None, account: str) -> Balance:
    """Return the balance of an account. Raise InvalidParameter if it is None, as there is no such account."""
    if balance is None:
        raise InvalidParameter(f"the ledger has no account {account!r}: call open_account first")
    return balance


def _check_same_terms(name: str, existing: Terms, asked: Terms) -> None:
    if existing != asked:
        names = ("epsilon", "delta", "unit")
        differing = [one for one in names if getattr(existing, one) != getattr(asked, one)]
        raise InvalidParameter(
            f"account {name!r} exists with epsilon {existing.epsilon} and delta {existing.delta} for "
            f"{existing.unit.whose!r}, and has another {' and another '.join(differing)}: the terms of an "
            "open account cannot change, open another account"
        )

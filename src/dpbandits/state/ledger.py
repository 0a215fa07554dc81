"""Ledgers: how much budget is left, and how far each saved state has gone.

A ledger keeps two records that must outlive any one process or copy of a state:

- **Accounts.** A charge is written before anything is computed from it, under an id that makes it
  idempotent: a retry after a crash is the same charge. Amounts are exact decimals and add up
  (basic composition), so ten charges of 0.1 fit an account of 1 exactly, in any order.
- **The witness.** Every committed state advances its lineage by one position, compare-and-set.
  Of two copies of one state only the first to advance goes on; the other gets `ForkedState`.

Names of accounts appear in messages, so they must be public; ids of charges never do.
"""

import threading
from dataclasses import dataclass, replace
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from typing import NamedTuple, Protocol

import numpy as np

from dpbandits.errors import BudgetExceeded, ForkedState, InvalidParameter
from dpbandits.state.container import LARGEST_POSITION

__all__ = ["Amount", "Balance", "Ledger", "MemoryLedger", "Witness"]

Amount = float | Decimal
"""A budget: floats mean the decimal they print as, so that 0.1 is one tenth."""

# Amounts are bounded so that any sum of them is exact within the context's digits.
_LARGEST_EXPONENT = 400
_LARGEST_DIGITS = 400
_EXACT = Context(prec=2000, traps=[Inexact, InvalidOperation, Overflow])


class Witness(NamedTuple):
    """The last committed position of a lineage, and the digest of the state there."""

    position: int
    digest: str


@dataclass(frozen=True)
class Balance:
    """An account: its limits and what has been charged so far, as exact decimals."""

    epsilon: Decimal
    delta: Decimal
    spent_epsilon: Decimal = Decimal(0)
    spent_delta: Decimal = Decimal(0)

    @property
    def remaining_epsilon(self) -> Decimal:
        """What further charges may spend."""
        return _EXACT.subtract(self.epsilon, self.spent_epsilon)

    @property
    def remaining_delta(self) -> Decimal:
        """What further charges may spend."""
        return _EXACT.subtract(self.delta, self.spent_delta)

    def charged(self, epsilon: Decimal, delta: Decimal, *, account: str) -> "Balance":
        """The balance after a charge; BudgetExceeded where the account cannot pay all of it."""
        if epsilon > self.remaining_epsilon or delta > self.remaining_delta:
            raise BudgetExceeded(
                f"account {account!r} has epsilon {self.remaining_epsilon} and delta {self.remaining_delta} "
                f"left, the charge asks for epsilon {epsilon} and delta {delta}: nothing was charged"
            )
        return replace(
            self, spent_epsilon=add(self.spent_epsilon, epsilon), spent_delta=add(self.spent_delta, delta)
        )


class Ledger(Protocol):
    """What policies, clients and stores ask of a ledger. Every method is atomic."""

    def open_account(self, name: str, *, epsilon: Amount, delta: Amount = 0.0) -> None:
        """Create an account with these limits; repeating it with the same limits does nothing.

        Raises:
            InvalidParameter: the limits are no budget, or the account exists with other limits.
        """

    def charge(self, account: str, *, charge_id: str, epsilon: Amount, delta: Amount = 0.0) -> Balance:
        """Spend budget, durably, before anything is computed from it; returns the new balance.

        Args:
            account: name of an open account.
            charge_id: unique within the account. Charging it again with equal amounts does
                nothing, so that a retry after a crash is safe.
            epsilon: amount to spend.
            delta: amount to spend.

        Raises:
            BudgetExceeded: the account cannot pay; nothing was written.
            InvalidParameter: no such account, no budget, or the id was charged other amounts.
        """

    def balance(self, account: str) -> Balance:
        """Limits and spending of an account."""

    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """Witness that `lineage` is now at `position` with state `digest`, compare-and-set.

        A lineage's first witness may stand at any position; the next must be one further.
        Repeating the last witness does nothing.

        Raises:
            ForkedState: another copy of the state is at this position or beyond, or positions
                between were skipped.
        """

    def last(self, lineage: str) -> Witness | None:
        """The last witness of a lineage, or None when the ledger has never seen it."""


class MemoryLedger:
    """A ledger that lives as long as the process: for tests, notebooks and simulations.

    Example:
        >>> ledger = MemoryLedger()
        >>> ledger.open_account("study", epsilon=0.3)
        >>> for charge in "abc":
        ...     balance = ledger.charge("study", charge_id=charge, epsilon=0.1)
        >>> balance.remaining_epsilon
        Decimal('0.0')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._accounts: dict[str, Balance] = {}
        self._charges: dict[tuple[str, str], tuple[Decimal, Decimal]] = {}
        self._witnesses: dict[str, Witness] = {}

    def open_account(self, name: str, *, epsilon: Amount, delta: Amount = 0.0) -> None:
        """See `Ledger.open_account`."""
        opened = new_account(name, epsilon, delta)
        with self._lock:
            check_same_limits(name, self._accounts.setdefault(name, opened), opened)

    def charge(self, account: str, *, charge_id: str, epsilon: Amount, delta: Amount = 0.0) -> Balance:
        """See `Ledger.charge`."""
        amounts = charge_amounts(charge_id, epsilon, delta)
        with self._lock:
            balance = found(self._accounts.get(account), account)
            earlier = self._charges.get((account, charge_id))
            if earlier is not None:
                check_same_charge(earlier, amounts)
                return balance
            balance = balance.charged(*amounts, account=account)
            self._accounts[account] = balance
            self._charges[account, charge_id] = amounts
            return balance

    def balance(self, account: str) -> Balance:
        """See `Ledger.balance`."""
        with self._lock:
            return found(self._accounts.get(account), account)

    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """See `Ledger.advance`."""
        witness = new_witness(lineage, position, digest)
        with self._lock:
            check_advance(self._witnesses.get(lineage), witness)
            self._witnesses[lineage] = witness

    def last(self, lineage: str) -> Witness | None:
        """See `Ledger.last`."""
        with self._lock:
            return self._witnesses.get(lineage)

    def __repr__(self) -> str:
        return "MemoryLedger()"


# -- the rules, shared by every ledger --------------------------------------------------------------


def add(left: Decimal, right: Decimal) -> Decimal:
    """The exact sum of two budgets."""
    return _EXACT.add(left, right)


def exact(amount: object, *, name: str) -> Decimal:
    """The decimal that an amount prints as.

    Raises:
        InvalidParameter: not a finite number of at least zero, or of absurd size.
    """
    if isinstance(amount, (int, np.integer, Decimal)) and not isinstance(amount, bool):
        decimal = Decimal(amount if isinstance(amount, Decimal) else int(amount))
    elif isinstance(amount, (float, np.floating)):
        decimal = Decimal(repr(float(amount)))
    else:
        raise InvalidParameter(f"{name} is a {type(amount).__name__}, expected a number")
    if not decimal.is_finite() or decimal < 0:
        raise InvalidParameter(f"{name} is {decimal}, expected a finite number of at least 0")
    if not decimal:
        return Decimal(0)  # without a sign or an exponent
    if abs(decimal.adjusted()) > _LARGEST_EXPONENT or len(decimal.as_tuple().digits) > _LARGEST_DIGITS:
        raise InvalidParameter(f"{name} is too large, too small or too long for a budget")
    return decimal


def new_account(name: str, epsilon: Amount, delta: Amount) -> Balance:
    """A fresh account's balance, its arguments checked."""
    _check_name(name, what="an account's name")
    limits = Balance(exact(epsilon, name="epsilon"), exact(delta, name="delta"))
    if limits.delta > 1:
        raise InvalidParameter("delta is above 1, expected a probability")
    return limits


def charge_amounts(charge_id: str, epsilon: Amount, delta: Amount) -> tuple[Decimal, Decimal]:
    """A charge's amounts, its arguments checked."""
    _check_name(charge_id, what="charge_id")
    return exact(epsilon, name="epsilon"), exact(delta, name="delta")


def found(balance: Balance | None, account: str) -> Balance:
    """The balance, or InvalidParameter where there is no account."""
    if balance is None:
        raise InvalidParameter(f"the ledger has no account {account!r}: call open_account first")
    return balance


def check_same_limits(name: str, existing: Balance, asked: Balance) -> None:
    """Refuse to open an account anew with other limits."""
    if (existing.epsilon, existing.delta) != (asked.epsilon, asked.delta):
        raise InvalidParameter(
            f"account {name!r} exists with epsilon {existing.epsilon} and delta {existing.delta}: "
            "limits of an open account cannot change, open another account"
        )


def check_same_charge(earlier: tuple[Decimal, Decimal], amounts: tuple[Decimal, Decimal]) -> None:
    """Refuse to reuse a charge's id for other amounts."""
    if earlier != amounts:
        raise InvalidParameter(
            f"this charge_id was charged epsilon {earlier[0]} and delta {earlier[1]} before, "
            f"now epsilon {amounts[0]} and delta {amounts[1]}: use a new id for a new charge"
        )


def new_witness(lineage: str, position: int, digest: str) -> Witness:
    """A witness, its arguments checked."""
    _check_name(lineage, what="a lineage")
    _check_name(digest, what="a digest")
    if type(position) is not int or not 0 <= position <= LARGEST_POSITION:
        raise InvalidParameter("position must be an integer from 0 to 2**63 - 1")
    return Witness(position, digest)


def check_advance(last: Witness | None, new: Witness) -> None:
    """The compare in compare-and-set: ForkedState unless `new` repeats or follows `last`."""
    if last is None or new == last or new.position == last.position + 1:
        return
    raise ForkedState(
        f"the ledger has witnessed position {last.position} of this state and cannot take position "
        f"{new.position}: another copy has gone on, load the state where that copy keeps it"
    )


def _check_name(name: object, *, what: str) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidParameter(f"{what} must be a non-empty printable string")

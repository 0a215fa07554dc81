"""Ledgers: how much budget is left, and how far each saved state has gone.

A ledger keeps two records that must outlive any one process or copy of a state:

- **Accounts.** A charge is written before anything is computed from it, under an id that makes it
  idempotent: a retry after a crash is the same charge. Amounts are exact decimals.
- **The witness.** Every committed state advances its lineage by one position, compare-and-set.
  Of two copies of one state only the first to advance goes on; the other gets `ForkedState`.

Names of accounts appear in messages, so they must be public; ids of charges never do.

What an account adds
--------------------
An account fixes its `Terms` when it is opened. Its currency says what is added up:

============  =======================  ==============================================================
currency      a charge pays            the account proves
============  =======================  ==============================================================
``bare``      epsilon, delta           (sum of epsilon, sum of delta)
``zcdp``      rho                      zero-concentrated DP of the sum of rho
``gaussian``  mu, distance             within the sum of distances of Gaussian DP with the square root
                                       of the sum of mu^2
============  =======================  ==============================================================

A zCDP or Gaussian account promises (epsilon, delta) in two parts, fixed at opening: (beside_epsilon,
beside_delta) is set aside for charges that are known as bare pairs only, and its total rho or mu proves the
rest. The ledger adds and compares numbers; who opens the account vouches that the total proves the rest
(`dpbandits.policy.accounts`). A pure charge, (epsilon, 0), enters a zCDP account as rho = epsilon^2/2
(Bun, Steinke 2016, Proposition 1.4).

Why refusing what exceeds a total is enough
-------------------------------------------
Charges may be chosen adaptively: which mechanism comes next, and what it costs, may depend on all that was
released before (and on public facts), never on raw data otherwise. Fix two neighbours P, P'.

*zCDP* (Feldman, Zrnic 2021; Whitehouse et al. 2023, Theorem 1). Let L_n be the likelihood ratio of the first
n outputs and a > 1. Given the past, rho_n is a constant, so E'[(L_n/L_{n-1})^a | past] <=
exp(a (a - 1) rho_n), and L_n^a exp(-a (a - 1) (rho_1 + ... + rho_n)) is a supermartingale that begins at 1.
Where the sum never exceeds rho, E'[L_n^a] <= exp(a (a - 1) rho).

*Gaussian DP* (Smith, Thakurta 2022). A mechanism that is mu_n-GDP for this ordered pair is a random function
of one draw from N(0, 1) or N(mu_n, 1) (Blackwell; Dong, Roth, Su 2022, Theorem 2.10), and so of the increment
over a time mu_n^2 of a Brownian motion without drift, or with drift 1. The past decides how long the next
increment is, so all outputs are a random function of the motion stopped no later than at mu^2, which tells
the drifts apart exactly as one draw tells N(0, 1) from N(mu, 1). The condition is that *every* charge in the
sum is Gaussian DP, or near it: zCDP is not enough.

*Distances.* Replace each near-Gaussian mechanism by the Gaussian one within its distance, coupled so that a
step first differs with at most that chance. The sum of distances never exceeds D, so the whole run differs
with chance at most D under either neighbour, and P(S) <= e^epsilon P'(S) + delta + (1 + e^epsilon) D.

*Bare pairs beside* (two filters, interleaved in any order). A bare mechanism is, for this pair, a random
function of a flag, raised with chance delta_j, which tells everything, and else of a randomised response
whose ratio is at most e^epsilon_j (Kairouz, Oh, Viswanath 2015, Theorem 3.1). Some flag is raised with chance
at most E[sum delta_j] <= beside_delta. Otherwise density p = A B, the currency's steps A times the bare ones
B, and B <= e^(beside_epsilon) B' whatever the outputs. So with E = epsilon - beside_epsilon,
p - e^epsilon p' = A B - e^epsilon A' B' <= (A - e^E A') B: a run in which the bare steps are the *same* law
on both sides, mere coins to whoever chooses the next charge, against which the currency's own filter proves
that the positive part is at most delta - beside_delta. The sum is (epsilon, delta), and distances weigh
(1 + e^E).

*All of it for one.* Every mechanism of the currency within the total keeps the promise, but one that keeps it
need not be within the total: Gaussian noise calibrated to (1, 1e-6) is .0280-zCDP, and .0244-zCDP is what
proves (1, 1e-6) for all. So the first charge of an account, if its bare pair is within the whole promise and
it fits in no other way, takes everything: every limit is reached, and nothing follows that costs anything.
Which of the two it is, is decided before anything was released; in either case the promise is kept.

Charges may stand for interactive mechanisms (a policy that goes on for years) that run at the same time:
filters of these currencies hold for their concurrent composition (Haney et al. 2023; Vadhan, Zhang 2023).
"""

import hashlib
import json
import threading
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Context, Decimal, Inexact, InvalidOperation, Overflow
from fractions import Fraction
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeVar, get_args

import numpy as np

from dpbandits._seen import Seen
from dpbandits.errors import BudgetExceeded, ForkedState, InvalidParameter, ProtocolError
from dpbandits.state.container import LARGEST_POSITION

__all__ = ["Amount", "Balance", "Cost", "Currency", "Ledger", "MemoryLedger", "Terms", "Witness"]

Amount = float | Decimal
"""A budget: floats mean the decimal they print as, so that 0.1 is one tenth."""

Currency = Literal["bare", "zcdp", "gaussian"]
"""What an account adds up; see the module's page."""

# Amounts are bounded so that any sum of them, and of their squares, is exact within the context's digits.
_LARGEST_EXPONENT = 400
_LARGEST_DIGITS = 400
_EXACT = Context(prec=4000, Emax=10_000, Emin=-10_000, traps=[Inexact, InvalidOperation, Overflow])

_LONGEST_TEXT = 1000
"""Of the unit and the neighbours of an account, in characters."""

_NOTHING = Decimal(0)


class Witness(NamedTuple):
    """The last committed position of a lineage, and the digest of the state there."""

    position: int
    digest: str


class Charge(NamedTuple):
    """A charge as an account books it: four sums move, and none may exceed its limit.

    `loss` is rho or mu^2, by the account's currency.
    """

    epsilon: Decimal = _NOTHING
    delta: Decimal = _NOTHING
    loss: Decimal = _NOTHING
    distance: Decimal = _NOTHING
    simulated: bool = False

    @classmethod
    def of(cls, amounts: Iterable[Decimal], *, simulated: bool = False) -> "Charge":
        """From its four amounts."""
        epsilon, delta, loss, distance = amounts
        return cls(epsilon, delta, loss, distance, simulated)

    @property
    def amounts(self) -> tuple[Decimal, Decimal, Decimal, Decimal]:
        """What is added up."""
        return self.epsilon, self.delta, self.loss, self.distance

    def within(self, limits: "Charge") -> bool:
        """Whether no sum exceeds its limit."""
        return all(amount <= limit for amount, limit in zip(self.amounts, limits.amounts, strict=True))

    def plus(self, other: "Charge") -> "Charge":
        """Both, exactly."""
        sums = (add(*pair) for pair in zip(self.amounts, other.amounts, strict=True))
        return Charge.of(sums, simulated=self.simulated or other.simulated)


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What an account fixes when it is opened, for ever.

    Args:
        epsilon, delta: what the account promises in all.
        currency: what it adds up.
        total: rho or mu, by the currency, which proves (epsilon - beside_epsilon, delta - beside_delta)
            together with `distance`; 0 in a bare account.
        distance: of a Gaussian account: how far from Gaussian DP its charges may be in all.
        beside_epsilon, beside_delta: the part of the promise that bare charges may spend; 0 in a bare
            account, where they spend all of it.
        unit, neighbours: whose data is one piece, and which inputs nobody may tell apart: short public
            texts, compared word for word with those of charges that name any.

    Raises:
        InvalidParameter: a number that is no budget, or parts that exceed the whole.
    """

    epsilon: Decimal
    delta: Decimal = _NOTHING
    currency: Currency = "bare"
    total: Decimal = _NOTHING
    distance: Decimal = _NOTHING
    beside_epsilon: Decimal = _NOTHING
    beside_delta: Decimal = _NOTHING
    unit: str = ""
    neighbours: str = ""

    def __post_init__(self) -> None:
        for name in _NUMBERS:
            object.__setattr__(self, name, exact(getattr(self, name), name=name))
        for name in ("unit", "neighbours"):
            _check_text(getattr(self, name), name=name)
        if self.currency not in get_args(Currency):
            raise InvalidParameter(f"currency: expected one of {', '.join(map(repr, get_args(Currency)))}")
        if self.delta > 1:
            raise InvalidParameter("delta is above 1, expected a probability")
        if self.currency == "bare":
            if self.total or self.distance or self.beside_epsilon or self.beside_delta:
                raise InvalidParameter("a bare account has its epsilon and delta, and no other total")
            return
        if not self.total:
            raise InvalidParameter(f"total is 0: expected the account's {_LOSSES[self.currency]}")
        if self.distance and self.currency != "gaussian":
            raise InvalidParameter("distance: only a Gaussian account pays for distances")
        if self.beside_epsilon >= self.epsilon or self.beside_delta >= self.delta:
            raise InvalidParameter(
                f"beside: epsilon {self.beside_epsilon} and delta {self.beside_delta} leave nothing of "
                f"epsilon {self.epsilon} and delta {self.delta} to the currency; expected less of both"
            )

    @property
    def stated_at(self) -> Decimal:
        """The delta at which the currency's total is stated."""
        return _EXACT.subtract(self.delta, self.beside_delta)

    @property
    def limits(self) -> Charge:
        """What all charges together may come to."""
        if self.currency == "bare":
            return Charge(self.epsilon, self.delta)
        loss = square(self.total) if self.currency == "gaussian" else self.total
        return Charge(self.beside_epsilon, self.beside_delta, loss, self.distance)

    def to_json(self) -> str:
        """One line of text that `from_json` reads."""
        fields = {name: str(value) for name, value in asdict(self).items()}
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Terms":
        """Terms that `to_json` wrote; whatever Python raises on other text otherwise."""
        fields: Mapping[str, Any] = json.loads(text)
        numbers = {name: Decimal(fields[name]) for name in _NUMBERS}
        return cls(**{**fields, **numbers})


_NUMBERS = ("epsilon", "delta", "total", "distance", "beside_epsilon", "beside_delta")
_LOSSES = {"zcdp": "rho", "gaussian": "mu"}


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one use of noise gives away, in every currency in which it is known.

    An account takes the part in its own currency; what a cost does not name cannot be paid in it. An account
    of zCDP or Gaussian DP takes `epsilon` and `delta` out of what it has set aside when the cost names
    nothing better. `dpbandits.policy.accounts.cost_of` makes costs from certificates.

    Args:
        epsilon, delta: a bare promise.
        rho: zero-concentrated DP.
        mu, distance: within total variation `distance` of Gaussian DP with this mu.
        unit, neighbours: as in `Terms`; empty where the caller vouches that they are the account's.
        simulated: the noise can be repeated, so that the promise holds only against those who cannot.

    Raises:
        InvalidParameter: nothing is named, or a number is no budget.

    Example:
        >>> Cost(mu=0.25, rho=0.03125).rho
        Decimal('0.03125')
    """

    epsilon: Amount | None = None
    delta: Amount = _NOTHING
    rho: Amount | None = None
    mu: Amount | None = None
    distance: Amount = _NOTHING
    unit: str = ""
    neighbours: str = ""
    simulated: bool = False

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "rho", "mu", "distance"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, exact(value, name=name))
        for name in ("unit", "neighbours"):
            _check_text(getattr(self, name), name=name)
        if self.epsilon is None and self.rho is None and self.mu is None:
            raise InvalidParameter("a cost names epsilon (and delta), rho or mu (and distance); here is none")
        if (self.delta and self.epsilon is None) or (self.distance and self.mu is None):
            raise InvalidParameter("delta comes with epsilon, and distance with mu")
        if not isinstance(self.simulated, bool):
            raise InvalidParameter(f"simulated is a {type(self.simulated).__name__}, expected a bool")

    def charged_to(self, terms: Terms, *, account: str) -> Charge:
        """The sums that it moves in an account of these terms.

        Raises:
            InvalidParameter: the account cannot add it up, or protects another unit or other neighbours.
        """
        for name in ("unit", "neighbours"):
            here, there = getattr(self, name), getattr(terms, name)
            if here and there and here != there:
                raise InvalidParameter(
                    f"account {account!r} protects another {name.rstrip('s')} than this charge: it has "
                    f"{there!r}, the charge {here!r}"
                )
        if terms.currency == "gaussian" and self.mu is not None:
            return Charge(
                loss=square(exact(self.mu, name="mu")),
                distance=exact(self.distance, name="distance"),
                simulated=self.simulated,
            )
        if terms.currency == "zcdp" and self.rho is not None:
            return Charge(loss=exact(self.rho, name="rho"), simulated=self.simulated)
        if self.epsilon is None:
            raise InvalidParameter(
                f"account {account!r} adds up {terms.currency} costs and this one is not known in them: "
                "charge its epsilon and delta to what the account has set aside, or another account"
            )
        epsilon, delta = exact(self.epsilon, name="epsilon"), exact(self.delta, name="delta")
        if terms.currency == "zcdp" and not delta:
            return Charge(loss=_EXACT.multiply(square(epsilon), Decimal("0.5")), simulated=self.simulated)
        return Charge(epsilon, delta, simulated=self.simulated)

    def charged_first(self, terms: Terms, *, account: str) -> Charge:
        """The sums that it moves in an account that nothing was charged to: all of them, if need be.

        Raises:
            InvalidParameter: as `charged_to`.
        """
        charge, limits = self.charged_to(terms, account=account), terms.limits
        if charge.within(limits) or self.epsilon is None:
            return charge
        pair = exact(self.epsilon, name="epsilon"), exact(self.delta, name="delta")
        if pair[0] > terms.epsilon or pair[1] > terms.delta:
            return charge
        return limits._replace(simulated=self.simulated)

    def taking_all(self, charge_id: str) -> str:
        """The id of an empty charge that says for which cost `charge_id` took all of an account."""
        numbers = (self.epsilon, self.delta, self.rho, self.mu, self.distance)
        amounts = [None if value is None else str(Fraction(exact(value, name="cost"))) for value in numbers]
        told = json.dumps([charge_id, *amounts, self.simulated]).encode()
        return f"all of it, for {hashlib.sha256(told).hexdigest()}"


@dataclass(frozen=True, repr=False)
class Balance(Seen):
    """An account: its limits and what has been charged so far, as exact decimals.

    `epsilon` and `delta` bound bare charges: they are the whole promise of a bare account, and what was set
    aside in another, whose promise is in `terms`. `loss` is the account's rho, or its mu^2.
    """

    epsilon: Decimal
    delta: Decimal
    spent_epsilon: Decimal = _NOTHING
    spent_delta: Decimal = _NOTHING
    spent_loss: Decimal = _NOTHING
    spent_distance: Decimal = _NOTHING
    simulated: bool = False
    """Whether anything was charged whose noise can be repeated."""
    terms: Terms = field(default=None)  # type: ignore[assignment]  # filled in below

    def __post_init__(self) -> None:
        if self.terms is None:
            object.__setattr__(self, "terms", Terms(epsilon=self.epsilon, delta=self.delta))

    @classmethod
    def of(cls, terms: Terms, spent: Charge = Charge()) -> "Balance":  # noqa: B008 - it cannot change
        """The balance of an account of these terms after charges that came to `spent`."""
        limits = terms.limits
        return cls(limits.epsilon, limits.delta, *spent, terms=terms)

    def __repr__(self) -> str:
        left = (f"{name} {_short(limit - spent)} of {_short(limit)}" for name, spent, limit in self.parts)
        return f"{type(self).__name__}(left: {', '.join(left) or 'nothing'})"

    @property
    def parts(self) -> tuple[tuple[str, Decimal, Decimal], ...]:
        """Of everything that the account has a limit of: its name, what is spent, and the limit."""
        loss = "mu^2" if self.terms.currency == "gaussian" else "rho"
        names = ("epsilon", "delta", loss, "distance")
        rows = zip(names, self.spent[:4], self.terms.limits[:4], strict=True)
        return tuple(row for row in rows if row[2])

    @property
    def spent(self) -> Charge:
        """What all charges came to."""
        return Charge(
            self.spent_epsilon, self.spent_delta, self.spent_loss, self.spent_distance, self.simulated
        )

    @property
    def remaining_epsilon(self) -> Decimal:
        """What further bare charges may spend."""
        return _EXACT.subtract(self.epsilon, self.spent_epsilon)

    @property
    def remaining_delta(self) -> Decimal:
        """What further bare charges may spend."""
        return _EXACT.subtract(self.delta, self.spent_delta)

    @property
    def remaining_loss(self) -> Decimal:
        """What further charges may spend in the account's currency: rho or mu^2."""
        return _EXACT.subtract(self.terms.limits.loss, self.spent_loss)

    @property
    def remaining_distance(self) -> Decimal:
        """How far from Gaussian DP further charges may be, all together."""
        return _EXACT.subtract(self.terms.limits.distance, self.spent_distance)

    def charged(self, charge: Charge, *, account: str) -> "Balance":
        """The balance after a charge; BudgetExceeded where the account cannot pay all of it."""
        limits = self.terms.limits
        total = self.spent.plus(charge)
        if total.loss > limits.loss or total.distance > limits.distance:
            raise BudgetExceeded(
                f"account {account!r} has "
                f"{self._currency_words(self.remaining_loss, self.remaining_distance)} left, the charge asks "
                f"for {self._currency_words(charge.loss, charge.distance)}: nothing was charged"
            )
        if total.epsilon > limits.epsilon or total.delta > limits.delta:
            aside = "" if self.terms.currency == "bare" else " set aside for bare charges and"
            raise BudgetExceeded(
                f"account {account!r} has epsilon {self.remaining_epsilon} and delta {self.remaining_delta}"
                f"{aside} left, the charge asks for epsilon {charge.epsilon} and delta {charge.delta}: "
                "nothing was charged"
            )
        return Balance.of(self.terms, total)

    def _currency_words(self, loss: Decimal, distance: Decimal) -> str:
        if self.terms.currency == "gaussian":
            return f"mu^2 {_short(loss)} and distance {_short(distance)}"
        return f"rho {_short(loss)}"


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


class Ledger(Seen, ABC):
    """What policies, clients and stores ask of a ledger. Every method is atomic.

    A ledger of one's own says how an `_event` sees and changes the rows; the rules are here.
    """

    @abstractmethod
    def _event(self) -> AbstractContextManager[Entries]:
        """The rows, to change: all that is put happens, durably and alone, or nothing of it."""

    def _reading(self) -> AbstractContextManager[Entries]:
        """The rows, to look at."""
        return self._event()

    def open_account(
        self, name: str, *, epsilon: Amount | None = None, delta: Amount = 0.0, terms: Terms | None = None
    ) -> None:
        """Create an account with these limits; repeating it with the same limits does nothing.

        Args:
            name: public; without blanks around it and in Unicode's form NFC, so that it is written one way.
            epsilon, delta: of a bare account that names no unit: short for `Terms(epsilon=, delta=)`.
            terms: of any account, in place of `epsilon` and `delta`.

        Raises:
            InvalidParameter: the limits are no budget, or the account exists with other terms.
        """
        _check_name(name, what="an account's name")
        if name != unicodedata.normalize("NFC", name.strip()):
            raise InvalidParameter(
                "an account's name has blanks around it or an accent apart from its letter (Unicode's form "
                "NFC is expected): written so it would be a second account of the same people"
            )
        opened = Balance.of(_asked(terms, Terms, epsilon, delta))
        with self._event() as entries:
            existing = entries.account(name)
            if existing is not None:
                _check_same_terms(name, existing.terms, opened.terms)
                return
            entries.put_account(name, opened)

    def charge(
        self,
        account: str,
        *,
        charge_id: str,
        epsilon: Amount | None = None,
        delta: Amount = 0.0,
        cost: Cost | None = None,
    ) -> Balance:
        """Spend budget, durably, before anything is computed from it; returns the new balance.

        Args:
            account: name of an open account.
            charge_id: unique within the account. Charging it again with equal amounts does
                nothing, so that a retry after a crash is safe.
            epsilon, delta: a bare charge, short for `Cost(epsilon=, delta=)`.
            cost: what to spend, in place of `epsilon` and `delta`.

        The first charge of an account may take all of it; see the module's page.

        Raises:
            BudgetExceeded: the account cannot pay; nothing was written.
            InvalidParameter: no such account, no budget, the id was charged other amounts, or the account
                cannot add this cost up.
        """
        _check_name(charge_id, what="charge_id")
        asked = _asked(cost, Cost, epsilon, delta)
        with self._event() as entries:
            balance = _found(entries.account(account), account)
            charge = asked.charged_to(balance.terms, account=account)
            first = asked.charged_first(balance.terms, account=account)
            earlier = entries.charge(account, charge_id)
            if earlier is not None:
                if earlier != first or charge == first:
                    _check_same_charge(earlier, charge)
                elif entries.charge(account, asked.taking_all(charge_id)) is None:
                    raise InvalidParameter(
                        "this charge_id took the whole account for another cost: use a new id for another"
                    )
                return balance
            if not any(balance.spent.amounts):
                if charge != first:  # what took all of it, so that a retry is told from another cost
                    entries.put_charge(account, asked.taking_all(charge_id), Charge())
                charge = first
            balance = balance.charged(charge, account=account)
            entries.put_charge(account, charge_id, charge)
            entries.put_account(account, balance)
            return balance

    def balance(self, account: str) -> Balance:
        """Limits and spending of an account."""
        with self._reading() as entries:
            return _found(entries.account(account), account)

    def after(self, account: str, *, cost: Cost) -> Balance:
        """What the balance would be after a new charge; nothing is written.

        Raises:
            BudgetExceeded, InvalidParameter: as `charge`.
        """
        balance = self.balance(account)
        first = not any(balance.spent.amounts)
        charge = (cost.charged_first if first else cost.charged_to)(balance.terms, account=account)
        return balance.charged(charge, account=account)

    def charged(self, account: str, charge_id: str) -> Charge | None:
        """What an account paid under an id; None where it has not."""
        _check_name(charge_id, what="charge_id")
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


class MemoryLedger(Ledger):
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
        self._entries = _InMemory({}, {}, {})

    @contextmanager
    def _event(self) -> Iterator[Entries]:
        with self._lock:
            yield self._entries

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "a MemoryLedger cannot be copied or pickled: two copies would each spend the whole budget. Share "
            "the object, or use a SQLiteLedger, which processes share by its file"
        )


class _InMemory(NamedTuple):
    """Rows in dictionaries."""

    accounts: dict[str, Balance]
    charges: dict[tuple[str, str], Charge]
    witnesses: dict[str, Witness]

    def account(self, name: str) -> Balance | None:
        return self.accounts.get(name)

    def charge(self, account: str, charge_id: str) -> Charge | None:
        return self.charges.get((account, charge_id))

    def lineage(self, lineage: str) -> Witness | None:
        return self.witnesses.get(lineage)

    def put_account(self, name: str, balance: Balance) -> None:
        self.accounts[name] = balance

    def put_charge(self, account: str, charge_id: str, charge: Charge) -> None:
        self.charges[account, charge_id] = charge

    def put_lineage(self, lineage: str, witness: Witness) -> None:
        self.witnesses[lineage] = witness


# -- the rules, shared by every ledger --------------------------------------------------------------


def add(left: Decimal, right: Decimal) -> Decimal:
    """The exact sum of two budgets."""
    return _EXACT.add(left, right)


def square(amount: Decimal) -> Decimal:
    """The exact square of an amount that `exact` admits."""
    return _EXACT.multiply(amount, amount)


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


_Asked = TypeVar("_Asked", Terms, Cost)


def _asked(given: _Asked | None, kind: type[_Asked], epsilon: Amount | None, delta: Amount) -> _Asked:
    """What was passed, or its short form for bare accounts and charges; not both."""
    name = kind.__name__.lower()
    if given is None:
        return kind(epsilon=exact(epsilon, name="epsilon"), delta=exact(delta, name="delta"))
    if epsilon is not None or delta:
        raise InvalidParameter(f"expected epsilon and delta, or {name}; not both")
    if not isinstance(given, kind):
        raise InvalidParameter(f"{name} is a {type(given).__name__}, expected {kind.__name__}")
    return given


def _found(balance: Balance | None, account: str) -> Balance:
    """The balance, or InvalidParameter where there is no account."""
    if balance is None:
        raise InvalidParameter(f"the ledger has no account {account!r}: call open_account first")
    return balance


def _check_same_terms(name: str, existing: Terms, asked: Terms) -> None:
    """Refuse to open an account anew with other terms."""
    if existing != asked:
        differing = [one for one in asdict(asked) if getattr(existing, one) != getattr(asked, one)]
        raise InvalidParameter(
            f"account {name!r} exists with epsilon {existing.epsilon} and delta {existing.delta}, "
            f"{existing.currency}, and differs from what was asked in {', '.join(differing)}: terms of an "
            "open account cannot change, open another account"
        )


def _check_same_charge(earlier: Charge, charge: Charge) -> None:
    """Refuse to reuse a charge's id for other amounts."""
    if earlier != charge:
        raise InvalidParameter(
            f"this charge_id was charged {_words(earlier)} before, now {_words(charge)}: "
            "use a new id for a new charge"
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


def _words(charge: Charge) -> str:
    """The amounts of a charge that are there."""
    simulated = " (simulated)" if charge.simulated else ""
    if charge.loss:
        apart = f" and distance {_short(charge.distance)}" if charge.distance else ""
        return f"a loss of {_short(charge.loss)}{apart}{simulated}"
    return f"epsilon {charge.epsilon} and delta {charge.delta}{simulated}"


def _short(amount: Decimal) -> str:
    """Twelve digits of an amount, for a message."""
    return str(Context(prec=12, rounding=ROUND_CEILING).plus(amount))


def _check_name(name: object, *, what: str) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InvalidParameter(f"{what} must be a non-empty printable string")


def _check_text(text: object, *, name: str) -> None:
    if not isinstance(text, str) or not text.isprintable() or len(text) > _LONGEST_TEXT:
        raise InvalidParameter(f"{name} must be a printable string of at most {_LONGEST_TEXT} characters")

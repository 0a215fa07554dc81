"""`Terms`, `Balance` and `Cost`: guarantee, spending and charges of an account, in exact decimals."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from dpbandits._seen import Seen
from dpbandits.budget.accountants import (
    ACCOUNTANTS,
    SUM_NAMES,
    Accountant,
    Charge,
    Way,
    accountant_for,
    epsilon_of,
    gaussian_mu_of_pure,
    ways,
)
from dpbandits.budget.amounts import (
    NOTHING,
    UNKNOWN,
    Amount,
    above,
    exact,
    float_above,
    half_square_up,
    less,
    short,
    square_up,
    sum_up,
    times,
)
from dpbandits.budget.units import Unit, unit_of
from dpbandits.errors import BudgetExceeded, InvalidParameter
from dpbandits.privacy.definitions import Definition

__all__ = ["Balance", "Charge", "Cost", "Terms"]


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Guarantee and unit of an account. Both are fixed when the account is opened.

    Args:
        epsilon, delta: Largest privacy loss of all charges together.
        unit: Unit of privacy: whose data is protected, and which inputs are neighbours.

    Raises:
        InvalidParameter: A number is not a valid budget, or `unit` is not a `Unit`.
    """

    epsilon: Decimal
    delta: Decimal = NOTHING
    unit: Unit

    def __post_init__(self) -> None:
        _settle_promise(self)
        if self.delta > 1:
            raise InvalidParameter("delta is above 1, expected a probability in [0, 1]")

    @classmethod
    def of(cls, privacy: "Definition | Terms") -> "Terms":
        """Return the terms of an account with this guarantee.

        Raise InvalidParameter if it is no guarantee.
        """
        if isinstance(privacy, Terms):
            return privacy
        unit = unit_of(privacy)
        epsilon, delta = exact(privacy.epsilon, name="epsilon"), exact(privacy.delta, name="delta")
        return cls(epsilon=epsilon, delta=delta, unit=unit)

    def to_json(self) -> str:
        """Return the terms as one line of JSON, which `from_json` reads."""
        fields = {"epsilon": str(self.epsilon), "delta": str(self.delta), "unit": self.unit.to_config()}
        return json.dumps(fields, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Terms":
        """Rebuild terms from the text of `to_json()`. Another text may raise any of Python's errors."""
        fields: Mapping[str, Any] = json.loads(text)
        numbers = {name: Decimal(fields[name]) for name in ("epsilon", "delta")}
        return cls(**numbers, unit=Unit.from_config(fields["unit"]))


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Privacy loss of one use of noise, between neighbouring inputs of its unit.

    `dpbandits.budget.cost_of` makes a cost from a certificate, and `Cost.of` from a bare (epsilon, delta).

    Args:
        unit: Unit of privacy: whose data is protected, and which inputs are neighbours.
        epsilon, delta: Guarantee of the mechanism.
        rho: Parameter of zero-concentrated DP; None if unknown.
        mu: Parameter of Gaussian DP, up to `distance`; None if unknown.
        distance: Total variation distance from Gaussian DP with parameter `mu`.
        simulated: True if the noise can be repeated, so that the guarantee holds only against parties who
            cannot repeat it.

    Raises:
        InvalidParameter: A number is not a valid budget, or `unit` is not a `Unit`.

    Example:
        >>> from dpbandits.privacy.definitions import JointDP
        >>> Cost.of(JointDP(0.25)).epsilon
        Decimal('0.25')
    """

    unit: Unit
    epsilon: Amount
    delta: Amount = NOTHING
    rho: Amount | None = None
    mu: Amount | None = None
    distance: Amount = NOTHING
    simulated: bool = False

    def __post_init__(self) -> None:
        _settle_promise(self)
        for name in ("rho", "mu", "distance"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, exact(value, name=name))
        if self.distance and self.mu is None:
            raise InvalidParameter("distance needs mu: pass both")
        if not isinstance(self.simulated, bool):
            raise InvalidParameter(f"simulated is a {type(self.simulated).__name__}, expected a bool")

    @classmethod
    def of(cls, privacy: "Definition | Cost") -> "Cost":
        """Return the cost of a mechanism with this guarantee.

        Raise InvalidParameter if it is no guarantee.
        """
        if isinstance(privacy, Cost):
            return privacy
        return cls(unit=unit_of(privacy), epsilon=privacy.epsilon, delta=privacy.delta)

    def charged_to(self, terms: Terms, *, account: str) -> Charge:
        """Return the charge to an account with these terms, converted to the account's unit.

        Raises:
            InvalidParameter: No conversion to the account's unit is known.
        """
        steps = self.unit.steps(terms.unit)
        if steps is None:
            raise InvalidParameter(
                f"account {account!r} protects another unit than this charge, and no conversion is known: "
                f"{_difference(terms.unit, self.unit)}; charge an account that was opened for that unit, "
                "with Terms(epsilon=, delta=, unit=) if no promise describes it"
            )
        epsilon, delta = exact(self.epsilon, name="epsilon"), exact(self.delta, name="delta")
        rho = mu = distance = None
        if terms.delta:  # an account with delta = 0 adds up epsilons only
            rho = None if self.rho is None else exact(self.rho, name="rho")
            mu = None if self.mu is None else exact(self.mu, name="mu")
            distance = exact(self.distance, name="distance")
            if not delta:
                rho = min(half_square_up(epsilon), UNKNOWN if rho is None else rho)
                mu = _mu_of_pure(epsilon) if mu is None else mu
        if steps > 1:
            many = Decimal(steps)
            if delta:
                epsilon = delta = UNKNOWN
            else:
                epsilon = times(epsilon, many)
            rho = None if rho is None else times(rho, many * many)
            mu = None if mu is None or distance else times(mu, many)
            if delta and rho is None and mu is None:
                raise InvalidParameter(
                    f"account {account!r} protects {terms.unit.whose!r}, the charge {self.unit.whose!r}: a "
                    "bare (epsilon, delta) cannot be converted between them; charge the certificate instead, "
                    "with cost_of"
                )
        return Charge(
            epsilon,
            delta,
            UNKNOWN if rho is None else rho,
            UNKNOWN if mu is None else square_up(mu),
            NOTHING if mu is None or distance is None else distance,
            self.simulated,
        )


@dataclass(frozen=True, repr=False)
class Balance(Seen):
    """State of an account: its terms, the sums of its charges, and its accountant.

    Args:
        terms: Terms, fixed when the account was opened.
        spent: Sums of all charges.
        accountant: Composition rule; see `dpbandits.budget.accountants`.
        before: Sums of the pure charges before the accountant was decided.
    """

    terms: Terms
    spent: Charge = Charge()  # noqa: RUF009 - it cannot change
    accountant: Accountant = "undecided"
    before: Charge = Charge()  # noqa: RUF009 - it cannot change

    def __post_init__(self) -> None:
        if self.accountant not in ACCOUNTANTS:
            raise InvalidParameter("accountant: expected one of " + ", ".join(map(repr, ACCOUNTANTS)))

    def __repr__(self) -> str:
        left = ", ".join(
            f"{name} {short(less(limit, spent), down=True)} of {short(limit, down=True)}"
            for name, spent, limit in self.parts
        )
        spent = "" if self.accountant in ("undecided", "basic") else f"spent: {self._in_epsilon()}; "
        return f"{type(self).__name__}({spent}left: {left or 'nothing'}; accountant: {self.accountant})"

    def _in_epsilon(self) -> str:
        spent, terms = f"{float(self.spent_as_epsilon):.6g}", self.terms
        return f"epsilon {spent} of {terms.epsilon} at delta {terms.delta}"

    def explain(self) -> str:
        """Describe the account in sentences: its guarantee, unit, accountant and spent amounts."""
        terms = self.terms
        lines = [
            f"All charges together keep epsilon {terms.epsilon} and delta {terms.delta}.",
            f"Protected: {terms.unit.whose}.",
            f"Neighbours: {terms.unit.neighbours}.",
            f"Accountant ({self.accountant}): it {ACCOUNTANTS[self.accountant]}."
            if terms.delta
            else "Accountant: it adds the epsilons of pure charges, and refuses charges with a delta.",
        ]
        if self.simulated:
            lines.append(
                "The noise of a charge to this account was simulated. It gives no protection against anybody "
                "who can repeat that noise."
            )
        if self.accountant not in ("undecided", "basic"):
            lines.append(f"Spent: {self._in_epsilon()}.")
        lines += [
            f"Spent: {name} {short(spent)} of {short(limit, down=True)}." for name, spent, limit in self.parts
        ]
        return "\n".join(lines)

    @property
    def simulated(self) -> bool:
        """True if the noise of any charge can be repeated."""
        return self.spent.simulated

    @property
    def spent_epsilon(self) -> Decimal:
        """Sum of the epsilons of all charges.

        It is infinite if no epsilon is known for a charge in the account's unit.
        """
        return self.spent.epsilon

    @property
    def spent_delta(self) -> Decimal:
        """Sum of the deltas of all charges."""
        return self.spent.delta

    @cached_property
    def spent_as_epsilon(self) -> Decimal:
        """Proven epsilon of all charges so far together, at the account's delta, rounded up.

        It reaches the account's epsilon when the account is spent. The accountants `zcdp` and `gaussian` do
        not add epsilons, so the remaining budget is not the difference of the two epsilons.
        """
        since = epsilon_of(self.accountant, self._since(self.spent), self.terms.delta)
        return min(sum_up(self.before.epsilon, since), self.terms.epsilon)

    @property
    def remaining_epsilon(self) -> Decimal:
        """Epsilon left for further charges while the account adds epsilons.

        0 if it uses `zcdp` or `gaussian`.
        """
        if self.accountant not in ("undecided", "basic"):
            return NOTHING
        return less(self.terms.epsilon, self.spent.epsilon)

    @property
    def remaining_delta(self) -> Decimal:
        """Delta left for further charges while the account adds deltas; 0 if it uses `zcdp` or `gaussian`."""
        if self.accountant not in ("undecided", "basic"):
            return NOTHING
        return less(self.terms.delta, self.spent.delta)

    @property
    def parts(self) -> tuple[tuple[str, Decimal, Decimal], ...]:
        """Name, spent amount and limit of each sum that the accountant compares with a limit."""
        if self.accountant == "undecided":
            rows = [("epsilon", self.spent.epsilon, self.terms.epsilon), ("delta", NOTHING, self.terms.delta)]
        else:
            since = self._since(self.spent)
            way = min(self._ways, key=lambda one: one.used(since))
            rows = [(SUM_NAMES[name], getattr(since, name), limit) for name, limit in way.limits.items()]
        return tuple(row for row in rows if row[2])

    def charged(self, charge: Charge, *, account: str) -> "Balance":
        """Return the balance after a charge.

        Raises:
            BudgetExceeded: The charge exceeds the budget. The message says what is left.
        """
        total, decided = self.spent.plus(charge), self
        if self.accountant == "undecided" and charge.delta:
            left = less(self.terms.epsilon, self.spent.epsilon)
            accountant = accountant_for(charge, left, self.terms.delta)
            decided = Balance(self.terms, self.spent, accountant, self.spent)
        if not any(way.admits(decided._since(total)) for way in decided._ways):
            has = ", ".join(
                f"{name} {short(less(limit, spent), down=True)}" for name, spent, limit in decided.parts
            )
            raise BudgetExceeded(
                f"account {account!r} has {has or 'nothing'} left, the charge asks for {charge.words()}: "
                "nothing was charged"
            )
        return Balance(decided.terms, total, decided.accountant, decided.before)

    @cached_property
    def _ways(self) -> tuple[Way, ...]:
        left = less(self.terms.epsilon, self.before.epsilon)
        return tuple(ways(self.accountant, left, self.terms.delta))

    def _since(self, total: Charge) -> Charge:
        """Return the sums of the charges since the accountant was decided."""
        parts = zip(total.amounts, self.before.amounts, strict=True)
        since = (less(*pair) if pair[0].is_finite() else UNKNOWN for pair in parts)
        return Charge.of(since, simulated=total.simulated)


def _settle_promise(of: Terms | Cost) -> None:
    """Replace epsilon and delta by exact decimals. Raise InvalidParameter if the unit is not a `Unit`."""
    if not isinstance(of.unit, Unit):
        raise InvalidParameter(f"unit is a {type(of.unit).__name__}, expected a Unit: pass unit_of(privacy)")
    for name in ("epsilon", "delta"):
        object.__setattr__(of, name, exact(getattr(of, name), name=name))


def _difference(account: Unit, charge: Unit) -> str:
    if account.whose == charge.whose:
        return f"the account's neighbours are {account.neighbours!r}, the charge's {charge.neighbours!r}"
    return f"the account protects {account.whose!r}, the charge {charge.whose!r}"


def _mu_of_pure(epsilon: Decimal) -> Decimal | None:
    if not epsilon:
        return NOTHING
    mu = gaussian_mu_of_pure(float_above(epsilon))
    return None if mu is None else above(mu)

r"""Accounts and costs: from promises and certificates to the numbers that a ledger adds up.

A ledger adds numbers and refuses what exceeds a total; it knows no mechanism. Here the totals come from
promises and the charges from certificates, each rounded to the safe side.

=====================  ====================  ==============================  ============================
certificate            bare account          zCDP account, rho               Gaussian account, mu
=====================  ====================  ==============================  ============================
`PureDP`               the promise           epsilon^2/2                     the mu below
`ZeroConcentratedDP`   the promise           rho                             only as a bare charge beside
`GaussianDP`           the promise           mu^2/2                          mu
`NearGaussianDP`       the promise           mu^2/2                          mu, and its distance
`PureBeside`           the promise           epsilon^2/2 + the other's rho   both mus, in squares
=====================  ====================  ==============================  ============================

*Pure in Gaussian*: epsilon-DP is mu-GDP for Phi(mu/2) = e^epsilon/(1 + e^epsilon). Of all epsilon-DP
mechanisms randomised response tells most, with errors (size, miss) on the two lines from (0, 1) and (1, 0)
to the corner (c, c), c = 1/(1 + e^epsilon). The Gaussian's curve is convex and passes through (0, 1), (1, 0)
and (Phi(-mu/2), Phi(-mu/2)) = (c, c): so it lies on or below both lines. For small epsilon
mu = 1.2533 epsilon: a zCDP account takes it at epsilon.

*Which statuses may be charged*: `enforced`, and `simulated`, which the account remembers: its promise then
holds only against those who cannot repeat the noise (`Balance.simulated`). What is `broken` or promises
nothing has no certificate and no cost.

*Units*: an account protects one unit. A cost of another (a row's move beside a user's whole contribution) is
refused, for their sums mean nothing. An account of `JointDP` protects all that one user contributes to
anything charged there, however many rounds each policy allows: each policy's certificate covers the user's
part in it.

Example:
    >>> from dpbandits.privacy.certificates import NearGaussianDP
    >>> from dpbandits.privacy.definitions import JointDP
    >>> from dpbandits.state import MemoryLedger
    >>> ledger = MemoryLedger()
    >>> open_account(ledger, "people", privacy=JointDP(epsilon=5, delta=2e-5), currency="gaussian")
    >>> release = cost_of(NearGaussianDP(0.2366, 1e-12), privacy=JointDP(epsilon=1, delta=1e-6))
    >>> for number in range(20):  # as bare promises, twenty of them would come to (20, 2e-5)
    ...     balance = ledger.charge("people", charge_id=f"release {number}", cost=release)
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import reduce

from scipy.special import erfcinv, erfinv, expit

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import LARGEST_EPSILON, gaussian_mu, zcdp_rho
from dpbandits.privacy.certificates import (
    Certificate,
    GaussianDP,
    NearGaussianDP,
    PureBeside,
    PureDP,
    ZeroConcentratedDP,
)
from dpbandits.privacy.definitions import Definition, JointDP, LocalDP, RowDP
from dpbandits.privacy.guarantee import Guarantee, Status
from dpbandits.state.ledger import Amount, Cost, Currency, Ledger, Terms, add, exact

__all__ = ["cost_of", "cost_of_guarantee", "epsilon_for", "gaussian_mu_of_pure", "open_account", "terms_of"]

_UP = Context(prec=14, rounding=ROUND_CEILING)
"""Charges: so few digits that another processor's last one hardly ever makes a retry another charge."""

_DOWN = Context(prec=17, rounding=ROUND_FLOOR)

_LESS = Context(prec=1000, rounding=ROUND_FLOOR)

_EDGE = 1.0 + 9e-11
"""Calibrations aim a relative 1e-10 below delta, accounts 1e-11: an account pays for one release calibrated
to its own promise, whatever was rounded on the way. Formulas are right to 1e-12."""

DISTANCE_SHARE = 0.01
"""Part of a Gaussian account's delta that pays for distances: it costs 0.05% of mu and covers millions of
draws on the lattices that the library uses."""

_ACCURATE = 1e-12
"""Relative error allowed for what floats computed, added to it."""


def open_account(
    ledger: Ledger,
    name: str,
    *,
    privacy: Definition,
    currency: Currency = "zcdp",
    beside: tuple[Amount, Amount] = (0.0, 0.0),
    distance: Amount | None = None,
) -> None:
    """Open an account that keeps a promise, whatever is charged to it; again with the same terms: nothing.

    Args:
        ledger: where.
        name: of the account, public.
        privacy: what all charges together shall keep. With delta = 0 (`LocalDP`, pure promises) only a bare
            account can.
        currency: what it adds up; see `dpbandits.state.ledger`.
        beside: (epsilon, delta), the part of the promise that is set aside for bare charges.
        distance: of a Gaussian account: total variation that its charges may have in all; by default
            a hundredth of its delta, over 1 + e^epsilon.

    A charge of the account's own promise, the first one, it pays whatever the certificate, and nothing after.

    Raises:
        InvalidParameter: no such account can be, or it exists with other terms.
    """
    ledger.open_account(name, terms=terms_of(privacy, currency=currency, beside=beside, distance=distance))


def terms_of(
    privacy: Definition,
    *,
    currency: Currency = "zcdp",
    beside: tuple[Amount, Amount] = (0.0, 0.0),
    distance: Amount | None = None,
) -> Terms:
    """The terms of such an account; see `open_account`.

    Example:
        >>> terms = terms_of(JointDP(epsilon=1, delta=1e-6))
        >>> round(terms.total, 5)  # zcdp_rho(1, 1e-6)
        Decimal('0.02436')
    """
    unit, neighbours = _unit_of(privacy)
    epsilon, delta = exact(privacy.epsilon, name="epsilon"), exact(privacy.delta, name="delta")
    if currency not in _TOTALS:
        # Terms says what a currency may be
        if any(beside) or distance is not None:
            raise InvalidParameter(
                "beside, distance: a bare account has neither; all of its charges are bare"
            )
        return Terms(epsilon=epsilon, delta=delta, currency=currency, unit=unit, neighbours=neighbours)
    if not delta:
        raise InvalidParameter(
            f"privacy promises delta = 0, which no sum of {currency} costs proves: promise a delta above 0, "
            "or open the account with currency='bare'"
        )
    aside = exact(beside[0], name="beside epsilon"), exact(beside[1], name="beside delta")
    loss, chance = (
        _float_below(_LESS.subtract(epsilon, aside[0])),
        _float_below(_LESS.subtract(delta, aside[1])),
    )
    if loss <= 0.0 or chance <= 0.0:
        raise InvalidParameter(
            f"beside sets aside epsilon {aside[0]} and delta {aside[1]} of epsilon {epsilon} and delta "
            f"{delta}: expected less of both, the currency needs the rest"
        )
    apart = 0.0
    if currency == "gaussian":
        apart = DISTANCE_SHARE * chance / (1.0 + math.exp(min(loss, LARGEST_EPSILON)))
        apart = apart if distance is None else float(exact(distance, name="distance"))
    elif distance is not None:
        raise InvalidParameter("distance: only a Gaussian account pays for distances")
    return Terms(
        epsilon=epsilon,
        delta=delta,
        currency=currency,
        total=_DOWN.create_decimal_from_float(_TOTALS[currency](loss, chance, apart)),
        # Rounded up to what a charge of the same distance is rounded to; _gaussian_total paid for that.
        distance=_up(apart),
        beside_epsilon=aside[0],
        beside_delta=aside[1],
        unit=unit,
        neighbours=neighbours,
    )


def cost_of(
    certificate: Certificate | None, *, privacy: Definition | None = None, status: Status = "enforced"
) -> Cost:
    """What a use of noise costs, in every currency in which its certificate says so.

    Args:
        certificate: of all that is charged at once; None where only the promise is known.
        privacy: the promise that this use keeps, for bare accounts and for what others set aside; and whose
            unit must be the account's. Without it bare accounts cannot be charged, except by pure costs.
        status: of the guarantee.

    Returns:
        Charges rounded up.

    Raises:
        InvalidParameter: nothing is proven: the status says so, neither certificate nor promise is given,
            or the certificate does not prove the promise.

    Example:
        >>> cost_of(PureDP(0.5)).rho
        Decimal('0.125')
    """
    if status not in ("enforced", "simulated"):
        raise InvalidParameter(
            f"status is {status!r}: only what is enforced or simulated has a cost; nothing else is proven"
        )
    rho = mu = epsilon = None
    distance, delta = Decimal(0), Decimal(0)
    if certificate is not None:
        rho, near = _rho(certificate), _near_gaussian(certificate)
        if near is not None:
            mu, distance = near
        if isinstance(certificate, PureDP):
            epsilon = exact(certificate.epsilon, name="epsilon")
    unit = neighbours = ""
    if privacy is not None:
        unit, neighbours = _unit_of(privacy)
        if certificate is not None and certificate.delta_at(privacy.epsilon) > privacy.delta:
            raise InvalidParameter(
                f"the certificate ({certificate.describe()}) does not prove epsilon {privacy.epsilon:g} and "
                f"delta {privacy.delta:g}: pass the promise that this use of noise keeps"
            )
        epsilon, delta = exact(privacy.epsilon, name="epsilon"), exact(privacy.delta, name="delta")
    if epsilon is None and rho is None:
        raise InvalidParameter("cost_of needs a certificate, a promise, or both")
    return Cost(
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mu=mu,
        distance=distance,
        unit=unit,
        neighbours=neighbours,
        simulated=status == "simulated",
    )


def cost_of_guarantee(guarantee: Guarantee) -> Cost:
    """What the whole of a guarantee costs; where it protects less than its definition says, it says so.

    Raises:
        InvalidParameter: nothing is proven.

    Example:
        >>> import dpbandits as dpb
        >>> policy = dpb.central.GPBandit(
        ...     kernel=dpb.kernels.Matern(nu=2.5, lengthscale=0.4), domain=dpb.Box(low=[0], high=[1]),
        ...     reward_range=(0, 1), horizon=1000, privacy=JointDP(epsilon=1, delta=1e-6),
        ...     tuning=dpb.central.GPTuning(release="features"))
        >>> costs = [cost_of_guarantee(policy.guarantee)] * 20  # twenty such policies for the same people
        >>> for currency in ("bare", "zcdp", "gaussian"):
        ...     print(currency, round(epsilon_for(costs, delta=2e-5, currency=currency), 2))
        bare 20.0
        zcdp 4.88
        gaussian 4.5

        Pure epsilon comes to more in a zCDP account:

        >>> round(epsilon_for([cost_of(PureDP(1.0))] * 20, delta=2e-5), 2)
        29.43
    """
    definition = guarantee.definition
    cost = cost_of(guarantee.certificate, privacy=definition, status=guarantee.status)
    if (guarantee.unit, guarantee.neighbours) != (definition.unit, definition.neighbours):
        cost = replace(cost, unit=guarantee.unit, neighbours=guarantee.neighbours)
    return cost


def epsilon_for(costs: Iterable[Cost], *, delta: float, currency: Currency = "zcdp") -> float:
    """An epsilon, hardly above the smallest, at which an account adds up all these costs; for planning.

    One cost alone may need less: its own promise, of which it takes all.

    In a Gaussian account open it with `distance=` the sum of the costs' distances.

    Raises:
        InvalidParameter: a cost is not known in the currency, or no epsilon up to 50 is enough.

    Example:
        >>> from dpbandits.privacy.calibration import zcdp_rho
        >>> costs = [cost_of(ZeroConcentratedDP(zcdp_rho(1.0, 1e-6)))] * 20
        >>> round(epsilon_for(costs, delta=2e-5), 3)
        4.501
    """
    everything = Terms(
        epsilon=Decimal(1), delta=Decimal("0.5"), currency=currency, total=Decimal(currency != "bare")
    )
    charges = [cost.charged_to(everything, account="planned") for cost in costs]
    bare, deltas, losses, distances = (
        reduce(add, (charge.amounts[part] for charge in charges), Decimal(0)) for part in range(4)
    )
    if currency == "bare":
        if deltas > exact(delta, name="delta"):
            raise InvalidParameter("the costs' deltas come to more than delta")
        return _float_above(bare)
    if bare or deltas:
        raise InvalidParameter(f"a cost is known only as a bare pair, which a {currency} account sets aside")
    loss = _float_above(losses) * (1.0 + _ACCURATE)
    apart = _float_above(distances)
    if not loss:
        return 0.0
    certificate = ZeroConcentratedDP(loss) if currency == "zcdp" else GaussianDP(math.sqrt(loss))
    low, high = 0.0, LARGEST_EPSILON
    target = delta * (1.0 - 1e-10)

    def pays(epsilon: float) -> bool:
        return certificate.delta_at(epsilon) + (1.0 + math.exp(epsilon)) * apart <= target

    if not pays(high):
        # where distances matter, a smaller epsilon may still do: they weigh e^epsilon
        high = min((step for step in range(1, int(LARGEST_EPSILON)) if pays(step)), default=math.inf)
        if math.isinf(high):
            raise InvalidParameter(f"no epsilon up to {LARGEST_EPSILON:g} pays for these costs at this delta")
    while high - low > 1e-12 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def gaussian_mu_of_pure(epsilon: float) -> float:
    """Smallest mu, rounded up, for which every epsilon-DP mechanism is mu-GDP; see the module's page.

    2 Phi^-1(e^epsilon/(1 + e^epsilon)) = 2 sqrt(2) erfinv(tanh(epsilon/2)), by the tail where that is near 1.

    Example:
        >>> round(gaussian_mu_of_pure(0.01), 6), round(gaussian_mu_of_pure(1.0), 4)
        (0.012533, 1.232)
    """
    if epsilon < 1.0:
        quantile = float(erfinv(math.tanh(0.5 * epsilon)))
    else:
        quantile = float(erfcinv(2.0 * float(expit(-epsilon))))
    if not math.isfinite(quantile):
        raise InvalidParameter(f"epsilon is {epsilon:g}: no Gaussian mechanism gives away so much")
    return 2.0 * math.sqrt(2.0) * quantile * (1.0 + _ACCURATE)


# -- certificates, in each currency -----------------------------------------------------------------


def _rho(certificate: Certificate) -> Decimal:
    """rho, rounded up. Squares are of decimals: a float's square may lie below."""
    match certificate:
        case PureDP(epsilon):
            return _half_square(exact(epsilon, name="epsilon"))
        case ZeroConcentratedDP(rho):
            return _up(rho)
        case GaussianDP(mu) | NearGaussianDP(mu, _):
            return _half_square(_up(mu))
        case PureBeside(epsilon, other):
            return _UP.add(_half_square(exact(epsilon, name="epsilon")), _rho(other))
        case Certificate():
            return _up(certificate.to_zcdp().rho * (1.0 + _ACCURATE))
        case _:
            raise InvalidParameter(
                f"certificate is a {type(certificate).__name__}, expected one of those in dpbandits.privacy"
            )


def _near_gaussian(certificate: Certificate) -> tuple[Decimal, Decimal] | None:
    """(mu, distance), rounded up; None where the certificate is not near Gaussian DP."""
    match certificate:
        case PureDP(epsilon):
            return _up(gaussian_mu_of_pure(epsilon)), Decimal(0)
        case GaussianDP(mu):
            return _up(mu), Decimal(0)
        case NearGaussianDP(mu, distance):
            return _up(mu), _up(distance)
        case PureBeside(epsilon, other):
            beside = _near_gaussian(other)
            if beside is None:
                return None
            pure = _up(gaussian_mu_of_pure(epsilon))
            squares = _UP.add(_UP.multiply(pure, pure), _UP.multiply(beside[0], beside[0]))
            # Decimal's root is rounded to nearest whatever the context says: one digit up is above it
            return _UP.next_plus(_UP.sqrt(squares)), beside[1]
        case _:
            return None


def _half_square(amount: Decimal) -> Decimal:
    return _UP.multiply(_UP.multiply(amount, amount), Decimal("0.5"))


# -- promises, in each currency ---------------------------------------------------------------------


def _zcdp_total(epsilon: float, delta: float, _: float) -> float:
    return zcdp_rho(epsilon, delta * _EDGE)


def _gaussian_total(epsilon: float, delta: float, distance: float) -> float:
    left = delta - (1.0 + math.exp(min(epsilon, LARGEST_EPSILON))) * float(_up(distance)) * (1.0 + 1e-13)
    if left <= 0.0:
        raise InvalidParameter("distance takes all of the account's delta: expected much less of it")
    return gaussian_mu(epsilon, left * _EDGE)


_TOTALS: dict[str, Callable[[float, float, float], float]] = {
    "zcdp": _zcdp_total,
    "gaussian": _gaussian_total,
}
"""(epsilon, delta, distance) to the currency's total."""


def _unit_of(privacy: Definition) -> tuple[str, str]:
    """Unit and neighbours of an account of such promises, and of costs charged there."""
    if isinstance(privacy, JointDP):
        return (
            "one user: everything the user contributes to what is charged here",
            "one user's whole contribution to what is charged here is replaced by any other",
        )
    if isinstance(privacy, LocalDP):
        return (
            "one user: every (context, reward) that the user's device reports on",
            "any two sequences of pairs (context, reward) that the device could hold",
        )
    if isinstance(privacy, RowDP):
        return privacy.unit, privacy.neighbours
    raise InvalidParameter(
        f"privacy is a {type(privacy).__name__}, expected JointDP, LocalDP or RowDP: an account keeps a "
        "promise"
    )


def _up(value: float) -> Decimal:
    return _UP.create_decimal_from_float(value)


def _float_below(value: Decimal) -> float:
    """The largest float that is not above."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if Decimal(nearest) > value else nearest


def _float_above(value: Decimal) -> float:
    """The smallest float that is not below."""
    nearest = float(value)
    return math.nextafter(nearest, math.inf) if Decimal(nearest) < value else nearest

r"""Convert guarantees and certificates to costs: the numbers, rounded up, that an account adds up.

=====================  =============================  ============================
certificate            rho                            mu
=====================  =============================  ============================
`PureDP`               epsilon^2/2                    `gaussian_mu_of_pure`
`ZeroConcentratedDP`   rho                            unknown
`GaussianDP`           mu^2/2                         mu
`NearGaussianDP`       mu^2/2                         mu, and its distance
`PureBeside`           epsilon^2/2 + the other's rho  both mus, in squares
`Either`               the larger rho                 the larger mu and distance
=====================  =============================  ============================

Every cost also has the guarantee (epsilon, delta) and the unit of privacy.

*Statuses*: `enforced` and `simulated` guarantees may be charged. The account records simulated noise; its
guarantee then holds only against parties who cannot repeat the noise. A `broken` guarantee, or none, has no
certificate and no cost.

An account of `JointDP` protects everything that one user contributes to all mechanisms charged to it. Each
policy's certificate covers the user's contribution to that policy, whatever its contribution bound.

Example:
    >>> from dpbandits.budget import MemoryLedger
    >>> from dpbandits.privacy.certificates import NearGaussianDP
    >>> from dpbandits.privacy.definitions import JointDP
    >>> ledger = MemoryLedger()
    >>> account = ledger.open_account("people", privacy=JointDP(epsilon=5, delta=2e-5))
    >>> release = cost_of(NearGaussianDP(0.2366, 1e-12), privacy=JointDP(epsilon=1, delta=1e-6))
    >>> for number in range(20):  # as bare (epsilon, delta), twenty of them would add up to (20, 2e-5)
    ...     balance = ledger.charge("people", charge_id=f"release {number}", cost=release)
    >>> balance.accountant
    'gaussian'
"""

from collections.abc import Iterable
from decimal import Decimal

from dpbandits.budget.accountants import gaussian_mu_of_pure
from dpbandits.budget.accounts import Balance, Charge, Cost, Terms
from dpbandits.budget.amounts import (
    NOTHING,
    UNKNOWN,
    above,
    exact,
    half_square_up,
    root_up,
    square_up,
    sum_up,
    times,
)
from dpbandits.budget.units import Unit, unit_of
from dpbandits.errors import BudgetExceeded, InvalidParameter
from dpbandits.privacy.certificates import (
    Certificate,
    Either,
    GaussianDP,
    NearGaussianDP,
    PureBeside,
    PureDP,
    ZeroConcentratedDP,
)
from dpbandits.privacy.definitions import Definition
from dpbandits.privacy.guarantee import Guarantee, Status

__all__ = ["cost_of", "cost_of_guarantee", "epsilon_for", "together"]

_ACCURATE = 1e-12
"""Relative margin for rounding errors, which is added to numbers that were computed in floats."""

_LARGEST_PLANNED = 1e6
"""Largest epsilon that `epsilon_for` tries."""


def cost_of(
    certificate: Certificate, *, privacy: Definition, status: Status = "enforced", unit: Unit | None = None
) -> Cost:
    """Return the cost of a use of noise, in every notion of privacy that its certificate covers.

    Args:
        certificate: Certificate of all the noise that is charged. If only (epsilon, delta) is known, use
            `Cost.of(privacy)` instead.
        privacy: Guarantee of this use of noise.
        status: Status of the guarantee.
        unit: Unit of the certificate. Default: the unit of `privacy`.

    Returns:
        The cost, rounded up.

    Raises:
        InvalidParameter: The status says that nothing is proven, or the certificate does not prove `privacy`.

    Example:
        >>> from dpbandits.privacy.definitions import JointDP
        >>> cost_of(PureDP(0.5), privacy=JointDP(0.5)).rho
        Decimal('0.125')
    """
    if status not in ("enforced", "simulated"):
        raise InvalidParameter(
            f"status is {status!r}, expected enforced or simulated: nothing is proven for other statuses"
        )
    own = unit_of(privacy) if unit is None else unit
    rho, near = _rho(certificate), _near_gaussian(certificate)
    if certificate.delta_at(privacy.epsilon) > privacy.delta:
        raise InvalidParameter(
            f"the certificate ({certificate.describe()}) does not prove epsilon {privacy.epsilon:g} and "
            f"delta {privacy.delta:g}: pass the guarantee of this use of noise"
        )
    mu, distance = (None, NOTHING) if near is None else near
    return Cost(
        unit=own,
        epsilon=privacy.epsilon,
        delta=0.0 if isinstance(certificate, PureDP) else privacy.delta,
        rho=rho,
        mu=mu,
        distance=distance,
        simulated=status == "simulated",
    )


def cost_of_guarantee(guarantee: Guarantee) -> Cost:
    """Return the cost of a whole guarantee, in its own unit. Raise InvalidParameter if nothing is proven.

    Example:
        >>> import dpbandits as dpb
        >>> policy = dpb.central.GPBandit(
        ...     kernel=dpb.kernels.Matern(nu=2.5, lengthscale=0.4), domain=dpb.Box(low=[0], high=[1]),
        ...     reward_range=(0, 1), horizon=1000, privacy=dpb.JointDP(epsilon=1, delta=1e-6),
        ...     tuning=dpb.central.GPTuning(release="features"))
        >>> costs = [cost_of_guarantee(policy.guarantee)] * 20  # twenty such policies for the same users
        >>> round(epsilon_for(costs, delta=2e-5), 2)  # basic composition would give 20
        4.51
    """
    definition = guarantee.definition
    unit = unit_of(definition)
    if (guarantee.unit, guarantee.neighbours) != (definition.unit, definition.neighbours):
        unit = Unit(guarantee.unit, guarantee.neighbours)  # the guarantee has a unit of its own
    if guarantee.certificate is None:
        raise InvalidParameter(
            f"the guarantee has no certificate (status {guarantee.status!r}): nothing is proven"
        )
    return cost_of(guarantee.certificate, privacy=definition, status=guarantee.status, unit=unit)


def together(parts: Iterable[tuple[Cost, int]]) -> Cost:
    """Return the cost of several uses of noise that are charged at once.

    Args:
        parts: Costs, all of the same unit, and how often each is charged.

    Raises:
        InvalidParameter: There are no parts, or they have several units.

    Example:
        >>> from dpbandits.privacy.definitions import JointDP
        >>> together([(Cost.of(JointDP(0.1)), 3), (Cost.of(JointDP(0.2, 1e-6)), 1)]).epsilon
        Decimal('0.5')
    """
    paid = [(cost, Decimal(count)) for cost, count in parts if count]
    if not paid or any(cost.unit != paid[0][0].unit for cost, _ in paid):
        raise InvalidParameter("together: expected at least one cost, and all of the same unit")
    unit = paid[0][0].unit
    anywhere = Terms(epsilon=Decimal(1), delta=Decimal("0.5"), unit=unit)
    sums = Charge()
    for cost, count in paid:
        charge = cost.charged_to(anywhere, account="planned")
        amounts = (times(amount, count) if amount.is_finite() else UNKNOWN for amount in charge.amounts)
        sums = sums.plus(Charge.of(amounts, simulated=charge.simulated))
    known = sums.mu2.is_finite()
    return Cost(
        unit=unit,
        epsilon=sums.epsilon,
        delta=sums.delta,
        rho=sums.rho if sums.rho.is_finite() else None,
        mu=root_up(sums.mu2) if known else None,
        distance=sums.distance if known else NOTHING,
        simulated=sums.simulated,
    )


def epsilon_for(costs: Iterable[Cost], *, delta: float) -> float:
    """Return an epsilon, hardly above the smallest, of an account that admits all these charges in turn.

    Args:
        costs: Costs in the order in which they are charged.
        delta: Delta of the account.

    Raises:
        InvalidParameter: The costs have several units, or no epsilon is enough at this delta.

    Example:
        >>> from dpbandits.privacy.calibration import zcdp_rho
        >>> from dpbandits.privacy.definitions import JointDP
        >>> promise = JointDP(epsilon=1, delta=1e-6)
        >>> costs = [cost_of(ZeroConcentratedDP(zcdp_rho(1.0, 1e-6)), privacy=promise)] * 20
        >>> round(epsilon_for(costs, delta=2e-5), 3)
        4.501
    """
    planned = list(costs)
    if not planned:
        return 0.0

    def pays(epsilon: float) -> bool:
        terms = Terms(epsilon=Decimal(repr(epsilon)), delta=exact(delta, name="delta"), unit=planned[0].unit)
        balance = Balance(terms)
        try:
            for cost in planned:
                balance = balance.charged(cost.charged_to(terms, account="planned"), account="planned")
        except BudgetExceeded:
            return False
        return True

    low, high = 0.0, 1.0
    while not pays(high):
        low, high = high, 2.0 * high
        if high > _LARGEST_PLANNED:
            raise InvalidParameter(
                f"no epsilon up to {_LARGEST_PLANNED:g} is enough for these costs at delta {delta:g}: pass a "
                "larger delta, or fewer costs"
            )
    while high - low > 1e-9 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


# -- certificates -----------------------------------------------------------------------------------


def _rho(certificate: Certificate) -> Decimal:
    """Return the rho of a certificate, rounded up.

    It squares decimals, because a float's square may be rounded down.
    """
    match certificate:
        case PureDP(epsilon):
            return half_square_up(exact(epsilon, name="epsilon"))
        case ZeroConcentratedDP(rho):
            return above(rho)
        case GaussianDP(mu) | NearGaussianDP(mu, _):
            return half_square_up(above(mu))
        case PureBeside(epsilon, other):
            return sum_up(half_square_up(exact(epsilon, name="epsilon")), _rho(other))
        case Either(first, second):
            return max(_rho(first), _rho(second))
        case Certificate():
            return above(certificate.to_zcdp().rho * (1.0 + _ACCURATE))
        case _:
            raise InvalidParameter(
                f"certificate is a {type(certificate).__name__}, expected one of those in dpbandits.privacy"
            )


def _near_gaussian(certificate: Certificate) -> tuple[Decimal, Decimal] | None:
    """Return mu of Gaussian DP and the distance from it, rounded up."""
    match certificate:
        case PureDP(epsilon):
            mu = gaussian_mu_of_pure(epsilon)
            return None if mu is None else (above(mu), Decimal(0))
        case GaussianDP(mu):
            return above(mu), Decimal(0)
        case NearGaussianDP(mu, distance):
            return above(mu), above(distance)
        case PureBeside(epsilon, other):
            pure, beside = _near_gaussian(PureDP(epsilon)), _near_gaussian(other)
            if pure is None or beside is None:
                return None
            return root_up(sum_up(square_up(pure[0]), square_up(beside[0]))), beside[1]
        case Either(first, second):
            one, two = _near_gaussian(first), _near_gaussian(second)
            return None if one is None or two is None else (max(one[0], two[0]), max(one[1], two[1]))
        case _:
            return None

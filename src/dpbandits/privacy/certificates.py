r"""Certificates: the proven privacy loss of a mechanism.

A certificate is a proven statement about a mechanism from which its (epsilon, delta) pairs follow.

=====================  ================================================================================
`PureDP`               all log-likelihood ratios are at most epsilon
`GaussianDP`           no easier to attack than telling N(0, 1) from N(mu, 1) (Dong, Roth, Su 2022).
                       True of real-valued Gaussian noise with mu = sensitivity/sigma
`ZeroConcentratedDP`   Renyi divergence of every order alpha at most alpha rho (Bun, Steinke 2016).
                       True of discrete Gaussian noise with rho = sensitivity^2/(2 sigma^2)
                       (Canonne, Kamath, Steinke 2020), the noise that `SecureNoise` draws
`NearGaussianDP`       zero-concentrated, and within a tiny total variation of `GaussianDP`.
                       True of discrete Gaussian noise on a fine lattice
`PureBeside`           a pure loss, composed with another certificate about the same users
`Either`               each user's data enters one of two mechanisms only (parallel composition)
=====================  ================================================================================

Certificates compose (`beside`, `compose`). Certificates of one kind compose to that kind, `GaussianDP` and
`NearGaussianDP` to near-Gaussian, and all others to `ZeroConcentratedDP`.

For ZeroConcentratedDP delta(eps) = min over alpha > 1 of exp((alpha-1)(alpha rho - eps))/(alpha-1)
(1 - 1/alpha)^alpha (Canonne, Kamath, Steinke 2020, Corollary 13). Proof: delta = E max(0, 1 - e^(eps-Z)) for
the privacy loss Z, and 1 - e^(eps-z) <= e^((alpha-1)(z-eps)) max_t (1 - e^-t) e^(-(alpha-1)t). The last
maximum is (1 - 1/alpha)^alpha/(alpha-1), at e^-t = 1 - 1/alpha. Take expectations.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache, reduce
from typing import ClassVar

from scipy.special import ndtr

from dpbandits import _checks
from dpbandits._config import Configured, Registry
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import (
    LARGEST_EPSILON,
    MARGIN,
    coins_permitted,
    concentrated_delta,
    gaussian_delta,
    membership_bound,
    narrowed,
    within_range,
)

__all__ = [
    "Certificate",
    "Either",
    "GaussianDP",
    "NearGaussianDP",
    "PureBeside",
    "PureDP",
    "ZeroConcentratedDP",
    "either",
    "from_config",
    "rounded_up",
]

_CERTIFICATES: "Registry[Certificate]" = Registry("a certificate", label="kind")


class Certificate(Configured, ABC):
    """Base class of certificates: a statement about a mechanism from which (epsilon, delta) pairs follow."""

    adds_linearly: ClassVar[bool] = False
    wording: ClassVar[str]
    rule: ClassVar[str]
    """Name of the rule by which certificates of this kind compose, as the annex of a statement gives it."""

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """Return the smallest delta that this certificate proves at `epsilon` >= 0."""

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon with delta_at(epsilon) <= delta, rounded up in the last digits.

        Args:
            delta: Failure probability in [1e-15, 1). A pure certificate also accepts 0.
        """
        target = within_range(delta) * (1.0 - MARGIN)
        if self.delta_at(0.0) <= target:
            return 0.0
        return narrowed(lambda epsilon: self.delta_at(epsilon) > target, 0.0, 1.0, width=1e-13)[1]

    @abstractmethod
    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Return a zero-concentrated certificate that this one implies."""

    @abstractmethod
    def membership_bound(self) -> float:
        """Return the highest success rate of a test that guesses which of two neighbours was used.

        The two data sets are equally likely beforehand, so that a blind guess succeeds half the time.
        """

    def describe(self) -> str:
        """Return the certificate in a few words."""
        numbers = {name: rounded_up(value) for name, value in vars(self).items() if isinstance(value, float)}
        return self.wording.format(**numbers)

    def beside(self, other: "Certificate") -> "Certificate":
        """Return the certificate of using both mechanisms on one user's data, adaptively.

        By default both certificates are converted to zero-concentrated DP, where rhos add. Kinds of
        certificates that compose more tightly override this method.
        """
        return ZeroConcentratedDP(self.to_zcdp().rho + other.to_zcdp().rho)

    @property
    def parts(self) -> tuple[float, "Certificate | None"]:
        """Pure loss (0 if none) and other certificate (None if none) of which this is the composition."""
        return 0.0, self

    def closest_beside(self, other: "Certificate", *, delta: float) -> "Certificate":
        """Return the composition with `other` that has the smaller epsilon at this delta.

        The two candidates are `beside`, and the sum of the pure losses with the remaining certificates
        composed.

        Example:
            >>> pure, gaussian = PureDP(1.0), GaussianDP(0.2367)  # of (1, 1e-6)
            >>> round(pure.beside(gaussian).epsilon_at(1e-6), 1)
            5.4
            >>> round(pure.closest_beside(gaussian, delta=1e-6).epsilon_at(1e-6), 1)
            2.0
        """
        (one, first), (two, second) = self.parts, other.parts
        together, rest = self.beside(other), [part for part in (first, second) if part is not None]
        if not rest or one + two == 0.0:
            return together
        apart = PureBeside(one + two, rest[0].compose(*rest[1:]))
        return min((together, apart), key=lambda certificate: certificate.epsilon_at(delta))

    def at_shift(self, mu: float) -> "Certificate":
        """Return the certificate of this noise for neighbours whose outputs are `mu` deviations apart.

        Raises:
            InvalidParameter: This is not a certificate of Gaussian noise.
        """
        raise InvalidParameter(f"{type(self).__name__} says nothing about shifted Gaussian noise")

    def compose(self, *others: "Certificate") -> "Certificate":
        """Return the certificate of using all mechanisms on one user's data, by repeated `beside`.

        Pure certificates come last. Two pure losses would add up linearly, but each of them adds epsilon^2/2
        to a zero-concentrated certificate.
        """
        parts = sorted((self, *others), key=lambda part: part.adds_linearly)
        return reduce(lambda together, part: together.beside(part), parts)


@_CERTIFICATES.add("PureDP")
@dataclass(frozen=True)
class PureDP(Certificate):
    """Certificate that all log-likelihood ratios of the output between neighbouring data sets are at most
    `epsilon`.
    """

    wording = "pure differential privacy, epsilon = {epsilon}"
    rule = (
        "basic composition, epsilons add up; of mechanisms that share no round, the largest counts (parallel "
        "composition)"
    )
    adds_linearly = True

    epsilon: float

    def __post_init__(self) -> None:
        _checks.settle(self, epsilon=_checks.number)

    @property
    def parts(self) -> tuple[float, Certificate | None]:
        """The loss epsilon, and None for the remaining certificate."""
        return self.epsilon, None

    def beside(self, other: Certificate) -> Certificate:
        """Return the composition: epsilons of pure certificates add."""
        return PureDP(self.epsilon + other.epsilon) if isinstance(other, PureDP) else super().beside(other)

    def delta_at(self, epsilon: float) -> float:
        """Return 0 for an `epsilon` of at least the certificate's, else the delta of randomised response.

        With E the certificate's epsilon, randomised response with ratio e^E is the worst pure mechanism:
        delta = (e^E - e^eps)/(1 + e^E).
        """
        smaller = _checks.number(epsilon, name="epsilon", exclusive=False)
        if smaller >= self.epsilon:
            return 0.0
        # divided by e^E, so that nothing overflows
        return -math.expm1(smaller - self.epsilon) / (1.0 + math.exp(-self.epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the certificate's epsilon at delta = 0, and a smaller epsilon at larger delta."""
        chance = _checks.probability(delta, name="delta")
        # e^eps = e^E - delta (1 + e^E)
        remainder = 1.0 - chance * (1.0 + math.exp(-self.epsilon))
        return max(0.0, self.epsilon + math.log(remainder)) if remainder > 0.0 else 0.0

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Return rho = epsilon^2/2 (Bun and Steinke 2016, Proposition 1.4)."""
        return ZeroConcentratedDP(0.5 * self.epsilon * self.epsilon)

    def membership_bound(self) -> float:
        """Return e^epsilon/(1 + e^epsilon)."""
        return membership_bound(self.epsilon, 0.0)


@_CERTIFICATES.add("GaussianDP")
@dataclass(frozen=True)
class GaussianDP(Certificate):
    """Certificate that a mechanism is no easier to attack than telling N(0, 1) from N(mu, 1) by one draw."""

    wording = "Gaussian differential privacy (GDP), mu = {mu}"
    rule = "GDP composition, squares of mu add up"

    mu: float

    def __post_init__(self) -> None:
        _checks.settle(self, mu=_checks.number)

    def beside(self, other: Certificate) -> Certificate:
        """Return the composition: squares of mu add, also with a near-Gaussian certificate."""
        if isinstance(other, GaussianDP):
            return GaussianDP(math.hypot(self.mu, other.mu))
        return other.beside(self) if isinstance(other, NearGaussianDP) else super().beside(other)

    def at_shift(self, mu: float) -> Certificate:
        """Return the Gaussian certificate with this mu."""
        return GaussianDP(mu)

    def delta_at(self, epsilon: float) -> float:
        """Return Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu).

        The relative error is below 1e-12 for results down to 1e-15.
        """
        return gaussian_delta(_checks.number(epsilon, name="epsilon", exclusive=False), self.mu)

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Return rho = mu^2/2, since N(mu, 1) has Renyi divergence alpha mu^2/2 from N(0, 1)."""
        return ZeroConcentratedDP(0.5 * self.mu * self.mu)

    def membership_bound(self) -> float:
        """Return Phi(mu/2), the success rate of the likelihood-ratio test between N(0, 1) and N(mu, 1)."""
        return float(ndtr(0.5 * self.mu))


@_CERTIFICATES.add("ZeroConcentratedDP")
@dataclass(frozen=True)
class ZeroConcentratedDP(Certificate):
    """Certificate of a Renyi divergence of at most alpha `rho` between neighbours, for all alpha > 1."""

    wording = "zero-concentrated differential privacy (zCDP), rho = {rho}"
    rule = "zCDP composition, rhos add up"

    rho: float

    def __post_init__(self) -> None:
        _checks.settle(self, rho=_checks.number)

    def at_shift(self, mu: float) -> Certificate:
        """Return the certificate with rho = mu^2/2."""
        return ZeroConcentratedDP(0.5 * mu**2)

    def delta_at(self, epsilon: float) -> float:
        """Return the best delta over all orders (Canonne, Kamath, Steinke 2020, Corollary 13)."""
        return concentrated_delta(_checks.number(epsilon, name="epsilon", exclusive=False), self.rho)

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Return this certificate."""
        return self

    def membership_bound(self) -> float:
        """Return the largest p for which two coins of bias p and 1 - p satisfy the certificate.

        A test turns the outputs for two neighbours into two coins, whose divergences are no larger (data
        processing). The permitted pairs (power, size) form a convex set. Exchanging the neighbours and the
        test's two answers maps (power, size) to (1 - size, 1 - power) and leaves the set unchanged. So the
        best pair has size = 1 - power. Renyi orders are taken on a grid that includes the Kullback-Leibler
        divergence (order 1). Leaving orders out can only raise the bound.
        """
        return _coin_bound(self.rho)


@_CERTIFICATES.add("NearGaussianDP")
@dataclass(frozen=True)
class NearGaussianDP(Certificate):
    """Certificate of discrete Gaussian noise of large scale: zero-concentrated, and close to `GaussianDP`.

    The output is rho-zCDP with rho = mu^2/2, and within total variation `distance` of an output that is
    GaussianDP(mu). So delta is at most the smaller of two numbers:

    - the delta of ZeroConcentratedDP(mu^2/2);
    - delta(eps; mu) + (1 + e^eps) distance, with delta(eps; mu) that of GaussianDP(mu). Proof: let P and P'
      be the outputs for two neighbours, and Q and Q' the Gaussian ones near them. Then P(S) <= Q(S) +
      distance, Q(S) <= e^eps Q'(S) + delta(eps; mu), and Q'(S) <= P'(S) + distance.

    Args:
        mu: Parameter of the nearby Gaussian certificate, sensitivity/sigma.
        distance: Total variation between the noise that is drawn and rounded real Gaussian noise, over all
            draws that one user's data can affect; see `rounding_distance` and `dpbandits.privacy.noise`.
    """

    wording = "Gaussian differential privacy (GDP), mu = {mu}, up to total variation {distance}"
    rule = "GDP composition, squares of mu and total variations add up"

    mu: float
    distance: float

    def __post_init__(self) -> None:
        _checks.settle(self, mu=_checks.number, distance=_checks.probability)

    def beside(self, other: Certificate) -> Certificate:
        """Return the composition: squares of mu and distances add; a Gaussian certificate has distance 0."""
        if not isinstance(other, (GaussianDP, NearGaussianDP)):
            return super().beside(other)
        distance = self.distance + (other.distance if isinstance(other, NearGaussianDP) else 0.0)
        return NearGaussianDP(math.hypot(self.mu, other.mu), distance)

    def at_shift(self, mu: float) -> Certificate:
        """Return the certificate with this mu and the same distance, since the noise is the same."""
        return NearGaussianDP(mu, self.distance)

    def delta_at(self, epsilon: float) -> float:
        """Return the smaller of the two deltas in the class docstring."""
        loss = _checks.number(epsilon, name="epsilon", exclusive=False)
        concentrated = self.to_zcdp().delta_at(loss)
        if loss > LARGEST_EPSILON:
            return concentrated
        return min(concentrated, gaussian_delta(loss, self.mu) + (1.0 + math.exp(loss)) * self.distance)

    def to_zcdp(self) -> ZeroConcentratedDP:
        """Return rho = mu^2/2, which holds for the discrete Gaussian noise itself."""
        return ZeroConcentratedDP(0.5 * self.mu * self.mu)

    def membership_bound(self) -> float:
        """Return Phi(mu/2) + distance, or the zero-concentrated bound if that is smaller."""
        return min(float(ndtr(0.5 * self.mu)) + self.distance, self.to_zcdp().membership_bound())


@_CERTIFICATES.add("PureBeside", other=_CERTIFICATES.read)
@dataclass(frozen=True)
class PureBeside(Certificate):
    """Composition of a pure loss `epsilon` with the certificate `other` (basic composition, adaptive).

    Its delta at eps is the delta of `other` at eps - epsilon: a pure mechanism adds its epsilon and no
    delta.

    Example:
        >>> both = PureBeside(0.5, GaussianDP(0.2367))
        >>> bool(abs(both.delta_at(1.5) - GaussianDP(0.2367).delta_at(1.0)) < 1e-15)
        True
    """

    wording = "pure differential privacy, epsilon = {epsilon}"
    rule = "basic composition of a pure epsilon with the other certificate"

    epsilon: float
    other: Certificate

    def __post_init__(self) -> None:
        _checks.settle(self, epsilon=_checks.number)

    @property
    def parts(self) -> tuple[float, Certificate | None]:
        """Pure loss `epsilon` and the certificate `other`."""
        return self.epsilon, self.other

    def delta_at(self, epsilon: float) -> float:
        """Return the delta of `other` at the given epsilon minus the pure loss, or 1 if that is negative."""
        loss = _checks.number(epsilon, name="epsilon", exclusive=False)
        # a decimal sum of budgets may be one rounding below its parts in binary
        left = loss - self.epsilon * (1.0 - 2.0**-50)
        return self.other.delta_at(left) if left >= 0.0 else 1.0

    def epsilon_at(self, delta: float) -> float:
        """Return the pure loss plus the epsilon of `other`."""
        return self.epsilon + self.other.epsilon_at(delta)

    def to_zcdp(self) -> ZeroConcentratedDP:
        """Return the sum of the rhos of the pure loss and of `other`."""
        return ZeroConcentratedDP(0.5 * self.epsilon**2 + self.other.to_zcdp().rho)

    def membership_bound(self) -> float:
        """Return the smaller of the zero-concentrated bound and the best of a few (epsilon, delta) bounds."""
        return _bound_beside(self)

    def describe(self) -> str:
        """Return both certificates in a few words."""
        return f"{super().describe()}, composed with {self.other.describe()}"


@_CERTIFICATES.add("Either", first=_CERTIFICATES.read, second=_CERTIFICATES.read)
@dataclass(frozen=True)
class Either(Certificate):
    """Certificate of two mechanisms, where public facts say which one each user's data enters.

    A user's data changes one of the two, so the loss is at most the larger one (parallel composition).

    Example:
        >>> one = Either(PureDP(0.5), GaussianDP(0.2))
        >>> one.delta_at(0.5) == GaussianDP(0.2).delta_at(0.5), one.delta_at(0.4) == PureDP(0.5).delta_at(0.4)
        (True, True)
    """

    wording = "the weaker one, as each user's data enters one mechanism only, of:"
    rule = "parallel composition, the weaker certificate counts"

    first: Certificate
    second: Certificate

    def beside(self, other: Certificate) -> Certificate:
        """Return the composition: that of `other` with the one or with the other certificate."""
        return either(self.first.beside(other), self.second.beside(other))

    def delta_at(self, epsilon: float) -> float:
        """Return the larger delta."""
        return max(self.first.delta_at(epsilon), self.second.delta_at(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the larger epsilon."""
        return max(self.first.epsilon_at(delta), self.second.epsilon_at(delta))

    def to_zcdp(self) -> ZeroConcentratedDP:
        """Return the larger rho."""
        return ZeroConcentratedDP(max(self.first.to_zcdp().rho, self.second.to_zcdp().rho))

    def membership_bound(self) -> float:
        """Return the larger bound."""
        return max(self.first.membership_bound(), self.second.membership_bound())

    def describe(self) -> str:
        """Return both certificates in a few words."""
        return f"{self.wording} {self.first.describe()}; {self.second.describe()}"


def either(first: Certificate, second: Certificate) -> Certificate:
    """Return the certificate of two mechanisms of which each user's data enters one only.

    It is the weaker one of two of a kind, if one of them is weaker in every number, and `Either` otherwise.
    """
    match first, second:
        case PureDP(), PureDP():
            return PureDP(max(first.epsilon, second.epsilon))
        case ZeroConcentratedDP(), ZeroConcentratedDP():
            return ZeroConcentratedDP(max(first.rho, second.rho))
        case GaussianDP(), GaussianDP():
            return GaussianDP(max(first.mu, second.mu))
        case NearGaussianDP(), NearGaussianDP():
            weaker, other = (first, second) if first.mu >= second.mu else (second, first)
            return weaker if weaker.distance >= other.distance else Either(first, second)
        case _:
            return Either(first, second)


# Cached, because statements compute these numbers each time that they are shown.
@lru_cache(maxsize=256)
def _coin_bound(rho: float) -> float:
    low, high = 0.0, 1e4  # log odds of p; the accepted end is returned, from above
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if coins_permitted(middle, rho) else (low, middle)
    return 1.0 / (1.0 + math.exp(-high))


@lru_cache(maxsize=256)
def _bound_beside(both: PureBeside) -> float:
    chances = (1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 1e-2, 0.1)
    simple = min(membership_bound(both.epsilon_at(delta), delta) for delta in chances)
    return min(simple, both.to_zcdp().membership_bound())


from_config = _CERTIFICATES.read
"""Rebuild a certificate from its `to_config()`. Raises `InvalidParameter` for anything else."""


def rounded_up(value: float, digits: int = 4) -> str:
    """Return `value` as text with this many significant digits, rounded up, so that "at most" stays true.

    Example:
        >>> rounded_up(2.71828), rounded_up(0.5), rounded_up(1e-6)
        ('2.719', '0.5', '1e-06')
    """
    with localcontext(prec=digits, rounding=ROUND_CEILING):
        exact = +Decimal(repr(float(value)))
    return f"{float(exact):.{digits}g}"

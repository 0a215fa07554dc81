r"""Certificates: what a mechanism provably gives away.

A certificate is the strongest simple statement that is true of a mechanism; every (epsilon, delta)
pair follows from it.

=====================  ================================================================================
`PureDP`               all log-likelihood ratios are at most epsilon
`GaussianDP`           no easier to attack than telling N(0, 1) from N(mu, 1) (Dong, Roth, Su 2022).
                       True of real-valued Gaussian noise with mu = sensitivity/sigma
`ZeroConcentratedDP`   Renyi divergence of every order alpha at most alpha rho (Bun, Steinke 2016).
                       True of discrete Gaussian noise with rho = sensitivity^2/(2 sigma^2)
                       (Canonne, Kamath, Steinke 2020), the noise that `SecureNoise` draws
`NearGaussianDP`       zero-concentrated, and within a tiny total variation of `GaussianDP`: true of
                       discrete Gaussian noise on a fine lattice
`PureBeside`           a pure loss, beside another certificate on the same people
=====================  ================================================================================

Certificates join (`beside`, `compose`): of one kind they stay of that kind, `GaussianDP` and
`NearGaussianDP` stay near-Gaussian, and all others meet in `ZeroConcentratedDP`.

For ZeroConcentratedDP delta(eps) = min over alpha > 1 of exp((alpha-1)(alpha rho - eps))/(alpha-1)
(1 - 1/alpha)^alpha (Canonne, Kamath, Steinke 2020, Corollary 13). Why: delta = E max(0, 1 - e^(eps-Z)) for
the privacy loss Z, and 1 - e^(eps-z) <= e^((alpha-1)(z-eps)) max_t (1 - e^-t) e^(-(alpha-1)t), where the last
maximum is (1 - 1/alpha)^alpha/(alpha-1), at e^-t = 1 - 1/alpha; take expectations.
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
    "GaussianDP",
    "NearGaussianDP",
    "PureBeside",
    "PureDP",
    "ZeroConcentratedDP",
    "from_config",
    "rounded_up",
]

_CERTIFICATES: "Registry[Certificate]" = Registry("a certificate", label="kind")


class Certificate(Configured, ABC):
    """A statement about a mechanism from which (epsilon, delta) pairs follow."""

    adds_linearly: ClassVar[bool] = False
    wording: ClassVar[str]

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """Smallest delta that this certificate proves at `epsilon` >= 0."""

    def epsilon_at(self, delta: float) -> float:
        """Smallest epsilon with delta_at(epsilon) <= delta, rounded up in the last digits.

        Args:
            delta: in [1e-15, 1); a pure certificate takes 0, too.
        """
        target = within_range(delta) * (1.0 - MARGIN)
        if self.delta_at(0.0) <= target:
            return 0.0
        return narrowed(lambda epsilon: self.delta_at(epsilon) > target, 0.0, 1.0, width=1e-13)[1]

    @abstractmethod
    def to_zcdp(self) -> "ZeroConcentratedDP":
        """A zero-concentrated certificate that this one implies."""

    @abstractmethod
    def membership_bound(self) -> float:
        """Highest success rate of any test that guesses which of two neighbours was used.

        The two are equally likely beforehand, so that guessing blindly succeeds half the time.
        """

    def describe(self) -> str:
        """The certificate in a few words."""
        numbers = {name: rounded_up(value) for name, value in vars(self).items() if isinstance(value, float)}
        return self.wording.format(**numbers)

    def beside(self, other: "Certificate") -> "Certificate":
        """The certificate of using both mechanisms on one person's data, adaptively.

        By default two certificates meet in zero-concentrated DP, where rhos add; a kind that adds up
        closer than that, with its own or another, says so.
        """
        return ZeroConcentratedDP(self.to_zcdp().rho + other.to_zcdp().rho)

    @property
    def parts(self) -> tuple[float, "Certificate | None"]:
        """A pure loss, and what is beside it: together this certificate."""
        return 0.0, self

    def closest_beside(self, other: "Certificate", *, delta: float) -> "Certificate":
        """As `beside`, or with the pure losses of both added up apart, whichever proves less at this delta.

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
        """What the same Gaussian noise certifies between neighbours that are `mu` deviations apart.

        Raises:
            InvalidParameter: this is no certificate of Gaussian noise.
        """
        raise InvalidParameter(f"{type(self).__name__} says nothing about shifted Gaussian noise")

    def compose(self, *others: "Certificate") -> "Certificate":
        """The certificate of using all the mechanisms on one person's data: `beside`, one after another.

        Pure losses come last: before they meet anything else they would add up linearly, and beside a
        concentrated one they add up in squares.
        """
        parts = sorted((self, *others), key=lambda part: part.adds_linearly)
        return reduce(lambda together, part: together.beside(part), parts)


@_CERTIFICATES.add("PureDP")
@dataclass(frozen=True)
class PureDP(Certificate):
    """All log-likelihood ratios of the output between neighbours are at most `epsilon`."""

    wording = "pure differential privacy, epsilon = {epsilon}"
    adds_linearly = True

    epsilon: float

    def __post_init__(self) -> None:
        _checks.settle(self, epsilon=_checks.number)

    @property
    def parts(self) -> tuple[float, Certificate | None]:
        """Nothing is beside it."""
        return self.epsilon, None

    def beside(self, other: Certificate) -> Certificate:
        """Epsilons of pure certificates add."""
        return PureDP(self.epsilon + other.epsilon) if isinstance(other, PureDP) else super().beside(other)

    def delta_at(self, epsilon: float) -> float:
        """0 from the certificate's epsilon on; below it, what randomised response would lose.

        Randomised response with ratio e^E is the worst pure mechanism: delta = (e^E - e^eps)/(1 + e^E).
        """
        smaller = _checks.number(epsilon, name="epsilon", exclusive=False)
        if smaller >= self.epsilon:
            return 0.0
        # divided by e^E, so that nothing overflows
        return -math.expm1(smaller - self.epsilon) / (1.0 + math.exp(-self.epsilon))

    def epsilon_at(self, delta: float) -> float:
        """The certificate's epsilon at delta = 0, less above."""
        chance = _checks.probability(delta, name="delta")
        # e^eps = e^E - delta (1 + e^E)
        remainder = 1.0 - chance * (1.0 + math.exp(-self.epsilon))
        return max(0.0, self.epsilon + math.log(remainder)) if remainder > 0.0 else 0.0

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """epsilon^2/2 (Bun and Steinke 2016, Proposition 1.4)."""
        return ZeroConcentratedDP(0.5 * self.epsilon * self.epsilon)

    def membership_bound(self) -> float:
        """e^epsilon/(1 + e^epsilon)."""
        return membership_bound(self.epsilon, 0.0)


@_CERTIFICATES.add("GaussianDP")
@dataclass(frozen=True)
class GaussianDP(Certificate):
    """No easier to attack than telling N(0, 1) from N(mu, 1) by one draw."""

    wording = "Gaussian differential privacy, mu = {mu}"

    mu: float

    def __post_init__(self) -> None:
        _checks.settle(self, mu=_checks.number)

    def beside(self, other: Certificate) -> Certificate:
        """Mus add in squares, a nearly Gaussian one's too."""
        if isinstance(other, GaussianDP):
            return GaussianDP(math.hypot(self.mu, other.mu))
        return other.beside(self) if isinstance(other, NearGaussianDP) else super().beside(other)

    def at_shift(self, mu: float) -> Certificate:
        """Gaussian with this mu."""
        return GaussianDP(mu)

    def delta_at(self, epsilon: float) -> float:
        """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), relative error below 1e-12 down to 1e-15."""
        return gaussian_delta(_checks.number(epsilon, name="epsilon", exclusive=False), self.mu)

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """mu^2/2: the Renyi divergence of order alpha of N(mu, 1) from N(0, 1) is alpha mu^2/2."""
        return ZeroConcentratedDP(0.5 * self.mu * self.mu)

    def membership_bound(self) -> float:
        """Phi(mu/2): the likelihood-ratio test between N(0, 1) and N(mu, 1)."""
        return float(ndtr(0.5 * self.mu))


@_CERTIFICATES.add("ZeroConcentratedDP")
@dataclass(frozen=True)
class ZeroConcentratedDP(Certificate):
    """Renyi divergence of every order alpha > 1 between neighbours at most alpha `rho`."""

    wording = "zero-concentrated differential privacy, rho = {rho}"

    rho: float

    def __post_init__(self) -> None:
        _checks.settle(self, rho=_checks.number)

    def at_shift(self, mu: float) -> Certificate:
        """rho = mu^2/2."""
        return ZeroConcentratedDP(0.5 * mu**2)

    def delta_at(self, epsilon: float) -> float:
        """The best delta over all orders (Canonne, Kamath, Steinke 2020, Corollary 13)."""
        return concentrated_delta(_checks.number(epsilon, name="epsilon", exclusive=False), self.rho)

    def to_zcdp(self) -> "ZeroConcentratedDP":
        """Itself."""
        return self

    def membership_bound(self) -> float:
        """The largest p that a coin of bias p against one of bias 1 - p reaches under the certificate.

        A test turns the two outputs into two coins, whose divergences are no larger (data processing).
        The permitted pairs (power, size) form a convex set, symmetric under exchange of the neighbours
        together with the answers (power, size) -> (1 - size, 1 - power), so the best is at
        size = 1 - power. Orders are taken on a grid, the Kullback-Leibler divergence (order 1)
        included; leaving orders out only raises the bound.
        """
        return _coin_bound(self.rho)


@_CERTIFICATES.add("NearGaussianDP")
@dataclass(frozen=True)
class NearGaussianDP(Certificate):
    """What discrete Gaussian noise of a large scale proves, besides being zero-concentrated.

    The output is the discrete one, rho-zCDP with rho = mu^2/2, and is within total variation `distance`
    of one that is GaussianDP(mu). So delta is at most the smaller of two:

    - that of ZeroConcentratedDP(mu^2/2);
    - delta(eps; mu) + (1 + e^eps) distance. Why: P(S) <= Q(S) + distance for the Gaussian Q near P, then
      Q(S) <= e^eps Q'(S) + delta(eps; mu), then Q'(S) <= P'(S) + distance.

    Args:
        mu: of the Gaussian certificate nearby, sensitivity/sigma.
        distance: total variation between the noise that is drawn and rounded real Gaussian noise, over
            all draws that one unit can touch; see `rounding_distance` and `dpbandits.privacy.noise`.
    """

    wording = "within total variation {distance} of Gaussian differential privacy, mu = {mu}"

    mu: float
    distance: float

    def __post_init__(self) -> None:
        _checks.settle(self, mu=_checks.number, distance=_checks.probability)

    def beside(self, other: Certificate) -> Certificate:
        """Mus add in squares, distances to a Gaussian add up; a Gaussian has none."""
        if not isinstance(other, (GaussianDP, NearGaussianDP)):
            return super().beside(other)
        distance = self.distance + (other.distance if isinstance(other, NearGaussianDP) else 0.0)
        return NearGaussianDP(math.hypot(self.mu, other.mu), distance)

    def at_shift(self, mu: float) -> Certificate:
        """Near the Gaussian with this mu, by the same distance: the noise is the same."""
        return NearGaussianDP(mu, self.distance)

    def delta_at(self, epsilon: float) -> float:
        """The smaller of the two deltas."""
        loss = _checks.number(epsilon, name="epsilon", exclusive=False)
        concentrated = self.to_zcdp().delta_at(loss)
        if loss > LARGEST_EPSILON:
            return concentrated
        return min(concentrated, gaussian_delta(loss, self.mu) + (1.0 + math.exp(loss)) * self.distance)

    def to_zcdp(self) -> ZeroConcentratedDP:
        """mu^2/2, which holds of discrete Gaussian noise itself."""
        return ZeroConcentratedDP(0.5 * self.mu * self.mu)

    def membership_bound(self) -> float:
        """Phi(mu/2) + distance, or the zero-concentrated bound if that is smaller."""
        return min(float(ndtr(0.5 * self.mu)) + self.distance, self.to_zcdp().membership_bound())


@_CERTIFICATES.add("PureBeside", other=_CERTIFICATES.read)
@dataclass(frozen=True)
class PureBeside(Certificate):
    """What `other` proves, after a further pure loss of `epsilon` (basic composition, adaptive).

    delta(eps) is `other`'s at eps - epsilon: a pure mechanism adds its epsilon and no delta.

    Example:
        >>> both = PureBeside(0.5, GaussianDP(0.2367))
        >>> bool(abs(both.delta_at(1.5) - GaussianDP(0.2367).delta_at(1.0)) < 1e-15)
        True
    """

    wording = "pure differential privacy, epsilon = {epsilon}"

    epsilon: float
    other: Certificate

    def __post_init__(self) -> None:
        _checks.settle(self, epsilon=_checks.number)

    @property
    def parts(self) -> tuple[float, Certificate | None]:
        """Both."""
        return self.epsilon, self.other

    def delta_at(self, epsilon: float) -> float:
        """`other`'s delta at what is left of epsilon; below the pure loss, its delta at 0 or more: 1."""
        loss = _checks.number(epsilon, name="epsilon", exclusive=False)
        # a decimal sum of budgets may come a rounding short of its parts in binary
        left = loss - self.epsilon * (1.0 - 2.0**-50)
        return self.other.delta_at(left) if left >= 0.0 else 1.0

    def epsilon_at(self, delta: float) -> float:
        """The pure loss plus `other`'s epsilon."""
        return self.epsilon + self.other.epsilon_at(delta)

    def to_zcdp(self) -> ZeroConcentratedDP:
        """Sum of both rhos."""
        return ZeroConcentratedDP(0.5 * self.epsilon**2 + self.other.to_zcdp().rho)

    def membership_bound(self) -> float:
        """The zero-concentrated one, or that of (epsilon, delta) at the best delta of a few."""
        return _bound_beside(self)

    def describe(self) -> str:
        """The certificate in a few words, and the other one's."""
        return f"{super().describe()}, together with: {self.other.describe()}"


# A statement asks for these each time that it is read or explained.
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
"""Rebuild a certificate from its `to_config()`; anything else is an `InvalidParameter`."""


def rounded_up(value: float, digits: int = 4) -> str:
    """`value` with so many significant digits, never below it: prose that says "at most" stays true.

    Example:
        >>> rounded_up(2.71828), rounded_up(0.5), rounded_up(1e-6)
        ('2.719', '0.5', '1e-06')
    """
    with localcontext(prec=digits, rounding=ROUND_CEILING):
        exact = +Decimal(repr(float(value)))
    return f"{float(exact):.{digits}g}"

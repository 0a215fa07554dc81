r"""Calibration: the noise scale that a promise needs, and the arithmetic behind certificates.

All functions take and return numbers, and avoid cancellation and underflow.

Calibration errs on the safe side. A search aims slightly below delta and returns the safe end of its last
bracket, so that the scale found has a delta of at most the one asked for. Arguments are epsilon in (0, 50],
delta in [1e-15, 1), and `sensitivity` > 0: the largest Euclidean distance between the outputs of two
neighbouring data sets, over all releases that share the promise. Values outside these ranges raise
`InvalidParameter`. `dpbandits.privacy.certificates` states what noise of a given scale proves.

Example:
    >>> from dpbandits.privacy.certificates import GaussianDP
    >>> sigma = gaussian_sigma(1.0, 1e-6, sensitivity=1.0)
    >>> round(sigma, 3), GaussianDP(1.0 / sigma).delta_at(1.0) <= 1e-6
    (4.225, True)
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, ndtr

from dpbandits import _checks
from dpbandits.errors import InvalidParameter

__all__ = [
    "calibrate_gaussian",
    "coins_permitted",
    "concentrated_delta",
    "discrete_gaussian_sigma",
    "discrete_scale",
    "gaussian_delta",
    "gaussian_mu",
    "gaussian_sigma",
    "membership_bound",
    "narrowed",
    "near_gaussian_sigma",
    "rounding_distance",
    "steps_up",
    "within_range",
    "zcdp_rho",
]

LARGEST_EPSILON = 50.0
SMALLEST_DELTA = 1e-15
"""Smallest delta that is accepted: down to it the formulas are tested against 50-digit arithmetic."""

MARGIN = 1e-10
"""Relative distance below delta at which searches aim, far above the error of the formulas (1e-12)."""

_NARROW = 0.5
"""Value of mu below which the two terms of delta nearly cancel, so
that their difference is integrated instead.
"""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)

_ORDERS = 1.0 + np.logspace(-2.0, 3.0, 41)
"""Renyi orders above 1 at which a zero-concentrated certificate bounds membership guesses."""

_TINY = float(np.finfo(np.float64).tiny)
"""Stand-in for every positive delta that float64 cannot hold, so that underflow errs on the safe side."""


# -- scales --------------------------------------------------------------------------------------


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu whose Gaussian certificate proves (epsilon, delta).

    Example:
        >>> round(gaussian_mu(1.0, 1e-5), 4)
        0.2681
    """
    return _gaussian_mu(*_calibration_point(epsilon, delta))


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the standard deviation of real-valued Gaussian noise for (epsilon, delta): sensitivity/mu."""
    return _checks.number(sensitivity, name="sensitivity") / gaussian_mu(epsilon, delta)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho whose zero-concentrated certificate proves (epsilon, delta).

    Example:
        >>> round(1.0 / (2.0 * zcdp_rho(1.0, 1e-6)) ** 0.5, 2)
        4.53
    """
    return _zcdp_rho(*_calibration_point(epsilon, delta))


def discrete_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the scale of discrete Gaussian noise for (epsilon, delta): sensitivity/sqrt(2 rho)."""
    return _checks.number(sensitivity, name="sensitivity") / math.sqrt(2.0 * zcdp_rho(epsilon, delta))


def near_gaussian_sigma(epsilon: float, delta: float, sensitivity: float, draws: int) -> float:
    """Return the scale of discrete Gaussian noise that gives (epsilon, delta) by `NearGaussianDP`.

    On a fine lattice it equals the scale of real-valued noise. At small delta this scale is 6 to 9% below
    the one that the zero-concentrated certificate needs.

    Args:
        epsilon: Privacy loss; see the module for the ranges.
        delta: Failure probability.
        sensitivity: Euclidean sensitivity of integer outputs.
        draws: Largest number of noise draws, over all releases together, that one user's data can affect.

    Example:
        >>> round(near_gaussian_sigma(1.0, 1e-6, 2.0**20, draws=1000) / 2.0**20, 3)
        4.225
    """
    distance = _checks.number(sensitivity, name="sensitivity")
    count = _checks.integer(draws, name="draws")
    return distance / _near_gaussian_mu(*_calibration_point(epsilon, delta), distance, count)


def discrete_scale(
    epsilon: float, delta: float, sensitivity: float, draws: int | None = None
) -> tuple[float, float | None]:
    """Return the smaller noise scale of `discrete_gaussian_sigma` and `near_gaussian_sigma`.

    Args:
        epsilon: Privacy loss; see the module for the ranges.
        delta: Failure probability.
        sensitivity: Euclidean sensitivity of integer outputs.
        draws: Number of draws as for `near_gaussian_sigma`. None means that it has no bound; then the scale
            is that of `discrete_gaussian_sigma`.

    Returns:
        Scale, rounded up by a few float64 steps, and total variation between all draws and rounded
        real-valued ones. The total variation is None if the scale comes from the zero-concentrated
        certificate.

    Example:
        >>> sigma, apart = discrete_scale(1.0, 1e-6, 2.0**20, draws=1000)
        >>> round(sigma / 2.0**20, 3), apart < 1e-10
        (4.225, True)
    """
    sigma = steps_up(discrete_gaussian_sigma(epsilon, delta, sensitivity))
    if draws is None:
        return sigma, None
    nearer = steps_up(near_gaussian_sigma(epsilon, delta, sensitivity, draws))
    return (nearer, draws * rounding_distance(nearer)) if nearer < sigma else (sigma, None)


def steps_up(sigma: float) -> float:
    """Return `sigma` a few float64 steps larger, because divisions and roots may have rounded it down."""
    return sigma * (1.0 + 2.0**-50)


def calibrate_gaussian(
    epsilon: float, delta: float, sensitivity: float, releases: int = 1
) -> dict[str, float]:
    """Return the scales of real-valued and of discrete Gaussian noise for one guarantee.

    Args:
        epsilon: Privacy loss; see the module for the ranges.
        delta: Failure probability.
        sensitivity: Euclidean sensitivity of each release.
        releases: Number of releases about the same users that share the guarantee.

    Returns:
        Dictionary with these numbers:

        - mu: parameter of Gaussian DP for all releases together;
        - sigma: scale of real-valued noise in each release;
        - rho: parameter of zero-concentrated DP (zCDP) for all releases together;
        - sigma_discrete: scale of discrete noise in each release;
        - membership: highest success rate of a membership guess under (epsilon, delta).

    Example:
        >>> {name: round(value, 3) for name, value in calibrate_gaussian(1.0, 1e-6, 1.0).items()}
        {'mu': 0.237, 'sigma': 4.225, 'rho': 0.024, 'sigma_discrete': 4.531, 'membership': 0.731}
    """
    together = sensitivity * math.sqrt(_checks.integer(releases, name="releases"))
    return {
        "mu": gaussian_mu(epsilon, delta),
        "sigma": gaussian_sigma(epsilon, delta, together),
        "rho": zcdp_rho(epsilon, delta),
        "sigma_discrete": discrete_gaussian_sigma(epsilon, delta, together),
        "membership": membership_bound(epsilon, delta),
    }


# Cached, because every object that is built or opened computes the numbers of its promise again.
@lru_cache(maxsize=256)
def _gaussian_mu(loss: float, target: float) -> float:
    return _largest(lambda mu: gaussian_delta(loss, mu) <= target)


@lru_cache(maxsize=256)
def _zcdp_rho(loss: float, target: float) -> float:
    return _largest(lambda rho: concentrated_delta(loss, rho) <= target)


@lru_cache(maxsize=256)
def _near_gaussian_mu(loss: float, target: float, distance: float, count: int) -> float:
    def kept(mu: float) -> bool:
        apart = count * rounding_distance(distance / mu)
        return gaussian_delta(loss, mu) + (1.0 + math.exp(loss)) * apart <= target

    return _largest(kept)


def _calibration_point(epsilon: float, delta: float) -> tuple[float, float]:
    """Return epsilon, and delta reduced by `MARGIN`, after checking that both are in the tested range."""
    loss = _checks.number(epsilon, name="epsilon")
    if loss > LARGEST_EPSILON:
        raise InvalidParameter(
            f"epsilon is {loss:g}: calibration is exact up to {LARGEST_EPSILON:g}, "
            "and a larger epsilon protects nobody"
        )
    return loss, within_range(delta) * (1.0 - MARGIN)


# -- arithmetic of certificates ---------------------------------------------------------------------


def membership_bound(epsilon: float, delta: float = 0.0) -> float:
    """Return the highest success rate of a membership guess: (e^eps + delta)/(1 + e^eps).

    The guess is which of two neighbouring data sets was used, when both are equally likely beforehand. A
    test's success rate is (1 + power - size)/2, and power <= e^eps size + delta holds for the test and for
    its complement. The maximum is where both bounds are met with equality.

    Example:
        >>> round(membership_bound(1.0, 1e-6), 3)
        0.731
    """
    loss = _checks.number(epsilon, name="epsilon", exclusive=False)
    inverse = math.exp(-loss)
    # delta may be 1 here: at epsilon = 0 certificates with a large rho prove nothing better
    return min(1.0, (1.0 + min(max(delta, 0.0), 1.0) * inverse) / (1.0 + inverse))


def _mills(t: float) -> float:
    """Return the Mills ratio (1 - Phi(t))/phi(t), without underflow."""
    return math.sqrt(0.5 * math.pi) * float(erfcx(t / math.sqrt(2.0)))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the smallest delta at which N(mu, 1) and N(0, 1) are (epsilon, delta)-indistinguishable.

    Let near = eps/mu - mu/2 and far = eps/mu + mu/2, phi the standard normal density and M its Mills ratio.
    As e^eps phi(far) = phi(near), delta is phi(near) [M(near) - M(far)]. No exponential of epsilon is ever
    formed. For small mu, M(near) - M(far) is computed as the integral of 1 - t M(t) from near to far.
    """
    near, far = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
    if not near < 38.0:  # phi(near) underflows float64; also where epsilon/mu is infinite
        return _TINY
    density = math.exp(-0.5 * near * near) / math.sqrt(2.0 * math.pi)
    if mu < _NARROW:
        points = 0.5 * (near + far) + 0.5 * mu * _NODES
        slopes = 1.0 - points * math.sqrt(0.5 * math.pi) * erfcx(points / math.sqrt(2.0))
        gap = 0.5 * mu * float(_WEIGHTS @ slopes)
        return min(1.0, max(_TINY, density * gap))
    upper = density * _mills(near) if near > 0.0 else float(ndtr(-near))
    return min(1.0, max(_TINY, upper - density * _mills(far)))


def concentrated_delta(epsilon: float, rho: float) -> float:
    """Return the smallest delta that rho-zCDP proves at `epsilon`, over all Renyi orders alpha = 1 + a.

    log delta(a) = a ((1+a) rho - eps) - log(1+a) - a log(1 + 1/a) is convex, with derivative
    (2a+1) rho - eps - log(1 + 1/a). Every a > 0 gives a valid delta, so the search may be inexact.
    """
    low, high = -700.0, 700.0  # bounds on log a; exp stays finite
    for _ in range(80):
        middle = 0.5 * (low + high)
        a = math.exp(middle)
        if (2.0 * a + 1.0) * rho - epsilon - _log1p_inverse(a) < 0.0:
            low = middle
        else:
            high = middle
    a = math.exp(high)
    exponent = a * ((1.0 + a) * rho - epsilon) - math.log1p(a) - a * _log1p_inverse(a)
    return max(_TINY, math.exp(min(0.0, exponent)))


def coins_permitted(log_odds: float, rho: float) -> bool:
    """Return True if coins with log odds `log_odds` and -`log_odds` satisfy rho-zCDP to each other."""
    log_p, log_q = -math.log1p(math.exp(-log_odds)), -log_odds - math.log1p(math.exp(-log_odds))
    if log_odds * math.tanh(0.5 * log_odds) > rho:
        return False
    sums = np.logaddexp(_ORDERS * log_p + (1.0 - _ORDERS) * log_q, _ORDERS * log_q + (1.0 - _ORDERS) * log_p)
    return bool(np.all(sums <= (_ORDERS - 1.0) * _ORDERS * rho))


def _log1p_inverse(a: float) -> float:
    """Return log(1 + 1/a) for every positive a."""
    return math.log1p(1.0 / a) if a > 1e-300 else -math.log(a)


def _largest(safe: Callable[[float], bool]) -> float:
    """Return the largest positive number at which `safe`, a decreasing predicate, holds, rounded down."""
    low, high = 1.0, 2.0
    while not safe(low):
        low, high = 0.5 * low, low
    return narrowed(safe, low, high, width=1e-14)[0]


def narrowed(holds: Callable[[float], bool], low: float, high: float, *, width: float) -> tuple[float, float]:
    """Return a bracket of the point where the decreasing predicate `holds` turns false.

    The search starts from [low, high] and doubles `high` until `holds` fails there. The bracket that is
    returned has the relative width `width`, or the smallest width that floats allow.
    """
    while holds(high):
        low, high = high, 2.0 * high
    while high - low > width * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low, high


def rounding_distance(sigma: float) -> float:
    """Return a bound on the total variation between a discrete Gaussian draw and a rounded real one.

    Both have the scale sigma. Let phi be the density of N(0, sigma^2), r_k its integral over [k - 1/2, k +
    1/2] and p_k = phi(k)/(1 + eta). The rounded draw is k with probability r_k, the discrete one with
    probability p_k. By Poisson summation sum_k phi(k) = 1 + eta with eta = 2 sum_{n>=1} exp(-2 pi^2 sigma^2
    n^2), so sum |phi(k) - p_k| = eta. By Taylor's formula |r_k - phi(k)| is at most 1/24 of the largest
    |phi''| in the cell, hence at most 1/24 of the cell's integral of |phi''| + |phi'''|. These integrals are
    4 phi_1(1)/sigma^2 = .968/sigma^2 and at most sqrt(6)/sigma^3 (Cauchy-Schwarz, E He_3(Z)^2 = 6). Total
    variation is half the sum.

    Example:
        >>> rounding_distance(1e7) < 2.1e-16
        True
    """
    scale = _checks.number(sigma, name="sigma")
    smooth = (0.968 + 2.45 / scale) / (48.0 * scale * scale)
    wave = math.exp(-2.0 * math.pi**2 * scale * scale)
    return min(1.0, smooth + wave / (1.0 - wave))  # eta/2 <= wave + wave^4 + ... <= wave/(1 - wave)


def within_range(delta: float) -> float:
    """Return `delta` after checking that it is in [1e-15, 1), where the formulas hold."""
    chance = _checks.probability(delta, name="delta")
    if chance < SMALLEST_DELTA:
        raise InvalidParameter(
            f"delta is {chance:g}: Gaussian noise needs delta >= {SMALLEST_DELTA:g}; "
            "choose one well below one over the number of users"
        )
    return chance

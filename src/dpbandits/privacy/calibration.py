r"""Calibration: the noise scale that a promise needs.

Calibrations err on the safe side: they aim a hair below delta, return the safe end of the last
bracket, and so re-evaluate to at most delta. They accept epsilon in (0, 50] and delta in [1e-15, 1).
What the scales are good for is said by a certificate (`dpbandits.privacy.certificates`).

Example:
    >>> from dpbandits.privacy.certificates import GaussianDP
    >>> sigma = gaussian_sigma(1.0, 1e-6, sensitivity=1.0)
    >>> round(sigma, 3), GaussianDP(1.0 / sigma).delta_at(1.0) <= 1e-6
    (4.225, True)
"""

import math

from dpbandits import _checks
from dpbandits.errors import InvalidParameter
from dpbandits.privacy._divergences import concentrated_delta, gaussian_delta, largest
from dpbandits.privacy.certificates import (
    LARGEST_EPSILON,
    MARGIN,
    membership_bound,
    rounding_distance,
    within_range,
)

__all__ = [
    "calibrate_gaussian",
    "discrete_gaussian_sigma",
    "gaussian_mu",
    "gaussian_sigma",
    "near_gaussian_sigma",
    "zcdp_rho",
]


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian certificate proves (epsilon, delta).

    Raises:
        InvalidParameter: epsilon outside (0, 50] or delta outside [1e-15, 1).

    Example:
        >>> round(gaussian_mu(1.0, 1e-5), 4)
        0.2681
    """
    loss, target = _calibration_point(epsilon, delta)
    return largest(lambda mu: gaussian_delta(loss, mu) <= target)


def gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Standard deviation of real-valued Gaussian noise that keeps (epsilon, delta): sensitivity/mu.

    Args:
        epsilon: in (0, 50].
        delta: in [1e-15, 1).
        sensitivity: largest Euclidean distance between the outputs of two neighbours, above 0.

    Raises:
        InvalidParameter: a number outside its range.
    """
    return _checks.number(sensitivity, name="sensitivity") / gaussian_mu(epsilon, delta)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Largest rho whose zero-concentrated certificate proves (epsilon, delta), by the tight conversion.

    Raises:
        InvalidParameter: epsilon outside (0, 50] or delta outside [1e-15, 1).

    Example:
        >>> round(1.0 / (2.0 * zcdp_rho(1.0, 1e-6)) ** 0.5, 2)
        4.53
    """
    loss, target = _calibration_point(epsilon, delta)
    return largest(lambda rho: concentrated_delta(loss, rho) <= target)


def discrete_gaussian_sigma(epsilon: float, delta: float, sensitivity: float) -> float:
    """Scale of discrete Gaussian noise that keeps (epsilon, delta): sensitivity/sqrt(2 rho).

    Args:
        epsilon: in (0, 50].
        delta: in [1e-15, 1).
        sensitivity: largest Euclidean distance between the integer outputs of two neighbours, above 0.

    Raises:
        InvalidParameter: a number outside its range.
    """
    return _checks.number(sensitivity, name="sensitivity") / math.sqrt(2.0 * zcdp_rho(epsilon, delta))


def near_gaussian_sigma(epsilon: float, delta: float, sensitivity: float, draws: int) -> float:
    """Scale of discrete Gaussian noise that keeps (epsilon, delta) by its `NearGaussianDP` certificate.

    On a fine lattice it is the scale of real-valued noise: 6 to 9% less than the zero-concentrated
    certificate asks for at small delta.

    Args:
        epsilon: in (0, 50].
        delta: in [1e-15, 1).
        sensitivity: largest Euclidean distance between the integer outputs of two neighbours, over all
            releases that share the promise, above 0.
        draws: how many draws of noise all these releases take together.

    Raises:
        InvalidParameter: a number outside its range.

    Example:
        >>> round(near_gaussian_sigma(1.0, 1e-6, 2.0**20, draws=1000) / 2.0**20, 3)
        4.225
    """
    loss, target = _calibration_point(epsilon, delta)
    distance = _checks.number(sensitivity, name="sensitivity")
    count = _checks.integer(draws, name="draws")

    def kept(mu: float) -> bool:
        apart = count * rounding_distance(distance / mu)
        return gaussian_delta(loss, mu) + (1.0 + math.exp(loss)) * apart <= target

    return distance / largest(kept)


def calibrate_gaussian(
    epsilon: float, delta: float, sensitivity: float, releases: int = 1
) -> dict[str, float]:
    """Both Gaussian scales for one promise, side by side.

    Args:
        epsilon: in (0, 50].
        delta: in [1e-15, 1).
        sensitivity: largest Euclidean distance between the outputs of two neighbours, of each release.
        releases: how many releases about the same people share the promise.

    Returns:
        mu: Gaussian certificate of all releases together; sigma: scale of real-valued noise in each
        release; rho: zero-concentrated certificate of all releases together; sigma_discrete: scale of
        discrete noise in each release; membership: highest success rate of a membership guess under
        (epsilon, delta).

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


def _calibration_point(epsilon: float, delta: float) -> tuple[float, float]:
    """(epsilon, delta less the margin) inside the tested range."""
    loss = _checks.number(epsilon, name="epsilon")
    if loss > LARGEST_EPSILON:
        raise InvalidParameter(
            f"epsilon is {loss:g}: calibration is exact up to {LARGEST_EPSILON:g}, "
            "and a larger epsilon protects nobody"
        )
    return loss, within_range(delta) * (1.0 - MARGIN)

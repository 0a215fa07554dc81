"""The arithmetic under the certificates, careful about cancellation and underflow."""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, ndtr

__all__ = ["coins_permitted", "concentrated_delta", "gaussian_delta", "largest"]

_NARROW = 0.5
"""Below this mu the two terms of delta nearly cancel, and their difference is integrated instead."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)

_ORDERS = 1.0 + np.logspace(-2.0, 3.0, 41)
"""Renyi orders above 1 at which a zero-concentrated certificate bounds membership guesses."""

_TINY = float(np.finfo(np.float64).tiny)
"""Stands for every positive delta too small for float64, so that underflow errs on the safe side."""


def _mills(t: float) -> float:
    """(1 - Phi(t))/phi(t), without underflow."""
    return math.sqrt(0.5 * math.pi) * float(erfcx(t / math.sqrt(2.0)))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta of N(mu, 1) against N(0, 1).

    With near = eps/mu - mu/2, far = eps/mu + mu/2 and e^eps phi(far) = phi(near), it is
    phi(near) [M(near) - M(far)] for the Mills ratio M; no exponential of epsilon is ever formed.
    M(near) - M(far) is the integral of 1 - t M(t) between them, which small mu needs.
    """
    near, far = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
    if not near < 38.0:  # phi(near) leaves float64; also where epsilon/mu is infinite
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
    """delta of rho-zCDP at the best order, alpha = 1 + a.

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
    """Whether coins with these log odds and their opposite are within rho-zCDP of each other."""
    log_p, log_q = -math.log1p(math.exp(-log_odds)), -log_odds - math.log1p(math.exp(-log_odds))
    if log_odds * math.tanh(0.5 * log_odds) > rho:
        return False
    sums = np.logaddexp(_ORDERS * log_p + (1.0 - _ORDERS) * log_q, _ORDERS * log_q + (1.0 - _ORDERS) * log_p)
    return bool(np.all(sums <= (_ORDERS - 1.0) * _ORDERS * rho))


def _log1p_inverse(a: float) -> float:
    """log(1 + 1/a) for every positive a."""
    return math.log1p(1.0 / a) if a > 1e-300 else -math.log(a)


def largest(safe: Callable[[float], bool]) -> float:
    """Largest positive number (to the last digits, from below) for which `safe`, decreasing, holds."""
    low, high = 1.0, 2.0
    while not safe(low):
        low, high = 0.5 * low, low
    while safe(high):
        low, high = high, 2.0 * high
    while high - low > 1e-14 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low

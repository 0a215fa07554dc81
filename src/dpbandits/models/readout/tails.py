r"""Tail probabilities of a normal variable plus independent Laplace variables.

The estimate of a difference is a sampling error, about normal, plus noise of known scales. For
X = s N + sum_k b_k L_k with standard normal N and standard Laplace L_k, the cumulant generating function is
K(t) = s^2 t^2/2 - sum_k log(1 - b_k^2 t^2) for t < 1/max b_k. The saddlepoint approximation of Lugannani and
Rice (1980) is P(X > K'(t)) = Phi(-w) + phi(w)(1/u - 1/w), with w = sqrt(2(t K'(t) - K(t))) and
u = t sqrt(K''(t)). Its relative error stays bounded in the tails, where the Cornish-Fisher expansion fails.
It was compared with inversion of the characteristic function for tails from .05 to 1e-6. The approximation
is between 2% too small and 4% too large, worst for a lone Laplace variable, and .5% too large for eight.
"""

import math

import numpy as np
from scipy.special import ndtr, ndtri

from dpbandits._typing import FloatArray

__all__ = ["quantile", "tail"]

_STEPS = 30
"""Largest number of steps of the search for a quantile; its relative error is then below 1e-7."""

_CLOSE = 1e-7
"""Error of a quantile's level, on the scale of a normal variable, at which the search ends."""

_HALVINGS = 44
"""Number of halvings of the bracket of t in the search for a tail."""

_SMALL = 1e-3
"""Value of w below which 1/u - 1/w is replaced by its limit 0, as the cumulant of order three is zero."""


def _at(t: FloatArray, sd: FloatArray, scales: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return K'(t) and the tail probability beyond it, both (...), at `t` (...)."""
    squares = scales**2
    shrunk = squares * t[..., None] ** 2
    left = np.maximum(1.0 - shrunk, 1e-300)
    first = sd**2 * t + (2.0 * squares * t[..., None] / left).sum(-1)
    second = sd**2 + (2.0 * squares * (1.0 + shrunk) / left**2).sum(-1)
    cumulant = 0.5 * (sd * t) ** 2 - np.log(left).sum(-1)
    w = np.sqrt(np.maximum(2.0 * (t * first - cumulant), 0.0))
    u = t * np.sqrt(second)
    safe = w > _SMALL
    apart = np.where(safe, 1.0 / np.where(safe, u, 1.0) - 1.0 / np.where(safe, w, 1.0), 0.0)
    return first, ndtr(-w) + np.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi) * apart


def _scaled(sd: FloatArray, scales: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the total deviation (...), both parts divided by it, and the largest t (...) of the bracket."""
    total = np.sqrt(sd**2 + 2.0 * (scales**2).sum(-1))
    unit = np.where(total > 0.0, total, 1.0)
    sd, scales = sd / unit, scales / unit[..., None]
    largest = scales.max(-1, initial=0.0)
    # a tail below 1e-300 needs t of about 37/sd
    end = np.minimum(1.0 / np.maximum(largest, 1e-12), 40.0 / np.maximum(sd, 1e-12))
    return total, sd, scales, end


def quantile(level: FloatArray | float, sd: FloatArray, scales: FloatArray) -> FloatArray:
    """Return the points (...) that X exceeds with probability `level` (...), for levels below one half.

    Args:
        level: One-sided tail probability, in (0, 1/2).
        sd: Standard deviation (...) of the normal part.
        scales: Scales (..., terms) of the Laplace parts.

    Example:
        >>> float(quantile(0.025, np.array(1.0), np.zeros((1,))).round(3))
        1.96
        >>> float(quantile(0.025, np.array(0.0), np.ones((1,))).round(3))  # exactly log(20) = 2.996
        3.019
    """
    total, sd, scales, high = _scaled(np.asarray(sd), np.asarray(scales))
    normal = np.asarray(-ndtri(level))
    if not scales.any():
        return np.asarray(normal * total)
    scales = scales[..., scales.reshape(-1, scales.shape[-1]).any(axis=0)]
    low, high = np.zeros_like(total), high * (1.0 - 1e-9)
    t = np.minimum(normal / (1.0 + normal * scales.max(-1)), 0.97 * high)
    # secants of -Phi^-1(tail) - normal, which is nearly linear in t and is -normal at t = 0, in a bracket
    before, error, found = low, -normal + low, low
    for _ in range(_STEPS):
        found, beyond = _at(t, sd, scales)
        value = -ndtri(np.maximum(beyond, 1e-300)) - normal
        close = np.abs(value) < _CLOSE
        if close.all():
            break
        low, high = np.where(value > 0.0, low, t), np.where(value > 0.0, t, high)
        rise = np.where(value == error, 1.0, value - error)
        step = np.where(value == error, 0.0, value * (t - before) / rise)
        before, error = t, value
        ahead = t - step
        t = np.where(close, t, np.where((low < ahead) & (ahead < high), ahead, 0.5 * (low + high)))
    return np.asarray(found * total)


def tail(x: FloatArray, sd: FloatArray, scales: FloatArray) -> FloatArray:
    """Return P(X > x) (...) for non-negative `x` (...); see `quantile` for the other arguments."""
    total, sd, scales, high = _scaled(np.asarray(sd), np.asarray(scales))
    point = np.asarray(x) / np.where(total > 0.0, total, 1.0)
    if not scales.any():
        return np.asarray(ndtr(-point))
    low = np.zeros_like(high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        below = _at(middle, sd, scales)[0] < point
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.asarray(np.where(point > 0.0, _at(low, sd, scales)[1], 0.5))

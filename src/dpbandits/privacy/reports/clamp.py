"""Public bounds on the integers of a report: clients clip to them, and servers drop reports beyond them.

Noise is unbounded. Without bounds on reports the effect of one forged report would be unbounded, too. A
client clips every entry *after* adding noise, which is post-processing. (To draw again until the noise is
small is not post-processing: near the bound some values could only come from one input.)

A server drops a report with an entry beyond the bound of entries, or a norm beyond the bound of norms. A
forged report then changes sums by at most the mechanism's `weights`. Each bound affects at most one honest
report in 1 / `TAIL`. So the mean of a sum changes by less than 2 `TAIL` times the weight of one report.

Only NumPy and the standard library are imported, because clients use it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import BoolArray, IntArray

__all__ = ["TAIL", "Clamp", "gaussian_clamp", "laplace_clamp"]

TAIL = 1e-9
"""Largest probability that an honest report exceeds the bound of
entries; and that it exceeds the norm's bound.
"""

_EXPONENTS = 64
"""Number of exponents at which Chernoff's bound is evaluated; each of them gives a valid bound."""


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """Public bounds on a report that consists of integers.

    Attributes:
        entry: Largest absolute value of an entry.
        norm: Largest norm of the whole report.
        order: Order of that norm, 1 or 2.
    """

    entry: int
    norm: float
    order: int

    def clip(self, entries: IntArray) -> IntArray:
        """Return the entries clipped to their bound. A client does this after adding noise."""
        return np.clip(entries, -self.entry, self.entry)

    def holds(self, reports: NDArray[Any]) -> BoolArray:
        """Return an array (n,) that is True for reports (n, size), of any integer type, in both bounds."""
        sizes = np.abs(reports.astype(np.float64))  # monotone, and exact up to the bounds
        inside = sizes.max(axis=1) <= self.entry
        if self.order == 2:
            sizes *= sizes
        return np.asarray(inside & (sizes.sum(axis=1) <= self.norm**self.order))

    def may_add_to(self, sums: IntArray, n: int) -> bool:
        """Return True if n reports within the bounds may have the sums (size,), as both bounds are convex."""
        return bool(self.holds(np.asarray(sums / n)[None])[0])


def laplace_clamp(alpha: float, *, size: int, entry: int, norm: int) -> Clamp:
    """Return bounds, with the L1 norm, for `size` entries with noise P(k) proportional to alpha^|k|.

    An entry's noise exceeds t with probability 2 alpha^(t + 1)/(1 + alpha), at most alpha^t. The norm's
    bound is Chernoff's, with E exp(s |noise|) = (1 - alpha)/(1 + alpha) (1 + alpha e^s)/(1 - alpha e^s).

    Args:
        alpha: Ratio P(k + 1) / P(k) of the noise for k >= 0.
        size: Number of entries of a report.
        entry: Largest absolute entry of a report before noise.
        norm: Largest L1 norm of a report before noise.
    """
    decay = -math.log(alpha)
    farthest = math.ceil(math.log(size / TAIL) / decay)
    slopes = decay * np.arange(1, _EXPONENTS) / _EXPONENTS
    rise = alpha * np.exp(slopes)
    moments = np.log((1.0 - alpha) / (1.0 + alpha) * (1.0 + rise) / (1.0 - rise))
    total = float(((size * moments - math.log(TAIL)) / slopes).min())
    return Clamp(entry=entry + farthest, norm=float(norm + math.ceil(total)), order=1)


def gaussian_clamp(sigma: float, *, size: int, entry: float, norm: float) -> Clamp:
    """Return bounds, with the L2 norm, for `size` entries with Gaussian noise, discrete or not.

    Discrete Gaussian noise is sub-Gaussian with the same sigma (Canonne, Kamath, Steinke 2020, Corollary
    17). This bounds the tail of an entry. Averaging the noise's moment generating function over a normal
    exponent bounds E exp(s noise^2) by that of Gaussian noise, from which the norm's bound follows (Laurent,
    Massart 2000, Lemma 1).

    Args:
        sigma: Scale of the noise, in units of the integers.
        size: Number of entries.
        entry: Largest absolute entry of a report before noise.
        norm: Largest L2 norm of a report before noise.
    """
    nats = -math.log(TAIL)
    farthest = sigma * math.sqrt(2.0 * math.log(2.0 * size / TAIL))
    total = sigma * math.sqrt(size + 2.0 * math.sqrt(size * nats) + 2.0 * nats)
    return Clamp(entry=math.ceil(entry + farthest), norm=norm + total, order=2)

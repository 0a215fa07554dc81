"""How far from zero a report of integers may be: a public bound that devices clip to and servers hold to.

Noise is unbounded, and so would be what one forged report can do. A device clips every entry *after* its
noise, which is post-processing (drawing again until the noise is small would not be: near the bound it makes
some values certain to come from one input). A server drops what lies beyond the entries' bound, or beyond a
bound on the whole report's norm, which noise exceeds as rarely; a forger can then move sums by `weights` of a
mechanism and no more. Either bound touches one honest report in 1 / `TAIL` at most, so that the mean of a sum
moves by less than 2 `TAIL` times the weight of one report.

NumPy and the standard library only: devices read it.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import BoolArray, IntArray

__all__ = ["TAIL", "Clamp", "gaussian_clamp", "laplace_clamp"]

TAIL = 1e-9
"""Largest probability that honest noise passes the entries' bound, and again the norm's."""

_EXPONENTS = 64
"""Points at which a Chernoff bound is tried; each of them is a bound."""


@dataclass(frozen=True, kw_only=True)
class Clamp:
    """Bounds of one report of integers.

    Attributes:
        entry: largest absolute value of an entry.
        norm: largest norm of the whole report.
        order: of that norm, 1 or 2.
    """

    entry: int
    norm: float
    order: int

    def clip(self, entries: IntArray) -> IntArray:
        """Every entry moved into its bound: what a device does after its noise."""
        return np.clip(entries, -self.entry, self.entry)

    def holds(self, reports: NDArray[Any]) -> BoolArray:
        """(n, size) integers of any width -> (n,) whether a report is within both bounds."""
        sizes = np.abs(reports.astype(np.float64))  # monotone, and exact wherever the bounds are
        inside = sizes.max(axis=1) <= self.entry
        if self.order == 2:
            sizes *= sizes
        return np.asarray(inside & (sizes.sum(axis=1) <= self.norm**self.order))

    def may_add_to(self, sums: IntArray, n: int) -> bool:
        """Return whether n reports within the bounds may have these sums (size,): both bounds are convex."""
        return bool(self.holds(np.asarray(sums / n)[None])[0])


def laplace_clamp(alpha: float, *, size: int, entry: int, norm: int) -> Clamp:
    """The bounds of `size` entries with noise of the law P(k) proportional to alpha^|k|, in the L1 norm.

    An entry's noise passes t with probability 2 alpha^(t + 1)/(1 + alpha), at most alpha^t. The norm's bound
    is Chernoff's, with E exp(s |noise|) = (1 - alpha)/(1 + alpha) (1 + alpha e^s)/(1 - alpha e^s).

    Args:
        alpha: ratio of neighbouring probabilities.
        size: number of entries.
        entry, norm: of the largest report without noise.
    """
    decay = -math.log(alpha)
    farthest = math.ceil(math.log(size / TAIL) / decay)
    slopes = decay * np.arange(1, _EXPONENTS) / _EXPONENTS
    rise = alpha * np.exp(slopes)
    moments = np.log((1.0 - alpha) / (1.0 + alpha) * (1.0 + rise) / (1.0 - rise))
    total = float(((size * moments - math.log(TAIL)) / slopes).min())
    return Clamp(entry=entry + farthest, norm=float(norm + math.ceil(total)), order=1)


def gaussian_clamp(sigma: float, *, size: int, entry: float, norm: float) -> Clamp:
    """The bounds of `size` entries with Gaussian noise, discrete or not, in the L2 norm.

    Discrete Gaussian noise is sub-Gaussian with the same sigma (Canonne, Kamath, Steinke 2020, Corollary 17),
    and so are the entries' tails; mixing its moment generating function over a normal exponent bounds
    E exp(s noise^2) by the Gaussian's, from which follows the norm's (Laurent, Massart 2000, Lemma 1).

    Args: as for `laplace_clamp`, with `sigma`, the scale of the noise in the integers' unit.
    """
    nats = -math.log(TAIL)
    farthest = sigma * math.sqrt(2.0 * math.log(2.0 * size / TAIL))
    total = sigma * math.sqrt(size + 2.0 * math.sqrt(size * nats) + 2.0 * nats)
    return Clamp(entry=math.ceil(entry + farthest), norm=norm + total, order=2)

r"""Levels at which an estimate is read at several looks, so that all intervals hold together.

Let T_k be the information at look k: the variance of the sum of estimates over looks, which grows by
independent increments. Two ways keep the chance that any interval excludes the truth below the stated one.

**Planned looks.** Each side may exclude the truth by look k of K with probability at most
2(1 - Phi(z/sqrt(k/K))), with 1 - Phi(z) = side/2. This is the spending function of Lan and DeMets (1983) in
the manner of O'Brien and Fleming. The boundaries follow one after the other. The density of the sum, among
paths that no boundary stopped, is carried from look to look by Gauss-Legendre quadrature. Then the next
boundary is solved for. A last look that ends early spends up to its share of the planned rounds in place of
k/K, so nobody gains by ending a comparison because of earlier looks.

**Any number of looks.** Average the likelihood ratio over N(0, rho) shifts. By Ville's inequality a normal
sum S_k exceeds sqrt((T_k + rho) log((T_k + rho)/(rho a^2))) in absolute value at any look with probability at
most a (Robbins 1970). The width is least at one ratio T/rho, which the choice of rho puts at the fourth look.

Both give a multiple c_k of the standard deviation. It is returned as the level 1 - Phi(c_k), at which the law
of the noise is then read, whose tails are heavier than normal.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import lambertw, ndtr, ndtri

from dpbandits._typing import FloatArray

__all__ = ["TIGHTEST", "any_number_level", "planned_levels"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(128)
"""Nodes and weights of quadrature on [-1, 1]; boundaries are then exact to five digits."""

_GRID = 8.0
"""Increments of information enter as powers of 2^(1/8): a boundary hardly depends on their ratio."""

_OCTAVES = 5.0
"""Powers of two by which a look's increment may differ from the first one's; quadrature needs a bound."""

TIGHTEST = 4.0
"""Number of looks of the first one's size at which the interval for any number of looks is narrowest."""


@lru_cache(maxsize=4096)
def _path(
    increments: tuple[float, ...], planned: int, side: float, reached: float | None = None
) -> tuple[tuple[float, ...], FloatArray, FloatArray]:
    """Return the levels of these looks, and a grid (n,) of unstopped sums after them with its masses (n,).

    The grid of the looks before is cached, so that a further look costs one step.
    """
    if not increments:
        return (), np.zeros(1), np.ones(1)
    levels, points, masses = _path(increments[:-1], planned, side)
    k, total, sd = len(increments), sum(increments), math.sqrt(increments[-1])
    start = -float(ndtri(side / 2.0))
    parts = (k - 1) / planned, k / planned if reached is None else reached
    before, allowed = (2.0 * float(ndtr(-start / math.sqrt(part))) if part else 0.0 for part in parts)
    low, high = 0.0, 40.0 * math.sqrt(total)
    for _ in range(60):
        edge = 0.5 * (low + high)
        over = float(masses @ ndtr((points - edge) / sd))
        low, high = (edge, high) if over > allowed - before else (low, edge)
    nodes = high * _NODES
    steps = (nodes[:, None] - points) / sd
    kernel = np.exp(-0.5 * steps**2) / (sd * math.sqrt(2.0 * math.pi))
    return (*levels, float(ndtr(-high / math.sqrt(total)))), nodes, high * _WEIGHTS * (kernel @ masses)


def planned_levels(
    increments: FloatArray, planned: int, *, side: float, reached: float | None = None
) -> FloatArray:
    """Return one-sided levels (..., k) for the k looks so far, of `planned` looks.

    Args:
        increments: Information (..., k) that each look added, in any unit.
        planned: Number of looks that the whole comparison has.
        side: Probability with which one side may ever exclude the truth, such as .025.
        reached: Share of the planned rounds after look k, if that look ended early.

    Example:
        >>> (-ndtri(planned_levels(np.ones(4), 4, side=0.025))).round(2).tolist()
        [4.33, 2.96, 2.36, 2.01]
    """
    looks = increments.shape[-1]
    relative = np.log2(increments / increments[..., :1])
    steps = np.rint(_GRID * np.clip(relative, -_OCTAVES, _OCTAVES)).reshape(-1, looks)
    kinds, which = np.unique(steps, axis=0, return_inverse=True)
    found = [_path(tuple((2.0 ** (kind / _GRID)).tolist()), planned, side, reached)[0] for kind in kinds]
    return np.asarray(np.array(found)[which.reshape(-1)].reshape(increments.shape))


def any_number_level(increments: FloatArray, *, side: float) -> FloatArray:
    """Return the one-sided level (...) at the latest of any number of looks; see `planned_levels`.

    Example:
        >>> float((-ndtri(any_number_level(np.ones(4), side=0.025))).round(2))
        3.04
    """
    chance = 2.0 * side
    # the width is least where T/rho = x solves log(1 + x) = x - 2 log(1/chance)
    ratio = float(-lambertw(-(chance**2) / math.e, -1).real) - 1.0
    rho = TIGHTEST * increments[..., 0] / ratio
    total = increments.sum(-1)
    squared = (1.0 + rho / total) * (np.log1p(total / rho) - 2.0 * math.log(chance))
    return np.asarray(ndtr(-np.sqrt(squared)))

"""Products of one-column functions over public points, and how much of a smooth function each may carry.

A range in [0, 1] has cosines that reach past the cube by a margin, so that a function needs no level edge;
a category has orthonormal contrasts. A function is a sum of products of these with independent normal
weights. The prior variances are products too, one factor a column: those of a squared-exponential kernel
of some length, or of a category's share. So is their mean under independent laws of the columns' lengths:
`models.averaged_regression` learns such laws.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["LENGTHS", "ProductFeatures"]

LENGTHS = np.array([0.15, 0.22, 0.33, 0.5, 0.75, 1.2])
"""Lengths of a column that are averaged over; the cube has edges of length 1."""

_SHARES = np.array([0.6, 0.45, 0.3, 0.15, 0.07, 0.03])
"""Of a category, in the place of lengths: how much of the variance its contrasts carry."""

_MARGIN = 0.2

_MOST_WAVES = 12

# Beside one wave of a range: in which order contrasts of a category are taken.
_CONTRAST_COST = 2.0


class ProductFeatures:
    """The functions, at public points.

    Args:
        points: (G, dim) in the unit cube; a category in the middle of its part of a side.
        categories: columns that are categories, and how many each has.
        n_features: how many products are kept, those of the slowest waves; the first is the constant.

    Attributes:
        values: (G, F) the products at the points, of mean square 1 over cube and margin.
        profiles: one (F, 6) a column: the factor of every product's variance, one a length.

    Example:
        >>> features = ProductFeatures(np.array([[0.1], [0.9]]), categories={}, n_features=4)
        >>> features.values.shape, features.profiles[0].shape
        ((2, 4), (4, 6))
    """

    def __init__(self, points: FloatArray, *, categories: Mapping[int, int], n_features: int) -> None:
        columns = [
            _contrasts(points[:, j], categories[j]) if j in categories else _waves(points[:, j])
            for j in range(points.shape[1])
        ]
        index = _cheapest([cost for _, _, cost in columns], n_features)
        self.values = np.ones((len(points), len(index)))
        self.profiles = []
        for (values, profile, _), chosen in zip(columns, index.T, strict=True):
            self.values *= values[:, chosen]
            self.profiles.append(profile[chosen])

    def variances(self, laws: Sequence[FloatArray]) -> FloatArray:
        """(F,) prior variances that add up to 1 without the constant's, which is 0.

        Args:
            laws: one (6,) a column, the probabilities of its lengths.
        """
        product = np.ones(self.values.shape[1])
        for profile, law in zip(self.profiles, laws, strict=True):
            product *= profile @ law
        product[0] = 0.0
        total = float(product.sum())
        return product / total if total else product


def _waves(column: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Values (G, m), shares of the variance (m, 6) and costs (m,) of a range's cosines."""
    frequency = math.pi * np.arange(40) / (1.0 + 2.0 * _MARGIN)
    density = np.exp(-0.5 * (frequency[:, None] * LENGTHS) ** 2)
    kept = frequency[:_MOST_WAVES]
    values = np.cos(kept * (column[:, None] + _MARGIN)) * np.where(kept > 0.0, math.sqrt(2.0), 1.0)
    return values, density[:_MOST_WAVES] / density.sum(axis=0), np.arange(_MOST_WAVES, dtype=np.float64) ** 2


def _contrasts(column: FloatArray, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same of a category's contrasts, each (n,) orthogonal to the constant (Helmert's)."""
    codes = np.minimum((column * n).astype(np.int64), n - 1)
    table = np.tril(np.ones((n, n)))
    table[np.arange(n - 1), np.arange(1, n)] = -np.arange(1, n)
    table = table[[n - 1, *range(n - 1)]] if n > 1 else np.ones((1, 1))
    table *= math.sqrt(n) / np.linalg.norm(table, axis=1)[:, None]
    shares = np.concatenate([1.0 - _SHARES[None], np.repeat(_SHARES[None] / max(n - 1, 1), n - 1, axis=0)])
    return table.T[codes], shares, np.append(0.0, np.full(n - 1, _CONTRAST_COST))


def _cheapest(costs: Sequence[FloatArray], n: int) -> IntArray:
    """(<= n, dim) which function of every column; of equal costs in lexicographic order."""
    total = np.zeros(1)
    for cost in costs:
        total = (total[:, None] + cost).ravel()
    order = np.argsort(total, kind="stable")[:n]
    return np.stack(np.unravel_index(order, [len(cost) for cost in costs]), axis=1)

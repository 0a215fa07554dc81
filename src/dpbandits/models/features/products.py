"""Products of one-column functions at public points, with prior variances of a smooth function.

A range in [0, 1] has cosines that extend beyond the cube by a margin, so that functions may have a slope at
the edges. A category has orthonormal contrasts. A function is a sum of products of these with independent
normal weights. Prior variances are products with one factor per column: the variance of a squared-exponential
kernel with some lengthscale, or a category's share. Their mean under independent laws of the columns'
lengthscales is a product too. `models.averaged_regression` learns such laws.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["LENGTHS", "ProductFeatures"]

LENGTHS = np.array([0.15, 0.22, 0.33, 0.5, 0.75, 1.2])
"""Lengthscales of a column that are averaged over; the cube has edges of length 1."""

_SHARES = np.array([0.6, 0.45, 0.3, 0.15, 0.07, 0.03])
"""Shares of the variance in a category's contrasts, which are averaged over in place of lengthscales."""

_MARGIN = 0.2

_MOST_WAVES = 12

# Cost of a category's contrast, where wave k of a range costs k^2; products are taken by increasing cost.
_CONTRAST_COST = 2.0


class ProductFeatures:
    """Products of one-column functions at public points.

    Args:
        points: Points in the unit cube, shape (G, dim). A category is the middle of its part of a side.
        categories: Number of categories, by the index of each column of categories.
        n_features: Largest number of products; those of the lowest frequencies are used, first the constant.

    Attributes:
        values: Products at the points, of mean square 1 over cube and margin, shape (G, F).
        profiles: Factors of the products' variances, one array (F, 6) per column with one factor per
            lengthscale.

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
        """Return prior variances (F,) that sum to 1; that of the constant is 0.

        Args:
            laws: Probabilities of each column's lengthscales, one array (6,) per column.
        """
        product = np.ones(self.values.shape[1])
        for profile, law in zip(self.profiles, laws, strict=True):
            product *= profile @ law
        product[0] = 0.0
        total = float(product.sum())
        return product / total if total else product


def _waves(column: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values (G, m), shares of the variance (m, 6) and costs (m,) of a range's cosines."""
    frequency = math.pi * np.arange(40) / (1.0 + 2.0 * _MARGIN)
    density = np.exp(-0.5 * (frequency[:, None] * LENGTHS) ** 2)
    kept = frequency[:_MOST_WAVES]
    values = np.cos(kept * (column[:, None] + _MARGIN)) * np.where(kept > 0.0, math.sqrt(2.0), 1.0)
    return values, density[:_MOST_WAVES] / density.sum(axis=0), np.arange(_MOST_WAVES, dtype=np.float64) ** 2


def _contrasts(column: FloatArray, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values, shares and costs, as `_waves`, of a category's Helmert contrasts."""
    codes = np.minimum((column * n).astype(np.int64), n - 1)
    table = np.tril(np.ones((n, n)))
    table[np.arange(n - 1), np.arange(1, n)] = -np.arange(1, n)
    table = table[[n - 1, *range(n - 1)]] if n > 1 else np.ones((1, 1))
    table *= math.sqrt(n) / np.linalg.norm(table, axis=1)[:, None]
    shares = np.concatenate([1.0 - _SHARES[None], np.repeat(_SHARES[None] / max(n - 1, 1), n - 1, axis=0)])
    return table.T[codes], shares, np.append(0.0, np.full(n - 1, _CONTRAST_COST))


def _cheapest(costs: Sequence[FloatArray], n: int) -> IntArray:
    """Return the index of each column's function for the cheapest products, shape (<= n, dim).

    Products of equal costs are in lexicographic order.
    """
    total = np.zeros(1)
    for cost in costs:
        total = (total[:, None] + cost).ravel()
    order = np.argsort(total, kind="stable")[:n]
    return np.stack(np.unravel_index(order, [len(cost) for cost in costs]), axis=1)

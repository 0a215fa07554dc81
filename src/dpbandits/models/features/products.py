"""Products of one-column functions at public points, with prior variances of a smooth function.

The one-column functions of a range in [0, 1] are cosines. They extend beyond the unit cube by a margin, so
that functions may have a slope at its edges. The one-column functions of a category are orthonormal
contrasts. A function is a sum of products of one-column functions with independent normal weights.

The prior variance of a weight is a product with one factor per column. For a range the factor is the share
of the cosine in a squared-exponential kernel with some lengthscale. For a category it is the contrast's
share. The mean of this product under independent laws of the columns' lengthscales is a product too.
`models.averaged_regression` learns such laws.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["LENGTHS", "ProductFeatures"]

LENGTHS = np.array([0.15, 0.22, 0.33, 0.5, 0.75, 1.2])
"""Candidate lengthscales of a range, over which prior variances are averaged; the unit cube has side 1."""

_SHARES = np.array([0.6, 0.45, 0.3, 0.15, 0.07, 0.03])
"""Candidate shares of the variance in a category's contrasts, in the place of a range's six lengthscales."""

_MARGIN = 0.2

_MOST_WAVES = 12

# Cost of a category's contrast, where wave k of a range costs k^2; products are taken by increasing cost.
_CONTRAST_COST = 2.0


class ProductFeatures:
    """Values of F products of one-column functions at G public points, with their prior variances.

    Args:
        points: Points in the unit cube, shape (G, dim). A category is the middle of one of equal parts of
            [0, 1].
        categories: Number of categories, by the index of each column of categories.
        n_features: Largest number F of products; the constant and those of the lowest frequencies are used.

    Attributes:
        values: Products at the points, shape (G, F). Each has mean square 1 over the cube with its margin.
        profiles: One array (F, 6) per column, with the factor of each product's prior variance under each of
            the six lengthscales.

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
        """Return prior variances (F,) of the products' weights: they sum to 1, and the constant has 0.

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
    """Return the m cosines of a range for a column of G points.

    Returns:
        Values (G, m), shares of the variance under each of six lengthscales (m, 6), and costs (m,): squared
        frequencies.
    """
    frequency = math.pi * np.arange(40) / (1.0 + 2.0 * _MARGIN)
    density = np.exp(-0.5 * (frequency[:, None] * LENGTHS) ** 2)
    kept = frequency[:_MOST_WAVES]
    values = np.cos(kept * (column[:, None] + _MARGIN)) * np.where(kept > 0.0, math.sqrt(2.0), 1.0)
    return values, density[:_MOST_WAVES] / density.sum(axis=0), np.arange(_MOST_WAVES, dtype=np.float64) ** 2


def _contrasts(column: FloatArray, n: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return values, shares and costs of a category's Helmert contrasts, with the shapes of `_waves`."""
    codes = np.minimum((column * n).astype(np.int64), n - 1)
    table = np.tril(np.ones((n, n)))
    table[np.arange(n - 1), np.arange(1, n)] = -np.arange(1, n)
    table = table[[n - 1, *range(n - 1)]] if n > 1 else np.ones((1, 1))
    table *= math.sqrt(n) / np.linalg.norm(table, axis=1)[:, None]
    shares = np.concatenate([1.0 - _SHARES[None], np.repeat(_SHARES[None] / max(n - 1, 1), n - 1, axis=0)])
    return table.T[codes], shares, np.append(0.0, np.full(n - 1, _CONTRAST_COST))


def _cheapest(costs: Sequence[FloatArray], n: int) -> IntArray:
    """Return the products of least total cost, as the index of each column's function, shape (<= n, dim)."""
    total = np.zeros(1)
    for cost in costs:
        total = (total[:, None] + cost).ravel()
    order = np.argsort(total, kind="stable")[:n]
    return np.stack(np.unravel_index(order, [len(cost) for cost in costs]), axis=1)

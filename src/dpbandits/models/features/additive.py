"""Additive functions of many coordinates, whose number of features grows linearly in the dimension.

For f(x) = sum_i f_i(x_i) the kernel is a mean of one-dimensional kernels, and the features of all
coordinates are concatenated. With d coordinates and p features of each there are d p features. A tensor grid
would have p^d.
"""

import json
from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import Box
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.features.base import FEATURES, Features
from dpbandits.models.features.mercer import MercerFeatures
from dpbandits.models.kernels import SquaredExponential

__all__ = ["AdditiveFeatures", "additive_features"]


@FEATURES.add("AdditiveFeatures", parts=lambda parts: [(at, FEATURES.read(part)) for at, part in parts])
class AdditiveFeatures(Features):
    """Concatenated features of several groups of columns.

    The product scale^2 phi(x) . phi(y) is the mean of the groups' kernels, and ||phi(x)|| <= 1. The features
    of group i are multiplied by s_i / sqrt(sum_j s_j^2), with s_i the group's `Features.scale`. The square
    of the attribute `scale` is the mean of the s_i^2.

    Args:
        parts: Pairs (columns, features of these columns), one for every group.

    Attributes:
        n_features: Sum of the parts' numbers of features.
        supports: Index range ((0, m),), as every feature vector has all parts.

    >>> from dpbandits.domains import Box
    >>> features = additive_features(Box(low=np.zeros(10), high=np.ones(10)), lengthscale=0.3, per_column=5)
    >>> features.n_features
    50
    """

    def __init__(self, *, parts: Sequence[tuple[Sequence[int], Features]]) -> None:
        if not parts:
            raise InvalidParameter("parts is empty, expected at least one pair of columns and features")
        self.parts = tuple((tuple(int(c) for c in columns), part) for columns, part in parts)
        if any(not columns or min(columns) < 0 for columns, _ in self.parts):
            raise InvalidParameter("parts: expected at least one column in each, numbered from 0")
        self.n_features = sum(part.n_features for _, part in self.parts)
        self.supports = ((0, self.n_features),)
        scales = np.array([part.scale for _, part in self.parts])
        self.scale = float(np.sqrt((scales**2).mean()))
        self._least = 1 + max(max(columns) for columns, _ in self.parts)
        self._alike = _alike(self.parts)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the feature vectors (..., m) of points (..., d)."""
        points = self._points(X)
        phi = np.empty((*points.shape[:-1], self.n_features))
        for part, columns, places in self._alike:  # equal parts are evaluated in one call
            phi[..., places] = part(points[..., columns]) * (part.scale / self.scale)
        phi /= np.sqrt(len(self.parts))
        return phi

    def gradient(self, X: FloatArray, V: FloatArray) -> FloatArray:
        """See `Features.gradient`."""
        points, gradient = self._points(X), np.zeros_like(X)
        for part, columns, places in self._alike:
            own, weights = points[:, columns], V[:, places] * (part.scale / self.scale)
            parts = part.gradient(own.reshape(-1, own.shape[-1]), weights.reshape(-1, weights.shape[-1]))
            gradient += parts.reshape(len(X), -1) @ np.eye(X.shape[1])[columns.ravel()]
        gradient /= np.sqrt(len(self.parts))
        return gradient

    def variance(self, X: ArrayLike) -> FloatArray:
        """Return the mean of the groups' kernels at (x, x), divided by scale^2, at points (..., d)."""
        points = self._points(X)
        total = np.zeros(points.shape[:-1])
        for part, columns, _ in self._alike:
            total += part.scale**2 * part.variance(points[..., columns]).sum(axis=-1)
        return total / (len(self.parts) * self.scale**2)

    def written_out(self) -> "AdditiveFeatures":
        """See `Features.written_out`."""
        return AdditiveFeatures(parts=[(columns, part.written_out()) for columns, part in self.parts])

    def basis(self) -> tuple[FloatArray, ...]:
        """See `Features.basis`; the result has the bases of all parts in order."""
        return tuple(array for _, part in self.parts for array in part.basis())

    def in_basis(self, basis: Sequence[FloatArray]) -> "AdditiveFeatures":
        """See `Features.in_basis`."""
        rest = iter(basis)
        parts = [(at, part.in_basis(list(islice(rest, len(part.basis()))))) for at, part in self.parts]
        return AdditiveFeatures(parts=parts)

    def _points(self, X: ArrayLike) -> FloatArray:
        points = np.asarray(X, dtype=np.float64)
        if points.ndim == 0 or points.shape[-1] < self._least:
            raise InvalidData(f"points have shape {points.shape}: expected at least {self._least} columns")
        return points

    def __repr__(self) -> str:
        return f"AdditiveFeatures(n_parts={len(self.parts)}, n_features={self.n_features})"


def _alike(parts: Sequence[tuple[tuple[int, ...], Features]]) -> list[tuple[Features, IntArray, IntArray]]:
    """Return the groups of columns, with equal feature maps joined for evaluation in one call.

    Each entry is a feature map, the columns (k, c) of the k groups that use it, and the indices (k, m) of
    their features.
    """
    groups: dict[str, tuple[Features, list[tuple[int, ...]], list[IntArray]]] = {}
    start = 0
    for columns, part in parts:
        label = json.dumps([len(columns), part.to_config()], sort_keys=True)
        _, theirs, places = groups.setdefault(label, (part, [], []))
        theirs.append(columns)
        places.append(np.arange(start, start + part.n_features))
        start += part.n_features
    return [(part, np.array(columns), np.stack(places)) for part, columns, places in groups.values()]


def additive_features(domain: Box, *, lengthscale: float, per_column: int) -> AdditiveFeatures:
    """Return Mercer features of a squared exponential kernel of every column of a box.

    Args:
        domain: Box of the points.
        lengthscale: Lengthscale as a share of each side.
        per_column: Number of features of each column.
    """
    parts = []
    for column, (low, high) in enumerate(zip(domain.low.tolist(), domain.high.tolist(), strict=True)):
        kernel, side = SquaredExponential(lengthscale=lengthscale * (high - low)), Box(low=[low], high=[high])
        part = MercerFeatures(kernel=kernel, domain=side, n_features=per_column, n_landmarks=8 * per_column)
        parts.append(((column,), part))
    return AdditiveFeatures(parts=parts)

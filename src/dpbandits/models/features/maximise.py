"""Maximisation of a function over a whole public domain, by gradient ascent from evenly spread starts.

The domain is a box, a ball, listed points or arms, or a product of these. The starting points are public and
the same for every function, so their features are computed once. Gradient ascent runs from the best starting
points at once, each with its own step size (Barzilai and Borwein 1988). Steps are projected to the domain,
and a step that lowers the value is not taken. Columns of arms and listed points keep their values at the
start. Known optimisers take one start at a time, which costs several times as much.

The result is a local maximum, not lower than the best start. It need not be the global maximum. Inputs are
plain numbers. If the function is computed from releases, the point is post-processing of them.
"""

import math
from collections.abc import Callable

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains import Arms, Domain, Finite, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.base import Features
from dpbandits.models.features.mercer import spread_over
from dpbandits.models.kernels.base import DIFFERENCE

__all__ = ["Climbed", "Maximiser", "Scores", "WholeDomain"]

POINTS = 1 << 11
"""Number of starting points at which a function is evaluated; with a
hundred features this takes .1 milliseconds.
"""

MOST_COMBINATIONS = 1 << 14
"""Largest number of combinations of arms and listed points. Each of them is a starting point; the features of
all of them take 16 MiB.
"""

STARTS = 6
"""Number of best starting points to climb from; twice as many find nothing higher in
`benchmarks/over_a_box.py`.
"""

STEPS = 20
"""Largest number of steps of a climb."""

FIRST_STEP = 0.03
"""Length of a climb's first step in the column that changes most, as a share of the range of that column."""

STILL = 1e-4
"""Length of a step, as a share of a column's range, below which a climb ends."""

Climbed = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]
"""Function of the indices (n,) of functions and of points (n, d), one for each index. It returns the value
(n,) of each function at its point, and the gradients (n, d).
"""

Scores = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Function of feature vectors (n, m). It returns n values, and their gradients (n, m) by the features."""


class WholeDomain:
    """Maximiser of functions of a point over a whole domain.

    Args:
        domain: Public domain.

    Attributes:
        points: Evenly spread starting points, shape (S, d).

    Raises:
        InvalidParameter: There are more than `MOST_COMBINATIONS` combinations of arms and listed points.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.points, self._moving = _starts(domain)
        self._widths = np.where(self._moving, np.ptp(self.points, axis=0), 0.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain!r}, {len(self.points)} points)"

    def drawn(self, coins: FloatArray) -> FloatArray:
        """Return B starting points (B, d), each equally likely, chosen by public coins (B,) in (0, 1)."""
        return self.points[(coins * len(self.points)).astype(np.int64)]

    def highest(self, at_points: FloatArray, function: Climbed) -> FloatArray:
        """Return the points (B, d) that maximise B functions.

        Args:
            at_points: Values of the functions at the starting points `points`, shape (B, S).
            function: Values and gradients of the functions at other points.
        """
        n_functions, count = len(at_points), min(STARTS, len(self.points))
        best = np.argpartition(-at_points, count - 1, axis=1)[:, :count]
        rows = np.repeat(np.arange(n_functions), count)
        x, reached = self.points[best.ravel()], np.take_along_axis(at_points, best, axis=1).ravel()
        if self._moving.any():
            x, reached = _climbed(self.domain, function, rows, x, self._widths)
        top = np.arange(n_functions) * count + reached.reshape(n_functions, count).argmax(axis=1)
        return np.asarray(x[top])

    def highest_of(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return the point (d,) that maximises one function, which maps points (n, d) to values (n,).

        Gradients are central differences, so the function is also evaluated up to a millionth of a side
        outside the domain.
        """
        columns = np.flatnonzero(self._moving)
        steps = np.zeros((len(columns), self.domain.dim))
        steps[np.arange(len(columns)), columns] = DIFFERENCE * self._widths[columns]

        def climbed(rows: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
            around = (points[None], points + steps[:, None], points - steps[:, None])
            values = function(np.concatenate(around).reshape(-1, points.shape[1])).reshape(-1, len(points))
            above, below = np.split(values[1:], 2)
            gradients = np.zeros_like(points)
            gradients[:, columns] = ((above - below) / (2.0 * steps.sum(axis=1))[:, None]).T
            return values[0], gradients

        return np.asarray(self.highest(function(self.points)[None], climbed)[0])


class Maximiser(WholeDomain):
    """Maximiser of functions of m features of a point over a whole domain.

    Args:
        domain: Public domain.
        features: Feature map of the domain's points.

    Example:
        >>> from dpbandits.domains import Box
        >>> from dpbandits.models.features.mercer import MercerFeatures
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> box = Box(low=[0.0], high=[1.0])
        >>> features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=box, n_features=8)
        >>> weights = features(np.array([[0.3]]))  # a function with its maximum near 0.3
        >>> Maximiser(box, features).of_weights(weights).round(2).tolist()
        [[0.3]]
    """

    def __init__(self, domain: Domain, features: Features) -> None:
        super().__init__(domain)
        self.features = features
        self._phi = np.ascontiguousarray(features(self.points))

    def of_weights(self, weights: FloatArray) -> FloatArray:
        """Return the points (B, d) that maximise the B functions weights[b] . phi(x), for weights (B, m)."""

        def function(rows: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
            own = weights[rows]
            values = np.einsum("ij,ij->i", self.features(points), own)
            return values, self.features.gradient(points, own)

        return self.highest(weights @ self._phi.T, function)

    def of_scores(self, scores: Scores) -> FloatArray:
        """Return the point (d,) that maximises one differentiable function of the features."""

        def function(rows: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
            values, by_features = scores(self.features(points))
            return values, self.features.gradient(points, by_features)

        return np.asarray(self.highest(scores(self._phi)[0][None], function)[0])


def _climbed(
    domain: Domain, function: Climbed, rows: IntArray, x: FloatArray, widths: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the ends (n, d) of n climbs and the values (n,) there.

    The path from each start is independent of the other starts.

    Args:
        domain: Public domain.
        function: Values and gradients of the functions.
        rows: Index of the function that each climb maximises, shape (n,).
        x: Starting points, shape (n, d).
        widths: Range of each column, shape (d,); 0 for a column that stays fixed.
    """
    values, gradients = function(rows, x)
    uphill = gradients * widths  # in units of the sides
    steps = FIRST_STEP / np.maximum(np.abs(uphill).max(axis=1), np.finfo(np.float64).tiny)
    going = np.arange(len(x))
    for _ in range(STEPS):
        here = x[going]
        there = domain.clip(here + (steps[going, None] * uphill[going]) * widths)
        found, gradients = function(rows[going], there)
        moved = np.divide(there - here, widths, out=np.zeros_like(here), where=widths > 0.0)
        ahead, higher = gradients * widths, found >= values[going]
        bent = -np.einsum("ij,ij->i", moved, ahead - uphill[going])
        length = np.einsum("ij,ij->i", moved, moved)
        longer = np.divide(length, bent, out=2.0 * steps[going], where=bent > 0.0)
        steps[going] = np.where(higher, np.minimum(longer, 10.0 * steps[going]), 0.25 * steps[going])
        up = going[higher]
        x[up], values[up], uphill[up] = there[higher], found[higher], ahead[higher]
        going = going[length > STILL**2]
        if not len(going):
            break
    return x, values


def _starts(domain: Domain) -> tuple[FloatArray, BoolArray]:
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    slices = domain.slices if isinstance(domain, Product) else (slice(0, domain.dim),)
    moving = np.ones(domain.dim, dtype=np.bool_)
    listed: list[tuple[slice, FloatArray]] = []
    smooth: list[Domain] = []
    for part, columns in zip(parts, slices, strict=True):
        if isinstance(part, Arms | Finite):
            listed.append((columns, part.points))
            moving[columns] = False
        else:
            smooth.append(part)
    sizes = [len(points) for _, points in listed]
    combinations = math.prod(sizes)
    if combinations > MOST_COMBINATIONS:
        raise InvalidParameter(
            f"the domain has {combinations} combinations of arms and listed points, expected at most "
            f"{MOST_COMBINATIONS} for a search of the whole domain: bring candidates"
        )
    each = max(1, POINTS // combinations) if smooth else 1
    points = np.empty((combinations * each, domain.dim))
    if smooth:
        spread = spread_over(Product(*smooth), len(points), np.random.Generator(np.random.Philox(0)))
        points[:, moving] = spread
    places = np.unravel_index(np.arange(len(points)) % combinations, sizes) if sizes else ()
    for (columns, theirs), place in zip(listed, places, strict=True):
        points[:, columns] = theirs[place]
    return points, moving

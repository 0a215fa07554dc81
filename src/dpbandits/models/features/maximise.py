"""Where a function is highest over a whole public domain: evenly spread starts, then gradients.

The domain is a box, a ball, listed points or arms, or a product of these. The points that a search starts
from are public and the same for every function: their features are computed once. From the best of them all
starts climb together, each with steps of its own (Barzilai and Borwein 1988, projected to the domain, and
never downwards); arms and listed points stay what they were at the start. No optimiser at hand takes many
starts at once, and one after the other they cost several times as much.

What is found is a local maximum, and no lower than the best start: that it is the highest is not promised.
Plain numbers come in and go out: where the function comes from releases, so does the point.
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
"""Points that a search may start from: scored in a tenth of a millisecond with a hundred features."""

MOST_COMBINATIONS = 1 << 14
"""Of arms and listed points, all of which are among the starts: their features take 16 MiB."""

STARTS = 6
"""Best points that are climbed from; with twice as many, `benchmarks/over_a_box.py` finds nothing higher."""

STEPS = 20
"""Evaluations of a climb at most."""

FIRST_STEP = 0.03
"""Of a side, in the coordinate that moves most."""

STILL = 1e-4
"""Of a side: a start that moves by less has arrived."""

Climbed = Callable[[IntArray, FloatArray], tuple[FloatArray, FloatArray]]
"""(rows (n,), points (n, d)) -> values (n,) of function number rows[i] at points[i], and gradients (n, d)."""

Scores = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Features (n, m) -> values (n,), and their gradients (n, m) by the features."""


class WholeDomain:
    """Where functions are highest over all of a domain.

    Args:
        domain: public.

    Attributes:
        points: (S, d) evenly spread ones, from which a search starts.

    Raises:
        InvalidParameter: more than `MOST_COMBINATIONS` combinations of arms and listed points.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.points, self._moving = _starts(domain)
        self._widths = np.where(self._moving, np.ptp(self.points, axis=0), 0.0)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain!r}, {len(self.points)} points)"

    def drawn(self, coins: FloatArray) -> FloatArray:
        """(B, d) of the points, all equally likely, by coins (B,) in (0, 1)."""
        return self.points[(coins * len(self.points)).astype(np.int64)]

    def highest(self, at_points: FloatArray, function: Climbed) -> FloatArray:
        """Points (B, d) where B functions are highest, given their values (B, S) at `points`."""
        n_functions, count = len(at_points), min(STARTS, len(self.points))
        best = np.argpartition(-at_points, count - 1, axis=1)[:, :count]
        rows = np.repeat(np.arange(n_functions), count)
        x, reached = self.points[best.ravel()], np.take_along_axis(at_points, best, axis=1).ravel()
        if self._moving.any():
            x, reached = _climbed(self.domain, function, rows, x, self._widths)
        top = np.arange(n_functions) * count + reached.reshape(n_functions, count).argmax(axis=1)
        return np.asarray(x[top])

    def highest_of(self, function: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """The point (d,) where one function, points (n, d) -> values (n,), is highest.

        Its gradients are central differences, with points up to a millionth of a side outside the domain.
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
    """Where functions of features are highest over all of a domain.

    Args:
        domain: public.
        features: of its points.

    Example:
        >>> from dpbandits.domains import Box
        >>> from dpbandits.models.features.mercer import MercerFeatures
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> box = Box(low=[0.0], high=[1.0])
        >>> features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.4), domain=box, n_features=8)
        >>> weights = features(np.array([[0.3]]))  # a function that is highest where phi(x) is most like this
        >>> Maximiser(box, features).of_weights(weights).round(2).tolist()
        [[0.3]]
    """

    def __init__(self, domain: Domain, features: Features) -> None:
        super().__init__(domain)
        self.features = features
        self._phi = np.ascontiguousarray(features(self.points))

    def of_weights(self, weights: FloatArray) -> FloatArray:
        """Points (B, d) where weights[b] . phi(x) is highest, for weights (B, m)."""

        def function(rows: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
            own = weights[rows]
            values = np.einsum("ij,ij->i", self.features(points), own)
            return values, self.features.gradient(points, own)

        return self.highest(weights @ self._phi.T, function)

    def of_scores(self, scores: Scores) -> FloatArray:
        """The point (d,) where one function of the features is highest."""

        def function(rows: IntArray, points: FloatArray) -> tuple[FloatArray, FloatArray]:
            values, by_features = scores(self.features(points))
            return values, self.features.gradient(points, by_features)

        return np.asarray(self.highest(scores(self._phi)[0][None], function)[0])


def _climbed(
    domain: Domain, function: Climbed, rows: IntArray, x: FloatArray, widths: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Where starts (n, d) arrive, and the values (n,) there: no start's path depends on the others."""
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
    """Evenly spread points (S, d), all combinations of arms and listed points among them; which columns move.

    Raises:
        InvalidParameter: too many combinations.
    """
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
            f"the domain has {combinations} combinations of arms and listed points: over all of it at most "
            f"{MOST_COMBINATIONS} are searched, bring candidates"
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

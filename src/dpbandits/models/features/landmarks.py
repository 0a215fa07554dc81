"""Where the eigenfunctions of a kernel are computed from: points spread over a public domain."""

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.domains import Arms, Ball, Box, Domain, Finite, Product
from dpbandits.errors import InvalidParameter

__all__ = ["landmarks"]

MAX_SPREAD_DIMENSION = 10
"""Above this many coordinates a low-discrepancy sequence is no better than random points."""

MOST_REJECTED_DIMENSION = 6
"""A ball fills 8% of its box in six dimensions: above, points are drawn from it directly."""


def landmarks(domain: Domain, size: int, rng: np.random.Generator) -> FloatArray:
    """About evenly spread points (L, d) of a public domain, L = size (fewer on a small finite one)."""
    if isinstance(domain, Finite):
        if domain.n_points <= size:
            return np.array(domain.points)
        return domain.points[np.sort(rng.choice(domain.n_points, size=size, replace=False))]
    if isinstance(domain, Ball) and domain.dim <= MOST_REJECTED_DIMENSION:
        return _in_ball(domain, size, rng)
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    widths = [part.dim if isinstance(part, Box) else 1 for part in parts]
    spreadable = all(isinstance(part, Box | Arms | Finite) for part in parts)
    if not spreadable or sum(widths) > MAX_SPREAD_DIMENSION:
        return domain.sample(size, rng)
    unit = _spread(size, sum(widths), rng)
    columns = np.split(unit, np.cumsum(widths)[:-1], axis=1)
    return np.concatenate([_from_unit(part, u) for part, u in zip(parts, columns, strict=True)], axis=1)


def _in_ball(ball: Ball, size: int, rng: np.random.Generator) -> FloatArray:
    """The first `size` points of a low-discrepancy sequence in the box around the ball that lie in it."""
    count = 2 * size
    state = rng.bit_generator.state
    while True:
        rng.bit_generator.state = state  # the same shift, a longer sequence
        points = ball.bounding_box.from_unit(_spread(count, ball.dim, rng))
        inside = points[ball.contains(points)]
        if len(inside) >= size:
            return inside[:size]
        count *= 2


def _from_unit(part: Domain, unit: FloatArray) -> FloatArray:
    if isinstance(part, Box):
        return part.from_unit(unit)
    if isinstance(part, Arms | Finite):
        return np.asarray(part.points[(unit[:, 0] * len(part.points)).astype(np.int64)])
    raise InvalidParameter(f"landmarks of a {type(part).__name__} are drawn with its own sample()")


def _spread(n: int, dim: int, rng: np.random.Generator) -> FloatArray:
    """(n, dim) points of a randomly shifted additive recurrence on [0, 1)^dim.

    x_i = frac(shift + i alpha), alpha_j = g^-j with g the root of g^(dim + 1) = g + 1 (Roberts 2018,
    the generalised golden ratio): a lattice that stays even at every n.
    """
    ratio = 2.0
    for _ in range(64):  # a contraction: 64 steps reach machine precision for every dim
        ratio = (1.0 + ratio) ** (1.0 / (dim + 1))
    steps = np.arange(1, n + 1)[:, None] * ratio ** -np.arange(1.0, dim + 1.0)
    return np.asarray((rng.random(dim) + steps) % 1.0)

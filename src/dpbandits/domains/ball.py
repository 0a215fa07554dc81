"""`Ball`: all points within a public radius of a public centre."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._checks import as_points, assign, integer, public_array, require_finite, scale
from dpbandits._config import Valued
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.domains.box import Box
from dpbandits.domains.protocol import DOMAINS
from dpbandits.errors import InvalidData

__all__ = ["Ball"]

TOLERANCE = 1e-9
"""Relative: points computed to lie on the sphere are members."""


@DOMAINS.add("Ball")
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ball(Valued):
    """Points x with ||x - centre|| <= radius; in the plane, a disc.

    Args:
        centre: (d,).
        radius: positive.

    Example:
        >>> disc = Ball(centre=[0.0, 0.0], radius=2.0)
        >>> disc.contains([[1.0, 1.0], [2.0, 1.0]])
        array([ True, False])
    """

    centre: FloatArray
    radius: float

    def __init__(self, *, centre: ArrayLike, radius: float) -> None:
        assign(self, centre=public_array(centre, name="centre", ndim=1), radius=scale(radius, name="radius"))

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.centre)

    @property
    def bounding_box(self) -> Box:
        """The smallest box around the ball."""
        return Box(low=self.centre - self.radius, high=self.centre + self.radius)

    def contains(self, points: ArrayLike) -> BoolArray:
        """True for each of the points (..., d) inside."""
        array = as_points(points, self.dim, name="points")
        return np.asarray(self._distances(array) <= self.radius * (1.0 + TOLERANCE))

    def validate(self, points: ArrayLike, *, name: str = "candidates") -> FloatArray:
        """The points (..., d) as C-contiguous float64.

        Raises:
            InvalidData: wrong shape or type, not finite, or outside.
        """
        array = as_points(points, self.dim, name=name)
        require_finite(array, name=name)
        if not self.contains(array).all():
            raise InvalidData(
                f"{name}: at least one point lies outside the public ball of radius {self.radius:g}: clip "
                "the points, or declare a larger ball before the first ask"
            )
        return array

    def clip(self, points: ArrayLike) -> FloatArray:
        """The nearest points of the ball, (..., d)."""
        array = as_points(points, self.dim, name="points")
        require_finite(array, name="points")
        scale = np.minimum(1.0, self.radius / np.maximum(self._distances(array), self.radius))
        return np.asarray(self.centre + (array - self.centre) * scale[..., None])

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, d) independent uniform points."""
        size = integer(n, name="n", minimum=0)
        directions = rng.standard_normal((size, self.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = self.radius * rng.random((size, 1)) ** (1.0 / self.dim)
        return np.asarray(self.centre + lengths * directions)

    def _distances(self, array: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(array - self.centre, axis=-1))

    def __repr__(self) -> str:
        return f"Ball(centre={self.centre.tolist()}, radius={self.radius:g})"

"""`Ball`: all points within a public radius of a public centre."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import worded
from dpbandits._checks import assign, public_array, scale
from dpbandits._config import Valued
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.domains.box import Box
from dpbandits.domains.protocol import DOMAINS, Domain

__all__ = ["Ball"]

TOLERANCE = 1e-9
"""Relative tolerance of the radius, so that points computed to lie on the sphere are members."""


@worded
@DOMAINS.add("Ball")
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Ball(Valued, Domain):
    """Points x with ||x - centre|| <= radius; in the plane, a disc.

    Args:
        centre: Public centre (d,).
        radius: Public radius, above 0.

    Example:
        >>> disc = Ball(centre=[0.0, 0.0], radius=2.0)
        >>> disc.contains([[1.0, 1.0], [2.0, 1.0]])
        array([ True, False])
    """

    centre: FloatArray
    radius: float

    def __init__(self, centre: ArrayLike, radius: float) -> None:
        assign(self, centre=public_array(centre, name="centre", ndim=1), radius=scale(radius, name="radius"))

    @property
    def dim(self) -> int:
        """Number of columns."""
        return len(self.centre)

    @property
    def bounding_box(self) -> Box:
        """Smallest box that contains the ball."""
        return Box(low=self.centre - self.radius, high=self.centre + self.radius)

    def _holds(self, array: FloatArray) -> BoolArray:
        return np.asarray(self._distances(array) <= self.radius * (1.0 + TOLERANCE))

    def _outside(self, array: FloatArray) -> str:
        return (
            f"has points outside the public ball of radius {self.radius:g}: clip them with domain.clip, or "
            "declare a larger ball before the first call of ask"
        )

    def _nearest(self, array: FloatArray) -> FloatArray:
        scale = np.minimum(1.0, self.radius / np.maximum(self._distances(array), self.radius))
        return np.asarray(self.centre + (array - self.centre) * scale[..., None])

    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        directions = rng.standard_normal((n, self.dim))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        lengths = self.radius * rng.random((n, 1)) ** (1.0 / self.dim)
        return np.asarray(self.centre + lengths * directions)

    def _distances(self, array: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.norm(array - self.centre, axis=-1))

    def __repr__(self) -> str:
        return f"Ball(centre={self.centre.tolist()}, radius={self.radius:g})"

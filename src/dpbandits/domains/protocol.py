"""`Domain`: the base class of all domains, and `from_config`, which rebuilds a domain."""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._checks import as_points, integer, require_finite
from dpbandits._config import Configured, Registry
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.errors import InvalidData

__all__ = ["DOMAINS", "Domain", "from_config"]


class Domain(Configured, ABC):
    """A public set of points in `dim` columns.

    All bounds are public constants, fixed before any private data is looked at. Arrays of points have shape
    (..., dim) with any number of leading axes, such as a batch of decision sets (B, n, dim).

    A subclass defines `dim`, `_holds`, `_nearest` and `_drawn`, which receive arrays of float64.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of columns of a point."""

    def contains(self, points: ArrayLike) -> BoolArray:
        """Return which points (..., dim) lie in the domain (...). Bounds belong to the domain."""
        return self._holds(as_points(points, self.dim, name="points"))

    def encloses(self, points: ArrayLike) -> bool:
        """Return True if all points (..., dim) lie in the domain."""
        return self._holds_all(as_points(points, self.dim, name="points"))

    def validate(self, points: ArrayLike, *, name: str = "candidates") -> FloatArray:
        """Return the points (..., dim) as C-contiguous float64, without a copy if they already are.

        Raises:
            InvalidData: The shape or type is wrong, an entry is NaN or infinite, or a point lies outside.
        """
        array = as_points(points, self.dim, name=name)
        if not self._holds_all(array):
            require_finite(array, name=name)
            raise InvalidData(f"{name} {self._outside(array)}")
        return array

    def clip(self, points: ArrayLike) -> FloatArray:
        """Return the nearest points of the domain (..., dim).

        Raises:
            InvalidData: The shape or type is wrong, or an entry is NaN or infinite.
        """
        array = as_points(points, self.dim, name="points")
        require_finite(array, name="points")
        return self._nearest(array)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return independent uniform samples (n, dim). The distribution is public."""
        return self._drawn(integer(n, name="n", minimum=0), rng)

    # -- to be defined by a subclass -------------------------------------------------------------

    @abstractmethod
    def _holds(self, array: FloatArray) -> BoolArray:
        """Return which points (..., dim) lie in the domain (...); False for a point that is not finite."""

    def _holds_all(self, array: FloatArray) -> bool:
        """Return True if all points lie in the domain. A subclass may define a faster way."""
        return bool(self._holds(array).all())

    def _outside(self, array: FloatArray) -> str:
        """Return an error text for finite points (..., dim) of which some lie outside. It shows no point."""
        return "has points outside the domain: clip them with domain.clip"

    @abstractmethod
    def _nearest(self, array: FloatArray) -> FloatArray:
        """Return the nearest points of the domain (..., dim)."""

    @abstractmethod
    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return independent uniform samples (n, dim)."""


DOMAINS: Registry[Domain] = Registry("a domain")
"""Registry of domains. `from_config` reads your own class after `@DOMAINS.add("its type")`."""

from_config = DOMAINS.read
"""Rebuild a domain from its `to_config()`. InvalidParameter is raised for any other configuration."""

"""What every domain offers, and how a domain comes back from its configuration."""

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

    All bounds are public constants, fixed before any private data is looked at. Arrays of points
    have shape (..., dim): any number of leading axes, so that a batch of decision sets
    (B, n, dim) is one call.

    A domain of one's own gives `dim`, `_holds`, `_nearest` and `_drawn`; arrays come to them as float64.
    """

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of columns of a point."""

    def contains(self, points: ArrayLike) -> BoolArray:
        """Which points lie in the domain, bounds included: (..., dim) -> (...)."""
        return self._holds(as_points(points, self.dim, name="points"))

    def encloses(self, points: ArrayLike) -> bool:
        """Whether all of the points (..., dim) lie in the domain."""
        return self._holds_all(as_points(points, self.dim, name="points"))

    def validate(self, points: ArrayLike, *, name: str = "candidates") -> FloatArray:
        """The points (..., dim) as C-contiguous float64, a view where the input already is that.

        Raises:
            InvalidData: wrong shape or type, NaN or infinite entries, or a point outside.
        """
        array = as_points(points, self.dim, name=name)
        if not self._holds_all(array):
            require_finite(array, name=name)
            raise InvalidData(f"{name} {self._outside(array)}")
        return array

    def clip(self, points: ArrayLike) -> FloatArray:
        """The nearest points of the domain, (..., dim); non-finite numbers are still refused."""
        array = as_points(points, self.dim, name="points")
        require_finite(array, name="points")
        return self._nearest(array)

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, dim) independent draws from the public uniform law."""
        return self._drawn(integer(n, name="n", minimum=0), rng)

    # -- of its own -----------------------------------------------------------------------------

    @abstractmethod
    def _holds(self, array: FloatArray) -> BoolArray:
        """(...) which points lie inside; False for what is not finite."""

    def _holds_all(self, array: FloatArray) -> bool:
        """Whether all points lie inside; a domain may have a quicker way than to say which."""
        return bool(self._holds(array).all())

    def _outside(self, array: FloatArray) -> str:
        """What is wrong with finite points (..., dim), some of them outside; public, it shows no point."""
        return "has points outside the domain: clip them with domain.clip"

    @abstractmethod
    def _nearest(self, array: FloatArray) -> FloatArray:
        """The nearest points of the domain."""

    @abstractmethod
    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, dim) independent draws."""


DOMAINS: Registry[Domain] = Registry("a domain")
"""Add a domain of your own with `@DOMAINS.add("its type")`, and configurations that name it are read."""

from_config = DOMAINS.read
"""Rebuild any domain from its `to_config()`; anything else is an `InvalidParameter`."""

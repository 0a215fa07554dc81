"""What every domain offers, and how a domain comes back from its configuration."""

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._config import Registry
from dpbandits._typing import BoolArray, FloatArray

__all__ = ["DOMAINS", "Domain", "from_config"]


@runtime_checkable
class Domain(Protocol):
    """A public set of points in `dim` columns.

    All bounds are public constants, fixed before any private data is looked at. Arrays of points
    have shape (..., dim): any number of leading axes, so that a batch of decision sets
    (B, n, dim) is one call.
    """

    @property
    def dim(self) -> int:
        """Number of columns of a point."""

    def contains(self, points: ArrayLike) -> BoolArray:
        """Which points lie in the domain: (..., dim) -> (...)."""

    def validate(self, points: ArrayLike, *, name: str = "candidates") -> FloatArray:
        """The points as C-contiguous float64 (a view where possible), or InvalidData."""

    def clip(self, points: ArrayLike) -> FloatArray:
        """The nearest points of the domain; non-finite numbers are still refused."""

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, dim) independent draws from the public uniform law."""

    def to_config(self) -> dict[str, Any]:
        """A JSON-ready description that `from_config` turns back into an equal domain."""


DOMAINS: Registry[Domain] = Registry("a domain")
"""Add a domain of your own with `@DOMAINS.add("its type")`, and configurations that name it are read."""

from_config = DOMAINS.read
"""Rebuild any domain from its `to_config()`; anything else is an `InvalidParameter`."""

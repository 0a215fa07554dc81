"""What every domain offers, and how a domain comes back from its configuration."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._reading import config_type
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.errors import InvalidParameter

__all__ = ["Domain", "from_config", "registered"]


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

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Rebuild the domain that `to_config` described."""


_KINDS: dict[str, type[Domain]] = {}

_D = TypeVar("_D", bound=type)


def registered(kind: str) -> Callable[[_D], _D]:
    """Class decorator: `from_config` rebuilds configurations of this `type` with the class."""

    def register(cls: _D) -> _D:
        _KINDS[kind] = cls
        return cls

    return register


def from_config(config: Mapping[str, Any]) -> Domain:
    """Rebuild any domain from its `to_config()`.

    Raises:
        InvalidParameter: the configuration names no known domain or its fields do not fit.
    """
    kind = config_type(config)
    cls = None if kind is None else _KINDS.get(kind)
    if cls is None:
        raise InvalidParameter(f"a domain's configuration needs a 'type' out of {sorted(_KINDS)}")
    return cls.from_config(config)

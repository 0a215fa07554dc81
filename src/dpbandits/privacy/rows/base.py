"""Base classes of the row mechanisms, and the lattice of their noise."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dpbandits import _checks
from dpbandits._config import plain
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows.noise_laws import NoiseLaw

__all__ = [
    "LARGEST_COORDINATE",
    "LatticeMechanism",
    "RowMechanism",
    "as_rows",
    "from_lattice",
    "lattice_step",
]

_STEP_BITS = 16
"""Binary logarithm of the number of lattice steps per
distance/sqrt(d); rounding then costs 1.5e-5 of epsilon.
"""
LARGEST_COORDINATE = 2.0**50
"""Largest coordinate of a row in lattice steps; above it float64 no longer rounds to the lattice exactly."""


@dataclass(frozen=True, kw_only=True)
class RowMechanism(ABC):
    """Base class of mechanisms that add independent noise to every row.

    Args:
        definition: Promise that the mechanism must keep.
        dim: Number of coordinates of a row.

    Attributes:
        name: Name of the mechanism in the description of a release.
        described: Names of the attributes that this description contains besides `name` and `dim`.
    """

    name: ClassVar[str]
    described: ClassVar[tuple[str, ...]]
    definition: RowDP
    dim: int

    def __post_init__(self) -> None:
        instead = "definition=RowDP(epsilon=1, delta=1e-6, distance=1)"
        _checks.an(self.definition, RowDP, name="definition", pass_=instead)
        _checks.integer(self.dim, name="dim")

    @property
    @abstractmethod
    def law(self) -> NoiseLaw:
        """Public distribution of the noise, for those who learn from a release."""

    @cached_property
    def certificate(self) -> Certificate:
        """Certificate for two positions of a row at the distance in the definition."""
        return self.certificate_at(self.definition.distance)

    @abstractmethod
    def certificate_at(self, distance: float) -> Certificate:
        """Return the certificate for two positions of a row that are `distance` apart."""

    @abstractmethod
    def privatize(self, points: FloatArray, noise: NoiseSource) -> FloatArray:
        """Return rows (n, d) with fresh noise; rows and result are in public coordinates."""

    @abstractmethod
    def describe(self) -> str:
        """Return the distribution of the noise in words."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Scale of the noise, in public coordinates."""

    def to_config(self) -> dict[str, Any]:
        """Return the public description of the mechanism for JSON."""
        told = {name: plain(getattr(self, name)) for name in self.described}
        return {"type": self.name, "dim": self.dim} | told

    def epsilon_at(self, distance: float) -> float:
        """Return the privacy loss between positions `distance` apart, at the definition's delta."""
        return self.certificate_at(distance).epsilon_at(self.definition.delta)


@dataclass(frozen=True, kw_only=True)
class LatticeMechanism(RowMechanism):
    """Base class of integer noise on a public lattice. Only `privatize` joins raw rows with noise."""

    @cached_property
    def step(self) -> float:
        """Lattice step h, a power of two."""
        return lattice_step(self.definition.distance, self.dim)

    @property
    @abstractmethod
    def reach(self) -> float:
        """Bound on the change of a rounded row at the definition's distance, in public coordinates."""

    def privatize(self, points: FloatArray, noise: NoiseSource) -> FloatArray:
        """Return the nearest lattice points to rows (n, dim) with fresh noise, as multiples of `step`."""
        # Division by a power of two is exact, and so is rounding below 2^52.
        scaled = as_rows(points, self.dim) / self.step
        if scaled.size and float(np.abs(scaled).max()) > LARGEST_COORDINATE:
            raise InvalidData("rows are too large for the lattice of this distance: check the public bounds")
        rows = np.rint(scaled).astype(np.int64)
        return from_lattice(rows + self._draw(len(rows), noise), self.step)

    @abstractmethod
    def _draw(self, n: int, noise: NoiseSource) -> IntArray:
        """Draw fresh integer noise (n, dim), in lattice steps."""


def lattice_step(distance: float, dim: int) -> float:
    """Return the public lattice step for a distance and a number of coordinates: a power of two."""
    return 2.0 ** math.floor(math.log2(distance / math.sqrt(dim)) - _STEP_BITS)


def as_rows(points: FloatArray, dim: int) -> FloatArray:
    """Return `points` as floats.

    Raises:
        InvalidData: The points do not have the shape (n, dim), or a number is not finite.
    """
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise InvalidData(f"rows have shape {rows.shape}, expected (n, {dim})")
    if not np.isfinite(rows).all():
        raise InvalidData("rows hold missing or infinite values: drop or repair them first")
    return rows


def from_lattice(rows: IntArray, step: float) -> FloatArray:
    """Return integers times the step, which is exact below 2^53 steps."""
    return np.asarray(rows.astype(np.float64) * step)

"""Base of the row mechanisms, and their lattice."""

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
"""The lattice step is about distance/(2^16 sqrt(d)): rounding then costs 1.5e-5 of epsilon."""
LARGEST_COORDINATE = 2.0**50
"""Rows farther out than this many steps are refused: float64 no longer rounds them to the lattice exactly."""


@dataclass(frozen=True, kw_only=True)
class RowMechanism(ABC):
    """One row in, one noisy row out, independently for every row.

    Args:
        definition: the promise.
        dim: coordinates of a row.

    Attributes:
        name: the mechanism's name in a release.
        described: attributes that a release tells beside the name and `dim`.
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
        """The noise law that a modeler should expect; public."""

    @cached_property
    def certificate(self) -> Certificate:
        """Certificate for two positions at the definition's distance."""
        return self.certificate_at(self.definition.distance)

    @abstractmethod
    def certificate_at(self, distance: float) -> Certificate:
        """Return the certificate for two positions of a row that are `distance` apart."""

    @abstractmethod
    def privatize(self, points: FloatArray, noise: NoiseSource) -> FloatArray:
        """(n, d) rows in public coordinates -> (n, d) released rows. Draws fresh noise."""

    @abstractmethod
    def describe(self) -> str:
        """The law in words."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """The noise parameter, in public coordinates."""

    def to_config(self) -> dict[str, Any]:
        """JSON-ready public description."""
        told = {name: plain(getattr(self, name)) for name in self.described}
        return {"type": self.name, "dim": self.dim} | told

    def epsilon_at(self, distance: float) -> float:
        """Privacy loss (at the definition's delta) between two positions `distance` apart."""
        return self.certificate_at(distance).epsilon_at(self.definition.delta)


@dataclass(frozen=True, kw_only=True)
class LatticeMechanism(RowMechanism):
    """Integer noise on a public lattice. In `privatize` a row in public coordinates meets its noise."""

    @cached_property
    def step(self) -> float:
        """Lattice step h, a power of two."""
        return lattice_step(self.definition.distance, self.dim)

    @property
    @abstractmethod
    def reach(self) -> float:
        """How far a move by the definition's distance moves the noise, rounding counted in."""

    def privatize(self, points: FloatArray, noise: NoiseSource) -> FloatArray:
        """(n, dim) -> (n, dim), multiples of `step`: the nearest lattice points, and noise."""
        # Dividing by a power of two is exact, and so is rounding below 2^52.
        scaled = as_rows(points, self.dim) / self.step
        if scaled.size and float(np.abs(scaled).max()) > LARGEST_COORDINATE:
            raise InvalidData(
                "rows lie too far out for the lattice of this distance: check the public bounds"
            )
        rows = np.rint(scaled).astype(np.int64)
        return from_lattice(rows + self._draw(len(rows), noise), self.step)

    @abstractmethod
    def _draw(self, n: int, noise: NoiseSource) -> IntArray:
        """(n, dim) fresh integer noise."""


def lattice_step(distance: float, dim: int) -> float:
    """The public lattice step for a distance: a power of two."""
    return 2.0 ** math.floor(math.log2(distance / math.sqrt(dim)) - _STEP_BITS)


def as_rows(points: FloatArray, dim: int) -> FloatArray:
    """Check that `points` are finite (n, dim) numbers."""
    rows = np.asarray(points, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != dim:
        raise InvalidData(f"rows have shape {rows.shape}, expected (n, {dim})")
    if not np.isfinite(rows).all():
        raise InvalidData("rows hold missing or infinite values: drop or repair them first")
    return rows


def from_lattice(rows: IntArray, step: float) -> FloatArray:
    """Integers as multiples of the step, exact below 2^53 steps."""
    return np.asarray(rows.astype(np.float64) * step)

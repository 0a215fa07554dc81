"""Discrete Gaussian noise on every coordinate of a row.

**Gaussian, proof.** Independent discrete Gaussians with parameter sigma on the lattice points x/h:
replacing x moves the centre by at most distance/h + sqrt(d) lattice units (rounding included; sigma allows
for one unit more), which is rho = that^2/(2 sigma^2) (Canonne, Kamath, Steinke 2020, Theorem 14). Rows are
drawn one by one, so one row touches d draws, for the near-Gaussian certificate (`dpbandits.privacy.noise`).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits import _checks
from dpbandits._typing import IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows.base import LatticeMechanism
from dpbandits.privacy.rows.noise_laws import GaussianLaw, NoiseLaw

__all__ = ["GaussianRows"]


@dataclass(frozen=True, kw_only=True)
class GaussianRows(LatticeMechanism):
    """Discrete Gaussian noise on every coordinate.

    Args:
        definition, dim: see `RowMechanism`; delta must be positive.
        noise: decides scale and certificate.

    Raises:
        InvalidParameter: delta is 0.
    """

    name = "gaussian"
    described = ("step", "sigma")

    noise: NoiseSource

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.definition.delta <= 0.0:
            raise InvalidParameter("Gaussian noise needs delta above 0: set it, or use L2Laplace")

    def _sensitivity(self, distance: float) -> float:
        """Lattice units that the centre moves when the row moves by `distance`."""
        return distance / self.step + math.sqrt(self.dim) + 1.0

    @property
    def reach(self) -> float:
        """See `LatticeMechanism.reach`."""
        return self._sensitivity(self.definition.distance) * self.step

    @cached_property
    def _calibrated(self) -> tuple[float, Certificate]:
        promise = self.definition
        moved = self._sensitivity(promise.distance)
        return self.noise.gaussian_scale(moved, promise.epsilon, promise.delta, draws=self.dim)

    @property
    def sigma(self) -> float:
        """The noise parameter in lattice steps."""
        return self._calibrated[0]

    @property
    def scale(self) -> float:
        """Standard deviation of a coordinate's noise."""
        return self.sigma * self.step

    @property
    def law(self) -> NoiseLaw:
        """Gaussian."""
        return GaussianLaw(dim=self.dim, deviation=self.scale)

    @cached_property
    def certificate(self) -> Certificate:
        """What the noise source proves for its scale."""
        return self._calibrated[1]

    def certificate_at(self, distance: float) -> Certificate:
        """Of the kind of `certificate`: mu grows with the distance, rho with its square (and rounding)."""
        return self.certificate.at_shift(
            self._sensitivity(_checks.number(distance, name="distance")) / self.sigma
        )

    def _draw(self, n: int, noise: NoiseSource) -> IntArray:
        drawn = noise.integer_gaussian(self.sigma, n * self.dim)
        return np.asarray(drawn, dtype=np.int64).reshape(n, self.dim)

    def describe(self) -> str:
        """The law in words."""
        return f"{self.noise.gaussian_law} (sigma {self.sigma:.6g} lattice steps of {self.step:.6g})"

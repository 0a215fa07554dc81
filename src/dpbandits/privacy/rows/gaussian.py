"""Discrete Gaussian noise on every coordinate of a row.

**Gaussian, proof.** The noise consists of independent discrete Gaussians with parameter sigma around the
lattice point x/h. Replacing x shifts the centre by at most distance/h + sqrt(d) lattice units, rounding
included; sigma allows for one unit more. So rho = that^2/(2 sigma^2) (Canonne, Kamath, Steinke 2020, Theorem
14). Rows are drawn one by one, so one row touches d draws for the near-Gaussian certificate
(`dpbandits.privacy.noise`).
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
        definition: Promise; delta must be positive.
        dim: Number of coordinates of a row.
        noise: Noise source, which decides scale and certificate.

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
        """Return the largest shift of the centre in lattice units when the row changes by `distance`."""
        return distance / self.step + math.sqrt(self.dim) + 1.0

    @property
    def reach(self) -> float:
        """Largest shift of the centre at the definition's distance, in public coordinates."""
        return self._sensitivity(self.definition.distance) * self.step

    @cached_property
    def _calibrated(self) -> tuple[float, Certificate]:
        promise = self.definition
        moved = self._sensitivity(promise.distance)
        return self.noise.gaussian_scale(moved, promise.epsilon, promise.delta, draws=self.dim)

    @property
    def sigma(self) -> float:
        """Noise parameter in lattice steps."""
        return self._calibrated[0]

    @property
    def scale(self) -> float:
        """Standard deviation of a coordinate's noise."""
        return self.sigma * self.step

    @property
    def law(self) -> NoiseLaw:
        """Gaussian law of one row."""
        return GaussianLaw(dim=self.dim, deviation=self.scale)

    @cached_property
    def certificate(self) -> Certificate:
        """Certificate of the noise source for its scale."""
        return self._calibrated[1]

    def certificate_at(self, distance: float) -> Certificate:
        """Return a certificate of the same kind: mu grows with the distance, rho with its square."""
        return self.certificate.at_shift(
            self._sensitivity(_checks.number(distance, name="distance")) / self.sigma
        )

    def _draw(self, n: int, noise: NoiseSource) -> IntArray:
        drawn = noise.integer_gaussian(self.sigma, n * self.dim)
        return np.asarray(drawn, dtype=np.int64).reshape(n, self.dim)

    def describe(self) -> str:
        """Return the law in words."""
        return self.noise.gaussian_law

"""Discrete Gaussian noise on every coordinate of a row.

**Proof.** A row x of d coordinates is rounded to the lattice of step h, and each coordinate gets independent
discrete Gaussian noise of parameter sigma. Replacing x changes the rounded row by at most distance/h +
sqrt(d) lattice steps, and sigma is calibrated to one step more, s. So the release is rho-zCDP with rho =
s^2/(2 sigma^2) (Canonne, Kamath, Steinke 2020, Theorem 14). One row affects d draws, which the near-Gaussian
certificate counts (`dpbandits.privacy.noise`).
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
    """Mechanism that adds discrete Gaussian noise to every coordinate of a row.

    Args:
        definition: Promise; delta must be positive.
        dim: Number of coordinates of a row.
        noise: Noise source, which determines scale and certificate.

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
        """Return a bound on the change of a rounded row, in lattice steps, if it moves by `distance`."""
        return distance / self.step + math.sqrt(self.dim) + 1.0

    @property
    def reach(self) -> float:
        """Bound on the change of a rounded row at the definition's distance, in public coordinates."""
        return self._sensitivity(self.definition.distance) * self.step

    @cached_property
    def _calibrated(self) -> tuple[float, Certificate]:
        promise = self.definition
        moved = self._sensitivity(promise.distance)
        return self.noise.gaussian_scale(moved, promise.epsilon, promise.delta, draws=self.dim)

    @property
    def sigma(self) -> float:
        """Scale of the noise in lattice steps."""
        return self._calibrated[0]

    @property
    def scale(self) -> float:
        """Standard deviation of a coordinate's noise."""
        return self.sigma * self.step

    @property
    def law(self) -> NoiseLaw:
        """Gaussian distribution of one row's noise."""
        return GaussianLaw(dim=self.dim, deviation=self.scale)

    @cached_property
    def certificate(self) -> Certificate:
        """Certificate that the noise source gives for the scale."""
        return self._calibrated[1]

    def certificate_at(self, distance: float) -> Certificate:
        """Return a certificate of the same kind: mu is proportional to the distance plus rounding, rho to its
        square.
        """
        return self.certificate.at_shift(
            self._sensitivity(_checks.number(distance, name="distance")) / self.sigma
        )

    def _draw(self, n: int, noise: NoiseSource) -> IntArray:
        drawn = noise.integer_gaussian(self.sigma, n * self.dim)
        return np.asarray(drawn, dtype=np.int64).reshape(n, self.dim)

    def describe(self) -> str:
        """Return the distribution of the noise in words."""
        return self.noise.gaussian_law

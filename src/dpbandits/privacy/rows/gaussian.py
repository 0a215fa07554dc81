"""Discrete Gaussian noise on every coordinate of a row, after an optional public projection.

**Gaussian, proof.** Independent discrete Gaussians with parameter sigma on the lattice points P x/h:
replacing x moves the centre by at most |P|_2 distance/h + sqrt(r) + 1 lattice units (r released
coordinates; the 1 covers float errors of the projection), which is rho = that^2/(2 sigma^2) (Canonne,
Kamath, Steinke 2020, Theorem 14). Rows are drawn one by one, so one row touches r draws, for the
near-Gaussian certificate (`dpbandits.privacy.noise`).

**Float errors.** A float64 product of d terms, in any order, is off by at most d u/(1 - d u) |p| |x| with
u = 2^-53 and |p| = 1: two tables, r coordinates, so by 2 sqrt(r) d u |x|/h (1 + 2^-9) in all. Rows longer
than `longest_row`, where that would reach 1/2, are refused; dividing by h and rounding are exact.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows.base import LatticeMechanism
from dpbandits.privacy.rows.noise_laws import GaussianLaw, NoiseLaw

__all__ = ["GaussianRows"]


@dataclass(frozen=True, kw_only=True)
class GaussianRows(LatticeMechanism):
    """Discrete Gaussian noise on every coordinate, after an optional public orthonormal projection.

    Args:
        definition, dim: see `RowMechanism`; delta must be positive.
        noise: decides scale and certificate.
        projection: (r, dim) with orthonormal rows, chosen without the data; rows are released as
            projection @ row.

    Raises:
        InvalidParameter: delta is 0, or a projection that is not orthonormal.
    """

    name = "gaussian"
    described = ("step", "sigma", "projection")

    noise: NoiseSource
    projection: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.definition.delta <= 0.0:
            raise InvalidParameter("Gaussian noise needs delta above 0: set it, or use L2Laplace")
        if self.projection is not None:
            matrix = np.asarray(self.projection, dtype=np.float64)
            if matrix.ndim != 2 or matrix.shape[1] != self.dim or not 1 <= matrix.shape[0] <= self.dim:
                raise InvalidParameter(
                    f"the projection has shape {matrix.shape}, expected (r, {self.dim}), r <= {self.dim}"
                )
            if not np.allclose(matrix @ matrix.T, np.eye(len(matrix)), rtol=0.0, atol=1e-9):
                raise InvalidParameter("the rows of the projection must be orthonormal (to 1e-9)")
            object.__setattr__(self, "projection", tuple(tuple(map(float, row)) for row in matrix))

    @property
    def matrix(self) -> FloatArray | None:
        """The projection as an array."""
        return None if self.projection is None else np.asarray(self.projection)

    @property
    def released_dim(self) -> int:
        """Coordinates of a released row."""
        return self.dim if self.projection is None else len(self.projection)

    @property
    def longest_row(self) -> float:
        """Length of the longest row that a projection takes: its float errors stay below half a step."""
        return 2.0**50 / (self.dim * math.sqrt(self.released_dim)) * self.step

    def _sensitivity(self, distance: float) -> float:
        """Lattice units that the centre moves when the row moves by `distance`."""
        norm = 1.0 if self.matrix is None else float(np.linalg.norm(self.matrix, 2)) + 1e-12
        return norm * distance / self.step + math.sqrt(self.released_dim) + 1.0

    @property
    def reach(self) -> float:
        """See `LatticeMechanism.reach`."""
        return self._sensitivity(self.definition.distance) * self.step

    @cached_property
    def _calibrated(self) -> tuple[float, Certificate]:
        promise = self.definition
        moved = self._sensitivity(promise.distance)
        return self.noise.gaussian_scale(moved, promise.epsilon, promise.delta, draws=self.released_dim)

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
        return GaussianLaw(dim=self.released_dim, deviation=self.scale)

    @cached_property
    def certificate(self) -> Certificate:
        """What the noise source proves for its scale."""
        return self._calibrated[1]

    def certificate_at(self, distance: float) -> Certificate:
        """Of the kind of `certificate`: mu grows with the distance, rho with its square (and rounding)."""
        return self.certificate.at_shift(
            self._sensitivity(_checks.number(distance, name="distance")) / self.sigma
        )

    def _projected(self, points: FloatArray) -> FloatArray:
        if self.matrix is None:
            return points
        if np.einsum("ij,ij->i", points, points).max(initial=0.0) > self.longest_row**2:
            raise InvalidData(
                "rows lie too far out to be projected at this distance: check the public bounds"
            )
        return np.asarray(points @ self.matrix.T)

    def _draw(self, n: int, noise: NoiseSource) -> IntArray:
        drawn = noise.integer_gaussian(self.sigma, n * self.released_dim)
        return np.asarray(drawn, dtype=np.int64).reshape(n, self.released_dim)

    def describe(self) -> str:
        """The law in words."""
        words = f"{self.noise.gaussian_law} (sigma {self.sigma:.6g} lattice steps of {self.step:.6g}"
        projected = f", after a public projection to {self.released_dim} coordinates"
        return words + ("" if self.projection is None else projected) + ")"

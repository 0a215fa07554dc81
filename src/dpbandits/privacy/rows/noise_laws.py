"""Distributions of the noise of released rows, for those who learn from a release.

A released row is z = x + e, with true row x and noise e. Each law of e is given as a mixture of isotropic
Gaussians. The mixture is exact, or exact in the limit of many quadrature nodes, or (for cells) has two right
moments. So a kernel's expectation over the noise has a closed form (`dpbandits.models.expected_kernel`).
Everything here is public and part of the release.

A stationary kernel depends on the difference of two rows' noises, which `difference_mixture` describes. For
the L2-Laplace law in d coordinates, each noise is a Gaussian of random variance. The two variances sum to a
multiple of Gamma(d + 1). Gauss-Laguerre nodes with exponent d integrate over it with twenty times fewer
terms than pairs of nodes.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._config import Configured, Registry
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter

__all__ = ["CellLaw", "GaussianLaw", "IsotropicLaw", "L2LaplaceLaw", "NoiseLaw", "from_config"]

Floating = TypeVar("Floating", FloatArray, NDArray[np.float32])

DEFAULT_NODES = 10
"""Number of quadrature nodes for a continuum of scales; tests check the error of the expected kernel."""


_LAWS: "Registry[NoiseLaw]" = Registry("a noise law")


class NoiseLaw(Configured, ABC):
    """Base class of distributions of a released row around the true row, in `dim` released coordinates."""

    dim: int

    @property
    @abstractmethod
    def sd(self) -> float:
        """Root mean square of the noise in one coordinate."""

    @abstractmethod
    def difference_mixture(self, nodes: int = DEFAULT_NODES) -> tuple[FloatArray, FloatArray]:
        """Return standard deviations (m,) and weights (m,) of a Gaussian mixture for the difference of two
        noises.

        Args:
            nodes: Number of quadrature nodes, for laws that are a continuous mixture.
        """

    @abstractmethod
    def log_density(self, offsets: FloatArray) -> FloatArray:
        """Return the log density (...) of the noise e, up to a constant, at offsets (..., dim)."""

    def position_error(self, half_width: float) -> float:
        """Return the root mean square error of the best linear estimate of a coordinate from a released row.

        The row is uniform in the cube [-half_width, half_width]^dim. The error is at most
        half_width/sqrt(3), the error of an estimate without the release.
        """
        prior = half_width**2 / 3.0
        return math.sqrt(prior * self.sd**2 / (prior + self.sd**2))


class IsotropicLaw(NoiseLaw):
    """Base class of laws whose density depends only on the length of the noise e."""

    @abstractmethod
    def radial_log_density(self, squares: Floating) -> Floating:
        """Return the log density, up to a constant, at squared lengths |e|^2. Overwrites `squares`."""

    def log_density(self, offsets: FloatArray) -> FloatArray:
        """Return the log density (...) of the noise e, up to a constant, at offsets (..., dim)."""
        values = np.asarray(offsets, dtype=np.float64)
        squares: FloatArray = np.asarray(np.einsum("...i,...i->...", values, values))
        return self.radial_log_density(np.atleast_1d(squares)).reshape(squares.shape)


@_LAWS.add("gaussian")
@dataclass(frozen=True, kw_only=True)
class GaussianLaw(IsotropicLaw):
    """Gaussian noise e ~ N(0, deviation^2 I).

    >>> GaussianLaw(dim=2, deviation=3.0).difference_mixture()[0].round(3).tolist()
    [4.243]
    """

    dim: int
    deviation: float

    def __post_init__(self) -> None:
        _checks.settle(self, dim=_checks.integer, deviation=_width)

    @property
    def sd(self) -> float:
        """Root mean square of the noise in one coordinate."""
        return self.deviation

    def difference_mixture(self, nodes: int = DEFAULT_NODES) -> tuple[FloatArray, FloatArray]:
        """Return a single Gaussian, with twice the variance of one noise."""
        return np.array([math.sqrt(2.0) * self.deviation]), np.ones(1)

    def radial_log_density(self, squares: Floating) -> Floating:
        """Return -|e|^2 / (2 deviation^2)."""
        squares *= squares.dtype.type(-0.5 / self.deviation**2)
        return squares


@_LAWS.add("l2_laplace")
@dataclass(frozen=True, kw_only=True)
class L2LaplaceLaw(IsotropicLaw):
    """Noise e with density proportional to exp(-|e| / scale), so that |e| is Gamma(dim, scale).

    >>> law = L2LaplaceLaw(dim=2, scale=1.0)
    >>> scales, weights = law.difference_mixture(nodes=20)
    >>> round(float(weights @ scales**2), 6), round(2.0 * law.sd**2, 6)
    (6.0, 6.0)
    """

    dim: int
    scale: float

    def __post_init__(self) -> None:
        _checks.settle(self, dim=_checks.integer, scale=_width)

    @property
    def sd(self) -> float:
        """Root mean square of the noise in one coordinate: scale sqrt(dim + 1)."""
        return self.scale * math.sqrt(self.dim + 1.0)

    def difference_mixture(self, nodes: int = DEFAULT_NODES) -> tuple[FloatArray, FloatArray]:
        """Return Gauss-Laguerre nodes and weights for s, where s^2 = 2 scale^2 x with x ~ Gamma(dim + 1)."""
        from scipy.special import roots_genlaguerre

        points, weights = roots_genlaguerre(nodes, float(self.dim))
        return self.scale * np.sqrt(2.0 * points), weights / weights.sum()

    def radial_log_density(self, squares: Floating) -> Floating:
        """Return -|e| / scale."""
        np.sqrt(squares, out=squares)
        squares *= squares.dtype.type(-1.0 / self.scale)
        return squares


@_LAWS.add("cells")
@dataclass(frozen=True, kw_only=True)
class CellLaw(NoiseLaw):
    """Law of k-ary randomised response: the row is in the reported cell with probability `keep`.

    Otherwise it is in another cell. Offsets are measured from the centre of the reported cell. The Gaussian
    mixture is an approximation: its components have the root mean squares of the two cases.

    Args:
        dim: Number of released coordinates.
        keep: Probability that the reported cell is the true one.
        width: Side of a cell.
        half_width: Half the side of the public cube.
    """

    dim: int
    keep: float
    width: float
    half_width: float

    def __post_init__(self) -> None:
        _checks.settle(self, dim=_checks.integer, keep=_checks.number, width=_width, half_width=_width)
        if self.keep > 1.0 or self.width > 2.0 * self.half_width:
            raise InvalidParameter("a cell law needs keep <= 1 and cells no wider than the cube")

    @property
    def sd(self) -> float:
        """Root mean square of the noise in one coordinate, for a row that is uniform in the cube."""
        inside, outside = self._squares()
        return math.sqrt(self.keep * inside + (1.0 - self.keep) * outside)

    def difference_mixture(self, nodes: int = DEFAULT_NODES) -> tuple[FloatArray, FloatArray]:
        """Return three components, for two, one or none of the two reported cells being true."""
        inside, outside = self._squares()
        kept = self.keep
        scales = np.sqrt([2.0 * inside, inside + outside, 2.0 * outside])
        return scales, np.array([kept**2, 2.0 * kept * (1.0 - kept), (1.0 - kept) ** 2])

    def log_density(self, offsets: FloatArray) -> FloatArray:
        """Return the log density, which has one value inside the reported cell and another outside."""
        cell = self.width**self.dim
        rest = max((2.0 * self.half_width) ** self.dim - cell, np.finfo(np.float64).tiny)
        inside = (np.abs(offsets) <= 0.5 * self.width).all(axis=-1)
        with np.errstate(divide="ignore"):
            outside = np.log(1.0 - self.keep) - math.log(rest)
        return np.where(inside, math.log(self.keep) - math.log(cell), outside)

    def position_error(self, half_width: float) -> float:
        """Return the error of the best linear estimate, from the correlation of row and release."""
        cells = (2.0 * self.half_width / self.width) ** self.dim
        excess = self.keep - (1.0 - self.keep) / (cells - 1.0)
        explained = excess**2 * (1.0 - (0.5 * self.width / self.half_width) ** 2)
        return half_width / math.sqrt(3.0) * math.sqrt(1.0 - explained)

    def _squares(self) -> tuple[float, float]:
        return self.width**2 / 12.0, 2.0 * self.half_width**2 / 3.0


from_config = _LAWS.read
"""Rebuild a law from its `to_config()`. Raises `InvalidParameter` for anything else."""


def _width(value: object, *, name: str) -> float:
    """Return a positive number whose square and inverse square are finite floats.

    Raises:
        InvalidParameter: The number is out of range.
    """
    width = _checks.number(value, name=name, minimum=1e-120)
    if width > 1e120:
        raise InvalidParameter(f"{name} is above 1e120: expected the scale of a table's values")
    return width

r"""Mechanisms for one vector per user with pure local privacy, for gradient-based local learners.

A vector v of R^m with norm at most 1 goes in; a report with E[report] = v and density ratio at most
e^epsilon between any two inputs comes out. Three mechanisms:

- `cap`: a point of a sphere, likelier by a factor e^epsilon in the cap around v. Variance of a coordinate
  (1/b^2 - |v|^2)/m with b below; about 2 pi/epsilon^2 for small epsilon and large m.
- `laplace`: v plus noise of density proportional to exp(-epsilon |e|/2). Variance 4 (m + 1)/epsilon^2.
- `coordinate`: one coordinate drawn uniformly, one randomised bit. Variance m/tanh(epsilon/2)^2 - v_j^2.

`cap` is PrivUnit (Bhowmick et al. 2018) with the whole epsilon in the cap; with a half sphere as cap it is
the L2 mechanism of Duchi, Jordan and Wainwright (2018). `coordinate` is their one-bit mechanism for
the cube, on one coordinate (Nguyen et al. 2016): it needs |v_j| <= 1 only.

**`cap`, proof.** A short vector is first made a unit one: u = +-v/|v| with probability (1 +- |v|)/2, so
that E[u] = v. V is uniform in the cap {t: <t, u> >= g} with probability p, else uniform in the rest. Let q
be the cap's share of the sphere and E = e^epsilon. With p = E q/Z, Z = 1 + (E - 1) q, the density is E/Z in
the cap and 1/Z outside, whatever u: a ratio of E. By symmetry E[V | u] = b u with
b = (E - 1) h/Z, h = E[T 1(T >= g)] = (1 - g^2)^a/(2 a Beta(1/2, a)), a = (m - 1)/2, T a coordinate of a
uniform point. V/b is reported; q is chosen to make b largest (it depends on m and epsilon alone).

Floating-point noise from a seeded generator: for studies (status `simulated`), never for people.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import betainccinv, betaln

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter

__all__ = ["VECTOR_REPORTS", "CapReport", "CoordinateReport", "LaplaceReport", "VectorReport", "clip_norm"]


def clip_norm(vectors: FloatArray, bound: float) -> FloatArray:
    """Rows (n, m) shortened to norm `bound` where longer."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A row that rounding leaves a hair too long is harmless here: `CapReport` clips its lean as well.
    return np.asarray(vectors * np.minimum(1.0, bound / np.maximum(lengths, np.finfo(float).tiny)))


@dataclass(frozen=True, kw_only=True)
class VectorReport(ABC):
    """A mechanism for vectors of norm at most 1.

    Args:
        dim: m.
        epsilon: Epsilon of a report.
    """

    dim: int
    epsilon: float

    def __post_init__(self) -> None:
        _checks.integer(self.dim, name="dim")
        _checks.number(self.epsilon, name="epsilon")

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of a coordinate of the report for the zero vector: the noise to expect."""

    @abstractmethod
    def privatize(self, vectors: FloatArray, rng: np.random.Generator) -> FloatArray:
        """(n, m) vectors, shortened to norm 1 where longer -> (n, m) reports, one a user."""


@dataclass(frozen=True, kw_only=True)
class CapReport(VectorReport):
    """A point of the sphere, likelier in the cap around the vector.

    Args:
        dim: m, at least 2.
        epsilon: Epsilon of a report.
        share: q, the cap's share of the sphere; by default the best one, 1/2 for the half sphere.

    Raises:
        InvalidParameter: a number outside its range.

    Example:
        >>> CapReport(dim=10, epsilon=1.0).variance < LaplaceReport(dim=10, epsilon=1.0).variance
        True
    """

    share: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _checks.integer(self.dim, name="dim", minimum=2)
        if self.share is None:
            object.__setattr__(self, "share", _best_share(self.dim, self.epsilon))
        elif not 0.0 < self.share <= 0.5:
            raise InvalidParameter("share: expected a number in (0, 1/2]")

    @property
    def cap(self) -> float:
        """q as a number."""
        return 0.5 if self.share is None else self.share

    @property
    def density_ratio(self) -> tuple[float, float]:
        """Density in the cap and outside, relative to the uniform law."""
        total = 1.0 + math.expm1(self.epsilon) * self.cap
        return math.exp(self.epsilon) / total, 1.0 / total

    @property
    def shrinkage(self) -> float:
        """b: E[V | u] = b u."""
        return _shrinkage(self.cap, self.dim, self.epsilon)

    @property
    def variance(self) -> float:
        """1/(m b^2)."""
        return 1.0 / (self.dim * self.shrinkage**2)

    def privatize(self, vectors: FloatArray, rng: np.random.Generator) -> FloatArray:
        """(n, m) -> (n, m) points on the sphere of radius 1/b."""
        n, m = vectors.shape
        lengths = np.linalg.norm(vectors, axis=1)
        normals = rng.standard_normal((n, m))
        # The zero vector has no direction: any one will do, as its sign is then a fair coin.
        some = np.where(lengths[:, None] > 0.0, vectors, normals)
        units = some / np.linalg.norm(some, axis=1, keepdims=True)
        units *= np.where(rng.random(n) < (1.0 + np.minimum(lengths, 1.0)) / 2.0, 1.0, -1.0)[:, None]
        inside = rng.random(n) < self.cap * self.density_ratio[0]
        place = rng.random(n)
        tail = np.where(inside, self.cap * place, self.cap + (1.0 - self.cap) * place)
        a = (m - 1) / 2.0
        along = np.clip(2.0 * betainccinv(a, a, tail) - 1.0, -1.0, 1.0)[:, None]
        across = rng.standard_normal((n, m))
        across -= (across * units).sum(axis=1, keepdims=True) * units
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        return np.asarray((along * units + np.sqrt(1.0 - along**2) * across) / self.shrinkage)


def _shrinkage(share: float, dim: int, epsilon: float) -> float:
    a = (dim - 1) / 2.0
    edge = float(betainccinv(a, a, share))  # (1 + g)/2
    log_h = a * math.log(max(4.0 * edge * (1.0 - edge), np.finfo(float).tiny)) - float(betaln(0.5, a))
    growth = math.expm1(epsilon)
    return growth * math.exp(log_h) / (2.0 * a * (1.0 + growth * share))


@lru_cache(maxsize=256)
def _best_share(dim: int, epsilon: float) -> float:
    found = minimize_scalar(
        lambda log_share: -_shrinkage(math.exp(log_share), dim, epsilon),
        bounds=(math.log(0.5) - epsilon - 1.0, math.log(0.5)),
        method="bounded",
    )
    best = math.exp(float(found.x))
    return best if _shrinkage(best, dim, epsilon) > _shrinkage(0.5, dim, epsilon) else 0.5


@dataclass(frozen=True, kw_only=True)
class LaplaceReport(VectorReport):
    """The vector plus noise of density proportional to exp(-epsilon |e|/2): inputs are at most 2 apart."""

    @property
    def variance(self) -> float:
        """4 (m + 1)/epsilon^2."""
        return 4.0 * (self.dim + 1) / self.epsilon**2

    def privatize(self, vectors: FloatArray, rng: np.random.Generator) -> FloatArray:
        """(n, m) -> (n, m): a uniform direction times a Gamma(m) radius is added."""
        n, m = vectors.shape
        direction = rng.standard_normal((n, m))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        radius = rng.standard_gamma(m, (n, 1)) * (2.0 / self.epsilon)
        return clip_norm(vectors, 1.0) + radius * direction


@dataclass(frozen=True, kw_only=True)
class CoordinateReport(VectorReport):
    """One coordinate drawn uniformly, and one randomised bit about it."""

    @property
    def lean(self) -> float:
        """(e^epsilon - 1)/(e^epsilon + 1): how far the bit of a full coordinate leans."""
        return math.tanh(self.epsilon / 2.0)

    @property
    def variance(self) -> float:
        """m/lean^2."""
        return self.dim / self.lean**2

    def privatize(self, vectors: FloatArray, rng: np.random.Generator) -> FloatArray:
        """(n, m) -> (n, m): zero but for one coordinate, which is +-m/lean."""
        n, m = vectors.shape
        rows, column = np.arange(n), rng.integers(m, size=n)
        value = np.clip(vectors[rows, column], -1.0, 1.0)
        bit = np.where(rng.random(n) < (1.0 + self.lean * value) / 2.0, 1.0, -1.0)
        reports = np.zeros((n, m))
        reports[rows, column] = bit * (m / self.lean)
        return reports


VECTOR_REPORTS: dict[str, type[VectorReport]] = {
    "cap": CapReport,
    "laplace": LaplaceReport,
    "coordinate": CoordinateReport,
}
"""Mechanisms by name."""

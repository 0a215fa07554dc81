"""Laplace noise on a lattice: for rows (`L2Laplace`) and for single answers (`AnswerLaplace`).

**L2-Laplace, proof.** A row x of d coordinates is rounded to the lattice of step h, and released as z. On
the lattice P(z | x) = exp(-a |z - x|)/C with one C for all lattice points x, because the sum over all z of
exp(-a |z - x|) does not depend on x. The triangle inequality gives P(z | x)/P(z
| x') <= exp(a |x - x'|) for every z: pure metric differential privacy with no error term. With a =
epsilon/(distance + h sqrt(d)), two rows at distance D lose at most epsilon (D + h sqrt(d))/(distance + h
sqrt(d)). `dpbandits.privacy.samplers` draws from exactly this law.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._config import Configured
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import Certificate, PureDP
from dpbandits.privacy.noise import NoiseSource, words_of
from dpbandits.privacy.rows.base import LARGEST_COORDINATE, LatticeMechanism, from_lattice, lattice_step
from dpbandits.privacy.rows.noise_laws import L2LaplaceLaw, NoiseLaw
from dpbandits.privacy.samplers import check_rate, lattice_l2_laplace, lattice_laplace

__all__ = ["AnswerLaplace", "L2Laplace"]

# Largest absolute value of an answer; lattice steps then stay far from the limits of float64.
_WIDEST = 1e100


@dataclass(frozen=True, kw_only=True)
class L2Laplace(LatticeMechanism):
    """Mechanism with noise e of density proportional to exp(-epsilon |e|/distance), exact on a lattice.

    Args:
        definition: Promise; delta must be 0.
        dim: Number of coordinates of a row.

    Example:
        >>> from dpbandits.privacy.definitions import RowDP
        >>> mechanism = L2Laplace(definition=RowDP(epsilon=1.0, distance=1.0), dim=2)
        >>> mechanism.certificate
        PureDP(epsilon=1.0)
        >>> round(mechanism.epsilon_at(3.0), 3)
        3.0
    """

    name = "l2_laplace"
    described = ("step", "rate")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim > 24:
            raise InvalidParameter(
                f"exact L2-Laplace noise in {self.dim} dimensions would reject nearly every draw: "
                "use GaussianRows, which is also more accurate above about eleven dimensions"
            )
        check_rate(self.rate)

    @cached_property
    def reach(self) -> float:
        """Distance plus the largest effect of rounding, in public coordinates."""
        return self.definition.distance + self.step * math.sqrt(self.dim)

    @cached_property
    def rate(self) -> float:
        """Privacy loss per lattice step, rounded down."""
        return self.definition.epsilon / (self.reach / self.step) * (1.0 - 2.0**-48)

    @property
    def scale(self) -> float:
        """Mean length of the noise divided by the number of coordinates, in public coordinates."""
        return self.step / self.rate

    @cached_property
    def law(self) -> NoiseLaw:
        """Continuous distribution with the same rate; the lattice step is about 2^-16 of the distance."""
        return L2LaplaceLaw(dim=self.dim, scale=self.scale)

    def certificate_at(self, distance: float) -> Certificate:
        """Return a pure certificate whose loss is proportional to the distance plus the rounding term."""
        moved = _checks.number(distance, name="distance") + self.step * math.sqrt(self.dim)
        return PureDP(self.definition.epsilon * (moved / self.reach))

    def _draw(self, n: int, noise: NoiseSource) -> IntArray:
        return lattice_l2_laplace(self.rate, n, self.dim, words_of(noise, stream=1))

    def describe(self) -> str:
        """Return the distribution of the noise in words."""
        return "L2-Laplace on a lattice"


@worded
@dataclass(frozen=True, kw_only=True)
class AnswerLaplace(Configured):
    """Laplace noise for one answer, exact on a lattice: pure epsilon for answers at most `distance` apart.

    Args:
        epsilon: Privacy loss for two answers that differ by `distance`; for larger differences it is larger
            in proportion.
        distance: Distance eta, in the answer's unit.
        low: Public lower bound, to which answers are clipped before noise is added.
        high: Public upper bound, to which answers are clipped before noise is added.

    Raises:
        InvalidParameter: A number is out of its range, or the bounds are too large for the distance's
            lattice.
    """

    config_type = "laplace"

    epsilon: float
    distance: float
    low: float
    high: float

    def __post_init__(self) -> None:
        bound = partial(_checks.number, minimum=-_WIDEST)
        _checks.settle(self, epsilon=_checks.number, distance=_checks.number, low=bound, high=bound)
        if not (self.low < self.high <= _WIDEST and self.distance >= 1.0 / _WIDEST):
            raise InvalidParameter("low, high: expected two finite bounds of answers, low < high")
        if max(abs(self.low), abs(self.high)) / self.step > LARGEST_COORDINATE:
            raise InvalidParameter(
                f"answers up to {max(abs(self.low), abs(self.high)):g} do not fit the lattice of a distance "
                f"of {self.distance:g}: narrow the bounds, move them towards zero, or raise the distance"
            )
        check_rate(self.rate)

    @property
    def step(self) -> float:
        """Lattice step, a power of two."""
        return lattice_step(self.distance, 1)

    @property
    def rate(self) -> float:
        """Privacy loss per lattice step, rounded down; one step is added to the distance for rounding."""
        return self.epsilon / (self.distance / self.step + 1.0) * (1.0 - 2.0**-48)

    @property
    def sd(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(2.0) * self.step / self.rate

    @property
    def middle(self) -> float:
        """Middle of the bounds, which stands for the missing answer of a row before noise is added."""
        return 0.5 * (self.low + self.high)

    def privatize(self, values: FloatArray, noise: NoiseSource, *, position: int = 0) -> FloatArray:
        """Return the answers (n,) with fresh noise.

        Args:
            values: Answers, shape (n,).
            noise: Noise source.
            position: Number that distinguishes this call from others of a simulated source.
        """
        clipped = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        rounded = np.rint(clipped / self.step).astype(np.int64)
        words = words_of(noise, stream=1000 + position)
        return from_lattice(rounded + lattice_laplace(self.rate, len(rounded), words), self.step)

    def to_config(self) -> dict[str, Any]:
        """Return the public description for JSON, with the noise's standard deviation."""
        return super().to_config() | {"sd": self.sd}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's arguments from a configuration, without the standard deviation."""
        return super().arguments({name: value for name, value in config.items() if name != "sd"})

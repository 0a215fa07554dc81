r"""Release of means of bounded numbers: sums, sums of squares and a count, with noise, once.

Every person who counts brings J numbers u_j in [-1/2, 1/2]. Released are the J sums of u_j, the J sums of
u_j^2 and the number of persons who count. From them follow means and their sampling variances.

**Lattice.** With U = 2^20 steps, u becomes the integer q = rint(U u), cut at -U/2 and U/2. Its square becomes
s = floor(a q^2 / U) with a public weight a. Every person who counts adds the public weight b to the count.
The sums of these integers are exact. A person who does not count adds zero everywhere.

**Sensitivity.** Neighbouring data sets replace one person, who may count in one of them only.

*Both count.* Take one of the J numbers. Always |floor x - floor y| < |x - y| + 1. Write |q - q'| = U (1 - v)
with v in [0, 1]. Then |q + q'| <= U v, as |q| and |q'| are at most U/2.

- L1, a = 1: |q - q'| + |s - s'| < U (1 - v) + U (1 - v) v + 1 = U (1 - v^2) + 1. This integer is at most U.
- L2, a = 2: |(q - q', s - s')| < U (1 - v) sqrt(1 + a^2 v^2) + 1. Now (1 - v)^2 (1 + a^2 v^2) <= 1 if and
  only if a^2 <= (2 - v)/(v (1 - v)^2), which is at least 11.09, its value at v = (3 - sqrt(5))/2. So the
  norm is at most U + 1.

*One counts.* |q| <= U/2 and s <= a U/4.

- L1: J (U/2 + U/4) + b, which is J U for b = J U/4.
- L2: the square is at most J (U^2/4 + U^2/4) + b^2, at most J U^2 for b = floor(U sqrt(J/2)).

So squares and the count cost nothing: the sensitivity is J U in L1 and sqrt(J) (U + 1) in L2, as that of the
sums alone. `tests/privacy/test_moments.py` enumerates all pairs on small lattices.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import LARGEST_EPSILON
from dpbandits.privacy.certificates import Certificate, PureDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.samplers import check_rate

__all__ = ["MomentRelease", "NoiseLaw", "ReleasedMoments"]

NoiseLaw = Literal["laplace", "gaussian"]

_BITS = 20
_SQUARES: dict[NoiseLaw, int] = {"laplace": 1, "gaussian": 2}
"""Weight a of the squares, by the noise's law."""


class ReleasedMoments(NamedTuple):
    """Released numbers, in units of the numbers u; all of them are public.

    Attributes:
        sums: Sums of each of the J numbers over persons, (J,).
        squares: Sums of their squares, (J,).
        people: Number of persons who count.
        law: Law of the noise, which is independent in all entries.
        sum_sd, square_sd, people_sd: Standard deviations of the noise of an entry.
    """

    sums: tuple[float, ...]
    squares: tuple[float, ...]
    people: float
    law: NoiseLaw
    sum_sd: float
    square_sd: float
    people_sd: float


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentRelease:
    """Mechanism that releases sums, squares and count of J bounded numbers a person.

    Attributes:
        numbers: Number J of numbers of a person.
        noise: Noise source.
        law: Law of the noise.
        scale: Scale of the noise, in steps of the lattice.
        certificate: Certificate of the release.
        bits: Binary logarithm of the number U of steps; other than 20 for tests only.
    """

    numbers: int
    noise: NoiseSource
    law: NoiseLaw
    scale: float
    certificate: Certificate
    bits: int = _BITS

    @classmethod
    def planned(
        cls, epsilon: float, delta: float, noise: NoiseSource, *, numbers: int, law: NoiseLaw | None = None
    ) -> "MomentRelease":
        """Return the mechanism for a promise, with the law of smaller noise unless one is named.

        Args:
            epsilon, delta: Promise. Gaussian noise needs delta above 0; Laplace noise makes no use of delta.
            noise: Noise source.
            numbers: Number J of numbers of a person.
            law: Law of the noise; None for the one with the smaller standard deviation, a public choice.

        Raises:
            InvalidParameter: No noise of this law fits the promise.
        """
        loss = _checks.number(epsilon, name="epsilon")
        found: list[MomentRelease] = []
        if law != "gaussian":
            scale = math.nextafter(_l1(numbers, _BITS) / loss, math.inf)
            check_rate(1.0 / scale)
            found.append(
                cls(numbers=numbers, noise=noise, law="laplace", scale=scale, certificate=PureDP(loss))
            )
        if law != "laplace" and 0.0 < delta and loss <= LARGEST_EPSILON:
            sigma, proven = noise.gaussian_scale(_l2(numbers, _BITS), loss, delta, draws=2 * numbers + 1)
            found.append(cls(numbers=numbers, noise=noise, law="gaussian", scale=sigma, certificate=proven))
        if not found:
            raise InvalidParameter("law='gaussian' needs a delta above 0 and an epsilon of at most 50")
        return min(found, key=lambda one: one.sd)

    @property
    def sensitivity(self) -> float:
        """Largest change of the integers when one person is replaced: L1 for Laplace noise, else L2."""
        return (_l1 if self.law == "laplace" else _l2)(self.numbers, self.bits)

    @property
    def sd(self) -> float:
        """Standard deviation of the noise of an entry, in steps."""
        return self.scale * (math.sqrt(2.0) if self.law == "laplace" else 1.0)

    @property
    def count_weight(self) -> int:
        """Weight b of a person in the count, in steps."""
        steps = 1 << self.bits
        if self.law == "laplace":
            return self.numbers * steps // 4
        return math.isqrt(self.numbers * steps * steps // 2)

    def integers(self, values: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the integers q and s of numbers u of any shape; u outside [-1/2, 1/2] is cut.

        Raises:
            InvalidParameter: A number is NaN.
        """
        if np.isnan(values).any():  # callers leave such persons out
            raise InvalidParameter("values: expected numbers")
        half = 1 << (self.bits - 1)
        cut = np.rint(np.clip(values, -0.5, 0.5) * 2.0**self.bits).astype(np.int64)
        cut = np.clip(cut, -half, half)
        return cut, (_SQUARES[self.law] * cut * cut) >> self.bits

    @property
    def square_weight(self) -> int:
        """Weight a of squares."""
        return _SQUARES[self.law]

    def summed(self, values: FloatArray) -> IntArray:
        """Return the sums of q, those of s and the number n of persons, (2J + 1,), of numbers (n, J)."""
        parts = [self.integers(column) for column in values.T]
        return np.array([*(q.sum() for q, _ in parts), *(s.sum() for _, s in parts), len(values)])

    def release(self, values: FloatArray) -> ReleasedMoments:
        """Return the moments of numbers (n, J) of the n persons who count; noise is added here."""
        return self.release_sums(self.summed(values))

    def release_sums(self, sums: IntArray) -> ReleasedMoments:
        """Return the moments from `summed` (2J + 1,), in any engine; noise is added here."""
        vector = np.append(sums[:-1], self.count_weight * sums[-1]).astype(np.int64)
        if self.law == "laplace":
            rate = math.nextafter(1.0 / self.scale, 0.0)  # not above epsilon over the sensitivity
            noisy = vector + self.noise.integer_laplace(rate, len(vector))
        else:
            noisy = vector + self.noise.integer_gaussian(self.scale, len(vector))
        step, squares = 2.0**-self.bits, 2.0**-self.bits / _SQUARES[self.law]
        return ReleasedMoments(
            tuple((noisy[: self.numbers] * step).tolist()),
            tuple((noisy[self.numbers : -1] * squares).tolist()),
            float(noisy[-1]) / self.count_weight,
            self.law,
            self.sd * step,
            self.sd * squares,
            self.sd / self.count_weight,
        )

    def record(self, name: str) -> MechanismRecord:
        """Return the description of the noise, for a guarantee."""
        pure = self.law == "laplace"
        return MechanismRecord(
            name=name,
            law="discrete Laplace" if pure else self.noise.gaussian_law,
            scale=self.scale,
            sensitivity=self.sensitivity,
            certificate=self.certificate,
            releases=1,
            unit="in steps of the released integers",
            step=2.0**-self.bits,
            shown_in=f"in widths of the cut numbers, {'L1' if pure else 'L2'}",
        )


def _l1(numbers: int, bits: int) -> float:
    return float(numbers * (1 << bits))


def _l2(numbers: int, bits: int) -> float:
    return math.sqrt(numbers) * ((1 << bits) + 1) * (1.0 + 2.0**-50)

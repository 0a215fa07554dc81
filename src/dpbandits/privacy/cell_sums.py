r"""Rewards summed in public cells, with discrete Laplace noise: pure epsilon for any number of cells.

A round whose action lies in cell c and whose reward is y, scaled to [0, 1], adds one integer to that cell,

    v = round(2^20 (2 y - 1)),    |v| <= 2^20.

v / 2^21 is the reward less 1/2. The round adds nothing to other cells, and a round without a reward adds
nothing at all. A block releases the sum of every cell.

**Sensitivity.** Replacing one round by any other changes the block's integers by at most 2^21 in L1: in two
different cells by |v| + |v'|, in the same one by |v - v'| <= |v| + |v'|. Both bounds are reached, by a
lowest reward in place of a highest one.

**Noise** of every integer is discrete Laplace, P(k) proportional to exp(-rate |k|), independently, with

    rate <= epsilon / (k 2^21),    k = rounds_per_user.

**Formal guarantee.** Every round belongs to one block, fixed by public numbers. Let each block's cells be a
function of past releases. Let replacing one user, for fixed past releases, change only the contributions of
that user's rounds. Then the stream of all releases is epsilon-DP, for any number of blocks, known or not.

**Proof.** Fix two neighbouring data sets and the past releases. Let k_j be the number of the replaced user's
rounds in block j. The integers of block j differ by a vector v_j with |v_j|_1 <= k_j 2^21 (triangle
inequality), and do not differ if k_j = 0. The ratio of the probabilities of one outcome z is the product
over its entries of exp(-rate (|z_i| - |z_i + v_ji|)) <= exp(rate |v_ji|), so at most exp(rate k_j 2^21) <=
exp(epsilon k_j / k). Along every path the ratios of the blocks multiply, and sum_j k_j <= k. So the product
is at most exp(epsilon).  QED.

No entry is rounded after noise is added, and no float becomes an output. The sampler is exact for the rate
as the rational number that its float64 is, which lies below epsilon / (k 2^21).
"""

import math
from dataclasses import dataclass

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.samplers import check_rate

__all__ = ["CENTRED", "CellSums"]

CENTRED = 2.0**-21
"""Value of one unit of a released sum, in centred rewards of a range of width 1."""

_MOST = 1 << 20
"""Largest absolute value of a round's integer."""


@dataclass(frozen=True, kw_only=True)
class CellSums:
    """Mechanism that adds noise to sums of rewards in cells. It stores no releases.

    Args:
        epsilon: Privacy loss of all releases together.
        rounds_per_user: Contribution bound k: largest number of rounds of one user. The noise is
            proportional to it.
        noise: Noise source.

    Raises:
        InvalidParameter: A number is out of its range.

    Example:
        >>> from dpbandits.privacy.noise import SimulatedNoise
        >>> sums = CellSums(epsilon=1.0, noise=SimulatedNoise(0))
        >>> sums.encode(np.array([0, 2, 2]), np.array([1.0, 0.0, 0.25]), n_cells=3) * CENTRED
        array([ 0.5 ,  0.  , -0.75])
        >>> round(sums.noise_sd, 6)
        1.414214
    """

    epsilon: float
    rounds_per_user: int = 1
    noise: NoiseSource

    def __post_init__(self) -> None:
        _checks.settle(self, epsilon=_checks.number, rounds_per_user=_checks.integer)
        _checks.an(self.noise, NoiseSource, name="noise", pass_="noise=SecureNoise()")
        check_rate(self.rate)  # raises here, and not at the first release, if no noise fits the promise

    @property
    def sensitivity(self) -> float:
        """Largest L1 change of all releases together when one user is replaced, in integer units."""
        return float(self.rounds_per_user * 2 * _MOST)

    @property
    def rate(self) -> float:
        """Rate of the noise: the largest float64 below epsilon / sensitivity."""
        return math.nextafter(self.epsilon / self.sensitivity, 0.0)

    @property
    def scale(self) -> float:
        """Scale of the noise, 1 / rate, in integer units."""
        return 1.0 / self.rate

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise of a cell's sum, for rewards scaled to a range of width 1."""
        return math.sqrt(2.0) * self.scale * CENTRED

    def encode(self, cells: IntArray, rewards: FloatArray, *, n_cells: int) -> IntArray:
        """Return the exact integer sums (n_cells,) of a block.

        Args:
            cells: Public cell of every round with a reward, shape (n,), 0 to n_cells - 1.
            rewards: Rewards scaled to [0, 1], shape (n,); values outside are clipped.
            n_cells: Public number of cells.

        Raises:
            InvalidData: Shapes are wrong, a cell number is out of range, or a reward is NaN.
        """
        where, y = np.asarray(cells), np.asarray(rewards, dtype=np.float64)
        if where.ndim != 1 or where.shape != y.shape or where.dtype.kind not in "iu":
            raise InvalidData(f"cells {where.shape}, rewards {y.shape}: expected (n,) integers and (n,)")
        if len(where) and not (0 <= where.min() and where.max() < n_cells):
            raise InvalidData(f"cells: expected numbers from 0 to {n_cells - 1}")
        if np.isnan(y).any():
            raise InvalidData("rewards hold NaN")
        own = np.rint((2.0 * np.clip(y, 0.0, 1.0) - 1.0) * _MOST)
        # sums of integers below 2^53: exact in any order
        return np.bincount(where, weights=own, minlength=n_cells).astype(np.int64)

    def release(self, sums: IntArray) -> IntArray:
        """Return a block's integer sums (C,) of C cells with fresh noise. Call it once for every block."""
        return sums + self.noise.integer_laplace(self.rate, len(sums))

    def record(self, releases: int) -> MechanismRecord:
        """Return the description of this mechanism for a guarantee and for the log of releases."""
        return MechanismRecord(
            name="sums of centred rewards in public cells",
            law="discrete Laplace",
            scale=self.scale,
            sensitivity=self.sensitivity,
            certificate=PureDP(self.epsilon),
            releases=releases,
            unit="in units of the released integers, L1 over cells",
            step=CENTRED,
            shown_in="in reward units, L1 over cells",
        )

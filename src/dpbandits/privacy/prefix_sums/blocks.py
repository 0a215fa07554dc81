r"""The matrix mechanism: sums over blocks, released one after another under one calibrated noise.

Rounds are divided into K blocks fixed in advance. When block j closes, the integer sums x_0..x_j of
the blocks so far are mixed and released,

    r_j = round((R x)_j / unit) + zeta_j,    zeta_j integer Gaussian noise, unit = 2^-20.

R is lower triangular with columns of norm at most 1 (`Factor`). The estimate of a block, or of a prefix (all
blocks up to j), is a linear function of r_0..r_j, which is post-processing. Good factors spread the noise so
that the error of a prefix grows like log K, not like sqrt(K).

**Formal guarantee.** Let x be computed from users' data and from past releases in any way such that, for
fixed past releases, replacing one user changes only the contributions of that user's rounds. Let every user
have at most k rounds, each of which contributes at most Delta to its block, in the mechanism's coordinates
(divided by `unit`). Then the whole stream r_0, ..., r_{K-1} is rho-zCDP with

    sqrt(2 rho) sigma = k Delta max_i ||R_{:,i}|| + (1 + slack) sqrt(D n),

with D the number of coordinates, n = min(K, k max_i #{j: R_ji != 0}) the number of releases that one user
can affect, and `slack` a bound on float64 errors.

**Proof.** Fix two neighbouring data sets and r_0..r_{j-1}. Under both, r_j is discrete Gaussian noise on an
integer vector. The two vectors differ by v_j = (R (x - x'))_j/unit + e_j, where e_j comes from rounding. It
is 0 unless the user touches release j. If so, every entry is at most 1 + slack (1/2 for each neighbour, and
slack for float64 arithmetic). For every order alpha the conditional Renyi divergence is therefore at most
alpha ||v_j||^2/(2 sigma^2) (Canonne, Kamath, Steinke 2020).

v_j may depend on the past, yet along every path sum_j ||v_j||^2 <= s^2, where s is the right-hand side
above. Stacked over j, the mixed changes are a sum over the user's rounds t in blocks i(t) of R_{:,i(t)} (x)
delta_t, of norm at most ||R_{:,i(t)}|| Delta each (triangle inequality). The stacked e_j have norm at most
(1 + slack) sqrt(D n). A reward that arrives after its block closed counts from the next release on. That
only removes entries of R_{:,i}.

Finally, with L_j the log-likelihood ratio of r_j given the past and d_j = alpha ||v_j||^2/(2 sigma^2),
prod_j exp((alpha-1)(L_j - d_j)) is a supermartingale, so
E exp((alpha-1) sum_j L_j) <= exp((alpha-1) alpha s^2/(2 sigma^2)).  QED.

**Certificates.** With real-valued Gaussian noise, rounded or not, the stream is GaussianDP(s/sigma) (Denisov
et al. 2022; Smith, Thakurta 2022 for changes that depend on the past). This is the certificate of simulated
noise. All K D draws of discrete noise are within K D `rounding_distance(sigma)` of it in total variation
(couple the noise, draw by draw). This gives `NearGaussianDP`, the certificate of secure noise on a lattice
this fine (`dpbandits.privacy.noise`). K is bounded even if the horizon is not, because int64 bounds the
number of rounds of open-ended schedules.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.gram_vector import LATTICE, GramVectorMechanism
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.prefix_sums.factors import Factor

__all__ = ["RELEASE_UNIT", "BlockRelease", "CalibratedRelease"]

RELEASE_UNIT = 2.0**-20
"""Value of one unit of a released integer, in coordinates. The noise is a few million units."""


@dataclass(frozen=True, kw_only=True)
class CalibratedRelease(ABC):
    """Base class of releases of sums of a mechanism's contributions, with one noise scale for all of them.

    Args:
        mechanism: Coordinates and sensitivity of the sums, including the contribution bound.
        noise: Noise source, which determines scale and certificate.
        epsilon: Privacy loss of all releases together; see `dpbandits.privacy.calibration`.
        delta: Failure probability of all releases together.
    """

    mechanism: GramVectorMechanism
    noise: NoiseSource
    epsilon: float
    delta: float

    @property
    @abstractmethod
    def sensitivity(self) -> float:
        """Largest Euclidean distance between all releases of two neighbouring data sets together, in release
        units.
        """

    @property
    @abstractmethod
    def draws(self) -> int | None:
        """Number of noise draws in the near-Gaussian certificate; None for a zero-concentrated one."""

    def _check_parts(self) -> None:
        _checks.an(
            self.mechanism,
            GramVectorMechanism,
            name="mechanism",
            pass_="mechanism=GramVectorMechanism(n_features=m)",
        )
        _checks.an(self.noise, NoiseSource, name="noise", pass_="noise=SecureNoise()")

    @cached_property
    def _calibration(self) -> tuple[float, Certificate | None]:
        return self.noise.gaussian_scale(self.sensitivity, self.epsilon, self.delta, draws=self.draws)

    @property
    def sigma(self) -> float:
        """Scale of the noise of every released number, in release units."""
        return self._calibration[0]

    @property
    def certificate(self) -> Certificate | None:
        """Certificate of all releases together, about one user; None if the scale was overridden."""
        return self._calibration[1]

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise of one released number, in coordinates."""
        return self.sigma * RELEASE_UNIT

    def _noised(self, coordinates: FloatArray) -> IntArray:
        """Return exact coordinates (D,) in release units with fresh noise. Only here are raw data joined with
        noise.
        """
        rounded = np.rint(coordinates / RELEASE_UNIT).astype(np.int64)
        return rounded + self.noise.integer_gaussian(self.sigma, self.mechanism.size)

    def _recorded(self, how: str, releases: int, *, width: float) -> MechanismRecord:
        """Return the description of the noise for a guarantee.

        Scale and sensitivity are shown in reward units. A vector entry of `vector_noise_sd(1)` widths of the
        reward range has the coordinate 1, and so has a Gram entry of 1. So a Gram entry of 1 counts as
        `reward` units.
        """
        reward = self.mechanism.vector_noise_sd(1.0) * width
        what, shown = "sums of centred rewards times features", "in reward units, L2"
        if not self.mechanism.vector_only:
            what = f"Gram matrix of features and {what}"
            shown += f"; an entry of the Gram matrix counts {reward:.4g} times"
        return MechanismRecord(
            name=f"{what}, {how}",
            law=self.noise.gaussian_law,
            scale=self.sigma,
            sensitivity=self.sensitivity,
            certificate=self.certificate,
            releases=releases,
            unit="in units of the released integers",
            step=RELEASE_UNIT * reward,
            shown_in=shown,
        )


@dataclass(frozen=True, kw_only=True)
class BlockRelease(CalibratedRelease):
    """Matrix mechanism: mixes the sums of blocks and adds noise. It stores no releases.

    Args:
        mechanism, noise, epsilon, delta: See `CalibratedRelease`.
        factor: Mixing matrix R; its size is the number K of blocks.
        max_rounds: Public bound on the number of rounds in all blocks, from which float64 errors are
            bounded.

    Raises:
        InvalidParameter: A number is out of its range.

    Example:
        >>> from dpbandits.privacy.noise import SimulatedNoise
        >>> from dpbandits.privacy.prefix_sums.factors import square_root_toeplitz
        >>> release = BlockRelease(
        ...     factor=square_root_toeplitz(2), mechanism=GramVectorMechanism(n_features=3),
        ...     noise=SimulatedNoise(0), epsilon=1.0, delta=1e-6)
        >>> sums = np.zeros((1, 9), dtype=np.int64)
        >>> release.release(0, sums).shape, round(release.gram_noise_sd, 2)
        ((9,), 11.95)
    """

    factor: Factor
    max_rounds: int = 1 << 20

    def __post_init__(self) -> None:
        _checks.an(self.factor, Factor, name="factor", pass_="factor=square_root_toeplitz(n_blocks)")
        self._check_parts()
        rounds = _checks.integer(self.max_rounds, name="max_rounds")
        if rounds > 1 << 22:
            raise InvalidParameter(f"max_rounds is {rounds}: int64 sums hold at most 2^22 rounds")
        _ = self._calibration  # raises here, and not at the first release, if no noise fits the promise

    @property
    def slack(self) -> float:
        """Bound on the difference between two neighbours that float64 errors cause, in release units.

        A dot product with n nonzero terms, each after three roundings, has an error of at most (n + 3) 2^-53
        times the sum of absolute terms, in any order of summation. Twice as much is used, because the errors
        of two neighbouring data sets may have opposite signs.
        """
        terms = int((self.factor.matrix != 0.0).sum(axis=1).max())
        largest = float(np.abs(self.factor.matrix).max()) * self.mechanism.largest_coordinate
        return 2.0 * (terms + 3) * 2.0**-52 * largest * self.max_rounds / RELEASE_UNIT

    @property
    def sensitivity(self) -> float:
        """Sensitivity of the whole stream of releases, in release units; the module derives it."""
        # 2^-40 covers the rounding of column norms, of sqrt(2) and sqrt(r), and of this formula
        columns = self.factor.column_norm * (1.0 + 2.0**-40)
        touched = min(self.factor.n_blocks, self.mechanism.rounds_per_user * self.factor.touched)
        rounding = (1.0 + self.slack) * math.sqrt(self.mechanism.size * touched)
        return self.mechanism.sensitivity * columns / RELEASE_UNIT + rounding

    @property
    def draws(self) -> int:
        """Number K D of all noise draws."""
        return self.factor.n_blocks * self.mechanism.size

    @property
    def gram_noise_sd(self) -> float:
        """Standard deviation of the noise of a released Gram matrix's diagonal, in natural units.

        Off the diagonal it is this number over sqrt(2).
        """
        return self.mechanism.gram_noise_sd(self.noise_sd)

    @property
    def vector_noise_sd(self) -> float:
        """Standard deviation of the noise of a released vector's entries, in natural units."""
        return self.mechanism.vector_noise_sd(self.noise_sd)

    def release(self, block: int, raw_sums: IntArray) -> IntArray:
        """Return row `block` of the mixing matrix times the blocks' sums, with fresh noise.

        Call it once for every block, in order. Store the result before you use or publish anything computed
        from it. A second call for the same block is a second release, which the certificate does not cover.

        Args:
            block: Index of the block that closed, 0 to K - 1.
            raw_sums: Integer sums from the mechanism's `encode`, shape (block + 1, D).

        Returns:
            Integers in units of `RELEASE_UNIT`, shape (D,).

        Raises:
            InvalidParameter: There is no such block.
            InvalidData: The sums have another shape or type, or come from more than `max_rounds` rounds.
        """
        index = _checks.integer(block, name="block", minimum=0)
        if index >= self.factor.n_blocks:
            raise InvalidParameter(f"block {index}: there are {self.factor.n_blocks} blocks, counted from 0")
        sums = np.asarray(raw_sums)
        shape = (index + 1, self.mechanism.size)
        if sums.dtype != np.int64 or sums.shape != shape:
            raise InvalidData(f"raw_sums of {sums.dtype} {sums.shape}: expected int64 {shape}")
        if (np.abs(sums.astype(np.float64)).sum(axis=0) > self.max_rounds / LATTICE).any():
            raise InvalidData(f"the sums are too large for max_rounds = {self.max_rounds} rounds")
        return self._noised(self.factor.matrix[index, : index + 1] @ self.mechanism.to_coordinates(sums))

    def record(self, *, width: float = 1.0) -> MechanismRecord:
        """Return the description of this use of noise, for a guarantee.

        Args:
            width: width of the reward range.
        """
        how = "matrix mechanism over the blocks" if self.factor.touched > 1 else "each block by itself"
        return self._recorded(how, self.factor.n_blocks, width=width)

    def prepare(self) -> None:
        """Draw the noise of the next release ahead of time, if the noise source can do that."""
        prepare = getattr(self.noise, "prepare", None)
        if prepare is not None:
            prepare(self.sigma, self.mechanism.size)

    def block_estimates(self, released: IntArray) -> FloatArray:
        """Return unbiased estimates (k, D) of the first k blocks' sums, in coordinates, from k releases.

        Their noise has the covariance noise_sd^2 factor.block_covariance(k) between blocks, in every
        coordinate.
        """
        return self.factor.unmix(np.asarray(released * RELEASE_UNIT, dtype=np.float64))

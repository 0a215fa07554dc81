"""Noise of marginal tables: division of epsilon between sums and counts, and certificates of both.

A release has counts of contexts in t tables, and sums of rewards in q other tables. `release` and
`dpbandits.central.logged.tables` derive their sensitivities. `TableNoise` is discrete Laplace noise on the
sums, with separate noise on the counts. `VectorNoise` is Gaussian noise on sums and counts of a single
release together.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import LARGEST_EPSILON
from dpbandits.privacy.certificates import Certificate, PureBeside, PureDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource, words_of
from dpbandits.privacy.samplers import GREATEST_RATE, check_rate, lattice_laplace

__all__ = ["CONTEXT_SHARE", "CONTEXT_SQUARE", "TableNoise", "VectorNoise"]

CONTEXT_SHARE = 0.15
"""Share of epsilon for the counts of contexts; chosen on tuning tables."""

CONTEXT_SQUARE = 0.15
"""Share of the counts in the squared sensitivity of sums and counts together; chosen on tuning tables.

`python -m reproduction.tuning.releases --only many` compares it with other values.
"""

_SUMS, _COUNTS, _CENSUS = 0x6D617267, 0x63747874, 0x63656E73
"""Numbers of the random streams of simulated noise, to which the release's number is added."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableNoise:
    """Noise of a number of releases of sums and counts, which share one epsilon and delta.

    Attributes:
        privacy: Promise of all releases together.
        releases: Number of releases; a user's k rounds may be in any of them.
        tables: Number t of tables of counts.
        gaussian_law: Name of the noise source's Gaussian law.
        sum_epsilon, count_epsilon: Parts of epsilon for sums and for counts. As rational numbers, these
            floats add up to at most epsilon.
        laplace: True if counts have discrete Laplace noise, else Gaussian.
        scale: Scale of the counts' noise.
        sd: Standard deviation of the counts' noise.
        counts: Certificate of the counts' noise.
    """

    privacy: JointDP
    releases: int
    tables: int
    gaussian_law: str
    sum_epsilon: float
    count_epsilon: float
    laplace: bool = True
    scale: float
    sd: float
    counts: Certificate

    @classmethod
    def planned(
        cls, privacy: JointDP, noise: NoiseSource, *, tables: int, cells: int, releases: int = 1
    ) -> "TableNoise":
        """Return the noise plan with the smaller noise on counts, which get `CONTEXT_SHARE` of epsilon.

        Args:
            privacy: Promise.
            noise: Noise source.
            tables: Number of tables of counts.
            cells: Bound on the number of counts in a release that one user's rounds can change.
            releases: Number of releases.

        Raises:
            InvalidParameter: No noise fits the promise.
        """
        loss = CONTEXT_SHARE * privacy.epsilon
        # just below the difference, which may have been rounded up
        rest = float(np.nextafter(privacy.epsilon - loss, 0.0))
        absolute, euclidean = _count_sensitivities(tables, privacy.rounds_per_user)
        check_rate(loss / absolute)
        shared: dict[str, Any] = {
            "privacy": privacy,
            "releases": releases,
            "tables": tables,
            "gaussian_law": noise.gaussian_law,
            "sum_epsilon": rest,
            "count_epsilon": loss,
        }
        scale = absolute / loss
        sd = float(np.sqrt(2.0)) * scale
        if privacy.delta > 0.0:
            entries = cells * min(releases, privacy.rounds_per_user)
            sigma, proven = noise.gaussian_scale(euclidean, loss, privacy.delta, draws=entries)
            if sigma < sd:
                return cls(**shared, laplace=False, scale=sigma, sd=sigma, counts=proven)
        return cls(**shared, scale=scale, sd=sd, counts=PureDP(loss))

    def largest_error(self, weights: Sequence[FloatArray], *, failure: float) -> float:
        """Return a bound that noise in a weighted sum of counts exceeds with probability at most `failure`.

        It is Chernoff's bound for the sum over releases. For a term of weight w, log E exp(t w noise) is at
        most -log(1 - (t w scale)^2) for discrete Laplace noise, as for real noise, and (t w sd)^2/2 for
        Gaussian noise. With noise X, P(X > x) <= exp(-t x) E exp(t X), so every t gives a bound.

        Args:
            weights: Weights (n,) of the counts of each release.
            failure: Probability with which the bound may be exceeded.
        """
        if not self.laplace:
            return self.sd * float(np.sqrt(-2.0 * np.log(failure) * sum((own**2).sum() for own in weights)))
        scaled = [self.scale * own for own in weights]
        rates = np.linspace(0.02, 0.98, 49) / max(own.max() for own in scaled)
        logs = -sum(np.log1p(-((rates[:, None] * own) ** 2)).sum(axis=1) for own in scaled)
        return float(((logs - np.log(failure)) / rates).min())

    @property
    def count_sensitivities(self) -> tuple[float, float]:
        """L1 and L2 sensitivities of the counts to one user's rounds."""
        return _count_sensitivities(self.tables, self.privacy.rounds_per_user)

    def sum_rate(self, sensitivity: int) -> float:
        """Return the rate of the sums' noise for an L1 sensitivity of `sensitivity` to one user's rounds."""
        rate = float(np.nextafter(self.sum_epsilon / sensitivity, 0.0))
        check_rate(rate)
        return rate

    def on_sums(self, sensitivity: int, size: int, noise: NoiseSource, *, number: int) -> IntArray:
        """Draw the noise (size,) of release `number`'s sums."""
        return lattice_laplace(self.sum_rate(sensitivity), size, words_of(noise, stream=_SUMS + number))

    def on_census(self, columns: int, size: int, noise: NoiseSource) -> IntArray:
        """Draw noise (size,) for a census: counts of users in bins of columns, with the epsilon of sums."""
        return lattice_laplace(
            self.sum_rate(self.census_sensitivity(columns)), size, words_of(noise, stream=_CENSUS)
        )

    def census_sensitivity(self, columns: int) -> int:
        """Return a bound on the L1 sensitivity of a census of this many columns to one user's rounds.

        The bound is larger than needed if the exact sensitivity would give a noise rate above
        `GREATEST_RATE`.
        """
        return max(2 * columns * self.privacy.rounds_per_user, math.ceil(self.sum_epsilon / GREATEST_RATE))

    def census_record(self, columns: int) -> MechanismRecord:
        """Return the description of the noise of a census of this many columns."""
        sensitivity = self.census_sensitivity(columns)
        return MechanismRecord(
            name="census counts of people in each bin of a range",
            law="discrete Laplace",
            scale=sensitivity / self.sum_epsilon,
            sensitivity=float(sensitivity),
            certificate=PureDP(self.sum_epsilon),
            releases=1,
            unit="in people",
        )

    def on_counts(self, size: int, noise: NoiseSource, *, number: int) -> IntArray:
        """Draw the noise (size,) of release `number`'s counts."""
        if not self.laplace:
            return noise.integer_gaussian(self.scale, size)
        rate = float(np.nextafter(self.count_epsilon / self.count_sensitivities[0], 0.0))
        return lattice_laplace(rate, size, words_of(noise, stream=_COUNTS + number))

    @property
    def certificate(self) -> Certificate:
        """Certificate of all releases together."""
        if self.laplace:
            return PureDP(self.privacy.epsilon)
        return PureBeside(self.sum_epsilon, self.counts)

    def records(self) -> tuple[MechanismRecord, MechanismRecord]:
        """Return the descriptions of both mechanisms, for sums and for counts."""
        sums = MechanismRecord(
            name="sums of rewards less a public centre, for each arm and cell of a few columns",
            law="discrete Laplace",
            scale=1.0 / self.sum_epsilon,
            sensitivity=1.0,
            certificate=PureDP(self.sum_epsilon),
            releases=self.releases,
            unit="in units of what one user's rounds can change, summed over cells",
        )
        absolute, euclidean = self.count_sensitivities
        tables = MechanismRecord(
            name="counts of people in each cell of one or two columns",
            law="discrete Laplace" if self.laplace else self.gaussian_law,
            scale=self.scale,
            sensitivity=absolute if self.laplace else euclidean,
            certificate=self.counts,
            releases=self.releases,
            unit="in people",
        )
        return sums, tables

    def record(self) -> MechanismRecord:
        """Return the description for the log of releases: the counts' noise, and the joint certificate."""
        first, last = self.records()
        return MechanismRecord(
            name="marginal tables",
            law=f"{first.law} and {last.law}",
            scale=last.scale,
            sensitivity=last.sensitivity,
            certificate=self.certificate,
            releases=self.releases,
            unit=last.unit,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class VectorNoise:
    """Gaussian noise of one release, on sums and counts as one integer vector.

    A row adds at most U in size to one entry of each of q tables of sums, and an integer W to one entry of
    each of t tables of counts. Let another row replace it.

    - In a table of sums, if both rows are in one entry, it changes by at most 2 U. If they are in two
      entries, each changes by at most U, which is sqrt(2) U in L2. So a table changes by at most 2 U in L2.
    - In a table of counts nothing changes, or two entries change by W: sqrt(2) W in L2.

    - There may be one table of weights, in which a row adds an integer from 0 to V to one entry. It changes
      by at most V if both rows are in one entry, else by at most sqrt(2) V.

    The vector changes by at most sqrt(4 q U^2 + 2 t W^2 + 2 V^2) for each row that is replaced, and by k
    times this for k rows (triangle inequality). A row that enters or leaves changes it by less,
    sqrt(q U^2 + t W^2 + V^2).

    Noise calibrated to this sensitivity is drawn once for every entry. This is also right if some tables are
    released first and determine the cells of the others. A row is in one cell of a table for any cells, and
    the squared sensitivities of both parts add up to at most the square of the bound. W is public: counts
    have the share `CONTEXT_SQUARE` of the squared sensitivity, up to the rounding of W.

    Attributes:
        privacy: Promise.
        weight: Weight W of a count.
        sensitivity: L2 sensitivity of the vector to one user's rows.
        sigma: Scale of the noise.
        gaussian_law: Name of the noise source's Gaussian law.
        certificate: Certificate of the noise.
    """

    privacy: JointDP
    weight: int
    sensitivity: float
    sigma: float
    gaussian_law: str
    certificate: Certificate

    @classmethod
    def planned(
        cls,
        privacy: JointDP,
        noise: NoiseSource,
        *,
        units: int,
        sums: int,
        counts: int,
        entries: int,
        weights: int = 0,
    ) -> "VectorNoise | None":
        """Return the noise that the promise needs; None if Gaussian noise cannot satisfy it.

        Args:
            privacy: Promise.
            noise: Noise source.
            units: Largest size U of a row's entry in a table of sums.
            sums: Number q of tables of sums.
            counts: Number t of tables of counts.
            entries: Bound on the number of entries of the vector that one user's rows can change.
            weights: Largest entry V of a row in the table of weights; 0 if there is none.
        """
        if not 0.0 < privacy.delta or privacy.epsilon > LARGEST_EPSILON:
            return None
        share = CONTEXT_SQUARE / (1.0 - CONTEXT_SQUARE)
        weight = max(1, int(units * math.sqrt(2.0 * sums * share / counts)))
        square = 4 * sums * units**2 + 2 * counts * weight**2 + 2 * weights**2
        sensitivity = math.sqrt(square) * privacy.rounds_per_user * (1.0 + 2.0**-40)
        try:
            sigma, proven = noise.gaussian_scale(sensitivity, privacy.epsilon, privacy.delta, draws=entries)
        except InvalidParameter:  # the sampler lacks noise of this scale, which depends on public numbers
            return None
        return cls(
            privacy=privacy,
            weight=weight,
            sensitivity=sensitivity,
            sigma=sigma,
            gaussian_law=noise.gaussian_law,
            certificate=proven,
        )

    @property
    def sd(self) -> float:
        """Standard deviation of the noise of a count, in users."""
        return self.sigma / self.weight

    def released(self, sums: IntArray, counts: IntArray, noise: NoiseSource) -> IntArray:
        """Return sums (n,) and counts (m,) times `weight`, as one vector (n + m,) with fresh noise."""
        vector = np.concatenate([sums, self.weight * counts])
        return vector + noise.integer_gaussian(self.sigma, len(vector))

    def records(self) -> tuple[MechanismRecord, ...]:
        """Return the description of the only mechanism."""
        return (self.record(),)

    def record(self) -> MechanismRecord:
        """Return the description for the log of releases."""
        return MechanismRecord(
            name="marginal tables: sums of rewards less a public centre, and counts of people, as one vector",
            law=self.gaussian_law,
            scale=self.sigma / self.sensitivity,
            sensitivity=1.0,
            certificate=self.certificate,
            releases=1,
            unit="in units of what one user's rows can change, in Euclidean distance",
        )


def _count_sensitivities(tables: int, rounds: int) -> tuple[float, float]:
    return 2.0 * tables * rounds, float(np.sqrt(2.0 * tables)) * rounds * (1.0 + 2.0**-40)

"""Noise of marginal tables: how a promise is divided between sums and counts, and what both certify.

A release has counts of contexts in t tables, and sums over q others; `release` and
`dpbandits.central.logged.tables` say what one row changes in them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.privacy.certificates import Certificate, PureBeside, PureDP
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource, words_of
from dpbandits.privacy.samplers import GREATEST_RATE, check_rate, lattice_laplace

__all__ = ["CONTEXT_SHARE", "TableNoise"]

CONTEXT_SHARE = 0.15
"""Of epsilon, for the law of contexts; chosen on tuning tables."""

_SUMS, _COUNTS, _CENSUS = 0x6D617267, 0x63747874, 0x63656E73
"""Streams of simulated words, beside the release's number."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TableNoise:
    """The noise of so many releases of sums and counts, all under one promise.

    Attributes:
        privacy: the promise.
        releases: how many; a user's k rounds may lie in any of them.
        tables: of counts, t.
        gaussian_law: of the source.
        sum_epsilon, count_epsilon: together at most epsilon, as the rational numbers that these floats are.
        laplace: whether counts have discrete Laplace noise, else Gaussian.
        scale, sd: of the counts' noise.
        counts: what it certifies.
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
        """The smaller of both noises for the counts, with `CONTEXT_SHARE` of epsilon: a public choice.

        Args:
            privacy: the promise.
            noise: where the noise will come from.
            tables, cells: of counts.
            releases: how many.

        Raises:
            InvalidParameter: a promise that cannot be kept.
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
        """A bound that noise in a weighted sum of counts exceeds with probability `failure` at most.

        Chernoff's bound, for the sum over releases. A term of weight w has log E exp(t w noise) of at most
        -log(1 - (t w scale)^2) for discrete Laplace noise, as for a real one, and (t w sd)^2/2 for Gaussian
        noise. With noise X, P(X > x) <= exp(-t x) E exp(t X), so every t gives a bound.

        Args:
            weights: for each release the weights (n,) of its counts.
            failure: probability with which the bound may be exceeded.
        """
        if not self.laplace:
            return self.sd * float(np.sqrt(-2.0 * np.log(failure) * sum((own**2).sum() for own in weights)))
        scaled = [self.scale * own for own in weights]
        rates = np.linspace(0.02, 0.98, 49) / max(own.max() for own in scaled)
        logs = -sum(np.log1p(-((rates[:, None] * own) ** 2)).sum(axis=1) for own in scaled)
        return float(((logs - np.log(failure)) / rates).min())

    @property
    def count_sensitivities(self) -> tuple[float, float]:
        """Of the counts, in L1 and L2, for one user's rounds."""
        return _count_sensitivities(self.tables, self.privacy.rounds_per_user)

    def sum_rate(self, sensitivity: int) -> float:
        """Rate of the sums' noise where one user's rounds change them by at most `sensitivity` in L1."""
        rate = float(np.nextafter(self.sum_epsilon / sensitivity, 0.0))
        check_rate(rate)
        return rate

    def on_sums(self, sensitivity: int, size: int, noise: NoiseSource, *, number: int) -> IntArray:
        """(size,) noise of release `number`'s sums."""
        return lattice_laplace(self.sum_rate(sensitivity), size, words_of(noise, stream=_SUMS + number))

    def on_census(self, columns: int, size: int, noise: NoiseSource) -> IntArray:
        """(size,) noise of counts of people in bins of each of so many columns, with the epsilon of sums."""
        return lattice_laplace(
            self.sum_rate(self.census_sensitivity(columns)), size, words_of(noise, stream=_CENSUS)
        )

    def census_sensitivity(self, columns: int) -> int:
        """Bound the change in L1 of a census of so many columns, if one user's rounds are replaced.

        The bound is larger than the largest change if a rate above `GREATEST_RATE` would follow otherwise.
        """
        return max(2 * columns * self.privacy.rounds_per_user, math.ceil(self.sum_epsilon / GREATEST_RATE))

    def census_record(self, columns: int) -> MechanismRecord:
        """Describe the noise of a census of so many columns."""
        sensitivity = self.census_sensitivity(columns)
        return MechanismRecord(
            name="census: counts of people per bin of a range",
            law="discrete Laplace",
            scale=sensitivity / self.sum_epsilon,
            sensitivity=float(sensitivity),
            certificate=PureDP(self.sum_epsilon),
            releases=1,
            unit="in people",
        )

    def on_counts(self, size: int, noise: NoiseSource, *, number: int) -> IntArray:
        """(size,) noise of release `number`'s counts."""
        if not self.laplace:
            return noise.integer_gaussian(self.scale, size)
        rate = float(np.nextafter(self.count_epsilon / self.count_sensitivities[0], 0.0))
        return lattice_laplace(rate, size, words_of(noise, stream=_COUNTS + number))

    @property
    def certificate(self) -> Certificate:
        """Of all releases together."""
        if self.laplace:
            return PureDP(self.privacy.epsilon)
        return PureBeside(self.sum_epsilon, self.counts)

    def records(self) -> tuple[MechanismRecord, MechanismRecord]:
        """Both uses of noise, of sums and of counts."""
        sums = MechanismRecord(
            name="sums of rewards less a public centre, per arm and cell of a few columns",
            law="discrete Laplace",
            scale=1.0 / self.sum_epsilon,
            sensitivity=1.0,
            certificate=PureDP(self.sum_epsilon),
            releases=self.releases,
            unit="in units of what one user's rounds can change, summed over cells",
        )
        absolute, euclidean = self.count_sensitivities
        tables = MechanismRecord(
            name="counts of people per cell of one or two columns",
            law="discrete Laplace" if self.laplace else self.gaussian_law,
            scale=self.scale,
            sensitivity=absolute if self.laplace else euclidean,
            certificate=self.counts,
            releases=self.releases,
            unit="in people",
        )
        return sums, tables

    def record(self) -> MechanismRecord:
        """For the log of releases: the sums' noise and the certificate of both."""
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


def _count_sensitivities(tables: int, rounds: int) -> tuple[float, float]:
    return 2.0 * tables * rounds, float(np.sqrt(2.0 * tables)) * rounds * (1.0 + 2.0**-40)

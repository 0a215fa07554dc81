"""Division of the promise between learning and readout, and the noise of both groups' sums.

Every user is in one group at all times, by coins that do not depend on data. So the loss of a user is that
of the user's own group (parallel composition), and each group may spend the whole promise.

- The control group's rounds enter nothing but the control group's sums, which spend the whole promise.
- The policy group's rounds enter learning and the policy group's sums. Learning is calibrated to a smaller
  promise (`for_learning`), and the sums to what is left of the whole one (`BothNoises.planned`): the
  composition of both certificates proves the whole promise.

In both groups the sensitivity of all looks together is the one of `lattice`, times `rounds_per_user`.

Sums in segments are a second release of both groups, with the sensitivity of `segments`. The looks and the
segments divide what they may spend: epsilon of Laplace noise, or mu^2 of Gaussian noise. Their certificates
are composed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from typing import NamedTuple, Protocol

from dpbandits._typing import IntArray
from dpbandits.central.readout.declared import Readout
from dpbandits.errors import InvalidParameter
from dpbandits.models.readout import NoiseScales
from dpbandits.privacy.calibration import gaussian_mu, narrowed, rounding_distance, steps_up
from dpbandits.privacy.certificates import (
    Certificate,
    GaussianDP,
    NearGaussianDP,
    PureDP,
    ZeroConcentratedDP,
    either,
)
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.samplers import check_rate

__all__ = ["BothNoises", "SumNoise", "for_learning"]

CONTROL_SEGMENTS = 0.5
"""Share of the control group's promise that its sums in segments spend; the sums at looks spend the rest."""

TOO_SMALL = (
    "readout: no noise on the sums of the policy group fits the promise: pass a larger share= or epsilon"
)


def for_learning(privacy: JointDP, share: float, *, gaussian: bool) -> JointDP:
    """Return the promise to which learning is calibrated, so that the share `share` is left for the readout.

    Args:
        privacy: Whole promise.
        share: Share of mu^2 of Gaussian noise, or of epsilon, for the sums of the policy group.
        gaussian: True if learning has Gaussian noise alone.
    """
    if not gaussian:
        return replace(privacy, epsilon=_below((1.0 - share) * privacy.epsilon))
    wanted = math.sqrt(1.0 - share) * gaussian_mu(privacy.epsilon, privacy.delta)
    smallest = 1e-6 * privacy.epsilon
    if gaussian_mu(smallest, privacy.delta) > wanted:
        raise InvalidParameter(TOO_SMALL)
    left, _ = narrowed(
        lambda epsilon: gaussian_mu(epsilon, privacy.delta) <= wanted, smallest, privacy.epsilon, width=1e-12
    )
    return replace(privacy, epsilon=left)


class Integers(Protocol):
    """Integers that are released of a group: `lattice.Lattice` or `segments.Segments`."""

    @property
    def size(self) -> int:
        """Number of integers of one release."""

    def sensitivity(self, *, gaussian: bool) -> float:
        """Return the largest change by one round of a user: in L2 for Gaussian noise, else in L1."""


@dataclass(frozen=True, kw_only=True)
class SumNoise:
    """Noise of one group's integers in all releases.

    Attributes:
        lattice: Integers that are released.
        gaussian: True for Gaussian noise, False for discrete Laplace noise.
        law: Name of the noise's distribution.
        scale: Scale of the noise, in steps of the released integers.
        sensitivity: Largest change of the integers of all releases together by one user: L2 for Gaussian
            noise, else L1.
        certificate: Certificate of all releases together.
    """

    lattice: Integers
    gaussian: bool
    law: str
    scale: float
    sensitivity: float
    certificate: Certificate

    @classmethod
    def laplace(cls, lattice: Integers, *, epsilon: float, rounds: int) -> "SumNoise":
        """Return Laplace noise of loss `epsilon` for users with at most `rounds` rounds."""
        moved = rounds * lattice.sensitivity(gaussian=False)
        rate = _rate(epsilon, moved)
        check_rate(rate)
        return cls(
            lattice=lattice,
            gaussian=False,
            law="discrete Laplace",
            scale=1.0 / rate,
            sensitivity=moved,
            certificate=PureDP(epsilon),
        )

    @property
    def sd(self) -> float:
        """Standard deviation of an integer's noise."""
        return self.scale if self.gaussian else math.sqrt(2.0) * self.scale

    def draw(self, noise: NoiseSource) -> IntArray:
        """Draw the noise (D,) of one release."""
        if self.gaussian:
            return noise.integer_gaussian(self.scale, self.lattice.size)
        return noise.integer_laplace(_rate(self.certificate.parts[0], self.sensitivity), self.lattice.size)

    def law_of(self, step: float) -> NoiseScales:
        """Return the noise of an integer in units of a number of which one integer step is `step`."""
        return NoiseScales(0.0, self.scale * step) if self.gaussian else NoiseScales(self.scale * step, 0.0)

    def record(self, name: str, releases: int) -> MechanismRecord:
        """Return the description of the noise, for the statement and for the log of releases."""
        return MechanismRecord(
            name=name,
            law=self.law,
            scale=self.scale,
            sensitivity=self.sensitivity,
            certificate=self.certificate,
            releases=releases,
            unit=f"in steps of the released integers, {'Euclidean' if self.gaussian else 'L1'}",
        )


@dataclass(frozen=True, kw_only=True)
class BothNoises:
    """Noise of the sums of both groups.

    Attributes:
        policy, control: Noise of the sums of each group at the looks.
        segments: Noise of the sums in segments of the policy and the control group; None without segments.
        certificate: Certificate of everything that is released: learning and sums of the policy group, or
            sums of the control group, whichever proves less.
    """

    policy: SumNoise
    control: SumNoise
    segments: tuple[SumNoise, SumNoise] | None
    certificate: Certificate

    @classmethod
    def planned(
        cls,
        learned: Certificate,
        privacy: JointDP,
        noise: NoiseSource,
        lattice: Integers,
        readout: Readout,
        *,
        segments: Integers | None,
        charged: bool,
    ) -> "BothNoises":
        """Return the noise that the promise leaves.

        The control group gets the smaller of Laplace and Gaussian noise. It gets Gaussian noise if an account
        pays and delta allows it, because most accounts add up zCDP, in which a pure epsilon costs many times
        more.

        Args:
            learned: Certificate of the policy's learning.
            privacy: Whole promise.
            noise: Noise source.
            lattice: Integers of a look.
            readout: Public arguments.
            segments: Integers of the segments; None without segments.
            charged: True if an account of a ledger is charged.

        Raises:
            InvalidParameter: No noise fits the promise.
        """
        rounds = privacy.rounds_per_user
        ours, theirs = [_Part(lattice, 1.0, lattice.size * min(readout.looks, rounds))], []
        if segments is not None:
            part = readout.segments_share / readout.spent
            theirs = [ours[0]._replace(share=1.0 - CONTROL_SEGMENTS)]
            ours = [ours[0]._replace(share=1.0 - part)]
            for own, share in ((ours, part), (theirs, CONTROL_SEGMENTS)):
                own.append(_Part(segments, share, segments.size))
        theirs = theirs or ours
        pure = isinstance(learned, PureDP)
        if isinstance(learned, GaussianDP | NearGaussianDP | ZeroConcentratedDP):
            policy = _gaussian(ours, privacy, law=noise.gaussian_law, kind=learned, beside=learned)
            together = learned.beside(_composed(policy))
        else:
            spent = learned.epsilon if isinstance(learned, PureDP) else learned.epsilon_at(privacy.delta)
            left = float(Fraction(privacy.epsilon) - Fraction(spent))
            policy = _laplace(ours, _below(left), rounds)
            together = learned.closest_beside(_composed(policy), delta=privacy.delta)
        control = _laplace(theirs, privacy.epsilon, rounds)
        if privacy.delta > 0.0 and not pure:
            moved = rounds * lattice.sensitivity(gaussian=True)
            draws = sum(one.draws for one in theirs)
            _, kind = noise.gaussian_scale(moved, privacy.epsilon, privacy.delta, draws=draws)
            found = _gaussian(theirs, privacy, law=noise.gaussian_law, kind=kind, beside=None)
            if charged or found[0].sd < control[0].sd:
                control = found
        both = either(together, _composed(control))
        if both.delta_at(privacy.epsilon) > (0.0 if pure else privacy.delta):
            raise InvalidParameter(TOO_SMALL)
        cells = None if segments is None else (policy[1], control[1])
        return cls(policy=policy[0], control=control[0], segments=cells, certificate=both)


class _Part(NamedTuple):
    """Integers of one kind, their share of what a group spends, and the number of draws a user affects."""

    lattice: Integers
    share: float
    draws: int


def _composed(parts: Sequence[SumNoise]) -> Certificate:
    """Return the certificate of all releases of a group."""
    first, *others = (one.certificate for one in parts)
    return reduce(lambda one, other: one.beside(other), others, first)


def _laplace(parts: Sequence[_Part], epsilon: float, rounds: int) -> list[SumNoise]:
    """Return Laplace noise of parts that together lose at most `epsilon`."""
    if len(parts) > 1:
        epsilon = _below(epsilon)
    return [SumNoise.laplace(one.lattice, epsilon=one.share * epsilon, rounds=rounds) for one in parts]


def _gaussian(
    parts: Sequence[_Part],
    privacy: JointDP,
    *,
    law: str,
    kind: Certificate,
    beside: Certificate | None,
) -> list[SumNoise]:
    """Return the least Gaussian noise with which all parts, and learning if it is `beside`, keep the promise.

    Certificates are of the `kind` of another Gaussian certificate, so that all compose within that kind. A
    part with the share s of mu^2 has mu sqrt(s).
    """

    def noise(one: _Part, mu: float) -> SumNoise:
        moved, shift = (
            privacy.rounds_per_user * one.lattice.sensitivity(gaussian=True),
            mu * math.sqrt(one.share),
        )
        sigma = steps_up(moved / shift)
        if isinstance(kind, NearGaussianDP):
            proven: Certificate = NearGaussianDP(shift, one.draws * rounding_distance(sigma))
        else:
            proven = kind.at_shift(shift)
        return SumNoise(
            lattice=one.lattice,
            gaussian=True,
            law=law,
            scale=sigma,
            sensitivity=moved,
            certificate=proven,
        )

    def kept(mu: float) -> bool:
        own = _composed([noise(one, mu) for one in parts])
        together = own if beside is None else beside.beside(own)
        return together.delta_at(privacy.epsilon) <= privacy.delta

    least = 1e-4 * gaussian_mu(privacy.epsilon, privacy.delta)
    if not kept(least):
        raise InvalidParameter(TOO_SMALL)
    mu, _ = narrowed(kept, least, 2.0 * least, width=1e-12)
    return [noise(one, mu) for one in parts]


def _rate(epsilon: float, moved: float) -> float:
    """Return the rate of Laplace noise of loss `epsilon` on integers that change by `moved` in L1."""
    return math.nextafter(epsilon / moved, 0.0)


def _below(value: float) -> float:
    """Return a float slightly below `value`, by more than the rounding of a sum of epsilons."""
    return value * (1.0 - 2.0**-48)

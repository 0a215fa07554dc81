"""Division of the promise between learning and readout, and the noise of both groups' sums.

Every user is in one group at all times, by coins that do not depend on data. So the loss of a user is that
of the user's own group (parallel composition), and each group may spend the whole promise.

- The control group's rounds enter nothing but the control group's sums, which spend the whole promise.
- The policy group's rounds enter learning and the policy group's sums. Learning is calibrated to a smaller
  promise (`for_learning`), and the sums to what is left of the whole one (`BothNoises.planned`): the
  composition of both certificates proves the whole promise.

In both groups the sensitivity of all looks together is the one of `lattice`, times `rounds_per_user`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from dpbandits._typing import IntArray
from dpbandits.central.readout.lattice import Lattice
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


@dataclass(frozen=True, kw_only=True)
class SumNoise:
    """Noise of one group's sums at all looks.

    Attributes:
        lattice: Metrics as integers.
        gaussian: True for Gaussian noise, False for discrete Laplace noise.
        law: Name of the noise's distribution.
        scale: Scale of the noise, in steps of the released integers.
        sensitivity: Largest change of all looks' integers together by one user: L2 for Gaussian noise,
            else L1.
        certificate: Certificate of all looks together.
    """

    lattice: Lattice
    gaussian: bool
    law: str
    scale: float
    sensitivity: float
    certificate: Certificate

    @classmethod
    def laplace(cls, lattice: Lattice, *, epsilon: float, rounds: int) -> "SumNoise":
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
        """Draw the noise (D,) of one look."""
        if self.gaussian:
            return noise.integer_gaussian(self.scale, self.lattice.size)
        return noise.integer_laplace(_rate(self.certificate.parts[0], self.sensitivity), self.lattice.size)

    def law_of(self, step: float) -> NoiseScales:
        """Return the noise of an integer in units of a number of which one integer step is `step`."""
        return NoiseScales(0.0, self.scale * step) if self.gaussian else NoiseScales(self.scale * step, 0.0)

    def record(self, group: str, looks: int) -> MechanismRecord:
        """Return the description of the noise, for the statement and for the log of releases."""
        return MechanismRecord(
            name=f"sums of outcomes of the {group} group at a look",
            law=self.law,
            scale=self.scale,
            sensitivity=self.sensitivity,
            certificate=self.certificate,
            releases=looks,
            unit=f"in steps of the released integers, {'Euclidean' if self.gaussian else 'L1'}",
        )


@dataclass(frozen=True, kw_only=True)
class BothNoises:
    """Noise of the sums of both groups.

    Attributes:
        policy, control: Noise of the sums of each group.
        certificate: Certificate of everything that is released: learning and sums of the policy group, or
            sums of the control group, whichever proves less.
    """

    policy: SumNoise
    control: SumNoise
    certificate: Certificate

    @classmethod
    def planned(
        cls,
        learned: Certificate,
        privacy: JointDP,
        noise: NoiseSource,
        lattice: Lattice,
        *,
        looks: int,
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
            lattice: Metrics as integers.
            looks: Number of looks.
            charged: True if an account of a ledger is charged.

        Raises:
            InvalidParameter: No noise fits the promise.
        """
        rounds = privacy.rounds_per_user
        draws = lattice.size * min(looks, rounds)
        pure = isinstance(learned, PureDP)
        if isinstance(learned, GaussianDP | NearGaussianDP | ZeroConcentratedDP):
            policy = _gaussian_beside(learned, privacy, noise, lattice, draws=draws)
            together = learned.beside(policy.certificate)
        else:
            spent = learned.epsilon if isinstance(learned, PureDP) else learned.epsilon_at(privacy.delta)
            left = float(Fraction(privacy.epsilon) - Fraction(spent))
            policy = SumNoise.laplace(lattice, epsilon=_below(left), rounds=rounds)
            together = learned.closest_beside(policy.certificate, delta=privacy.delta)
        control = SumNoise.laplace(lattice, epsilon=privacy.epsilon, rounds=rounds)
        if privacy.delta > 0.0 and not pure:
            moved = rounds * lattice.sensitivity(gaussian=True)
            sigma, proven = noise.gaussian_scale(moved, privacy.epsilon, privacy.delta, draws=draws)
            if charged or sigma < control.sd:
                control = _gaussian(lattice, noise, sigma, moved, proven)
        both = either(together, control.certificate)
        if both.delta_at(privacy.epsilon) > (0.0 if pure else privacy.delta):
            raise InvalidParameter(TOO_SMALL)
        return cls(policy=policy, control=control, certificate=both)


def _gaussian(
    lattice: Lattice, noise: NoiseSource, sigma: float, moved: float, proven: Certificate
) -> SumNoise:
    return SumNoise(
        lattice=lattice,
        gaussian=True,
        law=noise.gaussian_law,
        scale=sigma,
        sensitivity=moved,
        certificate=proven,
    )


def _gaussian_beside(
    learned: Certificate, privacy: JointDP, noise: NoiseSource, lattice: Lattice, *, draws: int
) -> SumNoise:
    """Return the least Gaussian noise with which sums and learning together keep the promise.

    The certificate of the sums is of the kind that learning has, so that both compose within that kind.
    """
    moved = privacy.rounds_per_user * lattice.sensitivity(gaussian=True)
    proven: Callable[[float], Certificate]
    if isinstance(learned, GaussianDP):
        proven = GaussianDP
    elif isinstance(learned, ZeroConcentratedDP):
        proven = learned.at_shift
    else:

        def proven(mu: float) -> Certificate:
            return NearGaussianDP(mu, draws * rounding_distance(moved / mu))

    def kept(mu: float) -> bool:
        return learned.beside(proven(mu)).delta_at(privacy.epsilon) <= privacy.delta

    least = 1e-4 * gaussian_mu(privacy.epsilon, privacy.delta)
    if not kept(least):
        raise InvalidParameter(TOO_SMALL)
    mu, _ = narrowed(kept, least, 2.0 * least, width=1e-12)
    return _gaussian(lattice, noise, steps_up(moved / mu), moved, proven(mu))


def _rate(epsilon: float, moved: float) -> float:
    """Return the rate of Laplace noise of loss `epsilon` on integers that change by `moved` in L1."""
    return math.nextafter(epsilon / moved, 0.0)


def _below(value: float) -> float:
    """Return a float slightly below `value`, by more than the rounding of a sum of epsilons."""
    return value * (1.0 - 2.0**-48)

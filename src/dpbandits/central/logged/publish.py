"""Release of a whole regression function, once: exact integer projections, calibrated noise, a posterior.

The features sqrt(h) psi(w) of cell w (see `estimator`) are rounded to integers V(w), so the sum of y V(w)
over rows with rewards y is an exact integer vector. A row changes it by at most cap(w) |V(w)|, so replacing
the k rows of one user changes it by at most 2 k max_w cap(w) |V(w)|. This holds for any number of rows, as
the integers have no largest size. No term for rounding is needed: sensitivity and statistic use the same
integers.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.logged.estimator import CoefficientPosterior, Plan, clip_loss
from dpbandits.central.logged.sums import (
    REWARD_UNIT,
    exact_products,
    integer_caps,
    integer_weights,
)
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.samplers import LARGEST_SIGMA

__all__ = ["FunctionRelease"]


@dataclass(frozen=True, eq=False)
class FunctionRelease:
    """Mechanism that releases the projections sqrt(h) psi^T s of cell sums s with Gaussian noise.

    Args:
        plan: Ridge and caps.
        noise: Noise source.
        epsilon: Privacy loss of this release.
        delta: Failure probability of this release.
        rounds_per_user: Number of rows of one user.

    Raises:
        InvalidParameter: Epsilon is so small for the rows of a user that the noise leaves the lattice.
    """

    plan: Plan
    noise: NoiseSource
    epsilon: float
    delta: float
    rounds_per_user: int = 1

    def __post_init__(self) -> None:
        self.calibration  # noqa: B018  # raises before any data if the scale does not fit the lattice

    @cached_property
    def _integers(self) -> tuple[FloatArray, float]:
        return integer_weights(self.plan.estimator.scaled)

    @cached_property
    def sensitivity(self) -> float:
        """Largest Euclidean change of the integer vector when one user is replaced."""
        vectors, _ = self._integers
        # squares of integers up to 2^18 over at most 2^14 features add up exactly in float64
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors)) * (1.0 + 2.0**-50)
        caps = integer_caps(self.plan.caps)
        return 2.0 * self.rounds_per_user * float((caps * norms).max()) * (1.0 + 2.0**-50)

    @cached_property
    def calibration(self) -> tuple[float, Certificate]:
        """Noise scale in lattice units, and its certificate."""
        sigma, certificate = self.noise.gaussian_scale(
            self.sensitivity, self.epsilon, self.delta, draws=self._integers[0].shape[1]
        )
        if sigma > LARGEST_SIGMA:
            raise InvalidParameter(
                "epsilon is too small for so many rounds of a user: noise leaves the lattice"
            )
        return sigma, certificate

    def release(self, sums: IntArray) -> IntArray:
        """Return the integer projections (m,) of cell sums (n,) with noise, which is added here.

        They are Python integers.
        """
        vectors, _ = self._integers
        exact = exact_products(vectors.T, sums)
        noise = self.noise.integer_gaussian(self.calibration[0], len(exact))
        return np.asarray(exact + noise.astype(np.object_))

    @property
    def noise_sd(self) -> float:
        """Standard deviation of the noise of a projection sqrt(h) psi^T s, in units of the reward bound."""
        return self.calibration[0] * self._integers[1] * REWARD_UNIT

    def learned(self, released: IntArray, *, reference: float, bound: float) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (A, C) of rewards, computed from one release alone."""
        prior = CoefficientPosterior.prior(self.plan.estimator.features.eigenvalues)
        return self.tables(self.update(prior, released), reference=reference, bound=bound)

    def tables(
        self, posterior: CoefficientPosterior, *, reference: float, bound: float
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (A, C) of rewards; the latter includes clipping."""
        estimator = self.plan.estimator
        mean, sd = posterior.tables(estimator.features, estimator.n_actions)
        clipped = clip_loss(self.plan.caps).reshape(mean.shape)
        return reference + bound * mean, bound * np.sqrt(sd**2 + clipped)

    def update(self, posterior: CoefficientPosterior, released: IntArray) -> CoefficientPosterior:
        """Return the posterior of the coefficients given a release."""
        estimator = self.plan.estimator
        root = np.sqrt(estimator.shrinkage)
        projections = released.astype(np.float64) * (self._integers[1] * REWARD_UNIT) / root
        return posterior.given(
            projections, rounds=estimator.rounds, noise_variance=(self.noise_sd / root) ** 2
        )

    def record(self, *, bound: float = 1.0) -> MechanismRecord:
        """Return the description of the noise, for the guarantee.

        Args:
            bound: largest distance of a reward from the public reference, in reward units.
        """
        sigma, certificate = self.calibration
        return MechanismRecord(
            name="sums of capped rewards times features (the whole function)",
            law=self.noise.gaussian_law,
            scale=sigma,
            sensitivity=math.nextafter(self.sensitivity, math.inf),
            certificate=certificate,
            releases=1,
            unit="in units of the released integers",
            step=self._integers[1] * REWARD_UNIT * bound,
            shown_in="in reward units, L2",
        )

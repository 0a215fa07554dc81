r"""GP-UCB from local reports: Dubey2021, Algorithm 3, as published.

Every user's device adds Gaussian noise to its own phi phi^T and y phi; the server adds up, shifts the
Gram by twice the spectral norm of all noise so far, and publishes weights with an upper confidence
radius, anew after every report. It is the learner `dubey2021` of a `GPSpec`, shares devices, reports and
server with the recommended one (`dpbandits.local.learners.weights`), and departs from the paper in the noise
only: Gram and vector are calibrated jointly, where Lemma 5 gives each a half of the promise
(`central.published.printed` has what that half really is).

The noise of t reports has standard deviation sqrt(t) times one report's: with m = 64 the shift exceeds
the Gram of all people, and the policy is close to random at any useful epsilon.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from dpbandits import _checks
from dpbandits._typing import IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.contract.gp_spec import GPSpec, PublishedWeights
from dpbandits.local.learners.weights import WeightLearner
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.prefix_sums import RELEASE_UNIT

__all__ = ["Dubey2021Weights"]


class Dubey2021Weights(WeightLearner):
    """Sums of all reports, and confidence bounds from them.

    Args:
        spec: with `learner="dubey2021"`.
        horizon: users in all; enters the confidence radius alone.
        norm_bound: B, bound on the norm of the reward function, centred and with range of width 1.
        failure_probability: alpha of the confidence bounds.

    Raises:
        InvalidParameter: the spec is for another learner, or a constant is out of range.

    References:
        Dubey2021, Algorithm 3, Lemma 5, Theorem 1.
    """

    def __init__(
        self, spec: GPSpec, *, horizon: float, norm_bound: float = 1.0, failure_probability: float = 0.1
    ) -> None:
        if spec.learner != "dubey2021":
            raise InvalidParameter("spec: its devices report no Grams: pass learner='dubey2021'")
        super().__init__(spec)
        self.horizon = _checks.number(horizon, name="horizon")
        self.norm_bound = _checks.number(norm_bound, name="norm_bound", exclusive=False)
        self.failure_probability = _checks.probability(failure_probability, name="failure_probability")
        self._total = np.zeros(spec.protocol.release.mechanism.size, dtype=np.int64)

    def add(self, _version: int, n: int, sums: IntArray) -> None:
        """Sums are not kept apart by version: there may be as many versions as users."""
        self._total += sums
        self.reports += n

    def refine(self) -> None:
        """Everything is computed when it is published."""

    def follow(self, published: PublishedWeights) -> None:
        """See `Learner.follow`: nothing is kept of what was published."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """See `Learner.to_arrays`."""
        return {"reports": np.array(self.reports), "total": self._total}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """See `Learner.restore`."""
        self.reports, self._total = int(arrays["reports"]), arrays["total"].copy()

    def publish(self, spec: GPSpec, version: int, _coins: PublicCoins) -> PublishedWeights:
        """Shifted Gram, weights and radius from all reports so far."""
        m, release = spec.features.n_features, spec.protocol.release
        total = np.asarray(self._total * RELEASE_UNIT, dtype=np.float64)
        gram, vector = release.mechanism.from_coordinates(total)
        growth = math.sqrt(max(1, self.reports))
        tail = math.sqrt(2.0 * math.log(2.0 * self.horizon / self.failure_probability))
        spectral = growth * release.gram_noise_sd * (math.sqrt(2.0 * m) + tail)
        shifted = gram + 2.0 * spectral * np.eye(m)
        try:
            lower = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:  # the event that Lemma 3 excludes up to alpha
            values, basis = np.linalg.eigh(shifted)
            lower = np.linalg.cholesky((basis * np.maximum(values, spectral)) @ basis.T)
        weights = cho_solve((lower, True), vector)
        factor = solve_triangular(lower, np.eye(m), lower=True).T
        log_det = 2.0 * float(np.log(np.diag(lower)).sum()) - m * math.log(spectral)
        radius = (
            0.5 * math.sqrt(2.0 * math.log(2.0 / self.failure_probability) + max(0.0, log_det))
            + self.norm_bound * math.sqrt(3.0 * spectral)
            + growth * release.vector_noise_sd * (math.sqrt(m) + tail) / math.sqrt(spectral)
        )
        return PublishedWeights(version=version, mean=weights, factor=factor, radius=radius)

r"""GP-UCB from local reports: Dubey2021, Algorithm 3, as published.

Every user's device adds Gaussian noise to its own phi phi^T and y phi; the server adds up, shifts the
Gram by twice the spectral norm of all noise so far, and publishes weights with an upper confidence
radius, anew after every report. It stands beside `local.gp_ucb`, shares its devices and reports, and
departs from the paper in the noise only: Gram and vector are calibrated jointly, where Lemma 5 gives each
a half of the promise (`central.published.printed` has what that half really is).

The noise of t reports has standard deviation sqrt(t) times one report's: with m = 64 the shift exceeds
the Gram of all people, and the policy is close to random at any useful epsilon.
"""

import math

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from dpbandits._typing import IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.contract.gp_spec import GPSpec, PublishedWeights
from dpbandits.local.server.gp_ucb import GPUCBServer
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.privacy.prefix_sums import RELEASE_UNIT

__all__ = ["Dubey2021LocalServer"]


class Dubey2021LocalServer(GPUCBServer):
    """Adds up reports and publishes confidence bounds.

    Args:
        spec: with `report_gram=True`.
        norm_bound: B, bound on the norm of the reward function, centred and with range of width 1.
        failure_probability: alpha of the confidence bounds.
        horizon: users in all; enters the confidence radius alone.

    Raises:
        InvalidParameter: the spec does not report Grams.

    References:
        Dubey2021, Algorithm 3, Lemma 5, Theorem 1.
    """

    def __init__(
        self,
        spec: GPSpec,
        *,
        horizon: int,
        norm_bound: float = 1.0,
        failure_probability: float = 0.1,
    ) -> None:
        if not spec.report_gram:
            raise InvalidParameter("Algorithm 3 reports Grams: build the spec with report_gram=True")
        super().__init__(spec)
        self.horizon = horizon
        self.norm_bound = norm_bound
        self.failure_probability = failure_probability
        self._total = np.zeros(spec.release.mechanism.size, dtype=np.int64)

    def _open_version(self) -> int:
        """Sums are not kept apart by version: there may be as many versions as users."""
        self._counts.append(0)
        return len(self._counts) - 1

    def _add(self, version: int, count: int, values: IntArray) -> None:
        self._total += values
        self._counts[version] += count

    def publish(self) -> PublishedWeights:
        """Shifted Gram, weights and radius from all reports so far."""
        m, release = self.spec.features.n_features, self.spec.release
        total = np.asarray(self._total * RELEASE_UNIT, dtype=np.float64)
        gram, vector = release.mechanism.from_coordinates(total)
        growth = math.sqrt(max(1, self.n_reports))
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
        if self.n_reports:
            self._posterior = WeightPosterior(
                mean=weights, factor=factor, supports=self.spec.features.supports
            )
        return PublishedWeights(version=self._open_version(), mean=weights, factor=factor, radius=radius)

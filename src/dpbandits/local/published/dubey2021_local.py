r"""GP-UCB from local reports: Dubey2021, Algorithm 3, as published.

Let phi be the m features of a user's chosen row, y its reward, T the number of users, and alpha the
probability that the confidence bounds fail. Each user's client adds Gaussian noise to its own phi phi^T and
y phi. The server adds the reports, and shifts the Gram matrix by twice a bound Lambda on the spectral norm
of the noise. After every report it publishes weights with an upper confidence radius. A `GPSpec` names this
learner `dubey2021`. It shares clients, reports and server with the recommended learner
(`dpbandits.local.learners.weights`).

Lambda is Lemma 6's: sigma_X sqrt(T) (4 sqrt(m) + 2 ln(2 T/alpha)), constant over reports, where sigma_X is
the standard deviation of the noise on an entry of phi phi^T. `spectral_bound="sharp"` uses a smaller bound
(`privacy.gram_vector`), for the reports so far, which is not the paper's. Both are functions of public
numbers, applied to reports that contain their noise. The guarantee of the reports is therefore the same.

Departures from the paper:

- Gram matrix and vector are calibrated jointly. Lemma 5 gives each of them half of the privacy budget
  (`central.published.printed` describes the actual value of that half).
- The Gram matrix's noise is sigma (Z + Z^T)/2, where Z has independent standard normal entries. The paper
  mirrors a triangle of entries with standard deviation sigma_X. Lambda uses sigma for sigma_X: it is the
  largest standard deviation of an entry. Both have the same guarantee at sigma = sigma_X.
- kappa is bounded as in Lemma 3, as Lemma 6 omits the tail and sigma_X.
- The terms of Theorem 1's radius that `central.published.Dubey2021` omits are omitted here too.

The noise of t reports has standard deviation sqrt(t) times that of one report. With m = 64 the shift exceeds
the Gram matrix of all users, and the policy is close to random at any useful epsilon.
"""

import math
from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular

from dpbandits import _checks
from dpbandits._typing import IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.contract.gp_spec import GPSpec, PublishedWeights
from dpbandits.local.learners.weights import WeightLearner
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.gram_vector import SpectralBound, gram_noise_norm
from dpbandits.privacy.prefix_sums import RELEASE_UNIT

__all__ = ["Dubey2021Weights"]


class Dubey2021Weights(WeightLearner):
    """Learner with the sums of all reports, and confidence bounds computed from them.

    Args:
        spec: Spec with `learner="dubey2021"`.
        horizon: Total number of users, which determines shift and confidence radius.
        norm_bound: The bound B on the norm of the reward function, centred and with a range of width 1.
        failure_probability: Probability alpha that the confidence bounds fail.
        spectral_bound: The bound Lambda, "printed" (Lemma 6) or "sharp", see the module.

    Raises:
        InvalidParameter: the spec is for another learner, or a constant is out of range.

    References:
        Dubey2021, Algorithm 3, Lemmas 5 and 6, Theorem 1.
    """

    def __init__(
        self,
        spec: GPSpec,
        *,
        horizon: float,
        norm_bound: float = 1.0,
        failure_probability: float = 0.1,
        spectral_bound: SpectralBound = "printed",
    ) -> None:
        if spec.learner != "dubey2021":
            raise InvalidParameter("spec: expected learner='dubey2021', as other reports omit the Gram")
        super().__init__(spec)
        self.horizon = _checks.number(horizon, name="horizon", minimum=1.0, exclusive=False)
        self.norm_bound = _checks.number(norm_bound, name="norm_bound", exclusive=False)
        self.failure_probability = _checks.probability(failure_probability, name="failure_probability")
        _checks.one_of(spectral_bound, get_args(SpectralBound), name="spectral_bound")
        self.spectral_bound: SpectralBound = spectral_bound
        self._total = np.zeros(spec.protocol.release.mechanism.size, dtype=np.int64)

    def add(self, _version: int, n: int, sums: IntArray) -> None:
        """Add the sums of n reports.

        Versions are not separated, as there may be as many versions as users.
        """
        self._total += sums
        self.reports += n

    def refine(self) -> None:
        """Do nothing, because `publish` computes everything."""

    def follow(self, published: PublishedWeights) -> None:
        """Do nothing, because no published version is stored."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays; see `Learner.to_arrays`."""
        return {"reports": np.array(self.reports), "total": self._total}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from arrays; see `Learner.restore`."""
        self.reports, self._total = int(arrays["reports"]), arrays["total"].copy()

    def publish(self, spec: GPSpec, version: int, _coins: PublicCoins) -> PublishedWeights:
        """Return a version with weights and radius, from the shifted Gram matrix of all reports so far."""
        m, release = spec.features.n_features, spec.protocol.release
        total = np.asarray(self._total * RELEASE_UNIT, dtype=np.float64)
        gram, vector = release.mechanism.from_coordinates(total)
        # Lemma 6 uses the noise of all T reports from the first report on.
        least = 1.0 if self.spectral_bound == "sharp" else self.horizon
        growth = math.sqrt(max(least, self.reports))
        spectral = gram_noise_norm(
            noise_sd=growth * release.gram_noise_sd,
            n_features=m,
            rounds=self.horizon,
            failure_probability=self.failure_probability,
            bound=self.spectral_bound,
        )
        tail = math.sqrt(2.0 * math.log(2.0 * self.horizon / self.failure_probability))
        shifted = gram + 2.0 * spectral * np.eye(m)
        try:
            lower = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:  # Lemma 3 bounds this event's probability
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

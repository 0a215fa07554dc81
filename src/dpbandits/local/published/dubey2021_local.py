r"""GP-UCB from local reports: Dubey2021, Algorithm 3, as published.

Every user's device adds Gaussian noise to its own phi phi^T and y phi. The server adds up, and shifts the
Gram by twice a bound Lambda on the spectral norm of the noise. It publishes weights with an upper confidence
radius, anew after every report. It is the learner `dubey2021` of a `GPSpec`, and shares devices, reports and
server with the recommended one (`dpbandits.local.learners.weights`).

Lambda is Lemma 6's: sigma_X sqrt(T) (4 sqrt(m) + 2 ln(2 T/alpha)), the same after every report.
`spectral_bound="sharp"` takes a smaller bound (`privacy.gram_vector`), of the reports so far, which is not
the paper's. Either is a function of public numbers, applied to reports that carry their noise already, so
that the promise of the reports is the same.

Departures from the paper:

- Gram and vector are calibrated jointly, where Lemma 5 gives each a half of the promise
  (`central.published.printed` has what that half really is).
- The Gram's noise is sigma (Z + Z^T)/2, where the paper mirrors a triangle of entries of deviation sigma_X.
  Lambda takes sigma for sigma_X: it is the largest deviation of an entry. The two keep the same promise at
  sigma = sigma_X.
- kappa is bounded as in Lemma 3, where Lemma 6 leaves out the tail and sigma_X.
- Terms of Theorem 1's radius are left out as in `central.published.Dubey2021`.

The noise of t reports has standard deviation sqrt(t) times one report's: with m = 64 the shift exceeds
the Gram of all people, and the policy is close to random at any useful epsilon.
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
    """Sums of all reports, and confidence bounds from them.

    Args:
        spec: with `learner="dubey2021"`.
        horizon: users in all; enters shift and confidence radius.
        norm_bound: B, bound on the norm of the reward function, centred and with range of width 1.
        failure_probability: alpha of the confidence bounds.
        spectral_bound: Lambda, "printed" (Lemma 6) or "sharp", see the module.

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
            raise InvalidParameter("spec: its devices report no Grams: pass learner='dubey2021'")
        super().__init__(spec)
        self.horizon = _checks.number(horizon, name="horizon", minimum=1.0, exclusive=False)
        self.norm_bound = _checks.number(norm_bound, name="norm_bound", exclusive=False)
        self.failure_probability = _checks.probability(failure_probability, name="failure_probability")
        _checks.one_of(spectral_bound, get_args(SpectralBound), name="spectral_bound")
        self.spectral_bound: SpectralBound = spectral_bound
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
        # Lemma 6 has the noise of all T reports from the first on.
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

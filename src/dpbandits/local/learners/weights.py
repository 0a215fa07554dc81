"""The learner of Gaussian-process reports: a regression on the noisy sums of each published version.

It is generalised least squares over versions, with the noise of the reports in the model and without a
shift. Reports omit the Gram matrix, so it is simulated. Let phi be the features of the row that a user
chooses. The matrix is the mean of phi phi^T over users who have public decision sets and follow the version.

Privacy: post-processing of reports.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.contract.gp_spec import GPSpec, PublishedWeights
from dpbandits.local.learners.base import Counted
from dpbandits.models.decision_sets import PublicSets, uniform_decision_sets
from dpbandits.models.features import blocks_of
from dpbandits.models.noisy_regression import WeightPosterior, posterior_from_block_statistics
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.prefix_sums import RELEASE_UNIT

__all__ = ["WeightLearner"]

REWARD_VARIANCE = 0.25
"""Largest possible variance of a reward, in squared widths of its range."""

PUBLIC_SETS = 400
"""Number of simulated public decision sets."""


class WeightLearner:
    """Sums of reports for each version, and the posterior of the feature weights."""

    def __init__(self, spec: GPSpec) -> None:
        self.spec, self.reports = spec, 0
        self._sums: dict[int, IntArray] = {}
        self._counts: dict[int, int] = {}
        self._expected: dict[int, FloatArray] = {}
        self._posterior: WeightPosterior | None = None
        self._public: PublicSets | None = None

    @classmethod
    def of(cls, spec: GPSpec) -> Self:
        """Return a fresh learner for the spec.

        Raise TypeError if its constants are not those of the learner.
        """
        return cls(spec, **spec.tuning.constants)

    def publish(self, spec: GPSpec, version: int, _coins: PublicCoins) -> PublishedWeights:
        """Return a version with the posterior of the weights from the last `refine`."""
        self._expected[version] = self._expected_gram(version)
        law = self._posterior or WeightPosterior.prior(spec.protocol.weight_variance, spec.features.supports)
        return PublishedWeights(version=version, mean=law.mean, factor=law.factor)

    def count(self, _spec: GPSpec, published: PublishedWeights, counted: Counted) -> None:
        """Learn from counted reports on the version `published`."""
        for _, sums, n in (part for group in counted for part in group):
            self.add(published.version, n, sums)

    def add(self, version: int, n: int, sums: IntArray) -> None:
        """Add the noisy sums (D,) of n reports on a version."""
        self._sums[version] = self._sums.get(version, 0) + sums
        self._counts[version] = self._counts.get(version, 0) + n
        self.reports += n

    def refine(self) -> None:
        """Update the posterior by generalised least squares; noise of different reports is independent."""
        used = sorted(version for version, n in self._counts.items() if n)
        if not used:
            return
        counts = np.array([self._counts[version] for version in used], dtype=np.float64)
        release = self.spec.protocol.release
        coordinates = RELEASE_UNIT * np.array([self._sums[k] for k in used], dtype=np.float64)
        self._posterior = posterior_from_block_statistics(
            counts[:, None, None] * np.array([self._expected[k] for k in used]),
            release.mechanism.vector_from_coordinates(coordinates),
            noise_covariance=np.diag(counts),
            gram_noise_sd=0.0,
            vector_noise_sd=release.vector_noise_sd,
            prior_variance=self.spec.protocol.weight_variance,
            reward_variance=REWARD_VARIANCE,
            supports=self.spec.features.supports,
        )

    def estimate(self, _spec: GPSpec, published: PublishedWeights) -> PublishedWeights:
        """Return the version unchanged, because its weights already predict rewards.

        See `Learner.estimate`.
        """
        return published

    def follow(self, published: PublishedWeights) -> None:
        """Adopt the posterior of a published version; see `Learner.follow`."""
        if self.reports:
            self._believe(published.mean, published.factor)
        self._expected[published.version] = self._expected_gram(published.version)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays; see `Learner.to_arrays`."""
        arrays: dict[str, NDArray[Any]] = {"reports": np.array(self.reports)}
        for version, gram in self._expected.items():
            arrays[f"expected.{version}"] = gram
        for version, sums in self._sums.items():
            arrays[f"sums.{version}"], arrays[f"n.{version}"] = sums, np.array(self._counts[version])
        if self._posterior is not None:
            arrays |= {"mean": self._posterior.mean, "factor": self._posterior.factor}
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the state from arrays; see `Learner.restore`."""
        self.reports = int(arrays["reports"])
        for name, array in arrays.items():
            kind, _, version = name.partition(".")
            if kind == "expected":
                self._expected[int(version)] = array
            elif kind == "sums":
                self._sums[int(version)], self._counts[int(version)] = array, int(arrays[f"n.{version}"])
        if "mean" in arrays:
            self._believe(arrays["mean"], arrays["factor"])

    def _believe(self, mean: FloatArray, factor: FloatArray) -> None:
        self._posterior = WeightPosterior.of(mean, factor, self.spec.features.supports)

    def _expected_gram(self, version: int) -> FloatArray:
        """Return the mean of phi phi^T, shape (m, m), over simulated users who follow this version.

        phi are the m features of the row that a user chooses.
        """
        if self._public is None:
            sets = uniform_decision_sets(
                self.spec.domain,
                n_sets=PUBLIC_SETS,
                n_candidates=self.spec.tuning.n_candidates,
                seed=self.spec.seed,
            )
            self._public = PublicSets(self.spec.features, sets)
        if self._posterior is None:
            return self._dense(self._public.mean_gram_uniform())
        rng = np.random.Generator(np.random.Philox(key=[self.spec.seed, version]))
        normals = rng.standard_normal((len(self._public), self.spec.features.n_features))
        weights = self._posterior.sample_weights(normals, scale=self.spec.tuning.thompson_scale)
        return self._dense(self._public.mean_gram_of_best(weights))

    def _dense(self, gram: FloatArray) -> FloatArray:
        return np.asarray(block_diag(*blocks_of(gram, self.spec.features.supports)))

"""Contract of Gaussian-process clients and their server (`GPSpec`), and the published weights.

Let phi be the m features of the row that a client chose, and z the reward, centred and scaled. The client
chooses with the published weights. It reports z phi (and phi phi^T for Dubey2021, Algorithm 3) with Gaussian
noise that hides all of the user's data. A payload is D signed integers of 8 bytes, in units of 2^-20.
Choosing needs NumPy; calibrating the noise needs SciPy.

Privacy: each report is (epsilon, delta)-differentially private in the user's whole data, also against the
server. Other users' choices depend on reports alone.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np

from dpbandits import _checks, domains
from dpbandits._calls import worded
from dpbandits._checks import an, assign
from dpbandits._config import Configured
from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.errors import IncompatibleState, InvalidData, InvalidParameter
from dpbandits.local.contract.reports import (
    DEADLINE,
    Chosen,
    Contract,
    Published,
    Records,
    ReportProtocol,
    check_points,
    read_only,
    read_points,
)
from dpbandits.local.contract.spec import check_constants
from dpbandits.models import features as feature_models
from dpbandits.models.features import Features
from dpbandits.models.features.people import check_arms
from dpbandits.models.ties import first_best
from dpbandits.privacy import definitions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.reports.clamp import Clamp, gaussian_clamp

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee
    from dpbandits.privacy.noise import NoiseSource
    from dpbandits.privacy.prefix_sums import BlockRelease

__all__ = ["GPLearnerName", "GPSpec", "GPSpecTuning", "GaussianReports", "PublishedWeights"]

GPLearnerName = Literal["weights", "dubey2021"]

# Contexts are clipped to this magnitude first, so that no domain's arithmetic overflows.
_FARTHEST = 1e100

# Names of each learner's constants, repeated here because clients do not load `dpbandits.local.learners`.
_CONSTANTS: Mapping[str, frozenset[str]] = {
    "weights": frozenset(),
    "dubey2021": frozenset({"horizon", "norm_bound", "failure_probability"}),
}


def _secure() -> "NoiseSource":
    from dpbandits.privacy.noise import SecureNoise

    return SecureNoise()


@worded
@dataclass(frozen=True, kw_only=True)
class GPSpecTuning(Configured):
    """Settings that a `GPSpec` rarely needs.

    Args:
        prior_variance: Prior variance of the function for a kernel with variance 1, in squared widths of the
            reward range; see `GaussianReports.weight_variance`.
        thompson_scale: Factor on posterior standard deviations in the clients' Thompson sampling.
        n_candidates: Number of candidates in a simulated public decision set.
        constants: Constants of the learner, if it has any (`dpbandits.local.published.dubey2021_local`).

    Raises:
        InvalidParameter: an argument is out of range.
    """

    prior_variance: float = 0.2
    thompson_scale: float = 0.25
    n_candidates: int = 25
    constants: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _checks.scale(self.prior_variance, name="prior_variance", largest=_checks.TUNABLE)
        _checks.number(self.thompson_scale, name="thompson_scale", exclusive=False, maximum=_checks.TUNABLE)
        _checks.integer(self.n_candidates, name="n_candidates")


@worded
@dataclass(frozen=True, eq=False, kw_only=True)
class GPSpec(Contract["PublishedWeights"]):
    """The public contract of a locally private Gaussian-process bandit.

    It differs from Dubey2021, Algorithm 3, in three ways. Reports omit the Gram matrix phi phi^T of the
    chosen row's features, which the server simulates from public decision sets: a report is m numbers for m
    features. There are few features. The server regresses on the sums of each published version with the
    noise in the model, without a shift.

    The JSON holds the features as numbers. A spec that is computed anew can differ on another machine or
    with another linear algebra library. Keep its JSON, and give this to server and clients.

    Args:
        domain: Public set that contains every candidate. For contexts with arms use a `Spec`.
        features: Feature map of candidates, of norm at most 1.
        reward_range: Public (low, high); rewards are clipped to it.
        privacy: Guarantee of one report; `rounds_per_user` must be 1.
        learner: Learner of the server; `dubey2021` is Algorithm 3 as published, with phi phi^T in reports.
        seed: Seed of the simulated public decision sets.
        noise: Noise source of clients. `SimulatedNoise` is for studies, and protects nobody.
        deadline: Seconds after a choice at which a client reports it, with or without a reward.
        tuning: Settings that are rarely needed: prior, Thompson sampling and constants of the learner.

    Raises:
        InvalidParameter: a number is out of range, or domain and features do not fit together.

    Example:
        >>> from dpbandits.models.features import MercerFeatures
        >>> from dpbandits.models.kernels import SquaredExponential
        >>> line = domains.Box(low=[0], high=[1])
        >>> features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.3), domain=line, n_features=8)
        >>> privacy = JointDP(epsilon=4, delta=1e-6)
        >>> spec = GPSpec(domain=line, features=features, reward_range=(0, 1), privacy=privacy)
        >>> spec.features.n_features
        8
    """

    config_label, config_type, config_omits = "kind", "GPSpec", frozenset({"noise"})
    written_format = 1
    config_parsers = {  # noqa: RUF012
        "domain": domains.from_config,
        "features": feature_models.from_config,
        "reward_range": RewardRange.from_config,
        "privacy": definitions.from_config,
        "tuning": GPSpecTuning.from_config,
    }
    epsilons = ()

    domain: Domain
    features: Features
    reward_range: RewardRange
    privacy: JointDP
    learner: GPLearnerName = "weights"
    seed: Seed = 0
    noise: "NoiseSource" = field(default_factory=_secure)
    deadline: float = DEADLINE
    tuning: GPSpecTuning = field(default_factory=GPSpecTuning)

    def __post_init__(self) -> None:
        an(self.domain, Domain, name="domain", pass_="domain=Box(low=[0], high=[1])")
        an(self.features, Features, name="features", pass_="features=MercerFeatures(...)")
        check_arms(self.features, self.domain, per_arm=False)
        with reading("features of this domain"):
            self.features(self.domain.sample(1, np.random.default_rng(0)))
        assign(self, features=self.features.written_out())
        _checks.settle(self, deadline=_checks.number)
        object.__setattr__(self, "reward_range", RewardRange.of(self.reward_range))
        promise = an(self.privacy, JointDP, name="privacy", pass_="privacy=JointDP(epsilon=1, delta=1e-6)")
        if promise.rounds_per_user != 1:
            raise InvalidParameter(
                "privacy: expected JointDP with rounds_per_user=1, as a report covers one round; a client's "
                "ledger counts its reports"
            )
        if not promise.delta > 0.0:
            raise InvalidParameter(
                "privacy: delta is 0, which Gaussian reports do not allow: pass delta=1e-6, or build a "
                "Spec, whose reports have delta=0"
            )
        _checks.integer(self.seed, name="seed", minimum=0)
        tuning = an(self.tuning, GPSpecTuning, name="tuning", pass_="tuning=GPSpecTuning(thompson_scale=0.5)")
        _checks.one_of(self.learner, get_args(GPLearnerName), name="learner")
        check_constants(tuning.constants, _CONSTANTS[self.learner], most=_checks.LARGEST)

    @cached_property
    def protocol(self) -> "GaussianReports":
        """Implementation of the contract for clients and servers; see `Contract.protocol`."""
        return GaussianReports(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, noise: "NoiseSource | None" = None) -> Self:
        """Rebuild a contract, by default with secure noise; see `Configured.from_config`."""
        with reading("the configuration of a GPSpec"):
            fields = cls.arguments(config)
            return cls(**fields, noise=_secure() if noise is None else noise)


class GaussianReports(ReportProtocol["PublishedWeights"]):
    """Implementation of a `GPSpec` for clients and servers: a report is a vector of noisy integers."""

    report_format = 0xD2

    def __init__(self, spec: GPSpec) -> None:
        self._spec, self.publishes = spec, PublishedWeights
        self.status, self.domain = spec.noise.status, spec.domain

    def fits(self, published: "PublishedWeights") -> None:
        """Raise IncompatibleState if a version has another number of weights than the spec has features."""
        if len(published.mean) != self._spec.features.n_features:
            raise IncompatibleState("the weights belong to another spec: ask the server for both again")

    def label(self, arm: int) -> Any:
        """Return the number of the chosen row unchanged; see `ReportProtocol.label`."""
        return arm

    @property
    def weight_variance(self) -> float:
        """Prior variance of a feature weight, in squared widths of the reward range."""
        return self._spec.tuning.prior_variance * self._spec.features.scale**2

    @cached_property
    def release(self) -> "BlockRelease":
        """Mechanism that adds noise to the content of one report.

        Let phi be the features of the chosen row, with norm at most b, and z the scaled reward. Without the
        Gram matrix the sensitivity is that of the vector alone: ||z phi - z' phi'|| <= 2 b, also if the
        features differ.
        """
        from dpbandits.privacy.gram_vector import GramVectorMechanism
        from dpbandits.privacy.prefix_sums import BlockRelease, identity

        mechanism = GramVectorMechanism(
            n_features=self._spec.features.n_features,
            supports=self._spec.features.supports,
            vector_only=self._spec.learner != "dubey2021",
        )
        return BlockRelease(
            factor=identity(1),
            mechanism=mechanism,
            noise=self._spec.noise,
            epsilon=self._spec.privacy.epsilon,
            delta=self._spec.privacy.delta,
            max_rounds=1,
        )

    @cached_property
    def clamp(self) -> Clamp:
        """Public bounds of a report's integers.

        Clients clip to them, and the server drops reports outside.
        """
        from dpbandits.privacy.prefix_sums import RELEASE_UNIT

        mechanism = self.release.mechanism
        return gaussian_clamp(
            self.release.sigma,
            size=mechanism.size,
            entry=mechanism.largest_coordinate / RELEASE_UNIT + 1.0,
            norm=mechanism.largest_norm / RELEASE_UNIT + math.sqrt(mechanism.size),
        )

    @property
    def weight(self) -> float:
        """Largest effect of one report, honest or forged, in units of a user's largest contribution."""
        from dpbandits.privacy.prefix_sums import RELEASE_UNIT

        return self.clamp.norm * RELEASE_UNIT / self.release.mechanism.largest_norm

    def counted_by(self, _published: "PublishedWeights") -> tuple["_Integers"]:
        """Return the counter of reports, which adds their integers."""
        return (_Integers(self.release.mechanism.size, self.clamp),)

    # -- the client: from a context to a private payload ---------------------------------------------

    def own(self, privacy: JointDP | None) -> JointDP:
        """Return the contract's guarantee, which every client has; see `ReportProtocol.own`."""
        if privacy not in (None, self._spec.privacy):
            raise InvalidParameter("privacy: expected None or the spec's own privacy")
        return self._spec.privacy

    def choose(
        self, published: "PublishedWeights", context: Any, _privacy: JointDP, available: Any = None
    ) -> Chosen:
        """Return the choice of a row of the candidates (n, d). It is row 0 if no row can be read."""
        published.lineage(self._spec)
        if available is not None:
            raise InvalidParameter("available: applies to arms only; leave out rows of candidates instead")
        points = read_points(context, dim=self._spec.domain.dim, ndim=2)
        rows = np.flatnonzero([] if points is None else ~np.isnan(points).any(axis=1))
        if points is None or not len(rows):
            return Chosen(version=published.version, arm=0, about=None, missing=True)
        inside = self._spec.domain.clip(np.clip(points[rows], -_FARTHEST, _FARTHEST))
        best = self._best(published, inside)
        return Chosen(
            version=published.version,
            arm=int(rows[best]),
            about=inside[best].copy(),
            clipped=not np.array_equal(inside, points[rows]),
        )

    def _best(self, published: "PublishedWeights", rows: FloatArray) -> int:
        """Return the number of the chosen row among points (n, d) in the domain.

        For version 0 it is random and uniform; later it is the row with the largest of `scores`.
        """
        rng = np.random.Generator(np.random.PCG64(int.from_bytes(os.urandom(16), "little")))
        if published.version == 0:
            return int(rng.integers(len(rows)))
        phi, scale = self._spec.features(rows), self._spec.tuning.thompson_scale
        normals = rng.standard_normal(phi.shape[1:])
        return int(published.scores(phi, thompson_scale=scale, normals=normals).argmax())

    def check(self, context: Any) -> None:
        """Check candidates as `Contract.check` describes."""
        if isinstance(self._spec.domain, domains.Box):
            check_points(self._spec.domain, context, ndim=2)
            return
        rows = self._spec.domain.validate(context)
        if rows.ndim != 2 or not len(rows):
            raise InvalidData(f"candidates: expected shape (n, {self._spec.domain.dim}), n at least 1")

    def exact(self, choice: Chosen, reward: float | None) -> IntArray:
        """Return the exact integers of the chosen row, shape (1, D).

        They are zeros if context or reward is missing.
        """
        if choice.missing or reward is None:
            return np.zeros((1, self.release.mechanism.size), dtype=np.int64)
        z = self._spec.reward_range.to_centred(self._spec.reward_range.validate([reward], clip=True))
        return self.release.mechanism.encode(self._spec.features(choice.about[None]), z)[None]

    def noised(self, _choice: Chosen, exact: IntArray, _privacy: JointDP) -> bytes:
        """Return the payload: the exact integers plus noise. Here the user's data meets noise."""
        return self.clamp.clip(self.release.release(0, exact)).astype("<i8").tobytes()

    def terms(self, privacy: JointDP) -> dict[str, Any]:
        """Return the `ReleaseLog` entry of reports with this guarantee."""
        from dpbandits.privacy.release_terms import terms_of_release

        return terms_of_release(self.release.record(), self._spec.noise)

    def statement(self, privacy: JointDP) -> "Guarantee":
        """Return the guarantee of one report."""
        from dpbandits.local.contract.statement import gp_report_guarantee

        width = self._spec.reward_range.width
        return gp_report_guarantee(privacy, self.release, width=width, weight=self.weight, status=self.status)


@dataclass(frozen=True)
class _Integers:
    """Counter of payloads, each of `size` signed integers within public bounds."""

    size: int
    clamp: Clamp

    @property
    def report_bytes(self) -> int:
        return 8 * self.size

    def valid(self, payloads: Records) -> BoolArray:
        return self.clamp.holds(payloads.view("<i8"))

    def aggregate(self, payloads: Records) -> IntArray:
        return np.asarray(payloads.view("<i8").sum(axis=0, dtype=np.int64))

    def possible(self, aggregate: IntArray, n: int) -> bool:
        return self.clamp.may_add_to(aggregate, n)

    def excess(self, _aggregate: IntArray, _n: int) -> tuple[float, float]:
        """Return zeros, because the expected sum of noisy features is not known."""
        return 0.0, 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedWeights(Published):
    """Public message of a server: the posterior distribution of the m feature weights.

    Args:
        version: Number of the version, from 0.
        mean: Posterior mean, shape (m,).
        factor: Factor F of the posterior covariance F F^T, shape (m, m).
        radius: None for Thompson sampling; otherwise clients take the row with the largest mean + radius *
            sd.
    """

    kind = "PublishedWeights"

    version: int
    mean: FloatArray
    factor: FloatArray
    radius: float | None = None

    def __post_init__(self) -> None:
        with reading("published weights", IncompatibleState):
            for name in ("mean", "factor"):
                object.__setattr__(self, name, read_only(getattr(self, name), np.float64))
            radius = 0.0 if self.radius is None else self.radius
            _checks.number(radius, name="radius", exclusive=False)
        m = len(self.mean) if self.mean.ndim == 1 else -1
        if self.factor.shape != (m, m):
            raise IncompatibleState("published weights have a mean (m,) and a factor (m, m)")
        parts = self.mean, self.factor, np.array(float(radius))
        if not all(np.isfinite(one).all() and np.abs(one).max(initial=0.0) < 1e100 for one in parts):
            raise IncompatibleState("published weights have entries that are not finite or too large")
        if type(self.version) is not int or not 0 <= self.version < 1 << 32:
            raise IncompatibleState("published weights have a version from 0 to 2^32 - 1")

    def scores(self, phi: FloatArray, *, thompson_scale: float, normals: FloatArray | None) -> FloatArray:
        """Return scores (..., n) of n rows with m features each, phi (..., n, m). Clients choose the largest.

        Args:
            phi: Features of the rows.
            thompson_scale: Factor on posterior standard deviations.
            normals: Standard normal draws (..., m) for Thompson sampling, else None.

        Raises:
            InvalidParameter: Thompson sampling without normals.
        """
        if self.radius is not None:
            whitened = phi @ self.factor
            return np.asarray(phi @ self.mean + self.radius * np.sqrt((whitened**2).sum(axis=-1)))
        if normals is None:
            raise InvalidParameter("normals: expected standard normal draws (..., m) for Thompson sampling")
        weights = self.mean + thompson_scale * normals @ self.factor.T
        return np.asarray((phi @ weights[..., None])[..., 0])

    @worded
    def predict(self, spec: GPSpec, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n,) of the expected reward at points (n, d), from reports only.

        The deviation includes the part of the kernel that the spec's features do not represent.

        Raises:
            IncompatibleState: the weights belong to another spec.
            InvalidData: a point lies outside the domain.
        """
        from dpbandits.models.noisy_regression import WeightPosterior

        self.lineage(spec)
        rows = spec.domain.validate(contexts, name="points")
        law = WeightPosterior.of(self.mean, self.factor, spec.features.supports)
        mean, spread = law.predict_function(
            spec.features, rows, weight_variance=spec.protocol.weight_variance
        )
        return spec.reward_range.from_centred(mean), spec.reward_range.width * spread

    @worded
    def recommend_batch(self, spec: GPSpec, contexts: Any) -> tuple[Any, ...]:
        """Return the number of the row with the highest mean among the rows (n, d).

        See `Published.recommend_batch`.
        """
        mean = np.atleast_2d(self.predict(spec, contexts)[0])
        best = first_best(mean, unit=spec.reward_range.width)
        return tuple(best.tolist())

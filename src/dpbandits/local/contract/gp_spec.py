"""Contract of Gaussian-process devices and their server, and published weights.

A device chooses with the published weights, and reports the user's own z phi (and for Dubey2021, Algorithm
3, phi phi^T) with Gaussian noise that hides everything the user brought: a payload of D signed integers of
8 bytes, in units of 2^-20. NumPy is enough to choose; to calibrate its noise a device needs SciPy.

Privacy: each report is (epsilon, delta)-differentially private in the user's whole data, against the
server too; choices of others are computed from reports alone.
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

# What lies farther out is as far: no domain's arithmetic overflows on it.
_FARTHEST = 1e100

# Names of the constants of each learner (`dpbandits.local.learners`, which a device does not load).
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
        prior_variance: of the function where the kernel's variance is 1, in squared widths of the reward
            range; see `GaussianReports.weight_variance`.
        thompson_scale: multiplies posterior deviations in the devices' draws.
        n_candidates: of the simulated public decision sets.
        constants: of the learner, where it has any (`dpbandits.local.published.dubey2021_local`).

    Raises:
        InvalidParameter: an argument is outside what it may be.
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
    """The public contract between devices and server.

    Beside Dubey2021, Algorithm 3, it leaves the Gram out (the server simulates it from public decision sets,
    and a report is m numbers), takes few features, and the server regresses on the sums of each published
    version with the noise in the model, without a shift.

    Features are written out as numbers: a spec that is computed anew may be another one, on another machine
    or with another linear algebra library. Keep its JSON, and give this to server and devices.

    Args:
        domain: a public set that every candidate lies in. For people with contexts and arms build a `Spec`.
        features: map of candidates, of norm at most 1.
        reward_range: public (low, high); rewards are clipped to it.
        privacy: of one report; `rounds_per_user` must be 1.
        learner: of the server; `dubey2021` is Algorithm 3 as published, where devices report phi phi^T too.
        seed: of the simulated public sets.
        noise: of the devices. `SimulatedNoise` is for studies, and protects nobody.
        deadline: seconds after a choice by which a device reports it, with a reward or without.
        tuning: what is rarely needed: the prior, the draws and constants of the learner.

    Raises:
        InvalidParameter: numbers outside their ranges; domain and features that do not fit.

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
                "privacy: expected JointDP with rounds_per_user=1, as a report is of one round: a device's "
                "own ledger counts its reports"
            )
        if not promise.delta > 0.0:
            raise InvalidParameter(
                "privacy: delta is 0, and a Gaussian report needs more: pass delta=1e-6, or build a Spec, "
                "whose reports need none"
            )
        _checks.integer(self.seed, name="seed", minimum=0)
        tuning = an(self.tuning, GPSpecTuning, name="tuning", pass_="tuning=GPSpecTuning(thompson_scale=0.5)")
        _checks.one_of(self.learner, get_args(GPLearnerName), name="learner")
        check_constants(tuning.constants, _CONSTANTS[self.learner], most=_checks.LARGEST)

    @cached_property
    def protocol(self) -> "GaussianReports":
        """See `Contract.protocol`."""
        return GaussianReports(self)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, noise: "NoiseSource | None" = None) -> Self:
        """See `Configured.from_config`; the device's own noise is the operating system's by default."""
        with reading("the configuration of a GPSpec"):
            fields = cls.arguments(config)
            return cls(**fields, noise=_secure() if noise is None else noise)


class GaussianReports(ReportProtocol["PublishedWeights"]):
    """Protocol of devices and servers under a `GPSpec`: a report is a vector of noisy integers."""

    report_format = 0xD2

    def __init__(self, spec: GPSpec) -> None:
        self._spec, self.publishes = spec, PublishedWeights
        self.status, self.domain = spec.noise.status, spec.domain

    def fits(self, published: "PublishedWeights") -> None:
        """See `ReportProtocol.fits`: weights of the spec's features."""
        if len(published.mean) != self._spec.features.n_features:
            raise IncompatibleState("the weights belong to another spec: ask the server for both again")

    def label(self, arm: int) -> Any:
        """See `ReportProtocol.label`."""
        return arm

    @property
    def weight_variance(self) -> float:
        """Variance of a feature weight before any data, in squared widths of the reward range."""
        return self._spec.tuning.prior_variance * self._spec.features.scale**2

    @cached_property
    def release(self) -> "BlockRelease":
        """The one noisy release of a device.

        Without the Gram the geometry is that of the vector alone: ||z phi - z' phi'|| <= 2 b also when
        the features differ.
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
        """Public bounds of a report, in its units: devices clip to them, the server drops what is beyond."""
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
        """How far one report, honest or forged, can move the sums, in largest contributions of a person."""
        from dpbandits.privacy.prefix_sums import RELEASE_UNIT

        return self.clamp.norm * RELEASE_UNIT / self.release.mechanism.largest_norm

    def counted_by(self, _published: "PublishedWeights") -> tuple["_Integers"]:
        """How reports are counted: integers that add up."""
        return (_Integers(self.release.mechanism.size, self.clamp),)

    # -- the device's part: from a context to a private payload --------------------------------------

    def own(self, privacy: JointDP | None) -> JointDP:
        """See `ReportProtocol.own`: the spec's promise, for every device."""
        if privacy not in (None, self._spec.privacy):
            raise InvalidParameter("privacy: every device keeps the spec's")
        return self._spec.privacy

    def choose(
        self, published: "PublishedWeights", context: Any, _privacy: JointDP, available: Any = None
    ) -> Chosen:
        """See `ReportProtocol.choose`: the row of the candidates (n, d), 0 where none is read."""
        published.lineage(self._spec)
        if available is not None:
            raise InvalidParameter("available is for arms: of candidates leave rows out instead")
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
        """The row that is taken of these points of the domain (n, d)."""
        rng = np.random.Generator(np.random.PCG64(int.from_bytes(os.urandom(16), "little")))
        if published.version == 0:
            return int(rng.integers(len(rows)))
        phi, scale = self._spec.features(rows), self._spec.tuning.thompson_scale
        normals = rng.standard_normal(phi.shape[1:])
        return int(published.scores(phi, thompson_scale=scale, normals=normals).argmax())

    def check(self, context: Any) -> None:
        """See `Contract.check`."""
        if isinstance(self._spec.domain, domains.Box):
            check_points(self._spec.domain, context, ndim=2)
            return
        rows = self._spec.domain.validate(context)
        if rows.ndim != 2 or not len(rows):
            raise InvalidData(f"candidates: expected shape (n, {self._spec.domain.dim}), n at least 1")

    def exact(self, choice: Chosen, reward: float | None) -> IntArray:
        """(1, D) exact integers of the row that was chosen; zeros for what is missing."""
        if choice.missing or reward is None:
            return np.zeros((1, self.release.mechanism.size), dtype=np.int64)
        z = self._spec.reward_range.to_centred(self._spec.reward_range.validate([reward], clip=True))
        return self.release.mechanism.encode(self._spec.features(choice.about[None]), z)[None]

    def noised(self, _choice: Chosen, exact: IntArray, _privacy: JointDP) -> bytes:
        """The payload: where the user's data meets noise."""
        return self.clamp.clip(self.release.release(0, exact)).astype("<i8").tobytes()

    def terms(self, privacy: JointDP) -> dict[str, Any]:
        """See `ReportProtocol.terms`."""
        from dpbandits.privacy.release_terms import terms_of_release

        return terms_of_release(self.release.record(), self._spec.noise)

    def statement(self, privacy: JointDP) -> "Guarantee":
        """See `ReportProtocol.statement`."""
        from dpbandits.local.contract.statement import gp_report_guarantee

        return gp_report_guarantee(privacy, self.release, weight=self.weight, status=self.status)


@dataclass(frozen=True)
class _Integers:
    """`size` signed integers within public bounds."""

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
        """See `ReportMechanism.excess`: noisy features have no sum that is the same for everybody."""
        return 0.0, 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedWeights(Published):
    """The law of the feature weights, public.

    Args:
        version: counts publications from 0.
        mean: (m,).
        factor: (m, m); the covariance of the weights is factor @ factor.T.
        radius: None for a Thompson draw; else the row with the largest mean + radius * deviation.
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
            raise IncompatibleState("published weights hold numbers that no server computes")
        if type(self.version) is not int or not 0 <= self.version < 1 << 32:
            raise IncompatibleState("published weights have a version from 0 to 2^32 - 1")

    def scores(self, phi: FloatArray, *, thompson_scale: float, normals: FloatArray | None) -> FloatArray:
        """Scores (..., n) of rows with features phi (..., n, m); normals (..., m) for a Thompson draw."""
        if self.radius is not None:
            whitened = phi @ self.factor
            return np.asarray(phi @ self.mean + self.radius * np.sqrt((whitened**2).sum(axis=-1)))
        if normals is None:
            raise InvalidParameter("a Thompson draw needs normals")
        weights = self.mean + thompson_scale * normals @ self.factor.T
        return np.asarray((phi @ weights[..., None])[..., 0])

    @worded
    def predict(self, spec: GPSpec, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n,) of the expected reward at points (n, d), from reports only.

        The deviation includes what the spec's features leave out of their kernel.

        Raises:
            IncompatibleState: the weights belong to another spec.
            InvalidData: points outside the domain.
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
        """See `Published.recommend_batch`: the highest mean of the rows (n, d)."""
        mean = np.atleast_2d(self.predict(spec, contexts)[0])
        best = first_best(mean, unit=spec.reward_range.width)
        return tuple(best.tolist())

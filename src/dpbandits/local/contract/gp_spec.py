"""What Gaussian-process devices and their server agree on in public: the contract, and published policies."""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np

from dpbandits import _checks, domains
from dpbandits._reading import json_object, reading
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.local.contract.statement import gp_report_guarantee
from dpbandits.models import features as feature_models
from dpbandits.models.features import Features
from dpbandits.privacy import definitions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import NoiseSource, SecureNoise
from dpbandits.privacy.prefix_sums import BlockRelease, identity

__all__ = ["GPSpec", "PublishedWeights"]


@dataclass(frozen=True, eq=False, kw_only=True)
class GPSpec:
    """The public contract between devices and server.

    Args:
        domain: public set that every candidate lies in.
        features: map of norm at most 1.
        reward_range: public (low, high); rewards are clipped to it.
        privacy: of one report; `rounds_per_user` must be 1.
        report_gram: whether devices report phi phi^T too, or the server simulates it.
        prior_variance: of a feature weight, in squared widths of the reward range.
        thompson_scale: multiplies posterior deviations in the devices' draws.
        n_candidates: of the simulated public decision sets.
        seed: of the simulated public sets.
        noise: of the devices. `SimulatedNoise` is for studies, and protects nobody.

    Raises:
        InvalidParameter: numbers outside their ranges.
    """

    domain: Domain
    features: Features
    reward_range: RewardRange
    privacy: JointDP
    report_gram: bool = False
    prior_variance: float = 0.2
    thompson_scale: float = 0.25
    n_candidates: int = 25
    seed: Seed = 0
    noise: NoiseSource = field(default_factory=SecureNoise)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reward_range", RewardRange.of(self.reward_range))
        if self.privacy.rounds_per_user != 1:
            raise InvalidParameter("a device sends one report: rounds_per_user must be 1")
        _checks.number(self.prior_variance, name="prior_variance")
        _checks.number(self.thompson_scale, name="thompson_scale", exclusive=False)
        _checks.integer(self.n_candidates, name="n_candidates")
        _checks.integer(self.seed, name="seed", minimum=0)
        if self.report_gram not in (False, True):
            raise InvalidParameter("report_gram: expected True or False")

    @cached_property
    def release(self) -> BlockRelease:
        """The one noisy release of a device.

        Without the Gram the geometry is that of the vector alone: ||z phi - z' phi'|| <= 2 b also when
        the features differ.
        """
        mechanism = GramVectorMechanism(
            n_features=self.features.n_features,
            supports=self.features.supports,
            vector_only=not self.report_gram,
        )
        return BlockRelease(
            factor=identity(1),
            mechanism=mechanism,
            noise=self.noise,
            epsilon=self.privacy.epsilon,
            delta=self.privacy.delta,
            max_rounds=1,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What one report promises."""
        return gp_report_guarantee(self.privacy, self.release, status=self.noise.status)

    @cached_property
    def digest(self) -> bytes:
        """Four bytes that reports carry."""
        text = json.dumps(self.to_config(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=4).digest()

    def contribution(self, chosen: FloatArray, rewards: FloatArray) -> IntArray:
        """(n, D) exact integers that users would add without noise; rows (n, d), rewards (n,)."""
        phi = self.features(self.domain.validate(chosen))
        z = self.reward_range.to_centred(self.reward_range.validate(rewards, clip=True))
        rows = [self.release.mechanism.encode(phi[i : i + 1], z[i : i + 1]) for i in range(len(phi))]
        return np.array(rows, dtype=np.int64).reshape(len(phi), self.release.mechanism.size)

    def to_config(self) -> dict[str, Any]:
        """JSON-ready and complete, but for the noise source, which is the device's own."""
        return {
            "spec": "GPSpec",
            "domain": self.domain.to_config(),
            "features": self.features.to_config(),
            "reward_range": self.reward_range.to_config(),
            "privacy": self.privacy.to_config(),
            "report_gram": self.report_gram,
            "prior_variance": self.prior_variance,
            "thompson_scale": self.thompson_scale,
            "n_candidates": self.n_candidates,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], *, noise: NoiseSource | None = None) -> Self:
        """The spec that `to_config` described."""
        with reading("the configuration of a GPSpec"):
            fields = {key: value for key, value in config.items() if key != "spec"}
            privacy = definitions.from_config(fields["privacy"])
            if config["spec"] != "GPSpec" or not isinstance(privacy, JointDP):
                raise InvalidParameter("expected the configuration of a GPSpec")
            fields |= {
                "domain": domains.from_config(fields["domain"]),
                "features": feature_models.from_config(fields["features"]),
                "reward_range": RewardRange.from_config(fields["reward_range"]),
                "privacy": privacy,
                "noise": SecureNoise() if noise is None else noise,
            }
            return cls(**fields)


@dataclass(frozen=True, eq=False, kw_only=True)
class PublishedWeights:
    """A public policy: the law of the feature weights.

    Args:
        version: counts publications from 0.
        mean: (m,).
        factor: (m, m); the covariance of the weights is factor @ factor.T.
        radius: None for a Thompson draw; else the row with the largest mean + radius * deviation.
    """

    version: int
    mean: FloatArray
    factor: FloatArray
    radius: float | None = None

    def __post_init__(self) -> None:
        with reading("a published policy", IncompatibleState):
            for name in ("mean", "factor"):
                object.__setattr__(self, name, np.array(getattr(self, name), dtype=np.float64))
        m = len(self.mean) if self.mean.ndim == 1 else -1
        if self.factor.shape != (m, m):
            raise IncompatibleState("a published policy has a mean (m,) and a factor (m, m)")
        if self.radius is not None:
            with reading("a published policy", IncompatibleState):
                _checks.number(self.radius, name="radius", exclusive=False)
        radius = np.array(0.0 if self.radius is None else float(self.radius))
        if not all(
            np.isfinite(part).all() and np.abs(part).max(initial=0.0) < 1e100
            for part in (self.mean, self.factor, radius)
        ):
            raise IncompatibleState("a published policy holds numbers that no server computes")
        if type(self.version) is not int or not 0 <= self.version < 1 << 32:
            raise IncompatibleState("a published policy has a version from 0 to 2^32 - 1")

    def scores(self, phi: FloatArray, *, thompson_scale: float, normals: FloatArray | None) -> FloatArray:
        """Scores (..., n) of rows with features phi (..., n, m); normals (..., m) for a Thompson draw."""
        if self.radius is not None:
            whitened = phi @ self.factor
            return np.asarray(phi @ self.mean + self.radius * np.sqrt((whitened**2).sum(axis=-1)))
        if normals is None:
            raise InvalidParameter("a Thompson draw needs normals")
        weights = self.mean + thompson_scale * normals @ self.factor.T
        return np.asarray((phi @ weights[..., None])[..., 0])

    def to_json(self) -> str:
        """What the server sends to devices."""
        return json.dumps(
            {
                "version": self.version,
                "mean": self.mean.tolist(),
                "factor": self.factor.tolist(),
                "radius": self.radius,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read `to_json()`."""
        fields = json_object(text, "a published policy", IncompatibleState)
        with reading("a published policy", IncompatibleState):
            return cls(
                version=fields["version"],
                mean=np.array(fields["mean"], dtype=np.float64),
                factor=np.array(fields["factor"], dtype=np.float64),
                radius=fields["radius"],
            )

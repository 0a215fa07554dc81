"""`RIVALS`: named policies for comparisons, each with its trust model."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from dpbandits._typing import Seed
from dpbandits.central import GPBandit
from dpbandits.distributed import DistributedSpec, DistributedTuning
from dpbandits.domains import Arms, Product, RewardRange
from dpbandits.errors import InvalidParameter, NothingToLearn
from dpbandits.lab.baselines import (
    CellHistogram,
    ConstantArm,
    DistributedCrowd,
    FeatureGPUCB,
    LocalCrowd,
    PrivateRidge,
    Uniform,
)
from dpbandits.local import Spec
from dpbandits.policy import Policy
from dpbandits.privacy.definitions import DistributedDP, JointDP, LocalDP
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["NON_PRIVATE", "PROMISES", "RIVALS", "Rival", "Trust", "acted_by", "asked_by"]

Trust = Literal["central", "local", "distributed", "none"]

PROMISES: Mapping[Trust, type[JointDP | LocalDP | DistributedDP]] = {
    "central": JointDP,
    "local": LocalDP,
    "distributed": DistributedDP,
}
"""Class of the guarantees of each trust model."""

NON_PRIVATE = "non-private"
"""Name of the policy whose uplift over random choice is the divisor of the retained uplift."""

_UPDATE_GROWTH = 0.02
"""Share of the rounds so far after which the non-private policy learns again.

Learning after every round gives no better rewards and takes longer.
"""

Make = Callable[[Any, Seed, Any], Policy]
"""Type of functions (world, seed, promise) -> new policy with simulated noise; promise may be None."""


@dataclass(frozen=True, kw_only=True)
class Rival:
    """A policy that you can pass to `compare`.

    Attributes:
        trust: Trust model: "central", "local", "distributed", or "none" for a policy without protection.
        make: Function that builds the policy, see `Make`. It must be picklable to run in other processes.
    """

    trust: Trust
    make: Make

    def promise(self, epsilon: float, delta: float) -> JointDP | LocalDP | DistributedDP | None:
        """Return the guarantee with this epsilon in the policy's trust model; None without protection."""
        if self.trust == "none":
            return None
        kind = PROMISES[self.trust]
        return JointDP(epsilon=epsilon, delta=delta) if kind is JointDP else kind(epsilon=epsilon)


def asked_by(world: Any) -> dict[str, Any]:
    """Return the arguments for a policy in a world: contexts and arms if the world has them, else its domain.

    Reward range and horizon are included. In a world with actions these are plain arms, whose rewards are
    values: see `acted_by` for policies that take `actions=`.
    """
    schema, arms = getattr(world, "schema", getattr(world, "contexts", None)), getattr(world, "arms", None)
    shared = {"reward_range": world.reward_range, "horizon": world.horizon}
    if getattr(world, "actions", None) is not None:
        bounds = world.reward_range
        ends = world.values(np.repeat([[bounds.low], [bounds.high]], world.n_arms, axis=1))
        shared["reward_range"] = RewardRange(float(ends.min()), float(ends.max()))
    if schema is None or arms is None:
        return {"domain": world.domain, **shared}
    return {"contexts": schema, "arms": arms.labels if isinstance(arms, Arms) else tuple(arms), **shared}


def acted_by(world: Any) -> dict[str, Any]:
    """Return the arguments for a policy that takes `actions=`, or those of `asked_by` for a world without
    actions.
    """
    asked = asked_by(world)
    if getattr(world, "actions", None) is None:
        return asked
    del asked["arms"]
    return asked | {"actions": world.actions, "reward_range": world.reward_range}


def _private(policy: type[Any], world: Any, seed: Seed, promise: JointDP) -> Policy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)  # a comparison measures this
        asked = acted_by(world) if policy is GPBandit else asked_by(world)
        made: Policy = policy(**asked, privacy=promise, noise=SimulatedNoise(seed), seed=seed)
    return made


def _local(learner: str | None, world: Any, seed: Seed, promise: LocalDP) -> Policy:
    asked = acted_by(world) if learner is None else asked_by(world)
    if "domain" in asked:
        raise InvalidParameter("local policies need a world of contexts and arms")
    horizon = asked.pop("horizon")
    if learner is not None:
        asked["learner"] = learner
    return LocalCrowd(spec=Spec(**asked, privacy=promise), horizon=horizon, seed=seed)


def _distributed(world: Any, seed: Seed, promise: DistributedDP) -> Policy:
    asked = asked_by(world)
    if "domain" in asked:
        raise InvalidParameter("distributed policies need a world of contexts and arms")
    # a short run has smaller batches: nobody is protected in a simulation
    tuning = DistributedTuning(min_batch=min(DistributedTuning.min_batch, world.horizon))
    spec = DistributedSpec(**asked, privacy=promise, seed=seed, tuning=tuning)
    return DistributedCrowd(spec=spec, horizon=spec.horizon, seed=seed)


def _non_private(world: Any, seed: Seed, _promise: None) -> Policy:
    return FeatureGPUCB(**asked_by(world), update_growth=_UPDATE_GROWTH, seed=seed)


def _uniform(world: Any, seed: Seed, _promise: None) -> Policy:
    return Uniform(**asked_by(world), seed=seed)


def _constant(world: Any, seed: Seed, _promise: None) -> Policy:
    if not isinstance(world.domain, Product) or not isinstance(world.domain.parts[-1], Arms):
        raise InvalidParameter("the best fixed arm: only worlds with arms have one, leave this policy out")
    means = world.mean_rewards(0, world.horizon)
    if means is None:
        raise InvalidParameter("the best fixed arm: this world's mean rewards are unknown, leave it out")
    shared = {"domain": world.domain, "reward_range": world.reward_range, "horizon": world.horizon}
    if getattr(world, "actions", None) is not None:
        means = world.values(means)
        shared["reward_range"] = asked_by(world)["reward_range"]
    return ConstantArm(arm=int(means.mean(axis=0).argmax()), seed=seed, **shared)


RIVALS: Mapping[str, Rival] = {
    "GPBandit": Rival(trust="central", make=partial(_private, GPBandit)),
    "CellHistogram": Rival(trust="central", make=partial(_private, CellHistogram)),
    "PrivateRidge": Rival(trust="central", make=partial(_private, PrivateRidge)),
    "Spec": Rival(trust="local", make=partial(_local, None)),
    "Spec smooth": Rival(trust="local", make=partial(_local, "smooth")),
    "Spec tree": Rival(trust="local", make=partial(_local, "tree")),
    "Spec eliminate": Rival(trust="local", make=partial(_local, "eliminate")),
    "DistributedSpec": Rival(trust="distributed", make=_distributed),
    NON_PRIVATE: Rival(trust="none", make=_non_private),
    "uniform": Rival(trust="none", make=_uniform),
    "best fixed arm": Rival(trust="none", make=_constant),
}
"""Policies by name. "Spec" uses the default learner; "Spec tree" and similar name the learner."""

"""Simulated crowds of Gaussian-process clients. Reports are not encoded; noise has the true distribution.

Where people between two publications all act on one version, the noise of their reports is drawn as one
sum. Algorithm 3 as published learns from every report before the next person comes; there each report's
noise is drawn for itself, many reports in one call.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.central.schedule import default_blocks
from dpbandits.errors import InvalidParameter
from dpbandits.lab.study import Record
from dpbandits.local.contract.gp_spec import GPSpec, GPSpecTuning
from dpbandits.local.learners.weights import WeightLearner
from dpbandits.local.published.dubey2021_local import Dubey2021Weights
from dpbandits.policy import PublicCoins
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.gram_vector import SpectralBound
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.prefix_sums import RELEASE_UNIT
from reproduction.dubey2021.worlds import block_features, tree_features, world_of

__all__ = ["local_settings", "simulate_local", "simulate_published_local"]

ROUNDS_AT_A_TIME = 512
"""Reports whose noise is held at a time."""


def local_spec(name: str, promise: JointDP | None, seed: Seed, *, published: bool = False) -> GPSpec:
    """The contract of a crowd in a world; as published, with the paper's features and reported Grams."""
    if promise is None:
        raise InvalidParameter("the local columns need a promise")
    environment = world_of(name, 0)
    return GPSpec(
        domain=environment.domain,
        features=tree_features(name) if published else block_features(name),
        reward_range=environment.reward_range,
        privacy=promise,
        noise=SimulatedNoise(seed),
        learner="dubey2021" if published else "weights",
        tuning=GPSpecTuning(
            n_candidates=environment.n_candidates,
            constants={"horizon": environment.horizon} if published else {},
        ),
    )


def local_settings(
    name: str, promise: JointDP | None, *, bound: SpectralBound | None = None
) -> dict[str, Any]:
    """Everything that a run depends on, but for the seed; `bound`: of Algorithm 3, else None."""
    settings = {
        "spec": local_spec(name, promise, 0, published=bound is not None).to_config(),
        "world": name,
    }
    return settings if bound is None else settings | {"server": "Algorithm 3", "spectral_bound": bound}


def _lost(means: FloatArray, chosen: IntArray) -> FloatArray:
    """(2,) summed regret of candidates `chosen` (B,) and of random ones; mean rewards (B, n)."""
    best = means.max(axis=1)
    return np.array([(best - means[np.arange(len(means)), chosen]).sum(), (best - means.mean(axis=1)).sum()])


def simulate_local(name: str, promise: JointDP | None, seed: Seed) -> Record:
    """Regret of a crowd: each person chooses with the version of the day and reports once.

    The sum of n independent normal noises is sampled as one with standard deviation sqrt(n), which has the
    same distribution.
    """
    environment = world_of(name, seed)
    spec = local_spec(name, promise, seed)
    learner = WeightLearner(spec)
    coins = PublicCoins(seed)
    edges = np.unique([0, *default_blocks(environment.horizon), environment.horizon]).tolist()
    lost, m = np.zeros(2), spec.features.n_features
    for version, (start, stop) in enumerate(pairwise(edges)):
        learner.refine()
        policy = learner.publish(spec, version, coins)
        candidates = environment.decision_sets(start, stop)
        if policy.version == 0:
            share = coins.uniform("local/first", start, stop, 1)[:, 0]
            indices = (share * candidates.shape[1]).astype(np.int64)
        else:
            normals, scale = coins.normal("local/thompson", start, stop, m), spec.tuning.thompson_scale
            scores = policy.scores(spec.features(candidates), thompson_scale=scale, normals=normals)
            indices = scores.argmax(axis=1)
        rewards = environment.rewards(start, stop, indices)
        phi = spec.features(candidates[np.arange(stop - start), indices])
        exact = spec.protocol.release.mechanism.encode(phi, spec.reward_range.to_centred(rewards))
        noise = spec.noise.integer_gaussian(np.sqrt(stop - start) * spec.protocol.release.sigma, len(exact))
        units = spec.protocol.release.mechanism.to_coordinates(exact) / RELEASE_UNIT
        learner.add(policy.version, stop - start, np.rint(units).astype(np.int64) + noise)
        lost += _lost(environment.mean_rewards(start, stop), indices)
    return {"regret": float(lost[0]), "random": float(lost[1]), "seconds": 0.0}


def simulate_published_local(
    name: str, promise: JointDP | None, seed: Seed, *, bound: SpectralBound = "printed"
) -> Record:
    """Regret of a crowd under Algorithm 3: the policy is published anew after every report.

    Args:
        name: World, by name.
        promise: Promise of every report.
        seed: Seed of world, coins and noise.
        bound: Which bound on the noise the shift follows, see `Dubey2021Weights`.
    """
    environment = world_of(name, seed)
    spec = local_spec(name, promise, seed, published=True)
    learner = Dubey2021Weights(spec, horizon=environment.horizon, spectral_bound=bound)
    mechanism, size = spec.protocol.release.mechanism, spec.protocol.release.mechanism.size
    coins = PublicCoins(seed)
    first = int(coins.uniform("local/first", 0, 1, 1)[0, 0] * environment.n_candidates)
    lost = np.zeros(2)
    for start in range(0, environment.horizon, ROUNDS_AT_A_TIME):
        stop = min(start + ROUNDS_AT_A_TIME, environment.horizon)
        phi = spec.features(environment.decision_sets(start, stop))
        noise = spec.noise.integer_gaussian(spec.protocol.release.sigma, (stop - start) * size).reshape(
            -1, size
        )
        chosen = np.empty(stop - start, dtype=np.int64)
        for t in range(stop - start):
            policy = learner.publish(spec, start + t, coins)
            scores = policy.scores(phi[t], thompson_scale=0.0, normals=None)
            chosen[t] = first if policy.version == 0 else scores.argmax()
            reward = environment.rewards(start + t, start + t + 1, chosen[t : t + 1])
            exact = mechanism.encode(phi[t, chosen[t]][None], spec.reward_range.to_centred(reward))
            units = np.rint(mechanism.to_coordinates(exact) / RELEASE_UNIT).astype(np.int64)
            learner.add(policy.version, 1, units + noise[t])
        lost += _lost(environment.mean_rewards(start, stop), chosen)
    return {"regret": float(lost[0]), "random": float(lost[1]), "seconds": 0.0}

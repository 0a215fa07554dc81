"""Crowds of Gaussian-process devices, simulated at once: the noise of many reports is drawn as one sum."""

from itertools import pairwise
from typing import Any

import numpy as np

from dpbandits._typing import Seed
from dpbandits.central.schedule import default_blocks
from dpbandits.errors import InvalidParameter
from dpbandits.local.gp_spec import GPUCBSpec
from dpbandits.local.gp_ucb import GPUCBServer
from dpbandits.policy import PublicCoins
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.prefix_sums import RELEASE_UNIT
from dpbandits.studies.dubey2021_worlds import block_features, world
from dpbandits.studies.runner import Record

__all__ = ["local_settings", "simulate_local"]


def local_spec(name: str, promise: JointDP | None, seed: Seed) -> GPUCBSpec:
    """The contract of a crowd in a world."""
    if promise is None:
        raise InvalidParameter("the local column needs a promise")
    environment = world(name, 0)
    return GPUCBSpec(
        domain=environment.domain,
        features=block_features(name),
        reward_range=environment.reward_range,
        privacy=promise,
        n_candidates=environment.n_candidates,
        noise=SimulatedNoise(seed),
    )


def local_settings(name: str, promise: JointDP | None) -> dict[str, Any]:
    """Everything that a run depends on, but for the seed."""
    return {"spec": local_spec(name, promise, 0).to_config(), "world": name}


def simulate_local(name: str, promise: JointDP | None, seed: Seed) -> Record:
    """Regret of a crowd: each person chooses with the version of the day and reports once.

    The sum of n independent normal noises is drawn as one of standard deviation sqrt(n): the same law.
    """
    environment = world(name, seed)
    spec = local_spec(name, promise, seed)
    server = GPUCBServer(spec)
    coins = PublicCoins(seed)
    edges = (0, *default_blocks(environment.horizon), environment.horizon)
    regret = random = 0.0
    m = spec.features.n_features
    for start, stop in pairwise(edges):
        if start == stop:
            continue
        policy = server.publish()
        candidates = environment.decision_sets(start, stop)
        rows = np.arange(stop - start)
        if policy.version == 0:
            share = coins.uniform("local/first", start, stop, 1)[:, 0]
            indices = (share * candidates.shape[1]).astype(np.int64)
        else:
            normals = coins.normal("local/thompson", start, stop, m)
            scores = policy.scores(
                spec.features(candidates), thompson_scale=spec.thompson_scale, normals=normals
            )
            indices = scores.argmax(axis=1)
        rewards = environment.rewards(start, stop, indices)
        phi = spec.features(candidates[rows, indices])
        exact = spec.release.mechanism.encode(phi, spec.reward_range.to_centred(rewards))
        noise = spec.noise.integer_gaussian(np.sqrt(stop - start) * spec.release.sigma, len(exact))
        units = spec.release.mechanism.to_coordinates(exact) / RELEASE_UNIT
        server._add(policy.version, stop - start, np.rint(units).astype(np.int64) + noise)
        means = environment.mean_rewards(start, stop)
        best = means.max(axis=1)
        regret += float((best - means[rows, indices]).sum())
        random += float((best - means.mean(axis=1)).sum())
    return {"regret": regret, "random": random, "seconds": 0.0}

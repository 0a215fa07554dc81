"""Local policies end to end: the bytes that leave a device, and what a server publishes after one report."""

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue._shared import DELTA, Entry, LineFeatures, PreparedNoise, rows_of
from dpbandits.audit.claims import Audit, GaussianAudit, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.domains import Box, RewardRange
from dpbandits.local import (
    Client,
    GPSpec,
    GPUCBClient,
    GPUCBServer,
    PublishedArms,
    Server,
    Spec,
)
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.privacy.definitions import JointDP

__all__ = ["ENTRIES"]

_SPLIT = PublishedArms(version=0, splits=(0,), arms=np.array([0, 1]))
"""Two bins, an arm each."""

_CHOICES = 64
"""A device that draws its arm asks anew until it has the one in question, this many times at most."""


def _reports(epsilon: float, seed: int) -> Audit:
    """The device's whole path: choose, privatise, bytes; the header holds no data."""
    spec = Spec(domain=Box(low=[0.0], high=[1.0]), n_arms=2, epsilon=epsilon, mechanism="signed", seed=seed)

    def run(world: int) -> FloatArray:
        client = Client(spec)
        arm = client.choose(_SPLIT, [0.25])
        report = client.privatize([0.25], arm, reward=float(world))
        return np.frombuffer(report[HEADER_BYTES:], dtype=np.uint8).astype(np.float64)

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return SampledAudit(
        name="partition-bandit-report",
        epsilon=epsilon,
        scope="policy",
        sees="the bytes of one device's report",
        neighbours="reward lowest or highest, in the same bin",
        draw=draw,
        fit=fit_categories,
        share=0.5,
    )


def _published_policy(epsilon: float, seed: int) -> Audit:
    """A server that publishes after every report; arms are the device's, so probabilities are published."""
    spec = Spec(
        domain=Box(low=[0.0], high=[1.0]),
        n_arms=3,
        epsilon=epsilon,
        mechanism="krr",
        arms="user",
        reports_per_version=1,
        seed=seed,
    )

    def run(world: int) -> FloatArray:
        server = Server(spec)
        client, policy = Client(spec), server.publish()
        for _ in range(_CHOICES):
            if client.choose(policy, [0.25]) == 0:
                break
        server.absorb([client.privatize([0.25], 0, reward=float(world))])
        weights = server.publish().weights
        return np.zeros(1) if weights is None else np.round(weights, 9).ravel()

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return SampledAudit(
        name="partition-bandit-policy",
        epsilon=epsilon,
        scope="policy",
        sees="the policy that the server publishes after one report",
        neighbours="reward lowest or highest, in the same bin",
        draw=draw,
        fit=fit_categories,
        share=0.1,
    )


def _gp_spec(epsilon: float, seed: int, noise: PreparedNoise) -> GPSpec:
    return GPSpec(
        domain=Box(low=[-1.0], high=[1.0]),
        features=LineFeatures(),
        reward_range=RewardRange(0.0, 1.0),
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        n_candidates=2,
        seed=seed,
        noise=noise,
    )


def _gp_reports(epsilon: float, seed: int) -> Audit:
    spec = _gp_spec(epsilon, seed, PreparedNoise())
    policy = GPUCBServer(spec).publish()

    def run(world: int) -> FloatArray:
        client = GPUCBClient(spec)
        client.choose(policy, np.array([[1.0 - 2.0 * world]]))
        report = client.privatize(reward=1.0)
        return np.frombuffer(report[-8:], dtype="<i8").astype(np.float64)

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return GaussianAudit(
        name="local-gp-ucb-report",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="the bytes of one device's report",
        neighbours="one user's decision set turned around, reward 1",
        draw=draw,
        share=0.5,
    )


def _gp_weights(epsilon: float, seed: int) -> Audit:
    spec = _gp_spec(epsilon, seed, PreparedNoise())

    def run(world: int) -> FloatArray:
        server, client = GPUCBServer(spec), GPUCBClient(spec)
        client.choose(server.publish(), np.array([[1.0 - 2.0 * world]]))
        server.absorb([client.privatize(reward=1.0)])
        return np.asarray(server.publish().mean)

    def draw(world: int, n: int) -> FloatArray:
        return rows_of(lambda: run(world), n)

    return GaussianAudit(
        name="local-gp-ucb-policy",
        epsilon=epsilon,
        delta=DELTA,
        scope="policy",
        sees="the weights that the server publishes after one report",
        neighbours="one user's decision set turned around, reward 1",
        draw=draw,
        share=0.1,
    )


ENTRIES: tuple[Entry, ...] = (
    ("partition-bandit-report", _reports),
    ("partition-bandit-policy", _published_policy),
    ("local-gp-ucb-report", _gp_reports),
    ("local-gp-ucb-policy", _gp_weights),
)

"""Audits of whole local policies: the bytes that a client sends, and versions published after one report.

The function of an audit returns a `Draw`, which runs fresh clients and servers in world 0 or 1.
"""

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from itertools import combinations, product, starmap
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.catalogue.mechanisms import payloads
from dpbandits.audit.catalogue.parts import (
    DELTA,
    Entries,
    LineFeatures,
    Pairs,
    PreparedNoise,
    listed,
    lives,
)
from dpbandits.audit.claims import Draw, ExactAudit, GaussianAudit, SampledAudit
from dpbandits.audit.scores import fit_categories
from dpbandits.domains import Box, RewardRange
from dpbandits.local import (
    Client,
    GPSpec,
    GPSpecTuning,
    PublishedArms,
    PublishedQuestions,
    ReadoutSpec,
    Server,
    SourceClient,
    SourceSpec,
    Spec,
    SpecTuning,
)
from dpbandits.local.contract.bins import Chooser
from dpbandits.local.contract.gp_spec import GPLearnerName
from dpbandits.local.contract.reports import HEADER_BYTES
from dpbandits.local.contract.spec import LearnerName
from dpbandits.privacy.definitions import JointDP, LocalDP
from dpbandits.privacy.reports import PaperLaplace
from dpbandits.tables import Actions, Range, Schema
from dpbandits.tables.values import Revenue

__all__ = ["ENTRIES"]

ENTRIES: Entries = {}

_SPLIT = PublishedArms(version=0, splits=(0,), arms=np.array([0, 1]))
"""Version with two bins, each with its own arm."""

_CHOICES = 64
"""Largest number of times that a client chooses at random, until it gets the arm that the audit needs."""

_LEAD = 3
"""Amount in the attacker's forged reports by which the second arm's reward sum exceeds the first's."""

_policy = partial(listed, ENTRIES, scope="policy")
_bin = partial(
    _policy, kind=SampledAudit, neighbours="reward lowest or highest, in the same bin", fit=fit_categories
)
_gaussian = partial(
    _policy, kind=GaussianAudit, delta=DELTA, neighbours="one user's decision set turned around, reward 1"
)


def _spec(
    epsilon: float,
    seed: int,
    *,
    learner: LearnerName = "tree",
    chooser: Chooser = "server",
    n_arms: int = 2,
    n_users: int | None = None,
    **tuning: Any,
) -> Spec:
    return Spec(
        contexts=Box(low=[0.0], high=[1.0]),
        arms=range(n_arms),
        privacy=LocalDP(epsilon=epsilon),
        learner=learner,
        chooser=chooser,
        n_users=n_users,
        seed=seed,
        tuning=SpecTuning(**tuning),
    )


def _reported(spec: Spec, policy: PublishedArms, arm: int, reward: float) -> bytes:
    client = Client(spec, budget=spec.privacy.epsilon * _CHOICES)
    for _ in range(_CHOICES):
        if client.choose(policy, [0.25]) == arm:
            break
    return client.report(reward)


@_bin("local-bins-report", sees="the bytes of one device's report", share=0.15)
def _reports(epsilon: float, seed: int) -> Draw:
    spec = _spec(epsilon, seed, mechanism="signed")

    def run(world: int) -> FloatArray:
        client = Client(spec)
        client.choose(_SPLIT, [0.25])
        report = client.report(float(world))
        return np.frombuffer(report[HEADER_BYTES:], dtype=np.uint8).astype(np.float64)

    return lives(run)


@_bin("local-bins-policy", sees="the policy that the server publishes after one report", share=0.05)
def _published_policy(epsilon: float, seed: int) -> Draw:
    spec = _spec(epsilon, seed, n_arms=3, mechanism="krr", chooser="client", reports_per_version=1)

    def run(world: int) -> FloatArray:
        server = Server(spec)
        server.absorb([_reported(spec, server.publish(), 0, float(world))])
        weights = server.publish().weights
        return np.zeros(1) if weights is None else np.round(weights, 9)

    return lives(run)


_ASKED = 3
"""Number of reports of one client. The server writes each question after the earlier reports."""


@_policy(
    "local-questions",
    kind=SampledAudit,
    neighbours="any other context and reward",
    sees="the reports of one device to three questions, each written after the reports before",
    fit=fit_categories,
    share=0.15,
)
def _questioned(epsilon: float, seed: int) -> Draw:
    spec = _spec(epsilon / _ASKED, seed, learner="questions")
    left = spec.protocol.grids.whole.centres[:, 0] < 0.5

    @cache
    def written(number: int, odd: int) -> PublishedQuestions:
        """Return a version with a question that the two users answer differently.

        One user is on the left and has reward 0; the other is on the right and has reward 1. Versions about
        the reward and about the place alternate. The codes of the two users, and the arms, depend on earlier
        reports.
        """
        place = bool((number + odd) % 2)
        return PublishedQuestions(
            version=2 * number + odd,
            arms=left.astype(np.int64) ^ odd,
            parts=np.zeros(len(left), dtype=np.int64),
            turned=(left & place) ^ bool(odd),
            about="place" if place else "reward",
        )

    def run(world: int) -> FloatArray:
        client, heard = Client(spec, budget=epsilon), [0]
        for number in range(_ASKED):
            client.choose(written(number, sum(heard) % 2), [0.75 if world else 0.25])
            heard.append(client.report(float(world))[HEADER_BYTES])
        return np.array(heard[1:], dtype=np.float64)

    return lives(run)


_OUTCOMES = (0.0, 1.0)
"""Lowest and highest outcome, each of which gives one sign. Other outcomes give mixtures of their reports."""


@_policy(
    "local-questions-actions",
    kind=ExactAudit,
    neighbours="any other context and outcome",
    sees="the report of one device to a question about the outcome of a number that it got",
)
def _questioned_about_actions(epsilon: float, seed: int) -> Pairs:
    rng = np.random.default_rng(seed)
    actions = Actions(Schema(price=Range(1, 20, steps=8)), value=Revenue(), shape={"price": "decreasing"})
    people = Schema(age=Range(0, 1))
    spec = Spec(contexts=people, actions=actions, privacy=LocalDP(epsilon=epsilon))
    size = spec.protocol.grids.whole.size
    published = PublishedQuestions(
        version=0,
        arms=rng.integers(spec.n_arms, size=size),
        parts=rng.integers(spec.protocol.grids.n_parts, size=size),
        turned=rng.integers(2, size=size).astype(np.bool_),
    )

    def law(place: int, outcome: float) -> list[Fraction]:
        protocol = spec.protocol
        choice = protocol.choose(published, {"age": (place + 0.5) / size}, spec.privacy)
        cell, positive = protocol.exact(choice, outcome)
        report = choice.about[1]
        return [report.likelihood(sent, cell, positive=positive) for sent in payloads(report)]

    return lambda: combinations(starmap(law, product(range(size), _OUTCOMES)), 2)


def _readout(epsilon: float, seed: int) -> ReadoutSpec:
    how: dict[str, Any] = {"control": 0, "n_users": 2, "share": 0.25, "missing": 1.0, "seed": seed}
    policy = replace(_SPLIT)  # a version belongs to one spec
    return ReadoutSpec(target=_spec(epsilon, seed), policy=policy, privacy=LocalDP(epsilon=epsilon), **how)


@_policy(
    "local-readout-laws",
    kind=ExactAudit,
    neighbours="any other context, outcome or missing outcome",
    sees="the group and the bit of one device's report to a readout",
)
def _outcome_laws(epsilon: float, seed: int) -> Pairs:
    spec = _readout(epsilon, seed)
    protocol, control = spec.protocol, Fraction(spec.share)

    def law(context: Any, outcome: float | None) -> list[Fraction]:
        choice = protocol.choose(spec.policy, context, spec.privacy)
        positive = protocol.exact(choice, outcome)
        bits = [protocol.bit.likelihood(sent, 0, positive=positive) for sent in payloads(protocol.bit)]
        return [group * bit for group in (control, 1 - control) for bit in bits]

    return lambda: combinations(starmap(law, product(([0.25], [0.75], None), (*_OUTCOMES, None))), 2)


@_policy(
    "local-readout-report",
    kind=SampledAudit,
    neighbours="outcome lowest, or missing and with another context",
    sees="the bytes of one device's report to a readout",
    fit=fit_categories,
    share=0.15,
)
def _outcome_reports(epsilon: float, seed: int) -> Draw:
    spec = _readout(epsilon, seed)

    def run(world: int) -> FloatArray:
        client = Client(spec)
        client.choose(spec.policy, None if world else [0.25])
        report = client.report(None if world else 0.0)
        return np.frombuffer(report[HEADER_BYTES:], dtype=np.uint8).astype(np.float64)

    return lives(run)


def _gp_spec(epsilon: float, seed: int, *, learner: GPLearnerName = "weights", **tuning: Any) -> GPSpec:
    return GPSpec(
        domain=Box(low=[-1.0], high=[1.0]),
        features=LineFeatures(),
        reward_range=RewardRange(0.0, 1.0),
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        learner=learner,
        seed=seed,
        noise=PreparedNoise(),
        tuning=GPSpecTuning(n_candidates=2, **tuning),
    )


@_gaussian("local-gp-report", sees="the bytes of one device's report", share=0.15)
def _gp_reports(epsilon: float, seed: int) -> Draw:
    spec = _gp_spec(epsilon, seed)
    policy = Server(spec).publish()

    def run(world: int) -> FloatArray:
        client = Client(spec)
        client.choose(policy, np.array([[1.0 - 2.0 * world]]))
        report = client.report(1.0)
        return np.frombuffer(report[-8:], dtype="<i8").astype(np.float64)

    return lives(run)


def _weights(name: str, sees: str, share: float, **made: Any) -> None:
    @_gaussian(name, sees=f"the weights {sees}", share=share)
    def published(epsilon: float, seed: int) -> Draw:
        spec = _gp_spec(epsilon, seed, **made)

        def run(world: int) -> FloatArray:
            server, client = Server(spec), Client(spec)
            client.choose(server.publish(), np.array([[1.0 - 2.0 * world]]))
            server.absorb([client.report(1.0)])
            return np.asarray(server.publish().mean)

        return lives(run)


_weights("local-gp-policy", "that the server publishes after one report", 0.05)
_weights(
    "local-dubey2021-policy",
    "published after one report, Dubey2021's Algorithm 3",
    0.03,
    learner="dubey2021",
    constants={"horizon": 1.0},
)


# -- learning from another crowd, and the servers as published -------------------------------------------


@_bin("local-transfer", sees="the target's policy after a source's report was attached", share=0.01)
def _transferred(epsilon: float, seed: int) -> Draw:
    target = _spec(epsilon, seed, chooser="client", reports_per_version=1)
    source = SourceSpec(target=target, name="earlier", n_users=4, privacy=LocalDP(epsilon=epsilon))

    def run(world: int) -> FloatArray:
        devices, server = Server(source.reports), Server(target)
        client = SourceClient(source.reports)
        client.observe(devices.publish(), [0.25], arm=0)
        devices.absorb([client.report(float(world))])
        weights = server.attach(source, devices).weights
        return np.zeros(1) if weights is None else np.round(weights, 9)

    return lives(run)


@_policy(
    "local-ma2025-policy",
    SampledAudit,
    sees="the policy published after one report and three forged ones, Ma2025's Algorithm 2",
    neighbours="a user of the first arm, or of the second; reward highest",
    fit=fit_categories,
    share=0.05,
)
def _ma2025_policy(epsilon: float, seed: int) -> Draw:
    """Draw the probabilities of arms that Ma2025's server publishes; they show which arms are left."""
    constants = {"radius": 1e-3, "bias": 1e-3}
    how: dict[str, Any] = {"mechanism": "paper-laplace", "reports_per_version": 4, "constants": constants}
    spec = _spec(epsilon, seed, learner="ma2025", chooser="client", n_users=4, **how)
    policy = Server(spec).publish()
    clamp = PaperLaplace(n_cells=spec.n_arms, epsilon=epsilon).clamp
    count = int(min(clamp.entry, 0.4 * clamp.norm))
    entries = np.tile([count, 10, count, 10], (3, 1)).astype("<i2")
    entries[0, -1] += _LEAD
    forged = [_reported(spec, policy, 0, 1.0)[:HEADER_BYTES] + row.tobytes() for row in entries]

    def run(world: int) -> FloatArray:
        server = Server(spec)
        server.publish()
        server.absorb([_reported(spec, policy, world, 1.0), *forged])
        return np.asarray(server.publish().weights)

    return lives(run)

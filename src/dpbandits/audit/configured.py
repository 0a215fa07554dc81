"""Audit of one configuration of a `central.GPBandit` or a `local.Spec`, as it is run in practice.

*A central policy.* The policy is built from its configuration with a noise source that records the requested
noise and returns zeros. Its releases are then the exact integers that noise would hide. Users are simulated,
and one is replaced by another. The changes of the integers and the requested noise determine exactly the
privacy loss of the real release. The audit thus checks that columns, arms, horizon and rounds per user of
this configuration fit its guarantee. It needs no real data.

Marginal tables draw their noise from random words, and not from a noise source that can be replaced. Their
noise scale is measured in real releases.

*A local policy.* The law of reports on the first version is enumerated for every two inputs.

The noise itself, and the code around it, are attacked by the catalogue's audits that `names_for` lists, at
this configuration's epsilon.
"""

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import chdtri

from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.audit.catalogue.mechanisms import laws
from dpbandits.audit.catalogue.parts import PreparedNoise
from dpbandits.audit.claims import Audit, AuditRow, ExactAudit
from dpbandits.audit.running import AuditSettings, run_audits
from dpbandits.central import GPBandit
from dpbandits.errors import InvalidParameter
from dpbandits.local import Server, Spec
from dpbandits.privacy.certificates import GaussianDP
from dpbandits.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from dpbandits.privacy.reports import ReportMechanism

__all__ = ["ShiftAudit", "TableShiftAudit", "audit_configuration", "audit_of", "names_for"]

PEOPLE = 12
"""Number of simulated contexts.

Each occurs with the lowest and with the highest reward, and any two are neighbours.
"""

MOST_ROUNDS = 100_000
"""Largest number of simulated rounds. Later releases of a matrix mechanism are not audited."""

_TOGETHER = 5_000
"""Largest number of rounds in one call of `ask_batch`."""

_MOST_TOGETHER = 15
"""Largest number of changed entries with Laplace noise whose losses are added, at a delta above 0."""

_SHARE, _SECONDS = 0.002, 10.0
"""Number of real releases that measure the noise, as a share of the samples, and longest time in seconds."""

_FOR_KIND = {
    "features": ("near-gaussian", "discrete-gaussian", "gp-bandit-released", "gp-bandit-missing-rewards"),
    "cells": ("cell-sums", "gp-bandit-cells"),
    "marginals": ("gp-bandit-marginals",),
}


class _NoNoise(PreparedNoise):
    """Noise source with the interface of `SecureNoise` that returns zeros and records the requested noise.

    Attributes:
        asked: (law, scale or rate, size) of every draw, in order.
    """

    def __init__(self, scales: PreparedNoise) -> None:
        super().__init__(scales)
        self.asked: list[tuple[Literal["gaussian", "laplace"], float, int]] = []

    @property
    def status(self) -> Literal["enforced", "simulated"]:
        return "simulated"

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        self.asked.append(("gaussian", sigma, size))
        return np.zeros(size, dtype=np.int64)

    def integer_laplace(self, rate: float, size: int) -> IntArray:
        self.asked.append(("laplace", rate, size))
        return np.zeros(size, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class ShiftAudit(Audit):
    """Audit of a policy's releases: how far they change if one user is replaced, relative to their noise."""

    config: Mapping[str, Any]
    seed: int = 0

    _condition: ClassVar[str | None] = "noise of the law and scale that is asked for"
    _certain: ClassVar[bool] = True

    def _bound(self, samples: int, confidence: float) -> tuple[float, int, float | None]:
        scales = PreparedNoise()
        policy = _built(self.config, scales)
        rows = policy.domain.sample(PEOPLE, np.random.default_rng(self.seed))
        if policy.tuning.decision_sets == "public":  # neighbours differ in rewards only
            rows = rows[:1]
        ends = (policy.reward_range.low, policy.reward_range.high)
        worlds = [(row, reward) for row in rows for reward in ends]
        runs = [self._run(*world, scales, blocks=1) for world in worlds]
        found, first, second = max(
            (self._told(one, two), first, second)
            for (first, one), (second, two) in combinations(enumerate(runs), 2)
        )
        if policy.tuning.release == "features" and not policy.open_ended:  # later releases contain it
            blocks = max(1, sum(end <= MOST_ROUNDS for end in policy.batch_boundaries))
            pair = [self._run(*worlds[one], scales, blocks=blocks) for one in (first, second)]
            found = max(found, self._told(*pair))
        return found, 0, None

    def _run(self, row: FloatArray, reward: float, scales: PreparedNoise, *, blocks: int) -> "_Run":
        noise = _NoNoise(scales)
        released = _released(_built(self.config, noise), row, reward, blocks=blocks)
        normal = np.concatenate([np.full(size, law == "gaussian") for law, _, size in noise.asked])
        sizes = np.concatenate([np.full(size, scale) for _, scale, size in noise.asked])
        if released[len(sizes) :].any():
            raise InvalidParameter("audit: a release has entries without noise")
        return _Run(released[: len(sizes)], normal, sizes)

    def _told(self, one: "_Run", other: "_Run") -> float:
        moved = np.abs(one.integers - other.integers).astype(np.float64)
        normal = one.gaussian
        mu = math.sqrt(float(np.sum((moved[normal] / one.scales[normal]) ** 2)))
        if mu and not self.delta:
            return math.inf
        of_normal = GaussianDP(mu).epsilon_at(self.delta) if mu else 0.0
        return max(of_normal, _of_laplace(moved[~normal] * one.scales[~normal], self.delta))


@dataclass(frozen=True, kw_only=True)
class TableShiftAudit(ShiftAudit):
    """`ShiftAudit` of marginal tables. Their noise source cannot be replaced, so the noise is measured.

    Only the rewards of the first block are examined, not the contexts. The releases that measure the noise
    contain no rewards, so each of their entries is noise alone. This gives an upper bound on the noise's
    scale.
    """

    _condition: ClassVar[str | None] = "discrete Laplace noise"
    _certain: ClassVar[bool] = False

    def _bound(self, samples: int, confidence: float) -> tuple[float, int, float | None]:
        policy = _built(self.config, SimulatedNoise(0))
        ends = (policy.reward_range.low, policy.reward_range.high)
        rows = policy.domain.sample(PEOPLE, np.random.default_rng(self.seed))
        moved = []
        for row in rows:
            low, high = (_released(_built(self.config, SimulatedNoise(0)), row, end) for end in ends)
            moved.append(np.abs(high - low))
        # Sums follow the counts of a census and precede other counts; rewards do not change counts.
        first = min(int(np.flatnonzero(one)[0]) for one in moved)
        last = max(int(np.flatnonzero(one)[-1]) for one in moved)
        drawn: list[IntArray] = []
        noise, began = PreparedNoise(), time.process_time()
        while not drawn or (len(drawn) < samples * _SHARE and time.process_time() - began < _SECONDS):
            drawn.append(np.abs(_released(_built(self.config, noise), rows[0], None)[first : last + 1]))
        sizes = np.concatenate(drawn).astype(np.float64)
        scale = 2.0 * sizes.sum() / float(chdtri(2 * len(sizes), confidence))
        return max(_of_laplace(one / scale, self.delta) for one in moved), len(sizes), None


def _of_laplace(losses: FloatArray, delta: float) -> float:
    """Return the privacy loss of several entries with discrete Laplace noise."""
    largest = np.sort(losses[losses > 0.0])[::-1]
    if delta == 0.0:
        return float(largest.sum())
    # All of k entries show the whole ratio with probability at least 2^-k; delta is subtracted from it.
    ends = range(1, 1 + min(_MOST_TOGETHER, len(largest)))
    return max(
        [0.0, *(float(largest[:k].sum()) + math.log1p(-delta * 2**k) for k in ends if delta * 2**k < 1)]
    )


@dataclass(frozen=True)
class _Run:
    """Releases of one run: D integers, True where noise is Gaussian, and the noise's scale or rate."""

    integers: IntArray
    gaussian: np.ndarray[Any, np.dtype[np.bool_]]
    scales: FloatArray


def _built(config: Mapping[str, Any], noise: NoiseSource) -> GPBandit:
    return GPBandit(**_arguments(json.dumps(config, sort_keys=True)) | {"noise": noise})


@lru_cache(1)
def _arguments(config: str) -> dict[str, Any]:
    """Return the arguments of the policy's constructor from its configuration, a JSON text."""
    read = json.loads(config)
    if isinstance(read["tuning"].get("public_decision_sets"), str):
        read["tuning"]["public_decision_sets"] = None  # the attack supplies candidates
    return GPBandit.arguments({**read, "noise": SecureNoise().to_config()})


def _released(policy: GPBandit, row: FloatArray, reward: float | None, *, blocks: int = 1) -> IntArray:
    """Run the policy for `blocks` blocks; return all its releases, as integers.

    One user has all their rounds in the first of these blocks, with the candidate `row`. Only this user's
    reward is told, if it is not None. If the policy releases a census, the block of the census comes before
    these blocks and does not include that user. Every user is offered a single candidate, so that there is
    nothing to choose.
    """
    first = int(bool(policy.tuning.census))
    start, end = (0, *policy.blocks)[first : first + 2]
    needed = policy.batch_boundaries[first]
    if needed > MOST_ROUNDS:
        raise InvalidParameter(
            f"the first release comes after {needed} rounds, and an audit plays at most "
            f"{MOST_ROUNDS}: audit a configuration with a shorter horizon"
        )
    rounds = min(policy.privacy.rounds_per_user, end - start)
    other = policy.domain.sample(1, np.random.default_rng(0))

    def asked(rows: FloatArray, people: range | list[int]) -> tuple[str, ...]:
        return tuple(policy.ask_batch(rows[:, None], users=list(people) if policy.user_ids else None).ids)

    def others(begin: int, until: int) -> None:
        for here in range(begin, until, _TOGETHER):
            together = min(_TOGETHER, until - here)
            asked(np.repeat(other, together, axis=0), range(here + 1, here + 1 + together))

    others(0, start)
    ids = asked(np.repeat(row[None], rounds, axis=0), [0] * rounds)
    if reward is not None:
        policy.tell_batch(ids, np.full(rounds, reward))
    count = start + rounds
    for until in policy.batch_boundaries[first : first + blocks]:
        others(count, until)
        count = max(count, until)
        policy.publish(prior=True)
    return policy.released.ravel()


def _read(config: Mapping[str, Any]) -> "GPBandit | Spec":
    with reading("a configuration that can be audited"):
        if config.get("policy") == GPBandit.config_type:
            return _built(config, SimulatedNoise(0))
        if config.get(Spec.config_label) == Spec.config_type:
            return Spec.from_config(config)
    raise InvalidParameter("config: expected the result of to_config() of a central.GPBandit or a local.Spec")


def audit_of(config: Mapping[str, Any], *, seed: int = 0) -> Audit:
    """Return the audit of a configuration, the result of `GPBandit.to_config` or `Spec.to_config`.

    Raise InvalidParameter for another configuration.

    Example:
        >>> from dpbandits import Box, LocalDP
        >>> spec = Spec(contexts=Box([0], [1]), arms=range(2), privacy=LocalDP(epsilon=0.5))
        >>> row = audit_of(spec.to_config()).run()
        >>> row.claimed_epsilon, row.verdict
        (0.5, 'holds')
    """
    found = _read(config)
    if isinstance(found, Spec):
        return ExactAudit(
            name="configuration",
            epsilon=found.privacy.epsilon,
            scope="policy",
            sees="the payload of a report that answers the first version",
            neighbours="any two inputs (cell, sign)",
            pairs=lambda: combinations(laws(_first_report(found)), 2),
        )
    privacy, public = found.privacy, found.tuning.decision_sets == "public"
    tables = found.tuning.release == "marginals"
    facts: dict[str, Any] = {
        "name": "configuration",
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "scope": "policy",
        "sees": "sums of rewards in the first release" if tables else "all released integers",
        "neighbours": f"made-up users: the reward{'' if public or tables else 's and decision sets'} of "
        f"{privacy.rounds_per_user} round(s) in the first block",
    }
    return (TableShiftAudit if tables else ShiftAudit)(**facts, config=config, seed=seed)


def names_for(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the catalogue's audits for this kind of policy.

    Raise InvalidParameter as `audit_of` does.
    """
    found = _read(config)
    if isinstance(found, Spec):
        return (f"report-{_first_report(found).name}", "local-refusals", "local-missing-reward")
    return _FOR_KIND[found.tuning.release or "features"]


def _first_report(spec: Spec) -> ReportMechanism:
    return spec.protocol.counted_by(Server(spec).publish())[-1]


def audit_configuration(
    config: Mapping[str, Any],
    *,
    samples: int = 100_000,
    confidence: float = 0.999,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> list[AuditRow]:
    """Run the audit of a configuration and the catalogue's audits at its epsilon; return one row for each.

    Args:
        config: Result of `GPBandit.to_config` or `Spec.to_config`.
        samples, confidence, seed: See `AuditSettings`.
        progress: Function called with the name of every finished audit.

    Raises:
        InvalidParameter: `config` is another configuration, or a setting is out of range.
    """
    own = audit_of(config, seed=seed)
    settings = AuditSettings(epsilon=own.epsilon, samples=samples, confidence=confidence, seed=seed)
    first = own.run(samples=samples, confidence=confidence)
    if progress is not None:
        progress(own.name)
    return [first, *run_audits(names_for(config), settings, progress=progress)]

"""Fast runs of `central.published.Dubey2021` on arrays, whole or with changed parts.

The policy answers one person after another and could be stopped anywhere; a run of it is 10,000 releases
and takes 9 s in Table 1. Here features of many rounds are computed at once, the sums of a prefix are moved
on by one round and one node, and nothing is kept that only a restart needs. Choices are the policy's own but
for rounding: a test follows both.

`Parts` changes one thing at a time, to see what regret comes from: the drawn noise, the shift 2 Lambda of the
Gram, the confidence radius beta_t, the estimate.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.central.published import Dubey2021
from dpbandits.errors import InvalidParameter
from dpbandits.lab.study import Record
from dpbandits.lab.worlds import FunctionBandit
from dpbandits.policy import PublicCoins, best_choice
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.prefix_sums import RELEASE_UNIT
from reproduction.dubey2021.worlds import world_of

__all__ = ["Parts", "simulate_tree"]

ROUNDS_AT_A_TIME = 512
"""Rounds whose features are held at a time."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """How much of each part of the published policy is kept; 1 is the policy itself.

    Args:
        noise: Share of the noise that is added; 0 adds none. Shift and radius stay as for the whole noise.
        shift: Share of the shift 2 Lambda, above 0.
        radius: Share of beta_t; 0 chooses by the estimate alone.
        estimate: Share of the estimated rewards; 0 chooses the widest interval.

    Raises:
        InvalidParameter: a share below 0, no shift, or neither radius nor estimate.
    """

    noise: float = 1.0
    shift: float = 1.0
    radius: float = 1.0
    estimate: float = 1.0

    def __post_init__(self) -> None:
        _checks.number(self.shift, name="shift")
        for name in ("noise", "radius", "estimate"):
            _checks.number(getattr(self, name), name=name, exclusive=False)
        if not self.radius and not self.estimate:
            raise InvalidParameter("parts: a choice needs radius or estimate, one of them above 0")


WHOLE = Parts()


def simulate_tree(policy: Dubey2021, name: str, seed: Seed, *, parts: Parts = WHOLE) -> Record:
    """Regret of a fresh policy of a known horizon in a world, of a random one, and how far bonuses differ.

    Beside what every record has: `bonus`, how far beta_t ||phi||_{V^-1} of a round's candidates lie apart,
    the mean over rounds, and `apart`, the same of their expected rewards; both as shares of the reward range.

    Args:
        policy: says promise, formula, features and reward range; is not asked.
        name: Name of the world.
        seed: Seed of the world, the policy's coins and its noise.
        parts: Shares of the policy's parts.
    """
    world = world_of(name, seed)
    learner, coins = _Learner(policy, world.horizon, seed, parts), PublicCoins(seed)
    lost, apart = np.zeros(2), 0.0
    for start in range(0, world.horizon, ROUNDS_AT_A_TIME):
        stop = min(start + ROUNDS_AT_A_TIME, world.horizon)
        ties = coins.uniform("ties", start, stop, 1)
        chosen = _choices(learner, policy, world, start, ties)
        means = world.mean_rewards(start, stop)
        best, own = means.max(axis=1), means[np.arange(stop - start), chosen]
        lost += (best - own).sum(), (best - means.mean(axis=1)).sum()
        apart += float((best - means.min(axis=1)).sum())
    return {
        "regret": float(lost[0]),
        "random": float(lost[1]),
        "seconds": 0.0,
        "bonus": learner.bonus / world.horizon,
        "apart": apart / (world.horizon * policy.reward_range.width),
    }


def _choices(
    learner: "_Learner", policy: Dubey2021, world: FunctionBandit, start: int, ties: FloatArray
) -> IntArray:
    """Rows (B,) chosen in rounds from `start` on, each learned from before the next; ties (B, 1)."""
    stop = start + len(ties)
    phi = policy.features(world.decision_sets(start, stop))
    chosen: IntArray = np.empty(len(ties), dtype=np.int64)
    # every candidate's reward at once: one uniform number decides a round whatever is chosen
    rewards = np.stack(
        [world.rewards(start, stop, np.full(len(ties), k)) for k in range(phi.shape[1])], axis=1
    )
    scaled = (rewards - policy.reward_range.low) / policy.reward_range.width
    for t in range(len(ties)):
        chosen[t : t + 1] = best_choice(learner.scores(phi[t])[None], ties[t], None)
        learner.learn(phi[t, chosen[t]], float(scaled[t, chosen[t]]))
    return chosen


class _Learner:
    """The sums of Algorithm 1 and what is made of them, see `Dubey2021`."""

    def __init__(self, policy: Dubey2021, horizon: int, seed: Seed, parts: Parts) -> None:
        known, m = policy.diagnostics(), policy.features.n_features
        levels, node_sd = int(known["levels"]), float(known["node_noise_sd"])
        self._parts, self._norm_bound = parts, policy.tuning.norm_bound
        self._noise, self._sigma = SimulatedNoise(seed), node_sd / RELEASE_UNIT
        mechanism = GramVectorMechanism(n_features=m, ratio=2.0)
        gram_of_ones, vector_of_ones = mechanism.from_coordinates(np.ones(mechanism.size))
        rows, columns = np.triu_indices(m)
        unit = parts.noise * RELEASE_UNIT
        # what a released unit adds to which entry; of a Gram the lower triangle is enough for its factor
        self._places = columns * m + rows
        self._unit_of_gram, self._unit_of_vector = (
            unit * gram_of_ones[rows, columns],
            2.0 * unit * vector_of_ones,
        )
        self._gram, self._vector = np.zeros((m, m)), np.zeros(m)
        self._nodes = np.zeros((levels, mechanism.size), dtype=np.int64)
        self._prefix = np.zeros(mechanism.size, dtype=np.int64)
        self._round, self.bonus = 0, 0.0
        self._confidence = 2.0 * math.log(2.0 / policy.tuning.failure_probability)
        noise_sd = math.sqrt(levels) * node_sd
        tail = math.sqrt(2.0 * math.log(2.0 * horizon / policy.tuning.failure_probability))
        self._spectral = float(known["spectral_bound"])  # of a fresh policy of this horizon: all rounds'
        self._vector_noise = noise_sd / math.sqrt(2.0) * (math.sqrt(m) + tail)
        self._fit()

    def learn(self, phi: FloatArray, reward: float) -> None:
        """One round's (phi phi^T, y phi), and the node that it completes."""
        self._gram += np.outer(phi, phi)
        self._vector += reward * phi
        self._round += 1
        level = (self._round & -self._round).bit_length() - 1
        if level:
            self._prefix -= self._nodes[:level].sum(axis=0)
        self._nodes[level] = self._noise.integer_gaussian(self._sigma, len(self._prefix))
        self._prefix += self._nodes[level]
        self._fit()

    def _fit(self) -> None:
        m, of_gram = len(self._vector), len(self._places)
        gram = self._gram.copy()
        gram.reshape(-1)[self._places] += self._prefix[:of_gram] * self._unit_of_gram
        gram.reshape(-1)[:: m + 1] += 2.0 * self._parts.shift * self._spectral
        try:
            self._lower = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            values, basis = np.linalg.eigh(gram)
            least = self._parts.shift * self._spectral
            self._lower = np.linalg.cholesky((basis * np.maximum(values, least)) @ basis.T)
        vector = self._vector + self._prefix[of_gram:] * self._unit_of_vector
        self._weights = lapack.dpotrs(self._lower.T, vector, lower=0)[0]
        log_det = 2.0 * float(np.log(np.diag(self._lower)).sum()) - m * math.log(self._spectral)
        self._radius = self._parts.radius * (
            0.5 * math.sqrt(self._confidence + max(0.0, log_det))
            + self._norm_bound * math.sqrt(3.0 * self._spectral)
            + self._vector_noise / math.sqrt(self._spectral)
        )

    def scores(self, phi: FloatArray) -> FloatArray:
        """(n,) upper confidence bounds of candidates (n, m)."""
        whitened = lapack.dtrtrs(self._lower.T, phi.T, lower=0, trans=1)[0]
        width = np.sqrt(np.einsum("ij,ij->j", whitened, whitened))
        bonus = self._radius * width
        self.bonus += float(bonus.max() - bonus.min())
        return np.asarray(self._parts.estimate * (phi @ self._weights) + bonus)

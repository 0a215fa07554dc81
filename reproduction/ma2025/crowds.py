"""Reference policies for locally private ones: they see raw contexts, arms and rewards.

`ABSE` and `BinUCB` learn on worlds of (context, arms). They promise nothing, and are run on a whole crowd at
once by `play`; they are not ask/tell policies.
"""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import CrowdWorld, people_of
from dpbandits.lab.worlds.tables import TableBandit
from dpbandits.models.trees.partition import DyadicPartition

__all__ = ["ABSE", "BinUCB", "CrowdLearner", "play"]


class CrowdLearner(Protocol):
    """A learner for crowds."""

    def choose(self, contexts: FloatArray) -> IntArray:
        """(b,) arms for (b, dim) contexts."""

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Raw feedback of one batch."""


def play(
    world: CrowdWorld | TableBandit,
    learner: Callable[[], CrowdLearner],
    *,
    n_users: int,
    seed: int,
    batch: int = 100,
) -> FloatArray:
    """Regret and expected reward of every batch of users, rewards in [0, 1], (ceil(n_users/batch), 2).

    Args:
        world: who comes; a table's people as `people_of` sees them.
        learner: builds a fresh learner.
        n_users: how many come.
        seed: people and rewards.
        batch: users between two updates.
    """
    people = np.random.default_rng([seed, 0])
    crowd = people_of(world) if isinstance(world, TableBandit) else world
    contexts, means = crowd.draw(n_users, people)
    luck, best, one = people.random(n_users), means.max(axis=1), learner()
    totals = []
    for start in range(0, n_users, batch):
        stop = min(n_users, start + batch)
        here = contexts[start:stop]
        arms = one.choose(here)
        mean = means[np.arange(start, stop), arms]
        one.learn(here, arms, (luck[start:stop] < mean).astype(np.float64))
        totals.append(((best[start:stop] - mean).sum(), mean.sum()))
    return np.array(totals)


class ABSE:
    """Adaptively binned successive elimination: arrays over nodes and arms.

    Bins of side |B| pull their arms in turn. The interval has the width
    U = width sqrt(2 log(n |B|^(2 + dim))/pulls). An arm is dropped when its mean is below the best by more
    than U. A bin is split when U is below |B|, the largest change of a reward with Lipschitz constant 1 in
    the bin.

    Args:
        dim: number of context columns.
        n_arms: number of arms.
        n_users: n, the horizon.
        width: Width of the intervals. The paper's is 4; with smaller ones, arms are dropped sooner.

    Attributes:
        active: (N, K) which arms are left in every node.
        pulls: (N, K) how often each was pulled there.

    References:
        Perchet & Rigollet, *The multi-armed bandit problem with covariates*, 2013.
    """

    def __init__(self, *, dim: int, n_arms: int, n_users: int, width: float = 1.0) -> None:
        self.partition = DyadicPartition(dim=dim)
        self.n_arms, self.n_users, self.width = n_arms, n_users, width
        self.active = np.ones((1, n_arms), dtype=np.bool_)
        self.pulls, self._paid = np.zeros((1, n_arms)), np.zeros((1, n_arms))

    def choose(self, contexts: FloatArray) -> IntArray:
        """Arms in turn: of the arms left in a bin, those pulled least first."""
        nodes = self.partition.locate(contexts)
        arms = np.empty(len(nodes), dtype=np.int64)
        for node in np.unique(nodes):
            here = np.flatnonzero(nodes == node)
            left = np.flatnonzero(self.active[node])
            turn = left[np.argsort(self.pulls[node, left], kind="stable")]
            arms[here] = turn[np.arange(len(here)) % len(turn)]
        return arms

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Add raw feedback, drop arms, split bins."""
        nodes = self.partition.locate(contexts)
        np.add.at(self.pulls, (nodes, arms), 1.0)
        np.add.at(self._paid, (nodes, arms), rewards)
        leaves = self.partition.leaves
        side = 2.0 ** (-self.partition.depth[leaves] / self.partition.dim)
        log = np.maximum(np.log(self.n_users * side ** (2 + self.partition.dim)), 1.0)[:, None]
        pulls, active = self.pulls[leaves], self.active[leaves]
        seen = np.maximum(pulls, 1.0)
        radius = np.where(pulls > 0, self.width * np.sqrt(2.0 * log / seen), np.inf)
        mean = self._paid[leaves] / seen
        best = np.where(active & (pulls > 0), mean, -np.inf).max(axis=1, keepdims=True)
        active &= ~(best - mean > radius)
        self.active[leaves] = active
        done = (~active | (radius < side[:, None])).all(axis=1) & (active.sum(axis=1) > 1)
        chosen = leaves[done]
        if len(chosen):
            children = self.partition.split(chosen)
            fresh = np.zeros((2 * len(chosen), self.n_arms))
            self.pulls, self._paid = (np.concatenate([old, fresh]) for old in (self.pulls, self._paid))
            self.active = np.concatenate([self.active, np.repeat(self.active[chosen], 2, axis=0)])
            if len(self.active) != int(children.max()) + 1:
                raise RuntimeError("ABSE lost count of its bins")


class BinUCB:
    """UCB1 in every bin of a fixed grid of about (n/(K log n))^(1/(2 + dim)) bins a side.

    Args:
        dim: number of context columns.
        n_arms: number of arms.
        n_users: n, the horizon.
        side: bins a side; by default the rate above.
        width: factor on UCB1's exploration term.

    References:
        Rigollet & Zeevi, *Nonparametric bandits with covariates*, 2010; Auer et al. 2002 for UCB1.
    """

    def __init__(
        self, *, dim: int, n_arms: int, n_users: int, side: int | None = None, width: float = 0.5
    ) -> None:
        if n_users < 2:
            raise InvalidParameter("n_users: expected at least 2")
        rate = (n_users / (n_arms * math.log(n_users))) ** (1.0 / (2 + dim))
        self.side = max(1, math.ceil(rate)) if side is None else side
        self.dim, self.n_arms, self.width = dim, n_arms, width
        shape = (self.side**dim, n_arms)
        self._pulls, self._paid = np.zeros(shape), np.zeros(shape)

    def choose(self, contexts: FloatArray) -> IntArray:
        """The arm of largest upper bound; in a bin with several users, arms never pulled take turns."""
        bins = self._bins(contexts)
        pulls = self._pulls[bins]
        total = np.maximum(pulls.sum(axis=1, keepdims=True), 2.0)
        seen = np.maximum(pulls, 1.0)
        upper = self._paid[bins] / seen + self.width * np.sqrt(2.0 * np.log(total) / seen)
        bound = np.where(pulls > 0, upper, np.inf)
        turn = (np.arange(self.n_arms) - np.arange(len(bins))[:, None]) % self.n_arms
        return np.asarray(np.lexsort((turn, -bound), axis=1)[:, 0])

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Add raw feedback."""
        bins = self._bins(contexts)
        np.add.at(self._pulls, (bins, arms), 1.0)
        np.add.at(self._paid, (bins, arms), rewards)

    def _bins(self, contexts: FloatArray) -> IntArray:
        steps = np.minimum((contexts * self.side).astype(np.int64), self.side - 1)
        return np.asarray(steps @ (self.side ** np.arange(self.dim)))

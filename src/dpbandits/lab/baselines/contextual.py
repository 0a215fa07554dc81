"""What the non-private contextual comparators share: people in, regret out.

These are yardsticks for locally private policies on worlds of (context, arms): they see raw contexts, arms
and rewards, promise nothing, and are run on a whole crowd at once. They are not ask/tell policies.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["ContextWorld", "Crowd", "play"]


class ContextWorld(Protocol):
    """People with contexts in the unit cube; see `dpbandits.lab.worlds.contextual`."""

    @property
    def dim(self) -> int:
        """Number of context columns."""

    @property
    def n_arms(self) -> int:
        """Number of arms."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Contexts (n, dim) and mean rewards (n, n_arms), in [0, 1]."""


class Crowd(Protocol):
    """A learner for crowds."""

    def choose(self, contexts: FloatArray) -> IntArray:
        """(b,) arms for (b, dim) contexts."""

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Raw feedback of one batch."""


def play(
    world: ContextWorld, learner: Callable[[], Crowd], *, n_users: int, seed: int, batch: int = 100
) -> FloatArray:
    """Regret and expected reward of every batch of users, (ceil(n_users/batch), 2).

    Args:
        world: who comes.
        learner: builds a fresh learner.
        n_users: how many come.
        seed: people and rewards.
        batch: users between two updates.
    """
    people = np.random.default_rng([seed, 0])
    contexts, means = world.draw(n_users, people)
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

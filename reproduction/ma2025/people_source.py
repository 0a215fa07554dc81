"""Auxiliary users of a table as the source of a simulated target."""

from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.lab.worlds.contextual import People
from dpbandits.lab.worlds.transfer import drawn_arms

__all__ = ["PeopleSource"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleSource(People):
    """A table's auxiliary part as a source: its people, arms drawn from public probabilities.

    Attributes:
        weights: (K,) or (N, K) probabilities of the arms.
    """

    weights: FloatArray

    def propensities(self) -> FloatArray | None:
        """(K,) probabilities of the arms, or None where they depend on the person."""
        return self.weights if self.weights.ndim == 1 else None

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """n different people: contexts (n, dim), what every arm pays them (n, K), arms (n,)."""
        rows = self.rows(n, rng)
        chances = np.broadcast_to(self.weights, self.rewards.shape)[rows]
        return self.columns[rows], self.rewards[rows], drawn_arms(chances, rng)

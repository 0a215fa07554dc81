"""Measured coverage of the radius (14) of Ma2025's Proposition 2.7, for each constant.

The proposition says that with probability 1 - n^-2 every estimate is within (14) of its conditional mean, for
all t >= ln(n)^2, arms and bins. With sums U and V and the conditional mean E of the users who pulled the arm,
that is (V - E U)^2 <= C_n max(t/epsilon^2, U), C_n = c ln(n). So each run has a smallest c that covers all of
it. A constant covers the share of runs whose smallest c it reaches.

The noise of V - E U alone has variance 32 (1 + E^2) t/epsilon^2, two sums of Laplace(4/epsilon): 32 (1 + E^2)
times what stands under the root. So no c far below 32 can cover where that noise dominates.

Here the bins are those of one depth from the first user on, and arms are drawn evenly. Noise is simulated.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import Seed
from dpbandits.lab.study import Cell, Record, Row, values_of
from reproduction.experiments import Item
from reproduction.local_worlds import world
from reproduction.ma2025.cells import PRINTED_WORLD
from reproduction.ma2025.methods import PRINTED_CONSTANTS
from reproduction.ma2025.theory import warm_start

__all__ = ["ITEMS", "CoverageCell", "smallest_constant"]


def smallest_constant(*, n_users: int, epsilon: float, depth: int, seed: Seed) -> float:
    """The smallest c with which (14) covers every bin and arm from ln(n)^2 users on, in one run.

    Args:
        n_users: number of users, each of whom reports about every bin and arm.
        epsilon: privacy parameter of a report.
        depth: depth of the bins, which halve the square in turn.
        seed: seed of people, arms, rewards and noise.
    """
    rng, one = np.random.default_rng([seed, 30]), world(PRINTED_WORLD)
    contexts, means = one.draw(n_users, rng)
    arms = rng.integers(one.n_arms, size=n_users)
    sides = [2 ** ((depth + 1) // 2), 2 ** (depth // 2)]
    steps = (contexts[:, :2] * sides).astype(np.int64)
    cells = (steps[:, 0] * sides[1] + steps[:, 1]) * one.n_arms + arms
    rows, mean = np.arange(n_users), means[np.arange(n_users), arms]
    rewards = rng.random(n_users) < mean
    shape = (n_users, 2**depth * one.n_arms)
    counted, expected = np.zeros(shape), np.zeros(shape)
    counted[rows, cells], expected[rows, cells] = 1.0, mean
    noisy = (4.0 / epsilon) * rng.laplace(size=(2, *shape))
    noisy[0] += counted
    noisy[1, rows, cells] += rewards
    pulls, expected, (count, paid) = (part.cumsum(axis=-2) for part in (counted, expected, noisy))
    conditional = expected / np.maximum(pulls, 1.0)
    users = np.arange(1, n_users + 1)[:, None]
    off = (paid - conditional * count) ** 2 / np.maximum(users / epsilon**2, count)
    return float(off[math.ceil(warm_start(n_users)) - 1 :].max() / math.log(n_users))


@dataclass(frozen=True, kw_only=True)
class CoverageCell(Cell):
    """One epsilon and one depth.

    Attributes:
        epsilon: privacy parameter of a report.
        depth: depth of the bins.
        n_users: number of users.
    """

    epsilon: float
    depth: int
    n_users: int = 10_000

    fields: ClassVar = {"rounds": "n_users"}

    def simulate(self, seed: Seed) -> Record:
        """The smallest constant that covers."""
        own: dict[str, Any] = {"n_users": self.n_users, "epsilon": self.epsilon, "depth": self.depth}
        return {"needed": round(smallest_constant(**own, seed=seed), 6)}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Runs that each printed constant covers, and quantiles of the smallest one that does."""
        (row,) = super().rows(records)
        needed = values_of(records, "needed")
        row |= {name: int((needed <= c).sum()) for name, c in PRINTED_CONSTANTS.items()}
        low, middle, high = np.quantile(needed, (0.05, 0.5, 0.95))
        row |= {"needed_05": low, "needed_50": middle, "needed_95": high, "needed_most": needed.max()}
        return [row | {"failures_promised": len(records) / self.n_users**2}]


ITEMS = {
    "coverage": Item(
        about="how often the confidence radius of Proposition 2.7 covers",
        cells=[CoverageCell(epsilon=epsilon, depth=depth) for epsilon in (1.0, 8.0) for depth in (0, 2, 4)],
        key=("epsilon", "depth", "n_users"),
        shown=(
            "epsilon:g | depth | n_users:, | ma2025-c1 | ma2025-2log2 | ma2025-c64"
            " | needed_50:.1f | needed_95:.1f | needed_most:.1f"
        ),
        reps=200,
    )
}

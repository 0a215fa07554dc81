"""Worlds for evaluating local policies: contexts in the unit cube, K arms and rewards 0 or 1.

A world has a distribution of contexts and K mean rewards. Results are reported on `REPORT_WORLDS`. Constants
were chosen on the worlds of `reproduction.local_worlds`, which share no reward function with these.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter

__all__ = ["REPORT_WORLDS", "WORLDS", "People", "PeopleWorld", "World", "income_people", "ma2025", "world"]

Means = Callable[[FloatArray], FloatArray]
"""Function from contexts (n, dim) to mean rewards (n, n_arms)."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A stationary contextual world.

    Attributes:
        name: Name of the world in tables.
        dim: Number of context columns, each in [0, 1].
        n_arms: Number of arms.
        mean_rewards: Function from contexts (n, dim) to probabilities of reward 1, shape (n, n_arms).
        contexts: Function from n and a generator to contexts (n, dim); None for uniform contexts.
    """

    name: str
    dim: int
    n_arms: int
    mean_rewards: Means
    contexts: Callable[[int, np.random.Generator], FloatArray] | None = None

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Sample the contexts (n, dim) and mean rewards (n, n_arms) of n users."""
        contexts = rng.random((n, self.dim)) if self.contexts is None else self.contexts(n, rng)
        return contexts, self.mean_rewards(contexts)


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """Users of a table of N rows: some of its columns as context, and the reward of every arm for each user.

    Attributes:
        columns: Context columns in [0, 1], shape (N, dim).
        rewards: Reward of every arm for each user, shape (N, n_arms).
        ordered: True if users come in the order of the rows.
    """

    columns: FloatArray
    rewards: FloatArray
    ordered: bool = False

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return int(self.columns.shape[1])

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return int(self.rewards.shape[1])

    def rows(self, n: int, rng: np.random.Generator) -> IntArray:
        """Return the numbers (n,) of n different rows: the first rows if `ordered`, else random ones."""
        if n > len(self.columns):
            raise InvalidParameter(f"the table has {len(self.columns)} users: expected no more than that")
        return np.arange(n) if self.ordered else rng.permutation(len(self.columns))[:n]


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleWorld(People):
    """A table as a contextual world.

    Attributes:
        name: Name of the world in tables.
    """

    name: str

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Sample n different users; return contexts (n, dim) and the reward of every arm (n, n_arms)."""
        rows = self.rows(n, rng)
        return self.columns[rows], self.rewards[rows]


def income_people(name: str = "cps-income") -> PeopleWorld:
    """Return a world of an income table (see `load`): age and education, and earnings brackets as arms."""
    from dpbandits.lab.worlds.datasets import load

    table = load(name, seed=0)
    columns = np.ascontiguousarray(table.contexts[:, :2])
    return PeopleWorld(name=name, columns=columns, rewards=table.reward_table)


def ma2025(*, n_arms: int = 3, dim: int = 2) -> World:
    """Return Ma2025's first synthetic world, with uniform contexts.

    The mean rewards are f_k = 2 E/(1 + E) with E = exp(-2 K^2 (x_1 - c_k)^2). The centres c_k = k/(K + 1) are
    those of the authors' public code.

    Args:
        n_arms: Number of arms K.
        dim: Number of columns; only the first matters.
    """
    middle = np.arange(1, n_arms + 1) / (n_arms + 1)
    return World(name="ma", dim=dim, n_arms=n_arms, mean_rewards=ma2025_means(middle))


def ma2025_means(centres: FloatArray) -> Means:
    """Return the mean reward function of Ma2025's first synthetic world with centres (K,); see `ma2025`."""

    def mean_rewards(x: FloatArray) -> FloatArray:
        decay = np.exp(-2.0 * len(centres) ** 2 * (x[:, :1] - centres) ** 2)
        return np.asarray(2.0 * decay / (1.0 + decay))

    return mean_rewards


def bumps(centres: ArrayLike, width: float, low: float = 0.1, height: float = 0.8) -> Means:
    """Return the mean rewards low + height exp(-|x - c_k|^2/(2 width^2)) as a function of x.

    The centres c_k have shape (K, dim).
    """
    places = np.asarray(centres)

    def mean_rewards(x: FloatArray) -> FloatArray:
        square = ((x[:, None, :] - places) ** 2).sum(axis=2)
        return np.asarray(low + height * np.exp(-square / (2.0 * width**2)))

    return mean_rewards


def _diagonal(x: FloatArray) -> FloatArray:
    gap = x.mean(axis=1)[:, None] - np.array([0.3, 0.5, 0.7])
    return np.asarray(0.1 + 0.8 * np.exp(-(gap**2) / (2.0 * 0.12**2)))


def _clusters(n: int, rng: np.random.Generator) -> FloatArray:
    kind = rng.random(n)[:, None]
    corner = np.stack([rng.beta(3, 30, n), rng.beta(30, 3, n)], axis=1)
    centre = np.stack([rng.beta(40, 25, n), rng.beta(25, 40, n)], axis=1)
    return np.where(kind < 0.5, corner, np.where(kind < 0.85, centre, rng.random((n, 2))))


_RADIAL = [[0.2, 0.2, 0.3], [0.8, 0.2, 0.6], [0.3, 0.8, 0.2], [0.7, 0.8, 0.8], [0.5, 0.5, 0.5]]
_CLUSTERED = bumps([[0.25, 0.25], [0.75, 0.4], [0.35, 0.8]], 0.25)
_MA = ma2025()

_REPORTED = (
    _MA,
    World(name="diagonal", dim=2, n_arms=3, mean_rewards=_diagonal),
    World(name="radial-3d", dim=3, n_arms=5, mean_rewards=bumps(_RADIAL, 0.3)),
    World(name="clustered", dim=2, n_arms=3, mean_rewards=_CLUSTERED, contexts=_clusters),
    World(name="small-gaps", dim=2, n_arms=3, mean_rewards=lambda x: 0.45 + 0.1 * _MA.mean_rewards(x)),
)
_WORLDS = {one.name: one for one in _REPORTED}

REPORT_WORLDS = tuple(one.name for one in _REPORTED)
"""Names of the five worlds on which results are reported."""

_TABLES = ("cps-income", "synthetic-income")

WORLDS = (*_WORLDS, *_TABLES)
"""Names that `world` accepts; `cps-income` needs the extra `datasets`."""


def world(name: str) -> World | PeopleWorld:
    """Return a world by name, and raise InvalidParameter if the name is unknown."""
    if name not in WORLDS:
        raise InvalidParameter(f"world: expected one of {sorted(WORLDS)}")
    return income_people(name) if name in _TABLES else _WORLDS[name]

"""Worlds with a context in the unit cube, K arms and rewards 0 or 1: what local policies are tried on.

A world is a law of contexts and K mean rewards. The report worlds are those of the results page; constants
were chosen on the worlds of `reproduction.local_worlds`, which share no reward function with them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter

__all__ = ["REPORT_WORLDS", "WORLDS", "People", "PeopleWorld", "World", "income_people", "ma2025", "world"]

Means = Callable[[FloatArray], FloatArray]
"""Contexts (n, dim) -> mean rewards (n, n_arms)."""


@dataclass(frozen=True, kw_only=True)
class World:
    """A stationary contextual world.

    Attributes:
        name: for tables.
        dim: number of context columns, each in [0, 1].
        n_arms: number of arms.
        mean_rewards: (n, dim) contexts -> (n, n_arms) probabilities of reward 1.
        contexts: (n, generator) -> (n, dim); None: uniform.
    """

    name: str
    dim: int
    n_arms: int
    mean_rewards: Means
    contexts: Callable[[int, np.random.Generator], FloatArray] | None = None

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Contexts (n, dim) and mean rewards (n, n_arms) of n people."""
        contexts = rng.random((n, self.dim)) if self.contexts is None else self.contexts(n, rng)
        return contexts, self.mean_rewards(contexts)


@dataclass(frozen=True, kw_only=True, eq=False)
class People:
    """People of a table: some of its columns as context, and what every arm pays each of them.

    Attributes:
        columns: (N, dim) context columns in [0, 1].
        rewards: (N, n_arms) what every arm pays for each person.
        ordered: they come in the order of the rows.
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
        """(n,) different people, in random order unless they have one."""
        if n > len(self.columns):
            raise InvalidParameter(f"there are {len(self.columns)} people: ask for no more users")
        return np.arange(n) if self.ordered else rng.permutation(len(self.columns))[:n]


@dataclass(frozen=True, kw_only=True, eq=False)
class PeopleWorld(People):
    """A table as a contextual world: its people in random order.

    Attributes:
        name: for tables.
    """

    name: str

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """n different people: contexts (n, dim) and what every arm pays them (n, n_arms)."""
        rows = self.rows(n, rng)
        return self.columns[rows], self.rewards[rows]


def income_people(name: str = "cps-income") -> PeopleWorld:
    """Age and education of a table's people (see `load`), with their earnings brackets as arms."""
    from dpbandits.lab.worlds.datasets import load

    table = load(name, seed=0)
    columns = np.ascontiguousarray(table.contexts[:, :2])
    return PeopleWorld(name=name, columns=columns, rewards=table.reward_table)


def ma2025(*, n_arms: int = 3, dim: int = 2) -> World:
    """Ma2025's first synthetic world: f_k = 2 E/(1 + E), E = exp(-2 K^2 (x_1 - c_k)^2), uniform contexts.

    The centres are c_k = k/(K + 1), as in the authors' public code. Args: number of arms K, and of columns,
    of which only the first matters.
    """
    middle = np.arange(1, n_arms + 1) / (n_arms + 1)
    return World(name="ma", dim=dim, n_arms=n_arms, mean_rewards=ma2025_means(middle))


def ma2025_means(centres: FloatArray) -> Means:
    """Mean rewards of Ma2025's first synthetic world at centres c_k (K,)."""

    def mean_rewards(x: FloatArray) -> FloatArray:
        decay = np.exp(-2.0 * len(centres) ** 2 * (x[:, :1] - centres) ** 2)
        return np.asarray(2.0 * decay / (1.0 + decay))

    return mean_rewards


def bumps(centres: ArrayLike, width: float, low: float = 0.1, height: float = 0.8) -> Means:
    """Mean rewards low + height exp(-|x - c_k|^2/(2 width^2)), centres (K, dim)."""
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
"""The five worlds of the results page."""

_TABLES = ("cps-income", "synthetic-income")

WORLDS = (*_WORLDS, *_TABLES)
"""Names that `world` knows; `cps-income` needs the extra `datasets`."""


def world(name: str) -> World | PeopleWorld:
    """A world by its name; InvalidParameter where there is none."""
    if name not in WORLDS:
        raise InvalidParameter(f"world: expected one of {sorted(WORLDS)}")
    return income_people(name) if name in _TABLES else _WORLDS[name]

"""Worlds with a context in the unit cube, K arms and rewards 0 or 1: what local policies are tried on.

A world is a law of contexts and K mean rewards. The report worlds are those of the results page;
the tuning worlds, on which constants were chosen, share no reward function with them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter

__all__ = [
    "REPORT_WORLDS",
    "TUNING_WORLDS",
    "WORLDS",
    "People",
    "PeopleWorld",
    "World",
    "income_people",
    "ma2025",
    "ma2025_symmetric",
    "world",
]

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


def ma2025(*, n_arms: int = 3, dim: int = 2, centres: str = "inner") -> World:
    """Ma2025's first synthetic world: f_k = 2 E/(1 + E), E = exp(-2 K^2 (x_1 - c_k)^2), uniform contexts.

    Args:
        n_arms: K.
        dim: number of columns; only the first matters.
        centres: `edge` for c_k = k/K, k = 1..K, as the paper prints it (world `ma-edge`), or `inner` for
            c_k = k/(K + 1), the authors' public code (world `ma`).
    """
    if centres not in ("inner", "edge"):
        raise InvalidParameter("centres: expected 'inner' or 'edge'")
    middle = np.arange(1, n_arms + 1) / (n_arms + 1 if centres == "inner" else n_arms)

    def mean_rewards(x: FloatArray) -> FloatArray:
        decay = np.exp(-2.0 * n_arms**2 * (x[:, :1] - middle) ** 2)
        return np.asarray(2.0 * decay / (1.0 + decay))

    name = "ma" if centres == "inner" else "ma-edge"
    return World(name=name, dim=dim, n_arms=n_arms, mean_rewards=mean_rewards)


def ma2025_symmetric() -> World:
    """Ma2025's symmetric world: two arms, pyramids of alternating sign on the quarters of the square."""

    def mean_rewards(x: FloatArray) -> FloatArray:
        sign = np.sign((x[:, 0] - 0.5) * (x[:, 1] - 0.5))
        height = 1.0 - 4.0 * np.abs((2.0 * x) % 1.0 / 2.0 - 0.25).max(axis=1)
        half = 0.5 * sign * height
        return np.stack([0.5 - half, 0.5 + half], axis=1)

    return World(name="ma-symmetric", dim=2, n_arms=2, mean_rewards=mean_rewards)


def _bumps(centres: ArrayLike, width: float, low: float = 0.1, height: float = 0.8) -> Means:
    """low + height exp(-|x - c_k|^2/(2 width^2)), centres (K, dim)."""
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


def _waves(x: FloatArray) -> FloatArray:
    """Three arms that take turns along a slanted line."""
    phase = 5.0 * (0.8 * x[:, 0] - 0.6 * x[:, 1])[:, None] + np.array([0.0, 2.0, 4.0])
    return np.asarray(0.5 + 0.38 * np.sin(phase))


def _planes(x: FloatArray) -> FloatArray:
    """Four linear arms."""
    slopes = np.array([[0.7, 0.1], [-0.5, 0.4], [0.1, -0.7], [0.0, 0.0]])
    return np.asarray(np.clip(x @ slopes.T + np.array([0.05, 0.5, 0.75, 0.45]), 0.02, 0.98))


def _in_one_corner(n: int, rng: np.random.Generator) -> FloatArray:
    return np.where(rng.random((n, 1)) < 0.6, rng.beta(2, 9, (n, 2)), rng.random((n, 2)))


def _ridges(x: FloatArray) -> FloatArray:
    """Five ridges in three dimensions."""
    directions = [[1.0, 0.0, 0.5], [-1.0, 0.5, 0.0], [0.0, 1.0, -0.5], [0.3, -1.0, 0.4], [0.2, 0.3, 1.0]]
    return np.asarray(0.15 + 0.7 / (1.0 + np.exp(-5.0 * (x - 0.5) @ np.transpose(directions))))


def _stripes(x: FloatArray) -> FloatArray:
    """Three narrow tents along the second column: steep like the hardest report world, other shapes."""
    away = np.abs(x[:, 1:2] - np.array([0.15, 0.45, 0.8]))
    return np.asarray(0.05 + 0.9 * np.clip(1.0 - away / 0.3, 0.0, 1.0))


def _two_crowds(n: int, rng: np.random.Generator) -> FloatArray:
    """Most people stand in one of two crowds."""
    kind = rng.random(n)[:, None]
    round_one = np.array([0.75, 0.85]) + 0.07 * rng.standard_normal((n, 2))
    flat_one = np.array([0.3, 0.25]) + np.array([0.15, 0.05]) * rng.standard_normal((n, 2))
    crowds = np.where(kind < 0.45, round_one, np.where(kind < 0.8, flat_one, rng.random((n, 2))))
    return np.clip(crowds, 0.0, 1.0)


def _brackets(x: FloatArray) -> FloatArray:
    """Which of four brackets a hidden quantity falls into: rewards add up to one."""
    middle = 1.6 * (x[:, 1] - 0.45) + 0.9 * np.sin(3.0 * x[:, 0]) - 0.5
    below = ndtr((np.array([-0.7, 0.0, 0.7]) - middle[:, None]) / 0.9)
    edges = np.zeros((len(x), 1))
    return np.asarray(np.diff(np.concatenate([edges, below, edges + 1.0], axis=1), axis=1))


def _one_coarse_column(n: int, rng: np.random.Generator) -> FloatArray:
    return np.stack([rng.random(n) ** 1.2, np.round(12.0 * rng.beta(5, 5, n)) / 12.0], axis=1)


_RADIAL = [[0.2, 0.2, 0.3], [0.8, 0.2, 0.6], [0.3, 0.8, 0.2], [0.7, 0.8, 0.8], [0.5, 0.5, 0.5]]
_CLUSTERED = _bumps([[0.25, 0.25], [0.75, 0.4], [0.35, 0.8]], 0.25)
_FOUR_BUMPS = _bumps([[0.7, 0.75], [0.2, 0.6], [0.55, 0.15], [0.9, 0.25]], 0.3, 0.15, 0.7)
_MA = ma2025()

_REPORTED = (
    _MA,
    World(name="diagonal", dim=2, n_arms=3, mean_rewards=_diagonal),
    World(name="radial-3d", dim=3, n_arms=5, mean_rewards=_bumps(_RADIAL, 0.3)),
    World(name="clustered", dim=2, n_arms=3, mean_rewards=_CLUSTERED, contexts=_clusters),
    World(name="small-gaps", dim=2, n_arms=3, mean_rewards=lambda x: 0.45 + 0.1 * _MA.mean_rewards(x)),
)
_TUNING = (
    World(name="tune-waves", dim=2, n_arms=3, mean_rewards=_waves),
    World(name="tune-planes", dim=2, n_arms=4, mean_rewards=_planes, contexts=_in_one_corner),
    World(name="tune-ridges", dim=3, n_arms=5, mean_rewards=_ridges),
    World(name="tune-stripes", dim=2, n_arms=3, mean_rewards=_stripes),
    World(name="tune-faint", dim=2, n_arms=3, mean_rewards=lambda x: 0.5 + 0.12 * (_waves(x) - 0.5)),
    World(name="tune-crowds", dim=2, n_arms=4, mean_rewards=_FOUR_BUMPS, contexts=_two_crowds),
    World(name="tune-brackets", dim=2, n_arms=4, mean_rewards=_brackets, contexts=_one_coarse_column),
)
_FURTHER = (ma2025(centres="edge"), ma2025_symmetric())
_WORLDS = {one.name: one for one in (_MA, *_FURTHER, *_REPORTED, *_TUNING)}

REPORT_WORLDS = tuple(one.name for one in _REPORTED)
"""The five worlds of the results page."""

TUNING_WORLDS = tuple(one.name for one in _TUNING)
"""Where constants were chosen; no report world is among them."""

_TABLES = ("cps-income", "synthetic-income")

WORLDS = (*_WORLDS, *_TABLES)
"""Names that `world` knows; `cps-income` needs the extra `datasets`."""


def world(name: str) -> World | PeopleWorld:
    """A world by its name; InvalidParameter where there is none."""
    if name not in WORLDS:
        raise InvalidParameter(f"world: expected one of {sorted(WORLDS)}")
    return income_people(name) if name in _TABLES else _WORLDS[name]

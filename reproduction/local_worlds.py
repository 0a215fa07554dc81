"""Worlds of the local studies: the library's, three more of Ma2025, and those on which constants were chosen.

`world(name)` knows them all. No tuning world shares a reward function with a report world.
"""

import numpy as np
from scipy.special import ndtr

from dpbandits._typing import FloatArray
from dpbandits.lab.worlds import contextual
from dpbandits.lab.worlds.contextual import PeopleWorld, World, bumps, ma2025_means

__all__ = ["TUNING_WORLDS", "WORLDS", "world"]


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


def _symmetric(x: FloatArray) -> FloatArray:
    """Ma2025's symmetric world: pyramids of alternating sign on the quarters of the square."""
    sign = np.sign((x[:, 0] - 0.5) * (x[:, 1] - 0.5))
    height = 1.0 - 4.0 * np.abs((2.0 * x) % 1.0 / 2.0 - 0.25).max(axis=1)
    half = 0.5 * sign * height
    return np.stack([0.5 - half, 0.5 + half], axis=1)


_FOUR_BUMPS = bumps([[0.7, 0.75], [0.2, 0.6], [0.55, 0.15], [0.9, 0.25]], 0.3, 0.15, 0.7)
_TUNING = (
    World(name="tune-waves", dim=2, n_arms=3, mean_rewards=_waves),
    World(name="tune-planes", dim=2, n_arms=4, mean_rewards=_planes, contexts=_in_one_corner),
    World(name="tune-ridges", dim=3, n_arms=5, mean_rewards=_ridges),
    World(name="tune-stripes", dim=2, n_arms=3, mean_rewards=_stripes),
    World(name="tune-faint", dim=2, n_arms=3, mean_rewards=lambda x: 0.5 + 0.12 * (_waves(x) - 0.5)),
    World(name="tune-crowds", dim=2, n_arms=4, mean_rewards=_FOUR_BUMPS, contexts=_two_crowds),
    World(name="tune-brackets", dim=2, n_arms=4, mean_rewards=_brackets, contexts=_one_coarse_column),
)
_PRINTED = (
    # centres at k/K, as the paper prints them
    World(name="ma-edge", dim=2, n_arms=3, mean_rewards=ma2025_means(np.arange(1, 4) / 3)),
    # as its authors' public code has it, where sources are drawn by that code's sampler too
    World(name="ma-code", dim=2, n_arms=3, mean_rewards=ma2025_means(np.arange(1, 4) / 4)),
    World(name="ma-symmetric", dim=2, n_arms=2, mean_rewards=_symmetric),
)
_WORLDS = {one.name: one for one in (*_PRINTED, *_TUNING)}

TUNING_WORLDS = tuple(one.name for one in _TUNING)
"""Names of the worlds on which constants were chosen; no report world is among them."""

WORLDS = (*contextual.WORLDS, *_WORLDS)
"""Names that `world` knows."""


def world(name: str) -> World | PeopleWorld:
    """A world by its name; InvalidParameter where there is none."""
    return _WORLDS[name] if name in _WORLDS else contextual.world(name)

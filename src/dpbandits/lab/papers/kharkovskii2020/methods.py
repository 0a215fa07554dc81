"""Ways to search in Kharkovskii2020's worlds: rows released privately, as published, without privacy.

Every method sees the same worlds, seed by seed, and asks for 50 rows, none twice. Private methods go
through `Curator` and `Modeler` with simulated noise; `attack` recovers rows from the published
transformation.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.audit.attacks.kharkovskii2020 import recovery_error
from dpbandits.errors import InvalidParameter
from dpbandits.lab.papers.kharkovskii2020.worlds import World
from dpbandits.outsourced import Curator, Modeler, PublishedRows
from dpbandits.outsourced.published.kharkovskii2020 import PublishedModeler, PublishedTransform
from dpbandits.outsourced.scaling import RADIUS
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["HIDDEN", "HIDING_METHODS", "METHODS", "PUBLISHED", "TABLE_METHODS", "published", "simple_regret"]

EPSILONS = (0.5, 1.0, 3.0, 8.0)
HORIZON = 50
DELTA = 1e-5
DISTANCE = 1.0
PUBLISHED_DIMENSION = 10


Method = Callable[[World, float, int, Seed], FloatArray]
"""(world, epsilon, horizon, seed) -> (horizon,) values of the rows asked for, in order."""


def _loop(modeler: Modeler | PublishedModeler, answer: Callable[[int], float], horizon: int) -> FloatArray:
    values = np.empty(horizon)
    for step in range(horizon):
        row = modeler.ask()
        values[step] = answer(row)
        modeler.tell(row, float(values[step]))
    return values


def _modeler(
    release: PublishedRows, world: World, horizon: int, seed: Seed, *, known: bool, **own: Any
) -> Modeler:
    """The house's modeler, told of the kernel or not."""
    kernel, mean = (world.kernel, world.mean) if known else (None, 0.0)
    return Modeler(release, kernel=kernel, mean=mean, horizon=horizon, seed=seed, **own)


def _private(
    *,
    known: bool = True,
    mechanism: str = "l2_laplace",
    distance: float = DISTANCE,
    plugin: bool = False,
    per_column: bool = False,
) -> Method:
    delta = DELTA if mechanism == "gaussian" else 0.0

    def method(world: World, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        curator = Curator(
            {**world.columns, "objective": world.values},
            schema=world.schema,
            privacy=RowDP(epsilon=epsilon, delta=delta, distance=distance),
            objective="objective",
            cap=horizon,
            mechanism=mechanism,
            noise=SimulatedNoise(seed),
        )
        posterior = "plugin" if plugin else "auto"
        own: dict[str, Any] = {"known": known, "posterior": posterior, "per_column": per_column}
        return _loop(_modeler(curator.publish(), world, horizon, seed, **own), curator.answer, horizon)

    return method


def _open(*, known: bool, per_column: bool = False) -> Method:
    def method(world: World, _epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        release = PublishedRows.public(world.points, half_width=RADIUS / math.sqrt(world.schema.dim))
        modeler = _modeler(release, world, horizon, seed, known=known, per_column=per_column)
        return _loop(modeler, lambda row: float(world.values[row]), horizon)

    return method


def _random(world: World, _epsilon: float, horizon: int, seed: Seed) -> FloatArray:
    coins = PublicCoins(seed).uniform("kharkovskii2020-random", 0, 1, len(world.values))
    order = np.argsort(coins[0])
    return world.values[order[:horizon]]


def published(dimension: int = PUBLISHED_DIMENSION) -> Method:
    """Algorithms 1 and 2 as printed, with r = `dimension`."""

    def method(world: World, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        transform = PublishedTransform(
            epsilon=epsilon, delta=DELTA, dimension=dimension, seed=seed, acknowledge_broken=True
        )
        if world.kernel is None:
            raise InvalidParameter("the published modeler needs a known kernel")
        modeler = PublishedModeler(
            transform.publish(world.points),
            kernel=world.kernel,
            noise_sd=math.sqrt(1e-5),
            capacity=horizon,
            seed=seed,
        )
        return _loop(modeler, lambda row: float(world.values[row]), horizon)

    return method


PUBLISHED = "published transformation (BROKEN, not private)"
HIDDEN = "cells, kernel known, any two positions hidden"

METHODS: dict[str, Method] = {
    "L2-Laplace, kernel known": _private(),
    "L2-Laplace, marginal likelihood": _private(known=False),
    "Gaussian rows, kernel known": _private(mechanism="gaussian"),
    "L2-Laplace, plug-in kernel": _private(plugin=True),
    PUBLISHED: published(),
    "non-private, kernel known": _open(known=True),
    "non-private, marginal likelihood": _open(known=False),
    "random rows": _random,
}
"""Methods of the synthetic study. The last three do not depend on epsilon."""

HIDING_METHODS: dict[str, Method] = {HIDDEN: _private(mechanism="auto", distance=2.0 * RADIUS)}
"""Any two positions in the cube are neighbours; the rule chooses the mechanism."""

WITHOUT_EPSILON = ("non-private, kernel known", "non-private, marginal likelihood", "random rows")


def simple_regret(values: FloatArray, best: float) -> FloatArray:
    """(T,) regret of the best row found so far."""
    return best - np.maximum.accumulate(values)


TABLE_METHODS: dict[str, Method] = {
    "L2-Laplace, marginal likelihood": _private(known=False, per_column=True),
    "Gaussian rows, marginal likelihood": _private(known=False, per_column=True, mechanism="gaussian"),
    "L2-Laplace, plug-in kernel": _private(known=False, per_column=True, plugin=True),
    "non-private, marginal likelihood": _open(known=False, per_column=True),
    "random rows": _random,
}
"""Methods where the kernel is unknown: Branin and real tables."""


def attack(epsilon: float, seed: Seed) -> tuple[float, bool]:
    """Largest relative error of 1,000 rows recovered from the published transformation, three of them known.

    Returns:
        The error, and whether the transformation took its inflated branch.
    """
    rows = (2.0 * PublicCoins(seed).uniform("kharkovskii2020-attack", 0, 1000, 2) - 1.0) * RADIUS
    transform = PublishedTransform(epsilon=epsilon, delta=DELTA, seed=seed, acknowledge_broken=True)
    error = recovery_error(transform.publish(rows), rows, np.array([1, 500, 900]))
    return float(error), bool(transform.inflates(rows))

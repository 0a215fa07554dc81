"""Kharkovskii2020's experiments: outsourced optimisation with rows released privately, and as published.

Worlds and methods; `kharkovskii2020_items` puts them together into tables and figures, which
`dpbandits lab study kharkovskii2020 ITEM` runs.

`synthetic` is the paper's synthetic study: a Gaussian process with lengthscale 6.25 on a 100 x 100 grid
whose corners are 25 from the centre, 50 queries, regret of the best row found in prior standard
deviations. (The paper's text says lengthscale 1.25; the authors' code has 6.25.) `branin` is the same on
the Branin function, `loans` and `ames` are tables of people's loans and homes
(`dpbandits.lab.papers.kharkovskii2020.tables`), `attack` recovers rows from the published transformation.

Every method sees the same worlds, seed by seed, and asks for 50 rows, none twice. Private methods go
through `Curator` and `Modeler` with simulated noise.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.audit.attacks.kharkovskii2020 import recovery_error
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.seeds import report_seeds
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.outsourced import Curator, Modeler, PublishedRows
from dpbandits.outsourced.published.kharkovskii2020 import PublishedModeler, PublishedTransform
from dpbandits.outsourced.scaling import RADIUS
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.tables import Range, Schema

__all__ = [
    "HIDDEN",
    "HIDING_METHODS",
    "METHODS",
    "PUBLISHED",
    "TABLE_METHODS",
    "World",
    "attack_table",
    "branin_world",
    "published",
    "simple_regret",
    "synthetic_world",
]

EPSILONS = (0.5, 1.0, 3.0, 8.0)
LENGTHSCALE = 6.25
PER_SIDE = 100
HORIZON = 50
DELTA = 1e-5
DISTANCE = 1.0
PUBLISHED_DIMENSION = 10


@dataclass(frozen=True, eq=False)
class World:
    """A table: its columns, the objective's values, and the kernel they came from, if known.

    Attributes:
        columns: name -> (n,) values.
        schema: public ranges of the columns.
        values: (n,) objective, in units of its standard deviation.
        kernel: true covariance in public coordinates; None for real tables.
        mean: prior mean that goes with the kernel.
    """

    columns: dict[str, FloatArray]
    schema: Schema
    values: FloatArray
    kernel: Kernel | None
    mean: float = 0.0

    @property
    def points(self) -> FloatArray:
        """(n, d) public coordinates."""
        half_width = RADIUS / math.sqrt(self.schema.dim)
        return (2.0 * self.schema.encode(self.columns) - 1.0) * half_width


def synthetic_world(seed: Seed, *, per_side: int = PER_SIDE, lengthscale: float = LENGTHSCALE) -> World:
    """A draw of the Gaussian process on the grid, exact by the kernel's product structure."""
    half_width = RADIUS / math.sqrt(2.0)
    axis = np.linspace(-half_width, half_width, per_side)
    covariance = SquaredExponential(lengthscale=lengthscale)(axis[:, None])
    eigenvalues, vectors = np.linalg.eigh(covariance)
    factor = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    normals = PublicCoins(seed).normal("kharkovskii2020-world", 0, per_side, per_side)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return World(
        columns={"x": grid[:, 0], "y": grid[:, 1]},
        schema=Schema(x=Range(-half_width, half_width), y=Range(-half_width, half_width)),
        values=(factor @ normals @ factor.T).ravel(),
        kernel=SquaredExponential(lengthscale=lengthscale),
    )


Method = Callable[[World, float, int, Seed], FloatArray]
"""(world, epsilon, horizon, seed) -> (horizon,) values of the rows asked for, in order."""


def _released(
    world: World, horizon: int, seed: Seed, *, privacy: RowDP, mechanism: str
) -> tuple[Curator, PublishedRows]:
    curator = Curator(
        {**world.columns, "objective": world.values},
        schema=world.schema,
        privacy=privacy,
        objective="objective",
        cap=horizon,
        mechanism=mechanism,
        noise=SimulatedNoise(seed),
    )
    return curator, curator.publish()


def _loop(modeler: Modeler, answer: Callable[[int], float], horizon: int) -> FloatArray:
    values = np.empty(horizon)
    for step in range(horizon):
        row = modeler.ask()
        values[step] = answer(row)
        modeler.tell(row, float(values[step]))
    return values


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
        privacy = RowDP(epsilon=epsilon, delta=delta, distance=distance)
        curator, release = _released(world, horizon, seed, privacy=privacy, mechanism=mechanism)
        modeler = Modeler(
            release,
            kernel=world.kernel if known else None,
            mean=world.mean if known else 0.0,
            horizon=horizon,
            posterior="plugin" if plugin else "auto",
            per_column=per_column,
            seed=seed,
        )
        return _loop(modeler, curator.answer, horizon)

    return method


def _open(*, known: bool, per_column: bool = False) -> Method:
    def method(world: World, _epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        release = PublishedRows.public(world.points, half_width=RADIUS / math.sqrt(world.schema.dim))
        modeler = Modeler(
            release,
            kernel=world.kernel if known else None,
            mean=world.mean if known else 0.0,
            horizon=horizon,
            per_column=per_column,
            seed=seed,
        )
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
            transform.release(world.points),
            kernel=world.kernel,
            noise_sd=math.sqrt(1e-5),
            capacity=horizon,
            seed=seed,
        )
        values = np.empty(horizon)
        for step in range(horizon):
            row = modeler.ask()
            values[step] = world.values[row]
            modeler.tell(row, float(values[step]))
        return values

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


def branin_world(seed: Seed, *, per_side: int = PER_SIDE) -> World:
    """Branin's function on a grid, sign changed and standardised; the same for every seed."""
    del seed
    first, second = np.meshgrid(np.linspace(-5, 10, per_side), np.linspace(0, 15, per_side), indexing="ij")
    x, y = first.ravel(), second.ravel()
    square = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    values = -(square**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x) + 10)
    values = (values - values.mean()) / values.std()
    schema = Schema(x=Range(-5, 10), y=Range(0, 15))
    return World(columns={"x": x, "y": y}, schema=schema, values=values, kernel=None)


TABLE_METHODS: dict[str, Method] = {
    "L2-Laplace, marginal likelihood": _private(known=False, per_column=True),
    "Gaussian rows, marginal likelihood": _private(known=False, per_column=True, mechanism="gaussian"),
    "L2-Laplace, plug-in kernel": _private(known=False, per_column=True, plugin=True),
    "non-private, marginal likelihood": _open(known=False, per_column=True),
    "random rows": _random,
}
"""Methods where the kernel is unknown: Branin and real tables."""


def attack_table(first_seed: Seed = 1_000_000) -> str:
    """Largest relative error of rows recovered from the published transformation, n = 1,000, three known."""
    lines = [
        "| claimed epsilon | branch | largest relative error of 1,000 rows, worst of 20 tables |",
        "|---|---|---|",
    ]
    for epsilon in (0.05, 0.5, 1.0, 3.0, 8.0, 20.0):
        errors, inflated = [], set()
        for seed in report_seeds(first_seed, 20):
            rows = (2.0 * PublicCoins(seed).uniform("kharkovskii2020-attack", 0, 1000, 2) - 1.0) * RADIUS
            transform = PublishedTransform(epsilon=epsilon, delta=DELTA, seed=seed, acknowledge_broken=True)
            inflated.add(transform.inflates(rows))
            errors.append(recovery_error(transform.release(rows), rows, np.array([1, 500, 900])))
        branch = "inflated" if inflated == {True} else "direct" if inflated == {False} else "both"
        lines.append(f"| {epsilon:g} | {branch} | {max(errors):.1e} |")
    return "\n".join(lines)

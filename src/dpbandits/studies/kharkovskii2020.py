"""Kharkovskii2020's experiments: outsourced optimisation with rows released privately, and as published.

`python -m dpbandits.studies.kharkovskii2020 synthetic` is the paper's synthetic study: a Gaussian process
with
lengthscale 6.25 on a 100 x 100 grid whose corners are 25 from the centre, 50 queries, regret of the best row
found
in prior standard deviations. (The paper's text says lengthscale 1.25; the authors' code has 6.25.) `loans`
and
`property` are tables of people's loans and homes: see `dpbandits.studies.outsourced_tables`.

Every method sees the same worlds, seed by seed, and asks for 50 rows, none twice. Private methods go through
`Curator` and `Modeler` with simulated noise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Range, Schema
from dpbandits.errors import InvalidParameter
from dpbandits.evaluation.seeds import report_seeds
from dpbandits.evaluation.summary import Estimate
from dpbandits.models._kernel import Kernel
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced import Curator, Modeler, Release
from dpbandits.outsourced.published.kharkovskii2020 import PublishedModeler, PublishedTransform
from dpbandits.outsourced.scaling import RADIUS
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["METHODS", "World", "run", "simple_regret", "synthetic_world"]

EPSILONS = (0.5, 1.0, 3.0, 8.0)
LENGTHSCALE = 6.25
PER_SIDE = 100
HORIZON = 50
DELTA = 1e-5
DISTANCE = 1.0
PUBLISHED_DIMENSION = 10


@dataclass(frozen=True)
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
) -> tuple[Curator, Release]:
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
    *, known: bool = True, gaussian: bool = False, plugin: bool = False, per_column: bool = False
) -> Method:
    def method(world: World, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        privacy = RowDP(epsilon=epsilon, delta=DELTA if gaussian else 0.0, distance=DISTANCE)
        mechanism = "gaussian" if gaussian else "l2_laplace"
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
    def method(world: World, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        release = Release.public(world.points, half_width=RADIUS / math.sqrt(world.schema.dim))
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


def _random(world: World, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
    coins = PublicCoins(seed).uniform("kharkovskii2020-random", 0, 1, len(world.values))
    order = np.argsort(coins[0])
    return world.values[order[:horizon]]


def _published(world: World, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
    transform = PublishedTransform(
        epsilon=epsilon, delta=DELTA, dimension=PUBLISHED_DIMENSION, seed=seed, acknowledge_broken=True
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


METHODS: dict[str, Method] = {
    "L2-Laplace, kernel known": _private(),
    "L2-Laplace, marginal likelihood": _private(known=False),
    "Gaussian rows, kernel known": _private(gaussian=True),
    "L2-Laplace, plug-in kernel": _private(plugin=True),
    "published transformation (BROKEN, not private)": _published,
    "non-private, kernel known": _open(known=True),
    "non-private, marginal likelihood": _open(known=False),
    "random rows": _random,
}
"""Methods of the synthetic study. The last three do not depend on epsilon."""

WITHOUT_EPSILON = ("non-private, kernel known", "non-private, marginal likelihood", "random rows")


def simple_regret(values: FloatArray, best: float) -> FloatArray:
    """(T,) regret of the best row found so far."""
    return best - np.maximum.accumulate(values)


def run(
    worlds: Callable[[Seed], World],
    methods: Sequence[str],
    epsilons: Sequence[float],
    seeds: Sequence[Seed],
    *,
    horizon: int = HORIZON,
    table: dict[str, Method] | None = None,
) -> dict[tuple[str, float | None], FloatArray]:
    """Simple regret (len(seeds), horizon) of every method at every epsilon, on the same worlds."""
    known = METHODS if table is None else table
    results: dict[tuple[str, float | None], list[FloatArray]] = {}
    for seed in seeds:
        world = worlds(seed)
        best = float(world.values.max())
        for name in methods:
            for epsilon in (None,) if name in WITHOUT_EPSILON else epsilons:
                values = known[name](world, math.nan if epsilon is None else epsilon, horizon, seed)
                results.setdefault((name, epsilon), []).append(simple_regret(values, best))
    return {cell: np.array(regrets) for cell, regrets in results.items()}


def table_of(results: dict[tuple[str, float | None], FloatArray], epsilons: Sequence[float]) -> str:
    """A Markdown table of the regret after the last query, with standard errors."""
    lines = ["| method | " + " | ".join(f"epsilon {epsilon:g}" for epsilon in epsilons) + " |"]
    lines.append("|---|" + "---|" * len(epsilons))
    for name in dict.fromkeys(name for name, _ in results):
        if (name, None) in results:
            cells = [str(Estimate.of(results[name, None][:, -1]))] + [""] * (len(epsilons) - 1)
        else:
            cells = [str(Estimate.of(results[name, epsilon][:, -1])) for epsilon in epsilons]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def synthetic(repetitions: int = 100, first_seed: Seed = 1_000_000) -> str:
    """The synthetic study's table on fresh seeds."""
    results = run(synthetic_world, list(METHODS), EPSILONS, report_seeds(first_seed, repetitions))
    return table_of(results, EPSILONS)

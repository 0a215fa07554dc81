"""Methods in Kharkovskii2020's worlds: our private release, the published one, and no privacy.

Every method sees the same worlds, seed by seed, and asks for 50 rows, none twice. Private methods go
through `Curator` and `Modeler` with simulated noise; `attack` recovers rows from the published
transformation.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.audit.attacks.po_gp_ucb import recovery_error
from dpbandits.outsourced import Curator, CuratorTuning, Modeler, PublishedRows
from dpbandits.outsourced.published.kharkovskii2020 import PublishedModeler, PublishedTransform
from dpbandits.outsourced.scaling import RADIUS, PublicScaling
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.noise import SimulatedNoise
from reproduction.kharkovskii2020.worlds import SearchWorld

__all__ = [
    "FORMS",
    "GP_UCB",
    "GP_UCB_CODE",
    "GP_UCB_DEVIATIONS",
    "GP_UCB_FIFTH",
    "HIDDEN",
    "HIDING_METHODS",
    "LIKELY",
    "METHODS",
    "PRINTED_METHODS",
    "PUBLISHED",
    "PUBLISHED_BY_TEN",
    "PUBLISHED_CODE",
    "PUBLISHED_DEVIATIONS",
    "PUBLISHED_FIFTH",
    "PUBLISHED_UNDIVIDED",
    "TABLE_METHODS",
    "least_of_top",
    "published",
    "scores",
    "simple_regret",
]

EPSILONS = (0.5, 1.0, 3.0, 8.0)
HORIZON = 50
PUBLISHED_DIMENSION = 10
TOP_SHARE = 0.01

Method = Callable[[SearchWorld, float, int, Seed], FloatArray]
"""(world, epsilon, horizon, seed) -> (horizon,) values of the rows asked for, in order."""


def _loop(modeler: Modeler, answer: Callable[[int], float], horizon: int) -> FloatArray:
    values = np.empty(horizon)
    for step in range(horizon):
        row = modeler.ask()
        values[step] = answer(row)
        modeler.tell(row, float(values[step]))
    return values


@dataclass(frozen=True, kw_only=True)
class Form:
    """How the published algorithms run; by default as printed.

    Args:
        exploration_share: Share of the paper's beta_t that is used.
        acquisition, failure: see `PublishedModeler`.
        inflation: see `PublishedTransform`.
        given: random rows that are asked for before the first of the horizon; as printed the first one is it.
        divisor: its root divides X M, whatever r is; as printed r does.
    """

    exploration_share: float = 1.0
    acquisition: Literal["deviation", "variance"] = "deviation"
    failure: float = 0.025
    inflation: Literal["squares", "sum"] = "squares"
    given: Literal[0, 1] = 0
    divisor: int | None = None


AS_PRINTED = Form()
LESS_EXPLORING = Form(exploration_share=0.2)
AS_IN_THE_CODE = Form(acquisition="variance", failure=0.1, inflation="sum", given=1)
"""As the authors' public code has it, which departs from the text in all four."""
BY_DEVIATIONS = replace(AS_IN_THE_CODE, acquisition="deviation")
UNDIVIDED = replace(AS_IN_THE_CODE, divisor=1)
BY_TEN = replace(AS_IN_THE_CODE, divisor=10)
"""As if the matrix of r = 10 had been scaled for every r."""


def _printed_loop(rows: FloatArray, world: SearchWorld, horizon: int, seed: Seed, form: Form) -> FloatArray:
    """Algorithm 2 on rows (n, r) with noisy answers, as the paper has it; the values without noise."""
    total = horizon + form.given
    modeler = PublishedModeler(
        rows,
        kernel=world.prepared.kernel,
        noise_sd=world.assumed_noise_sd,
        acquisition=form.acquisition,
        failure=form.failure,
        exploration_share=form.exploration_share,
        capacity=total,
        seed=seed,
    )
    scatter = world.answer_noise_sd * PublicCoins(seed).normal("kharkovskii2020-answers", 0, total, 1)[:, 0]
    values = np.empty(total)
    for step in range(total):
        row = modeler.ask()
        values[step] = world.values[row]
        modeler.tell(row, float(values[step] + scatter[step]) - world.mean)
    # of the rows that were given the best counts with the first of the horizon
    values[form.given] = values[: form.given + 1].max()
    return values[form.given :]


def _told(world: SearchWorld, *, known: bool) -> dict[str, Any]:
    """Return the kernel arguments of this library's modeler if the kernel is known, else none."""
    return {"kernel": world.kernel, "mean": world.mean} if known else {}


def _private(
    *, known: bool = True, mechanism: str = "l2_laplace", distance: float = 1.0, **own: Any
) -> Method:
    """Rows released by `mechanism`, hidden among those within `distance`; `own` goes to the modeler."""

    def method(world: SearchWorld, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        delta = world.delta if mechanism == "gaussian" else 0.0
        curator = Curator(
            {**world.columns, "objective": world.values},
            contexts=world.schema,
            privacy=RowDP(epsilon=epsilon, delta=delta, distance=distance),
            objective="objective",
            cap=horizon,
            tuning=CuratorTuning(mechanism=mechanism),
            noise=SimulatedNoise(seed),
        )
        rest = {**_told(world, known=known), **own}
        return _loop(Modeler(curator.publish(), horizon=horizon, seed=seed, **rest), curator.answer, horizon)

    return method


def _open(*, known: bool) -> Method:
    def method(world: SearchWorld, _epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        release = PublishedRows.public(world.points, half_width=PublicScaling(world.schema).half_width)
        rest = _told(world, known=known)
        modeler = Modeler(release, horizon=horizon, seed=seed, **rest)
        return _loop(modeler, lambda row: float(world.values[row]), horizon)

    return method


def _random(world: SearchWorld, _epsilon: float, horizon: int, seed: Seed) -> FloatArray:
    coins = PublicCoins(seed).uniform("kharkovskii2020-random", 0, 1, len(world.values))[0]
    return world.values[np.argsort(coins)[:horizon]]


def published(dimension: int = PUBLISHED_DIMENSION, *, form: Form = AS_PRINTED) -> Method:
    """Algorithms 1 and 2, r = `dimension`; where the kernel is unknown, on prepared inputs."""

    def method(world: SearchWorld, epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        transform = PublishedTransform(
            epsilon=epsilon,
            delta=world.delta,
            dimension=dimension,
            seed=seed,
            inflation=form.inflation,
            acknowledge_broken=True,
        )
        rows = transform.publish(world.prepared.points) * math.sqrt(dimension / (form.divisor or dimension))
        return _printed_loop(rows, world, horizon, seed, form)

    return method


def _gp_ucb(form: Form = AS_PRINTED) -> Method:
    """GP-UCB on the table itself: what the paper calls non-private."""

    def method(world: SearchWorld, _epsilon: float, horizon: int, seed: Seed) -> FloatArray:
        return _printed_loop(world.prepared.points, world, horizon, seed, form)

    return method


PUBLISHED = "published transformation (BROKEN, not private)"
GP_UCB = "non-private GP-UCB, as printed"
PUBLISHED_FIFTH = "published transformation, a fifth of beta_t (BROKEN, not private)"
GP_UCB_FIFTH = "non-private GP-UCB, a fifth of beta_t"
PUBLISHED_CODE = "published transformation, as in the authors' code (BROKEN, not private)"
GP_UCB_CODE = "non-private GP-UCB, as in the authors' code"
PUBLISHED_DEVIATIONS = "published transformation, that code by deviations (BROKEN, not private)"
GP_UCB_DEVIATIONS = "non-private GP-UCB, that code by deviations"
PUBLISHED_UNDIVIDED = "published transformation, that code, M not divided (BROKEN, not private)"
PUBLISHED_BY_TEN = "published transformation, that code, M over the root of 10 (BROKEN, not private)"
LIKELY = "L2-Laplace, marginal likelihood"
HIDDEN = "cells, kernel known, any two positions hidden"

METHODS: dict[str, Method] = {
    "L2-Laplace, kernel known": _private(),
    LIKELY: _private(known=False),
    "Gaussian rows, kernel known": _private(mechanism="gaussian"),
    "L2-Laplace, plug-in kernel": _private(posterior="plugin"),
    PUBLISHED: published(),
    "non-private, kernel known": _open(known=True),
    "non-private, marginal likelihood": _open(known=False),
    "random rows": _random,
}
"""Methods of the synthetic study. The last three do not depend on epsilon."""

HIDING_METHODS: dict[str, Method] = {HIDDEN: _private(mechanism="auto", distance=2.0 * RADIUS)}
"""Any two positions in the cube are neighbours; the rule chooses the mechanism."""

PRINTED_METHODS: dict[str, Method] = {
    PUBLISHED: published(),
    GP_UCB: _gp_ucb(),
    PUBLISHED_FIFTH: published(form=LESS_EXPLORING),
    GP_UCB_FIFTH: _gp_ucb(LESS_EXPLORING),
    PUBLISHED_CODE: published(form=AS_IN_THE_CODE),
    GP_UCB_CODE: _gp_ucb(AS_IN_THE_CODE),
    PUBLISHED_DEVIATIONS: published(form=BY_DEVIATIONS),
    GP_UCB_DEVIATIONS: _gp_ucb(BY_DEVIATIONS),
    PUBLISHED_UNDIVIDED: published(form=UNDIVIDED),
    PUBLISHED_BY_TEN: published(form=BY_TEN),
}
"""Methods of the paper, on any world, and forms of them that it does not print."""

FORMS = {
    PUBLISHED: AS_PRINTED,
    PUBLISHED_FIFTH: LESS_EXPLORING,
    PUBLISHED_CODE: AS_IN_THE_CODE,
    PUBLISHED_DEVIATIONS: BY_DEVIATIONS,
    PUBLISHED_UNDIVIDED: UNDIVIDED,
    PUBLISHED_BY_TEN: BY_TEN,
}
"""Methods that have an r."""

WITHOUT_EPSILON = (
    "non-private, kernel known",
    "non-private, marginal likelihood",
    "random rows",
    GP_UCB,
    GP_UCB_FIFTH,
    GP_UCB_CODE,
    GP_UCB_DEVIATIONS,
)

TABLE_METHODS: dict[str, Method] = {
    LIKELY: _private(known=False),
    "Gaussian rows, marginal likelihood": _private(known=False, mechanism="gaussian"),
    "L2-Laplace, plug-in kernel": _private(known=False, posterior="plugin"),
    "non-private, marginal likelihood": _open(known=False),
    "random rows": _random,
}
"""Methods where the kernel is unknown: Branin and real tables."""


def simple_regret(values: FloatArray, best: float) -> FloatArray:
    """(T,) regret of the best row found so far."""
    return best - np.maximum.accumulate(values)


def least_of_top(values: FloatArray) -> float:
    """The least of the n values that is in the top 1%."""
    return float(np.sort(values)[-math.ceil(TOP_SHARE * len(values))])


def scores(asked: FloatArray, values: FloatArray) -> dict[str, float]:
    """Return scores of the values (T,) of the requested rows, out of a table's values (n,).

    Returns:
        `mean`: mean of the requested rows. `regret`: the table's best value minus the best of them. `top`:
        number of them in the table's top 1%, with ties of its least value.
    """
    return {
        "mean": float(asked.mean()),
        "regret": float(values.max() - asked.max()),
        "top": float((asked >= least_of_top(values)).sum()),
    }


def attack(epsilon: float, seed: Seed) -> tuple[float, bool]:
    """Largest relative error of 1,000 rows recovered from the published transformation, three of them known.

    Returns:
        The error, and whether the transformation took its inflated branch.
    """
    rows = (2.0 * PublicCoins(seed).uniform("kharkovskii2020-attack", 0, 1000, 2) - 1.0) * RADIUS
    transform = PublishedTransform(epsilon=epsilon, delta=1e-5, seed=seed, acknowledge_broken=True)
    error = recovery_error(transform.publish(rows), rows, np.array([1, 500, 900]))
    return float(error), bool(transform.inflates(rows))

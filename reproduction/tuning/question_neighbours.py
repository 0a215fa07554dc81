"""Comparison of the adopted constants of `questions` with nearby values, on the local tuning worlds.

    python -m reproduction.tuning.question_neighbours --out reproduction/results/question-neighbours.json

Each constant is lowered and raised alone, on the same crowds of all tuning worlds. The score is the mean
relative increase of regret over worlds and crowds, compared with the present constants. Seeds are below
1,000,000, and no results page shows these worlds. A value that is better by two standard errors is run again
on other seeds. Only a value that is better twice would be used. One line per crowd is saved beside the
output, and an interrupted run resumes.
"""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from multiprocessing import Pool
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from reproduction.local_worlds import TUNING_WORLDS
from reproduction.ma2025.local import Case, outcomes

USERS, EPSILONS = 20_000, (1.0, 4.0)
FIRST_SEED, SECOND_SEED = 800, 850

_RULE = "dpbandits.local.learners.questions"
_MEAN = "dpbandits.models.averaged_regression"
_WAVES = "dpbandits.models.features.products"
_LAW = "dpbandits.models.grid_density"


def _lengths(factor: float) -> dict[str, Any]:
    """All lengths longer; the law of contexts keeps the one at the same place."""
    lengths = import_module(_WAVES).LENGTHS * factor
    return {f"{module}.LENGTHS": lengths for module in (_WAVES, _MEAN, _LAW)}


def _place(place: int) -> dict[str, Any]:
    return {f"{_LAW}._LENGTH_LAW": np.eye(len(import_module(_WAVES).LENGTHS))[place]}


def _deviations(factor: float) -> dict[str, Any]:
    return {f"{_MEAN}.DEVIATIONS": import_module(_MEAN).DEVIATIONS * factor}


NEIGHBOURS: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "as they are": ({}, {}),
    "deviation of an arm's level .17": ({"constant_sd": 0.17}, {}),
    "deviation of an arm's level .34": ({"constant_sd": 0.34}, {}),
    "48 products": ({}, {f"{_RULE}._FEATURES": 48}),
    "96 products": ({}, {f"{_RULE}._FEATURES": 96}),
    "100 products of the law": ({}, {f"{_RULE}._PLACE_FEATURES": 100}),
    "196 products of the law": ({}, {f"{_RULE}._PLACE_FEATURES": 196}),
    "explored from 8 reports a unit": ({}, {f"{_RULE}._TOLD": 8.0}),
    "explored from 32 reports a unit": ({}, {f"{_RULE}._TOLD": 32.0}),
    "100 reports ahead": ({}, {f"{_RULE}._HEAD_START": 100}),
    "400 reports ahead": ({}, {f"{_RULE}._HEAD_START": 400}),
    "looked at again after 1.15": ({}, {f"{_RULE}.GROWTH": 1.15}),
    "looked at again after 1.6": ({}, {f"{_RULE}.GROWTH": 1.6}),
    "first look at 250": ({}, {f"{_RULE}._FIRST_LOOK": 250}),
    "first look at 1,000": ({}, {f"{_RULE}._FIRST_LOOK": 1000}),
    "posterior after 1.015": ({}, {f"{_RULE}.RENEWAL": 1.015}),
    "posterior after 1.06": ({}, {f"{_RULE}.RENEWAL": 1.06}),
    "lengths times .75": ({}, _lengths(0.75)),
    "lengths times 1.33": ({}, _lengths(1 / 0.75)),
    "median length .35": ({}, {f"{_MEAN}._LENGTH": 0.35}),
    "median length .7": ({}, {f"{_MEAN}._LENGTH": 0.7}),
    "spread of lengths .35": ({}, {f"{_MEAN}._LENGTH_SPREAD": 0.35}),
    "spread of lengths .7": ({}, {f"{_MEAN}._LENGTH_SPREAD": 0.7}),
    "deviations times .7": ({}, _deviations(0.7)),
    "deviations times 1.4": ({}, _deviations(1.4)),
    "margin .1": ({}, {f"{_WAVES}._MARGIN": 0.1}),
    "margin .3": ({}, {f"{_WAVES}._MARGIN": 0.3}),
    "length of the law .15": ({}, _place(0)),
    "length of the law .33": ({}, _place(2)),
}


@contextmanager
def _changed(name: str) -> Iterator[Case]:
    constants, modules = NEIGHBOURS[name]
    with ExitStack() as stack:
        for place, value in modules.items():
            stack.enter_context(patch(place, value))
        yield Case(policy="questions", constants=constants)


def outcomes_with(name: str, world: str, *, epsilon: float, seed: int, n_users: int = USERS) -> float:
    """Average regret of one crowd with one constant moved."""
    with _changed(name) as case:
        return float(outcomes(case, world, epsilon=epsilon, n_users=n_users, seeds=[seed])[0, 0])


def _run(task: tuple[str, str, float, int]) -> tuple[tuple[str, str, float, int], float]:
    name, world, epsilon, seed = task
    return task, outcomes_with(name, world, epsilon=epsilon, seed=seed)


def _row(name: str, epsilon: float, seeds: range, found: dict[Any, float]) -> dict[str, Any]:
    """By how much regret is larger, as a share: mean and standard error over worlds and crowds."""
    pairs = [(world, epsilon, seed) for world in TUNING_WORLDS for seed in seeds]
    base = np.array([found["as they are", *pair] for pair in pairs]).reshape(len(TUNING_WORLDS), -1)
    own = np.array([found[name, *pair] for pair in pairs]).reshape(base.shape)
    shares = (own - base) / base.mean(axis=1, keepdims=True)
    error = float(np.sqrt((shares.var(axis=1, ddof=1) / shares.shape[1]).mean() / len(shares)))
    return {
        "constant": name,
        "epsilon": epsilon,
        "first_seed": seeds.start,
        "crowds": len(seeds),
        "more_regret": round(float(shares.mean()), 4),
        "standard_error": round(error, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--crowds", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    kept = arguments.out.with_suffix(".jsonl")
    found: dict[Any, float] = {}
    if kept.exists():
        found = {tuple(task): regret for task, regret in map(json.loads, kept.read_text().splitlines())}

    def run(names: list[str], epsilons: dict[str, set[float]], seeds: range) -> None:
        tasks = [
            (name, world, epsilon, seed)
            for name in names
            for seed in seeds
            for world in TUNING_WORLDS
            for epsilon in sorted(epsilons[name])
        ]
        with kept.open("a", buffering=1) as file, Pool(arguments.jobs) as pool:
            for task, regret in pool.imap(_run, [task for task in tasks if task not in found], chunksize=4):
                found[task] = regret
                file.write(json.dumps([task, regret]) + "\n")

    first = range(FIRST_SEED, FIRST_SEED + arguments.crowds)
    everywhere = {name: set(EPSILONS) for name in NEIGHBOURS}
    run(list(NEIGHBOURS), everywhere, first)
    moved = [name for name in NEIGHBOURS if NEIGHBOURS[name] != ({}, {})]
    rows = [_row(name, one, first, found) for name in moved for one in EPSILONS]
    ahead: dict[str, set[float]] = {}
    for row in rows:
        if row["more_regret"] < -2 * row["standard_error"]:
            ahead.setdefault(row["constant"], set()).add(row["epsilon"])
    if ahead:
        second = range(SECOND_SEED, SECOND_SEED + 2 * arguments.crowds)
        run(["as they are", *ahead], {"as they are": set(EPSILONS)} | ahead, second)
        rows += [_row(name, one, second, found) for name, some in ahead.items() for one in sorted(some)]
    results = {"users": USERS, "worlds": len(TUNING_WORLDS), "rows": rows}
    arguments.out.write_text(json.dumps(results, indent=1) + "\n")
    for row in rows:
        more, error = row["more_regret"], row["standard_error"]
        print(f"{row['constant']:34} {row['epsilon']:g} {row['first_seed']} {more:+.4f} +- {error:.4f}")


if __name__ == "__main__":
    main()

"""Tuning of new arms: their minimum of the decisions, and how much they are like the arm that is named.

    python -m reproduction.tuning.arms_change --out reproduction/results/arms_change_tuning.json

Worlds differ from those of `reproduction/studies/arms_change.py`: effects are waves over age and income, and
one interaction. Seeds are below 1,000,000. Values of the minimum are run with a likeness of .9, and values of
the likeness with a minimum of .1. The defaults have the largest mean share over worlds and schedules.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.central.marginals import learning
from dpbandits.lab.evaluation.summary import mean_and_error
from reproduction.studies.arms_change import REGIONS, WORLDS, crowd, run

FIRST_SEED, SEEDS = 400_000, 8
PEOPLE = 10_000
SCHEDULES = ("default", "twenty")
MINIMUMS, LIKENESSES = (0.05, 0.1, 0.15, 0.2, 0.3), (0.5, 0.7, 0.8, 0.9, 0.95)


def waves(table: dict[str, Any], rng: np.random.Generator) -> FloatArray:
    """Return effects (n,) that are waves over age and income, and differ by region at high income."""
    turns, phases = rng.uniform(0.5, 2.0, 2), rng.uniform(0.0, 2 * np.pi, 2)
    codes = np.array([REGIONS.index(one) for one in table["region"]])
    high = rng.normal(0.0, 0.12, len(REGIONS))[codes] * table["income"]
    both = [
        0.08 * np.cos(np.pi * turns[one] * table[key] + phases[one])
        for one, key in enumerate(("age", "income"))
    ]
    return np.asarray(both[0] + both[1] + high)


def row_of(world: str, schedule: str, *, minimum: float, likeness: float, like: bool) -> dict[str, Any]:
    """Return the results with these values, over all seeds."""
    before = learning.LIKENESS
    learning.LIKENESS = likeness
    try:
        runs = [
            run(
                crowd(world, seed, people=PEOPLE, effects=waves),
                "like" if like else "added",
                seed=seed,
                schedule=schedule,
                minimum=minimum,
            )
            for seed in range(FIRST_SEED, FIRST_SEED + SEEDS)
        ]
    finally:
        learning.LIKENESS = before
    share, error = mean_and_error(np.array([one[1] for one in runs]))
    shares = np.array([one[0] for one in runs]).mean(axis=0).tolist()
    named = {"world": world, "schedule": schedule, "like": like, "minimum": minimum, "likeness": likeness}
    return named | {"share": share, "share_se": error, "shares": shares}


def main(arguments: list[str] | None = None) -> None:
    """Run every value; every row is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    values = [(minimum, 0.9, True) for minimum in MINIMUMS]
    values += [(0.1, likeness, True) for likeness in LIKENESSES if likeness != 0.9]
    values += [(minimum, 0.9, False) for minimum in MINIMUMS]
    rows = []
    for minimum, likeness, like in values:
        for schedule in SCHEDULES:
            for world in WORLDS:
                rows.append(row_of(world, schedule, minimum=minimum, likeness=likeness, like=like))
                given.out.write_text(json.dumps({"people": PEOPLE, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

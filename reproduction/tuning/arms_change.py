"""Tuning of new arms: their minimum of the decisions, and how much they are like the arm that is named.

    python -m reproduction.tuning.arms_change --out reproduction/results/arms_change_tuning.json

Worlds differ from those of `reproduction/studies/arms_change.py`: effects are waves over age and income, and
one interaction. Seeds are below 1,000,000. Values of the minimum are run with a likeness of .7, and values of
the likeness with a minimum of .1. `means` has the mean share over worlds for each value. A value that was
ahead of the default, with and without `like=` together, by more than two standard errors is run again, on
fresh seeds, with the default. It is taken if it is ahead by more than two there, too. The minimum .15 was
ahead on the first seeds, and on fresh ones by less than two, so .1 stays.
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

SEEDS, FRESH = range(400_000, 400_008), range(450_000, 450_016)
PEOPLE = 20_000
SCHEDULE = "twenty"
MINIMUMS, LIKENESSES = (0.05, 0.1, 0.15, 0.2), (0.3, 0.5, 0.7, 0.9)
MINIMUM, LIKENESS = 0.1, 0.7
AGAIN = (0.1, 0.15)
"""Minimums that are run again on fresh seeds."""


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


def row_of(world: str, seeds: range, *, minimum: float, likeness: float, like: bool) -> dict[str, Any]:
    """Return the results with these values, over some seeds."""
    before = learning.LIKENESS
    learning.LIKENESS = likeness
    try:
        runs = [
            run(
                crowd(world, seed, people=PEOPLE, effects=waves),
                "like" if like else "added",
                seed=seed,
                schedule=SCHEDULE,
                minimum=minimum,
            )
            for seed in seeds
        ]
    finally:
        learning.LIKENESS = before
    share, error = mean_and_error(np.array([one[1] for one in runs]))
    shares = np.array([one[0] for one in runs]).mean(axis=0).tolist()
    named = {"seeds": [seeds[0], len(seeds)], "like": like, "minimum": minimum, "likeness": likeness}
    return named | {"world": world, "share": share, "share_se": error, "shares": shares}


def means_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean share over worlds with its standard error, for each value and set of seeds."""
    named = ("seeds", "like", "minimum", "likeness")
    found = []
    for one in rows[:: len(WORLDS)]:
        own = [row for row in rows if all(row[name] == one[name] for name in named)]
        share = float(np.mean([row["share"] for row in own]))
        error = float(np.sqrt(sum(row["share_se"] ** 2 for row in own)) / len(own))
        found.append({name: one[name] for name in named} | {"share": share, "share_se": error})
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run every value that `--out` does not have; every value is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    values = [(SEEDS, minimum, LIKENESS, like) for like in (True, False) for minimum in MINIMUMS]
    values += [(SEEDS, MINIMUM, likeness, True) for likeness in LIKENESSES if likeness != LIKENESS]
    values += [(FRESH, minimum, LIKENESS, like) for like in (True, False) for minimum in AGAIN]
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    for seeds, minimum, likeness, like in values[len(rows) // len(WORLDS) :]:
        for world in WORLDS:
            rows.append(row_of(world, seeds, minimum=minimum, likeness=likeness, like=like))
        told = {"people": PEOPLE, "means": means_of(rows), "rows": rows}
        given.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()

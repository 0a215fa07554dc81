"""Logs of prices, bids and doses: what a private release keeps if logged numbers were not drawn evenly.

    python -m reproduction.studies.prices_logs --out reproduction/results/prices-logs.json

Worlds are `lab.worlds.PRICE_WORLDS`. A log has 10,000 people with one row each, and is learned at (1, 1e-6)
with the exact samplers of the library. Other people then get the numbers that the published function chooses.
The share is (mean value - uniform)/(best - uniform): 0 for a random number, 1 for the best for everybody.

| log | how numbers were drawn |
|---|---|
| `uniform` | every step is equally likely |
| `peaked` | chances are .8 times normal around .4 of the grid, with a deviation of 3 steps, and .2 even |
| `ignored` | the peaked log, declared as uniform |
| `open` | the peaked log at epsilon 50: hardly any noise, and no protection worth the name |

The group `many` has logs of 100,000 people with 29 columns, of which two matter, and no declared shape.

`fixed` is the number that is best on average, from true means. The group `bounds` compares clipping bounds on
other worlds, with seeds below 1,000,000: the default was chosen there.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits._typing import FloatArray
from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.worlds.prices import PRICE_WORLDS, PriceWorld

FIRST_SEED, SEEDS = 7_310_000, 20
TUNING_SEEDS = range(5)
PEOPLE, OTHERS = 10_000, 10_000
EPSILON, OPEN_EPSILON, DELTA = 1.0, 50.0, 1e-6
REPORTED, TUNED = ("price-1", "price-3"), ("price-6", "bid", "dose")
BOUNDS = (1.0, 2.0, 3.0, 5.0, 8.0)
LOGS = ("uniform", "peaked", "ignored", "open")
MANY_SEEDS, MANY_PEOPLE, MANY_COLUMNS = 6, 100_000, 29
SHIFTS = np.array([-2.0, 0.0, 1.0, 3.0])
"""Shift of the price that people of each region are willing to pay."""


def _bought(columns: FloatArray, price: FloatArray) -> FloatArray:
    """Return the chances (n, K) that depend on the first column and the third, a region."""
    worth = 5.5 + 6.0 * columns[:, :1] + SHIFTS[columns[:, 2:3].astype(np.int64)]
    return np.asarray(1.0 / (1.0 + np.exp((price - worth) / 1.5)))


MANY = PriceWorld(
    "many",
    PRICE_WORLDS["price-1"].numbers,
    {f"column {number}": 4 if number % 3 == 2 else None for number in range(MANY_COLUMNS)},
    _bought,
    PRICE_WORLDS["price-1"].value,
)
"""World of 29 columns, every third with four categories. The first one is skewed."""


def chances_of(world: PriceWorld, log: str) -> FloatArray:
    """Return the chance (K,) of every step in a log."""
    count = len(world.numbers)
    if log == "uniform":
        return np.full(count, 1.0 / count)
    near = np.exp(-0.5 * ((np.arange(count) - 0.4 * count) / 3.0) ** 2)
    return np.asarray(0.8 * near / near.sum() + 0.2 / count)


def share_of(
    world: PriceWorld, log: str, *, seed: int, bound: float | None = None, count: int = PEOPLE
) -> tuple[float, float]:
    """Return the share of the uplift of a function learned from a log, and that of the best fixed number.

    Args:
        world: World of the log.
        log: One of `LOGS`.
        seed: Seed of people, coins and the policy.
        bound: Clipping bound in units of the largest distance of an outcome from the middle; None for the
            default.
        count: Number of rows of the log.
    """
    people, numbers = world.people(seed, count + OTHERS), np.array(world.numbers)
    logged, others = people[:count], people[count:]
    chances = chances_of(world, log)
    draws = world.coins(seed + 500_000_000, count)
    codes = np.minimum(np.searchsorted(chances.cumsum(), draws), len(numbers) - 1)
    means = world.means(logged)[np.arange(count), codes]
    outcomes = (world.coins(seed, count) < means).astype(np.float64)
    even = log in ("uniform", "ignored")
    policy = dpb.central.ExploreThenCommit(
        contexts=world.contexts,
        actions=world.actions,
        reward_range=(0, 1),
        horizon=count,
        privacy=dpb.JointDP(epsilon=OPEN_EPSILON if log == "open" else EPSILON, delta=DELTA, user_ids=False),
        seed=seed,
        tuning=dpb.central.ExploreTuning(
            logged="steps" if even else "propensities", bound=None if bound is None else bound / 2.0
        ),
    )
    policy.learn(world.table(logged), numbers[codes], outcomes, propensities=None if even else chances[codes])
    chosen = policy.publish().choose(world.table(others))
    values = world.values(world.means(others))
    got = float(values[np.arange(OTHERS), chosen].mean())
    best, uniform = float(values.max(axis=1).mean()), float(values.mean())
    fixed = float(values.mean(axis=0).max())
    return (got - uniform) / (best - uniform), (fixed - uniform) / (best - uniform)


def row_of(group: str, world: str, log: str, *, seeds: list[int], bound: float | None) -> dict[str, Any]:
    """Return the mean share of a world and a log, with its standard error over seeds."""
    own = MANY if group == "many" else PRICE_WORLDS[world]
    count = MANY_PEOPLE if group == "many" else PEOPLE
    found = np.array([share_of(own, log, seed=seed, bound=bound, count=count) for seed in seeds])
    mean, error = mean_and_error(found[:, 0])
    shown = {
        "share": mean,
        "share_se": error,
        "lowest": float(found[:, 0].min()),
        "fixed": found[:, 1].mean(),
    }
    return {"group": group, "world": world, "log": log, "bound": bound, "seeds": seeds, **shown}


def rows_of(group: str) -> list[dict[str, Any]]:
    """Return all rows of a group."""
    if group == "bounds":
        seeds = list(TUNING_SEEDS)
        return [
            row_of(group, world, "peaked", seeds=seeds, bound=bound) for world in TUNED for bound in BOUNDS
        ]
    seeds = [FIRST_SEED + number for number in range(MANY_SEEDS if group == "many" else SEEDS)]
    if min(seeds) < FIRST_REPORT_SEED:
        raise ValueError("reported seeds are from 1,000,000 on")
    if group == "many":
        return [row_of(group, MANY.name, log, seeds=seeds, bound=None) for log in ("uniform", "peaked")]
    return [row_of(group, world, log, seeds=seeds, bound=None) for world in REPORTED for log in LOGS]


def main(arguments: list[str] | None = None) -> None:
    """Run the study; every group is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    groups = ("report", "many", "bounds")
    parser.add_argument("--only", nargs="*", choices=groups, default=groups)
    given = parser.parse_args(arguments)
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    for group in given.only:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = [row for row in rows if row["group"] != group] + rows_of(group)
        rows.sort(key=lambda row: groups.index(row["group"]))
        given.out.write_text(json.dumps({"people": PEOPLE, "delta": DELTA, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

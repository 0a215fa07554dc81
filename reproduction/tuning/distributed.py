"""How the constants of `dpbandits.distributed` were chosen: average regret on tuning worlds and tuning seeds.

    python -m reproduction.tuning.distributed --out reproduction/results/distributed-tuning.json
    python -m reproduction.tuning.distributed --tables --out reproduction/results/distributed-tables.json
    python -m reproduction.tuning.distributed --columns --out reproduction/results/distributed-columns.json
    python -m reproduction.tuning.distributed --figure --out reproduction/results/distributed-figure.json

Each row changes one constant of `DistributedTuning`, or the number of cells relative to its default. Regret
is averaged over the tuning worlds of `reproduction.local_worlds`, for two numbers of users, on seeds from 0.
About 7 CPU minutes.

With `--tables`, `CATEGORY_POWER` changes. Rewards are those of people of `synthetic_income`, and of
`cps_income` in other orders than the study's, at epsilon 1, on seeds from 1. About 2 CPU minutes.

With `--columns`, the temperature of draws from marginal tables changes, for 10 columns. With 4, 5 and 6
columns a grid is compared with marginal tables. Regret on the made-up people of the study, on seeds from 0.
About 1 CPU minute.

With `--figure`, the blocks and the temperature of the study's policy in the world of Figure 1 are compared,
on seeds from 0. About 3 CPU minutes.
"""

import argparse
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import dpbandits as dpb
from dpbandits.distributed import DistributedSpec, DistributedTuning, spec
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.worlds import cps_income, synthetic_income
from reproduction.local_worlds import TUNING_WORLDS, world
from reproduction.studies.distributed import distributed, figure_1, known, people_of_columns
from reproduction.studies.distributed_crowds import simulate_distributed

SETTINGS = ((40_000, 1.0), (4_000, 1.0))
"""Numbers of users, and epsilons."""

CHOICES: tuple[dict[str, Any], ...] = (
    {},
    {"cells": 0.5},
    {"cells": 2.0},
    {"first": 0.01},
    {"first": 0.04},
    {"growth": 1.25},
    {"growth": 2.0},
    {"temperature": 0.1},
    {"temperature": 1.2},
)
"""Changes from the defaults; `cells` is a factor."""


TABLES = {"synthetic-income": synthetic_income, "cps-income": cps_income}
TABLE_PEOPLE, TABLE_SEEDS, POWERS = (50_000, 4_000), range(1, 5), (spec.CATEGORY_POWER, 0.0, 1.0)


def table_rows() -> list[dict[str, Any]]:
    """Return the rewards of people of tables under each of `POWERS`, the default first."""
    rows = []
    for power in POWERS:
        row: dict[str, Any] = {"CATEGORY_POWER": power, "reps": len(TABLE_SEEDS)}
        with patch.object(spec, "CATEGORY_POWER", power):
            for name, people in product(TABLES, TABLE_PEOPLE):
                found = [
                    distributed(TABLES[name](seed=seed, horizon=people), seed)["reward"]
                    for seed in TABLE_SEEDS
                ]
                mean, error = mean_and_error(np.array(found))
                row[f"{people} of {name}"] = {"reward": mean, "error": error}
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


FIGURE_CHOICES = tuple(
    {"first": first, "growth": growth, "thompson_scale": scale}
    for first, growth, scale in (
        (64, 1.25, 0.2),
        (64, 1.25, 0.1),
        (64, 1.15, 0.2),
        (64, 1.15, 0.1),
        (64, 1.15, 0.05),
        (48, 1.15, 0.1),
        (100, 1.15, 0.1),
    )
)
"""Blocks and temperatures in the world of Figure 1. The first are the defaults of `BlockAggregation`."""

FIGURE_REPS = 60


COLUMN_PEOPLE, COLUMN_REPS = 20_000, 3


def column_rows() -> list[dict[str, Any]]:
    """Return the regret of each temperature, and of a grid and of marginal tables."""
    choices: list[tuple[int, float, int]] = [(10, temperature, 3) for temperature in (0.3, 0.1, 1.0)]
    choices += [(columns, 0.3, parts) for columns in (4, 5, 6) for parts in (2, 99)]
    rows = []
    for columns, temperature, parts in choices:
        found = []
        with patch.object(spec, "FEWEST_PARTS", parts):
            for seed in range(COLUMN_REPS):
                table = people_of_columns(columns, COLUMN_PEOPLE, seed)
                contract = DistributedSpec(
                    **known(table),
                    privacy=dpb.DistributedDP(epsilon=1),
                    horizon=COLUMN_PEOPLE,
                    seed=seed,
                    tuning=DistributedTuning(temperature=temperature),
                )
                crowd = simulate_distributed(contract, table, n_users=COLUMN_PEOPLE, seed=seed)
                found.append(crowd.average_regret)
        mean, error = mean_and_error(np.array(found))
        kind = "cells" if contract.effects is None else "tables"
        row = {"columns": columns, "kind": kind, "temperature": temperature, "reps": COLUMN_REPS}
        rows.append(row | {"regret": mean, "error": error})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def figure_rows() -> list[dict[str, Any]]:
    """Return the total regret of each of `FIGURE_CHOICES`."""
    rows = []
    for choice in FIGURE_CHOICES:
        found = np.array([figure_1("distributed", seed, choice) for seed in range(FIGURE_REPS)])
        mean, error = mean_and_error(found)
        rows.append({"choice": choice, "reps": FIGURE_REPS, "regret": mean, "error": error})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def regret(name: str, people: int, epsilon: float, seed: int, choice: dict[str, Any]) -> float:
    """Return the average regret of one simulated crowd."""
    place = world(name)
    contract = DistributedSpec(
        contexts=dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(place.dim)}),
        arms=range(place.n_arms),
        privacy=dpb.DistributedDP(epsilon=epsilon),
        horizon=people,
        seed=seed,
    )
    own = dict(choice)
    if "cells" in own:
        own["cells"] = max(8, round(own["cells"] * contract.grid.size))
    contract = replace(contract, tuning=DistributedTuning(**own))
    return simulate_distributed(contract, place, n_users=people, seed=seed).average_regret


OTHERS = {"tables": table_rows, "columns": column_rows, "figure": figure_rows}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=3)
    for name in OTHERS:
        parser.add_argument(f"--{name}", action="store_const", const=name, dest="other")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = OTHERS[options.other]() if options.other else []
    for choice in () if options.other else CHOICES:
        row: dict[str, Any] = {"choice": choice, "reps": options.reps}
        for people, epsilon in SETTINGS:
            # one mean over the worlds for every seed, so that the error is over seeds
            found = [
                np.mean([regret(name, people, epsilon, seed, choice) for name in TUNING_WORLDS])
                for seed in range(options.reps)
            ]
            mean, error = mean_and_error(np.array(found))
            row[f"{people} at {epsilon:g}"] = {"regret": mean, "error": error}
        rows.append(row)
        print(json.dumps(row), flush=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

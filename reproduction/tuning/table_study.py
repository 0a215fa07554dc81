"""Choice of the constants of the table study, by coordinate search on a synthetic table.

`python -m reproduction.tuning.table_study [--sweeps 2] [--reps 6] [--horizon 20000]` starts at the committed
constants, changes one at a time over a fixed grid on the table `synthetic-income` and seeds 0, 1, ...
(tuning seeds; reports start at 1,000,000), keeps what earns most, and prints every trial. The private policy
is tuned at (1, 1e-6) with simulated noise; the non-private one over the same grid with the same effort.
"""

import argparse
from dataclasses import replace
from functools import partial

import numpy as np

import dpbandits as dpb
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.people.study import (
    NON_PRIVATE_CONSTANTS,
    PRIVATE_CONSTANTS,
    TableConstants,
    non_private_policy,
    private_policy,
)
from dpbandits.lab.worlds import synthetic_income

SHARED_GRID = {
    "features_per_arm": (5, 8, 12, 20),
    "lengthscale": (0.2, 0.3, 0.5, 0.8),
    "category_correlation": (0.4, 0.6, 0.7, 0.8, 0.9),
    "prior_variance": (0.1, 0.2, 0.5, 1.0),
}
PRIVATE_GRID = SHARED_GRID | {
    "thompson_scale": (0.0, 0.1, 0.25, 0.5),
}
NON_PRIVATE_GRID = SHARED_GRID | {"ucb_weight": (0.0, 0.1, 0.25, 0.5, 1.0)}
PRIVACY = dpb.JointDP(epsilon=1.0, delta=1e-6)


def reward(build, tables, constants: TableConstants) -> np.ndarray:
    return np.array([run(build(table, constants), table).mean_reward for table in tables])


def build_private(table, constants: TableConstants):
    noise = dpb.SimulatedNoise(table.seed)
    return private_policy(table, table.seed, privacy=PRIVACY, noise=noise, constants=constants)


def build_non_private(table, constants: TableConstants):
    return non_private_policy(table, table.seed, constants=constants)


def search(name, build, grid, start: TableConstants, tables, sweeps: int) -> TableConstants:
    best, best_rewards = start, reward(build, tables, start)
    print(f"{name}: start {best_rewards.mean():.4f} with {start}", flush=True)
    for _ in range(sweeps):
        for key, values in grid.items():
            for value in values:
                if value == getattr(best, key):
                    continue
                trial = replace(best, **{key: value})
                rewards = reward(build, tables, trial)
                gain = rewards - best_rewards
                error = gain.std(ddof=1) / np.sqrt(len(gain))
                print(
                    f"  {key} = {value:g}: {rewards.mean():.4f} ({gain.mean():+.4f} +- {error:.4f})",
                    flush=True,
                )
                if gain.mean() > error:
                    best, best_rewards = trial, rewards
    print(f"{name}: chosen {best_rewards.mean():.4f} with {best}\n", flush=True)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=2)
    parser.add_argument("--reps", type=int, default=6)
    parser.add_argument("--horizon", type=int, default=20_000)
    arguments = parser.parse_args()
    make = partial(synthetic_income, horizon=arguments.horizon)
    tables = [make(seed=seed) for seed in report_seeds(0, arguments.reps, tuning=True)]
    search(
        "non-private", build_non_private, NON_PRIVATE_GRID, NON_PRIVATE_CONSTANTS, tables, arguments.sweeps
    )
    search("private", build_private, PRIVATE_GRID, PRIVATE_CONSTANTS, tables, arguments.sweeps)


if __name__ == "__main__":
    main()

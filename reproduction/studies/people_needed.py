"""Reward of the default policy by the number of users.

    python -m reproduction.studies.people_needed --out reproduction/results/people-needed.json

This command serves the first N of the people of `cps-income` for several N: with contexts and arms as a user
brings them, (epsilon, 1e-6), everything else at its default, noise simulated. Beside it stand the non-private
baseline and the best constant arm in hindsight, over the same people. Seeds from 1,000,000; evaluations on
data that one may look at. About three CPU minutes.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import dpbandits as dpb
from dpbandits.lab import evaluation
from dpbandits.lab.worlds import TableBandit, cps_income
from dpbandits.policy import Policy

PEOPLE = (250, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
DELTA = 1e-6


def known(table: TableBandit, seed: int) -> dict[str, Any]:
    return {
        "contexts": table.schema,
        "arms": table.arms.labels,
        "reward_range": table.reward_range,
        "horizon": table.horizon,
        "seed": seed,
    }


def private(epsilon: float, table: TableBandit, seed: int) -> Policy:
    privacy, noise = dpb.JointDP(epsilon=epsilon, delta=DELTA), dpb.SimulatedNoise(seed)
    return dpb.central.GPBandit(**known(table, seed), privacy=privacy, noise=noise)


def non_private(table: TableBandit, seed: int) -> Policy:
    return dpb.lab.baselines.FeatureGPUCB(**known(table, seed), update_growth=0.02)


def constant(table: TableBandit, seed: int) -> Policy:
    arm = table.best_constant_arm().index
    shared = {"domain": table.domain, "reward_range": table.reward_range, "horizon": table.horizon}
    return dpb.lab.baselines.ConstantArm(arm=arm, **shared, seed=seed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    seeds = evaluation.report_seeds(evaluation.FIRST_REPORT_SEED, options.reps)
    policies = {
        "private": partial(private, options.epsilon),
        "non-private": non_private,
        "constant": constant,
    }
    rows = []
    for people in PEOPLE:
        world = partial(_first, people)
        runs = {
            name: evaluation.repeat(make, world, name=name, seeds=seeds, jobs=options.jobs)
            for name, make in policies.items()
        }
        gap = evaluation.Estimate.of(runs["private"].mean_rewards - runs["constant"].mean_rewards)
        row: dict[str, Any] = {
            "people": people,
            "epsilon": options.epsilon,
            "delta": DELTA,
            "reps": options.reps,
        }
        for name, run in runs.items():
            reward = evaluation.Estimate.of(run.mean_rewards)
            row |= {name: reward.mean, f"{name}_error": reward.standard_error}
        rows.append(row | {"above_constant": gap.mean, "above_constant_error": gap.standard_error})
        print(f"{people:,} people: {gap.mean:.4f} +- {gap.standard_error:.4f} above the best constant arm")
    options.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def _first(people: int, seed: int) -> TableBandit:
    return cps_income(seed=seed, horizon=people)


if __name__ == "__main__":
    main()

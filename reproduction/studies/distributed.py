"""Two aggregators beside a trusted server and local privacy, at epsilon 1. Experimental.

    python -m reproduction.studies.distributed --out reproduction/results/distributed.json

Four groups of worlds:

- contexts in the unit square and three or more arms, 40,000 people: average regret;
- 10 columns and 20,000 people, 30 columns and 50,000: made-up people, of whose columns six matter; average
  regret, with that of the best constant arm;
- `cps-income`, 50,000 people: share of the non-private uplift over random choice;
- the world of Figure 1 of Dubey2021, 1,024 rounds with 25 candidates each: total regret.

In the first three groups, "central" is `GPBandit` at (1, 1e-6), "local" is `local.Spec`, and "distributed" is
`DistributedSpec` with the noise of both aggregators. They have their defaults.

In the last group people choose among points, for which `DistributedSpec` has no cells. There "central" is
`GPBandit` with cells at pure epsilon 1, and "local" is `GPSpec` at (1, 1e-5). "distributed" is
`BlockAggregation` in cells with four noises, the law of a histogram of successes and failures. The difference
of a cell's two buckets has four draws of discrete Laplace noise of scale 2/epsilon, two of each aggregator,
and the sum of centred rewards is half of it. Rewards there are 0 or 1, so that no rounding is needed.

`--group` and `--trust` run one group or one trust model, and keep the file's other results. Each person
reports once. Noise is
simulated. Evaluations on data that one may look at. Seeds from 1,000,000.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.central import GPTuning
from dpbandits.central.schedule import growing_blocks
from dpbandits.distributed import DistributedSpec
from dpbandits.errors import DPBanditsWarning
from dpbandits.lab.baselines import BlockAggregation
from dpbandits.lab.evaluation import (
    FIRST_REPORT_SEED,
    Estimate,
    report_seeds,
    run,
    share_kept,
    simulate,
)
from dpbandits.lab.worlds import TableBandit, contextual, cps_income
from reproduction.dubey2021.local import simulate_local
from reproduction.dubey2021.worlds import world_of
from reproduction.studies.distributed_crowds import simulate_distributed
from reproduction.studies.releases import features_of

EPSILON, DELTA = 1.0, 1e-6
PEOPLE = 40_000
WORLDS = ("ma", "diagonal", "clustered")
INCOME_PEOPLE = 50_000

FIGURE_SEEDS = 20
"""Number of seeds in the world of Figure 1 for each seed elsewhere."""

NOISES = 4
"""Independent noises of half the difference of two buckets, each with the noise of two aggregators."""


FIGURE_CHOICE = {"first": 64, "growth": 1.15, "thompson_scale": 0.1}
"""Blocks and temperature of "distributed" in the world of Figure 1, chosen by `--figure` of
`reproduction.tuning.distributed` on tuning seeds."""

COLUMNS = {10: 20_000, 30: 50_000}
"""Number of columns -> number of people."""

_TABLE_STREAM, _COLUMN_STREAM = 17, 18


@cache
def table_of(name: str, seed: int) -> TableBandit:
    """A world of points as a table of `PEOPLE` rows in order, with rewards 0 or 1 and their means."""
    # a stream of its own: crowds draw their rewards from [seed, 0]
    rng, place = np.random.default_rng([seed, _TABLE_STREAM]), contextual.world(name)
    contexts, means = place.draw(PEOPLE, rng)
    return TableBandit(
        name=name,
        schema=dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(place.dim)}),
        contexts=contexts,
        arms=dpb.Arms(place.n_arms),
        reward_table=(rng.random(means.shape) < means).astype(np.float64),
        reward_range=dpb.RewardRange(0, 1),
        seed=seed,
        horizon=PEOPLE,
        expected=means,
        ordered=True,
    )


def people_of_columns(columns: int, people: int, seed: int, *, arms: int = 4, matter: int = 6) -> TableBandit:
    """Made-up people with independent uniform columns, in order.

    An arm's mean reward adds up a line and a cosine in each of the first `matter` columns, and a product of
    the first two. Their sizes are normal numbers of standard deviation .12, .06 and .1, and .05 for the level
    of an arm. Means are clipped to .02 and .98.
    """
    rng = np.random.default_rng([seed, _COLUMN_STREAM])
    contexts = rng.random((people, columns))
    x = contexts[:, :matter]
    lines, waves, product, level = (
        rng.normal(scale=scale, size=size)
        for scale, size in ((0.12, (x.shape[1], arms)), (0.06, (x.shape[1], arms)), (0.1, arms), (0.05, arms))
    )
    both = 4.0 * (x[:, 0] - 0.5) * (x[:, 1] - 0.5)
    means = 0.5 + (2.0 * x - 1.0) @ lines + np.cos(2.0 * np.pi * x) @ waves + both[:, None] * product + level
    means = np.clip(means, 0.02, 0.98)
    return TableBandit(
        name=f"{columns} columns",
        schema=dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(columns)}),
        contexts=contexts,
        arms=dpb.Arms(arms),
        reward_table=(rng.random(means.shape) < means).astype(np.float64),
        reward_range=dpb.RewardRange(0, 1),
        seed=seed,
        horizon=people,
        expected=means,
        ordered=True,
    )


def known(table: TableBandit) -> dict[str, Any]:
    """Arguments that every policy on a table shares."""
    return {"contexts": table.schema, "arms": table.arms.labels, "reward_range": table.reward_range}


def central(table: TableBandit, seed: int) -> dict[str, float]:
    """Average regret and reward of `GPBandit`."""
    policy = dpb.central.GPBandit(
        **known(table),
        horizon=table.horizon,
        privacy=dpb.JointDP(epsilon=EPSILON, delta=DELTA),
        noise=dpb.SimulatedNoise(seed),
        seed=seed,
    )
    return _of(run(policy, table), table)


def non_private(table: TableBandit, seed: int) -> dict[str, float]:
    """Average regret and reward of the non-private baseline."""
    policy = dpb.lab.baselines.FeatureGPUCB(
        **known(table), horizon=table.horizon, seed=seed, update_growth=0.02
    )
    return _of(run(policy, table), table)


def _of(result: Any, table: TableBandit) -> dict[str, float]:
    regret = float("nan") if result.regret is None else float(result.regret.sum()) / table.horizon
    return {"regret": regret, "reward": result.mean_reward}


def local(table: TableBandit, seed: int) -> dict[str, float]:
    """Average regret and reward of `local.Spec`."""
    spec = dpb.local.Spec(**known(table), privacy=dpb.LocalDP(epsilon=EPSILON), seed=seed)
    found = simulate(spec, table, n_users=table.horizon, seed=seed)
    return {"regret": found.average_regret, "reward": found.average_reward}


def distributed(table: TableBandit, seed: int) -> dict[str, float]:
    """Average regret and reward of `DistributedSpec`."""
    spec = DistributedSpec(
        **known(table), privacy=dpb.DistributedDP(epsilon=EPSILON), horizon=table.horizon, seed=seed
    )
    found = simulate_distributed(spec, table, n_users=table.horizon, seed=seed)
    return {"regret": found.average_regret, "reward": found.average_reward}


def figure_1(trust: str, seed: int, choice: dict[str, float] = FIGURE_CHOICE) -> float:
    """Total regret in the world of Figure 1; `choice` is for "distributed"."""
    if trust == "local":
        return float(simulate_local("printed", dpb.JointDP(epsilon=EPSILON, delta=1e-5), seed)["regret"])
    environment = world_of("printed", seed)
    domain, features = features_of("figure1", "cells")
    shared: dict[str, Any] = {
        "domain": domain,
        "reward_range": environment.reward_range,
        "horizon": environment.horizon,
        "privacy": dpb.JointDP(epsilon=EPSILON, user_ids=False),
        "noise": dpb.SimulatedNoise(seed),
        "seed": seed,
    }
    tuning = GPTuning(release="cells", features=features)
    if trust == "distributed":
        blocks = growing_blocks(environment.horizon, first=int(choice["first"]), growth=choice["growth"])
        tuning = replace(tuning, blocks=blocks, thompson_scale=choice["thompson_scale"])
        policy: Any = BlockAggregation(**shared, noises=NOISES, tuning=tuning)
    else:
        policy = dpb.central.GPBandit(**shared, tuning=tuning)
    regret = run(policy, environment).regret
    return float("nan") if regret is None else float(regret.sum())


ON_TABLES: dict[str, Callable[[TableBandit, int], dict[str, float]]] = {
    "central": central,
    "distributed": distributed,
    "local": local,
}


def _row(world: str, people: int, measure: str, values: dict[str, Estimate], reps: int) -> dict[str, Any]:
    row: dict[str, Any] = {"world": world, "people": people, "measure": measure, "reps": reps}
    for trust, found in values.items():
        row |= {trust: found.mean, f"{trust}_error": found.standard_error}
    shown = ", ".join(f"{trust} {one.mean:.4g} +- {one.standard_error:.2g}" for trust, one in values.items())
    print(f"{world}, {people:,} people, {measure}: {shown}", flush=True)
    return row


def on_worlds(reps: int, trusts: Sequence[str]) -> list[dict[str, Any]]:
    """Average regret in the worlds of points."""
    seeds, rows = report_seeds(FIRST_REPORT_SEED, reps), []
    for name in WORLDS:
        values = {
            trust: Estimate.of(
                np.array([ON_TABLES[trust](table_of(name, seed), seed)["regret"] for seed in seeds])
            )
            for trust in trusts
        }
        table_of.cache_clear()
        rows.append(_row(name, PEOPLE, "average regret", values, reps))
    return rows


def on_columns(reps: int, trusts: Sequence[str]) -> list[dict[str, Any]]:
    """Average regret with many columns."""
    seeds, rows = report_seeds(FIRST_REPORT_SEED, reps), []
    for columns, people in COLUMNS.items():
        found: dict[str, list[float]] = {trust: [] for trust in (*trusts, "constant")}
        for seed in seeds:
            table = people_of_columns(columns, people, seed)
            for trust in trusts:
                found[trust].append(ON_TABLES[trust](table, seed)["regret"])
            means = np.asarray(table.expected)
            found["constant"].append(float(means.max(axis=1).mean() - means.mean(axis=0).max()))
        values = {trust: Estimate.of(np.array(own)) for trust, own in found.items()}
        rows.append(_row(f"{columns} columns", people, "average regret", values, reps))
    return rows


def on_income(reps: int, trusts: Sequence[str]) -> list[dict[str, Any]]:
    """Share of the non-private uplift on the income table."""
    seeds = report_seeds(FIRST_REPORT_SEED, reps)
    tables = [cps_income(seed=seed, horizon=INCOME_PEOPLE) for seed in seeds]
    rewards = {
        trust: np.array([make(table, seed)["reward"] for table, seed in zip(tables, seeds, strict=True)])
        for trust, make in (ON_TABLES | {"non-private": non_private}).items()
        if trust in (*trusts, "non-private")
    }
    even = np.full(reps, 1.0 / tables[0].arms.n_arms)  # one arm of each row is right
    kept = {trust: share_kept(rewards[trust], rewards["non-private"], even) for trust in trusts}
    values = {trust: Estimate(one.share, one.standard_error, reps) for trust, one in kept.items()}
    return [_row("cps-income", INCOME_PEOPLE, "share of the non-private uplift", values, reps)]


def on_figure(reps: int, trusts: Sequence[str]) -> list[dict[str, Any]]:
    """Total regret in the world of Figure 1, on twenty times as many seeds, which are cheap."""
    seeds = report_seeds(FIRST_REPORT_SEED, FIGURE_SEEDS * reps)
    values = {trust: Estimate.of(np.array([figure_1(trust, seed) for seed in seeds])) for trust in trusts}
    return [_row("figure-1", 1024, "total regret", values, len(seeds))]


GROUPS = {"worlds": on_worlds, "columns": on_columns, "income": on_income, "figure": on_figure}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument("--group", action="append", choices=GROUPS, help="run this group only; repeatable")
    parser.add_argument("--trust", action="append", choices=ON_TABLES, help="run this model only; repeatable")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DPBanditsWarning)  # large deltas are for comparison with papers
    found: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in options.group or GROUPS:
        rows = GROUPS[name](options.reps, options.trust or list(ON_TABLES))
        before = found.get(name, [{}] * len(rows))
        found[name] = [old | row for old, row in zip(before, rows, strict=True)]
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

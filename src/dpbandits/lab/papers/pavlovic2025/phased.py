"""Cumulative regret of deciding from the first user on, by phases.

`python -m dpbandits.lab.papers.pavlovic2025.phased` runs `PhasedExploreThenCommit` on fresh RKHS worlds
and prints, beside a random
action and the best fixed time to stop exploring (a first phase alone, its share of the horizon in hindsight),
the mean loss a round.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.central.explore_then_commit.phased import PhasedExploreThenCommit
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED, report_seeds
from dpbandits.lab.evaluation.summary import Estimate
from dpbandits.lab.worlds.rkhs import SETTINGS, RKHSWorld, rkhs_setting
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["losses", "regret_rows", "regret_table"]

DELTA = 1e-6
ONE_PHASE_SHARES = (1 / 64, 1 / 32, 1 / 16, 1 / 8)


def losses(
    world: RKHSWorld, *, horizon: int, epsilon: float, phases: Sequence[int] | None = None
) -> FloatArray:
    """(T,) expected loss of every round of one run."""
    setting = world.setting
    policy = PhasedExploreThenCommit(
        kernel=setting.kernel,
        actions=setting.actions,
        contexts=setting.contexts,
        reward_range=setting.reward_range,
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=DELTA),
        phases=phases,
        user_ids=False,
        noise=SimulatedNoise(world.seed),
        seed=world.seed,
    )
    lost = np.empty(horizon)
    edges = (0, *policy.phases, horizon)
    for start, stop in pairwise(edges):
        cells = world.contexts(start, stop)
        batch = policy.ask_batch(setting.contexts.points[cells])
        policy.tell_batch(batch.ids, world.rewards(start, stop, batch.indices))
        lost[start:stop] = world.means.max(axis=0)[cells] - world.means[batch.indices, cells]
    return lost


def regret_rows(
    name: str, *, horizons: Sequence[int], epsilons: Sequence[float], seeds: Sequence[Seed]
) -> list[dict[str, Any]]:
    """Mean loss a round in phases, in the best single phase in hindsight, and at random, with their s.e."""
    setting = rkhs_setting(name)
    rows = []
    for horizon in horizons:
        for epsilon in epsilons:
            phased, single, random = [], [], []
            for seed in seeds:
                world = setting.world(seed)
                phased.append(float(losses(world, horizon=horizon, epsilon=epsilon).mean()))
                single.append(
                    [
                        losses(
                            world, horizon=horizon, epsilon=epsilon, phases=[round(share * horizon)]
                        ).mean()
                        for share in ONE_PHASE_SHARES
                    ]
                )
                random.append(world.random_loss)
            best = int(np.mean(single, axis=0).argmin())
            columns: dict[str, Any] = {
                "phases": phased,
                "one phase": np.array(single)[:, best],
                "random": random,
            }
            row: dict[str, Any] = {"setting": name, "T": horizon, "epsilon": epsilon}
            for column, values in columns.items():
                estimate = Estimate.of(values)
                row |= {column: estimate.mean, f"{column} s.e.": estimate.standard_error}
            rows.append(row | {"worlds": len(seeds), "first seed": seeds[0]})
    return rows


def regret_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| setting | T | epsilon | phases | one phase, best share in hindsight | random |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = " | ".join(
            f"{row[name]:.4f} ± {row[f'{name} s.e.']:.4f}" for name in ("phases", "one phase", "random")
        )
        lines.append(f"| {row['setting']} | {row['T']:,} | {row['epsilon']:g} | {cells} |")
    return "\n".join(lines)


def _main() -> None:
    parser = argparse.ArgumentParser(description="Cumulative regret of PhasedExploreThenCommit.")
    parser.add_argument("--setting", choices=sorted(SETTINGS), default="SE .2 in 1+1")
    parser.add_argument("--rounds", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 5.0])
    parser.add_argument("--first-seed", type=int, default=FIRST_REPORT_SEED)
    parser.add_argument("--worlds", type=int, default=20)
    options = parser.parse_args()
    seeds = report_seeds(options.first_seed, options.worlds)
    rows = regret_rows(options.setting, horizons=options.rounds, epsilons=options.epsilons, seeds=seeds)
    sys.stdout.write(regret_table(rows) + "\n")


if __name__ == "__main__":
    _main()

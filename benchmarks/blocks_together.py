"""What `GPTuning(regression="sums")` costs in reward: `python benchmarks/blocks_together.py`.

Every seed is run with all blocks apart and with at most so many sums, on two worlds of Dubey2021 with 60
features and 1,000 rounds, simulated noise, tuning seeds, beside uniform choice. Prints the regret and its
difference to that with all apart, each with its standard error; `--out FILE` writes them as JSON, where rows
of other worlds stay.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.central import regression
from dpbandits.lab.evaluation import report_seeds

HORIZON = 1_000
APART = (20, 8, 6)
"""Blocks held apart; the schedule has 20."""

Worlds = dict[str, tuple[Callable[[int], dpb.lab.worlds.FunctionBandit], float]]
WORLDS: Worlds = {
    "figure1": (lambda seed: dpb.lab.worlds.dubey2021_figure1(seed=seed, horizon=HORIZON), 0.8),
    "camelback": (lambda seed: dpb.lab.worlds.camelback(seed=seed, horizon=HORIZON, n_candidates=25), 0.4),
}
"""Each with the lengthscale of the kernel that policies learn with."""


def compared(name: str, *, seeds: int, epsilon: float) -> list[dict[str, Any]]:
    world, lengthscale = WORLDS[name]
    features = dpb.features.MercerFeatures(
        kernel=dpb.kernels.Matern(nu=2.5, lengthscale=lengthscale), domain=world(0).domain, n_features=60
    )
    regret = np.zeros((len(APART) + 1, seeds))
    regression.LARGEST_SYSTEM = 1
    for i, seed in enumerate(report_seeds(0, seeds, tuning=True)):
        environment = world(int(seed))
        for j, apart in enumerate(APART):
            regression.FEWEST_BLOCKS = apart
            policy = dpb.central.GPBandit(
                features=features,
                domain=environment.domain,
                reward_range=environment.reward_range,
                horizon=HORIZON,
                privacy=dpb.JointDP(epsilon=epsilon, delta=1e-5),
                tuning=dpb.central.GPTuning(regression="sums"),
                noise=dpb.SimulatedNoise(seed),
            )
            regret[j, i] = np.sum(dpb.lab.evaluation.run(policy, environment).regret)
        uniform = dpb.lab.baselines.Uniform(
            domain=environment.domain,
            reward_range=environment.reward_range,
            horizon=HORIZON,
            seed=int(seed),
        )
        regret[-1, i] = np.sum(dpb.lab.evaluation.run(uniform, environment).regret)
    rows = []
    for j, policy in enumerate([*map(str, APART), "uniform choice"]):
        more = regret[j] - regret[0]
        error, more_error = (float(values.std(ddof=1) / np.sqrt(seeds)) for values in (regret[j], more))
        rows.append(
            {"world": name, "epsilon": epsilon, "apart": policy, "seeds": seeds}
            | {"regret": float(regret[j].mean()), "error": error}
            | {"more": float(more.mean()), "more_error": more_error}
        )
        print(
            f"| {name} | {epsilon:g} | {policy} | {regret[j].mean():.1f} +- {error:.1f} "
            f"| {more.mean():.1f} +- {more_error:.1f} |",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--worlds", nargs="*", choices=WORLDS, default=list(WORLDS))
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    print("| world | epsilon | apart | regret | more than with all apart |")
    print("|---|---|---|---|---|")
    for name in options.worlds:
        rows = compared(name, seeds=options.seeds, epsilon=options.epsilon)
        if options.out is not None:
            kept = json.loads(options.out.read_text()) if options.out.exists() else []
            others = [row for row in kept if row["world"] != name]
            options.out.write_text(json.dumps(others + rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

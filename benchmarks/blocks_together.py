"""What `GPTuning(regression="sums")` costs in reward: `python benchmarks/blocks_together.py`.

Every seed is run with all blocks apart and with at most so many sums, on two worlds of Dubey2021 with 60
features and 1,000 rounds, simulated noise, tuning seeds. Prints the regret and its difference to that with
all apart, each with its standard error, and the CPU time of a run.
"""

import argparse
import time
from collections.abc import Callable

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


def compared(name: str, *, seeds: int, epsilon: float) -> None:
    world, lengthscale = WORLDS[name]
    features = dpb.features.MercerFeatures(
        kernel=dpb.kernels.Matern(nu=2.5, lengthscale=lengthscale), domain=world(0).domain, n_features=60
    )
    regret, seconds = np.zeros((len(APART), seeds)), np.zeros(len(APART))
    regression.LARGEST_SYSTEM = 1
    for i, seed in enumerate(report_seeds(0, seeds, tuning=True)):
        environment = world(int(seed))
        for j, apart in enumerate(APART):
            regression.FEWEST_BLOCKS = apart
            start = time.process_time()
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
            seconds[j] += time.process_time() - start
    for j, apart in enumerate(APART):
        both = " | ".join(
            f"{values.mean():.1f} +- {values.std(ddof=1) / np.sqrt(seeds):.1f}"
            for values in (regret[j], regret[j] - regret[0])
        )
        print(f"| {name} | {epsilon:g} | {apart} | {both} | {seconds[j] / seeds:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--worlds", nargs="*", choices=WORLDS, default=list(WORLDS))
    options = parser.parse_args()
    print("| world | epsilon | apart | regret | more than apart | CPU seconds a run |")
    print("|---|---|---|---|---|---|")
    for name in options.worlds:
        compared(name, seeds=options.seeds, epsilon=options.epsilon)


if __name__ == "__main__":
    main()

"""Loss of reward from doing less work in the regression: `python -m reproduction.studies.less_work`.

*Unresolved*: weights of features that the rounds cannot resolve keep their prior law; how much
they may make up together, as a part of the variance of a mean of all rewards
(`dpbandits.central.regression.UNRESOLVED`), on smooth functions of two columns.

Every seed is run with every way: 60 features and 1,000 rounds, simulated noise, tuning seeds, beside uniform
choice. Prints the regret, its difference to that of the whole work, each with its standard error, and
seconds of CPU a run; `--out FILE` writes them as JSON, where rows of other worlds and epsilons stay.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.central import regression
from dpbandits.lab.evaluation import report_seeds
from reproduction.studies.releases import world_of

HORIZON = 1_000
PARTS = (0.0, 0.01, 0.1, 0.25, 1.0)
"""Largest share of the variance of a mean of all rewards that omitted weights may have."""


class World(NamedTuple):
    make: Callable[[int], dpb.lab.worlds.FunctionBandit]
    kernel: dpb.kernels.Kernel
    """That policies learn with."""


GROUPS: dict[str, dict[str, World]] = {
    "unresolved": {
        "box-2": World(
            lambda seed: world_of("box-2", HORIZON, seed),
            dpb.kernels.SquaredExponential(lengthscale=0.3 * 2**0.5),
        )
    },
}


def ways() -> list[tuple[str, dict[str, Any]]]:
    """Label and settings of `dpbandits.central.regression`; the first is the whole work."""
    return [(f"{part:g}", {"UNRESOLVED": part}) for part in PARTS]


def compared(group: str, name: str, *, seeds: int, epsilon: float) -> list[dict[str, Any]]:
    world, tried = GROUPS[group][name], ways()
    features = dpb.features.MercerFeatures(kernel=world.kernel, domain=world.make(0).domain, n_features=60)
    regret, spent = np.zeros((len(tried) + 1, seeds)), np.zeros((len(tried) + 1, seeds))
    for i, seed in enumerate(report_seeds(0, seeds, tuning=True)):
        environment = world.make(int(seed))
        asked: dict[str, Any] = {
            "domain": environment.domain,
            "reward_range": environment.reward_range,
            "horizon": HORIZON,
        }
        for j, (_, settings) in enumerate(tried):
            with patch.multiple(regression, **settings):
                policy = dpb.central.GPBandit(
                    **asked,
                    privacy=dpb.JointDP(epsilon=epsilon, delta=1e-5),
                    tuning=dpb.central.GPTuning(release="features", features=features),
                    noise=dpb.SimulatedNoise(seed),
                )
                began = time.process_time()
                regret[j, i] = np.sum(dpb.lab.evaluation.run(policy, environment).regret)
                spent[j, i] = time.process_time() - began
        uniform = dpb.lab.baselines.Uniform(**asked, seed=int(seed))
        regret[-1, i] = np.sum(dpb.lab.evaluation.run(uniform, environment).regret)
    rows = []
    for j, way in enumerate([*(label for label, _ in tried), "uniform choice"]):
        more = regret[j] - regret[0]
        error, more_error = (float(values.std(ddof=1) / np.sqrt(seeds)) for values in (regret[j], more))
        rows.append(
            {"world": name, "epsilon": epsilon, "way": way, "seeds": seeds}
            | {"regret": float(regret[j].mean()), "error": error}
            | {"more": float(more.mean()), "more_error": more_error}
            | {"seconds": float(np.median(spent[j]))}
        )
        print(
            f"| {name} | {epsilon:g} | {way} | {regret[j].mean():.1f} +- {error:.1f} "
            f"| {more.mean():.1f} +- {more_error:.1f} | {np.median(spent[j]):.3f} |",
            flush=True,
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--group", choices=GROUPS, default="unresolved")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--worlds", nargs="*", help="of the group; all of it where none is named")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    if options.seeds < 2:
        parser.error("--seeds: expected two or more")
    if unknown := set(options.worlds or ()) - set(GROUPS[options.group]):
        parser.error(f"no worlds of {options.group}: {', '.join(sorted(unknown))}")
    print("| world | epsilon | way | regret | more than with the whole work | seconds |")
    print("|---|---|---|---|---|---|")
    for name in options.worlds or GROUPS[options.group]:
        rows = compared(options.group, name, seeds=options.seeds, epsilon=options.epsilon)
        if options.out is not None:
            kept = json.loads(options.out.read_text()) if options.out.exists() else []
            others = [row for row in kept if (row["world"], row["epsilon"]) != (name, options.epsilon)]
            options.out.write_text(json.dumps(others + rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

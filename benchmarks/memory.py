"""Estimates of `GPBandit.bytes_needed` beside measured peaks: `python -m benchmarks.memory`.

Each configuration runs in a process of its own, until the horizon. Measured is how far the process's peak
exceeds what it took before the policy was built.
"""

import argparse
import resource
import subprocess
import sys
import warnings

import numpy as np

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning

__all__ = ["CASES", "measured"]

CASES = (
    (3, 100, 2_000, None),
    (3, 50, 2_000, 40),
    (3, 20, 3_000, 100),
    (3, 20, 3_000, 150),
    (10, 20, 1_000, None),
    (10, 20, 10_000, None),
    (10, 100, 600, None),
    (20, 8, 1_000, None),
    (30, 20, 3_000, None),
    (60, 50, 1_500, None),
)
"""Columns, arms, rounds, and features an arm where the kind is "features" and their number is said."""


def measured(columns: int, arms: int, rounds: int, n_features: int | None) -> tuple[float, float]:
    """Estimated and measured bytes of one run in this process."""
    tuning = None if n_features is None else GPTuning(release="features", n_features=n_features)
    people = dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(columns)})
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    policy = GPBandit(
        contexts=people,
        arms=list(range(arms)),
        reward_range=(0, 1),
        horizon=rounds,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
        tuning=tuning,
        noise=dpb.SimulatedNoise(0),
    )
    rng = np.random.default_rng(0)
    for number in range(rounds):
        decision = policy.ask(tuple(rng.random(columns)), user=str(number))
        policy.tell(decision.id, float(rng.random() < 0.5))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return policy.bytes_needed, 1024.0 * (peak - before)


def main() -> None:
    """Print a line for every case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", type=int, help="run this one here, by its number")
    case = parser.parse_args().case
    if case is not None:
        warnings.simplefilter("ignore")
        print(*measured(*CASES[case]))
        return
    print(
        "| columns | arms | rounds | features an arm | estimate, MB | measured, MB |\n"
        "|---|---|---|---|---|---|"
    )
    for number, own in enumerate(CASES):
        command = [sys.executable, "-m", "benchmarks.memory", "--case", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
        found = [f"{float(part) / 1e6:.0f}" for part in done.stdout.split()]
        print(
            "|",
            " | ".join([*("default" if part is None else str(part) for part in own), *found]),
            "|",
            flush=True,
        )


if __name__ == "__main__":
    main()

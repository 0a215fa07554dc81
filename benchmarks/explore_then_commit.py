"""Time and memory of `ExploreThenCommit`: `python -m benchmarks.explore_then_commit` prints Markdown.

Seconds of processor time of one thread (wall time belongs to whatever else the machine does). Rows are made
before the clock starts: contexts as floats, actions as cell numbers, rewards as floats. Peak memory is that
of a process that does one line only, with Python and libraries; `above idle` takes those and the rows off.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time

import numpy as np

from dpbandits.central.logged.policy import ExploreThenCommit, ExploreTuning
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise
from reproduction.pavlovic2025.rkhs import rkhs_setting

LINES = [
    *[("SE .2 in 1+1", rounds) for rounds in (10_000, 100_000, 1_000_000, 10_000_000)],
    ("Matern-5/2 .3 in 1+1", 1_000_000),  # isotropic: the kernel does not factor
    *[("SE .3 in 2+1", rounds) for rounds in (10_000, 1_000_000)],
]
PREDICTED = 500_000


def one(name: str, rounds: int) -> dict[str, float]:
    """Time one line, in this process."""
    setting = rkhs_setting(name)
    rng = np.random.default_rng(0)
    contexts, rewards = rng.random((rounds, setting.contexts.dim)), rng.uniform(-1, 1, rounds)
    actions = rng.integers(setting.actions.size, size=rounds)
    idle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    marks = [time.process_time()]

    def mark() -> None:
        marks.append(time.process_time())

    policy = ExploreThenCommit(
        kernel=setting.kernel,
        contexts=setting.contexts,
        actions=setting.actions,
        reward_range=setting.reward_range,
        horizon=rounds,
        privacy=JointDP(epsilon=2.0, delta=1e-9, user_ids=False),
        tuning=ExploreTuning(publish_epsilon=1.0, answer_epsilon=1.0),
        noise=SimulatedNoise(1),
    )
    mark()
    policy.learn(contexts, actions, rewards)
    mark()
    policy.answer(np.full(setting.contexts.dim, 0.3))
    mark()
    published = policy.publish()
    mark()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asked = rng.random((PREDICTED, setting.contexts.dim))
    mark()
    published.predict(asked)
    mark()
    setup, learn, answer, publish, _, predict = np.diff(marks)
    return {
        "cells": policy.features.n_cells,
        "features": policy.features.n_features,
        "setup": setup,
        "learn": learn,
        "answer": answer,
        "publish": publish,
        "predicted per second": PREDICTED / predict,
        "actions": setting.actions.size,
        "peak GB": peak / 1e6,
        "above idle GB": (peak - idle) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--line", type=int, default=None)
    options = parser.parse_args()
    if options.line is not None:
        print(json.dumps(one(*LINES[options.line])))
        return
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, one thread\n")
    print(
        "| setting | cells | features | T | setup s | learn s | answer s | publish s "
        "| contexts x actions predicted a second | peak GB | above idle GB |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for line, (name, rounds) in enumerate(LINES):
        command = [sys.executable, "-m", "benchmarks.explore_then_commit", "--line", str(line)]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603  # this file itself
        v = json.loads(done.stdout)
        print(
            f"| {name} | {v['cells']:,} | {v['features']} | {rounds:,} | {v['setup']:.2f} | {v['learn']:.3f} "
            f"| {v['answer']:.3f} | {v['publish']:.3f} | {v['predicted per second']:,.0f} x {v['actions']} "
            f"| {v['peak GB']:.2f} | {v['above idle GB']:.2f} |"
        )


if __name__ == "__main__":
    main()

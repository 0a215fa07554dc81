"""What sources are worth to a locally private target: the table of the page on transfer.

    python -m dpbandits.lab.papers.ma2025.transfer --out docs/_results/transfer.json
    python -m dpbandits.lab.papers.ma2025.transfer --cases good --worlds ma --reps 5

Report seeds only (from 5,000,000); constants were chosen on tuning worlds and seeds. What the file already
holds is not run again. Everything here is an evaluation with simulated noise.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.domains import Box
from dpbandits.lab.evaluation.seeds import report_seeds
from dpbandits.lab.evaluation.summary import Estimate
from dpbandits.lab.evaluation.transfer_crowds import SimulatedSource, simulate_tasks, simulate_transfer
from dpbandits.lab.worlds.contextual import REPORT_WORLDS, world
from dpbandits.lab.worlds.transfer import Behaviour, SourceWorld
from dpbandits.local.contract.sources import SourceArms
from dpbandits.local.contract.spec import PolicyName, Spec

__all__ = ["CASES", "Case", "regrets"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row.

    Attributes:
        text: what the row says.
        policy: of the target.
        n_users: of the source; 0: none.
        epsilon: of the source.
        gamma: exponent of its contexts.
        kappa: K times the least probability of an arm.
        behaviour: its policy.
        shifted: whether its arms pay what other arms should.
        arms: chosen by its behaviour policy or assigned by its server.
        span: target users over which its reports come; 0: all before.
        targets: this many targets share what they learn instead.
        floating: the paper's noise.
    """

    text: str
    policy: PolicyName = "tree"
    n_users: int = 0
    epsilon: float = 8.0
    gamma: float = 0.0
    kappa: float = 1.0
    behaviour: Behaviour = "even"
    shifted: bool = False
    arms: SourceArms = "behaviour"
    span: int = 0
    targets: int = 1
    floating: bool = False


CASES = {
    "none": Case(text="no source"),
    "none-smooth": Case(text="no source, policy `smooth`", policy="smooth"),
    "good": Case(text="5,000 at epsilon 8", n_users=5000),
    "harmful": Case(
        text="5,000 at epsilon .5, gamma 5, avoiding the best arm",
        n_users=5000,
        epsilon=0.5,
        gamma=5.0,
        kappa=0.1,
        behaviour="avoid-best",
    ),
    "weak": Case(text="5,000 at epsilon 1", n_users=5000, epsilon=1.0),
    "weak-server": Case(
        text="5,000 at epsilon 1, arms by its server", n_users=5000, epsilon=1.0, arms="server"
    ),
    "far": Case(text="5,000 at epsilon 8, gamma 5, kappa .3", n_users=5000, gamma=5.0, kappa=0.3),
    "avoiding": Case(
        text="5,000 at epsilon 8, avoiding the best arm", n_users=5000, kappa=0.1, behaviour="avoid-best"
    ),
    "streamed": Case(text="5,000 at epsilon 8, during the first half", n_users=5000, span=5000),
    "shifted": Case(text="5,000 at epsilon 8 with other arms' rewards", n_users=5000, shifted=True),
    "two-targets": Case(text="two targets of 10,000 that share", targets=2),
    "published-none": Case(text="Algorithm 2 as printed", policy="ma2025", floating=True),
    "published-good": Case(
        text="Algorithm 3 as printed, 5,000 at epsilon 8", policy="ma2025", n_users=5000, floating=True
    ),
}
"""Rows by name. Targets have 10,000 users at epsilon = 1."""


def regrets(case: Case, name: str, *, n_users: int, epsilon: float, seeds: Sequence[int]) -> list[float]:
    """Average regret of the target's users, one a seed."""
    one, published = world(name), case.policy == "ma2025"
    spec = Spec(
        domain=Box(low=[0.0] * one.dim, high=[1.0] * one.dim),
        n_arms=one.n_arms,
        epsilon=epsilon,
        policy=case.policy,
        mechanism="paper-laplace" if published else "auto",
        arms="user" if published else "server",
        n_users=n_users,
    )
    if case.targets > 1:
        runs = (
            simulate_tasks(
                [spec] * case.targets, [one] * case.targets, n_users=[n_users] * case.targets, seed=s
            )
            for s in seeds
        )
        return [float(np.mean([result.average_regret for result in run])) for run in runs]
    sources = []
    if case.n_users:
        people = SourceWorld(
            world=one,
            gamma=case.gamma,
            kappa=case.kappa,
            behaviour=case.behaviour,
            shifted=case.shifted,
        )
        sources.append(
            SimulatedSource(
                people=people, n_users=case.n_users, epsilon=case.epsilon, arms=case.arms, span=case.span
            )
        )
    return [
        simulate_transfer(
            spec, one, sources=sources, n_users=n_users, seed=s, floating=case.floating
        ).average_regret
        for s in seeds
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the rows that the file lacks."""
    parser = argparse.ArgumentParser(prog="dpbandits.lab.papers.ma2025.transfer", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--worlds", nargs="+", default=list(REPORT_WORLDS))
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--reps", type=int, default=20)
    parser.add_argument("--first-seed", type=int, default=5_000_000)
    parser.add_argument("--out", type=Path, default=None, help="JSON, continued where it stops")
    options = parser.parse_args(arguments)
    seeds = report_seeds(options.first_seed, options.reps)
    rows: list[dict[str, Any]] = []
    if options.out is not None and options.out.exists():
        rows = json.loads(options.out.read_text())
    for name in options.worlds:
        for case in options.cases:
            key = {
                "case": case,
                "world": name,
                "users": options.users,
                "epsilon": options.epsilon,
                "reps": options.reps,
                "first_seed": options.first_seed,
            }
            if any(row.items() >= key.items() for row in rows):
                continue
            started = time.process_time()
            values = Estimate.of(
                regrets(CASES[case], name, n_users=options.users, epsilon=options.epsilon, seeds=seeds)
            )
            seconds = (time.process_time() - started) / options.reps
            row = key | {
                "average_regret": values.mean,
                "stderr": values.standard_error,
                "cpu_per_run": seconds,
            }
            rows.append(row)
            sys.stdout.write(json.dumps(row) + "\n")
            sys.stdout.flush()
            if options.out is not None:
                options.out.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Choice of the constants of the local policies, by the same procedure and budget for every case.

    python -m reproduction.tuning.local_learners --out reproduction/results/local-tuning.json

The method is successive halving over random candidates. Every case has the same number of candidates, the
same worlds, epsilons and seeds. Candidates are drawn from the ranges of the case's policy by one public seed,
so cases with one policy have the same candidates. The defaults are no candidate. A candidate's score is its
regret over that of a random arm, averaged over worlds, epsilons and crowds. After every rung the best go on
to further crowds; a score counts all crowds so far. Last comes a line: the best candidate of the last rung
with the constant that says when leaves are split scaled by each of a few factors, itself included; the best
of these is taken. Single crowds are kept in a file of JSON lines beside `--out`, so that an interrupted run
goes on where it stopped.
"""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits._typing import Seed
from dpbandits.lab.evaluation.seeds import report_seeds
from dpbandits.lab.study import Cell, Record, run_cells
from reproduction.local_worlds import TUNING_WORLDS
from reproduction.ma2025.local import CASES, TUNED_CASES, outcomes, reference_regrets

__all__ = ["RANGES", "RUNGS", "candidates", "tuned"]

RUNGS = ((24, 1), (8, 2), (3, 5))
"""(candidates that are run, further crowds a world and epsilon) of every rung."""

LINE = {"smooth": "child_sd", "eliminate": "scale"}
"""The constant of each policy that says when leaves are split."""

FACTORS, LINE_CROWDS = (1.0, 0.8, 0.65, 0.5), 4
"""Factors on the constant for splitting leaves, and number of crowds per world and epsilon."""

EPSILONS = (1.0, 4.0)

REPORTS = 200
"""Reports a version takes while tuning: half as many versions take half the time."""

FIRST_SEED = 700

RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "smooth": {
        "temperature": (0.3, 1.2),
        "rival": (0.15, 0.6),
        "known": (1.2, 3.0),
        "child_sd": (0.35, 0.7),
        "prior_sd": (0.2, 0.4),
        "settled": (0.95, 0.99),
        "smooth_sd": (0.15, 0.4),
        "length": (0.3, 0.8),
        "rough": (0.04, 0.2),
    },
    "eliminate": {"z": (0.3, 2.5), "scale": (0.15, 1.5)},
}
"""Constants of every policy and where candidates lie: uniform in the logarithm."""


def candidates(policy: str, n: int) -> list[dict[str, float]]:
    """n candidates, the same for every case under a policy."""
    rng = np.random.default_rng(0)
    low, high = np.log(np.array(list(RANGES[policy].values()))).T
    drawn = np.exp(low + (high - low) * rng.random((n, len(low))))
    return [dict(zip(RANGES[policy], (float(f"{v:.3g}") for v in row), strict=True)) for row in drawn]


@dataclass(frozen=True, kw_only=True)
class Candidate(Cell):
    """Crowds under one candidate, in one world at one epsilon: a cell."""

    case: str
    constants: tuple[tuple[str, float], ...]
    world: str
    epsilon: float
    n_users: int

    @property
    def name(self) -> str:
        """Name of the cell in records."""
        return f"{self.case} {self.world} {self.epsilon:g}"

    @property
    def settings(self) -> dict[str, Any]:
        """Number of users and constants."""
        return {"users": self.n_users} | dict(self.constants)

    def simulate(self, seed: Seed) -> Record:
        """One crowd."""
        one = replace(CASES[self.case], constants=dict(self.constants))
        own: dict[str, Any] = {"epsilon": self.epsilon, "n_users": self.n_users, "reports": REPORTS}
        return {"regret": float(outcomes(one, self.world, seeds=[seed], **own)[0, 0])}


_references = cache(reference_regrets)


def tuned(
    case: str, *, n_users: int, rungs: Sequence[tuple[int, int]], path: Path | None, jobs: int = 1
) -> list[dict[str, Any]]:
    """Every candidate with its score, its standard error and its crowds, the one that is taken first."""
    score = partial(_scored, case, n_users=n_users, path=path, jobs=jobs)
    rows: list[dict[str, Any]] = [
        {"case": case, "constants": constants, "crowds": 0}
        for constants in candidates(CASES[case].policy, rungs[0][0])
    ]
    crowds = 0
    for rung, (n_kept, more) in enumerate(rungs):
        crowds += more
        for row in rows[:n_kept]:
            row |= {"rung": rung} | score(row["constants"], crowds)
        rows.sort(key=lambda row: (-row["rung"], row["score"]))
    best, name = rows[0]["constants"], LINE[CASES[case].policy]
    for factor in FACTORS:
        constants = best | {name: float(f"{factor * best[name]:.3g}")}
        row = {"case": case, "constants": constants, "rung": len(rungs)}
        rows.append(row | score(constants, min(crowds, LINE_CROWDS)))
    rows.sort(key=lambda row: (-row["rung"], row["score"]))
    return rows


def _scored(
    case: str, constants: dict[str, float], crowds: int, *, n_users: int, path: Path | None, jobs: int
) -> dict[str, Any]:
    """Mean and standard error over the first `crowds` tuning seeds of a candidate of one case."""
    own: dict[str, Any] = {"case": case, "constants": tuple(constants.items()), "n_users": n_users}
    cells = [Candidate(world=name, epsilon=epsilon, **own) for name in TUNING_WORLDS for epsilon in EPSILONS]
    seeds = report_seeds(FIRST_SEED, crowds, tuning=True)
    runs = run_cells(cells, seeds=seeds, path=path, jobs=jobs)
    share = np.array([run.values("regret") / _references(run.cell.world)[0] for run in runs])
    error = math.sqrt(share.var(axis=1, ddof=1).sum() / crowds) / len(cells) if crowds > 1 else None
    return {"crowds": crowds, "score": float(share.mean()), "stderr": error}


def main(arguments: Sequence[str] | None = None) -> None:
    """Tune the cases and print what is taken."""
    parser = argparse.ArgumentParser(prog="tune_local_learners.py", description=__doc__)
    parser.add_argument("--cases", nargs="+", choices=TUNED_CASES, default=list(TUNED_CASES))
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--rungs", type=json.loads, default=RUNGS, help="JSON of [candidates, crowds] pairs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None, help="JSON of all scores")
    options = parser.parse_args(arguments)
    for case in options.cases:
        path = None if options.out is None else options.out.with_suffix(".jsonl")
        rows = tuned(case, n_users=options.users, rungs=options.rungs, path=path, jobs=options.jobs)
        if options.out is not None:
            kept = json.loads(options.out.read_text()) if options.out.exists() else []
            whole = [row for row in kept if row["case"] != case] + rows
            options.out.write_text(json.dumps(whole, indent=1) + "\n")
        sys.stdout.write(json.dumps(rows[0]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

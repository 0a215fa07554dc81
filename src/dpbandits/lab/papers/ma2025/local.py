"""Ma2025 and what beats it at equal epsilon: the tables of the page on local results.

    python -m dpbandits.lab.papers.ma2025.local table --cases smooth-auto smooth-laplace --out local.json
    python -m dpbandits.lab.papers.ma2025.local public-code
    python -m dpbandits.lab.papers.ma2025.local speed

`table` runs on report seeds (from 1,000,000); what a file of results already holds is not run again.
Constants come from `dpbandits.lab.papers.ma2025.local_tuning`. Everything here is an evaluation with
simulated noise.
"""

import argparse
import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.domains import Box
from dpbandits.lab.baselines.abse import ABSE
from dpbandits.lab.baselines.bin_ucb import BinUCB
from dpbandits.lab.baselines.contextual import play
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED, report_seeds
from dpbandits.lab.evaluation.summary import Estimate
from dpbandits.lab.worlds.contextual import REPORT_WORLDS, world
from dpbandits.local.contract.spec import ArmChoice, PolicyName, Spec
from dpbandits.local.device.client import Client
from dpbandits.local.server.server import Server

__all__ = [
    "CASES",
    "TARGETS",
    "TUNED_CASES",
    "TUNING_GRID",
    "Case",
    "outcomes",
    "public_code_ratios",
    "reference_regrets",
    "report_speed",
    "spec_for",
    "write_rows",
]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to learn, as a row of the tables.

    Attributes:
        mechanism: of the reports; empty for comparators without privacy.
        policy: the rule, or the name of a comparator without privacy.
        arms: assigned by the server or chosen by users.
        floating: the paper's floating-point noise instead of the mechanism's exact one.
        versions: a new version is published after users/versions reports, if that is more than asked for.
        constants: of the policy, where tuning moved them from the defaults.
    """

    mechanism: str = "auto"
    policy: str = "smooth"
    arms: ArmChoice = "server"
    floating: bool = False
    versions: int = 10**9
    constants: dict[str, float] = field(default_factory=dict)


# What tuning took where it is not the default of the policy.
_LAPLACE = {"child_sd": 0.434}
_PAPER_LAPLACE = {
    "temperature": 0.317,
    "rival": 0.414,
    "known": 2.11,
    "child_sd": 0.357,
    "prior_sd": 0.329,
    "settled": 0.951,
    "smooth_sd": 0.315,
    "length": 0.496,
    "rough": 0.178,
}

CASES: dict[str, Case] = {
    "smooth-auto": Case(),
    "smooth-laplace": Case(mechanism="laplace", constants=_LAPLACE),
    "smooth-paper-laplace": Case(mechanism="paper-laplace", arms="user", constants=_PAPER_LAPLACE),
    "smooth-signed": Case(mechanism="signed"),
    "smooth-oue": Case(mechanism="oue"),
    "smooth-hadamard": Case(mechanism="hadamard"),
    "smooth-krr": Case(mechanism="krr"),
    "smooth-auto-user": Case(arms="user"),
    "tree-auto": Case(policy="tree"),
    "tree-laplace": Case(policy="tree", mechanism="laplace", constants={"rival": 0.15}),
    "tree-paper-laplace": Case(policy="tree", mechanism="paper-laplace", arms="user"),
    "eliminate-auto": Case(policy="eliminate", versions=100),
    "ma2025": Case(mechanism="paper-laplace", policy="ma2025", arms="user", floating=True, versions=100),
    "abse": Case(mechanism="", policy="abse"),
    "bin-ucb": Case(mechanism="", policy="bin-ucb"),
}
"""Rows of the tables by name."""

TARGETS: dict[str, tuple[float, float, float]] = {
    "ma": (0.092, 0.078, 0.062),
    "diagonal": (0.10, 0.075, 0.055),
    "radial-3d": (0.118, 0.083, 0.056),
    "clustered": (0.026, 0.019, 0.010),
    "small-gaps": (0.033, 0.030, 0.024),
    "cps-income": (0.33, 0.345, 0.365),
}
"""Set beforehand, at epsilon = 1, 2, 4: regret at most, of 40,000 users; for `cps-income` reward at least."""

TUNED_CASES = (
    "smooth-auto",
    "smooth-laplace",
    "smooth-paper-laplace",
    "eliminate-auto",
)
"""Cases whose constants were chosen by `dpbandits.lab.papers.ma2025.local_tuning`, all alike."""

TUNING_GRID: dict[str, tuple[dict[str, float], ...]] = {
    "tree": (
        {},
        {"temperature": 0.36},
        {"temperature": 1.2},
        {"rival": 0.15},
        {"rival": 0.6, "known": 1.0},
        {"known": 1.3},
        {"known": 2.0},
        {"child_sd": 0.35},
        {"prior_sd": 0.2},
    ),
}
"""Candidates of `dpbandits.lab.papers.ma2025.tuning` for the tree that sources start."""


def spec_for(case: Case, name: str, *, epsilon: float, n_users: int, reports: int = 100) -> Spec:
    """The spec of a case in a world; a version takes `reports` reports, or more where the case says so."""
    one = world(name)
    policy: PolicyName = case.policy  # type: ignore[assignment]
    return Spec(
        domain=Box(low=[0.0] * one.dim, high=[1.0] * one.dim),
        n_arms=one.n_arms,
        epsilon=epsilon,
        mechanism=case.mechanism,
        policy=policy,
        arms=case.arms,
        n_users=n_users,
        reports_per_version=max(reports, n_users // case.versions),
        constants=case.constants,
    )


def outcomes(
    case: Case, name: str, *, epsilon: float, n_users: int, seeds: Sequence[int], reports: int = 100
) -> FloatArray:
    """(len(seeds), 2) average regret and average reward of each run."""
    one = world(name)
    if not case.mechanism:
        learners: dict[str, Any] = {"abse": ABSE, "bin-ucb": BinUCB}
        kind = learners[case.policy]
        runs = []
        for seed in seeds:
            totals = play(
                one, lambda: kind(dim=one.dim, n_arms=one.n_arms, n_users=n_users), n_users=n_users, seed=seed
            )
            runs.append(totals.sum(axis=0) / n_users)
        return np.array(runs)
    spec = spec_for(case, name, epsilon=epsilon, n_users=n_users, reports=reports)
    results = (simulate(spec, one, n_users=n_users, seed=seed, floating=case.floating) for seed in seeds)
    return np.array([(result.average_regret, result.average_reward) for result in results])


def reference_regrets(name: str) -> tuple[float, float]:
    """Average regret of uniformly random arms, and of the best constant arm, over 200,000 draws."""
    _, means = world(name).draw(200_000, np.random.default_rng(FIRST_REPORT_SEED))
    best = means.max(axis=1).mean()
    return float(best - means.mean()), float(best - means.mean(axis=0).max())


def public_code_ratios(
    *, epsilon: float, n_users: int, depth: int, n_batches: int, runs: int, seed: int
) -> dict[str, float]:
    """How far the authors' public code understates noise and radius.

    Args:
        epsilon: privacy parameter.
        n_users: users while a bin is active, uniform contexts.
        depth: the bin's depth; it holds 2^-depth of the users.
        n_batches: updates.
        runs: repetitions of the noise sums.
        seed: simulated noise.

    Returns:
        `variance`: measured variance of the honest sum of U over the public code's. `radius`: the radius of
        a sum counted once over the one that the public code's re-added cumulative sums give.
    """
    rng = np.random.default_rng(seed)
    scale = 4.0 / epsilon

    def laplace_sums(n: int) -> FloatArray:
        return scale * (rng.standard_gamma(n, runs) - rng.standard_gamma(n, runs))

    inside = rng.binomial(n_users, 0.5**depth, runs)
    public = np.array([scale * (rng.standard_gamma(k) - rng.standard_gamma(k)) if k else 0.0 for k in inside])
    batches = np.arange(1, n_batches + 1)
    counted_once = math.sqrt(n_batches) / n_batches
    added_again = math.sqrt(batches.sum()) / batches.sum()
    return {
        "variance": float(laplace_sums(n_users).var() / public.var()),
        "radius": counted_once / added_again,
    }


def write_rows(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows as JSON, one a line; whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    beside.replace(path)


def _emit(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _known(path: Path | None) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Rows of a results file by what they are about."""
    if path is None or not path.exists():
        return {}
    return {_key(row): row for row in json.loads(path.read_text())}


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(
        row[name] for name in ("case", "world", "epsilon", "n_users", "reports", "reps", "first_seed")
    )


def _table(options: argparse.Namespace) -> None:
    seeds = report_seeds(options.first_seed, options.reps)
    known = _known(options.out)
    for case in options.cases:
        for name in options.worlds:
            for epsilon in options.epsilons if CASES[case].mechanism else [math.inf]:
                row: dict[str, Any] = {
                    "case": case,
                    "world": name,
                    "epsilon": epsilon if math.isfinite(epsilon) else "none",
                    "n_users": options.users,
                    "reports": options.reports,
                    "reps": options.reps,
                    "first_seed": options.first_seed,
                }
                if _key(row) in known:
                    row = known[_key(row)]
                else:
                    started = time.process_time()
                    runs = outcomes(
                        CASES[case],
                        name,
                        epsilon=epsilon,
                        n_users=options.users,
                        seeds=seeds,
                        reports=options.reports,
                    )
                    regret, reward = Estimate.of(runs[:, 0]), Estimate.of(runs[:, 1])
                    row["average_regret"], row["stderr"] = regret.mean, regret.standard_error
                    row["average_reward"], row["reward_stderr"] = reward.mean, reward.standard_error
                    row["cpu_seconds_per_run"] = (time.process_time() - started) / options.reps
                    known[_key(row)] = row
                    if options.out is not None:
                        write_rows(options.out, list(known.values()))
                _emit(json.dumps(row))


def _references(options: argparse.Namespace) -> None:
    """What random arms and the best constant arm cost in every world."""
    rows = []
    for name in options.worlds:
        random, constant = reference_regrets(name)
        rows.append({"world": name, "random": random, "best_constant": constant})
        _emit(json.dumps(rows[-1]))
    if options.out is not None:
        write_rows(options.out, rows)


def _public_code(options: argparse.Namespace) -> None:
    rows = []
    for depth in options.depths:
        ratios = public_code_ratios(
            epsilon=1.0,
            n_users=40_000,
            depth=depth,
            n_batches=options.batches,
            runs=4000,
            seed=FIRST_REPORT_SEED,
        )
        rows.append({"depth": depth, "batches": options.batches} | ratios)
        _emit(json.dumps(rows[-1]))
    if options.out is not None:
        write_rows(options.out, rows)


def _speed(options: argparse.Namespace) -> None:
    """CPU seconds of single runs and of real reports."""
    rows: list[dict[str, Any]] = []
    for name, case, epsilon, n_users in _TIMED:
        started = time.process_time()
        outcomes(CASES[case], name, epsilon=epsilon, n_users=n_users, seeds=[options.seed])
        seconds = time.process_time() - started
        rows.append({"case": case, "world": name, "epsilon": epsilon, "n_users": n_users, "cpu": seconds})
        _emit(json.dumps(rows[-1]))
    for mechanism in ("auto", "signed", "oue", "hadamard", "krr", "laplace"):
        rows.append(report_speed(mechanism, n_bins=16, n_reports=100_000))
        _emit(json.dumps(rows[-1]))
    if options.out is not None:
        write_rows(options.out, rows)


# (world, case, epsilon, users) of the timed runs.
_TIMED = (
    *(("ma", "eliminate-auto", epsilon, 160_000) for epsilon in (1.0, 8.0)),
    *(("ma", "smooth-auto", epsilon, 160_000) for epsilon in (0.25, 1.0, 4.0, 8.0, 16.0)),
    *(("radial-3d", "smooth-auto", epsilon, 600_000) for epsilon in (1.0, 4.0)),
)


def report_speed(mechanism: str, *, n_bins: int, n_reports: int) -> dict[str, Any]:
    """CPU cost of real reports: milliseconds on a device, reports a second and memory of the server.

    Devices of a world whose arms are alike report until the server has `n_bins` bins; the last version's
    reports are then timed, sent again under fresh nonces until there are `n_reports`.
    """
    spec = Spec(
        domain=Box(low=[0.0, 0.0], high=[1.0, 1.0]), n_arms=3, epsilon=8.0, mechanism=mechanism, window=0
    )
    client, server, rng = Client(spec, budget=1e9), Server(spec), np.random.default_rng(0)
    while True:
        policy, batch, spent = server.publish(), [], 0.0
        for context in rng.random((1000, 2)):
            arm = client.choose(policy, context)
            started = time.process_time()
            batch.append(client.privatize(context, arm, 0.5))
            spent += time.process_time() - started
        if len(policy.splits) + 1 >= n_bins:
            break
        server.absorb(batch)
    many = [
        report[:9] + (1000 * copy + index).to_bytes(8, "little") + report[17:]
        for copy in range(n_reports // 1000)
        for index, report in enumerate(batch)
    ]
    accepted, started = 0, time.process_time()
    for start in range(0, len(many), 5000):
        accepted += server.absorb(many[start : start + 5000]).accepted
    seconds = time.process_time() - started
    return {
        "mechanism": mechanism,
        "bins": len(policy.splits) + 1,
        "report_bytes": len(batch[0]),
        "device_ms": spent,  # seconds for 1,000 reports
        "absorbed_per_second": accepted / seconds,
        "server_bytes_per_report": server.memory_bytes / accepted,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse and run one command."""
    parser = argparse.ArgumentParser(prog="dpbandits.lab.papers.ma2025.local", description=__doc__)
    commands = parser.add_subparsers(required=True)
    table = commands.add_parser("table", help="average regret on report seeds")
    table.add_argument("--cases", nargs="+", choices=sorted(CASES), default=["smooth-auto"])
    table.add_argument("--worlds", nargs="+", default=list(REPORT_WORLDS))
    table.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 2.0, 4.0])
    table.add_argument("--users", type=int, default=40_000)
    table.add_argument("--reports", type=int, default=100, help="reports a version takes")
    table.add_argument("--reps", type=int, default=100)
    table.add_argument("--first-seed", type=int, default=FIRST_REPORT_SEED)
    table.add_argument("--out", type=Path, default=None, help="JSON of rows; those it holds are kept")
    table.set_defaults(run=_table)
    references = commands.add_parser("references", help="regret of random arms and of the best constant arm")
    references.add_argument("--worlds", nargs="+", default=list(REPORT_WORLDS))
    references.add_argument("--out", type=Path, default=None)
    references.set_defaults(run=_references)
    public = commands.add_parser("public-code", help="variance and radius of the authors' code")
    public.add_argument("--depths", nargs="+", type=int, default=[3, 5, 6, 7])
    public.add_argument("--batches", type=int, default=200)
    public.add_argument("--out", type=Path, default=None)
    public.set_defaults(run=_public_code)
    speed = commands.add_parser("speed", help="CPU seconds of single runs")
    speed.add_argument("--seed", type=int, default=FIRST_REPORT_SEED)
    speed.add_argument("--out", type=Path, default=None)
    speed.set_defaults(run=_speed)
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()

"""Comparison of the kinds of release: `python -m reproduction.studies.releases --jobs 16`.

Regret of `GPBandit` by what it releases, on the worlds of Dubey2021's first figure, on camelback and on boxes
of several columns. Cells are pure epsilon; features keep (epsilon, delta). Noise in cells has its exact
law; Gaussian noise is simulated at the scale of Gaussian DP. Beside the figures stand two crude yardsticks, a
private quadratic ridge and a private histogram of cells, over the box around the domain.

| group | what | seeds |
|---|---|---|
| `figures` | the targets, and features beside them | from 2,000,000 |
| `stuck` | how many of 500 runs of 10,000 rounds end below a random policy | from 1,000,000 |
| `rule` | epsilon, delta, columns and rounds in tuning worlds: `boxes` chooses by it | tuning, from 3,000 |
| `checked` | such a grid on worlds that nothing was chosen on: what the page shows | from 1,000,000 |

Constants of cells are chosen by `tune_releases.py`, on worlds of that file as well.

`--group`, `--world`, `--kind` and `--horizon` choose. Every run is written to `--runs` (JSON lines) when it
is over, and not made again while the code that it could depend on is the same; `--minutes` stops in time.
`--out` gets one row a line of the table; rows that a run does not touch stay. One core a job:
`OMP_NUM_THREADS` is set to 1.
"""

import argparse
import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from joblib import Parallel, delayed

import dpbandits
from dpbandits.central import GPBandit, GPTuning
from dpbandits.domains import Ball, Box, Domain
from dpbandits.errors import DPBanditsWarning
from dpbandits.lab.baselines import CellHistogram, PrivateRidge
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.worlds import FunctionBandit, camelback
from dpbandits.lab.worlds.functions import UniformCandidates
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy import JointDP, SimulatedNoise
from reproduction.dubey2021.gap_world import KernelSections, three_hills
from reproduction.tuning.worlds import FAMILIES, tuning_world

RESULTS = Path(__file__).resolve().parents[1] / "results" / "cells.json"
RUNS = Path(__file__).resolve().parents[2] / "build" / "releases.jsonl"
SEEDS_A_JOB = 4
KINDS = ("cells", "features", "ridge", "histogram")
EARLIER_SEEDS = range(300, 490)
"""Earlier seeds of the worlds below. Constants of cells were found on them, then chosen on tuning worlds."""
FIGURES: dict[str, dict[str, Any]] = {
    "figure1": {},
    "figure1-skewed": {"crowd": 0.7},
    "figure1-five": {"n_candidates": 5},
    "figure1-wrong-lengthscale": {"lengthscale": 0.8},
}
"""Worlds that policies are told the same of: a kernel of lengthscale 1, and nothing of who comes."""


FIRST_SEEDS = {"rule": 3_000, "figures": 2_000_000}
"""First seeds of groups; others begin at 1,000,000. The seeds of `figures` are new because one constant was
chosen on the usual ones."""


@dataclass(frozen=True)
class Line:
    """One line of the table: a kind of release in a world, at a promise."""

    group: str
    world: str
    kind: str
    epsilon: float
    delta: float
    horizon: int
    seeds: int
    aim: float | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.group, self.world, self.kind, self.epsilon, self.delta, self.horizon)

    @property
    def first_seed(self) -> int:
        return FIRST_SEEDS.get(self.group, 1_000_000)


def _figures() -> Iterable[Line]:
    aims = {"figure1": 68.0, "figure1-skewed": 46.0, "figure1-five": 27.0, "figure1-wrong-lengthscale": 75.0}
    for world, aim in aims.items():
        yield Line("figures", world, "cells", 1.0, 0.0, 1024, 200, aim)
        yield Line("figures", world, "features", 1.0, 1e-5, 1024, 100)
    yield Line("figures", "figure1", "cells", 0.5, 0.0, 1024, 200, 115.0)
    yield Line("figures", "figure1", "cells", 10.0, 0.0, 1024, 200)
    yield Line("figures", "figure1", "features", 0.5, 1e-5, 1024, 100)
    yield Line("figures", "figure1", "features", 10.0, 1e-5, 1024, 200, 29.0)
    yield Line("figures", "figure1", "features", 1.0, 0.1, 1024, 200, 40.0)
    yield Line("figures", "figure1", "cells", 1.0, 0.0, 4096, 100, 86.0)
    yield Line("figures", "figure1", "features", 1.0, 1e-5, 4096, 50)
    yield Line("figures", "camelback", "cells", 1.0, 0.0, 10_000, 50, 430.0)
    yield Line("figures", "camelback", "features", 1.0, 1e-5, 10_000, 20)
    crude = [(world, 1.0, 1024, 200) for world in aims]
    crude += [("figure1", epsilon, 1024, 200) for epsilon in (0.5, 10.0)]
    crude += [("figure1", 1.0, 4096, 100), ("camelback", 1.0, 10_000, 50)]
    for world, epsilon, horizon, seeds in crude:
        yield Line("figures", world, "ridge", epsilon, 1e-5, horizon, seeds)
        yield Line("figures", world, "histogram", epsilon, 0.0, horizon, seeds)
    yield Line("figures", "figure1", "ridge", 1.0, 0.1, 1024, 200)


def _stuck() -> Iterable[Line]:
    for world in (*FIGURES, "camelback"):
        yield Line("stuck", world, "cells", 1.0, 0.0, 10_000, 500)
        yield Line("stuck", world, "ridge", 1.0, 1e-5, 10_000, 100)
        yield Line("stuck", world, "histogram", 1.0, 0.0, 10_000, 100)


def _checked() -> Iterable[Line]:
    for dim in (1, 2, 3, 4, 6):
        for horizon in (500, 3_000):
            for epsilon in (0.3, 1.0, 3.0, 10.0):
                yield Line("checked", f"box-{dim}", "cells", epsilon, 0.0, horizon, 24)
                yield Line("checked", f"box-{dim}", "histogram", epsilon, 0.0, horizon, 24)
                yield Line("checked", f"box-{dim}", "ridge", epsilon, 1e-6, horizon, 24)
                for delta in (1e-6, 1e-3, 1e-1):
                    yield Line("checked", f"box-{dim}", "features", epsilon, delta, horizon, 24)
    for dim in (2, 4):
        for epsilon in (1.0, 3.0):
            yield Line("checked", f"box-{dim}", "cells", epsilon, 0.0, 10_000, 8)
            yield Line("checked", f"box-{dim}", "features", epsilon, 1e-6, 10_000, 8)


RULED = ((1e-6, (1.0, 3.0, 10.0)), (1e-3, (1.0, 3.0)), (0.1, (1.0,)))
"""Deltas and epsilons at which features stand beside cells where the rule is chosen."""


def _rule() -> Iterable[Line]:
    for family in FAMILIES:
        for dim, horizon in product((1, 2, 4, 6), (500, 3_000)):
            for epsilon in (1.0, 3.0, 10.0):
                yield Line("rule", f"{family}-{dim}", "cells", epsilon, 0.0, horizon, 4)
            for delta, epsilons in RULED:
                for epsilon in epsilons:
                    yield Line("rule", f"{family}-{dim}", "features", epsilon, delta, horizon, 4)
        for dim, epsilon in product((2, 4), (1.0, 3.0)):
            yield Line("rule", f"{family}-{dim}", "cells", epsilon, 0.0, 10_000, 2)
            yield Line("rule", f"{family}-{dim}", "features", epsilon, 1e-6, 10_000, 2)


LINES = (*_figures(), *_stuck(), *_rule(), *_checked())


def world_of(name: str, horizon: int, seed: int) -> FunctionBandit:
    """The world of this name under a seed."""
    if name == "camelback":
        return camelback(seed=seed, horizon=horizon)
    if name in FIGURES:
        return three_hills(seed=seed, horizon=horizon, **FIGURES[name])
    if name.partition("-")[0] in FAMILIES:
        return tuning_world(name, horizon, seed)
    dim = int(name.removeprefix("box-"))
    coins, box = PublicCoins(seed), Box(low=np.zeros(dim), high=np.ones(dim))
    drawn = coins.uniform("benchmark/sections", 0, 3, dim + 1)
    # four sections of one sign, so wide that neighbours in the box know of each other in any dimension
    mean = KernelSections(
        centres=drawn[:, :dim],
        weights=-np.log(drawn[:, dim]) / -np.log(drawn[:, dim]).sum(),
        lengthscale=0.3 * dim**0.5,
    )
    return FunctionBandit(
        name=name,
        domain=box,
        mean=mean,
        candidates=UniformCandidates(domain=box, n_candidates=25),
        n_candidates=25,
        horizon=horizon,
        seed=seed,
    )


@lru_cache(maxsize=16)
def features_of(name: str, kind: str) -> tuple[Domain, MercerFeatures]:
    """A world's domain and what policies learn with there."""
    domain = world_of(name, 1, 0).domain
    if name == "camelback":
        lengthscale, m = 0.8, {"cells": 28, "features": 24}[kind]
    else:
        lengthscale = 1.0 if name in FIGURES else 0.3 * domain.dim**0.5
        m = {"cells": 16, "features": 20}[kind]
    kernel = SquaredExponential(lengthscale=lengthscale)
    return domain, MercerFeatures(kernel=kernel, domain=domain, n_features=m, n_landmarks=max(5 * m, 100))


CRUDE = {"ridge": PrivateRidge, "histogram": CellHistogram}


def box_around(domain: Domain) -> Domain:
    """Return the domain of simple baselines, which support boxes only."""
    if not isinstance(domain, Ball):
        return domain
    centre = np.asarray(domain.centre)
    return Box(low=centre - domain.radius, high=centre + domain.radius)


def simulate(line: Line, seed: int) -> dict[str, float]:
    """Regret of one run, beside a random policy's."""
    environment = world_of(line.world, line.horizon, seed)
    shared: dict[str, Any] = {
        "reward_range": environment.reward_range,
        "horizon": line.horizon,
        "privacy": JointDP(epsilon=line.epsilon, delta=line.delta, user_ids=False),
        "noise": SimulatedNoise(seed),
        "seed": seed,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPBanditsWarning)  # large deltas are for comparison with papers
        if line.kind in CRUDE:
            policy: Any = CRUDE[line.kind](domain=box_around(environment.domain), **shared)
        else:
            domain, features = features_of(line.world, line.kind)
            tuning = GPTuning(release=line.kind, features=features)
            policy = GPBandit(domain=domain, tuning=tuning, **shared)
        result = run(policy, environment)
    return {
        "regret": float(result.regret.sum()),
        "random": float((result.best - result.uniform).sum()),
        "seconds": result.seconds,
    }


def _job(line: Line, seeds: Sequence[int], deadline: float) -> list[dict[str, Any]]:
    done = []
    for seed in seeds:
        if time.time() > deadline:
            break
        done.append({"line": list(line.key), "seed": seed, **simulate(line, seed)})
    return done


def code_version() -> str:
    """Changes with what a run could depend on: files of the kinds, of the noise and of this study."""
    root, digest = Path(dpbandits.__file__).parent, hashlib.sha256(Path(__file__).read_bytes())
    for name in ("central", "models", "privacy"):
        for path in sorted((root / name).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def row_of(line: Line, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the table's row for a line."""
    regret = np.array([record["regret"] for record in records])
    random = np.array([record["random"] for record in records])
    row = {**asdict(line), "seeds": len(records), "first_seed": line.first_seed}
    return row | {
        "regret": float(regret.mean()),
        "standard_error": float(regret.std(ddof=1) / len(regret) ** 0.5) if len(regret) > 1 else None,
        "median": float(np.median(regret)),
        "worst": float(regret.max()),
        "random": float(random.mean()),
        "below_random": int((regret > random).sum()),
        "seconds": float(np.mean([record["seconds"] for record in records])),
    }


def beside(rows: Sequence[dict[str, Any]]) -> dict[tuple[float, ...], tuple[float, float]]:
    """By columns, delta, epsilon and rounds: what cells lose less than features, and its standard error.

    In percent of a random policy's regret, averaged over families of worlds.
    """
    cells = {(row["world"], row["epsilon"], row["horizon"]): row for row in rows if row["kind"] == "cells"}
    found: dict[tuple[float, ...], list[tuple[float, float]]] = {}
    for row in rows:
        if row["kind"] == "features":
            pair = row, cells[row["world"], row["epsilon"], row["horizon"]]
            mean, theirs = (100.0 * one["regret"] / one["random"] for one in pair)
            errors = [100.0 * one["standard_error"] / one["random"] for one in pair]
            place = (int(row["world"].rpartition("-")[2]), row["delta"], row["epsilon"], row["horizon"])
            found.setdefault(place, []).append((mean - theirs, float(np.hypot(*errors))))
    return {
        place: (
            float(np.mean([less for less, _ in own])),
            float(np.sqrt(sum(error**2 for _, error in own)) / len(own)),
        )
        for place, own in found.items()
    }


def boxes(
    rows: Sequence[dict[str, Any]], present: Sequence[tuple[float, ...]]
) -> tuple[tuple[float, ...], ...]:
    """Boxes that cells are taken for, from those of the present rule.

    One stays where cells lose less than features on average over its places, and where no place has features
    ahead by more than two standard errors. One limit more is taken where cells lose less by more than two
    standard errors on average over the places that are new. (Errors of places are taken as independent.)
    """
    found = beside(rows)

    def within(box: tuple[float, ...]) -> set[tuple[float, ...]]:
        return {place for place in found if all(own <= most for own, most in zip(place, box, strict=True))}

    def ahead(places: set[tuple[float, ...]]) -> tuple[float, float]:
        less, errors = np.array([found[place] for place in places]).T
        return float(less.mean()), float(np.sqrt((errors**2).sum()) / len(errors))

    kept = [
        box
        for box in present
        if ahead(within(box))[0] > 0.0
        and all(found[place][0] > -2.0 * found[place][1] for place in within(box))
    ]
    known = {place for box in present for place in within(box)}
    for box in present:
        for axis, limits in enumerate(zip(*found, strict=True)):
            for limit in sorted({own for own in limits if own > box[axis]})[:1]:
                larger = (*box[:axis], limit, *box[axis + 1 :])
                new = within(larger) - known
                if new and ahead(new)[0] > 2.0 * ahead(new)[1]:
                    kept.append(larger)
    return tuple(kept)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--group", nargs="*", choices=("figures", "stuck", "rule", "checked"), default=["figures"]
    )
    parser.add_argument("--world", nargs="*", choices=sorted({line.world for line in LINES}), default=None)
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--horizon", nargs="*", type=int, default=None)
    parser.add_argument("--seeds", type=int, default=None, help="at most so many of every line")
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no run after that")
    parser.add_argument("--runs", type=Path, default=RUNS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    deadline, version = time.time() + 60.0 * options.minutes, code_version()
    lines = [
        line
        for line in LINES
        if line.group in options.group
        and line.kind in options.kind
        and (options.world is None or line.world in options.world)
        and (options.horizon is None or line.horizon in options.horizon)
    ]
    options.runs.parent.mkdir(parents=True, exist_ok=True)
    known: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    if options.runs.exists():
        for text in options.runs.read_text().splitlines():
            record = json.loads(text)
            if record["version"] == version:
                known.setdefault(tuple(record["line"]), {})[record["seed"]] = record
    jobs = []
    for line in lines:
        count = line.seeds if options.seeds is None else min(options.seeds, line.seeds)
        wanted = report_seeds(line.first_seed, count, tuning=line.group == "rule")
        missing = [int(seed) for seed in wanted if seed not in known.get(line.key, {})]
        parts = range(0, len(missing), SEEDS_A_JOB)
        jobs += [(start, line, missing[start : start + SEEDS_A_JOB]) for start in parts]
    jobs.sort(key=lambda job: job[0])  # the first seeds of every line first
    print(f"{sum(len(job[2]) for job in jobs)} runs of code {version}", flush=True)
    made = Parallel(n_jobs=options.jobs, return_as="generator")(
        delayed(_job)(line, seeds, deadline) for _, line, seeds in jobs
    )
    with options.runs.open("a") as out:
        for records in made:
            for record in records:
                out.write(json.dumps(record | {"version": version}) + "\n")
                known.setdefault(tuple(record["line"]), {})[record["seed"]] = record
            out.flush()
    found = [row_of(line, [*known[line.key].values()]) for line in lines if known.get(line.key)]
    touched = {line.key for line in lines if known.get(line.key)}
    rows = json.loads(options.out.read_text()) if options.out.exists() else []
    rows = [row for row in rows if Line(**{name: row[name] for name in FIELDS}).key not in touched] + found
    options.out.write_text(json.dumps(rows, indent=1) + "\n")
    print("| world | kind | (epsilon, delta) | T | regret | median | worst | below random | seeds | aim |")
    for row in found:
        error = "" if row["standard_error"] is None else f" ({row['standard_error']:.1f})"
        print(
            f"| {row['world']} | {row['kind']} | ({row['epsilon']:g}, {row['delta']:g}) | {row['horizon']} "
            f"| {row['regret']:.1f}{error} | {row['median']:.1f} | {row['worst']:.0f} "
            f"| {row['below_random']} | {row['seeds']} | {row['aim'] or ''} |"
        )


FIELDS = ("group", "world", "kind", "epsilon", "delta", "horizon", "seeds", "aim")

if __name__ == "__main__":
    from reproduction.studies import (
        releases,  # by its name, so that workers keep what they computed between jobs
    )

    releases.main()

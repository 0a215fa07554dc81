"""How constants of cells are chosen: on worlds that no page shows but as tuning worlds.

    python benchmarks/tune_releases.py --records build --out docs/_results/releases-tuning.json

One constant at a time is changed to each of its neighbours and compared with the value that it has, in
`PLACES` of `tuning_worlds.py` and on the same seeds. What counts is regret as a share of a random policy's,
averaged over places.

The present value stays unless another is ahead by more than two standard errors of the paired difference. Of
some twenty neighbours one may be by chance, so whoever is runs again on fresh seeds, and is taken if it is
ahead there by more than two as well. All seeds are below 1,000,000.
"""

import argparse
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from tuning_worlds import tuning_world

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning, cells
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.study import Cell, Record, Runs, run_cells
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SimulatedNoise

PLACES = (
    ("waves-2-rare", 1.0, 1_000),
    ("cones-2-rare", 1.0, 1_000),
    ("waves-1-few", 1.0, 1_000),
    ("waves-2-fixed", 0.5, 1_000),
    ("cones-2", 1.0, 1_000),
    ("plateaus-2", 0.5, 3_000),
    ("slopes-3", 1.0, 3_000),
    ("waves-4", 3.0, 3_000),
)
"""Worlds, with epsilon and rounds."""

STAGES = {"screened": (20_000, 10), "confirmed": (30_000, 6)}
"""First seed and number of seeds."""

GRID: dict[str, tuple[Any, str, tuple[float, ...]]] = {
    "first block": (cells, "FIRST_BLOCK", (20, 45)),
    "growth of blocks": (cells, "GROWTH", (1.1, 1.25)),
    "last release": (cells, "LAST_SHARE", (0.75, 0.95)),
    "share of uniform points": (cells, "UNIFORM_SHARE", (0.2, 0.6)),
    "weight of uniform points": (cells, "UNIFORM_WEIGHT", (0.03, 0.3)),
    "fewest cells": (cells, "FEWEST_CELLS", (4, 7)),
    "most cells": (cells, "MOST_CELLS", (16, 36)),
    "people a cell": (cells, "PEOPLE_A_CELL", (5, 12)),
    "error of counts": (cells, "COUNT_ERROR", (0.05, 0.2)),
    "features": (cells, "N_FEATURES", (12, 24)),
    "prior variance": (cells.CellRelease, "prior_variance", (0.15, 0.4)),
    "Thompson scale": (cells.CellRelease, "thompson_scale", (0.1, 0.3)),
}
"""Constants: the module or class where each stands, its name there, its neighbours."""

LEFT = ("last release",)
"""For which these worlds chose a neighbour, and which stay until all figures of the page are run again."""


@contextmanager
def changed(constant: str, value: float | None) -> Iterator[None]:
    """A constant with another value for a while; None: the value that it has."""
    if value is None:
        yield
        return
    owner, name, _ = GRID[constant]
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@lru_cache(maxsize=32)
def features_of(dim: int, n_features: int) -> tuple[dpb.Box, MercerFeatures]:
    """What is learned in a box of so many columns, as in `releases.py`."""
    box = dpb.Box(low=np.zeros(dim), high=np.ones(dim))
    kernel = SquaredExponential(lengthscale=0.3 * dim**0.5)
    m = n_features
    return box, MercerFeatures(kernel=kernel, domain=box, n_features=m, n_landmarks=max(5 * m, 100))


@dataclass(frozen=True, kw_only=True)
class TuningCell(Cell):
    """Cells in one place, with one constant changed, or none ("")."""

    constant: str
    value: float | None
    world: str
    epsilon: float
    horizon: int

    @property
    def settings(self) -> Record:
        """What a result depends on beside the seed: all values of the constants."""
        return {name: str(getattr(owner, own)) for name, (owner, own, _) in GRID.items()}

    def simulate(self, seed: int) -> Record:
        """Regret of one run as a share of a random policy's."""
        with changed(self.constant, self.value):
            world = tuning_world(self.world, self.horizon, seed)
            box, features = features_of(world.domain.dim, cells.N_FEATURES)
            policy = GPBandit(
                domain=box,
                features=features,
                reward_range=world.reward_range,
                horizon=world.horizon,
                privacy=JointDP(epsilon=self.epsilon),
                noise=SimulatedNoise(seed),
                seed=seed,
                user_ids=False,
                tuning=GPTuning(release="cells"),
            )
            result = run(policy, world)
        return {"share": float(result.regret.sum() / (result.best - result.uniform).sum())}


def cells_of(constant: str, value: float | None) -> list[TuningCell]:
    """One cell a place."""
    return [
        TuningCell(constant=constant, value=value, world=world, epsilon=epsilon, horizon=rounds)
        for world, epsilon, rounds in PLACES
    ]


def gained(before: list[Runs], after: list[Runs]) -> tuple[float, float]:
    """By how much regret is less, a share of a random policy's, and the standard error of that."""
    drops = [one.values("share") - other.values("share") for one, other in zip(before, after, strict=True)]
    errors = [drop.var(ddof=1) / len(drop) for drop in drops]
    return float(np.mean([drop.mean() for drop in drops])), float(np.sqrt(np.sum(errors)) / len(drops))


def tuned(path: Path, jobs: int) -> list[Record]:
    """One row a neighbour and stage."""
    rows: list[Record] = []
    left = [(name, value) for name, own in GRID.items() for value in own[2]]
    for stage, (first, count) in STAGES.items():
        seeds = report_seeds(first, count, tuning=True)
        present = run_cells(cells_of("", None), seeds=seeds, path=path, jobs=jobs) if left else []
        ahead = []
        for name, value in left:
            runs = run_cells(cells_of(name, value), seeds=seeds, path=path, jobs=jobs)
            gain, error = gained(present, runs)
            row = {
                "constant": name,
                "present": getattr(*GRID[name][:2]),
                "value": value,
                "stage": stage,
                "worlds": sorted({one.cell.world for one in runs}),
                "first_seed": first,
                "seeds": count,
                "share": float(np.mean([one.values("share").mean() for one in present])),
                "gain": gain,
                "standard_error": error,
            }
            print(f"{stage} {name} {value:g}: {gain:+.4f} +- {error:.4f}", flush=True)
            rows.append(row)
            ahead += [(name, value)] * (gain > 2.0 * error)
        left = ahead
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--records", type=Path, required=True, help="folder of what was run already")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    options.records.mkdir(parents=True, exist_ok=True)
    rows = tuned(options.records / "tune-releases.jsonl", options.jobs)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    import tune_releases  # by its name, so that workers find its cells

    tune_releases.main()

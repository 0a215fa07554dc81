"""How constants of kinds of release are chosen: on worlds and tables that no page shows.

    python benchmarks/tables_of_people.py tables.npz
    python benchmarks/tune_releases.py --kind cells --records build --out docs/_results/releases-tuning.json
    python benchmarks/tune_releases.py --kind marginals ridge histogram --tables tables.npz --records build \\
        --out docs/_results/releases-tuning.json

One constant at a time is changed to each of its neighbours and compared, on the same worlds and seeds, with
the value that it has. Cells: `PLACES`, worlds of `tuning_worlds.py`. The others: `tables_of_people.TUNING`
alone, `ROWS` people of each, at (1, 1e-6). What counts is regret as a share of a random policy's, averaged
over places.

The present value stays unless another is ahead by more than two standard errors of the paired difference. Of
some twenty neighbours one may be by chance, so whoever is runs again on fresh seeds, and is taken if it is ahead
there by more than two as well. All seeds are below 1,000,000.
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
from tables_of_people import TUNING, of_file
from tuning_worlds import tuning_world

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning, cells
from dpbandits.central.marginals import learning, noise, release
from dpbandits.lab.baselines import cell_histogram, private_ridge
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.study import Cell, Record, Runs, run_cells
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.marginals import posterior
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
"""Worlds of cells, with epsilon and rounds."""

ROWS = 6_000
SEEDS = {"cells": ((20_000, 10), (30_000, 6))}
OF_TABLES = (20_000, 2), (30_000, 4)
"""First seed and number of seeds of both stages; those of cells, and of everything else."""

GRID: dict[str, dict[str, tuple[Any, str, tuple[float, ...]]]] = {
    "cells": {
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
    },
    "marginals": {
        "people an arm in the first block": (release, "PEOPLE_AN_ARM", (60.0, 135.0)),
        "growth of blocks": (release, "GROWTH", (1.2, 1.7)),
        "share of epsilon for contexts": (noise, "CONTEXT_SHARE", (0.1, 0.25)),
        "error of counts": (learning, "COUNT_ERROR", (0.05, 0.2)),
        "prior variance of a column": (posterior, "COLUMN_VARIANCE", (0.005, 0.02)),
        "prior variance of a pair": (posterior, "PAIR_VARIANCE", (0.0005, 0.002)),
        "pseudo-count of pairs": (posterior, "PAIR_PSEUDO_COUNT", (15.0, 60.0)),
    },
    "ridge": {
        "ridge": (private_ridge, "RIDGE", (0.1, 1.0)),
        "prior variance": (private_ridge, "PRIOR_VARIANCE", (0.1, 0.4)),
    },
    "histogram": {
        "people a count": (cell_histogram, "PEOPLE_A_COUNT", (10, 40)),
        "most cells of a column": (cell_histogram, "MOST_OF_COLUMN", (5, 12)),
        "shrinkage": (cell_histogram, "SHRINKAGE", (3.0, 30.0)),
    },
}
"""Constants of every kind: the module or class where each stands, its name there, its neighbours."""


@contextmanager
def changed(kind: str, constant: str, value: float | None) -> Iterator[None]:
    """A constant with another value for a while; None: the value that it has."""
    if value is None:
        yield
        return
    owner, name, _ = GRID[kind][constant]
    kept = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, kept)


@lru_cache(maxsize=32)
def features_of(dim: int, n_features: int) -> tuple[dpb.Box, MercerFeatures]:
    """What cells learn with in a box of so many columns, as in `releases.py`."""
    box = dpb.Box(low=np.zeros(dim), high=np.ones(dim))
    kernel = SquaredExponential(lengthscale=0.3 * dim**0.5)
    m = n_features
    return box, MercerFeatures(kernel=kernel, domain=box, n_features=m, n_landmarks=max(5 * m, 100))


@lru_cache(maxsize=8)
def people_of(path: Path, table: str):
    return of_file(path, table)[table]


@dataclass(frozen=True, kw_only=True)
class TuningCell(Cell):
    """A kind of release in one place, with one constant changed, or none ("")."""

    kind: str
    constant: str
    value: float | None
    world: str
    epsilon: float
    horizon: int
    tables: str = ""

    @property
    def label(self) -> Record:
        """What records call it: of where tables lie nothing."""
        return {name: value for name, value in super().label.items() if name != "tables"}

    @property
    def settings(self) -> Record:
        """What a result depends on beside the seed: all values of the constants."""
        return {name: str(getattr(owner, own)) for name, (owner, own, _) in GRID[self.kind].items()}

    def simulate(self, seed: int) -> Record:
        """Regret of one run as a share of a random policy's."""
        with changed(self.kind, self.constant, self.value):
            return self._simulated(seed)

    def _simulated(self, seed: int) -> Record:
        own: dict[str, Any] = {"seed": seed, "user_ids": False, "noise": SimulatedNoise(seed)}
        if self.kind == "cells":
            world: Any = tuning_world(self.world, self.horizon, seed)
            privacy = JointDP(epsilon=self.epsilon)
            box, features = features_of(world.domain.dim, cells.N_FEATURES)
            own |= {"domain": box, "features": features}
        else:
            world = people_of(Path(self.tables), self.world).world(self.world, seed=seed, rows=self.horizon)
            privacy = JointDP(epsilon=self.epsilon, delta=1e-6)
            own |= {"contexts": world.schema, "arms": world.arms.labels}
        own |= {"reward_range": world.reward_range, "horizon": world.horizon, "privacy": privacy}
        if self.kind == "ridge":
            policy: Any = private_ridge.PrivateRidge(**own)
        elif self.kind == "histogram":
            policy = cell_histogram.CellHistogram(**own)
        else:
            policy = GPBandit(**own, tuning=GPTuning(release=self.kind))
        result = run(policy, world)
        random = float((result.best - result.uniform).sum())
        return {"share": float(result.regret.sum()) / random, "seconds": result.seconds}


def cells_of(kind: str, constant: str, value: float | None, tables: Path | None) -> list[TuningCell]:
    """One cell a place."""
    where = {"kind": kind, "constant": constant, "value": value}
    if kind == "cells":
        return [
            TuningCell(**where, world=world, epsilon=epsilon, horizon=rounds)
            for world, epsilon, rounds in PLACES
        ]
    if tables is None:
        raise SystemExit(f"{kind}: its tables come from a file: pass --tables")
    path = str(tables)
    return [TuningCell(**where, world=table, epsilon=1.0, horizon=ROWS, tables=path) for table in TUNING]


def gained(before: list[Runs], after: list[Runs]) -> tuple[float, float]:
    """By how much regret is less, a share of a random policy's, and the standard error of that."""
    drops = [one.values("share") - other.values("share") for one, other in zip(before, after, strict=True)]
    errors = [drop.var(ddof=1) / len(drop) for drop in drops]
    return float(np.mean([drop.mean() for drop in drops])), float(np.sqrt(np.sum(errors)) / len(drops))


def tuned(kind: str, options: argparse.Namespace) -> list[Record]:
    """One row a neighbour and stage."""
    path = options.records / "tune-releases.jsonl"
    rows: list[Record] = []
    left = [(name, value) for name, own in GRID[kind].items() for value in own[2]]
    for stage, (first, count) in zip(("screened", "confirmed"), SEEDS.get(kind, OF_TABLES), strict=True):
        shared = {"seeds": report_seeds(first, count, tuning=True), "path": path, "jobs": options.jobs}
        present = run_cells(cells_of(kind, "", None, options.tables), **shared) if left else []
        ahead = []
        for name, value in left:
            runs = run_cells(cells_of(kind, name, value, options.tables), **shared)
            gain, error = gained(present, runs)
            owner, attribute, _ = GRID[kind][name]
            row = {
                "kind": kind,
                "constant": name,
                "present": getattr(owner, attribute),
                "value": value,
                "stage": stage,
                "worlds": sorted({one.cell.world for one in runs}),
                "first_seed": first,
                "seeds": count,
                "share": float(np.mean([one.values("share").mean() for one in present])),
                "gain": gain,
                "standard_error": error,
            }
            print(
                json.dumps(
                    {key: row[key] for key in ("stage", "constant", "value", "gain", "standard_error")}
                )
            )
            rows.append(row)
            ahead += [(name, value)] * (gain > 2.0 * error)
        left = ahead
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", nargs="+", choices=tuple(GRID), default=["cells"])
    parser.add_argument("--tables", type=Path, help="what tables_of_people.py wrote")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--records", type=Path, required=True, help="folder of what was run already")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    options.records.mkdir(parents=True, exist_ok=True)
    rows = [row for kind in options.kind for row in tuned(kind, options)]
    if options.out is not None:
        held = json.loads(options.out.read_text()) if options.out.exists() else []
        kept = [row for row in held if row["kind"] not in options.kind]
        options.out.write_text(json.dumps(kept + rows, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    import tune_releases  # by its name, so that workers find its cells

    tune_releases.main()

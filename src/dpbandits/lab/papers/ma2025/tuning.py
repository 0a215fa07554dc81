"""How the constants of `ma2025_methods.CHOSEN` were chosen: on people who are not reported on.

Nine candidates a method; where ours is not concerned, nine more around the best.

    python -m dpbandits.lab.papers.ma2025.tuning constants --out docs/_results/ma2025-tuning.json
    python -m dpbandits.lab.papers.ma2025.tuning constants --fine --reps 4 --out
    docs/_results/ma2025-tuning.json
    python -m dpbandits.lab.papers.ma2025.tuning mechanisms

Candidates run on the tuning halves of the real tables, whose people are never reported on, with tuning
seeds, at two pairs (epsilon, epsilon of the source). A candidate's score is its regret over that of a random
arm, averaged over tables, pairs and seeds; the smallest is taken. For every method but `tree` the best of
nine coarse candidates is tried again with eight around it. One set of constants a method serves all tables
and pairs, one without and one with sources. `adult` is read from the folder that DPBANDITS_DATA names.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.lab.evaluation.seeds import report_seeds
from dpbandits.lab.papers.ma2025.local import TUNING_GRID
from dpbandits.lab.papers.ma2025.methods import Source, curve, world_and_sources
from dpbandits.lab.study import Record, Task, run_tasks
from dpbandits.lab.worlds.classification_tables import CLASSIFICATION_TABLES

__all__ = ["GRIDS", "score"]

PAIRS = ((1.0, 8.0), (4.0, 2.0))
"""(epsilon, epsilon of the source) at which candidates run; methods without sources see the first of each."""

_GRADIENT = [
    {"clip": clip, "warm_up": warm_up, "curvature": curvature}
    for clip in (0.1, 0.3)
    for warm_up in (0.01, 0.03)
    for curvature in (0.005, 0.02)
] + [{"clip": 0.5, "warm_up": 0.03, "curvature": 0.02}]
# After a jump-start there is less to explore: the same candidates with shorter warm-ups.
_GRADIENT_AFTER = [{**one, "warm_up": {0.01: 0.0, 0.03: 0.01}[one["warm_up"]]} for one in _GRADIENT]
_MA2025 = [
    {"radius": radius, **bias} for radius in (0.05, 0.2, 1.0) for bias in ({"bias": 0.25}, {"bias": 1.0}, {})
]

GRIDS: dict[str, list[dict[str, Any]]] = {
    "tree": list(TUNING_GRID["tree"]),
    "tree+": list(TUNING_GRID["tree"]),
    "ma2025-tuned": _MA2025,
    "ma2025-tuned+": _MA2025,
    "linear": _GRADIENT,
    "linear+": _GRADIENT_AFTER,
    "neural": _GRADIENT,
    "neural+": _GRADIENT_AFTER,
    "abse": [{"width": width} for width in (0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)],
}
"""Nine coarse candidates a method; `+` is with sources."""


def _around(*, clips: Sequence[float], curvatures: Sequence[float], warm_up: float) -> list[dict[str, Any]]:
    return [
        {"clip": clip, "warm_up": warm_up, "curvature": curvature}
        for clip in clips
        for curvature in curvatures
    ]


_MA2025_FINE = [
    {"radius": radius, "bias": bias} for radius in (0.05, 0.3, 1.0) for bias in (0.06, 0.12, 0.25)
]

FINE: dict[str, list[dict[str, Any]]] = {
    "ma2025-tuned": _MA2025_FINE,
    "ma2025-tuned+": _MA2025_FINE,
    "linear": _around(clips=(0.5, 0.7, 1.0), curvatures=(0.005, 0.01, 0.02), warm_up=0.03),
    "linear+": _around(clips=(0.3, 0.5, 0.7), curvatures=(0.002, 0.005, 0.01), warm_up=0.0),
    "neural": _around(clips=(0.5, 0.7, 1.0), curvatures=(0.005, 0.01, 0.02), warm_up=0.03),
    "neural+": _around(clips=(0.3, 0.5, 0.7), curvatures=(0.002, 0.005, 0.01), warm_up=0.0),
    "abse": [{"width": width} for width in (0.35, 0.4, 0.42, 0.45, 0.5, 0.55, 0.58, 0.6, 0.65)],
}
"""Nine fine candidates for every method but ours: the best coarse one and eight around it."""


def score(
    entry: str,
    constants: dict[str, Any],
    *,
    table: str,
    pair: tuple[float, float],
    seed: int,
    data: str | None = None,
) -> float:
    """Regret over that of a random arm, of one crowd of a table's tuning half."""
    sources = (Source(n_users=None, epsilon=pair[1]),) if entry.endswith("+") else ()
    found = curve(
        entry.rstrip("+"),
        table,
        seed=seed,
        epsilon=pair[0],
        sources=sources,
        half="tuning",
        data=data,
        constants=constants,
    )
    one, _ = world_and_sources(table, (), half="tuning", data=data)
    return float(found[-1] / (1.0 - 1.0 / one.n_arms))


def _scores(
    candidates: Sequence[tuple[str, dict[str, Any]]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    seeds = report_seeds(0, options.reps, tuning=True)
    rows = []
    for entry, constants in candidates:
        cells = [(table, pair) for table in options.tables for pair in PAIRS]
        tasks = [
            Task(
                cell=f"{entry} {table} {pair}",
                seed=seed,
                settings=constants,
                run=_Run(entry, constants, table, pair),
            )
            for table, pair in cells
            for seed in seeds
        ]
        values = np.array([record["score"] for record in run_tasks(tasks, jobs=options.jobs)])
        by_cell = values.reshape(len(cells), len(seeds))
        error = np.sqrt((by_cell.var(axis=1, ddof=1) / len(seeds)).sum()) / len(cells)
        row = {"entry": entry, "constants": constants, "score": float(values.mean()), "stderr": float(error)}
        rows.append(row)
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()
    return rows


class _Run:
    """`score` as a record; picklable."""

    def __init__(self, entry: str, constants: dict[str, Any], table: str, pair: tuple[float, float]) -> None:
        self.entry, self.constants, self.table, self.pair = entry, constants, table, pair

    def __call__(self, seed: int) -> Record:
        found = score(self.entry, self.constants, table=self.table, pair=self.pair, seed=seed)
        return {"score": found}


def _constants(options: argparse.Namespace) -> None:
    grids, stage = (FINE, "fine") if options.fine else (GRIDS, "coarse")
    options.entries = [entry for entry in options.entries if entry in grids]
    rows = _scores([(entry, one) for entry in options.entries for one in grids[entry]], options)
    for row in rows:
        row |= {"stage": stage, "reps": options.reps}
    if options.out is not None:
        kept = json.loads(options.out.read_text()) if options.out.exists() else []
        done = {(row["entry"], row["stage"]) for row in rows}
        rows = [row for row in kept if (row["entry"], row["stage"]) not in done] + rows
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
    for entry in options.entries:
        own = [row for row in rows if row["entry"] == entry and row["stage"] == stage]
        best = min(own, key=lambda row: row["score"])
        sys.stdout.write(f'"{entry}": {best["constants"]},\n')


def _mechanisms(options: argparse.Namespace) -> None:
    """The vector mechanisms of the gradient learners, everything else at its default."""
    candidates = [
        (entry, {"mechanism": mechanism})
        for entry in ("linear", "neural")
        for mechanism in ("cap", "laplace", "coordinate")
    ]
    _scores(candidates, options)


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse and run one command."""
    parser = argparse.ArgumentParser(prog="dpbandits.lab.papers.ma2025.tuning", description=__doc__)
    commands = parser.add_subparsers(required=True)
    for name, run in (("constants", _constants), ("mechanisms", _mechanisms)):
        command = commands.add_parser(name)
        command.add_argument(
            "--tables", nargs="+", choices=CLASSIFICATION_TABLES, default=CLASSIFICATION_TABLES
        )
        command.add_argument("--reps", type=int, default=12)
        command.add_argument("--jobs", type=int, default=1)
        command.set_defaults(run=run)
        if run is _constants:
            command.add_argument("--entries", nargs="+", choices=sorted(GRIDS), default=list(GRIDS))
            command.add_argument("--fine", action="store_true", help="the fine candidates")
            command.add_argument("--out", type=Path, default=None, help="JSON of all scores")
    options = parser.parse_args(arguments)
    options.run(options)


if __name__ == "__main__":
    main()

"""Choice of the constants of the methods on real tables, on users whose results are not reported.

    python -m reproduction.tuning.ma2025_methods tuning --reps 12 --out reproduction/results

Items `tuning` (nine candidates a method), `tuning-fine` (where ours is not concerned, nine more around the
best) and `mechanisms` (the vector mechanisms of the gradient learners, everything else at its default). What
they chose stands in `reproduction.ma2025.methods.CHOSEN`.

Candidates run on the tuning halves of the real tables, whose people are never reported on, with tuning
seeds, at two pairs (epsilon, epsilon of the source). A candidate's score is its regret over that of a random
arm, averaged over tables, pairs and seeds; the smallest is taken. For every method but `tree` the best of
nine coarse candidates is tried again with eight around it. One set of constants a method serves all tables
and pairs, one without and one with sources. `adult` is read from the folder that DPBANDITS_DATA names.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import Seed
from dpbandits.lab.study import Cell, Record, Row, values_of
from reproduction.experiments import Choice, Item, Study
from reproduction.ma2025.classification import REPORT_TABLES
from reproduction.ma2025.local import TUNING_GRID
from reproduction.ma2025.methods import Source, curve, world_and_sources

__all__ = ["FINE", "GRIDS", "STUDY", "TuningCell", "main", "score"]

PAIRS = ((1.0, 8.0), (4.0, 2.0))
"""(epsilon, epsilon of the source) at which candidates run; methods without sources see the first of each."""


def _every(**constants: Sequence[Any]) -> list[dict[str, Any]]:
    """Every combination of values, the last constant first."""
    return [dict(zip(constants, values, strict=True)) for values in product(*constants.values())]


_GRADIENT = _every(clip=(0.1, 0.3), warm_up=(0.01, 0.03), curvature=(0.005, 0.02))
_GRADIENT += [{"clip": 0.5, "warm_up": 0.03, "curvature": 0.02}]
# After a jump-start there is less to explore: the same candidates with shorter warm-ups.
_GRADIENT_AFTER = [{**one, "warm_up": {0.01: 0.0, 0.03: 0.01}[one["warm_up"]]} for one in _GRADIENT]
_MA2025 = [
    one | bias for one in _every(radius=(0.05, 0.2, 1.0)) for bias in ({"bias": 0.25}, {"bias": 1.0}, {})
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
    "abse": _every(width=(0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)),
}
"""Nine coarse candidates a method; `+` is with sources."""

_MA2025_FINE = _every(radius=(0.05, 0.3, 1.0), bias=(0.06, 0.12, 0.25))
_GRADIENT_FINE = _every(clip=(0.5, 0.7, 1.0), warm_up=(0.03,), curvature=(0.005, 0.01, 0.02))
_GRADIENT_AFTER_FINE = _every(clip=(0.3, 0.5, 0.7), warm_up=(0.0,), curvature=(0.002, 0.005, 0.01))

FINE: dict[str, list[dict[str, Any]]] = {
    "ma2025-tuned": _MA2025_FINE,
    "ma2025-tuned+": _MA2025_FINE,
    "linear": _GRADIENT_FINE,
    "linear+": _GRADIENT_AFTER_FINE,
    "neural": _GRADIENT_FINE,
    "neural+": _GRADIENT_AFTER_FINE,
    "abse": _every(width=(0.35, 0.4, 0.42, 0.45, 0.5, 0.55, 0.58, 0.6, 0.65)),
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
    half: dict[str, Any] = {"half": "tuning", "data": data}
    own: dict[str, Any] = {"seed": seed, "epsilon": pair[0], "sources": sources, "constants": constants}
    found = curve(entry.rstrip("+"), table, **own, **half)
    one, _ = world_and_sources(table, (), **half)
    return float(found[-1] / (1.0 - 1.0 / one.n_arms))


@dataclass(frozen=True, kw_only=True)
class TuningCell(Cell):
    """A candidate on tables.

    Attributes:
        entry: method, `+` behind it where it has sources.
        constants: Constants of the candidate.
        tables: names.
        stage: coarse or fine.
    """

    entry: str
    constants: Mapping[str, Any]
    tables: tuple[str, ...]
    stage: str

    fields: ClassVar = {"column": "entry"}

    @property
    def world(self) -> str:
        """The first table: a choice of worlds has chosen the tables already."""
        return self.tables[0]

    @property
    def settings(self) -> dict[str, Any]:
        """The pairs."""
        return {"pairs": PAIRS}

    def simulate(self, seed: Seed) -> Record:
        """Scores of one crowd on every table at every pair."""
        cells = product(self.tables, PAIRS)
        return {
            "scores": [score(self.entry, dict(self.constants), table=t, pair=p, seed=seed) for t, p in cells]
        }

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """The mean over tables, pairs and seeds; its error is that of crowds on these tables."""
        scores = values_of(records, "scores")
        error = np.sqrt((scores.var(axis=0, ddof=1) / len(scores)).sum()) / scores.shape[1]
        row = {"entry": self.entry, "constants": dict(self.constants), "score": float(scores.mean())}
        return [row | {"stderr": float(error), "stage": self.stage, "reps": len(records)}]


MECHANISMS = dict.fromkeys(("linear", "neural"), _every(mechanism=("cap", "laplace", "coordinate")))
"""The vector mechanisms that the gradient learners were tried with."""


def _item(about: str, grids: Mapping[str, Any], stage: str, *, file: str | None, reps: int) -> Item:
    def cells(choice: Choice) -> list[TuningCell]:
        chosen = choice.worlds or REPORT_TABLES
        tables = tuple(table for table in REPORT_TABLES if table in chosen)
        return [
            TuningCell(entry=entry, constants=constants, tables=tables, stage=stage)
            for entry, candidates in grids.items()
            for constants in candidates
            if tables
        ]

    return Item(
        about=about,
        cells=cells,
        key=("entry", "constants", "stage"),
        shown="entry | constants | score:.4f | stderr:.4f",
        texts={"constants": lambda row: str(row["constants"])},  # to be written into `CHOSEN`
        file=file,
        reps=reps,
        tuning=True,
    )


STUDY = Study(
    name="ma2025",
    title="Ma2025",
    measured="regret over that of a random arm, on tuning seeds",
    items={
        "tuning": _item("nine candidates a method", GRIDS, "coarse", file="ma2025-tuning", reps=12),
        "tuning-fine": _item("nine more around the best", FINE, "fine", file="ma2025-tuning", reps=4),
        "mechanisms": _item("how gradients are reported", MECHANISMS, "mechanisms", file=None, reps=4),
    },
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run an item and print its rows, the best candidate of a method first."""
    parser = argparse.ArgumentParser(prog="tune_ma2025_methods.py", description=__doc__)
    parser.add_argument("item", choices=list(STUDY.items))
    parser.add_argument("--reps", type=int, help="crowds of every candidate")
    parser.add_argument("--column", nargs="+", help="only these methods")
    parser.add_argument("--world", nargs="+", help="only these tables")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="folder of results, resumed from there")
    options = parser.parse_args(arguments)
    choice = Choice(columns=options.column, worlds=options.world)
    item = STUDY.item(options.item)
    rows, _ = STUDY.run(options.item, choice=choice, reps=options.reps, jobs=options.jobs, out=options.out)
    for row in sorted(rows, key=lambda row: (row["entry"], row["score"])):
        sys.stdout.write(" | ".join(item.text_of(row)) + "\n")


if __name__ == "__main__":
    main()

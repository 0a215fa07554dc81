"""Outsourced search with an unknown kernel on tables, compared with simple and non-private methods.

    python -m reproduction.studies.outsourced_tables --records records \\
        --out reproduction/results/outsourced-tables.json

Fifty rows are asked for, none twice; the privacy distance is 1 in a cube whose corners are 50 apart.

- `modeler`: `Curator` (L2-Laplace rows, simulated noise) and `Modeler(horizon=50)`, the kernel unknown;
- `nearest`: on the same noisy rows, five rows at random, then always the row that was not asked and lies
  nearest to one of the three best answers so far;
- `open modeler`: the same modeler on the exact positions;
- `earlier modeler`: on the same noisy rows, the rule before exploration adapted (`outsourced_earlier.py`);
- `random`: any rows, computed exactly.

The scores are the mean of the requested rows (standard deviations above the table's mean), and simple regret:
the table's best value minus the best that was found. The third is the number of the 50 rows in the top 1%.
`--which tuning` runs what constants were chosen on, `--which report` (the default) the eight tables that they
were not. Seeds of reports begin at 1,000,000; the table is the same for every seed. A run that was stopped
goes on.
"""

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln

from dpbandits import RowDP, SimulatedNoise
from dpbandits.lab.evaluation import BANNER, report_seeds
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.study import Cell, Record, Row, run_cells
from dpbandits.outsourced import Curator, CuratorTuning, Modeler, PublishedRows
from dpbandits.outsourced.scaling import PublicScaling
from dpbandits.policy.coins import PublicCoins
from reproduction.kharkovskii2020.methods import least_of_top, scores
from reproduction.kharkovskii2020.worlds import SearchWorld
from reproduction.studies.outsourced_earlier import EarlierModeler
from reproduction.studies.outsourced_worlds import FAMILIES, REPORT, TUNING, world_of

HORIZON = 50
RULE = "modeler version 2"
"""Records of another rule are run again."""
EPSILONS = (3.0, 8.0)
MODELER, NEAREST, OPEN, RANDOM = "modeler", "nearest", "open modeler", "random"
EARLIER = "earlier modeler"
FIRST, BEST = 5, 3
"""Settings of the simple rule: number of random rows, and number of best answers near which it searches."""


class Searcher(Protocol):
    """Whatever names the next row to ask about, and hears its answer."""

    def ask(self) -> int:
        """Return the next row."""
        ...

    def tell(self, row: int, answer: float) -> None:
        """Hear what a row answered."""
        ...


class NearestToTheBest:
    """The crude rule, over published rows: ask and tell as a modeler."""

    def __init__(self, published: PublishedRows, *, seed: int) -> None:
        self.inputs, self.free = published.inputs, np.ones(published.n, dtype=bool)
        self.answers: dict[int, float] = {}
        coins = PublicCoins(seed).uniform("outsourced-nearest", 0, 1, published.n)[0]
        self.first = np.argsort(coins)[:FIRST].tolist()

    def ask(self) -> int:
        if len(self.answers) < FIRST:
            row = self.first[len(self.answers)]
        else:
            best = sorted(self.answers, key=self.answers.__getitem__)[-BEST:]
            gaps = cdist(self.inputs[best], self.inputs).min(axis=0)
            row = int(np.where(self.free, gaps, np.inf).argmin())
        self.free[row] = False
        return row

    def tell(self, row: int, answer: float) -> None:
        self.answers[row] = answer


def at_random(values: np.ndarray) -> Record:
    """Return the exact scores of random rows, on average over all choices."""
    sorted_values, n = np.sort(values), len(values)
    places = np.arange(HORIZON, n + 1)  # P(all rows are among the i smallest) = C(i, 50)/C(n, 50)
    logs = gammaln(places + 1) - gammaln(places - HORIZON + 1)
    chances = np.diff(np.exp(logs - logs[-1]), prepend=0.0)
    return {
        "mean": float(values.mean()),
        "regret": float(values.max() - chances @ sorted_values[HORIZON - 1 :]),
        "top": HORIZON * float((values >= least_of_top(values)).mean()),
    }


def release(
    world: SearchWorld, epsilon: float | None, seed: int
) -> tuple[PublishedRows, Callable[[int], float]]:
    """The rows as a modeler sees them, and what answers a row."""
    if epsilon is None:
        rows = PublishedRows.public(world.points, half_width=PublicScaling(world.schema).half_width)
        return rows, lambda row: float(world.values[row])
    curator = Curator(
        {**world.columns, "objective": world.values},
        contexts=world.schema,
        privacy=RowDP(epsilon=epsilon, distance=1.0),
        objective="objective",
        cap=HORIZON,
        tuning=CuratorTuning(mechanism="l2_laplace"),
        noise=SimulatedNoise(seed),
    )
    return curator.publish(), curator.answer


@dataclass(frozen=True, kw_only=True)
class TableCell(Cell):
    """One method on one table at one epsilon (None: exact positions)."""

    table: str
    method: str
    epsilon: float | None

    measures: ClassVar = {name: (name, f"{name}_se") for name in ("mean", "regret", "top")}

    @property
    def settings(self) -> Record:
        """Settings that a result depends on beside the seed."""
        return {"horizon": HORIZON, "rule": RULE}

    def simulate(self, seed: int) -> Record:
        """One search."""
        world = world_of(self.table)
        rows, answer = release(world, self.epsilon, seed)
        searcher: NearestToTheBest | EarlierModeler | Modeler
        if self.method == NEAREST:
            searcher = NearestToTheBest(rows, seed=seed)
        else:
            kind = EarlierModeler if self.method == EARLIER else Modeler
            searcher = kind(rows, horizon=HORIZON, seed=seed)
        return searched(searcher, answer, world, horizon=HORIZON)


def searched(
    searcher: Searcher, answer: Callable[[int], float], world: SearchWorld, *, horizon: int
) -> Record:
    """Scores of a search of so many rows, each answered before the next one is asked for."""
    asked = np.empty(horizon)
    for step in range(horizon):
        row = searcher.ask()
        asked[step] = answer(row)
        searcher.tell(row, float(asked[step]))
    return scores(asked, world.values)


def cells_of(tables: tuple[str, ...], epsilons: tuple[float, ...]) -> list[TableCell]:
    """All of them, the open one once a table."""
    ways = [(MODELER, epsilon) for epsilon in epsilons]
    ways += [(OPEN, None), *((one, epsilon) for one in (NEAREST, EARLIER) for epsilon in epsilons)]
    return [
        TableCell(table=table, method=method, epsilon=epsilon) for method, epsilon in ways for table in tables
    ]


def tables_of(which: str) -> tuple[str, ...]:
    """Names of tables, those that are made up as family:seed."""
    if which == "report":
        return REPORT
    return (*TUNING, *(f"{family}:{seed}" for family in FAMILIES for seed in range(6)))


def random_row(table: str) -> Row:
    """The line of random rows."""
    world = world_of(table)
    exact = at_random(world.values)
    return {"table": table, "method": RANDOM, "epsilon": None, **exact, "rows": len(world.values)}


def above_random(rows: list[Row]) -> list[Row]:
    """On how many tables the mean of the rows asked lies above random's, and on which it does not."""
    chance = {row["table"]: row["mean"] for row in rows if row["method"] == RANDOM}
    found = []
    for method, epsilon in dict.fromkeys((r["method"], r["epsilon"]) for r in rows if r["method"] != RANDOM):
        own = [row for row in rows if (row["method"], row["epsilon"]) == (method, epsilon)]
        below = [row["table"] for row in own if row["mean"] <= chance[row["table"]]]
        line = {name: float(np.mean([row[name] for row in own])) for name in ("mean", "regret", "top")}
        kind = {"method": method, "epsilon": epsilon, "tables": len(own), "above": len(own) - len(below)}
        found.append(kind | {"not_above": below} | line)
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--which", choices=("tuning", "report"), default="report")
    parser.add_argument("--only", nargs="+", help="tables and families by name")
    parser.add_argument("--methods", nargs="+", help="only these; of others the lines that --out has stay")
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--records", type=Path, help="folder of what was run already")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error("--seeds: expected 2 or more, a standard error needs them")
    tables = tuple(
        name
        for name in tables_of(options.which)
        if options.only is None or name.partition(":")[0] in options.only
    )
    tuning = options.which == "tuning"
    seeds = report_seeds(0 if tuning else FIRST_REPORT_SEED, options.seeds, tuning=tuning)
    cells = cells_of(tables, tuple(options.epsilons))
    wanted = {cell.method for cell in cells} if options.methods is None else set(options.methods)
    if options.records is not None:
        options.records.mkdir(parents=True, exist_ok=True)
    runs = run_cells(
        [cell for cell in cells if cell.method in wanted],
        seeds=seeds,
        path=None if options.records is None else options.records / "outsourced-tables.jsonl",
        jobs=options.jobs,
    )
    rows = [row for run in runs for row in run.rows] + [random_row(table) for table in tables]
    if options.methods is not None and options.out is not None and options.out.exists():
        before = json.loads(options.out.read_text())["rows"]
        rows = [row for row in before if row["method"] not in wanted | {RANDOM}] + rows
    results = {
        "command": "python -m reproduction.studies.outsourced_tables --records records "
        "--out reproduction/results/outsourced-tables.json",
        "banner": BANNER,
        "which": options.which,
        "horizon": HORIZON,
        "summary": above_random(rows),
        "rows": rows,
    }
    for line in results["summary"]:
        print(json.dumps(line))
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()

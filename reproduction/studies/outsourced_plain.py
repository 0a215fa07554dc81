"""Outsourced search with an unknown kernel, compared with plain Gaussian processes on the same rows.

    python -m reproduction.studies.outsourced_plain --records records \\
        --out reproduction/results/outsourced-plain.json

Each method requests fifty different rows. For a given seed, all methods see the same release and the same
answers, and begin with the same five rows. The release has L2-Laplace rows with simulated noise, at a privacy
distance of 1 in a cube whose corners are 50 apart.

- `modeler`: `Modeler(horizon=50)`, the kernel unknown;
- `plain GP`: takes the published rows for the positions. Squared-exponential kernel with one lengthscale;
  lengthscale, variance and noise by marginal likelihood, fitted again after every fifth answer; asks the row
  of the largest mean + 2 standard deviations;
- `greedier GP`: the same with half a standard deviation;
- `fixed GP`: the same with 2, a lengthscale of half the cube's half side, and a noise variance of a tenth of
  the kernel's;
- `EI GP`: the lengthscale is fitted, and the row of the largest expected improvement is asked.

What counts: the mean of the rows asked (standard deviations above the table's mean) and simple regret (the
table's best value minus the best that was found). `ahead` is how far a plain method is ahead of the modeler
on the same seeds, with the standard error of that difference; below 0 the modeler is ahead.

`--which tuning` runs the tables that constants were chosen on, `--which report` (the default) the eight
tables that they were not. Seeds of reports begin at 1,000,000. A run that was stopped goes on.
"""

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr

from dpbandits.lab.evaluation import BANNER, report_seeds
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.study import Cell, Record, Runs, run_cells
from dpbandits.outsourced import Modeler, PublishedRows
from dpbandits.policy.coins import PublicCoins
from reproduction.studies.outsourced_tables import HORIZON, MODELER, RULE, release, searched
from reproduction.studies.outsourced_worlds import REPORT, TUNING, world_of

EPSILONS = (1.0, 3.0, 8.0)
MEASURES = {"mean": 1.0, "regret": -1.0}
"""Measures of a search, each with 1 where more is better and -1 where less is."""
FIRST, EVERY = 5, 5
"""Rows before the first fit, and answers between two fits."""
LENGTHSCALES = 2.0 ** np.arange(-4.0, 1.01, 0.5)
NOISES = np.array([1e-3, 1e-2, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0])
"""Candidates of the likelihood: multiples of the cube's half side, and of the kernel's variance."""
FIXED = 0.5, 0.1


@dataclass(frozen=True)
class Plain:
    """How a plain Gaussian process chooses.

    Args:
        deviations: standard deviations above the mean; None takes the expected improvement.
        fitted: fit the lengthscale and the noise, or keep `FIXED`.
    """

    deviations: float | None
    fitted: bool = True


PLAIN = {
    "plain GP": Plain(2.0),
    "greedier GP": Plain(0.5),
    "fixed GP": Plain(2.0, fitted=False),
    "EI GP": Plain(None),
}


class PlainGP:
    """A Gaussian process that takes published rows for positions: ask and tell, as a `Modeler`."""

    def __init__(self, published: PublishedRows, *, plain: Plain, seed: int) -> None:
        self.points, self.plain = published.inputs / published.half_width, plain
        self.coins, self.parts = PublicCoins(seed), FIXED
        self.asked: list[int] = []
        self.answers: list[float] = []
        self.squares = np.empty((HORIZON, published.n))

    def ask(self) -> int:
        """The row that scores best among those that were not asked."""
        t = len(self.answers)
        if t < FIRST:  # the rows that the modeler begins with
            free = np.setdiff1d(np.arange(len(self.points)), self.asked)
            coin = float(self.coins.uniform("outsourced-tie", t, t + 1, 1)[0, 0])
            row = int(free[min(int(coin * len(free)), len(free) - 1)])
        else:
            score = self.score()
            score[self.asked] = -np.inf
            row = int(score.argmax())
        self.asked.append(row)
        return row

    def tell(self, row: int, answer: float) -> None:
        """The answer of the row that was asked for last."""
        gaps = self.points - self.points[row]
        self.squares[len(self.answers)] = (gaps * gaps).sum(axis=1)
        self.answers.append(answer)

    def score(self) -> np.ndarray:
        """(n,) upper confidence bounds, or expected improvements, in standard deviations of the answers."""
        t = len(self.answers)
        answers = np.array(self.answers)
        answers = (answers - answers.mean()) / max(float(answers.std()), 1e-12)
        if self.plain.fitted and t % EVERY == 0:
            self.parts = max(
                (likelihood(self.squares[:t, self.asked], answers, length, noise)[0], length, noise)
                for length in LENGTHSCALES.tolist()
                for noise in NOISES.tolist()
            )[1:]
        length, noise = self.parts
        _, variance, factor = likelihood(self.squares[:t, self.asked], answers, length, noise)
        sides = solve_triangular(factor, np.exp(-0.5 * self.squares[:t] / length**2), lower=True)
        mean = solve_triangular(factor, answers, lower=True) @ sides
        deviation = np.sqrt(variance * np.maximum(1.0 - (sides * sides).sum(axis=0), 1e-12))
        if self.plain.deviations is not None:
            return mean + self.plain.deviations * deviation
        above = (mean - answers.max()) / deviation
        return deviation * (above * ndtr(above) + np.exp(-0.5 * above**2) / np.sqrt(2.0 * np.pi))


def likelihood(
    squares: np.ndarray, answers: np.ndarray, length: float, noise: float
) -> tuple[float, float, np.ndarray]:
    """Log likelihood with the likeliest variance, that variance, and the factor of the correlations."""
    factor = cholesky(np.exp(-0.5 * squares / length**2) + noise * np.eye(len(answers)), lower=True)
    white = solve_triangular(factor, answers, lower=True)
    variance = max(float(white @ white) / len(answers), 1e-12)
    logs = float(np.log(np.diag(factor)).sum())
    return -0.5 * len(answers) * float(np.log(variance)) - logs, variance, factor


@dataclass(frozen=True, kw_only=True)
class PlainCell(Cell):
    """One method on one table at one epsilon."""

    table: str
    method: str
    epsilon: float

    measures: ClassVar = {name: (name, f"{name}_se") for name in MEASURES}

    @property
    def settings(self) -> Record:
        """Settings that a result depends on beside the seed."""
        rule = "plain version 1" if self.method in PLAIN else RULE
        return {"horizon": HORIZON, "rule": rule}

    def simulate(self, seed: int) -> Record:
        """One search."""
        world = world_of(self.table)
        rows, answer = release(world, self.epsilon, seed)
        searcher: PlainGP | Modeler
        if self.method in PLAIN:
            searcher = PlainGP(rows, plain=PLAIN[self.method], seed=seed)
        else:
            searcher = Modeler(rows, horizon=HORIZON, seed=seed)
        return searched(searcher, answer, world, horizon=HORIZON)


def cells_of(tables: tuple[str, ...]) -> list[PlainCell]:
    """All of them."""
    return [
        PlainCell(table=table, method=method, epsilon=epsilon)
        for method in (MODELER, *PLAIN)
        for epsilon in EPSILONS
        for table in tables
    ]


def ahead(runs: list[Runs]) -> list[Record]:
    """How far each plain method is ahead of the modeler on the same seeds, a line a table and epsilon."""
    found = {(run.cell.method, run.cell.table, run.cell.epsilon): run for run in runs}
    lines = []
    for (method, table, epsilon), run in found.items():
        if method == MODELER:
            continue
        line: Record = {"table": table, "method": method, "epsilon": epsilon}
        for measure, sign in MEASURES.items():
            gaps = sign * (run.values(measure) - found[MODELER, table, epsilon].values(measure))
            line[measure] = float(gaps.mean())
            line[f"{measure}_se"] = float(gaps.std(ddof=1) / len(gaps) ** 0.5)
        lines.append(line)
    return lines


def wins(lines: list[Record], measure: str) -> list[Record]:
    """Return the lines in which a method is ahead by more than a standard error, the furthest first.

    If one seed alone differs, the mean is its standard error up to rounding, and the line is left out.
    """
    ahead_by_more = [line for line in lines if line[measure] > (1.0 + 1e-9) * line[f"{measure}_se"]]
    return sorted(ahead_by_more, key=lambda line: -line[measure])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--which", choices=("tuning", "report"), default="report")
    parser.add_argument("--only", nargs="+", help="tables by name")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--records", type=Path, help="folder of what was run already")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error("--seeds: expected 2 or more, a standard error needs them")
    tuning = options.which == "tuning"
    tables = tuple(
        name for name in (TUNING if tuning else REPORT) if options.only is None or name in options.only
    )
    if options.records is not None:
        options.records.mkdir(parents=True, exist_ok=True)
    runs = run_cells(
        cells_of(tables),
        seeds=report_seeds(0 if tuning else FIRST_REPORT_SEED, options.seeds, tuning=tuning),
        path=None if options.records is None else options.records / "outsourced-plain.jsonl",
        jobs=options.jobs,
    )
    lines = ahead(runs)
    for measure in MEASURES:
        print(f"{measure}: ahead of the modeler by more than a standard error")
        print(f"a plain method in {len(wins(lines, measure))} of {len(lines)}")
        for line in wins(lines, measure):
            print(json.dumps(line))
    if options.out is not None:
        results = {
            "command": "python -m reproduction.studies.outsourced_plain --records records "
            "--out reproduction/results/outsourced-plain.json",
            "banner": BANNER,
            "which": options.which,
            "horizon": HORIZON,
            "ahead": lines,
            "rows": [row for run in runs for row in run.rows],
        }
        options.out.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()

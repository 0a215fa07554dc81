"""The experiments of Ma2025: Figures 6, 7(a, b), 8, 9(a, b, c) and Table 2.

What each item varies is **our reading**, from the issue's notes and the authors' public scripts (GitHub,
`Karlmyh/LDP-Contextual-MAB`, commit `a9c31ee`), since the figures' captions were not at hand:

- `figure6`: regret along the users of one crowd (n = 10,000, epsilon 1): without a source, with 500 and with
  5,000 source users at epsilon 8.
- `figure7a`: regret against n for several epsilon, without sources, on both synthetic worlds.
- `figure7b`: the same with two sources of 5,000 users at epsilon 8.
- `figure8`: against the size of two sources, for their epsilon and gamma (n = 40,000, epsilon 1).
- `figure9a`: against gamma (n = 40,000, epsilon 2, two sources of 20,000). Gamma is that of the density as
  the paper states it; the authors' sampler draws dim gamma where it says gamma (`environments.transfer`).
- `figure9b`: against kappa, in the same setting at gamma 0.2.
- `figure9c`: against the order of two sources, epsilon 2 then 8 or 8 then 2 (n = 10,000).
- `table2`: real tables (`environments.classification_tables`), report halves: average regret at n/4 and n
  over that of ABSE on the same people, for four pairs (epsilon, epsilon of the source): 1 and 4, each with
  2 and 8. The paper's four pairs were not at hand. At most 10,000 people and 5,000 of the source come, drawn
  anew with every seed. Constants were chosen on the other halves
  (`ma2025_tuning`); the figures use every method's defaults.

Regret is the average over the target's users. Noise is simulated.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import report_seeds
from dpbandits.lab.papers.ma2025.methods import MARKS, Source, curve, settings
from dpbandits.lab.study import Record, Task, run_tasks
from dpbandits.lab.worlds.classification_tables import CLASSIFICATION_TABLES

__all__ = ["FIRST_SEED", "ITEMS", "PAIRS", "Cell", "CellResult", "Item", "cells", "run_item"]

Item = Literal["figure6", "figure7a", "figure7b", "figure8", "figure9a", "figure9b", "figure9c", "table2"]
ITEMS: tuple[Item, ...] = (
    "figure6",
    "figure7a",
    "figure7b",
    "figure8",
    "figure9a",
    "figure9b",
    "figure9c",
    "table2",
)

FIRST_SEED = 5_000_000
"""First report seed of this study."""

PAIRS = ((1.0, 2.0), (1.0, 8.0), (4.0, 2.0), (4.0, 8.0))
"""(epsilon, epsilon of the source) of Table 2."""

EPSILONS = (1.0, 2.0, 4.0, 8.0)
SIZES = (10_000, 20_000, 40_000, 80_000)
WORLDS = ("ma", "ma-symmetric")
LEARNERS = ("tree", "ma2025")
GAMMAS = (0.0, 0.5, 1.0, 2.0, 4.0)
KAPPAS = (0.05, 0.2, 0.4, 0.6, 0.8, 1.0)

TABLE_USERS, TABLE_SOURCE = 10_000, 5_000
"""At most so many people of a table, and of its source, come in one run."""

_QUARTER = MARKS // 4 - 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method on one world or table.

    Attributes:
        method: one of `ma2025_methods.METHODS`.
        world: of a synthetic world or of a table.
        epsilon: of the target's reports; None without privacy.
        n_users: of a table at most so many, None for everybody.
        sources: in their order.
    """

    method: str
    world: str
    epsilon: float | None = None
    n_users: int | None = None
    sources: tuple[Source, ...] = ()

    @property
    def label(self) -> str:
        """The method, and whether it has sources."""
        return self.method + (" with sources" if self.sources else "")

    @property
    def name(self) -> str:
        """What records call it."""
        promise = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        people = "" if self.n_users is None else f", n = {self.n_users}"
        return f"{self.world}: {self.label}{promise}{people}"

    def simulate(self, seed: Seed) -> Record:
        """Average regret of the users so far, at `MARKS` points."""
        found = curve(
            self.method,
            self.world,
            seed=seed,
            epsilon=self.epsilon,
            n_users=self.n_users,
            sources=self.sources,
        )
        return {"curve": [round(float(value), 7) for value in found]}


@dataclass(frozen=True, kw_only=True, eq=False)
class CellResult:
    """Regret of one cell.

    Attributes:
        cell: which.
        curves: (R, MARKS) average regret of the users so far, one row a seed.
    """

    cell: Cell
    curves: FloatArray

    @property
    def regrets(self) -> FloatArray:
        """(R,) at n."""
        return np.asarray(self.curves[:, -1])

    @property
    def quarters(self) -> FloatArray:
        """(R,) at n/4."""
        return np.asarray(self.curves[:, _QUARTER])

    @property
    def regret(self) -> float:
        """Mean over seeds."""
        return float(self.regrets.mean())

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return float(self.regrets.std(ddof=1) / math.sqrt(len(self.regrets)))

    def to_json(self) -> dict[str, Any]:
        """Flat but for the sources and the curve."""
        reps = len(self.curves)
        return {
            "method": self.cell.method,
            "world": self.cell.world,
            "epsilon": self.cell.epsilon,
            "n_users": self.cell.n_users,
            "sources": [asdict(source) for source in self.cell.sources],
            "regret": self.regret,
            "standard_error": self.standard_error,
            "regret_at_quarter": float(self.quarters.mean()),
            "standard_error_at_quarter": float(self.quarters.std(ddof=1) / math.sqrt(reps)),
            "reps": reps,
            "curve": [round(float(value), 5) for value in self.curves.mean(axis=0)],
            "curve_errors": [
                round(float(value), 5) for value in self.curves.std(axis=0, ddof=1) / math.sqrt(reps)
            ],
        }


def cells(
    item: Item, *, columns: Sequence[str] | None = None, worlds: Sequence[str] | None = None
) -> tuple[Cell, ...]:
    """The cells of an item.

    Args:
        item: one of `ITEMS`.
        columns: only these methods.
        worlds: only these worlds or tables.

    Raises:
        InvalidParameter: an unknown item, or nothing left.
    """
    makers: dict[str, Callable[[], list[Cell]]] = {
        "figure6": _figure6,
        "figure7a": lambda: _figure7(()),
        "figure7b": lambda: _figure7(2 * (Source(n_users=5000, epsilon=8.0),)),
        "figure8": _figure8,
        "figure9a": lambda: _shifted([(gamma, 1.0) for gamma in GAMMAS]),
        "figure9b": lambda: _shifted([(0.2, kappa) for kappa in KAPPAS]),
        "figure9c": _figure9c,
        "table2": _table2,
    }
    if item not in makers:
        raise InvalidParameter(f"item {item!r}: expected one of {ITEMS}")
    found = tuple(
        cell
        for cell in makers[item]()
        if (columns is None or cell.method in columns) and (worlds is None or cell.world in worlds)
    )
    if not found:
        raise InvalidParameter(f"{item}: no cell has these columns and worlds")
    return found


def _figure6() -> list[Cell]:
    choices: list[tuple[Source, ...]] = [(), *((Source(n_users=n, epsilon=8.0),) for n in (500, 5000))]
    return [
        Cell(method=method, world="ma", epsilon=1.0, n_users=10_000, sources=sources)
        for method in LEARNERS
        for sources in choices
    ]


def _figure7(sources: tuple[Source, ...]) -> list[Cell]:
    return [
        Cell(method=method, world=world, epsilon=epsilon, n_users=n, sources=sources)
        for world in WORLDS
        for method in LEARNERS
        for epsilon in EPSILONS
        for n in SIZES
    ]


def _figure8() -> list[Cell]:
    found = []
    for method in LEARNERS:
        found.append(Cell(method=method, world="ma", epsilon=1.0, n_users=40_000))
        found += [
            Cell(
                method=method,
                world="ma",
                epsilon=1.0,
                n_users=40_000,
                sources=2 * (Source(n_users=n, epsilon=epsilon, gamma=gamma),),
            )
            for gamma in (0.0, 2.0)
            for epsilon in (2.0, 4.0, 8.0)
            for n in (10_000, 20_000, 50_000, 100_000)
        ]
    return found


def _shifted(shifts: Sequence[tuple[float, float]]) -> list[Cell]:
    """Two sources of 20,000 users with the same gamma and kappa."""
    return [
        Cell(
            method=method,
            world=world,
            epsilon=2.0,
            n_users=40_000,
            sources=2 * (Source(n_users=20_000, epsilon=epsilon, gamma=gamma, kappa=kappa),),
        )
        for world in WORLDS
        for method in LEARNERS
        for epsilon in (2.0, 8.0)
        for gamma, kappa in shifts
    ]


def _figure9c() -> list[Cell]:
    return [
        Cell(
            method=method,
            world="ma",
            epsilon=epsilon,
            n_users=10_000,
            sources=tuple(Source(n_users=n, epsilon=own) for own in order),
        )
        for method in LEARNERS
        for epsilon in EPSILONS
        for n in (10_000, 20_000, 50_000)
        for order in ((2.0, 8.0), (8.0, 2.0))
    ]


def _table2() -> list[Cell]:
    found = []
    epsilons = dict.fromkeys(epsilon for epsilon, _ in PAIRS)
    for table in CLASSIFICATION_TABLES:
        found.append(Cell(method="abse", world=table, n_users=TABLE_USERS))
        found += [
            Cell(method="smooth", world=table, epsilon=epsilon, n_users=TABLE_USERS) for epsilon in epsilons
        ]
        for method in ("tree", "ma2025", "ma2025-tuned", "linear", "neural"):
            found += [
                Cell(method=method, world=table, epsilon=epsilon, n_users=TABLE_USERS) for epsilon in epsilons
            ]
            found += [
                Cell(
                    method=method,
                    world=table,
                    epsilon=epsilon,
                    n_users=TABLE_USERS,
                    sources=(Source(n_users=TABLE_SOURCE, epsilon=own),),
                )
                for epsilon, own in PAIRS
            ]
    return found


def run_item(
    item: Item,
    *,
    reps: int,
    seed: Seed = FIRST_SEED,
    jobs: int = 1,
    out: Path | None = None,
    columns: Sequence[str] | None = None,
    worlds: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    of: Sequence[Cell] | None = None,
) -> tuple[CellResult, ...]:
    """Run the cells of an item (or the cells `of`), resuming from `out`/ma2025.jsonl.

    Raises:
        InvalidParameter: unknown item, or tuning seeds.
        DataUnavailable: a real table is not there; `worlds` can leave it out.
    """
    seeds = report_seeds(seed, reps)
    wanted = cells(item, columns=columns, worlds=worlds) if of is None else tuple(of)
    tasks = [
        Task(
            cell=cell.name,
            seed=s,
            settings=settings(cell.method, cell.world, cell.sources),
            run=cell.simulate,
        )
        for cell in wanted
        for s in seeds
    ]
    path = None if out is None else out / "ma2025.jsonl"  # items share cells
    records = run_tasks(tasks, path=path, jobs=jobs, progress=progress)
    curves = np.array([record["curve"] for record in records]).reshape(len(wanted), len(seeds), MARKS)
    return tuple(CellResult(cell=cell, curves=own) for cell, own in zip(wanted, curves, strict=True))

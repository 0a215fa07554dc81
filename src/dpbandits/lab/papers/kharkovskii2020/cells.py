"""The tables and figures of Kharkovskii2020: which cells they have, how they run, and what is said about
them.

| item | what |
|---|---|
| synthetic | the synthetic study, after the last query |
| branin, loans, ames | the same for worlds whose kernel nobody knows |
| figure2 | regret against the number of queries, by epsilon, in all four worlds |
| figure3 | the published transformation by its dimension r at one epsilon, which our mechanisms do not have |
| hidden | any two positions hidden from each other, at epsilon 8 |

Items share cells, and each repetition of a cell is kept: a study goes on where it was stopped.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.seeds import report_seeds
from dpbandits.lab.papers.kharkovskii2020 import tables as outsourced_tables
from dpbandits.lab.papers.kharkovskii2020.methods import (
    EPSILONS,
    HIDDEN,
    HIDING_METHODS,
    HORIZON,
    METHODS,
    PUBLISHED,
    PUBLISHED_DIMENSION,
    TABLE_METHODS,
    WITHOUT_EPSILON,
    Method,
    World,
    branin_world,
    published,
    simple_regret,
    synthetic_world,
)
from dpbandits.lab.plot import PALETTE, add_legend, label_axes, new_figure, to_png
from dpbandits.lab.study import Record, Task, run_tasks
from dpbandits.outsourced.modeler.modeler import DEFAULT_EXPLORATION

__all__ = ["ITEMS", "Cell", "CellResult", "Item", "cells", "picture", "run_item", "verdict"]

Item = Literal["synthetic", "branin", "loans", "ames", "figure2", "figure3", "hidden"]
ITEMS: tuple[Item, ...] = get_args(Item)

TARGETS = {0.5: 0.15, 1.0: 0.07, 3.0: 0.01, 8.0: 0.003}
"""Regret of "L2-Laplace, kernel known" in the synthetic study that was aimed at, by epsilon."""

DIMENSIONS = (2, 5, 10, 20, 50)
FIGURE3_EPSILON = 1.0
HIDDEN_EPSILON = 8.0

WORLDS: dict[str, Callable[[Seed], World]] = {
    "synthetic": synthetic_world,
    "branin": branin_world,
    "loans": outsourced_tables.loans_world,
    "ames": outsourced_tables.ames_world,
}


@lru_cache(maxsize=4)
def _fixed_world(name: str) -> World:
    return WORLDS[name](0)


def _world(name: str, seed: Seed) -> World:
    """Only the synthetic world is another one for every seed."""
    return synthetic_world(seed) if name == "synthetic" else _fixed_world(name)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method at one epsilon in one world.

    Args:
        world: one of `WORLDS`.
        method: one of `METHODS`, `TABLE_METHODS` or `HIDING_METHODS`.
        epsilon: None for methods without one.
        dimension: r of the published transformation.
    """

    world: str
    method: str
    epsilon: float | None = None
    dimension: int | None = None

    @property
    def name(self) -> str:
        """What records call it."""
        epsilon = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        return f"{self.world}: {self.method}{epsilon}" + (
            "" if self.dimension is None else f", r {self.dimension}"
        )

    @property
    def settings(self) -> dict[str, Any]:
        """What a result depends on beside the seed."""
        return {"horizon": HORIZON, "exploration": DEFAULT_EXPLORATION, "version": 2}

    def simulate(self, seed: Seed) -> Record:
        """Simple regret after every query of one run."""
        world = _world(self.world, seed)
        epsilon = math.nan if self.epsilon is None else self.epsilon
        values = self._method()(world, epsilon, HORIZON, seed)
        return {"regret": simple_regret(values, float(world.values.max())).tolist()}

    def _method(self) -> Method:
        if self.method == PUBLISHED and self.dimension is not None:
            return published(self.dimension)
        return (
            {**TABLE_METHODS, **METHODS, **HIDING_METHODS}[self.method]
            if self.world == "synthetic"
            else (TABLE_METHODS[self.method])
        )


def cells(item: Item) -> tuple[Cell, ...]:
    """The cells of an item."""
    if item == "figure3":
        found = [
            Cell(world="synthetic", method=PUBLISHED, epsilon=FIGURE3_EPSILON, dimension=dimension)
            for dimension in DIMENSIONS
        ]
        ours = ("L2-Laplace, kernel known", "non-private, kernel known", "random rows")
        return (*found, *(cell for cell in cells("synthetic") if cell.method in ours and _is_at(cell)))
    if item == "figure2":
        shown = ("L2-Laplace, marginal likelihood", "non-private, marginal likelihood", "random rows")
        return tuple(
            cell for world in WORLDS for cell in _table_cells(world) if cell.method in (*shown, PUBLISHED)
        )
    if item == "hidden":
        return (Cell(world="synthetic", method=HIDDEN, epsilon=HIDDEN_EPSILON),)
    if item in WORLDS:
        return _table_cells(item)
    raise InvalidParameter(f"item {item!r}: expected one of {', '.join(ITEMS)}")


def _is_at(cell: Cell) -> bool:
    return cell.epsilon in (None, FIGURE3_EPSILON)


def _table_cells(world: str) -> tuple[Cell, ...]:
    methods = METHODS if world == "synthetic" else TABLE_METHODS
    return tuple(
        Cell(
            world=world,
            method=method,
            epsilon=epsilon,
            dimension=PUBLISHED_DIMENSION if method == PUBLISHED else None,
        )
        for method in methods
        for epsilon in ((None,) if method in WITHOUT_EPSILON else EPSILONS)
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class CellResult:
    """Simple regret of a cell after every query, in standard deviations of the objective.

    Attributes:
        cell: which.
        curve: (T,) means over seeds.
        errors: (T,) standard errors of the means; NaN for a single seed.
        reps: number of seeds.
        first_seed: the first of them.
    """

    cell: Cell
    curve: FloatArray
    errors: FloatArray
    reps: int
    first_seed: int

    @property
    def regret(self) -> float:
        """After the last query."""
        return float(self.curve[-1])

    @property
    def standard_error(self) -> float:
        """Of `regret`."""
        return float(self.errors[-1])

    def to_json(self) -> dict[str, Any]:
        """Flat, with the curve."""
        return {
            "world": self.cell.world,
            "method": self.cell.method,
            "epsilon": self.cell.epsilon,
            "dimension": self.cell.dimension,
            "regret": self.regret,
            "standard_error": self.standard_error,
            "reps": self.reps,
            "first_seed": self.first_seed,
            "paper": None,
            "verdict": verdict(self),
            "curve": [round(value, 6) for value in self.curve.tolist()],
            "errors": [round(value, 6) for value in self.errors.tolist()],
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "CellResult":
        """Rebuild from `to_json`."""
        return cls(
            cell=Cell(**{name: row[name] for name in ("world", "method", "epsilon", "dimension")}),
            curve=np.array(row["curve"]),
            errors=np.array(row["errors"]),
            reps=row["reps"],
            first_seed=row["first_seed"],
        )


def run_item(
    item: Item,
    *,
    reps: int,
    seed: Seed = 1_000_000,
    jobs: int = 1,
    out: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
    of: Sequence[Cell] | None = None,
) -> tuple[CellResult, ...]:
    """Run the cells of an item (or the cells `of`), resuming from `out`/kharkovskii2020.jsonl.

    Raises:
        InvalidParameter: unknown item, or tuning seeds.
    """
    seeds = report_seeds(seed, reps)
    wanted = cells(item) if of is None else tuple(of)
    tasks = [
        Task(cell=cell.name, seed=s, settings=cell.settings, run=cell.simulate)
        for cell in wanted
        for s in seeds
    ]
    path = None if out is None else out / "kharkovskii2020.jsonl"
    records = run_tasks(tasks, path=path, jobs=jobs, progress=progress)
    results = []
    for start, cell in zip(range(0, len(records), reps), wanted, strict=True):
        curves = np.array([record["regret"] for record in records[start : start + reps]])
        errors = (
            curves.std(axis=0, ddof=1) / math.sqrt(reps) if reps > 1 else np.full(curves.shape[1], math.nan)
        )
        results.append(
            CellResult(cell=cell, curve=curves.mean(axis=0), errors=errors, reps=reps, first_seed=seeds[0])
        )
    return tuple(results)


def verdict(result: CellResult) -> str:
    """Against the target, where the cell has one; the paper's printed numbers were not at hand for any."""
    cell = result.cell
    target = TARGETS.get(cell.epsilon or 0.0)
    if cell.world != "synthetic" or cell.method != "L2-Laplace, kernel known" or target is None:
        return "paper's number not at hand"
    if result.regret > target:
        return f"target {target:g} missed"
    return f"target {target:g} met" + (
        "" if result.regret + 2.0 * result.standard_error < target else ", within two standard errors of it"
    )


_ALONG = ("orange", "amber", "green", "blue", "sky")
_FIXED = {
    "random rows": "grey",
    "non-private, marginal likelihood": "black",
    "non-private, kernel known": "black",
}


def picture(item: Item, results: Sequence[CellResult]) -> bytes:
    """PNG: regret against the number of queries, a panel a world, with bands of two standard errors."""
    names = [result.cell.world for result in results]
    worlds = sorted(
        dict.fromkeys(names), key=names.count
    )  # the legend stands at the last, which has all curves
    figure, axes = new_figure(width=4.6 * len(worlds) + 2.6, height=4.0, columns=len(worlds))
    for ax, world in zip(axes, worlds, strict=True):
        own = [result for result in results if result.cell.world == world]
        private = [
            result for result in own if result.cell.epsilon is not None and result.cell.method != PUBLISHED
        ]
        broken = [result for result in own if result.cell.method == PUBLISHED]
        for result in own:
            if result.cell.epsilon is None:
                _draw(
                    ax,
                    result,
                    colour=PALETTE[_FIXED[result.cell.method]],
                    style="--",
                    label=result.cell.method,
                )
        for index, result in enumerate(private):
            label = f"{result.cell.method.split(',')[0]}, epsilon {result.cell.epsilon:g}"
            colour = PALETTE["pink" if item == "figure3" else _ALONG[index % len(_ALONG)]]
            _draw(ax, result, colour=colour, style="-", label=label)
        for index, result in enumerate(broken):
            along = f"r {result.cell.dimension}" if item == "figure3" else f"epsilon {result.cell.epsilon:g}"
            colour = PALETTE["pink"] if item != "figure3" else PALETTE[_ALONG[index % len(_ALONG)]]
            style = ("-", "--", "-.", ":", (0, (1, 4)))[index % 5]
            _draw(ax, result, colour=colour, style=style, label=f"published (BROKEN), {along}")
        label_axes(ax, title=world, x="rows asked for", y="simple regret")
        ax.set_yscale("symlog", linthresh=1e-3)
        ax.set_ylim(bottom=0)
    add_legend(axes[-1])
    return to_png(figure)


def _draw(ax: Any, result: CellResult, *, colour: str, style: Any, label: str) -> None:
    queries = np.arange(1, len(result.curve) + 1)
    ax.plot(queries, result.curve, color=colour, linestyle=style, linewidth=1.6, label=label)
    low, high = result.curve - 2.0 * result.errors, result.curve + 2.0 * result.errors
    ax.fill_between(queries, np.maximum(low, 0.0), high, color=colour, alpha=0.12, linewidth=0)

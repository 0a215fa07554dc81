"""The experiments of Dubey2021: Figure 1 (epsilon), Figure 2 (delta), Table 1 (test functions).

Each cell is one policy at one promise in one world, over consecutive seeds. The paper prints curves for
the figures and no world seeds; what it leaves open is chosen in `environments.gap_world` and stated.
A number of ours is set beside the paper's only where the two measure the same thing; the verdict says so.

Columns: the published tree with the noise it needs; the same with its printed constants (Lemma 2);
block release; block release with public decision sets; local; in the figures also local as published
(Algorithm 3); no privacy; random. `targets` are the frozen default's runs on many seeds.

All runs use `SimulatedNoise`, whose scale is that of Gaussian DP: the comparison that papers make. The
secure source needs 7% more noise at (1, 1e-6).
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpbandits._typing import Seed
from dpbandits.central import GPBandit
from dpbandits.central.published import Dubey2021
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import FeatureGPUCB, Uniform
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.papers.dubey2021.local import local_settings, simulate_local, simulate_published_local
from dpbandits.lab.papers.dubey2021.worlds import (
    ROBUSTNESS_WORLDS,
    TABLE_WORLDS,
    block_features,
    tree_features,
    world,
)
from dpbandits.lab.study import Record, Task, run_tasks
from dpbandits.policy import Policy
from dpbandits.privacy.definitions import JointDP, LargeDelta
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.privacy.prefix_sums import square_root_toeplitz

__all__ = ["AIMS", "COLUMNS", "ITEMS", "Cell", "CellResult", "Item", "cells", "run_item", "world"]

Item = Literal["figure1", "figure2", "table1", "robustness", "targets"]
ITEMS: tuple[Item, ...] = ("figure1", "figure2", "table1", "robustness", "targets")

EPSILONS = (0.5, 1.0, 10.0)
FIGURE1_DELTA = 1e-5
DELTAS = (1e-5, 1e-3, 0.1)
FIGURE2_EPSILON = 1.0
TABLE_PROMISES = ((1.0, 1e-5), (1.0, 0.1))

TREE, PRINTED = "tree, right noise", "tree, printed Lemma 2"
BLOCKS, PUBLIC = "block release", "block release, public sets"
LOCAL, LOCAL_PUBLISHED = "local", "local, as published"
OPEN, RANDOM = "non-private", "random"
SIMPLE, TRUSTING = "block release, simple form", "block release, Gram from the public law"
COLUMNS = (TREE, PRINTED, BLOCKS, PUBLIC, LOCAL, OPEN, RANDOM)
FIGURE_COLUMNS = (TREE, PRINTED, BLOCKS, PUBLIC, LOCAL, LOCAL_PUBLISHED, OPEN, RANDOM)
ROBUSTNESS_COLUMNS = (BLOCKS, SIMPLE, TRUSTING, OPEN, RANDOM)

SIMPLE_BLOCK = 32
"""Rounds in a block of the simple form: equal blocks, square-root factor, the last prefix sum alone."""


def make_policy(column: str, name: str, promise: JointDP | None, seed: Seed) -> Policy:
    """A fresh policy of a column in a world."""
    environment = world(name, seed)
    common: dict[str, Any] = {
        "domain": environment.domain,
        "reward_range": environment.reward_range,
        "horizon": environment.horizon,
        "user_ids": False,
        "seed": seed,
    }
    if column == RANDOM:
        return Uniform(**common)
    if column == OPEN:
        return FeatureGPUCB(**common, features=block_features(name))
    if promise is None:
        raise InvalidParameter(f"column {column!r} needs a promise")
    private = {**common, "privacy": promise, "noise": SimulatedNoise(seed)}
    if column in (TREE, PRINTED):
        return Dubey2021(
            **private,
            features=tree_features(name),
            paper_constants=None if column == TREE else "lemma-2",
        )
    if column in (BLOCKS, PUBLIC):
        return GPBandit(
            **private,
            features=block_features(name),
            decision_sets="private" if column == BLOCKS else "public",
        )
    if column == TRUSTING:
        return GPBandit(**private, features=block_features(name), public_law_spread=0.0)
    if column == SIMPLE:
        ends = tuple(range(SIMPLE_BLOCK, environment.horizon, SIMPLE_BLOCK))
        return GPBandit(
            **private,
            features=block_features(name),
            blocks=ends,
            factor=square_root_toeplitz(len(ends)),
            regression="prefix",
            prior_variance=0.3,
            thompson_scale=0.0,
        )
    raise InvalidParameter(f"column {column!r}: expected one of {COLUMNS}")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One policy at one promise in one world.

    Args:
        column: one of `COLUMNS`.
        world: one of `WORLDS`.
        epsilon, delta: the promise; None for columns without one.
    """

    column: str
    world: str
    epsilon: float | None = None
    delta: float | None = None

    @property
    def name(self) -> str:
        """What records call it."""
        promise = "" if self.epsilon is None else f" ({self.epsilon:g}, {self.delta:g})"
        return f"{self.world}: {self.column}{promise}"

    def simulate(self, seed: Seed) -> Record:
        """Total regret of one run, and of a uniformly random policy in the same world."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", LargeDelta)  # the papers' delta, for comparison with them
            return self._simulate(seed)

    def _simulate(self, seed: Seed) -> Record:
        if self.column == LOCAL:
            return simulate_local(self.world, self.promise, seed)
        if self.column == LOCAL_PUBLISHED:
            return simulate_published_local(self.world, self.promise, seed)
        policy = make_policy(self.column, self.world, self.promise, seed)
        result = run(policy, world(self.world, seed))
        if result.regret is None or result.best is None or result.uniform is None:
            raise InvalidParameter("this world does not know its regret")
        return {
            "regret": float(result.regret.sum()),
            "random": float((result.best - result.uniform).sum()),
            "seconds": result.seconds,
        }

    @property
    def promise(self) -> JointDP | None:
        """As a definition."""
        return None if self.epsilon is None else JointDP(epsilon=self.epsilon, delta=self.delta or 0.0)


AIMS = {
    Cell(column=BLOCKS, world="figure1", epsilon=1.0, delta=1e-5): 112.0,
    Cell(column=BLOCKS, world="figure1", epsilon=1.0, delta=0.1): 50.0,
    Cell(column=BLOCKS, world="figure1", epsilon=10.0, delta=1e-5): 37.0,
    Cell(column=BLOCKS, world="figure1-4096", epsilon=1.0, delta=1e-5): 145.0,
    Cell(column=BLOCKS, world="figure1-4096", epsilon=1.0, delta=0.1): 50.0,
    Cell(column=LOCAL, world="figure1", epsilon=1.0, delta=0.1): 280.0,
    Cell(column=BLOCKS, world="camelback", epsilon=1.0, delta=1e-5): 600.0,
}
"""Regret that was aimed at before anything was run."""


def cells(item: Item, *, columns: Sequence[str] | None = None) -> tuple[Cell, ...]:
    """The cells of a figure or table, by default in all of its columns."""
    if item == "targets":
        return tuple(cell for cell in AIMS if columns is None or cell.column in columns)
    if columns is None:
        of_item = {"figure1": FIGURE_COLUMNS, "figure2": FIGURE_COLUMNS, "robustness": ROBUSTNESS_COLUMNS}
        columns = of_item.get(item, COLUMNS)
    if item == "figure1":
        promises = [(epsilon, FIGURE1_DELTA) for epsilon in EPSILONS]
        names: Sequence[str] = ("figure1",)
    elif item == "figure2":
        promises = [(FIGURE2_EPSILON, delta) for delta in DELTAS]
        names = ("figure1",)
    elif item == "table1":
        promises = list(TABLE_PROMISES)
        names = TABLE_WORLDS
    elif item == "robustness":
        promises = list(TABLE_PROMISES)
        names = ROBUSTNESS_WORLDS
    else:
        raise InvalidParameter(f"item {item!r}: expected one of {ITEMS}")
    found = []
    for name in names:
        for column in columns:
            if column in (OPEN, RANDOM):
                found.append(Cell(column=column, world=name))
            else:
                found += [Cell(column=column, world=name, epsilon=e, delta=d) for e, d in promises]
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class CellResult:
    """Regret of one cell.

    Attributes:
        cell: which.
        regret: mean over seeds; `standard_error` of it.
        median: over seeds.
        reps: number of seeds, from `first_seed` on.
        seconds: mean time of the policy's own calls.
    """

    cell: Cell
    regret: float
    standard_error: float
    median: float
    reps: int
    first_seed: Seed
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Flat: what --json prints and result files hold."""
        return {
            "world": self.cell.world,
            "column": self.cell.column,
            "epsilon": self.cell.epsilon,
            "delta": self.cell.delta,
            "regret": self.regret,
            "standard_error": self.standard_error,
            "median": self.median,
            "reps": self.reps,
            "first_seed": self.first_seed,
            "seconds": self.seconds,
        }

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "CellResult":
        """Read a row; fields that are not of a result are left out."""
        cell = Cell(column=row["column"], world=row["world"], epsilon=row["epsilon"], delta=row["delta"])
        names = ("regret", "standard_error", "median", "reps", "seconds")
        # files of before the field was written start at the first report seed
        first = row.get("first_seed", FIRST_REPORT_SEED)
        return cls(cell=cell, first_seed=first, **{name: row[name] for name in names})


def run_item(
    item: Item,
    *,
    reps: int,
    seed: Seed = 1_000_000,
    jobs: int = 1,
    out: Path | None = None,
    columns: Sequence[str] | None = None,
    worlds: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
    of: Sequence[Cell] | None = None,
) -> tuple[CellResult, ...]:
    """Run the cells of an item (or the cells `of`), resuming from `out`/dubey2021.jsonl.

    Args:
        item: figure or table.
        reps: seeds of every cell, from `seed` on.
        seed: the first; report seeds only.
        jobs: processes.
        out: folder of the records.
        columns, worlds: only these, by default all.
        progress: called with (done, total).
        of: cells that are run instead of the item's.

    Raises:
        InvalidParameter: unknown item, column or world, nothing to run, or tuning seeds.
    """
    seeds = report_seeds(seed, reps)
    wanted = cells(item, columns=columns) if of is None else tuple(of)
    if worlds is not None:
        wanted = tuple(cell for cell in wanted if cell.world in worlds)
    if not wanted:
        raise InvalidParameter(f"{item} has no such columns in such worlds")
    tasks = [
        Task(cell=cell.name, seed=s, settings=_settings(cell), run=cell.simulate)
        for cell in wanted
        for s in seeds
    ]
    path = None if out is None else out / "dubey2021.jsonl"  # items share cells
    records = run_tasks(tasks, path=path, jobs=jobs, progress=progress)
    results = []
    for start, cell in zip(range(0, len(records), reps), wanted, strict=True):
        own = records[start : start + reps]
        regrets = np.array([record["regret"] for record in own])
        error = float(regrets.std(ddof=1) / math.sqrt(reps)) if reps > 1 else math.nan
        results.append(
            CellResult(
                cell=cell,
                regret=float(regrets.mean()),
                standard_error=error,
                median=float(np.median(regrets)),
                reps=reps,
                first_seed=seed,
                seconds=float(np.mean([record["seconds"] for record in own])),
            )
        )
    return tuple(results)


def _settings(cell: Cell) -> dict[str, Any]:
    """What a result depends on: the policy's whole public configuration, but for the seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LargeDelta)
        return _settings_of(cell)


def _settings_of(cell: Cell) -> dict[str, Any]:
    if cell.column in (LOCAL, LOCAL_PUBLISHED):
        return local_settings(cell.world, cell.promise, published=cell.column == LOCAL_PUBLISHED)
    config = make_policy(cell.column, cell.world, cell.promise, 0).to_config()
    return {"policy": config, "world": cell.world}

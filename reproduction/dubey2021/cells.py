"""Cells of Dubey2021's figures and table: one policy with one guarantee in one world.

The paper prints curves for the figures and no world seeds; what it leaves open is chosen in
`gap_world` and stated. A number of ours is set beside the paper's only where the two measure the same
thing; the verdict says so.

Central columns are the published tree with the noise it needs, the same with its printed constants (Lemma 2),
and block release. Local ones are ours and Algorithm 3 as published. The tree and Algorithm 3 also run with a
smaller shift than Lemmas 3 and 6 print, which nobody published. `AGGREGATED`
columns sum each block with fresh noise, as secure aggregation does. Two columns are without privacy and
random.

All runs use `SimulatedNoise`, whose scale is that of Gaussian DP: the comparison that papers make. The
secure source needs 7% more noise at (1, 1e-6).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from dpbandits._typing import Seed
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.published import Dubey2021, Dubey2021Tuning
from dpbandits.central.published.printed import Formula
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import BlockAggregation, FeatureGPUCB, Uniform
from dpbandits.lab.evaluation import run
from dpbandits.lab.plot import LINES, PALETTE, draw_points, label_axes, panels
from dpbandits.lab.study import Cell, Record, Row, values_of
from dpbandits.policy import Policy
from dpbandits.privacy.definitions import JointDP, LargeDelta
from dpbandits.privacy.gram_vector import SpectralBound
from dpbandits.privacy.noise import SimulatedNoise
from reproduction.dubey2021.local import local_settings, simulate_local, simulate_published_local
from reproduction.dubey2021.tree import simulate_tree
from reproduction.dubey2021.worlds import block_features, tree_features, world_of
from reproduction.experiments import Item

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["AGGREGATED", "COLUMNS", "PolicyCell", "make_policy", "picture", "policy_cells", "policy_item"]

TREE, PRINTED, SHARP = "tree, right noise", "tree, printed Lemma 2", "tree, right noise, sharp shift"
BLOCKS, LOCAL, LOCAL_PUBLISHED = "block release", "local", "local, as published"
LOCAL_SHARP = "local, sharp shift"
OPEN, RANDOM = "non-private", "random"
AGGREGATED: dict[str, tuple[Literal["features", "cells"], int]] = {
    "block sums": ("features", 1),
    "block sums, two noises": ("features", 2),
    "block sums in cells": ("cells", 1),
    "block sums in cells, two noises": ("cells", 2),
}
"""`BlockAggregation` by column: the sums, and how many noises are added; one keeps the promise."""

PAPER_COLUMNS = (TREE, PRINTED, SHARP, BLOCKS, OPEN, RANDOM)
COLUMNS = (*PAPER_COLUMNS, LOCAL, LOCAL_PUBLISHED, LOCAL_SHARP, *AGGREGATED)
PUBLISHED = (TREE, PRINTED, LOCAL_PUBLISHED)
"""Columns that run the paper's method with the paper's shift."""

CONSTANTS: dict[str, Formula | None] = {TREE: None, PRINTED: "lemma-2", SHARP: None}
"""Columns of the published tree, with the printed formula that its noise follows."""

LOCAL_BOUNDS: dict[str, SpectralBound] = {LOCAL_PUBLISHED: "printed", LOCAL_SHARP: "sharp"}
"""Columns of Algorithm 3, with the bound on the noise that their shift follows."""

# The papers' deltas are large: for comparison with them.
_LARGE_DELTA = partial(warnings.catch_warnings, action="ignore", category=LargeDelta)


def make_policy(column: str, name: str, promise: JointDP | None, seed: Seed) -> Policy:
    """A fresh policy of a column in a world."""
    environment = world_of(name, seed)
    common: dict[str, Any] = {
        "domain": environment.domain,
        "reward_range": environment.reward_range,
        "horizon": environment.horizon,
        "seed": seed,
    }
    if column == RANDOM:
        return Uniform(**common)
    if column == OPEN:
        return FeatureGPUCB(**common, features=block_features(name))
    if promise is None:
        raise InvalidParameter(f"column {column!r} needs a promise")
    private = {**common, "privacy": replace(promise, user_ids=False), "noise": SimulatedNoise(seed)}
    if column in CONSTANTS:
        return Dubey2021(
            **private,
            paper_constants=CONSTANTS[column],
            features=tree_features(name),
            tuning=Dubey2021Tuning(spectral_bound="sharp" if column == SHARP else "printed"),
        )
    if column == BLOCKS:
        return GPBandit(**private, tuning=GPTuning(features=block_features(name)))
    if column in AGGREGATED:
        release, noises = AGGREGATED[column]
        tuning = GPTuning(release=release, features=block_features(name))
        return BlockAggregation(**private, noises=noises, tuning=tuning)
    raise InvalidParameter(f"column {column!r}: expected one of {COLUMNS}")


@dataclass(frozen=True, kw_only=True)
class PolicyCell(Cell):
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

    measures: ClassVar = {"regret": ("regret", "standard_error")}

    @property
    def name(self) -> str:
        """Name of the cell in records."""
        promise = "" if self.epsilon is None else f" ({self.epsilon:g}, {self.delta:g})"
        return f"{self.world}: {self.column}{promise}"

    def policy(self, seed: Seed) -> Policy:
        """A fresh policy of this column, in its world."""
        return make_policy(self.column, self.world, self.promise, seed)

    def simulate(self, seed: Seed) -> Record:
        """Total regret of one run, and of a uniformly random policy in the same world."""
        with _LARGE_DELTA():
            if self.column == LOCAL:
                return simulate_local(self.world, self.promise, seed)
            if self.column in LOCAL_BOUNDS:
                bound = LOCAL_BOUNDS[self.column]
                return simulate_published_local(self.world, self.promise, seed, bound=bound)
            policy = self.policy(seed)
            if isinstance(policy, Dubey2021):
                return simulate_tree(policy, self.world, seed)
            result = run(policy, world_of(self.world, seed))
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

    @property
    def settings(self) -> dict[str, Any]:
        """Settings on which a result depends: the policy's public configuration without the seed."""
        with _LARGE_DELTA():
            if self.column in (LOCAL, *LOCAL_BOUNDS):
                return local_settings(self.world, self.promise, bound=LOCAL_BOUNDS.get(self.column))
            config = self.policy(0).to_config()
        return {"policy": config, "world": self.world}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Regret with its standard error and median, seconds of the policy's own calls, and the verdict.

        Seconds are 0 where the run is simulated on arrays: local, and the published tree.
        """
        (row,) = super().rows(records)
        row["median"] = float(np.median(values_of(records, "regret")))
        row["seconds"] = float(values_of(records, "seconds").mean())
        row["verdict"] = verdict(self)
        return [row]


def verdict(cell: PolicyCell) -> str:
    """Return why the paper's number cannot be compared with ours.

    The figures of the paper are curves without numbers. The paper states neither the seeds of the functions
    nor the candidates between the two levels, and not the table's candidate sets.
    """
    if cell.column not in PUBLISHED:
        return "not in the paper"
    if cell.world == "printed":
        return "cannot be compared: curves, functions not given"
    return "cannot be compared: candidate sets not stated"


def policy_cells(
    worlds: Sequence[str], columns: Sequence[str], promises: Sequence[tuple[float | None, float | None]]
) -> tuple[PolicyCell, ...]:
    """Every column in every world, at every promise where it has one."""
    return tuple(
        PolicyCell(column=column, world=name, epsilon=epsilon, delta=delta)
        for name in worlds
        for column in columns
        for epsilon, delta in ([(None, None)] if column in (OPEN, RANDOM) else promises)
    )


COLOURS = {
    TREE: "orange",
    PRINTED: "pink",
    SHARP: "sky",
    BLOCKS: "blue",
    LOCAL: "green",
    LOCAL_PUBLISHED: "amber",
    LOCAL_SHARP: "sky",
    **dict(zip(AGGREGATED, ("sky", "pink", "orange", "amber"), strict=True)),
    OPEN: "black",
    RANDOM: "grey",
}


def picture(rows: Sequence[Row], *, along: str = "(epsilon, delta)") -> "Figure":
    """A figure or table: regret by policy, with two standard errors, a panel a world."""
    promise = itemgetter("epsilon", "delta")
    figure, found = panels(rows, width=4.2)
    for ax, name, panel in found:
        promises = list(dict.fromkeys(promise(row) for row in panel if row["epsilon"] is not None))
        private = [row["column"] for row in panel if row["epsilon"] is not None]
        styles = {
            column: line for column, (_, *line) in zip(dict.fromkeys(private), cycle(LINES), strict=False)
        }
        for column in dict.fromkeys(row["column"] for row in panel):
            own = [row for row in panel if row["column"] == column]
            if own[0]["epsilon"] is None:
                style = ":" if column == RANDOM else (0, (8, 2))
                ax.axhline(own[0]["regret"], color=PALETTE[COLOURS[column]], linestyle=style, label=column)
                continue
            at = [promises.index(promise(row)) for row in own]
            regrets, errors = ([row[key] for row in own] for key in ("regret", "standard_error"))
            dash, mark = styles[column]
            line = {"colour": COLOURS[column], "linestyle": dash, "marker": mark, "label": column}
            draw_points(ax, at, regrets, errors, **line)
        labels = [f"{d:g}" if along == "delta" else f"({e:g}, {d:g})" for e, d in promises]
        ax.set_xticks(range(len(promises)), labels)
        label_axes(ax, title=name, x=along, y="regret" if ax is found[0][0] else "")
        ax.set_ylim(bottom=0)
    found[-1][0].legend(fontsize=7)
    return figure


policy_item = partial(
    Item,
    key=("world", "column", "epsilon", "delta"),
    shown=(
        "world | column | epsilon:g | delta:g | regret:.0f | standard_error:.1f | median:.0f"
        " | paper | verdict"
    ),
    texts={"paper": lambda _: "not printed"},
    picture=picture,
)

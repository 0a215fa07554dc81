"""Cells of Ma2025's figures and table: a cell is one method on one crowd, and an item has many cells.

The figures run in two worlds: the one that the paper prints, on the grids of its captions, and the one of the
runs that its authors publish, at the places of those runs. Regret is the average over the target's
users. Noise is simulated. The published runs are 30 to 80 a place, not the hundred that the paper says; items
here repeat twenty times unless they are told otherwise.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbandits._typing import Seed
from dpbandits.lab.study import Cell, Record, Row, Runs
from reproduction.experiments import Item, rounded
from reproduction.ma2025.methods import (
    CODE_METHODS,
    CODE_WORLD,
    CONSTANTS,
    MARKS,
    NOT_PRIVATE,
    PRINTED_CONSTANTS,
    Source,
    code_curves,
    constants_of,
    curve,
    local_curves,
)
from reproduction.ma2025.published import BATCHES, PLANNED, published_at, runs_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = [
    "FIRST_SEED",
    "PRINTED_METHODS",
    "SHIFT_METHODS",
    "CrowdCell",
    "PrintedCell",
    "PublishedCell",
    "WatchedCell",
    "WholeCell",
    "crowd_item",
    "crowds",
    "published_cells",
    "verdict",
]

FIRST_SEED = 5_000_000
"""First report seed of this study."""

EPSILONS = (1.0, 2.0, 4.0, 8.0)
PRINTED_WORLD = "ma-edge"
"""The paper's: centres k/K."""

PRINTED_METHODS = ("tree", *PRINTED_CONSTANTS)
"""Ours, and the paper's algorithm with each of its constants that are tried."""

SHIFT_METHODS = PRINTED_METHODS[:-1]
"""Methods in items with sources. C_n = 64 ln n drops no arm in Figures 6 and 7a, and is not run again."""

LARGEST_EPSILON = 16.0
"""Epsilon of our reports for the paper's 1,024: the radius (14) stays in bins of up to 64 parts."""

MOST_VERSIONS = 400
"""Largest number of versions of our method in Figures 7 to 9.

It publishes after 100 reports, or after a 400th of all reports."""


@dataclass(frozen=True, kw_only=True)
class CrowdCell(Cell):
    """One method on one world or table.

    Attributes:
        method: one of `methods.METHODS`.
        world: Name of a synthetic world or of a table.
        epsilon: Epsilon of the target's reports; None without privacy.
        n_users: Number of users, at most that of a table; None uses all of its users.
        sources: Sources, in order.
    """

    method: str
    world: str
    epsilon: float | None = None
    n_users: int | None = None
    sources: tuple[Source, ...] = ()

    fields: ClassVar = {"column": "method", "rounds": "n_users"}
    measures: ClassVar = {"curve": ("curve", "curve_errors")}
    run: ClassVar[dict[str, Any]] = {}
    """Arguments of `methods.curve` that differ from the defaults."""

    @property
    def label(self) -> Row:
        """The fields."""
        return asdict(self) | {"sources": [asdict(source) for source in self.sources]}

    @property
    def row_name(self) -> str:
        """The method, and whether it has sources."""
        return self.method + (" with sources" if self.sources else "")

    @property
    def name(self) -> str:
        """Name of the cell in records."""
        promise = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        people = "" if self.n_users is None else f", n = {self.n_users}"
        return f"{self.world}: {self.row_name}{promise}{people}"

    def simulate(self, seed: Seed) -> Record:
        """Average regret of the users so far, at `MARKS` points."""
        own: dict[str, Any] = {"epsilon": self.epsilon, "n_users": self.n_users, "sources": self.sources}
        return {"curve": rounded(curve(self.method, self.world, seed=seed, **own, **self.run), 7)}

    @property
    def settings(self) -> dict[str, Any]:
        """Settings on which a result depends besides the name and the seed."""
        constants = constants_of(self.method, self.world, self.sources)
        return {"constants": constants, "sources": self.label["sources"], **self.run}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Regret at n and at n/4, and the whole curve."""
        (row,) = super().rows(records)
        curve, errors = row["curve"], row["curve_errors"]
        quarter = MARKS // 4 - 1
        row |= {"regret": curve[-1], "standard_error": errors[-1]}
        row |= {"regret_at_quarter": curve[quarter], "standard_error_at_quarter": errors[quarter]}
        row["verdict"] = verdict(self)
        return [row | {"curve": rounded(curve, 5), "curve_errors": rounded(errors, 5)}]


@dataclass(frozen=True, kw_only=True)
class WholeCell(CrowdCell):
    """One method on everybody of a table, not on the half that constants were not chosen on."""

    run: ClassVar[dict[str, Any]] = {"half": None}


@dataclass(frozen=True, kw_only=True)
class PrintedCell(CrowdCell):
    """One method on the paper's world, ours publishing at most `MOST_VERSIONS` times."""

    run: ClassVar[dict[str, Any]] = {"versions": MOST_VERSIONS}


@dataclass(frozen=True, kw_only=True)
class PublishedCell(CrowdCell):
    """One method at a place of a figure of which the authors publish runs, in the world of those runs.

    Attributes:
        figure: "6" to "9c".
    """

    figure: str

    at_once: ClassVar[int] = 10

    @property
    def versions(self) -> int:
        """Number of times that ours publishes at most: fewer where there are sources to run."""
        return MOST_VERSIONS if self.figure in ("7a", "7b") else MOST_VERSIONS // 4

    @property
    def label(self) -> Row:
        """The fields; the figure is the item's."""
        return {name: value for name, value in super().label.items() if name != "figure"}

    @property
    def code(self) -> dict[str, Any]:
        """How the authors' script of this figure runs their code; see `CodeOptions`."""
        options = {"batch": BATCHES[self.figure], "planned": PLANNED[self.figure]}
        return options | {"weighted": self.figure != "6"}

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the authors' script, or of the method."""
        if self.method in CODE_METHODS:
            return {"code": self.code | CODE_METHODS[self.method], "sources": self.label["sources"]}
        return super().settings | {"versions": self.versions, "largest_epsilon": LARGEST_EPSILON}

    def simulate(self, seed: Seed) -> Record:
        """Average regret of the users so far, at `MARKS` points."""
        return self.simulate_several([seed])[0]

    def simulate_several(self, seeds: Sequence[Seed]) -> list[Record]:
        """The authors' code runs several crowds side by side."""
        if self.method in CODE_METHODS:
            curves, _, _ = code_curves(self.method, self.world, seeds=seeds, **self._crowd, **self.code)
        else:
            versions: dict[str, Any] = {"versions": self.versions} | self._crowd
            curves = np.stack([curve(self.method, self.world, seed=seed, **versions) for seed in seeds])
        return [{"curve": rounded(one, 7)} for one in curves]

    @property
    def _crowd(self) -> dict[str, Any]:
        """Users, epsilons and sources; this library's reports have no epsilon above `LARGEST_EPSILON`."""
        most = math.inf if self.method in CODE_METHODS else LARGEST_EPSILON
        sources = tuple(replace(one, epsilon=min(one.epsilon, most)) for one in self.sources)
        return {"epsilon": min(self.epsilon or math.inf, most), "n_users": self.n_users, "sources": sources}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Besides, what the authors publish of the place."""
        (row,) = super().rows(records)
        there = published_at(self.figure, self.epsilon, self.n_users, self.sources)
        row |= {"published": there.regret, "published_error": there.standard_error}
        row |= {"published_reps": there.reps}
        if self.method in CODE_METHODS:
            private = "not private; " if self.method in NOT_PRIVATE else ""
            row["verdict"] = f"{private}{row['regret'] / there.regret:.2f} of the published runs"
        return [row]


@dataclass(frozen=True, kw_only=True)
class WatchedCell(PublishedCell):
    """One method at a place of Figure 6, and its arms at one context.

    Attributes:
        point: the context.
        step: users between two versions, as in the authors' script.
    """

    figure: str = "6"
    point: tuple[float, ...]
    step: int = BATCHES["6"]

    measures: ClassVar = {
        "curve": ("curve", "curve_errors"),
        "local": ("local_curve", "local_errors"),
        "shares": ("arm_shares", None),
    }

    def simulate_several(self, seeds: Sequence[Seed]) -> list[Record]:
        """Average regret of all, average regret at the point, and shares of the arms there, at the marks."""
        own: dict[str, Any] = {"point": self.point, **self._crowd}
        if self.method in CODE_METHODS:
            found = code_curves(self.method, self.world, seeds=seeds, **own, **self.code)
            runs = list(zip(*(() if part is None else part for part in found), strict=True))
        else:
            runs = [local_curves(self.method, self.world, seed=s, step=self.step, **own) for s in seeds]
        return [
            {
                "curve": rounded(regret, 7),
                "local": rounded(local, 7),
                "shares": [rounded(mark, 5) for mark in shares],
            }
            for regret, local, shares in runs
        ]

    @property
    def settings(self) -> dict[str, Any]:
        """And where it looks, how often."""
        return super().settings | {"point": list(self.point), "step": self.step}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Besides, regret at the point of the whole time."""
        (row,) = super().rows(records)
        row |= {"local_regret": row["local_curve"][-1], "local_standard_error": row["local_errors"][-1]}
        short = {name: rounded(row[name], 5) for name in ("local_curve", "local_errors")}
        return [row | short | {"arm_shares": [rounded(mark, 4) for mark in row["arm_shares"]]}]


def published_cells(figure: str, methods: Sequence[str]) -> list[PublishedCell]:
    """Every method at every place of a figure of which runs are published, once."""
    places = dict.fromkeys((run.epsilon, run.n_users, run.sources) for run in runs_of(figure))
    return [
        PublishedCell(
            figure=figure, method=method, world=CODE_WORLD, epsilon=epsilon, n_users=n, sources=sources
        )
        for method in methods
        for epsilon, n, sources in places
    ]


def verdict(cell: CrowdCell) -> str:
    """Why a published number and ours cannot be compared."""
    if cell.method in ("tree", "smooth", "ma2025-tuned"):
        return "not in the paper"
    if cell.method in CONSTANTS or cell.method == "ma2025":
        return "cannot be compared: the published runs have other noise"
    return "cannot be compared: other columns and pairs than the paper's"


def crowds(
    *,
    worlds: Sequence[str] = ("ma",),
    methods: Sequence[str] = ("tree", "ma2025"),
    epsilons: Sequence[float | None] = (1.0,),
    sizes: Sequence[int | None],
    sources: Sequence[tuple[Source, ...]] = ((),),
    kind: type[CrowdCell] = CrowdCell,
) -> list[CrowdCell]:
    """Every method in every world at every epsilon, with so many users and such sources."""
    return [
        kind(method=method, world=world, epsilon=epsilon, n_users=n, sources=those)
        for world, method, epsilon, n, those in product(worlds, methods, epsilons, sizes, sources)
    ]


def _sources_text(row: Row) -> str:
    """Size, epsilon, gamma and kappa of every source."""
    return "; ".join(
        f"{source['n_users'] or 'all'} at {source['epsilon']:g} ({source['gamma']:g}, {source['kappa']:g})"
        for source in row["sources"]
    )


def crowd_item(
    about: str,
    cells: Sequence[CrowdCell],
    *,
    picture: "Callable[[Sequence[Row]], Figure]",
    compare: Callable[[Sequence[Runs]], dict[str, Any]] | None = None,
    reps: int = 20,
) -> Item:
    """A figure or table made of crowds."""
    return Item(
        about=about,
        cells=cells,
        key=("world", "method", "epsilon", "n_users", "sources"),
        shown=(
            "world | method | epsilon:g | n_users:, | sources | regret_at_quarter:.4f"
            " | regret:.4f | standard_error:.4f | published:.4f | verdict"
        ),
        texts={"sources": _sources_text},
        picture=picture,
        compare=compare,
        reps=reps,
    )

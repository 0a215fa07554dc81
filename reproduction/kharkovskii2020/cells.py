"""Cells of Kharkovskii2020's figures and tables: one method at one epsilon in one world."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbandits._typing import Seed
from dpbandits.lab.plot import (
    LINES,
    PALETTE,
    add_legend,
    draw_band,
    draw_points,
    label_axes,
    new_figure,
    panels,
)
from dpbandits.lab.study import Cell, Record, Row, values_of
from dpbandits.outsourced.modeler.modeler import DEFAULT_EXPLORATION
from reproduction.experiments import Item, rounded
from reproduction.kharkovskii2020 import methods
from reproduction.kharkovskii2020.methods import (
    FORMS,
    GP_UCB,
    GP_UCB_CODE,
    GP_UCB_DEVIATIONS,
    GP_UCB_FIFTH,
    LIKELY,
    PUBLISHED,
    PUBLISHED_BY_TEN,
    PUBLISHED_CODE,
    PUBLISHED_DEVIATIONS,
    PUBLISHED_FIFTH,
    PUBLISHED_UNDIVIDED,
    WITHOUT_EPSILON,
    Method,
)
from reproduction.kharkovskii2020.worlds import WORLDS, SearchWorld

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "CELLS",
    "PAPER",
    "PAPERS_REPS",
    "SMALL_R",
    "SMALL_R_PLACES",
    "AttackCell",
    "SearchCell",
    "TailedCell",
    "as_printed_cells",
    "code_cells",
    "fifth_cells",
    "many_cells",
    "picture",
    "printed_cells",
    "printed_picture",
    "search_item",
    "shorter_cells",
    "small_r_cells",
    "verdict",
]

PAPER: dict[tuple[str, float], dict[int, float]] = {
    ("synthetic", 1.1): {3: 0.073, 6: 0.038, 8: 0.018, 10: 0.014, 15: 0.118, 20: 0.137},
    ("synthetic", 1.3): {3: 0.091, 9: 0.009, 12: 0.019, 15: 0.008, 20: 0.127, 30: 0.134},
    ("synthetic", 1.5): {5: 0.05, 10: 0.021, 15: 0.003, 20: 0.002, 30: 0.094, 50: 0.142},
    ("loans", 2.7): {3: 0.083, 6: 0.088, 8: 0.078, 10: 0.069, 15: 0.081, 20: 0.076},
    ("loans", 2.9): {3: 0.091, 9: 0.076, 12: 0.078, 15: 0.077, 20: 0.1, 30: 0.096},
    ("loans", 3.1): {5: 0.097, 10: 0.091, 15: 0.069, 20: 0.084, 30: 0.104, 50: 0.127},
    ("ames", 2.6): {3: 0.682, 6: 0.516, 8: 0.495, 10: 0.485, 15: 0.485, 20: 0.493},
    ("ames", 2.8): {3: 0.567, 9: 0.553, 12: 0.479, 15: 0.453, 20: 0.493, 30: 0.52},
    ("ames", 3.0): {5: 0.591, 10: 0.523, 15: 0.486, 20: 0.482, 30: 0.489, 50: 0.488},
    ("branin31", 2.3): {3: 0.53, 6: 0.184, 8: 0.038, 10: 0.0, 15: 0.005, 20: 0.024},
    ("branin31", 2.5): {3: 0.259, 9: 0.001, 12: 0.0, 15: 0.0, 20: 0.014, 30: 0.026},
    ("branin31", 2.7): {5: 0.152, 10: 0.0, 15: 0.0, 20: 0.0, 30: 0.005, 50: 0.073},
}
"""Tables 1 to 12, regret of the published method after 50 rows (property 100): by world, ln epsilon, r.

Of loans and property other tables stand in here, `loans` and `ames`."""

PAPERS_REPS = 50
"""Runs behind every number that the paper prints."""

_STAND_INS = ("loans", "ames")

TARGETS = {0.5: 0.15, 1.0: 0.07, 3.0: 0.01, 8.0: 0.003}
"""Regret of "L2-Laplace, kernel known" in the synthetic study that was aimed at, by epsilon."""


@lru_cache(maxsize=4)
def fixed_world(name: str) -> SearchWorld:
    """A world that is the same for every seed."""
    return WORLDS[name](0)


@dataclass(frozen=True, kw_only=True)
class SearchCell(Cell):
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

    fields: ClassVar = {"column": "method"}
    measures: ClassVar = {
        "regret": ("regret", "standard_error"),
        "mean": ("mean", "mean_se"),
        "top": ("top", "top_se"),
    }

    @property
    def name(self) -> str:
        """Name of the cell in records."""
        epsilon = "" if self.epsilon is None else f", epsilon {self.epsilon:g}"
        dimension = "" if self.dimension is None else f", r {self.dimension}"
        return f"{self.world}: {self.method}{epsilon}{dimension}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings on which a result depends besides the seed."""
        return {"horizon": methods.HORIZON, "exploration": DEFAULT_EXPLORATION, "version": 3}

    @property
    def run(self) -> Method:
        """Method of the cell."""
        if self.method in FORMS and self.dimension is not None:
            return methods.published(self.dimension, form=FORMS[self.method])
        if self.method in methods.PRINTED_METHODS:
            return methods.PRINTED_METHODS[self.method]
        if self.world != "synthetic":
            return methods.TABLE_METHODS[self.method]
        return {**methods.TABLE_METHODS, **methods.METHODS, **methods.HIDING_METHODS}[self.method]

    @property
    def paper(self) -> float | None:
        """The paper's own number, where it prints one."""
        if self.method not in FORMS or self.epsilon is None or self.dimension is None:
            return None
        for (world, power), along in PAPER.items():
            if world == self.world.partition("-")[0] and math.isclose(
                self.epsilon, math.exp(power), rel_tol=1e-9
            ):
                return along.get(self.dimension)
        return None

    def simulate(self, seed: Seed) -> Record:
        """Simple regret after every query of one run, the mean of the rows asked, and those in the top 1%."""
        # only synthetic worlds are others for every seed
        drawn = self.world.startswith("synthetic")
        world = WORLDS[self.world](seed) if drawn else fixed_world(self.world)
        epsilon = math.nan if self.epsilon is None else self.epsilon
        values = self.run(world, epsilon, methods.HORIZON, seed)
        curve = methods.simple_regret(values, float(world.values.max()))
        return methods.scores(values, world.values) | {"regret": curve.tolist()}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Regret after the last query and the whole curve, in standard deviations of the objective.

        Of 100 records and more also the means of every 50, as many as the paper has, and the worst one.
        """
        (row,) = super().rows(records)
        curve, errors = row["regret"], row["standard_error"]
        row |= {"regret": curve[-1], "standard_error": errors[-1], "paper": self.paper}
        row["verdict"] = verdict(self, curve[-1], errors[-1])
        row["curve"], row["errors"] = rounded(curve, 6), rounded(errors, 6)
        if len(records) >= 2 * PAPERS_REPS:
            ends = values_of(records, "regret")[:, -1]
            whole = ends[: len(ends) // PAPERS_REPS * PAPERS_REPS].reshape(-1, PAPERS_REPS)
            row["fifties"], row["worst"] = rounded(whole.mean(axis=1), 6), float(ends.max())
        return [row]


def verdict(cell: SearchCell, regret: float, standard_error: float) -> str:
    """Beside the paper's number or against the target, where the cell has one."""
    if cell.paper is not None:
        if cell.world in _STAND_INS:
            return f"paper {cell.paper:g}, of another table"
        near = abs(regret - cell.paper) <= 2.0 * standard_error
        return f"paper {cell.paper:g}" + (", within two standard errors of it" if near else "")
    target = TARGETS.get(cell.epsilon or 0.0)
    if cell.world != "synthetic" or cell.method != "L2-Laplace, kernel known" or target is None:
        return "no number of the paper"
    if regret > target:
        return f"target {target:g} missed"
    near = regret + 2.0 * standard_error >= target
    return f"target {target:g} met" + (", within two standard errors of it" if near else "")


@dataclass(frozen=True, kw_only=True)
class AttackCell(Cell):
    """The attack on the published transformation at one claimed epsilon."""

    epsilon: float

    def simulate(self, seed: Seed) -> Record:
        """Largest relative error of the rows of one table, and the branch that was taken."""
        error, inflated = methods.attack(self.epsilon, seed)
        return {"error": error, "inflated": inflated}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """The worst table."""
        (row,) = super().rows(records)
        branches = {"inflated" if record["inflated"] else "direct" for record in records}
        row["branch"] = "both" if len(branches) == 2 else branches.pop()
        row["largest_error"] = float(values_of(records, "error").max())
        return [row]


def _table_cells(world: str) -> tuple[SearchCell, ...]:
    return tuple(
        SearchCell(
            world=world,
            method=method,
            epsilon=epsilon,
            dimension=methods.PUBLISHED_DIMENSION if method == PUBLISHED else None,
        )
        for method in (methods.METHODS if world == "synthetic" else methods.TABLE_METHODS)
        for epsilon in ((None,) if method in WITHOUT_EPSILON else methods.EPSILONS)
    )


CELLS = {world: _table_cells(world) for world in ("synthetic", "branin", "loans", "ames")}
"""The whole table of every world that is run at our epsilons."""


def printed_cells(world: str, powers: tuple[float, ...]) -> tuple[SearchCell, ...]:
    """The paper's tables of a world, its curves along these ln epsilon, and what stands beside them."""
    tables = [
        (power, dimension) for (name, power), along in PAPER.items() if name == world for dimension in along
    ]
    curves = [(power, methods.PUBLISHED_DIMENSION) for power in powers]
    own = partial(SearchCell, world=world)
    return (
        *(
            own(method=PUBLISHED, epsilon=math.exp(power), dimension=dimension)
            for power, dimension in dict.fromkeys(tables + curves)
        ),
        *(own(method=LIKELY, epsilon=math.exp(power)) for power in powers),
        *(own(method=method) for method in (GP_UCB, "random rows")),
    )


def as_printed_cells(world: str) -> tuple[SearchCell, ...]:
    """The published algorithms of Tables 10 to 12 in another world of Branin's."""
    return tuple(
        replace(cell, world=world) for cell in printed_cells("branin31", ()) if cell.method != "random rows"
    )


def shorter_cells(world: str) -> tuple[SearchCell, ...]:
    """The published algorithms of Table 1 in a synthetic world of a shorter lengthscale."""
    return tuple(
        replace(cell, world=world)
        for cell in printed_cells("synthetic", ())
        if cell.method == GP_UCB or math.isclose(cell.epsilon or 0.0, math.exp(1.1))
    )


def fifth_cells(world: str) -> tuple[SearchCell, ...]:
    """The published algorithms of Tables 10 to 12 with a fifth of beta_t, in a world of Branin's."""
    known = {PUBLISHED: PUBLISHED_FIFTH, GP_UCB: GP_UCB_FIFTH}
    return tuple(
        replace(cell, world=world, method=known[cell.method])
        for cell in printed_cells("branin31", ())
        if cell.method in known
    )


def code_cells(world: str) -> tuple[SearchCell, ...]:
    """The published algorithms of a world's tables as the authors' public code has them."""
    known = {PUBLISHED: PUBLISHED_CODE, GP_UCB: GP_UCB_CODE}
    table = world.partition("-")[0]
    return tuple(
        replace(cell, world=world, method=known[cell.method])
        for cell in printed_cells(table, ())
        if cell.method in known
    )


_RAW = "branin31-code-raw"

SMALL_R = {
    "as that code runs and scales, log of 3.33 + f": (f"{_RAW}-shifted", PUBLISHED_CODE, GP_UCB_CODE),
    "deviations for variances": (f"{_RAW}-shifted", PUBLISHED_DEVIATIONS, GP_UCB_DEVIATIONS),
    "deviations for variances, log of f": (_RAW, PUBLISHED_DEVIATIONS, GP_UCB_DEVIATIONS),
    "as the text runs": (f"{_RAW}-shifted", PUBLISHED, GP_UCB),
    "M not divided by the root of r": (f"{_RAW}-shifted", PUBLISHED_UNDIVIDED, GP_UCB_CODE),
    "M divided by the root of 10": (f"{_RAW}-shifted", PUBLISHED_BY_TEN, GP_UCB_CODE),
    "half the lengthscale": (f"{_RAW}-half", PUBLISHED_CODE, GP_UCB_CODE),
    "half the lengthscale, deviations": (f"{_RAW}-half", PUBLISHED_DEVIATIONS, GP_UCB_DEVIATIONS),
    "twice the lengthscale": (f"{_RAW}-double", PUBLISHED_CODE, GP_UCB_CODE),
    "variance of the noise 1e-5": (f"{_RAW}-exact", PUBLISHED_CODE, GP_UCB_CODE),
    "variance of the noise 1e-5, deviations": (f"{_RAW}-exact", PUBLISHED_DEVIATIONS, GP_UCB_DEVIATIONS),
    "noise of variance .1 in the table": (f"{_RAW}-noisy", PUBLISHED_CODE, GP_UCB_CODE),
    "prior mean 0": (f"{_RAW}-high", PUBLISHED_CODE, GP_UCB_CODE),
    "log of 10 + f": (f"{_RAW}-ten", PUBLISHED_CODE, GP_UCB_CODE),
    "slip of sign": (f"{_RAW}-turned", PUBLISHED_CODE, GP_UCB_CODE),
    "slip of sign, the prior mean's too": (f"{_RAW}-turned-agreeing", PUBLISHED_CODE, GP_UCB_CODE),
    "slip of sign, rows, kernel and algorithms of the text": ("branin31-turned", PUBLISHED, GP_UCB),
}
"""Possible causes of Branin's small r: setting -> its world, method and the GP-UCB for comparison."""

SMALL_R_PLACES = ((3, 2.3), (5, 2.7), (6, 2.3), (8, 2.3), (10, 2.3), (20, 2.3))
"""r and ln epsilon of Tables 10 and 12 at which those run; the last one inflates.

Nothing else does, and then epsilon changes nothing."""

MISSED = 0.1
"""Regret above which `TailedCell` counts a run.

Where the logarithm is not shifted, the other optima lie above it."""


@dataclass(frozen=True, kw_only=True)
class TailedCell(SearchCell):
    """A search most runs of which end near 0 and a few far away, so that a mean says little of it."""

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Beside the mean the median, and how many runs end above `MISSED`."""
        (row,) = super().rows(records)
        ends = values_of(records, "regret")[:, -1]
        row["median"], row["missed"] = float(np.median(ends)), int((ends > MISSED).sum())
        return [row]


def small_r_cells() -> tuple[TailedCell, ...]:
    """All of `SMALL_R`, each once."""
    cells = []
    for world, method, plain in SMALL_R.values():
        own = partial(TailedCell, world=world)
        cells.append(own(method=plain))
        cells += [own(method=method, epsilon=math.exp(power), dimension=r) for r, power in SMALL_R_PLACES]
    return tuple(dict.fromkeys(cells))


def many_cells(world: str, places: Sequence[tuple[int, float]]) -> tuple[SearchCell, ...]:
    """`code_cells` at these r and ln epsilon, to be run more often than the paper runs them."""
    return tuple(
        cell
        for r, power in places
        for cell in code_cells(world)
        if cell.dimension == r and math.isclose(cell.epsilon or 0.0, math.exp(power))
    )


_ALONG = ("orange", "amber", "green", "blue", "sky")
_FIXED = dict(zip(WITHOUT_EPSILON, ("black", "black", "grey", "sky", "green", "amber", "blue"), strict=True))
_STYLES = ("-", "--", "-.", ":", (0, (1, 4)))


def picture(rows: Sequence[Row], *, by_dimension: bool = False) -> "Figure":
    """Regret against the number of queries, a panel a world, with bands of two standard errors."""
    names = [row["world"] for row in rows]
    # the legend stands at the last, which has all curves
    figure, found = panels(
        sorted(rows, key=lambda row: names.count(row["world"])), width=4.6, margin=2.6, height=4.0
    )
    for ax, world, own in found:
        for row in own:
            if row["epsilon"] is None:
                _draw(ax, row, colour=_FIXED[row["method"]], style="--", label=row["method"])
        private = [row for row in own if row["epsilon"] is not None and row["method"] != PUBLISHED]
        for index, row in enumerate(private):
            label = f"{row['method'].split(',')[0]}, epsilon {row['epsilon']:g}"
            _draw(ax, row, colour="pink" if by_dimension else _ALONG[index % len(_ALONG)], label=label)
        for index, row in enumerate(row for row in own if row["method"] == PUBLISHED):
            along = f"r {row['dimension']}" if by_dimension else f"epsilon {row['epsilon']:g}"
            colour = _ALONG[index % len(_ALONG)] if by_dimension else "pink"
            style = _STYLES[index % len(_STYLES)]
            _draw(ax, row, colour=colour, style=style, label=f"published (BROKEN), {along}")
        label_axes(ax, title=world, x="rows asked for", y="simple regret")
        ax.set_yscale("symlog", linthresh=1e-3)
        ax.set_ylim(bottom=0)
    add_legend(found[-1][0])
    return figure


def printed_picture(rows: Sequence[Row]) -> "Figure":
    """Curves at r = 10 as the paper's figure has them, and regret by r beside the numbers of its tables."""
    figure, (curves, tables) = new_figure(width=11.0, height=4.2, columns=2)
    along = [row for row in rows if row["dimension"] in (None, methods.PUBLISHED_DIMENSION)]
    shown = [row for row in along if row["method"] in (GP_UCB, GP_UCB_FIFTH, GP_UCB_CODE, "random rows")]
    for row, style in zip(shown, ("-", ":"), strict=False):
        _draw(curves, row, colour="black", style=style, label=row["method"])
    for method, colours, word, marks in (
        (PUBLISHED, ("orange", "amber", "pink", "grey", "black"), "published", ("",) * 5),
        (PUBLISHED_FIFTH, ("orange", "amber", "pink", "grey", "black"), "a fifth of beta_t", ("",) * 5),
        (PUBLISHED_CODE, ("orange", "amber", "pink", "grey", "black"), "the authors' code", ("",) * 5),
        (LIKELY, ("blue", "sky", "green"), "ours", ("o", "s", "^")),
    ):
        own = sorted((row for row in along if row["method"] == method), key=_epsilon)
        for row, colour, dashes, mark in zip(own, colours, _STYLES, marks, strict=False):
            label = f"{word}, epsilon e^{math.log(row['epsilon']):.1f}"
            _draw(curves, row, colour=colour, style=dashes, label=label, marker=mark)
    label_axes(curves, title=f"{rows[0]['world']}, r = 10", x="rows asked for", y="simple regret")
    curves.set_yscale("symlog", linthresh=1e-3)
    curves.set_ylim(bottom=0)
    curves.legend(fontsize=6.5, frameon=False)
    printed = [row for row in rows if row["paper"] is not None]
    for epsilon, (colour, dash, mark) in zip(sorted(set(map(_epsilon, printed))), LINES, strict=False):
        own = sorted((row for row in printed if row["epsilon"] == epsilon), key=_dimension)
        name, line = f"epsilon e^{math.log(epsilon):.1f}", dict[str, Any](marker=mark, markersize=5)
        dimensions = list(map(_dimension, own))
        found = ([row[key] for row in own] for key in ("regret", "standard_error"))
        draw_points(tables, dimensions, *found, colour=colour, linestyle=dash, label=name, **line)
        said = [row["paper"] for row in own]
        line |= {"linestyle": "", "markerfacecolor": "white", "color": PALETTE[colour]}
        tables.plot(dimensions, said, **line, label=f"{name}, printed")
    label_axes(tables, title="published transformation by r", x="r", y="regret after 50 rows")
    add_legend(tables)
    return figure


def _epsilon(row: Row) -> float:
    return float(row["epsilon"])


def _dimension(row: Row) -> int:
    return int(row["dimension"])


def _draw(ax: "Axes", row: Row, *, colour: str, label: str, style: Any = "-", marker: str = "") -> None:
    queries = np.arange(1, len(row["curve"]) + 1)
    line = {"linestyle": style, "linewidth": 1.6, "label": label, "marker": marker, "markevery": 7}
    draw_band(ax, queries, row["curve"], row["errors"], colour=colour, **line)


search_item = partial(
    Item,
    key=("world", "method", "epsilon", "dimension"),
    shown="world | method | epsilon:g | dimension | regret:.3g | standard_error:.2g | verdict",
    picture=picture,
)

"""Figure 9 of Ma2025: regret by the parameters of two sources.

As printed: n = 40,000 at epsilon 2, two sources; (a) against kappa = 0, .2, ..., 1, their epsilon 1 or 8,
gamma .2; (b) against gamma = 0, .2, ..., 2, their epsilon 2 or 8, kappa 1; (c) against the order of two
sources, epsilon 2 then 8 or 8 then 2, target at epsilon 1 and 2, n = 10,000 and 80,000. The caption does not
state the sources' size. The published runs have 0 to 100,000. In the printed world 20,000 are taken here in
(a) and (b), and in (c) kappa 1, gamma 0 and 10,000, 20,000 and 50,000.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpbandits.lab.study import Row
from reproduction.experiments import Item
from reproduction.ma2025.cells import (
    PRINTED_WORLD,
    SHIFT_METHODS,
    CrowdCell,
    PrintedCell,
    crowd_item,
    crowds,
    published_cells,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import SIZE_OF_SOURCES, beside_published

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ITEMS"]


def _shifted(epsilons: Sequence[float], shifts: Sequence[tuple[float, float]]) -> list[CrowdCell]:
    sources = [
        2 * (Source(n_users=20_000, epsilon=epsilon, gamma=gamma, kappa=kappa),)
        for epsilon in epsilons
        for gamma, kappa in shifts
    ]
    return crowds(
        worlds=(PRINTED_WORLD,),
        methods=SHIFT_METHODS,
        epsilons=(2.0,),
        sizes=(40_000,),
        sources=sources,
        kind=PrintedCell,
    )


def _along(figure: str, name: str, cells: Sequence[CrowdCell]) -> Item:
    """Return panels as in the paper: small epsilons of the sources above, large ones below."""

    def groups(row: Row) -> list[str]:
        return [f"sources at {source['epsilon']:g}" for source in row["sources"][:1]]

    def place(row: Row) -> tuple[float, str]:
        first = row["sources"][0]
        return first[name], f"{first['n_users']:,} users a source"

    def drawn(rows: Sequence[Row]) -> "Figure":
        return beside_published(
            [row for row in rows if row["sources"]], along=name, line_of=place, group_of=groups
        )

    both = [*published_cells(figure, ("ma2025-code", "tree")), *cells]
    return crowd_item(f"regret against {name}", both, picture=drawn)


_ORDERED = [
    tuple(Source(n_users=n, epsilon=own) for own in order)
    for n in (10_000, 20_000, 50_000)
    for order in ((2.0, 8.0), (8.0, 2.0))
]


def _order_groups(row: Row) -> list[str]:
    return [f"n {row['n_users']:,}, epsilon {row['epsilon']:g}"]


def _order_place(row: Row) -> tuple[float, str]:
    if not row["sources"]:
        return 0.0, ""
    order = " then ".join(f"{source['epsilon']:g}" for source in row["sources"])
    return row["sources"][0]["n_users"] / 1000, f"sources at {order}"


def _order_picture(rows: Sequence[Row]) -> "Figure":
    """Without the places of gamma 1, which the figure does not print."""
    own = [row for row in rows if not row["sources"] or row["sources"][0]["gamma"] == 0.0]
    along = f"{SIZE_OF_SOURCES} / 1,000"
    return beside_published(own, along=along, line_of=_order_place, group_of=_order_groups)


_KAPPAS = [(0.2, round(0.2 * step, 1)) for step in range(6)]
_GAMMAS = [(round(0.2 * step, 1), 1.0) for step in range(11)]

ITEMS = {
    "figure-9a": _along("9a", "kappa", _shifted((1.0, 8.0), _KAPPAS)),
    "figure-9b": _along("9b", "gamma", _shifted((2.0, 8.0), _GAMMAS)),
    "figure-9c": crowd_item(
        "regret against the order of two sources",
        [
            *published_cells("9c", ("ma2025-code", "tree")),
            *crowds(
                worlds=(PRINTED_WORLD,),
                methods=SHIFT_METHODS,
                epsilons=(1.0, 2.0),
                sizes=(10_000, 80_000),
                sources=_ORDERED,
                kind=PrintedCell,
            ),
        ],
        picture=_order_picture,
    ),
}

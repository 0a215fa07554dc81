"""Figure 9 of Ma2025: regret against what two sources are like.

As printed: n = 40,000 at epsilon 2, two sources; (a) against kappa = 0, .2, ..., 1, their epsilon 1 or 8,
gamma .2; (b) against gamma = 0, .2, ..., 2, their epsilon 2 or 8, kappa 1; (c) against the order of two
sources, epsilon 2 then 8 or 8 then 2, target at epsilon 1 and 2, n = 10,000 and 80,000. The caption does not
state the sources' size: 20,000 here in (a) and (b), and in (c) kappa 1, gamma 0 and 10,000, 20,000 and
50,000.
"""

from collections.abc import Sequence
from functools import partial

from dpbandits.lab.study import Row
from reproduction.experiments import Item
from reproduction.ma2025.cells import (
    PRINTED_WORLD,
    SHIFT_METHODS,
    CrowdCell,
    PrintedCell,
    crowd_item,
    crowds,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import SIZE_OF_SOURCES, panelled

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


def _stacked(along: str, cells: Sequence[CrowdCell]) -> Item:
    """As the paper lays it out: small epsilon of the sources above, large below."""

    def panel(row: Row) -> str:
        return f"source epsilon {row['sources'][0]['epsilon']:g}"

    def place(row: Row) -> tuple[float, str]:
        return row["sources"][0][along], row["method"]

    drawn = partial(panelled, along=along, panel_of=panel, line_of=place, columns=1)
    return crowd_item(f"regret against {along}", cells, picture=drawn)


_ORDERED = [
    tuple(Source(n_users=n, epsilon=own) for own in order)
    for n in (10_000, 20_000, 50_000)
    for order in ((2.0, 8.0), (8.0, 2.0))
]


def _order_panel(row: Row) -> str:
    return f"n {row['n_users']:,}, epsilon {row['epsilon']:g}"


def _order_place(row: Row) -> tuple[float, str]:
    order = " then ".join(f"{source['epsilon']:g}" for source in row["sources"])
    return row["sources"][0]["n_users"] / 1000, f"{row['method']}, {order}"


ITEMS = {
    "figure-9a": _stacked("kappa", _shifted((1.0, 8.0), [(0.2, round(0.2 * step, 1)) for step in range(6)])),
    "figure-9b": _stacked("gamma", _shifted((2.0, 8.0), [(round(0.2 * step, 1), 1.0) for step in range(11)])),
    "figure-9c": crowd_item(
        "regret against the order of two sources",
        crowds(
            worlds=(PRINTED_WORLD,),
            methods=SHIFT_METHODS,
            epsilons=(1.0, 2.0),
            sizes=(10_000, 80_000),
            sources=_ORDERED,
            kind=PrintedCell,
        ),
        picture=partial(
            panelled,
            along=f"{SIZE_OF_SOURCES} / 1,000",
            panel_of=_order_panel,
            line_of=_order_place,
            columns=2,
        ),
    ),
}

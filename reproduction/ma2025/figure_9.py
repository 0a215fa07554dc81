"""Figure 9 of Ma2025: regret against what two sources are like.

As printed: n = 40,000 at epsilon 2, two sources; (a) against kappa = 0, .2, ..., 1, their epsilon 1 or 8,
gamma .2; (b) against gamma = 0, .2, ..., 2, their epsilon 2 or 8, kappa 1; (c) against the order of two
sources, epsilon 2 then 8 or 8 then 2, target at epsilon 1 and 2, n = 10,000 and 80,000. The caption does not
state the sources' size: 20,000 here in (a) and (b), and in (c) kappa 1, gamma 0 and the sizes of `figure9c`.

The items without -printed are how we read it before the text was at hand: (a) against gamma (n = 40,000,
epsilon 2, two sources of 20,000), that of the density as the paper states it; the authors' sampler draws dim
gamma where it says gamma (`worlds.transfer`); (b) against kappa, at gamma 0.2; (c) against the order of two
sources, epsilon 2 then 8 or 8 then 2 (n = 10,000).
"""

from collections.abc import Sequence
from functools import partial

from dpbandits.lab.study import Item, Row
from reproduction.ma2025.cells import (
    EPSILONS,
    PRINTED_WORLD,
    SHIFT_METHODS,
    SYNTHETIC,
    CrowdCell,
    PrintedCell,
    crowd_item,
    crowds,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import SIZE_OF_SOURCES, panelled, picture

__all__ = ["ITEMS"]

GAMMAS = (0.0, 0.5, 1.0, 2.0, 4.0)
KAPPAS = (0.05, 0.2, 0.4, 0.6, 0.8, 1.0)


def _shifted(shifts: Sequence[tuple[float, float]]) -> list[CrowdCell]:
    """Two sources of 20,000 users with the same gamma and kappa."""
    sources = [
        2 * (Source(n_users=20_000, epsilon=epsilon, gamma=gamma, kappa=kappa),)
        for epsilon in (2.0, 8.0)
        for gamma, kappa in shifts
    ]
    return crowds(worlds=SYNTHETIC, epsilons=(2.0,), sizes=(40_000,), sources=sources)


def _as_printed(epsilons: Sequence[float], shifts: Sequence[tuple[float, float]]) -> list[CrowdCell]:
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


def _against(along: str, cells: Sequence[CrowdCell]) -> Item:
    def place(row: Row) -> tuple[float, str]:
        first = row["sources"][0]
        return first[along], f"source epsilon {first['epsilon']:g}"

    drawn = partial(picture, along=along, line_of=place)
    return crowd_item(f"regret against {along}", cells, picture=drawn)


def _stacked(along: str, cells: Sequence[CrowdCell]) -> Item:
    """As the paper lays it out: small epsilon of the sources above, large below."""

    def panel(row: Row) -> str:
        return f"source epsilon {row['sources'][0]['epsilon']:g}"

    def place(row: Row) -> tuple[float, str]:
        return row["sources"][0][along], row["method"]

    drawn = partial(panelled, along=along, panel_of=panel, line_of=place, columns=1)
    return crowd_item(f"regret against {along}, as printed", cells, picture=drawn)


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


def _by_order(row: Row) -> tuple[float, str]:
    order = " then ".join(f"{source['epsilon']:g}" for source in row["sources"])
    return row["sources"][0]["n_users"], f"epsilon {row['epsilon']:g}, {order}"


ITEMS = {
    "figure9a-printed": _stacked(
        "kappa", _as_printed((1.0, 8.0), [(0.2, round(0.2 * step, 1)) for step in range(6)])
    ),
    "figure9b-printed": _stacked(
        "gamma", _as_printed((2.0, 8.0), [(round(0.2 * step, 1), 1.0) for step in range(11)])
    ),
    "figure9c-printed": crowd_item(
        "regret against the order of two sources, as printed",
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
    "figure9a": _against("gamma", _shifted([(gamma, 1.0) for gamma in GAMMAS])),
    "figure9b": _against("kappa", _shifted([(0.2, kappa) for kappa in KAPPAS])),
    "figure9c": crowd_item(
        "regret against the order of two sources",
        crowds(epsilons=EPSILONS, sizes=(10_000,), sources=_ORDERED),
        picture=partial(picture, along=SIZE_OF_SOURCES, line_of=_by_order),
    ),
}

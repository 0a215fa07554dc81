"""Figure 8 of Ma2025: regret against the size of two sources, for their epsilon and gamma.

As printed: n = 80,000, two sources of 0 to 100,000 users, kappa 1. The caption does not state the target's
epsilon, nor which gamma and epsilon of the sources: 1, and those of `figure8`, are taken here. `figure8` is
how we read it before the text was at hand: n = 40,000, centres k/(K + 1).
"""

from functools import partial
from operator import itemgetter

from dpbandits.lab.study import Row
from reproduction.ma2025.cells import (
    PRINTED_WORLD,
    SHIFT_METHODS,
    PrintedCell,
    crowd_item,
    crowds,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import SIZE_OF_SOURCES, panelled, picture

__all__ = ["ITEMS"]

_GROWING = [
    2 * (Source(n_users=n, epsilon=epsilon, gamma=gamma),)
    for gamma in (0.0, 2.0)
    for epsilon in (2.0, 4.0, 8.0)
    for n in (10_000, 20_000, 50_000, 100_000)
]


def _place(row: Row) -> tuple[float, str]:
    if not row["sources"]:
        return 0.0, "alone"
    first = row["sources"][0]
    return first["n_users"], f"source epsilon {first['epsilon']:g}, gamma {first['gamma']:g}"


def _printed_place(row: Row) -> tuple[float, str]:
    if not row["sources"]:
        return 0.0, ""
    first = row["sources"][0]
    return first["n_users"] / 1000, f"gamma {first['gamma']:g}, epsilon {first['epsilon']:g}"


_item = partial(crowd_item, picture=partial(picture, along=SIZE_OF_SOURCES, line_of=_place))

ITEMS = {
    "figure8-printed": crowd_item(
        "regret against the size of two sources, as printed",
        crowds(
            worlds=(PRINTED_WORLD,),
            methods=SHIFT_METHODS,
            sizes=(80_000,),
            sources=[(), *_GROWING],
            kind=PrintedCell,
        ),
        picture=partial(
            panelled,
            along=f"{SIZE_OF_SOURCES} / 1,000",
            panel_of=itemgetter("method"),
            line_of=_printed_place,
            columns=3,
        ),
    ),
    "figure8": _item(
        "regret against the size of two sources", crowds(sizes=(40_000,), sources=[(), *_GROWING])
    ),
}

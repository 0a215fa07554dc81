"""Figure 8 of Ma2025: regret against the size of two sources, for their epsilon and gamma.

As printed: n = 80,000, two sources of 0 to 100,000 users, kappa 1. The caption does not state the target's
epsilon, nor which gamma and epsilon of the sources: 1, and gamma 0 and 2 at epsilon 2, 4 and 8, are taken
here.
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
from reproduction.ma2025.pictures import SIZE_OF_SOURCES, panelled

__all__ = ["ITEMS"]

_GROWING = [
    2 * (Source(n_users=n, epsilon=epsilon, gamma=gamma),)
    for gamma in (0.0, 2.0)
    for epsilon in (2.0, 4.0, 8.0)
    for n in (10_000, 20_000, 50_000, 100_000)
]


def _place(row: Row) -> tuple[float, str]:
    if not row["sources"]:
        return 0.0, ""
    first = row["sources"][0]
    return first["n_users"] / 1000, f"gamma {first['gamma']:g}, epsilon {first['epsilon']:g}"


ITEMS = {
    "figure-8": crowd_item(
        "regret against the size of two sources",
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
            line_of=_place,
            columns=3,
        ),
    ),
}

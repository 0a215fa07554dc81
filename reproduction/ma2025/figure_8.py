"""Figure 8 of Ma2025: regret against the size of two sources, for their epsilon and gamma.

As printed: n = 80,000, two sources of 0 to 100,000 users, kappa 1. The caption does not state the target's
epsilon, nor which gamma and epsilon of the sources. The published runs have epsilon 1, gamma 0, .2, 1 and 2,
and sources at 2, 4, 8 and 1,024. In the printed world gamma 0 and 2 at epsilon 2, 4 and 8 are run.
"""

from functools import partial

from dpbandits.lab.study import Row
from reproduction.ma2025.cells import (
    PRINTED_WORLD,
    SHIFT_METHODS,
    PrintedCell,
    crowd_item,
    crowds,
    published_cells,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import SIZE_OF_SOURCES, beside_published

__all__ = ["ITEMS"]

_GROWING = [
    2 * (Source(n_users=n, epsilon=epsilon, gamma=gamma),)
    for gamma in (0.0, 2.0)
    for epsilon in (2.0, 4.0, 8.0)
    for n in (10_000, 20_000, 50_000, 100_000)
]


_GAMMAS = (0.0, 0.2, 1.0, 2.0)
"""The published runs have these."""


def _place(row: Row) -> tuple[float, str]:
    if not row["sources"]:
        return 0.0, ""
    first = row["sources"][0]
    return first["n_users"] / 1000, f"source epsilon {first['epsilon']:,g}"


def _groups(row: Row) -> list[str]:
    gammas = _GAMMAS if not row["sources"] else (row["sources"][0]["gamma"],)
    return [f"gamma {gamma:g}" for gamma in gammas]


ITEMS = {
    "figure-8": crowd_item(
        "regret against the size of two sources",
        [
            *published_cells("8", ("ma2025-code", "tree")),
            *crowds(
                worlds=(PRINTED_WORLD,),
                methods=SHIFT_METHODS,
                sizes=(80_000,),
                sources=[(), *_GROWING],
                kind=PrintedCell,
            ),
        ],
        picture=partial(
            beside_published, along=f"{SIZE_OF_SOURCES} / 1,000", line_of=_place, group_of=_groups
        ),
    ),
}

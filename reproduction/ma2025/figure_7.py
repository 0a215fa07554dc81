"""Figure 7 of Ma2025: regret against n for several epsilon, on both synthetic worlds.

As printed: epsilon 1, 2, 4, 8, 1024 and n from 10,000 to 160,000, (a) without a source, (b) with one of 5,000
users at epsilon 8; 16, the largest here, stands for 1,024. `figure7a` and `figure7b` are how we read it
before its text was at hand: (b) with two sources.
"""

from functools import partial
from operator import itemgetter

from dpbandits.lab.study import Row
from reproduction.ma2025.cells import (
    EPSILONS,
    LARGEST_EPSILON,
    PRINTED_METHODS,
    PRINTED_WORLD,
    SHIFT_METHODS,
    SYNTHETIC,
    PrintedCell,
    crowd_item,
    crowds,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import panelled, picture

__all__ = ["ITEMS"]

_crowds = partial(crowds, worlds=SYNTHETIC, epsilons=EPSILONS, sizes=(10_000, 20_000, 40_000, 80_000))


def _place(row: Row) -> tuple[float, str]:
    return row["n_users"], f"epsilon {row['epsilon']:g}"


_item = partial(crowd_item, picture=partial(picture, along="n", line_of=_place))


def _printed_place(row: Row) -> tuple[float, str]:
    large = row["epsilon"] == LARGEST_EPSILON
    return row["n_users"] / 1000, "16 for epsilon 1,024" if large else f"epsilon {row['epsilon']:g}"


_printed_item = partial(
    crowd_item,
    picture=partial(
        panelled,
        along="users / 1,000",
        panel_of=itemgetter("method"),
        line_of=_printed_place,
        columns=2,
    ),
)
_printed = partial(
    crowds,
    worlds=(PRINTED_WORLD,),
    epsilons=(*EPSILONS, LARGEST_EPSILON),
    sizes=tuple(10_000 * n for n in (1, 2, 4, 6, 8, 12, 16)),
    kind=PrintedCell,
)

ITEMS = {
    "figure7a-printed": _printed_item(
        "regret against n, without a source, as printed", _printed(sources=[()], methods=PRINTED_METHODS)
    ),
    "figure7b-printed": _printed_item(
        "the same with one source",
        _printed(sources=[(Source(n_users=5000, epsilon=8.0),)], methods=SHIFT_METHODS),
    ),
    "figure7a": _item("regret against n, without sources", _crowds(sources=[()])),
    "figure7b": _item(
        "the same with two sources", _crowds(sources=[2 * (Source(n_users=5000, epsilon=8.0),)])
    ),
}

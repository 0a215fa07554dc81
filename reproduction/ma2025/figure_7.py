"""Figure 7 of Ma2025: regret against n for several epsilon.

As printed: epsilon 1, 2, 4, 8, 1024 and n from 10,000 to 160,000. (a) has no source, (b) one of 5,000
users at epsilon 8. The largest epsilon here, 16, stands for 1,024. The published runs go to 240,000.
"""

from functools import partial

from dpbandits.lab.study import Row
from reproduction.ma2025.cells import (
    EPSILONS,
    LARGEST_EPSILON,
    PRINTED_METHODS,
    PRINTED_WORLD,
    SHIFT_METHODS,
    PrintedCell,
    crowd_item,
    crowds,
    published_cells,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import beside_published

__all__ = ["ITEMS"]


def _place(row: Row) -> tuple[float, str]:
    return row["n_users"] / 1000, f"epsilon {row['epsilon']:,g}"


_item = partial(
    crowd_item,
    picture=partial(beside_published, along="users / 1,000", line_of=_place),
)
_crowds = partial(
    crowds,
    worlds=(PRINTED_WORLD,),
    epsilons=(*EPSILONS, LARGEST_EPSILON),
    sizes=tuple(10_000 * n for n in (1, 2, 4, 6, 8, 12, 16)),
    kind=PrintedCell,
)

ITEMS = {
    "figure-7a": _item(
        "regret against n, without a source",
        [
            *published_cells("7a", ("ma2025-code", "tree")),
            *_crowds(sources=[()], methods=PRINTED_METHODS),
        ],
    ),
    "figure-7b": _item(
        "the same with one source",
        [
            *published_cells("7b", ("ma2025-code", "tree")),
            *_crowds(sources=[(Source(n_users=5000, epsilon=8.0),)], methods=SHIFT_METHODS),
        ],
    ),
}

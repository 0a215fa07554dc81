"""Figure 6 of Ma2025: what a source does, for all users and at one context.

As printed: n = 1,000 at epsilon 1, centres k/K; no source, 500 users at (epsilon 8, gamma 0), 500 at (epsilon
.5, gamma 5), kappa 1; regret of all, and regret and arms at (1/3, 1/3). The paper shows a single trial.
`figure6` is how we read it before its text was at hand: n = 10,000, sources of 500 and 5,000 at epsilon 8.
"""

from functools import partial

from reproduction.ma2025.cells import (
    PRINTED_METHODS,
    PRINTED_WORLD,
    WatchedCell,
    crowd_item,
    crowds,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import picture, watched_point

__all__ = ["ITEMS"]

_SOURCES = [(), *((Source(n_users=n, epsilon=8.0),) for n in (500, 5000))]
_PRINTED = [
    (),
    (Source(n_users=500, epsilon=8.0),),
    (Source(n_users=500, epsilon=0.5, gamma=5.0),),
]
_drawn = partial(picture, along="users so far")

ITEMS = {
    "figure6-printed": crowd_item(
        "regret and arms along the users of one crowd, as printed",
        [
            WatchedCell(
                method=method,
                world=PRINTED_WORLD,
                epsilon=1.0,
                n_users=1000,
                sources=sources,
                point=(1 / 3, 1 / 3),
            )
            for method in PRINTED_METHODS
            for sources in _PRINTED
        ],
        picture=partial(watched_point, shown=("tree", "ma2025-2log2")),
    ),
    "figure6": crowd_item(
        "regret along the users of one crowd", crowds(sizes=(10_000,), sources=_SOURCES), picture=_drawn
    ),
}

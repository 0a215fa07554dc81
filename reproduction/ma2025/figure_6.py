"""Figure 6 of Ma2025: what a source does, for all users and at one context.

As printed: n = 1,000 at epsilon 1, centres k/K; no source, 500 users at (epsilon 8, gamma 0), 500 at (epsilon
.5, gamma 5), kappa 1; regret of all, and regret and arms at (1/3, 1/3). The paper shows a single trial.
"""

from functools import partial

from reproduction.ma2025.cells import (
    PRINTED_METHODS,
    PRINTED_WORLD,
    WatchedCell,
    crowd_item,
)
from reproduction.ma2025.methods import Source
from reproduction.ma2025.pictures import watched_point

__all__ = ["ITEMS"]

_PRINTED = [
    (),
    (Source(n_users=500, epsilon=8.0),),
    (Source(n_users=500, epsilon=0.5, gamma=5.0),),
]

ITEMS = {
    "figure-6": crowd_item(
        "regret and arms along the users of one crowd",
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
}

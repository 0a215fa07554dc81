"""Figure 6 of Ma2025: effect of a source, for all users and at one context.

The settings are those of its authors' script: 10,000 users at epsilon 1 in batches of 10, in the world of the
public code, with uniform arms. The caption's n = 1,000 counts batches. There is no source, or one of 500
users at (epsilon 8, gamma 0) or (epsilon .5, gamma 5), with kappa 1. The figure shows the regret of all
users, and regret and arms at (1/3, 1/3). The paper shows a single run.
"""

from functools import partial

from reproduction.ma2025.cells import (
    PRINTED_METHODS,
    WatchedCell,
    crowd_item,
)
from reproduction.ma2025.methods import CODE_WORLD
from reproduction.ma2025.pictures import watched_point
from reproduction.ma2025.published import runs_of

__all__ = ["ITEMS"]

ITEMS = {
    "figure-6": crowd_item(
        "regret and arms along the users of one crowd",
        [
            WatchedCell(
                method=method,
                world=CODE_WORLD,
                epsilon=run.epsilon,
                n_users=run.n_users,
                sources=run.sources,
                point=(1 / 3, 1 / 3),
            )
            for method in ("ma2025-code", *PRINTED_METHODS)
            for run in runs_of("6")
        ],
        picture=partial(watched_point, shown=("tree", "ma2025-code")),
    ),
}

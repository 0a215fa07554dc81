"""Figure 2 of Dubey2021: regret by delta, in the worlds of Figure 1.

`PRINTED` is the paper's own: its world, beta .01, .1, .5, .99 at alpha 1, 20 trials.
"""

from functools import partial

from reproduction.dubey2021.cells import (
    FIGURE_COLUMNS,
    PAPER_COLUMNS,
    picture,
    policy_cells,
    policy_item,
)

__all__ = ["ITEM", "PRINTED"]

ITEM = policy_item(
    about="regret by delta, on the same",
    cells=policy_cells(("figure1",), FIGURE_COLUMNS, [(1.0, delta) for delta in (1e-5, 1e-3, 0.1)]),
    picture=partial(picture, along="delta"),
)

PRINTED = policy_item(
    about="regret by delta at epsilon 1, world and grid as printed",
    cells=policy_cells(("printed",), PAPER_COLUMNS, [(1.0, delta) for delta in (0.01, 0.1, 0.5, 0.99)]),
    picture=partial(picture, along="delta"),
)

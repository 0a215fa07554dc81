"""Figure 2 of Dubey2021: regret by delta. World, beta (.01, .1, .5, .99), alpha (1) and 20 trials are the
paper's.
"""

from functools import partial

from reproduction.dubey2021.cells import PAPER_COLUMNS, picture, policy_cells, policy_item

__all__ = ["ITEM"]

ITEM = policy_item(
    about="regret by delta at epsilon 1",
    cells=policy_cells(("printed",), PAPER_COLUMNS, [(1.0, delta) for delta in (0.01, 0.1, 0.5, 0.99)]),
    picture=partial(picture, along="delta"),
)

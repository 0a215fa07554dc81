"""Figure 1 of Dubey2021: regret by epsilon. World, alpha (.1, .5, 1, 10), beta (.1) and 20 trials are the
paper's.
"""

from reproduction.dubey2021.cells import PAPER_COLUMNS, policy_cells, policy_item

__all__ = ["ITEM"]

ITEM = policy_item(
    about="regret by epsilon at delta .1",
    cells=policy_cells(("printed",), PAPER_COLUMNS, [(epsilon, 0.1) for epsilon in (0.1, 0.5, 1.0, 10.0)]),
)

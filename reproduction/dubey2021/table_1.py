"""Table 1 of Dubey2021: regret on three test functions, T = 10,000.

The rows are the paper's: alpha 10, 1, .1 and non-private, 10 trials. The table states no beta; .1 is that of
the paper's Figure 1.
"""

from reproduction.dubey2021.cells import PAPER_COLUMNS, policy_cells, policy_item
from reproduction.dubey2021.worlds import TABLE_WORLDS

__all__ = ["ITEM"]

ITEM = policy_item(
    about="regret on three test functions",
    cells=policy_cells(TABLE_WORLDS, PAPER_COLUMNS, [(epsilon, 0.1) for epsilon in (10.0, 1.0, 0.1)]),
    reps=10,
)

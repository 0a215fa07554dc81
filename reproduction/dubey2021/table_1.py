"""Table 1 of Dubey2021: regret on three test functions, T = 10,000.

`PRINTED` has the paper's rows, alpha 10, 1, .1 and non-private, 10 trials. The table states no beta; .1 is
that of the paper's Figure 1.
"""

from functools import partial

from reproduction.dubey2021.cells import (
    COLUMNS,
    PAPER_COLUMNS,
    TABLE_PROMISES,
    policy_cells,
    policy_item,
)
from reproduction.dubey2021.worlds import TABLE_WORLDS

__all__ = ["ITEM", "PRINTED"]

_cells = partial(policy_cells, TABLE_WORLDS)

ITEM = policy_item(about="regret on three test functions", cells=_cells(COLUMNS, TABLE_PROMISES))

PRINTED = policy_item(
    about="the same, rows as printed",
    cells=_cells(PAPER_COLUMNS, [(epsilon, 0.1) for epsilon in (10.0, 1.0, 0.1)]),
    reps=10,
)

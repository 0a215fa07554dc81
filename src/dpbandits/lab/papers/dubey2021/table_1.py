"""Table 1 of Dubey2021: regret on three test functions."""

from dpbandits.lab.papers.dubey2021.cells import COLUMNS, TABLE_PROMISES, policy_cells, policy_item
from dpbandits.lab.papers.dubey2021.worlds import TABLE_WORLDS

__all__ = ["ITEM"]

ITEM = policy_item(
    about="regret on three test functions", cells=policy_cells(TABLE_WORLDS, COLUMNS, TABLE_PROMISES)
)

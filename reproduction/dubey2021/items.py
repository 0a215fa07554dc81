"""The experiments of Dubey2021: Figure 1 (epsilon), Figure 2 (delta), Table 1 (test functions), three more.

Items ending in -printed have the paper's own world and grid; those without are ours, built before its text
was at hand.
"""

from dpbandits.lab.study import Study
from reproduction.dubey2021 import figure_1, figure_2, parts, table_1
from reproduction.dubey2021.cells import (
    AIMS,
    ROBUSTNESS_COLUMNS,
    TABLE_PROMISES,
    policy_cells,
    policy_item,
)
from reproduction.dubey2021.worlds import ROBUSTNESS_WORLDS

__all__ = ["STUDY"]

STUDY = Study(
    name="dubey2021",
    title="Dubey2021",
    measured="regret summed over the horizon",
    items={
        "figure1-printed": figure_1.PRINTED,
        "figure2-printed": figure_2.PRINTED,
        "table1-printed": table_1.PRINTED,
        "table1-parts": parts.ITEM,
        "figure1": figure_1.ITEM,
        "figure2": figure_2.ITEM,
        "table1": table_1.ITEM,
        "robustness": policy_item(
            about="worlds that the policies are not told about",
            cells=policy_cells(ROBUSTNESS_WORLDS, ROBUSTNESS_COLUMNS, TABLE_PROMISES),
        ),
        "targets": policy_item(about="the frozen default beside what was aimed at", cells=tuple(AIMS)),
    },
)

"""The experiments of Dubey2021: Figure 1 (epsilon), Figure 2 (delta), Table 1 (test functions).

`table-1-parts` changes one part of the published tree at a time. `algorithm-3` is the local algorithm, for
which the paper has no experiment, in the world of the figures. `distributed` is ours: fresh noise in every
block, in the same world.
"""

from reproduction.dubey2021 import algorithm_3, distributed, figure_1, figure_2, parts, table_1
from reproduction.dubey2021.cells import PUBLISHED
from reproduction.experiments import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="dubey2021",
    title="Dubey2021",
    measured="regret summed over the horizon",
    published=PUBLISHED,
    items={
        "figure-1": figure_1.ITEM,
        "figure-2": figure_2.ITEM,
        "table-1": table_1.ITEM,
        "table-1-parts": parts.ITEM,
        "algorithm-3": algorithm_3.ITEM,
        "distributed": distributed.ITEM,
        "distributed-blocks": distributed.BLOCKS_ITEM,
    },
)

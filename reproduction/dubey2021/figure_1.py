"""Figure 1 of Dubey2021: regret by epsilon, in the worlds of `worlds.gap_world`.

`PRINTED` is the paper's own: its world, alpha .1, .5, 1, 10 at beta .1, 20 trials.
"""

from reproduction.dubey2021.cells import FIGURE_COLUMNS, PAPER_COLUMNS, policy_cells, policy_item

__all__ = ["ITEM", "PRINTED"]

ITEM = policy_item(
    about="regret by epsilon, on the function of the first figure",
    cells=policy_cells(("figure1",), FIGURE_COLUMNS, [(epsilon, 1e-5) for epsilon in (0.5, 1.0, 10.0)]),
)

PRINTED = policy_item(
    about="regret by epsilon at delta .1, world and grid as printed",
    cells=policy_cells(("printed",), PAPER_COLUMNS, [(epsilon, 0.1) for epsilon in (0.1, 0.5, 1.0, 10.0)]),
)

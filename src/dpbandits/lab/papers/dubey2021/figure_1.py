"""Figure 1 of Dubey2021: regret by epsilon, in the world of `worlds.gap_world`."""

from dpbandits.lab.papers.dubey2021.cells import FIGURE_COLUMNS, policy_cells, policy_item

__all__ = ["ITEM"]

ITEM = policy_item(
    about="regret by epsilon, on the function of the first figure",
    cells=policy_cells(("figure1",), FIGURE_COLUMNS, [(epsilon, 1e-5) for epsilon in (0.5, 1.0, 10.0)]),
)

"""Figure 2 of Dubey2021: regret by delta, in the world of Figure 1."""

from functools import partial

from dpbandits.lab.papers.dubey2021.cells import FIGURE_COLUMNS, picture, policy_cells, policy_item

__all__ = ["ITEM"]

ITEM = policy_item(
    about="regret by delta, on the same",
    cells=policy_cells(("figure1",), FIGURE_COLUMNS, [(1.0, delta) for delta in (1e-5, 1e-3, 0.1)]),
    picture=partial(picture, along="delta"),
)

"""Figure 2 of Kharkovskii2020: regret against the number of queries, by epsilon, in all four worlds."""

from reproduction.kharkovskii2020.cells import CELLS, search_item
from reproduction.kharkovskii2020.methods import PUBLISHED, WITHOUT_EPSILON

__all__ = ["ITEM"]

_METHODS = ("L2-Laplace, marginal likelihood", *WITHOUT_EPSILON[1:], PUBLISHED)

ITEM = search_item(
    about="regret against the number of queries, by epsilon",
    cells=tuple(cell for cells in CELLS.values() for cell in cells if cell.method in _METHODS),
)

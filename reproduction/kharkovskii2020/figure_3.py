"""Figure 3 of Kharkovskii2020: regret of the published transformation by its dimension r."""

from functools import partial

from reproduction.kharkovskii2020.cells import CELLS, SearchCell, picture, search_item
from reproduction.kharkovskii2020.methods import PUBLISHED

__all__ = ["ITEM"]

_EPSILON = 1.0
_BESIDE = ("L2-Laplace, kernel known", "non-private, kernel known", "random rows")
_PUBLISHED = [
    SearchCell(world="synthetic", method=PUBLISHED, epsilon=_EPSILON, dimension=dimension)
    for dimension in (2, 5, 10, 20, 50)
]

ITEM = search_item(
    about="the published transformation by its dimension",
    cells=_PUBLISHED
    + [cell for cell in CELLS["synthetic"] if cell.method in _BESIDE and cell.epsilon in (None, _EPSILON)],
    picture=partial(picture, by_dimension=True),
)

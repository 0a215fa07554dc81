"""`Layout`: which places of contexts a published version has, and what a report says of one.

There are two: bins (`local.contract.bins`), and cells of a public grid (`local.contract.grid`). NumPy and the
standard library only: devices read it.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.contract.reports import PublishedT

__all__ = ["CellQuestion", "Layout"]


class CellQuestion(NamedTuple):
    """Content of a report about one place.

    Attributes:
        cell: the cell that it names.
        turned: whether it says the opposite of what the reward says.
        silent: whether it says nothing of the reward.
    """

    cell: int
    turned: bool = False
    silent: bool = False


class Layout(ABC, Generic[PublishedT]):
    """Places of contexts, and the cells that reports tell apart.

    Attributes:
        publishes: the class of what the server publishes.
        sizes: numbers of cells that a version may have, as far as a promise looks at them; the last is the
            largest.
    """

    publishes: type[PublishedT]
    sizes: tuple[int, ...]

    @abstractmethod
    def fits(self, published: PublishedT) -> None:
        """Refuse a version that does not fit, with IncompatibleState."""

    @abstractmethod
    def locate(self, published: PublishedT, points: FloatArray) -> IntArray:
        """(n,) places of points (n, dim) of the unit cube."""

    @abstractmethod
    def n_cells(self, published: PublishedT) -> int:
        """How many cells a report on this version tells apart."""

    @abstractmethod
    def asked(self, published: PublishedT, place: int) -> CellQuestion:
        """Return the content of a report on this version about a place."""

    @abstractmethod
    def rule(self, published: PublishedT) -> dict[str, Any]:
        """The arms of every place, as `dpbandits.export.decisions` writes them."""

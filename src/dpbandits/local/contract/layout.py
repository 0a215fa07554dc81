"""`Layout`: the places into which a version divides contexts, and the content of a report about a place.

A place is a bin (`local.contract.bins`), or a cell of a public grid (`local.contract.grid`). This module
needs only NumPy and the standard library, as clients import it.
"""

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.contract.reports import PublishedT

__all__ = ["CellQuestion", "Layout"]


class CellQuestion(NamedTuple):
    """Content of a report about one place: a cell and a sign.

    Attributes:
        cell: Cell that the report names.
        turned: True if the sign is the opposite of the reward's.
        silent: True if the sign does not depend on the reward.
    """

    cell: int
    turned: bool = False
    silent: bool = False


class Layout(ABC, Generic[PublishedT]):
    """Rule that assigns contexts to places, and places to the cells that reports distinguish.

    Attributes:
        publishes: Class of the published versions.
        sizes: Numbers of cells for which the guarantee is computed, ending with the largest.
    """

    publishes: type[PublishedT]
    sizes: tuple[int, ...]

    @abstractmethod
    def fits(self, published: PublishedT) -> None:
        """Raise IncompatibleState if a version does not fit this layout."""

    @abstractmethod
    def locate(self, published: PublishedT, points: FloatArray) -> IntArray:
        """Return the place of each of n points (n, dim) of the unit cube, shape (n,)."""

    @abstractmethod
    def n_cells(self, published: PublishedT) -> int:
        """Return the number of cells that a report on this version distinguishes."""

    @abstractmethod
    def asked(self, published: PublishedT, place: int) -> CellQuestion:
        """Return the content of a report on this version about a place."""

    @abstractmethod
    def rule(self, published: PublishedT) -> dict[str, Any]:
        """Return the arms of every place, in the format of `dpbandits.export.decisions`."""

"""Reproduction of four papers, with one folder per paper and one file per figure or table.

Each folder's `items` module holds the `STUDY` of its paper, and `study` finds it by the paper's name.
`python -m reproduction PAPER ITEM` runs an item. `tuning` holds the programs that chose the library's
constants, `studies` those behind other pages of the documentation, and `results` what all of them wrote.

>>> study("dubey2021").item("figure-1").about
'regret by epsilon at delta .1'
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from reproduction.experiments import Study

__all__ = ["PAPERS", "study"]

PAPERS = ("dubey2021", "kharkovskii2020", "ma2025", "pavlovic2025")
"""Names of the papers, as `study` and the command know them."""


def study(paper: str) -> "Study":
    """The study of a paper.

    Raises:
        InvalidParameter: an unknown name.
    """
    if paper not in PAPERS:
        raise InvalidParameter(f"paper {paper!r}: expected one of {', '.join(PAPERS)}")
    found: Study = import_module(f"{__name__}.{paper}.items").STUDY
    return found

"""Experiments of the papers: a folder a paper, a file a figure or table; its `items` holds its `STUDY`.

>>> study("dubey2021").item("figure1").about
'regret by epsilon, on the function of the first figure'
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dpbandits._lazy import lazy
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits.lab.study import Study

__all__ = ["PAPERS", "study"]

__getattr__, __dir__ = lazy(__name__)

PAPERS = ("dubey2021", "kharkovskii2020", "ma2025", "pavlovic2025")
"""Names of the papers, as `study` and the command line know them."""


def study(paper: str) -> "Study":
    """The study of a paper.

    Raises:
        InvalidParameter: an unknown name.
    """
    if paper not in PAPERS:
        raise InvalidParameter(f"paper {paper!r}: expected one of {', '.join(PAPERS)}")
    found: Study = import_module(f"{__name__}.{paper}.items").STUDY
    return found

"""Regret of the paper's algorithm by its unknown constant: C_n = c ln n for c from .01 to 64.

The constant of the confidence radius (14) stands in a supplement that was not at hand. What it decides is
measured here, on one place each of Figures 7a and 9a and of Table 2: cells of those items at more constants.
"""

import math
from functools import partial

from dpbandits.lab.study import Row
from reproduction.ma2025.cells import PRINTED_WORLD, PrintedCell, WholeCell, crowd_item, crowds
from reproduction.ma2025.methods import CONSTANTS, Source
from reproduction.ma2025.pictures import panelled

__all__ = ["ITEMS", "TABLE"]

TABLE = "adult-birth"
"""Name of the table of Table 2."""

_tables = partial(
    crowds, worlds=(TABLE,), methods=tuple(CONSTANTS), epsilons=(1.0,), sizes=(None,), kind=WholeCell
)
_worlds = partial(
    crowds, worlds=(PRINTED_WORLD,), methods=tuple(CONSTANTS), sizes=(40_000,), kind=PrintedCell
)


def _panels(row: Row) -> tuple[str]:
    return ("Table 2, Adult" if row["world"] == TABLE else "Figures 7a and 9a, n 40,000",)


def _place(row: Row) -> tuple[float, str]:
    sources = row["sources"]
    theirs = f", {len(sources)} at {sources[0]['epsilon']:g}" if sources else ""
    return math.log10(CONSTANTS[row["method"]]), f"epsilon {row['epsilon']:g}{theirs}"


ITEMS = {
    "constants": crowd_item(
        "the paper's algorithm at constants from .01 to 64",
        [
            *_tables(sources=[(), *((Source(n_users=None, epsilon=theirs),) for theirs in (1.0, 4.0))]),
            *_worlds(epsilons=(1.0, 8.0)),
            *_worlds(
                epsilons=(2.0,), sources=[2 * (Source(n_users=20_000, epsilon=8.0, gamma=0.2, kappa=1.0),)]
            ),
        ],
        picture=partial(panelled, along="log10 of c", panels_of=_panels, line_of=_place, columns=2),
    )
}

"""The experiments of Ma2025: Figures 6 to 9 and Table 2, each in the file of its name.

`local`, `references`, `public-code` and `speed` are the tables of the page on local results (module `local`).
`transfer` shows the worth of sources to this library's tree. `constants` runs the paper's algorithm at more
constants, `coverage` measures its confidence radius, `code-parts` runs its public code with faults undone.
The figures use every method's defaults.
"""

from reproduction.experiments import Study
from reproduction.ma2025 import (
    code_parts,
    constants,
    coverage,
    figure_6,
    figure_7,
    figure_8,
    figure_9,
    local,
    table_2,
    transfer,
)
from reproduction.ma2025.cells import FIRST_SEED
from reproduction.ma2025.methods import PRINTED_CONSTANTS

__all__ = ["STUDY"]

_PARTS = (figure_6, figure_7, figure_8, figure_9, table_2, code_parts, constants, coverage, local, transfer)

STUDY = Study(
    name="ma2025",
    title="Ma2025",
    measured="regret per user",
    published=tuple(PRINTED_CONSTANTS),
    first_seed=FIRST_SEED,
    items={name: item for part in _PARTS for name, item in part.ITEMS.items()},
)

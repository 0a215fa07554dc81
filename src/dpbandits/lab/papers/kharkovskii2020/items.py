"""The tables and figures of Kharkovskii2020.

Items share cells, and each repetition of a cell is kept: a study goes on where it was stopped.
"""

from dpbandits.lab.papers.kharkovskii2020 import figure_2, figure_3
from dpbandits.lab.papers.kharkovskii2020.cells import (
    CELLS,
    AttackCell,
    SearchCell,
    code_cells,
    fifth_cells,
    printed_cells,
    printed_picture,
    search_item,
    shorter_cells,
    wide_cells,
)
from dpbandits.lab.papers.kharkovskii2020.methods import HIDDEN
from dpbandits.lab.study import Item, Study

__all__ = ["STUDY"]

STUDY = Study(
    name="kharkovskii2020",
    title="Kharkovskii2020",
    measured="simple regret",
    items={
        "synthetic": search_item(about="the synthetic study, after the last query", cells=CELLS["synthetic"]),
        "branin": search_item(about="the same on Branin's function", cells=CELLS["branin"]),
        "loans": search_item(about="the same on people's loans", cells=CELLS["loans"]),
        "ames": search_item(about="the same on houses", cells=CELLS["ames"]),
        "loans-printed": search_item(
            about="Tables 4 to 6 as printed, on another table of loans",
            cells=printed_cells("loans", (2.9, 2.0, 1.0)),
            picture=printed_picture,
        ),
        "ames-printed": search_item(
            about="Tables 7 to 9 as printed, on houses in Ames",
            cells=printed_cells("ames", (2.8, 1.0, 0.5)),
            picture=printed_picture,
        ),
        "branin31": search_item(
            about="Tables 10 to 12 and Figure 3 as printed",
            cells=printed_cells("branin31", (2.3, 2.0, 1.8)),
            picture=printed_picture,
            reps=50,
        ),
        "branin31-wide": search_item(
            about="the same under kernels five times as wide",
            cells=wide_cells(),
            picture=printed_picture,
            reps=50,
        ),
        "branin31-fifth": search_item(
            about="the same with a fifth of beta_t",
            cells=fifth_cells("branin31"),
            picture=printed_picture,
            reps=50,
        ),
        "branin31-log1p": search_item(
            about="the same, minus the logarithm of 1 + Branin's function",
            cells=fifth_cells("branin31-log1p"),
            picture=printed_picture,
            reps=50,
        ),
        "projections": search_item(
            about="Tables 1 to 3 and Figure 2a as printed",
            cells=printed_cells("synthetic", (1.1, 0.9, 0.0)),
            picture=printed_picture,
            reps=50,
        ),
        "projections-5": search_item(
            about="Table 1 at lengthscale 5",
            cells=shorter_cells("synthetic-5"),
            picture=printed_picture,
            reps=50,
        ),
        "projections-1.25": search_item(
            about="Table 1 at the lengthscale that the text states, 1.25",
            cells=shorter_cells("synthetic-1.25"),
            picture=printed_picture,
            reps=50,
        ),
        "projections-code": search_item(
            about="Tables 1 to 3 as the authors' public code runs",
            cells=code_cells("synthetic"),
            picture=printed_picture,
            reps=50,
        ),
        "branin31-code": search_item(
            about="Tables 10 to 12 as the authors' public code runs",
            cells=code_cells("branin31-code"),
            picture=printed_picture,
            reps=50,
        ),
        "branin31-code-shifted": search_item(
            about="the same, the objective as that code's prior mean has it",
            cells=code_cells("branin31-code-shifted"),
            picture=printed_picture,
            reps=50,
        ),
        "figure2": figure_2.ITEM,
        "figure3": figure_3.ITEM,
        "hidden": search_item(
            about="any two positions hidden from each other",
            cells=(SearchCell(world="synthetic", method=HIDDEN, epsilon=8.0),),
        ),
        "attack": Item(
            about="rows recovered from the published transformation",
            cells=tuple(AttackCell(epsilon=epsilon) for epsilon in (0.05, 0.5, 1.0, 3.0, 8.0, 20.0)),
            key=("epsilon",),
            shown="epsilon:g | branch | largest_error:.1e | reps",
        ),
    },
)

"""The tables and figures of Kharkovskii2020.

Items share cells, and each repetition of a cell is kept: a study goes on where it was stopped.
"""

from reproduction.experiments import Item, Study
from reproduction.kharkovskii2020 import figure_2, figure_3
from reproduction.kharkovskii2020.cells import (
    CELLS,
    PAPERS_REPS,
    AttackCell,
    SearchCell,
    as_printed_cells,
    code_cells,
    fifth_cells,
    many_cells,
    printed_cells,
    printed_picture,
    search_item,
    shorter_cells,
    small_r_cells,
)
from reproduction.kharkovskii2020.methods import HIDDEN, PUBLISHED, PUBLISHED_CODE

__all__ = ["STUDY"]

_OFTEN = (
    *((r, 1.1) for r in (3, 6, 8, 10, 15, 20)),
    *((r, 1.3) for r in (9, 12, 15, 20, 30)),
    *((r, 1.5) for r in (5, 20, 30, 50)),
)
"""r and ln epsilon of Tables 1 to 3, each law once: what inflates nothing does not depend on epsilon."""

_LARGE_R = (
    *((r, 2.3) for r in (10, 15, 20)),
    *((r, 2.5) for r in (20, 30)),
    *((r, 2.7) for r in (15, 20, 30, 50)),
)
"""r and ln epsilon of Tables 10 to 12 from the seventh r on, each law once."""

_AS_OFTEN_AS_PRINTED = {
    "branin31": (
        "Tables 10 to 12 and Figure 3 as printed",
        printed_cells("branin31", (2.3, 2.0, 1.8)),
    ),
    "branin31-wide": ("the same under kernels five times as wide", as_printed_cells("branin31-wide")),
    "branin31-fifth": ("the same with a fifth of beta_t", fifth_cells("branin31")),
    "branin31-log1p": (
        "the same, minus the logarithm of 1 + Branin's function",
        fifth_cells("branin31-log1p"),
    ),
    "projections": (
        "Tables 1 to 3 and Figure 2a as printed",
        printed_cells("synthetic", (1.1, 0.9, 0.0)),
    ),
    "projections-5": ("Table 1 at lengthscale 5", shorter_cells("synthetic-5")),
    "projections-1.25": (
        "Table 1 at the lengthscale that the text states, 1.25",
        shorter_cells("synthetic-1.25"),
    ),
    "projections-code": ("Tables 1 to 3 as the authors' public code runs", code_cells("synthetic")),
    "projections-code-noisy": (
        "the same, the noise of answers in the table as in that code",
        code_cells("synthetic-noisy"),
    ),
    "branin31-code": (
        "Tables 10 to 12 under the hyperparameters of the authors' public code",
        code_cells("branin31-code"),
    ),
    "branin31-code-shifted": (
        "the same, the objective as that code's prior mean has it",
        code_cells("branin31-code-shifted"),
    ),
    "branin31-code-raw": (
        "Tables 10 to 12 with the rows as they come, scaled as in that code",
        code_cells("branin31-code-raw"),
    ),
    "branin31-code-raw-shifted": (
        "the same, the logarithm as in an earlier script of the first author",
        code_cells("branin31-code-raw-shifted"),
    ),
    "branin31-code-raw-two": ("the same, minus the logarithm of 2 + f", code_cells("branin31-code-raw-two")),
    "branin31-code-raw-five": (
        "the same, minus the logarithm of 5 + f",
        code_cells("branin31-code-raw-five"),
    ),
    "branin31-text-raw-five": (
        "the same under the text's algorithms, not the code's, minus the logarithm of 5 + f",
        as_printed_cells("branin31-code-raw-five"),
    ),
    "branin31-text-raw-shifted": (
        "the same under the text's algorithms, not the code's",
        as_printed_cells("branin31-code-raw-shifted"),
    ),
}
"""Items that run a table of the paper: name -> (what, cells)."""

STUDY = Study(
    name="kharkovskii2020",
    title="Kharkovskii2020",
    measured="simple regret",
    published=(PUBLISHED, PUBLISHED_CODE),
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
        **{
            name: search_item(about=about, cells=cells, picture=printed_picture, reps=PAPERS_REPS)
            for name, (about, cells) in _AS_OFTEN_AS_PRINTED.items()
        },
        "branin31-small-r": search_item(
            about="small r of Tables 10 to 12 in settings that the public code leaves open",
            cells=small_r_cells(),
            picture=None,
            reps=PAPERS_REPS,
        ),
        "projections-code-often": search_item(
            about="numbers of Tables 1 to 3 as that code runs, ten times as often as the paper runs them",
            cells=many_cells("synthetic", _OFTEN),
            picture=None,
            reps=10 * PAPERS_REPS,
        ),
        "branin31-code-raw-often": search_item(
            about="numbers of Tables 10 to 12 with raw rows, ten times as often",
            cells=many_cells(
                "branin31-code-raw-shifted",
                ((3, 2.3), (6, 2.3), (8, 2.3), (20, 2.5), (5, 2.7), (50, 2.7)),
            ),
            picture=None,
            reps=10 * PAPERS_REPS,
        ),
        "branin31-code-raw-five-often": search_item(
            about="the large r of Tables 10 to 12, minus the logarithm of 5 + f, ten times as often",
            cells=many_cells("branin31-code-raw-five", _LARGE_R),
            picture=None,
            reps=10 * PAPERS_REPS,
        ),
        "figure-2": figure_2.ITEM,
        "figure-3": figure_3.ITEM,
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

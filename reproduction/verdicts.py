"""Verdicts on all figures, tables, lemmas and remarks of the papers: the printed result and ours.

Lines are made of committed results alone: a number that was not run is "not run". Nothing is read off a
picture of a paper: of a curve without numbers the paper's number is "curve".

| column | what |
|---|---|
| printed | the paper's number |
| honest | the paper's own method, with the noise that its promise needs |
| as printed | the same with its printed constants; labelled, since some do not keep the promise |
| ours | this library at the same promise |
| non-private, random | without privacy, and a uniformly random choice |
| seeds | repetitions and the first seed |
| verdict | reproduced, not reproduced, not private, or why the two cannot be compared |
| run | the command that makes the numbers |

Standard errors stand behind the numbers.

`python -m reproduction.verdicts` writes a line of each into `reproduction/ITEMS.md`.
"""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from dpbandits.cli.console import guarded
from dpbandits.lab.study import Row
from reproduction.dubey2021.verdicts import dubey_lines
from reproduction.kharkovskii2020.verdicts import kharkovskii_lines
from reproduction.lines import COLUMNS, NOT_RUN
from reproduction.ma2025.verdicts import ma_lines
from reproduction.pavlovic2025.verdicts import pavlovic_lines
from reproduction.result_folder import ResultFolder

__all__ = ["COLUMNS", "ITEMS", "NOT_RUN", "items_page", "verdicts"]

HERE = Path(__file__).parent
ITEMS = HERE / "ITEMS.md"
"""The page that `items_page` is written into."""

_SHOWN = ("item", "verdict", "printed", "honest", "ours", "seeds", "run")

_HEAD = """# The papers, element by element

`python -m reproduction.verdicts` writes this page from `reproduction/results` and the verdicts of each paper.
A test fails when it is older than they are.

A line stands for every figure, table, algorithm, theorem, lemma, corollary, proposition and remark of
Dubey2021, Pavlovic2025 and Kharkovskii2020. Of Ma2025 it stands for every figure and table with measured
values, and for theorems and propositions that are run or used. Figures 1 to 5 are drawings and have none.
A number in brackets is the one under which the appendix repeats the statement. *Printed* is the
paper's number, *honest* its own method with the noise that the promise needs, *ours* this library at the same
promise. Standard errors are in brackets; seeds are repetitions and the first seed. The last column runs the
line, with the item's own number of repetitions, which may be more; `--reps` sets another one. A line of
Table 2 of Ma2025 comes with the other pairs of its table.

Ma2025's figures are *reproduced as its code runs* where our mean of the public code is within 15% of the
published mean. Elsewhere Welch's test at 5% says *not reproduced* or *not told apart*.

The pages that [the summary](../docs/evidence/papers.md) names have the methods as printed, without privacy
and at random beside these.
"""


def verdicts(results: Path) -> dict[str, list[Row]]:
    """Paper -> its lines, from the result files in a folder."""
    held = ResultFolder(results)
    return {
        "Dubey2021": dubey_lines(held),
        "Ma2025": ma_lines(held),
        "Pavlovic2025": pavlovic_lines(held),
        "Kharkovskii2020": kharkovskii_lines(held),
    }


def items_page(results: Path) -> str:
    """Return `ITEMS.md`: a table a paper, a line an element."""
    parts = [_HEAD]
    for paper, rows in verdicts(results).items():
        waiting = sum(row["verdict"] == NOT_RUN for row in rows)
        said = f"{len(rows)} lines" + (f", {waiting} of them not run." if waiting else ".")
        lines = [
            _SHOWN,
            ("---",) * len(_SHOWN),
            *(tuple(_cell(row, name) for name in _SHOWN) for row in rows),
        ]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        parts.append(f"## {paper}\n\n{said}\n\n{table}\n")
    return "\n".join(parts)


def _cell(row: Row, name: str) -> str:
    """A cell's text; commands are code, and no text ends its cell."""
    text = str(row[name])
    if name == "run" and text.startswith(("python ", "dpbandits ", "pytest ")):
        text = f"`{text}`"
    return text.replace("|", "\\|")


app = typer.Typer(
    name="python -m reproduction.verdicts", add_completion=False, pretty_exceptions_enable=False
)


@app.command()
def write(
    *,
    results: Annotated[Path, Option(help="Folder of result files.")] = HERE / "results",
    out: Annotated[Path, Option(help="The page that is written.")] = ITEMS,
) -> None:
    """Write a line for every element of the papers."""
    out.write_text(items_page(results), encoding="utf-8")


if __name__ == "__main__":
    guarded(app)

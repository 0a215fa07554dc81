"""For every figure, table, lemma and remark of the papers: what is printed, and what came out here.

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
"""

from pathlib import Path

from dpbandits.lab.study import Row
from reproduction.dubey2021.verdicts import dubey_lines
from reproduction.kharkovskii2020.verdicts import kharkovskii_lines
from reproduction.lines import COLUMNS, NOT_RUN
from reproduction.ma2025.verdicts import ma_lines
from reproduction.pavlovic2025.verdicts import pavlovic_lines
from reproduction.result_folder import ResultFolder

__all__ = ["COLUMNS", "NOT_RUN", "verdicts"]


def verdicts(results: Path) -> dict[str, list[Row]]:
    """Paper -> its lines, from the result files in a folder."""
    held = ResultFolder(results)
    return {
        "Dubey2021": dubey_lines(held),
        "Ma2025": ma_lines(held),
        "Pavlovic2025": pavlovic_lines(held),
        "Kharkovskii2020": kharkovskii_lines(held),
    }

"""Pavlovic2025's questions: USCA as published and what grew out of it.

| item | what | module |
|---|---|---|
| errors | error against T and epsilon, on fresh functions | `errors` |
| lemmas | what the approximating set costs | `lemmas` |
| phases | regret of deciding from the first user on | `phases` |
| ratios | how much of epsilon one user can use | `ratios` |
| trials | two randomised experiments on real people | `trials` |
"""

from dpbandits.lab.papers.pavlovic2025 import errors, lemmas, phases, ratios, trials
from dpbandits.lab.study import Study

__all__ = ["STUDY"]

STUDY = Study(
    name="pavlovic2025",
    title="Pavlovic2025",
    measured="means over worlds",
    items={
        "errors": errors.ITEM,
        "lemmas": lemmas.ITEM,
        "phases": phases.ITEM,
        "ratios": ratios.ITEM,
        "trials": trials.ITEM,
    },
)

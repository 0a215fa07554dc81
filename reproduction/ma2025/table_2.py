"""Table 2 of Ma2025 from single runs: ratios to ABSE, Wilcoxon's signed-rank tests, rank sums.

`table-2` has the paper's pairs, its ratio (reward over ABSE's), and the paper's numbers (`PRINTED`). It also
tests if the best row is better than each other one, by Wilcoxon's signed-rank test at .05. It runs on
everybody, in the split by birth on Adult. Constants of the tuned methods were chosen on half of these people.
The paper's Jobs table is not available.

`table-2-questions` is a study of this library's learners. Real tables (`ma2025.classification`), report
halves: average regret at n/4 and n over that of ABSE on the same people, for four pairs (epsilon, epsilon of
the source). The learner `questions` stands beside the other learners and the linear bandit. People are
drawn anew with every seed. Constants were chosen on the other halves
(`reproduction/tuning/ma2025_methods.py`).

Runs are paired by seed: every method meets the same people in the same order. The tests ask whether two
methods differ on **these tables**, over orders of the people, noise and coins; they do not say what another
table would show.
"""

import json
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.study import Row, Runs
from reproduction.ma2025.cells import PRINTED_METHODS, CrowdCell, WholeCell, crowd_item, crowds
from reproduction.ma2025.classification import REPORT_TABLES
from reproduction.ma2025.methods import ABSES, Source, table_references
from reproduction.ma2025.pictures import bars

__all__ = [
    "ITEMS",
    "OURS",
    "PAIRS",
    "PRINTED",
    "PRINTED_PAIRS",
    "compare_printed",
    "compared",
    "printed_table2",
    "table2",
]

PAIRS = ((1.0, 2.0), (1.0, 8.0), (4.0, 2.0), (4.0, 8.0))
"""(epsilon, epsilon of the source) of `table-2-questions`."""

PRINTED_PAIRS = ((1.0, 1.0), (1.0, 4.0), (2.0, 1.0), (2.0, 4.0))
"""Those of the paper's Table 2."""

OURS = ("questions", "tree", "smooth", "questions with sources", "tree with sources")
"""This library's rows: each is tested against every other row of its kind."""

_MOMENTS = ("n/4", "n")

TABLE_USERS, TABLE_SOURCE = 10_000, 5_000
"""At most so many people of a table, and of its source, come in one run."""


def compared(runs: Sequence[Runs]) -> dict[str, Any]:
    """The table with its cells, and what random and constant arms would have cost these people.

    Without runs of ABSE, which everything is a ratio to, the cells alone.
    """
    rows = [row for run in runs for row in run.rows]
    cells = [{name: row[name] for name in row if not name.startswith("curve")} for row in rows]
    if all(run.cell.method != "abse" for run in runs):
        return {"cells": cells}
    tables = dict.fromkeys(run.cell.world for run in runs)
    return {"cells": cells, "references": {name: table_references(name) for name in tables}, **table2(runs)}


def table2(runs: Sequence[Runs]) -> dict[str, list[Row]]:
    """The table.

    Returns:
        `ratios`: for every table, pair, row and moment (n/4, n) the mean of regret over ABSE's regret on the
        same seed, with its standard error. `tests`: tests of ours against each other row with the same
        sources, per table, pair and moment; without sources a pair is an epsilon. Each has the difference of
        mean ratios, the two-sided p of Wilcoxon's signed-rank test, and p after Holm's correction over all.
        `rank_sums`: for every pair and moment the sum over tables of the row's rank (1 is best).

    Raises:
        InvalidParameter: no runs of ABSE on a table.
    """
    from scipy.stats import rankdata, wilcoxon

    ratios: list[Row] = []
    tests: dict[str, Row] = {}
    ranks: dict[tuple[Any, ...], float] = {}
    tables = dict.fromkeys(run.cell.world for run in runs)
    for table, pair, moment in product(tables, PAIRS, _MOMENTS):
        own = [run for run in runs if run.cell.world == table]
        base = next((run for run in own if run.cell.method == "abse"), None)
        if base is None:
            raise InvalidParameter(f"no runs of abse on {table!r}: the table is a ratio to them")
        rows = {run.cell.row_name: run for run in own if _belongs(run, pair)}
        values = {label: _values(row, moment) / _values(base, moment) for label, row in rows.items()}
        where = {"table": table, "epsilon": pair[0], "source_epsilon": pair[1], "moment": moment}
        order = rankdata([found.mean() for found in values.values()])
        for (label, found), rank in zip(values.items(), order, strict=True):
            mean, error = mean_and_error(found)
            ratios.append({**where, "row": label, "ratio": mean, "standard_error": error})
            key = (*pair, moment, label)
            ranks[key] = ranks.get(key, 0.0) + float(rank)
        for ours, label in product((ours for ours in OURS if ours in values), values):
            with_sources = " with " in ours
            if label in OURS or (" with " in label) != with_sources:
                continue
            # without sources, the other pair of this epsilon has the same runs
            told = json.dumps([table, pair if with_sources else pair[0], moment, ours, label])
            if told not in tests:
                gap = values[ours] - values[label]
                p = 1.0 if not gap.any() else float(wilcoxon(values[ours], values[label]).pvalue)
                tests[told] = {**where, "ours": ours, "other": label, "gap": float(gap.mean()), "p": p}
    for test, corrected in zip(tests.values(), _holm([test["p"] for test in tests.values()]), strict=True):
        test["p_holm"] = float(corrected)
    names = ("epsilon", "source_epsilon", "moment", "row", "rank_sum")
    sums = [dict(zip(names, (*key, total), strict=True)) for key, total in ranks.items()]
    return {"ratios": ratios, "tests": list(tests.values()), "rank_sums": sums}


_PRINTED = """
1 1 adult 1.459 .987 .954 .950 .906 .935 1.101 .795 .724 .715 .750 .784
1 1 jobs .801 .797 .786 .794 .800 .795 .694 .693 .684 .690 .700 .695
1 1 taxi .989 .976 .987 .984 .998 .989 .994 .992 .996 .993 .998 .995
1 4 adult 1.602 .987 .988 .986 1.110 .992 1.210 .795 .782 .771 .871 .816
1 4 jobs .846 .797 .795 .804 .800 .798 .742 .693 .688 .704 .698 .695
1 4 taxi .997 .985 .976 .969 .990 .989 .996 .992 .992 .991 .996 .995
2 1 adult 1.459 .986 .964 .986 .895 .930 1.102 .919 .762 .772 .745 .808
2 1 jobs .819 .808 .788 .791 .800 .797 .719 .720 .683 .683 .705 .688
2 1 taxi .992 .974 .989 .989 1.000 .996 .996 .992 .997 .997 1.000 .999
2 4 adult 1.602 .986 .964 .968 .895 .929 1.210 .919 .762 .762 .745 .791
2 4 jobs .857 .808 .788 .785 .800 .792 .754 .720 .683 .674 .705 .696
2 4 taxi 1.001 .974 .989 .989 1.000 1.000 1.002 .992 .997 .997 1.000 1.000
"""
_COLUMNS = tuple(
    (moment, method + kind)
    for moment in _MOMENTS
    for method in ("ldpmab", "linear", "neural")
    for kind in (" with sources", "")
)

PRINTED: dict[tuple[str, float, float, str, str], float] = {
    (table, float(own), float(theirs), *column): float(value)
    for own, theirs, table, *values in map(str.split, _PRINTED.split("\n")[1:-1])
    for column, value in zip(_COLUMNS, values, strict=True)
}
"""(table, epsilon, epsilon of the source, moment, row) -> reward over ABSE's reward, from the paper's Table
2."""

PAPERS_NAMES = {"adult-birth": "adult", "taxi": "taxi"}
"""The paper's names of the tables of `table-2`; its Jobs is missing."""


PRINTED_BASE = "abse-printed"
"""Method in the denominator of the paper's ratios."""

N_ARMS = 2
"""Number of arms of both tables."""


def compare_printed(runs: Sequence[Runs]) -> dict[str, Any]:
    """Table 2 as the paper makes it, with the cells; without runs of ABSE the cells alone."""
    rows = [row for run in runs for row in run.rows]
    cells = [{name: row[name] for name in row if not name.startswith("curve")} for row in rows]
    if all(run.cell.method != PRINTED_BASE for run in runs):
        return {"cells": cells}
    return {"cells": cells, "ratios": printed_table2(runs)}


def printed_table2(runs: Sequence[Runs]) -> list[Row]:
    """For every table, pair, moment and row: reward over ABSE's reward, and the paper's number.

    ABSE has the width of its own paper. Everybody's best arm pays 1, so that reward is 1 less regret. `ratio`
    is the ratio of mean rewards, its standard error that of the mean of ratios seed by seed; `best` marks the
    largest of a place among private rows, and `significant` says of it whether it is better than every other
    by Wilcoxon's signed-rank test at .05, two-sided. `paper` is the printed number; of the paper's own rule
    it stands at every constant. Row `abse` has our width, row `random` is an arm at random.

    Raises:
        InvalidParameter: no runs of ABSE as printed on a table.
    """
    from scipy.stats import wilcoxon

    found: list[Row] = []
    tables = dict.fromkeys(run.cell.world for run in runs)
    for table, pair, moment in product(tables, PRINTED_PAIRS, _MOMENTS):
        own = [run for run in runs if run.cell.world == table]
        base = next((run for run in own if run.cell.method == PRINTED_BASE), None)
        if base is None:
            raise InvalidParameter(f"no runs of {PRINTED_BASE} on {table!r}: the table is a ratio to them")
        rewards = {run.cell.row_name: 1.0 - _values(run, moment) for run in own if _belongs(run, pair)}
        divisor = 1.0 - _values(base, moment)
        best = max(rewards, key=lambda row: rewards[row].mean(), default="")
        beside = {run.cell.method: 1.0 - _values(run, moment) for run in own if run.cell.method == "abse"}
        beside["random"] = np.full(len(divisor), 1.0 / N_ARMS)
        for row, values in (rewards | beside).items():
            others = [other for other in rewards if other != row]
            gaps = [values - rewards[other] for other in others] if row == best else []
            clear = all(gap.any() and wilcoxon(gap).pvalue < 0.05 for gap in gaps)
            method = (
                "ldpmab" + row[row.find(" with") :] * (" with" in row) if row.startswith("ma2025") else row
            )
            where = (PAPERS_NAMES.get(table, table), *pair, moment, method)
            found.append(
                {
                    "table": table,
                    "epsilon": pair[0],
                    "source_epsilon": pair[1],
                    "moment": moment,
                    "row": row,
                    "ratio": float(values.mean() / divisor.mean()),
                    "standard_error": mean_and_error(values / divisor)[1],
                    "best": row == best,
                    "significant": clear if row == best else None,
                    "paper": PRINTED.get(where),
                    "reps": len(values),
                }
            )
    return found


def _belongs(run: Runs, pair: tuple[float, float]) -> bool:
    """Return True if a row is part of a pair's column; rows without sources are part of both columns."""
    sources = run.cell.sources
    return run.cell.epsilon == pair[0] and (not sources or sources[0].epsilon == pair[1])


def _values(run: Runs, moment: str) -> FloatArray:
    curves = run.values("curve")
    return np.asarray(curves[:, -1 if moment == "n" else curves.shape[1] // 4 - 1])


def _holm(p_values: Sequence[float]) -> FloatArray:
    """Holm's step-down correction."""
    p = np.array(p_values)
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
    corrected = np.empty_like(stepped)
    corrected[order] = stepped
    return corrected


def _printed_cells() -> list[CrowdCell]:
    """Everybody of the paper's tables, or of what stands in for them."""
    found: list[CrowdCell] = []
    alone = tuple(dict.fromkeys(epsilon for epsilon, _ in PRINTED_PAIRS))
    for table in PAPERS_NAMES:
        own: dict[str, Any] = {"worlds": (table,), "sizes": (None,), "kind": WholeCell}
        found += crowds(**own, methods=ABSES, epsilons=(None,))
        for method in (*PRINTED_METHODS, "linear", "neural"):
            found += crowds(**own, methods=(method,), epsilons=alone)
            for epsilon, theirs in PRINTED_PAIRS:
                source = (Source(n_users=None, epsilon=theirs),)
                found += crowds(**own, methods=(method,), epsilons=(epsilon,), sources=(source,))
    return found


def _cells(with_sources: Sequence[str]) -> list[CrowdCell]:
    found: list[CrowdCell] = []
    alone = tuple(dict.fromkeys(epsilon for epsilon, _ in PAIRS))
    for table in REPORT_TABLES:
        own: dict[str, Any] = {"worlds": (table,), "sizes": (TABLE_USERS,)}
        found += crowds(**own, methods=("abse",), epsilons=(None,))
        found += crowds(**own, methods=("smooth",), epsilons=alone)
        for method in with_sources:
            found += crowds(**own, methods=(method,), epsilons=alone)
            for epsilon, theirs in PAIRS:
                source = (Source(n_users=TABLE_SOURCE, epsilon=theirs),)
                found += crowds(**own, methods=(method,), epsilons=(epsilon,), sources=(source,))
    return found


ITEMS = {
    "table-2": crowd_item(
        "reward over ABSE's on real people",
        _printed_cells(),
        picture=bars,
        compare=compare_printed,
        reps=50,
    ),
    "table-2-questions": crowd_item(
        "the learner of questions on real people",
        _cells(("questions", "tree", "linear")),
        picture=bars,
        compare=compared,
    ),
}

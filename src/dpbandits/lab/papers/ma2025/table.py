"""Table 2 of Ma2025 from single runs: ratios to ABSE, Wilcoxon's signed-rank tests, rank sums.

Runs are paired by seed: every method meets the same people in the same order. The tests ask whether two
methods differ on **these tables**, over orders of the people, noise and coins; they do not say what another
table would show.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.papers.ma2025.cells import PAIRS, CellResult

__all__ = ["OURS", "table2"]

OURS = ("tree", "smooth", "tree with sources")
"""This library's rows: each is tested against every other row of its kind."""

_MOMENTS = ("n/4", "n")


def table2(results: Sequence[CellResult]) -> dict[str, list[dict[str, Any]]]:
    """The table.

    Returns:
        `ratios`: for every table, pair, row and moment (n/4, n) the mean of regret over ABSE's regret on the
        same seed, with its standard error. `tests`: ours against each other row that has what ours has (with
        or without sources), per table, pair (epsilon alone without sources) and moment: difference of mean
        ratios, two-sided p of Wilcoxon's signed-rank test, and the same after Holm's correction over all.
        `rank_sums`: for every pair and moment the sum over tables of the row's rank (1 is best).

    Raises:
        InvalidParameter: no runs of ABSE on a table.
    """
    from scipy.stats import rankdata, wilcoxon

    tables = list(dict.fromkeys(result.cell.world for result in results))
    ratios: list[dict[str, Any]] = []
    tests: list[dict[str, Any]] = []
    ranks: dict[tuple[Any, ...], float] = {}
    tested: set[tuple[Any, ...]] = set()
    for table in tables:
        own = [result for result in results if result.cell.world == table]
        base = next((result for result in own if result.cell.method == "abse"), None)
        if base is None:
            raise InvalidParameter(f"no runs of abse on {table!r}: the table is a ratio to them")
        for pair in PAIRS:
            rows = {result.cell.label: result for result in own if _belongs(result, pair)}
            for moment in _MOMENTS:
                values = {label: _values(row, moment) / _values(base, moment) for label, row in rows.items()}
                where = {"table": table, "epsilon": pair[0], "source_epsilon": pair[1], "moment": moment}
                order = rankdata([found.mean() for found in values.values()])
                for label, found, rank in zip(values, values.values(), order, strict=True):
                    error = float(found.std(ddof=1) / math.sqrt(len(found)))
                    ratios.append(
                        {**where, "row": label, "ratio": float(found.mean()), "standard_error": error}
                    )
                    key = (pair[0], pair[1], moment, label)
                    ranks[key] = ranks.get(key, 0.0) + float(rank)
                for ours in OURS:
                    for label in values if ours in values else ():
                        if label in OURS or (" with " in label) != (" with " in ours):
                            continue
                        if " with " not in ours and (table, pair[0], moment, ours, label) in tested:
                            continue  # the other pair of this epsilon has the same runs
                        tested.add((table, pair[0], moment, ours, label))
                        gap = values[ours] - values[label]
                        p = 1.0 if not gap.any() else float(wilcoxon(values[ours], values[label]).pvalue)
                        tests.append(
                            {**where, "ours": ours, "other": label, "gap": float(gap.mean()), "p": p}
                        )
    for test, corrected in zip(tests, _holm(np.array([test["p"] for test in tests])), strict=True):
        test["p_holm"] = float(corrected)
    sums = [
        {"epsilon": e, "source_epsilon": own, "moment": moment, "row": label, "rank_sum": total}
        for (e, own, moment, label), total in ranks.items()
    ]
    return {"ratios": ratios, "tests": tests, "rank_sums": sums}


def _belongs(result: CellResult, pair: tuple[float, float]) -> bool:
    """Whether a row is part of a pair's column; rows without sources are part of both of theirs."""
    if result.cell.epsilon != pair[0]:
        return False
    return not result.cell.sources or result.cell.sources[0].epsilon == pair[1]


def _values(result: CellResult, moment: str) -> FloatArray:
    return result.regrets if moment == "n" else result.quarters


def _holm(p: FloatArray) -> FloatArray:
    """Holm's step-down correction."""
    order = np.argsort(p, kind="stable")
    stepped = np.minimum(1.0, np.maximum.accumulate(p[order] * (len(p) - np.arange(len(p)))))
    corrected = np.empty_like(stepped)
    corrected[order] = stepped
    return corrected

"""Tables and pictures of `evidence/forgers.md`."""

import math
from collections.abc import Callable
from itertools import repeat
from statistics import fmean, stdev

from IPython.display import Markdown
from pages import load, table


def _attacked(measure: str, shown: Callable[[list[float]], str]) -> Markdown:
    """Show one row for each world, learner and server, one column for each attack."""
    found = load("forgers")
    attacks = list(dict.fromkeys(row["attack"] for row in found))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in found:
        where = row["world"], row["learner"], row["server"]
        lines.setdefault(where, {})[row["attack"]] = shown(row[measure])
    heads = ["world", "learner", "server", *attacks]
    return table(heads, [[*where, *map(lines[where].get, attacks, repeat(""))] for where in sorted(lines)])


_AIMS = {
    ("ma", "5% promote"): 0.11,
    ("diagonal", "5% promote"): 0.17,
    ("ma", "5% demote"): 0.08,
    ("diagonal", "5% demote"): 0.13,
}
"""(world, attack) -> largest regret of `questions` with `Robust` that was aimed at."""


def _said(runs: list[float]) -> str:
    error = f" ± {stdev(runs) / math.sqrt(len(runs)):.3f}" if len(runs) > 1 else ""
    return f"{fmean(runs):.3f}{error} ({len(runs)})"


def forgers_aims() -> Markdown:
    """Show the aims, missed ones first."""
    lines = []
    for row in load("forgers"):
        most = _AIMS.get((row["world"], row["attack"]))
        if most is None or (row["learner"], row["server"]) != ("questions", "robust"):
            continue
        runs = row["regret"]
        over, error = fmean(runs) - most, stdev(runs) / math.sqrt(len(runs))
        verdict = "met" if over <= 0.0 else f"missed by {over:.3f}, {over / error:.1f} standard errors"
        lines.append([row["world"], row["attack"], f"{most:.2f}", _said(runs), verdict])
    lines.sort(key=lambda line: line[-1] == "met")
    return table(["world", "forgers", "at most", "regret", ""], lines)


def forgers_regret() -> Markdown:
    return _attacked("regret", _said)


def forgers_seen() -> Markdown:
    return _attacked("anomaly", lambda runs: f"{fmean(runs):.1f}")

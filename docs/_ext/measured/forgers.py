"""What `results-forgers.md` shows."""

import math
from collections.abc import Callable
from itertools import repeat
from statistics import fmean, stdev

from IPython.display import Markdown
from pages import load, table


def _attacked(measure: str, shown: Callable[[list[float]], str]) -> Markdown:
    """One row a world, learner and server, one column an attack."""
    found = load("forgers")
    attacks = list(dict.fromkeys(row["attack"] for row in found))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in found:
        where = row["world"], row["learner"], row["server"]
        lines.setdefault(where, {})[row["attack"]] = shown(row[measure])
    heads = ["world", "learner", "server", *attacks]
    return table(heads, [[*where, *map(lines[where].get, attacks, repeat(""))] for where in sorted(lines)])


def forgers_regret() -> Markdown:
    def said(runs: list[float]) -> str:
        error = f" ± {stdev(runs) / math.sqrt(len(runs)):.3f}" if len(runs) > 1 else ""
        return f"{fmean(runs):.3f}{error} ({len(runs)})"

    return _attacked("regret", said)


def forgers_seen() -> Markdown:
    return _attacked("anomaly", lambda runs: f"{fmean(runs):.1f}")

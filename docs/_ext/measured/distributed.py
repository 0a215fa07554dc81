"""Tables of `evidence/two-aggregators.md` and `explanation/trust-models.md`."""

import math
from itertools import chain

import numpy as np
from IPython.display import Markdown
from pages import load, pm, table

from dpbandits import DistributedDP
from dpbandits.privacy.calibration import narrowed
from dpbandits.privacy.histogram import ReportHistogram
from dpbandits.privacy.reports import MECHANISMS
from dpbandits.privacy.shuffling import shuffled

AIMS = {"ma": 0.018, "cps-income": 0.88, "figure-1": 110.0}
"""World -> what two aggregators were to reach: a share at least, a regret at most."""


def trust_models() -> Markdown:
    """Show three trust models, with missed aims first."""
    found = []
    for row in chain(*load("distributed").values()):
        aim, share = AIMS.get(row["world"]), row["measure"].startswith("share")
        missed = aim is not None and (row["distributed"] < aim if share else row["distributed"] > aim)
        digits = 1 if row["distributed"] > 10 else 4
        trusts = ("central", "distributed", "local")
        values = [pm(row[trust], row[f"{trust}_error"], digits=digits) for trust in trusts]
        values.append(pm(row["constant"], row["constant_error"], digits=digits) if "constant" in row else "")
        shown = "" if aim is None else f"{aim:g}, {'missed' if missed else 'reached'}"
        name = f"{row['world']} [{row['reps']}], {row['measure']}"
        found.append((not missed, [name, f"{row['people']:,}", *values, shown]))
    found.sort(key=lambda one: one[0])
    heads = ["world, measure", "people", "trusted server", "two aggregators", "local", "best arm", "aim"]
    return table(heads, [line for _, line in found])


def shuffled_noise(cells: int = 16, epsilon: float = 1.0, delta: float = 1e-6) -> Markdown:
    """Show the noise of a cell if reports are shuffled, beside two aggregators and local reports."""
    two = ReportHistogram(length=2 * cells + 1, privacy=DistributedDP(epsilon=epsilon))
    aggregated = math.sqrt(2 * two.noise_variance)
    lines = []
    for people in (1_000, 10_000, 100_000):
        larger = narrowed(
            lambda loss, people=people: shuffled(loss, people, delta).epsilon <= epsilon,
            0.0,
            epsilon,
            width=1e-6,
        )[0]
        noises = [_noise(loss, cells, people) for loss in (larger, epsilon)]
        shown = [f"{noise:.1f}" for noise in (aggregated, *noises)]
        lines.append([f"{people:,}", f"{larger:.2f}", *shown])
    return table(["people", "epsilon of a report", "two aggregators", "shuffled", "local"], lines)


def _noise(epsilon: float, cells: int, people: int) -> float:
    """Standard deviation of the noise in a cell's successes minus failures, by the best local mechanism."""
    best = math.inf
    for mechanism in MECHANISMS.values():
        moments, share = mechanism(n_cells=cells, epsilon=epsilon).moments, np.array(1 / cells)
        # without the square of the report itself, which is 1 in its own cell
        best = min(best, float(moments.signed_variance(share)) - 1 / cells)
    return math.sqrt(people * best)

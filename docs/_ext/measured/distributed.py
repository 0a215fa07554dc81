"""Table of `evidence/two-aggregators.md`."""

from itertools import chain

from IPython.display import Markdown
from pages import load, pm, table

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
        shown = "" if aim is None else f"{aim:g}, {'missed' if missed else 'reached'}"
        name = f"{row['world']} [{row['reps']}], {row['measure']}"
        found.append((not missed, [name, f"{row['people']:,}", *values, shown]))
    found.sort(key=lambda one: one[0])
    heads = ["world, measure", "people", "trusted server", "two aggregators", "local", "aim"]
    return table(heads, [line for _, line in found])

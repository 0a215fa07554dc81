"""Tables and pictures of `evidence/income.md`."""

import math

from IPython.display import Markdown
from pages import Row, load, pm, table

_AIMS = {0.3: 0.80, 1.0: 0.92, 3.0: 0.965}
"""Epsilon -> the retained uplift that was aimed at."""


def _income() -> dict[tuple[str, float | None], Row]:
    return {(row["policy"], row["epsilon"]): row for row in load("income")["rows"]}


def income_opening() -> Markdown:
    found, rows = load("income"), _income()
    losers = [
        f"the {name.removeprefix('private ')} at epsilon {epsilon:g}"
        for (name, epsilon), row in rows.items()
        if name.startswith("private ") and row["reward"] > rows["private", epsilon]["reward"]
    ]
    constant = rows["best constant arm", None]["reward"]
    below = [
        f"the best constant arm at epsilon {epsilon:g}"
        for (name, epsilon), row in rows.items()
        if name == "private" and row["reward"] <= constant
    ]
    first = (
        f"The private policy loses to {', '.join(losers + below)}."
        if losers + below
        else "The private policy loses to the one without privacy, and at no epsilon shown to a private "
        "ridge, a private histogram or the best constant arm."
    )
    row = rows["private", 1.0]
    attacks = {name: 100 * one["success"] for name, one in found["attacks"].items()}
    share = pm(row["share_of_nonprivate_uplift"], row["share_stderr"], scale=100, digits=1)
    return Markdown(
        f"{first} At epsilon 1 it keeps {share}% of what a policy without privacy gains over random "
        "guesses. An attacker who knows everything but one person's answer guesses it right "
        f"{attacks['non-private']:.0f} times in a hundred from the policy without privacy, and "
        f"{attacks['private']:.0f} times from the private one. Blind guesses are right 50 times."
    )


def income_aims() -> Markdown:
    """Show shares beside their aims and crude policies."""
    rows = _income()

    def share(name: str, epsilon: float) -> str:
        row = rows[name, epsilon]
        return pm(row["share_of_nonprivate_uplift"], row["share_stderr"], scale=100, digits=1)

    lines = [
        [
            f"{epsilon:g}",
            share("private", epsilon),
            f"{100 * aim:g}",
            "missed" if rows["private", epsilon]["share_of_nonprivate_uplift"] < aim else "reached",
            share("private ridge", epsilon),
            share("private histogram", epsilon),
        ]
        for epsilon, aim in _AIMS.items()
    ]
    lines.sort(key=lambda line: line[3] != "missed")
    return table(["epsilon", "share, %", "aim, %", "", "private ridge, %", "private histogram, %"], lines)


def income_table() -> Markdown:
    lines = [
        [
            row["policy"],
            "" if row["epsilon"] is None else f"{row['epsilon']:g}",
            pm(row["reward"], row["stderr"]),
            pm(row["uplift"], row["uplift_stderr"]),
            pm(row["share_of_nonprivate_uplift"], row["share_stderr"], scale=100.0, digits=1),
        ]
        for row in load("income")["rows"]
    ]
    return table(
        ["policy", "epsilon", "reward", "uplift over random", "share of the non-private uplift, %"], lines
    )


def income_attacks() -> Markdown:
    lines = [
        [
            name,
            pm(one["success"], one["stderr"], scale=100, digits=1),
            math.ceil(1000 * one["bound"]) / 10,
            one["trials"],
        ]
        for name, one in load("income")["attacks"].items()
    ]
    return table(["policy", "right guesses, %", "bound by the guarantee, %", "guesses"], lines)

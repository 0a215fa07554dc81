"""Tables and pictures of `evidence/non-stationarity.md`."""

from IPython.display import HTML, Markdown
from pages import Row, bars, draw, load, pm, shown, table

from dpbandits.lab import plot

_ABOUT = {
    "forget": "`forget=5_000`",
    "stays": "without",
    "restart": "restarted every 10,000",
    "open": "no privacy, half-life 5,000",
    "window": "no privacy, last 10,000",
    "ldp": "randomised response, last 10,000",
    "histogram": "private histogram",
}
_HALVES = ("before", "after")
_WORLDS = {
    "box": "box, features",
    "cells": "box, cells, pure epsilon",
    "smooth": "contexts of 2 columns, features",
    "people": "contexts of 6 columns, marginals",
}


def _found() -> dict[tuple[str, str, str], Row]:
    return {(row["world"], row["change"], row["policy"]): row for row in load("drift")}


def drift_opening() -> Markdown:
    """Show the two aims by world."""
    found, lines = _found(), []
    for world, name in _WORLDS.items():
        forgets, open_ = (found[world, "abrupt", policy] for policy in ("forget", "open"))
        rests = [found[world, "none", policy] for policy in ("forget", "stays")]
        recovered = forgets["after"] / open_["after"]
        whole = [0.5 * (row["before"] + row["after"]) for row in rests]
        cost = 1.0 - whole[0] / whole[1]
        met = {True: "met", False: "**missed**"}
        lines.append(
            [
                name,
                f"{100 * recovered:.0f}%, {met[recovered >= 0.7]}",
                f"{100 * cost:.1f}%, {met[cost <= 0.05]}",
            ]
        )
    return table(
        ["world", "recovered, of the recovery without privacy (aim 70%)", "lost without a change (aim 5%)"],
        lines,
    )


def drift_picture() -> HTML:
    """Draw shares after an abrupt change."""
    found = _found()
    figure, axes = draw(height=4.6, width=9.0, columns=2)
    for place, world in zip(axes, ("box", "people"), strict=True):
        rows = [found[world, "abrupt", policy] for policy in _ABOUT if (world, "abrupt", policy) in found]
        names = [_ABOUT[row["policy"]].replace("`", "") for row in rows]
        colours = [plot.PALETTE["blue" if row["policy"] == "forget" else "grey"] for row in rows]
        bars(
            place,
            names,
            [row["after"] for row in rows],
            [row["after_error"] or 0.0 for row in rows],
            color=colours,
        )
        place.set_xlabel("share after the change")
        place.set_title(_WORLDS[world].partition(",")[0], fontsize=10)
    axes[1].tick_params(axis="y", labelleft=False)
    return shown(figure, "What seven policies earn after an abrupt change, in two worlds.")


_LOCAL = {
    "forget": "`questions`, forgets",
    "stays": "`questions`",
    "knows": "`questions`, restarted at half time",
    "restart": "`questions`, restarted every two half-life periods",
    "smooth": "`smooth`, forgets",
    "smooth stays": "`smooth`",
    "ldp": "randomised response of the reward alone",
}


def drift_local_opening() -> Markdown:
    """Show what forgetting gains and costs, beside the methods that are ahead of it."""
    rows = load("drift-local")
    found = {(row["epsilon"], row["change"], row["policy"]): row for row in rows}
    lines = []
    for epsilon in sorted({row["epsilon"] for row in rows}):
        for name, policies in (("questions", ("forget", "stays")), ("smooth", ("smooth", "smooth stays"))):
            after = [found[epsilon, "abrupt", policy]["after"] for policy in (*policies, "knows", "ldp")]
            rests = [found[epsilon, "none", policy] for policy in policies]
            forgets, stays = (sum(row[part] for part in _HALVES) for row in rests)
            cost = f"{100 * (1.0 - forgets / stays):.1f}%" + ", **missed**" * (forgets < 0.95 * stays)
            lines.append([f"{epsilon:g}", f"`{name}`", *(f"{share:.2f}" for share in after), cost])
    heads = ["epsilon", "learner", "forgets", "forgets nothing", "`questions`, oracle restart", "Gajane"]
    crowds = rows[0]["seeds"]
    said = "one crowd each, no result" if crowds == 1 else f"{crowds} crowds each"
    shown_ = table([*heads, "lost without a change (aim 5%)"], lines).data
    return Markdown(
        "The table shows shares of the second half after an abrupt change; seeds from "
        f"{rows[0]['first_seed']:,} on, {said}."
        f"\n\n{shown_}"
    )


def drift_local_table() -> Markdown:
    lines = [
        [
            f"{row['people']:,}",
            f"{row['epsilon']:g}",
            {"none": "none", "abrupt": "at once", "slow": "slowly"}[row["change"]],
            _LOCAL[row["policy"]],
            *(pm(row[part], row[f"{part}_error"], digits=3) for part in (*_HALVES, "last")),
        ]
        for row in load("drift-local")
    ]
    heads = ["people", "epsilon", "change", "policy", "first half", "second half", "last fifth"]
    return table(heads, lines)


def drift_table() -> Markdown:
    lines = [
        [
            _WORLDS[row["world"]],
            {"none": "none", "abrupt": "at once", "slow": "slowly"}[row["change"]],
            _ABOUT[row["policy"]],
            *(pm(row[part], row[f"{part}_error"], digits=3) for part in ("before", "after", "last")),
            row["seeds"],
        ]
        for row in load("drift")
    ]
    heads = ["world", "change", "policy", "first half", "second half", "last fifth", "seeds"]
    return table(heads, lines)

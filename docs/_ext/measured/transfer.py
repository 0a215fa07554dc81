"""Tables and pictures of `evidence/transfer.md`."""

from IPython.display import HTML, Markdown
from pages import Row, bars, draw, load, shown, table
from scipy.special import stdtr

from dpbandits.lab import plot
from reproduction.ma2025.transfer import CASES, TransferCase


def _transfers() -> dict[tuple[str, str], Row]:
    return {(row["case"], row["world"]): row for row in load("transfer")}


def regret_of(row: Row) -> str:
    return f"{row['average_regret']:.4f} ± {row['stderr']:.4f} ({row['reps']})"


def transfer_picture() -> HTML:
    found = _transfers()
    cases = [(case.text, found[name, "ma"]) for name, case in CASES.items() if (name, "ma") in found]
    figure, (axes,) = draw(height=0.34 * len(cases) + 0.9, width=8.0)
    names, rows = zip(*cases, strict=True)
    colours = [plot.PALETTE["grey" if number == 0 else "blue"] for number in range(len(rows))]
    bars(axes, names, [row["average_regret"] for row in rows], [row["stderr"] for row in rows], color=colours)
    axes.set_xlabel("average regret a user, world ma")
    return shown(
        figure, "Average regret in the world ma, without and with many kinds of sources, by two learners."
    )


def transfer_table() -> Markdown:
    found, worlds = _transfers(), ["ma", "diagonal", "radial-3d", "clustered", "small-gaps"]
    lines = [
        [case.text, *(regret_of(found[name, one]) if (name, one) in found else "" for one in worlds)]
        for name, case in CASES.items()
        if case.policy != "questions" and any((name, one) in found for one in worlds)
    ]
    return table(["", *worlds], lines)


def transfer_targets() -> Markdown:
    none, good, harmful = (_transfers()[name, "ma"] for name in ("none", "good", "harmful"))
    ratio = good["average_regret"] / none["average_regret"]
    cost = harmful["average_regret"] / none["average_regret"] - 1
    met = {True: "met", False: "missed"}
    return Markdown(
        f"- World `ma`, 5,000 source users at epsilon 8, gamma 0, kappa 1: {regret_of(good)}, at most .055 "
        f"({met[good['average_regret'] <= 0.055]}), and {ratio:.2f} of the regret without, at most half "
        f"({met[ratio <= 0.5]}).\n"
        "- World `ma`, a harmful source (epsilon .5, gamma 5, a policy that avoids the best arm): "
        f"{100 * cost:+.0f}% regret, at most +10% ({met[cost <= 0.1]})."
    )


def _beside_the_tree() -> list[tuple[TransferCase, str, Row, bool]]:
    """Return case, world, row of `questions` and whether it differs surely from the tree, largest gap first.

    Two-sided paired t-tests over crowds at .05, with Holm's correction over all rows.
    """
    found = [(CASES[case], world, row) for (case, world), row in _transfers().items() if "gap" in row]
    found.sort(key=lambda one: -one[2]["gap"] / one[2]["gap_stderr"])
    p = [2.0 * stdtr(row["reps"] - 1, -abs(row["gap"] / row["gap_stderr"])) for _, _, row in found]
    sure, left = set(), len(p)
    for place in sorted(range(len(p)), key=p.__getitem__):
        if p[place] * left >= 0.05:
            break
        sure.add(place)
        left -= 1
    return [(*one, place in sure) for place, one in enumerate(found)]


def transfer_missed() -> Markdown:
    """Count the cells in which the default learner loses more than the tree, and surely more."""
    found = [(row["gap"] > 0.0, sure) for _, _, row, sure in _beside_the_tree()]
    above, surely = sum(more for more, _ in found), sum(more and sure for more, sure in found)
    fewest = min(row["reps"] for _, _, row, _ in _beside_the_tree())
    return Markdown(
        "The aim was that the default learner, `questions`, never loses more than `tree`. "
        f"**In {above} of {len(found)} cells it loses more**, surely in {surely}: "
        "mostly where little is known or a source has other arms' rewards. "
        f"Each cell has {fewest} crowds or more ([table](#questions-and-the-tree))."
    )


def transfer_told_apart() -> Markdown:
    """Count the rows above and below the tree's by kind of source."""
    kinds = {
        "no source": lambda case: case.n_users == 0,
        "a source at epsilon 1 or .5": lambda case: case.n_users > 0 and case.epsilon <= 1.0,
        "one at epsilon 8": lambda case: case.n_users > 0 and case.epsilon == 8.0 and not case.shifted,
        "one at epsilon 8 with other arms' rewards": lambda case: case.shifted,
    }
    lines = []
    for name, belongs in kinds.items():
        own = [(row["gap"], sure) for case, _, row, sure in _beside_the_tree() if belongs(case)]
        below, above = (sum(sure and sign * gap > 0.0 for gap, sure in own) for sign in (-1.0, 1.0))
        if own:
            lines.append([name, len(own), sum(gap > 0.0 for gap, _ in own), above, below])
    return table(["", "cells", "above the tree", "surely above", "surely below"], lines)


def transfer_beside() -> Markdown:
    """Show `questions` and the tree on the same crowds, clearest losses first."""
    lines = [
        [
            case.text.removeprefix("`questions`, ").removesuffix(", learner `questions`"),
            world,
            regret_of(row),
            f"{row['tree_regret']:.4f} ± {row['tree_stderr']:.4f}",
            f"{row['gap']:+.4f} ± {row['gap_stderr']:.4f}" + " (sure)" * sure,
        ]
        for case, world, row, sure in _beside_the_tree()
    ]
    return table(["sources", "world", "`questions`", "`tree`", "difference, crowd by crowd"], lines)


def transfer_edge() -> Markdown:
    found = _transfers()
    names = ("none", "good", "questions-none", "questions-good")
    none, good, own, best = (regret_of(found[name, "ma-edge"]) for name in names)
    return Markdown(
        f"- `ma-edge`: {none} without a source, {good} with 5,000 at epsilon 8.\n"
        f"- The same by the learner `questions`: {own} and {best}."
    )

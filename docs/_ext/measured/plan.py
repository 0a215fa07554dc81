"""Tables and pictures of `guides/plan.md`, `evidence/plan.md` and `evidence/board.md`."""

from typing import Any

from IPython.display import HTML, Markdown
from pages import RESULTS, Row, load, pm, shown, table

from dpbandits.lab.planning import pictures

NOT_RUN = Markdown("The command of this page has not been run on this code.")


def _held(name: str) -> Any:
    """Return a result file, or None if it does not exist."""
    return load(name) if (RESULTS / f"{name}.json").exists() else None


def plan_picture() -> HTML | Markdown:
    found = _held("plan")
    alt = (
        "Predicted share of the non-private uplift along epsilon and along the number of people, with bands."
    )
    return NOT_RUN if found is None else shown(pictures.plan_picture(found), alt)


def plan_answers() -> Markdown:
    found = _held("plan")
    if found is None:
        return NOT_RUN
    lines = [
        [
            trust,
            one["policy"],
            f"{one['epsilon']:g}" if one["reachable"] else "not reachable",
            "more" if one["people"] is None else f"{one['people']:,}",
            ("never" if one["better_after"] is None else f"{one['better_after']:,}")
            + f", at epsilon {one['better_at']:g}",
        ]
        for trust, one in found["answers"].items()
    ]
    people = f"people needed at epsilon {found['promise']:g}"
    return table(["trust model", "take", "smallest epsilon", people, "better after"], lines)


KINDS = {
    "segments": ("plan-constants-segments", "facts with rates in segments"),
    "rates": ("plan-constants-rates", "facts with rates"),
    "facts": ("plan-constants", "facts without rates"),
    "tables": ("plan-constants", "people of a table"),
}
"""Kind of worlds -> its result file, and its name on the page."""


def _tuned(part: str) -> list[tuple[str, Row, Row]]:
    """Return (name of the worlds, all rows of these worlds, row) for one part of the constants' files."""
    held = [(words, (_held(file) or {}).get(kind)) for kind, (file, words) in KINDS.items()]
    return [(words, of_kind, row) for words, of_kind in held if of_kind for row in of_kind[part]]


def frontier() -> Markdown:
    """Show width and coverage on tuning worlds, each world judged by constants of the others."""
    lines = [
        [
            words,
            f"{row['level']:.0%}",
            f"{row['covered']:.0%}",
            f"{row['median_width']:.2f}",
            f"{of_kind['shares']}",
        ]
        for words, of_kind, row in _tuned("frontier")
    ]
    heads = ["worlds", "asked for", "true shares inside", "median width", "shares"]
    return table(heads, lines) if lines else NOT_RUN


def off() -> Markdown:
    """Show the distance of true shares from the mean of simulated worlds."""
    lines = [
        [words, f"{row['worlds']}", f"{row['root_mean_square']:.3f}", f"{row['median']:.3f}"]
        for words, _, row in _tuned("off")
    ]
    return table(["worlds", "simulated", "root mean square", "median"], lines) if lines else NOT_RUN


def without_sets() -> Markdown:
    """Show the coverage of every set of tuning worlds with constants of the others."""
    lines = [
        [
            words,
            f"{row['first_seed']:,}" if row["first_seed"] else "below 1,000,000",
            f"{row['worlds']}",
            f"{row['covered']:.0%}" if "covered" in row else "too few others",
            f"{row['median_width']:.2f}" if "covered" in row else "–",
        ]
        for words, _, row in _tuned("sets")
    ]
    heads = ["worlds", "set, by its first seed", "how many", "true shares inside", "median width"]
    return table(heads, lines) if lines else NOT_RUN


SETS = {
    "plan-validation-seventh": "segments",
    "plan-validation": "segments",
    "plan-validation-sixth-rates": "rates",
    "plan-validation-fifth": "rates",
    "plan-validation-fourth": "neither",
    "plan-validation-third": "neither",
    "plan-validation-second": "neither",
    "plan-validation-first": "neither",
    "plan-validation-distributed": "segments, two aggregators",
}
"""Result file -> the most precise facts that its plans were given."""

AIMS: tuple[tuple[str, float, bool], ...] = (
    ("covered", 0.9, True),
    ("median_width", 0.25, False),
    ("reached", 0.8, True),
    ("most_times_smallest", 2.0, False),
)
"""Name in the summary, the aim, and whether a larger value is better."""


def validations() -> Markdown:
    """Show one line for each set of worlds; figures that miss their aim are bold."""
    lines = []
    for name, told in SETS.items():
        found = _held(name)
        if found is None:
            continue
        one, how = found["summary"], found["settings"]
        figures = []
        for measure, aim, more in AIMS:
            value = one[measure]
            holds = value is None or (value >= aim if more else value <= aim)
            figures.append(pm(value, digits=2) if holds else f"**{pm(value, digits=2)}**")
        refused = one["reachable_but_not_said"] + one["rightly_not_reachable"]
        lines.append(
            [
                f"{how['first_seed']:,}",
                told,
                f"{how['worlds']}, {how['reps']}",
                f"{one['shares']}",
                *figures[:2],
                f"{one['recommended']} of {len(found['answers'])}",
                *figures[2:],
                f"{one['reachable_but_not_said']} of {refused}",
            ]
        )
    heads = ["first seed", "told", "worlds, runs", "shares", "inside", "width", "recommended", "reach"]
    return table([*heads, "times smallest", "wrongly refused"], lines) if lines else NOT_RUN


def validation_by_world(name: str = "plan-validation") -> Markdown:
    """Show one line for each world and trust model, the worst covered first."""
    found = _held(name)
    if found is None:
        return Markdown("")
    answers = {(one["world"], one["trust"]): one for one in found["answers"]}
    lines = []
    for (world, trust), said in answers.items():
        rows = [row for row in found["shares"] if (row["world"], row["trust"]) == (world, trust)]
        inside = sum(row["covered"] for row in rows)
        widths = sorted(row["high"] - row["low"] for row in rows)
        width = pm(widths[len(widths) // 2] if widths else None, digits=2)
        line = [world, trust, f"{inside} of {len(rows)}", width]
        line += [_epsilon(said["recommended"]), _epsilon(said["smallest"]), pm(said.get("reached"), digits=2)]
        lines.append((inside - len(rows), line))
    heads = ["world", "trust", "shares inside", "median width", "recommended", "smallest", "share there"]
    return table(heads, [line for _, line in sorted(lines, key=lambda one: one[0])])


def _epsilon(value: float | None) -> str:
    return "none" if value is None else f"{value:.2g}"


def board(trust: str) -> Markdown:
    """Show rank sums over the eight worlds, and the rank in each."""
    found = _held("board")
    if found is None:
        return NOT_RUN
    rows = found["boards"][trust]
    lines = [
        [
            row["policy"],
            f"{row['rank_sum']:g}",
            *(f"{row['ranks'][world]:g}" for world in found["ranked"]),
            f"{row['seconds']:.1f}",
        ]
        for row in rows
    ]
    return table(["policy", "rank sum", *found["ranked"], "seconds a run"], lines)


def board_rewards(trust: str) -> Markdown:
    """Show the mean reward in every world, beside policies without privacy."""
    found = _held("board")
    if found is None:
        return NOT_RUN
    cells = {(row["policy"], row["world"]): row for row in found["means"]}
    own = [row["policy"] for row in found["boards"][trust]]
    names = [*own, "non-private", "best fixed arm", "uniform"]
    worlds = dict.fromkeys(row["world"] for row in found["means"])
    lines = [
        [
            world,
            *(
                pm(cells[name, world]["reward"], cells[name, world]["reward_error"], digits=3)
                for name in names
            ),
        ]
        for world in worlds
    ]
    return table(["world", *names], lines)


def board_losses() -> Markdown:
    """List policies that earn more than ours in the same trust model, with the corrected p."""
    found = _held("board")
    if found is None:
        return NOT_RUN
    ours = {"central": "GPBandit", "local": "Spec"}
    trust = {row["policy"]: row["trust"] for row in found["means"]}
    lines = [
        [
            row["world"],
            ours[trust[row["policy"]]],
            row["policy"],
            pm(row["difference"], row["error"], digits=3),
            "–" if row["p"] is None else f"{row['p']:.2g}",
        ]
        for row in found["tests"]
        if row["difference"] > 0
    ]
    return (
        table(["world", "ours", "earns more", "by", "p, after Holm"], lines)
        if lines
        else Markdown("Nowhere.")
    )

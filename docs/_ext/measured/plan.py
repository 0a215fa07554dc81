"""What `plan.md` and `results-board.md` show."""

from typing import Any

from IPython.display import HTML, Markdown
from pages import RESULTS, load, pm, shown, table

from dpbandits.lab.planning import pictures

NOT_RUN = Markdown("The command of this page has not been run on this code.")


def _held(name: str) -> Any:
    """A result file; None before it was ever written."""
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
            "never" if one["better_after"] is None else f"{one['better_after']:,}",
        ]
        for trust, one in found["answers"].items()
    ]
    people = f"people needed at epsilon {found['promise']:g}"
    return table(["whom people trust", "take", "smallest epsilon", people, "better after"], lines)


def validation() -> Markdown:
    """How plans did on worlds that they were not made for."""
    lines = []
    for name, what in (("plan-validation", "held-back worlds"), ("plan-tuning", "tuning worlds")):
        found = _held(name)
        if found is None:
            continue
        one = found["summary"]
        lines.append(
            [
                what,
                one["shares"],
                _percent(one["covered"]),
                pm(one["median_width"], digits=2),
                one["recommended"],
                _percent(one["reached"]),
                _percent(one["within_twice"]),
                one["reachable_but_not_said"],
            ]
        )
    heads = [
        "worlds",
        "shares",
        "in their interval",
        "median width",
        "epsilons recommended",
        "reach the target",
    ]
    heads += ["at most twice the smallest", "reachable, and not said"]
    return table(heads, lines) if lines else NOT_RUN


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}%"


def board(trust: str) -> Markdown:
    """Rank sums over the eight worlds, and the rank in each."""
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
    """Mean reward in every world, and beside it what nobody's trust gives."""
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
    """Where another policy of the same trust model earns more than ours, with the corrected p."""
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

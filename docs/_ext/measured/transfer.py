"""What `results-transfer.md` shows."""

from IPython.display import HTML, Markdown
from pages import Row, bars, draw, load, shown, table

from dpbandits.lab import plot
from dpbandits.lab.papers.ma2025.transfer import CASES


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
    return shown(figure, "Average regret in the world ma, without a source and with twelve kinds of sources.")


def transfer_table() -> Markdown:
    found, worlds = _transfers(), ["ma", "diagonal", "radial-3d", "clustered", "small-gaps"]
    lines = [
        [case.text, *(regret_of(found[name, one]) if (name, one) in found else "" for one in worlds)]
        for name, case in CASES.items()
        if any((name, one) in found for one in worlds)
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


def transfer_edge() -> Markdown:
    found = _transfers()
    names = ("none", "good", "questions-none", "questions-good")
    none, good, own, best = (regret_of(found[name, "ma-edge"]) for name in names)
    return Markdown(
        f"- `ma-edge`: {none} without a source, {good} with 5,000 at epsilon 8.\n"
        f"- The same by the learner `questions`: {own} and {best}."
    )


def transfer_counting() -> Markdown:
    rows = load("counting")
    if len({row["digest"] for row in rows}) != 1:
        raise ValueError("counting: the runs' digests differ")
    heads = ["", "seconds", "reports a second a worker", "CPU seconds", "reports a CPU second"]
    return table(
        heads,
        [
            [
                row["case"],
                f"{row['seconds']:.0f}",
                f"{row['per_second_a_worker']:,}",
                f"{row['cpu_seconds']:.1f}",
                f"{row['per_cpu_second']:,}",
            ]
            for row in rows
        ],
    )


def transfer_opening() -> Markdown:
    found = load("opening")
    named = (
        ("with its snapshot", found["opened"]),
        ("from the log alone", found["opened_from_the_log_alone"]),
    )
    lines = [
        [
            name,
            f"{row['seconds']:.1f}",
            f"{row['imports']:.1f}",
            f"{row['cpu_seconds']:.1f}",
            f"{row['mib']:.0f}",
        ]
        for name, row in named
    ]
    text = table(["", "seconds", "of which imports", "CPU seconds", "MiB at most"], lines).data
    size = sum(found["bytes"].values()) / 1e6
    return Markdown(
        f"{found['reports']:,} reports, {found['versions']} versions, {size:.0f} MB on disk.\n\n{text}"
    )

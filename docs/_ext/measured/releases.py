"""Tables and pictures of `evidence/releases.md`."""

from typing import Any

from IPython.display import HTML, Markdown
from pages import Row, draw, load, pm, shown, table

from dpbandits.lab import plot
from measured.people_tables import people


def _kinds(group: str) -> list[Row]:
    return [row for row in load("cells") if row["group"] == group]


def releases_misses() -> Markdown:
    """List the aims that were missed."""
    lines = [
        f"- {row['world']}, {row['kind']}, {_promised(row)}, {row['horizon']:,} rounds: "
        f"{row['regret']:.1f} ± {row['standard_error']:.1f}, aim {row['aim']:.0f}"
        for row in _kinds("figures")
        if row["aim"] is not None and row["regret"] > row["aim"]
    ]
    aims = sum(row["aim"] is not None for row in _kinds("figures"))
    return Markdown(f"{len(lines)} of {aims} aims are missed:\n\n" + "\n".join(lines))


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
    heads = ["world", "T", "release", "privacy", "regret", "median", "worst", "aim", "random", "below it"]
    return table(heads, lines)


def releases_rule() -> Markdown:
    ways = [("cells", 0.0), ("features", 1e-6), ("features", 1e-3), ("features", 0.1)]
    rows = [row for row in _kinds("checked") if row["horizon"] >= 3_000]
    found = {_line(row): row for row in rows}
    lines = []
    for horizon, world, epsilon in dict.fromkeys(_line(row)[:3] for row in rows):
        own = [found.get((horizon, world, epsilon, *way)) for way in ways]
        regrets = ["" if row is None else pm(row["regret"], row["standard_error"], digits=0) for row in own]
        lines.append([world.removeprefix("box-"), f"{horizon:,}", f"{epsilon:g}", *regrets])
    features = (f"features, delta {delta}" for delta in ("1e-6", "1e-3", ".1"))
    return table(["columns", "rounds", "epsilon", "cells, pure", *features], lines)


def _line(row: Row) -> tuple[int, str, float, str, float]:
    return row["horizon"], row["world"], row["epsilon"], row["kind"], row["delta"]


_OF_BOXES = {
    ("cells", 0.0): ("cells, pure epsilon", 1),
    ("features", 1e-6): ("features, delta 1e-6", 2),
    ("features", 1e-3): ("features, delta 1e-3", 6),
    ("features", 0.1): ("features, delta .1", 3),
}
_CRUDE_OF_BOXES = {("ridge", 1e-6): ("ridge, delta 1e-6", 4), ("histogram", 0.0): ("histogram, pure", 5)}
_OF_PEOPLE = {"marginals": 1, "features": 2, "ridge": 4, "histogram": 5}
"""Method -> its number in `plot.LINES`."""


def _joined(axes: Any, x: Any, mean: Any, error: Any, name: str, number: int) -> None:
    colour, line, marker = plot.LINES[number]
    look: dict[str, Any] = {"label": name, "linestyle": line, "marker": marker, "linewidth": 1.2}
    plot.draw_points(axes, x, mean, error, colour=colour, markersize=4, **look)


def _lost(axes: Any, rows: list[Row], along: str, name: str, number: int) -> None:
    """Draw regret as a share of a random policy's."""
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
    """Show regret after 3,000 rounds over epsilon, by columns, release and delta."""
    found, dims = {_line(row): row for row in _kinds("checked")}, (1, 2, 4, 6)
    epsilons = sorted({line[2] for line in found})
    figure, panels = draw(width=7.6, height=3.0, columns=len(dims))
    for dim, axes in zip(dims, panels, strict=True):
        for way, (name, number) in (_OF_BOXES | _CRUDE_OF_BOXES).items():
            rows = [found[3_000, f"box-{dim}", epsilon, *way] for epsilon in epsilons]
            _lost(axes, rows, "epsilon", name, number)
        places = {epsilon: f"{epsilon:g}" for epsilon in epsilons}
        _ticks(axes, places, title=f"{dim} column{'s' * (dim > 1)}", name="epsilon", top=95)
        axes.tick_params(labelleft=dim == dims[0])
    panels[0].set_ylabel("regret, % of uniform choice")
    plot.add_legend(panels[-1])
    return shown(
        figure,
        "Regret over epsilon in boxes of 1, 2, 4 and 6 columns. At epsilon .3 and 1 cells lie below features "
        "at delta 1e-6 in all of them; at delta .1 features lie lower, at epsilon 10 lower or level. A crude "
        "ridge and a crude histogram lie above both nearly everywhere.",
    )


def releases_over_people() -> HTML:
    """Show regret over the number of users, cells beside features at delta 1e-6."""
    found = {_line(row): row for row in _kinds("checked")}
    cases = ((2, 1.0), (2, 3.0), (4, 1.0), (4, 3.0))
    figure, panels = draw(width=7.6, height=2.8, columns=len(cases))
    for (dim, epsilon), axes in zip(cases, panels, strict=True):
        for way, (name, number) in list(_OF_BOXES.items())[:2]:
            rows = [found[rounds, f"box-{dim}", epsilon, *way] for rounds in (500, 3_000, 10_000)]
            _lost(axes, rows, "horizon", name, number)
        places = {500: "500", 3_000: "3k", 10_000: "10k"}
        _ticks(axes, places, title=f"{dim} columns, epsilon {epsilon:g}", name="users", top=95)
        axes.tick_params(labelleft=(dim, epsilon) == cases[0])
    panels[0].set_ylabel("regret, % of uniform choice")
    plot.add_legend(panels[-1])
    return shown(
        figure,
        "Regret of cells and of features at delta 1e-6 over 500 to 10,000 users, in two and four columns at "
        "epsilon 1 and 3: both fall, and features catch up with cells sooner at epsilon 3.",
    )


def releases_for_arms() -> HTML:
    """Show the uplift lost on tables of people by epsilon, columns and people."""
    found = people()
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
    over_epsilon.set_ylabel("uplift lost, %")
    handles = over_epsilon.get_legend_handles_labels()
    figure.legend(*handles, loc="outside right center", frameon=False, fontsize=8)
    return shown(
        figure,
        "Uplift lost on tables of people against learning without privacy. On average marginal "
        "tables lose least at every epsilon. Table by table they mostly do, over 3 to 10 columns and 3,000 "
        "to 50,000 people; product features lose most on some tables of seven and eight columns.",
    )


def releases_stuck() -> Markdown:
    lines = [
        [
            row["world"],
            row["kind"],
            pm(row["regret"], row["standard_error"], digits=1),
            f"{row['median']:.0f}",
            f"{row['worst']:.0f}",
            f"{row['random']:,.0f}",
            f"{row['below_random']} of {row['seeds']}",
        ]
        for row in _kinds("stuck")
    ]
    heads = ["world", "release", "regret", "median", "worst", "random", "worse than random"]
    return table(heads, lines)


def releases_tuning() -> Markdown:
    """Show how much less is lost with another value of each constant, in hundredths."""
    rows = load("releases-tuning")
    lines = []
    for group, constant in dict.fromkeys((row["group"], row["constant"]) for row in rows):
        own = [row for row in rows if (row["group"], row["constant"]) == (group, constant)]
        texts = [
            "; ".join(
                f"{_value(row['value'])}: {100 * row['gain']:+.1f} ± {100 * row['standard_error']:.1f}"
                for row in own
                if row["stage"] == stage
            )
            for stage in ("screened", "confirmed")
        ]
        lines.append([group, constant, _value(own[0]["present"]), *texts])
    heads = ["group", "constant", "value", "another value: gain", "again, on fresh seeds"]
    return table(heads, lines)


def _value(value: float | list[float]) -> str:
    return f"{value:g}" if isinstance(value, float | int) else ", ".join(f"{one:.3g}" for one in value)


def releases_chosen() -> Markdown:
    """Show the regret of cells and features on the families that checked the rule."""
    lost = {
        (row["world"], row["kind"], row["delta"], row["epsilon"], row["horizon"]): row
        for row in _kinds("rule")
    }
    families = list(dict.fromkeys(row["world"].partition("-")[0] for row in _kinds("rule")))
    places = dict.fromkeys(
        (int(world.partition("-")[2]), horizon, epsilon) for world, _, _, epsilon, horizon in lost
    )
    lines = []
    for dim, horizon, epsilon in sorted(places):
        cells = []
        for kind, delta in (("cells", 0.0), ("features", 1e-6), ("features", 1e-3), ("features", 0.1)):
            own = [lost.get((f"{family}-{dim}", kind, delta, epsilon, horizon)) for family in families]
            shares = [100 * row["regret"] / row["random"] for row in own if row is not None]
            cells.append(f"{sum(shares) / len(shares):.1f}" if shares else "")
        lines.append([f"{dim}", f"{horizon:,}", f"{epsilon:g}", *cells])
    features = (f"features, delta {delta}" for delta in ("1e-6", "1e-3", ".1"))
    return table(["columns", "rounds", "epsilon", "cells, pure", *features], lines)

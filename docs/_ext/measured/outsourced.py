"""Tables and pictures of `evidence/outsourced.md`."""

import math
from typing import Any

from IPython.display import HTML, Markdown
from pages import Row, load, shown, table

from reproduction.kharkovskii2020.cells import picture
from reproduction.kharkovskii2020.items import STUDY
from reproduction.studies.outsourced_plain import MEASURES, MODELER, wins


def outsourced(name: str) -> list[Row]:
    return list(load(f"kharkovskii2020-{name}"))


def simple_regret(row: Row) -> str:
    return f"{row['regret']:.3g} ± {row['standard_error']:.2g}"


def outsourced_table(name: str) -> Markdown:
    """Show one line for each method, one column for each epsilon."""
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


def outsourced_worlds() -> Markdown:
    """Show simple regret on Branin, houses in Ames and loans."""
    names = {"branin": "Branin, 100 x 100", "ames": "Ames", "loans": "Loans"}
    return Markdown("\n\n".join(f"**{name}**\n\n{outsourced_table(key).data}" for key, name in names.items()))


def outsourced_targets() -> Markdown:
    return table(
        ["epsilon", "reached", "verdict"],
        [
            [f"{row['epsilon']:g}", simple_regret(row), row["verdict"]]
            for row in outsourced("synthetic")
            if row["verdict"].startswith("target")
        ],
    )


def outsourced_figure2() -> HTML:
    known = [cell.label for cell in STUDY.cells("figure-2")]
    measured = [row for name in ("synthetic", "branin", "loans", "ames") for row in outsourced(name)]
    rows = [row for row in measured if {key: row[key] for key in known[0]} in known]
    return shown(
        picture(rows), "Simple regret by evaluations, a curve for every method and epsilon, in four worlds."
    )


def outsourced_dimensions() -> Markdown:
    return table(
        ["method", "r", "regret", "seeds"],
        [
            [row["method"], row["dimension"] or "", simple_regret(row), row["reps"]]
            for row in outsourced("figure-3")
        ],
    )


def outsourced_beside(name: str) -> Markdown:
    """Show the published method by its r, one column for each printed epsilon, the paper's in brackets."""
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
    """Show the rows without a number of the paper."""
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
    """List the tables on which another rule does better on average than the modeler."""
    lines = []
    for epsilon in _search_epsilons():
        for measure, sign in _WAYS.items():
            others = {"random": None, "nearest": epsilon, "open modeler": None, "earlier modeler": epsilon}
            for other, own in others.items():
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


def outsourced_searches() -> Markdown:
    """Show every measure by table, method and epsilon."""
    return Markdown("\n\n".join(f"**{name}**\n\n{_by_table(way).data}" for way, name in _CALLED.items()))


def _by_table(measure: str) -> Markdown:
    """Return one line for each table, one column for each method and epsilon."""
    ways = [(line["method"], line["epsilon"]) for line in _searches()["summary"]] + [("random", None)]
    ways = [way for way in ways if way[0] != "earlier modeler"]
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


def outsourced_plain_wins() -> Markdown:
    """Show the pairs in which a plain process is ahead by more than its standard error."""
    lines = [
        [
            _CALLED[measure],
            f"{line['epsilon']:g}",
            line["table"],
            line["method"],
            f"{line[measure]:.2f} ± {line[f'{measure}_se']:.2f}",
        ]
        for measure in MEASURES
        for line in wins(load("outsourced-plain")["ahead"], measure)
    ]
    return table(["measure", "epsilon", "table", "method", "ahead by"], lines)


def outsourced_plain() -> Markdown:
    """Show means over the tables by method and epsilon, and on how many tables it is ahead and behind."""
    found = load("outsourced-plain")
    epsilons = sorted({row["epsilon"] for row in found["rows"]})
    lines = []
    for method in dict.fromkeys(row["method"] for row in found["rows"]):
        for epsilon in epsilons:
            own, gaps = (
                [row for row in found[part] if (row["method"], row["epsilon"]) == (method, epsilon)]
                for part in ("rows", "ahead")
            )
            cells = []
            for measure in MEASURES:
                error = math.hypot(*(row[f"{measure}_se"] for row in own)) / len(own)
                cells.append(f"{sum(row[measure] for row in own) / len(own):.2f} ± {error:.2f}")
                above = len(wins(gaps, measure))
                below = sum(gap[measure] < -(1.0 + 1e-9) * gap[f"{measure}_se"] for gap in gaps)
                cells.append("" if method == MODELER else f"{above}, {below}")
            lines.append([method, f"{epsilon:g}", *cells])
    heads = [head for measure in MEASURES for head in (_CALLED[measure], "ahead, behind on")]
    return table(["method", "epsilon", *heads], lines)


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

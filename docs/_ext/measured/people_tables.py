"""Tables and pictures of `evidence/people-tables.md`."""

from typing import Any

from IPython.display import Markdown
from pages import RESULTS, Row, load, pm, table


def people() -> Any:
    """Return the result file; empty if it does not exist."""
    return (
        load("people-tables")
        if (RESULTS / "people-tables.json").exists()
        else {"means": [], "tables": [], "constant_arm": []}
    )


def people_means() -> Markdown:
    return _means(people()["means"])


def _means(rows: list[Row]) -> Markdown:
    """A line for every set of tables and method, mean shares along epsilon."""
    if not rows:
        return Markdown("The command below has not been run on this code.")
    found = {(row["tables"], row["method"], row["epsilon"]): row for row in rows}
    epsilons = sorted({epsilon for _, _, epsilon in found})
    lines = []
    for tables, method in dict.fromkeys((tables, method) for tables, method, _ in found):
        along = [found[tables, method, one] for one in epsilons]
        shares = [pm(row["share"], row["share_se"], scale=100, digits=1) for row in along]
        lines.append([f"{tables}, {along[0]['count']} tables", method, *shares])
    return table(["tables", "method", *(f"share at epsilon {one:g}, %" for one in epsilons)], lines)


def people_tables() -> Markdown:
    lines, rows = [], people()["tables"]
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
    """List the tables on which a cruder method or the best constant arm earns more than marginal tables."""
    found = people()
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
    """Return the result file of `--group log`; empty if it does not exist."""
    return people().get("log") or {"means": [], "tables": [], "constant_arm": []}


def people_log_misses() -> Markdown:
    """List the tables on which the ridge or the best constant arm earns more than a log's marginal tables."""
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
    return _means(_log()["means"])


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


def people_needed() -> Markdown:
    """Shares of right guesses by the number of people; see `reproduction.studies.people_needed`."""
    names = ("private", "constant", "non-private")
    return table(
        ["people", "private", "best constant arm", "without privacy", "private above the constant arm"],
        [
            [
                f"{row['people']:,}",
                *(pm(row[name], row[f"{name}_error"], digits=3) for name in names),
                pm(row["above_constant"], row["above_constant_error"], digits=3),
            ]
            for row in load("people-needed")
        ],
    )

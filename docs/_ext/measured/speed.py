"""Tables and pictures of `evidence/speed.md`."""

import statistics

from IPython.display import HTML, Markdown
from pages import Row, draw, grid, load, load_all, pm, shown, table

from dpbandits.lab import plot

PRIVATE, BARE, PEER = "GPBandit", "NumPy LinUCB", "Vowpal Wabbit, --cb_explore_adf"
OURS = (
    PRIVATE,
    "GPBandit, releases beside the answers",
    "twin without privacy",
    "FeatureGPUCB, without privacy",
)
"""Methods of `benchmarks.contexts` that the table of decisions shows."""

Key = tuple[int, int, str, str]


def speed_contexts_opening() -> Markdown:
    found = load("contexts-speed")
    cells = _cells(found["rows"])
    private = [cells[key] for key in cells if key[2:] == ("default", PRIVATE)]
    failed = [f"{_size(row)} ({row['failed']})" for row in private if row["failed"]]
    ratios = {_size(row): _ratio(cells, row, PEER) for row in private if not row["failed"]}
    worst = max(ratios, key=lambda size: ratios[size] or 0.0)
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    said = (
        f"With default threads a private decision takes at most {_times(ratios[worst])} times the CPU time "
        f"of Vowpal Wabbit's, at {worst} (columns x arms). "
        + (f"It does not finish at {', '.join(failed)}. " if failed else "")
        + (f"Left out, because not installed: {', '.join(found['left_out'])}. " if found["left_out"] else "")
    )
    return Markdown(
        f"{said}Decisions: {found['rounds']:,}. Repetitions, which take turns: {found['repetitions']}. Seed "
        f"{found['seed']}, {found['cpus']} cores, load {found['load_before']:.1f} at the start. {versions}."
    )


def _times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"


def _cells(rows: list[Row]) -> dict[Key, Row]:
    return {(row["columns"], row["arms"], row["threads"], row["method"]): row for row in rows}


def _size(row: Row) -> str:
    return f"{row['columns']} x {row['arms']}"


def _ratio(cells: dict[Key, Row], row: Row, other: str) -> float | None:
    """Ratio of CPU time to another method in the same cell; None if either failed or was not measured."""
    beside = cells.get((row["columns"], row["arms"], row["threads"], other))
    if row["failed"] or beside is None or beside["failed"]:
        return None
    return float(row["cpu_us"]["median"] / beside["cpu_us"]["median"])


def speed_contexts() -> Markdown:
    """Table of our methods with default threads: failed ones first, then by the ratio to Vowpal Wabbit."""
    found = load("contexts-speed")
    return contexts_table(found["rows"], found["rounds"])


def contexts_table(rows: list[Row], rounds: int) -> Markdown:
    cells = _cells(rows)
    ours = [row for row in rows if row["threads"] == "default" and row["method"] in OURS]
    ours.sort(key=lambda row: (row["failed"] is None, -(_ratio(cells, row, PEER) or 0.0)))
    lines = []
    for row in ours:
        start = [_size(row), row["method"]]
        if row["failed"]:
            lines.append([*start, f"**{row['failed']}**", *[""] * 6])
            continue
        to_peer, to_bare = (_ratio(cells, row, other) for other in (PEER, BARE))
        cpu, worst = row["cpu_us"], row["ask_worst_ms"]["median"]
        stopped = "" if row["rounds"] == rounds else f", first {row['rounds']:,} decisions"
        lines.append(
            [
                *start,
                f"{cpu['median']:,.0f} ({cpu['smallest']:,.0f} to {cpu['largest']:,.0f}){stopped}",
                _times(to_peer),
                _times(to_bare),
                f"{row['ask_p50_us']['median']:,.0f}",
                f"{worst:,.1f}",
                f"{row['ask_worst_wall_ms']['median']:,.1f}",
                f"{row['peak_mb']['median']:,.0f}",
            ]
        )
    heads = ["columns x arms", "policy", "CPU, us", "over Vowpal Wabbit", "over NumPy", "median ask, us"]
    return table([*heads, "worst ask, CPU ms", "worst ask, clock ms", "peak memory, MB"], lines)


def speed_contexts_peers() -> Markdown:
    """CPU microseconds of a decision by every method, with default threads."""
    return _by_method("cpu_us")


def speed_contexts_memory() -> Markdown:
    """Peak megabytes of the process of every method, with default threads."""
    return _by_method("peak_mb")


def _by_method(name: str) -> Markdown:
    rows = [row for row in load("contexts-speed")["rows"] if row["threads"] == "default"]
    return grid(
        rows, down=lambda row: row["method"], across=_size, cell=lambda row: _number(row, name), head="method"
    )


def _number(row: Row, key: str) -> str:
    return "fails" if row["failed"] else f"{row[key]['median']:,.0f}"


def speed_products() -> Markdown:
    """Time and memory among many products, from `benchmarks.products`."""
    columns = {
        "products": "products",
        "ask_p50_us": "ask, us",
        "ask_worst_ms": "worst ask, ms",
        "release_s": "release, s",
        "construction_s": "construction, s",
        "construction_mb": "construction, MB",
        "peak_mb": "peak, MB",
    }
    rows = load("products-speed")["rows"]
    return table([*columns.values()], [[f"{row[name]:,.4g}" for name in columns] for row in rows])


def speed_learning() -> Markdown:
    """Misses of the aims for `central.learn`, then all lines."""
    rows = load("learn-from-tables")
    name = "{rows:,} rows, k = {k}, {engine}".format
    aims = {("DuckDB", 10**7): ("cpu", 12.0), ("PostgreSQL", 10**6): ("wall", 60.0)}
    timed = [(row, *aims.get((row["engine"], row["rows"]), ("cpu", float("inf")))) for row in rows]
    missed = [f"{name(**row)} {row[what]:.1f} s (aim {aim:g})" for row, what, aim in timed if row[what] > aim]
    missed += [
        f"{name(**row)} {row['megabytes']:.0f} MB (aim 700)"
        for row in rows
        if row["engine"] == "DuckDB" and row["rows"] == 10**7 and row["megabytes"] > 700
    ]
    lines = [
        [
            f"{row['rows']:,}",
            row["k"] or "no limit",
            row["engine"],
            f"{row['cpu']:.1f}",
            f"{row['wall']:.1f}",
            f"{row['megabytes']:,.0f}",
            f"{row['load']:.0f}",
        ]
        for row in rows
    ]
    said = f"Missed: {'; '.join(missed) or 'none'}.\n\n"
    return Markdown(
        said + table(["rows", "k", "engine", "CPU, s", "wall, s", "peak, MB", "load"], lines).data
    )


def speed_threads() -> Markdown:
    lines = []
    for row in sorted(load("threads")["rows"], key=lambda row: -row["ratio"]):
        default, one = (f"{statistics.median(row['seconds'][name]):.2f}" for name in ("default", "one"))
        lines.append([row["name"], default, one, f"{row['ratio']:.2f}" + ", **missed**" * row["missed"]])
    return table(["process", "default threads, s", "one thread, s", "ratio"], lines)


def speed_opening() -> Markdown:
    rows = [row for row in load("speed") if row["aim"]]
    missed = [row for row in rows if row["missed"]]
    lines = "\n".join(f"- {row['name']}: {row['after']:.3g}, aim {row['aim']:.3g}" for row in missed)
    return Markdown(f"{len(rows) - len(missed)} of {len(rows)} aims are met. Missed:\n\n{lines}")


def speed_picture() -> HTML:
    """Draw figures as shares of their aims; below 1 meets the aim."""
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


def speed_peers() -> Markdown:
    """Time and regret of every method; random ones last."""
    rows = [row for row in load("peers") if not row["name"].startswith("random")]
    lines = [
        [
            row["name"] + ", one crowd" * (row["seeds"] == 1),
            row["where"],
            f"{row['rounds']:,}",
            f"{row['ms']:.2f}",
            pm(row["regret"], row["standard_error"], digits=1),
        ]
        for row in rows
    ]
    random = {(row["where"], row["rounds"]): row for row in load("peers") if row["name"].startswith("random")}
    lines += [
        ["random", where, f"{rounds:,}", "", pm(row["regret"], row["standard_error"], digits=1)]
        for (where, rounds), row in random.items()
    ]
    return table(["method", "chooses among", "rounds", "ms a decision", "regret"], lines)


def workers_counting() -> Markdown:
    rows = load_all("counting-database")
    if not rows:
        return Markdown("Not measured yet.")
    lines = [
        [
            row["case"],
            f"{row['accepted']:,}",
            f"{row['repeated']:,}",
            f"{row['cpu_seconds']:.1f}",
            row["digest"],
        ]
        for row in rows
    ]
    return table(["", "counted", "repeated", "CPU seconds", "digest"], lines)


def worker_faults() -> Markdown:
    found = load("worker-faults")
    struck, local = found["faults"], found["local"]
    kinds = ", ".join(f"{name} {count}" for name, count in struck.items())
    return Markdown(
        f"In {sum(struck.values())} faults ({kinds}) {found['answers']:,} decisions and {found['rewards']:,} "
        f"rewards were acknowledged, {found['policies']} policies begun, and {found['compared']} releases "
        f"compared. {local['sent']} reports to a local policy were confirmed, copies among them; "
        f"{local['reports']} different ones were counted, each once, and {local['versions']} versions "
        "published. There was no contradiction."
    )


def service_workers() -> Markdown:
    found = load_all("service-workers")
    if not found:
        return Markdown("Not measured yet on an idle machine.")
    (run,) = found
    lines = [
        [
            f"{row['workers']} workers" if row["workers"] > 1 else "1 worker",
            f"{row['one_policy']:,}",
            f"{row['policies']:,}",
            f"{row['route']:,}",
            f"{row['ratio_to_route']:.2f}",
            f"{row['bare']:,}",
            f"{row['ratio']:.3f}",
            f"{row['ratio_policies']:.3f}",
        ]
        for row in run["workers"]
    ]
    heads = [
        "",
        "one policy",
        "eight policies",
        "a bare route",
        "one, over the route",
        "bare inserts",
        "one, over inserts",
        "eight, over inserts",
    ]
    words = (
        f"Pairs a second, medians of {run['rounds']} rounds of {run['pairs']}, {run['connections']} "
        f"connections; {run['machine']}, load {run['load_before']} before the run and {run['load_after']} at "
        "its end. The database by itself "
        f"commits {run['commits_1']:,} inserts a second over one connection and {run['commits_16']:,} over "
        "16: two commits a pair are its own limit for whoever does not share them.\n\n"
    )
    return Markdown(words + str(table(heads, lines).data))


def speed_service() -> Markdown:
    lines = []
    for row in load_all("service-speed"):
        aim = "" if row["aim"] is None else f"{'at least' if row['least'] else 'at most'} {row['aim']:,g}"
        aim += ", **missed**" * row["missed"]
        lines.append([row["name"], f"{row['value']:,.4g}", aim, row.get("load", "not noted")])
    if not lines:
        return Markdown("Not measured yet.")
    return table(["what", "measured", "aim", "load of the machine"], lines)

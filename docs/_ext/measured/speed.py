"""What `speed.md` shows."""

from IPython.display import HTML, Markdown
from pages import draw, load, load_all, pm, shown, table

from dpbandits.lab import plot


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


def speed_unresolved() -> Markdown:
    return _less_work("unresolved", "part left out", "0")


def _less_work(results: str, ways: str, whole: str) -> Markdown:
    rows, lines = list(load_all(results)), []
    took = {(row["world"], row["epsilon"]): row["seconds"] for row in rows if row["way"] == whole}
    for row in rows:
        done = row["way"] == whole
        more = "" if done else f"{row['more']:.1f} ± {row['more_error']:.1f}"
        time = f"{row['seconds'] / took[row['world'], row['epsilon']]:.2f}" if row["seconds"] else ""
        regret = f"{row['regret']:.1f} ± {row['error']:.1f}"
        way = f"{whole} (all the work)" if done else row["way"]
        lines.append([row["world"], f"{row['epsilon']:g}", way, regret, more, time])
    heads = ["world", "epsilon", ways, "regret", "more than with all the work", "time of a run"]
    return table(heads, lines)


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
        lines.append([row["name"], f"{row['value']:,.4g}", aim + ", **missed**" * row["missed"]])
    if not lines:
        return Markdown("Not measured yet on an idle machine.")
    return table(["what", "measured", "aim"], lines)

"""Tables and pictures of `evidence/papers.md` and of the pages that it names."""

from typing import Any

from IPython.display import HTML, Markdown
from pages import RESULTS, load, shown, table

from dpbandits.lab.plot import to_data_uri, to_png, to_svg
from reproduction import study
from reproduction.behind import CHANGED, ahead, behind
from reproduction.dubey2021.parts import PARTS
from reproduction.kharkovskii2020.verdicts import explained, run_often, small_r
from reproduction.ma2025.constants import TABLE
from reproduction.ma2025.methods import CONSTANTS
from reproduction.ma2025.table_2 import PRINTED, PRINTED_BASE
from reproduction.verdicts import COLUMNS, NOT_RUN, verdicts


def paper_verdicts(paper: str) -> Markdown:
    """Show a line for everything that a paper prints."""
    found = verdicts(RESULTS)[paper]
    return table(
        list(COLUMNS),
        [[f"`{row[name]}`" if name == "run" else row[name] for name in COLUMNS] for row in found],
    )


def papers_behind() -> Markdown:
    """List the places where a published method is ahead of ours at the same guarantee."""
    rows = behind(RESULTS)
    if not rows:
        return Markdown("In no line that was run is this library behind a published method.")
    apart = sum(row["told apart"] == "yes" for row in rows)
    published = [row for row in rows if not row["published method"].startswith(CHANGED)]
    said = f"Places where a published method has the better mean: {len(published)}; where one with a part of "
    said += (
        f"it changed, at the same guarantee, has it: {len(rows) - len(published)}. Of all these {apart} are "
    )
    said += "by more than two standard errors of the difference:\n\n"
    return Markdown(said + str(table(list(rows[0]), [list(row.values()) for row in rows]).data))


def papers_ahead() -> Markdown:
    """Show how often ours is ahead of a published method at the same guarantee, by figure or table."""
    rows = ahead(RESULTS)
    compared, better, apart = (
        sum(int(row[name]) for row in rows) for name in ("places", "ours is better", "told apart")
    )
    said = (
        f"Of {compared} places where both were run ours has the better mean in {better}, in {apart} of them "
        "by more than two standard errors of the difference. The last column is their loss over ours "
        "there, or our reward over theirs:\n\n"
    )
    return Markdown(said + str(table(list(rows[0]), [list(row.values()) for row in rows]).data))


def papers_not_private() -> Markdown:
    """List the elements whose verdict begins with "not private"; tables of one paper share a line."""
    lines = []
    for paper, rows in verdicts(RESULTS).items():
        broken = [row for row in rows if row["verdict"].startswith("not private")]
        measured = [row for row in broken if row["seeds"] not in ("none", NOT_RUN)]
        lines += [
            [paper, row["item"], row["verdict"], row["run"]] for row in broken if row["seeds"] == "none"
        ]
        if measured:
            lines.append([paper, "figures and tables", f"{len(measured)} lines", "in the lines"])
    return table(["paper", "element", "verdict", "run or read"], lines)


def papers_counted() -> Markdown:
    """Count the lines that have a verdict, and those that were not run."""
    rows = [row for lines in verdicts(RESULTS).values() for row in lines]
    waiting = sum(row["verdict"] == NOT_RUN for row in rows)
    return Markdown(f"{len(rows)} lines; {waiting} were not run yet.")


def paper_picture(paper: str, item: str, alt: str) -> HTML | Markdown:
    """Draw an item from its committed rows, with PNG and SVG to download; without rows return a sentence."""
    stem = f"{paper}-{item}"
    if not (RESULTS / f"{stem}.json").exists():
        return Markdown(f"*{alt}*: not run yet.")
    drawn: Any = study(paper).item(item).picture
    figure = drawn(load(stem))
    svg = to_data_uri(to_svg(figure)).replace("image/png", "image/svg+xml", 1)
    links = [
        f'<a download="{stem}.{kind}" href="{uri}">{kind.upper()}</a>'
        for kind, uri in (("png", to_data_uri(to_png(figure))), ("svg", svg))
    ]
    return HTML(f"{shown(figure, alt).data}<p>{' · '.join(links)}</p>")


KHARKOVSKII = {
    "projections": "Figure 2a and Tables 1 to 3: synthetic",
    "loans-printed": "The grid of Tables 4 to 6, on another table of loans",
    "ames-printed": "The grid of Tables 7 to 9, on houses in Ames",
    "branin31": "Figure 3 and Tables 10 to 12: Branin; printed numbers are hollow",
    "projections-code": "Tables 1 to 3 as the authors' code runs; printed numbers are hollow",
    "branin31-code-raw-five": "Branin as that code runs and scales, minus log of 5 + f",
}
"""Item of Kharkovskii2020 -> what its picture shows."""


def kharkovskii_pictures() -> HTML:
    """Draw the items of Kharkovskii2020."""
    pictures = (paper_picture("kharkovskii2020", item, alt) for item, alt in KHARKOVSKII.items())
    return HTML("".join(str(one.data) for one in pictures))


def table_1_parts() -> Markdown:
    """Show Table 1 of Dubey2021 with one part of the published tree changed at a time."""
    rows = load("dubey2021-table-1-parts")
    places = list(dict.fromkeys((row["world"], row["epsilon"]) for row in rows))
    found = {(row["world"], row["epsilon"], row["column"]): row for row in rows}
    lines = []
    for world, epsilon in places:
        here = [found[world, epsilon, column] for column in PARTS]
        shown_numbers = [f"{row['regret']:,.0f} ({row['standard_error']:.0f})" for row in here]
        whole = here[0]
        apart = f"{whole['bonus']:.2f} of {whole['apart']:.2f}"
        lines.append([world, f"{epsilon:g}", *shown_numbers, f"{whole['random']:,.0f}", apart])
    return table(["function", "alpha", *PARTS, "random", "bonus apart, of rewards"], lines)


def papers_explained() -> Markdown:
    """Show tables of Kharkovskii2020 under other settings of its algorithms."""
    rows = explained(RESULTS)
    return table(list(rows[0]), [[f"`{row[n]}`" if n == "run" else row[n] for n in row] for row in rows])


def papers_small_r() -> Markdown:
    """Show small r of Kharkovskii2020's Branin under what its code leaves open."""
    rows = small_r(RESULTS)
    return table(list(rows[0]), [list(row.values()) for row in rows])


def papers_run_often() -> Markdown:
    """Show numbers of Kharkovskii2020 beside ten times as many runs."""
    rows = run_often(RESULTS)
    return table(list(rows[0]), [[str(value) for value in row.values()] for row in rows])


def table_2_widths() -> Markdown:
    """Say what ABSE earns on Adult by birth under two widths, and what the paper's largest ratio needs."""
    cells = [row for row in load("ma2025-table-2")["cells"] if row["world"] == TABLE]
    quarter = {row["method"]: 1.0 - row["regret_at_quarter"] for row in cells if row["epsilon"] is None}
    best = max(1.0 - row["regret_at_quarter"] for row in cells)
    ratio = max(value for (name, *_), value in PRINTED.items() if name == "adult")
    base = quarter[PRINTED_BASE]
    return Markdown(
        f"ABSE's width decides Table 2: on Adult by birth ABSE earns {quarter['abse']:.2f} at $n/4$ with the "
        f"width that we chose on other people, and {base:.2f} with 4, little more than the half that a "
        f"random arm earns; everything over it looks large. The printed ratio of {ratio:.3f} would need a "
        f"reward of {ratio * base:.2f} here, where the best of all methods earns {best:.2f}; even over a "
        f"random arm it needs {ratio / 2:.2f}."
    )


def paper_constants() -> Markdown:
    """Show the paper's algorithm over its constant: reward over ABSE's on Adult, regret in its world."""
    rows = load("ma2025-constants")
    base = next(
        1.0 - row["regret"]
        for row in load("ma2025-table-2")["cells"]
        if (row["world"], row["method"]) == (TABLE, PRINTED_BASE)
    )

    def place(row: dict[str, Any]) -> tuple[str, float, float]:
        return row["world"], row["epsilon"], row["sources"][0]["epsilon"] if row["sources"] else 0.0

    def cell(row: dict[str, Any]) -> str:
        if row["world"] != TABLE:
            return f"{row['regret']:.3f} ({row['standard_error']:.3f})"
        return f"{(1.0 - row['regret']) / base:.3f} ({row['standard_error'] / base:.3f})"

    places = list(dict.fromkeys(map(place, rows)))
    found = {(row["method"], place(row)): cell(row) for row in rows}
    named = {
        (world, own, theirs): ("ratio, Adult" if world == TABLE else "regret")
        + f", epsilon {own:g}"
        + (f", source {theirs:g}" if theirs else "")
        for world, own, theirs in places
    }
    lines = [
        [f"{c:.3g}", *(found.get((method, at), NOT_RUN) for at in places)]
        for method, c in sorted(CONSTANTS.items(), key=lambda item: item[1])
    ]
    return table(["c", *(named[at] for at in places)], lines)

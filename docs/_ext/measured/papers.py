"""What `results-papers.md` shows."""

from typing import Any

from IPython.display import HTML, Markdown
from pages import RESULTS, load, shown, table

from dpbandits.lab.papers import study
from dpbandits.lab.papers.behind import behind
from dpbandits.lab.papers.verdicts import COLUMNS, NOT_RUN, verdicts
from dpbandits.lab.plot import to_data_uri, to_png, to_svg


def paper_verdicts(paper: str) -> Markdown:
    """A line for everything that a paper prints."""
    found = verdicts(RESULTS)[paper]
    return table(
        list(COLUMNS),
        [[f"`{row[name]}`" if name == "run" else row[name] for name in COLUMNS] for row in found],
    )


def papers_behind() -> Markdown:
    """Where a published method is ahead of ours at the same honest promise."""
    rows = behind(RESULTS)
    if not rows:
        return Markdown("In the lines that were run ours is behind no published method at the same promise.")
    apart = sum(row["told apart"] == "yes" for row in rows)
    said = f"Places where a published method has the better mean: {len(rows)}, {apart} of them by more than "
    said += "two standard errors of the difference:\n\n"
    return Markdown(said + str(table(list(rows[0]), [list(row.values()) for row in rows]).data))


def papers_counted() -> Markdown:
    """How many lines have a verdict, and how many were not run."""
    rows = [row for lines in verdicts(RESULTS).values() for row in lines]
    waiting = sum(row["verdict"] == NOT_RUN for row in rows)
    return Markdown(f"{len(rows)} lines; {waiting} were not run yet.")


def paper_picture(paper: str, item: str, alt: str) -> HTML | Markdown:
    """Picture of an item from its committed rows, with PNG and SVG to take along; else a sentence."""
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

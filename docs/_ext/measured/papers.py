"""What `results-papers.md` shows."""

from IPython.display import Markdown
from pages import RESULTS, table

from dpbandits.lab.papers.verdicts import COLUMNS, NOT_RUN, verdicts


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

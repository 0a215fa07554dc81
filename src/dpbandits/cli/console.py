"""What goes to people goes through here: tables to stdout, progress and errors to stderr."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["console", "error_console", "progress_bar"]


def console() -> Console:
    """Standard output."""
    return Console(highlight=False)


def error_console() -> Console:
    """Standard error."""
    return Console(stderr=True, highlight=False)


def progress_bar() -> Progress:
    """A bar with the time left, on standard error, gone when it is done; silent where nobody watches."""
    stderr = error_console()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=stderr,
        transient=True,
        disable=not stderr.is_terminal,
    )

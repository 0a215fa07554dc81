"""How far something is: a bar on a terminal, a plain line every few seconds where there is none.

The library shows it where it is asked to (`progress=True`), the commands always. It goes to standard error
and holds public numbers only: names of what is done, and how many of a number of steps that was fixed
beforehand. A number of rows or people that is nobody's to know is no number of steps.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["watched"]

EVERY = 5.0
"""Seconds between two plain lines: a log of an hour has seven hundred of them."""


@contextmanager
def watched(
    what: str, *, total: int | None = None, completed: int = 0, shown: bool = True
) -> Iterator[Callable[..., None]]:
    """Show how far something is; gives what moves it.

    `moved()` is one step more and `moved(3)` three, `moved(completed=3, total=9)` sets both, and
    `moved(doing="rest")` is one step more and says what is done now. The bar is gone when it is done; plain
    lines begin after the first few seconds.

    Args:
        what: is done.
        total: steps, where they are known; a public number.
        completed: steps that were done before.
        shown: False shows nothing.
    """
    if not shown:
        yield lambda *_, **__: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    stderr = Console(stderr=True, highlight=False)
    if not (stderr.is_terminal or stderr.is_jupyter):
        lines = _Lines(what, total, completed)
        done = threading.Event()
        beside = threading.Thread(target=lines.tell, args=(done,), daemon=True)
        beside.start()
        try:
            yield lines.moved
        finally:
            done.set()
            beside.join()
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=stderr, transient=True) as bar:
        task = bar.add_task(what, total=total, completed=completed)

        def moved(
            steps: int = 1,
            *,
            completed: int | None = None,
            total: int | None = None,
            doing: str | None = None,
        ) -> None:
            advance = steps if completed is None else None
            bar.update(task, advance=advance, completed=completed, total=total, description=doing)

        yield moved


class _Lines:
    """A plain line on standard error every few seconds."""

    def __init__(self, what: str, total: int | None, completed: int) -> None:
        self.what, self.total, self.done, self.before = what, total, completed, completed
        self.doing = ""
        self.began = time.monotonic()

    def moved(
        self,
        steps: int = 1,
        *,
        completed: int | None = None,
        total: int | None = None,
        doing: str | None = None,
    ) -> None:
        self.done = self.done + steps if completed is None else completed
        self.total = self.total if total is None else total
        self.doing = self.doing if doing is None else f", {doing}"

    def tell(self, done: threading.Event) -> None:
        """Say how far it is until it is done, as long as somebody listens."""
        with suppress(OSError):
            while not done.wait(EVERY):
                sys.stderr.write(f"{self}\n")
                sys.stderr.flush()

    def __str__(self) -> str:
        of, spent = "" if self.total is None else f" of {self.total}", time.monotonic() - self.began
        new, rest = self.done - self.before, (self.total or 0) - self.done
        left = f", about {spent * rest / new:.0f} s left" if new > 0 < rest else ""
        return f"{self.what}: {self.done}{of}{self.doing}, {spent:.0f} s{left}"

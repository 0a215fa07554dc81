"""Progress of long work: a bar on a terminal, or a plain line every 15 seconds elsewhere.

The library shows progress with `progress=True`; the commands always show it. It goes to standard error and
has public numbers only: the name of the work, and the finished steps out of a number that is fixed
beforehand. A secret number of rows or users is never the number of steps.

A step counts when it is finished. The elapsed time is updated continuously. The remaining time is estimated
from finished steps and counts down between them, also during the last step.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Task
    from rich.text import Text

__all__ = ["watched"]

EVERY = 15.0
"""Seconds between two plain lines."""
_QUICK = 1.0
"""Seconds within which a finished step is not used for the estimate: it was probably read from a file."""


@contextmanager
def watched(
    what: str, *, total: int | None = None, completed: int = 0, shown: bool = True
) -> Iterator[Callable[..., None]]:
    """Show the progress of some work, and yield a function `moved` that updates it.

    `moved()` adds one finished step and `moved(3)` adds three; `moved(completed=3, total=9)` sets both
    numbers. `moved(0, doing="rest")` adds no step and names the current part. The bar disappears at the
    end. The first plain line comes after `EVERY` seconds.

    Args:
        what: Name of the work.
        total: Number of steps, which must be public; None if it is unknown.
        completed: Number of steps that were finished before.
        shown: False to show nothing.
    """
    if not shown:
        yield lambda *_, **__: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    steps = _Steps(what, total, completed)
    stderr = Console(stderr=True, highlight=False)
    if not (stderr.is_terminal or stderr.is_jupyter):
        done = threading.Event()
        beside = threading.Thread(target=steps.tell, args=(done,), daemon=True)
        beside.start()
        try:
            yield steps.moved
        finally:
            done.set()
            beside.join()
        return

    class Counted(ProgressColumn):
        """Column with the same text as a plain line. The times change between two steps too."""

        def render(self, task: "Task") -> "Text":
            return Text(str(steps))

    columns = TextColumn(what), BarColumn(), Counted()
    with Progress(*columns, console=stderr, transient=True, refresh_per_second=2) as bar:
        task = bar.add_task(what, total=total, completed=completed)

        def moved(*args: int, **options: int | str | None) -> None:
            steps.moved(*args, **options)  # type: ignore[arg-type]
            bar.update(task, completed=steps.finished, total=steps.total)

        yield moved


class _Steps:
    """Finished steps, elapsed time and estimated remaining time of some work."""

    def __init__(self, what: str, total: int | None, completed: int) -> None:
        self.what, self.total, self.finished, self.doing = what, total, completed, ""
        self.began = time.monotonic()
        self._first = self._last = (0.0, completed)  # (seconds, finished steps), for the estimate

    def moved(
        self,
        steps: int = 1,
        *,
        completed: int | None = None,
        total: int | None = None,
        doing: str | None = None,
    ) -> None:
        begins = self.total is None and total is not None
        self.total = self.total if total is None else total
        self.doing = self.doing if doing is None else f", {doing}"
        before, self.finished = self.finished, self.finished + steps if completed is None else completed
        if self.finished != before or begins:
            self._last = (time.monotonic() - self.began, self.finished)
            if begins or self._last[0] < _QUICK:
                self._first = self._last

    def tell(self, done: threading.Event) -> None:
        """Print a line every `EVERY` seconds until `done` is set or standard error is closed."""
        with suppress(OSError):
            while not done.wait(EVERY):
                sys.stderr.write(f"{self.what}: {self}\n")
                sys.stderr.flush()

    def __str__(self) -> str:
        of, spent = "" if self.total is None else f" of {self.total}", time.monotonic() - self.began
        (since, done), (until, finished) = self._first, self._last
        rest = (self.total or 0) - finished
        left = ""
        if rest > 0 and finished > done:
            seconds = until + (until - since) * rest / (finished - done) - spent
            left = f", about {_duration(seconds)} left" if seconds >= 1 else ", longer than expected"
        return f"{self.finished}{of}{self.doing}, {_duration(spent)}{left}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{rest} s" if not minutes else f"{minutes} min {rest} s"

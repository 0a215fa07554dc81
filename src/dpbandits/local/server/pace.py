"""How long a version has been open: the one place of this room that reads a clock.

Whoever floods a server with reports makes it publish again and again, and a version that people hold would
leave the window before they answer. So a server publishes no new version while that would close one younger
than a public duration; reports are counted meanwhile.

The clock only ever holds versions open longer. It is of the process: nothing of it is kept, and a server
that opens its folder again takes every open version as just published. A clock that jumps back, or says
nothing, leaves versions open.
"""

from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from dpbandits import _checks
from dpbandits.errors import InvalidParameter

__all__ = ["Clock", "Pace"]

Clock = Callable[[], float]
"""Seconds since some moment."""


class Pace:
    """When versions were opened.

    Args:
        least_open: seconds that a version stays open at least.
        clock: in place of the process's own: for tests.
    """

    def __init__(self, least_open: float, clock: Clock | None = None) -> None:
        self.least_open = _checks.number(least_open, name="least_open", exclusive=False)
        if clock is not None and not callable(clock):
            raise InvalidParameter("clock: expected something to call that gives seconds")
        self._clock: Clock = monotonic if clock is None else clock
        self._opened: dict[int, float] = {}

    def opened(self, numbers: Iterable[int]) -> None:
        """These versions are open from now on."""
        now = self._clock()
        self._opened |= dict.fromkeys(numbers, now)

    def old_enough(self, numbers: Sequence[int]) -> list[int]:
        """Of these, the versions that have been open long enough."""
        if not self.least_open:
            return list(numbers)
        now = self._clock()
        return [number for number in numbers if now - self._opened[number] >= self.least_open]

    def are_old(self, numbers: Sequence[int]) -> bool:
        """Whether all of them have."""
        return len(self.old_enough(numbers)) == len(numbers)

    def closed(self, numbers: Iterable[int]) -> None:
        """These are closed."""
        for number in numbers:
            del self._opened[number]

"""The time that each version has been open (`Pace`), measured by the only clock in `local`.

A flood of reports makes a server publish often. Clients may still hold a version that has then left the
window, before they answer. So a server publishes no new version while that would close a version younger
than a public duration. It counts reports meanwhile.

The clock can only delay closing. It is the process's own and is not saved: a server that opens its folder
again treats every open version as just published. If the clock jumps back or stands still, versions stay
open.
"""

from collections.abc import Callable, Iterable, Sequence
from time import monotonic

from dpbandits import _checks
from dpbandits.errors import InvalidParameter

__all__ = ["Clock", "Pace"]

Clock = Callable[[], float]
"""Function that returns seconds since some fixed moment."""


class Pace:
    """Times at which versions were opened.

    Args:
        least_open: Shortest time in seconds that a version stays open.
        clock: Clock that replaces the process's own, for tests.
    """

    def __init__(self, least_open: float, clock: Clock | None = None) -> None:
        self.least_open = _checks.number(least_open, name="least_open", exclusive=False)
        if clock is not None and not callable(clock):
            raise InvalidParameter("clock: expected a function that returns seconds")
        self._clock: Clock = monotonic if clock is None else clock
        self._opened: dict[int, float] = {}

    def opened(self, numbers: Iterable[int]) -> None:
        """Record that these versions open now."""
        now = self._clock()
        self._opened |= dict.fromkeys(numbers, now)

    def old_enough(self, numbers: Sequence[int]) -> list[int]:
        """Return those versions that have been open for at least `least_open`."""
        if not self.least_open:
            return list(numbers)
        now = self._clock()
        return [number for number in numbers if now - self._opened[number] >= self.least_open]

    def are_old(self, numbers: Sequence[int]) -> bool:
        """Return True if all of these versions have been open for at least `least_open`."""
        return len(self.old_enough(numbers)) == len(numbers)

    def closed(self, numbers: Iterable[int]) -> None:
        """Forget the times of these versions, which are closed."""
        for number in numbers:
            del self._opened[number]

"""When blocks of rounds are due: so many rounds, or so much time, after their last ask.

Rewards come later than decisions. A block's release waits, and what comes until then counts. When it is
due must not depend on anybody's data: rounds are counted by asks, and time is read off the asks too, as
`ask(..., at=...)` gives it or by the wall clock; the time of a reward decides about that reward alone. That
somebody asked, and when, is not hidden.

Choosing a delay: as long as almost every reward takes (a day for clicks, a month for returned parcels). A
longer one costs no privacy and no noise; what it costs is that everybody is answered by older releases for so
long. A shorter one loses the rewards that come later: they count nothing, which biases what is learned where
late rewards differ from early ones.
"""

import math
import numbers
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter

__all__ = ["Deadlines", "check_delay", "delay_from_config", "times_of"]


def check_delay(delay: object) -> int | timedelta:
    """A number of rounds, or a time, neither below zero; InvalidParameter for anything else."""
    if not isinstance(delay, timedelta):
        return _checks.integer(delay, name="reporting_delay", minimum=0)
    if delay < timedelta(0):
        raise InvalidParameter("reporting_delay: expected rounds, or a time of at least zero")
    return delay


def delay_from_config(delay: Any) -> int | timedelta:
    """What a configuration holds of a delay: rounds, or {"seconds": ...}."""
    return timedelta(seconds=delay["seconds"]) if isinstance(delay, Mapping) else int(delay)


def seconds_of(at: object) -> float:
    """A time in seconds since 1970: a datetime (without a zone, of UTC), or seconds.

    Raises:
        InvalidData: anything else, or a time that is not finite.
    """
    seconds = math.nan
    with suppress(Exception):  # what a caller's object raises tells of what it holds
        if isinstance(at, datetime):
            seconds = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        elif isinstance(at, numbers.Real) and not isinstance(at, bool):
            seconds = float(at)
    if not math.isfinite(seconds):
        raise InvalidData(f"at is a {type(at).__name__}: expected a datetime, or finite seconds")
    return seconds


def times_of(at: object, count: int) -> FloatArray:
    """(count,) seconds of one time, or of so many; InvalidData for anything else."""
    several: Any = at
    if not hasattr(type(at), "__len__") or isinstance(at, str | Mapping):
        return np.full(count, seconds_of(at))
    if len(several) != count:
        raise InvalidData(f"at: expected one time, or {count}, one per decision id, got {len(several)}")
    return np.array([seconds_of(one) for one in several])


class Deadlines:
    """When blocks of rounds are due.

    Args:
        ends: round indices at which blocks end, increasing.
        delay: rounds, or a time, that rewards may take.

    Attributes:
        timed: whether it is a time.
        boundaries: rounds asked at which blocks may be due for the first time.

    Example:
        >>> Deadlines([10, 20], 5).due(15)
        1
        >>> by_time = Deadlines([10, 20], timedelta(hours=1))
        >>> by_time.advance(0.0), by_time.note(10), by_time.due(12)
        (None, None, 0)
        >>> by_time.advance(3600.0), by_time.due(12)
        (None, 1)
    """

    def __init__(self, ends: Sequence[int], delay: int | timedelta) -> None:
        self.ends, delay = tuple(ends), check_delay(delay)
        self.timed = isinstance(delay, timedelta)
        self._seconds = delay.total_seconds() if isinstance(delay, timedelta) else 0.0
        self._rounds = 0 if isinstance(delay, timedelta) else delay
        self.boundaries = tuple(end + self._rounds for end in self.ends)
        self._now = -math.inf
        self._ended = np.full(len(self.ends), np.nan)  # when the last round of each block was asked

    def __repr__(self) -> str:
        delay = f"{self._seconds:g} seconds" if self.timed else f"{self._rounds} rounds"
        return f"Deadlines({len(self.ends)} blocks, {delay})"

    def advance(self, at: object) -> None:
        """The clock of the asks goes on to `at`, by default the wall clock; it never goes back."""
        if self.timed or at is not None:
            self._now = max(self._now, time.time() if at is None else seconds_of(at))

    def note(self, asked: int) -> None:
        """`asked` rounds were asked by now: blocks that have ended, and were not known to, end now."""
        if self.timed:
            ended = self._ended[: bisect_right(self.ends, asked)]
            ended[np.isnan(ended)] = self._now

    def due(self, asked: int) -> int:
        """How many blocks are due once `asked` rounds were asked."""
        if not self.timed:
            return bisect_right(self.boundaries, asked)
        self.note(asked)  # what a crash forgot has ended now: the release waits longer, and no less
        waiting = ~(self._ended + self._seconds <= self._now)
        return int(np.argmax(waiting)) if waiting.any() else len(self.ends)

    def late(self, rounds: IntArray, at: FloatArray) -> BoolArray:
        """(k,) which rewards, told at times (k,) for rounds (k,), come after their block's deadline."""
        blocks = np.searchsorted(self.ends, rounds, side="right")
        deadlines = np.append(self._ended, np.nan)[blocks] + self._seconds
        return np.asarray(at > deadlines) if self.timed else np.zeros(len(rounds), dtype=np.bool_)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """What a state keeps: times of asks, which are public."""
        return {"deadlines": np.append(self._ended, self._now)} if self.timed else {}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Take over what `arrays` gave; a state without it has seen no time."""
        if self.timed and "deadlines" in arrays:
            kept = np.array(arrays["deadlines"], dtype=np.float64)
            if kept.shape != (len(self.ends) + 1,):
                raise CorruptState("the saved times of blocks contradict the saved configuration")
            self._ended, self._now = kept[:-1], float(kept[-1])

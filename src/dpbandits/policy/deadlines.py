"""Deadlines of blocks: a number of rounds, or a time, after a block's last ask.

Rewards arrive later than decisions. The release of a block waits for `reporting_delay`, and rewards that
arrive before the release count. The time of a release must not depend on anybody's data. So rounds are
counted by asks, and time is also read at asks: `ask(..., at=...)`, or the wall clock. The time of a reward
affects that reward only. The guarantee does not hide whether and when somebody asked.

Choose a delay within which almost every reward arrives (a day for clicks, a month for returned parcels). A
longer delay costs no privacy and no noise, but decisions rest on older releases. A shorter delay drops late
rewards, which biases the policy if late rewards differ from early ones.
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
    """Return a delay of at least zero, in rounds or as a `timedelta`.

    Raises:
        InvalidParameter: The delay is negative or has another type.
    """
    if not isinstance(delay, timedelta):
        return _checks.integer(delay, name="reporting_delay", minimum=0)
    if delay < timedelta(0):
        raise InvalidParameter("reporting_delay is negative, expected rounds, or a time of at least zero")
    return delay


def delay_from_config(delay: Any) -> int | timedelta:
    """Return the delay that a configuration holds as a number of rounds or as {"seconds": ...}."""
    return timedelta(seconds=delay["seconds"]) if isinstance(delay, Mapping) else int(delay)


def seconds_of(at: object) -> float:
    """Return a time in seconds since 1970.

    Args:
        at: A datetime, in UTC if it has no zone, or a number of seconds.

    Raises:
        InvalidData: `at` is anything else, or is not finite.
    """
    seconds = math.nan
    with suppress(Exception):  # the error of a caller's object could show its value
        if isinstance(at, datetime):
            seconds = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
        elif isinstance(at, numbers.Real) and not isinstance(at, bool):
            seconds = float(at)
    if not math.isfinite(seconds):
        raise InvalidData(f"at is a {type(at).__name__}, expected a datetime, or a finite number of seconds")
    return seconds


def public_time(at: object) -> float:
    """Return the time of a public event in seconds since 1970; the wall clock if `at` is None.

    Raises:
        InvalidData: `at` is no datetime and no finite number.
    """
    return time.time() if at is None else seconds_of(at)


def shown_time(seconds: float) -> str:
    """Return a time in seconds since 1970 as a text in ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def times_of(at: object, count: int) -> FloatArray:
    """Return `count` times in seconds, shape (count,).

    Args:
        at: One time for all, or `count` times; see `seconds_of`.
        count: Number of times.

    Raises:
        InvalidData: The number of times is another one, or a time is invalid.
    """
    several: Any = at
    if not hasattr(type(at), "__len__") or isinstance(at, str | Mapping):
        return np.full(count, seconds_of(at))
    if len(several) != count:
        raise InvalidData(f"at has {len(several)} times, expected one, or {count}, one for each decision id")
    return np.array([seconds_of(one) for one in several])


class Deadlines:
    """Deadlines after which the blocks of a policy are released.

    Args:
        ends: Number of rounds up to the end of each block, increasing.
        delay: Number of rounds, or time, for which a block waits for its rewards.

    Attributes:
        timed: True if the delay is a time.
        boundaries: Number of asked rounds from which each block may be due.

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
        self._ended = np.full(len(self.ends), np.nan)  # time of the last ask of each block

    def __repr__(self) -> str:
        delay = f"{self._seconds:g} seconds" if self.timed else f"{self._rounds} rounds"
        return f"Deadlines({len(self.ends)} blocks, {delay})"

    def advance(self, at: object) -> None:
        """Advance the clock of the asks to `at`, by default to the wall clock; it never goes back."""
        if self.timed or at is not None:
            self._now = max(self._now, time.time() if at is None else seconds_of(at))

    def note(self, asked: int) -> None:
        """Record the clock's time as the end of blocks whose last of `asked` rounds was asked since the last
        call.
        """
        if self.timed:
            ended = self._ended[: bisect_right(self.ends, asked)]
            ended[np.isnan(ended)] = self._now

    def due(self, asked: int) -> int:
        """Return the number of blocks whose deadline has passed, after `asked` rounds."""
        if not self.timed:
            return bisect_right(self.boundaries, asked)
        self.note(asked)  # a block whose end was lost in a crash ends now: its release waits longer
        waiting = ~(self._ended + self._seconds <= self._now)
        return int(np.argmax(waiting)) if waiting.any() else len(self.ends)

    def late(self, rounds: IntArray, at: FloatArray) -> BoolArray:
        """Return an array (k,) that is True for rewards that come after their block's deadline.

        Args:
            rounds: Rounds of the rewards (k,).
            at: Times of the rewards in seconds (k,).
        """
        blocks = np.searchsorted(self.ends, rounds, side="right")
        deadlines = np.append(self._ended, np.nan)[blocks] + self._seconds
        return np.asarray(at > deadlines) if self.timed else np.zeros(len(rounds), dtype=np.bool_)

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of a saved state, which are the public times of asks."""
        return {"deadlines": np.append(self._ended, self._now)} if self.timed else {}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Restore the arrays of a saved state; a state without them has no times."""
        if self.timed and "deadlines" in arrays:
            kept = np.array(arrays["deadlines"], dtype=np.float64)
            if kept.shape != (len(self.ends) + 1,):
                raise CorruptState("the saved times of blocks contradict the saved configuration")
            self._ended, self._now = kept[:-1], float(kept[-1])

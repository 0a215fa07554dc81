"""When an answer leaves: the one place of this room that reads a clock.

Nothing of it is kept. A clock that jumps makes an answer leave late, or as soon as it is there.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

__all__ = ["LEAST_PACE", "paced"]

LEAST_PACE = 1.0
"""Seconds: below, stopping a program and writing to a disk would show in when an answer leaves."""


@contextmanager
def paced(seconds: float | None) -> Iterator[None]:
    """Leave `seconds` after the beginning, whatever happens inside; late, at the next multiple of them."""
    begun = monotonic()
    try:
        yield
    finally:
        if seconds is not None:
            taken = monotonic() - begun
            sleep(max(0.0, seconds * max(1, math.ceil(taken / seconds)) - taken))

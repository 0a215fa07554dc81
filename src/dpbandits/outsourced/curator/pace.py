"""Delay of answers to a public time (`paced`), measured by the only clock in `outsourced`.

The clock's readings are not saved. If the clock jumps, an answer is returned late, or as soon as it is
known.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep

__all__ = ["LEAST_PACE", "paced"]

LEAST_PACE = 1.0
"""Smallest public time of answers in seconds; with less, the time to
stop a program or to write to disk would show.
"""


@contextmanager
def paced(seconds: float | None) -> Iterator[None]:
    """Return a context manager that ends after `seconds`, or a multiple if its block takes longer.

    With None it ends at once.
    """
    begun = monotonic()
    try:
        yield
    finally:
        if seconds is not None:
            taken = monotonic() - begun
            sleep(max(0.0, seconds * max(1, math.ceil(taken / seconds)) - taken))

"""Seeds for choosing constants and seeds for reporting, which are disjoint."""

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._typing import Seed
from dpbandits.errors import InvalidParameter

__all__ = ["FIRST_REPORT_SEED", "report_seeds"]

FIRST_REPORT_SEED = 1_000_000
"""First seed whose results are reported. Smaller seeds are for choosing constants."""


@worded
def report_seeds(first: int, reps: int, *, tuning: bool = False) -> tuple[Seed, ...]:
    """Return the `reps` seeds first, first + 1, ..., all below `FIRST_REPORT_SEED` or all from it on.

    Args:
        first: First seed.
        reps: Number of seeds, at least one.
        tuning: True for seeds that choose constants, below `FIRST_REPORT_SEED`; False for seeds that are
            reported, from `FIRST_REPORT_SEED` on.

    Raises:
        InvalidParameter: A seed is on the wrong side. Results on the seeds that chose the constants are
            biased, so they must not be reported.

    >>> report_seeds(1_000_000, 3)
    (1000000, 1000001, 1000002)
    """
    start = _checks.integer(first, name="first", minimum=0)
    stop = start + _checks.integer(reps, name="reps")
    if tuning and stop > FIRST_REPORT_SEED:
        raise InvalidParameter(
            f"seeds {start} to {stop - 1}: tuning seeds are below {FIRST_REPORT_SEED}, pass smaller ones"
        )
    if not tuning and start < FIRST_REPORT_SEED:
        raise InvalidParameter(
            f"seeds {start} to {stop - 1}: report seeds start at {FIRST_REPORT_SEED}; pass tuning=True if "
            "the runs choose constants and are not reported"
        )
    return tuple(range(start, stop))

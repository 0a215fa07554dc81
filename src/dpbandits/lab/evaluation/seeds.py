"""Which seeds may choose constants, and which may be reported: never the same."""

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._typing import Seed
from dpbandits.errors import InvalidParameter

__all__ = ["FIRST_REPORT_SEED", "report_seeds"]

FIRST_REPORT_SEED = 1_000_000
"""Seeds below tune constants, seeds from here on are reported."""


@worded
def report_seeds(first: int, reps: int, *, tuning: bool = False) -> tuple[Seed, ...]:
    """`reps` seeds first, first + 1, ..., all on the same side of `FIRST_REPORT_SEED`.

    Args:
        first: the first seed.
        reps: how many, at least one.
        tuning: the seeds choose constants (all below `FIRST_REPORT_SEED`) instead of being reported
            (all from it on).

    Raises:
        InvalidParameter: a seed on the wrong side. A number reported on the seeds that chose the
            constants flatters itself.

    >>> report_seeds(1_000_000, 3)
    (1000000, 1000001, 1000002)
    """
    start = _checks.integer(first, name="first", minimum=0)
    stop = start + _checks.integer(reps, name="reps")
    if tuning and stop > FIRST_REPORT_SEED:
        raise InvalidParameter(f"seeds {start} to {stop - 1}: tuning seeds are below {FIRST_REPORT_SEED}")
    if not tuning and start < FIRST_REPORT_SEED:
        raise InvalidParameter(
            f"seeds {start} to {stop - 1}: report seeds start at {FIRST_REPORT_SEED}; pass tuning=True where "
            "the runs choose constants and are not reported"
        )
    return tuple(range(start, stop))

"""Public schedules of block releases, fixed before any data.

Each additional block increases the noise, because more sums share one privacy budget. A round that waits for
the next release costs regret, and most in the first block, which is answered at random. So blocks start
short and grow.
"""

from collections.abc import Sequence

import numpy as np

from dpbandits import _checks
from dpbandits._reading import reading
from dpbandits.errors import InvalidParameter

__all__ = [
    "check_boundaries",
    "check_half_life",
    "default_blocks",
    "fading_blocks",
    "growing_blocks",
    "open_ended_blocks",
    "planned_anew",
    "short_blocks",
]

FIRST_BLOCK = 24
"""Number of rounds of the first block at horizon 1024; chosen on tuning seeds."""

FIRST_BLOCK_EXPONENT = 0.15
"""Exponent of the growth of the first block with the horizon; chosen on tuning seeds."""

OPEN_ENDED_GROWTH = 1.25
"""Ratio of the lengths of consecutive blocks for an unknown horizon,
where late blocks must dominate the noise.
"""

BLOCKS = 20
"""Approximate number of blocks of the default schedule; chosen on tuning seeds."""

LAST_SHARE = 0.85
"""Share of the horizon after which there is no release, because too few rounds are left to use it."""

BLOCKS_A_HALF_LIFE = 8
"""Least number of blocks per half-life with exponential discounting; chosen on tuning seeds."""

MOST_SHORT = 2048
"""Largest number of blocks with exponential discounting, or with a longest block."""


def growing_blocks(
    horizon: int, *, first: int, growth: float, last_share: float = LAST_SHARE
) -> tuple[int, ...]:
    """Return the ends of blocks: the first has `first` rounds, and each next is `growth` times as long.

    Args:
        horizon: Total number of rounds.
        first: Number of rounds in the first block, at least 1.
        growth: Ratio of the lengths of consecutive blocks, at least 1.
        last_share: Share of the horizon after which no block ends.

    Example:
        >>> growing_blocks(1000, first=50, growth=1.5)
        (50, 125, 238, 406, 659)
    """
    if first < 1 or not 1.0 <= growth or not 0.0 < last_share <= 1.0:
        raise InvalidParameter("growing_blocks: expected first >= 1, growth >= 1 and last_share in (0, 1]")
    count = 1
    while _end(first, growth, count + 1) <= last_share * horizon:
        count += 1
    return tuple(min(horizon, round(_end(first, growth, k))) for k in range(1, count + 1))


def default_blocks(horizon: int) -> tuple[int, ...]:
    """Return the schedule used when none is given: about `BLOCKS` growing blocks.

    Example:
        >>> default_blocks(1024)
        (24, 49, 76, 105, 135, 167, 201, 236, 274, 314, 357, 402, 449, 500, 553, 609, 669, 733, 799, 870)
    """
    first = max(1, min(round(FIRST_BLOCK * (horizon / 1024) ** FIRST_BLOCK_EXPONENT), horizon // 2))
    low, high = 1.0, 64.0
    for _ in range(60):  # find the growth with which block number BLOCKS ends at LAST_SHARE of the horizon
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _end(first, middle, BLOCKS) < LAST_SHARE * horizon else (low, middle)
    return tuple(dict.fromkeys(growing_blocks(horizon, first=first, growth=low, last_share=LAST_SHARE)))


def open_ended_blocks(longest: int) -> tuple[int, ...]:
    """Return blocks for an unknown horizon: each is a quarter longer than the last, up to `longest` rounds.

    Example:
        >>> open_ended_blocks(1 << 22)[:4], len(open_ended_blocks(1 << 22))
        ((24, 54, 92, 138), 47)
    """
    return growing_blocks(longest, first=FIRST_BLOCK, growth=OPEN_ENDED_GROWTH, last_share=1.0)


def fading_blocks(ends: Sequence[int], half_life: int | None, *, longest: int) -> tuple[int, ...]:
    """Return blocks that are short relative to the half-life, or `ends` if there is no half-life.

    Blocks have at most 1/`BLOCKS_A_HALF_LIFE` of the half-life in rounds, and extend to the last round.

    Args:
        ends: Ends of blocks for a stationary environment.
        half_life: Half-life in rounds; None for no discounting.
        longest: Largest number of rounds.

    Raises:
        InvalidParameter: There would be more than `MOST_SHORT` blocks.

    Example:
        >>> fading_blocks((50, 125, 238, 406, 659), 800, longest=700)
        (50, 125, 225, 325, 425, 525, 625)
    """
    most = None if half_life is None else max(1, half_life // BLOCKS_A_HALF_LIFE)
    return short_blocks(ends, most, longest=longest)


def short_blocks(ends: Sequence[int], most: int | None, *, longest: int) -> tuple[int, ...]:
    """Return blocks of at most `most` rounds up to round `longest`, or `ends` if `most` is None.

    They are the blocks that end at `ends` up to the first that is longer, and from there on have `most`
    rounds each.

    Raises:
        InvalidParameter: There would be more than `MOST_SHORT` blocks.

    Example:
        >>> short_blocks((50, 125, 238, 406, 659), 120, longest=700)
        (50, 125, 238, 358, 478, 598)
    """
    if most is None:
        return tuple(ends)
    lengths = np.diff((0, *ends))
    short = int(np.argmax(lengths > most)) if (lengths > most).any() else len(lengths)
    begun = (0, *ends)[short]
    if short + (longest - begun) // most > MOST_SHORT:
        raise InvalidParameter(
            f"forget, longest_block: {longest} rounds are cut into more than {MOST_SHORT} blocks of at most "
            f"{most} rounds: use a longer half-life or longest_block, or pass a horizon"
        )
    return (*ends[:short], *range(begun + most, longest + 1, most))


def planned_anew(
    ends: Sequence[int], asked: int, *, most: int, horizon: int, last_share: float
) -> tuple[int, ...]:
    """Return the ends of short blocks for the rounds after the first `asked` ones.

    The present block ends where it would have ended, or after `most` more rounds if that is earlier. Blocks
    of `most` rounds follow. No block ends at or before round `asked`, or after the share `last_share` of the
    horizon.

    Args:
        ends: Ends of the blocks so far.
        asked: Number of rounds that were asked.
        most: Number of rounds of a block.
        horizon: Total number of rounds.
        last_share: Share of the horizon after which no block ends.

    Example:
        >>> planned_anew((300, 700, 1400), 900, most=100, horizon=2000, last_share=0.7)
        (1000, 1100, 1200, 1300, 1400)
    """
    first = min([asked + most, *(end for end in ends if end > asked)])
    return tuple(range(first, int(last_share * horizon) + 1, most))


def check_half_life(half_life: int | None) -> int | None:
    """Return a half-life of at least `BLOCKS_A_HALF_LIFE` rounds, or None.

    Raises:
        InvalidParameter: The half-life is neither.
    """
    return (
        None if half_life is None else _checks.integer(half_life, name="forget", minimum=BLOCKS_A_HALF_LIFE)
    )


def check_boundaries(boundaries: Sequence[int], horizon: int, *, name: str = "blocks") -> tuple[int, ...]:
    """Return the boundaries as a strictly increasing tuple of integers in [1, horizon]."""
    with reading("a sequence of round indices"):
        values = np.asarray(boundaries)
    if values.ndim != 1 or len(values) == 0 or values.dtype.kind not in "iu":
        raise InvalidParameter(f"{name}: expected a non-empty sequence of round indices (integers)")
    if values[0] < 1 or values[-1] > horizon or np.any(np.diff(values) <= 0):
        raise InvalidParameter(f"{name}: expected strictly increasing boundaries in [1, horizon = {horizon}]")
    return tuple(int(value) for value in values)


def _end(first: float, growth: float, count: int) -> float:
    return first * (count if growth == 1.0 else (growth**count - 1.0) / (growth - 1.0))

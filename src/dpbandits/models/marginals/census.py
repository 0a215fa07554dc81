"""Cuts of ranges that people fill to a small part only, from noisy counts of people in equal bins.

A column is described by one of a few laws: people spread over the whole declared range, or over one window of
its bins. The law is taken that lies closest to the noisy shares in squares. A window has to be closer than
the declared range by more than noise explains, and to hold most people: a few frequent numbers in a range
that is filled are no window. The levels of a column with a window are quantiles of a mixture: most of them
lie in the window, the others are spread over the range.
"""

from collections.abc import Sequence

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["CENSUS_BINS", "WIDEST_WINDOW", "Cuts", "cuts_of", "located"]

Cuts = tuple[tuple[float, ...], ...]
"""Inner ends of the levels of each column, as shares of its range; () for a column that keeps its levels."""

CENSUS_BINS = 96
"""Equal bins of a range in a census."""

WIDEST_WINDOW = 0.125
"""Largest share of a range that a window may take; people who fill more are described by the whole range."""

CLOSER = 16.0
"""A window is taken if its squared distance is below that of the whole range by more than so many variances
of the noise of a share."""

HELD = 0.7
"""Smallest noisy share of the people that a window must hold."""

OUTSIDE = 0.15
"""Share of the levels that are spread over the whole range where there is a window."""


def cuts_of(counts: FloatArray, *, people: float, sd: float, levels: int) -> Cuts:
    """Cuts of columns from noisy counts of people in equal bins.

    A window of w of the B bins describes shares h by 1/w in it and 0 elsewhere. Its squared distance from h,
    less that of the whole range, is 1/w - 1/B - 2 (mean of h in the window - mean of h).

    Args:
        counts: (columns, B) noisy counts.
        people: number of people counted.
        sd: deviation of the noise of a count.
        levels: levels that a column with a window is cut into.

    Returns:
        `levels` - 1 strictly increasing cuts in (0, 1) for each column with a window, and () for others.

    Example:
        >>> shares = np.zeros((2, 96))
        >>> shares[0] = 10.0
        >>> shares[1, :6] = 160.0
        >>> wide, narrow = cuts_of(shares, people=960, sd=20.0, levels=24)
        >>> wide, len(narrow), sum(cut < 0.0625 for cut in narrow)
        ((), 23, 20)
    """
    bins = counts.shape[1]
    shares, ends = counts / people, np.arange(bins + 1)
    sums = np.concatenate([np.zeros((len(counts), 1)), np.cumsum(shares, axis=1)], axis=1)
    starts, stops = (own.ravel() for own in np.meshgrid(ends, ends, indexing="ij"))
    fits = (stops > starts) & (stops - starts <= WIDEST_WINDOW * bins)
    starts, stops = starts[fits], stops[fits]
    widths = stops - starts
    means = (sums[:, stops] - sums[:, starts]) / widths
    gains = 2.0 * (means - sums[:, -1:] / bins) - (1.0 / widths - 1.0 / bins)  # (columns, windows)
    best = gains.argmax(axis=1)
    rows = np.arange(len(counts))
    found = gains[rows, best] > CLOSER * (sd / people) ** 2
    found &= means[rows, best] * widths[best] >= HELD
    return tuple(
        _quantiles(starts[own] / bins, stops[own] / bins, levels) if one else ()
        for own, one in zip(best.tolist(), found.tolist(), strict=True)
    )


def _quantiles(low: float, high: float, levels: int) -> tuple[float, ...]:
    """Inner quantiles of a mixture: uniform on [0, 1] with weight `OUTSIDE`, else uniform on [low, high]."""
    points = np.array([0.0, low, high, 1.0])
    below = OUTSIDE * points + np.array([0.0, 0.0, 1.0 - OUTSIDE, 1.0 - OUTSIDE])
    return tuple(np.interp(np.arange(1, levels) / levels, below, points).tolist())


def located(points: FloatArray, levels: IntArray, cuts: Sequence[Sequence[float]]) -> IntArray:
    """(n, d) levels of points (n, d) in [0, 1], by the cuts of the columns that have some.

    Args:
        points: ranges in [0, 1].
        levels: (n, d) levels of columns without cuts; others are replaced.
        cuts: of each column.
    """
    found = levels.copy()
    for column, own in enumerate(cuts):
        if own:
            found[:, column] = np.searchsorted(np.array(own), points[:, column], side="right")
    return found

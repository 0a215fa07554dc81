"""Levels of ranges of which users fill only a small part, from noisy counts of users in equal bins.

A column is described by one of a few probability laws. Users are spread evenly over the whole declared range,
or evenly over one window of its bins. The law with the smallest squared distance from the noisy shares is
chosen. A window must be closer than the whole range by more than noise explains. It must also contain most
users, so that a few frequent values in a filled range are not taken for a window. The levels of a column with
a window are quantiles of a mixture: most of them lie in the window, the others are spread over the range.

For a table of logged data, users are counted in fine bins. `smoothed` makes a law of users in these bins
from their noisy shares, and `ends_of` returns its quantiles as the ends of levels.
"""

from collections.abc import Sequence

import numpy as np

from dpbandits._typing import FloatArray, IntArray

__all__ = ["CENSUS_BINS", "WIDEST_WINDOW", "Cuts", "cuts_of", "ends_of", "located", "smoothed"]

Cuts = tuple[tuple[float, ...], ...]
"""For each column the inner ends of its levels, as shares of its range; () for a column with equal levels."""

CENSUS_BINS = 96
"""Number of equal bins of a range in which users are counted."""

WIDEST_WINDOW = 0.125
"""Largest width of a window, as a share of the range. If users fill
more, levels are equal parts of the range.
"""

CLOSER = 16.0
"""Margin by which a window's squared distance from the noisy shares must be below that of the whole range, in
units of the noise variance of a share.
"""

HELD = 0.7
"""Smallest share of the users, as counted with noise, that a window must contain."""

OUTSIDE = 0.15
"""Share of the levels that are spread over the whole range; the
others follow the window or the law of fine bins.
"""

BEYOND = 3.0
"""Threshold of `smoothed`: differences below this multiple of
their noise's standard deviation become zero.
"""

HALVINGS, ROUNDED = 60, 1e-9
"""Number of steps of a bisection search; and rounding error that is accepted at a level's end, in levels."""


def cuts_of(counts: FloatArray, *, people: float, sd: float, levels: int) -> Cuts:
    """Return the inner ends of the levels of each column, from noisy counts of users in B equal bins.

    Let h be the users' shares in the bins. A window of w bins stands for shares 1/w inside it and 0 outside.
    Its squared distance from h, minus that of the whole range, is 1/w - 1/B - 2 (mean of h in the window -
    mean of h).

    Args:
        counts: Noisy counts, shape (columns, B).
        people: Number of users counted.
        sd: Standard deviation of the noise of a count.
        levels: Number of levels of a column with a window.

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
    """Return the inner quantiles of a mixture of two uniform laws, at multiples of 1 / `levels`.

    The law on [0, 1] has weight `OUTSIDE`, and the law on [low, high] the rest.
    """
    points = np.array([0.0, low, high, 1.0])
    below = OUTSIDE * points + np.array([0.0, 0.0, 1.0 - OUTSIDE, 1.0 - OUTSIDE])
    return tuple(np.interp(np.arange(1, levels) / levels, below, points).tolist())


def smoothed(noisy: FloatArray, *, sd: float) -> FloatArray:
    """Return a smooth law of users in B bins, shape (B,), from noisy shares, by Haar thresholding.

    Bins are joined in pairs repeatedly, as long as their number is even. The law is built from the widest
    parts down. The difference between a part's two halves is taken from the noisy shares. If it is at most
    `BEYOND` standard deviations of its noise, it is set to zero.

    Args:
        noisy: Noisy shares of users in the bins, shape (B,), which sum to about one.
        sd: Standard deviation of the noise of a share.

    Example:
        >>> smoothed(np.array([0.27, 0.23, 0.5, 0.0]), sd=0.02).tolist()
        [0.25, 0.25, 0.5, 0.0]
    """
    sums, halves, width = noisy, [], 1
    while len(sums) % 2 == 0:
        halves.append((sums[0::2] - sums[1::2]) / 2.0)
        sums, width = sums[0::2] + sums[1::2], 2 * width
    even = np.full(len(sums), 1.0 / len(sums))
    law = np.maximum(even + _believed(sums - even, sd=sd * width**0.5), 0.0)
    law = law / law.sum() if law.any() else even
    for half in reversed(halves):
        width //= 2
        apart = np.clip(_believed(half, sd=sd * (width / 2.0) ** 0.5), -law / 2.0, law / 2.0)
        law = np.column_stack([law / 2.0 + apart, law / 2.0 - apart]).ravel()
    return np.asarray(law)


def _believed(apart: FloatArray, *, sd: float) -> FloatArray:
    return np.where(np.abs(apart) > BEYOND * sd, apart, 0.0)


def ends_of(law: FloatArray, levels: int) -> IntArray:
    """Return the inner ends of levels, each as the number of bins below it, shape (levels - 1,).

    Let w be the mixture of the law of users in bins and, with weight `OUTSIDE`, the uniform law. A bin
    counts as min(1, c w) levels, where c is such that all bins together count as `levels`. So every level
    has at least one bin.

    Args:
        law: Law of users in bins, shape (B,).
        levels: Number of levels.

    Example:
        >>> ends_of(np.array([0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]), 4).tolist()
        [3, 4, 5]
        >>> ends_of(np.full(8, 0.125), 4).tolist()
        [2, 4, 6]
    """
    mixed = (1.0 - OUTSIDE) * law + OUTSIDE / len(law)
    low, high = 0.0, 1.0 / float(mixed.min())
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        enough = float(np.minimum(middle * mixed, 1.0).sum()) >= levels
        low, high = (low, middle) if enough else (middle, high)
    worth = np.minimum(high * mixed, 1.0).cumsum()
    return np.asarray(np.searchsorted(worth, np.arange(1, levels) - ROUNDED) + 1)


def located(points: FloatArray, levels: IntArray, cuts: Sequence[Sequence[float]]) -> IntArray:
    """Return the levels (n, d) of points, where columns with cuts have the levels that their cuts define.

    Args:
        points: Points with ranges in [0, 1], shape (n, d).
        levels: Levels of columns without cuts, shape (n, d); those of columns with cuts are replaced.
        cuts: Inner ends of each column's levels, as `cuts_of` returns them; () for a column without.
    """
    found = levels.copy()
    for column, own in enumerate(cuts):
        if own:
            found[:, column] = np.searchsorted(np.array(own), points[:, column], side="right")
    return found

"""Windows of actions: the values around a current price among which a policy chooses, and how they widen.

A window has a low and a high end for each explored column, in the column's unit. It begins as `explore`.
After each release an end moves outward if at least `MOVING` of the decisions would lie beyond it. These
decisions are those that the release's public draws would give to simulated users, if both ends had moved as
far as `step` allows. The end moves to the farthest value that at least `MOVING` of the decisions reach. It
moves by at least the first number of `step` and at most the second. Ends never move inward, and never leave
the grid.

**Privacy.** A window is computed from public arguments, releases and public coins alone (post-processing).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbandits._checks import LARGEST, number
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.tables.columns import Range

__all__ = ["Window", "checked_explore", "checked_step", "distances", "reach", "read_window", "widened"]

Window = Mapping[str, tuple[float, float]]
"""Low and high end of every explored column, in the column's unit."""

MOVING = 0.05
"""Smallest share of decisions beyond an end of a window that moves this end."""

CLOSE = 1e-9
"""Distance from a window, as a share of the grid's width, within which a value counts as inside.

The ends of a window are rounded sums.
"""

SIZES = "expected a number, or the least and the most as (0.5, 2)"


def checked_explore(explore: Any, values: Mapping[str, FloatArray]) -> dict[str, Range] | None:
    """Return the ranges of explored columns by name.

    Args:
        explore: Range for a single column, or ranges by name; None for no window.
        values: Values (K,) of every column with an order.

    Raises:
        InvalidParameter: A column has no order, or no value in its range, or something is not a range.
    """
    if explore is None:
        return None
    given = dict.fromkeys(values, explore) if isinstance(explore, Range) and len(values) == 1 else explore
    fits = isinstance(given, Mapping) and given and set(given) <= set(values)
    if not fits or not all(isinstance(one, Range) for one in given.values()):
        raise InvalidParameter(
            f"explore: expected ranges for columns among {sorted(values)}, as "
            'explore={"price": Range(8, 12)}'
        )
    for name, one in given.items():
        if one.steps is not None or one.clip or one.missing is not None:
            raise InvalidParameter(f"explore: {name!r} takes the two ends only, as Range(8, 12)")
        if not ((values[name] >= one.low) & (values[name] <= one.high)).any():
            raise InvalidParameter(f"explore: no value of {name!r} lies in Range({one.low:g}, {one.high:g})")
    return dict(given)


def checked_step(step: Any, explored: Mapping[str, Range] | None) -> dict[str, tuple[float, float]] | None:
    """Return the smallest and the largest move of a window's end in a release, by explored column.

    Args:
        step: Largest move, or (smallest, largest), for a single explored column or by name; None for no
            limit.
        explored: Ranges from `checked_explore`.

    Raises:
        InvalidParameter: Nothing is explored, a column is not, or the numbers are not 0 <= smallest <=
            largest.
    """
    if step is None:
        return None
    if explored is None:
        raise InvalidParameter('step: needs explore=, such as explore={"price": Range(8, 12)}')
    given = step if isinstance(step, Mapping) else dict.fromkeys(explored, step)
    if not given or not set(given) <= set(explored) or (len(explored) > 1 and given is not step):
        raise InvalidParameter(
            f'step: expected numbers for columns among {sorted(explored)}, as step={{"price": 2}}'
        )
    found = {}
    for name, one in given.items():
        ends = one if isinstance(one, tuple | list) else (0.0, one)
        if len(ends) != 2:
            raise InvalidParameter(f"step: {SIZES}")
        least = number(ends[0], name="step", minimum=0.0, exclusive=False)
        most = number(ends[1], name="step", minimum=0.0, exclusive=True)
        if least > most:
            raise InvalidParameter(f"step: the least is above the most, {SIZES}")
        found[name] = (least, most)
    return found


def read_window(told: Any) -> Window | None:
    """Return the window that a configuration has as {"price": [8, 12]}. Return None for None.

    Raises:
        InvalidParameter: The configuration has no such form.
    """
    if told is None:
        return None
    found = {}
    for name, ends in dict(told).items():
        low, high = (number(end, name="window", minimum=-LARGEST, exclusive=False) for end in ends)
        if low > high:
            raise InvalidParameter("window: expected a low end that is not above the high one")
        found[name] = (low, high)
    return found


def distances(window: Window, name: str, values: FloatArray) -> FloatArray:
    """Return the distances of a column's values (K,) from its window; 0 for values inside."""
    low, high = window[name]
    found = np.maximum(np.maximum(low - values, values - high), 0.0)
    return np.where(found <= CLOSE * float(np.ptp(values)), 0.0, found)


def reach(
    window: Window, steps: Mapping[str, tuple[float, float]], values: Mapping[str, FloatArray]
) -> dict[str, tuple[float, float]]:
    """Return the window with both ends moved as far as a release may move them.

    If an end cannot reach the next value in one release, the returned end is this next value nevertheless.
    The end moves towards it, and reaches it after several releases.
    """
    found = {}
    for name, (low, high) in window.items():
        own, most = values[name], steps.get(name, (0.0, np.inf))[1]
        slack = CLOSE * float(np.ptp(own))
        below, above = own[own < low - slack], own[own > high + slack]
        found[name] = (
            min(low - most, below.max()) if below.size else low,
            max(high + most, above.min()) if above.size else high,
        )
    return found


def widened(
    window: Window,
    steps: Mapping[str, tuple[float, float]],
    values: Mapping[str, FloatArray],
    shares: FloatArray,
) -> dict[str, tuple[float, float]]:
    """Return the window after a release.

    Args:
        window: Window before the release.
        steps: Smallest and largest move of an end, by column; by default any distance.
        values: Values (K,) of every explored column.
        shares: Share (K,) of decisions for every action, among those within `reach`.
    """
    found = {}
    for name, ends in window.items():
        least, most = steps.get(name, (0.0, np.inf))
        moved = []
        for end, sign in zip(ends, (-1.0, 1.0), strict=True):  # the low end is a high one of minus the values
            own, beyond = sign * values[name], sign * end
            order = np.argsort(-own, kind="stable")
            reached = own[order][np.cumsum(shares[order]) >= MOVING - 1e-12]
            wanted = float(reached[0]) if reached.size else beyond
            if wanted > beyond + CLOSE * float(np.ptp(own)):
                beyond = min(beyond + most, max(wanted, beyond + least), float(own.max()))
            moved.append(sign * beyond)
        found[name] = (moved[0], moved[1])
    return found

"""Decision sets of a batch: an array, or a list of sets of different lengths, each read separately."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.errors import InvalidData

__all__ = ["decision_sets"]


def decision_sets(
    brought: Any, available: Any, *, read: Callable[[Any, tuple[str, ...]], FloatArray], point: FloatArray
) -> tuple[FloatArray, BoolArray | None]:
    """Return decision sets (B, n, d), and a mask (B, n) of available rows, or None if all are available.

    Each entry of a list is read separately. Shorter sets are padded with rows that are not available. An
    entry that is not a decision set becomes one row of NaN. With a malformed mask no row is available.

    Args:
        brought: Array (B, n, d), or a list of B arrays (n, d).
        available: Mask (B, n), a list of B masks, or None.
        read: Function that returns a copy of candidates with the axes that it is given the names of. It
            raises `InvalidData` for other candidates.
        point: Public point (d,) with which sets are padded.

    Raises:
        InvalidData: No entry is a decision set, or the number of masks is not B.
    """
    try:
        sets: FloatArray | list[FloatArray] = read(brought, ("B", "n"))
    except InvalidData:
        found = [_set_of(one, read) for one in brought] if isinstance(brought, list | tuple) else []
        if all(own is None for own in found):  # no entry is a decision set
            raise
        none = np.full((1, point.size), np.nan)
        sets = [none if own is None else own for own in found]
    if isinstance(sets, np.ndarray) and not isinstance(available, list | tuple):
        return sets, None if available is None else _checks.as_marks(
            available, sets.shape[:2], name="available"
        )
    if available is None:
        offered = [np.ones(len(own), dtype=np.bool_) for own in sets]
    elif isinstance(available, list | tuple | np.ndarray) and len(available) == len(sets):
        filled = isinstance(available, np.ndarray) and available.ndim == 2  # (B, n) for the longest set
        theirs = [one[: len(own)] if filled else one for one, own in zip(available, sets, strict=True)]
        offered = [_marks_or_none(one, len(own)) for one, own in zip(theirs, sets, strict=True)]
    else:
        raise InvalidData(f"available: expected {len(sets)} lists of booleans, one for each decision set")
    rows = np.tile(point, (len(sets), max(map(len, sets)), 1))
    marks = np.zeros(rows.shape[:2], dtype=np.bool_)
    for place, (own, marked) in enumerate(zip(sets, offered, strict=True)):
        rows[place, : len(own)], marks[place, : len(own)] = own, marked
    return rows, marks


def _set_of(brought: Any, read: Callable[[Any, tuple[str, ...]], FloatArray]) -> FloatArray | None:
    """Return one entry of a list as a decision set (n, d); None if it is not a decision set.

    Its length has no limit: a limit would apply only if another user's set has another length.
    """
    try:
        return read(brought, ("n",))
    except InvalidData:
        return None


def _marks_or_none(available: object, count: int) -> BoolArray:
    """Return a mask (count,) of available rows, in which no row is available if the argument is malformed."""
    try:
        return _checks.as_marks(available, (count,), name="available")
    except InvalidData:
        return np.zeros(count, dtype=np.bool_)

"""Which cells stand for a missing value, in every file and frame."""

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidData

__all__ = ["LONGEST_WORD", "MISSING", "is_missing", "missing_mask", "missing_values"]

MISSING = frozenset({"", "na", "<na>", "nan", "nat", "none", "null"})
"""Words, in small letters, that stand for a missing value, but where a column declares one as a category."""

LONGEST_WORD = max(map(len, MISSING))

_TYPES = frozenset({"NAType", "NaTType"})
"""pandas.NA and pandas.NaT."""


def is_missing(cell: object) -> bool:
    """Whether it is None, NaN, NaT, pandas.NA, or a text that is empty or one of the words."""
    if isinstance(cell, str):
        return cell.strip().casefold() in MISSING
    if cell is None or type(cell).__name__ in _TYPES:
        return True
    return isinstance(cell, float | np.floating | np.datetime64 | Decimal) and bool(cell != cell)


def missing_mask(values: NDArray[Any]) -> NDArray[np.bool_]:
    """(n,) which cells are missing."""
    if values.dtype.kind in "OUT":
        return np.fromiter(map(is_missing, values.tolist()), dtype=np.bool_, count=values.size)
    return np.asarray(values != values)  # NaN and NaT differ from themselves


def missing_values(name: str) -> InvalidData:
    """The error of a column with missing values."""
    return InvalidData(
        f"column {name!r} has missing values (empty, NA, NaN, NaT, None or null): fill them with a public "
        "constant, or let the schema say it: Range(..., missing=...)"
    )

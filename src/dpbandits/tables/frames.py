"""Reading columns as arrays, from a mapping of sequences or from any data frame."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpbandits._checks import kind_of
from dpbandits.errors import InvalidData, MissingExtra
from dpbandits.tables.coded import Coded, as_objects
from dpbandits.tables.missing import missing_values

__all__ = ["Table", "read_table"]


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Attributes:
        names: of the columns, in order.
        column: name -> the column as a one-dimensional array, or `Coded`; mixed lists as objects, nulls as
            None or NaN.
    """

    names: list[str]
    column: Callable[[str], NDArray[Any] | Coded]


def read_table(frame: object, *, gaps: bool = False) -> Table:
    """A mapping or data frame as a `Table`; InvalidData or MissingExtra where it cannot be read.

    Args:
        frame: the table.
        gaps: a data frame's column of numbers may have nulls, and is read as floats with NaN; without it
            they are refused.
    """
    return _read_mapping(frame) if isinstance(frame, Mapping) else _read_frame(frame, gaps=gaps)


def _read_mapping(frame: Mapping[Any, Any]) -> Table:
    def column(name: str) -> NDArray[Any] | Coded:
        sequence = frame[name]
        if isinstance(sequence, Coded):
            return sequence
        if isinstance(sequence, np.ma.MaskedArray):
            raise InvalidData(f"column {name!r} is a masked array: fill or drop the masked entries first")
        cells = _shallow(sequence)
        if isinstance(sequence, (str, bytes)) or cells.ndim != 1:
            raise InvalidData(
                f"column {name!r} is {kind_of(sequence)}, expected a one-dimensional sequence: a list of one "
                "value for every row"
            )
        return cells

    return Table(list(frame), column)


def _shallow(sequence: Any) -> NDArray[Any]:
    """A list as one array of objects, so that [1, "a"] is not turned into text; arrays as they are."""
    if isinstance(sequence, (list, tuple)):
        return as_objects(sequence)
    return np.asarray(sequence)


def _read_frame(frame: object, *, gaps: bool) -> Table:
    """A data frame of any library that narwhals reads."""
    kind = type(frame)  # asked instead of the frame: a lazy one would resolve its columns
    if not (hasattr(kind, "columns") or hasattr(kind, "column_names")):
        raise InvalidData(
            f"a schema cannot read a {kind.__name__}: pass a data frame or a mapping of sequences"
        )
    try:
        import narwhals.stable.v2 as nw
    except ImportError:
        raise MissingExtra(
            "data frames need narwhals: pip install 'dpbandits[report]', or pass a mapping of sequences"
        ) from None
    try:
        eager = nw.from_native(cast(Any, frame), eager_only=True)
        names = eager.columns
    except (TypeError, ValueError):  # not a frame, a lazy one, or duplicate names
        raise InvalidData(
            f"a schema cannot read this {kind.__module__.split('.')[0]} {kind.__name__}: "
            "expected an eager data frame with distinct column names (collect a lazy one first)"
        ) from None

    def column(name: str) -> NDArray[Any]:
        series = eager[name]
        nulls = series.dtype.is_numeric() and series.is_null().any()
        if nulls and not gaps:
            raise missing_values(name)
        if isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is not None:
            series = series.dt.replace_time_zone(None)  # by its own clock
        if nulls or series.dtype.is_decimal():
            series = series.cast(nw.Float64).fill_null(float("nan"))
        cells = np.asarray(series.to_numpy())
        if cells.ndim != 1:  # structures and arrays of one shape
            raise InvalidData(f"column {name!r} has cells that are no single value")
        return cells

    return Table(names, column)

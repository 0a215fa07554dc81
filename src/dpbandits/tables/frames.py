"""Reading columns as arrays, from a mapping of sequences or from any data frame."""

from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidData, MissingExtra

__all__ = ["FrameTable", "MappingTable", "Table", "read_table"]


class Table(Protocol):
    """Named columns of equal length."""

    names: list[str]

    def column(self, name: str) -> NDArray[Any]:
        """The column as a one-dimensional array."""


def read_table(frame: object) -> Table:
    """A mapping or data frame as a `Table`; InvalidData or MissingExtra where it cannot be read."""
    return MappingTable(frame) if isinstance(frame, Mapping) else FrameTable(frame)


class MappingTable:
    """A mapping of sequences, read as a table."""

    def __init__(self, frame: Mapping[Any, Any]) -> None:
        self._frame = frame
        self.names = list(frame)

    def column(self, name: str) -> NDArray[Any]:
        """The column as a one-dimensional array; mixed lists as objects."""
        sequence = self._frame[name]
        if isinstance(sequence, np.ma.MaskedArray):
            raise InvalidData(f"column {name!r} is a masked array: fill or drop the masked entries first")
        if isinstance(sequence, (str, bytes)) or np.ndim(_shallow(sequence)) != 1:
            raise InvalidData(
                f"column {name!r} is a {type(sequence).__name__}, expected a one-dimensional sequence"
            )
        return _shallow(sequence)


def _shallow(sequence: Any) -> NDArray[Any]:
    """A list as one array of objects, so that [1, "a"] is not turned into text; arrays as they are."""
    if isinstance(sequence, (list, tuple)):
        cells = np.empty(len(sequence), dtype=np.object_)
        cells[:] = sequence
        return cells
    return np.asarray(sequence)


class FrameTable:
    """A data frame of any library that narwhals reads."""

    def __init__(self, frame: object) -> None:
        kind = type(frame)  # asked instead of the frame: a lazy one would resolve its columns
        if not (hasattr(kind, "columns") or hasattr(kind, "column_names")):
            raise InvalidData(
                f"a schema cannot read a {kind.__name__}: pass a data frame or a mapping of sequences"
            )
        try:
            import narwhals.stable.v2 as nw
        except ImportError:
            raise MissingExtra(
                "reading data frames needs narwhals: install dpbandits[report], "
                "or pass a mapping of sequences"
            ) from None
        try:
            self._frame = nw.from_native(cast(Any, frame), eager_only=True)
            self.names = self._frame.columns
            self._float64 = nw.Float64
        except (TypeError, ValueError):  # not a frame, a lazy one, or duplicate names
            raise InvalidData(
                f"a schema cannot read this {kind.__module__.split('.')[0]} {kind.__name__}: "
                "expected an eager data frame with distinct column names (collect a lazy one first)"
            ) from None

    def column(self, name: str) -> NDArray[Any]:
        """The column as a one-dimensional array, nulls as None or NaN."""
        series = self._frame[name]
        if series.dtype.is_numeric() and series.is_null().any():
            raise InvalidData(
                f"column {name!r} has missing values: drop these rows, or fill them with a public constant"
            )
        if series.dtype.is_decimal():
            series = series.cast(self._float64)
        return np.asarray(series.to_numpy())

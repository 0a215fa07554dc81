"""Read columns as arrays from a mapping of sequences or a data frame."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from dpbandits._cells import EXACT, array_of, as_objects, is_missing
from dpbandits._checks import kind_of
from dpbandits._lazy import needing
from dpbandits._numpy import np
from dpbandits.errors import InvalidData
from dpbandits.tables.coded import Coded

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Table", "frame_as_arrow", "is_frame", "read_table"]

_NO_TEXT = "\ufffd"
"""Text of a cell that has none. It is no number, date or id, so it is read as unreadable."""

_DIGITS = 76
"""Largest number of digits of a decimal number in Arrow."""


@dataclass(frozen=True)
class Table:
    """Named columns of equal length.

    Attributes:
        names: Names of the columns, in order.
        column: Function from a name to the column, a one-dimensional array or `Coded`. Mixed lists become
            arrays of objects; nulls become None or NaN.
    """

    names: list[str]
    column: Callable[[str], NDArray[Any] | Coded]


def read_table(frame: object) -> Table:
    """Read a mapping or data frame.

    Raises:
        InvalidData: The object is neither, or is a lazy data frame.
        MissingExtra: The object is a data frame and narwhals is not installed.
    """
    return _read_mapping(frame) if isinstance(frame, Mapping) else _read_frame(frame)


def _read_mapping(frame: Mapping[Any, Any]) -> Table:
    def column(name: str) -> NDArray[Any] | Coded:
        sequence = frame[name]
        if isinstance(sequence, Coded):
            return sequence
        if isinstance(sequence, np.ma.MaskedArray):
            raise InvalidData(f"column {name!r} is a masked array: fill or drop the masked entries first")
        cells = np.zeros(()) if isinstance(sequence, str | bytes) else array_of(sequence, flat=True)
        if cells.ndim != 1:
            raise InvalidData(
                f"column {name!r} is {kind_of(sequence)}, expected a one-dimensional sequence with one value "
                "for each row"
            )
        return cells

    return Table(list(frame), column)


def is_frame(frame: object) -> bool:
    """Return True for an object that may be a data frame. Nothing of the object is computed."""
    kind = type(frame)  # not the object: `hasattr` on a lazy frame would compute its columns
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def _eager(frame: object) -> Any:
    """Return an eager data frame with distinct names as a frame of narwhals."""
    kind = type(frame)
    if not is_frame(frame):
        raise InvalidData(
            f"a schema cannot read {kind_of(frame)}: pass a data frame or a mapping of sequences"
        )
    with needing(
        "data frames need narwhals: pip install 'dpbandits[warehouse]', or pass a mapping of sequences"
    ):
        import narwhals.stable.v2 as nw
    try:
        eager = nw.from_native(cast(Any, frame), eager_only=True)
        eager.columns  # noqa: B018 - raises for duplicate names
    except (TypeError, ValueError):  # not a frame, a lazy one, or duplicate names
        raise InvalidData(
            f"a schema cannot read this {kind.__module__.split('.')[0]} {kind.__name__}: "
            "expected an eager data frame with distinct column names (collect a lazy one first)"
        ) from None
    return eager


def _read_frame(frame: object) -> Table:
    """Read a data frame of any library that narwhals supports."""
    eager = _eager(frame)
    import narwhals.stable.v2 as nw

    def column(name: str) -> NDArray[Any]:
        series = eager[name]
        whole = series.dtype.is_integer() or series.dtype == nw.Boolean
        naive = isinstance(series.dtype, nw.Datetime) and series.dtype.time_zone is None
        if series.dtype.is_float() or naive or (whole and not series.is_null().any()):
            with suppress(Exception):  # NumPy has no integers of 128 bits, which polars has
                cells = np.asarray(series.to_numpy())
                if cells.dtype.kind in "iufbM":
                    return cells
        try:
            return as_objects(series.to_list())  # not to_numpy, which rounds integers beside a null
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - polars panics on a date beyond the year 9999
            return as_objects(series.cast(nw.String).to_list())

    return Table(eager.columns, column)


def frame_as_arrow(frame: object) -> Any:
    """Return an eager data frame (n rows) as a `pyarrow.Table`. This is raw data.

    A column whose cells have several types becomes text, cell by cell: a conversion as a whole would fail at
    one cell and show it.

    Raises:
        InvalidData: The object is no eager data frame with distinct names.
        MissingExtra: narwhals or pyarrow is not installed.
    """
    eager = _eager(frame)
    with needing("data frames need pyarrow: pip install 'dpbandits[warehouse]'"):
        import pyarrow as pa

    def column(name: str) -> Any:
        try:
            cells = eager[name].to_arrow()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - cells of several types, or of a type that Arrow lacks
            return pa.array([_as_text(cell) for cell in eager[name].to_list()], pa.string())
        coded = pa.types.is_dictionary(cells.type)
        return cells.cast(cells.type.value_type) if coded else cells

    return pa.table({name: column(name) for name in eager.columns})


def _as_text(cell: object) -> str | None:
    """Return a cell as a text with the same meaning: None for a missing one, `_NO_TEXT` for one without."""
    try:
        if isinstance(cell, str | bytes):
            return (cell if isinstance(cell, bytes) else str.encode(cell)).decode("utf-8")
        if is_missing(cell):
            return None
        if isinstance(cell, numbers.Integral | np.bool_):
            return str(int(cell))
        if isinstance(cell, Decimal) and abs(cell.adjusted()) <= _DIGITS:
            return format(cell, "f")
        if isinstance(cell, numbers.Real | Decimal) and not isinstance(cell, np.timedelta64):
            number = float(cell)  # an exponent makes it no id, as in a column of floats
            return repr(number) if abs(number) <= EXACT else f"{number:.16e}"
        return str(cell) if isinstance(cell, date | time | np.datetime64) else _NO_TEXT
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its value
        return _NO_TEXT

"""Read single cells of a table as numbers or as values.

Readers of files choose a type for a whole column: one "unknown" turns a column of numbers into text, one
blank turns integers into floats, one "true" turns 0 and 1 into booleans. A cell therefore has the same
meaning in every type that holds its value exactly: 5, 5.0, "5", "05" and Decimal(5) are one number, True,
"true" and 1 are one number, and a date is the text that spells it. What a cell means depends on that cell
alone. No cell raises an error.

Two readings exist. `number_of` and `numbers_of` give a float for ranges, rewards and propensities.
`cell_value` and `codes_of` give a value that can be compared, for categories and arms. Ids are read by
`_checks.person_in`.

A float beyond 2^53 may have been an integer that a reader has rounded, so it is never equal to anything. The
rounding of a reader cannot be undone: read such columns as text.
"""

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits._typing import FloatArray, IntArray

__all__ = [
    "EXACT",
    "LONGEST_WORD",
    "MISSING",
    "SOFT",
    "UNREADABLE",
    "array_of",
    "as_objects",
    "cell_value",
    "codes_by_value",
    "codes_of",
    "is_missing",
    "number_of",
    "numbers_of",
    "time_in",
]

ObjectArray = NDArray[Any]  # of objects

MISSING = frozenset(
    {"", "na", "<na>", "nan", "nat", "none", "null", "n/a", "-nan"}
    | {"#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "1.#ind", "1.#qnan"}
)
"""Words, in small letters, that stand for a missing value unless a column declares one as a category. All
words that pandas and pyarrow take for a missing value in some columns are among them."""

SOFT = frozenset({"none", "nat", "<na>"})
"""Words of `MISSING` that readers treat alike in every column. A category may have such a name beside another
one for missing cells."""

LONGEST_WORD = max(map(len, MISSING))

EXACT = 1 << 53
"""Integers up to here are floats without loss."""

UNREADABLE = object()
"""What `cell_value` gives for a cell that is no single value."""

_TRUTH = {"true": 1, "false": 0}
_ABSENT = frozenset({"NAType", "NaTType"})
"""Names of the types of pandas.NA and pandas.NaT."""

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}|[0-9]{8}(?![0-9])|[0-9]{4}-?W|[0-9]{2}:")
"""Beginnings of dates and times in ISO 8601."""
_NO_NUMBER = re.compile(r"[0-9][0-9A-Za-z_.-]*[g-wyzG-WYZ]")
"""Pattern of texts that start with a digit but cannot be numbers."""

_PLAIN = frozenset({int, float, bool})
_LARGEST_DECIMAL = Decimal(10) ** 400


def is_missing(cell: object) -> bool:
    """Whether a cell is None, NaN, NaT, pandas.NA, or a text that is empty or one of `MISSING`."""
    try:
        return _is_missing(cell)
    except Exception:  # noqa: BLE001 - what an object raises may tell of what it holds
        return False


def _is_missing(cell: object) -> bool:
    if isinstance(cell, str):
        return str.__str__(cell).strip().casefold() in MISSING
    if cell is None or type(cell).__name__ in _ABSENT:
        return True
    if isinstance(cell, Decimal):
        return cell.is_nan()  # a signalling one cannot be compared
    return isinstance(cell, float | np.floating | np.datetime64 | np.timedelta64) and bool(cell != cell)


# -- numbers -----------------------------------------------------------------------------------------


def number_of(cell: object) -> float:
    """A cell as a float: NaN where it is missing, infinity where it is no finite number.

    Example:
        >>> [number_of(cell) for cell in (5, "05", Decimal(5), True, "true", "", "5 years", 1e999)]
        [5.0, 5.0, 5.0, 1.0, 1.0, nan, inf, inf]
    """
    try:
        if is_missing(cell):
            return math.nan
        if isinstance(cell, str | bytes):
            found = _number_in(_text(cell))
            return math.nan if found is None else math.inf if isinstance(found, str) else float(found)
        if isinstance(cell, numbers.Real | Decimal | np.bool_) and not isinstance(cell, np.timedelta64):
            return float(cell)
        if isinstance(cell, np.ndarray) and cell.ndim == 0:
            return number_of(cell.item())
    except Exception:  # noqa: BLE001 - what an object raises may tell of what it holds
        return math.inf
    return math.inf


def numbers_of(values: ArrayLike, *, width: int | None = None) -> FloatArray:
    """`number_of` of each cell of an array or a nested list, of any shape.

    Args:
        values: the cells.
        width: d, where the values are rows of so many cells. Each entry of a list whose rows differ is then
            read by itself, and one that is no row of d cells is a row of infinity.

    Example:
        >>> numbers_of(["30", 41.5, None, "unknown"])
        array([30. , 41.5,  nan,  inf])
        >>> numbers_of([[1, 2], None, [3, 4, 5]], width=2)
        array([[ 1.,  2.],
               [inf, inf],
               [inf, inf]])
    """
    cells = array_of(values)
    if width is not None and cells.dtype == np.object_ and cells.ndim == 1:
        kinds = set(map(type, cells))
        if any(hasattr(kind, "__len__") and not issubclass(kind, str | bytes) for kind in kinds):
            return _rows_of(cells.tolist(), width)
    if cells.dtype.kind in "iufb":
        with np.errstate(over="ignore"):  # a long double may become infinite
            return np.asarray(cells, dtype=np.float64, order="C")
    listed = _objects(cells).ravel().tolist()
    kinds = set(map(type, listed))
    if kinds <= _PLAIN:
        try:
            return np.array(listed, dtype=np.float64).reshape(cells.shape)
        except OverflowError:  # an integer beyond the largest float
            pass
    elif kinds <= {str}:  # a column has few different texts, or each is read once
        known = {text: number_of(text) for text in set(listed)}
        return np.array([known[text] for text in listed], dtype=np.float64).reshape(cells.shape)
    return np.array([number_of(cell) for cell in listed], dtype=np.float64).reshape(cells.shape)


def _rows_of(entries: list[object], width: int) -> FloatArray:
    """(n, width) rows, each read by itself; a row of infinity for an entry that is none."""
    rows = np.full((len(entries), width), np.inf)
    for place, entry in enumerate(entries):
        try:
            own = np.atleast_1d(numbers_of(entry))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001, S112 - what an object raises may tell of what it holds
            continue
        if own.shape == (width,):
            rows[place] = own
    return rows


def _text(cell: str | bytes) -> str:
    return (bytes(cell).decode("utf-8") if isinstance(cell, bytes) else str.__str__(cell)).strip()


def _number_in(text: str) -> int | float | str | None:
    """A stripped text as a number, exact if it spells an integer; None for a missing value, else the text."""
    word = text.casefold()
    if word in MISSING:
        return None
    if word in _TRUTH:
        return _TRUTH[word]
    try:
        return int(text)
    except ValueError:  # no integer, or one of thousands of digits
        pass
    try:
        if word.startswith("0x"):  # pyarrow reads integers so
            return int(word, 16)
        return float(text)
    except ValueError:
        return text


# -- values ------------------------------------------------------------------------------------------


def cell_value(cell: object) -> Any:
    """A cell as a value to compare: a number, a datetime, a time or a text.

    Returns:
        None if the cell is missing, but the word if it is one of `SOFT`; `UNREADABLE` if the cell is no
        single value, or a float beyond 2^53.

    Example:
        >>> [cell_value(cell) for cell in (7, "007", 7.0, "true", "north ", "2024-05-31", "none")]
        [7, 7, 7, 1, 'north', datetime.datetime(2024, 5, 31, 0, 0), 'none']
    """
    try:
        return _value_in_cell(cell)
    except Exception:  # noqa: BLE001 - what an object raises may tell of what it holds
        return UNREADABLE


def _value_in_cell(cell: object) -> Any:
    if isinstance(cell, str | bytes):
        text = _text(cell)
        return word if (word := text.casefold()) in SOFT else _value_in(text)
    if is_missing(cell):
        return None
    if isinstance(cell, np.timedelta64):
        return UNREADABLE
    if isinstance(cell, np.bool_ | numbers.Integral):
        return int(cell)
    if isinstance(cell, Decimal) and abs(cell) <= _LARGEST_DECIMAL:
        return int(cell) if cell == cell.to_integral_value() else float(cell)
    if isinstance(cell, numbers.Real):
        return _compared(float(cell))
    if isinstance(cell, date | np.datetime64):
        return time_in(cell)
    if isinstance(cell, time):
        return cell
    if isinstance(cell, np.ndarray) and cell.ndim == 0:
        return _value_in_cell(cell.item())
    return UNREADABLE


def _compared(number: float) -> Any:
    if not abs(number) <= EXACT:
        return UNREADABLE
    return int(number) if number.is_integer() else number


def _value_in(text: str) -> Any:
    found = text if _NO_NUMBER.match(text) else _number_in(text)
    if isinstance(found, float):
        return _compared(found)
    if not isinstance(found, str):
        return found
    if _MOMENT.match(text):
        for read in (time_in, time.fromisoformat):
            try:
                return read(text)
            except ValueError:
                continue
    return text


def codes_of(values: Any, codes: Mapping[Any, int], *, default: int = -1) -> IntArray:
    """(n,) the code of each cell's value.

    Args:
        values: (n,) cells, as an array or a list.
        codes: value, as `cell_value` gives it, -> code; None stands for a missing cell. A word of `SOFT` that
            is not among them is a missing cell.
        default: code of a cell whose value is none of these, while a missing one that is not among them has
            -1.
    """

    def code(cell: object) -> int:
        value = cell_value(cell)
        try:
            if value in SOFT and value not in codes:
                value = None
            return codes.get(value, -1 if value is None else default)
        except Exception:  # noqa: BLE001 - a time whose zone fails to hash, say
            return codes.get(UNREADABLE, default)

    cells = array_of(values, flat=True)
    if cells.dtype.kind in "iufb":
        different, places = np.unique(cells, return_inverse=True)
        return np.array([code(cell) for cell in different.tolist()], dtype=np.int64)[places.reshape(-1)]
    known: dict[tuple[type, Any], int] = {}  # by type: a float beyond 2^53 equals an integer
    found = np.empty(len(cells), dtype=np.int64)
    for place, cell in enumerate(_objects(cells).tolist()):
        if type(cell) is str or type(cell) in _PLAIN:  # comparing another type could run a caller's code
            if (one := known.get((type(cell), cell))) is None:
                one = known[type(cell), cell] = code(cell)
            found[place] = one
        else:
            found[place] = code(cell)
    return found


def codes_by_value(labels: Sequence[object]) -> dict[Any, int]:
    """Value -> place of each public label, and the label that a missing cell means, if one spells a missing
    value.

    Raises:
        ValueError: two labels have one value, or one has none that can be compared.
    """
    codes = {cell_value(label): code for code, label in enumerate(labels)}
    large = any(isinstance(value, int) and abs(value) > EXACT for value in codes)
    if len(codes) != len(labels) or UNREADABLE in codes or large:
        raise ValueError
    words = [word for word in SOFT if word in codes]
    if len(words) == 1:
        codes.setdefault(None, codes[words[0]])
    return codes


def time_in(cell: object) -> datetime:
    """A date or time as a datetime without a zone, of UTC where the cell has a zone, to the microsecond.

    Raises:
        ValueError, TypeError, OverflowError: it is none.
    """
    if isinstance(cell, str):
        cell = datetime.fromisoformat(cell.strip())
    if isinstance(cell, datetime):  # pandas.Timestamp is one
        zoned = datetime.combine(cell.date(), cell.time(), tzinfo=cell.tzinfo)
        return zoned if zoned.tzinfo is None else zoned.astimezone(UTC).replace(tzinfo=None)
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)  # noqa: DTZ001 - a date has no zone
    if isinstance(cell, np.datetime64):
        return time_in(cell.astype("datetime64[us]").item())
    raise TypeError


# -- arrays of cells ---------------------------------------------------------------------------------


def array_of(values: Any, *, flat: bool = False) -> NDArray[Any]:
    """Cells as an array, each as it was: no entry of a list turns the others into text.

    Args:
        values: an array, a nested list or tuple, or a column of pandas, polars or pyarrow.
        flat: treat an entry that is a list as one unreadable cell.
    """
    kind = type(values)
    if kind is np.ndarray:
        return _without_complex(values)
    if isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind in "iufbMc":
        return _without_complex(np.asarray(values))
    # of pyarrow, and of pandas and polars, whose arrays round integers beside a blank
    for name in ("to_pylist", "to_list"):
        if hasattr(kind, name):
            return as_objects(getattr(values, name)())
    if flat and isinstance(values, list | tuple):
        return as_objects(values)
    try:
        return np.asarray(values, dtype=np.object_)
    except Exception:  # noqa: BLE001 - arrays of different shapes, or an entry that fails to be one
        return as_objects(values)


def _without_complex(cells: NDArray[Any]) -> NDArray[Any]:
    """The cells as they are; one complex number has made the others complex, which are real numbers again."""
    return cells if cells.dtype.kind != "c" else np.where(cells.imag == 0.0, cells.real, np.inf)


def as_objects(values: Sequence[object]) -> ObjectArray:
    """(n,) an array of the values as they are."""
    return np.fromiter(values, dtype=np.object_, count=len(values))


def _objects(cells: NDArray[Any]) -> ObjectArray:
    """Cells as Python's objects. NumPy would turn moments into integers; a duration is no number and no
    value.
    """
    if cells.dtype.kind == "M":
        cells = cells.astype("datetime64[us]")
    elif cells.dtype.kind == "m":
        return np.full(cells.shape, UNREADABLE, dtype=np.object_)
    return cells.astype(np.object_)

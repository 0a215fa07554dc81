"""Read single cells of a table as numbers or as values.

Readers of files choose a type for a whole column. One "unknown" turns a column of numbers into text; one
blank turns integers into floats; one "true" turns 0 and 1 into booleans. A cell therefore has the same
meaning in every type that holds its value exactly. 5, 5.0, "5", "05" and Decimal(5) are one number; True,
"true" and 1 are one number; a date equals the text that spells it. The meaning of a cell depends on that
cell alone. No cell raises an error.

Two readings exist. `number_of` and `numbers_of` give a float for ranges, rewards and propensities.
`cell_value` and `codes_of` give a value that can be compared, for categories and arms. Ids are read by
`_checks.person_in`.

A float beyond 2^53 may be an integer that a reader has rounded, so it is never equal to anything. Such
rounding cannot be undone: read such columns as text.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from dpbandits._numpy import is_numpy, np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpbandits._typing import FloatArray, IntArray

    ObjectArray = NDArray[Any]  # of objects

__all__ = [
    "EXACT",
    "ISO_TIME",
    "LONGEST_NUMBER",
    "LONGEST_WORD",
    "MISSING",
    "SOFT",
    "UNREADABLE",
    "array_of",
    "as_objects",
    "cell_value",
    "code_of",
    "codes_by_value",
    "codes_of",
    "is_missing",
    "number_of",
    "numbers_of",
    "time_in",
]

MISSING = frozenset(
    {"", "na", "<na>", "nan", "nat", "none", "null", "n/a", "-nan"}
    | {"#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "1.#ind", "1.#qnan"}
)
"""Words in lower case that mean a missing cell, unless a column declares one as a category.

They include all words that pandas or pyarrow reads as missing in some columns.
"""

SOFT = frozenset({"none", "nat", "<na>"})
"""Words of `MISSING` that readers treat the same in every column. A column may have such a category and
another category for missing cells."""

LONGEST_WORD = max(map(len, MISSING))
"""Number of characters of the longest word of `MISSING`."""

LONGEST_NUMBER = 1 << 12
"""Largest number of characters of a text that can be a number. Such a text has ASCII characters only."""

EXACT = 1 << 53
"""Largest integer up to which every integer is a float without rounding."""

UNREADABLE = object()
"""Result of `cell_value` for a cell that is not a single value."""

_TRUTH = {"true": 1, "false": 0}
_ABSENT = frozenset({"NAType", "NaTType"})
"""Names of the types of pandas.NA and pandas.NaT."""

_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:[.,][0-9]+)?)?"
_ZONE = "(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)?"
_MONTH, _DAY = "(?:0[1-9]|1[0-2])", "(?:0[1-9]|[12][0-9]|3[01])"
ISO_TIME = f"(?:[0-9]{{4}}-{_MONTH}-{_DAY}|[0-9]{{4}}{_MONTH}{_DAY})(?:[T ]{_CLOCK}{_ZONE})?"
"""Pattern of a date in a text, with or without a time of day. Digits beyond microseconds are left out."""

_MOMENT, _TIME = re.compile(ISO_TIME), re.compile(_CLOCK + _ZONE)
_NO_NUMBER = re.compile(r"[0-9][0-9A-Za-z_.-]*[g-wyzG-WYZ]")
"""Pattern of texts that start with a digit and cannot be numbers, which saves trying to read them."""

_PLAIN = frozenset({int, float, bool})
_LARGEST_DECIMAL = Decimal(10) ** 400


def is_missing(cell: object) -> bool:
    """Return True for None, NaN, NaT, pandas.NA, and a text that is empty or one of `MISSING`."""
    try:
        return _is_missing(cell)
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its value
        return False


def _is_missing(cell: object) -> bool:
    if isinstance(cell, str):
        return str.__str__(cell).strip().casefold() in MISSING
    if cell is None or type(cell).__name__ in _ABSENT:
        return True
    if isinstance(cell, Decimal):
        return cell.is_nan()  # comparing a signalling NaN raises
    known = isinstance(cell, float) or is_numpy(cell, "floating", "datetime64", "timedelta64")
    return known and bool(cell != cell)


# -- numbers -----------------------------------------------------------------------------------------


def number_of(cell: object) -> float:
    """Return a cell as a float: NaN for a missing cell, infinity for one that is not a finite number.

    Example:
        >>> [number_of(cell) for cell in (5, "05", Decimal(5), True, "true", "", "5 years", 1e999)]
        [5.0, 5.0, 5.0, 1.0, 1.0, nan, inf, inf]
    """
    try:
        if type(cell) in (float, int):
            return float(cell)  # type: ignore[arg-type]
        if is_missing(cell):
            return math.nan
        if isinstance(cell, str | bytes):
            found = _number_in(_text(cell))
            return math.nan if found is None else math.inf if isinstance(found, str) else float(found)
        if is_numpy(cell, "ndarray"):
            return number_of(_single(cell))
        real = isinstance(cell, numbers.Real | Decimal) or is_numpy(cell, "bool_")
        if real and not is_numpy(cell, "timedelta64"):
            return float(cell)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its value
        return math.inf
    return math.inf


def numbers_of(values: ArrayLike, *, width: int | None = None) -> FloatArray:
    """Return `number_of` each cell of an array or nested list, in the same shape.

    Args:
        values: Cells, of any shape.
        width: Number of cells in a row, d, if the values are rows. Then each entry of a ragged list is read
            by itself, and an entry that is not a row of d cells becomes a row of infinity.

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
    elif kinds <= {str}:  # read each distinct text once
        known = {text: number_of(text) for text in set(listed)}
        return np.array([known[text] for text in listed], dtype=np.float64).reshape(cells.shape)
    return np.array([number_of(cell) for cell in listed], dtype=np.float64).reshape(cells.shape)


def _rows_of(entries: list[object], width: int) -> FloatArray:
    """Return rows (n, width), each read by itself; a row of infinity for an entry that is not a row."""
    rows = np.full((len(entries), width), np.inf)
    for place, entry in enumerate(entries):
        try:
            own = np.atleast_1d(numbers_of(entry))  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001, S112 - the error of a caller's object could show its value
            continue
        if own.shape == (width,):
            rows[place] = own
    return rows


def _text(cell: str | bytes) -> str:
    return (bytes(cell).decode("utf-8") if isinstance(cell, bytes) else str.__str__(cell)).strip()


def _number_in(text: str) -> int | float | str | None:
    """Return a stripped text as a number, exact for an integer; None if it means missing, else the text."""
    word = text.casefold()
    if word in MISSING:
        return None
    if len(text) > LONGEST_NUMBER or not text.isascii():
        return text
    if word in _TRUTH:
        return _TRUTH[word]
    try:
        return int(text)
    except ValueError:  # not an integer, or one with thousands of digits
        pass
    try:
        if word.startswith("0x"):  # pyarrow reads hexadecimal integers
            return int(word, 16)
        return float(text)
    except ValueError:
        return text


# -- values ------------------------------------------------------------------------------------------


def cell_value(cell: object) -> Any:
    """Return a cell as a value that can be compared: a number, a datetime, a time or a text.

    Returns:
        The value. A missing cell gives None, or the word itself if it is one of `SOFT`. A cell that is not a
        single value, or is a float beyond 2^53, gives `UNREADABLE`.

    Example:
        >>> [cell_value(cell) for cell in (7, "007", 7.0, "true", "north ", "2024-05-31", "none")]
        [7, 7, 7, 1, 'north', datetime.datetime(2024, 5, 31, 0, 0), 'none']
    """
    try:
        return _value_in_cell(cell)
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its value
        return UNREADABLE


def _value_in_cell(cell: object) -> Any:
    if isinstance(cell, str | bytes):
        text = _text(cell)
        return word if (word := text.casefold()) in SOFT else _value_in(text)
    if is_missing(cell):
        return None
    if is_numpy(cell, "timedelta64"):
        return UNREADABLE
    if isinstance(cell, numbers.Integral) or is_numpy(cell, "bool_"):
        return int(cell)  # type: ignore[call-overload]
    if isinstance(cell, Decimal) and abs(cell) <= _LARGEST_DECIMAL:
        return int(cell) if cell == cell.to_integral_value() else float(cell)
    if isinstance(cell, numbers.Real):
        return _compared(float(cell))
    if isinstance(cell, date) or is_numpy(cell, "datetime64"):
        return time_in(cell)
    if isinstance(cell, time):
        return cell
    return _value_in_cell(_single(cell)) if is_numpy(cell, "ndarray") else UNREADABLE


def _single(cell: Any) -> object:
    """Return the entry of an array without axes; `UNREADABLE` for any other array."""
    return cell.item() if cell.ndim == 0 else UNREADABLE


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
    if text[4:5].isdigit() or text[4:5] == "-" or text[2:3] == ":":  # saves most patterns
        try:
            return time.fromisoformat(text) if _TIME.fullmatch(text) else time_in(text)
        except ValueError:
            pass
    return text


def code_of(cell: object, codes: Mapping[Any, int], *, default: int = -1) -> int:
    """Return the code of a cell's value.

    Args:
        cell: Cell.
        codes: Code by value, as `cell_value` gives it. The key None is a missing cell. A word of `SOFT` that
            is no key is a missing cell too.
        default: Code of a cell whose value is no key. A missing cell gets -1 if None is no key.
    """
    value = cell_value(cell)
    try:
        if value in SOFT and value not in codes:
            value = None
        return codes.get(value, -1 if value is None else default)
    except Exception:  # noqa: BLE001 - for example, a time whose zone fails to hash
        return codes.get(UNREADABLE, default)


def codes_of(values: Any, codes: Mapping[Any, int], *, default: int = -1) -> IntArray:
    """Return `code_of` each of n cells in an array or a list, shape (n,)."""
    code = partial(code_of, codes=codes, default=default)
    cells = array_of(values, flat=True)
    if cells.dtype.kind in "iufb":
        different, places = np.unique(cells, return_inverse=True)
        return np.array([code(cell) for cell in different.tolist()], dtype=np.int64)[places.reshape(-1)]
    known: dict[tuple[type, Any], int] = {}  # the key has the type, as a float beyond 2^53 equals an integer
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
    """Return the position of each public label in `labels`, by the label's value.

    If one label is a word of `SOFT`, the key None (a missing cell) gets the position of this label too.

    Raises:
        ValueError: Two labels have the same value, or a label has no value that can be compared.
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
    """Return a date or time as a datetime without a zone; a cell with a zone is converted to UTC.

    A text is read if it has the form `ISO_TIME`.

    Raises:
        ValueError, TypeError, OverflowError: The cell is not a date or time.
    """
    if isinstance(cell, str):
        cell = cell.strip()
        if not _MOMENT.fullmatch(cell):
            raise ValueError
        cell = datetime.fromisoformat(cell)
    if isinstance(cell, datetime):  # pandas.Timestamp is one
        zoned = datetime.combine(cell.date(), cell.time(), tzinfo=cell.tzinfo)
        return zoned if zoned.tzinfo is None else zoned.astimezone(UTC).replace(tzinfo=None)
    if isinstance(cell, date):
        return datetime(cell.year, cell.month, cell.day)  # noqa: DTZ001 - a date has no zone
    if is_numpy(cell, "datetime64"):
        return time_in(cell.astype("datetime64[us]").item())  # type: ignore[attr-defined]
    raise TypeError


# -- arrays of cells ---------------------------------------------------------------------------------


def array_of(values: Any, *, flat: bool = False) -> NDArray[Any]:
    """Return cells as an array without changing any: no entry of a list turns the others into text.

    Args:
        values: Array, nested list or tuple, or column of pandas, polars or pyarrow.
        flat: Treat an entry that is a list as one unreadable cell.
    """
    kind = type(values)
    if kind is np.ndarray:
        return _without_complex(values)
    if isinstance(getattr(values, "dtype", None), np.dtype) and values.dtype.kind in "iufbMc":
        return _without_complex(np.asarray(values))
    # to_pylist: pyarrow; to_list: pandas and polars. Their arrays would round integers beside a null.
    for name in ("to_pylist", "to_list"):
        if hasattr(kind, name):
            return as_objects(getattr(values, name)())
    if flat and isinstance(values, list | tuple):
        return as_objects(values)
    try:
        return np.asarray(values, dtype=np.object_)
    except Exception:  # noqa: BLE001 - ragged arrays, or an entry that fails to become an array
        return as_objects(values)


def _without_complex(cells: NDArray[Any]) -> NDArray[Any]:
    """Return the cells with real numbers for complex ones; infinity where the imaginary part is not 0."""
    # A single complex entry has made NumPy turn all other numbers into complex ones.
    return cells if cells.dtype.kind != "c" else np.where(cells.imag == 0.0, cells.real, np.inf)


def as_objects(values: Sequence[object]) -> ObjectArray:
    """Return the values as an array of objects (n,)."""
    return np.fromiter(values, dtype=np.object_, count=len(values))


def _objects(cells: NDArray[Any]) -> ObjectArray:
    """Return cells as an array of Python objects; a duration becomes `UNREADABLE`."""
    if cells.dtype.kind == "M":  # in microseconds: NumPy turns finer times into integers
        cells = cells.astype("datetime64[us]")
    elif cells.dtype.kind == "m":
        return np.full(cells.shape, UNREADABLE, dtype=np.object_)
    return cells.astype(np.object_)

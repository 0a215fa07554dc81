"""Checks of arguments. Errors name the argument, its type and its shape.

An invalid public number raises `InvalidParameter`. Arrays of points and rewards may be private: an invalid
one raises `InvalidData`, and the message shows no value.
"""

from __future__ import annotations

import math
import numbers
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import date, time
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar

from dpbandits._cells import EXACT, MISSING, as_objects, cell_value, is_missing, numbers_of
from dpbandits._numpy import is_numpy, np
from dpbandits.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from dpbandits._typing import BoolArray, FloatArray

__all__ = [
    "LARGEST",
    "TUNABLE",
    "an",
    "as_numbers",
    "as_points",
    "assign",
    "column",
    "contents",
    "integer",
    "kind_of",
    "number",
    "one_of",
    "people",
    "person",
    "person_in",
    "probability",
    "public_array",
    "require_finite",
    "scale",
    "settle",
    "type_name",
]

LARGEST = 1e30
"""Largest public parameter or bound. Parameters that divide are also at least its inverse.

Squares and ratios of such numbers, and squares of these, are finite floats.
"""

TUNABLE = 1e6
"""Largest parameter without a unit. Parameters without a unit are also at least its inverse.

A precision of 1e-6 is well above the rounding error of the Gram matrix of four million rounds, so that no
factorisation fails.
"""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that are not displayed, apart from those of Unicode's categories Cc and Cf."""

_LONGEST_ID = 4096
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(?P<power>[eE][+-]?[0-9]+)?|0x[0-9a-fA-F]+")
"""Pattern of ids that are compared as numbers, as readers of files turn a column of them into numbers."""
_NOBODY = MISSING | {"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}
"""Texts that are not ids, in lower case."""

T = TypeVar("T")


def an(value: T, kind: type[Any], *, name: str, pass_: str, optional: bool = False) -> T:
    """Return `value` if it is an instance of `kind`; raise InvalidParameter otherwise.

    Args:
        value: Argument to check.
        kind: Class, or runtime-checkable protocol. A class passed instead of an object is refused.
        name: Name of the argument.
        pass_: Code that the message tells the user to write, such as "privacy=JointDP(epsilon=1,
            delta=1e-6)".
        optional: True if None is allowed.

    Raises:
        InvalidParameter: The value has another type. The message names the type and never the value.

    Example:
        >>> an(1.0, str, name="kernel", pass_="kernel='matern'")
        Traceback (most recent call last):
        ...
        dpbandits.errors.InvalidParameter: kernel is a float, expected a str: pass kernel='matern'
    """
    if (isinstance(value, kind) and not isinstance(value, type)) or (value is None and optional):
        return value
    came = f"the class {value.__name__}" if isinstance(value, type) else kind_of(value)
    raise InvalidParameter(f"{name} is {came}, expected {_a(kind)}: pass {pass_}")


def kind_of(value: object) -> str:
    """Return the name of a value's type with its article, for messages.

    Example:
        >>> kind_of(3)
        'an int'
    """
    return _a(type(value))


def _a(kind: type[Any]) -> str:
    return f"{'an' if kind.__name__[0].lower() in 'aeio' else 'a'} {kind.__name__}"


def scale(value: object, *, name: str, largest: float = LARGEST) -> float:
    """Return `value` as a float in [1 / `largest`, `largest`], which can safely be squared or divided by.

    Use it for lengthscales, variances, ridges, caps and other factors and divisors. Use `largest=TUNABLE` for
    numbers without a unit that enter a factorisation.
    """
    return number(value, name=name, minimum=1.0 / largest, exclusive=False, maximum=largest)


def number(
    value: object, *, name: str, minimum: float = 0.0, exclusive: bool = True, maximum: float = math.inf
) -> float:
    """Return `value` as a finite float above `minimum`, or at it if not `exclusive`, at most `maximum`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InvalidParameter(f"{name} is {kind_of(value)}, expected a number")
    try:
        result = float(value)
    except OverflowError:
        raise InvalidParameter(f"{name} is beyond the largest float") from None
    inside = result > minimum if exclusive else result >= minimum
    if not (math.isfinite(result) and inside and result <= maximum):
        bound = f" {'above' if exclusive else 'at least'} {minimum:g}" if math.isfinite(minimum) else ""
        upper = f"{' and' if bound else ''} at most {maximum:g}" if math.isfinite(maximum) else ""
        raise InvalidParameter(f"{name} is {result:g}, expected a finite number{bound}{upper}")
    return result


def probability(value: object, *, name: str) -> float:
    """Return `value` as a float in [0, 1)."""
    result = number(value, name=name, exclusive=False)
    if result >= 1.0:
        raise InvalidParameter(f"{name} is {result:g}, expected a probability in [0, 1)")
    return result


def integer(value: object, *, name: str, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`. Types with `__index__` are accepted, booleans not."""
    boolean = isinstance(value, bool) or is_numpy(value, "bool_")
    kind = None if boolean else getattr(type(value), "__index__", None)
    try:
        result = None if kind is None else operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # for example, an array of several numbers
        result = None
    if result is None:
        raise InvalidParameter(f"{name} is {kind_of(value)}, expected an integer of at least {minimum}")
    if result < minimum:
        raise InvalidParameter(f"{name} is {result}, expected an integer of at least {minimum}")
    return result


def assign(thing: object, **values: object) -> None:
    """Set attributes of a frozen object. Only its constructor may call this."""
    for name, value in values.items():
        object.__setattr__(thing, name, value)


def settle(thing: object, **checks: Callable[..., object]) -> None:
    """Replace attributes of a frozen object by the results of checks, as in `settle(self, epsilon=number)`.

    A check receives the value and, as `name=`, the attribute's name for its error.
    """
    assign(thing, **{name: check(getattr(thing, name), name=name) for name, check in checks.items()})


def one_of(value: object, choices: tuple[str, ...], *, name: str) -> str:
    """Return `value` if it is one of these texts; raise InvalidParameter otherwise."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidParameter(f"{name}: expected one of {', '.join(map(repr, choices))}")
    return value


def as_points(points: ArrayLike, dim: int, *, name: str) -> FloatArray:
    """Return `points` as C-contiguous float64 of shape (..., dim), without checks for NaN or range.

    Raises:
        InvalidData: The points are not numeric, are ragged, masked or a data frame, or the last axis is not
            `dim`.
    """
    array = points if _is_ready(points) else as_numbers(points, name=name)
    if array.ndim == 0 or array.shape[-1] != dim:
        hint = f"; reshape it to ({array.shape[0]}, 1)" if dim == 1 and array.ndim == 1 else ""
        raise InvalidData(
            f"{name} has shape {array.shape}, expected (..., {dim}): one column for each dimension{hint}"
        )
    return array


def type_name(dtype: np.dtype[Any]) -> str:
    """Return the name of an array's type for messages. The length of a text type, which is data, is omitted.

    Example:
        >>> type_name(np.array([0.5]).dtype), type_name(np.array(["5000"]).dtype)
        ('float64', 'str_')
    """
    return dtype.type.__name__ if dtype.kind in "SUV" else dtype.name


def as_marks(values: object, shape: tuple[int, ...], *, name: str) -> BoolArray:
    """Return booleans of this shape; raise InvalidData for anything else."""
    try:
        array = np.asarray(values)
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its values
        array = np.zeros(())
    if array.dtype != np.bool_ or array.shape != shape:
        raise InvalidData(f"{name}: expected booleans of shape {shape}, got {array.shape}")
    return array


def as_numbers(values: ArrayLike, *, name: str) -> FloatArray:
    """Return integers or floats as C-contiguous float64 of the same shape.

    Raises:
        InvalidData: The values are of another type, are ragged or masked, or are a data frame.
    """
    if _is_ready(values):
        return values
    raw = _array_of(values, name=name)
    if raw.dtype.kind not in "iuf":
        raise InvalidData(f"{name} has dtype {type_name(raw.dtype)}, expected integers or floats")
    # np.ascontiguousarray would turn a scalar into an array of shape (1,).
    with np.errstate(over="ignore"):  # a long double may become infinite and is refused later
        return np.asarray(raw, dtype=np.float64, order="C")


def contents(values: ArrayLike, *, name: str, width: int | None = None) -> FloatArray:
    """Return cells as C-contiguous float64: NaN for a missing cell, infinity for a cell that is not a number.

    Every cell is read by itself (`dpbandits._cells`): a text that spells a number is that number, whatever
    the type of the array. Use it for values of several users, which are refused one by one later: infinity
    lies in no domain and in no reward range.

    Args:
        values: Cells, of any shape.
        name: Name of the argument, for messages.
        width: Number of cells in a row, if the values are rows. An entry of a list that is not such a row
            becomes a row of infinity and does not affect other rows.

    Raises:
        InvalidData: The values are a data frame or a masked array.

    Example:
        >>> contents([0.5, None, "x", "0.25"], name="rewards")
        array([0.5 ,  nan,  inf, 0.25])
    """
    if _is_ready(values):
        return values
    _refuse_tables(values, name=name)
    try:
        return numbers_of(values, width=width)
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its values
        raise InvalidData(f"{name} ({type(values).__name__}) cannot be read as an array") from None


def column(values: ArrayLike, *, name: str) -> FloatArray:
    """Return `contents` of one cell a user. An entry of a list that is itself a list is infinity.

    So one user's list is read alike whatever the others' entries are.
    """
    found = contents(values, name=name)
    return numbers_of(as_objects(values)) if found.ndim > 1 and isinstance(values, list | tuple) else found


_PLAIN_ID = re.compile(r"(?:[A-EGHJ-MO-SU-Za-eghj-mo-su-z][0-9A-Za-z]*|[1-9][0-9]{0,14})\Z")
"""Pattern of ids that need no conversion: no blanks, no other spelling of a number, no special word."""


def person(user: object, *, name: str = "user") -> str:
    """Return the canonical text of a user id, so that all its spellings count as one user.

    51624, 51624.0, "51624", "051624", "5.1624e4" and b"51624" are one id, because readers of files turn them
    into each other. A text with an exponent that spells a number beyond 2^53 stays a text. A float beyond
    2^53 is not an id, as several ids round to it. Blanks around a text, invisible characters (zero-width
    spaces, byte order marks, NUL) and compatibility forms (full-width digits, ligatures) are ignored, by
    Unicode form NFKC. Upper and lower case differ, except in "true" and "false", which are 1 and 0. Words
    that spell a missing value ("NA", "none") are not ids, nor are texts of more than 4,096 characters.

    Raises:
        InvalidData: The id is missing (None, NaN, NaT, pandas.NA, an empty text), is a boolean, or is not a
            text, number or bytes.

    Example:
        >>> person(" 007"), person(7.0), person("Ann\u200b") == person("Ann"), person("ann") == person("Ann")
        ('7', '7', True, False)
    """
    if type(user) is str or not (isinstance(user, bool) or is_numpy(user, "bool_")):
        found = person_in(user)
        if found is not None:
            return found
    missing = is_missing(user) or isinstance(user, str | bytes)
    came = "a missing value" if missing else f"of type {type(user).__name__}"
    raise InvalidData(f"{name}: an id is {came}, expected a str, int or bytes that is not empty")


def person_in(cell: object) -> str | None:
    """Return `person` of a table's cell; None if it is not an id. A boolean counts as 0 or 1."""
    if type(cell) is str and _PLAIN_ID.match(cell):
        return cell
    if type(cell) is int:
        return str(cell) if abs(cell) <= EXACT else _number_of_person(cell)
    try:
        text = _visible(_decoded(cell)) if isinstance(cell, str | bytes) else None
        if text is None:
            value = cell_value(cell)
            return value.isoformat() if isinstance(value, date | time) else _number_of_person(value)
        if text.isascii() and text[:1].isalpha() and text[0] not in "tTfFnNiI":
            return text  # neither a number nor a special word
        if text.casefold() in _NOBODY or not text:
            return None
        spelled = _NUMBER.fullmatch(text)
        if spelled or text.casefold() in ("true", "false"):
            found = _number_of_person(cell_value(text))
            return text if found is None and spelled and spelled["power"] else found
        value = cell_value(text)
        return value.isoformat() if isinstance(value, date | time) else text
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its value
        return None


def _number_of_person(value: object) -> str | None:
    """Return the text of a numeric id; None for a value that is not a number."""
    try:
        return repr(value) if isinstance(value, int | float) else None
    except ValueError:  # Python refuses to print an integer of thousands of digits
        return None


def _decoded(cell: str | bytes) -> str:
    return bytes(cell).decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else str.__str__(cell)


def _visible(text: str) -> str:
    """Return a text in form NFKC, without invisible characters and without blanks around it."""
    if text.isalnum() and text.isascii():
        return text
    if len(text) > _LONGEST_ID:
        return ""
    if not text.isprintable() or not text.isascii():
        text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
        text = "".join(mark for mark in text if unicodedata.category(mark) not in ("Cc", "Cf"))
        text = unicodedata.normalize("NFKC", text)
    return text.strip()


def people(users: object, *, count: int, what: str) -> list[Any]:
    """Return `users` as a list of `count` ids; errors say that each `what` needs one. Ids are not checked.

    Raises:
        InvalidData: `users` is one id or a set, is not iterable, or has another length than `count`.
    """
    if not isinstance(users, Iterable) or isinstance(users, (str, bytes, set, frozenset)):
        raise InvalidData(f"users is {kind_of(users)}, expected a list of ids, one for each {what}")
    listed = list(users.to_pylist()) if hasattr(users, "to_pylist") else list(users)
    if len(listed) != count:
        raise InvalidData(f"users has {len(listed)} ids, expected {count}: one for each {what}")
    return listed


def _is_ready(values: object) -> TypeGuard[FloatArray]:
    return type(values) is np.ndarray and values.dtype == np.float64 and values.flags.c_contiguous


def _refuse_tables(values: object, *, name: str) -> None:
    if hasattr(type(values), "columns") or hasattr(type(values), "column_names"):
        raise InvalidData(
            f"{name} is a data frame: pass schema.encode(frame), which scales it by public bounds"
        )
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidData(f"{name} is a masked array: fill or drop the masked entries first")


def _array_of(values: ArrayLike, *, name: str) -> NDArray[np.generic]:
    if type(values) is np.ndarray:
        return values
    _refuse_tables(values, name=name)
    try:
        return np.asarray(values)
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its values
        raise InvalidData(f"{name} ({type(values).__name__}) is ragged or not numeric") from None


def require_finite(array: FloatArray, *, name: str) -> None:
    """Raise InvalidData if an entry is NaN or infinite."""
    if not np.isfinite(array).all():
        raise InvalidData(
            f"{name} contains NaN or infinite entries (missing values and text are read as these), or has no "
            "rows: drop or repair them first"
        )


def public_array(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """Return a read-only copy of a public array with `ndim` axes; raise InvalidParameter if it is invalid."""
    try:
        array = np.array(as_numbers(values, name=name), dtype=np.float64, order="C")
    except InvalidData as error:
        raise InvalidParameter(str(error)) from None
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise InvalidParameter(
            f"{name} has shape {array.shape}, expected a non-empty array of finite numbers with {ndim} axes"
        )
    if np.abs(array).max() > LARGEST:
        raise InvalidParameter(f"{name} has a number beyond {LARGEST:g} in size: choose larger units")
    array += 0.0  # turns -0.0 into 0.0, so that equal domains have equal bytes
    array.flags.writeable = False
    return array

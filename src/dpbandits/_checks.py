"""Checks of what a caller passed: whatever does not fit is refused by its name, type and shape.

Public numbers raise `InvalidParameter`; arrays of points and rewards, which may be private, raise
`InvalidData`, and no message shows a value of theirs.
"""

import math
import numbers
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import date, time
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits._cells import EXACT, MISSING, cell_value, is_missing, numbers_of
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = [
    "LARGEST",
    "TUNABLE",
    "an",
    "as_numbers",
    "as_points",
    "assign",
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
"""Public parameters and bounds stay below this, and scales above its inverse: squares and ratios of
them, and squares of those, are floats."""

TUNABLE = 1e6
"""Parameters without a unit stay below this, and above its inverse: a precision of 1e-6 beside the Gram
matrix of four million rounds is well above what float64 rounds there, so that no factorisation fails."""

_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Marks and fillers that are not displayed and are not of Unicode's category Cf."""

_LONGEST_ID = 4096
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(?P<power>[eE][+-]?[0-9]+)?|0x[0-9a-fA-F]+")
"""Ids that are compared as numbers, since a reader of files turns a whole column of them into numbers."""
_NOBODY = MISSING | {"inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"}

T = TypeVar("T")


def an(value: T, kind: type[Any], *, name: str, pass_: str, optional: bool = False) -> T:
    """`value`, which must be of this kind: a class, or a protocol that can be checked at runtime.

    Args:
        value: what came.
        kind: what is expected; the class itself instead of one of its objects is refused.
        name: the argument's.
        pass_: what to write instead, "privacy=JointDP(epsilon=1, delta=1e-6)".
        optional: let None through.

    Raises:
        InvalidParameter: of another kind. The message names its type and never its value.

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
    """Return the kind of a value for messages: its type's name with the article.

    Example:
        >>> kind_of(3)
        'an int'
    """
    return _a(type(value))


def _a(kind: type[Any]) -> str:
    """A kind's name with its article."""
    return f"{'an' if kind.__name__[0].lower() in 'aeio' else 'a'} {kind.__name__}"


def scale(value: object, *, name: str, largest: float = LARGEST) -> float:
    """`value` as a positive float that can be squared and divided by: within [1 / `largest`, `largest`].

    For lengthscales, variances, ridges, caps and whatever else is multiplied or divided by; with
    `largest=TUNABLE` for what has no unit and enters a factorisation.
    """
    return number(value, name=name, minimum=1.0 / largest, exclusive=False, maximum=largest)


def number(
    value: object, *, name: str, minimum: float = 0.0, exclusive: bool = True, maximum: float = math.inf
) -> float:
    """`value` as a finite float above `minimum` (or at it, when not `exclusive`), at most `maximum`."""
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
    """`value` as a float in [0, 1)."""
    result = number(value, name=name, exclusive=False)
    if result >= 1.0:
        raise InvalidParameter(f"{name} is {result:g}, expected a probability in [0, 1)")
    return result


def integer(value: object, *, name: str, minimum: int = 1) -> int:
    """`value` as an int that is at least `minimum`: whatever Python can count with, no boolean or float."""
    kind = None if isinstance(value, (bool, np.bool_)) else getattr(type(value), "__index__", None)
    try:
        result = None if kind is None else operator.index(value)  # type: ignore[arg-type]
    except TypeError:  # such as an array of several numbers
        result = None
    if result is None:
        raise InvalidParameter(f"{name} is {kind_of(value)}, expected an integer of at least {minimum}")
    if result < minimum:
        raise InvalidParameter(f"{name} is {result}, expected an integer of at least {minimum}")
    return result


def assign(thing: object, **values: object) -> None:
    """Set attributes of a frozen object, as its constructor may."""
    for name, value in values.items():
        object.__setattr__(thing, name, value)


def settle(thing: object, **checks: Callable[..., object]) -> None:
    """Put each attribute of a frozen object through a check: `settle(self, epsilon=number)`.

    A check takes the value and, as `name=`, the attribute's name for its error.
    """
    assign(thing, **{name: check(getattr(thing, name), name=name) for name, check in checks.items()})


def one_of(value: object, choices: tuple[str, ...], *, name: str) -> str:
    """`value`, which must be one of these texts."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidParameter(f"{name}: expected one of {', '.join(map(repr, choices))}")
    return value


def as_points(points: ArrayLike, dim: int, *, name: str) -> FloatArray:
    """`points` as C-contiguous float64 of shape (..., dim), not yet checked for NaN or range.

    Raises:
        InvalidData: not numeric, ragged, masked, a data frame, or the last axis is not `dim`.
    """
    array = points if _is_ready(points) else as_numbers(points, name=name)
    if array.ndim == 0 or array.shape[-1] != dim:
        hint = f"; reshape it to ({array.shape[0]}, 1)" if dim == 1 and array.ndim == 1 else ""
        raise InvalidData(
            f"{name} has shape {array.shape}, expected (..., {dim}): one column per dimension{hint}"
        )
    return array


def type_name(dtype: np.dtype[Any]) -> str:
    """Return the name of an array's type for messages; a text type is named without its length.

    Example:
        >>> type_name(np.array([0.5]).dtype), type_name(np.array(["5000"]).dtype)
        ('float64', 'str_')
    """
    return dtype.type.__name__ if dtype.kind in "SUV" else dtype.name


def as_marks(values: object, shape: tuple[int, ...], *, name: str) -> BoolArray:
    """Booleans of this shape; InvalidData for anything else."""
    try:
        array = np.asarray(values)
    except Exception:  # noqa: BLE001 - what a caller's object raises tells of what it holds
        array = np.zeros(())
    if array.dtype != np.bool_ or array.shape != shape:
        raise InvalidData(f"{name}: expected booleans of shape {shape}, got {array.shape}")
    return array


def as_numbers(values: ArrayLike, *, name: str) -> FloatArray:
    """`values` as C-contiguous float64 of any shape; integers and floats only."""
    if _is_ready(values):
        return values
    raw = _array_of(values, name=name)
    if raw.dtype.kind not in "iuf":
        raise InvalidData(f"{name} has dtype {type_name(raw.dtype)}, expected integers or floats")
    # Not np.ascontiguousarray: it would turn a scalar into shape (1,).
    with np.errstate(over="ignore"):  # a long double may become infinite, which is refused later
        return np.asarray(raw, dtype=np.float64, order="C")


def contents(values: ArrayLike, *, name: str, width: int | None = None) -> FloatArray:
    """Return contexts as C-contiguous float64: NaN for a missing cell, infinity for one that is no number.

    Every cell is read by itself (`dpbandits._cells`): a text that spells a number is that number, whatever
    the type of the array. Use it for values that take their own slot and are judged there: infinity lies in
    no domain and in no reward range.

    Args:
        values: the cells.
        name: of the argument, for messages.
        width: number of cells of a row, where values are rows: an entry of a list that is no row of so many
            cells is then a row of infinity, and changes no other.

    Raises:
        InvalidData: a data frame or a masked array.

    Example:
        >>> contents([0.5, None, "x", "0.25"], name="rewards")
        array([0.5 ,  nan,  inf, 0.25])
    """
    if _is_ready(values):
        return values
    _refuse_tables(values, name=name)
    try:
        return numbers_of(values, width=width)
    except Exception:  # noqa: BLE001 - what a caller's object raises may tell of what it holds
        raise InvalidData(f"{name} ({type(values).__name__}) cannot be read as an array") from None


_PLAIN_ID = re.compile(r"(?:[A-EGHJ-MO-SU-Za-eghj-mo-su-z][0-9A-Za-z]*|[1-9][0-9]{0,14})\Z")
"""Ids that are their own text: no blanks, no other spelling of a number, no word that readers know."""


def person(user: object, *, name: str = "user") -> str:
    """One text for all spellings of an id that readers of files turn into one another.

    51624, 51624.0, "51624", "051624", "5.1624e4" and b"51624" are one id. A text with an exponent that spells
    a number beyond 2^53 stays a text. A float beyond 2^53 names nobody: several ids round to it. Blanks
    around a text, invisible characters (zero-width spaces, byte order marks, NUL) and compatibility forms
    (full-width digits, ligatures) do not count: Unicode's form NFKC is taken. Upper and lower case differ,
    except in "true" and "false", which are 1 and 0. Words that spell a missing value, such as "NA" and
    "none", name nobody, and neither does a text of more than 4,096 characters.

    Raises:
        InvalidData: the id is missing (None, NaN, NaT, pandas.NA, an empty text), a boolean, or no text,
            number or bytes.

    Example:
        >>> person(" 007"), person(7.0), person("Ann\u200b") == person("Ann"), person("ann") == person("Ann")
        ('7', '7', True, False)
    """
    if not isinstance(user, bool | np.bool_):
        found = person_in(user)
        if found is not None:
            return found
    missing = is_missing(user) or isinstance(user, str | bytes)
    came = "a missing value" if missing else f"of type {type(user).__name__}"
    raise InvalidData(f"{name}: an id is {came}, expected a str, int or bytes that is not empty")


def person_in(cell: object) -> str | None:
    """`person` of a cell of a table, None if it names nobody; a boolean is the number that readers write."""
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
            return text  # neither a number nor a word that readers know
        if text.casefold() in _NOBODY or not text:
            return None
        spelled = _NUMBER.fullmatch(text)
        if spelled or text.casefold() in ("true", "false"):
            found = _number_of_person(cell_value(text))
            return text if found is None and spelled and spelled["power"] else found
        value = cell_value(text)
        return value.isoformat() if isinstance(value, date | time) else text
    except Exception:  # noqa: BLE001 - what an object raises may tell of what it holds
        return None


def _number_of_person(value: object) -> str | None:
    """The text of a numeric id, None for no number; a float beyond 2^53 may be several ids."""
    try:
        return repr(value) if isinstance(value, int | float) else None
    except ValueError:  # an integer of thousands of digits, which Python does not spell out
        return None


def _decoded(cell: str | bytes) -> str:
    return bytes(cell).decode("utf-8", "surrogateescape") if isinstance(cell, bytes) else str.__str__(cell)


def _visible(text: str) -> str:
    """A text in form NFKC, without characters that cannot be seen and without blanks around it.

    A text of more than `_LONGEST_ID` characters is no id: composing them takes the square of their number.
    """
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
    """`users` as a list of `count` ids, one for each `what`, not yet looked at.

    Raises:
        InvalidData: one id for several, nothing to go through in order, or another number of them.
    """
    if not isinstance(users, Iterable) or isinstance(users, (str, bytes, set, frozenset)):
        raise InvalidData(f"users is {kind_of(users)}, expected a list of ids, one for each {what}")
    listed = list(users.to_pylist()) if hasattr(users, "to_pylist") else list(users)
    if len(listed) != count:
        raise InvalidData(f"{len(listed)} users: expected {count}, one for each {what}")
    return listed


def _is_ready(values: object) -> TypeGuard[FloatArray]:
    """Return whether these are C-contiguous float64 already: the common case, with nothing to ask."""
    return type(values) is np.ndarray and values.dtype == np.float64 and values.flags.c_contiguous


def _refuse_tables(values: object, *, name: str) -> None:
    if hasattr(type(values), "columns") or hasattr(type(values), "column_names"):
        raise InvalidData(
            f"{name} is a data frame: pass schema.encode(frame), so that public bounds scale it"
        )
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidData(f"{name} is a masked array: fill or drop the masked entries first")


def _array_of(values: ArrayLike, *, name: str) -> NDArray[np.generic]:
    if type(values) is np.ndarray:
        return values
    _refuse_tables(values, name=name)
    try:
        return np.asarray(values)
    except Exception:  # noqa: BLE001 - what a caller's object raises may tell of what it holds
        raise InvalidData(f"{name} ({type(values).__name__}) is ragged or not numeric") from None


def require_finite(array: FloatArray, *, name: str) -> None:
    """Raise InvalidData where an entry is NaN or infinite."""
    if not np.isfinite(array).all():
        raise InvalidData(
            f"{name} contains NaN or infinite entries, as missing values and text are read, or has no rows: "
            "drop or repair them first"
        )


def public_array(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """A read-only copy of a public constructor argument; InvalidParameter where it does not fit."""
    try:
        array = np.array(as_numbers(values, name=name), dtype=np.float64, order="C")
    except InvalidData as error:
        raise InvalidParameter(str(error)) from None
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise InvalidParameter(
            f"{name} has shape {array.shape}, expected a non-empty array of finite numbers with {ndim} axes"
        )
    if np.abs(array).max() > LARGEST:
        raise InvalidParameter(f"{name} holds a number beyond {LARGEST:g} in size: choose smaller units")
    array += 0.0  # -0.0 becomes 0.0, so that equal domains have equal bytes
    array.flags.writeable = False
    return array

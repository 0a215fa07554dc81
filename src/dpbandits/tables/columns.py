"""`Range`, `Ordered` and `Categories`: public declarations of one column of a table.

`Column` is their base class. Dates and times are in `dpbandits.tables.dates`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dpbandits._calls import worded
from dpbandits._cells import (
    UNREADABLE,
    array_of,
    cell_value,
    code_of,
    codes_by_value,
    codes_of,
    number_of,
    numbers_of,
)
from dpbandits._checks import LARGEST, assign, integer, number
from dpbandits._config import Configured, Registry
from dpbandits._numpy import is_numpy, np
from dpbandits._reading import reading
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables.coded import Coded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbandits._typing import FloatArray, IntArray
    from dpbandits.domains.arms import Arms

__all__ = [
    "COLUMNS",
    "Categories",
    "Column",
    "Fate",
    "Ordered",
    "Range",
    "fates_of",
    "finite_in",
    "missing_values",
]

Category = str | int | bool


class Fate(IntEnum):
    """Result of reading a cell, such as read, missing or outside.

    `dpbandits.tables.checking` counts the results.
    """

    READ = 0
    MISSING = 1
    UNREADABLE = 2
    OUTSIDE = 3


class Column(Configured, ABC):
    """Public description of one column of a table.

    Every cell is read by itself (`dpbandits._cells`). Its meaning depends neither on the data type of the
    column nor on other cells, unless a reader of files has rounded it.

    Attributes:
        width: Number of coordinates of an encoded cell.
        missing: Value that replaces a missing cell; None if a missing cell is refused.
    """

    width: ClassVar[int] = 1
    missing: Any

    @property
    @abstractmethod
    def kind(self) -> type:
        """Type of the column's cells in a file."""

    @property
    @abstractmethod
    def expected(self) -> str:
        """Noun phrase for valid cells, used in error messages."""

    @property
    def clips(self) -> bool:
        """True if a declared value replaces a value outside the declared ones.

        For a range, this is the nearer bound.
        """
        return bool(getattr(self, "clip", False))

    @property
    def words(self) -> frozenset[str]:
        """Texts that are values of this column, although they mean a missing cell in other columns."""
        return frozenset()

    def clipping(self) -> Self:
        """Return the column with `clip=True`, or unchanged if it has no such option."""
        return replace(self, clip=True) if hasattr(self, "clip") else self  # type: ignore[type-var]

    @abstractmethod
    def _read(self, values: Any) -> tuple[FloatArray, IntArray]:
        """Return encoded cells, (n,) or (n, width), with NaN for an unusable cell.

        Also return each cell's `Fate` (n,).
        """

    @abstractmethod
    def _point(self, cell: object) -> tuple[float, ...]:
        """Return one encoded cell, for `point`."""

    def point(self, cell: object) -> tuple[float, ...]:
        """Return one cell as `points` encodes it, without NumPy: `width` numbers. No cell raises an error."""
        return self._point(cell)

    def points(self, values: NDArray[Any] | Coded) -> FloatArray:
        """Return encoded cells, (n,) or (n, width), with NaN for an unusable cell.

        No cell raises an error.
        """
        if isinstance(values, Coded):
            return np.asarray(values.spread(self.points(values.values)))
        return self._read(values)[0]

    def fates(self, values: Any) -> IntArray:
        """Return the `Fate` of each cell, shape (n,). No cell raises an error."""
        return self._read(values)[1]

    def encode(self, values: NDArray[Any] | Coded, *, name: str) -> FloatArray:
        """Return encoded cells, (n,) or (n, width). All of them must be usable.

        Args:
            values: Cells (n,).
            name: Name of the column, for errors.

        Raises:
            InvalidData: A cell cannot be used. The message names the column and never a value.
        """
        if isinstance(values, Coded):
            return np.asarray(values.spread(self.encode(values.values, name=name)))
        points, fates = self._read(values)
        if (fates == Fate.MISSING).any() and self.missing is None:
            raise missing_values(name)
        if (fates == Fate.UNREADABLE).any():
            raise InvalidData(f"column {name!r} has cells that are not {self.expected}")
        if np.isnan(points).any():
            raise InvalidData(f"column {name!r} has values outside {self._bounds}")
        return points

    @property
    def _bounds(self) -> str:
        """Return the end of an error message about values outside: the declared values, and advice."""
        declared = replace(self, missing=None)  # type: ignore[type-var]
        return f"{declared!r}: declare clip=True, or a wider range that you know without the data"

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, without optional arguments that are None."""
        config = super().to_config()
        optional = ("missing", "unknown", "steps")
        return {name: value for name, value in config.items() if name not in optional or value is not None}


COLUMNS: Registry[Column] = Registry(
    "a column", elsewhere=dict.fromkeys(("DateRange", "Cycle"), "dpbandits.tables.dates")
)


@worded
@COLUMNS.add("Range")
@dataclass(frozen=True)
class Range(Column):
    """A number between public bounds, which scale it to [0, 1].

    Args:
        low: Public lower bound, in the column's unit.
        high: Public upper bound, above `low`, in the column's unit.
        clip: Replace a value outside by the nearer bound. By default it is refused.
        missing: Public number in the range that replaces a missing cell. By default such a cell is refused.
        steps: Number of equally spaced values, both bounds included, among which an action is chosen
            (`Actions`). Only for columns of actions.

    Raises:
        InvalidParameter: The bounds are not two finite numbers with low < high, `missing` lies outside, or
            there are fewer than two steps.
    """

    kind, expected = float, "finite numbers"

    low: float
    high: float
    clip: bool = field(default=False, kw_only=True)
    missing: float | None = field(default=None, kw_only=True)
    steps: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.steps is not None:
            assign(self, steps=integer(self.steps, name="steps", minimum=2))
        for name in ("low", "high"):
            assign(self, **{name: _bound(getattr(self, name), name) + 0.0})  # turns -0.0 into 0.0
        if not self.high - self.low >= 1.0 / LARGEST:
            raise InvalidParameter(f"low must be below high, by {1.0 / LARGEST:g} or more")
        if not isinstance(self.clip, bool) and not is_numpy(self.clip, "bool_"):
            raise InvalidParameter(f"clip is a {type(self.clip).__name__}, expected True or False")
        assign(self, clip=bool(self.clip))
        if self.missing is not None:
            filled = _bound(self.missing, "missing")
            if not self.low <= filled <= self.high:
                raise InvalidParameter(f"missing: expected a number in Range({self.low:g}, {self.high:g})")
            assign(self, missing=filled)

    @property
    def span(self) -> float:
        """high - low, in the column's unit."""
        return self.high - self.low

    def __repr__(self) -> str:
        steps = "" if self.steps is None else f", steps={self.steps}"
        return f"Range(low={self.low}, high={self.high}, clip={self.clip}, missing={self.missing}{steps})"

    @property
    def _bounds(self) -> str:
        return (
            f"Range({self.low:g}, {self.high:g}): declare Range(..., clip=True), or a wider range that you "
            "know without the data"
        )

    def _read(self, values: Any) -> tuple[FloatArray, IntArray]:
        numbers, found = fates_of(values, self.missing)
        with np.errstate(invalid="ignore"):
            outside = (numbers < self.low) | (numbers > self.high)
        found[outside] = Fate.OUTSIDE
        shares = (np.clip(numbers, self.low, self.high) - self.low) / (self.high - self.low)
        return (shares if self.clip else np.where(outside, np.nan, shares)), found

    def _point(self, cell: object) -> tuple[float, ...]:
        given = finite_in(cell, self.missing)
        if self.clip:
            given = min(max(given, self.low), self.high)  # NaN for NaN
        return ((given - self.low) / (self.high - self.low) if self.low <= given <= self.high else math.nan,)


@worded
@COLUMNS.add("Ordered")
@dataclass(frozen=True)
class Ordered(Column):
    """One of a few increasing numbers, among which an action is chosen (`Actions`).

    Args:
        values: Two or more finite numbers in increasing order.

    Raises:
        InvalidParameter: `values` are no such numbers.

    Example:
        >>> Ordered([5, 10, 20]).encode(np.array([20, 5]), name="discount").tolist()
        [1.0, 0.0]
    """

    kind, expected = float, "finite numbers"
    values: tuple[float, ...]
    missing: None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        with reading("a list of numbers"):
            listed = [_plain(one) for one in self.values]
        numbers = [_bound(one, "values") for one in listed]
        if len(numbers) < 2 or not all(low < high for low, high in pairwise(numbers)):
            raise InvalidParameter("Ordered needs two or more numbers in increasing order")
        assign(self, values=tuple(listed))

    @property
    def _bounds(self) -> str:
        return f"the {len(self.values)} declared numbers"

    def _read(self, values: Any) -> tuple[FloatArray, IntArray]:
        numbers, found = fates_of(values, None)
        places = np.searchsorted(self.values, np.nan_to_num(numbers)).clip(0, len(self.values) - 1)
        known = np.asarray(self.values, dtype=np.float64)[places] == numbers
        found[(found == Fate.READ) & ~known] = Fate.OUTSIDE
        return np.where(known, places / (len(self.values) - 1), np.nan), found

    def _point(self, cell: object) -> tuple[float, ...]:
        given = finite_in(cell, None)
        places = [place for place, value in enumerate(self.values) if float(value) == given]
        return (places[0] / (len(self.values) - 1) if places else math.nan,)


@worded
@COLUMNS.add("Categories")
@dataclass(frozen=True, init=False, repr=False)
class Categories(Column):
    """One of a public list of values, encoded as its place in the list.

    Cells are compared by value, whatever their type: 1, 1.0, True, "1", "01" and "true" are one value. If a
    category is named "none" or "NA", missing cells have that category, unless `missing` names another one.

    Args:
        values: Distinct categories in the order of their codes: all strings, all integers, or all booleans.
        missing: Category of a missing cell. By default a missing cell is refused.
        unknown: Category of a cell whose value is not listed. By default such a cell is refused.

    Raises:
        InvalidParameter: The list is empty or mixed, or two categories have the same value. `missing` or
            `unknown` is not listed. Two categories are spelled like a missing value, or one is ("NA",
            "null", but not "none") while `missing` names another.

    Example:
        >>> region = Categories(["north", "south", "other"], unknown="other")
        >>> region.encode(np.array(["south", "mars"]), name="region").tolist()
        [1.0, 2.0]
    """

    expected = "single values"

    values: tuple[Category, ...]
    missing: Category | None = None
    unknown: Category | None = None

    def __init__(
        self, values: Iterable[Category], *, missing: Category | None = None, unknown: Category | None = None
    ) -> None:
        if isinstance(values, str):
            raise InvalidParameter("Categories got one string, expected a list of categories")
        with reading("a list of categories"):
            listed = tuple(map(_plain, values))
        kinds = {type(value) for value in listed}
        if len(kinds) != 1 or not kinds <= {str, int, bool}:
            raise InvalidParameter(
                "Categories needs a non-empty list of values that are "
                "all strings, all integers or all booleans"
            )
        for name, given in {"missing": missing, "unknown": unknown}.items():
            if given is not None and (type(given) is not type(listed[0]) or given not in listed):
                raise InvalidParameter(
                    f"{name} is none of the {len(listed)} categories: list it among the values too"
                )
        assign(self, values=listed, missing=missing, unknown=unknown)
        self._places  # noqa: B018 - raises for two categories with the same value

    @cached_property
    def _places(self) -> dict[Any, int]:
        """Index into `_meanings` by a cell's value. Missing and unreadable cells follow the categories."""
        try:
            places = codes_by_value(self.values)
        except ValueError:
            raise InvalidParameter(
                "two categories have the same value (as 1, '1' and '01') or are both spelled like a missing "
                "value, or one is a number beyond 2^53, which readers of files may round. List each value "
                "once, and no number beyond 2^53"
            ) from None
        if self.missing is not None and None in places:
            category = self.values[places.pop(None)]
            if category != self.missing and cell_value(category) is None:
                raise InvalidParameter(
                    "missing: another category is spelled like a missing value, so missing cells already "
                    "have it: rename that category, or leave missing= out"
                )
        return {None: len(self.values), UNREADABLE: len(self.values) + 1, **places}

    @cached_property
    def _exact(self) -> dict[Any, int]:
        """Code of each category, for cells of the categories' own type, which are found without parsing."""
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _meanings(self) -> tuple[list[int], list[Fate]]:
        """Codes and `Fate`s of K + 3 kinds of cells; the code is -1 for a cell that `encode` refuses.

        The kinds are the K categories, a missing, an unreadable and an unlisted cell.
        """
        others = [-1 if one is None else self._exact[one] for one in (self.missing, self.unknown)]
        # `unknown` replaces an unreadable cell too, which then counts as outside.
        unreadable = Fate.UNREADABLE if self.unknown is None else Fate.OUTSIDE
        codes = [*range(len(self.values)), others[0], others[1], others[1]]
        return codes, [*([Fate.READ] * len(self.values)), Fate.MISSING, unreadable, Fate.OUTSIDE]

    @property
    def kind(self) -> type:
        """Type of the column's cells in a file: str, int or bool."""
        return type(self.values[0])

    @property
    def words(self) -> frozenset[str]:
        """Categories that are texts. The text "none" means a missing cell unless it is a category."""
        return frozenset(value for value in self.values if isinstance(value, str))

    @property
    def arms(self) -> Arms:
        """Domain of the codes, each labelled by its category."""
        from dpbandits.domains.arms import Arms

        return Arms([str(value) for value in self.values])

    def codes(self, values: NDArray[Any] | Coded) -> IntArray:
        """Return the codes of cells, shape (n,), with -1 for a cell that `encode` would refuse."""
        if isinstance(values, Coded):
            return np.asarray(values.spread(self.codes(values.values)))
        return np.array(self._meanings[0])[self._found(values)]

    def _found(self, values: Any) -> IntArray:
        return codes_of(values, self._places, default=len(self.values) + 2)

    @property
    def clips(self) -> bool:
        """True if a value that is not listed gets the category `unknown`."""
        return self.unknown is not None

    @property
    def _bounds(self) -> str:
        return (
            f"the {len(self.values)} declared categories: map them to a declared one, Categories(..., "
            "unknown='other'), or drop these rows"
        )

    def _read(self, values: Any) -> tuple[FloatArray, IntArray]:
        found = self._found(values)
        codes, fates = map(np.array, self._meanings)
        return np.where(codes < 0, np.nan, codes)[found], fates[found]

    def _point(self, cell: object) -> tuple[float, ...]:
        place = self._exact.get(cell) if type(cell) is self.kind else None
        if place is None:
            place = code_of(cell, self._places, default=len(self.values) + 2)
        code = self._meanings[0][place]
        return (math.nan if code < 0 else float(code),)

    def __repr__(self) -> str:
        options = {"missing": self.missing, "unknown": self.unknown}
        given = "".join(f", {name}={value!r}" for name, value in options.items() if value is not None)
        return f"Categories({list(self.values)}{given})"


def fates_of(values: Any, missing: float | None) -> tuple[FloatArray, IntArray]:
    """Return `finite_in` for each of n cells (n,), and each cell's `Fate` (n,)."""
    numbers = numbers_of(array_of(values, flat=True))
    infinite, absent = np.isinf(numbers), np.isnan(numbers)
    found = np.where(infinite, Fate.UNREADABLE, np.where(absent, Fate.MISSING, Fate.READ))
    numbers = np.where(infinite, np.nan, numbers)
    return (numbers if missing is None else np.where(absent, missing, numbers)), found


def finite_in(cell: object, missing: float | None) -> float:
    """Return a cell as a finite number: `missing` for a missing cell, and NaN for any other cell."""
    if type(cell) in (float, int) and -LARGEST <= cell <= LARGEST:  # type: ignore[operator]
        return float(cell)  # type: ignore[arg-type]
    found = number_of(cell)
    if math.isfinite(found):
        return found
    return missing if missing is not None and math.isnan(found) else math.nan


def _bound(given: Any, name: str) -> float:
    return number(given, name=name, minimum=-LARGEST, exclusive=False, maximum=LARGEST)


def _plain(value: Any) -> Any:
    """Return a number or text of NumPy as Python's own."""
    return value.item() if is_numpy(value, "generic") else value


def missing_values(name: str) -> InvalidData:
    """Return the error for a column with missing values."""
    return InvalidData(
        f"column {name!r} has missing values (empty, NA, NaN, NaT, None or null): replace them by a public "
        "constant, or declare one with missing=, as in Range(..., missing=40)"
    )

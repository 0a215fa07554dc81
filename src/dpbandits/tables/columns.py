"""`Range` and `Categories`: what a schema says in public about one column of a table.

Dates and times are in `dpbandits.tables.dates`; what all columns have in common is `Column`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits._calls import worded
from dpbandits._checks import LARGEST, as_numbers, assign, number, type_name
from dpbandits._config import Configured, Registry
from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains.arms import Arms
from dpbandits.domains.box import Box
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables.coded import Coded
from dpbandits.tables.missing import is_missing, missing_mask, missing_values

__all__ = ["COLUMNS", "Categories", "Column", "Fate", "Range", "numbers_of"]

ObjectArray = NDArray[np.object_]
Category = str | int | bool

_NUMBERS = (int, float, np.integer, np.floating)


class Fate(IntEnum):
    """What becomes of a cell; see `dpbandits.tables.checking`."""

    READ = 0
    MISSING = 1
    UNREADABLE = 2
    OUTSIDE = 3


class Column(Configured, ABC):
    """What a schema says in public about one column of a table.

    Attributes:
        width: coordinates of an encoded cell.
        missing: what stands where a value is missing; None where one is refused.
    """

    width: ClassVar[int] = 1
    missing: Any

    @property
    @abstractmethod
    def kind(self) -> type:
        """What its cells are in a file."""

    @property
    def clips(self) -> bool:
        """Whether what lies outside is moved to what is declared."""
        return False

    @property
    def words(self) -> frozenset[str]:
        """Texts that are values of it, whatever they mean elsewhere."""
        return frozenset()

    def clipping(self) -> Self:
        """The same column, moving what lies outside where it can."""
        return self

    @abstractmethod
    def encode(self, values: NDArray[Any] | Coded, *, name: str) -> FloatArray | IntArray:
        """(n,) cells -> (n,) or (n, width); InvalidData, which names the column only, for a bad one."""

    @abstractmethod
    def points(self, values: NDArray[Any] | Coded) -> FloatArray:
        """The same as float64, with NaN for every cell that `encode` refuses."""

    @abstractmethod
    def fates(self, values: NDArray[Any]) -> IntArray:
        """(n,) what becomes of each cell, as a `Fate`; no cell is refused."""

    def to_config(self) -> dict[str, Any]:
        """As `Configured` writes it, without `missing` where there is none."""
        config = super().to_config()
        return {name: value for name, value in config.items() if name != "missing" or value is not None}


COLUMNS: "Registry[Column]" = Registry(
    "a column", elsewhere=dict.fromkeys(("DateRange", "Cycle"), "dpbandits.tables.dates")
)


@worded
@COLUMNS.add("Range")
@dataclass(frozen=True)
class Range(Column):
    """A number between public bounds, scaled to [0, 1] by them.

    Args:
        low: public lower bound, in the column's unit.
        high: public upper bound, above `low`.
        clip: move values outside to the nearer bound; without it they are refused.
        missing: public number in the range that stands where a value is missing; without it one is refused.

    Raises:
        InvalidParameter: not two finite numbers with low < high, or `missing` outside them.
    """

    low: float
    high: float
    clip: bool = field(default=False, kw_only=True)
    missing: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        box = Box(low=[self.low], high=[self.high])  # checks the bounds
        assign(self, low=float(box.low[0]), high=float(box.high[0]), clip=bool(self.clip))
        if self.missing is not None:
            filled = number(self.missing, name="missing", minimum=-LARGEST, exclusive=False)
            if not self.low <= filled <= self.high:
                raise InvalidParameter(f"missing: expected a number in Range({self.low:g}, {self.high:g})")
            assign(self, missing=filled)

    @property
    def kind(self) -> type:
        """What its cells are in a file."""
        return float

    @property
    def span(self) -> float:
        """high - low, in the column's unit."""
        return self.high - self.low

    def clipping(self) -> Self:
        """The same range, moving values outside to the nearer bound."""
        return replace(self, clip=True)

    def points(self, values: NDArray[Any] | Coded) -> FloatArray:
        """(n,) in [0, 1], NaN for every cell that `encode` refuses."""
        if isinstance(values, Coded):
            return values.spread(self.points(values.values))
        numbers, found = numbers_of(values)
        if self.missing is not None:
            numbers = np.where(found == Fate.MISSING, self.missing, numbers)
        if self.clip:
            numbers = np.clip(numbers, self.low, self.high)
        with np.errstate(invalid="ignore"):
            inside = (numbers >= self.low) & (numbers <= self.high)
        shares = np.clip((numbers - self.low) / (self.high - self.low), 0.0, 1.0)
        return np.where(inside, shares, np.nan)

    def encode(self, values: NDArray[Any] | Coded, *, name: str) -> FloatArray:
        """(n,) numbers in the column's unit -> (n,) in [0, 1]. `name` is the column's, for errors."""
        if isinstance(values, Coded):
            return values.spread(self.encode(values.values, name=name))
        if values.dtype.kind == "O":
            values = _numbers_from_objects(values, name=name, missing=self.missing)
        if values.dtype.kind not in "iuf":
            kind = type_name(values.dtype)
            raise InvalidData(f"column {name!r} has type {kind}, expected numbers for a Range")
        numbers = as_numbers(values, name=f"column {name!r}")
        gone = np.isnan(numbers)
        if gone.any():
            if self.missing is None:
                raise missing_values(name)
            numbers = np.where(gone, self.missing, numbers)
        if not np.isfinite(numbers).all():
            raise InvalidData(f"column {name!r} has infinite values: drop or repair these rows first")
        if self.clip:
            numbers = np.clip(numbers, self.low, self.high)
        elif not ((numbers >= self.low) & (numbers <= self.high)).all():
            raise InvalidData(
                f"column {name!r} has values outside Range({self.low:g}, {self.high:g}): "
                "declare Range(..., clip=True), or a wider range that you know without the data"
            )
        return np.clip((numbers - self.low) / (self.high - self.low), 0.0, 1.0)

    @property
    def clips(self) -> bool:
        """Whether values outside are moved to the nearer bound."""
        return self.clip

    def fates(self, values: NDArray[Any]) -> IntArray:
        """(n,) what becomes of each cell, as a `Fate`; no cell is refused."""
        numbers, found = numbers_of(values)
        found[(found == Fate.READ) & ~((numbers >= self.low) & (numbers <= self.high))] = Fate.OUTSIDE
        return found


@worded
@COLUMNS.add("Categories")
@dataclass(frozen=True, init=False, repr=False)
class Categories(Column):
    """One of a public list of values, encoded as its place in the list.

    Cells are compared by Python's equality, so that an integer column that pandas stores as
    floats still matches: 3.0 is the category 3, and 1 is the category True.

    Args:
        values: distinct categories in the order of their codes: all strings, all integers, or
            all booleans.
        missing: which of them stands where a value is missing; without it one is refused.

    Raises:
        InvalidParameter: the list is empty, mixed, or names a category twice; or `missing` is none of it.
    """

    values: tuple[Category, ...]
    missing: Category | None = None

    def __init__(self, values: Iterable[Category], *, missing: Category | None = None) -> None:
        if isinstance(values, str):
            raise InvalidParameter("Categories got one string, expected a list of categories")
        with reading("a list of categories"):
            listed = tuple(value.item() if isinstance(value, np.generic) else value for value in values)
        kinds = {type(value) for value in listed}
        if len(kinds) != 1 or not kinds <= {str, int, bool}:
            raise InvalidParameter(
                "Categories needs a non-empty list of values that are "
                "all strings, all integers or all booleans"
            )
        if len(set(listed)) != len(listed):
            raise InvalidParameter("Categories lists the same value twice")
        if missing is not None and (type(missing) is not type(listed[0]) or missing not in listed):
            raise InvalidParameter(f"missing: expected one of the {len(listed)} categories, or None")
        assign(self, values=listed, missing=missing)

    @property
    def kind(self) -> type:
        """What its cells are in a file: str, int or bool."""
        return type(self.values[0])

    @property
    def words(self) -> frozenset[str]:
        """Categories that are texts: "none" is missing, but where it is one of them."""
        return frozenset(value for value in self.values if isinstance(value, str))

    @property
    def arms(self) -> Arms:
        """The codes as a domain, each named by its category."""
        return Arms([str(value) for value in self.values])

    def codes(self, values: NDArray[Any] | Coded) -> IntArray:
        """(n,) categories -> (n,) codes; -1 for everything that `encode` would refuse."""
        if isinstance(values, Coded):
            return values.spread(self.codes(values.values))
        codes = {value: code for code, value in enumerate(self.values)}
        gone = -1 if self.missing is None else codes[self.missing]

        def code(cell: object) -> int:
            try:
                return codes[cell] if cell in codes else gone if is_missing(cell) else -1
            except TypeError:  # a list or the like
                return -1

        return np.fromiter(map(code, values.tolist()), dtype=np.int64, count=values.size)

    def encode(self, values: NDArray[Any] | Coded, *, name: str) -> IntArray:
        """(n,) categories -> (n,) codes. `name` is the column's, for error messages."""
        if isinstance(values, Coded):
            return values.spread(self.encode(values.values, name=name))
        codes = {value: code for code, value in enumerate(self.values)}
        cells = values.tolist()
        try:
            encoded = np.fromiter((codes.get(cell, -1) for cell in cells), dtype=np.int64, count=len(cells))
        except TypeError:  # a list or the like in a cell
            raise InvalidData(f"column {name!r} has cells that are no single value") from None
        unknown = encoded < 0
        if unknown.any():
            gone = missing_mask(values) & unknown
            if gone.any() and self.missing is None:
                raise missing_values(name)
            encoded = np.where(gone, codes.get(self.missing, -1), encoded)  # type: ignore[arg-type]
        if (encoded < 0).any():
            raise InvalidData(
                f"column {name!r} has values outside the {len(self.values)} declared categories "
                f"(of type {type(self.values[0]).__name__}): "
                "map them to a declared one, such as 'other', or drop these rows"
            )
        return encoded

    def points(self, values: NDArray[Any] | Coded) -> FloatArray:
        """(n,) codes, NaN for every cell that `encode` refuses."""
        codes = self.codes(values)
        return np.where(codes < 0, np.nan, codes)

    def fates(self, values: NDArray[Any]) -> IntArray:
        """(n,) what becomes of each cell, as a `Fate`; no cell is refused."""
        known, kind = frozenset(self.values), type(self.values[0])

        def fate(cell: object) -> Fate:
            try:
                if cell in known:
                    return Fate.READ
            except TypeError:  # a list or the like
                return Fate.UNREADABLE
            if is_missing(cell):
                return Fate.MISSING
            return Fate.OUTSIDE if isinstance(cell, kind) else Fate.UNREADABLE

        return np.fromiter(map(fate, values.tolist()), dtype=np.int64, count=values.size)

    def __repr__(self) -> str:
        filled = "" if self.missing is None else f", missing={self.missing!r}"
        return f"Categories({list(self.values)}{filled})"


def numbers_of(values: NDArray[Any]) -> tuple[FloatArray, IntArray]:
    """Cells (n,) as finite numbers, NaN for what is none, and as a `Fate` each."""
    if values.dtype.kind not in "iufO":
        found = np.where(missing_mask(values), Fate.MISSING, Fate.UNREADABLE)
        return np.full(values.shape, np.nan), found
    if values.dtype.kind == "O":
        found = np.fromiter(map(_fate_of_number, values.tolist()), dtype=np.int64, count=values.size)
        numbers = np.where(found == Fate.READ, values, np.nan).astype(np.float64)
    else:
        numbers = values.astype(np.float64)
        found = np.where(np.isnan(numbers), Fate.MISSING, Fate.READ)
    infinite = np.isinf(numbers)
    if infinite.any():
        found[infinite] = Fate.UNREADABLE
        numbers = np.where(infinite, np.nan, numbers)
    return numbers, found


def _fate_of_number(cell: object) -> Fate:
    """Whether a cell is missing, a number that is a finite or infinite float, or neither."""
    if is_missing(cell):
        return Fate.MISSING
    if isinstance(cell, bool) or not isinstance(cell, _NUMBERS):
        return Fate.UNREADABLE
    try:
        float(cell)
    except OverflowError:
        return Fate.UNREADABLE
    return Fate.READ


def _numbers_from_objects(values: ObjectArray, *, name: str, missing: float | None) -> FloatArray:
    """A column of Python numbers, as lists with None and pandas object columns come."""
    gone = missing_mask(values)
    if gone.any():
        if missing is None:
            raise missing_values(name)
        values = np.where(gone, missing, values)
    if not all(isinstance(cell, _NUMBERS) and not isinstance(cell, bool) for cell in values):
        raise InvalidData(f"column {name!r} mixes types or holds text, expected numbers for a Range")
    try:
        return values.astype(np.float64)
    except OverflowError:
        raise InvalidData(f"column {name!r} has integers too large for float64") from None

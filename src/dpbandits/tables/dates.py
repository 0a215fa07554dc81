"""`DateRange` and `Cycle`: dates and times between public bounds, and periodic columns.

A cell is a `datetime.date`, a `datetime.datetime`, a date or time of NumPy, pandas, polars or Arrow, or a
text in ISO 8601. Examples are 2024-05-31 and 2024-05-31T17:30. A time with a zone is converted to UTC, as
readers of files do. If the local hour matters, remove the zone first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpbandits._cells import array_of, cell_value, is_missing, time_in
from dpbandits._checks import LARGEST, assign, number
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.tables.columns import COLUMNS, Column, Fate, fates_of

__all__ = ["Cycle", "DateRange"]

Moment = date | datetime | str
TimeArray = NDArray[np.datetime64]

_DAY = np.timedelta64(1, "D")
_FIRST, _LAST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31T23:59:59.999999", "us")
_PERIODS = {"day": 24.0, "week": 7.0, "year": 365.2425}
"""Named cycles and their lengths: a day in hours, a week and a year in days."""


@COLUMNS.add("DateRange")
@dataclass(frozen=True, repr=False)
class DateRange(Column):
    """A date or time between public bounds, which scale it to [0, 1].

    Args:
        first: Public first date or time.
        last: Public last date or time. A date without a time includes the whole day.
        clip: Replace a value outside by the nearer bound. By default it is refused.
        missing: Public date or time in the range that replaces a missing cell. By default such a cell is
            refused.

    Raises:
        InvalidParameter: The bounds are not two dates or times with first < last, or `missing` lies outside.

    Example:
        >>> since = DateRange("2024-01-01", "2024-01-10", missing="2024-01-06")
        >>> since.encode(np.array(["2024-01-02", "2024-01-10T12:00", ""]), name="since").tolist()
        [0.1, 0.95, 0.5]
    """

    kind, expected = datetime, "dates or times"

    first: Moment
    last: Moment
    clip: bool = field(default=False, kw_only=True)
    missing: Moment | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        assign(
            self, first=_moment(self.first, "first"), last=_moment(self.last, "last"), clip=bool(self.clip)
        )
        low, high = self.ends()
        if low >= high:
            raise InvalidParameter("DateRange: first must lie before last")
        if self.missing is not None:
            assign(self, missing=_moment(self.missing, "missing"))
            if not low <= np.datetime64(self.missing, "us") <= high:
                raise InvalidParameter(f"missing: expected a date or time in {replace(self, missing=None)!r}")

    @property
    def span(self) -> float:
        """Length of the range in days."""
        low, high = self.ends()
        return float((high - low) / _DAY)

    def ends(self) -> tuple[np.datetime64, np.datetime64]:
        """Return the first time, and the last time or the end of the last day, in microseconds."""
        low, high = np.datetime64(self.first, "us"), np.datetime64(self.last, "us")
        return low, high if isinstance(self.last, datetime) else high + _DAY

    def _read(self, values: Any) -> tuple[FloatArray, IntArray]:
        moments, found = _times(values)
        if self.missing is not None:
            moments = np.where(found == Fate.MISSING, np.datetime64(self.missing, "us"), moments)
        low, high = self.ends()
        shares = (moments - low) / (high - low)
        inside = (moments >= low) & (
            (moments < high) if high > np.datetime64(self.last, "us") else shares <= 1.0
        )
        found[(found == Fate.READ) & ~inside] = Fate.OUTSIDE
        return np.clip(shares, 0.0, 1.0) if self.clip else np.where(inside, shares, np.nan), found

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, with dates and times as text."""
        config = super().to_config()
        return {key: value.isoformat() if isinstance(value, date) else value for key, value in config.items()}

    def __repr__(self) -> str:
        more = {"clip": self.clip or None, "missing": self.missing and str(self.missing)}
        parts = [repr(str(self.first)), repr(str(self.last))]
        return f"DateRange({', '.join(parts + [f'{k}={v!r}' for k, v in more.items() if v is not None])})"


@COLUMNS.add("Cycle")
@dataclass(frozen=True)
class Cycle(Column):
    """Periodic column, encoded as a point on a circle: 23:00 lies close to 01:00.

    An encoded cell has two coordinates in [0, 1], (1 + cos a)/2 and (1 + sin a)/2, where a is 2 pi times the
    share of the period that has passed. A stationary kernel of these coordinates is periodic, so functions
    have no jump at midnight, on Monday or at New Year.

    Args:
        period: "day", "week" or "year" for dates and times; or the public period of a number, such as 24 for
            cells that are hours.
        missing: Public place in the period that replaces a missing cell: the hour of the day, days since
            Monday or since January 1st, or the number. By default a missing cell is refused.

    Raises:
        InvalidParameter: The period is another text or not above 0, or `missing` lies outside it.

    Example:
        >>> Cycle("day").encode(np.array(["2024-05-31T12:00"]), name="at").round(3).tolist()
        [[0.0, 0.5]]
        >>> Cycle(7, missing=0).encode(np.array([7.0, np.nan]), name="weekday").round(3).tolist()
        [[1.0, 0.5], [1.0, 0.5]]
    """

    width: ClassVar[int] = 2
    period: Literal["day", "week", "year"] | float
    missing: float | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.period, str):
            if self.period not in _PERIODS:
                raise InvalidParameter('period: expected "day", "week", "year" or a number above 0')
        else:
            assign(self, period=number(self.period, name="period"))
        if self.missing is not None:
            filled = number(self.missing, name="missing", minimum=-LARGEST, exclusive=False)
            if not 0.0 <= filled <= self.length:
                raise InvalidParameter(f"missing: expected a number from 0 to {self.length:g}")
            assign(self, missing=filled)

    @property
    def expected(self) -> str:
        """Noun phrase for valid cells, used in error messages."""
        return "dates or times" if isinstance(self.period, str) else "finite numbers"

    @property
    def kind(self) -> type:
        """Type of the column's cells in a file."""
        return datetime if isinstance(self.period, str) else float

    @property
    def length(self) -> float:
        """Length of the period in its unit: hours for a day, days for a week and a year."""
        return _PERIODS[self.period] if isinstance(self.period, str) else self.period

    def _read(self, values: Any) -> tuple[FloatArray, IntArray]:
        if isinstance(self.period, str):
            moments, found = _times(values)
            places = _PLACES[self.period](moments)
        else:
            places, found = fates_of(values)
        if self.missing is not None:
            places = np.where(found == Fate.MISSING, self.missing, places)
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a cell
            return self.circle(np.mod(places / self.length, 1.0)), found

    @staticmethod
    def circle(shares: FloatArray) -> FloatArray:
        """Return encoded cells (n, 2) from the shares (n,) of the period that have passed."""
        angles = 2.0 * math.pi * shares
        return np.column_stack([0.5 + 0.5 * np.cos(angles), 0.5 + 0.5 * np.sin(angles)])

    def shares(self, micros: IntArray) -> FloatArray:
        """Return the shares (n,) of a named period that have passed after whole microseconds (n,) of it."""
        days = micros.astype("timedelta64[us]") / _DAY
        return np.mod((24.0 * days if self.period == "day" else days) / self.length, 1.0)


def _times(values: Any) -> tuple[TimeArray, IntArray]:
    """Return cells as times in microseconds (n,), with NaT for a cell that is no time.

    Also return each cell's `Fate` (n,).
    """
    cells = array_of(values, flat=True)
    if cells.dtype.kind == "M":
        moments = cells.astype("datetime64[us]")
        inside = (moments >= _FIRST) & (moments <= _LAST)
        found = np.where(np.isnat(moments), Fate.MISSING, np.where(inside, Fate.READ, Fate.UNREADABLE))
        return np.where(inside, moments, np.datetime64("NaT")), found
    read = [_time_or_fate(cell) for cell in cells.astype(np.object_).tolist()]
    found = np.array([one if isinstance(one, Fate) else Fate.READ for one in read], dtype=np.int64)
    moments = np.array([None if isinstance(one, Fate) else one for one in read], dtype="datetime64[us]")
    return moments, found


def _time_or_fate(cell: object) -> datetime | Fate:
    value = None if is_missing(cell) else cell_value(cell)
    if isinstance(value, int) and 10**7 <= value < 10**8:  # 20240531, which readers turn into a number
        try:
            return datetime.fromisoformat(str(value))
        except ValueError:
            return Fate.UNREADABLE
    return value if isinstance(value, datetime) else Fate.MISSING if value is None else Fate.UNREADABLE


def _moment(given: Any, name: str) -> date:
    """Return a declared date or time as a date, or as a datetime if it has a time of day."""
    try:
        if isinstance(given, str) and len(given.strip()) == len("2024-05-31"):
            return date.fromisoformat(given.strip())
        if isinstance(given, date) and not isinstance(given, datetime):
            return given
        return time_in(given)
    except (ValueError, TypeError, OverflowError):
        raise InvalidParameter(
            f"{name}: expected a date or time, such as 2024-05-31 or 2024-05-31T17:30"
        ) from None


def _days_since(moments: TimeArray, start: TimeArray) -> FloatArray:
    return np.asarray((moments - start) / _DAY, dtype=np.float64)


_MONDAY = np.datetime64("1970-01-05", "us")

_PLACES: dict[str, Callable[[TimeArray], FloatArray]] = {
    "day": lambda moments: 24.0 * _days_since(moments, moments.astype("datetime64[D]")),
    "week": lambda moments: np.asarray((moments - _MONDAY) % (7 * _DAY) / _DAY, dtype=np.float64),
    "year": lambda moments: _days_since(moments, moments.astype("datetime64[Y]")),
}
"""Functions from times to places in a named period.

The places are hours since midnight, days since Monday or days since January 1st.
"""

"""`DateRange` and `Cycle`: dates and times between public bounds, and periodic columns.

A cell is a `datetime.date`, a `datetime.datetime`, a date or time of NumPy, pandas, polars or Arrow, or a
text in ISO 8601. Examples are 2024-05-31 and 2024-05-31T17:30. A time with a zone is converted to UTC, as
readers of files do. If the local hour matters, remove the zone first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dpbandits._cells import array_of, cell_value, is_missing, time_in
from dpbandits._checks import LARGEST, assign, number
from dpbandits._numpy import np
from dpbandits.errors import InvalidParameter
from dpbandits.tables.columns import COLUMNS, Column, Fate, fates_of, finite_in

if TYPE_CHECKING:
    from dpbandits._typing import FloatArray, IntArray

__all__ = ["Cycle", "DateRange"]

Moment = date | datetime | str

_DAY = 86_400_000_000
"""Microseconds of a day. Times are whole microseconds since 1970."""

_EPOCH, _MICROSECOND = datetime(1970, 1, 1), timedelta(microseconds=1)  # noqa: DTZ001 - times have no zone
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
            if not low <= _micros(self.missing) <= high:
                raise InvalidParameter(f"missing: expected a date or time in {replace(self, missing=None)!r}")

    @property
    def span(self) -> float:
        """Length of the range in days."""
        low, high = self.ends()
        return (high - low) / _DAY

    def ends(self) -> tuple[int, int]:
        """Return the first time, and the last time or the end of the last day, in microseconds since 1970."""
        return _micros(self.first), _micros(self.last) + (0 if isinstance(self.last, datetime) else _DAY)

    def _read(self, values: Any) -> tuple[FloatArray, IntArray]:
        times, found = _times(values)
        usable = found == Fate.READ
        if self.missing is not None:
            times = np.where(found == Fate.MISSING, _micros(self.missing), times)
            usable |= found == Fate.MISSING
        low, high = self.ends()
        shares = (times - low) / float(high - low)
        inside = (times >= low) & ((shares <= 1.0) if isinstance(self.last, datetime) else (times < high))
        found[(found == Fate.READ) & ~inside] = Fate.OUTSIDE
        return np.where(usable & (inside | self.clip), np.clip(shares, 0.0, 1.0), np.nan), found

    def _point(self, cell: object) -> tuple[float, ...]:
        moment, fate = _time(cell)
        given = self.missing if fate is Fate.MISSING else moment
        if given is None:
            return (math.nan,)
        time, (low, high) = _micros(given), self.ends()
        share = float(time - low) / float(high - low)
        inside = time >= low and (share <= 1.0 if isinstance(self.last, datetime) else time < high)
        return (min(max(share, 0.0), 1.0) if inside or self.clip else math.nan,)

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
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would reveal something about a cell
            if isinstance(self.period, str):
                times, found = _times(values)
                shares = self.shares(self._begun(times, _new_years(times) if self.period == "year" else 0))
                shares[found != Fate.READ] = np.nan
                if self.missing is not None:
                    shares[found == Fate.MISSING] = self.missing / self.length % 1.0
            else:
                places, found = fates_of(values, self.missing)
                shares = places / self.period % 1.0
            return self.circle(shares), found

    def _point(self, cell: object) -> tuple[float, ...]:
        share = math.nan
        if isinstance(self.period, str):
            moment, fate = _time(cell)
            if moment is not None:
                share = self.shares(self._begun(_micros(moment), _micros(date(moment.year, 1, 1))))
            elif fate is Fate.MISSING and self.missing is not None:
                share = self.missing / self.length % 1.0
        else:
            share = finite_in(cell, self.missing) / self.period % 1.0
        angle = 2.0 * math.pi * share
        return 0.5 + 0.5 * math.cos(angle), 0.5 + 0.5 * math.sin(angle)

    @staticmethod
    def circle(shares: FloatArray) -> FloatArray:
        """Return encoded cells (n, 2) from the shares (n,) of the period that have passed."""
        angles = 2.0 * math.pi * shares
        return np.column_stack([0.5 + 0.5 * np.cos(angles), 0.5 + 0.5 * np.sin(angles)])

    def shares(self, micros: Any) -> Any:
        """Return the share of a named period that has passed after whole microseconds of it.

        Both are numbers, or arrays (n,) of integers and of floats.
        """
        days = micros / _DAY
        return (24.0 * days if self.period == "day" else days) / self.length % 1.0

    def _begun(self, times: Any, years: Any) -> Any:
        """Return the microseconds from the beginning of the named period to each time.

        `years` are the beginnings of the years, used for "year" only. All are integers, or arrays (n,).
        """
        if self.period == "year":
            return times - years
        return times % _DAY if self.period == "day" else (times - _MONDAY) % (7 * _DAY)


def _times(values: Any) -> tuple[IntArray, IntArray]:
    """Return `_time` of each of n cells: microseconds since 1970 (n,), 0 without a time; and `Fate`s (n,)."""
    cells = array_of(values, flat=True)
    if cells.dtype.kind == "M":
        moments = cells.astype("datetime64[us]")
        times, absent = moments.astype(np.int64), np.isnat(moments)
        known = (times >= _FIRST) & (times <= _LAST) & ~absent
        found = np.where(absent, Fate.MISSING, np.where(known, Fate.READ, Fate.UNREADABLE))
        return np.where(known, times, 0), found
    read = [_time(cell) for cell in cells.astype(np.object_).tolist()]
    times = np.array([0 if moment is None else _micros(moment) for moment, _ in read], dtype=np.int64)
    return times, np.array([fate for _, fate in read], dtype=np.int64)


def _new_years(times: IntArray) -> IntArray:
    """Return the beginning of each time's year (n,), in microseconds since 1970."""
    years = times.astype("datetime64[us]").astype("datetime64[Y]")
    return years.astype("datetime64[us]").astype(np.int64)


def _time(cell: object) -> tuple[datetime | None, Fate]:
    """Return a cell as a time, None if it is none, and its `Fate`."""
    value = None if is_missing(cell) else cell_value(cell)
    if isinstance(value, int) and 10**7 <= value < 10**8:  # 20240531, which readers turn into a number
        try:
            value = datetime.fromisoformat(str(value))
        except ValueError:
            return None, Fate.UNREADABLE
    if isinstance(value, datetime):
        return value, Fate.READ
    return None, Fate.MISSING if value is None else Fate.UNREADABLE


def _micros(moment: Any) -> int:
    """Return the whole microseconds since 1970 of a date or time without a zone."""
    return (time_in(moment) - _EPOCH) // _MICROSECOND


_MONDAY = _micros(date(1970, 1, 5))
_FIRST, _LAST = _micros(date(1, 1, 1)), _micros(date(9999, 12, 31)) + _DAY - 1


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

"""Expressions of the dates and times in cells, as microseconds since 1970.

Integers compute all of it, because functions of dates fail on some cells, or differ between databases. Days
are counted in the proleptic Gregorian calendar, in cycles of 400 years that begin on March 1st.
"""

from functools import partial

from dpbandits._cells import ISO_TIME
from dpbandits.tables.sql.cells import Reading, SqlCell

__all__ = ["DAY", "PERIODS", "moment", "place", "place_reading", "time_reading"]

DAY = 86_400_000_000
"""Microseconds of a day."""

PERIODS = {"day": DAY, "week": 7 * DAY, "year": 366 * DAY}
"""Length of the named periods in microseconds; for a year, that of the longest one."""

_FIRST, _LAST = -719_162 * DAY, 2_932_897 * DAY - 1
"""First and last microsecond of the years 1 to 9999."""

_TO_1970, _TO_MONDAY = 719_468, 719_463
"""Days to January 1st of 1970 from March 1st of the year 0, and from a Monday before the year 1."""

_DIGITS = "0123456789"


def time_reading(cell: SqlCell, value: str) -> Reading:
    """Return the reading of a cell with a value that uses `moment(cell)`.

    Args:
        cell: Cell.
        value: Expression.
    """
    named = moment(cell)
    every = _named("all", cell)
    inside = {named: f"CASE WHEN {every} BETWEEN {_FIRST} AND {_LAST} THEN {every} END"}
    plain = cell.reading(value, text=True).layers
    if cell.kind == "time":
        declared, engine = (cell.declared or "").lower(), cell.engine
        zoned = (
            "with time zone" in declared or declared.endswith("tz") or "'" in declared
        )  # "timestamp('UTC')"
        zoned |= engine.dialect == "spark" and declared in ("timestamp", "timestamp_ltz")
        template = engine.zoned if zoned else engine.finer if declared.endswith("_ns") else engine.naive
        return Reading(({**plain[0], every: template.format(cell.source)}, inside), value)
    return Reading((*plain, *_counted(cell), inside), value)


def moment(cell: SqlCell) -> str:
    """Return the name of the microseconds since 1970, in UTC, of the time in a cell.

    They are NULL if the cell is no time of the years 1 to 9999.
    """
    return _named("time", cell)


def _named(part: str, cell: SqlCell) -> str:
    return f"dpb_{part}_{cell.place}"


def _counted(cell: SqlCell) -> tuple[dict[str, str], ...]:
    """Return layers from a cell's text and number to the microseconds of its time, named "all"."""
    whole = f"{cell.number} BETWEEN 1e7 AND 99999999e0 AND {cell.number} = floor({cell.number})"
    digits = f"CASE WHEN {whole} THEN CAST({cell.number} AS bigint) END"
    names = ("date", "rest", "year", "month", "day", "clock", "zone", "days", "utc")
    date, rest, year, month, day, clock, zone, days, utc = (_named(name, cell) for name in names)
    over, number = cell.engine.quotient.format, partial(cell.engine.cast, whole=True)
    layer = {date: digits, rest: "''"}
    if cell.kind == "text":
        text, matches = cell.text, cell.engine.matches.format(cell.text, ISO_TIME)
        dashed = f"substr({text}, 5, 1) = '-'"
        eight = f"substr({text}, 1, 4) || substr({text}, 6, 2) || substr({text}, 9, 2)"
        found = number(f"CASE WHEN {dashed} THEN {eight} ELSE substr({text}, 1, 8) END")
        after = f"substr({text}, CASE WHEN {dashed} THEN 11 ELSE 9 END)"
        layer = {
            date: f"CASE WHEN {matches} THEN {found} ELSE {digits} END",
            rest: f"CASE WHEN {matches} THEN {after} ELSE '' END",
        }
    # `rest` is empty, or a text such as "T17:30:05.12+02:00" with or without seconds, fraction and zone
    seconds, fraction = f"substr({rest}, 7, 1) = ':'", f"substr({rest}, 10, 1) IN ('.', ',')"
    end = f"trim(LEADING '{_DIGITS}' FROM substr({rest}, 11))"
    padded = f"rpad(substr({rest}, 11, least(6, length({rest}) - 10 - length({end}))), 6, '0')"
    of_clock = (
        f"CASE WHEN {rest} = '' THEN 0 ELSE {number(f'substr({rest}, 2, 2)')} * 3600000000 "
        f"+ {number(f'substr({rest}, 5, 2)')} * 60000000 + CASE WHEN {seconds} THEN "
        f"{number(f'substr({rest}, 8, 2)')} * 1000000 + CASE WHEN {fraction} "
        f"THEN {number(padded)} ELSE 0 END ELSE 0 END END"
    )
    of_zone = (
        f"CASE WHEN {seconds} AND {fraction} THEN {end} WHEN {seconds} THEN substr({rest}, 10) "
        f"ELSE substr({rest}, 7) END"
    )
    minutes = f"CASE WHEN length({zone}) > 3 THEN {number(f'right({zone}, 2)')} ELSE 0 END"
    shift = (
        f"CASE WHEN length({zone}) < 3 THEN 0 ELSE ({number(f'substr({zone}, 2, 2)')} * 60 + {minutes}) "
        f"* CASE WHEN substr({zone}, 1, 1) = '-' THEN -60000000 ELSE 60000000 END END"
    )
    leap = f"({year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} % 400 = 0))"
    february = f"CASE WHEN {leap} THEN 29 ELSE 28 END"
    most = f"CASE WHEN {month} = 2 THEN {february} WHEN {month} IN (4, 6, 9, 11) THEN 30 ELSE 31 END"
    valid = f"{year} >= 1 AND {month} BETWEEN 1 AND 12 AND {day} BETWEEN 1 AND {most}"
    march = f"(CASE WHEN {month} <= 2 THEN {year} - 1 ELSE {year} END)"
    of_years = f"365 * {march} + {over(march, 4)} - {over(march, 100)} + {over(march, 400)}"
    of_months = over(f"(153 * CASE WHEN {month} > 2 THEN {month} - 3 ELSE {month} + 9 END + 2)", 5)
    since = f"CASE WHEN {valid} THEN {of_years} + {of_months} + {day} - 1 - {_TO_1970} END"
    return (
        layer,
        {
            year: over(date, 10000),
            month: over(date, 100) + " % 100",
            day: f"{date} % 100",
            clock: of_clock,
            zone: of_zone,
        },
        {
            days: since,
            utc: f"{clock} - {shift}",
        },
        {_named("all", cell): f"{days} * {DAY} + {utc}"},
    )


def place(cell: SqlCell) -> str:
    """Return the name of the place of a cell's time in a period, in microseconds from its beginning."""
    return _named("place", cell)


def place_reading(cell: SqlCell, period: str, value: str) -> Reading:
    """Return the reading of a cell with a value that uses `place(cell)`.

    This is the place (microseconds) of the cell's time in a named period, from its beginning. It is NULL if
    the cell is no time of the years 1 to 9999.
    """
    named, found = moment(cell), time_reading(cell, value)
    from_first = f"({named} + {_TO_1970 * DAY})"  # of the calendar's cycle, at least 0
    if period == "day":
        return Reading((*found.layers, {place(cell): f"{from_first} % {DAY}"}), value)
    if period == "week":
        return Reading((*found.layers, {place(cell): f"({named} + {_TO_MONDAY * DAY}) % {7 * DAY}"}), value)
    over = cell.engine.quotient.format
    count, cycle, year, days = (_named(name, cell) for name in ("count", "cycle", "yearly", "passed"))
    own = f"({count} % 146097)"
    years = over(f"({own} - {over(own, 1460)} + {over(own, 36524)} - {over(own, 146096)})", 365)
    since = f"{cycle} - (365 * {year} + {over(year, 4)} - {over(year, 100)})"
    leap = f"({year} % 4 = 0 AND ({year} % 100 <> 0 OR {year} = 0))"
    january = f"CASE WHEN {days} >= 306 THEN {days} - 306 WHEN {leap} THEN {days} + 60 ELSE {days} + 59 END"
    return Reading(
        (
            *found.layers,
            {count: over(from_first, DAY)},
            {cycle: own, year: years},
            {days: since},
            {place(cell): f"({january}) * {DAY} + {from_first} % {DAY}"},
        ),
        value,
    )

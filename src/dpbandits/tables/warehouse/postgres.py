"""`PostgresSource`: a table or view of a PostgreSQL database, which adds up integers itself.

Every statement runs in one read-only transaction with one snapshot. The password comes from the address, or
from PGPASSWORD or a password file, as in every PostgreSQL client. It is never printed. PostgreSQL's error
messages may repeat cells. They are neither shown, logged nor chained.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, Self, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import numpy as np
from numpy.typing import NDArray

from dpbandits._lazy import needing
from dpbandits._progress import watched
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.tables.sql.cells import kind_of_type

__all__ = ["PostgresSource", "batches_of", "short_texts"]

R = TypeVar("R")

MEMORY = 1 << 28
"""Default memory in bytes of one step of a statement in PostgreSQL (`work_mem`)."""

LONGEST_TEXT = 1 << 16
"""Largest number of bytes of a text that PostgreSQL reads.

A text may have 1 GB, of which a statement takes several copies, and then fails.
"""

_FAILED = "the statement failed in the database, whose message is not shown as it may repeat cells"

_UNREAD = "repeat('?', 5000)"
"""Text that stands for a longer one: it is no number, no id, no date, no category, and not missing."""

# A type that somebody defined may have the name of a number and hold texts, which fail as numbers.
_TYPES = (
    "SELECT attname, CASE WHEN typnamespace = CAST('pg_catalog' AS regnamespace) OR typname = 'citext' "
    "THEN format_type(atttypid, NULL) ELSE 'defined as ' || typname END "
    "FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid "
    "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
)


class PostgresSource:
    """A table with n rows in PostgreSQL 15 or newer, with texts in UTF-8. The rows are raw data.

    Args:
        address: postgresql://USER@HOST/DATABASE?table=NAME, where NAME may be SCHEMA.NAME.
        memory: Most bytes of one step of a statement.
        threads: Number of processes of a statement; the default is the server's.

    Attributes:
        dialect: Dialect of SQL: "postgres".

    Raises:
        InvalidParameter: The address names no table, or several.
        DataUnavailable: There is no connection, or no such table.
        MissingExtra: psycopg is not installed.
    """

    dialect: Literal["postgres"] = "postgres"

    def __init__(self, address: str, *, memory: int | None = None, threads: int | None = None) -> None:
        with needing("reading a table in PostgreSQL needs psycopg: pip install 'dpbandits[postgres]'"):
            import psycopg
        url = urlsplit(address)
        options = parse_qsl(url.query)
        tables = [value for name, value in options if name == "table"]
        if len(tables) != 1:
            raise InvalidParameter("expected postgresql://USER@HOST/DATABASE?table=NAME")
        others = urlencode([one for one in options if one[0] != "table"], quote_via=quote)
        self._table = ".".join(map(_quoted, tables[0].split(".", 1)))
        plain = url._replace(query=others).geturl()
        self._connection: Any = _told(
            "there is no connection to the database: check host, port, database, user, and the password "
            "(PGPASSWORD)",
            lambda: psycopg.connect(plain),
        )
        self._connection.read_only = True
        self._connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        kilobytes = max(64, (MEMORY if memory is None else memory) >> 10)
        self._settings = {"work_mem": f"{kilobytes}kB", "jit": "off", "standard_conforming_strings": "on"}
        self._settings |= {"TimeZone": "UTC", "DateStyle": "ISO"}
        if threads is not None:
            self._settings["max_parallel_workers_per_gather"] = str(threads - 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    @cached_property
    def relation(self) -> str:
        """Text that stands after FROM. The errors are those of `columns`."""
        return short_texts(self._table, self.columns())

    def columns(self) -> dict[str, str]:
        """Return PostgreSQL's type of each column, by name.

        Raises:
            DataUnavailable: The database has no such table, or cannot be reached.
        """
        found = dict(_told("the database failed", lambda: self._rows(_TYPES, [self._table])[1]))
        if not found:
            raise DataUnavailable("the database has no table or view of this name that this user may see")
        return found

    def query(self, sql: str, *, told: str | None = None) -> dict[str, NDArray[np.int64]]:
        """Return the result of one SELECT statement, a column of integers (m,) for each expression.

        Args:
            sql: The statement. No row may make it fail.
            told: Name of the work, under which its progress is shown; None to show nothing.

        Raises:
            DataUnavailable: PostgreSQL failed. The message has no cell of the table.
            InvalidData: The result has a cell that is no integer of 64 bits.
        """
        with watched(told or "", total=1, shown=told is not None):
            names, rows = _told(_FAILED, lambda: self._rows(sql))
        if not all(type(cell) is int for row in rows for cell in row):
            raise InvalidData("the result of a statement has a cell that is no integer")
        found = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
        return dict(zip(names, found.T, strict=True))

    def batches(self, sql: str, rows: int) -> Iterator[Any]:
        """Yield the result of one SELECT statement as record batches of pyarrow with at most `rows` rows.

        Raises:
            DataUnavailable: PostgreSQL failed. The message has no cell of the table.
        """
        found = self._streamed(sql, rows)
        while (batch := _told(_FAILED, lambda: next(found, None))) is not None:
            yield batch

    def _streamed(self, sql: str, rows: int) -> Iterator[Any]:
        with self._connection.transaction(), self._connection.cursor("dpb_rows") as cursor:
            self._limit()
            cursor.execute(sql, binary=True)
            yield from batches_of(cursor, rows)

    def _rows(self, sql: str, given: Sequence[str] | None = None) -> tuple[list[str], list[Any]]:
        """Return the names and the rows of a statement's result, in a transaction of its own."""
        with self._connection.transaction():
            self._limit()
            cursor = self._connection.execute(sql, given, binary=True)
            return [column.name for column in cursor.description], cursor.fetchall()

    def _limit(self) -> None:
        for name, value in self._settings.items():
            self._connection.execute(f"SET LOCAL {name} = '{value}'")


def short_texts(table: str, types: Mapping[str, str]) -> str:
    """Return a subquery of a table in which a text above `LONGEST_TEXT` bytes is one that cannot be read.

    The length of a text is known without reading it.

    Args:
        table: Table, or subquery.
        types: Type of each column, by name.
    """
    listed = []
    for name, declared in types.items():
        cell = _quoted(name)
        with suppress(InvalidParameter):  # a type that no rule reads stays as it is
            if kind_of_type(declared, name) == "text":
                text = f"CAST({cell} AS text)"
                long = f"octet_length({text}) > {LONGEST_TEXT}"
                cell = f"CASE WHEN {long} THEN {_UNREAD} ELSE {text} END AS {cell}"
        listed.append(cell)
    return f"(SELECT {', '.join(listed)} FROM {table} AS dpb_given OFFSET 0)"  # noqa: S608 - names are quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def batches_of(cursor: Any, rows: int) -> Iterator[Any]:
    """Yield the rows of a cursor of DB-API as record batches of pyarrow with at most `rows` rows.

    A column of a batch without a cell is one of texts, as Arrow does not join a column of nulls to others.
    """
    import pyarrow as pa

    names = [column[0] for column in cursor.description]
    while found := cursor.fetchmany(rows):
        columns = (pa.array(column) for column in zip(*found, strict=True))
        typed = [one.cast(pa.string()) if pa.types.is_null(one.type) else one for one in columns]
        yield pa.record_batch(typed, names=names)


def _told(message: str, run: Callable[[], R]) -> R:
    """Return the result of a function. For an error of psycopg, raise DataUnavailable with a fixed message.

    It is raised after the other error was handled. So it has neither a cause nor a context.
    """
    import psycopg

    with suppress(psycopg.Error, OSError):
        return run()
    raise DataUnavailable(message)

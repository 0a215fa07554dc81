"""`Source`: a table and the engine that reads it; `source_of` opens one."""

import re
from collections.abc import Iterator
from contextlib import suppress
from os import PathLike, fspath
from typing import Any, Protocol, Self
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from dpbandits._checks import kind_of
from dpbandits.errors import InvalidParameter
from dpbandits.tables.frames import is_frame
from dpbandits.tables.sql.dialects import Dialect
from dpbandits.tables.warehouse.duck import DuckSource
from dpbandits.tables.warehouse.ibis import IbisSource
from dpbandits.tables.warehouse.postgres import PostgresSource

__all__ = ["DUCKDB", "Source", "is_database", "source_of", "without_password"]

DUCKDB = "duckdb:///"
"""First characters of the address of a table in DuckDB."""


class Source(Protocol):
    """A table with n rows, and the engine that reads it. The rows are raw data.

    Attributes:
        dialect: Dialect of SQL that the engine reads.
        relation: Text that stands after FROM in a statement.
    """

    @property
    def dialect(self) -> Dialect:
        """Return the dialect of SQL that the engine reads."""

    @property
    def relation(self) -> str:
        """Return the text that stands after FROM in a statement."""

    def columns(self) -> dict[str, str]:
        """Return the engine's type of each column, by name. Both are public.

        Raises:
            InvalidData: Two columns have the same name for the engine.
        """

    def query(self, sql: str, *, told: str | None = None) -> dict[str, NDArray[np.int64]]:
        """Return the result of one SELECT statement, a column of integers (m,) for each expression.

        Args:
            sql: The statement. No row may make it fail.
            told: Name of the work, under which its progress is shown; None to show nothing.

        Raises:
            DataUnavailable: The engine failed. The message has no cell, whatever the engine said.
            InvalidData: The result has a column that is not of integers, or a NULL.
        """

    def batches(self, sql: str, rows: int) -> Iterator[Any]:
        """Yield the result of one SELECT statement as record batches of pyarrow with at most `rows` rows.

        Args:
            sql: The statement. Its columns are texts and numbers, and no row may make it fail.
            rows: Largest number of rows of a batch.

        Raises:
            DataUnavailable: The engine failed. The message has no cell, whatever the engine said.
        """

    def __enter__(self) -> Self:
        """Return the source."""

    def __exit__(self, *_: object) -> None:
        """Close the source."""

    def close(self) -> None:
        """Close the connection and remove temporary files."""


def is_database(where: object) -> bool:
    """Return True for the address of a database and for an Ibis table, of which the order of rows is free."""
    return IbisSource.has(where) or (isinstance(where, str) and "://" in where)


def without_password(address: str) -> str:
    """Return the address of a table in a database without the passwords in it.

    >>> without_password("postgresql://me:secret@host/shop?sslpassword=secret&table=log")
    'postgresql://me@host/shop?table=log'
    """
    head, sign, query = address.partition("?")
    options = (one for one in query.split("&") if "password" not in unquote(one.partition("=")[0]))
    return re.sub("(?<=://)([^/:@]*):[^/]*@", r"\1@", head) + sign + "&".join(options)


def source_of(where: object, *, memory: int | None = None, threads: int | None = None) -> Source:
    """Open a table.

    Args:
        where: Path or glob of .csv, .tsv (also .gz), .parquet, .arrow or .feather files;
            "duckdb:///FILE?table=NAME" or "postgresql://USER@HOST/DATABASE?table=NAME"; a data frame of
            pandas, polars or pyarrow; or an Ibis table of DuckDB, PostgreSQL or PySpark.
        memory: Most bytes that the engine holds; the default is `dpbandits.memory_limit()`.
        threads: Number of threads of the engine; the default is one for each core, and in DuckDB at most one
            for 200 MB. An Ibis table takes neither limit, because its connection has its own.

    Raises:
        InvalidParameter: `where` is none of these.
        InvalidData: The header of a file is no list of distinct names, or files have different headers.
        DataUnavailable: The file or table does not exist, or cannot be read.
        MissingExtra: DuckDB is not installed.
    """
    options: dict[str, Any] = {"memory": memory, "threads": threads}
    if IbisSource.has(where):
        if memory is not None or threads is not None:
            raise InvalidParameter("memory, threads: an Ibis table has those of its connection")
        return IbisSource(where)
    if is_frame(where):
        return DuckSource.of_frame(where, **options)
    known = "expected a path, a data frame, duckdb:///FILE?table=NAME or postgresql://...?table=NAME"
    if not isinstance(where, str | PathLike):
        raise InvalidParameter(f"{known}, not {kind_of(where)}")
    text = fspath(where)
    if "://" not in text:
        return DuckSource.of_files(text, **options)
    url = None
    with suppress(ValueError):  # its message repeats a part of the address, which may have a password
        url = urlsplit(text)
    if url is None:
        raise InvalidParameter(
            "the address cannot be read: write special characters of user and password as in %40 for @"
        )
    if url.scheme in ("postgres", "postgresql"):
        return PostgresSource(text, **options)
    tables = parse_qs(url.query).get("table", [])
    if url.scheme != "duckdb" or url.netloc or len(url.path) < 2 or len(tables) != 1:
        raise InvalidParameter(known)
    return DuckSource.of_database(unquote(url.path[1:]), tables[0], **options)

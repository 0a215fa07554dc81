"""Columns of a file: CSV, TSV, Parquet or Arrow, with the kind that was said for each.

A cell is *missing* where it is empty or one of the words NA, <NA>, NaN, NaT, None and null, in capitals or
not, and in Parquet and Arrow where it is null or NaN as well; that holds for every kind, text included, but
not for a category that is declared: an arm may be called "none".

Files are read in blocks. A block becomes arrays at once: numbers, and of everything else `Coded`, each
different word once. Errors in a column are raised after the whole file was read, so messages do not depend on
block sizes.
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
"""A column of float as float64, any other one as `Coded`."""

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""Endings of text files, and what stands between cells."""

_ARROW_ENDINGS = frozenset({".arrow", ".feather", ".ipc"})
_ARROW = b"ARROW1\0\0"
"""First bytes of an Arrow file."""


LARGEST_ROWS, LARGEST_COLUMNS, LARGEST_BYTES = 1 << 24, 1 << 12, 1 << 30
"""Rows of any table; of Parquet and Arrow also columns and bytes, uncompressed and spelled out, of what is
read (of Arrow: of all of it).
"""

BLOCK_BYTES = 1 << 20
"""Bytes of a text that are split at a time."""

_BLOCK_ROWS = 1 << 16

_NEWLINE, _RETURN, _QUOTE = b'\n\r"'
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_BLANKS = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace())
"""Characters that `str.strip` takes off."""

_SPELLINGS = sorted("".join(s) for word in MISSING for s in product(*((c, c.upper()) for c in word)))


def read_table_file(
    path: Path,
    kinds: Mapping[str, type],
    *,
    gaps: Iterable[str] = (),
    words: Mapping[str, Set[str]] | None = None,
) -> TableColumns:
    """The columns named in `kinds`, of a CSV, TSV (also .gz), Parquet or Arrow file.

    Args:
        path: its ending says which.
        kinds: column -> float, str, bool, int or datetime, the kind of its cells.
        gaps: columns whose cells may be missing or of another kind. In a column of float a missing cell is
            NaN and another one infinity; in other columns a missing cell is None and another one stays as it
            is.
        words: column -> texts that are values of it, though they mean a missing one elsewhere.

    Raises:
        InvalidParameter: another ending.
        InvalidData: a column is missing, or holds missing values or other things; no value is named. Or a
            table beyond the public limits of this file; of a Parquet table that says so, nothing is read.
        DataUnavailable: the file is not there or damaged.
        MissingExtra: Parquet or Arrow, and no pyarrow.
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
    """The columns of a pandas data frame, as `read_table_file` gives those of a Parquet file."""
    columns = _columns(kinds, gaps, words)
    _check_header(list(frame.columns), columns)
    for column in columns:
        cells: Any = frame[column.name].tolist()
        # what Arrow says of cells that it cannot take for one type holds them: they are read one by one
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
"""Tests whether a value, as `cell_value` gives it, is of a kind; a date of eight digits is read as an
integer."""


_READABLE = re.compile(r"[A-HJ-MO-Za-hj-mo-z]|[0-9]{1,15}\Z")
"""Texts of one certain reading: a first letter that no float has, or an integer of at most 15 digits."""


class _Column:
    """A column as its blocks come.

    Args:
        name: name of the column.
        kind: kind of its cells.
        gaps: whether cells may be missing or of another kind.
        words: texts that are values, although they mean a missing value elsewhere.
    """

    def __init__(self, name: str, *, kind: type, gaps: bool, words: Set[str]) -> None:
        self.name, self.kind, self.gaps, self._words = name, kind, gaps, words
        self._rows = 0
        self._parts: list[Any] = []  # float64; of other kinds Arrow arrays, or without Arrow places
        self._places: dict[object, int] = {}
        self._missing = self._bad = False

    def add(self, cells: Any) -> None:
        """(n,) cells as the file has them: an Arrow array, or a list of text."""
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
        """All of it; InvalidData where cells are missing or of another kind, and may not be."""
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
            raise InvalidData(f"column {self.name!r} has cells that are no {self.kind.__name__}")
        return rows if values is None else Coded(rows, values)

    def _numbers(self, words: Sequence[object]) -> FloatArray:
        """Words as `numbers_of` reads them."""
        return self._noted(numbers_of(as_objects(words)))

    def _noted(self, numbers: FloatArray) -> FloatArray:
        """Return the numbers, and note whether any is missing or none."""
        self._missing = self._missing or bool(np.isnan(numbers).any())
        self._bad = self._bad or bool(np.isinf(numbers).any())
        return numbers

    def _values(self, words: Sequence[object]) -> list[object]:
        """Words as they are, None for a missing one. What a word means is read from it later, by
        `cell_value`.
        """
        known = list(words)
        for place, word in enumerate(words):
            if type(word) is not str:
                absent = is_missing(word)
            else:  # as `is_missing`, without a call for each of many words
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
"""Arrow's types of cells, besides text."""


def _placed(cells: list[Any], places: dict[object, int]) -> NDArray[np.int32]:
    """(n,) places of cells, to which new ones are added."""
    return np.fromiter((places.setdefault(cell, len(places)) for cell in cells), np.int32, len(cells))


def _are_numbers(cells: Any) -> bool:
    """Return whether it is an Arrow array of nothing but numbers that are float64 at once."""
    from pyarrow.types import is_floating, is_integer

    return bool(is_integer(cells.type) or is_floating(cells.type))


def _by_words(parts: list[Any]) -> tuple[list[object], NDArray[np.integer[Any]]]:
    """Different cells of Arrow arrays, text without blanks around it, and (n,) which of them each row has."""
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
    else:  # of no kind at all
        words = [UNREADABLE if valid else None for valid in words.is_valid().to_pylist()]
    places = _plain_array(indices.cast("int32"), missing=len(words))
    if not coded and not indices.null_count:
        return words, places
    used = np.bincount(places, minlength=len(words) + 1) > 0  # what a dictionary lists need not be used
    words = [word for word, there in zip([*words, None], used.tolist(), strict=True) if there]
    return words, (np.cumsum(used, dtype=np.int32) - 1)[places]


def _plain_array(cells: Any, *, missing: float) -> NDArray[Any]:
    """Arrow's numbers (n,) without pyarrow's own conversion, which imports pandas."""
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
    """A text in blocks of whole lines, taken line by line or by the rest of a block at once."""

    def __init__(self, data: IO[bytes]) -> None:
        self._blocks = _whole_lines(data)
        self._block = next(self._blocks, b"").removeprefix(_BYTE_ORDER_MARK)
        self._used = 0  # bytes of the block
        self._text: io.StringIO | None = None  # the rest of the block
        self.count = 0  # lines that were taken

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
        """Return the rest of the block, or the next block; empty at the end."""
        if self._used >= len(self._block):
            self._block, self._used, self._text = next(self._blocks, b""), 0, None
        return self._block[self._used :] if self._used else self._block

    @property
    def within(self) -> bool:
        """Return whether some of the block is left."""
        return self._used < len(self._block)

    def skip(self) -> None:
        """Take the rest of the block, whose lines end in a newline."""
        rest = self.rest()
        self.count += rest.count(b"\n") + (not rest.endswith(b"\n"))
        self._used = len(self._block)


def _whole_lines(data: IO[bytes]) -> Iterator[bytes]:
    """Blocks that end where a line does."""
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
    """By Arrow and as arrays, where it reads a block as `csv` does; by `csv` where it might not."""
    dialect: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": True, "strict": True}
    try:
        header = [cell.strip() for cell in next(csv.reader(lines, **dialect), [])]
        if not any(header):
            raise InvalidData("the table is empty: expected a line of column names, then rows")
        _check_header(header, columns)
        while block := lines.rest():
            if _add_block(block, header, columns, delimiter):
                lines.skip()
            else:
                _add_rows(_rows(lines, header, dialect), header, columns)
    except csv.Error:
        raise InvalidData(f"line {lines.count} is not well-formed: check its quotes") from None


def _rows(lines: _Lines, header: list[str], dialect: Mapping[str, Any]) -> list[list[str]]:
    """Rows that begin in what is left of a block."""
    reader, rows = csv.reader(lines, **dialect), []
    while lines.within:
        row = next(reader)
        if not row:
            continue
        if len(row) != len(header):
            raise InvalidData(f"line {lines.count} has {len(row)} cells, the line of names has {len(header)}")
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
    """Add whole lines by Arrow, unless `csv` might read them otherwise or has to say what is wrong."""
    try:
        from pyarrow import ArrowException
        from pyarrow.compute import is_nan
    except ImportError:
        return False
    if not _is_plain(block, ord(delimiter)):
        return False
    numbers = frozenset(column.name for column in columns if column.kind is float)
    for parsed in (numbers, frozenset[str]()):  # second: numbers in spellings that are Python's alone
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
    """Return whether lines are split alike by everybody: quotes stand around whole cells and nowhere else,
    lines end in a newline and are short enough for `csv`, and all of it is UTF-8.
    """
    if not block.isascii():
        block.decode("utf-8")
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
    """Declared columns of a block: `numbers` as float64, null where missing, the others as text.

    Arrow's parser takes what `float` takes, to the same bits, but for a few spellings that it refuses and
    some of NaN that it takes.
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
                batch.validate(full=True)  # text that is no UTF-8 would show later, in Arrow's own error
                size += sum(map(_text_size, batch.columns))
                if size > LARGEST_BYTES:
                    raise _too_large()
                for column in columns:
                    column.add(batch.column(column.name))
    except ArrowException:
        raise DataUnavailable(
            f"{path.name} cannot be read: no Parquet file of types that pyarrow has"
        ) from None


def _read_arrow(path: Path, columns: Sequence[_Column]) -> None:
    with needing("Arrow tables need pyarrow: pip install 'dpbandits[report]'"):
        import pyarrow as pa
        from pyarrow.ipc import MessageReader, open_stream
    try:
        with pa.memory_map(str(path)) as data:
            begins = len(_ARROW) if data.read(len(_ARROW)) == _ARROW else 0  # else a stream of messages alone
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
                    batch.validate(full=True)  # what it points to may lie anywhere
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
    """Bytes of an Arrow array's text, spelled out."""
    import pyarrow as pa
    from pyarrow.compute import binary_length

    if not pa.types.is_dictionary(cells.type) or not pa.types.is_string(cells.type.value_type):
        return 0
    lengths = _plain_array(binary_length(cells.dictionary), missing=0).astype(np.int64)
    return int(lengths[_plain_array(cells.indices.drop_null(), missing=0)].sum())


def check_size(file: Any, names: list[str]) -> None:
    """Hold what a Parquet file says of itself against the public limits: a small one can unfold to any size.

    Text is to be read as a dictionary, whose words stand there once; what they unfold to shows as it is read.

    Args:
        file: a `pyarrow.parquet.ParquetFile`, of which only its description is asked.
        names: the columns that will be read.

    Raises:
        InvalidData: too many rows, columns or bytes, cells that are no plain values, or an encoding that
            hides their size.
        OSError, pyarrow.ArrowException: the description contradicts itself.
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
        # No row is read. `column` below ends the process at what the reader refuses here.
        next(file.reader.iter_batches(0, row_groups=[group], column_indices=chosen, use_threads=False), None)
    parts = [about.row_group(group).column(at) for group in range(about.num_row_groups) for at in chosen]
    if any("DELTA_BYTE_ARRAY" in part.encodings for part in parts):
        raise InvalidData("a declared column has the encoding DELTA_BYTE_ARRAY: write the table with another")
    widest = max(8, *(schema.column(places[name]).length or 0 for name in names))
    size = max(sum(part.total_uncompressed_size for part in parts), about.num_rows * widest)
    if size > LARGEST_BYTES:
        raise _too_large()


def _nested_cells(name: str) -> InvalidData:
    return InvalidData(f"column {name!r} has cells that are lists or structures, expected plain ones")


def _too_many_rows() -> InvalidData:
    return InvalidData(f"the table has more than {LARGEST_ROWS} rows")


def _too_large() -> InvalidData:
    return InvalidData(f"the declared columns unfold to more than {LARGEST_BYTES >> 20} MiB")

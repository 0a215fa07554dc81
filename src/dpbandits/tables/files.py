"""Columns of a file: CSV, TSV or Parquet, with the kind that was said for each.

A cell is *missing* where it is empty or one of the words NA, NaN and null, in capitals or not, and in Parquet
where it is null or NaN as well; that holds for every kind, text included. A category that is truly called NA
has to be renamed.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.tables.frames import missing_values

__all__ = ["check_size", "read_table_file"]

_Column = NDArray[Any]
_DELIMITERS = {".csv": ",", ".tsv": "\t"}

LARGEST_ROWS, LARGEST_COLUMNS, LARGEST_BYTES = 1 << 24, 1 << 12, 1 << 30
"""Of a Parquet table: rows, columns, and bytes of the columns that are read, uncompressed and spelled out."""

BLOCK_BYTES = 1 << 24
"""Bytes of a text that are split at a time."""

_NEWLINE, _RETURN, _QUOTE = b'\n\r"'

_BLANKS = "".join(mark for mark in map(chr, range(0x3001)) if mark.isspace())
"""What `str.strip` takes off."""

MISSING = frozenset({"", "na", "nan", "null"})
"""Words, in small letters, that stand for a missing value."""


def read_table_file(path: Path, kinds: Mapping[str, type], *, gaps: Iterable[str] = ()) -> dict[str, _Column]:
    """The columns named in `kinds`, of a CSV, TSV (also .gz) or Parquet file.

    Args:
        path: its ending says which.
        kinds: column -> float, str, bool or int, what its cells are.
        gaps: columns that may have missing values, for which what cannot be read counts as well: NaN in a
            column of float, None in others.

    Raises:
        InvalidParameter: another ending.
        InvalidData: a column is missing, or holds missing values or other things; no value is named. Or a
            Parquet table beyond the public limits of this file; of one that says so, nothing is read.
        DataUnavailable: the file is not there or damaged.
        MissingExtra: Parquet and no pyarrow.
    """
    admitted = frozenset(gaps)
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    ending = suffixes[-2 if compressed else -1] if len(suffixes) > compressed else ""
    try:
        if ending == ".parquet" and not compressed:
            return _read_parquet(path, kinds, admitted)
        if ending in _DELIMITERS:
            opener = cast("Callable[..., IO[Any]]", gzip.open if compressed else open)
            with opener(path, mode="rb") as data:
                plain = _read_plain(data, kinds, admitted, _DELIMITERS[ending])
            if plain is not None:
                return plain
            with opener(path, mode="rt", encoding="utf-8-sig", newline="") as lines:
                return _read_delimited(lines, kinds, admitted, _DELIMITERS[ending])
    except UnicodeDecodeError:
        raise InvalidData(f"{path.name} is not UTF-8 text: convert it first") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "damaged file"
        raise DataUnavailable(f"{path.name} cannot be read: {reason}") from None
    raise InvalidParameter(f"{path.name}: expected a file ending in .csv, .tsv (also .gz) or .parquet")


def _read_delimited(
    lines: IO[str], kinds: Mapping[str, type], gaps: frozenset[str], delimiter: str
) -> dict[str, _Column]:
    reader = csv.reader(lines, **_dialect(delimiter))
    try:
        header = [cell.strip() for cell in next(reader, [])]
        if not any(header):
            raise InvalidData("the table is empty: expected a line of column names, then rows")
        _check_header(header, kinds)
        rows = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise InvalidData(
                    f"line {reader.line_num} has {len(row)} cells, the line of names has {len(header)}"
                )
            rows.append(row)
    except csv.Error:
        raise InvalidData(f"line {reader.line_num} is not well-formed: check its quotes") from None
    columns = {}
    for name, kind in kinds.items():
        place = header.index(name)
        cells = [row[place].strip() for row in rows]
        known = [None if cell.casefold() in MISSING else cell for cell in cells]
        columns[name] = _column(known, _FROM_TEXT[kind], kind, name, gaps)
    return columns


def _read_plain(
    data: IO[bytes], kinds: Mapping[str, type], gaps: frozenset[str], delimiter: str
) -> dict[str, _Column] | None:
    """What `_read_delimited` gives, by Arrow and without a Python object a cell; None where it might not.

    Arrow splits the lines, and its columns are trimmed and parsed as arrays. Text that the two could read
    differently, whatever is wrong with a table, and its every error are left to `_read_delimited`.
    """
    try:
        from pyarrow import ArrowException, array, chunked_array
        from pyarrow.compute import ascii_lower, is_in
    except ImportError:
        return None
    try:
        header = next(csv.reader([data.readline().decode("utf-8-sig")], **_dialect(delimiter)), [])
        names = [cell.strip() for cell in header]
        if len(set(names)) != len(names) or not set(kinds) <= set(names):
            return None
        parts: dict[str, list[Any]] = {name: [] for name in kinds}
        for block in _whole_lines(data):
            if not _is_plain(block, ord(delimiter)):
                return None
            for name, cells in _split(block, names, kinds, delimiter).items():
                parts[name].append(_numbers(cells, gaps=name in gaps) if kinds[name] is float else cells)
        columns: dict[str, _Column] = {}
        for name, kind in kinds.items():
            if not parts[name]:
                return None
            if kind is float:
                columns[name] = np.concatenate(parts[name])
            else:
                cells = chunked_array(parts[name]).dictionary_encode().combine_chunks()
                words: _Column = cells.dictionary.to_numpy(zero_copy_only=False)  # each stands there once
                missing = is_in(ascii_lower(cells.dictionary), value_set=array(sorted(MISSING)))
                if missing.true_count or kind is not str:
                    known = [
                        None if gone else word for word, gone in zip(words, missing.to_pylist(), strict=True)
                    ]
                    words = _column(known, _FROM_TEXT[kind], kind, name, gaps)
                columns[name] = words[cells.indices.to_numpy()]
            parts[name].clear()
    except (ArrowException, InvalidData, UnicodeDecodeError, csv.Error):
        return None
    return columns


def _dialect(delimiter: str) -> dict[str, Any]:
    return {"delimiter": delimiter, "skipinitialspace": True, "strict": True}


def _whole_lines(data: IO[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines."""
    rest = b""
    while piece := data.read(BLOCK_BYTES):
        block, newline, after = piece.rpartition(b"\n")
        if newline:
            yield rest + block + newline
            rest = after
        else:
            rest += piece
    if rest:
        yield rest


def _is_plain(block: bytes, delimiter: int) -> bool:
    """Whether lines are split alike by everybody: quotes stand around whole cells and nowhere else, lines
    end in a newline and are short enough for `csv`, and all of it is UTF-8.
    """
    if not block.isascii():
        block.decode("utf-8")
    if b"\0" in block or block.startswith(b"\xef\xbb\xbf"):
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
    if len(quotes) % 2:
        return False
    first, last = quotes[::2], quotes[1::2]
    return bool(
        np.isin(marks[first - 1], (delimiter, _NEWLINE)).all()
        and np.isin(marks[last + 1], (delimiter, _NEWLINE, _RETURN)).all()
        and np.array_equal(np.searchsorted(ends, first), np.searchsorted(ends, last))
    )


def _split(block: bytes, names: list[str], kinds: Mapping[str, type], delimiter: str) -> dict[str, Any]:
    """Named columns of a block as Arrow text, without blanks around the cells."""
    import pyarrow as pa
    from pyarrow.compute import utf8_trim
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

    table = read_csv(
        pa.BufferReader(block),
        read_options=ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=names),
        parse_options=ParseOptions(delimiter=delimiter),
        convert_options=ConvertOptions(
            column_types=dict.fromkeys(kinds, pa.string()), include_columns=list(kinds)
        ),
    )
    return {name: utf8_trim(table[name].combine_chunks(), characters=_BLANKS) for name in kinds}


def _numbers(cells: Any, *, gaps: bool) -> _Column:
    """Trimmed cells as float64, NaN where missing; ArrowInvalid or InvalidData where `float` has to be asked.

    Arrow's parser takes what `float` takes, to the same bits, but for a few spellings that it refuses and
    some of NaN that it takes.
    """
    from pyarrow import ArrowInvalid, array, string
    from pyarrow.compute import ascii_lower, cast, if_else, is_in

    with suppress(ArrowInvalid):
        numbers = cast(cells, "float64").to_numpy()
        if not np.isnan(numbers).any():
            return np.asarray(numbers)
    missing = is_in(ascii_lower(cells), value_set=array(sorted(MISSING)))
    known = if_else(missing, array([None], string())[0], cells)
    try:
        numbers = cast(known, "float64").to_numpy(zero_copy_only=False)
        if np.isnan(numbers).sum() == missing.true_count and (gaps or not missing.true_count):
            return np.asarray(numbers)
    except ArrowInvalid:
        pass
    return _column(known.to_pylist(), float, float, "", frozenset([""] if gaps else ()))


_TRUTH = {"true": True, "false": False, "True": True, "False": False}


def _truth(cell: str) -> bool:
    return _TRUTH[cell]


def _number(cell: object) -> float:
    if isinstance(cell, bool) or not isinstance(cell, int | float | Decimal):
        raise TypeError
    return float(cell)


def _text(cell: object) -> str:
    if not isinstance(cell, str | int | float):
        raise TypeError
    return str(cell)


def _plain(cell: object) -> object:
    if not isinstance(cell, str | int | float):
        raise TypeError
    return cell


_FROM_TEXT: dict[type, Callable[[Any], object]] = {float: float, str: str, int: int, bool: _truth}
_FROM_PARQUET: dict[type, Callable[[Any], object]] = {float: _number, str: _text, int: _plain, bool: _plain}


def _column(
    cells: list[Any], read: Callable[[Any], object], kind: type, name: str, gaps: frozenset[str]
) -> _Column:
    """Cells, None where missing, as an array."""
    if name not in gaps and any(cell is None for cell in cells):
        raise missing_values(name)

    def value(cell: Any) -> object:
        try:
            return None if cell is None else read(cell)
        except (ValueError, KeyError, TypeError, OverflowError):
            if name in gaps:
                return None
            raise InvalidData(f"column {name!r} has cells that are no {kind.__name__}") from None

    parsed = np.empty(len(cells), dtype=np.object_)
    parsed[:] = [value(cell) for cell in cells]
    return parsed.astype(np.float64) if kind is float else parsed  # None becomes NaN


def _read_parquet(path: Path, kinds: Mapping[str, type], gaps: frozenset[str]) -> dict[str, _Column]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtra("Parquet tables need pyarrow: install dpbandits[report]") from error
    try:
        with ParquetFile(path) as file:
            _check_header(list(file.schema_arrow.names), kinds)
            check_size(file, list(kinds))
        with ParquetFile(path, read_dictionary=list(kinds)) as file:
            table = file.read(columns=list(kinds))
        if sum(_text_size(chunk) for column in table.columns for chunk in column.chunks) > LARGEST_BYTES:
            raise _too_large()
    except ArrowException:
        raise DataUnavailable(f"{path.name} cannot be read: not a Parquet file") from None
    columns = {}
    for name, kind in kinds.items():
        cells = [None if _is_missing(cell) else cell for cell in table.column(name).to_pylist()]
        columns[name] = _column(cells, _FROM_PARQUET[kind], kind, name, gaps)
    return columns


def check_size(file: Any, names: list[str]) -> None:
    """Hold what a Parquet file says of itself against the public limits: a small one can unfold to any size.

    Text is to be read as a dictionary, whose words stand there once; `_text_size` asks what they unfold to.

    Args:
        file: a `pyarrow.parquet.ParquetFile`, of which only its description is asked.
        names: the columns that will be read.

    Raises:
        InvalidData: too many rows, columns or bytes, cells that are no plain values, or an encoding that
            hides their size.
    """
    about, schema = file.metadata, file.schema
    if about.num_rows > LARGEST_ROWS or about.num_columns > LARGEST_COLUMNS:
        raise InvalidData(f"the table has more than {LARGEST_ROWS} rows or {LARGEST_COLUMNS} columns")
    places = {schema.column(place).path: place for place in range(about.num_columns)}
    nested = [name for name in names if name not in places]
    if nested:
        raise InvalidData(f"column {nested[0]!r} has cells that are lists or structures, expected plain ones")
    parts = [about.row_group(g).column(places[n]) for g in range(about.num_row_groups) for n in names]
    if any("DELTA_BYTE_ARRAY" in part.encodings for part in parts):
        raise InvalidData("a declared column has the encoding DELTA_BYTE_ARRAY: write the table with another")
    widest = max(8, *(schema.column(places[name]).length or 0 for name in names))
    size = max(sum(part.total_uncompressed_size for part in parts), about.num_rows * widest)
    if size > LARGEST_BYTES:
        raise _too_large()


def _too_large() -> InvalidData:
    return InvalidData(f"the declared columns unfold to more than {LARGEST_BYTES >> 20} MiB")


def _text_size(chunk: Any) -> int:
    """Bytes of a chunk's text, spelled out."""
    if not hasattr(chunk, "dictionary"):
        return 0
    lengths = np.array([len(word or "") for word in chunk.dictionary.to_pylist()], dtype=np.int64)
    return int(lengths[chunk.indices.drop_null().to_numpy()].sum())


def _is_missing(cell: object) -> bool:
    if isinstance(cell, str):
        return cell.strip().casefold() in MISSING
    return cell is None or (isinstance(cell, float | Decimal) and cell != cell)


def _check_header(header: list[str], kinds: Mapping[str, type]) -> None:
    if len(set(header)) != len(header):
        raise InvalidData("the table names a column twice")
    missing = [name for name in kinds if name not in header]
    if missing:
        raise InvalidData(f"the table lacks the declared columns {missing}")

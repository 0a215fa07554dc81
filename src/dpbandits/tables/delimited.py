"""The line of names of a CSV or TSV file."""

import csv
import gzip
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from dpbandits.errors import InvalidData, InvalidParameter

__all__ = [
    "DELIMITERS",
    "check_names",
    "dialect_of",
    "ending_of",
    "header_in",
    "lines_in",
    "opened",
    "unknown_ending",
]

DELIMITERS = {".csv": ",", ".tsv": "\t"}
"""Delimiters of text files, by the file's ending."""


def ending_of(path: Path) -> tuple[str, bool]:
    """Return the ending that gives a file's format, in lower case, and True if gzip compressed the file.

    >>> ending_of(Path("shop/People.CSV.gz"))
    ('.csv', True)
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    return suffixes[-2 if compressed else -1] if len(suffixes) > compressed else "", compressed


def opened(path: Path) -> IO[bytes]:
    """Open a text file, compressed or not, for reading bytes."""
    opener = cast("Callable[..., IO[bytes]]", gzip.open if ending_of(path)[1] else open)
    return opener(path, mode="rb")


def lines_in(data: IO[bytes]) -> Iterator[str]:
    """Yield the lines of an open text file, without the byte order mark.

    Bytes that are not UTF-8 become surrogates.
    """
    yield from io.TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape", newline="")


def dialect_of(delimiter: str) -> dict[str, Any]:
    """Return the options with which the module `csv` reads a table."""
    return {"delimiter": delimiter, "skipinitialspace": True, "strict": True}


def header_in(lines: Iterable[str], delimiter: str) -> list[str]:
    """Return the names in a table's first line, without the blanks around them.

    Raises:
        InvalidData: The line is empty or not well-formed.
        UnicodeEncodeError: A name was not UTF-8.
    """
    try:
        header = [cell.strip() for cell in next(csv.reader(lines, **dialect_of(delimiter)), [])]
    except csv.Error:
        raise InvalidData("line 1 is not well-formed: check its quotes") from None
    ",".join(header).encode("utf-8")
    if not any(header):
        raise InvalidData("the table is empty, expected a line of column names, then rows")
    return header


def check_names(header: list[str], names: Iterable[str] = ()) -> None:
    """Raise InvalidData if a header has a name twice, or lacks one of `names`."""
    if len(set(header)) != len(header):
        raise InvalidData("the table names a column twice")
    missing = [name for name in names if name not in header]
    if missing:
        raise InvalidData(f"the table lacks the declared columns {missing}")


def unknown_ending(path: Path) -> InvalidParameter:
    """Return the error for a file whose format is unknown."""
    return InvalidParameter(
        f"{path.name}: expected a file ending in .csv, .tsv (also .gz), .parquet, .arrow or .feather"
    )

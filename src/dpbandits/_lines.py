"""Lines of JSON: untrusted values, and files to which a long run appends and from which it resumes."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["append_line", "finite_number", "json_line", "read_lines"]


def finite_number(value: object) -> float | None:
    """Return a JSON number as a finite float; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def json_line(text: str) -> Any:
    """Return the JSON value of a line; None for text that is not JSON, or is nested too deeply."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_lines(path: Path | None) -> Iterator[Any]:
    """Yield the records of a file in order. An incomplete line is skipped. A missing file has no records."""
    for line in (
        path.read_text(encoding="utf-8", errors="replace").splitlines()
        if path is not None and path.exists()
        else ()
    ):
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            continue


def append_line(path: Path, record: Any) -> None:
    """Append a record to a file, through to disk. An incomplete last line is ended first.

    The folder is created if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, allow_nan=False)
    with path.open("a+b") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        torn = file.read(1) not in (b"", b"\n")
        file.write((("\n" if torn else "") + line + "\n").encode())
        file.flush()
        os.fsync(file.fileno())

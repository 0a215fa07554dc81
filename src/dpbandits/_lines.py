"""Lines of JSON: values that anybody may have sent, and files that a long run appends to and resumes from."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["append_line", "finite_number", "json_line", "read_lines"]


def finite_number(value: object) -> float | None:
    """A JSON number as a finite float, or None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def json_line(text: str) -> Any:
    """The JSON value of a line, or None: nesting deeper than Python's stack is no message either."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_lines(path: Path | None) -> Iterator[Any]:
    """Records in the order of writing; a line that was cut off is left out, and no file has none."""
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
    """Add a record, through to disk; its folder is made, and a line that was cut off is ended first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, allow_nan=False)
    with path.open("a+b") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - 1))
        torn = file.read(1) not in (b"", b"\n")
        file.write((("\n" if torn else "") + line + "\n").encode())
        file.flush()
        os.fsync(file.fileno())

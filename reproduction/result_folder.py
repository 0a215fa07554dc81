"""Result files of a folder, each read once."""

import json
from pathlib import Path
from typing import Any

from dpbandits.lab.study import Row

__all__ = ["ResultFolder"]


class ResultFolder:
    """Result files of a folder, each read once.

    Args:
        folder: Folder of the result files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._files = folder, dict[str, Any]()

    def rows(self, stem: str) -> list[Row]:
        """All rows of a file; none where it is not there."""
        if stem not in self._files:
            path = self._folder / f"{stem}.json"
            self._files[stem] = json.loads(path.read_text()) if path.exists() else []
        found: Any = self._files[stem]
        rows: list[Row] = found if isinstance(found, list) else []
        return rows

    def part(self, stem: str, name: str) -> list[Row]:
        """Rows under a name, of a file that compares all its cells; none where it is not there."""
        self.rows(stem)
        whole: Any = self._files[stem]
        rows: list[Row] = whole.get(name, []) if isinstance(whole, dict) else []
        return rows

    def row(self, stem: str, **where: Any) -> Row | None:
        """The row that has these values, if there is one."""
        return next(
            (row for row in self.rows(stem) if all(row.get(name) == value for name, value in where.items())),
            None,
        )

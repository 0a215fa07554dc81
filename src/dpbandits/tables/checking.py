"""`TableCheck` counts what would become of a table's cells: to test an integration on data made for it.

`Finding` says of one cell of one person which public rule of its column it breaks, and never shows a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._typing import BoolArray, IntArray
from dpbandits.tables.columns import Fate

if TYPE_CHECKING:
    from dpbandits.tables.columns import Column

__all__ = ["ColumnCheck", "Finding", "TableCheck"]

_RULES = {
    "finite numbers": {Fate.UNREADABLE: "is not a number", Fate.OUTSIDE: "is outside the declared range"},
    "dates or times": {
        Fate.UNREADABLE: "is not a date or time",
        Fate.OUTSIDE: "is outside the declared range",
    },
    "single values": dict.fromkeys((Fate.UNREADABLE, Fate.OUTSIDE), "is not one of the categories"),
}
"""Rules by `Column.expected` and by what became of the cell. They are fixed words."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A cell that cannot be read as it is.

    Attributes:
        column: its declared name.
        rule: which rule of the column it breaks, in fixed words, as "is not one of the categories".
        refused: whether it cannot be used. Otherwise a declared value is used instead: `missing`, `unknown`,
            or the nearer bound of a column with `clip`.
    """

    column: str
    rule: str
    refused: bool

    @classmethod
    def of(cls, name: str, column: "Column", fate: Fate) -> "Finding":
        """Build the finding about a cell that is not read as it is."""
        if fate is Fate.MISSING:
            return cls(column=name, rule="is missing", refused=column.missing is None)
        rule = _RULES[column.expected][fate]
        return cls(column=name, rule=rule, refused=fate is Fate.UNREADABLE or not column.clips)


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """How many cells of a column are not read as they are.

    Attributes:
        missing: None, NaN, NaT or NA.
        unreadable: of another type than the column's, or infinite.
        outside: numbers beyond the range, or categories that are not declared.
        clips: whether numbers beyond the range are moved to it.
    """

    missing: int
    unreadable: int
    outside: int
    clips: bool

    @classmethod
    def of(cls, fates: IntArray, *, clips: bool) -> "ColumnCheck":
        """From what becomes of each cell."""
        _, missing, unreadable, outside = np.bincount(fates, minlength=len(Fate)).tolist()
        return cls(missing=missing, unreadable=unreadable, outside=outside, clips=clips)

    def __str__(self) -> str:
        outside = "clipped" if self.clips else "outside"
        counts = {"missing": self.missing, "unreadable": self.unreadable, outside: self.outside}
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "all read"


@dataclass(frozen=True, kw_only=True)
class TableCheck:
    """Findings of `Schema.check`. It counts cells of the table: for data made to test with, not for people's.

    Attributes:
        rows: of the table.
        missing_rows: with a cell that cannot be used, or is not there and its column has no `missing`: they
            count as missing, or are refused.
        clipped_rows: the others with a number that is moved to its range.
        columns: by name.
    """

    rows: int
    missing_rows: int
    clipped_rows: int
    columns: Mapping[str, ColumnCheck]

    @classmethod
    def of(cls, columns: Mapping[str, "Column"], fates: Mapping[str, IntArray], *, rows: int) -> "TableCheck":
        """From what becomes of each cell, by column."""
        lost, moved = np.zeros(rows, dtype=np.bool_), np.zeros(rows, dtype=np.bool_)
        found = {}
        for name, column in columns.items():
            outside: BoolArray = fates[name] == Fate.OUTSIDE
            filled: BoolArray = (fates[name] == Fate.MISSING) & (column.missing is not None)
            lost |= (fates[name] != Fate.READ) & ~(outside & column.clips) & ~filled
            moved |= outside & column.clips
            found[name] = ColumnCheck.of(fates[name], clips=column.clips)
        return cls(
            rows=rows, missing_rows=int(lost.sum()), clipped_rows=int((moved & ~lost).sum()), columns=found
        )

    @property
    def sound(self) -> bool:
        """Return whether every row is read as it is."""
        return not (self.missing_rows or self.clipped_rows)

    def __str__(self) -> str:
        lines = [f"{self.rows} rows, {self.missing_rows} missing, {self.clipped_rows} clipped"]
        return "\n".join([*lines, *(f"- {name}: {column}" for name, column in self.columns.items())])

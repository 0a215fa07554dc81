"""`TableCheck`: counts of how a table's cells are read, to test an integration on made-up data.

`Finding` names the public rule of a column that one cell breaks. It never shows a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbandits._numpy import np
from dpbandits.tables.columns import Fate

if TYPE_CHECKING:
    from dpbandits._typing import BoolArray, IntArray
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
"""Texts of broken rules, by `Column.expected` and `Fate`.

They are fixed, so that they cannot show a value.
"""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A cell that cannot be used unchanged, and the rule that it breaks.

    Attributes:
        column: Name of the cell's column.
        rule: Rule of the column that the cell breaks, a fixed text such as "is not one of the categories".
        refused: True if the cell cannot be used. Otherwise a declared value replaces it: `missing`,
            `unknown`, or the nearer bound of a column with `clip`.
    """

    column: str
    rule: str
    refused: bool

    @classmethod
    def of(cls, name: str, column: Column, fate: Fate) -> Finding:
        """Return the finding for a cell of a column, from the cell's `Fate`."""
        if fate is Fate.MISSING:
            return cls(column=name, rule="is missing", refused=column.missing is None)
        rule = _RULES[column.expected][fate]
        return cls(column=name, rule=rule, refused=fate is Fate.UNREADABLE or not column.clips)


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """Numbers of a column's cells that cannot be used unchanged.

    Attributes:
        missing: Number of missing cells, such as None, NaN, NaT or NA.
        unreadable: Number of cells that are infinite or of another type than the column's.
        outside: Number of cells outside the range or the categories.
        clips: True if a declared value replaces a cell outside: the nearer bound, or `unknown`.
    """

    missing: int
    unreadable: int
    outside: int
    clips: bool

    @classmethod
    def of(cls, fates: IntArray, *, clips: bool) -> ColumnCheck:
        """Return the counts of a column from the `Fate` of each of its n cells, shape (n,)."""
        _, missing, unreadable, outside = np.bincount(fates, minlength=len(Fate)).tolist()
        return cls(missing=missing, unreadable=unreadable, outside=outside, clips=clips)

    def __str__(self) -> str:
        outside = "clipped" if self.clips else "outside"
        counts = {"missing": self.missing, "unreadable": self.unreadable, outside: self.outside}
        return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "all read"


@dataclass(frozen=True, kw_only=True)
class TableCheck:
    """Result of `Schema.check`: counts of a table's rows and cells.

    Privacy: The counts are not protected. They are meant for made-up test data.

    Attributes:
        rows: Number of the table's rows.
        missing_rows: Number of rows with a cell that cannot be used, or is missing in a column without
            `missing`. Such rows count as missing, or are refused.
        clipped_rows: Number of other rows with a cell outside that a declared value replaces.
        columns: Counts of each column, by name.
    """

    rows: int
    missing_rows: int
    clipped_rows: int
    columns: Mapping[str, ColumnCheck]

    @classmethod
    def of(cls, columns: Mapping[str, Column], fates: Mapping[str, IntArray], *, rows: int) -> TableCheck:
        """Return the counts of a table from the `Fate` of each cell, by column."""
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

    def refused(self, columns: Mapping[str, Column]) -> tuple[str, ...]:
        """Return the names of those of the declared columns that have cells that cannot be used."""
        return tuple(
            name
            for name, own in self.columns.items()
            if own.unreadable
            or (own.outside and not own.clips)
            or (own.missing and columns[name].missing is None)
        )

    @property
    def sound(self) -> bool:
        """True if every row can be used and no cell was clipped."""
        return not (self.missing_rows or self.clipped_rows)

    def __str__(self) -> str:
        lines = [f"{self.rows} rows, {self.missing_rows} missing, {self.clipped_rows} clipped"]
        return "\n".join([*lines, *(f"- {name}: {column}" for name, column in self.columns.items())])

"""`Schema`: public ranges and categories for every column of a table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self

from dpbandits._calls import worded
from dpbandits._checks import kind_of
from dpbandits._numpy import np
from dpbandits._reading import reading
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables.checking import TableCheck
from dpbandits.tables.columns import COLUMNS, Categories, Column
from dpbandits.tables.description import check_keys, columns_in, description_in, section_of
from dpbandits.tables.frames import read_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbandits._typing import FloatArray, IntArray
    from dpbandits.domains.product import Product
    from dpbandits.domains.protocol import Domain
    from dpbandits.tables.coded import Coded

__all__ = ["Schema"]


@worded
class Schema:
    """Public columns of a table, and the encoding of its rows as points.

    Ranges are scaled to [0, 1] by their declared bounds, and categories become their codes. Declare bounds
    and categories from public knowledge only: every guarantee rests on it. A minimum or a list of
    categories that is computed from the table reveals information about the people in it.

    Args:
        **columns: `Range(low, high)`, `Categories([...])`, `DateRange(first, last)` or `Cycle(period)` by
            name, in the order of the points' coordinates. For a name that is not an identifier write
            `Schema(**{"hours-per-week": Range(0, 100)})`.

    Raises:
        InvalidParameter: There are no columns, or a column has another type.

    Example:
        >>> from dpbandits.tables import Range
        >>> schema = Schema(age=Range(16, 64), region=Categories(["north", "south"]))
        >>> schema.encode({"age": [16, 40], "region": ["south", "north"]})
        array([[0. , 1. ], [0.5, 0. ]])
        >>> schema.domain
        Product(Box(low=[0.0], high=[1.0]), Arms(['north', 'south']))
    """

    __slots__ = ("_columns",)

    _columns: tuple[tuple[str, Column], ...]

    def __init__(self, **columns: Column) -> None:
        if not columns:
            raise InvalidParameter("a schema needs at least one column")
        for name, column in columns.items():
            if not isinstance(column, Column):
                raise InvalidParameter(
                    f"column {name!r} is {kind_of(column)}, expected Range(low, high), "
                    "Categories([...]), DateRange(first, last) or Cycle(period)"
                )
        self._columns = tuple(columns.items())

    @property
    def columns(self) -> dict[str, Column]:
        """Copy of the columns by name, in the order of the points' coordinates."""
        return dict(self._columns)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in order."""
        return tuple(name for name, _ in self._columns)

    @property
    def dim(self) -> int:
        """Number of a point's coordinates: two for a `Cycle`, one for any other column."""
        return sum(column.width for _, column in self._columns)

    @property
    def codes(self) -> dict[int, int]:
        """Number of categories, by the index of the coordinate that holds the category's code."""
        coordinates = [column for _, column in self._columns for _ in range(column.width)]
        return {
            place: len(column.values)
            for place, column in enumerate(coordinates)
            if isinstance(column, Categories)
        }

    @property
    def domain(self) -> Product:
        """Domain of encoded rows: unit boxes for columns of numbers, and `Arms` for categories."""
        from dpbandits.domains.product import Product

        return Product(*_parts(column for _, column in self._columns))

    def encode(self, frame: object, *, ignore_extra: bool = False) -> FloatArray:
        """Encode the rows of a table as points of `domain`.

        Args:
            frame: A pandas, polars or pyarrow table, or a mapping from names to one-dimensional sequences of
                equal length. The order of its columns does not matter.
            ignore_extra: Leave out columns that the schema does not declare. By default they are an error,
                so that a misspelt name cannot go unnoticed.

        Returns:
            Points (n, d), float64.

        Raises:
            InvalidData: The table lacks a column or has an extra one, or a cell is missing or outside the
                declared range or categories. The message names the column and never shows a value.
            MissingExtra: The table is a data frame and narwhals is not installed.
        """
        cells = self._cells(frame, ignore_extra=ignore_extra)
        return np.column_stack([column.encode(cells[name], name=name) for name, column in self._columns])

    def points(self, frame: object, *, ignore_extra: bool = False) -> FloatArray:
        """Encode n rows as `encode` does, shape (n, d).

        A row is NaN if `encode` would raise an error for one of its cells.

        Raises:
            InvalidData: The table lacks a column or has an extra one, or cannot be read.
            MissingExtra: The table is a data frame and narwhals is not installed.
        """
        cells = self._cells(frame, ignore_extra=ignore_extra)
        points = np.column_stack([column.points(cells[name]) for name, column in self._columns])
        points[np.isnan(points).any(axis=1)] = np.nan
        return points

    def point(self, record: Mapping[str, object]) -> list[float]:
        """Encode one record as `points` encodes a row of a table, without NumPy.

        Args:
            record: Cells by column name. A column without an entry is missing; further entries are ignored.

        Returns:
            The point's d coordinates: all NaN if `encode` would raise an error for one of the cells.

        Raises:
            InvalidData: The record is no mapping.

        Example:
            >>> from dpbandits.tables import Range
            >>> Schema(age=Range(16, 64), region=Categories(["north", "south"])).point(
            ...     {"age": "40", "region": "south"}
            ... )
            [0.5, 1.0]
        """
        if not isinstance(record, Mapping):
            raise InvalidData(f"a record is {kind_of(record)}, expected a mapping of column names to cells")
        found = [one for name, column in self._columns for one in column.point(record.get(name))]
        return [math.nan] * len(found) if any(map(math.isnan, found)) else found

    def check(self, frame: object, *, ignore_extra: bool = False) -> TableCheck:
        """Count by column how cells are read, to test an integration on made-up data.

        Privacy: The counts are not protected. Do not show them if the table holds users' data.

        Args:
            frame: Table, as for `encode`.
            ignore_extra: Leave out columns that the schema does not declare, as for `encode`.

        Raises:
            InvalidData: The table lacks a column or has an extra one, or cannot be read. No cell is refused.
            MissingExtra: The table is a data frame and narwhals is not installed.

        Example:
            >>> from dpbandits.tables import Range
            >>> people = Schema(age=Range(16, 64, clip=True), region=Categories(["north", "south"]))
            >>> found = people.check({"age": [16, 80, None], "region": ["south", "north", "mars"]})
            >>> found.sound, found.missing_rows, found.clipped_rows
            (False, 1, 1)
            >>> print(found)
            3 rows, 1 missing, 1 clipped
            - age: 1 missing, 1 clipped
            - region: 1 outside
        """
        fates = self.fates(frame, ignore_extra=ignore_extra)
        return TableCheck.of(self.columns, fates, rows=len(fates[self.names[0]]))

    def fates(self, frame: object, *, ignore_extra: bool = False) -> dict[str, IntArray]:
        """Return the `Fate` of each cell (n,), by column name. The errors are those of `check`."""
        cells = self._cells(frame, ignore_extra=ignore_extra)
        return {name: column.fates(np.asarray(cells[name])) for name, column in self._columns}

    def _cells(self, frame: object, *, ignore_extra: bool) -> dict[str, NDArray[Any] | Coded]:
        """Return the declared columns of a table, after checking that they have one length; see `encode`."""
        table = read_table(frame)
        missing = [name for name in self.names if name not in table.names]
        if missing:
            raise InvalidData(f"the table lacks the declared columns {missing}")
        declared = set(self.names)
        # The message counts them and does not name them: in a pivoted table, column names can be users.
        extra = sum(name not in declared for name in table.names)
        if extra and not ignore_extra:
            raise InvalidData(
                f"the table has {extra} columns that the schema does not declare: "
                "declare or drop them, or pass ignore_extra=True"
            )
        cells = {name: table.column(name) for name in self.names}
        if len(set(map(len, cells.values()))) != 1:
            raise InvalidData("the columns of the table have different lengths")
        return cells

    def to_config(self) -> dict[str, Any]:
        """Return the schema as a JSON-ready dictionary."""
        columns = [{"name": name, **column.to_config()} for name, column in self._columns]
        return {"type": "Schema", "columns": columns}

    @classmethod
    @reading("the configuration of a schema")
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Rebuild a schema from `to_config()`."""
        if config.get("type") != "Schema" or not isinstance(config.get("columns"), list):
            raise InvalidParameter("a schema's configuration needs 'type': 'Schema' and a list of 'columns'")
        columns = [dict(column) for column in config["columns"]]
        named = {column.pop("name"): COLUMNS.read(column) for column in columns}
        if len(named) != len(columns):
            raise InvalidParameter("two columns of the schema have the same name")
        return cls(**named)

    def to_toml(self) -> str:
        """Return the columns as TOML text, which `from_toml` reads and a table's description may contain."""
        return "\n\n".join(section_of(name, column) for name, column in self._columns) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Read a schema from TOML text in the format of `dpbandits.tables.description`.

        Raises:
            InvalidParameter: The text is a file's name or not TOML, lacks a key, has an unknown key, or
                contradicts itself.

        Example:
            >>> Schema.from_toml('''
            ... [columns.age]
            ... low = 16
            ... high = 64
            ... missing = 40
            ... ''')
            Schema(age=Range(low=16.0, high=64.0, clip=False, missing=40.0))
        """
        if not isinstance(text, str):
            raise InvalidParameter(
                f"text is a {type(text).__name__}, expected the text of a TOML file: pass "
                "Path(...).read_text()"
            )
        if text.endswith(".toml") and "\n" not in text:
            raise InvalidParameter("text is a file's name, expected its text: pass Path(...).read_text()")
        description = description_in(text, "the text")
        check_keys(description, "the text (columns only)", required={"columns"})
        return cls(**columns_in(description))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self._columns == other._columns

    def __hash__(self) -> int:
        return hash((Schema, self._columns))

    def __repr__(self) -> str:
        return f"Schema({', '.join(f'{name}={column!r}' for name, column in self._columns)})"


def _parts(columns: Iterator[Column]) -> Iterator[Domain]:
    from dpbandits.domains.box import Box

    for are_codes, run in groupby(columns, key=lambda column: isinstance(column, Categories)):
        members = list(run)
        if not are_codes:
            dim = sum(column.width for column in members)
            yield Box(low=np.zeros(dim), high=np.ones(dim))
        else:
            yield from (column.arms for column in members if isinstance(column, Categories))

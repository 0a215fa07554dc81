"""`Schema`: the one way a table gets in, with public ranges and categories for every column."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits._calls import worded
from dpbandits._checks import kind_of
from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains.box import Box
from dpbandits.domains.product import Product
from dpbandits.domains.protocol import Domain
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables.checking import TableCheck
from dpbandits.tables.coded import Coded
from dpbandits.tables.columns import COLUMNS, Categories, Column
from dpbandits.tables.description import check_keys, columns_in, description_in, section_of
from dpbandits.tables.frames import read_table

__all__ = ["Schema"]


@worded
class Schema:
    """Public columns of a table, and the encoding of its rows as points.

    Ranges are scaled to [0, 1] by their declared bounds and categories become their codes. The
    bounds are part of every guarantee that follows: they must be known without the data (a
    minimum or a list of categories computed from the table tells about the people in it).

    Args:
        **columns: name = `Range(low, high)`, `Categories([...])`, `DateRange(first, last)` or
            `Cycle(period)`, in the order of the points' columns. Names that are no identifiers:
            `Schema(**{"hours-per-week": Range(0, 100)})`.

    Raises:
        InvalidParameter: no columns, or a column that is none of these.

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
        """Name -> declaration, in the order of the points' columns (a copy)."""
        return dict(self._columns)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(name for name, _ in self._columns)

    @property
    def dim(self) -> int:
        """Coordinates of a point: one a column, two of a `Cycle`."""
        return sum(column.width for _, column in self._columns)

    @property
    def codes(self) -> dict[int, int]:
        """Coordinates that are codes, and of how many categories each."""
        coordinates = [column for _, column in self._columns for _ in range(column.width)]
        return {
            place: len(column.values)
            for place, column in enumerate(coordinates)
            if isinstance(column, Categories)
        }

    @property
    def domain(self) -> Product:
        """Where encoded rows live: unit boxes (neighbouring ranges share one) and arms."""
        return Product(*_parts(column for _, column in self._columns))

    def encode(self, frame: object, *, ignore_extra: bool = False) -> FloatArray:
        """Rows of a table as points of `domain`.

        Args:
            frame: a pandas, polars or pyarrow table, or a mapping from names to equally long
                one-dimensional sequences. The order of its columns does not matter.
            ignore_extra: leave out columns that the schema does not declare; without it they
                are refused, as a misspelt name would otherwise go unnoticed.

        Returns:
            (n, d) float64.

        Raises:
            InvalidData: a missing or extra column, a missing value, a value outside the declared
                range or categories. The message names the column and never shows a value.
            MissingExtra: a data frame came and narwhals is not installed.
        """
        cells = self._cells(frame, ignore_extra=ignore_extra)
        return np.column_stack([column.encode(cells[name], name=name) for name, column in self._columns])

    def points(self, frame: object, *, ignore_extra: bool = False) -> FloatArray:
        """The same (n, d), with a row of NaN for each in which `encode` would refuse a cell.

        Raises:
            InvalidData: a missing or extra column, or no table.
            MissingExtra: a data frame came and narwhals is not installed.
        """
        cells = self._cells(frame, ignore_extra=ignore_extra)
        points = np.column_stack([column.points(cells[name]) for name, column in self._columns])
        points[np.isnan(points).any(axis=1)] = np.nan
        return points

    def check(self, frame: object, *, ignore_extra: bool = False) -> TableCheck:
        """What would become of each cell, counted by column: to test an integration on data made for it.

        Never with people's data where somebody sees what it finds: it counts them.

        Args:
            frame, ignore_extra: as for `encode`.

        Raises:
            InvalidData: a missing or extra column, or no table; no cell is refused.
            MissingExtra: a data frame came and narwhals is not installed.

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
        """Column -> (n,) the `Fate` of each of its cells. Raises as `check`."""
        cells = self._cells(frame, ignore_extra=ignore_extra)
        return {name: column.fates(np.asarray(cells[name])) for name, column in self._columns}

    def _cells(self, frame: object, *, ignore_extra: bool) -> dict[str, NDArray[Any] | Coded]:
        """The declared columns of a table, of one length; see `encode`."""
        table = read_table(frame)
        missing = [name for name in self.names if name not in table.names]
        if missing:
            raise InvalidData(f"the table lacks the declared columns {missing}")
        declared = set(self.names)
        # Counted, not named: the columns of a pivoted table can be people.
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
        """JSON-ready description."""
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
            raise InvalidParameter("two columns of the schema have one name")
        return cls(**named)

    def to_toml(self) -> str:
        """The columns as a file that `from_toml` reads, and `dpbandits run` as part of a description."""
        return "\n\n".join(section_of(name, column) for name, column in self._columns) + "\n"

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """Columns as a TOML text declares them; for the format see `dpbandits.tables.description`.

        Raises:
            InvalidParameter: no TOML, the name of a file, or it lacks, misspells or contradicts something.

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
                f"a {type(text).__name__}, expected the text of a TOML file: pass Path(...).read_text()"
            )
        if text.endswith(".toml") and "\n" not in text:
            raise InvalidParameter("the name of a file, expected its text: pass Path(...).read_text()")
        description = description_in(text, "the text")
        check_keys(description, "the text (of columns alone)", required={"columns"})
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
    for are_codes, run in groupby(columns, key=lambda column: isinstance(column, Categories)):
        members = list(run)
        if not are_codes:
            dim = sum(column.width for column in members)
            yield Box(low=np.zeros(dim), high=np.ones(dim))
        else:
            yield from (column.arms for column in members if isinstance(column, Categories))

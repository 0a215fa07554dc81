"""Readers of tables, data frames and files. No other package reads them.

- `Schema(**columns)` declares public columns: `Range(low, high)`, `Categories([...])`,
  `DateRange(first, last)` and `Cycle(period)`. It encodes the rows of a data frame as points. A column's
  `missing=` replaces missing values. `Schema.from_toml` reads a schema from text.
- `Actions(schema, value=)` declares a grid of numbers to choose from; `values` has named values of an
  action, and `bounds` named bounds.
- `Products(table, columns=, name=)` reads arms with public features.
- `Schema.check(frame)` counts in a `TableCheck` how the cells of test data are read.
- `files` reads delimited text, Parquet and Arrow in blocks. Columns other than numbers become
  `coded.Coded`: distinct values, and the place of each row's value among them.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy
from dpbandits.tables.checking import ColumnCheck, TableCheck
from dpbandits.tables.columns import Categories, Ordered, Range
from dpbandits.tables.dates import Cycle, DateRange
from dpbandits.tables.schema import Schema

if TYPE_CHECKING:
    from dpbandits.tables import bounds, values
    from dpbandits.tables.actions import Actions
    from dpbandits.tables.products import Products

__all__ = [
    "Actions",
    "Categories",
    "ColumnCheck",
    "Cycle",
    "DateRange",
    "Ordered",
    "Products",
    "Range",
    "Schema",
    "TableCheck",
    "bounds",
    "values",
]

# What is imported above needs no NumPy.
__getattr__, __dir__ = lazy(
    __name__, {"dpbandits.tables.actions": ["Actions"], "dpbandits.tables.products": ["Products"]}
)

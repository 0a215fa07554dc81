"""The only way a table, a DataFrame or a file gets in.

- `Schema(**columns)` of `Range(low, high)` and `Categories([...])`: public columns, and points from frames.
- `Schema.check(frame)` gives a `TableCheck`: what would become of the cells of test data, counted.
- `files`: delimited text and Parquet, read once and checked.
"""

from dpbandits.tables.checking import ColumnCheck, TableCheck
from dpbandits.tables.columns import Categories, Range
from dpbandits.tables.schema import Schema

__all__ = ["Categories", "ColumnCheck", "Range", "Schema", "TableCheck"]

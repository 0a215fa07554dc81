"""The only way a table, a DataFrame or a file gets in.

- `Schema(**columns)` of `Range(low, high)` and `Categories([...])`: public columns, and points from frames.
- `files`: delimited text and Parquet, read once and checked.
"""

from dpbandits.tables.columns import Categories, Range
from dpbandits.tables.schema import Schema

__all__ = ["Categories", "Range", "Schema"]

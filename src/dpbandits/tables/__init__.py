"""The only way a table, a DataFrame or a file gets in.

- `Schema(**columns)` of `Range(low, high)`, `Categories([...])`, `DateRange(first, last)` and
  `Cycle(period)`: public columns, and points from frames;
  `missing=` of a column says what stands where a value is missing; `Schema.from_toml` reads them from text.
- `Schema.check(frame)` gives a `TableCheck`: what would become of the cells of test data, counted.
- `files`: delimited text, Parquet and Arrow, read in blocks and checked; columns that are no numbers come as
  `coded.Coded`, by their different values.
"""

from dpbandits._lazy import lazy
from dpbandits.tables.checking import ColumnCheck, TableCheck
from dpbandits.tables.columns import Categories, Range
from dpbandits.tables.dates import Cycle, DateRange
from dpbandits.tables.schema import Schema

__all__ = ["Categories", "ColumnCheck", "Cycle", "DateRange", "Range", "Schema", "TableCheck"]

__getattr__, __dir__ = lazy(__name__)

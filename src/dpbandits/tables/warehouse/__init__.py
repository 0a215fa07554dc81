"""Tables where they are: files, databases and data frames that an engine reads.

- `source_of(where)` opens a table as a `Source`: a path or glob of CSV, TSV (also .gz), Parquet or Arrow
  files, `duckdb:///shop.db?table=log`, `postgresql://host/shop?table=log`, a data frame, or an Ibis table.
- `DuckSource` is a table that DuckDB reads inside this process.

A `Source` answers one SELECT statement at a time with small arrays of integers. No cell appears in an error.
"""

from dpbandits._lazy import lazy
from dpbandits.tables.warehouse.duck import DuckSource
from dpbandits.tables.warehouse.source import Source, source_of

__all__ = ["DuckSource", "Source", "source_of"]

__getattr__, __dir__ = lazy(__name__)

"""`PublicScaling`: from a table's columns to public coordinates, by declared bounds only.

Every column's declared range is mapped onto [-half_width, half_width], so that all rows lie in a cube
around 0 whose corners are `RADIUS` away from it: distances between rows are at most 2 * RADIUS = 50, as
in Kharkovskii2020's experiments. `RowDP.distance` is in these units: distance 1 is a fiftieth of the cube's
diagonal, and moves one column by sqrt(d)/50 of its declared range.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables import Range, Schema

__all__ = ["RADIUS", "PublicScaling"]

RADIUS = 25.0


@dataclass(frozen=True)
class PublicScaling:
    """The public transform of a schema whose columns are all ranges.

    Raises:
        InvalidParameter: the schema has categories, which have no distance.

    Example:
        >>> scaling = PublicScaling(Schema(age=Range(20, 70), income=Range(0, 100_000)))
        >>> scaling.to_public({"age": [45, 70], "income": [50_000, 0]}).round(3).tolist()
        [[0.0, 0.0], [17.678, -17.678]]
    """

    schema: Schema

    def __post_init__(self) -> None:
        others = [name for name, column in self.schema.columns.items() if not isinstance(column, Range)]
        if others:
            raise InvalidParameter(
                f"columns {others} are categories: a row's position needs distances, declare ranges only"
            )

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.schema.dim

    @property
    def half_width(self) -> float:
        """Half the side of the public cube."""
        return RADIUS / math.sqrt(self.dim)

    def to_public(self, table: object) -> FloatArray:
        """(n, d) public coordinates of a table's rows.

        Raises:
            InvalidData: missing or null values, values outside the declared range (unless it clips), no
                rows, or a constant column.
        """
        points = (2.0 * self.schema.encode(table, ignore_extra=True) - 1.0) * self.half_width
        if len(points) < 2:
            raise InvalidData(f"the table has {len(points)} rows, a release needs at least two")
        constant = [
            name for name, column in zip(self.schema.names, points.T, strict=True) if np.ptp(column) == 0
        ]
        if constant:
            raise InvalidData(f"columns {constant} are constant in this table: leave them out of the schema")
        return points

    def to_config(self) -> dict[str, Any]:
        """JSON-ready public description; with the columns' ranges it gives the coordinates back."""
        return {
            "type": "cube",
            "radius": RADIUS,
            "half_width": self.half_width,
            "schema": self.schema.to_config(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "PublicScaling":
        """Rebuild from `to_config()`.

        Raises:
            InvalidParameter: not such a configuration.
        """
        if config.get("type") != "cube" or config.get("radius") != RADIUS:
            raise InvalidParameter(f"expected the configuration of a cube of radius {RADIUS:g}")
        return cls(Schema.from_config(config["schema"]))

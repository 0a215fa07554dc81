"""From a table to noised rows: `TableRows` reads it once and draws, `PublicScaling` knows the scale.

Every column's declared range is mapped onto [-half_width, half_width], so that all rows lie in a cube
around 0 whose corners are `RADIUS` away from it: distances between rows are at most 2 * RADIUS = 50, as
in Kharkovskii2020's experiments. `RowDP.distance` is in these units: distance 1 is a fiftieth of the cube's
diagonal, and moves one column by sqrt(d)/50 of its declared range.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.policy.owners import Owners, first_rows
from dpbandits.privacy.noise import NoiseSource, words_of
from dpbandits.privacy.rows import RowMechanism
from dpbandits.privacy.words import Words
from dpbandits.tables import DateRange, Range, Schema
from dpbandits.tables.frames import Table, read_table

__all__ = ["RADIUS", "Drawn", "PublicScaling", "TableRows"]

RADIUS = 25.0

Drawn = tuple[Mapping[str, NDArray[Any]], list[str] | None]
"""inputs (n, d) noised rows, table_rows (n,) the table's row behind each, column (n,) answers where a column
has them; and the rows' own ids, or None where these are their places in the table."""


@dataclass(frozen=True)
class PublicScaling:
    """The public transform of a schema whose columns are all ranges.

    Raises:
        InvalidParameter: the schema has categories or cycles, which have no distance.

    Example:
        >>> scaling = PublicScaling(Schema(age=Range(20, 70), income=Range(0, 100_000)))
        >>> scaling.to_public({"age": [45, 70], "income": [50_000, 0]}).round(3).tolist()
        [[0.0, 0.0], [17.678, -17.678]]
    """

    schema: Schema

    def __post_init__(self) -> None:
        _checks.an(self.schema, Schema, name="schema", pass_="contexts=Schema(age=Range(18, 90))")
        ranges = Range, DateRange
        others = [name for name, column in self.schema.columns.items() if not isinstance(column, ranges)]
        if others:
            raise InvalidParameter(
                f"columns {others} are categories or cycles: a row's position needs distances, declare "
                "ranges only"
            )

    @property
    def dim(self) -> int:
        """Number of columns."""
        return self.schema.dim

    @property
    def half_width(self) -> float:
        """Half the side of the public cube."""
        return RADIUS / math.sqrt(self.dim)

    def in_columns(self, distance: float) -> dict[str, float]:
        """How far a distance of the public coordinates is along each column alone, in its unit (dates: days).

        >>> scaling = PublicScaling(Schema(age=Range(20, 70), income=Range(0, 100_000)))
        >>> {name: round(value, 1) for name, value in scaling.in_columns(1.0).items()}
        {'age': 1.4, 'income': 2828.4}
        """
        share = distance / (2.0 * self.half_width)
        return {
            name: share * column.span
            for name, column in self.schema.columns.items()
            if isinstance(column, Range | DateRange)
        }

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
        scale = {"type": "cube", "radius": RADIUS, "half_width": self.half_width}
        return scale | {"schema": self.schema.to_config()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "PublicScaling":
        """Rebuild from `to_config()`.

        Raises:
            InvalidParameter: not such a configuration.
        """
        if config.get("type") != "cube" or config.get("radius") != RADIUS:
            raise InvalidParameter(f"expected the configuration of a cube of radius {RADIUS:g}")
        return cls(Schema.from_config(config["schema"]))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TableRows:
    """What a curator takes from a table, in the table's order. Raw: it never leaves.

    Attributes:
        points: (n, d) rows in public coordinates.
        answers: (n,) finite answers, if a column has them.
        ids: the rows' own ids as text, all different, if a column has them; see `_checks.person`.
    """

    points: FloatArray
    answers: FloatArray | None
    ids: list[str] | None

    @classmethod
    def read(
        cls,
        table: object,
        *,
        scaling: PublicScaling,
        answers: str | None = None,
        ids: str | None = None,
        user: str | None = None,
        rows_per_user: int = 1,
    ) -> "TableRows":
        """Read and check a data frame or a mapping of columns.

        Args:
            table: the table.
            scaling: of the columns that are released.
            answers, ids: columns of answers and of the rows' own ids.
            user: column of the person whose row it is; a person's rows after the first `rows_per_user` are
                left out.
            rows_per_user: a public number.

        Raises:
            InvalidData: see `PublicScaling.to_public`; or answers are missing or no finite numbers; or an id
                is missing, a float or the like, or the same row's as another; or a row is nobody's.
        """
        frame = read_table(table, gaps=True)  # its columns say whether
        named = {name: frame.column(name) for name in scaling.schema.names if name in frame.names}
        points = scaling.to_public(named)
        found = None if answers is None else _answers(frame, answers, len(points))
        own = None if ids is None else _ids(frame, ids, len(points))
        if user is None:
            return cls(points=points, answers=found, ids=own)
        if user not in frame.names:
            raise InvalidData(f"the table lacks the column {user!r} of the persons")
        kept = first_rows(Owners.of(frame.column(user), count=len(points)).numbers, rows_per_user)
        return cls(
            points=points[kept],
            answers=None if found is None else found[kept],
            ids=None
            if own is None
            else [one for one, stays in zip(own, kept.tolist(), strict=True) if stays],
        )

    def digest(self, salt: bytes) -> str:
        """Keyed digest of all that was read, slow so that guesses cost: it tells another table."""
        own = hashlib.sha256(json.dumps([self.points.shape, self.ids]).encode())
        for values in (self.points, self.answers):
            own.update(b"" if values is None else np.ascontiguousarray(values).tobytes())
        return hashlib.pbkdf2_hmac("sha256", own.digest(), salt, 100_000).hex()

    def draw(self, mechanism: RowMechanism, noise: NoiseSource) -> Drawn:
        """The rows shuffled and noised: the one place where a table meets noise. Fresh at every call."""
        order = _permutation(len(self.points), words_of(noise, stream=3))
        drawn = {"inputs": mechanism.privatize(self.points[order], noise), "table_rows": order}
        return drawn if self.answers is None else drawn | {"column": self.answers}, self.ids


def _answers(frame: Table, name: str, n: int) -> FloatArray:
    if name not in frame.names:
        raise InvalidData(f"the table lacks the objective's column {name!r}")
    try:
        values = np.asarray(frame.column(name).tolist(), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"the objective's column {name!r} holds something else than numbers") from None
    if values.shape != (n,) or not np.isfinite(values).all():
        raise InvalidData(f"the objective's column {name!r} has missing or infinite values: drop these rows")
    return values


def _ids(frame: Table, name: str, n: int) -> list[str]:
    if name not in frame.names:
        raise InvalidData(f"the table lacks the id column {name!r}")
    column = frame.column(name)
    if len(column) != n:
        raise InvalidData("the id column has another length than the table")
    values = [_checks.person(value, name=f"the id column {name!r}") for value in column.tolist()]
    if len(set(values)) != n:
        raise InvalidData(f"the id column {name!r} has duplicates: each row needs its own id")
    return values


def _permutation(n: int, words: Words) -> IntArray:
    """A uniformly random order: sorts random words, drawn again on a tie."""
    while True:
        keys = words(n)
        order = np.argsort(keys)
        if not (np.diff(keys[order].view(np.int64)) == 0).any():
            return order.astype(np.int64)

"""Public coordinates of rows (`PublicScaling`), and the raw rows of a table (`TableRows`).

Every column's declared range is mapped to [-half_width, half_width]. All rows then lie in a cube around 0
whose corners have distance `RADIUS` from 0. Distances between rows are at most 2 * RADIUS = 50, as in the
experiments of Kharkovskii2020. `RowDP.distance` is in these units: with d columns, distance 1 is a fiftieth
of the cube's diagonal, or sqrt(d)/50 of one column's declared range.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._cells import numbers_of
from dpbandits._memory import FLOAT, memory_limit
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.noise import NoiseSource, words_of
from dpbandits.privacy.rows import RowMechanism
from dpbandits.privacy.words import Words
from dpbandits.tables import DateRange, Range, Schema
from dpbandits.tables.files import read_table_file
from dpbandits.tables.frames import Table, read_table
from dpbandits.tables.owners import Owners, first_rows
from dpbandits.tables.warehouse.source import is_database

_COPIES = 8
"""Number of copies of the coordinates for which a release needs memory, with those of noise and of ids."""

__all__ = ["RADIUS", "Drawn", "PublicScaling", "TableRows"]

RADIUS = 25.0
"""Distance of the public cube's corners from its centre."""

Drawn = tuple[Mapping[str, NDArray[Any]], list[str | None] | None]
"""Arrays of a release, and the rows' own ids (None if their places in the table are the ids).

The arrays are `inputs` (n, d), the rows with noise, and `table_rows` (n,), their places in the table. If a
column holds answers, `column` (n,) has them.
"""


@dataclass(frozen=True)
class PublicScaling:
    """Public transform of the columns of a schema, which must all be ranges, to coordinates.

    Raises:
        InvalidParameter: the schema has categories or cycles, for which no distance is defined.

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
                f"contexts: columns {others} are categories or cycles, and a row's position needs distances: "
                "declare ranges only"
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
        """Return the change of each column alone that has the given distance, in the column's unit (days for
        dates).

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
        """Return the public coordinates of a table's rows, shape (n, d); rows that cannot be read are NaN.

        Raises:
            InvalidData: the table lacks a column, or has fewer than two rows.
        """
        points = (2.0 * self.schema.points(table, ignore_extra=True) - 1.0) * self.half_width
        if len(points) < 2:
            raise InvalidData(f"the table has {len(points)} rows, a release needs at least two")
        return points

    def to_config(self) -> dict[str, Any]:
        """Return the public description for JSON, from which coordinates can be turned back into columns."""
        scale = {"type": "cube", "radius": RADIUS, "half_width": self.half_width}
        return scale | {"schema": self.schema.to_config()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "PublicScaling":
        """Rebuild a scaling from `to_config()`.

        Raises:
            InvalidParameter: the argument is not the configuration of a scaling.
        """
        if config.get("type") != "cube" or config.get("radius") != RADIUS:
            raise InvalidParameter(f"expected the configuration of a cube of radius {RADIUS:g}")
        return cls(Schema.from_config(config["schema"]))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class TableRows:
    """Rows of a table as a curator reads them, in the table's order. They are raw data.

    Attributes:
        points: Rows in public coordinates, shape (n, d); 0, the centre, for a row that cannot be read.
        answers: Answers (n,) if a column holds them, NaN for a missing answer; else None.
        ids: The n rows' own ids as text if a column holds them, with None for a row without its own id; see
            `_checks.person`.
        unreadable: Number of rows that are released like the centre.
    """

    points: FloatArray
    answers: FloatArray | None
    ids: list[str | None] | None
    unreadable: int = 0

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
        """Read and check a table.

        Args:
            table: Data frame, mapping of columns, or a table that `read_table_file` reads.
            scaling: Scaling of the columns that are released.
            answers, ids: Names of the columns of answers and of the rows' own ids.
            user: Name of the column with the person to whom a row belongs. A person's rows after the first
                `rows_per_user` are left out.
            rows_per_user: Largest number of a person's rows, a public number.

        Every other row is released, whatever it contains. A row with an unreadable cell is released like the
        centre. The evaluation of a row fails if its answer is no finite number, or if its id is missing or
        shared with another row. Rows whose person has no id are left out.

        A database has no order of rows, and its own may depend on other people's rows. So the rows of a
        database are sorted, and the same table is recognised when it is read again. With `user`, the order is
        that of the ids as texts, and rows without their own id are left out. Which of a person's rows count
        then depends on no position or answer: otherwise a small move of one row could replace another.

        Raises:
            InvalidData: the table lacks a column, has fewer than two rows, or more than fit into memory.
            InvalidParameter: the table is in a database, and neither `answers` nor `ids` is given; or
                the column that says which rows are released is a context or has the answers.
            DataUnavailable: the table cannot be read.
        """
        schema, unordered = scaling.schema, is_database(table)
        chosen_by = set(filter(None, [user, ids if unordered and user is not None else None]))
        if moving := sorted(chosen_by & {*schema.names, answers}):
            raise InvalidParameter(
                f"columns {moving} say whose a row is or which rows of a person count, so they cannot be "
                "contexts or answers too: a small move of one row would replace another"
            )
        if unordered and answers is None and ids is None:
            raise InvalidParameter(
                "rows of a database have no places: pass ids=, the name of the column of the rows' own ids, "
                "or objective=, that of answers"
            )
        if unordered and user is not None and ids is None:
            raise InvalidParameter(
                "user= leaves rows out, and a database has no order of rows: pass ids=, the name of the "
                "column of the rows' own ids, whose order says which rows of a person count"
            )
        if unordered or isinstance(table, str | PathLike):
            kinds: dict[str, type] = {name: column.kind for name, column in schema.columns.items()}
            kinds |= dict.fromkeys(filter(None, [answers]), float) | dict.fromkeys(
                filter(None, [ids, user]), str
            )
            table = read_table_file(
                table,
                kinds,
                gaps=kinds,
                words={name: column.words for name, column in schema.columns.items()},
                most_rows=memory_limit() // (_COPIES * int(FLOAT) * schema.dim),
            )
        frame = read_table(table)
        named = {name: frame.column(name) for name in scaling.schema.names if name in frame.names}
        points = scaling.to_public(named)
        unknown: BoolArray = np.asarray(np.isnan(points).any(axis=1))
        points[unknown] = 0.0
        found = None if answers is None else _answers(frame, answers, len(points))
        own = None if ids is None else _ids(frame, ids, len(points))
        if user is None and not unordered:
            return cls(points=points, answers=found, ids=own, unreadable=int(unknown.sum()))
        kept: IntArray = _sorted(points, found, own) if unordered else np.arange(len(points))
        if user is not None:
            owners = Owners.of(_column(frame, user, "of the persons", len(points)), count=len(points))
            numbers = owners.numbers
            if unordered and own is not None:
                numbers = np.where([one is None for one in own], -1, numbers)
            kept = kept[first_rows(numbers[kept], rows_per_user)]
        return cls(
            points=points[kept],
            answers=None if found is None else found[kept],
            ids=None if own is None else list(map(own.__getitem__, kept.tolist())),
            unreadable=int(unknown[kept].sum()),
        )

    def digest(self, salt: bytes) -> str:
        """Return a keyed digest that identifies the table; it is slow, so that guesses are costly."""
        own = hashlib.sha256(json.dumps([self.points.shape, self.ids]).encode())
        for values in (self.points, self.answers):
            own.update(b"" if values is None else np.ascontiguousarray(values).tobytes())
        return hashlib.pbkdf2_hmac("sha256", own.digest(), salt, 100_000).hex()

    def draw(self, mechanism: RowMechanism, noise: NoiseSource) -> Drawn:
        """Return the rows shuffled and with fresh noise. Noise is added to the table only here."""
        order = _permutation(len(self.points), words_of(noise, stream=3))
        drawn = {"inputs": mechanism.privatize(self.points[order], noise), "table_rows": order}
        return drawn if self.answers is None else drawn | {"column": self.answers}, self.ids


def _sorted(points: FloatArray, answers: FloatArray | None, ids: list[str | None] | None) -> IntArray:
    """Return the order of the rows (n,) by their ids, and of rows without ids by a number of their cells.

    The number is a sum of products modulo 2^64. Rows with the same number are sorted by their cells.
    """
    cells = points if answers is None else np.column_stack([points, answers])
    factors = (2 * np.arange(cells.shape[1], dtype=np.uint64) + 1) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (cells + 0.0).view(np.uint64) @ factors  # + 0.0: zero has two signs
    order: IntArray = np.argsort(mixed, kind="stable")
    equal = np.diff(mixed[order]) == 0
    shared = np.append(equal, False) | np.append(False, equal)  # rows whose number others have, too
    rows = order[shared]
    order[shared] = rows[np.lexsort((*cells[rows].T, mixed[rows]))]
    if ids is None:
        return order
    names = np.array([ids[row] or "" for row in order.tolist()], dtype=np.object_)
    return np.asarray(order[np.argsort(names, kind="stable")])


def _column(frame: Table, name: str, role: str, n: int) -> Any:
    if name not in frame.names:
        raise InvalidData(f"the table lacks the column {name!r} {role}")
    column = frame.column(name)
    if len(column) != n:
        raise InvalidData(f"the column {name!r} {role} has another length than the table")
    return column


def _answers(frame: Table, name: str, n: int) -> FloatArray:
    values = numbers_of(np.asarray(_column(frame, name, "of answers", n)))
    return np.where(np.isfinite(values), values, np.nan)


def _ids(frame: Table, name: str, n: int) -> list[str | None]:
    owners = Owners.of(_column(frame, name, "of ids", n), count=n)
    shared = np.append(np.bincount(owners.numbers[owners.named], minlength=len(owners.texts)) > 1, True)
    return [
        None if unusable else owners.texts[number]
        for number, unusable in zip(owners.numbers.tolist(), shared[owners.numbers].tolist(), strict=True)
    ]


def _permutation(n: int, words: Words) -> IntArray:
    """Return a uniformly random order of n rows, by sorting random words, which are drawn again in a tie."""
    while True:
        keys = words(n)
        order = np.argsort(keys)
        if not (np.diff(keys[order].view(np.int64)) == 0).any():
            return order.astype(np.int64)

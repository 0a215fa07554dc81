"""`Segments`: parts of the users along a column, with their shares and believed mean rewards of arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import RewardRange
from dpbandits.errors import InvalidParameter
from dpbandits.lab.planning.believed import Between, by_label, finite
from dpbandits.tables import Schema
from dpbandits.tables.columns import Categories, Range
from dpbandits.tables.description import check_keys

__all__ = ["Segments"]

_LEAST_PEOPLE = 0.005
"""Smallest share of all users in a segment."""

_LEAST_LENGTH = 1e-6
"""Smallest length of a segment, as a share of the column's range."""

_OFF = 0.02
"""Largest difference between 1 and the sum of the segments' shares of users, which may be rounded."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Segments:
    """Parts of the users along one column: its categories, or intervals of its range.

    There are S segments and K arms.

    Attributes:
        column: Number of the column.
        at: First coordinate of the column in a context.
        edges: Edges between segments, increasing, in (0, 1), shape (S - 1,); None for categories.
        people: Shares of the users, with sum 1, shape (S,).
        rates: Believed mean reward of every arm in every segment, shape (S, K); None if unknown.
    """

    column: int
    at: int
    edges: FloatArray | None
    people: FloatArray
    rates: tuple[tuple[Between, ...], ...] | None

    @classmethod
    def all_in(
        cls, said: object, schema: Schema, labels: Sequence[str], bounds: RewardRange, *, room: float
    ) -> tuple[Self, ...]:
        """Return the segments of all columns in `said`, a mapping from column name to section.

        Raises:
            InvalidParameter: A section of a column is malformed or contradicts the schema.
        """
        if not isinstance(said, Mapping):
            raise InvalidParameter("segments: expected a mapping from a column's name to its section")
        check_keys(said, "segments", required=set(), optional=set(schema.names))
        widths = np.cumsum([0, *(column.width for column in schema.columns.values())])
        between = bounds.low + room, bounds.high - room
        found = []
        for number, (name, column) in enumerate(schema.columns.items()):
            if name not in said:
                continue
            where, section = f"segments.{name}", said[name]
            if not isinstance(column, Range | Categories):
                raise InvalidParameter(f"{where}: only columns of numbers or categories have segments")
            if not isinstance(section, Mapping):
                raise InvalidParameter(f"{where}: expected a section with people, until and rates")
            required = {"people"} | ({"until"} if isinstance(column, Range) else set())
            check_keys(section, where, required=required, optional={"rates"})
            edges = _edges(section["until"], column, where) if isinstance(column, Range) else None
            count = len(column.values) if isinstance(column, Categories) else len(section["until"]) + 1
            rates = None
            if "rates" in section:
                rows = by_label(section["rates"], labels, name=f"{where}.rates")
                cells = [
                    [
                        Between.of(one, name=f"{where}.rates of {label}", low=between[0], high=between[1])
                        for one in _listed(row, count, f"{where}.rates of {label}")
                    ]
                    for label, row in rows.items()
                ]
                rates = tuple(zip(*cells, strict=True))
            found.append(
                cls(
                    column=number,
                    at=int(widths[number]),
                    edges=edges,
                    people=_parts(section["people"], count, where),
                    rates=rates,
                )
            )
        return tuple(found)

    def to_config(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary of the segments' properties on which simulated worlds depend."""
        rates = None if self.rates is None else [[list(cell) for cell in row] for row in self.rates]
        edges = None if self.edges is None else self.edges.tolist()
        return {"column": self.column, "edges": edges, "people": self.people.tolist(), "rates": rates}

    def least_best(self) -> float:
        """Return a lower bound of the mean reward over all users if every segment gets its best arm."""
        if self.rates is None:
            return -np.inf
        return float(self.people @ [max(cell.low for cell in row) for row in self.rates])

    def means(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return lower bound, upper bound and rounding error of arms' mean rewards over all users, (K,) each.

        The rounding error comes from the rounded shares of users.
        """
        cells = np.array(self.rates)  # (S, K, 2)
        moved = _OFF * (cells[:, :, 1].max(axis=0) - cells[:, :, 0].min(axis=0))
        return self.people @ cells[:, :, 0], self.people @ cells[:, :, 1], moved

    @property
    def told(self) -> float:
        """Believed gain in mean reward if each segment gets its best arm, over the best arm for everybody."""
        if self.rates is None:
            return 0.0
        middle = np.mean(self.rates, axis=2)
        return float(self.people @ middle.max(axis=1) - (self.people @ middle).max())

    # -- people ---------------------------------------------------------------------------------------

    def of(self, contexts: FloatArray) -> IntArray:
        """Return the number of each user's segment, shape (n,)."""
        own = contexts[:, self.at]
        if self.edges is None:
            return own.astype(np.int64)
        return np.searchsorted(self.edges, own, side="right")

    def members(self, contexts: FloatArray) -> FloatArray:
        """Return indicators (n, S): 1 at the segment of each of n users, and 0 elsewhere."""
        return np.eye(len(self.people))[self.of(contexts)]

    def between(self, contexts: FloatArray, centres: FloatArray) -> FloatArray:
        """Return weights (n, S) of the segments for n users, by linear interpolation between `centres` (S,).

        A weight is 1 at the segment's centre and falls to 0 at the next centre on each side.
        """
        eye = np.eye(len(centres))
        return np.column_stack([np.interp(contexts[:, self.at], centres, row) for row in eye])

    def centres(self, contexts: FloatArray) -> FloatArray:
        """Return the segments' centres (S,): the median of a segment's users, or its midpoint if it has none.

        The centres of categories are their codes.
        """
        if self.edges is None:
            return np.arange(len(self.people), dtype=np.float64)
        ends = np.concatenate([[0.0], self.edges, [1.0]])
        own, places = self.of(contexts), contexts[:, self.at]
        return np.array(
            [
                np.median(places[own == one]) if (own == one).any() else ends[one : one + 2].mean()
                for one in range(len(self.people))
            ]
        )


def _listed(said: object, count: int | None, where: str) -> list[Any]:
    """Return `said`, a sequence or a one-dimensional array, as a list."""
    found = said.tolist() if isinstance(said, np.ndarray) else said
    if isinstance(found, str | bytes) or not isinstance(found, Sequence) or count not in (None, len(found)):
        many = f" of {count}, one per segment" if count else ""
        raise InvalidParameter(f"{where}: expected a list{many}")
    return list(found)


def _parts(said: object, count: int, where: str) -> FloatArray:
    where = f"{where}.people"
    found = np.array([finite(one, where) for one in _listed(said, count, where)])
    if found.min() < _LEAST_PEOPLE or found.max() > 1.0 or abs(found.sum() - 1.0) > _OFF:
        raise InvalidParameter(
            f"{where}: expected each segment's share of all people, {_LEAST_PEOPLE:g} or more, with sum 1"
        )
    return np.asarray(found / found.sum())


def _edges(said: object, column: Range, where: str) -> FloatArray:
    where = f"{where}.until"
    found = np.array([finite(one, where) for one in _listed(said, None, where)])
    places = np.concatenate([[0.0], (found - column.low) / column.span, [1.0]])
    if not len(found) or not (np.diff(places) >= _LEAST_LENGTH).all():
        raise InvalidParameter(
            f"{where}: expected the ends of all segments but the last, increasing and between "
            f"{column.low:g} and {column.high:g}"
        )
    return np.asarray(places[1:-1])

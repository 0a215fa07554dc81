"""`Products`: arms with public features, read from a table with one row for every arm."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import an
from dpbandits._reading import reading
from dpbandits._typing import FloatArray
from dpbandits.domains.arms import Arms, Label
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.tables.checking import Finding
from dpbandits.tables.columns import Categories, Fate
from dpbandits.tables.files import read_table_file
from dpbandits.tables.frames import read_table
from dpbandits.tables.schema import Schema

__all__ = ["Products", "arms_from_config"]

LEVELS = 24
"""Number of equal parts into which the range of a feature is cut."""

MOST_PRODUCTS = 4_096
"""Largest number of rows of a table of products."""


@worded
class Products:
    """Arms whose public features are in a table, such as the category and price of products.

    A policy with `arms=Products(...)` learns effects of these features, which all arms share. An arm that few
    users have seen is then predicted from arms like it. With enough users per arm, every arm also has an
    effect of its own.

    The table must be public: nothing in it may be computed from users' data. The statement of a policy lists
    this as an assumption.

    Args:
        table: A data frame, a mapping of names to columns, a list of dictionaries, or the path of a CSV, TSV,
            Parquet or Arrow file. Every row is an arm.
        columns: Features: `Range` or `Categories` by name. Other columns of the table are ignored.
        name: Column with the labels of the arms, which are all different.

    Attributes:
        arms: Labels of the arms, in the order of the rows.
        points: Encoded features of every arm, shape (K, p).

    Raises:
        InvalidParameter: The columns are no schema of ranges and categories, or there are fewer than two or
            more than 4,096 rows, or two rows with one label.
        InvalidData: The table lacks a column, or a cell is missing or outside its range or categories.

    Example:
        >>> from dpbandits.tables import Range
        >>> shop = Products(
        ...     {"product": ["tea", "mug"], "kind": ["drink", "thing"], "price": [4, 9]},
        ...     columns=Schema(kind=Categories(["drink", "thing"]), price=Range(0, 10)), name="product")
        >>> shop.labels, shop.points.tolist()
        (('tea', 'mug'), [[0.0, 0.4], [1.0, 0.9]])
    """

    def __init__(self, table: Any, *, columns: Schema, name: str = "name") -> None:
        an(columns, Schema, name="columns", pass_="columns=Schema(price=Range(0, 10))")
        an(name, str, name="name", pass_='name="product"')
        if any(column.width != 1 or getattr(column, "steps", None) for column in columns.columns.values()):
            raise InvalidParameter("columns: expected Range(low, high) or Categories([...]) as features")
        if name in columns.names:
            raise InvalidParameter(f"name: {name!r} is a feature as well, expected the column of labels")
        found = _columns(table, columns, name)
        labels = found.pop(name)
        _check_number(len(labels))
        self.columns, self.name = columns, name
        self.arms = Arms([_label(one) for one in labels])
        _check_cells(found, columns, self.labels)
        self.points: FloatArray = columns.encode(found)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels of the arms."""
        return self.arms.labels

    @property
    def n_arms(self) -> int:
        """Number K of arms."""
        return self.arms.n_arms

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of levels of every feature: its categories, or parts of its range."""
        return tuple(
            len(column.values) if isinstance(column, Categories) else LEVELS
            for column in self.columns.columns.values()
        )

    @property
    def ordered(self) -> tuple[bool, ...]:
        """True for every feature that is a range."""
        return tuple(not isinstance(column, Categories) for column in self.columns.columns.values())

    @cached_property
    def rows(self) -> tuple[tuple[int, ...], ...]:
        """Level of each of p features of every arm, shape (K, p)."""
        sizes, ordered = np.array(self.sizes), np.array(self.ordered)
        levels = np.floor(self.points * np.where(ordered, sizes, 1)).astype(np.int64)
        return tuple(map(tuple, np.minimum(levels, sizes - 1).tolist()))

    def row(self, features: Any, *, known: int) -> dict[str, Any]:
        """Return the features of one more arm as plain values by column, after checking them.

        Args:
            features: Value of every column by name.
            known: Number of arms that there are already, also added and retired ones.

        Raises:
            InvalidParameter: The argument is no mapping with exactly the columns as names, a value is
                outside its range or categories, or there are 4,096 arms.
        """
        _check_number(known + 1)
        an(features, Mapping, name="features", pass_='features={"price": 30}')
        with reading("the features of an arm"):
            if set(features) != set(self.columns.names):
                raise InvalidParameter(
                    f"expected the names {', '.join(self.columns.names)}: pass a value of each, and no other"
                )
            found = {name: _plain(features[name]) for name in self.columns.names}
            self.columns.encode({name: [value] for name, value in found.items()})
        return found

    def extended(self, arms: Iterable[tuple[Label, Mapping[str, Any]]]) -> "Products":
        """Return these products followed by further arms.

        Args:
            arms: Label and features of every further arm; see `row`.

        Raises:
            InvalidParameter: A label is there already, or there are more than 4,096 arms.
            InvalidData: A value is outside its range or categories.
        """
        added = list(arms)
        if not added:
            return self
        _check_number(self.n_arms + len(added))
        found = type(self).__new__(type(self))
        found.columns, found.name = self.columns, self.name
        found.arms = Arms([*self.labels, *(label for label, _ in added)])
        table = {name: [row[name] for _, row in added] for name in self.columns.names}
        found.points = np.concatenate([self.points, self.columns.encode(table)])
        return found

    # A release of marginal tables asks the following of products as of `Actions`.
    bounds: ClassVar[None] = None
    window: ClassVar[None] = None
    functions: ClassVar[list[str]] = []

    def allowed(self, contexts: FloatArray, window: None = None) -> None:
        """Return None, because every arm is allowed for every context."""

    def reach(self, window: None) -> None:
        """Return None: no window bounds the arms."""

    def to_config(self) -> dict[str, Any]:
        """Return arms and encoded features as a JSON-ready dictionary."""
        return {
            "type": "Products",
            "name": self.name,
            "columns": self.columns.to_config(),
            "labels": list(self.labels),
            "points": self.points.tolist(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "Products":
        """Rebuild products from `to_config()`.

        Raises:
            InvalidParameter: The configuration belongs to another class, or its values do not fit.
        """
        with reading("the configuration of Products"):
            if config["type"] != "Products":
                raise InvalidParameter("expected type 'Products'")
            found = cls.__new__(cls)
            found.columns, found.name = Schema.from_config(config["columns"]), str(config["name"])
            found.arms = Arms(config["labels"])
            found.points = found.columns.domain.validate(np.array(config["points"], dtype=np.float64))
            if len(found.points) != found.n_arms:
                raise InvalidParameter("expected one row of features for every label")
            return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Products) and self.to_config() == other.to_config()

    def __hash__(self) -> int:
        return hash((Products, self.columns, self.name, self.arms))

    def __repr__(self) -> str:
        return f"Products({self.n_arms} arms, columns={self.columns!r}, name={self.name!r})"


def arms_from_config(config: Any) -> Any:
    """Return the arms in a policy's configuration: its labels, or `Products` from its dictionary."""
    return Products.from_config(config) if isinstance(config, Mapping) else config


def _check_number(count: int) -> None:
    if not 2 <= count <= MOST_PRODUCTS:
        raise InvalidParameter(f"table has {count} rows, expected from 2 to {MOST_PRODUCTS} arms")


def _plain(given: Any) -> Any:
    """Return a value of a feature as JSON can hold it."""
    value = given.item() if isinstance(given, np.generic) else given
    if not isinstance(value, str | bool | int | float):
        raise TypeError
    return value


def _label(given: Any) -> Any:
    """Return a label, as a whole number if a file or a data frame made it a float."""
    value = given.item() if isinstance(given, np.generic) else given
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_cells(found: Mapping[str, Any], columns: Schema, labels: Sequence[Label]) -> None:
    """Raise InvalidData for the first cell that cannot be used, with its column and row: both are public."""
    fates = columns.fates(found)
    for name, column in columns.columns.items():
        for row in np.flatnonzero(fates[name] != Fate.READ).tolist():
            rule = Finding.of(name, column, Fate(fates[name][row]))
            if rule.refused:
                raise InvalidData(
                    f"column {name!r} of the table {rule.rule} in row {row + 1}, that of {labels[row]!r}"
                )


def _columns(table: Any, columns: Schema, name: str) -> dict[str, Any]:
    """Return the columns of features and of labels of a table, by name."""
    kinds = {one: column.kind for one, column in columns.columns.items()}
    if isinstance(table, str | Path):
        return dict(read_table_file(table, kinds | {name: str}))
    names = (*kinds, name)
    if isinstance(table, Sequence):
        if not all(isinstance(row, Mapping) and row.keys() >= set(names) for row in table):
            raise InvalidData(f"table: expected a list of dictionaries with {list(names)}")
        return {one: [row[one] for row in table] for one in names}
    named = getattr(getattr(table, "index", None), "name", None) == name
    if named and name not in getattr(table, "columns", ()):
        table = table.reset_index()  # a data frame whose index has the labels
    read = read_table(table)
    missing = [one for one in names if one not in read.names]
    if missing:
        raise InvalidData(f"the table lacks the columns {missing}")
    return {one: read.column(one) for one in names}

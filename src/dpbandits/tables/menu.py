"""`Menu`: people with contexts, and a few arms that each of them may be offered.

The one place where what an app holds of a person (a dict, a dataclass, a row of a table) becomes the rows
that policies choose among. Every room reads people here: NumPy alone is enough where no data frame comes.
"""

import numbers
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cached_property, partial
from typing import Any, Self, TypeVar

import numpy as np

from dpbandits._checks import an, kind_of
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.arms import Arms, Label
from dpbandits.domains.product import Product
from dpbandits.domains.protocol import Domain
from dpbandits.errors import InvalidData, InvalidParameter, MissingExtra
from dpbandits.tables.checking import Finding, TableCheck
from dpbandits.tables.coded import Coded
from dpbandits.tables.columns import Categories, Fate, Range
from dpbandits.tables.schema import Schema

__all__ = ["Menu", "listed_arms"]

_T = TypeVar("_T")


def listed_arms(arms: Any) -> Arms:
    """Arms by a list of their labels; InvalidParameter for anything else."""
    listed = isinstance(arms, Arms | Sequence) or (isinstance(arms, np.ndarray) and arms.ndim == 1)
    if not listed or isinstance(arms, str):
        raise InvalidParameter(f'arms is {kind_of(arms)}, expected a list: arms=["mail", "call"]')
    return arms if isinstance(arms, Arms) else Arms(list(arms))


class Menu:
    """Public columns of a person's context, and the arms.

    A point of `domain` is an encoded context followed by an arm's code; a decision set holds one person's
    context beside every arm, in the arms' order.

    Args:
        contexts: the columns.
        arms: labels of the arms; see `Arms`.

    Attributes:
        n_arms: number of arms.

    Raises:
        InvalidParameter: no schema, or labels that are none.

    Example:
        >>> people = Schema(age=Range(20, 70), region=Categories(["north", "south"]))
        >>> menu = Menu(contexts=people, arms=["mail", "call"])
        >>> menu.point({"age": 45, "region": "south"}).tolist()
        [0.5, 1.0]
        >>> menu.sets(menu.points({"age": [45], "region": ["south"]}))[0].tolist()
        [[0.5, 1.0, 0.0], [0.5, 1.0, 1.0]]
    """

    def __init__(self, *, contexts: Schema, arms: Sequence[Label] | Arms) -> None:
        an(contexts, Schema, name="contexts", pass_="contexts=Schema(age=Range(18, 90))")
        self.contexts, self.arms = contexts, listed_arms(arms)
        self.n_arms = self.arms.n_arms
        self._codes = np.arange(self.n_arms, dtype=np.float64)
        self._quick = {name: _quick(column) for name, column in contexts.columns.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is built anew from public arguments: the readers of `point` cannot be pickled."""
        return partial(type(self), contexts=self.contexts, arms=self.arms), ()

    @classmethod
    def of(cls, domain: Domain | None, contexts: Schema | None, arms: Any) -> Self | None:
        """The menu of `contexts` and `arms`, or None where rows of a `domain` are asked about instead.

        Raises:
            InvalidParameter: neither, both, or half of them.
        """
        if contexts is None and arms is None:
            if domain is None:
                raise InvalidParameter(
                    'pass contexts=Schema(...) and arms=["mail", "call"] for people with contexts and a few '
                    "arms, or domain=Box(low=[0], high=[1]) for candidates as rows"
                )
            return None
        if domain is not None:
            raise InvalidParameter("pass contexts= and arms=, or domain=: not both")
        if contexts is None or arms is None:
            given, other = ("arms", "contexts") if contexts is None else ("contexts", "arms")
            raise InvalidParameter(f"{given}= needs {other}= beside it")
        return cls(contexts=contexts, arms=arms)

    @cached_property
    def domain(self) -> Product:
        """Encoded contexts and arm codes side by side."""
        return Product(self.contexts.domain, self.arms)

    # -- contexts ---------------------------------------------------------------------------------

    def point(self, context: object) -> FloatArray:
        """(d,) one person's encoded context, all NaN where it cannot be read, whatever it is.

        Raises:
            InvalidData: a data frame of another number of rows than one.
            MissingExtra: a data frame came and narwhals is not installed.
        """
        if type(context) is dict:
            with suppress(Exception):  # all of them plain, without an array for each; else as a table is read
                return np.array([read(context[name]) for name, read in self._quick.items()])
        if not _is_frame(context):
            return np.asarray(self.points([context])[0])
        count = _rows_of(context)
        if count != 1:
            raise InvalidData(f"context has {count} rows, expected one person's")
        return np.asarray(self.points(context)[0])

    def points(self, contexts: object) -> FloatArray:
        """(B, d) encoded contexts of several people, a row of NaN for each that cannot be read.

        Args:
            contexts: a pandas, polars or pyarrow table; a mapping from the schema's names to columns; an
                array (B, d) in the schema's order; or a list of what `point` takes. Further columns are
                ignored.

        Raises:
            InvalidData: nobody, or a table without one of the schema's columns, or with columns of different
                length: how it was sent, not what it says of a person.
        """
        table, count = self._columns(contexts)
        if count == 0:
            raise InvalidData("contexts: expected at least one person")
        points = _untold(self.contexts.points, table)
        # also where a caller wrote into the table meanwhile
        points[~np.isfinite(points).all(axis=1)] = np.nan
        return points

    def readable(self, contexts: object) -> tuple[FloatArray, BoolArray]:
        """(B, d) encoded contexts, a public point for whoever cannot be read, and (B,) who can be read.

        Raises:
            InvalidData: as `points`; or nobody can be read, and the first reason is said as by `encode`.
        """
        people = [contexts] if self._is_one(contexts) else contexts
        points = self.points(people)
        known: BoolArray = np.asarray(np.isfinite(points).all(axis=1))
        if not known.any():
            self.encode(people)
        return np.where(known[:, None], points, 0.0), known

    def encode(self, contexts: object) -> FloatArray:
        """(n, d) encoded contexts, where all of them must be readable; takes what `points` takes.

        Raises:
            InvalidData: the first column that cannot be read, by name, and never a value.
        """
        table, _ = self._columns([contexts] if self._is_one(contexts) else contexts)
        return _untold(self.contexts.encode, table)

    def check(self, contexts: object) -> TableCheck:
        """What would become of these people's cells, or one person's, as `Schema.check` counts them.

        Raises:
            InvalidData: how it was sent, as for `points`.
        """
        table, _ = self._columns([contexts] if self._is_one(contexts) else contexts)
        return _untold(self.contexts.check, table)

    def findings(self, contexts: Sequence[Any]) -> list[list[Finding]]:
        """Return the cells that cannot be read as they are, for each person and by column.

        `point` reads whoever has none refused.

        Privacy: what is found of a person depends on this person's context and the public columns alone. Show
        it to whoever brought the context, and to nobody else.

        Raises:
            InvalidData: how it was sent, as for `points`.
        """
        table, count = self._columns(contexts)
        found: list[list[Finding]] = [[] for _ in range(count)]
        fates = _untold(self.contexts.fates, table)
        for name, column in self.contexts.columns.items():
            for place in np.flatnonzero(fates[name] != Fate.READ).tolist():
                found[place].append(Finding.of(name, column, Fate(fates[name][place])))
        return found

    def refuse(self, context: object, available: object) -> None:
        """Say why one person's context, or what is `available` to them, cannot be answered.

        Raises:
            InvalidData: always; it names columns and types, and never a value.
        """
        kind = type(context)
        if hasattr(kind, "keys"):
            missing: list[str] = []
            with suppress(Exception):  # whatever it raises tells of what it holds
                known = set(context.keys())  # type: ignore[attr-defined]
                missing = [name for name in self.contexts.names if name not in known]
            if missing:
                raise InvalidData(f"the context lacks the declared columns {missing}")
        elif not (
            _is_frame(context) or (_reads(kind) and _size(context) in (None, len(self.contexts.names)))
        ):
            raise InvalidData(
                f"the context is of type {kind.__name__}, expected a dict, a dataclass, a named tuple, a row "
                f"of a table, or {len(self.contexts.names)} values in the schema's order"
            )
        self.encode(context if _is_frame(context) else [context])
        if available is None:
            raise InvalidData("the context changed while it was read: pass one that nothing else writes into")
        if self._ambiguous(available):
            raise InvalidData(
                "available: booleans, one an arm, could be marks or labels, as an arm is labelled 0, 1, True "
                "or False: leave available out where all arms are to be had, else list the labels of those "
                "that are, as 0 and 1 where these are the labels"
            )
        raise InvalidData(f"available: expected a list of labels, at least one, of the {self.n_arms} arms")

    def sets(self, points: FloatArray) -> FloatArray:
        """(B, K, d + 1) every encoded context (B, d) beside every arm."""
        people, dim = points.shape
        rows = np.empty((people, self.n_arms, dim + 1))
        rows[:, :, :-1] = points[:, None, :]
        rows[:, :, -1] = self._codes
        return rows

    # -- arms -------------------------------------------------------------------------------------

    def cells(self, labels: object) -> IntArray:
        """(n,) codes of arms, -1 for what is none; labels are compared by value, as categories are.

        Raises:
            InvalidData: no list of labels.
        """
        if isinstance(labels, Coded):
            return np.asarray(labels.spread(self.cells(labels.values)))
        listed = any(hasattr(type(labels), name) for name in ("tolist", "to_list", "to_pylist"))
        if not (listed or isinstance(labels, Sequence)) or isinstance(labels, str | bytes):
            raise InvalidData(f"arms: expected a list of labels, got a {type(labels).__name__}")
        return self.arms.codes(labels)

    def offered(self, labels: object) -> BoolArray:
        """(K,) which arms a person may be given; none where something listed is no arm, or is no list."""
        mask = np.zeros(self.n_arms, dtype=np.bool_)
        if self._ambiguous(labels):
            return mask
        try:
            codes = [] if isinstance(labels, str | bytes) else [self.arms.code(label) for label in labels]  # type: ignore[attr-defined]
        except Exception:  # noqa: BLE001 - as in `points`
            return mask
        if codes and min(codes) >= 0:
            mask[codes] = True
        return mask

    def _ambiguous(self, labels: object) -> bool:
        """Whether these are booleans, one an arm, some of which would be taken for labels."""
        try:
            marks = len(labels) == self.n_arms and {type(one) for one in labels} <= {bool, np.bool_}  # type: ignore[arg-type, attr-defined]
        except Exception:  # noqa: BLE001 - as in `points`
            return False
        return marks and any(self.arms.code(mark) >= 0 for mark in (True, False))

    def all_offered(self, available: object, count: int) -> BoolArray:
        """(B, K) the same for `count` people: booleans (B, K), or a list of labels a person.

        Raises:
            InvalidData: booleans of another shape, or not one list a person.
        """
        shape = (count, self.n_arms)
        if isinstance(available, np.ndarray) and available.dtype == np.bool_ and available.shape == shape:
            return available
        if not isinstance(available, Sequence) or isinstance(available, str) or len(available) != count:
            raise InvalidData(
                f"available: expected booleans of shape {shape}, or {count} lists of labels, one a person"
            )
        return np.array([self.offered(labels) for labels in available])

    # -- reading ----------------------------------------------------------------------------------

    def _is_one(self, contexts: Any) -> bool:
        """Whether this is one person's context and no table."""
        kind = type(contexts)
        if isinstance(contexts, Mapping):
            return _is_cell(next(iter(contexts.values()), None))
        if isinstance(contexts, np.ndarray):
            return contexts.ndim == 1
        if hasattr(kind, "keys") or hasattr(kind, "_fields") or is_dataclass(kind):
            return not _is_frame(contexts)
        in_order = isinstance(contexts, Sequence) and not isinstance(contexts, str | bytes)
        return in_order and len(contexts) == len(self.contexts.names) and all(map(_is_cell, contexts))

    def _columns(self, contexts: Any) -> tuple[Any, int]:
        """A table that `Schema.encode` reads, and its number of rows."""
        names = self.contexts.names
        if _is_frame(contexts):
            return contexts, _rows_of(contexts)
        if isinstance(contexts, Mapping):
            if self._is_one(contexts):
                raise InvalidData("contexts is one person's: expected those of several, as a list or a table")
            missing = [name for name in names if name not in contexts]
            if missing:
                raise InvalidData(f"the table lacks the declared columns {missing}")
            try:
                columns = {name: contexts[name] for name in names}
                sizes = {len(column) for column in columns.values()}
            except Exception:  # noqa: BLE001 - as in `points`
                raise InvalidData("the table has a column that is no sequence, or cannot be had") from None
            if len(sizes) != 1:
                raise InvalidData("the columns of the table have different lengths")
            return columns, sizes.pop()
        if isinstance(contexts, np.ndarray):
            if contexts.ndim != 2 or contexts.shape[1] != len(names):
                raise InvalidData(
                    f"contexts: expected shape (B, {len(names)}) in the schema's order, got {contexts.shape}"
                )
            return dict(zip(names, contexts.T, strict=True)), len(contexts)
        if not isinstance(contexts, Sequence) or isinstance(contexts, str | bytes):
            raise InvalidData(
                f"contexts is a {type(contexts).__name__}: expected a table, an array in the schema's order, "
                "or a list of dicts, dataclasses or named tuples"
            )
        people = [_cells(person, names) for person in contexts]
        return {name: [cells[j] for cells in people] for j, name in enumerate(names)}, len(people)

    def __repr__(self) -> str:
        return f"Menu(contexts={self.contexts!r}, arms={self.arms!r})"


def _untold(read: Callable[..., _T], table: Any) -> _T:
    """Return a method's result on a table; an error never repeats what a caller's object says."""
    try:
        return read(table, ignore_extra=True)
    except (InvalidData, MissingExtra):
        raise
    except Exception:  # noqa: BLE001 - what a caller's object raises may tell of what it holds
        raise InvalidData("contexts cannot be read") from None


class _Slow(Exception):
    pass


def _quick(column: object) -> Callable[[Any], float]:
    """What a column makes of one plain and proper value: the number that its `encode` gives, or `_Slow`."""
    if type(column) is Categories:
        codes, kind = {value: float(code) for code, value in enumerate(column.values)}, type(column.values[0])

        def code(value: Any) -> float:
            if type(value) is kind and value in codes:
                return codes[value]
            raise _Slow

        return code
    if type(column) is Range:
        low, width, high = column.low, column.high - column.low, column.high

        def share(value: Any) -> float:
            if type(value) in (int, float) and low <= value <= high:
                return min(max((float(value) - low) / width, 0.0), 1.0)
            raise _Slow

        return share

    def slow(value: Any) -> float:
        raise _Slow

    return slow


def _is_frame(table: object) -> bool:
    kind = type(table)  # asked instead of the frame: a lazy one would resolve its columns
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def _rows_of(frame: Any) -> int:
    """Rows of a data frame; InvalidData where it has no number of them, as a lazy one."""
    try:
        return len(frame)
    except Exception:  # noqa: BLE001 - as in `Menu.points`
        raise InvalidData(
            f"the {type(frame).__name__} does not say how many rows it has: collect a lazy one first"
        ) from None


def _cells(person: Any, names: tuple[str, ...]) -> Sequence[object]:
    """A person's values in the order of `names`, None for each that is not there or cannot be had."""
    nobody = (None,) * len(names)
    try:
        if hasattr(type(person), "keys"):  # a dict, a row of pandas, of a database
            known = set(person.keys())
            return [person[name] if name in known else None for name in names]
        if hasattr(type(person), "_fields") or is_dataclass(type(person)):
            return [getattr(person, name, None) for name in names]
        if _reads(type(person)):
            cells = list(person)
            return cells if len(cells) == len(names) else nobody
    except Exception:  # noqa: BLE001 - as in `Menu.points`
        return nobody
    return nobody


def _reads(kind: type) -> bool:
    """Whether a context of this type, which has no keys, is read: by fields, or in the schema's order."""
    in_order = issubclass(kind, Sequence | np.ndarray) and not issubclass(kind, str | bytes)
    return in_order or is_dataclass(kind)


def _size(context: object) -> int | None:
    """How many values stand there in order; None for a dataclass, which has names, and where it fails."""
    try:
        return len(context)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - as in `Menu.points`
        return None


def _is_cell(value: object) -> bool:
    """Whether this is one value and no column, and no person."""
    return value is None or isinstance(value, str | bytes | numbers.Number | np.generic)

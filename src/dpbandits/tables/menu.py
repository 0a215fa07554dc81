"""`Menu`: the columns of a user's context, and the arms or actions to choose from.

It turns an application's record of a user (a dict, a dataclass, a row of a table) into the rows among which
a policy chooses. The policies of all trust models use it to read contexts. Data frames need narwhals, other
records only NumPy.
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
from dpbandits.domains.rewards import RewardRange
from dpbandits.errors import InvalidData, InvalidParameter, MissingExtra
from dpbandits.tables.actions import Actions
from dpbandits.tables.checking import Finding, TableCheck
from dpbandits.tables.coded import Coded
from dpbandits.tables.columns import Fate, Ordered
from dpbandits.tables.products import Products
from dpbandits.tables.schema import Schema

__all__ = ["Menu", "listed_arms"]

_T = TypeVar("_T")

_POINTS_AT_ONCE = 1 << 16
"""Number of points in the decision sets that `Menu.predicted` has in memory at the same time."""


def listed_arms(arms: Any) -> Arms:
    """Return the arms with these labels. Raise InvalidParameter if the argument is not a list."""
    listed = isinstance(arms, Arms | Sequence) or (isinstance(arms, np.ndarray) and arms.ndim == 1)
    if not listed or isinstance(arms, str):
        raise InvalidParameter(f'arms is {kind_of(arms)}, expected a list: arms=["mail", "call"]')
    return arms if isinstance(arms, Arms) else Arms(list(arms))


class Menu:
    """Public columns of a user's context, and the arms.

    A point of `domain` is an encoded context followed by an arm's code. A decision set has a point for
    every arm, in the arms' order, all with the same user's context.

    Args:
        contexts: Public columns of a context.
        arms: Labels of the arms; see `Arms`. Or `Products`, arms with features.
        actions: Grid of actions, instead of arms.
        reward_range: Range of outcomes with which the value of actions is tried.

    Attributes:
        n_arms: Number of arms.
        products: Features of the arms; None without features.

    Raises:
        InvalidParameter: `contexts` is not a schema, or has columns that are for actions only; a label is
            invalid, or a function of the actions fails.

    Example:
        >>> from dpbandits.tables import Categories, Range
        >>> people = Schema(age=Range(20, 70), region=Categories(["north", "south"]))
        >>> menu = Menu(contexts=people, arms=["mail", "call"])
        >>> menu.point({"age": 45, "region": "south"}).tolist()
        [0.5, 1.0]
        >>> menu.sets(menu.points({"age": [45], "region": ["south"]}))[0].tolist()
        [[0.5, 1.0, 0.0], [0.5, 1.0, 1.0]]
    """

    def __init__(
        self,
        *,
        contexts: Schema,
        arms: Sequence[Label] | Arms | Products | None = None,
        actions: Actions | None = None,
        reward_range: RewardRange | None = None,
    ) -> None:
        an(contexts, Schema, name="contexts", pass_="contexts=Schema(age=Range(18, 90))")
        if any(isinstance(c, Ordered) or getattr(c, "steps", None) for c in contexts.columns.values()):
            raise InvalidParameter(
                "contexts: Ordered and Range(steps=) are for actions: pass Range(low, high)"
            )
        self.actions = None if actions is None else actions.beside(contexts, reward_range)
        self.products = arms if isinstance(arms, Products) else None
        offered = actions or self.products
        self.contexts, self.arms = contexts, listed_arms(arms if offered is None else offered.arms)
        self.n_arms = self.arms.n_arms
        self._codes = np.arange(self.n_arms, dtype=np.float64)
        self._kept: IntArray | None = None
        self._others: Arms | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the public arguments for pickling."""
        chosen = {"arms": self.products or self.arms} if self.actions is None else {"actions": self.actions}
        return partial(type(self), contexts=self.contexts, **chosen), ()

    @classmethod
    def of(
        cls,
        domain: Domain | None,
        contexts: Schema | None,
        arms: Any,
        actions: Any = None,
        *,
        reward_range: RewardRange | None = None,
    ) -> Self | None:
        """Return the menu of `contexts` and `arms` or `actions`, or None if a `domain` is given instead.

        Raises:
            InvalidParameter: Both ways are given, neither is, or one of `contexts` and `arms` is missing.
        """
        if contexts is None and arms is None and actions is None:
            if domain is None:
                raise InvalidParameter(
                    'pass contexts=Schema(...) and arms=["mail", "call"] for users with contexts and a few '
                    "arms, or domain=Box(low=[0], high=[1]) for candidates as rows"
                )
            return None
        if domain is not None:
            raise InvalidParameter("pass either contexts= and arms=, or domain=, not both")
        if arms is not None and actions is not None:
            raise InvalidParameter("pass either arms= or actions=, not both")
        if contexts is None or (arms is None and actions is None):
            given = "arms" if arms is not None else "actions" if actions is not None else "contexts"
            other = "arms" if given == "contexts" else "contexts"
            raise InvalidParameter(f"{given}= needs {other}=: pass both")
        return cls(contexts=contexts, arms=arms, actions=Actions.of(actions), reward_range=reward_range)

    @cached_property
    def domain(self) -> Product:
        """Domain of encoded contexts, followed by an arm's code."""
        return Product(self.contexts.domain, self.arms)

    # -- arms that come and go --------------------------------------------------------------------

    def offering(self, every: Sequence[Label], codes: IntArray) -> "Menu":
        """Return a menu with the same contexts that offers some of all the arms that a policy ever had.

        Args:
            every: Labels of all arms, also of announced and of retired ones.
            codes: Places in `every` of the arms that are offered, shape (K,), in increasing order.
        """
        menu = Menu(contexts=self.contexts, arms=[every[code] for code in codes.tolist()])
        menu._kept, menu._others = codes, Arms(list(every))
        return menu

    @property
    def alone(self) -> "Menu":
        """Menu that knows only the offered arms, as it is published."""
        return self if self._kept is None else Menu(contexts=self.contexts, arms=self.arms)

    def stored(self, points: FloatArray, refused: BoolArray | bool) -> FloatArray:  # noqa: FBT001
        """Return chosen points (..., d + 1), with each arm's code among the offered arms replaced by its
        code among all.

        All arms are those that the policy ever had. Blocks of rounds have these codes, which do not change
        when arms are added or retired. Points that were refused are not changed.
        """
        if self._kept is None:
            return points
        found = points.copy()
        places = np.where(refused, 0, points[..., -1]).astype(np.int64)
        found[..., -1] = np.where(refused, points[..., -1], self._kept[places])
        return found

    def instead(
        self, before: "Menu", rows: FloatArray, available: BoolArray | None
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return decision sets of this menu and the mask of available arms, from those of an earlier menu.

        If some arms were unavailable, an arm that the earlier menu did not offer is unavailable too.

        Args:
            before: Earlier menu of the same contexts.
            rows: Decision sets of the earlier menu, (B, K, d + 1).
            available: True for available arms of the earlier menu, (B, K); None if all are available.
        """
        sets = self.sets(rows[:, 0, :-1])
        if available is None:
            return sets, None
        places = before.arms.codes(list(self.arms.labels))
        return sets, available[:, places] & (places >= 0)

    # -- contexts ---------------------------------------------------------------------------------

    def point(self, context: object) -> FloatArray:
        """Return one user's encoded context (d,), or NaN in all coordinates if it cannot be read.

        Raises:
            InvalidData: The context is a data frame with a number of rows other than one.
            MissingExtra: The context is a data frame and narwhals is not installed.
        """
        if type(context) is dict:
            with suppress(Exception):  # faster than as a table of one row
                point = np.array(self.contexts.point(context))
                return point if self.actions is None else np.asarray(self._bounded(point[None])[0])
        if not _is_frame(context):
            return np.asarray(self.points([context])[0])
        count = _rows_of(context)
        if count != 1:
            raise InvalidData(f"context has {count} rows, expected the row of one user")
        return np.asarray(self.points(context)[0])

    def points(self, contexts: object) -> FloatArray:
        """Return the encoded contexts of B users, shape (B, d), with a row of NaN for an unreadable context.

        Args:
            contexts: A pandas, polars or pyarrow table; a mapping from the schema's names to columns; an
                array (B, d) in the schema's order; or a list of contexts as `point` takes them. Further
                columns are ignored.

        Raises:
            InvalidData: The table has no rows, lacks one of the schema's columns, or has columns of
                different lengths. The values of a context cause no error.
        """
        table, count = self._columns(contexts)
        if count == 0:
            raise InvalidData("contexts has no rows, expected at least one user")
        points = _untold(self.contexts.points, table)
        # A caller may change the table while it is read: check the result, not the table.
        points[~np.isfinite(points).all(axis=1)] = np.nan
        return self._bounded(points)

    def _bounded(self, points: FloatArray) -> FloatArray:
        """Return points (B, d), with NaN for users for whom a function of bounds of actions fails."""
        if self.actions is not None and self.actions.bounds is not None:
            known = np.flatnonzero(~np.isnan(points[:, 0]))
            points[known[~self.actions.bounded(points[known])]] = np.nan
        return points

    def readable(self, contexts: object) -> tuple[FloatArray, BoolArray]:
        """Return the encoded contexts of B users (B, d), and True for those that could be read (B,).

        An unreadable context becomes the origin, a public point.

        Raises:
            InvalidData: As for `points`; or no context can be read, with the reason that `encode` gives.
        """
        people = [contexts] if self._is_one(contexts) else contexts
        points = self.points(people)
        known: BoolArray = np.asarray(np.isfinite(points).all(axis=1))
        if not known.any():
            self._check_bounded(self.encode(people))
        return np.where(known[:, None], points, 0.0), known

    def encode(self, contexts: object) -> FloatArray:
        """Return the encoded contexts of n users, shape (n, d). All of them must be readable.

        Args:
            contexts: Contexts as `points` takes them, or one user's context.

        Raises:
            InvalidData: A context cannot be read. The message names its first such column and never a value.
        """
        table, _ = self._columns([contexts] if self._is_one(contexts) else contexts)
        return _untold(self.contexts.encode, table)

    def check(self, contexts: object) -> TableCheck:
        """Count how the cells of contexts are read; see `Schema.check`.

        `contexts` may also be one user's context.

        Raises:
            InvalidData: The table is invalid, as for `points`.
        """
        table, _ = self._columns([contexts] if self._is_one(contexts) else contexts)
        return _untold(self.contexts.check, table)

    def findings(self, contexts: Sequence[Any]) -> list[list[Finding]]:
        """Return, for each user, a finding for every column whose cell cannot be used unchanged.

        `point` can read a context if no finding about it has `refused` True.

        Privacy: The findings about a user depend on that user's context and the public columns alone. Show
        them to the client that sent the context, and to nobody else.

        Raises:
            InvalidData: The table is invalid, as for `points`.
        """
        table, count = self._columns(contexts)
        found: list[list[Finding]] = [[] for _ in range(count)]
        fates = _untold(self.contexts.fates, table)
        for name, column in self.contexts.columns.items():
            for place in np.flatnonzero(fates[name] != Fate.READ).tolist():
                found[place].append(Finding.of(name, column, Fate(fates[name][place])))
        return found

    def refuse(self, context: object, available: object) -> None:
        """Raise the error for one user's unreadable context or invalid list of `available` arms.

        Raises:
            InvalidData: Always. The message names columns and types, and never a value.
        """
        kind = type(context)
        if hasattr(kind, "keys"):
            missing: list[str] = []
            with suppress(Exception):  # the error of a caller's object could show its values
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
        self._check_bounded(self.encode(context if _is_frame(context) else [context]))
        if available is None:
            raise InvalidData("the context changed while it was read: pass one that no other code changes")
        if self._ambiguous(available):
            raise InvalidData(
                "available has a boolean for each arm, which could be marks or labels: an arm is labelled 0, "
                "1, True or False. Pass the labels of the available arms, as 0 and 1, or leave available out "
                "if all arms are available"
            )
        raise InvalidData(f"available: expected a list of labels, at least one, of the {self.n_arms} arms")

    def _check_bounded(self, points: FloatArray) -> None:
        if self.actions is not None and not self.actions.bounded(points).any():
            raise InvalidData("bounds: the function fails for this context, or low exceeds high there")

    def sets(self, points: FloatArray) -> FloatArray:
        """Return the decision sets of B users (B, K, d + 1): encoded contexts with every arm's code.

        `points` are the encoded contexts, shape (B, d).
        """
        people, dim = points.shape
        rows = np.empty((people, self.n_arms, dim + 1))
        rows[:, :, :-1] = points[:, None, :]
        rows[:, :, -1] = self._codes
        return rows

    def predicted(
        self, points: FloatArray, predict: Callable[[FloatArray], tuple[FloatArray, FloatArray]]
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (B, K) of all arms' rewards for B users.

        Decision sets of a part of the users are in memory at the same time.

        Args:
            points: Encoded contexts, shape (B, d).
            predict: Function from points (n, d + 1) of `domain` to means and standard deviations (n,).
        """
        mean, spread = np.empty((2, len(points), self.n_arms))
        at_once = max(1, _POINTS_AT_ONCE // self.n_arms)
        for start in range(0, len(points), at_once):
            sets = self.sets(points[start : start + at_once])
            found = predict(sets.reshape(-1, sets.shape[-1]))
            for whole, part in zip((mean, spread), found, strict=True):
                whole[start : start + at_once] = part.reshape(-1, self.n_arms)
        return mean, spread

    # -- arms -------------------------------------------------------------------------------------

    def cells(self, labels: object) -> IntArray:
        """Return the codes of n labels of arms, shape (n,), with -1 for an unknown label.

        Labels are compared by value.

        Raises:
            InvalidData: `labels` is not a list.
        """
        if isinstance(labels, Coded):
            return np.asarray(labels.spread(self.cells(labels.values)))
        listed = any(hasattr(type(labels), name) for name in ("tolist", "to_list", "to_pylist"))
        if not (listed or isinstance(labels, Sequence)) or isinstance(labels, str | bytes):
            raise InvalidData(f"arms: expected a list of labels, got a {type(labels).__name__}")
        return self.arms.codes(labels)

    def offered(self, labels: object) -> BoolArray:
        """Return True for arms whose labels are listed, shape (K,).

        No arm is True if a label is unknown or `labels` is not a list. The label of an announced or retired
        arm is known, but that arm is not offered.
        """
        mask = np.zeros(self.n_arms, dtype=np.bool_)
        if self._ambiguous(labels):
            return mask
        try:
            if self.actions is not None and len(self.actions.sizes) > 1:  # actions are dicts
                known, names = self.actions.choices, self.arms.labels
                labels = [names[known.index(one)] if isinstance(one, dict) else one for one in labels]  # type: ignore[attr-defined]
            listed = self.arms.listed(labels)
            codes = self.arms.codes(listed)
        except Exception:  # noqa: BLE001 - as in `points`
            return mask
        if self._others is not None and (codes < 0).any():
            # An arm that is announced or retired is known: it is not offered, and refuses nobody.
            with suppress(Exception):
                if (self._others.codes(listed) >= 0).all():
                    codes = codes[codes >= 0]
        if (codes >= 0).all():
            mask[codes] = True
        return mask

    def _ambiguous(self, labels: object) -> bool:
        """Return True if `labels` could be booleans, one for each arm, as well as labels of arms."""
        try:
            marks = len(labels) == self.n_arms and {type(one) for one in labels} <= {bool, np.bool_}  # type: ignore[arg-type, attr-defined]
        except Exception:  # noqa: BLE001 - as in `points`
            return False
        return marks and any(self.arms.code(mark) >= 0 for mark in (True, False))

    def all_offered(self, available: object, count: int) -> BoolArray:
        """Return True for arms that are available to each of `count` users, shape (B, K).

        Args:
            available: Booleans (B, K), or a list of labels for each user.
            count: Number of users, B.

        Raises:
            InvalidData: The booleans have another shape, or the number of lists is not `count`.
        """
        shape = (count, self.n_arms)
        if isinstance(available, np.ndarray) and available.dtype == np.bool_ and available.shape == shape:
            return available
        if not isinstance(available, Sequence) or isinstance(available, str) or len(available) != count:
            raise InvalidData(
                f"available: expected booleans of shape {shape}, or {count} lists of labels, one a user"
            )
        return np.array([self.offered(labels) for labels in available])

    # -- reading ----------------------------------------------------------------------------------

    def _is_one(self, contexts: Any) -> bool:
        """Return True if `contexts` is one user's context, and False if it is a table of several users."""
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
        """Return contexts as a table that `Schema.encode` reads, and its number of rows."""
        names = self.contexts.names
        if _is_frame(contexts):
            return contexts, _rows_of(contexts)
        if isinstance(contexts, Mapping):
            if self._is_one(contexts):
                raise InvalidData("contexts is one user's context, expected a list of contexts or a table")
            missing = [name for name in names if name not in contexts]
            if missing:
                raise InvalidData(f"the table lacks the declared columns {missing}")
            try:
                columns = {name: contexts[name] for name in names}
                sizes = {len(column) for column in columns.values()}
            except Exception:  # noqa: BLE001 - as in `points`
                raise InvalidData("the table has a column that is no sequence or cannot be read") from None
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
    """Return the result of a method on a table.

    Replace an error of the caller's object, which could show values.
    """
    try:
        return read(table, ignore_extra=True)
    except (InvalidData, MissingExtra):
        raise
    except Exception:  # noqa: BLE001 - the error of a caller's object could show its values
        raise InvalidData("contexts cannot be read") from None


def _is_frame(table: object) -> bool:
    kind = type(table)  # not the object: `hasattr` on a lazy frame would compute its columns
    return hasattr(kind, "columns") or hasattr(kind, "column_names")


def _rows_of(frame: Any) -> int:
    """Return a data frame's number of rows. Raise InvalidData for a lazy frame, whose number is not known."""
    try:
        return len(frame)
    except Exception:  # noqa: BLE001 - as in `Menu.points`
        raise InvalidData(
            f"the {type(frame).__name__} has no known number of rows: collect a lazy frame first"
        ) from None


def _cells(person: Any, names: tuple[str, ...]) -> Sequence[object]:
    """Return a user's values in the order of `names`, None for a value that is missing or unreadable."""
    unreadable = (None,) * len(names)
    try:
        if hasattr(type(person), "keys"):  # a dict, a row of pandas or of a database
            known = set(person.keys())
            return [person[name] if name in known else None for name in names]
        if hasattr(type(person), "_fields") or is_dataclass(type(person)):
            return [getattr(person, name, None) for name in names]
        if _reads(type(person)):
            cells = list(person)
            return cells if len(cells) == len(names) else unreadable
    except Exception:  # noqa: BLE001 - as in `Menu.points`
        return unreadable
    return unreadable


def _reads(kind: type) -> bool:
    """Return True if a record of this type is read by its fields, or in the schema's order."""
    in_order = issubclass(kind, Sequence | np.ndarray) and not issubclass(kind, str | bytes)
    return in_order or is_dataclass(kind)


def _size(context: object) -> int | None:
    """Return the number of values of a sequence; None for a dataclass, or if its length cannot be read."""
    try:
        return len(context)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - as in `Menu.points`
        return None


def _is_cell(value: object) -> bool:
    """Return True for a single value, False for a column or a context."""
    return value is None or isinstance(value, str | bytes | numbers.Number | np.generic)

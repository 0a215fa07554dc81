"""`Actions`: a grid of numbers or categories to choose from, and the public value that is maximised.

Every point of the grid is an action; the last column varies fastest. A policy is told the outcome of an
action, and maximises its value. Values, shapes and bounds are public functions: a policy applies them to
releases and to a user's own context. They must not read private data, which nothing can check. In shapes, K
is the number of actions, n of contexts, and d of coordinates of an encoded context.
"""

import math
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpbandits._cells import array_of, as_objects
from dpbandits._checks import kind_of
from dpbandits._config import Configured
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Arms, Label
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.ties import first_best
from dpbandits.tables.bounds import BOUNDS, Both, Within, checked_bounds, limits
from dpbandits.tables.coded import Coded
from dpbandits.tables.columns import Categories, Column, Ordered, Range
from dpbandits.tables.frames import read_table
from dpbandits.tables.schema import Schema
from dpbandits.tables.values import VALUES
from dpbandits.tables.windows import Window, checked_explore, checked_step, distances, reach, widened

__all__ = ["ActionCurve", "Actions"]

MOST_ACTIONS, MOST_COLUMNS = 128, 3
"""Largest number of actions in a grid, and largest number of its columns."""

STEPS = 20
"""Number of values of a range that states no `steps`."""

TRIED = 64
"""Number of random public contexts and rows of outcomes on which functions are tried."""

TRIED_ALONE = 5
"""Number of those contexts and rows of outcomes (`TRIED`) that are also tried one by one."""

ALONE = (
    "the function returned something else for one row alone than for the same row among others: a row must "
    "not depend on other rows or on earlier calls"
)

SHAPES = ("increasing", "decreasing")

FUNCTIONS = ("value", "shape", "bounds")
"""Names of the attributes of `Actions` that are public functions."""

VALUED = 1 << 16
"""Rows whose values are computed together."""

ON_STEP = 1e-6
"""Largest distance of a logged number from a step with which it counts as this step, as a share of
its range.
"""


class ActionCurve(NamedTuple):
    """Predictions along all K actions for one context.

    Attributes:
        actions: Actions, in the form of `Decision.action`.
        outcome, outcome_sd: Mean and standard deviation (K,) of the expected outcome.
        value: Value (K,) of the mean outcome, after outcomes were sorted along the declared shape.
        value_low, value_high: Values (K,) of outcomes one deviation below and above the mean.
        allowed: True for actions within the bounds and the window of `explore`, among which decisions are
            made, shape (K,).
    """

    actions: tuple[Any, ...]
    outcome: FloatArray
    outcome_sd: FloatArray
    value: FloatArray
    value_low: FloatArray
    value_high: FloatArray
    allowed: BoolArray


@dataclass(frozen=True, eq=False, repr=False)
class Actions(Configured):
    """A public grid of actions.

    Args:
        schema: One to three columns: `Range(low, high, steps=20)`, `Ordered([5, 10, 15])` or
            `Categories([...])`. One column without a name is called "action".
        value: Named value (`dpbandits.values`), or a function of the action columns by name (K,) and `mean`
            (..., K) that returns values (..., K). Default: the outcome.
        shape: Shape of outcomes along columns with an order, as {"price": "decreasing"}. Predictions are
            sorted along them.
        bounds: Named bounds (`dpbandits.bounds`), or a public function of contexts. It gets a mapping from
            names of columns to arrays (n,) of numbers or categories, and returns {"price": (low, high)} with
            numbers or arrays (n,). Between steps, the nearest step to the middle is allowed.
        explore: Ranges around current values, as {"price": Range(8, 12)}; one range if one column has an
            order. Actions are chosen within them until a release says otherwise; see `tables.windows`. Where
            `bounds` exclude all of a window, the allowed values nearest to the window are chosen.
        step: Most by which an end of the window moves outward in one release, in the column's unit, as
            {"price": 2}. A pair (0.5, 2) has the least as well: an end that moves does so by at least 0.5.
            Default: any distance.

    Functions are called for many users at once. What they return for one row must not depend on other rows,
    on earlier calls or on anything else: otherwise one user's context could change another's answer.
    Named bounds fail for nobody. A user for whom a function of bounds fails, or returns NaN or low > high, is
    refused as if the context could not be read. A user for whom a function of the value fails gets the first
    allowed action of the grid. Both rules read that user's context and releases alone, so they change nobody
    else's answer.

    Raises:
        InvalidParameter: A column, a shape or the number of actions does not fit.

    Example:
        >>> from dpbandits.tables import Range, values
        >>> prices = Schema(price=Range(1, 5, steps=3))
        >>> actions = Actions(prices, value=values.Revenue(), shape={"price": "decreasing"})
        >>> actions.labels
        (1.0, 3.0, 5.0)
        >>> actions.valued(np.array([0.5, 0.6, 0.1])).tolist()
        [0.6, 1.5, 0.5]
    """

    schema: Schema
    value: Callable[..., Any] | None = None
    shape: Mapping[str, str] | None = None
    bounds: Callable[[Mapping[str, Any]], Any] | None = None
    explore: Mapping[str, Range] | Range | None = None
    step: Mapping[str, Any] | Any = None

    contexts: ClassVar[Schema | None] = None
    config_parsers: ClassVar[Mapping[str, Any]] = {
        "schema": Schema.from_config,
        "value": VALUES.read,
        "shape": dict,
        "bounds": BOUNDS.read,
        "explore": lambda told: {name: Range(*ends) for name, ends in told.items()},
    }

    def __post_init__(self) -> None:
        given: Any = self.schema
        schema = Schema(action=given) if isinstance(given, Column) else given
        if not isinstance(schema, Schema):
            raise InvalidParameter(
                f"actions is {kind_of(schema)}, expected Range(1, 20, steps=20), a Schema of such columns, "
                "or Actions(...)"
            )
        object.__setattr__(self, "schema", schema)
        other = [n for n, c in schema.columns.items() if not isinstance(c, Range | Ordered | Categories)]
        if other or len(schema.names) > MOST_COLUMNS or "mean" in schema.names:
            raise InvalidParameter(
                f"actions: expected one to {MOST_COLUMNS} columns of Range, Ordered or Categories, none of "
                'them named "mean"'
            )
        if not 2 <= math.prod(self.sizes) <= MOST_ACTIONS:
            raise InvalidParameter(
                f"the grid has {math.prod(self.sizes)} actions, expected from 2 to {MOST_ACTIONS}: pass "
                "Range(low, high, steps=10)"
            )
        named = {"value": 'values.Revenue(price="price")', "bounds": 'bounds.Within("price", low=5)'}
        for name, example in named.items():
            given = getattr(self, name)
            if given is not None and (not callable(given) or isinstance(given, type)):
                raise InvalidParameter(f"{name} is {kind_of(given)}, expected a function such as {example}")
        if self.shape is not None:
            self._check_shape(self.shape)
        own = dict(zip(self.schema.names, self.ordered, strict=True))
        explore = checked_explore(self.explore, {name: self.columns[name] for name in own if own[name]})
        object.__setattr__(self, "explore", explore)
        object.__setattr__(self, "step", checked_step(self.step, explore))

    def _check_shape(self, shape: object) -> None:
        ordered = [name for name, one in zip(self.schema.names, self.ordered, strict=True) if one]
        fits = isinstance(shape, Mapping) and set(shape) <= set(ordered)
        fits = fits and all(one in SHAPES for one in shape.values())  # type: ignore[attr-defined]
        if not fits:
            raise InvalidParameter(
                f'shape: expected "increasing" or "decreasing" for columns among {ordered}, as '
                'shape={"price": "decreasing"}'
            )
        object.__setattr__(self, "shape", dict(shape))  # type: ignore[call-overload]

    @classmethod
    def of(cls, actions: Any) -> "Actions | None":
        """Return the grid that `actions` describes: an `Actions`, a schema or one column.

        Return None for None.
        """
        return actions if actions is None or isinstance(actions, Actions) else cls(actions)

    # -- the grid -------------------------------------------------------------------------------

    @property
    def functions(self) -> list[str]:
        """Names of the attributes in `FUNCTIONS` that are set."""
        return [name for name in FUNCTIONS if getattr(self, name) is not None]

    @cached_property
    def steps(self) -> tuple[tuple[Label, ...], ...]:
        """Values of every column of the grid."""
        return tuple(_steps(column) for column in self.schema.columns.values())

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of values of every column of the grid."""
        return tuple(map(_size, self.schema.columns.values()))

    @property
    def ordered(self) -> tuple[bool, ...]:
        """True for every column whose values have an order: for all but categories."""
        return tuple(not isinstance(column, Categories) for column in self.schema.columns.values())

    @cached_property
    def grid(self) -> IntArray:
        """Codes of all K actions in the p columns, shape (K, p). A code is a value's place in its column."""
        return np.indices(self.sizes).reshape(len(self.sizes), -1).T

    @property
    def n_actions(self) -> int:
        """Number K of actions."""
        return len(self.grid)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """Value of every action in each column, shape (K,), by the column's name."""
        found = {
            name: np.array(values)[codes]
            for name, values, codes in zip(self.schema.names, self.steps, self.grid.T, strict=True)
        }
        for own in found.values():
            own.flags.writeable = False  # a function of the user's must not change the grid
        return found

    @cached_property
    def choices(self) -> tuple[Any, ...]:
        """All possible values of `Decision.action`: numbers or categories, or, for several columns, dicts."""
        rows = [
            tuple(values[code] for values, code in zip(self.steps, codes, strict=True))
            for codes in self.grid.tolist()
        ]
        if len(self.sizes) == 1:
            return tuple(row[0] for row in rows)
        return tuple(dict(zip(self.schema.names, row, strict=True)) for row in rows)

    def choice(self, code: int) -> Any:
        """Return the action with this code in the form of `Decision.action`. A dict is a copy."""
        chosen = self.choices[code]
        return dict(chosen) if isinstance(chosen, dict) else chosen

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """Labels of the arms: the values of one column, or texts such as "price=4, channel=mail"."""
        if len(self.sizes) == 1:
            return self.choices
        return tuple(", ".join(f"{name}={value}" for name, value in row.items()) for row in self.choices)

    @cached_property
    def arms(self) -> Arms:
        """Domain of the actions' codes, with their labels."""
        return Arms(self.labels)

    # -- logged actions -------------------------------------------------------------------------

    def located(self, logged: Any, *, between: bool) -> IntArray:
        """Return the codes (n,) of logged actions, -1 for an action that cannot be read.

        Every cell is read by itself. A number outside its `Range` cannot be read, or is replaced by the
        nearer bound if the column was declared with `clip=True`.

        Args:
            logged: Table or mapping with the action columns, or n dicts; for one column also its cells (n,).
            between: True if a number between two steps of a `Range` counts as the nearer step, and the
                middle as the upper one. False if it cannot be read.

        Raises:
            InvalidData: A column is missing, or columns have different lengths.

        Example:
            >>> from dpbandits.tables import Range
            >>> prices = Actions(Range(1, 5, steps=3))
            >>> prices.located([1, 3.9, 4, 7], between=True).tolist()
            [0, 1, 2, -1]
            >>> prices.located([1, 3.9, 4, 7], between=False).tolist()
            [0, -1, -1, -1]
        """
        cells = self._cells(logged)
        if len({len(own) for own in cells}) > 1:
            raise InvalidData("the action columns have different lengths")
        found, known = np.zeros(len(cells[0]), dtype=np.int64), np.ones(len(cells[0]), dtype=np.bool_)
        for own, column, size in zip(cells, self.schema.columns.values(), self.sizes, strict=True):
            places = column.points(own)
            if not isinstance(column, Categories):
                places = places * (size - 1)
            readable = np.isfinite(places)
            places = np.where(readable, places, 0.0)
            codes = np.floor(places + 0.5).astype(np.int64)
            if not between:
                readable &= np.abs(places - codes) <= ON_STEP * (size - 1)
            found, known = found * size + codes, known & readable
        return np.where(known, found, -1)

    def _cells(self, logged: Any) -> list[Any]:
        """Return the logged cells (n,) of every column."""
        names = self.schema.names
        if not isinstance(logged, Mapping) and len(names) == 1 and not hasattr(type(logged), "columns"):
            return [logged if isinstance(logged, Coded) else array_of(logged, flat=True)]
        if isinstance(logged, list | tuple):  # a dict for each row, as decisions show them
            rows = [row if isinstance(row, dict) else {} for row in logged]
            return [as_objects([row.get(name) for row in rows]) for name in names]
        held = read_table(logged)
        missing = [name for name in names if name not in held.names]
        if missing:
            raise InvalidData(f"the table lacks the action columns {missing}")
        cells = [held.column(name) for name in names]
        return [own if isinstance(own, Coded) else array_of(own, flat=True) for own in cells]

    @property
    def even_density(self) -> float:
        """Density of the actions if they are drawn evenly: per unit of every `Range`, times probabilities of
        other columns' values.
        """
        spans = [
            column.span if isinstance(column, Range) else float(size)
            for column, size in zip(self.schema.columns.values(), self.sizes, strict=True)
        ]
        return 1.0 / math.prod(spans)

    @cached_property
    def lengths(self) -> FloatArray:
        """Measure (K,) of the numbers that count as each step: a length for every `Range`, else one."""
        found = np.ones(1)
        for column, size in zip(self.schema.columns.values(), self.sizes, strict=True):
            own = np.ones(size)
            if isinstance(column, Range):
                own *= column.span / (size - 1)
                own[[0, -1]] *= 0.5
            found = np.multiply.outer(found, own).ravel()
        return found

    def value_of(self, codes: IntArray, outcomes: FloatArray) -> FloatArray:
        """Return the value (n,) of an outcome (n,) of each of these actions (n,)."""
        found = np.empty(len(codes))
        for start in range(0, len(codes), VALUED):
            rows = slice(start, start + VALUED)
            means = np.repeat(outcomes[rows, None], self.n_actions, axis=1)
            found[rows] = np.take_along_axis(self.valued(means), codes[rows, None], axis=1)[:, 0]
        return found

    def even_shares(self, *, between: bool) -> FloatArray:
        """Return the probabilities (K,) of all actions if actions are drawn evenly.

        Args:
            between: True if numbers are drawn from the whole `Range` and each counts as the nearest step.
                The first and the last step then have half the probability of another step. False if steps
                are drawn.
        """
        shares = self.lengths if between else np.ones(self.n_actions)
        return np.asarray(shares / shares.sum())

    # -- windows of `explore` --------------------------------------------------------------------

    @property
    def window(self) -> Window | None:
        """Window before any release, which has the ends of `explore`; None without `explore`."""
        explore: Any = self.explore
        return None if explore is None else {name: (one.low, one.high) for name, one in explore.items()}

    def reach(self, window: Window) -> Window:
        """Return the window with both ends moved as far as a release may move them."""
        return reach(window, self.step or {}, self.columns)

    def widened(self, window: Window, shares: FloatArray) -> Window:
        """Return the window after a release, from the share of decisions that each of K actions gets, (K,).

        Actions outside of `reach`, which are chosen where bounds exclude all of it, do not move an end.
        """
        ends = self.reach(window)
        beyond = [distances(ends, name, self.columns[name]) > 0.0 for name in ends]
        return widened(window, self.step or {}, self.columns, np.where(np.any(beyond, axis=0), 0.0, shares))

    # -- the rule that chooses ------------------------------------------------------------------

    def valued(self, means: FloatArray) -> FloatArray:
        """Return values (..., K) of expected outcomes (..., K), after sorting along declared shapes.

        Raises:
            InvalidParameter: The function fails, or returns another shape or a number that is not finite.
        """
        means = self.shaped(means)
        if self.value is None:
            return means
        given = means.view()
        given.flags.writeable = False
        return _tried(self.value, {**self.columns, "mean": given}, means.shape)

    def values_of(self, outcomes: FloatArray) -> FloatArray:
        """Return the values (..., K) of outcomes (..., K), which are not sorted along the declared shape."""
        return replace(self, shape=None).valued(outcomes)

    def surely_valued(self, means: FloatArray, low: float, high: float) -> FloatArray:
        """Return values (..., K) of expected outcomes (..., K), clipped to the public range from low to high.

        Where the function fails for a row, the first actions of the grid get the highest values of this row.

        Raises:
            InvalidParameter: The function fails for outcomes in the middle of their range: a public point.
        """
        means = np.clip(means, low, high)
        try:
            return self.valued(means)
        except InvalidParameter:
            self.valued(np.full(self.n_actions, 0.5 * (low + high)))
            first = -np.arange(self.n_actions, dtype=np.float64)[None]
            found = _by_halves(self.valued, means.reshape(-1, self.n_actions), first)
            return np.asarray(found.reshape(means.shape))

    def shaped(self, means: FloatArray) -> FloatArray:
        """Return expected outcomes (..., K), sorted along the columns for which a shape is declared."""
        found = np.asarray(means, dtype=np.float64)
        if not self.shape:
            return found
        lead = found.shape[:-1]
        found = found.reshape(*lead, *self.sizes)
        for name, shape in self.shape.items():
            axis = len(lead) + self.schema.names.index(name)
            found = np.sort(found, axis=axis)
            if shape == "decreasing":
                found = np.flip(found, axis=axis)
        return found.reshape(*lead, -1)

    def allowed(self, contexts: FloatArray, window: Window | None = None) -> BoolArray | None:
        """Return True for actions (n, K) that users with encoded contexts (n, d) may get; None if all may.

        At least one action is allowed for each user. Of the actions within a user's bounds, those in the
        window are allowed. If there are none, those nearest to the window are allowed, column by column.

        Raises:
            InvalidParameter: The function of bounds fails, or does not return bounds of ordered columns.
        """
        sides, ends = self._known_sides(contexts), window or {}
        if not sides and not ends:
            return None
        allowed = np.ones((len(contexts), self.n_actions), dtype=np.bool_)
        for name in [name for name in self.schema.names if name in sides or name in ends]:
            own = self.columns[name]
            within = np.ones((1, self.n_actions), dtype=np.bool_)
            if name in sides:
                low, high = (np.minimum(np.maximum(side, own[0]), own[-1]) for side in sides[name])
                within = (own >= low[:, None]) & (own <= high[:, None])
                some = within.any(axis=1)
                if not some.all():
                    distance = np.abs(own - (low + high)[:, None] / 2.0)
                    nearest = distance == distance.min(axis=1, keepdims=True)
                    within = np.where(some[:, None], within, nearest)
            if name in ends:
                off = np.where(within, distances(ends, name, own), np.inf)
                within = off == off.min(axis=1, keepdims=True)
            allowed &= within
        return allowed

    def bounded(self, contexts: FloatArray) -> BoolArray:
        """Return True for encoded contexts (n, d) whose bounds can be computed (n,).

        A function that fails for several rows is called for parts of them, down to single rows.
        """
        if self.bounds is None or self.contexts is None or isinstance(self.bounds, Within | Both):
            return np.ones(len(contexts), dtype=np.bool_)

        def fits(rows: FloatArray) -> BoolArray:
            self._sides(rows)
            return np.ones(len(rows), dtype=np.bool_)

        return np.asarray(_by_halves(fits, contexts, np.zeros(1, dtype=np.bool_)))

    def _known_sides(self, contexts: FloatArray) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return `_sides`, with infinite bounds for contexts of simulated users for whom they fail."""
        if self.bounds is None or self.contexts is None:
            return {}
        try:
            return self._sides(contexts)
        except InvalidParameter:
            fits = self.bounded(contexts)
            if not fits.any():
                raise
            found = self._sides(contexts[fits])
        sides = {name: (np.full(len(fits), -np.inf), np.full(len(fits), np.inf)) for name in found}
        for name, ends in found.items():
            for side, end in zip(sides[name], ends, strict=True):
                side[fits] = end
        return sides

    def _sides(self, contexts: FloatArray) -> dict[str, tuple[FloatArray, FloatArray]]:
        """Return the lower and upper bounds (n,) of every column that the function `bounds` restricts."""
        ordered = {name for name, one in zip(self.schema.names, self.ordered, strict=True) if one}
        sides: dict[str, tuple[FloatArray, FloatArray]] = {}
        try:
            named = self.bounds.reads if isinstance(self.bounds, Within | Both) else None
            found = self.bounds(_in_units(contexts, self.contexts, named))  # type: ignore[misc, arg-type]
            for name, (low, high) in dict(found).items():
                sides[name] = (_of_each(low, len(contexts)), _of_each(high, len(contexts)))
        except Exception as error:  # noqa: BLE001 - its message could show a context
            raise InvalidParameter(f"bounds: the function failed ({type(error).__name__})") from None
        if not sides.keys() <= ordered or any(not (low <= high).all() for low, high in sides.values()):
            raise InvalidParameter(
                'bounds: expected {"price": (low, high)} with low <= high, for columns among '
                f"{sorted(ordered)}"
            )
        return sides

    def ranked(
        self, means: FloatArray, reward_range: RewardRange, allowed: BoolArray | None = None
    ) -> FloatArray:
        """Return the values (n, K) of predicted outcomes (n, K); -inf for actions that are not `allowed`.

        Outcomes are clipped to their range.
        """
        values = self.surely_valued(means, reward_range.low, reward_range.high)
        return values if allowed is None else np.where(allowed, values, -np.inf)

    def best(
        self,
        means: FloatArray,
        reward_range: RewardRange,
        contexts: FloatArray,
        *,
        offered: BoolArray | None = None,
        window: Window | None = None,
    ) -> IntArray:
        """Return the codes of the actions with the highest value, (n,), from predicted outcomes.

        The code is -1 for a row of NaN.

        Args:
            means: Predicted outcomes (n, K).
            reward_range: Range of outcomes.
            contexts: Encoded contexts (n, d).
            offered: True for available actions (n, K); None for all.
            window: Window of `explore` after the releases so far; None for the whole grid.

        The method `offered` describes what happens if no available action is within bounds and window.
        """
        known = ~np.isnan(means).any(axis=1)
        found = np.full(len(means), -1)
        if known.any():
            allowed = self.offered(
                contexts[known], None if offered is None else offered[known], window=window
            )
            values = self.ranked(means[known], reward_range, allowed)
            # Ties are in a public unit: users' own values would let one user decide over another's ties.
            low, high = reward_range.low, reward_range.high
            ends = self.surely_valued(np.outer([low, high], np.ones(self.n_actions)), low, high)
            found[known] = first_best(values, unit=float(np.ptp(ends)) or 1.0)
        return found

    def offered(
        self, contexts: FloatArray, available: BoolArray | None = None, *, window: Window | None = None
    ) -> BoolArray | None:
        """Return True for the `available` actions (n, K) that users may get; None if all may.

        If no available action of a user is within both bounds and window, the window is ignored. If none is
        within the bounds, the bounds are ignored.
        """
        found = self.allowed(contexts, window)
        if available is None or found is None:
            return available if found is None else found
        found = found & available
        if self.bounds is not None and window and not found.any(axis=1).all():
            within: Any = self.allowed(contexts)
            found = np.where(found.any(axis=1, keepdims=True), found, within & available)
        return np.where(found.any(axis=1, keepdims=True), found, available)

    def curve_of(
        self,
        contexts: FloatArray,
        moments: tuple[FloatArray, FloatArray],
        reward_range: RewardRange,
        window: Window | None = None,
    ) -> ActionCurve:
        """Return the predictions along all actions for one encoded context (1, d).

        `moments` are means and standard deviations of outcomes, (1, K) each.

        Raises:
            InvalidData: There are several contexts.
        """
        if len(contexts) != 1:
            raise InvalidData(f"curve: {len(contexts)} contexts, expected one")
        mean, sd = (part[0] for part in moments)
        low, high = reward_range.low, reward_range.high
        ends = np.stack([self.valued(np.clip(end, low, high)) for end in (mean - sd, mean + sd)])
        allowed = self.allowed(contexts, window)
        return ActionCurve(
            actions=tuple(map(self.choice, range(self.n_actions))),
            outcome=mean,
            outcome_sd=sd,
            value=self.valued(np.clip(mean, low, high)),
            value_low=ends.min(axis=0),
            value_high=ends.max(axis=0),
            allowed=np.ones(self.n_actions, dtype=np.bool_) if allowed is None else allowed[0],
        )

    # -- checks ---------------------------------------------------------------------------------

    def beside(self, contexts: Schema, reward_range: RewardRange | None = None) -> "Actions":
        """Return a copy of the actions for contexts with these columns.

        Its functions are tried on public points.

        Raises:
            InvalidParameter: A function fails, or its result does not fit.
        """
        found = copy(self)
        object.__setattr__(found, "contexts", contexts)
        rng = np.random.default_rng(0)
        people = contexts.domain.sample(TRIED, rng)
        if isinstance(self.bounds, Within | Both):
            checked_bounds(self.bounds, contexts.columns)
        allowed = found.allowed(people)
        if allowed is not None:
            if self.bounds is not None:
                found._sides(people)  # raises if it fails for one of these
            for row in range(TRIED_ALONE):
                if not np.array_equal(found.allowed(people[row : row + 1]), allowed[row : row + 1]):  # type: ignore[arg-type]
                    raise InvalidParameter(f"bounds: {ALONE}")
        if reward_range is not None:
            low, high = reward_range.low, reward_range.high
            flat = np.linspace(low, high, 5)[:, None] * np.ones(self.n_actions)
            for means in (flat, flat[2], rng.uniform(low, high, (3, TRIED, self.n_actions))):
                values = found.valued(means)
                rows, own = means.reshape(-1, self.n_actions), values.reshape(-1, self.n_actions)
                alone = np.array([found.valued(row[None])[0] for row in rows[:TRIED_ALONE]])
                unit = float(np.abs(own).max())
                if np.abs(alone - own[:TRIED_ALONE]).max() > 1e-9 * unit:
                    raise InvalidParameter(f"value: {ALONE}")
        return found

    def to_config(self) -> dict[str, Any]:
        """Return the actions as a JSON-ready dictionary.

        Raises:
            InvalidParameter: The value or the bounds are a function of your own, which cannot be written as
                JSON.
        """
        if self.bounds is not None and not isinstance(self.bounds, Configured):
            raise InvalidParameter(
                "bounds: a function cannot be saved or sent: pass named bounds, such as "
                'bounds.Within("price", low=5, high=bounds.Linear("income", 5, 10))'
            )
        if self.value is not None and not isinstance(self.value, Configured):
            raise InvalidParameter(
                "value: a function cannot be saved or sent: pass a named value, such as "
                'values.Revenue(price="price", cost=2)'
            )
        config = super().to_config()
        if self.window is not None:
            config["explore"] = {name: list(ends) for name, ends in self.window.items()}
            config["step"] = {name: list(ends) for name, ends in (self.step or {}).items()} or None
        return {name: value for name, value in config.items() if value is not None}

    def exported(self, reward_range: RewardRange, window: Window | None = None) -> dict[str, Any]:
        """Return the fields of an exported policy: the actions, and how their values are computed.

        The value of each action is a slope times the outcome, plus an offset. `rising` lists actions whose
        outcomes are sorted in increasing order.

        Args:
            reward_range: Range of outcomes.
            window: Window of `explore` after the releases so far.

        Raises:
            InvalidParameter: The value or bounds have no name, or the value is not linear in the outcome.
        """
        self.to_config()
        low, high = reward_range.low, reward_range.high
        plain = replace(self, shape=None)
        ends = plain.valued(np.repeat([[low], [0.5 * (low + high)], [high]], self.n_actions, axis=1))
        slopes = (ends[2] - ends[0]) / (high - low)
        if not np.allclose(ends[1], 0.5 * (ends[0] + ends[2]), rtol=1e-9, atol=1e-12):
            raise InvalidParameter("value: only a value that is linear in the outcome can be exported")
        places = np.arange(self.n_actions).reshape(self.sizes)
        rising: list[list[int]] = []
        for name, shape in (self.shape or {}).items():
            rows = np.moveaxis(places, self.schema.names.index(name), -1)
            rows = rows.reshape(-1, rows.shape[-1])
            rising += (rows if shape == "increasing" else rows[:, ::-1]).tolist()
        lines = {"slopes": slopes.tolist(), "offsets": (ends[0] - slopes * low).tolist()}
        value = {"low": low, "high": high, "rising": rising, **lines}
        if found := self._limits(window or {}):
            value["limits"] = found
        return {"actions": list(self.choices), "value": value}

    def _limits(self, window: Window) -> list[dict[str, Any]]:
        """Return the limits of columns in an exported policy.

        `of` has the values (K,) of a bounded column, `low` and `high` its bounds. `off` has the distances
        (K,) of a column's values from the window.
        """
        if self.bounds is None or self.contexts is None:
            bounds = {}
        else:
            bounds = limits(self.bounds, self.contexts.columns)  # type: ignore[arg-type] # to_config has checked
        found = []
        for name in self.schema.names:
            one = {"of": self.columns[name].tolist(), **bounds[name]} if name in bounds else {}
            if name in window:
                one["off"] = distances(window, name, self.columns[name]).tolist()
            found += [one] if one else []
        return found

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Actions):
            return NotImplemented
        return all(getattr(self, one.name) == getattr(other, one.name) for one in fields(self))

    def __hash__(self) -> int:
        return hash((type(self), self.labels))

    def __repr__(self) -> str:
        given = {name: getattr(self, name) for name in ("value", "shape", "bounds", "explore", "step")}
        return f"Actions({self.schema!r}{''.join(f', {n}={v!r}' for n, v in given.items() if v is not None)})"


def _size(column: Column) -> int:
    """Return the number of values of a column of actions."""
    return column.steps or STEPS if isinstance(column, Range) else len(column.values)  # type: ignore[attr-defined]


def _steps(column: Column) -> tuple[Label, ...]:
    """Return the values of a column of actions."""
    if isinstance(column, Range):
        found = np.linspace(column.low, column.high, _size(column))
        return tuple(float(f"{value:.12g}") for value in found.tolist())
    return tuple(column.values)  # type: ignore[attr-defined]


def _tried(value: Callable[..., Any], given: dict[str, Any], shape: tuple[int, ...]) -> FloatArray:
    """Return the result of a public function, as finite numbers of this shape.

    All its arguments are public.
    """
    try:
        with np.errstate(all="ignore"):
            returned = np.asarray(value(**given))
            if returned.dtype.kind not in "biuf":
                raise InvalidParameter("value: the function did not return an array of numbers")
            found = returned.astype(np.float64)
    except InvalidParameter:
        raise
    except Exception as error:  # noqa: BLE001 - a user's function may raise anything
        raise InvalidParameter(
            f"value: the function raised {type(error).__name__} for {', '.join(given)} by name"
        ) from None
    if found.shape != shape:
        raise InvalidParameter(f"value: the function returned the shape {found.shape}, expected {shape}")
    if not np.isfinite(found).all():
        raise InvalidParameter("value: the function returned NaN or an infinite number")
    return found


def _by_halves(read: Callable[[Any], Any], rows: Any, failed: Any) -> Any:
    """Return what a function returns for rows (n, ...), and `failed` (1, ...) for a row that it fails for."""
    try:
        return read(rows)
    except InvalidParameter:
        if len(rows) == 1:
            return failed
        half = len(rows) // 2
        return np.concatenate([_by_halves(read, part, failed) for part in (rows[:half], rows[half:])])


def _of_each(end: Any, count: int) -> FloatArray:
    """Return an end of bounds for each user, shape (count,), from a number or an array."""
    found = np.asarray(end, float)
    return found if found.shape == (count,) else np.broadcast_to(found, (count,))


def _in_units(contexts: FloatArray, schema: Schema, names: frozenset[str] | None) -> dict[str, Any]:
    """Return the columns with these names (None: all columns) of encoded contexts (n, d), by name.

    Numbers are in the unit of their column.
    """
    found: dict[str, Any] = {}
    place = 0
    for name, column in schema.columns.items():
        if names is not None and name not in names:
            pass
        elif isinstance(column, Range):
            found[name] = column.low + column.span * contexts[:, place]
        elif isinstance(column, Categories):
            found[name] = np.array(column.values)[contexts[:, place].astype(np.int64)]
        place += column.width
    return found

"""Choice of the next reward tables: the groups of columns and the bins with most expected information.

A group is the set of columns of one table. Let n be the number of users per arm, C the number of cells of a
table, s^2 the noise variance of its entries, and v the variance of a reward. A component is a basis function
of a column or a pair. Averaging over bins keeps the share rho of its mean square lambda. The information
about the component's weight is

    I = C (n/C)^2 lambda rho / (s^2 + v n/C) = n lambda rho / (s^2 C/n + v).

A weight of variance u then explains lambda u^2 I/(1 + u I) of the reward function's unknown variance.
Coordinate ascent maximises the sum over the constant, all columns in a group and all pairs inside a group. A
pair that is not learned yet counts with its prior variance. More groups mean more noise, because each user's
data enters each of them.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import combinations, pairwise, product
from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.marginals.effects import MOST_PAIR_COLUMNS, Effects
from dpbandits.models.marginals.posterior import PAIR_VARIANCE, Relevance
from dpbandits.models.marginals.tables import BIN_CHOICES, LARGEST_GROUP, MOST_CELLS, Design, coarse

__all__ = ["all_pairs", "best_design", "columns_in_turn", "forecast_weights", "left_variances"]

LARGEST_TABLE = 200
"""Largest number of cells of one reward table."""

SWEEPS = 2
"""Number of times that coordinate ascent goes through all columns."""

FEW_COLUMNS = 5
"""Largest number of columns with which coordinate ascent also starts from a design without any column."""

TIE = 1e-12
"""Largest relative difference at which two values count as equal."""


def _kept(table: FloatArray, bins: int) -> FloatArray:
    """Return the share of each component's mean square that averaging over `bins` equal parts leaves.

    Args:
        table: Values of c components at the levels of a column, shape (levels, c).
        bins: Number of equal parts of the levels.
    """
    size = len(table)
    parts = coarse(np.arange(size), size=size, bins=bins)
    counts = np.bincount(parts, minlength=bins)
    means = np.stack([np.bincount(parts, weights=own, minlength=bins) for own in table.T]) / counts
    return np.asarray((means**2 * counts).sum(axis=1) / (table**2).sum(axis=0))


def left_variances(
    effects: Effects,
    design: Design,
    *,
    variance: FloatArray,
    people: float,
    noise_variance: float,
    reward_variance: float,
) -> FloatArray:
    """Return the expected posterior variances of the weights after a release of reward tables, shape (m,).

    Args:
        design: Reward tables that are released.
        noise_variance: Noise variance of an entry of a table.
        effects, variance, people, reward_variance: See `best_design`.
    """
    left = variance.copy()
    signals = [
        (table**2).mean(axis=0) * (_kept(table, bins) if ordered else 1.0)
        for table, ordered, bins in zip(effects.tables, effects.ordered, design.bins, strict=True)
    ]
    for term in effects.terms:
        sized = zip(design.groups, design.cells, strict=True)
        holding = [1.0 / own for group, own in sized if set(term.columns).issubset(group)]
        if not holding:
            continue
        # Averaging over tables reduces their noise. The variance of rewards is the same in all of them.
        cells = 1.0 / (sum(holding) if term.columns else max(holding))
        pair = len(term.columns) == 2
        parts = [signals[one][: effects.pair_components[one] if pair else None] for one in term.columns]
        told = people * reduce(np.multiply.outer, parts, np.ones(())).ravel()
        own = slice(term.start, term.stop)
        left[own] /= 1.0 + left[own] * told / (noise_variance * cells / people + reward_variance)
    return left


def columns_in_turn(
    effects: Effects,
    *,
    variance: float,
    people: FloatArray,
    noise_variance: Callable[[int], float],
    reward_variance: float,
) -> tuple[FloatArray, FloatArray]:
    """Forecast the information of a run about main effects, if all columns are equally important.

    The forecast assumes that all tables have equally many columns, and that blocks take the columns in turn.
    It uses the numbers of tables, of columns per table and of bins that explain most variance.

    Args:
        effects: Functions that are learned.
        variance: Prior variance of a weight before any release.
        people: Users per arm in each block, shape (blocks,).
        noise_variance, reward_variance: See `best_design`.

    Returns:
        Mean squares (m,) of the m components of all columns, and the information (m,) about their weights.
    """
    d, components = len(effects.sizes), [table.shape[1] for table in effects.tables]
    squares = np.concatenate([(table**2).mean(axis=0) for table in effects.tables])
    best = (-1.0, np.zeros_like(squares))
    for bins in BIN_CHOICES[:3]:
        own = [
            bins if ordered else size for size, ordered in zip(effects.sizes, effects.ordered, strict=True)
        ]
        kept = [
            _kept(effects.tables[j], bins) if effects.ordered[j] else np.ones(components[j]) for j in range(d)
        ]
        signal = people[:, None] * squares * np.concatenate(kept)
        width = float(np.exp(np.log(own).mean()))
        for size, count in product(range(1, d + 1), range(1, d + 1)):
            cells = width**size
            if cells > LARGEST_TABLE or count * cells > MOST_CELLS or size * (count - 1) >= d:
                continue
            noise = noise_variance(count) * cells / people[:, None] + reward_variance
            told = min(1.0, size * count / d) * (signal / noise).sum(axis=0)
            value = float((squares * variance**2 * told / (1.0 + variance * told)).sum())
            if value > best[0]:
                best = (value, told)
    return squares, best[1]


def forecast_weights(
    effects: Effects,
    *,
    people: Sequence[float],
    noise_variances: Sequence[Callable[[int], float]],
    reward_variances: Sequence[float],
) -> int:
    """Return the expected number m of learned weights per arm after all blocks.

    Each block's design is the one that `best_design` would choose if no release changed a prior variance.

    Args:
        effects: Functions that are learned before any release.
        people, noise_variances, reward_variances: Arguments of `best_design`, one for each block.
    """
    variance = Relevance.prior(effects).variances[effects.term_of]
    for own, noise, reward in zip(people, noise_variances, reward_variances, strict=True):
        design = best_design(
            effects, variance=variance, people=own, noise_variance=noise, reward_variance=reward
        )
        wider = effects.with_pairs(design.pairs)
        known = Relevance.prior(wider).variances[wider.term_of]
        known[effects.places_in(wider)] = variance
        effects, variance = (
            wider,
            left_variances(
                wider,
                design,
                variance=known,
                people=own,
                noise_variance=noise(len(design.groups)),
                reward_variance=reward,
            ),
        )
    return effects.n_weights


Group = tuple[tuple[int, int], ...]
"""Columns of one table, as pairs (column, index of its number of bins among the column's choices)."""


class _Parts(NamedTuple):
    """Quantities of one group of columns, as arrays over the weights of its columns and pairs of columns.

    Attributes:
        signals: Mean square lambda rho of each component after averaging over bins.
        worths: Mean square of each component times the squared variance of its weight.
        variances: Present variances of the weights.
        main: Entries of `signals` of the columns' components that enter interactions.
        places: Indices of the components in `main` among the components of all columns.
    """

    signals: FloatArray
    worths: FloatArray
    variances: FloatArray
    main: FloatArray
    places: IntArray


class _Values:
    """Expected explained variances of groups of columns, computed and cached group by group.

    The explained variance is called the group's value. It depends on the other groups only through their
    number, which determines the noise. If one column changes its group, at most two values are computed
    again.
    """

    def __init__(
        self,
        effects: Effects,
        variance: FloatArray,
        people: float,
        noise_variance: Callable[[int], float],
        reward_variance: float,
        cells: int = MOST_CELLS,
        *,
        split: bool = False,
    ) -> None:
        self._people, self._noise, self._reward = people, noise_variance, reward_variance
        self._most, self._split = cells, split
        sized = list(zip(effects.tables, effects.ordered, effects.sizes, strict=True))
        self.choices = [BIN_CHOICES if ordered else (size,) for _, ordered, size in sized]
        squares = [(table**2).mean(axis=0) for table in effects.tables]
        kept = [
            np.stack([_kept(table, bins) for bins in BIN_CHOICES])
            if ordered
            else np.ones((1, table.shape[1]))
            for table, ordered, _ in sized
        ]
        self._signals = [square * own for square, own in zip(squares, kept, strict=True)]
        # Columns that never interact have no place among the components that do.
        counts = [count if count <= MOST_PAIR_COLUMNS else 0 for count in effects.pair_components]
        ends = np.cumsum([0, *counts]).tolist()
        self._places = [np.arange(low, high) for low, high in pairwise(ends)]
        # Variances of the weights of pairs by both components; pairs that are too large have none.
        self._pairs = np.zeros((ends[-1], ends[-1]))
        learned = {term.columns: variance[term.start : term.stop] for term in effects.terms}
        for i, j in combinations(range(len(counts)), 2):
            if effects.small_enough(i, j) and counts[i] * counts[j]:
                own = learned.get((i, j), np.full(counts[i] * counts[j], PAIR_VARIANCE))
                here = np.ix_(self._places[i], self._places[j])
                self._pairs[here] = own.reshape(counts[i], counts[j])
                self._pairs.T[here] = self._pairs[here]
        mean = np.concatenate([square[:count] for square, count in zip(squares, counts, strict=True)])
        self._worths = np.outer(mean, mean) * self._pairs**2
        self._constant = float(learned[()][0])
        self._columns = [learned[(column,)] for column in range(len(counts))]
        self._own_worths = [square * own**2 for square, own in zip(squares, self._columns, strict=True)]
        nothing = np.zeros(0)
        self._known: dict[Group, _Parts] = {
            (): _Parts(nothing, nothing, nothing, nothing, np.zeros(0, dtype=np.int64))
        }
        self._valued: dict[tuple[Group, int], float] = {}

    def cells(self, group: Group) -> int:
        return math.prod(self.choices[column][choice] for column, choice in group)

    def _parts(self, group: Group) -> _Parts:
        found = self._known.get(group)
        if found is None:
            *others, (column, choice) = group
            found = self._with_column(self._parts(tuple(others)), column, slice(choice, choice + 1))
            found = self._known[group] = found._replace(signals=found.signals[0], main=found.main[0])
        return found

    def _with_column(self, parts: _Parts, column: int, choices: slice) -> _Parts:
        """Return the quantities of a group after adding a column, for several choices of its number of bins.

        `signals` and `main` have one row per choice.
        """
        own, places = self._signals[column][choices], self._places[column]
        first = own[:, : len(places)]
        pairs = (first[:, :, None] * parts.main).reshape(len(own), -1)
        here = np.ix_(places, parts.places)
        return _Parts(
            np.hstack([np.tile(parts.signals, (len(own), 1)), own, pairs]),
            np.concatenate([parts.worths, self._own_worths[column], self._worths[here].ravel()]),
            np.concatenate([parts.variances, self._columns[column], self._pairs[here].ravel()]),
            np.hstack([np.tile(parts.main, (len(own), 1)), first]),
            np.concatenate([parts.places, places]),
        )

    def _explained(self, parts: _Parts, cells: FloatArray, count: int) -> FloatArray:
        people = self._people / count if self._split else self._people
        told = people * parts.signals
        noise = self._noise(count) * cells / people + self._reward
        return np.asarray((parts.worths * told / (noise[:, None] + parts.variances * told)).sum(axis=-1))

    def of_group(self, group: Group, count: int) -> float:
        """Return the value of a group, without the constant's part, if there are `count` groups."""
        found = self._valued.get((group, count))
        if found is None:
            parts, cells = self._parts(group), np.array([float(self.cells(group))])
            found = self._valued[group, count] = float(self._explained(parts, cells, count)[0])
        return found

    def of_constant(self, cells: FloatArray, count: int) -> FloatArray:
        """Return the variance that the constant explains, if the smallest table has `cells` cells."""
        each = self._people / count if self._split else self._people
        told = self._people / (self._noise(count) * cells / each + self._reward)
        return np.asarray(self._constant**2 * told / (1.0 + self._constant * told))

    def alone(self, chosen: tuple[int, ...]) -> tuple[int, ...]:
        """Return a group number for each column, with one group per column; -1 for columns that do not fit.

        Args:
            chosen: Index of each column's number of bins among its choices.
        """
        owner: list[int] = []
        room = self._most
        for column, choice in enumerate(chosen):
            cells = self.choices[column][choice]
            fits = cells <= min(room, LARGEST_TABLE)
            owner.append(max(owner, default=-1) + 1 if fits else -1)
            room -= cells if fits else 0
        return tuple(owner)

    def of_all(self, owner: tuple[int, ...], chosen: tuple[int, ...]) -> float:
        """Return the sum of all groups' values; -inf if a table or all tables together are too large.

        Args:
            owner: Group number of each column; -1 for none.
            chosen: Index of each column's number of bins among its choices.
        """
        groups = [
            tuple((column, chosen[column]) for column, own in enumerate(owner) if own == group)
            for group in range(max(owner) + 1)
        ]
        sizes, count = [self.cells(group) for group in groups], max(1, len(groups))
        if max(sizes, default=1) > LARGEST_TABLE or sum(sizes) > self._most:
            return -math.inf
        least = np.array([float(min(sizes, default=1))])
        return float(self.of_constant(least, count)[0]) + sum(self.of_group(group, count) for group in groups)

    def moves(self, column: int, owner: tuple[int, ...], chosen: tuple[int, ...]) -> list[FloatArray]:
        """Return the sums of values after moving a column, one array over its choices of bins per target.

        The targets are no group, each present group, and a new group, in this order. A sum is -inf if the
        tables are too large. `owner` and `chosen` describe the present design as in `of_all`.
        """
        rest: dict[int, Group] = {}
        for other, group in enumerate(owner):
            if group >= 0 and other != column:
                rest[group] = (*rest.get(group, ()), (other, chosen[other]))
        bins, found = np.array(self.choices[column], dtype=np.float64), []
        for target in range(-1, max(owner) + 2):
            others, joined = [own for group, own in rest.items() if group != target], rest.get(target, ())
            if len(joined) == LARGEST_GROUP:
                found.append(np.full(len(bins), -np.inf))
                continue
            count, sizes = max(1, len(others) + (target >= 0)), [self.cells(own) for own in others]
            own = self.cells(joined) * bins if target >= 0 else np.full(len(bins), np.inf if others else 1.0)
            least = np.minimum(own, min(sizes, default=np.inf))
            values = self.of_constant(least, count) + sum(self.of_group(other, count) for other in others)
            if target >= 0:
                values = values + self._explained(
                    self._with_column(self._parts(joined), column, slice(None)), own, count
                )
                values[(own > LARGEST_TABLE) | (sum(sizes) + own > self._most)] = -np.inf
            found.append(values)
        return found


def all_pairs(effects: Effects, bins: int) -> Design:
    """Return the design with a table for every pair of columns whose interaction can be learned.

    A pair that is too large for a table has none. A column without a pair has a table of its own, if that is
    not too large.

    Args:
        effects: Functions that are learned.
        bins: Largest number of bins of a range.

    Example:
        >>> all_pairs(Effects((24, 24, 3, 201), (True, True, False, False)), 6).groups
        ((0, 1), (0, 2), (1, 2))
    """
    sized = zip(effects.sizes, effects.ordered, strict=True)
    own = tuple(min(bins, size) if ordered else size for size, ordered in sized)
    pairs = [
        (i, j)
        for i, j in combinations(range(len(own)), 2)
        if effects.small_enough(i, j) and own[i] * own[j] <= LARGEST_TABLE
    ]
    rest = set(range(len(own))).difference(*pairs)
    alone = [(column,) for column in sorted(rest) if own[column] <= LARGEST_TABLE]
    return Design(effects.sizes, own, (*pairs, *alone) or ((),))


def best_design(
    effects: Effects,
    *,
    variance: FloatArray,
    people: float,
    noise_variance: Callable[[int], float],
    reward_variance: float,
    cells: int = MOST_CELLS,
    split: bool = False,
) -> Design:
    """Return the reward tables that are expected to explain most of the reward function's variance.

    The search is coordinate ascent, so the result may be a local optimum.

    Args:
        effects: Functions that are learned. Pairs of columns that are not learned yet count with their prior
            variance.
        variance: Present variance of every weight, shape (m,).
        people: Users per arm.
        noise_variance: Function from the number of tables to the noise variance of an entry of a table.
        reward_variance: Variance of one reward.
        cells: Largest number of cells of all tables together.
        split: True if each user is in one table only, and all tables are equally likely.
    """
    d = len(effects.sizes)
    values = _Values(effects, variance, people, noise_variance, reward_variance, cells, split=split)
    few = tuple(0 if len(own) == 1 else own.index(4) for own in values.choices)
    nothing = (-1,) * d
    best, owner, chosen = values.of_all(nothing, few), nothing, few
    for start in (values.alone(few), nothing) if d <= FEW_COLUMNS else (values.alone(few),):
        found = _ascended(values, start, few)
        if _exceeds(found[0], best):
            best, owner, chosen = found
    groups = tuple(tuple(j for j in range(d) if owner[j] == g) for g in range(max(owner) + 1)) or ((),)
    bins = tuple(own[choice] for own, choice in zip(values.choices, chosen, strict=True))
    return Design(effects.sizes, bins, groups)


def _ascended(
    values: _Values, owner: tuple[int, ...], chosen: tuple[int, ...]
) -> tuple[float, tuple[int, ...], tuple[int, ...]]:
    """Improve a design by moving one column at a time while the value increases.

    Args:
        values: Values of groups.
        owner: Group number of each column at the start; -1 for none.
        chosen: Index of each column's number of bins at the start.

    Returns:
        The value reached, and `owner` and `chosen` of its design.
    """
    best = values.of_all(owner, chosen)
    for _ in range(SWEEPS):
        for column in range(len(owner)):
            moved = owner, chosen
            for group, scores in enumerate(values.moves(column, owner, chosen), start=-1):
                for choice, score in enumerate(scores.tolist()):
                    if _exceeds(score, best):
                        best = score
                        moved = (
                            _relabelled((*owner[:column], group, *owner[column + 1 :])),
                            (*chosen[:column], choice, *chosen[column + 1 :]),
                        )
            owner, chosen = moved
    return best, owner, chosen


def _exceeds(score: float, best: float) -> bool:
    return score > best + TIE * abs(best) if np.isfinite(best) else score > best


def _relabelled(owner: tuple[int, ...]) -> tuple[int, ...]:
    """Return the group number of each column, renumbered from 0 without gaps; -1 stays."""
    names = {group: number for number, group in enumerate(sorted({group for group in owner if group >= 0}))}
    return tuple(names.get(group, -1) for group in owner)

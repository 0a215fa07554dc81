"""Which tables to release next: groups of columns and bins that are expected to tell most about rewards.

With n people an arm, a table of C cells whose entries carry noise of variance s^2, and reward variance v, a
component of mean square lambda of which the bins keep the share rho is told with information

    I = C (n/C)^2 lambda rho / (s^2 + v n/C) = n lambda rho / (s^2 C/n + v).

A weight of variance u then explains lambda u^2 I/(1 + u I) of the reward function's variance that was not
known. The sum over the constant, all columns in a group and all pairs inside one is maximised by coordinate
ascent.
More groups mean more noise: everybody enters each of them.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import product

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.tables import Design, coarse

__all__ = ["MOST_CELLS", "best_design", "columns_in_turn", "left_variances", "value_of"]

BIN_CHOICES = (2, 3, 4, 6, 8, 12)
"""Bins of a range."""

LARGEST_TABLE, MOST_CELLS = 200, 320
"""Cells of a group, and of all groups together."""

SWEEPS = 2
"""Of coordinate ascent."""

FEW_COLUMNS = 5
"""Up to so many columns the ascent begins from no columns too."""


class _Shares:
    """Mean square of every weight's feature, and what coarser bins keep of it."""

    def __init__(self, effects: Effects) -> None:
        self.mean_square = np.ones(effects.n_weights)
        self.first = np.full(effects.n_weights, -1)
        self.second = np.full(effects.n_weights, -1)
        self.kept = {bins: np.ones((2, effects.n_weights)) for bins in (0, *BIN_CHOICES)}
        self.constant = effects.order[effects.term_of] == 0
        squares = [(table**2).mean(axis=0) for table in effects.tables]
        for term in effects.terms:
            at = slice(term.start, term.stop)
            for place, column in enumerate(term.columns):
                pair = len(term.columns) == 2
                count = effects.pair_components[column] if pair else effects.tables[column].shape[1]
                own = np.arange(term.stop - term.start)
                if pair:
                    other = effects.pair_components[term.columns[1]]
                    own = own // other if place == 0 else own % other
                self.mean_square[at] *= squares[column][:count][own]
                (self.first, self.second)[place][at] = column
                if effects.ordered[column]:
                    for bins in BIN_CHOICES:
                        self.kept[bins][place, at] = _kept(effects.tables[column], bins)[own]


def _kept(table: FloatArray, bins: int) -> FloatArray:
    """(c,) share of every component's mean square that its means over `bins` equal parts keep."""
    size = len(table)
    parts = coarse(np.arange(size), size=size, bins=bins)
    counts = np.bincount(parts, minlength=bins)
    means = np.stack([np.bincount(parts, weights=own, minlength=bins) for own in table.T]) / counts
    return np.asarray((means**2 * counts).sum(axis=1) / (table**2).sum(axis=0))


@lru_cache(maxsize=32)
def _shares(sizes: tuple[int, ...], ordered: tuple[bool, ...]) -> _Shares:
    return _Shares(Effects(sizes, ordered))


def value_of(
    effects: Effects,
    owner: tuple[int, ...],
    bins: tuple[int, ...],
    *,
    variance: FloatArray,
    people: float,
    noise_variance: Callable[[int], float],
    reward_variance: float,
) -> float:
    """Variance of the reward function that a release of these tables is expected to explain.

    Args:
        effects: the weights.
        owner: number of every column's group, or -1.
        bins: of every column; its levels where it is a category.
        variance: (m,) of every weight now.
        people: an arm.
        noise_variance: of an entry, given the number of tables.
        reward_variance: of one reward.

    Returns:
        -inf where the tables are too large.
    """
    shares = _shares(effects.sizes, effects.ordered)
    information = _information(effects, owner, bins, people, noise_variance, reward_variance)
    if information is None:
        return -np.inf
    return float((shares.mean_square * variance**2 * information / (1.0 + variance * information)).sum())


def left_variances(
    effects: Effects,
    design: Design,
    *,
    variance: FloatArray,
    people: float,
    noise_variance: float,
    reward_variance: float,
) -> FloatArray:
    """(m,) variance of every weight that is expected to be left when these tables are known.

    Args:
        noise_variance: of an entry.
        effects, variance, people, reward_variance: as `value_of` takes them.
    """
    owner, bins = design.to_array().tolist()
    known = _information(
        effects, tuple(owner), tuple(bins), people, lambda _: noise_variance, reward_variance
    )
    return variance if known is None else np.asarray(variance / (1.0 + variance * known))


def columns_in_turn(
    effects: Effects,
    *,
    variance: float,
    people: FloatArray,
    noise_variance: Callable[[int], float],
    reward_variance: float,
) -> tuple[FloatArray, FloatArray]:
    """Forecast of what a run tells about main effects when all columns matter alike.

    Groups of equally many columns are told, and in every block other columns. The number of groups, of
    columns in each and of bins are those that explain most.

    Args:
        variance: of a weight before any release.
        people: (blocks,) an arm's.
        noise_variance, reward_variance: as `value_of` takes them.

    Returns:
        Mean squares (m,) of the components of all columns, and the information (m,) about their weights.
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


def _information(
    effects: Effects,
    owner: tuple[int, ...],
    bins: tuple[int, ...],
    people: float,
    noise_variance: Callable[[int], float],
    reward_variance: float,
) -> FloatArray | None:
    """(m,) I of every weight, 0 where no table tells it; None where the tables are too large."""
    shares, owned = _shares(effects.sizes, effects.ordered), np.array(owner)
    q = max(1, owned.max() + 1)
    cells = np.ones(q + 1)
    for column, group in enumerate(owner):
        if group >= 0:
            cells[group] *= bins[column]
    if cells.max() > LARGEST_TABLE or cells[:q].sum() > MOST_CELLS:
        return None
    first = np.where(shares.first >= 0, owned[shares.first], -2)
    second = np.where(shares.second >= 0, owned[shares.second], first)
    told = shares.constant | ((first >= 0) & (first == second))
    table = np.where(shares.constant, int(np.argmin(cells[:q])), np.maximum(first, 0))
    kept = np.ones(effects.n_weights)
    for place, columns in enumerate((shares.first, shares.second)):
        for column, ordered in enumerate(effects.ordered):
            if ordered and owner[column] >= 0:
                kept = np.where(columns == column, kept * shares.kept[bins[column]][place], kept)
    signal = people * shares.mean_square * kept
    found = signal / (noise_variance(int(q)) * cells[table] / people + reward_variance)
    return np.asarray(np.where(told, found, 0.0))


def best_design(
    effects: Effects,
    *,
    variance: FloatArray,
    people: float,
    noise_variance: Callable[[int], float],
    reward_variance: float,
) -> Design:
    """The design of the largest `value_of`, by coordinate ascent over groups and bins."""
    d = len(effects.sizes)
    choices = [
        BIN_CHOICES if ordered else (size,)
        for size, ordered in zip(effects.sizes, effects.ordered, strict=True)
    ]

    @cache
    def asked(owner: tuple[int, ...], bins: tuple[int, ...]) -> float:
        return value_of(
            effects,
            owner,
            bins,
            variance=variance,
            people=people,
            noise_variance=noise_variance,
            reward_variance=reward_variance,
        )

    def value(owner: tuple[int, ...], bins: tuple[int, ...]) -> float:
        """Asked once: the ascent comes by the same tables again, and bins of a column in none say nothing."""
        return asked(owner, tuple(own if group >= 0 else 0 for group, own in zip(owner, bins, strict=True)))

    few = tuple(own[0] if len(own) == 1 else 4 for own in choices)
    starts = [tuple(range(d))] + ([(-1,) * d] if d <= FEW_COLUMNS else [])
    found = (value((-1,) * d, few), (-1,) * d, few)
    for start in starts:
        owner, bins = chosen = start, few
        best = value(owner, bins)
        for _ in range(SWEEPS):
            for column in range(d):
                for group in range(-1, max(owner) + 2):
                    for own in choices[column]:
                        moved = _relabelled((*owner[:column], group, *owner[column + 1 :]))
                        changed = (*bins[:column], own, *bins[column + 1 :])
                        score = value(moved, changed)
                        if score > best:
                            best, chosen = score, (moved, changed)
                owner, bins = chosen
        if best > found[0]:
            found = (best, owner, bins)
    _, owner, bins = found
    groups = tuple(tuple(j for j in range(d) if owner[j] == g) for g in range(max(owner) + 1)) or ((),)
    return Design(effects.sizes, bins, groups)


def _relabelled(owner: tuple[int, ...]) -> tuple[int, ...]:
    """The same groups, numbered 0.. without gaps."""
    names = {group: number for number, group in enumerate(sorted({group for group in owner if group >= 0}))}
    return tuple(names.get(group, -1) for group in owner)

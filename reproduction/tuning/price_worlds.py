"""Families of worlds on which constants of `actions=` are chosen: prices, bids, doses, discounts from seeds.

A world is written FAMILY:SEED. The seed draws its columns of contexts (one to six, or 20 to 30 in `wide`),
the range and steps of its action, and its functions. Some columns have no influence. Constants are chosen on
seeds below 1,000,000. The study `reproduction.studies.prices` reports on later seeds of these families, and
on the worlds of `lab.worlds.PRICE_WORLDS`, which are of no family here.

| family | chance of the outcome 1, by the action | value |
|---|---|---|
| `demand` | falls softly at what a person would pay | (price - cost) x bought |
| `reserve` | jumps at a reserve that depends on a category, then rises | (worth - bid) x won |
| `peak` | highest at a person's best dose | recovered |
| `rebate` | rises with the discount, for some people faster | (margin - discount) x bought |
| `level` | as `demand`, the same for everybody | (price - cost) x bought |
| `idle` | does not depend on the action | bought - cost of the action |
| `wide` | as in `demand`, `peak` or `rebate`, by two of the columns at most | as there |
"""

from collections.abc import Callable

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.lab.worlds.prices import PriceWorld

__all__ = ["FAMILIES", "WIDE", "made"]

FAMILIES = ("demand", "reserve", "peak", "rebate", "level", "idle")
WIDE = "wide"
"""Family of worlds with many columns; the other families have few."""

RELEVANT = 0.65
"""Chance that a column after the first has an influence."""

_Function = Callable[[FloatArray], FloatArray]
_Chance = Callable[[FloatArray, FloatArray], FloatArray]


def made(name: str) -> PriceWorld:
    """Return the world FAMILY:SEED."""
    family, _, seed = name.partition(":")
    rng = np.random.default_rng([[*_FAMILIES].index(family), int(seed)])
    count = int(rng.integers(*((20, 31) if family == WIDE else (1, 7))))
    kinds = [None if rng.random() < 0.6 else int(rng.integers(2, 5)) for _ in range(count)]
    if family == "reserve":
        kinds[-1] = int(rng.integers(2, 5))
    columns = {f"column {place}": kind for place, kind in enumerate(kinds)}
    steps, low = int(rng.integers(12, 31)), float(rng.choice([0.0, 1.0, 5.0]))
    width = float(rng.choice([1.0, 10.0, 40.0]))
    numbers = tuple((low + width * np.linspace(0.0, 1.0, steps)).round(9).tolist())
    chance, value, shape = _FAMILIES[family](rng, kinds, low, width)
    return PriceWorld(name, numbers, columns, chance, value, shape)


def _smooth(rng: np.random.Generator, kinds: list[int | None]) -> _Function:
    """Return a function of encoded contexts (n, d) with values (n, 1), of mean about 0 and deviation about 1.

    A range adds three cosines of a random phase, a category a number for each of its values. Half of the
    functions of two columns or more have a product of two columns too.
    """
    used = [place for place in range(len(kinds)) if place == len(kinds) - 1 or rng.random() < RELEVANT]
    weights = rng.dirichlet(np.full(len(used), 1.5)) ** 0.5
    tables = [rng.normal(size=4) for _ in kinds]
    phases = rng.uniform(0.0, np.pi, size=(len(kinds), 3))
    pair = rng.choice(len(kinds), size=2, replace=False) if len(kinds) > 1 and rng.random() < 0.5 else None

    def alone(columns: FloatArray, place: int) -> FloatArray:
        count = kinds[place]
        if count is None:
            waves = np.cos(np.pi * columns[:, place, None] * np.arange(1, 4) + phases[place])
            return np.asarray(waves @ (np.array([1.0, 0.25, 0.1]) * 1.35))
        own = tables[place][:count]
        return np.asarray(((own - own.mean()) / own.std())[columns[:, place].astype(np.int64)])

    def found(columns: FloatArray) -> FloatArray:
        total = sum(
            (weight * alone(columns, place) for weight, place in zip(weights, used, strict=True)),
            np.zeros(len(columns)),
        )
        if pair is not None:
            total = total + 0.4 * alone(columns, int(pair[0])) * alone(columns, int(pair[1]))
        return total[:, None]

    return found


def _falling(rng: np.random.Generator, low: float, width: float, of_contexts: _Function) -> _Chance:
    middle, spread, softness = rng.uniform(0.35, 0.65), rng.uniform(0.1, 0.22), rng.uniform(0.04, 0.12)
    most = rng.uniform(0.6, 1.0)

    def chance(columns: FloatArray, price: FloatArray) -> FloatArray:
        score = (middle + spread * of_contexts(columns) - (price - low) / width) / softness
        return np.asarray(most / (1.0 + np.exp(-np.clip(score, -50.0, 50.0))))

    return chance


def _nothing(columns: FloatArray) -> FloatArray:
    return np.zeros((len(columns), 1))


_Made = tuple[_Chance, Callable[..., FloatArray], str | None]


def _demand(rng: np.random.Generator, kinds: list[int | None], low: float, width: float) -> _Made:
    cost = low * rng.uniform(0.0, 1.0)
    chance = _falling(rng, low, width, _smooth(rng, kinds))
    return chance, lambda number, mean: (number - cost) * mean, "decreasing"


def _level(rng: np.random.Generator, kinds: list[int | None], low: float, width: float) -> _Made:
    cost = low * rng.uniform(0.0, 1.0)
    return _falling(rng, low, width, _nothing), lambda number, mean: (number - cost) * mean, "decreasing"


def _reserve(rng: np.random.Generator, kinds: list[int | None], low: float, width: float) -> _Made:
    reserves, quality = rng.uniform(0.1, 0.75, size=4), _smooth(rng, kinds)
    slope, rise = rng.uniform(0.0, 0.15), rng.uniform(0.0, 0.4)
    worth = low + width * rng.uniform(1.0, 1.2)

    def chance(columns: FloatArray, bid: FloatArray) -> FloatArray:
        reserve = reserves[columns[:, -1:].astype(np.int64)] + slope * columns[:, :1]
        over = (bid - low) / width - reserve
        won = np.where(over >= 0.0, 0.5 + rise * np.clip(over / 0.5, 0.0, 1.0), 0.03)
        return np.asarray(won * (0.85 + 0.15 * np.tanh(quality(columns))))

    return chance, lambda number, mean: (worth - number) * mean, "increasing"


def _peak(rng: np.random.Generator, kinds: list[int | None], low: float, width: float) -> _Made:
    middle, spread, around = rng.uniform(0.35, 0.65), rng.uniform(0.1, 0.25), rng.uniform(0.12, 0.3)
    least, height, of_contexts = rng.uniform(0.05, 0.3), rng.uniform(0.4, 0.7), _smooth(rng, kinds)

    def chance(columns: FloatArray, dose: FloatArray) -> FloatArray:
        best = np.clip(middle + spread * of_contexts(columns), 0.0, 1.0)
        off = ((dose - low) / width - best) / around
        return np.asarray(least + height * np.exp(-(off**2) / 2.0))

    return chance, lambda number, mean: mean + 0.0 * number, None


def _rebate(rng: np.random.Generator, kinds: list[int | None], low: float, width: float) -> _Made:
    start, gain = rng.uniform(-2.0, 0.0), rng.uniform(2.0, 5.0)
    appetite, response = _smooth(rng, kinds), _smooth(rng, kinds)
    margin = low + width * rng.uniform(1.1, 1.6)

    def chance(columns: FloatArray, discount: FloatArray) -> FloatArray:
        faster = gain * (1.0 + np.tanh(response(columns)))
        score = start + appetite(columns) + faster * (discount - low) / width
        return np.asarray(1.0 / (1.0 + np.exp(-np.clip(score, -50.0, 50.0))))

    return chance, lambda number, mean: (margin - number) * mean, "increasing"


def _idle(rng: np.random.Generator, kinds: list[int | None], low: float, width: float) -> _Made:
    appetite, dear = _smooth(rng, kinds), rng.uniform(0.3, 0.7)

    def chance(columns: FloatArray, number: FloatArray) -> FloatArray:
        return np.asarray(0.5 + 0.3 * np.tanh(appetite(columns)) + 0.0 * number)

    return chance, lambda number, mean: mean - dear * (number - low) / width, None


def _wide(rng: np.random.Generator, kinds: list[int | None], low: float, width: float) -> _Made:
    places = rng.choice(len(kinds), size=2, replace=False)
    few = (_demand, _peak, _rebate)[int(rng.integers(3))]
    chance, value, shape = few(rng, [kinds[place] for place in places], low, width)
    return lambda columns, number: chance(columns[:, places], number), value, shape


_FAMILIES: dict[str, Callable[[np.random.Generator, list[int | None], float, float], _Made]] = {
    "demand": _demand,
    "reserve": _reserve,
    "peak": _peak,
    "rebate": _rebate,
    "level": _level,
    "idle": _idle,
    WIDE: _wide,
}

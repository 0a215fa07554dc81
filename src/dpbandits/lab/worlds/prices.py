"""Made-up worlds in which the action is a number: prices, bids, doses. For evaluation only.

The outcome is 0 or 1 with a known chance for every context and action. What is maximised is a public value of
the action and the outcome: price times "bought", the worth of a click less a bid.

| world | contexts | action | outcome | value |
|---|---|---|---|---|
| `price-1` | income | price 1 to 20 | bought | price x bought |
| `price-3` | income, age, region | price 1 to 20 | bought | price x bought |
| `price-6` | the same and three without influence | price 1 to 20 | bought | price x bought |
| `bid` | quality, hour, site | bid .05 to 1 | won | (1 - bid) x won |
| `flat` | income, age, region | price 1 to 20 | bought | price x bought |
| `useless` | income, age, region | discount 0 to 19 | bought | bought - discount / 40 |
| `dose` | weight, genotype | dose 0.5 to 10 | recovered | recovered |

In `flat` contexts have no influence, in `useless` the action has none.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, Seed
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Actions, Categories, Range, Schema

__all__ = ["PRICE_WORLDS", "PriceWorld"]

STEPS = 20
"""Actions of the grid in every world."""

REGIONS = ("north", "south", "west", "east")
SHIFTS = np.array([-2.0, 0.0, 1.0, 3.0])
"""Amount by which people of each region pay more than others, in units of the price."""


def _logistic(score: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-score)))


def _income(columns: FloatArray, price: FloatArray) -> FloatArray:
    return _logistic((5.0 + 9.0 * columns[:, :1] - price) / 1.5)


def _many(columns: FloatArray, price: FloatArray) -> FloatArray:
    worth = 5.0 + 6.0 * columns[:, :1] + 2.0 * columns[:, 1:2] + SHIFTS[columns[:, 2:3].astype(np.int64)]
    return _logistic((worth - price) / 1.5)


def _nobody(columns: FloatArray, price: FloatArray) -> FloatArray:
    return _logistic((10.0 - price) / 1.5) + 0.0 * columns[:, :1]


def _won(columns: FloatArray, bid: FloatArray) -> FloatArray:
    reserve = np.where(columns[:, 2:3] >= 1.0, 0.7, 0.2) + 0.1 * columns[:, 1:2]
    over = bid - reserve
    shown = np.where(over >= 0.0, 0.45 + 0.4 * np.clip(over / 0.5, 0.0, 1.0), 0.03)
    return np.asarray(shown * (0.7 + 0.3 * columns[:, :1]))


def _discounted(columns: FloatArray, discount: FloatArray) -> FloatArray:
    return _logistic(1.5 * columns[:, :1] + columns[:, 1:2] - 1.0) + 0.0 * discount


def _dosed(columns: FloatArray, dose: FloatArray) -> FloatArray:
    best = 2.0 + 3.5 * columns[:, :1] + 1.5 * columns[:, 1:2]
    return np.asarray(0.15 + 0.7 * np.exp(-(((dose - best) / 1.9) ** 2) / 2.0))


def _revenue(number: FloatArray, mean: FloatArray) -> FloatArray:
    return number * mean


def _margin(number: FloatArray, mean: FloatArray) -> FloatArray:
    return (1.0 - number) * mean


def _less_discount(number: FloatArray, mean: FloatArray) -> FloatArray:
    return mean - number / 40.0


def _outcome(number: FloatArray, mean: FloatArray) -> FloatArray:
    return mean + 0.0 * number


@dataclass(frozen=True)
class PriceWorld:
    """A world of people who come one at a time.

    Attributes:
        name: Name of the world.
        numbers: Actions (K,).
        columns: Names of contexts, with the number of categories or None for a range from 0 to 1.
        chance: Chance (n, K) of the outcome 1, from encoded contexts (n, d) and actions (1, K).
        value: Public value (..., K) of `number` (K,) and `mean` (..., K), the mean outcome.
        shape: Public shape of the outcome along the action, or None.
    """

    name: str
    numbers: tuple[float, ...]
    columns: dict[str, int | None]
    chance: Callable[[FloatArray, FloatArray], FloatArray]
    value: Callable[..., FloatArray]
    shape: str | None = None

    @property
    def contexts(self) -> Schema:
        """Public columns of a context."""
        return Schema(
            **{
                name: Range(0, 1) if count is None else Categories(list(REGIONS[:count]))
                for name, count in self.columns.items()
            }
        )

    def people(self, seed: Seed, n: int) -> FloatArray:
        """Return contexts (n, d): incomes are skewed, the rest is uniform; categories are codes."""
        _checks.integer(seed, name="seed", minimum=0)
        uniform = PublicCoins(seed).uniform(f"prices/{self.name}", 0, n, len(self.columns))
        for place, count in enumerate(self.columns.values()):
            own = uniform[:, place]
            uniform[:, place] = (
                np.floor(own * count) if count is not None else own ** (1.5 if place == 0 else 1.0)
            )
        return uniform

    def means(self, people: FloatArray) -> FloatArray:
        """Return the chance (n, K) of the outcome 1 for every action."""
        return self.chance(people, np.array(self.numbers)[None])

    def values(self, means: FloatArray) -> FloatArray:
        """Return values (..., K) of mean outcomes (..., K)."""
        return self.value(number=np.array(self.numbers), mean=means)

    def coins(self, seed: Seed, n: int) -> FloatArray:
        """Return numbers (n,) in (0, 1): the outcome is 1 if its chance exceeds the number."""
        return PublicCoins(seed).uniform(f"prices/{self.name}/outcomes", 0, n, 1)[:, 0]

    @property
    def actions(self) -> Actions:
        """Grid of actions with its public value, and the shape of the outcome if it is known."""
        column = Range(self.numbers[0], self.numbers[-1], steps=len(self.numbers))
        return Actions(
            Schema(number=column),
            value=self.value,
            shape=None if self.shape is None else {"number": self.shape},
        )

    def table(self, people: FloatArray) -> dict[str, Any]:
        """Return people as columns of a table."""
        return {
            name: people[:, place] if count is None else np.array(REGIONS)[people[:, place].astype(np.int64)]
            for place, (name, count) in enumerate(self.columns.items())
        }


_THREE: dict[str, int | None] = {"income": None, "age": None, "region": 4}
_PRICES = tuple(np.linspace(1.0, 20.0, STEPS).tolist())

PRICE_WORLDS = {
    world.name: world
    for world in (
        PriceWorld("price-1", _PRICES, {"income": None}, _income, _revenue, "decreasing"),
        PriceWorld("price-3", _PRICES, _THREE, _many, _revenue, "decreasing"),
        PriceWorld(
            "price-6",
            _PRICES,
            _THREE | {"visits": None, "device": 2, "hour": None},
            _many,
            _revenue,
            "decreasing",
        ),
        PriceWorld(
            "bid",
            tuple(np.linspace(0.05, 1.0, STEPS).round(12).tolist()),
            {"quality": None, "hour": None, "site": 4},
            _won,
            _margin,
            "increasing",
        ),
        PriceWorld("flat", _PRICES, _THREE, _nobody, _revenue, "decreasing"),
        PriceWorld("useless", tuple(map(float, range(STEPS))), _THREE, _discounted, _less_discount),
        PriceWorld(
            "dose",
            tuple(np.linspace(0.5, 10.0, STEPS).tolist()),
            {"weight": None, "genotype": 3},
            _dosed,
            _outcome,
        ),
    )
}
"""Worlds by name."""

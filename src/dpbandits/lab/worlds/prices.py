"""Made-up worlds in which the action is a number: prices, bids, doses. For evaluation only.

The outcome is 0 or 1, and every context and action has a known chance of 1. A policy maximises a public
value of action and outcome, such as the price times "bought", or a click's worth less a bid.

| world | contexts | action | outcome | value |
|---|---|---|---|---|
| `price-1` | income | price 1 to 20 | bought | price x bought |
| `price-3` | income, age, region | price 1 to 20 | bought | price x bought |
| `price-6` | the same and three without influence | price 1 to 20 | bought | price x bought |
| `bid` | quality, hour, site | bid .05 to 1 | won | (1 - bid) x won |
| `flat` | income, age, region | price 1 to 20 | bought | price x bought |
| `useless` | income, age, region | discount 0 to 19 | bought | bought - discount / 40 |
| `dose` | weight, genotype | dose 0.5 to 10 | recovered | recovered |

In `flat` the contexts have no influence on the outcome, in `useless` the action has none.
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
"""Number of actions in every world."""

REGIONS = ("north", "south", "west", "east")
LABELS = {"genotype": ("CC", "CT", "TT"), "device": ("phone", "computer")}
"""Category names of the columns whose categories are no regions."""

SHIFTS = np.array([-2.0, 0.0, 1.0, 3.0])
"""Shift of the price that people of each region are willing to pay, in units of the price."""


def _logistic(score: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-score)))


def _labels(name: str, count: int) -> tuple[str, ...]:
    return LABELS.get(name, REGIONS)[:count]


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
    """A world of people who come one at a time, with K actions.

    Attributes:
        name: Name of the world.
        numbers: Actions (K,).
        columns: Names of contexts, with the number of categories or None for a range from 0 to 1.
        chance: Function from encoded contexts (n, d) and actions (1, K) to the chance (n, K) of the outcome
            1.
        value: Function from `number` (K,), the actions, and `mean` (..., K), the mean outcomes, to the
            public value (..., K).
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
                name: Range(0, 1) if count is None else Categories(list(_labels(name, count)))
                for name, count in self.columns.items()
            }
        )

    def people(self, seed: Seed, n: int) -> FloatArray:
        """Draw the encoded contexts (n, d) of n people.

        Incomes are skewed, all other columns are uniform, and categories are codes.
        """
        _checks.integer(seed, name="seed", minimum=0)
        uniform = PublicCoins(seed).uniform(f"prices/{self.name}", 0, n, len(self.columns))
        for place, count in enumerate(self.columns.values()):
            own = uniform[:, place]
            uniform[:, place] = (
                np.floor(own * count) if count is not None else own ** (1.5 if place == 0 else 1.0)
            )
        return uniform

    def means(self, people: FloatArray) -> FloatArray:
        """Return the chance (n, K) that the outcome is 1, for n people and K actions."""
        return self.chance(people, np.array(self.numbers)[None])

    def values(self, means: FloatArray) -> FloatArray:
        """Return the public values (..., K) of mean outcomes (..., K) of the K actions."""
        return self.value(number=np.array(self.numbers), mean=means)

    def coins(self, seed: Seed, n: int) -> FloatArray:
        """Return uniform numbers (n,) in (0, 1).

        A person's outcome is 1 if its chance exceeds the person's number.
        """
        return PublicCoins(seed).uniform(f"prices/{self.name}/outcomes", 0, n, 1)[:, 0]

    @property
    def actions(self) -> Actions:
        """Grid of actions with its public value function, and the shape of the outcome if it is known."""
        column = Range(self.numbers[0], self.numbers[-1], steps=len(self.numbers))
        return Actions(
            Schema(number=column),
            value=self.value,
            shape=None if self.shape is None else {"number": self.shape},
        )

    def table(self, people: FloatArray) -> dict[str, Any]:
        """Return encoded people (n, d) as columns of a table, by name."""
        return {
            name: people[:, place]
            if count is None
            else np.array(_labels(name, count))[people[:, place].astype(np.int64)]
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
"""Worlds by name; see the module."""

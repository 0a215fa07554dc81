"""Named values of an action: public functions of action and expected outcome, to maximise.

A value is called with every action column by name (K,) and with `mean`, expected outcomes (..., K), for K
actions. It returns values (..., K). A function of your own with these arguments works as well, but only a
named value can be saved, sent to a service or exported.

    Revenue(price="price", cost=2)   (price - cost) * mean
    Net(cost="spend", worth=50)      worth * mean - spend; (worth - spend) * mean with on_outcome=True
    Outcome()                        mean
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import LARGEST, an, assign, number
from dpbandits._config import Configured, Registry
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter

__all__ = ["VALUES", "Net", "Outcome", "Revenue"]


VALUES: Registry[Any] = Registry("a value")
"""Registry of named values.

Decorate your own class with `@VALUES.add("its type")`, so that a configuration can name it.
"""


@VALUES.add("Outcome")
@worded
@dataclass(frozen=True)
class Outcome(Configured):
    """The expected outcome itself as the value."""

    def __call__(self, *, mean: FloatArray, **columns: Any) -> FloatArray:
        """Return the expected outcomes `mean` unchanged."""
        return mean


@VALUES.add("Revenue")
@worded
@dataclass(frozen=True, kw_only=True)
class Revenue(Configured):
    """Price minus cost, times the expected number of units sold.

    Args:
        price: Name of the column with the price.
        cost: Cost of one unit.

    Raises:
        InvalidParameter: `price` is no text, or `cost` no finite number.

    Example:
        >>> Revenue(cost=2)(price=np.array([4.0, 10.0]), mean=np.array([0.5, 0.25])).tolist()
        [1.0, 2.0]
    """

    price: str = "price"
    cost: float = 0.0

    def __post_init__(self) -> None:
        an(self.price, str, name="price", pass_='price="price"')
        assign(self, cost=number(self.cost, name="cost", minimum=-LARGEST, exclusive=False, maximum=LARGEST))

    def __call__(self, *, mean: FloatArray, **columns: Any) -> FloatArray:
        """Return (price - cost) * mean."""
        return np.asarray((numbers_in(columns, self.price) - self.cost) * mean)


@VALUES.add("Net")
@worded
@dataclass(frozen=True, kw_only=True)
class Net(Configured):
    """Worth of the expected outcome, minus the cost of the action.

    Args:
        cost: Name of the column with the cost of the action.
        worth: Worth of an outcome of 1.
        each: Cost of one unit of the column.
        on_outcome: True if the cost is paid only with an outcome, as a discount is paid only by buyers.

    Raises:
        InvalidParameter: `cost` is no text, or another argument is no finite number.

    Example:
        >>> Net(cost="spend", worth=50)(spend=np.array([0.0, 10.0]), mean=np.array([0.5, 0.75])).tolist()
        [25.0, 27.5]
    """

    cost: str
    worth: float = 1.0
    each: float = 1.0
    on_outcome: bool = False

    def __post_init__(self) -> None:
        an(self.cost, str, name="cost", pass_='cost="spend"')
        for name in ("worth", "each"):
            given = getattr(self, name)
            checked = number(given, name=name, minimum=-LARGEST, exclusive=False, maximum=LARGEST)
            assign(self, **{name: checked})
        an(self.on_outcome, bool, name="on_outcome", pass_="on_outcome=True")

    def __call__(self, *, mean: FloatArray, **columns: Any) -> FloatArray:
        """Return worth * mean - each * cost, or, with `on_outcome`, (worth - each * cost) * mean."""
        cost = self.each * numbers_in(columns, self.cost)
        return np.asarray((self.worth - cost) * mean if self.on_outcome else self.worth * mean - cost)


def numbers_in(columns: Mapping[str, Any], name: str) -> FloatArray:
    """Return the column `name` of the actions as numbers, shape (K,).

    Raises:
        InvalidParameter: There is no such column, or it has categories.
    """
    if name not in columns:
        raise InvalidParameter(f"value: there is no action column {name!r}, only {', '.join(columns)}")
    found = np.asarray(columns[name])
    if found.dtype.kind not in "if":
        raise InvalidParameter(f"value: column {name!r} has categories, expected numbers")
    return found

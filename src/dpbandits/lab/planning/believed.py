"""Beliefs about numbers: `Between`, the bounds of a number, and `by_label`, a value for each arm."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpbandits._checks import LARGEST, number
from dpbandits.errors import InvalidParameter
from dpbandits.tables.description import check_keys

__all__ = ["AROUND", "Between", "by_label", "finite", "text_of"]

AROUND = 0.1
"""Relative half width of the bounds of a belief that is given as one number."""


class Between(NamedTuple):
    """Bounds between which a number is believed to lie."""

    low: float
    high: float

    @classmethod
    def of(cls, said: object, *, name: str, low: float, high: float) -> "Between":
        """Return the bounds that `said` states: two ends, or one number for bounds 10% around it.

        Raises:
            InvalidParameter: The bounds are not numbers from `low` to `high`, the smaller one first.
        """
        if isinstance(said, Sequence) and not isinstance(said, str) and len(said) == 2:
            ends = [finite(one, name) for one in said]
        elif isinstance(said, str | Sequence) or said is None:
            raise InvalidParameter(f"{name}: expected a number, or its two bounds, as in [0.1, 0.2]")
        else:
            middle = finite(said, name)
            ends = [middle - AROUND * abs(middle), middle + AROUND * abs(middle)]
            if low <= middle <= high:
                ends = [max(low, ends[0]), min(high, ends[1])]
        if not low <= ends[0] <= ends[1] <= high:
            raise InvalidParameter(
                f"{name}: expected numbers from {low:g} to {high:g}, the smaller one first"
            )
        return cls(*ends)

    def at(self, part: float, *, evenly: bool = False) -> float:
        """Return the `part`-quantile of the belief, for `part` in (0, 1).

        The distribution is triangular, because the middle is more likely than the ends. `evenly` makes it
        uniform.
        """
        if not evenly:
            part = float(np.sqrt(0.5 * part)) if part < 0.5 else 1.0 - float(np.sqrt(0.5 * (1.0 - part)))
        return self.low + part * (self.high - self.low)


def finite(value: object, name: str) -> float:
    """Return `value` as a float; raise InvalidParameter if it is not a finite number."""
    given = value.item() if isinstance(value, np.generic) else value
    return number(given, name=name, minimum=-LARGEST, exclusive=False, maximum=LARGEST)


def by_label(said: object, labels: Sequence[str], *, name: str) -> dict[str, Any]:
    """Return the value of every arm from the mapping `said`.

    Its keys are the arms' labels as TOML writes them.
    """
    if not isinstance(said, Mapping):
        raise InvalidParameter(f"{name}: expected a mapping from each arm's label to its mean reward")
    found = {text_of(label): value for label, value in said.items()}
    if len(set(labels)) < len(labels) or len(found) < len(said):
        raise InvalidParameter(f"{name}: two arms have labels with the same text: rename one")
    check_keys(found, name, required=set(labels))
    return {label: found[label] for label in labels}


def text_of(label: object) -> str:
    """Return a label as TOML writes it."""
    return str(label).lower() if isinstance(label, bool) else str(label)

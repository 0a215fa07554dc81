"""From shares in simulated worlds to what is said of the next one.

The world that a user will meet is one more draw from the worlds that the facts allow: what is said of its
share is a prediction, not the error of a mean. A world's share is what one keeps there on average over
people and noise. Every world is run twice, with other people and noise: half the squared differences of the
two say what one run scatters by, v, and the variance s of the worlds' means, less v/2, what worlds differ
by, b. The share of the next of W worlds lies within m -+ t sqrt(b + s/W + d^2), t being Student's. Few
worlds say little of b and v, so both are drawn towards what is typical; d is how far worlds of other shapes
lie off. These constants (`BETWEEN`, `WITHIN`, `SHAPES`) were set after a look at two worlds of
`benchmarks/plan_tuning`; what intervals cover on held-back worlds has not been measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import stdtrit

from dpbandits._typing import FloatArray

__all__ = ["LEVEL", "Curve", "predicted", "shares_of"]

LEVEL = 0.9
"""Of the intervals."""

BETWEEN, WITHIN = 0.04, 0.1
"""Typical deviations of shares between worlds, and between two runs in one."""

COUNTS = 4.0
"""For how many worlds they count."""

SHAPES = 0.07
"""Deviation between the mean share of our worlds and of a world made otherwise."""

_LEAST_UPLIFT = 0.25
"""Of the mean non-private uplift: a world's share is told of no less, as a ratio to nearly nothing says
nothing."""

Along = Literal["epsilon", "people"]


def shares_of(reward: FloatArray, whole: FloatArray, uniform: FloatArray) -> FloatArray:
    """(W, 2) shares of the non-private uplift of both runs in every world, from mean rewards (W, 2).

    Of the uplift of both runs together: it is a world's.
    """
    uplift = (whole - uniform).mean(axis=1, keepdims=True)
    own = (reward - whole) / np.maximum(uplift, _LEAST_UPLIFT * uplift.mean())
    return np.asarray(1.0 + own)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Predicted share of the non-private uplift along epsilon or the number of people.

    Attributes:
        along: what it runs along.
        places: (E,) increasing.
        share: (E,) expected share.
        low, high: (E,) ends of the interval that the next world's share lies in with probability `LEVEL`.
        sure: (E,) what it exceeds with the certainty asked for.
        error: (E,) standard error of the mean over simulated worlds.
        scatter: (E,) standard deviation of one run around its world's share.
    """

    along: Along
    places: tuple[float, ...]
    share: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    sure: tuple[float, ...]
    error: tuple[float, ...]
    scatter: tuple[float, ...]

    def first(self, target: float) -> float | None:
        """Where the share is surely at least `target` from then on, between places by logarithms; or None."""
        sure = np.array(self.sure)
        enough = np.flatnonzero(sure >= target)
        if not len(enough):
            return None
        at = int(enough[0])
        if at == 0 or sure[at] == sure[at - 1]:
            return self.places[at]
        step = (target - sure[at - 1]) / (sure[at] - sure[at - 1])
        before, after = np.log(self.places[at - 1]), np.log(self.places[at])
        return float(np.exp(before + step * (after - before)))

    def at(self, place: float) -> dict[str, float]:
        """Share, low and high at a place between the ends, by logarithms."""
        logs = np.log(self.places)
        return {
            name: float(np.interp(np.log(place), logs, getattr(self, name)))
            for name in ("share", "low", "high")
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """One row a place."""
        names = ("share", "low", "high", "error", "scatter")
        columns = zip(self.places, *(getattr(self, name) for name in names), strict=True)
        return [{self.along: place, **dict(zip(names, rest, strict=True))} for place, *rest in columns]


def predicted(along: Along, places: Sequence[float], shares: FloatArray, *, certainty: float) -> Curve:
    """The curve of worlds' shares (W, 2, E), W at least 2, of two runs each at increasing places (E,).

    More epsilon, and more people, never keep less: every world's shares are made increasing, and so are the
    ends of intervals.
    """
    rising = np.apply_along_axis(lambda row: isotonic_regression(row).x, 1, shares.mean(axis=1))
    worlds, mean = len(rising), rising.mean(axis=0)
    apart = 0.5 * (shares[:, 0] - shares[:, 1]) ** 2
    within = (COUNTS * WITHIN**2 + apart.sum(axis=0)) / (COUNTS + worlds)
    seen = ((rising - mean) ** 2).sum(axis=0) / (worlds - 1.0)
    found = np.maximum(0.0, seen - within / 2.0)
    between = (COUNTS * BETWEEN**2 + (worlds - 1.0) * found) / (COUNTS + worlds - 1.0)
    of_mean = (between + within / 2.0) / worlds
    spread, free = np.sqrt(between + of_mean + SHAPES**2), COUNTS + worlds - 1.0
    half = stdtrit(free, 0.5 + LEVEL / 2.0) * spread
    ends = {
        "share": mean,
        "low": mean - half,
        "high": mean + half,
        "sure": mean - stdtrit(free, certainty) * spread,
    }
    rounded = {name: tuple(isotonic_regression(values).x.tolist()) for name, values in ends.items()}
    return Curve(
        along=along,
        places=tuple(float(place) for place in places),
        error=tuple(np.sqrt(of_mean).tolist()),
        scatter=tuple(np.sqrt(within).tolist()),
        **rounded,
    )

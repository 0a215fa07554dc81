"""From shares in simulated worlds to what is said of the next one.

The world that a user will meet is one more draw from the worlds that the facts allow: what is said of its
share is a prediction, not the error of a mean. A world's share is what one keeps there on average over
people and noise; every world is run twice, with other people and noise. Half the squared differences of the
two say what one run scatters by, v, and the variance s of the worlds' means, less v/2, what worlds differ
by, b. The share of the next of W worlds lies within m -+ f t sqrt(b + s/W + d^2 r), t being Student's. Here
d is how far worlds of other shapes lie off where half is kept, and r how much room a share has, 1 there and
less near none and near all. Few worlds say little of b and v, so b/r and v/r are drawn towards their means
along the curve and towards what is typical.

The constants (`OF_FACTS`, `OF_RATES`, `OF_SEGMENTS`, `OF_TABLES`, `WITHIN`) are what
`reproduction/tuning/plan_constants.py` found on the worlds of `reproduction/tuning/plan_tuning`: b, d and f
of the intervals that are narrowest in the median where the others of these worlds choose each one's f and 94%
of its own shares are held: more than `LEVEL`, as these worlds are few and strangers' worlds unlike them. Of
facts with rates those true shares are judged that are known to .05. What intervals cover elsewhere is
measured by `reproduction/studies/plan.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import stdtrit

from dpbandits._typing import FloatArray

__all__ = ["LEVEL", "Curve", "predicted", "shares_of"]

LEVEL = 0.9
"""Level of the intervals."""


class Apart(NamedTuple):
    """Typical spread between worlds that are drawn alike.

    Attributes:
        between: deviation of their shares.
        shapes: deviation between their middle and a world made otherwise, where half is kept.
        edge: room that a share has at none and at all, where it has 1 at a half.
        factor: by which intervals are longer than these deviations say.
    """

    between: float
    shapes: float
    edge: float = 0.2
    factor: float = 1.0


OF_FACTS = Apart(between=0.02, shapes=0.15, edge=0.03, factor=0.81)
OF_RATES = Apart(between=0.02, shapes=0.07, edge=0.4, factor=1.01)
OF_SEGMENTS = Apart(between=0.02, shapes=0.04, edge=0.03, factor=1.1)
OF_TABLES = Apart(between=0.02, shapes=0.02, edge=0.4, factor=1.28)
"""Sources of worlds: facts without every arm's rate, facts with it, facts with rates in segments, and one
table."""

WITHIN = 0.19
"""Typical deviation of the shares of two runs in one world."""

COUNTS = 4.0
"""For how many worlds what is typical counts."""

LEAST, MOST = -0.3, 1.1
"""Between which the share of one run is taken, and shares are told."""

_LEAST_UPLIFT = 0.25
"""Smallest share of the mean non-private uplift that a world's share is divided by: a ratio to nearly nothing
says nothing."""

Along = Literal["epsilon", "people"]


def best_of(rewards: Sequence[FloatArray]) -> FloatArray:
    """(W, runs) mean rewards of the policy, of several, that earns most in a world, all its runs together."""
    each = np.stack(rewards)
    best = each.mean(axis=2).argmax(axis=0)
    return np.asarray(each[best, np.arange(each.shape[1])])


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
        share: (E,) expected share: the next world's is as likely above as below.
        low, high: (E,) ends of the interval that the next world's share lies in with probability `LEVEL`.
        sure: (E,) what it exceeds with the certainty asked for.
        error: (E,) standard error of the mean over simulated worlds.
        scatter: (E,) standard deviation of one run around its world's share.
        simulated: (W, R, E) shares of the runs in all worlds, which the prediction is made of.
    """

    along: Along
    places: tuple[float, ...]
    share: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    sure: tuple[float, ...]
    error: tuple[float, ...]
    scatter: tuple[float, ...]
    simulated: FloatArray = field(repr=False, compare=False)

    def first(self, target: float) -> float | None:
        """Return the first place from which the share is surely at least `target`, between places by
        logarithms, or None.
        """
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


def predicted(
    along: Along, places: Sequence[float], shares: FloatArray, *, certainty: float, apart: Apart = OF_FACTS
) -> Curve:
    """The curve of worlds' shares (W, R, E) at increasing places (E,): W at least 2, R = 1 or 2 runs in each.

    More epsilon, and more people, never keep less: the mean over worlds is made increasing, and so are the
    ends of intervals.
    """
    own = np.clip(shares, LEAST, MOST)
    worlds, runs = own.shape[:2]
    each = own.mean(axis=1)
    middle = isotonic_regression(each.mean(axis=0)).x
    room = _room(middle, apart.edge)
    differ = 0.5 * (own[:, 0] - own[:, -1]) ** 2 / room  # none of one run
    free = worlds * (runs - 1)
    within = room * _joined(_joined(WITHIN**2, free * differ.mean(), free), differ.sum(axis=0), free)
    seen = each.var(axis=0, ddof=1)
    found = (worlds - 1.0) * np.maximum(0.0, seen - within / runs) / room
    between = room * _joined(_joined(apart.between**2, found.mean(), worlds - 1.0), found, worlds - 1.0)
    of_mean = (between + within / runs) / worlds
    otherwise = apart.shapes**2 * room
    spread = apart.factor * np.sqrt(between + of_mean + otherwise)
    free = COUNTS + worlds - 1.0
    half = stdtrit(free, 0.5 + LEVEL / 2.0) * spread
    ends = {
        "share": middle,
        "low": middle - half,
        "high": middle + half,
        "sure": middle - stdtrit(free, certainty) * spread,
    }
    told = {
        name: tuple(np.clip(isotonic_regression(end).x, LEAST, MOST).tolist()) for name, end in ends.items()
    }
    return Curve(
        along=along,
        places=tuple(float(place) for place in places),
        error=tuple(np.sqrt(of_mean).tolist()),
        scatter=tuple(np.sqrt(within).tolist()),
        simulated=shares,
        **told,
    )


def _room(share: FloatArray, edge: float) -> FloatArray:
    """1 where half is kept, less towards none and all, and `edge` there and beyond."""
    part = np.clip(share, 0.0, 1.0)
    return np.asarray(edge + (1.0 - edge) * 4.0 * part * (1.0 - part))


def _joined(typical: Any, squares: Any, worlds: float) -> Any:
    """A variance from a sum of squares of so many worlds, and a typical one that counts for `COUNTS`."""
    return (COUNTS * typical + squares) / (COUNTS + worlds)

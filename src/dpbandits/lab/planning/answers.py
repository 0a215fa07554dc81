"""From shares in simulated worlds to what is said of the next one.

The world that a user will meet is one more draw from the worlds that the facts allow: what is said of its
share is a prediction, not the error of a mean. A world's share is what one keeps there on average over
people and noise. Shares crowd near none and near all, so everything is reckoned in log odds,

    z = log((share - a) / (b - share)),  a = -.1, b = 1.1,

and told as shares. Every world is run twice, with other people and noise: half the squared differences of the
two say what one run scatters by, v, and the variance s of the worlds' means, less v/2, what worlds differ
by, b. The z of the next of W worlds lies within m -+ t sqrt(b + s/W + d^2), t being Student's. Few worlds
say little of b and v, so both are drawn towards what is typical, b also towards its mean along the curve; d
is how far worlds of other shapes lie off. These constants (`OF_FACTS`, `OF_TABLES`, `WITHIN`) were set by
hand after few runs of three worlds and a table of `benchmarks/plan_tuning`; what the intervals cover
elsewhere is measured by `benchmarks/plan.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import expit, logit, stdtrit

from dpbandits._typing import FloatArray

__all__ = ["LEVEL", "Curve", "predicted", "shares_of"]

LEVEL = 0.9
"""Of the intervals."""


class Apart(NamedTuple):
    """Deviations of z: typically between worlds, and between their middle and a world made otherwise."""

    between: float
    shapes: float


OF_FACTS, OF_TABLES = Apart(between=0.3, shapes=0.45), Apart(between=0.1, shapes=0.15)
"""Where worlds are drawn from facts, and where they are people of one table."""

WITHIN = 0.5
"""Typical deviation of z between two runs in one world."""

COUNTS = 4.0
"""For how many worlds what is typical counts."""

_LEAST, _MOST, _EDGE = -0.1, 1.1, 0.02
"""Between which shares are told, and how near to these bounds they may come."""

_LEAST_UPLIFT = 0.25
"""Of the mean non-private uplift: a world's share is told of no less, as a ratio to nearly nothing says
nothing."""

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


def predicted(
    along: Along,
    places: Sequence[float],
    shares: FloatArray,
    *,
    certainty: float,
    apart: Apart = OF_FACTS,
) -> Curve:
    """The curve of worlds' shares (W, R, E) at increasing places (E,): W at least 2, R = 1 or 2 runs in each.

    More epsilon, and more people, never keep less: every world's shares are made increasing, and so are the
    ends of intervals.
    """
    (worlds, runs), own = shares.shape[:2], _log_odds(shares)
    rising = np.apply_along_axis(lambda row: isotonic_regression(row).x, 1, _log_odds(shares.mean(axis=1)))
    middle = rising.mean(axis=0)
    differ = 0.5 * (own[:, 0] - own[:, -1]) ** 2  # none of one run
    within = _joined(WITHIN**2, differ.sum(axis=0), worlds * (runs - 1))
    seen = ((rising - middle) ** 2).sum(axis=0) / (worlds - 1.0)
    found = (worlds - 1.0) * np.maximum(0.0, seen - within / runs)
    between = _joined(_joined(apart.between**2, found.mean(), worlds - 1.0), found, worlds - 1.0)
    of_mean = (between + within / runs) / worlds
    spread, free = np.sqrt(between + of_mean + apart.shapes**2), COUNTS + worlds - 1.0
    half = stdtrit(free, 0.5 + LEVEL / 2.0) * spread
    ends = {
        "share": middle,
        "low": middle - half,
        "high": middle + half,
        "sure": middle - stdtrit(free, certainty) * spread,
    }
    rounded = {name: tuple(_shares(isotonic_regression(z).x).tolist()) for name, z in ends.items()}
    slope = (_MOST - _LEAST) * expit(middle) * expit(-middle)
    return Curve(
        along=along,
        places=tuple(float(place) for place in places),
        error=tuple((slope * np.sqrt(of_mean)).tolist()),
        scatter=tuple((slope * np.sqrt(within)).tolist()),
        **rounded,
    )


def _log_odds(shares: FloatArray) -> FloatArray:
    inside = np.clip(shares, _LEAST + _EDGE, _MOST - _EDGE)
    return np.asarray(logit((inside - _LEAST) / (_MOST - _LEAST)))


def _shares(log_odds: FloatArray) -> FloatArray:
    return np.asarray(_LEAST + (_MOST - _LEAST) * expit(log_odds))


def _joined(typical: Any, squares: Any, worlds: float) -> Any:
    """A variance from a sum of squares of so many worlds, and a typical one that counts for `COUNTS`."""
    return (COUNTS * typical + squares) / (COUNTS + worlds)

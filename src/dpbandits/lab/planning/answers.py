"""Prediction intervals for the retained uplift ("share") in the next world, from shares in simulated worlds.

The world that a user meets is one more draw from the worlds that the facts allow. `predicted` therefore
returns a prediction interval, not the error of a mean.

Prediction interval
-------------------
A world's share is its mean over users and noise. Every world is run twice, with other users and noise.

| symbol | meaning |
|---|---|
| m | mean share of the W simulated worlds |
| v | variance of one run within a world: half the squared difference of its two runs |
| s | variance of the worlds' means |
| b | variance between worlds: s - v/2 |
| d | deviation of worlds of other shapes, at a share of one half |
| r | factor on variances: 1 at a share of one half, less near 0 and 1 |
| f | factor on the width of the interval |
| t | quantile of Student's distribution |

The share of the next world after W worlds lies within m -+ f t sqrt(b + s/W + d^2 r). Few worlds estimate b
and v poorly. So b/r and v/r are shrunk towards their means along the curve and towards typical values.

Constants
---------
`reproduction/tuning/plan_constants.py` chose `OF_FACTS`, `OF_RATES`, `OF_SEGMENTS`, `OF_TABLES` and `WITHIN`
on the worlds of `reproduction/tuning/plan_tuning`. It takes the b, d and f with the narrowest median
interval, under the condition that the intervals cover 94% of the shares. The f that is used in each world is
chosen on the other worlds. 94% is more than `LEVEL`, because these worlds are few and users' worlds differ
from them. For facts with rates, only true shares that are known to .05 are judged.
`reproduction/studies/plan.py` measures the coverage on other worlds.
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
"""Probability with which an interval contains the next world's share."""


class Apart(NamedTuple):
    """Typical spread of the retained uplift ("share") between worlds from one source.

    Attributes:
        between: Standard deviation of the worlds' shares.
        shapes: Deviation of a world of another shape from the worlds' mean share, at a share of one half.
        edge: Factor on variances at shares 0 and 1; it is 1 at a share of one half.
        factor: Factor on the width of intervals.
    """

    between: float
    shapes: float
    edge: float = 0.2
    factor: float = 1.0


OF_FACTS = Apart(between=0.02, shapes=0.15, edge=0.03, factor=0.81)
OF_RATES = Apart(between=0.02, shapes=0.07, edge=0.4, factor=1.01)
OF_SEGMENTS = Apart(between=0.02, shapes=0.04, edge=0.03, factor=1.1)
OF_TABLES = Apart(between=0.02, shapes=0.02, edge=0.4, factor=1.28)
"""Spread between worlds by their source.

`OF_FACTS` is for facts without rates, `OF_RATES` for facts with every arm's rate, `OF_SEGMENTS` for facts
with rates by segment, and `OF_TABLES` for a table.
"""

WITHIN = 0.19
"""Typical standard deviation of a run's retained uplift around the mean of its world."""

COUNTS = 4.0
"""Weight of a typical variance when it is averaged with measured ones, as a number of worlds."""

LEAST, MOST = -0.3, 1.1
"""Bounds to which the retained uplift of each run, and each predicted one, is clipped."""

_LEAST_UPLIFT = 0.25
"""Smallest divisor of a world's retained uplift, as a multiple of the mean non-private uplift of all worlds.

A ratio with a divisor near zero is meaningless.
"""

Along = Literal["epsilon", "people"]


def best_of(rewards: Sequence[FloatArray]) -> FloatArray:
    """Return the mean rewards (W, runs) of the best policy in each of W worlds.

    It is the policy that earns most in the world over all runs. `rewards` has one array (W, runs) per
    policy.
    """
    each = np.stack(rewards)
    best = each.mean(axis=2).argmax(axis=0)
    return np.asarray(each[best, np.arange(each.shape[1])])


def shares_of(reward: FloatArray, whole: FloatArray, uniform: FloatArray) -> FloatArray:
    """Return the retained uplift (W, 2) of the two runs in each of W worlds.

    The arguments are mean rewards (W, 2) of the private policy, of the non-private policy (`whole`), and of
    random choice. The divisor is the non-private uplift over both runs, because it is a property of the
    world.
    """
    uplift = (whole - uniform).mean(axis=1, keepdims=True)
    own = (reward - whole) / np.maximum(uplift, _LEAST_UPLIFT * uplift.mean())
    return np.asarray(1.0 + own)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Predicted retained uplift ("share") as a function of epsilon or of the number of users.

    The curve has E places. The prediction comes from W worlds with R runs each.

    Attributes:
        along: Name of the horizontal axis.
        places: Values of epsilon or numbers of users, increasing, shape (E,).
        share: Median predicted share of the next world, shape (E,).
        low, high: Ends of the interval that contains the next world's share with probability `LEVEL`, shape
            (E,).
        sure: Share that the next world exceeds with the requested certainty, shape (E,).
        error: Standard error of the mean over simulated worlds, shape (E,).
        scatter: Standard deviation of one run around its world's share, shape (E,).
        simulated: Shares of all runs, from which the prediction is computed, shape (W, R, E).
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
        """Return the smallest epsilon or number of users at which `sure` reaches `target`.

        The result is None if it does not.

        Between the entries of `places`, `sure` is interpolated linearly in their logarithm.
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
        """Return share, low and high at an epsilon or number of users.

        They are interpolated linearly in its logarithm.
        """
        logs = np.log(self.places)
        return {
            name: float(np.interp(np.log(place), logs, getattr(self, name)))
            for name in ("share", "low", "high")
        }

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row per epsilon or number of users: share, low, high, error and scatter."""
        names = ("share", "low", "high", "error", "scatter")
        columns = zip(self.places, *(getattr(self, name) for name in names), strict=True)
        return [{self.along: place, **dict(zip(names, rest, strict=True))} for place, *rest in columns]


def predicted(
    along: Along, places: Sequence[float], shares: FloatArray, *, certainty: float, apart: Apart = OF_FACTS
) -> Curve:
    """Predict a curve from the retained uplift `shares` (W, R, E) in simulated worlds.

    There are W >= 2 worlds with R = 1 or 2 runs at each of E `places`. A larger epsilon or more users never
    retain less. The mean over worlds and the ends of intervals are therefore made increasing by isotonic
    regression.
    """
    own = np.clip(shares, LEAST, MOST)
    worlds, runs = own.shape[:2]
    each = own.mean(axis=1)
    middle = isotonic_regression(each.mean(axis=0)).x
    room = _room(middle, apart.edge)
    differ = 0.5 * (own[:, 0] - own[:, -1]) ** 2 / room  # zero if there is one run
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
    """Return the factor on variances at each share.

    It is 1 at a share of one half, and falls to `edge` at 0 and 1, where it stays for shares outside [0, 1].
    """
    part = np.clip(share, 0.0, 1.0)
    return np.asarray(edge + (1.0 - edge) * 4.0 * part * (1.0 - part))


def _joined(typical: Any, squares: Any, worlds: float) -> Any:
    return (COUNTS * typical + squares) / (COUNTS + worlds)

"""Worlds that are hard on private policies, by name: `hard("nugget", seed=...)`.

By default, users have two columns in [0, 1] and one of three regions. There are four arms with smooth mean
rewards between .1 and .9. The functions are the same for all seeds; the seed determines users and rewards.

| name | difficulty |
|---|---|
| `smooth` | none, for comparison |
| `irrelevant-3`, `irrelevant-10` | 3 or 10 more columns without information |
| `nugget` | half of the variation of mean rewards is independent between users |
| `heavy-tails` | rewards have a Cauchy distribution, clipped to a range ten times as wide |
| `competing` | each user has one right arm and all others pay 0, so rewards of one arm inform about all |
| `drift-abrupt` | after half of the rounds, the arms swap their mean rewards |
| `drift-slow` | the arms swap their mean rewards gradually |
| `ordered` | users come sorted by their first column, so the next user is unlike all before |
| `few-people` | 400 users |
| `arms-100` | 100 arms |
| `flat` | all arms pay alike, so there is nothing to learn |
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Arms, RewardRange
from dpbandits.lab.worlds.tables import TableBandit
from dpbandits.tables import Categories, Range, Schema

__all__ = ["HARD", "hard"]

PEOPLE = 5_000
"""Number of users in every world except `few-people`."""

_FEW = 400
_ARMS = 4
_MANY_ARMS = 100
_REGIONS = ("north", "south", "west")


@dataclass(frozen=True, kw_only=True)
class _Crowd:
    x: FloatArray
    region: FloatArray
    rng: np.random.Generator

    @property
    def time(self) -> FloatArray:
        return np.arange(len(self.x)) / len(self.x)


Means = Callable[[_Crowd], FloatArray]
"""Function from users to mean rewards (n, K) in [0, 1]."""


def _smooth(crowd: _Crowd, arms: int = _ARMS) -> FloatArray:
    golden = (0.5 + np.arange(arms) * 0.618034) % 1.0
    middle = np.stack([golden, (np.arange(arms) + 0.5) / arms], axis=1)
    place = crowd.x[:, None, :] + 0.15 * (crowd.region[:, None, None] - 1.0) * np.array([1.0, 0.0])
    away = ((place - middle) ** 2).sum(axis=2)
    return np.asarray(0.1 + 0.8 * np.exp(-away / (2.0 * 0.3**2)))


def _nugget(crowd: _Crowd) -> FloatArray:
    own = crowd.rng.uniform(-0.4, 0.4, size=(len(crowd.x), _ARMS))
    return np.clip(0.5 + 0.5 * (_smooth(crowd) - 0.5) + own, 0.0, 1.0)


def _right_arm(crowd: _Crowd) -> FloatArray:
    """Return the probability that each arm is the user's right one, (n, K) for n users; rows sum to 1."""
    odds = np.exp(6.0 * _smooth(crowd))
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def _abrupt(crowd: _Crowd) -> FloatArray:
    first = _smooth(crowd)
    return np.where(crowd.time[:, None] < 0.5, first, first[:, ::-1])


def _slow(crowd: _Crowd) -> FloatArray:
    first, share = _smooth(crowd), crowd.time[:, None]
    return (1.0 - share) * first + share * first[:, ::-1]


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    means: Means = _smooth
    arms: int = _ARMS
    more_columns: int = 0
    people: int = PEOPLE
    sorted_: bool = False
    ordered: bool = False
    one_right: bool = False
    heavy: bool = False


HARD: Mapping[str, _Recipe] = {
    "smooth": _Recipe(),
    "irrelevant-3": _Recipe(more_columns=3),
    "irrelevant-10": _Recipe(more_columns=10),
    "nugget": _Recipe(means=_nugget),
    "heavy-tails": _Recipe(heavy=True),
    "competing": _Recipe(means=_right_arm, one_right=True),
    "drift-abrupt": _Recipe(means=_abrupt, ordered=True),
    "drift-slow": _Recipe(means=_slow, ordered=True),
    "ordered": _Recipe(sorted_=True, ordered=True),
    "few-people": _Recipe(people=_FEW),
    "arms-100": _Recipe(means=lambda crowd: _smooth(crowd, _MANY_ARMS), arms=_MANY_ARMS),
    "flat": _Recipe(means=lambda crowd: np.full((len(crowd.x), _ARMS), 0.5)),
}
"""Settings of the worlds by name; see the module."""

_TAILS = 0.1
"""Half the interquartile range of a Cauchy reward in the world `heavy-tails`."""

_WIDE = RewardRange(-4.5, 5.5)


@worded
def hard(name: str, *, seed: Seed, horizon: int | None = None) -> TableBandit:
    """Create a world that is hard on private policies; see the module.

    Args:
        name: One of `HARD`.
        seed: Seed of users and rewards.
        horizon: Number of users; by default 5,000, or 400 for `few-people`.

    Raises:
        InvalidParameter: The name is unknown, or there are no users.
    """
    recipe = HARD[_checks.one_of(name, tuple(HARD), name="name")]
    n = recipe.people if horizon is None else _checks.integer(horizon, name="horizon")
    rng = np.random.default_rng([_checks.integer(seed, name="seed", minimum=0), 0])
    x, region = rng.random((n, 2)), rng.integers(len(_REGIONS), size=n).astype(np.float64)
    more = rng.random((n, recipe.more_columns))
    if recipe.sorted_:
        x = x[np.argsort(x[:, 0])]
    means = recipe.means(_Crowd(x=x, region=region, rng=rng))
    luck, bounds = rng.random((n, 1)), _WIDE if recipe.heavy else RewardRange(0.0, 1.0)
    if recipe.one_right:
        right = (luck > means.cumsum(axis=1)).sum(axis=1).clip(max=recipe.arms - 1)
        paid = np.eye(recipe.arms)[right]
    elif recipe.heavy:
        paid = np.clip(means + _TAILS * np.tan(np.pi * (luck - 0.5)), bounds.low, bounds.high)
    else:
        paid = (luck < means).astype(np.float64)
    columns = {"first": Range(0, 1), "second": Range(0, 1), "region": Categories(list(_REGIONS))}
    extra = {f"other_{number + 1}": Range(0, 1) for number in range(recipe.more_columns)}
    return TableBandit(
        name=name,
        schema=Schema(**columns, **extra),
        contexts=np.column_stack([x, region, more]),
        arms=Arms(recipe.arms),
        reward_table=paid,
        expected=means,
        reward_range=bounds,
        seed=seed,
        horizon=n,
        ordered=recipe.ordered,
    )

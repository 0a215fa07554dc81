"""What a policy would have earned, from a randomised log: inverse propensity weighting and its relatives.

| method | estimate of the value of a law p(a | x) |
|---|---|
| `ips` | mean of p(a_i)/e_i y_i: unbiased where e is right |
| `self_normalised` | the same over the mean of p(a_i)/e_i: less scatter, a little bias |
| `doubly_robust` | mean of sum_a p(a) m(x_i, a) + p(a_i)/e_i (y_i - m(x_i, a_i)), m fitted elsewhere |

Intervals resample whole clusters (families, schools), which share an assignment or a fate. For evaluation on
data that one may look at: not a release.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["PolicyValue", "policy_value", "value_difference"]

Method = Literal["ips", "self_normalised", "doubly_robust"]
METHODS: tuple[Method, ...] = ("ips", "self_normalised", "doubly_robust")


@dataclass(frozen=True)
class PolicyValue:
    """An estimated value with its interval.

    Attributes:
        estimate: mean reward.
        standard_error: over bootstrap draws of clusters.
        low: lower end of the percentile interval.
        high: its upper end.
        level: its nominal coverage.
        method: how it was estimated.
        clusters: how many there were.
    """

    estimate: float
    standard_error: float
    low: float
    high: float
    level: float
    method: Method
    clusters: int

    def __str__(self) -> str:
        return f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}]"


def policy_value(
    law: ArrayLike,
    *,
    actions: ArrayLike,
    rewards: ArrayLike,
    propensities: ArrayLike,
    clusters: ArrayLike | None = None,
    method: Method = "self_normalised",
    outcomes: ArrayLike | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: Seed = 0,
) -> PolicyValue:
    """Value of a policy on a log of n people.

    Args:
        law: (n, A) the policy's probabilities, or (n,) the arms it chooses.
        actions: (n,) arms that were given.
        rewards: (n,) what came of them.
        propensities: (n,) known chances of the given arms.
        clusters: (n,) labels; people are independent by default.
        method: see the module.
        outcomes: (n, A) predicted rewards of every arm, from a model that has not seen these people; needed
            by `doubly_robust`.
        draws: bootstrap draws.
        level: coverage of the interval.
        seed: of the bootstrap.

    Raises:
        InvalidData: shapes that do not fit, propensities outside (0, 1].
        InvalidParameter: an unknown method, or no model where one is needed.

    Example:
        >>> value = policy_value([0, 0, 1, 1], actions=[0, 1, 1, 0], rewards=[1.0, 0.0, 1.0, 0.0],
        ...                      propensities=[0.5] * 4, method="ips")
        >>> value.estimate
        1.0
    """
    log = (actions, rewards, propensities, method, outcomes)
    return _interval((law,), log, clusters, draws=draws, level=level, seed=seed)


def value_difference(
    law: ArrayLike,
    other: ArrayLike,
    *,
    actions: ArrayLike,
    rewards: ArrayLike,
    propensities: ArrayLike,
    clusters: ArrayLike | None = None,
    outcomes: ArrayLike | None = None,
    draws: int = 1000,
    level: float = 0.95,
    seed: Seed = 0,
) -> PolicyValue:
    """Value of `law` less that of `other` on the same people: paired, so that shared scatter cancels.

    Doubly robust where `outcomes` are given, else self-normalised.
    """
    method: Method = "self_normalised" if outcomes is None else "doubly_robust"
    log = (actions, rewards, propensities, method, outcomes)
    return _interval((law, other), log, clusters, draws=draws, level=level, seed=seed)


Log = tuple[ArrayLike, ArrayLike, ArrayLike, Method, ArrayLike | None]
"""Actions, rewards, propensities, how values are estimated, and predicted outcomes."""


def _interval(
    laws: Sequence[ArrayLike], log: Log, clusters: ArrayLike | None, *, draws: int, level: float, seed: Seed
) -> PolicyValue:
    """Of one law's value, or of what the first has above the second on the same draws."""
    if draws < 2 or not 0.0 < level < 1.0:
        raise InvalidParameter("draws: expected at least 2; level: a number in (0, 1)")
    place, count = _labels(clusters, np.asarray(log[1]).size)
    values = [_resampled(*_terms(law, log), place, count, draws=draws, seed=seed) for law in laws]
    found = values[0] if len(values) == 1 else values[0] - values[1]
    low, high = np.nanquantile(found[1:], [0.5 * (1.0 - level), 0.5 * (1.0 + level)])
    error = float(np.nanstd(found[1:], ddof=1))
    return PolicyValue(float(found[0]), error, float(low), float(high), level, log[3], count)


def _terms(law: ArrayLike, log: Log) -> tuple[FloatArray, FloatArray]:
    """(n,) what each person adds to the estimate's numerator and denominator."""
    actions, rewards, propensities, method, outcomes = log
    _checks.one_of(method, METHODS, name="method")
    given, paid = np.asarray(actions), np.asarray(rewards, dtype=np.float64)
    chances = np.asarray(propensities, dtype=np.float64)
    n = len(paid)
    if given.shape != (n,) or chances.shape != (n,) or given.dtype.kind not in "iu" or n == 0:
        raise InvalidData("actions (integers), rewards and propensities must have one entry a person")
    if not ((chances > 0.0) & (chances <= 1.0)).all() or not np.isfinite(paid).all():
        raise InvalidData("propensities lie outside (0, 1], or rewards are missing")
    policy = np.asarray(law)
    if policy.ndim == 1 and policy.dtype.kind in "iu":
        arms = np.arange(max(int(policy.max()), int(given.max())) + 1)
        policy = (policy[:, None] == arms).astype(np.float64)
    if policy.ndim != 2 or len(policy) != n or given.min() < 0 or given.max() >= policy.shape[1]:
        raise InvalidData(f"law: expected ({n},) arms or ({n}, A) probabilities")
    if not np.allclose(policy.sum(axis=1), 1.0, atol=1e-6) or (policy < 0.0).any():
        raise InvalidData("law: probabilities of each person must be at least 0 and sum to 1")
    rows = np.arange(n)
    weights = policy[rows, given] / chances
    if method != "doubly_robust":
        return weights * paid, weights if method == "self_normalised" else np.ones(n)
    if outcomes is None:
        raise InvalidParameter("doubly_robust needs outcomes: predictions of a model fitted on other people")
    model = np.asarray(outcomes, dtype=np.float64)
    if model.shape != policy.shape or not np.isfinite(model).all():
        raise InvalidData(f"outcomes: expected finite predictions of shape {policy.shape}")
    terms = (policy * model).sum(axis=1) + weights * (paid - model[rows, given])
    return terms, np.ones(n)


def _labels(clusters: ArrayLike | None, n: int) -> tuple[IntArray, int]:
    if clusters is None:
        return np.arange(n), n
    names, place = np.unique(np.asarray(clusters), return_inverse=True)
    if place.shape != (n,):
        raise InvalidData("clusters: expected one label a person")
    return place, len(names)


def _resampled(
    terms: FloatArray, weights: FloatArray, place: IntArray, count: int, *, draws: int, seed: Seed
) -> FloatArray:
    """(1 + draws,) sum of terms over sum of weights, and its bootstrap copies: clusters with replacement."""
    rng = np.random.Generator(np.random.Philox(key=seed))
    both = np.column_stack([np.bincount(place, weights=one, minlength=count) for one in (terms, weights)])
    sums = np.empty((draws + 1, 2))
    sums[0] = both.sum(axis=0)
    for draw in range(1, draws + 1):  # one at a time: a million clusters stay within memory
        sums[draw] = np.bincount(rng.integers(count, size=count), minlength=count) @ both
    if sums[0, 1] <= 0.0:
        raise InvalidData("nobody in the log was given an arm that the policy chooses")
    nothing = np.full(draws + 1, np.nan)
    return np.asarray(np.divide(sums[:, 0], sums[:, 1], out=nothing, where=sums[:, 1] > 0.0))

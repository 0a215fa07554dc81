"""Off-policy evaluation from logged bandit data: inverse propensity weighting and related estimators.

In the table, row i of the log has a context x_i, an arm a_i, its reward y_i, and the probability e_i
(propensity) with which the arm was chosen.

| method | estimate of the value of a policy p(a | x) |
|---|---|
| `ips` | mean of p(a_i)/e_i y_i; unbiased if the propensities e are right |
| `self_normalised` | `ips` divided by the mean of p(a_i)/e_i; less variance, a small bias |
| `doubly_robust` | mean of sum_a p(a) m(x_i, a) + p(a_i)/e_i (y_i - m(x_i, a_i)), m fitted on other rows |

Rows of one cluster (a person, a family, a school) are dependent; different clusters are independent. The
values are for evaluation on public or permitted data, and are not a release.

Standard errors
---------------
Each method is a ratio R = sum_c T_c / sum_c W_c over G independent clusters c. T_c and W_c are the cluster's
sums in numerator and denominator. If the method divides by the number of rows, W_c is the number of rows of
the cluster. To first order in the deviations of the two means, the error of R is the sum of the influences
psi_c = (T_c - R W_c) / sum_c W_c, which add up to zero. The *delta method* uses sqrt(G / (G - 1) sum_c
psi_c^2) as the standard error and normal quantiles for the interval. The influences of a difference of two
values are the differences of their influences, cluster by cluster, so variance that both policies share
cancels.

The *bootstrap* draws G clusters with replacement. It uses the standard deviation and the quantiles of the
ratio over its draws. It costs `draws` passes over the clusters. It is used if the delta method may be
inaccurate; see `SMOOTH`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["PolicyValue", "policy_value", "value_difference"]

Method = Literal["ips", "self_normalised", "doubly_robust"]
METHODS: tuple[Method, ...] = ("ips", "self_normalised", "doubly_robust")

SMOOTH = 1000.0
"""Effective number of clusters from which the delta method is used; below it, the bootstrap.

The effective number of values p is (sum p)^2 / sum p^2. It is computed for the squared influences and for
the weights, and the smaller one decides. It is small if few clusters carry most of the sum. If both are N,
the mean of the weights has a standard error of at most N^-1/2 of itself, 3 percent at 1,000, and the delta
method leaves out terms of this relative size. The skewness of the estimate is at most N^-1/2, so the end of
a 95% interval moves by at most (1.96^2 - 1) / 6 N^-1/2 of a standard error (Cornish-Fisher), .015 at 1,000.
A bootstrap of 1,000 draws scatters by 1 / sqrt(2,000), 2.2 percent.
"""


@dataclass(frozen=True)
class PolicyValue:
    """An estimated value of a policy, or of a difference of two policies, with its interval.

    Attributes:
        estimate: mean reward.
        standard_error: estimated standard deviation of the estimate over samples of clusters.
        low: lower end of the interval.
        high: upper end of the interval.
        level: nominal coverage of the interval.
        method: estimator of the value.
        clusters: number of clusters.
        interval: method of the standard error and the interval; see the module.
    """

    estimate: float
    standard_error: float
    low: float
    high: float
    level: float
    method: Method
    clusters: int
    interval: Literal["delta method", "bootstrap"]

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
    """Estimate the value of a policy from logged bandit data of n rows.

    Args:
        law: The policy's probabilities, shape (n, A), or the arms it chooses, shape (n,).
        actions: Logged arms, shape (n,).
        rewards: Rewards of the logged arms, shape (n,).
        propensities: Known probabilities of the logged arms, shape (n,).
        clusters: Cluster labels, shape (n,); by default, rows are independent.
        method: Estimator; see the module.
        outcomes: Predicted rewards of every arm, shape (n, A), from a model fitted on other rows;
            `doubly_robust` needs them.
        draws: Number of bootstrap draws if the bootstrap is used; see `SMOOTH`.
        level: Coverage of the interval.
        seed: Seed of the bootstrap.

    Raises:
        InvalidData: Shapes do not match, propensities lie outside (0, 1], or there are fewer than two
            clusters.
        InvalidParameter: The method is unknown, or `doubly_robust` has no `outcomes`.

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
    """Estimate the value of `law` minus the value of `other` on the same rows.

    The difference is paired, so the variance that both policies share cancels. The method is
    `doubly_robust` if `outcomes` are given, and `self_normalised` otherwise.
    """
    method: Method = "self_normalised" if outcomes is None else "doubly_robust"
    log = (actions, rewards, propensities, method, outcomes)
    return _interval((law, other), log, clusters, draws=draws, level=level, seed=seed)


Log = tuple[ArrayLike, ArrayLike, ArrayLike, Method, ArrayLike | None]
"""Actions, rewards, propensities, name of the estimator, and predicted outcomes."""


def _interval(
    laws: Sequence[ArrayLike], log: Log, clusters: ArrayLike | None, *, draws: int, level: float, seed: Seed
) -> PolicyValue:
    if draws < 2 or not 0.0 < level < 1.0:
        raise InvalidParameter("draws: expected at least 2; level: a number in (0, 1)")
    place, count = _labels(clusters, np.asarray(log[1]).size)
    parts = [_by_cluster(*_terms(law, log), place, count) for law in laws]
    if count < 2:
        raise InvalidData("the data have one cluster, and a standard error needs at least two")
    ratios = [float(terms.sum() / weights.sum()) for terms, weights in parts]
    influences = [
        (terms - ratio * weights) / weights.sum()
        for ratio, (terms, weights) in zip(ratios, parts, strict=True)
    ]
    estimate, influence = ratios[0], influences[0]
    if len(laws) == 2:
        estimate, influence = ratios[0] - ratios[1], influences[0] - influences[1]
    largest = np.abs(influence).max()
    squares = (influence / largest if largest > 0.0 else influence) ** 2  # they neither overflow nor vanish
    if _effective(squares) >= SMOOTH and all(_effective(weights) >= SMOOTH for _, weights in parts):
        error = float(largest * np.sqrt(count / (count - 1) * squares.sum()))
        reach = error * NormalDist().inv_cdf(0.5 * (1.0 + level))
        return PolicyValue(
            estimate, error, estimate - reach, estimate + reach, level, log[3], count, "delta method"
        )
    copies = [_resampled(*part, draws=draws, seed=seed) for part in parts]
    found = copies[0] if len(copies) == 1 else copies[0] - copies[1]
    low, high = np.nanquantile(found, [0.5 * (1.0 - level), 0.5 * (1.0 + level)])
    error = float(np.nanstd(found, ddof=1))
    return PolicyValue(estimate, error, float(low), float(high), level, log[3], count, "bootstrap")


def _effective(parts: FloatArray) -> float:
    """Return the effective number of the G summands `parts` of a sum, (sum p)^2 / sum p^2."""
    largest = parts.max()
    if not largest > 0.0:
        return float(len(parts))
    shares = parts / largest  # squares neither overflow nor vanish
    return float(shares.sum() ** 2 / (shares @ shares))


def _terms(law: ArrayLike, log: Log) -> tuple[FloatArray, FloatArray]:
    actions, rewards, propensities, method, outcomes = log
    _checks.one_of(method, METHODS, name="method")
    given, paid = np.asarray(actions), np.asarray(rewards, dtype=np.float64)
    chances = np.asarray(propensities, dtype=np.float64)
    n = len(paid)
    if given.shape != (n,) or chances.shape != (n,) or given.dtype.kind not in "iu" or n == 0:
        raise InvalidData("actions (integers), rewards and propensities must have one entry per row")
    if not ((chances > 0.0) & (chances <= 1.0)).all() or not np.isfinite(paid).all():
        raise InvalidData("expected propensities in (0, 1] and finite rewards")
    policy, rows, chosen = np.asarray(law), np.arange(n), False
    if policy.shape == (n,) and policy.dtype.kind in "iu":
        n_arms, chosen = 1 + int(max(policy.max(), given.max())), True
    elif policy.ndim == 2 and len(policy) == n:
        n_arms = policy.shape[1]
        if not np.allclose(policy.sum(axis=1), 1.0, atol=1e-6) or (policy < 0.0).any():
            raise InvalidData("law: probabilities of each row must be at least 0 and sum to 1")
    else:
        n_arms = 0
    if given.min() < 0 or given.max() >= n_arms or (chosen and policy.min() < 0):
        raise InvalidData(f"law: expected ({n},) arms or ({n}, A) probabilities")
    weights = (policy == given if chosen else policy[rows, given]) / chances
    if method != "doubly_robust":
        return weights * paid, weights if method == "self_normalised" else np.ones(n)
    if outcomes is None:
        raise InvalidParameter("doubly_robust needs outcomes: predictions of a model fitted on other rows")
    model = np.asarray(outcomes, dtype=np.float64)
    if model.shape != (n, n_arms) or not np.isfinite(model).all():
        raise InvalidData(f"outcomes: expected finite predictions of shape {(n, n_arms)}")
    predicted = model[rows, policy] if chosen else (policy * model).sum(axis=1)
    return predicted + weights * (paid - model[rows, given]), np.ones(n)


def _labels(clusters: ArrayLike | None, n: int) -> tuple[IntArray | None, int]:
    """Return the cluster number of each row (n,), and the number of clusters."""
    if clusters is None:
        return None, n
    labels = np.asarray(clusters)
    if labels.shape != (n,):
        raise InvalidData("clusters: expected one label per row")
    if labels.dtype.kind in "iu" and 0 <= labels.min() and labels.max() < n:  # nothing to sort
        place = np.cumsum(np.bincount(labels) > 0)[labels] - 1
        return place, int(place.max()) + 1
    names, place = np.unique(labels, return_inverse=True)
    return place, len(names)


def _by_cluster(
    terms: FloatArray, weights: FloatArray, place: IntArray | None, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return the sums of `terms` and of `weights` over the rows of each cluster, (count,) each."""
    if weights.sum() <= 0.0:
        raise InvalidData("no row of the log has an arm that the policy chooses")
    if place is None:
        return terms, weights
    together = [np.bincount(place, part, count).astype(np.float64) for part in (terms, weights)]
    return together[0], together[1]


def _resampled(terms: FloatArray, weights: FloatArray, *, draws: int, seed: Seed) -> FloatArray:
    """Return bootstrap copies (draws,) of the ratio sum(terms) / sum(weights)."""
    rng, count = np.random.Generator(np.random.Philox(key=seed)), len(terms)
    both, sums = np.column_stack([terms, weights]), np.empty((draws, 2))
    for draw in range(draws):  # one draw at a time, so that a million clusters fit in memory
        sums[draw] = np.bincount(rng.integers(count, size=count), minlength=count) @ both
    nothing = np.full(draws, np.nan)
    return np.asarray(np.divide(sums[:, 0], sums[:, 1], out=nothing, where=sums[:, 1] > 0.0))

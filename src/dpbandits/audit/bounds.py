r"""Lower bounds on privacy loss, from counts, from normal samples and from whole probability laws.

Let P_0 and P_1 be the laws of the output on two neighbouring data sets, called worlds 0 and 1.
(epsilon, delta)-DP states P_1(E) <= e^epsilon P_0(E) + delta for every event E. Counts of an event therefore
prove, with confidence,

    epsilon >= log((lower bound of P_1(E) - delta)/upper bound of P_0(E)),

with exact (Clopper-Pearson) intervals for both probabilities. A score is a number computed from an output.
Events are "score at least t" for world 1 and "score at most t" for world 0, with a threshold t. Scores and
thresholds must be chosen on other samples. If several events are tried on the same samples, the error is
divided among them (Bonferroni).

Counts of n samples cannot prove more than about log(n), and a delta of 1e-6 is too small for them. If the
output is Gaussian noise around a centre, its two means and its variance can be bounded instead. This bounds
mu = |difference of means|/standard deviation, and hence epsilon at every delta, **provided that the noise is
Gaussian**.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from scipy.special import betainccinv, betaincinv, expit, gammaincinv, stdtrit

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.certificates import GaussianDP

__all__ = [
    "MOST_OUTPUTS",
    "chosen_thresholds",
    "clopper_pearson",
    "event_bound",
    "fewest_outputs",
    "gaussian_bound",
    "law_bound",
    "mu_bound",
]

_CANDIDATES = 200
"""Largest number of quantiles of the scores among which a threshold is chosen."""

MOST_OUTPUTS = 2**40
"""Largest number of outputs of each world that an audit can draw. A claim that needs more is undecidable."""

_ROUNDING = 2.0**-49
"""Upper bound on the relative error of a computed logarithm of a fraction."""

_FLOAT_LAWS = 1e-9
"""Upper bound on the relative error of a probability that was computed in float64."""


def clopper_pearson(successes: IntArray, trials: int, *, error: float) -> tuple[FloatArray, FloatArray]:
    """Return lower bounds (k,) and upper bounds (k,) on k probabilities, from `successes` among `trials`.

    Each bound is wrong with probability at most `error`.

    Example:
        >>> low, high = clopper_pearson(np.array([0, 10]), 10, error=0.05)
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.0, 0.741], [0.259, 1.0])
    """
    if not (0.0 < error < 1.0 and trials >= 1):
        raise InvalidParameter("error, trials: expected an error in (0, 1) and at least one trial")
    counts = np.asarray(successes, dtype=np.float64)
    if ((counts < 0) | (counts > trials)).any():
        raise InvalidData("successes: expected counts from 0 to the number of trials")
    inner = np.clip(counts, 0.5, None)  # the inverse is undefined at 0; replaced below
    low = np.where(counts == 0, 0.0, betaincinv(inner, trials - inner + 1.0, error))
    inner = np.clip(counts, None, trials - 0.5)
    high = np.where(counts == trials, 1.0, betainccinv(inner + 1.0, trials - inner, error))
    return low, high


def chosen_thresholds(
    null: FloatArray, other: FloatArray, *, delta: float, error: float
) -> tuple[float, float]:
    """Return the best thresholds t for the events "score >= t" and "score <= t".

    They are chosen on training scores of world 0 (`null`) and world 1 (`other`). If a score has few values,
    the candidates are these values. The event of all outputs is excluded: it proves nothing, but on few
    samples its bound is the least negative one.
    """
    pooled = np.unique(np.concatenate([null, other]))
    if len(pooled) > _CANDIDATES:
        pooled = np.unique(np.quantile(np.concatenate([null, other]), np.linspace(0.0, 1.0, _CANDIDATES)))
    above, below = (pooled[1:], pooled[:-1]) if len(pooled) > 1 else (pooled, pooled)
    upper = _bounds_at(null, other, above, delta=delta, error=error)
    lower = _bounds_at(-other, -null, -below, delta=delta, error=error)
    return float(above[upper.argmax()]), float(below[lower.argmax()])


def _bounds_at(
    null: FloatArray, other: FloatArray, thresholds: FloatArray, *, delta: float, error: float
) -> FloatArray:
    """Return k lower bounds on epsilon from events "score >= t", which are more likely in world `other`."""
    false = len(null) - np.searchsorted(np.sort(null), thresholds, side="left")
    true = len(other) - np.searchsorted(np.sort(other), thresholds, side="left")
    low, _ = clopper_pearson(true, len(other), error=error)
    _, high = clopper_pearson(false, len(null), error=error)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.maximum(low - delta, 0.0)) - np.log(high))


def event_bound(
    null: FloatArray,
    other: FloatArray,
    *,
    above: Sequence[float],
    below: Sequence[float],
    delta: float,
    confidence: float,
) -> float:
    """Return a lower bound on epsilon at delta from fresh scores of worlds 0 and 1; at least 0.

    Args:
        null: (n,) scores of world 0.
        other: (n',) scores of world 1.
        above: Thresholds t of events "score >= t", more likely in world 1.
        below: Thresholds t of events "score <= t", more likely in world 0.
        delta: Delta of the claim.
        confidence: Probability that the bound is right, for all events together.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> null, other = rng.laplace(0, 1, 50_000), rng.laplace(1, 1, 50_000)
        >>> 0.9 < event_bound(null, other, above=[1.0], below=[0.0], delta=0.0, confidence=0.999) < 1.0
        True
    """
    tries = len(above) + len(below)
    if tries == 0 or not 0.0 < confidence < 1.0:
        raise InvalidParameter("events: expected at least one, and a confidence in (0, 1)")
    error = (1.0 - confidence) / (2.0 * tries)
    up, down = np.asarray(above, dtype=np.float64), np.asarray(below, dtype=np.float64)
    likelier_above = _bounds_at(null, other, up, delta=delta, error=error)
    likelier_below = _bounds_at(-other, -null, -down, delta=delta, error=error)
    return float(max(0.0, *likelier_above, *likelier_below))


def fewest_outputs(epsilon: float, delta: float, *, confidence: float) -> int | None:
    """Return the smallest number of outputs of each world whose counts can refute an (epsilon, delta) claim.

    Counts are taken at two thresholds. The largest bound comes from an event that all n outputs of one world
    show and none of the other. Let e be a quarter of the error. Then the event's probability in the first
    world is at least e^(1/n), and in the second at most 1 - e^(1/n). The claim can be exceeded for n >
    log(e)/log(r), with r = (exp(epsilon) + delta)/(1 + exp(epsilon)). The result is None above
    `MOST_OUTPUTS`.

    Example:
        >>> fewest_outputs(1.0, 0.0, confidence=0.999)
        27
    """
    if not 0.0 < confidence < 1.0:
        raise InvalidParameter("confidence: expected a number in (0, 1)")
    needed, told = -math.log(0.25 * (1.0 - confidence)), -math.log1p((delta - 1.0) * float(expit(-epsilon)))
    return None if told * MOST_OUTPUTS <= needed else math.floor(needed / told) + 1


def mu_bound(null: FloatArray, other: FloatArray, *, confidence: float) -> float:
    """Return a lower bound on mu = |difference of means|/sd of two normal samples of equal variance.

    Student's t bounds the difference, and chi-square the variance, with half of the error each.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> 0.45 < mu_bound(rng.normal(0, 2, 50_000), rng.normal(1, 2, 50_000), confidence=0.999) < 0.5
        True
    """
    n, m = len(null), len(other)
    if min(n, m) < 2 or not 0.0 < confidence < 1.0:
        raise InvalidParameter("samples: expected at least two of each world, and a confidence in (0, 1)")
    freedom = n + m - 2
    squares = float(((null - null.mean()) ** 2).sum() + ((other - other.mean()) ** 2).sum())
    spread = math.sqrt(squares / freedom * (1.0 / n + 1.0 / m))
    error = 0.5 * (1.0 - confidence)
    # The sign of the difference is not known in advance, so the test is two-sided.
    distance = abs(float(other.mean() - null.mean())) + float(stdtrit(freedom, 0.5 * error)) * spread
    largest_sd = math.sqrt(0.5 * squares / float(gammaincinv(0.5 * freedom, error)))
    return max(0.0, distance / largest_sd) if largest_sd > 0.0 else math.inf


def gaussian_bound(null: FloatArray, other: FloatArray, *, delta: float, confidence: float) -> float:
    """Return a lower bound on epsilon at delta, if both samples are normal with equal variances."""
    mu = mu_bound(null, other, confidence=confidence)
    return GaussianDP(mu).epsilon_at(delta) if mu > 0.0 else 0.0


def law_bound(law: Sequence[Fraction] | FloatArray, other: Sequence[Fraction] | FloatArray) -> float:
    """Return the largest log ratio of two laws over the same outputs, rounded down.

    It is infinite if an output has probability zero under one law only. Fractions are exact. Laws in float64
    are assumed to have a relative error of 1e-9.

    Example:
        >>> law_bound([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]) <= math.log(3)
        True
    """
    if len(law) != len(other):
        raise InvalidData("law, other: expected laws over the same outputs")
    return max((_log_ratio(max(pair), min(pair)) for pair in zip(law, other, strict=True)), default=0.0)


def _log_ratio(high: Fraction | float, low: Fraction | float) -> float:
    if low == 0 or high == low:
        return 0.0 if high == low else math.inf
    if isinstance(high, Fraction) and isinstance(low, Fraction):
        ratio = high / low
        above, below = ratio.numerator, ratio.denominator
        if above < 2 * below:  # avoids the rounding error of a ratio near 1
            value = math.log1p((above - below) / below)
        else:
            shift = max(0, above.bit_length() - below.bit_length() - 1000)  # larger ratios overflow floats
            value = math.log(above / (below << shift)) + shift * math.log(2.0)
        return max(0.0, math.nextafter(value * (1.0 - _ROUNDING), 0.0))
    return max(0.0, (math.log(high) - math.log(low)) * (1.0 - _FLOAT_LAWS) - _FLOAT_LAWS)

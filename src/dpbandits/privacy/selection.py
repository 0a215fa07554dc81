r"""Private choice of one of n candidates by their scores: permute-and-flip, and the exponential mechanism.

Scores are integers. Noise depends on their **range sensitivity** R: between two neighbouring inputs, the
changes of all scores lie in one interval of length R. A change that is the same for all scores has no
effect.

| function | law | privacy |
|---|---|---|
| `permute_and_flip` | visit candidates in random order, take x with chance exp(-epsilon gap_x/R) | epsilon |
| `exponential`, `exponential_law` | P(x) proportional to exp(epsilon score_x/R) | epsilon |

gap_x is the difference between the best score and the score of candidate x. Permute-and-flip (McKenna,
Sheldon 2020) is never worse than the exponential mechanism. It has the law of the noisy maximum with
exponential noise of scale R/epsilon (Ding et al. 2021).

**Proof that R suffices.** Adding a constant to all scores changes no gap. Shift the second input's scores
until all changes lie in [0, R]. Let q_x = exp(-epsilon gap_x/R), so that P(x) = q_x int_0^1 prod_{y != x} (1
- t q_y) dt. Then the proof for monotone scores applies, because it only needs that all changes have one sign
and are at most R in size.

**Exactness.** Gaps, R and epsilon (as the rational number its float64 is) are combined in integers. Every
comparison of a uniform number with exp(-rational) is decided by unbiased coins (Canonne, Kamath, Steinke
2020, Algorithm 1). No float decides anything. The running time depends on the scores. A policy that uses
this sampler therefore lists in its statement the assumption that nobody times its answers.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData
from dpbandits.privacy.samplers import uniform_below
from dpbandits.privacy.words import Words, secure_words

__all__ = ["exponential", "exponential_law", "largest_log_ratio", "permute_and_flip", "permute_and_flip_law"]

_WORD_BITS = 64
_VANISHED = 700.0
"""Exponent g above which exp(-g) is too small for float64, so that the candidate gets probability 0."""


def permute_and_flip(
    scores: Sequence[int], *, sensitivity: int, epsilon: float, words: Words = secure_words
) -> int:
    """Return the index of the candidate that permute-and-flip chooses.

    The choice is epsilon-DP if the scores have the range sensitivity `sensitivity`.

    Args:
        scores: Integers of any size, one per candidate.
        sensitivity: Range sensitivity R of the scores, at least 1; see the module.
        epsilon: Privacy loss, above 0.
        words: Source of random words; by default the operating system's.

    Raises:
        InvalidData: There are no candidates.
        InvalidParameter: The sensitivity or epsilon is out of range.

    Example:
        >>> permute_and_flip([0, 10**9, 3], sensitivity=1, epsilon=1.0)
        1
    """
    exponents = _exact_exponents(scores, sensitivity, epsilon)
    order = list(range(len(exponents)))
    while True:
        for place in range(len(order)):  # Fisher-Yates shuffle, only as far as it is needed
            other = place + int(uniform_below(len(order) - place, 1, words)[0])
            order[place], order[other] = order[other], order[place]
            chosen = order[place]
            if _flip(exponents[chosen], words):
                return chosen


def exponential(
    scores: Sequence[int], *, sensitivity: int, epsilon: float, words: Words = secure_words
) -> int:
    """Return the index of the candidate that the exponential mechanism chooses.

    Arguments are those of `permute_and_flip`. Candidates are proposed uniformly and accepted with
    probability exp(-epsilon gap/R), exactly. The best candidate is always accepted, so a proposal is
    accepted with probability of at least 1/n.

    Example:
        >>> exponential([0, 10**9, 3], sensitivity=1, epsilon=1.0)
        1
    """
    exponents = _exact_exponents(scores, sensitivity, epsilon)
    while True:
        chosen = int(uniform_below(len(exponents), 1, words)[0])
        if _flip(exponents[chosen], words):
            return chosen


def permute_and_flip_law(scores: FloatArray, *, sensitivity: float, epsilon: float) -> FloatArray:
    """Return the probabilities of n candidates under permute-and-flip, for scores (n,) or (B, n).

    P(x) = q_x int_0^1 prod_{y != x} (1 - t q_y) dt with q = exp(-epsilon gap/R), as the place t of x in the
    order is uniform, and all candidates before x are rejected. The integrand is a polynomial of degree n -
    1, which Gauss-Legendre quadrature with n/2 nodes integrates exactly.

    Example:
        >>> permute_and_flip_law(np.array([1.0, 1.0, 0.0]), sensitivity=1.0, epsilon=50.0).round(6)
        array([0.5, 0.5, 0. ])
    """
    chances = np.exp(-_exponents(scores, sensitivity=sensitivity, epsilon=epsilon))
    n = chances.shape[-1]
    nodes, weights = np.polynomial.legendre.leggauss(n // 2 + 1)
    places = 0.5 * (nodes + 1.0)
    # all factors are positive, because nodes lie inside (0, 1)
    failures = 1.0 - places * chances[..., None]  # (..., n, q)
    product = failures.prod(axis=-2, keepdims=True)
    return np.asarray(chances * ((product / failures) @ (0.5 * weights)))


def exponential_law(scores: FloatArray, *, sensitivity: float, epsilon: float) -> FloatArray:
    """Return the probabilities of n candidates under the exponential mechanism, for scores (n,) or (B, n).

    With the range sensitivity R as `sensitivity`, the exponent is epsilon score/R. With the bound R = 2
    (largest change of one score) it is epsilon score/(2 largest change), as in papers.
    """
    chances = np.exp(-_exponents(scores, sensitivity=sensitivity, epsilon=epsilon))
    return np.asarray(chances / chances.sum(axis=-1, keepdims=True))


def largest_log_ratio(law: FloatArray, other: FloatArray) -> float:
    """Return the largest |log(law/other)| over candidates, for two arrays of probabilities of equal shape.

    It is infinite if only one of two probabilities is 0. Pure epsilon is an upper bound on it.
    """
    if np.shape(law) != np.shape(other):
        raise InvalidData(f"shapes {np.shape(law)} and {np.shape(other)}: expected two equal shapes")
    possible = (law > 0.0) & (other > 0.0)
    if not np.array_equal(law > 0.0, other > 0.0):
        return math.inf
    return float(np.max(np.abs(np.log(law[possible]) - np.log(other[possible])), initial=0.0))


def _exponents(scores: FloatArray, *, sensitivity: float, epsilon: float) -> FloatArray:
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] == 0 or not np.isfinite(values).all():
        raise InvalidData("scores: expected finite numbers, one per candidate")
    rate = _checks.number(epsilon, name="epsilon") / _checks.number(sensitivity, name="sensitivity")
    gaps = values.max(axis=-1, keepdims=True) - values
    return np.asarray(np.minimum(rate * gaps, _VANISHED))


def _exact_exponents(scores: Sequence[int], sensitivity: int, epsilon: float) -> list[Fraction]:
    """Return epsilon gap/R of every candidate as exact rational numbers."""
    values = [int(score) for score in scores]
    if not values:
        raise InvalidData("scores: expected at least one candidate")
    rate = Fraction(_checks.number(epsilon, name="epsilon")) / _checks.integer(
        sensitivity, name="sensitivity"
    )
    best = max(values)
    return [rate * (best - value) for value in values]


def _flip(exponent: Fraction, words: Words) -> bool:
    """Return True with probability exp(-exponent), exactly, for a rational exponent >= 0."""
    whole, part = divmod(exponent, 1)
    for _ in range(whole):
        if not _flip_small(Fraction(1), words):
            return False
    return _flip_small(part, words)


def _flip_small(exponent: Fraction, words: Words) -> bool:
    """Return True with probability exp(-exponent), exactly, for a rational exponent in [0, 1].

    The result is the parity of the length of a run of coins.
    """
    count = 1
    while _coin(exponent / count, words):
        count += 1
    return count % 2 == 1


def _coin(chance: Fraction, words: Words) -> bool:
    """Return True with probability `chance`, by comparing 64 binary digits at a time."""
    remainder, whole = chance.numerator, chance.denominator
    if remainder >= whole:
        return True
    while remainder:
        digit, remainder = divmod(remainder << _WORD_BITS, whole)
        word = int(words(1)[0])
        if word != digit:
            return word < digit
    return False

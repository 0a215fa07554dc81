r"""Bounds of Pavlovic2025's theorems in numbers.

| where | what | here |
|---|---|---|
| Algorithm 1 | pairs in Z, T ceil(T/gamma_T) | `approximating_pairs` |
| after Assumption 2.7 | B + R ln(T/delta), where rewards are clipped | `reward_clip` |
| Lemma 4.4 (6.1) | the norm of Z-tilde^-1 Z - I | `spectral_bound`, `bernstein_deviation` |
| Lemmas 4.4, 6.1 | N-bar_1(delta), the least T | `least_rounds` |
| Lemma 6.2 | beta_1(delta): |mu_T - mu-bar_T| <= beta_1 sqrt(gamma_T/T) | `estimator_factor` |
| Lemma 4.3 (6.3) | bound on sup |mu-bar_T - f| | `uniform_error` |
| Lemma 7.1 | sup sigma-bar^2 <= 81 F^2 gamma_T/(13 T); Delta = 2 B sup sigma-bar^2 | `largest_variance` |
| Lemma 8.1 | least share of actions within r of the best | `near_best_share` |
| Theorem 8.2 | bound on the error | `error_bound` |
| Theorem 4.1 | its rate | `error_rate` |

gamma_T is the maximal information gain over all sets of T points, a supremum; tau the ridge; F bounds the
kernel's eigenfunctions, whose eigenvalues fall like C_p j^-beta_p; rewards are at most B, their noise
R-sub-Gaussian, the reward function's norm at most B too. N-bar(delta), the other least T, is another paper's
and is not printed. Logarithms are natural. What the text prints in two ways is said at the function.
"""

import math
from typing import Any

from dpbandits.errors import InvalidParameter

__all__ = [
    "approximating_pairs",
    "bernstein_deviation",
    "error_bound",
    "error_rate",
    "estimator_factor",
    "largest_variance",
    "least_rounds",
    "near_best_share",
    "noise_factor",
    "reward_clip",
    "spectral_bound",
    "uniform_error",
]

SPECTRAL = 28.0 / 17.0
"""Constant of Lemma 4.4: (x + 2 x^2/3)/(1 - x - 2 x^2/3) over x at x = 1/4, the largest x of its proof."""


def approximating_pairs(*, rounds: int, gain: float) -> int:
    """|Z| = T K with K = ceil(T/gamma_T)."""
    return rounds * math.ceil(rounds / gain)


def reward_clip(*, bound: float, noise: float, rounds: int, failure_probability: float) -> float:
    """B + R ln(T/delta): rewards beyond are clipped, none of T is up to delta.

    An R-sub-Gaussian tail asks for B + R sqrt(2 ln(2T/delta)), which is less where ln(T/delta) >= 2.53.
    """
    return bound + noise * math.log(rounds / failure_probability)


def bernstein_deviation(*, rounds: int, gain: float, ridge: float, failure_probability: float) -> float:
    """x + 2 x^2/3, x = sqrt(gamma_T ln(1/delta)/(T tau)): what Lemma 6.1 proves of ||Z^-1 Z-tilde - I||."""
    x = _root(rounds, gain, ridge, failure_probability)
    return x + 2.0 * x * x / 3.0


def spectral_bound(
    *, rounds: int, gain: float, ridge: float, failure_probability: float
) -> tuple[float, bool]:
    """Lemma 4.4: (28/17) x, and whether x <= 1/4, which its proof needs.

    x is sqrt(gamma_T ln(1/delta)/(T tau)). The lemma asks for T above `least_rounds`, from which the proof
    takes x <= 1/4; that condition is checked itself here.

    Example:
        >>> bound, holds = spectral_bound(rounds=300, gain=11.35, ridge=1.0, failure_probability=0.05)
        >>> round(bound, 3), holds
        (0.554, False)
    """
    x = _root(rounds, gain, ridge, failure_probability)
    return SPECTRAL * x, x <= 0.25


def least_rounds(
    *, failure_probability: float, decay: float, scale: float = 1.0, eigenfunction_bound: float = 1.0
) -> float:
    """N-bar_1(delta) = (ln(1/delta)/(16 C_p F^2))^(2 beta_p/(beta_p - 1)), as Lemma 4.4 prints it.

    Lemma 6.1 prints F^(2/16) in its statement and F^2 16 in its proof; the latter agrees with Lemma 4.4.

    Args:
        failure_probability: delta.
        decay: beta_p above 1.
        scale: C_p.
        eigenfunction_bound: F.

    Raises:
        InvalidParameter: decay of at most 1.
    """
    if decay <= 1.0:
        raise InvalidParameter("decay: expected beta_p above 1")
    base = math.log(1.0 / failure_probability) / (16.0 * scale * eigenfunction_bound**2)
    return math.pow(base, 2.0 * decay / (decay - 1.0))


def estimator_factor(
    *,
    failure_probability: float,
    bound: float,
    noise: float,
    ridge: float,
    eigenfunction_bound: float = 1.0,
    as_stated: bool = False,
) -> float:
    """beta_1(delta) of Lemma 6.2.

    (sqrt(162 B^3 F^2/13) + 81 F^2/52) ln(8/delta) + (28/17) sqrt(ln(4/delta)/tau)
    + 2 B sqrt(108 F^2 tau/13) + 4 R ln(4/delta) sqrt(243 F^2/26).

    The statement prints ln(4/delta)/tau where the proof, which this follows, has its root. B^3 is printed;
    the step before it, sqrt(2 B V_0) with V_0 = B 81 F^2 gamma_T/(13 T), gives B^2.

    Args:
        failure_probability: delta.
        bound: B.
        noise: R.
        ridge: tau.
        eigenfunction_bound: F.
        as_stated: with the statement's term.
    """
    f2, log = eigenfunction_bound**2, math.log(4.0 / failure_probability)
    first = (math.sqrt(162.0 * bound**3 * f2 / 13.0) + 81.0 * f2 / 52.0) * math.log(8.0 / failure_probability)
    ratio = log / ridge
    spectral = SPECTRAL * (ratio if as_stated else math.sqrt(ratio))
    shrinkage = 2.0 * bound * math.sqrt(108.0 * f2 * ridge / 13.0)
    return first + spectral + shrinkage + 4.0 * noise * log * math.sqrt(243.0 * f2 / 26.0)


def noise_factor(
    *, failure_probability: float, noise: float, ridge: float, eigenfunction_bound: float = 1.0
) -> float:
    """beta(delta) = (2R/tau) ln(1/delta) sqrt(108 F^2/13) of Lemma 6.3."""
    log = math.log(1.0 / failure_probability)
    return 2.0 * noise / ridge * log * math.sqrt(108.0 * eigenfunction_bound**2 / 13.0)


def uniform_error(
    *,
    rounds: int,
    gain: float,
    failure_probability: float,
    points: int,
    bound: float,
    noise: float,
    ridge: float,
    eigenfunction_bound: float = 1.0,
) -> float:
    """Lemma 4.3 with the constants of Lemma 6.3: a bound on sup |mu-bar_T - f| that holds up to delta.

    (11 B/3 + 3 R sqrt(gamma_T 81 F^2/13 ln(2/delta)))/T + (beta + beta_1)(delta/(4 |U_T|)) sqrt(gamma_T/T).

    Args:
        rounds: T.
        gain: gamma_T.
        failure_probability: delta.
        points: |U_T|, of the grid of Assumption 2.9; of a finite domain all its points.
        bound, noise, ridge, eigenfunction_bound: B, R, tau, F.
    """
    return _uniform(
        rounds,
        gain,
        failure_probability,
        failure_probability / (4 * points),
        bound,
        noise,
        ridge,
        eigenfunction_bound,
    )


def largest_variance(*, rounds: int, gain: float, eigenfunction_bound: float = 1.0) -> float:
    """Lemma 7.1: 81 F^2 gamma_T/(13 T), a bound on sup sigma-bar^2; 2 B times it bounds Delta."""
    return 81.0 * eigenfunction_bound**2 * gain / (13.0 * rounds)


def error_bound(
    *,
    rounds: int,
    gain: float,
    epsilon: float,
    failure_probability: float,
    points: int,
    dim: int,
    lipschitz: float,
    diameter: float,
    bound: float,
    noise: float,
    ridge: float,
    eigenfunction_bound: float = 1.0,
) -> float:
    """Theorem 8.2: a bound on the mean error of the answer.

    10 ((11 B/3 + 3 R sqrt(gamma_T 81 F^2/13 ln(6/delta)))/T
    + (beta + beta_1)(delta/(12 |U_T|)) sqrt(gamma_T/T))
    + (gamma_T/(T epsilon)) (648 B F^2/13) (d ln(2592 B F^2 T L_f D_0 epsilon/(13 gamma_T)) + ln(3/delta)).

    Args:
        rounds, gain, failure_probability, points: as in `uniform_error`.
        epsilon: Epsilon of the answer.
        dim: d, columns of an action.
        lipschitz: L_f.
        diameter: D_0, of the actions.
        bound, noise, ridge, eigenfunction_bound: B, R, tau, F.
    """
    learned = _uniform(
        rounds,
        gain,
        failure_probability / 3.0,
        failure_probability / (12 * points),
        bound,
        noise,
        ridge,
        eigenfunction_bound,
    )
    weight = bound * eigenfunction_bound**2 / 13.0
    inside = 2592.0 * weight * rounds * lipschitz * diameter * epsilon / gain
    drawn = 648.0 * weight * (dim * math.log(inside) + math.log(3.0 / failure_probability))
    return 10.0 * learned + gain / (rounds * epsilon) * drawn


def near_best_share(*, gap: float, diameter: float, lipschitz: float, dim: int) -> float:
    """Lemma 8.1: min(1, (r/(D_0 L))^d), a bound from below on a share of a convex set.

    At least that share of the volume has a value within r of the largest.

    Args:
        gap: r.
        diameter: D_0, of the set.
        lipschitz: L, of the function.
        dim: d.

    Example:
        >>> near_best_share(gap=0.1, diameter=1.0, lipschitz=4.0, dim=1)
        0.025
    """
    return min(1.0, math.pow(gap / (diameter * lipschitz), dim))


def error_rate(*, rounds: int, gain: float, epsilon: float) -> float:
    """Theorem 4.1 without its constant: sqrt(gamma_T/T) + gamma_T/(T epsilon)."""
    return math.sqrt(gain / rounds) + gain / (rounds * epsilon)


def _uniform(
    rounds: int,
    gain: float,
    tail: float,
    each: float,
    bound: float,
    noise: float,
    ridge: float,
    eigenfunction_bound: float,
) -> float:
    """The bound of Lemma 6.3: delta is `tail` in its first term and `each` for every point of the grid."""
    spread = gain * 81.0 * eigenfunction_bound**2 / 13.0 * math.log(2.0 / tail)
    first = (11.0 * bound / 3.0 + 3.0 * noise * math.sqrt(spread)) / rounds
    own: dict[str, Any] = {"noise": noise, "ridge": ridge, "eigenfunction_bound": eigenfunction_bound}
    factor = noise_factor(failure_probability=each, **own)
    factor += estimator_factor(failure_probability=each, bound=bound, **own)
    return first + factor * math.sqrt(gain / rounds)


def _root(rounds: int, gain: float, ridge: float, failure_probability: float) -> float:
    return math.sqrt(gain * math.log(1.0 / failure_probability) / (rounds * ridge))

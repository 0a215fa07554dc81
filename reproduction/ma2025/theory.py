r"""Bounds of Ma2025's theorems in numbers: rates of the total regret of n users, without their constants.

| where | what | here |
|---|---|---|
| Theorem 2.5 | no policy does better, epsilon-LDP | `lower_rate` |
| Theorem 2.6 | what Algorithm 2 does | `upper_rate` |
| Theorem 3.3 | no policy does better, with sources | `lower_rate` with sources |
| Theorem 3.4 | what Algorithm 3 does | `upper_rate` with sources |
| eqs. (7), (23) | both, at epsilon of at most 1 and without logarithms | `minimax_rate` |
| eq. (14) | radius of the confidence bound | `radius` |
| eq. (17) | bias of a bin | `bias` |
| eq. (16) | users before a bin may drop an arm | `warm_start` |

d context columns, K arms, margin exponent beta <= d. The constants of the rates, and C_n = c log n of (14),
are in a supplement that was not at hand. Logarithms are natural.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpbandits.errors import InvalidParameter

__all__ = ["SourceSize", "bias", "lower_rate", "minimax_rate", "radius", "slope", "upper_rate", "warm_start"]


@dataclass(frozen=True, kw_only=True)
class SourceSize:
    """Parameters of a source in the theorems.

    Attributes:
        n_users: n_Q.
        epsilon: epsilon_m.
        gamma: transfer exponent.
        kappa: exploration coefficient.
    """

    n_users: int
    epsilon: float
    gamma: float = 0.0
    kappa: float = 1.0


def upper_rate(
    *,
    n_users: int,
    epsilon: float,
    dim: int,
    margin: float,
    n_arms: int = 1,
    sources: Sequence[SourceSize] = (),
) -> float:
    """Theorem 3.4, which without sources is Theorem 2.6.

    n [min(n epsilon^2/(K^2 L), (n/(K L))^((2+2d)/(2+d))) + sum_m min((kappa^2 n_m epsilon_m^2/(K^2 L))^a_m,
    (kappa n_m/(K L))^b_m)]^(-(1+beta)/(2+2d)), with L the log of the largest sample,
    a_m = (2+2d)/(2+2d+2 gamma) and b_m = (2+2d)/(2+d+gamma).

    Args:
        n_users: n_P.
        epsilon: Epsilon of the target's reports.
        dim: d.
        margin: beta of Assumption 2.4.
        n_arms: K.
        sources: none for Theorem 2.6.
    """
    log = math.log(max(n_users, *(source.n_users for source in sources), 2))
    private = n_users * epsilon**2 / (n_arms**2 * log)
    known = min(private, math.pow(n_users / (n_arms * log), (2 + 2 * dim) / (2 + dim)))
    for source in sources:
        seen = source.kappa * source.n_users / n_arms
        private = seen * source.kappa / n_arms * source.epsilon**2 / log
        known += _of_source(private, seen / log, dim, source.gamma)
    return n_users * math.pow(known, _power(dim, margin))


def lower_rate(
    *,
    n_users: int,
    epsilon: float,
    dim: int,
    margin: float,
    n_arms: int = 1,
    sources: Sequence[SourceSize] = (),
) -> float:
    """Theorem 3.3, which without sources is Theorem 2.5: e^epsilon - 1 for epsilon, no logarithms.

    K enters with the sources alone, as printed. Arguments as for `upper_rate`.
    """
    private = n_users * math.expm1(min(epsilon, 300.0)) ** 2
    known = min(private, math.pow(n_users, (2 + 2 * dim) / (2 + dim)))
    for source in sources:
        seen = source.kappa * source.n_users / n_arms
        private = seen * source.kappa / n_arms * math.expm1(min(source.epsilon, 300.0)) ** 2
        known += _of_source(private, seen, dim, source.gamma)
    return n_users * math.pow(known, _power(dim, margin))


def minimax_rate(
    *, n_users: int, epsilon: float, dim: int, margin: float, sources: Sequence[SourceSize] = ()
) -> float:
    """Eq. (23), without sources eq. (7): every epsilon at most 1, no logarithms, K a constant.

    n (n epsilon^2 + sum_m (kappa^2 n_m epsilon_m^2)^a_m)^(-(1+beta)/(2+2d)).

    Raises:
        InvalidParameter: an epsilon above 1.
    """
    if max([epsilon, *(source.epsilon for source in sources)]) > 1.0:
        raise InvalidParameter("the minimax rate is for epsilons of at most 1")
    known = n_users * epsilon**2
    for source in sources:
        power = (2 + 2 * dim) / (2 + 2 * dim + 2 * source.gamma)
        known += math.pow(source.kappa**2 * source.n_users * source.epsilon**2, power)
    return n_users * math.pow(known, _power(dim, margin))


def slope(*, dim: int, margin: float) -> float:
    """Exponent of n in the regret per user, without logarithms: -(1 + beta)/(2 + 2d).

    Example:
        >>> slope(dim=2, margin=1.0)
        -0.3333333333333333
    """
    return _power(dim, margin)


def radius(*, count: float, users: float, epsilon: float, constant: float) -> float:
    """Eq. (14): r = sqrt(C_n max(t/epsilon^2, sum U))/|sum U|; infinite where sum U is 0.

    Args:
        count: noisy count sum U of an arm in a bin.
        users: t, since the bin was made.
        epsilon: Epsilon of the reports.
        constant: C_n.
    """
    if count == 0.0:
        return math.inf
    return math.sqrt(constant * max(users / epsilon**2, count)) / abs(count)


def bias(*, depth: int, dim: int) -> float:
    """Eq. (17): tau_s = 2 sqrt(d) 2^(-s/d)."""
    return 2.0 * math.sqrt(dim) * math.pow(2.0, -depth / dim)


def warm_start(n_users: int) -> float:
    """Eq. (16): ln(n)^2 users.

    Example:
        >>> round(warm_start(40_000), 1)
        112.3
    """
    return math.log(n_users) ** 2


def _power(dim: int, margin: float) -> float:
    return -(1.0 + margin) / (2.0 + 2.0 * dim)


def _of_source(private: float, plain: float, dim: int, gamma: float) -> float:
    """Return the term of a source in the brackets."""
    top = 2.0 + 2.0 * dim
    return min(math.pow(private, top / (top + 2.0 * gamma)), math.pow(plain, top / (2.0 + dim + gamma)))

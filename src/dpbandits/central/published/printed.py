r"""Noise scales of Dubey2021 as printed, and the privacy that each of them really provides.

A scale is the sigma of the symmetric noise sigma (Z + Z^T)/2 of one node of the tree, where Z has
independent standard normal entries. The paper adds (v + v^T)/sqrt(2) with v of variance sigma_paper^2. This
is the same noise with sigma = sqrt(2) sigma_paper, so every printed scale here includes the factor sqrt(2).

The symbols are:

- alpha, beta: the paper's names for epsilon and delta; T: the number of rounds;
- n = 1 + ceil(log2 T): the paper's number of nodes that contain a round;
- rho^2: the variance of rewards; B: a bound on the function f;
- [brackets]: the part that bounds rewards with high probability. For bounded rewards the paper leaves it out
  (Section 6.1), and so does `printed_scale` unless rho and T are passed.

| name | sigma_paper | printed where |
|---|---|---|
| lemma-2 | sqrt(16 n (1 + B^2 [+ 2 rho^2 ln(8T/beta)]) ln(10/beta)^2/alpha^2) | under Lemma 2, a variance |
| lemma-2-statement | the same without the root | Lemma 2 states it of sigma itself |
| lemma-12 | 16 n (1 + B^2 [+ rho^2 ln(4T/beta)]) ln(4/beta)^2 alpha^2 | appendix, statement: times alpha^2 |
| lemma-12-proof | sqrt(16 n) (1 + B^2 [+ 2 rho^2 ln(8T/beta)]) ln(10/beta) | its proof: no alpha |

The correct scale, with ||phi|| <= 1 and |y| <= 1 enforced, follows from two facts. The Frobenius sensitivity
of [phi; y][phi; y]^T is 2 sqrt(2), and one round is in L = floor(log2 T) + 1 released nodes:

    sigma = 2 sqrt(2) sqrt(L)/mu(epsilon, delta).

Lemma 5, the local algorithm, has no tree. Every user adds noise once, to the lower triangle of a Gram matrix
phi phi^T and to a vector y phi with |y| <= B. Each of the two is claimed to be (alpha/2, beta/2)-DP
(`printed_local_scales`):

    sigma_X^2 = 8 ln(2.5/beta)/alpha^2,   sigma_u^2 = 8 (B^2 [+ 2 ln(8m/delta)]) ln(5/beta)/alpha^2.

Replacing one user changes the triangle by up to sqrt(2) and the vector by up to 2B. `real_local_mu` gives
the privacy of both together.
"""

import math
from typing import Literal, NamedTuple, get_args

from dpbandits import _checks
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import gaussian_mu
from dpbandits.privacy.certificates import GaussianDP
from dpbandits.privacy.gram_vector import joint_sensitivity

__all__ = [
    "FORMULAS",
    "Formula",
    "LocalScales",
    "correct_local_scale",
    "correct_scale",
    "printed_levels",
    "printed_local_scales",
    "printed_scale",
    "real_epsilon",
    "real_local_mu",
]

Formula = Literal["lemma-2", "lemma-2-statement", "lemma-12", "lemma-12-proof"]
FORMULAS: tuple[Formula, ...] = get_args(Formula)

OUTER_PRODUCT_SENSITIVITY = 2.0 * math.sqrt(2.0)
"""Largest Frobenius distance between two outer products of vectors
[phi; y] with ||phi|| <= 1 and |y| <= 1.
"""


def printed_levels(rounds: int) -> int:
    """Return n = 1 + ceil(log2 T), the number of nodes in the printed formulas.

    Example:
        >>> printed_levels(1024), printed_levels(10_000)
        (11, 15)
    """
    return 1 + (_checks.integer(rounds, name="rounds") - 1).bit_length()


def correct_scale(*, levels: int, epsilon: float, delta: float) -> float:
    """Return the correct noise scale 2 sqrt(2) sqrt(L)/mu of a node, for L = `levels`.

    Example:
        >>> round(correct_scale(levels=11, epsilon=1.0, delta=1e-5), 1)
        35.0
    """
    return OUTER_PRODUCT_SENSITIVITY * math.sqrt(levels) / gaussian_mu(epsilon, delta)


def printed_scale(
    formula: Formula,
    *,
    levels: int,
    epsilon: float,
    delta: float,
    norm_bound: float = 1.0,
    reward_sd: float = 0.0,
    rounds: int = 1,
) -> float:
    """Return the scale of a printed formula; see the module.

    Args:
        formula: One of `FORMULAS`.
        levels: Number n of nodes; see `printed_levels`.
        epsilon: The paper's alpha.
        delta: The paper's beta.
        norm_bound: Bound B on the function.
        reward_sd: Standard deviation rho of unbounded rewards; 0 for bounded rewards, which leaves out the
            bracket.
        rounds: Number T of rounds, which is used in the bracket only.

    Raises:
        InvalidParameter: There is no such formula, or delta is 0.

    Example:
        >>> round(printed_scale("lemma-2", levels=11, epsilon=1.0, delta=1e-5), 1)
        366.6
    """
    _need_delta(delta)
    tail = 2.0 * reward_sd**2 * math.log(8.0 * rounds / delta)
    if formula == "lemma-12":
        tail = reward_sd**2 * math.log(4.0 * rounds / delta)
        scale = 16.0 * levels * (1.0 + norm_bound**2 + tail) * math.log(4.0 / delta) ** 2 * epsilon**2
        return math.sqrt(2.0) * scale
    squared = 1.0 + norm_bound**2 + tail
    common = 16.0 * levels * math.log(10.0 / delta) ** 2
    if formula == "lemma-12-proof":
        return math.sqrt(2.0 * common) * squared
    variance = common * squared / epsilon**2
    if formula == "lemma-2":
        return math.sqrt(2.0 * variance)
    if formula == "lemma-2-statement":
        return math.sqrt(2.0) * variance
    raise InvalidParameter(f"paper_constants is {formula!r}: expected one of {FORMULAS}")


def real_epsilon(sigma: float, *, levels: int, delta: float) -> float:
    """Return the smallest epsilon, at this delta, that noise of scale `sigma` at every node provides.

    Example:
        >>> sigma = correct_scale(levels=11, epsilon=1.0, delta=1e-5)
        >>> round(real_epsilon(sigma, levels=11, delta=1e-5), 6)
        1.0
    """
    return GaussianDP(OUTER_PRODUCT_SENSITIVITY * math.sqrt(levels) / sigma).epsilon_at(delta)


class LocalScales(NamedTuple):
    """Standard deviations of the noise in Lemma 5.

    Attributes:
        gram: sigma_X, for every entry of the Gram matrix's lower triangle.
        vector: sigma_u, for every entry of the vector.
    """

    gram: float
    vector: float


def printed_local_scales(
    *,
    epsilon: float,
    delta: float,
    reward_bound: float = 1.0,
    n_features: int | None = None,
    failure_probability: float | None = None,
) -> LocalScales:
    """Return the scales of Lemma 5; see the module.

    Args:
        epsilon: The paper's alpha.
        delta: The paper's beta.
        reward_bound: Bound B on rewards.
        n_features, failure_probability: m and the lemma's delta; without both the bracket is left out.

    Raises:
        InvalidParameter: delta is 0, or only one of m and the failure probability was passed.

    Example:
        >>> found = printed_local_scales(epsilon=10.0, delta=1e-5, n_features=64, failure_probability=1e-5)
        >>> round(2**0.5 / found.gram, 3), round(2.0 / found.vector, 3)  # the Gram's mu, and the vector's
        (1.418, 0.323)
    """
    _need_delta(delta)
    if (n_features is None) is not (failure_probability is None):
        raise InvalidParameter("Lemma 5: pass n_features and failure_probability together, or neither")
    tail = 0.0
    if n_features is not None and failure_probability is not None:
        tail = 2.0 * math.log(8.0 * n_features / failure_probability)
    scale = 8.0 / epsilon**2
    return LocalScales(
        gram=math.sqrt(scale * math.log(2.5 / delta)),
        vector=math.sqrt(scale * (reward_bound**2 + tail) * math.log(5.0 / delta)),
    )


def real_local_mu(scales: LocalScales, *, reward_bound: float = 1.0) -> float:
    """Return the smallest mu of Gaussian DP for Gram matrix and vector together, if one user changes both.

    Example:
        >>> printed = printed_local_scales(epsilon=10.0, delta=1e-5)
        >>> round(real_local_mu(printed), 3)
        2.09
    """
    return joint_sensitivity((reward_bound * scales.gram / scales.vector) ** 2) / scales.gram


def correct_local_scale(*, epsilon: float, delta: float, reward_bound: float = 1.0) -> float:
    """Return the noise scale for Gram matrix and vector together, if one user changes both.

    Example:
        >>> round(correct_local_scale(epsilon=1.0, delta=1e-5), 2)
        7.91
    """
    return joint_sensitivity(reward_bound**2) / gaussian_mu(epsilon, delta)


def _need_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise InvalidParameter("the printed formulas need delta above 0 and below 1")

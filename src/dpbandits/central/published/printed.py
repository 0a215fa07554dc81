r"""Noise scales of Dubey2021: as printed, as we read them, and what each really gives.

All scales are sigma of the symmetric noise sigma (Z + Z^T)/2 of one node of the tree, for L levels.
The right one, with ||phi|| <= 1 and |y| <= 1 enforced, follows from the Frobenius sensitivity 2 sqrt(2)
of [phi; y][phi; y]^T and from one round entering L nodes:

    sigma = 2 sqrt(2) sqrt(L)/mu(epsilon, delta).

- "lemma-2": sigma^2 = 8 L ln(2/delta) * 2 ln(2.5 L/delta) * 4/epsilon^2: the textbook Gaussian mechanism
  at each node, advanced composition over L, squared norm of [phi; y] (2) as the sensitivity. The
  statement of the lemma bounds sigma by the right-hand side and its proof sigma^2; read as the
  statement has it ("lemma-2-statement") the same number is sigma itself.
- "lemma-12": sigma = 16 L ln(4/delta)^2 2 sqrt(2) epsilon^2: the division by epsilon^2 turned into a
  product, and no root. The noise grows with epsilon.

Lemma 5 has no tree: every user adds noise once, to a Gram phi phi^T and a vector y phi with |y| <= B, each
as (epsilon/2, delta/2) (`printed_local_scale`).

- printed: sigma = sqrt(1 + B^2) sqrt(2 ln(2.5/delta)) 2/epsilon, the textbook Gaussian mechanism with the
  norm of [phi; y] as the sensitivity of either.
- right, for one scale: s(B^2)/mu(epsilon, delta), s the joint sensitivity of `privacy.mechanisms`.

The paper's text does not settle every constant. Where it leaves one open, these laws take the one that
agrees with what was established independently (ratios to the right scale of 10-12 for Lemma 2 at
epsilon = 1; of about 2,400 for Lemma 12 at epsilon = 1, T = 1024, delta = 1e-5, and under-noise below
epsilon of about 0.07; for Lemma 5 at (10, 1e-5) a half that is 1.418-GDP, and a joint claim that holds for
B = 1 and fails for B of about 20). The dependence on epsilon, delta and L is the point, not the third digit.
"""

import math
from typing import Literal, get_args

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import gaussian_mu
from dpbandits.privacy.certificates import GaussianDP
from dpbandits.privacy.gram_vector import joint_sensitivity

__all__ = [
    "FORMULAS",
    "Formula",
    "correct_local_scale",
    "correct_scale",
    "printed_local_scale",
    "printed_scale",
    "real_epsilon",
]

Formula = Literal["lemma-2", "lemma-2-statement", "lemma-12"]
FORMULAS: tuple[Formula, ...] = get_args(Formula)

OUTER_PRODUCT_SENSITIVITY = 2.0 * math.sqrt(2.0)
"""Largest Frobenius distance between two outer products of vectors [phi; y], ||phi|| <= 1, |y| <= 1."""


def correct_scale(*, levels: int, epsilon: float, delta: float) -> float:
    """2 sqrt(2) sqrt(L)/mu.

    Example:
        >>> round(correct_scale(levels=11, epsilon=1.0, delta=1e-5), 1)
        35.0
    """
    return OUTER_PRODUCT_SENSITIVITY * math.sqrt(levels) / gaussian_mu(epsilon, delta)


def printed_scale(formula: Formula, *, levels: int, epsilon: float, delta: float) -> float:
    """The scale of a printed formula; see the module.

    Raises:
        InvalidParameter: no such formula, or delta is 0.
    """
    if delta <= 0.0:
        raise InvalidParameter("the printed formulas need delta above 0")
    if formula == "lemma-12":
        return 16.0 * levels * math.log(4.0 / delta) ** 2 * OUTER_PRODUCT_SENSITIVITY * epsilon**2
    composition = 8.0 * levels * math.log(2.0 / delta) / epsilon**2
    variance = composition * 2.0 * math.log(2.5 * levels / delta) * 4.0
    if formula == "lemma-2":
        return math.sqrt(variance)
    if formula == "lemma-2-statement":
        return variance
    raise InvalidParameter(f"paper_constants is {formula!r}: expected one of {FORMULAS}")


def real_epsilon(sigma: float, *, levels: int, delta: float) -> float:
    """The smallest epsilon that noise of scale `sigma` at every node keeps, at this delta.

    Example:
        >>> sigma = correct_scale(levels=11, epsilon=1.0, delta=1e-5)
        >>> round(real_epsilon(sigma, levels=11, delta=1e-5), 6)
        1.0
    """
    return GaussianDP(OUTER_PRODUCT_SENSITIVITY * math.sqrt(levels) / sigma).epsilon_at(delta)


def printed_local_scale(*, epsilon: float, delta: float, reward_bound: float = 1.0) -> float:
    """Lemma 5: the scale of the noise of Gram and vector alike; see the module.

    Example:
        >>> round(2.0 / printed_local_scale(epsilon=10.0, delta=1e-5), 3)  # the vector's half, B = 1
        1.418
    """
    if delta <= 0.0:
        raise InvalidParameter("the printed formulas need delta above 0")
    norm = math.sqrt(1.0 + reward_bound**2)
    return norm * math.sqrt(2.0 * math.log(2.5 / delta)) * 2.0 / epsilon


def correct_local_scale(*, epsilon: float, delta: float, reward_bound: float = 1.0) -> float:
    """The scale that Gram and vector, moved together by one user, need under one promise.

    Example:
        >>> round(correct_local_scale(epsilon=1.0, delta=1e-5), 2)
        7.91
    """
    return joint_sensitivity(reward_bound**2) / gaussian_mu(epsilon, delta)

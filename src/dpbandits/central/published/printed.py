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

The paper's text does not settle every constant. Where it leaves one open, these laws take the one that
agrees with the ratios to the right scale that were established independently (10-12 for Lemma 2 at
epsilon = 1; about 2,400 for Lemma 12 at epsilon = 1, T = 1024, delta = 1e-5, and under-noise below
epsilon of about 0.07). The dependence on epsilon, delta and L is the point, not the third digit.
"""

import math
from typing import Literal, get_args

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.accounting import GaussianDP, gaussian_mu

__all__ = ["FORMULAS", "Formula", "correct_scale", "printed_scale", "real_epsilon"]

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

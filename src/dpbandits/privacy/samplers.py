r"""Exact samplers for lattice noise, driven by raw random words.

A guarantee about a mechanism holds for the distribution that is really sampled. These samplers never turn a
float into an output: every output is an integer. Every comparison of a uniform number with a probability is
exact:

- float64 arithmetic decides if its error bound leaves no doubt;
- otherwise decimal arithmetic of growing precision decides, with as many binary digits of the uniform number
  as are needed.

Given independent uniform words, the distributions are therefore exact.

**L2-Laplace on Z^d.** The proposal draws each coordinate independently: a sign, a cell m with P(m)
proportional to exp(-b m), and a position inside the cell, uniform among 2^w integers. Then |k_i| is m_i 2^w
+ position. The second copy of zero (sign -, value 0) is redrawn. The proposal has probability proportional
to exp(-b sum_i floor(|k_i| / 2^w)). It is accepted with probability exp(-g), where g = rate |k|_2 - b sum_i
floor(|k_i| / 2^w). This is at most one because b <= rate 2^w / sqrt(d) and |k|_1 <= sqrt(d) |k|_2. So an
accepted k has probability exactly proportional to exp(-rate |k|_2), for the rate as the rational number that
its float64 is. The acceptance rate is about d! V_d / (2 sqrt(d))^d with V_d the volume of the unit ball: 1,
.79, .60 in one, two and three dimensions and .07 in eleven.

**Discrete Gaussian on Z.** The proposal is the lattice Laplace distribution above in one dimension, with
P(k) proportional to exp(-t |k|) for a rate t. It is accepted with probability exp(-g), where
g = (|k| - sigma^2 t)^2 / (2 sigma^2). This is at most one for every t > 0. The product is
exp(-t |k| - k^2/(2 sigma^2) + t |k| - sigma^2 t^2/2), which is proportional to exp(-k^2/(2 sigma^2)). Here
sigma and t are the rational numbers that their float64s are. The result does not depend on t; only the
acceptance rate does. On a fine lattice t = 1/sigma, and the
rate is sqrt(pi/2) exp(-1/2) = .76. On a coarse lattice t is 16, and nearly every proposal is 0. (Canonne,
Kamath, Steinke 2020, Algorithm 3, has the same two steps with a rate of 1/(floor(sigma) + 1) and draws one
number after the other.)

The distribution is exact; the running time is not constant. It depends on the rejected proposals, which are
independent of the accepted one.
"""

import math
from collections.abc import Callable
from decimal import Context, Decimal

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.words import Words

__all__ = [
    "GREATEST_RATE",
    "LARGEST_SIGMA",
    "SMALLEST_SIGMA",
    "bernoulli_exp",
    "check_rate",
    "discrete_gaussian",
    "geometric",
    "lattice_l2_laplace",
    "lattice_laplace",
    "uniform_below",
]

_WORD = 2.0**64
_RELATIVE_ERROR = 2.0**-36
"""Bound on the relative error of an acceptance probability exp(-g) in float64, for g below `_LARGE`.

The terms of g are below 2^10 in size, each with a relative error of a few units of 2^-53. So the absolute
error of g is below 2^-40.
"""
_LARGE = 600.0
"""Exponent g above which a comparison with exp(-g) is decided in decimal arithmetic at once."""
GREATEST_RATE = 16.0
"""Largest rate of lattice noise; above it nearly all noise is zero."""

SMALLEST_SIGMA, LARGEST_SIGMA = 2.0**-20, 2.0**52
"""Range of the scale of discrete Gaussian noise, in lattice steps.

Inside it neither a draw nor the sum of a draw and a statistic can overflow int64.
"""
_CHUNK = 1 << 18
"""Largest number of proposals per pass, which bounds memory to about 10 MB per dimension."""


def bernoulli_exp(exponents: FloatArray, words: Words) -> BoolArray:
    """Draw booleans (n,) that are True with probability exp(-g), exactly, for exponents g >= 0 (n,)."""
    return _accept(exponents, words, lambda i, _: Decimal(float(exponents[i])))


def geometric(rate: float, size: int, words: Words) -> IntArray:
    """Draw (size,) integers k >= 0 with P(k) proportional to exp(-rate k).

    The binary digits of k are independent: digit i is 1 with probability 1 / (1 + exp(rate 2^i)). The part
    of k above the last of these digits is again geometric. It is practically never positive, but it is
    drawn, too, so that the distribution is exact.
    """
    if not (math.isfinite(rate) and rate > 0.0):
        raise InvalidParameter(f"the rate of a geometric distribution must be positive, got {rate!r}")
    digits = max(0, math.ceil(math.log2(64.0 / rate)))
    if digits > 61:
        raise InvalidParameter(f"rate {rate!r} is too small: the numbers would not fit into 64 bits")
    result = np.zeros(size, dtype=np.int64)
    for digit in range(digits):
        result += _digit(rate * 2.0**digit, size, words).astype(np.int64) << digit
    top_rate = np.full(size, rate * 2.0**digits)
    alive = np.flatnonzero(bernoulli_exp(top_rate, words))
    while alive.size:
        result[alive] += 1 << digits
        alive = alive[bernoulli_exp(top_rate[: alive.size], words)]
    return result


def lattice_laplace(rate: float, size: int, words: Words) -> IntArray:
    """Draw (size,) integers with P(k) proportional to exp(-rate |k|)."""
    return lattice_l2_laplace(rate, size, 1, words)[:, 0]


def lattice_l2_laplace(rate: float, size: int, dim: int, words: Words) -> IntArray:
    """Draw (size, dim) integer vectors with P(k) proportional to exp(-rate |k|_2).

    Raises:
        InvalidParameter: The rate is outside [2^-40, 2^4], so the lattice is much too fine or too coarse for
            the noise.
    """
    check_rate(rate)
    return _lattice_l2_laplace(rate, size, dim, words)


def discrete_gaussian(sigma: float, size: int, words: Words) -> IntArray:
    """Draw (size,) integers with P(k) proportional to exp(-k^2 / (2 sigma^2)).

    Raises:
        InvalidParameter: sigma is outside [2^-20, 2^52]; with a larger sigma a draw could overflow 64 bits.
    """
    if not SMALLEST_SIGMA <= sigma <= LARGEST_SIGMA:
        raise InvalidParameter(f"sigma is {sigma!r} lattice units: expected 2^-20 to 2^52")
    rate = min(1.0 / sigma, 16.0)
    result = np.empty(size, dtype=np.int64)
    filled = 0
    while filled < size:
        proposals = min(_CHUNK, int((size - filled) / 0.74) + 16)
        accepted = _gaussian_among(_lattice_l2_laplace(rate, proposals, 1, words)[:, 0], sigma, rate, words)
        accepted = accepted[: size - filled]
        result[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return result


def _gaussian_among(proposals: IntArray, sigma: float, rate: float, words: Words) -> IntArray:
    """Return those of the Laplace `proposals` of this rate that are accepted, as discrete Gaussian draws."""
    magnitudes = np.abs(proposals)
    # |k|/sigma < 36 for exponents up to _LARGE, with two roundings each: the absolute error is below 2^-40.
    exponents = 0.5 * (magnitudes / sigma - sigma * rate) ** 2

    def exact(i: int, context: Context) -> Decimal:
        return _gaussian_exponent(int(magnitudes[i]), sigma, rate, context)

    return proposals[_accept(exponents, words, exact)]


def _gaussian_exponent(magnitude: int, sigma: float, rate: float, context: Context) -> Decimal:
    """Return (|k| - sigma^2 t)^2 / (2 sigma^2) in decimals, with k = `magnitude` and t = `rate`."""
    square = context.multiply(Decimal(sigma), Decimal(sigma))
    far = context.subtract(Decimal(magnitude), context.multiply(square, Decimal(rate)))
    return context.divide(context.multiply(far, far), context.add(square, square))


def _lattice_l2_laplace(rate: float, size: int, dim: int, words: Words) -> IntArray:
    # The one-dimensional density falls by at most exp(-1/8) over a cell of 2^width integers.
    width = max(0, math.floor(math.log2(math.sqrt(dim) / (8.0 * rate))))
    cell_rate = math.nextafter(rate * 2.0**width / math.sqrt(dim) * (1.0 - 2.0**-50), 0.0)
    result = np.empty((size, dim), dtype=np.int64)
    filled = 0
    ball_volume = float(math.pi ** (dim / 2) / math.gamma(dim / 2 + 1))
    share = max(0.01, math.gamma(dim + 1) * ball_volume / (2.0 * math.sqrt(dim)) ** dim * 0.85)
    while filled < size:
        proposals = min(_CHUNK, int((size - filled) / share) + 16)
        accepted = _propose(rate, cell_rate, width, proposals, dim, words)[: size - filled]
        result[filled : filled + len(accepted)] = accepted
        filled += len(accepted)
    return result


def check_rate(rate: float) -> None:
    """Raise `InvalidParameter` if the lattice is much too fine or too coarse for the noise."""
    if not 2.0**-40 <= rate <= GREATEST_RATE:
        raise InvalidParameter(
            f"the rate of lattice noise is {rate!r} (privacy loss per lattice step): expected 2^-40 to 16; "
            "choose another epsilon or distance"
        )


def uniform_below(n: int, size: int, words: Words) -> IntArray:
    """Draw (size,) uniform integers in 0 ... n - 1. Words above the last multiple of n are drawn again."""
    if not 1 <= n <= 2**62:
        raise InvalidParameter(f"uniform_below needs 1 <= n <= 2^62, got {n}")
    limit = np.uint64((2**64 // n) * n - 1)
    drawn = words(size).copy()
    outside = np.flatnonzero(drawn > limit)
    while outside.size:
        drawn[outside] = words(outside.size)
        outside = outside[drawn[outside] > limit]
    return (drawn % np.uint64(n)).astype(np.int64)


def _propose(rate: float, cell_rate: float, width: int, n: int, dim: int, words: Words) -> IntArray:
    bits = words(n * dim).reshape(n, dim)
    cells = geometric(cell_rate, n * dim, words).reshape(n, dim)
    places = (bits & np.uint64((1 << width) - 1)).astype(np.int64)
    magnitudes = (cells << width) + places
    negative = (bits >> np.uint64(63)).astype(bool)
    kept = ~(negative & (magnitudes == 0)).any(axis=1)
    magnitudes, cells, negative = magnitudes[kept], cells[kept], negative[kept]
    cell_sums = cells.sum(axis=1)
    lengths = np.sqrt(np.einsum("ij,ij->i", magnitudes.astype(np.float64), magnitudes.astype(np.float64)))
    exponents = np.maximum(rate * lengths - cell_rate * cell_sums, 0.0)
    # A difference of two large terms carries their error, so such (very rare) proposals are decided exactly.
    exponents[rate * lengths > _LARGE] = np.inf

    def exact(i: int, context: Context) -> Decimal:
        squares = sum(int(k) ** 2 for k in magnitudes[i])
        length = context.sqrt(Decimal(squares))
        return context.subtract(
            context.multiply(Decimal(rate), length),
            context.multiply(Decimal(cell_rate), Decimal(int(cell_sums[i]))),
        )

    accepted = _accept(exponents, words, exact)
    signed: IntArray = np.where(negative, -magnitudes, magnitudes)[accepted]
    return signed


def _accept(exponents: FloatArray, words: Words, exact: Callable[[int, Context], Decimal]) -> BoolArray:
    """Draw booleans that are True with probability exp(-g).

    Args:
        exponents: Exponents g in float64, which decide where this is certain, shape (n,).
        words: Source of random words.
        exact: Function that returns the exponent with a given index to the precision of a decimal context.
    """
    drawn = words(exponents.size)
    uniform = drawn.astype(np.float64) / _WORD
    chance = np.exp(-exponents)
    margin = _RELATIVE_ERROR * chance + 2.0**-52
    accepted = uniform < chance
    doubtful = (np.abs(uniform - chance) <= margin) | (exponents > _LARGE)
    for i in np.flatnonzero(doubtful):
        index = int(i)

        def chance_in(context: Context, index: int = index) -> Decimal:
            return context.exp(context.minus(exact(index, context)))

        accepted[i] = _below(int(drawn[i]), chance_in, words)
    return np.asarray(accepted, dtype=np.bool_)


def _digit(exponent: float, size: int, words: Words) -> BoolArray:
    """Draw (size,) booleans that are True with probability 1 / (1 + exp(exponent)), two per word."""

    def chance_in(context: Context) -> Decimal:
        return context.divide(Decimal(1), context.add(Decimal(1), context.exp(Decimal(exponent))))

    halves = words((size + 1) // 2).view(np.uint32)[:size]
    threshold = int(chance_in(Context(prec=40)) * 2**32)  # may be off by one: neighbours are decided exactly
    drawn = halves < np.uint32(threshold)
    for i in np.flatnonzero(np.abs(halves.astype(np.int64) - threshold) <= 1):
        tail = int(words(1)[0]) >> 32
        drawn[i] = _below((int(halves[i]) << 32) | tail, chance_in, words)
    return np.asarray(drawn, dtype=np.bool_)


def _below(word: int, chance_in: Callable[[Context], Decimal], words: Words) -> bool:
    """Return True if a uniform number is below a probability, exactly.

    Args:
        word: First 64 binary digits of the uniform number.
        chance_in: Function that returns the probability to the precision of a decimal context.
        words: Source of further digits.
    """
    digits, bits = 40, 64
    while True:
        context, wide = Context(prec=digits), Context(prec=2 * digits)
        chance = chance_in(context)
        error = Decimal(10) ** (4 - digits)  # a few roundings of terms below 10^3 in size
        low = wide.divide(Decimal(word), Decimal(2**bits))
        high = wide.divide(Decimal(word + 1), Decimal(2**bits))
        if high < wide.subtract(chance, error):
            return True
        if low > wide.add(chance, error):
            return False
        word = (word << 64) | int(words(1)[0])
        bits += 64
        digits += 20

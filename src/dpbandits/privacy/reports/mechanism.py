"""Base class of local mechanisms: encode on the client; check, add up and estimate on the server.

A user's private input is one cell (a bin, or a bin and an arm) and one sign. The sign is +1 with probability
equal to the reward, else -1. A mechanism turns cell and sign into a payload of a fixed number of bytes. For
every cell the server estimates two sums over users. The *signed* sum is unbiased for sum 1[cell]
(2 reward - 1), and the *count* is unbiased for sum 1[cell].
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import ClassVar

import numpy as np

from dpbandits._checks import integer, number
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.words import Words, secure_words

__all__ = ["MAX_CELLS", "MAX_EPSILON", "Moments", "Payloads", "ReportMechanism"]

Payloads = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
"""Payloads of n reports as bytes, shape (n, report_bytes)."""

MAX_CELLS = 1 << 20

LATTICE = 1 << 64
"""Denominator of every probability that a client uses."""

SMALLEST_EPSILON = 1e-6

MAX_EPSILON = 16.0
"""Largest epsilon; above it small probabilities are too close to 2**-64 for the slack of the calibration."""

# Rounding a probability to the lattice changes a log-likelihood ratio by less than this share of epsilon.
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Moments of one report's contributions to a cell's two estimates.

    Attributes:
        signed_own: E[signed^2] for a user of the cell.
        signed_other: E[signed^2] for any other user (the mean is 0).
        count_own: Variance of the count for a user of the cell.
        count_other: Variance of the count for any other user.
    """

    signed_own: float
    signed_other: float
    count_own: float
    count_other: float

    def signed_variance(self, share: FloatArray) -> FloatArray:
        """Return the variance per report of the signed estimate of cells that hold a `share` of the users.

        It is exact for a mean reward of 1/2, and otherwise too large by (share (2 mean - 1))^2.
        """
        return np.asarray(share * self.signed_own + (1.0 - share) * self.signed_other)

    def count_variance(self, share: FloatArray) -> FloatArray:
        """Return the exact variance per report of the count of cells that hold a `share` of the users."""
        own, other = share * self.count_own, (1.0 - share) * self.count_other
        return np.asarray(own + other + share * (1.0 - share))


class ReportMechanism(ABC):
    """Base class of mechanisms for one epsilon-locally-private report of (cell, sign).

    Args:
        n_cells: Public number of cells.
        epsilon: Largest privacy loss; the exact loss `exact_epsilon` is never larger.

    Privacy: any two inputs give any report with probabilities within a factor exp(exact_epsilon), for the
    rational probabilities that the client uses.

    Raises:
        InvalidParameter: There is no cell, there are too many cells, or epsilon is outside [1e-6, 16].
    """

    name: ClassVar[str]
    status: ClassVar[str] = "enforced"

    def __init__(self, *, n_cells: int, epsilon: float) -> None:
        self.n_cells = integer(n_cells, name="n_cells")
        if self.n_cells > MAX_CELLS:
            raise InvalidParameter(f"n_cells is {n_cells}, expected at most {MAX_CELLS}")
        self.epsilon = number(epsilon, name="epsilon")
        if self.epsilon > MAX_EPSILON:
            raise InvalidParameter(
                f"epsilon {epsilon:g} is above {MAX_EPSILON:g}, the largest that exact 64-bit sampling "
                "supports: use a smaller one, or a non-private policy"
            )
        if self.epsilon < SMALLEST_EPSILON:
            raise InvalidParameter(
                f"epsilon is {epsilon:g}: below {SMALLEST_EPSILON:g}, 64-bit reports carry no information"
            )
        self._calibrate(self.epsilon * (1.0 - _SLACK))
        if self.exact_epsilon > self.epsilon:
            raise InvalidParameter(
                f"{self.name} cannot provide epsilon {epsilon:g} on the 64-bit lattice: use another epsilon"
            )

    @abstractmethod
    def _calibrate(self, epsilon: float) -> None:
        """Set the rational probabilities for `epsilon`, which already has slack for their rounding."""

    @property
    @abstractmethod
    def exact_epsilon(self) -> float:
        """Largest log-likelihood ratio over all pairs of inputs and all reports, rounded up."""

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """Exact moments of the estimates."""

    @property
    @abstractmethod
    def weights(self) -> tuple[float, float]:
        """Largest weight of a valid report, honest or forged, in numbers of honest users.

        The weight is the report's largest contribution to the estimate of a linear function of the signed
        sums, over the largest mean contribution of an honest user. The first number is for functions of one
        cell, the second for functions of all cells with coefficients up to 1 in size. An honest user
        contributes at most 1 in the mean. So the weight is the largest sum of absolute values over payloads.
        It is exact, from the rational probabilities in use or from the bounds of clipped noise.
        """

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Number of bytes of one payload."""

    @abstractmethod
    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """Return the private report of one user; runs on the client. Only tests pass `words`."""

    @abstractmethod
    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Return the exact probability of a payload given the input; audits enumerate it."""

    @abstractmethod
    def valid(self, payloads: Payloads) -> BoolArray:
        """Return an array (n,) that is True for payloads that a client could have sent."""

    @abstractmethod
    def aggregate(self, payloads: Payloads) -> IntArray:
        """Return the integer sums of valid payloads. The sums of several servers can be added."""

    @abstractmethod
    def possible(self, aggregate: IntArray, n: int) -> bool:
        """Return True if n valid payloads may have these sums: a necessary condition on each entry."""

    def excess(self, aggregate: IntArray, n: int) -> tuple[float, float]:
        """Return the excess of n reports' sums over those of honest users, and its variance.

        For honest reports the mean of the excess is at most 0, for any cells and signs of the users. It is 0
        for mechanisms whose reports have an entry for every cell. Both numbers add up over versions and
        servers. Forged reports of the largest weight give a large excess; forged reports that look like a
        user's do not. See the page on local privacy.
        """
        found = float(self.estimate(aggregate, n)[1].sum()) - n
        return found, n * (self.moments.count_own + (self.n_cells - 1) * self.moments.count_other)

    @abstractmethod
    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the `aggregate` of many users at once, equal in law to adding up their reports.

        Args:
            positive: Number of users of each cell with sign +1, (n_cells,).
            negative: Number of users of each cell with sign -1, (n_cells,).
            rng: Generator of simulated randomness; never used for real users.
        """

    @abstractmethod
    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Return unbiased signed sums and counts of cells from n reports, shapes (n_cells,)."""

    def simulated_estimate(
        self, positive: IntArray, negative: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Return the result of `estimate` for simulated users; arguments as for `simulate`."""
        return self.estimate(self.simulate(positive, negative, rng), int(positive.sum() + negative.sum()))

    def _check_cell(self, cell: int) -> int:
        index = operator.index(cell)
        if not 0 <= index < self.n_cells:
            raise InvalidData(f"cell: expected an integer in [0, {self.n_cells})")
        return index

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_cells={self.n_cells}, epsilon={self.epsilon:g})"


def unpack_bits(payloads: Payloads, n_bits: int) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
    """Return the first `n_bits` bits of each payload as zeros and ones, shape (n, n_bits)."""
    return np.unpackbits(payloads, axis=1, count=n_bits)


def padding_is_zero(payloads: Payloads, n_bits: int) -> BoolArray:
    """Return an array (n,) that is True for payloads with zeros after the last used bit.

    So every message has exactly one encoding.
    """
    spare = payloads.shape[1] * 8 - n_bits
    if spare == 0:
        return np.ones(len(payloads), dtype=np.bool_)
    return np.asarray((payloads[:, -1] & ((1 << spare) - 1)) == 0)


def column_sums(bits: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]") -> IntArray:
    """Return the sums of the columns of a 0/1 array; sums of 255 rows fit into a byte, which is fast."""
    n, width = bits.shape
    if n == 1:
        return np.asarray(bits[0], dtype=np.int64)
    full = n // 255 * 255
    groups = bits[:full].reshape(-1, 255, width).sum(axis=1, dtype=np.uint8)
    total = groups.sum(axis=0, dtype=np.int64) + bits[full:].sum(axis=0, dtype=np.int64)
    return np.asarray(total, dtype=np.int64)


def on_lattice(probability: Callable[[], Decimal]) -> int:
    """Return floor(2**64 p) of a real number p, which is equal on every machine and in every language.

    Args:
        probability: Function that computes p from exp of an exact number, with few roundings, in the current
            decimal context. A relative error of 10**(8 - digits) is tolerated, because exp(epsilon) - 1
            loses six digits at the smallest epsilon. The exponential of a rational is transcendental. So
            2**64 p is no integer, and enough digits determine its floor.
    """
    digits = 50
    while True:
        with localcontext(Context(prec=digits)):
            value, doubt = probability() * LATTICE, Decimal(10) ** (30 - digits)
            low = math.floor(value - doubt)
            if low == math.floor(value + doubt):
                return low
        digits += 25


def lattice_fraction(threshold: int) -> Fraction:
    """Return threshold / 2**64, the probability that a uniform 64-bit word is below `threshold`."""
    return Fraction(threshold, LATTICE)


def log_upper(ratio: Fraction) -> float:
    """Return a float that is at least log(ratio), for ratios of at least 1.

    For ratios below 2 log(1 + x) is computed with exact x, because a rounded ratio near 1 would lose
    precision. The error is always under three float64 steps of the result, and four steps are added.
    """
    if ratio < 2:
        excess = ratio - 1
        value = math.log1p(excess.numerator / excess.denominator)
    else:
        value = math.log(ratio.numerator / ratio.denominator)
    for _ in range(4):
        value = math.nextafter(value, math.inf)
    return value

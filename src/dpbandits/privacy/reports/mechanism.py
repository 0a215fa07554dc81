"""Base of every local mechanism: encode on the device; check, add up and estimate on the server.

A user's private input is one *cell* (a bin, or a bin and an arm) and one *sign* (+1 with probability
equal to the reward, else -1). A mechanism turns it into a payload of a fixed number of bytes. For
every cell the server recovers two sums over reports: the *signed* sum, unbiased for
sum 1[cell] (2 reward - 1), and the *count*, unbiased for sum 1[cell].
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
"""(n, report_bytes) bytes of n reports."""

MAX_CELLS = 1 << 20

LATTICE = 1 << 64
"""Every probability on a device is an integer over this."""

SMALLEST_EPSILON = 1e-6

MAX_EPSILON = 16.0
"""Above it the small probabilities come too near to 2**-64 for the calibration's slack."""

# Rounding a probability to the lattice moves a likelihood ratio by less than this relative share of epsilon.
_SLACK = 1e-9


@dataclass(frozen=True, kw_only=True)
class Moments:
    """Per-report moments of one cell's two estimates, given whether the user is in that cell.

    Attributes:
        signed_own: E[signed^2] for a user of the cell.
        signed_other: E[signed^2] for anyone else (the mean is 0).
        count_own: variance of the count for a user of the cell.
        count_other: variance of the count for anyone else.
    """

    signed_own: float
    signed_other: float
    count_own: float
    count_other: float

    def signed_variance(self, share: FloatArray) -> FloatArray:
        """Variance per report of the signed estimate of cells that hold `share` of the users.

        Exact for a mean reward of 1/2; otherwise above the truth by (share (2 mean - 1))^2.
        """
        return np.asarray(share * self.signed_own + (1.0 - share) * self.signed_other)

    def count_variance(self, share: FloatArray) -> FloatArray:
        """Exact variance per report of the count of cells that hold `share` of the users."""
        own, other = share * self.count_own, (1.0 - share) * self.count_other
        return np.asarray(own + other + share * (1.0 - share))


class ReportMechanism(ABC):
    """One epsilon-locally-private report of (cell, sign).

    Args:
        n_cells: number of cells, public.
        epsilon: privacy parameter asked for; `exact_epsilon` is what is kept, never more.

    Privacy: any two inputs give any report with probabilities within exp(exact_epsilon), over the
    rational probabilities that the device uses.

    Raises:
        InvalidParameter: no cell, too many, or an epsilon outside [1e-6, 16].
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
                "supports: ask for less, or use a non-private policy"
            )
        if self.epsilon < SMALLEST_EPSILON:
            raise InvalidParameter(
                f"epsilon is {epsilon:g}: below {SMALLEST_EPSILON:g} reports on a 64-bit lattice say nothing"
            )
        self._calibrate(self.epsilon * (1.0 - _SLACK))
        if self.exact_epsilon > self.epsilon:
            raise InvalidParameter(
                f"{self.name} cannot keep epsilon {epsilon:g} on the 64-bit lattice: ask for another epsilon"
            )

    @abstractmethod
    def _calibrate(self, epsilon: float) -> None:
        """Fix the rational probabilities for `epsilon`, which leaves room for rounding them."""

    @property
    @abstractmethod
    def exact_epsilon(self) -> float:
        """The maximum log-likelihood ratio over all pairs of inputs and reports, rounded up."""

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """Exact moments of the estimates."""

    @property
    @abstractmethod
    def weights(self) -> tuple[float, float]:
        """How many honest people one valid report, honest or forged, weighs at most: in one cell, over all.

        What the report adds to the estimate of a linear function of the signed sums, over what an honest
        person adds to it on average over the noise, both at their largest: functions of one cell, and
        functions with coefficients up to 1 in size. A person adds at most 1, whichever cell and reward they
        have, so it is the largest sum of absolute values over payloads: exact, from the rational
        probabilities in use (and for noise that is clipped, from the clipping's bounds).
        """

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Bytes of one payload."""

    @abstractmethod
    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """The private report of one user, on the device. `words` is replaced in tests only."""

    @abstractmethod
    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """The exact probability of a payload given the input: what audits enumerate."""

    @abstractmethod
    def valid(self, payloads: Payloads) -> BoolArray:
        """(n,) which payloads a device could have sent."""

    @abstractmethod
    def aggregate(self, payloads: Payloads) -> IntArray:
        """Integer sums of valid payloads; sums of shards add."""

    @abstractmethod
    def possible(self, aggregate: IntArray, n: int) -> bool:
        """Return whether n valid payloads may have these sums: what is necessary, entry by entry."""

    def excess(self, aggregate: IntArray, n: int) -> tuple[float, float]:
        """How far the sums of n reports are beyond those of any honest crowd, and the variance of that.

        The mean over honest noise is at most 0, whatever the crowd's cells and signs are; where reports hold
        something in every cell it is 0. Both numbers add over versions and shards. Forged reports that weigh
        most are far above; forged ones that look like a person's are not: see the page on local privacy.
        """
        found = float(self.estimate(aggregate, n)[1].sum()) - n
        return found, n * (self.moments.count_own + (self.n_cells - 1) * self.moments.count_other)

    @abstractmethod
    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw `aggregate` of a crowd at once, equal in law to adding up single reports.

        Args:
            positive, negative: (n_cells,) users of each cell with sign +1, and with sign -1.
            rng: simulated randomness; never used for real people.
        """

    @abstractmethod
    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Signed sums and counts of n reports, each (n_cells,), unbiased."""

    def simulated_estimate(
        self, positive: IntArray, negative: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """`estimate` of a simulated crowd."""
        return self.estimate(self.simulate(positive, negative, rng), int(positive.sum() + negative.sum()))

    def _check_cell(self, cell: int) -> int:
        index = operator.index(cell)
        if not 0 <= index < self.n_cells:
            raise InvalidData(f"cell: expected an integer in [0, {self.n_cells})")
        return index

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_cells={self.n_cells}, epsilon={self.epsilon:g})"


def unpack_bits(payloads: Payloads, n_bits: int) -> "np.ndarray[tuple[int, int], np.dtype[np.uint8]]":
    """(n, n_bits) zeros and ones."""
    return np.unpackbits(payloads, axis=1, count=n_bits)


def padding_is_zero(payloads: Payloads, n_bits: int) -> BoolArray:
    """(n,) whether the bits after the last used one are zero: one message has one encoding."""
    spare = payloads.shape[1] * 8 - n_bits
    if spare == 0:
        return np.ones(len(payloads), dtype=np.bool_)
    return np.asarray((payloads[:, -1] & ((1 << spare) - 1)) == 0)


def column_sums(bits: "np.ndarray[tuple[int, int], np.dtype[np.uint8]]") -> IntArray:
    """Sums of zero-one columns; 255 rows fit into a byte, which is far faster than adding in int64."""
    n, width = bits.shape
    if n == 1:
        return np.asarray(bits[0], dtype=np.int64)
    full = n // 255 * 255
    groups = bits[:full].reshape(-1, 255, width).sum(axis=1, dtype=np.uint8)
    total = groups.sum(axis=0, dtype=np.int64) + bits[full:].sum(axis=0, dtype=np.int64)
    return np.asarray(total, dtype=np.int64)


def on_lattice(probability: Callable[[], Decimal]) -> int:
    """floor(2**64 p) of the real number p: the same on every machine, and in every language.

    Args:
        probability: computes p from exp of an exact number with few roundings, in the current decimal
            context. Relative errors of 10**(8 - digits) are allowed for: exp(epsilon) - 1 loses six digits
            at the smallest epsilon. exp of a rational is transcendental, so that 2**64 p is no integer
            where it depends on it, and enough digits decide.
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
    """The rational that a threshold stands for."""
    return Fraction(threshold, LATTICE)


def log_upper(ratio: Fraction) -> float:
    """A float that is at least log(ratio), for ratios of at least 1.

    Below 2 through log(1 + x), x exact: the quotient of a ratio near 1, rounded, would lose what is asked
    for. Either way the error is under three steps of the result, and four are added.
    """
    if ratio < 2:
        excess = ratio - 1
        value = math.log1p(excess.numerator / excess.denominator)
    else:
        value = math.log(ratio.numerator / ratio.denominator)
    for _ in range(4):
        value = math.nextafter(value, math.inf)
    return value

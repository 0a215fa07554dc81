"""Reports about 2 n_cells categories, two per cell: one for sign +1 and one for sign -1."""

from abc import abstractmethod
from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.privacy.reports.mechanism import (
    LATTICE,
    Moments,
    Payloads,
    ReportMechanism,
    column_sums,
    lattice_fraction,
    log_upper,
    on_lattice,
    padding_is_zero,
    unpack_bits,
)
from dpbandits.privacy.samplers import uniform_below
from dpbandits.privacy.words import Words, secure_words

__all__ = ["HadamardResponse", "OptimalUnary", "RandomisedResponse"]

_FIRST_ROW = 2


class _Categories(ReportMechanism):
    """Base class of mechanisms that estimate numbers of users in categories, and so in cells."""

    def _category(self, cell: int, *, positive: bool) -> int:
        return 2 * self._check_cell(cell) + (0 if positive else 1)

    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Return signed sums and counts: difference and sum of the estimates of a cell's two categories."""
        plus, minus = self._users(aggregate, n).reshape(-1, 2).T
        return plus - minus, plus + minus

    @abstractmethod
    def _users(self, aggregate: IntArray, n: int) -> FloatArray:
        """Return unbiased estimates of the number of users in each category, (2 n_cells,), from n reports."""


class _OneCode(_Categories):
    """Base class of mechanisms whose report is one of `_n_codes` integers, in little-endian bytes."""

    _n_codes: int

    @property
    def report_bytes(self) -> int:
        return -(-(self._n_codes - 1).bit_length() // 8)

    def valid(self, payloads: Payloads) -> BoolArray:
        """Return an array (n,) that is True for payloads whose code is below the number of codes."""
        return np.asarray(_codes(payloads) < self._n_codes)

    def aggregate(self, payloads: Payloads) -> IntArray:
        """Return how often each code was sent, shape (number of codes,)."""
        return self._counts(_codes(payloads))

    def possible(self, aggregate: IntArray, n: int) -> bool:
        return bool((aggregate >= 0).all()) and int(aggregate.sum()) == n

    def _counts(self, codes: IntArray) -> IntArray:
        return np.bincount(codes, minlength=self._n_codes).astype(np.int64, copy=False)


class RandomisedResponse(_OneCode):
    """k-ary randomised response: reports the true category with probability e^epsilon/(e^epsilon + m - 1).

    Otherwise the report is one of the other m - 1 categories, each equally likely, with m = 2 n_cells. The
    mechanism is best with few cells and a large epsilon. Source: Kairouz, Oh, Viswanath, *Extremal
    mechanisms for local differential privacy*, 2016.
    """

    name = "krr"

    def _calibrate(self, epsilon: float) -> None:
        self._n_codes = 2 * self.n_cells
        odds = self._n_codes - 1
        self._keep = on_lattice(lambda: 1 / (1 + odds * Decimal(-epsilon).exp()))

    @cached_property
    def rates(self) -> tuple[Fraction, Fraction]:
        """Probabilities with which the true category, and each other category, is reported."""
        keep = lattice_fraction(self._keep)
        return keep, (1 - keep) / (self._n_codes - 1)

    @cached_property
    def exact_epsilon(self) -> float:
        """Log ratio of the two probabilities in `rates`, rounded up."""
        truth, other = self.rates
        return log_upper(max(truth / other, other / truth))

    @cached_property
    def moments(self) -> Moments:
        """Exact moments of the estimates."""
        p, q = map(float, self.rates)
        scale = (p - q) ** 2
        return Moments(
            signed_own=(p + q) / scale,
            signed_other=2.0 * q / scale,
            count_own=(p + q) * (1.0 - p - q) / scale,
            count_other=2.0 * q * (1.0 - 2.0 * q) / scale,
        )

    @property
    def weights(self) -> tuple[float, float]:
        """Largest weights of one report, which names one category; see `ReportMechanism.weights`."""
        p, q = map(float, self.rates)
        return 1.0 / (p - q), 1.0 / (p - q)

    def excess(self, aggregate: IntArray, n: int) -> tuple[float, float]:
        """Return a statistic of categories with too few reports for untrue answers, and its variance.

        From untrue answers every category gets at least the share q of the reports in the mean, with q the
        second probability in `rates`. A shortfall below that number counts in units of its standard
        deviation. The statistic is the sum of squared shortfalls, less its largest mean for honest users.
        That is 1/2 for all categories but one, and the variance is 5/4 (half of a chi square). With one cell
        there are two categories, and the statistic has little power.
        """
        q, others = float(self.rates[1]), self._n_codes - 1
        if not n:
            return 0.0, 0.0
        short = np.maximum(n * q - aggregate, 0.0) ** 2 / (n * q * (1.0 - q))
        return float(short.sum()) - others / 2.0, 1.25 * others

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """Return the private report of one user. True and untrue answers draw the same words and take equal
        time.
        """
        truth = self._category(cell, positive=positive)
        lies = int(words(1)[0]) >= self._keep
        other = int(uniform_below(self._n_codes - 1, 1, words)[0])
        codes = (truth, other + (other >= truth))
        return codes[lies].to_bytes(self.report_bytes, "little")

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Return the exact probability of a payload: one of the two numbers in `rates`."""
        truthful = int.from_bytes(payload, "little") == self._category(cell, positive=positive)
        return self.rates[0 if truthful else 1]

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the aggregate of many users, with one random draw per user."""
        truth = np.repeat(np.arange(self._n_codes), _by_category(positive, negative))
        lies = rng.random(len(truth)) >= float(self.rates[0])
        other = rng.integers(self._n_codes - 1, size=int(lies.sum()))
        truth[lies] = other + (other >= truth[lies])
        return self._counts(truth)

    def _users(self, aggregate: IntArray, n: int) -> FloatArray:
        p, q = map(float, self.rates)
        return np.asarray((aggregate - n * q) / (p - q), dtype=np.float64)


class HadamardResponse(_OneCode):
    """Hadamard response: an index that depends on the user's row of a Hadamard matrix.

    Every category has a row of a Hadamard matrix. With probability exp(epsilon)/(exp(epsilon) + 1) the
    report is an index at which the row of the user's category is +1, otherwise an index at which it is -1.
    Rows start at 2, so that the product of a cell's two rows is row 1, which no category has. Then the two
    estimates of a cell are uncorrelated for every user. Source: Acharya, Sun, Zhang, *Hadamard response:
    estimating distributions privately, efficiently, and with little communication*, 2019.
    """

    name = "hadamard"

    def _calibrate(self, epsilon: float) -> None:
        self._n_codes = 1 << (2 * self.n_cells + _FIRST_ROW - 1).bit_length()  # order of the matrix
        self._side = on_lattice(lambda: 1 / (1 + Decimal(-epsilon).exp()))

    @property
    def side(self) -> Fraction:
        """Probability that the reported index is one at which the user's row is +1."""
        return lattice_fraction(self._side)

    @cached_property
    def exact_epsilon(self) -> float:
        """Log odds of the probability `side`, rounded up."""
        return log_upper(self.side / (1 - self.side))

    @cached_property
    def moments(self) -> Moments:
        """Exact moments of the estimates."""
        second = 2.0 / (2.0 * float(self.side) - 1.0) ** 2
        return Moments(signed_own=second, signed_other=second, count_own=second - 1.0, count_other=second)

    @property
    def weights(self) -> tuple[float, float]:
        """Largest weights of one report: at some indices the two rows of every cell differ."""
        one = 2.0 / (2.0 * float(self.side) - 1.0)
        return one, self.n_cells * one

    def excess(self, aggregate: IntArray, n: int) -> tuple[float, float]:
        """Return the excess of reports with an index at which a cell's two rows differ, and its variance.

        Only these indices change signed sums. In the mean half of the honest reports have one of them.
        """
        odd = np.arange(self._n_codes) & 1
        return float((2 * odd - 1) @ aggregate), float(n)

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """Return the private report of one user."""
        row = _FIRST_ROW + self._category(cell, positive=positive)
        side, index = words(2).tolist()
        index &= self._n_codes - 1
        odd = (row & index).bit_count() & 1
        wrong = odd != (side >= self._side)
        index ^= (row & -row) * wrong  # flips the parity and maps one half onto the other
        return int(index).to_bytes(self.report_bytes, "little")

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Return the exact probability of a payload: that of its side, times 1 over the side's size."""
        row = _FIRST_ROW + self._category(cell, positive=positive)
        odd = (row & int.from_bytes(payload, "little")).bit_count() & 1
        return ((1 - self.side) if odd else self.side) * Fraction(2, self._n_codes)

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the aggregate of many users, with one random draw per user."""
        rows = np.repeat(np.arange(2 * self.n_cells) + _FIRST_ROW, _by_category(positive, negative))
        index = rng.integers(self._n_codes, size=len(rows))
        wrong = (np.bitwise_count(rows & index) & 1) != (rng.random(len(rows)) >= float(self.side))
        index[wrong] ^= rows[wrong] & -rows[wrong]
        return self._counts(index)

    def _users(self, aggregate: IntArray, n: int) -> FloatArray:
        spectrum = _walsh(aggregate.astype(np.float64)) / (2.0 * float(self.side) - 1.0)
        return spectrum[_FIRST_ROW : _FIRST_ROW + 2 * self.n_cells]


class OptimalUnary(_Categories):
    """Optimised unary encoding: a report has one bit per category.

    The bit of the user's category is 1 with probability 1/2, every other bit with q = 1/(exp(epsilon) + 1).

    Source: Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation*, 2017.
    """

    name = "oue"

    def _calibrate(self, epsilon: float) -> None:
        self._n = 2 * self.n_cells
        self._other = on_lattice(lambda: 1 / (1 + Decimal(epsilon).exp())) + 1

    @cached_property
    def rates(self) -> tuple[Fraction, Fraction]:
        """Probabilities that the bit of the user's category, and that any other bit, is 1."""
        return Fraction(1, 2), lattice_fraction(self._other)

    @cached_property
    def exact_epsilon(self) -> float:
        """Largest log-likelihood ratio, rounded up: own bit 1 and other bit 0 against the reverse."""
        p, q = self.rates
        return log_upper(p * (1 - q) / (q * (1 - p)))

    @cached_property
    def moments(self) -> Moments:
        """Exact moments of the estimates."""
        p, q = map(float, self.rates)
        scale = (p - q) ** 2
        return Moments(
            signed_own=(p + q - 2.0 * p * q) / scale,
            signed_other=2.0 * q * (1.0 - q) / scale,
            count_own=(p * (1.0 - p) + q * (1.0 - q)) / scale,
            count_other=2.0 * q * (1.0 - q) / scale,
        )

    @property
    def weights(self) -> tuple[float, float]:
        """Largest weights of one report, which has a bit in every cell; see `ReportMechanism.weights`."""
        p, q = map(float, self.rates)
        return 1.0 / (p - q), self.n_cells / (p - q)

    @property
    def report_bytes(self) -> int:
        """Number of bytes of a report: one bit per category."""
        return -(-self._n // 8)

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """Return the private report of one user."""
        own = self._category(cell, positive=positive)
        draws = words(self._n)
        bits = draws < np.uint64(self._other)
        bits[own] = draws[own] < np.uint64(LATTICE // 2)
        return np.packbits(bits).tobytes()

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Return the exact probability of a payload: a product over bits; the user's is a fair coin."""
        p, q = self.rates
        others = np.delete(
            unpack_bits(np.frombuffer(payload, np.uint8)[None], self._n)[0],
            self._category(cell, positive=positive),
        )
        ones = int(others.sum())
        return p * q**ones * (1 - q) ** (len(others) - ones)

    def valid(self, payloads: Payloads) -> BoolArray:
        """Return an array (n,) that is True for payloads with zeros after the last used bit."""
        return padding_is_zero(payloads, self._n)

    def aggregate(self, payloads: Payloads) -> IntArray:
        """Return how often each bit was 1, shape (2 n_cells,)."""
        return column_sums(unpack_bits(payloads, self._n))

    def possible(self, aggregate: IntArray, n: int) -> bool:
        """Return True if each bit is 1 in at most n reports."""
        return bool(((aggregate >= 0) & (aggregate <= n)).all())

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the aggregate of many users, with two binomial draws per category."""
        own = _by_category(positive, negative)
        return np.asarray(rng.binomial(own, 0.5) + rng.binomial(own.sum() - own, float(self.rates[1])))

    def _users(self, aggregate: IntArray, n: int) -> FloatArray:
        q = float(self.rates[1])
        return np.asarray((aggregate - n * q) / (0.5 - q), dtype=np.float64)


def _by_category(positive: IntArray, negative: IntArray) -> IntArray:
    """Return the number of users of each category, shape (2 n_cells,)."""
    return np.stack([positive, negative], axis=1).ravel()


def _codes(payloads: Payloads) -> IntArray:
    codes: IntArray = payloads[:, 0].astype(np.int64)
    for place in range(1, payloads.shape[1]):
        codes |= payloads[:, place].astype(np.int64) << 8 * place
    return codes


def _walsh(values: FloatArray) -> FloatArray:
    """Return sum_i (-1)^popcount(r & i) values_i for every index r; the length is a power of two."""
    half = 1
    while half < len(values):
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return values

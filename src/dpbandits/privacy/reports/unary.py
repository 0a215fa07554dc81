"""Optimal unary encoding: one bit for every (cell, sign) pair, the own one a fair coin.

Source: Wang, Blocki, Li, Jha, *Locally differentially private protocols for frequency estimation*, 2017.
"""

import math
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
    pack_bits,
    padding_is_zero,
    unpack_bits,
)
from dpbandits.privacy.words import Words, secure_words

__all__ = ["OptimalUnary"]


class OptimalUnary(ReportMechanism):
    """The own bit is 1 with probability 1/2, every other with q = 1/(exp(epsilon) + 1)."""

    name = "oue"

    def _calibrate(self, epsilon: float) -> None:
        self._n = 2 * self.n_cells
        self._other = on_lattice(1.0 / (math.exp(epsilon) + 1.0)) + 1

    @cached_property
    def rates(self) -> tuple[Fraction, Fraction]:
        """(own bit, any other bit) is 1."""
        return Fraction(1, 2), lattice_fraction(self._other)

    @cached_property
    def _floats(self) -> tuple[float, float]:
        return float(self.rates[0]), float(self.rates[1])

    @cached_property
    def exact_epsilon(self) -> float:
        """Own bit on and another's off, against the reverse."""
        p, q = self.rates
        return log_upper(p * (1 - q) / (q * (1 - p)))

    @cached_property
    def moments(self) -> Moments:
        """Exact moments."""
        p, q = self._floats
        scale = (p - q) ** 2
        return Moments(
            signed_own=(p + q - 2.0 * p * q) / scale,
            signed_other=2.0 * q * (1.0 - q) / scale,
            count_own=(p * (1.0 - p) + q * (1.0 - q)) / scale,
            count_other=2.0 * q * (1.0 - q) / scale,
        )

    @property
    def report_bytes(self) -> int:
        """One bit a category."""
        return -(-self._n // 8)

    @property
    def bits(self) -> float:
        """One bit a category."""
        return float(self._n)

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """The private report of one user."""
        code = 2 * self._check_cell(cell) + (0 if positive else 1)
        draws = words(self._n)
        bits = draws < np.uint64(self._other)
        bits[code] = draws[code] < np.uint64(LATTICE // 2)
        return pack_bits(bits)

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Product over bits."""
        p, q = self.rates
        own = 2 * cell + (0 if positive else 1)
        result = Fraction(1)
        for index, bit in enumerate(unpack_bits(np.frombuffer(payload, np.uint8)[None], self._n)[0].tolist()):
            rate = p if index == own else q
            result *= rate if bit else 1 - rate
        return result

    def valid(self, payloads: Payloads) -> BoolArray:
        """Zero padding."""
        return padding_is_zero(payloads, self._n)

    def aggregate(self, payloads: Payloads) -> IntArray:
        """(2 n_cells,) how often each bit was 1."""
        return column_sums(unpack_bits(payloads, self._n))

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Two binomials a category."""
        own = np.stack([positive, negative], axis=1).ravel()
        return np.asarray(rng.binomial(own, 0.5) + rng.binomial(own.sum() - own, self._floats[1]))

    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Signed sums and counts."""
        p, q = self._floats
        plus, minus = ((aggregate - n * q) / (p - q)).reshape(-1, 2).T
        return plus - minus, plus + minus

"""Hadamard response: one index, from the half of them where the own category's row is +1.

Source: Acharya, Sun, Zhang, *Hadamard response: estimating distributions privately, efficiently,
and with little communication*, 2019. Rows start at 2, so that the product of a cell's two rows is
row 1, which no category owns: the two estimates of a cell are then uncorrelated for every user.
"""

import math
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.privacy.reports.mechanism import (
    Moments,
    Payloads,
    ReportMechanism,
    lattice_fraction,
    log_upper,
    on_lattice,
)
from dpbandits.privacy.reports.randomised_response import bytes_to_codes
from dpbandits.privacy.words import Words, secure_words

__all__ = ["HadamardResponse"]

_FIRST_ROW = 2


class HadamardResponse(ReportMechanism):
    """An index on the + side of the own row with probability exp(epsilon)/(exp(epsilon) + 1)."""

    name = "hadamard"

    def _calibrate(self, epsilon: float) -> None:
        self._order = 1 << (2 * self.n_cells + _FIRST_ROW - 1).bit_length()
        self._side = on_lattice(math.exp(epsilon) / (math.exp(epsilon) + 1.0))

    @property
    def side(self) -> Fraction:
        """Probability of the own row's + side."""
        return lattice_fraction(self._side)

    @cached_property
    def _side_float(self) -> float:
        return float(self.side)

    @cached_property
    def exact_epsilon(self) -> float:
        """Log odds of the side."""
        return log_upper(self.side / (1 - self.side))

    @cached_property
    def moments(self) -> Moments:
        """Exact moments."""
        second = 2.0 / (2.0 * self._side_float - 1.0) ** 2
        return Moments(signed_own=second, signed_other=second, count_own=second - 1.0, count_other=second)

    @property
    def report_bytes(self) -> int:
        """One index."""
        return -(-(self._order - 1).bit_length() // 8)

    @property
    def bits(self) -> float:
        """log2 of the order of the matrix."""
        return math.log2(self._order)

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """The private report of one user."""
        row = _FIRST_ROW + 2 * self._check_cell(cell) + (0 if positive else 1)
        side, index = words(2).tolist()
        index &= self._order - 1
        odd = (row & index).bit_count() & 1
        if odd != (side >= self._side):
            index ^= row & -row  # toggles the parity and maps one half onto the other
        return int(index).to_bytes(self.report_bytes, "little")

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """The side, and a uniform index on it."""
        row = _FIRST_ROW + 2 * cell + (0 if positive else 1)
        odd = (row & int.from_bytes(payload, "little")).bit_count() & 1
        return ((1 - self.side) if odd else self.side) * Fraction(2, self._order)

    def valid(self, payloads: Payloads) -> BoolArray:
        """Indices below the order."""
        return np.asarray(bytes_to_codes(payloads) < self._order)

    def aggregate(self, payloads: Payloads) -> IntArray:
        """(order,) how often each index was sent."""
        return np.bincount(bytes_to_codes(payloads), minlength=self._order).astype(np.int64, copy=False)

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """One draw a user."""
        rows = np.repeat(
            np.arange(2 * self.n_cells) + _FIRST_ROW, np.stack([positive, negative], axis=1).ravel()
        )
        index = rng.integers(self._order, size=len(rows))
        wrong = (np.bitwise_count(rows & index) & 1) != (rng.random(len(rows)) >= self._side_float)
        index[wrong] ^= rows[wrong] & -rows[wrong]
        return np.bincount(index, minlength=self._order).astype(np.int64, copy=False)

    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Signed sums and counts, by a fast Walsh-Hadamard transform."""
        spectrum = _walsh(aggregate.astype(np.float64)) / (2.0 * self._side_float - 1.0)
        used = spectrum[_FIRST_ROW : _FIRST_ROW + 2 * self.n_cells]
        plus, minus = used.reshape(-1, 2).T
        return plus - minus, plus + minus


def _walsh(values: FloatArray) -> FloatArray:
    """sum_i (-1)^popcount(r & i) values_i for every r; length a power of two."""
    half = 1
    while half < len(values):
        pairs = values.reshape(-1, 2, half)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return values

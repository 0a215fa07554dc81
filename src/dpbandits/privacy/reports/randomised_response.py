"""k-ary randomised response over all (cell, sign) pairs: send the truth or one of the others.

Source: Kairouz, Oh, Viswanath, *Extremal mechanisms for local differential privacy*, 2016.
Best when there are few cells and epsilon is large.
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
from dpbandits.privacy.samplers import uniform_below
from dpbandits.privacy.words import Words, secure_words

__all__ = ["RandomisedResponse", "bytes_to_codes"]


class RandomisedResponse(ReportMechanism):
    """The true one of m = 2 n_cells categories with probability exp(epsilon)/(exp(epsilon) + m - 1)."""

    name = "krr"

    def _calibrate(self, epsilon: float) -> None:
        self._n = 2 * self.n_cells
        self._keep = on_lattice(math.exp(epsilon) / (math.exp(epsilon) + self._n - 1))

    @cached_property
    def rates(self) -> tuple[Fraction, Fraction]:
        """(truth, each other category)."""
        keep = lattice_fraction(self._keep)
        return keep, (1 - keep) / (self._n - 1)

    @cached_property
    def _floats(self) -> tuple[float, float]:
        return float(self.rates[0]), float(self.rates[1])

    @cached_property
    def exact_epsilon(self) -> float:
        """log of truth over other."""
        truth, other = self.rates
        return log_upper(max(truth / other, other / truth))

    @cached_property
    def moments(self) -> Moments:
        """Exact moments."""
        p, q = self._floats
        scale = (p - q) ** 2
        return Moments(
            signed_own=(p + q) / scale,
            signed_other=2.0 * q / scale,
            count_own=(p + q) * (1.0 - p - q) / scale,
            count_other=2.0 * q * (1.0 - 2.0 * q) / scale,
        )

    @property
    def report_bytes(self) -> int:
        """One code."""
        return -(-(self._n - 1).bit_length() // 8)

    @property
    def bits(self) -> float:
        """log2 of the number of categories."""
        return math.log2(self._n)

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """The private report of one user."""
        code = 2 * self._check_cell(cell) + (0 if positive else 1)
        if int(words(1)[0]) >= self._keep:
            other = int(uniform_below(self._n - 1, 1, words)[0])
            code = other + (other >= code)
        return code.to_bytes(self.report_bytes, "little")

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Truth or other."""
        truth, other = self.rates
        return truth if int.from_bytes(payload, "little") == 2 * cell + (0 if positive else 1) else other

    def valid(self, payloads: Payloads) -> BoolArray:
        """Codes below the number of categories."""
        return np.asarray(bytes_to_codes(payloads) < self._n)

    def aggregate(self, payloads: Payloads) -> IntArray:
        """(2 n_cells,) how often each category was sent."""
        return np.bincount(bytes_to_codes(payloads), minlength=self._n).astype(np.int64, copy=False)

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """One draw a user."""
        truth = np.repeat(np.arange(self._n), np.stack([positive, negative], axis=1).ravel())
        lies = rng.random(len(truth)) >= self._floats[0]
        other = rng.integers(self._n - 1, size=int(lies.sum()))
        truth[lies] = other + (other >= truth[lies])
        return np.bincount(truth, minlength=self._n).astype(np.int64, copy=False)

    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Signed sums and counts."""
        p, q = self._floats
        plus, minus = ((aggregate - n * q) / (p - q)).reshape(-1, 2).T
        return plus - minus, plus + minus


def bytes_to_codes(payloads: Payloads) -> IntArray:
    """(n, width) little-endian bytes as (n,) integers."""
    places = np.int64(1) << (8 * np.arange(payloads.shape[1], dtype=np.int64))
    return np.asarray(payloads.astype(np.int64) @ places)

"""Reports with discrete Laplace noise in every cell: on one-hot vectors, or on Ma2025's two sums.

The client adds discrete Laplace noise to two numbers per cell. The noise is the difference of two geometric
variables with a rational parameter alpha, so P(noise = k) = (1 - alpha)/(1 + alpha) alpha^|k|. A change of
an entry by one unit costs a privacy loss of exactly log(1/alpha). Alpha is rounded up, never down. Entries
are clipped afterwards to the public bound of `clamp`.
"""

import math
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.reports.clamp import TAIL, Clamp, laplace_clamp
from dpbandits.privacy.reports.mechanism import (
    LATTICE,
    Moments,
    Payloads,
    ReportMechanism,
    lattice_fraction,
    log_upper,
    on_lattice,
)
from dpbandits.privacy.words import Words, secure_words

__all__ = ["FloatingLaplace", "OneHotLaplace", "PaperLaplace"]

# Entries travel as 16-bit integers, so the bound of `clamp` must fit into one.
_LIMIT = 32_767

# Trials drawn at once for each geometric variable that is not finished.
_TRIALS = 8


class _CellLaplace(ReportMechanism):
    """Base class of reports with two integers per cell, each with discrete Laplace noise.

    Subclasses define three attributes. `entries` has the two integers of the user's own cell for each sign.
    `sensitivity` is the L1 distance by which a change of input changes all integers. `readout` has the
    coefficients of the two integers that give signed sums, and those that give counts.
    """

    sensitivity: ClassVar[int]
    entries: ClassVar[dict[bool, tuple[int, int]]]
    readout: ClassVar[tuple[tuple[int, int], tuple[int, int]]]

    def _calibrate(self, epsilon: float) -> None:
        self._alpha = min(on_lattice(lambda: Decimal(-epsilon / self.sensitivity).exp()) + 1, LATTICE - 1)
        if self.clamp.entry > _LIMIT:
            least = math.log(2.0 * self.n_cells / TAIL) * self.sensitivity / _LIMIT
            raise InvalidParameter(
                f"epsilon {epsilon:g}: entries of 16 bits would clip the noise of {self.name!r} in "
                f"{self.n_cells} cells; use at least {least:.2g}, or another mechanism"
            )

    @property
    def alpha(self) -> Fraction:
        """Ratio P(k + 1) / P(k) of the noise for k >= 0."""
        return lattice_fraction(self._alpha)

    @cached_property
    def clamp(self) -> Clamp:
        own = self.entries[True]
        return laplace_clamp(float(self.alpha), size=2 * self.n_cells, entry=max(own), norm=sum(own))

    @property
    def weights(self) -> tuple[float, float]:
        one, two = map(abs, self.readout[0])
        norm, entry = self.clamp.norm, self.clamp.entry
        in_one = max(one, two) * min(entry, norm) + min(one, two) * min(entry, max(0.0, norm - entry))
        return float(in_one), float(max(one, two) * norm)

    @property
    def noise_variance(self) -> float:
        alpha = float(self.alpha)
        return 2.0 * alpha / (1.0 - alpha) ** 2

    @cached_property
    def moments(self) -> Moments:
        return self.moments_at(self.noise_variance)

    @classmethod
    def moments_at(cls, noise_variance: float) -> Moments:
        """Return the exact moments of the estimates if every entry has noise of this variance."""
        signed, count = (noise_variance * sum(weight**2 for weight in weights) for weights in cls.readout)
        return Moments(signed_own=1.0 + signed, signed_other=signed, count_own=count, count_other=count)

    @cached_property
    def exact_epsilon(self) -> float:
        """Sensitivity times log(1/alpha), rounded up. It is attained, because noise is unbounded."""
        return log_upper(self.alpha ** (-self.sensitivity))

    @property
    def report_bytes(self) -> int:
        return 4 * self.n_cells

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        cell = self._check_cell(cell)
        noise = self._geometric(4 * self.n_cells, words).reshape(2, 2 * self.n_cells)
        entries = noise[0] - noise[1]
        entries[2 * cell : 2 * cell + 2] += self.entries[positive]
        return bytes(self.clamp.clip(entries).astype("<i2").tobytes())

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Return the exact probability of a payload, a product over entries; a clipped entry counts its whole
        tail.
        """
        alpha, farthest = self.alpha, self.clamp.entry
        values = np.frombuffer(payload, "<i2").astype(np.int64)
        noise = values.copy()
        noise[2 * cell : 2 * cell + 2] -= self.entries[positive]
        result = Fraction(int(np.abs(values).max() <= farthest))
        for value, added in zip(values.tolist(), noise.tolist(), strict=True):
            tail = abs(value) == farthest
            result *= alpha ** abs(added) / (1 + alpha) * (1 if tail else 1 - alpha)
        return result

    def valid(self, payloads: Payloads) -> BoolArray:
        """Return an array (n,) that is True for reports within the public bounds."""
        return self.clamp.holds(self._entries(payloads))

    def aggregate(self, payloads: Payloads) -> IntArray:
        return np.asarray(self._entries(payloads).sum(axis=0, dtype=np.int64))

    def possible(self, aggregate: IntArray, n: int) -> bool:
        return self.clamp.may_add_to(aggregate, n)

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the aggregate of many users, with negative binomial sums as noise. Nothing is clipped."""
        n = int(positive.sum() + negative.sum())
        law = (n, 1.0 - float(self.alpha), 2 * self.n_cells)
        noise = rng.negative_binomial(*law) - rng.negative_binomial(*law) if n else 0
        truth = np.outer(positive, self.entries[True]) + np.outer(negative, self.entries[False])
        return np.asarray(truth.ravel() + noise, dtype=np.int64)

    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Return signed sums and counts of cells. `n` is not used, because the noise has mean zero."""
        signed, count = (aggregate.reshape(-1, 2) @ np.array(self.readout).T).T.astype(np.float64)
        return signed, count

    def _entries(self, payloads: Payloads) -> "np.ndarray[tuple[int, int], np.dtype[np.int16]]":
        return np.ascontiguousarray(payloads).view(np.dtype("<i2"))

    def _geometric(self, size: int, words: Words) -> IntArray:
        """Draw (size,) exact geometric variables: numbers of coins of bias alpha before the first failure."""
        values = np.zeros(size, dtype=np.int64)
        running = np.arange(size)
        while len(running):
            heads = words(len(running) * _TRIALS).reshape(-1, _TRIALS) < np.uint64(self._alpha)
            first_tail = np.where(heads.all(axis=1), _TRIALS, heads.argmin(axis=1))
            values[running] += first_tail
            running = running[first_tail == _TRIALS]
        return values


class OneHotLaplace(_CellLaplace):
    """One-hot vector (success, failure) per cell with Laplace(2/epsilon) noise: the strongest Laplace
    comparator.
    """

    name = "laplace"
    sensitivity = 2
    entries: ClassVar[dict[bool, tuple[int, int]]] = {True: (1, 0), False: (0, 1)}
    readout = ((1, -1), (1, 1))


class PaperLaplace(_CellLaplace):
    """Ma2025's U = 1[cell] and V = reward 1[cell] per cell, each with discrete Laplace(4/epsilon) noise.

    A random bit with the reward as its mean replaces the reward in V.
    """

    name = "paper-laplace"
    sensitivity = 4
    entries: ClassVar[dict[bool, tuple[int, int]]] = {True: (1, 1), False: (1, 0)}
    readout = ((-1, 2), (1, 0))


class FloatingLaplace:
    """Ma2025's mechanism as printed: floating-point Laplace(4/epsilon) on U and V of every cell.

    U = 1[cell] and V = reward 1[cell]. The class is for simulations only, with status `simulated`.
    Floating-point Laplace noise leaks through its low bits (Mironov 2012), so there is no `encode` and no
    client sends it. `PaperLaplace` is the enforced form. `epsilon` is the loss of the ideal mechanism with
    real-valued noise.
    """

    name = "floating-laplace"
    status = "simulated"

    def __init__(self, *, n_cells: int, epsilon: float) -> None:
        checked = PaperLaplace(n_cells=n_cells, epsilon=epsilon)
        self.n_cells, self.epsilon = checked.n_cells, checked.epsilon
        self.scale = PaperLaplace.sensitivity / checked.epsilon
        self.moments = PaperLaplace.moments_at(2.0 * self.scale**2)

    def simulated_estimate(
        self, positive: IntArray, negative: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Draw signed sums 2 V - U and counts U; a sum of Laplace variables is a difference of gammas."""
        n = int(positive.sum() + negative.sum())
        gammas = rng.standard_gamma(max(n, 1), size=(2, 2, self.n_cells))
        noise = self.scale * (gammas[0] - gammas[1]) * (n > 0)
        count, reward = np.stack([positive + negative, positive]) + noise
        return 2.0 * reward - count, count

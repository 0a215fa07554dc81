"""The signed ternary report: +1, -1 or 0 for every cell.

Let B be the number of cells, E = exp(epsilon) - 1, theta = min(.4, sqrt((2 + (E + 2)/B)/(2 E^2))) and
Z = 1 + E theta. The entries of all cells are independent:

- the user's own cell reports its sign with probability a = exp(epsilon) theta/Z, the opposite sign with
  b = theta/Z, else 0;
- every other cell reports each sign with probability theta, else 0.

**Privacy.** Compare the probabilities of an entry if its cell is the user's own and if it is not. The ratio
is exp(epsilon)/Z for the true sign, and 1/Z for the opposite sign and for 0. So the probabilities of a
report under any two inputs have a ratio of at most exp(epsilon), for every number of cells and theta < 1/2.
Source: this library. Tests enumerate the claim.
"""

from decimal import Decimal
from fractions import Fraction
from functools import cached_property

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.privacy.reports.mechanism import (
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
from dpbandits.privacy.words import Words, secure_words

__all__ = ["SignedTernary"]

# Above it other cells are rarely 0, which costs a client's bandwidth and gains nothing.
MAX_THETA = Decimal("0.4")


class SignedTernary(ReportMechanism):
    """Signed ternary report. The payload has a bit for nonzero and a bit for the sign of each cell.

    Example:
        >>> mechanism = SignedTernary(n_cells=8, epsilon=1.0)
        >>> mechanism.exact_epsilon <= 1.0, mechanism.report_bytes
        (True, 2)
    """

    name = "signed"

    def _calibrate(self, epsilon: float) -> None:
        def rates() -> tuple[Decimal, Decimal, Decimal]:
            growth = Decimal(epsilon).exp() - 1
            theta = min(MAX_THETA, ((2 + (growth + 2) / self.n_cells) / (2 * growth**2)).sqrt())
            normaliser = 1 + growth * theta
            return (growth + 1) * theta / normaliser, theta / normaliser, theta

        self._same, self._opposite, self._theta = (
            on_lattice(lambda rate=rate: rates()[rate])  # type: ignore[misc]
            for rate in range(3)
        )

    @cached_property
    def rates(self) -> tuple[Fraction, Fraction, Fraction]:
        """Probabilities (a, b, theta): own cell's true sign, its opposite sign, either sign elsewhere."""
        return lattice_fraction(self._same), lattice_fraction(self._opposite), lattice_fraction(self._theta)

    @cached_property
    def _chances(self) -> tuple[float, float, float]:
        """Probabilities `rates` as floats, for arithmetic that need not be exact."""
        a, b, theta = map(float, self.rates)
        return a, b, theta

    @cached_property
    def exact_epsilon(self) -> float:
        """Largest log-likelihood ratio, over pairs of inputs in the same cell and in different cells, rounded
        up.
        """
        a, b, theta = self.rates
        own = (a, b, 1 - a - b)
        other = (theta, theta, 1 - 2 * theta)
        ratios = [mine / theirs for mine, theirs in zip(own, other, strict=True)]
        same_cell = max(a / b, b / a)
        other_cell = max(ratios) / min(ratios) if self.n_cells > 1 else Fraction(1)
        return log_upper(max(same_cell, other_cell))

    @cached_property
    def moments(self) -> Moments:
        """Exact moments of the estimates."""
        a, b, theta = self._chances
        signed, count = (a - b) ** 2, (a + b - 2.0 * theta) ** 2
        return Moments(
            signed_own=(a + b) / signed,
            signed_other=2.0 * theta / signed,
            count_own=(a + b) * (1.0 - a - b) / count,
            count_other=2.0 * theta * (1.0 - 2.0 * theta) / count,
        )

    @property
    def weights(self) -> tuple[float, float]:
        """Largest weights of one report, which has a sign in every cell; see `ReportMechanism.weights`."""
        a, b, _ = self._chances
        return 1.0 / (a - b), self.n_cells / (a - b)

    @property
    def _plane(self) -> int:
        return -(-self.n_cells // 8)

    @property
    def report_bytes(self) -> int:
        """Number of bytes of a report: one bit per cell for nonzero entries, and one for signs."""
        return 2 * self._plane

    def encode(self, cell: int, *, positive: bool, words: Words = secure_words) -> bytes:
        """Return the private report of one user."""
        cell = self._check_cell(cell)
        draws = words(self.n_cells)
        nonzero = draws < np.uint64(2 * self._theta)
        negative = nonzero & (draws >= np.uint64(self._theta))
        own = int(draws[cell])
        nonzero[cell] = own < self._same + self._opposite
        negative[cell] = nonzero[cell] and ((own < self._same) != positive)
        return np.packbits(nonzero).tobytes() + np.packbits(negative).tobytes()

    def likelihood(self, payload: bytes, cell: int, *, positive: bool) -> Fraction:
        """Return the exact probability of a payload: a product over cells."""
        nonzero, negative = self._planes(np.frombuffer(payload, np.uint8)[None])
        a, b, theta = self.rates
        result = Fraction(1)
        for index, (some, minus) in enumerate(zip(nonzero[0].tolist(), negative[0].tolist(), strict=True)):
            if index != cell:
                result *= theta if some else 1 - 2 * theta
            elif some:
                result *= b if bool(minus) == positive else a
            else:
                result *= 1 - a - b
        return result

    def valid(self, payloads: Payloads) -> BoolArray:
        """Return an array (n,) that is True for payloads with zero padding and no sign of a zero entry."""
        nonzero, negative = payloads[:, : self._plane], payloads[:, self._plane :]
        sound = ((negative | nonzero) == nonzero).all(axis=1)
        return np.asarray(sound & padding_is_zero(nonzero, self.n_cells))

    def aggregate(self, payloads: Payloads) -> IntArray:
        """Return for each cell the numbers of nonzero and of negative entries, shape (2, n_cells)."""
        n = len(payloads)
        planes = np.unpackbits(payloads.reshape(n, 2, self._plane), axis=2, count=self.n_cells)
        return column_sums(planes.reshape(n, 2 * self.n_cells)).reshape(2, self.n_cells)

    def possible(self, aggregate: IntArray, n: int) -> bool:
        """Return True if cells have at most as many negative as nonzero entries, and of these at most n."""
        nonzero, negative = aggregate
        return bool(((negative >= 0) & (negative <= nonzero) & (nonzero <= n)).all())

    def simulate(self, positive: IntArray, negative: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the aggregate of many users, with six binomial draws per cell.

        Users of the cell with sign +1, with sign -1, and users of other cells each have two draws: the
        number of nonzero entries, and how many of them are -1.
        """
        a, b, theta = self._chances
        others = int(positive.sum() + negative.sum()) - positive - negative
        nonzero = rng.binomial(np.array([positive, negative, others]), [[a + b], [a + b], [2.0 * theta]])
        turned, kept, minus = rng.binomial(nonzero, [[b / (a + b)], [b / (a + b)], [0.5]])
        return np.array([nonzero.sum(axis=0), turned + (nonzero[1] - kept) + minus])

    def estimate(self, aggregate: IntArray, n: int) -> tuple[FloatArray, FloatArray]:
        """Return signed sums and counts of cells, shapes (n_cells,)."""
        a, b, theta = self._chances
        nonzero, negative = aggregate
        signed = (nonzero - 2.0 * negative) / (a - b)
        return signed, (nonzero - 2.0 * theta * n) / (a + b - 2.0 * theta)

    def _planes(self, payloads: Payloads) -> tuple[Payloads, Payloads]:
        nonzero, negative = payloads[:, : self._plane], payloads[:, self._plane :]
        return unpack_bits(nonzero, self.n_cells), unpack_bits(negative, self.n_cells)

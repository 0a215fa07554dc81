"""k-ary randomised response over public cells: its promise does not depend on a distance.

**Proof.** The true one of k cells is reported with probability t/2^64 for an integer t, any other cell with
(2^64 - t)/(2^64 (k - 1)). t is rounded down, so that the ratio of the two is at most e^epsilon. The inverse
ratio must be at most e^epsilon, too. It is at most 1 if t >= 2^64/k. With k <= 2^31 cells and epsilon >=
1e-9 that holds, because e^epsilon exceeds 1 by more than rounding removes. Smaller epsilons are refused.
"""

import math
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.certificates import Certificate, PureDP
from dpbandits.privacy.noise import NoiseSource, words_of
from dpbandits.privacy.rows.base import RowMechanism, as_rows
from dpbandits.privacy.rows.noise_laws import CellLaw, NoiseLaw
from dpbandits.privacy.samplers import uniform_below

__all__ = ["SMALLEST_EPSILON", "CellResponse"]

_MOST_DIMENSIONS = 31

SMALLEST_EPSILON = 1e-9


@dataclass(frozen=True, kw_only=True)
class CellResponse(RowMechanism):
    """Randomised response: reports the true cell with probability about e^epsilon/(e^epsilon + k - 1).

    Otherwise one of the other k - 1 cells is reported.

    The loss is at most epsilon between any two positions in the public cube, which no other mechanism of
    this package offers. The released row is the centre of the reported cell.

    Args:
        definition: Promise; here it holds at every distance.
        dim: Number of coordinates of a row.
        half_width: Half the side of the public cube [-half_width, half_width]^dim.
        cells_per_dimension: Number of cells along each side; None means the number with the smallest error.
    """

    name = "randomised_response"
    described = ("half_width", "cells_per_dimension")

    half_width: float
    cells_per_dimension: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dim > _MOST_DIMENSIONS:
            raise InvalidParameter(
                f"randomised response has at most 2^31 cells, so at most {_MOST_DIMENSIONS} dimensions; "
                f"got {self.dim}"
            )
        if self.definition.epsilon < SMALLEST_EPSILON:
            raise InvalidParameter(
                f"epsilon is {self.definition.epsilon:g}, randomised response needs at least "
                f"{SMALLEST_EPSILON:g}: below it, 64-bit integers cannot hold the probabilities"
            )
        _checks.settle(self, half_width=_checks.number)
        chosen = self._best_cells() if self.cells_per_dimension is None else self.cells_per_dimension
        per_side = _checks.integer(chosen, name="cells_per_dimension")
        if not 2 <= per_side**self.dim <= 2**31:
            raise InvalidParameter("randomised response needs between 2 and 2^31 cells")
        object.__setattr__(self, "cells_per_dimension", per_side)

    def _best_cells(self) -> int:
        """Return the number of cells per side with the smallest `position_error`."""
        per_side = np.arange(2, min(4096, int(2 ** (31 / self.dim))) + 1)
        others = per_side.astype(np.float64) ** self.dim - 1.0
        keep = 1.0 / (1.0 + others * math.exp(-self.definition.epsilon))
        explained = (keep - (1.0 - keep) / others) ** 2 * (1.0 - 1.0 / per_side**2)
        return int(per_side[explained.argmax()])

    @property
    def per_side(self) -> int:
        """Number of cells along each side."""
        return int(self.cells_per_dimension or 0)

    @property
    def cells(self) -> int:
        """Number k of cells."""
        return int(self.per_side**self.dim)

    @property
    def keep(self) -> float:
        """Probability that the true cell is reported: t/2^64 as the nearest float."""
        return self.keep_words / 2**64

    @property
    def keep_words(self) -> int:
        """Integer t: the true cell is reported with probability t/2^64."""
        context = Context(prec=60)
        growth = context.exp(Decimal(self.definition.epsilon))
        share = context.divide(growth, context.add(growth, Decimal(self.cells - 1)))
        return min(int(context.multiply(share, Decimal(2**64))) - 1, 2**64 - 1)

    @property
    def scale(self) -> float:
        """Length of a cell's side, in public coordinates."""
        return 2.0 * self.half_width / self.per_side

    @property
    def law(self) -> NoiseLaw:
        """Distribution of the noise; see `CellLaw`."""
        return CellLaw(dim=self.dim, keep=self.keep, width=self.scale, half_width=self.half_width)

    def certificate_at(self, distance: float) -> Certificate:
        """Return the pure certificate with the definition's epsilon, which holds at every distance."""
        return PureDP(self.definition.epsilon)

    def privatize(self, points: FloatArray, noise: NoiseSource) -> FloatArray:
        """Return the centres of the reported cells, (n, dim); a row outside the cube counts for the nearest
        cell.
        """
        rows = as_rows(points, self.dim)
        words = words_of(noise, stream=2)
        places = np.clip(np.floor((rows + self.half_width) / self.scale), 0, self.per_side - 1)
        shape = (self.per_side,) * self.dim
        codes = np.ravel_multi_index(tuple(places.astype(np.int64).T), shape)
        kept = words(len(rows)) < np.uint64(self.keep_words)
        others = uniform_below(self.cells - 1, len(rows), words)
        others += others >= codes  # skip the true cell
        reported = np.stack(np.unravel_index(np.where(kept, codes, others), shape), axis=1)
        return np.asarray((reported.astype(np.float64) + 0.5) * self.scale - self.half_width)

    def describe(self) -> str:
        """Return the distribution of the noise in words."""
        return f"randomised response (the true one of {self.cells} cells with probability {self.keep:.6g})"

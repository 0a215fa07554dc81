r"""Segments of one context column: the segment of a round, sums in segments, and their sensitivities.

The segment of a user is private, so the number of rounds in a segment is a noisy count. The sums of all looks
are added up to one draw of noise, and are released once, when no look follows. So intervals are read once.

**Integers.** A reward is an integer x in [-U, U], with U the unit of the reward; see `lattice`. In its
segment a round adds the vector (x, q, A). The square q = round(x^2/(2 U)) is left out if a reward has two
values only. The count is A = 2 U `COUNTED`. A round whose context cannot be read, or was erased, is in no
segment and adds zero. The integers of a round depend on the round's own user alone.

**Sensitivity of a round.** As |x| <= U, the square is at most Q = floor((U + 1)/2). Replace one round.

- It moves from one segment to another. Then one segment loses (x, q, A) and another gains (x', q', A). In L1
  this is |x| + |x'| + q + q' + 2 A <= 2 (U + Q + A). In L2 it is at most sqrt(2 (U^2 + Q^2 + A^2)). If one of
  the two rounds is in no segment, half of the terms are zero.
- It stays in its segment, and so does the count. Let u = |x - x'|/(2 U), so |x + x'| <= 2 U (1 - u). Before
  rounding, q moves by |x - x'| |x + x'|/(2 U) <= 2 U u (1 - u). In L1 both move by at most 2 U u (2 - u), in
  L2 by at most 2 U u sqrt(1 + (1 - u)^2). Both grow with u and are at most 2 U. Rounding adds less than 1. So
  the integers move by at most 2 U in L1, which is below the first case, and by less than 2 U + 1 in L2.

The larger number of both cases is the sensitivity S. Without squares, Q and the rounding are zero. A user
with at most k rounds moves the integers by at most k S, in L1 and in L2, by the triangle inequality. All
rounds of a user are in one group. Group and number of rounds do not depend on data.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.readout import CellTable, NoiseScales
from dpbandits.tables import Categories, Range, Schema

__all__ = ["COUNTED", "MOST_SEGMENTS", "NOWHERE", "SegmentSums"]

COUNTED = 0.5
"""Weight of a segment's count, where its sum of rewards has the weight 1. More means less noise in it."""

MOST_SEGMENTS = 64
"""Largest number of segments. More would have too few users, and int64 sums hold far more."""

NOWHERE = -1
"""Code of a round in no segment."""


@dataclass(frozen=True)
class SegmentSums:
    """Segments of a column, and rewards in them as integers.

    Attributes:
        column: Name of the column.
        names: Names of the C segments.
        place: Coordinate of the column in an encoded context.
        edges: Lower ends of all segments but the first, as coordinates. For categories these are the codes.
        unit: Integer U of the largest reward.
        squared: True if squares are released, False for rewards with two values.
    """

    column: str
    names: tuple[str, ...]
    place: int
    edges: tuple[float, ...]
    unit: int
    squared: bool

    @classmethod
    def of(
        cls, asked: str | Mapping[str, Sequence[float]], contexts: Schema, *, unit: int, squared: bool
    ) -> "SegmentSums":
        """Return the segments of `Readout.segments` for a policy with these contexts.

        Raises:
            InvalidParameter: The column is not declared or has another type, or the edges do not fit.
        """
        ((name, ends),) = ((asked, ()),) if isinstance(asked, str) else asked.items()
        column = contexts.columns.get(name)
        if isinstance(column, Categories) and not ends:
            names = tuple(map(str, column.values))
            edges = tuple(map(float, range(1, len(names))))
        elif isinstance(column, Range) and ends:
            bounds = (column.low, *ends, column.high)
            if any(low >= high for low, high in pairwise(bounds)):
                raise InvalidParameter(
                    f"segments: the edges must lie between the bounds of {name}, increasing"
                )
            names = tuple(f"{low:g} to {high:g}" for low, high in pairwise(bounds))
            edges = tuple((end - column.low) / column.span for end in ends)  # as `Range` encodes them
        else:
            raise InvalidParameter(
                'segments: expected the name of a column of Categories, or {"age": [30, 50]} with the inner '
                "edges of a column that is a Range"
            )
        if not 2 <= len(names) <= MOST_SEGMENTS:
            raise InvalidParameter(f"segments: {name} has {len(names)}, expected 2 to {MOST_SEGMENTS}")
        before = list(contexts.columns.values())[: contexts.names.index(name)]
        return cls(name, names, sum(one.width for one in before), edges, unit, squared)

    @property
    def shape(self) -> tuple[int, int]:
        """Number C of segments, and number of integers of a segment: sum, square if there is one, count."""
        return len(self.names), 2 + self.squared

    @property
    def size(self) -> int:
        """Number of integers of a group."""
        return self.shape[0] * self.shape[1]

    @property
    def counted(self) -> int:
        """Integer A that a round adds to the count of its segment."""
        return round(2 * self.unit * COUNTED)

    def codes(self, points: FloatArray, refused: BoolArray | bool | None) -> NDArray[np.int16]:  # noqa: FBT001
        """Return the segments (n,) of rounds.

        Args:
            points: Encoded contexts (n, d), with further columns.
            refused: Mask (n,) of rounds without a context that can be read; None for no such round.
        """
        found = np.searchsorted(self.edges, points[:, self.place], side="right")
        return np.where(False if refused is None else refused, NOWHERE, found).astype(np.int16)

    def sums(self, codes: NDArray[np.int16], values: IntArray) -> IntArray:
        """Return the integers (C, 2 or 3) of n rounds, without noise.

        Args:
            codes: Segments of the rounds, (n,).
            values: Rewards of the rounds as integers, (n,).
        """
        found = np.zeros(self.shape, dtype=np.int64)
        known = codes != NOWHERE
        code, x = codes[known].astype(np.int64), values[known]
        np.add.at(found[:, 0], code, x)
        if self.squared:
            np.add.at(found[:, 1], code, (x * x + self.unit) // (2 * self.unit))
        found[:, -1] = self.counted * np.bincount(code, minlength=len(self.names))
        return found

    def sensitivity(self, *, gaussian: bool) -> float:
        """Return S, the largest change by one round of a user: in L2 for Gaussian noise, else in L1."""
        U, A = self.unit, self.counted
        Q = (U + 1) // 2 if self.squared else 0
        if not gaussian:
            return float(2 * (U + Q + A))
        moved = math.sqrt(2 * (U * U + Q * Q + A * A)) * (1.0 + 2.0**-40)
        return max(2.0 * U + self.squared, moved)

    def table(self, released: IntArray, law: Callable[[float], NoiseScales]) -> CellTable:
        """Return released integers (C, 2 or 3) and their noise in units of rounds, as one look.

        Args:
            released: Noisy integers of a group.
            law: Function from the size of one integer step to the noise of an integer.
        """
        of_sum, of_square, of_count = 0.5 / self.unit, 2.0 / self.unit, 1.0 / self.counted
        steps = released.astype(np.float64)
        squares = steps[:, 1:2] * of_square if self.squared else np.full_like(steps[:, :1], np.nan)
        return CellTable(
            counts=steps[:, -1:] * of_count,
            sums=steps[:, :1] * of_sum,
            squares=squares,
            count_law=law(of_count),
            sum_law=law(of_sum),
            square_law=law(of_square),
        )

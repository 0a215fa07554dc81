"""Exact integer sums of raw rewards over public cells, after clipping and rounding.

A reward in [-1, 1] (centred, in units of its bound) becomes an integer in units of `REWARD_UNIT`. It is
clipped to the integer cap of its cell. There is one sum for every cap in use, as answers and the release have
different ones. Guarantees rest on integer arithmetic only: sums of shards are equal bit for bit, and the
sensitivities below are exact, with no term for rounding.
"""

from dataclasses import dataclass, field

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import CorruptState, IncompatibleState, InvalidData, InvalidParameter

__all__ = [
    "MOST_CELLS",
    "MOST_ROWS",
    "REWARD_UNIT",
    "WEIGHT_BITS",
    "RewardSums",
    "exact_products",
    "integer_caps",
    "integer_weights",
]

REWARD_BITS = 20
REWARD_UNIT = 2.0**-REWARD_BITS
"""Size of a reward of one integer unit, as a share of the reward bound."""

WEIGHT_BITS = 18
"""Number of bits to which influences and features are rounded."""

MOST_ROWS = 2**42
"""Largest number of rows: a sum of this many rewards of at most 2^20 is at most 2^62 in size."""

_LIMB_BITS = 16
_LIMBS = 4
MOST_CELLS = 2**17
"""Largest number of cells, so that products over all cells are exact."""

_CHUNK = 1 << 18


def integer_caps(caps: FloatArray) -> IntArray:
    """Return caps (n,) in (0, 1] as integers in units of `REWARD_UNIT`, rounded down."""
    return np.floor(np.clip(caps, 0.0, 1.0) * 2.0**REWARD_BITS).astype(np.int64)


def integer_weights(weights: FloatArray) -> tuple[FloatArray, float]:
    """Return weights as integers of at most 2^18 in size (held as floats), and their unit.

    Returns:
        Integers of the same shape, and a unit: weights are close to integers * unit.
    """
    largest = float(np.abs(weights).max())
    if not np.isfinite(largest):
        raise InvalidParameter("influences are not finite numbers: check kernel and ridge")
    unit = largest / 2.0**WEIGHT_BITS if largest > 0.0 else 1.0
    return np.rint(weights / unit), unit


def exact_products(weights: FloatArray, sums: IntArray) -> IntArray:
    """Return weights @ sums exactly, for integer weights (r, n) of at most 2^18 and any int64 sums (n,).

    Sums are split into 16-bit limbs. Every partial sum of a float64 product then stays below 2^53. The
    products are Python integers, so they have no largest size.

    Example:
        >>> exact_products(np.array([[3.0, -1.0]]), np.array([2**40 + 1, 5])).tolist()
        [3298534883326]
    """
    if weights.shape[1] != len(sums) or len(sums) > MOST_CELLS:
        raise InvalidParameter(f"expected one weight per cell and at most {MOST_CELLS} cells")
    shifts = _LIMB_BITS * np.arange(_LIMBS)
    limbs = sums[:, None] >> shifts  # the last one has the sign
    limbs[:, :-1] &= (1 << _LIMB_BITS) - 1
    parts = np.rint(weights @ limbs.astype(np.float64)).astype(np.int64).astype(np.object_)
    products: IntArray = (parts << shifts.astype(np.object_)).sum(axis=1)
    return products


@dataclass(frozen=True, eq=False, repr=False)
class RewardSums:
    """Sums of clipped rewards in n cells, for each of k sets of caps. They are raw statistics.

    Adding rows returns a new object, so that an interruption cannot count a row in part.

    Args:
        caps: Integer caps, (k, n).
        sums: Integer sums, (k, n); zeros by default.
        rounds: Number of rows in the sums.
    """

    caps: IntArray
    sums: IntArray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int64))
    rounds: int = 0

    def __post_init__(self) -> None:
        if self.caps.ndim != 2 or self.caps.dtype != np.int64 or (self.caps < 0).any():
            raise InvalidParameter("caps: expected (k, n) integers of at least 0")
        if self.rounds == 0 and self.sums.size == 0:
            object.__setattr__(self, "sums", np.zeros_like(self.caps))
        most = self.caps * self.rounds if 0 <= self.rounds <= MOST_ROWS else None
        fits = self.sums.shape == self.caps.shape and self.sums.dtype == np.int64
        if most is None or not fits or ((self.sums < -most) | (self.sums > most)).any():
            raise CorruptState("the saved sums contradict the saved configuration")

    def __repr__(self) -> str:
        return f"RewardSums(caps={self.caps.shape})"

    def with_rows(self, cells: IntArray, rewards: FloatArray) -> "RewardSums":
        """Return the sums with rewards (n,), clipped to [-1, 1], added at cells (n,).

        Cells and rewards may both have shape (n, r): a row then adds to r different cells.

        Raises:
            InvalidData: A reward is NaN.
        """
        if np.isnan(rewards).any():
            raise InvalidData("rewards or their weights are missing")
        grown = self.sums.copy()
        for start in range(0, len(cells), _CHUNK):
            where = cells[start : start + _CHUNK]
            values = np.rint(np.clip(rewards[start : start + _CHUNK], -1.0, 1.0) * 2.0**REWARD_BITS)
            for caps, sums in zip(self.caps, grown, strict=True):
                limit = caps[where].astype(np.float64)
                parts = np.clip(values, -limit, limit).ravel()
                np.add.at(sums, where.ravel(), parts.astype(np.int64))
        return RewardSums(self.caps, grown, self.rounds + len(cells))

    def merged(self, other: "RewardSums") -> "RewardSums":
        """Return the sum of these and another shard's sums.

        Raises:
            IncompatibleState: The other shard has other caps.
        """
        if not np.array_equal(self.caps, other.caps):
            raise IncompatibleState(
                "the other shard was set up with other caps: shards share one configuration"
            )
        return RewardSums(self.caps, self.sums + other.sums, self.rounds + other.rounds)

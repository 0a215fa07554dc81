"""Exact integer sums over public cells: where raw rewards are clipped, rounded and added up.

A reward in [-1, 1] (centred, in units of its bound) becomes an integer in units of `REWARD_UNIT`, clipped to
the integer cap of its cell, once for every cap in use (answers and the release have different ones).
Everything a guarantee rests on is then integer arithmetic: sums of shards are equal bit for bit, and the
sensitivities below are exact, with no term for rounding.
"""

from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import CorruptState, IncompatibleState, InvalidData, InvalidParameter

__all__ = [
    "MOST_CELLS",
    "MOST_ROUNDS",
    "REWARD_UNIT",
    "WEIGHT_BITS",
    "CellSums",
    "exact_products",
    "integer_caps",
    "integer_weights",
]

REWARD_BITS = 20
REWARD_UNIT = 2.0**-REWARD_BITS
"""Rewards are counted in these, relative to their bound."""

WEIGHT_BITS = 18
"""Influences and features are rounded to this many bits."""

MOST_ROUNDS = 2**24
"""Sums of so many rewards times weights stay inside int64."""

_LIMB_BITS = 16
_LIMBS = 3
MOST_CELLS = 2**17
"""Products over more cells would not be exact."""

_CHUNK = 1 << 18


def integer_caps(caps: FloatArray) -> IntArray:
    """(n,) caps in (0, 1] as integers, rounded down."""
    return np.floor(np.clip(caps, 0.0, 1.0) * 2.0**REWARD_BITS).astype(np.int64)


def integer_weights(weights: FloatArray) -> tuple[FloatArray, float]:
    """Weights rounded to integers of at most 2^18 in size (held as floats), and the unit they count.

    Returns:
        (integers of the same shape, unit): weights are close to integers * unit.
    """
    largest = float(np.abs(weights).max())
    if not (np.isfinite(largest) and largest > 0.0):
        raise InvalidParameter("all influences are zero: the kernel tells the actions apart nowhere")
    unit = largest / 2.0**WEIGHT_BITS
    return np.rint(weights / unit), unit


def exact_products(weights: FloatArray, sums: IntArray) -> IntArray:
    """weights @ sums, exactly: integer weights (r, n) of at most 2^18, sums (n,) below 2^47.

    Sums are cut into 16-bit limbs; every partial sum of a float64 product then stays below 2^53.

    Example:
        >>> exact_products(np.array([[3.0, -1.0]]), np.array([2**40 + 1, 5])).tolist()
        [3298534883326]
    """
    if weights.shape[1] != len(sums) or len(sums) > MOST_CELLS:
        raise InvalidParameter(f"expected one weight a cell and at most {MOST_CELLS} cells")
    if len(sums) and int(np.abs(sums).max()) >= 2 ** (_LIMB_BITS * _LIMBS - 1):
        raise InvalidData("cell sums are too large to be multiplied exactly")
    low = (1 << _LIMB_BITS) - 1
    limbs = np.stack([sums & low, (sums >> _LIMB_BITS) & low, sums >> (2 * _LIMB_BITS)], axis=1)
    parts = np.rint(weights @ limbs.astype(np.float64)).astype(np.int64)
    shifts = np.array([1, 1 << _LIMB_BITS, 1 << (2 * _LIMB_BITS)], dtype=np.int64)
    products: IntArray = parts @ shifts
    return products


@dataclass(eq=False)
class CellSums:
    """Sums of clipped rewards per cell, for every cap in use. Raw statistics: they must not leave.

    Args:
        caps: (k, n) integer caps.
    """

    caps: IntArray

    def __post_init__(self) -> None:
        if self.caps.ndim != 2 or self.caps.dtype != np.int64 or (self.caps < 0).any():
            raise InvalidParameter("caps: expected (k, n) integers of at least 0")
        self.sums: IntArray = np.zeros_like(self.caps)
        self.rounds = 0

    def __repr__(self) -> str:
        return f"CellSums(caps={self.caps.shape})"

    def add(self, cells: IntArray, rewards: FloatArray) -> None:
        """Add rewards (n,) in [-1, 1] (larger ones are clipped) at cells (n,)."""
        size = self.caps.shape[1]
        for start in range(0, len(cells), _CHUNK):
            where = cells[start : start + _CHUNK]
            values = np.rint(np.clip(rewards[start : start + _CHUNK], -1.0, 1.0) * 2.0**REWARD_BITS)
            for caps, sums in zip(self.caps, self.sums, strict=True):
                limit = caps.astype(np.float64)[where]
                # float64 adds these integers exactly: a chunk's sums stay below 2^38
                added = np.bincount(where, weights=np.clip(values, -limit, limit), minlength=size)
                sums += added.astype(np.int64)
        self.rounds += len(cells)

    def merge(self, other: "CellSums") -> None:
        """Take over another shard's sums."""
        if not np.array_equal(self.caps, other.caps):
            raise IncompatibleState(
                "the other shard was set up with other caps: shards share one configuration"
            )
        self.sums = self.sums + other.sums
        self.rounds += other.rounds

    def restore(self, sums: IntArray, rounds: int) -> None:
        """Take up saved sums."""
        if sums.shape != self.caps.shape or sums.dtype != np.int64 or rounds < 0:
            raise CorruptState("the saved sums contradict the saved configuration")
        self.sums, self.rounds = sums.copy(), rounds

"""`Environment`: protocol of worlds for evaluation, and the checks that all worlds share.

In shapes, B is the number of rounds, n the number of candidates in a round, and d the number of columns.
"""

import operator
from typing import Protocol, SupportsIndex, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.errors import HorizonExceeded, InvalidData, InvalidParameter

__all__ = ["Environment", "check_indices", "check_rounds"]


@runtime_checkable
class Environment(Protocol):
    """A world in which policies are evaluated, with one user and one decision set per round.

    Round t depends on (seed, t) alone. Rounds are the same in any order, in any batches, and when they are
    requested twice. Rewards are potential outcomes: the reward of a candidate does not depend on which
    candidates were requested before.

    For evaluation only: an environment returns true means and raw rewards, which no policy sees.
    """

    @property
    def name(self) -> str:
        """Name of the environment in reports."""

    @property
    def seed(self) -> Seed:
        """Seed of all random numbers."""

    @property
    def horizon(self) -> int:
        """Number of rounds."""

    @property
    def domain(self) -> Domain:
        """Public set in which all candidates lie."""

    @property
    def reward_range(self) -> RewardRange:
        """Public bounds of rewards."""

    @property
    def n_candidates(self) -> int:
        """Number of candidates in every decision set."""

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """Return the decision sets (B, n, d) of rounds start..stop-1."""

    def rewards(self, start: int, stop: int, indices: ArrayLike) -> FloatArray:
        """Return the rewards (B,) of candidates `indices` (B,) in rounds start..stop-1."""

    def mean_rewards(self, start: int, stop: int) -> FloatArray | None:
        """Return the expected rewards (B, n) of all candidates in rounds start..stop-1; None if unknown."""


def check_rounds(start: SupportsIndex, stop: SupportsIndex, horizon: int) -> tuple[int, int]:
    """Return start and stop as integers, and check that rounds start..stop-1 exist.

    Raises:
        InvalidParameter: `start` and `stop` are no integers with 0 <= start <= stop.
        HorizonExceeded: A round is past the horizon.
    """
    first, last = operator.index(start), operator.index(stop)
    if not 0 <= first <= last:
        raise InvalidParameter(f"rounds {first} to {last} do not exist: expected 0 <= start <= stop")
    if last > horizon:
        raise HorizonExceeded(f"round {last - 1} does not exist: the environment has {horizon} rounds")
    return first, last


def check_indices(indices: ArrayLike, length: int, n_candidates: int) -> IntArray:
    """Return the chosen candidate of each round as integers (length,).

    Raises:
        InvalidData: The shape or type is wrong, or an index is outside 0..n_candidates-1.
    """
    array = np.asarray(indices)
    if array.shape != (length,) or (array.dtype.kind not in "iu" and length > 0):
        raise InvalidData(f"indices: expected {length} integers, got {array.shape} of {array.dtype.name}")
    chosen = array.astype(np.int64)
    if ((chosen < 0) | (chosen >= n_candidates)).any():
        raise InvalidData(f"indices: expected row numbers of a decision set, 0..{n_candidates - 1}")
    return chosen

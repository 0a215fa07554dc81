"""What an environment offers to an evaluation, and the checks that all of them share."""

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
    """A world in which a policy can be tried: one person and one decision set a round.

    Everything about round t is a function of (seed, t) alone: asking for rounds in another order,
    in other batches or twice gives the same people. Rewards are potential outcomes: what a round
    pays for one candidate does not depend on which candidates were asked about before.

    For evaluation only. An environment hands out true means and raw rewards, which no policy sees.
    """

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def seed(self) -> Seed:
        """Keys every draw."""

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
        """Rows of every decision set."""

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """Decision sets of rounds start..stop-1, (B, n, d)."""

    def rewards(self, start: int, stop: int, indices: ArrayLike) -> FloatArray:
        """Rewards (B,) of candidates `indices` (B,) in rounds start..stop-1."""

    def mean_rewards(self, start: int, stop: int) -> FloatArray | None:
        """Expected rewards of all candidates of rounds start..stop-1, (B, n); None where not known."""


def check_rounds(start: SupportsIndex, stop: SupportsIndex, horizon: int) -> tuple[int, int]:
    """Rounds start..stop-1 as integers, or the reason why they do not exist.

    Raises:
        InvalidParameter: not integers with 0 <= start <= stop.
        HorizonExceeded: rounds past the horizon.
    """
    first, last = operator.index(start), operator.index(stop)
    if not 0 <= first <= last:
        raise InvalidParameter(f"rounds {first} to {last} do not exist: expected 0 <= start <= stop")
    if last > horizon:
        raise HorizonExceeded(f"round {last - 1} was asked for, the environment has {horizon} rounds")
    return first, last


def check_indices(indices: ArrayLike, length: int, n_candidates: int) -> IntArray:
    """One chosen candidate a round as (length,) integers.

    Raises:
        InvalidData: wrong shape or type, or an index outside 0..n_candidates-1.
    """
    array = np.asarray(indices)
    if array.shape != (length,) or (array.dtype.kind not in "iu" and length > 0):
        raise InvalidData(f"indices: expected {length} integers, got {array.shape} of {array.dtype.name}")
    chosen = array.astype(np.int64)
    if ((chosen < 0) | (chosen >= n_candidates)).any():
        raise InvalidData(f"indices leave 0..{n_candidates - 1}: they count the rows of a decision set")
    return chosen

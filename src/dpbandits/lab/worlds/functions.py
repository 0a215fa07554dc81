"""Known functions as bandits, with new random candidates in each round and rewards 0 or 1.

Test functions to be minimised are negated. All are scaled to [0, 1] by known bounds of the function. B is a
number of rounds, n of candidates in a round, and d of coordinates of a candidate.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Required, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Box, Domain, RewardRange
from dpbandits.lab.worlds.protocol import check_indices, check_rounds
from dpbandits.policy.coins import PublicCoins

__all__ = ["CandidateLaw", "FunctionBandit", "MeanFunction", "UniformCandidates", "camelback", "on_box"]

Rounds = tuple[FloatArray, FloatArray]
"""Decision sets (B, n, d) and expected rewards of their candidates (B, n)."""

# Rounds are generated and cached in aligned chunks. Otherwise a policy that runs round by round would
# generate each round three times: for candidates, reward and means.
_CHUNK = 512
MOST_CACHED_NUMBERS = 1 << 23  # 64 MiB

MeanFunction = Callable[[FloatArray], FloatArray]
"""Function from points (..., d) to expected rewards (...), in [0, 1]."""

CandidateLaw = Callable[[PublicCoins, int, int], FloatArray]
"""Function (coins, start, stop) -> decision sets (B, n, d) of rounds start..stop-1.

Each decision set depends on coins.seed and its round alone.
"""


@dataclass(frozen=True, kw_only=True)
class UniformCandidates:
    """Law of candidates: `n_candidates` independent uniform points of a box in every round.

    See `CandidateLaw`.
    """

    domain: Box
    n_candidates: int

    def __call__(self, coins: PublicCoins, start: int, stop: int, /) -> FloatArray:
        """Return the decision sets (B, n, d) of rounds start..stop-1."""
        dim = self.domain.dim
        unit = coins.uniform("environment/candidates", start, stop, self.n_candidates * dim)
        return self.domain.from_unit(unit.reshape(-1, self.n_candidates, dim))


@dataclass(frozen=True, kw_only=True)
class FunctionBandit:
    """An environment whose expected reward is a known function of the candidate; see `Environment`.

    Args:
        name: Name of the environment in reports.
        domain: Public set that contains all candidates.
        mean: Function from points (..., d) to expected rewards (...), in [0, 1].
        candidates: Law of decision sets; see `CandidateLaw`.
        n_candidates: Number of candidates in a decision set.
        horizon: Number of rounds.
        seed: Seed of candidates and rewards.

    Raises:
        InvalidParameter: The seed is negative, or there are no rounds or fewer than two candidates.
    """

    name: str
    domain: Domain
    mean: MeanFunction
    candidates: CandidateLaw
    n_candidates: int
    horizon: int
    seed: Seed
    _kept: dict[int, "Rounds"] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _checks.integer(self.n_candidates, name="n_candidates", minimum=2)
        _checks.integer(self.horizon, name="horizon")
        _checks.integer(self.seed, name="seed", minimum=0)

    @property
    def reward_range(self) -> RewardRange:
        """Public bounds of rewards: 0 and 1."""
        return RewardRange(0.0, 1.0)

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """Return the decision sets (B, n, d) of rounds start..stop-1."""
        return self._rounds(start, stop)[0]

    def mean_rewards(self, start: int, stop: int) -> FloatArray:
        """Return the function's values (B, n) at all candidates of rounds start..stop-1."""
        return self._rounds(start, stop)[1]

    def rewards(self, start: int, stop: int, indices: ArrayLike) -> FloatArray:
        """Draw rewards (B,) of candidates `indices` (B,): 1 with the function's value as probability, else 0.

        One uniform number per round determines the rewards of all candidates of that round. Policies that
        make the same choice therefore get the same reward.
        """
        means = self.mean_rewards(start, stop)
        chosen = means[np.arange(len(means)), check_indices(indices, len(means), self.n_candidates)]
        luck = PublicCoins(self.seed).uniform("environment/rewards", start, stop, 1)[:, 0]
        return (luck < chosen).astype(np.float64)

    def _rounds(self, start: int, stop: int) -> Rounds:
        start, stop = check_rounds(start, stop, self.horizon)
        chunks = [self._chunk(k) for k in range(start // _CHUNK, -(-stop // _CHUNK))]
        if not chunks:  # no rounds
            return np.empty((0, self.n_candidates, self.domain.dim)), np.empty((0, self.n_candidates))
        window = slice(start % _CHUNK, start % _CHUNK + stop - start)
        if len(chunks) == 1:
            return chunks[0][0][window].copy(), chunks[0][1][window].copy()
        points, means = (np.concatenate(parts)[window] for parts in zip(*chunks, strict=True))
        return points, means

    def _chunk(self, number: int) -> Rounds:
        if number not in self._kept:
            start = number * _CHUNK
            points = self.candidates(PublicCoins(self.seed), start, min(start + _CHUNK, self.horizon))
            if (len(self._kept) + 1) * points.size > MOST_CACHED_NUMBERS:
                self._kept.clear()
            self._kept[number] = (points, np.clip(self.mean(points), 0.0, 1.0))
        return self._kept[number]


# -- test functions -------------------------------------------------------------------------------

_CAMELBACK = (-1.031628453489877, 86 / 15)  # minimum; maximum, at the corners (2, 1) and (-2, -1)


class FunctionOptions(TypedDict, total=False):
    """Options of all test functions: seed, horizon (default 10,000), n_candidates (default 25)."""

    seed: Required[Seed]
    horizon: int
    n_candidates: int


def on_box(
    name: str, low: ArrayLike, high: ArrayLike, mean: MeanFunction, options: FunctionOptions
) -> FunctionBandit:
    """Create the environment of a test function on a box with uniform candidates."""
    box = Box(low=low, high=high)
    own: FunctionOptions = {"horizon": 10_000, "n_candidates": 25, **options}
    law = UniformCandidates(domain=box, n_candidates=own["n_candidates"])
    return FunctionBandit(name=name, domain=box, mean=mean, candidates=law, **own)


def camelback(**options: Unpack[FunctionOptions]) -> FunctionBandit:
    """Create the six-hump camel function on [-2, 2] x [-1, 1], with uniform candidates.

    f(x, y) = (4 - 2.1 x^2 + x^4/3) x^2 + x y + (4 y^2 - 4) y^2 has values from -1.03163 to 86/15 on the box.
    The expected reward is (86/15 - f)/(86/15 + 1.03163). For options see `FunctionOptions`.

    >>> world = camelback(seed=3)
    >>> round(float(world.mean(np.array([0.0898, -0.7126]))), 6)
    1.0
    """
    return on_box("camelback", [-2.0, -1.0], [2.0, 1.0], _camelback, options)


def _camelback(points: FloatArray, /) -> FloatArray:
    x2, y2 = points[..., 0] ** 2, points[..., 1] ** 2
    height = (4.0 - 2.1 * x2 + x2**2 / 3.0) * x2 + points[..., 0] * points[..., 1] + (4.0 * y2 - 4.0) * y2
    lowest, highest = _CAMELBACK
    return np.asarray((highest - height) / (highest - lowest))

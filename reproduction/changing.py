"""A world that changes into another one, abruptly or gradually."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.protocol import Environment, check_indices, check_rounds
from dpbandits.policy.coins import PublicCoins

__all__ = ["Changing"]


@dataclass(frozen=True, kw_only=True)
class Changing:
    """`before` up to round `begin`, `after` from round `end` on; in between more and more rounds are after's.

    People and candidates are those of `before` throughout: what changes is what they are paid.

    Args:
        before: the world in the beginning.
        after: the world in the end: the same people and candidates (the same seed), other rewards.
        begin, end: rounds; equal for a change at once.

    Raises:
        InvalidParameter: worlds that differ in more than their rewards, or rounds that they do not have.

    Example:
        >>> from dataclasses import replace
        >>> from dpbandits.lab.worlds import camelback
        >>> from reproduction.changing import Changing
        >>> before = camelback(seed=1, horizon=100)
        >>> after = replace(before, mean=lambda points: 1.0 - before.mean(points))
        >>> world = Changing(before=before, after=after, begin=50, end=50)
        >>> means = world.mean_rewards(49, 51)
        >>> bool(np.allclose(means[0], before.mean_rewards(49, 50)[0]))
        True
        >>> bool(np.allclose(means[1], 1.0 - before.mean_rewards(50, 51)[0]))
        True
    """

    before: Environment
    after: Environment
    begin: int
    end: int

    def __post_init__(self) -> None:
        one, other = self.before, self.after
        alike = (
            one.horizon == other.horizon
            and one.n_candidates == other.n_candidates
            and one.reward_range == other.reward_range
            and np.array_equal(one.decision_sets(0, 1), other.decision_sets(0, 1))
        )
        if not alike:
            raise InvalidParameter(
                "before and after differ in more than rewards: in horizon, people or range"
            )
        _checks.integer(self.begin, name="begin", minimum=0)
        if _checks.integer(self.end, name="end", minimum=self.begin) > self.horizon:
            raise InvalidParameter(f"end: expected a round up to {self.horizon}")

    @property
    def name(self) -> str:
        """Name of the first world, with the suffix "changing"."""
        return f"{self.before.name}, changing"

    @property
    def seed(self) -> Seed:
        """Seed of the first world."""
        return self.before.seed

    @property
    def horizon(self) -> int:
        """Number of rounds."""
        return self.before.horizon

    @property
    def domain(self) -> Domain:
        """Domain of both worlds."""
        return self.before.domain

    @property
    def reward_range(self) -> RewardRange:
        """Reward range of both worlds."""
        return self.before.reward_range

    @property
    def n_candidates(self) -> int:
        """Number of candidates per round in both worlds."""
        return self.before.n_candidates

    def changed(self, start: int, stop: int) -> FloatArray:
        """(B,) chance that a round is paid as `after` pays it."""
        rounds = np.arange(*check_rounds(start, stop, self.horizon))
        passed = (rounds - self.begin + 1) / max(1, self.end - self.begin)
        partly = np.where(rounds >= self.begin, np.clip(passed, 0.0, 1.0), 0.0)
        return np.asarray(np.where(rounds >= self.end, 1.0, partly))

    def decision_sets(self, start: int, stop: int) -> FloatArray:
        """See `Environment.decision_sets`."""
        return self.before.decision_sets(start, stop)

    def mean_rewards(self, start: int, stop: int) -> FloatArray | None:
        """See `Environment.mean_rewards`."""
        one, other = (world.mean_rewards(start, stop) for world in (self.before, self.after))
        if one is None or other is None:
            return None
        share = self.changed(start, stop)[:, None]
        return np.asarray((1.0 - share) * one + share * other)

    def rewards(self, start: int, stop: int, indices: ArrayLike) -> FloatArray:
        """See `Environment.rewards`."""
        share = self.changed(start, stop)
        chosen = check_indices(indices, len(share), self.n_candidates)
        coins = PublicCoins(self.seed).uniform("environment/changed", start, stop, 1)[:, 0]
        return np.where(
            coins < share, self.after.rewards(start, stop, chosen), self.before.rewards(start, stop, chosen)
        )

"""What the policies here share: they bound no user's rounds, as they promise nothing."""

from dpbandits._typing import Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.policy import BasePolicy

__all__ = ["Yardstick"]


class Yardstick(BasePolicy):
    """A policy that private ones are compared with.

    Args:
        domain: public set that every candidate lies in.
        reward_range: public (low, high).
        horizon: rounds to answer, or None for no bound.
        user_ids: whether asks name their user.
        clip: clip rewards into the range instead of refusing.
        seed: public randomness.
    """

    def __init__(
        self,
        *,
        domain: Domain,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None = None,
        user_ids: bool = False,
        clip: bool = False,
        seed: Seed = 0,
    ) -> None:
        shared = {"horizon": horizon, "user_ids": user_ids, "clip": clip, "seed": seed}
        super().__init__(domain=domain, reward_range=reward_range, rounds_per_user=None, **shared)

"""Uniformly random choice: learns nothing, reveals nothing; the floor under every other policy."""

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.lab.baselines.statement import uses_no_data
from dpbandits.policy import BasePolicy, uniform_choice
from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Uniform"]


class Uniform(BasePolicy):
    """Choose among the available rows with equal probability.

    Args:
        domain: public set of candidate rows.
        reward_range: public (low, high).
        horizon: rounds to answer, or None for no bound.
        user_ids: whether asks name their user.
        clip: clip rewards into the range instead of refusing.
        seed: public randomness.

    Privacy: perfect; no reward and no other user's candidates enter any choice.
    """

    kind = "baselines.Uniform"

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
        super().__init__(
            domain=domain,
            reward_range=reward_range,
            horizon=horizon,
            rounds_per_user=None,
            user_ids=user_ids,
            clip=clip,
            seed=seed,
        )

    @property
    def guarantee(self) -> Guarantee:
        """No data is used."""
        return uses_no_data("every choice is a public coin")

    @property
    def batch_boundaries(self) -> tuple[int, ...]:
        """None: it never learns, so all rounds can be asked at once."""
        return ()

    def predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The middle of the reward range, with the deviation of a uniform law over it."""
        rows = self.domain.validate(points, name="points")
        spread = self.reward_range.width / np.sqrt(12.0)
        return np.full(len(rows), self.reward_range.middle), np.full(len(rows), spread)

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        coins = self._coins.uniform("explore", start, start + len(candidates), 1)[:, 0]
        return uniform_choice(coins, candidates.shape[1], available)

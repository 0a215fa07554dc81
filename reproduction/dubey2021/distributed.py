"""Fresh noise in every block, as with secure aggregation, in the world of the figures at (1, 1e-5).

`distributed` sets `lab.baselines.BlockAggregation` between a trusted server, which mixes blocks under one
noise, and devices that each add noise. `distributed-blocks` chose its blocks, on tuning seeds.
"""

from dataclasses import dataclass

from dpbandits._typing import Seed
from dpbandits.central import GPTuning
from dpbandits.central.schedule import growing_blocks
from dpbandits.lab.baselines import BlockAggregation
from dpbandits.policy import Policy
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise
from reproduction.dubey2021.cells import (
    AGGREGATED,
    BLOCKS,
    LOCAL,
    OPEN,
    RANDOM,
    PolicyCell,
    policy_cells,
    policy_item,
)
from reproduction.dubey2021.worlds import block_features, world_of

__all__ = ["BLOCKS_ITEM", "ITEM", "ScheduleCell"]

PROMISE = (1.0, 1e-5)

ITEM = policy_item(
    about="fresh noise in every block, beside a trusted server and local, at (1, 1e-5)",
    cells=policy_cells(("printed",), (BLOCKS, *AGGREGATED, LOCAL, OPEN, RANDOM), [PROMISE]),
    reps=40,
)


@dataclass(frozen=True, kw_only=True)
class ScheduleCell(PolicyCell):
    """Block sums of features with other blocks.

    Args:
        first: share of the horizon in the first block.
        growth: length of a block over that of the one before.
    """

    first: float
    growth: float

    @property
    def name(self) -> str:
        """Name in records."""
        return f"{self.world}: first {self.first:g}, growth {self.growth:g}"

    def policy(self, seed: Seed) -> Policy:
        """A fresh policy with these blocks."""
        world = world_of(self.world, seed)
        blocks = growing_blocks(
            world.horizon, first=max(1, round(self.first * world.horizon)), growth=self.growth
        )
        epsilon, delta = PROMISE
        return BlockAggregation(
            domain=world.domain,
            reward_range=world.reward_range,
            horizon=world.horizon,
            privacy=JointDP(epsilon=epsilon, delta=delta, user_ids=False),
            tuning=GPTuning(features=block_features(self.world), blocks=blocks),
            noise=SimulatedNoise(seed),
            seed=seed,
        )


BLOCKS_ITEM = policy_item(
    about="the blocks of `distributed`, chosen on tuning seeds",
    cells=tuple(
        ScheduleCell(
            column=f"first {first:g}, growth {growth:g}",
            world="printed",
            epsilon=PROMISE[0],
            delta=PROMISE[1],
            first=first,
            growth=growth,
        )
        for first in (0.03125, 0.0625, 0.1)
        for growth in (1.1, 1.25, 1.5)
    ),
    picture=None,
    reps=100,
    tuning=True,
)

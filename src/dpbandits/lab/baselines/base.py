"""Arguments that the baselines without a guarantee share.

They ignore user ids and have no contribution bound.
"""

from collections.abc import Sequence
from typing import Any, Required, TypedDict, Unpack

from dpbandits._typing import Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.tables import Schema

__all__ = ["Shared", "defaults"]


class Shared(TypedDict, total=False):
    """Arguments that all baselines without a guarantee accept.

    Attributes:
        domain: Public set in which every candidate lies.
        contexts, arms: Public columns of a user's context, and labels of the arms, instead of `domain`.
        reward_range: Public (low, high), or a `RewardRange`.
        horizon: Largest number of rounds; None for no bound.
        seed: Seed of the public randomness.
    """

    domain: Domain | None
    contexts: Schema | None
    arms: Sequence[Label] | None
    reward_range: Required[RewardRange | tuple[float, float]]
    horizon: int | None
    seed: Seed


def defaults(**shared: Unpack[Shared]) -> dict[str, Any]:
    """Return arguments for `RoundPolicy`: `shared`, with horizon None and seed 0 where it has none."""
    return {"horizon": None, "seed": 0, **shared}

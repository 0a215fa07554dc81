"""Base of the policies here: they promise nothing, so they bound no user's rounds and ignore who asks."""

from collections.abc import Sequence
from typing import Any, Required, TypedDict, Unpack

from dpbandits._typing import Seed
from dpbandits.domains import Domain, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.tables import Schema

__all__ = ["Shared", "defaults"]


class Shared(TypedDict, total=False):
    """What every policy here takes.

    Attributes:
        domain: public set that every candidate lies in.
        contexts, arms: public columns of a person's context and labels of the arms, instead of `domain`.
        reward_range: public (low, high), or a `RewardRange`.
        horizon: rounds to answer, or None for no bound.
        seed: public randomness.
    """

    domain: Domain | None
    contexts: Schema | None
    arms: Sequence[Label] | None
    reward_range: Required[RewardRange | tuple[float, float]]
    horizon: int | None
    seed: Seed


def defaults(**shared: Unpack[Shared]) -> dict[str, Any]:
    """`shared` with its defaults: arguments of `RoundPolicy` beside `privacy=None`."""
    return {"horizon": None, "seed": 0, **shared}

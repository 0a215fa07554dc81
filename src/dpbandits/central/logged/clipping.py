"""What clipping weighted rewards to their caps does to estimates: bounded in public, and exactly on raw data.

A logged row with weight p_x/pi counts as weight times its centred reward, cut at its cell's cap. What is cut
off biases the estimate of that cell towards the reference.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray
from dpbandits.central.logged.policy import ExploreThenCommit
from dpbandits.central.logged.sums import REWARD_UNIT
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["ClippingBias", "clipping_bound", "unsafe_clipping_bias"]

Use = Literal["answers", "publish"]


@dataclass(frozen=True)
class ClippingBias:
    """What clipping took from a log. Raw statistics: not a release.

    Attributes:
        share: of rows that were cut.
        bias: mean of kept less full weighted rewards, in reward units.
        absolute: mean of its absolute value, in reward units.
    """

    share: float
    bias: float
    absolute: float


def clipping_bound(policy: ExploreThenCommit, propensities: ArrayLike, *, use: Use = "publish") -> FloatArray:
    """(A, C) largest bias that clipping can have at each cell, in reward units; public, before any data.

    Args:
        policy: with its caps.
        propensities: (A, C) the public design: chance of each action at each context cell.
        use: whose caps.

    Raises:
        InvalidData: a table of another shape, or chances outside (0, 1].
    """
    rules, caps = policy.unsafe_rules, _caps(policy, use)
    chances = np.asarray(propensities, dtype=np.float64)
    shape = (rules.actions.size, rules.contexts.size)
    if chances.shape != shape or not ((chances > 0.0) & (chances <= 1.0)).all():
        raise InvalidData(f"propensities: expected a table of shape {shape} with chances in (0, 1]")
    span = rules.reward_range
    farthest = max(span.high - rules.reference, rules.reference - span.low)
    weights = rules.actions.weights[:, None] / chances
    # a row at this cell is worth reward distance on average: what of it lies beyond the cap, over its weight
    return np.asarray(np.maximum(farthest - rules.bound * caps.reshape(shape) / weights, 0.0))


def unsafe_clipping_bias(
    policy: ExploreThenCommit,
    contexts: ArrayLike,
    actions: ArrayLike,
    rewards: ArrayLike,
    *,
    propensities: ArrayLike | None = None,
    use: Use = "publish",
) -> ClippingBias:
    """What clipping takes from a log of raw rows; see `ExploreThenCommit.learn` for the arguments."""
    rules, caps = policy.unsafe_rules, _caps(policy, use)
    cells, values, readable = rules.coded(contexts, actions, rewards, propensities)
    cells, values = cells[readable], values[readable]
    cut = np.clip(values, -caps[cells], caps[cells]) - values
    return ClippingBias(
        float((cut != 0.0).mean()), rules.bound * float(cut.mean()), rules.bound * float(np.abs(cut).mean())
    )


def _caps(policy: ExploreThenCommit, use: Use) -> FloatArray:
    names = list(policy.calibration.plans)
    if use not in names:
        raise InvalidParameter(f"use is {use!r}, expected one of {names}")
    return np.asarray(policy.calibration.caps[names.index(use)] * REWARD_UNIT)

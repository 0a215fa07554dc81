"""What a released function says of the policy, as a few numbers, by the functions' public inputs alone.

The average is over points spread evenly over the declared contexts, always the same ones: nobody's. So it is
post-processing of a release, and says what the function expects, not what visitors brought.
"""

from typing import NamedTuple

import numpy as np

from dpbandits.central.published_function import PublishedPosterior
from dpbandits.domains.arms import Label

__all__ = ["Arm", "Learned", "learned"]

POINTS = 128
"""Contexts, or points of a domain, that a release is looked at in: enough for a line of a few pixels."""


class Arm(NamedTuple):
    """What is expected of one arm, given to everybody, and of how many contexts it is the best."""

    label: Label
    reward: float
    share: float


class Learned(NamedTuple):
    """What a function expects of its own choices, how uncertain that is at a point on average, and by arm."""

    reward: float
    sd: float
    arms: tuple[Arm, ...]


def learned(text: str) -> Learned:
    """Of a published function, by its JSON as the service keeps it; CorruptState where it is none."""
    function = PublishedPosterior.from_json(text)
    rng = np.random.default_rng(0)  # public, and the same at every release
    if function.menu is None:
        mean, sd = function.at_points(function.domain.sample(POINTS, rng))
        best = int(function.best_of(mean[None])[0])
        return Learned(float(mean[best]), float(sd[best]), ())
    points, arms = function.menu.contexts.domain.sample(POINTS, rng), function.arms
    codes = np.tile(np.arange(len(arms), dtype=np.float64), POINTS)
    each = np.column_stack([np.repeat(points, len(arms), axis=0), codes])
    mean, sd = (np.reshape(one, (POINTS, len(arms))) for one in function.at_points(each))
    best_arms = function.best_of(mean)
    share = np.bincount(best_arms, minlength=len(arms)) / POINTS
    rows = np.arange(POINTS)
    return Learned(
        reward=float(mean[rows, best_arms].mean()),
        sd=float(sd[rows, best_arms].mean()),
        arms=tuple(Arm(*one) for one in zip(arms, mean.mean(axis=0).tolist(), share.tolist(), strict=True)),
    )

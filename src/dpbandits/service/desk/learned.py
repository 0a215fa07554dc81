"""Summary of a released function in a few numbers, from the function's public inputs alone.

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
    """Expected reward of one arm, given to everybody, and the number of contexts for which it is the best."""

    label: Label
    reward: float
    share: float


class Learned(NamedTuple):
    """Expected reward of a function's own choices, mean uncertainty at a point, and values by arm."""

    reward: float
    sd: float
    arms: tuple[Arm, ...]


def learned(text: str) -> Learned:
    """Summarise a published function from the service's JSON of it; CorruptState for anything else."""
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

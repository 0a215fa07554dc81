"""A randomised log as a world: what its people were not given is filled in from people like them.

A log says of each person what one arm paid. For every other arm the reward stands there of the person with
that arm whose context is nearest, so that any policy can be run. The means of arms near a context are kept as
far as the log is dense; who would have been paid what under two arms at once is made up.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import KDTree

from dpbandits._calls import worded
from dpbandits._typing import Seed
from dpbandits.domains import Arms, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData
from dpbandits.lab.worlds.supervised import indicators
from dpbandits.lab.worlds.tables import TableBandit
from dpbandits.tables import Schema

__all__ = ["from_log"]


@worded
def from_log(
    frame: object,
    *,
    schema: Schema,
    actions: ArrayLike,
    rewards: ArrayLike,
    arms: Sequence[Label],
    reward_range: RewardRange | tuple[float, float],
    seed: Seed,
    horizon: int | None = None,
    name: str = "log",
) -> TableBandit:
    """A log of one arm a person as a table that has a reward for every arm.

    Args:
        frame: people's columns, as `Schema.encode` takes them.
        schema: public columns of the contexts.
        actions: (N,) codes of the arms that were given, drawn at random given the columns.
        rewards: (N,) what they paid.
        arms: labels, in the order of the codes.
        reward_range: public bounds of rewards.
        seed, horizon, name: as of `TableBandit`.

    Raises:
        InvalidData: arms and rewards that do not fit the people, or an arm that nobody was given.
    """
    contexts, choices = schema.encode(frame, ignore_extra=True), Arms(list(arms))
    codes, paid = np.asarray(actions), np.asarray(rewards, dtype=np.float64)
    n = len(contexts)
    if codes.shape != (n,) or codes.dtype.kind not in "iu" or paid.shape != (n,):
        raise InvalidData(f"actions, rewards: expected ({n},) codes and ({n},) numbers")
    if set(np.unique(codes).tolist()) != set(range(choices.n_arms)):
        raise InvalidData(f"actions: expected each of the codes 0..{choices.n_arms - 1}, and no other")
    # two different categories have the distance of the ends of a range
    table, places = np.empty((n, choices.n_arms)), indicators(contexts, schema.codes, size=1.0 / np.sqrt(2.0))
    for arm in range(choices.n_arms):
        given = np.flatnonzero(codes == arm)
        table[:, arm] = paid[given[KDTree(places[given]).query(places)[1]]]
    table[np.arange(n), codes] = paid
    return TableBandit(
        name=name,
        schema=schema,
        contexts=contexts,
        arms=choices,
        reward_table=table,
        reward_range=RewardRange.of(reward_range),
        seed=seed,
        horizon=n if horizon is None else horizon,
    )

"""`from_log`: logged bandit data as a world, with missing rewards filled in by nearest-neighbour matching.

A log has the reward of one arm per user. For every other arm, `from_log` uses the reward of the user with
that arm whose context is nearest, so that any policy can be run. Mean rewards near a context are right as far
as the log is dense. The joint distribution of a user's rewards under several arms is made up.
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
    """Create a table with a reward for every arm from a log with one arm per row.

    Args:
        frame: Table of contexts that `Schema.encode` can read.
        schema: Public columns of the contexts.
        actions: Codes of the logged arms, random given the columns, shape (N,).
        rewards: Rewards of the logged arms, shape (N,).
        arms: Labels of the arms, in the order of the codes.
        reward_range: Public bounds of rewards.
        seed: Seed of the order of rows.
        horizon: Number of rounds; all rows by default.
        name: Name of the table in reports.

    Raises:
        InvalidData: Actions or rewards do not match the contexts, or no row has some arm.
    """
    contexts, choices = schema.encode(frame, ignore_extra=True), Arms(list(arms))
    codes, paid = np.asarray(actions), np.asarray(rewards, dtype=np.float64)
    n = len(contexts)
    if codes.shape != (n,) or codes.dtype.kind not in "iu" or paid.shape != (n,):
        raise InvalidData(f"actions, rewards: expected ({n},) codes and ({n},) numbers")
    if set(np.unique(codes).tolist()) != set(range(choices.n_arms)):
        raise InvalidData(f"actions: expected each of the codes 0..{choices.n_arms - 1}, and no other")
    # the scale 1/sqrt(2) gives two categories distance 1, like the two ends of a range
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

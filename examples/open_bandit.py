"""
A log in Open Bandit Pipeline's dict
====================================

Its feedback dict is learned from under a promise; its estimators take the published policy as `action_dist`.
What they compute from the dict is a statistic of raw rewards: here, of a made-up world.
"""

import numpy as np

import dpbandits as dpb
from dpbandits.adapters import obp

world = dpb.lab.worlds.load("synthetic-income", seed=1_000_000)
feedback = obp.feedback_of(world, rounds=20_000)  # context, action, reward, pscore, ...

# Contexts of a world are encoded already: numbers in [0, 1], and codes of categories.
columns = {
    name: dpb.Categories(list(range(len(column.values)))) if hasattr(column, "values") else dpb.Range(0, 1)
    for name, column in world.schema.columns.items()
}
policy = dpb.central.ExploreThenCommit(
    contexts=dpb.Schema(**columns), arms=list(world.arms.labels), reward_range=(0, 1), horizon=20_000,
    privacy=dpb.JointDP(epsilon=4, delta=1e-6, user_ids=False),
)  # fmt: skip
obp.learn_from(policy, feedback)
published = policy.publish()

# Inverse propensity weighting, as `obp.ope` has it.
dist = obp.action_dist(published, feedback["context"])[:, :, 0]
chosen = dist[np.arange(feedback["n_rounds"]), feedback["action"]]
print("published:", round(float(np.mean(chosen * feedback["reward"] / feedback["pscore"])), 3))
print("uniform:", round(float(np.mean(feedback["reward"])), 3))
